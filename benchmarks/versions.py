"""Two versions of countjump beside each other: what an update, a sample, a score and memory cost, as ratios.

    git worktree add ../before REVISION
    python benchmarks/versions.py ../before . --data DIR --turns 11

Each turn runs both versions one after the other, each in a process of its own with one thread. Times are processor time, which a
busy machine changes little; the table has the medians over the turns. An update is a 200th of what 200 more of them add to a fit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FEW, MANY = 600, 800
"""Updates of the two fits whose difference is timed: so many that what is done once, such as a calibration, is done in both."""


def worker(kind: str, data: str) -> None:
    """Measure the version that is imported; one line of JSON."""
    import numpy as np
    import torch

    from countjump import JumpModel
    from countjump.data import load

    torch.set_num_threads(1)
    if kind == "one column":
        rng = np.random.default_rng(0)
        X = rng.poisson(np.where(rng.random((100_000, 1)) < 0.9, 1, 100))
        rows, scored = 100_000, 1000
    else:
        X, rows, scored = load("20news-bow", Path(data)).x, 1024, 100
    found = {}

    def timed(name: str, work: Callable[[], object]) -> None:
        start = time.process_time()
        work()
        found[name] = time.process_time() - start

    options = {"random_state": 0, "progress": False}
    few, many = (JumpModel(max_updates=n, **options) for n in (FEW, MANY))
    JumpModel(max_updates=10, **options).fit(X[:1000])  # what is done once is done
    timed("few", lambda: few.fit(X))
    timed("many", lambda: many.fit(X))
    found["an update (ms)"] = 1000 * (found.pop("many") - found.pop("few")) / (MANY - FEW)
    many.sample(1, random_state=1)
    timed(f"sampling {rows:,} rows (s)", lambda: many.sample(rows, random_state=0))
    timed("sampling 1 row (s)", lambda: many.sample(1, random_state=0))
    timed(f"scoring {scored} rows (s)", lambda: many.score_samples(X[:scored], steps=20))
    found["memory (GiB)"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps(found))


def measure(version: str, kind: str, data: str) -> dict[str, float]:
    """What a version's own process finds."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = os.environ | one_thread | {"PYTHONPATH": str(Path(version).resolve())}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", kind, "--data", data]
    done = subprocess.run(command, env=environment, cwd=version, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="DIR", help="the two source trees: before, now")
    parser.add_argument("--data", default=os.environ.get("COUNTJUMP_DATA", ""), help="where 20 Newsgroups is")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.data)
        return
    if not arguments.versions:
        print("benchmarks/versions.py compares two source trees: give them (see --help)")
        return
    if len(arguments.versions) != 2:
        parser.error("give two source trees: before, now")
    kinds = ["one column", *(["20 Newsgroups"] if arguments.data else [])]
    print(f"`python benchmarks/versions.py BEFORE NOW --data DIR --turns {arguments.turns}`\n")
    print(f"{platform.machine()}, one thread, processor time.\n")
    print("| | before | now | now / before |\n|---|---|---|---|")
    for kind in kinds:
        turns = [
            [measure(version, kind, arguments.data) for version in arguments.versions] for _ in range(arguments.turns)
        ]
        for name in turns[0][0]:
            before, now = (statistics.median(turn[side][name] for turn in turns) for side in (0, 1))
            ratio = statistics.median(turn[1][name] / turn[0][name] for turn in turns)
            print(f"| {kind}: {name} | {before:.3g} | {now:.3g} | {ratio:.2f} × |", flush=True)


if __name__ == "__main__":
    main()
