"""Wide sparse rows: memory, growth with the number of columns, and speed beside a straightforward dense implementation.

    python benchmarks/wide.py memory --rows 2000000          # 100 updates on 2,000,000 × 30,000 with 50 non-zeros a row
    python benchmarks/wide.py growth                          # the default: time and memory per update, 5,000 to 500,000 columns
    python benchmarks/wide.py zeros --data DIR                # what the sample of the softmax's columns costs in variance
    python benchmarks/wide.py speed --data DIR                # 20 Newsgroups, beside algorithms 1 and 2 as they are written

Every measurement of memory is made in a process of its own. Both sides of a ratio may use the same threads, and are timed in turns.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.straightforward import TIMESTEPS, WideStraightforward
from benchmarks.univariate import Line, best_threads, medians, ratio, say, seconds
from countjump import JumpModel, fitting
from countjump.data import load, read_matrix, write_matrix
from countjump.metrics import half_splits, row_sparsity, row_totals, two_sample_auc, w1
from countjump.training import run

NONZEROS = 50
COLUMNS = 30_000
GROWTH = (5_000, 50_000, 500_000)
BLOCKS = (128, 512, 2000)
BATCH = 128


def documents(rows: int, columns: int, seed: int = 0) -> sp.csr_matrix:
    """Rows of 50 different columns each, the frequent ones first, with small counts; made a piece at a time.

    The first rows go through the columns once, so that none is empty, if there are rows enough.
    """
    generator = np.random.default_rng(seed)
    indices = np.empty(rows * NONZEROS, dtype=np.int32)
    stretch = columns // NONZEROS
    for start in range(0, rows, 100_000):
        some = min(100_000, rows - start)
        # One column out of each of 50 stretches: different columns in ascending order.
        place = (stretch * generator.beta(1, 3, size=(some, NONZEROS))).astype(np.int32)
        early = np.arange(start, start + some)[: max(stretch - start, 0)]
        place[: len(early)] = early[:, None]
        piece = place + stretch * np.arange(NONZEROS, dtype=np.int32)
        indices[start * NONZEROS : (start + some) * NONZEROS] = piece.ravel()
    data = generator.geometric(0.6, rows * NONZEROS).astype(np.int32)
    return sp.csr_matrix((data, indices, np.arange(0, len(data) + 1, NONZEROS)), shape=(rows, columns))


def fit(X: sp.csr_matrix, updates: int, held_out: float = 0.0) -> float:
    """Seconds of a fit of so many updates."""
    model = JumpModel(
        max_updates=updates, width=128, batch_size=BATCH, random_state=0, progress=False, validation_fraction=held_out
    )
    return seconds(lambda: model.fit(X))


def per_update(X: sp.csr_matrix, updates: int, held_out: float = 0.0) -> dict[str, float]:
    """Seconds of an update of every stage of a fit, by its name: the "totals" (at most 2,500 updates), the "network", where rows
    are held out the "calibration" (at most 500), and the "strengths" (at most 200). What a stage begins with is not timed."""
    took = {}

    def timed(module: Any, stages: Sequence[Any], settings: Any) -> dict[str, Any]:
        histories: dict[str, Any] = {}
        for stage in stages:
            if stage.start is not None:
                stage.start()
            start = time.perf_counter()
            histories |= run(module, [replace(stage, start=None)], settings)
            took[stage.name] = (time.perf_counter() - start) / max(stage.updates, 1)
        return histories

    with patch.object(fitting, "run", timed):
        fit(X, updates, held_out)
    return took


def peak() -> float:
    """GiB that this process has had resident at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def alone(*words: str) -> str:
    """What a measurement prints, made in a process of its own."""
    command = [sys.executable, __file__, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout.strip()


def memory(rows: int, updates: int) -> None:
    """100 updates on a matrix in memory, and on the same one on disk."""
    say(f"making {rows:,} rows")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.csr"
        write_matrix(path, documents(rows, COLUMNS))
        print(f"{rows:,} × {COLUMNS:,}, {NONZEROS} non-zeros a row; dense: {rows * COLUMNS * 4 / 1e9:,.0f} GB\n")
        print("| matrix | seconds of the fit | peak resident GiB |", "|---|---|---|", sep="\n")
        for where in ("memory", "disk"):
            print(f"| {where} | {alone('one', str(path), str(updates), where)} |", flush=True)


def one(path: str, updates: int, where: str) -> None:
    """The child of :func:`memory`."""
    X = read_matrix(path)
    if where == "memory":
        X = sp.csr_matrix((np.array(X.data), np.array(X.indices), np.array(X.indptr)), shape=X.shape)
    print(f"{fit(X, updates):.1f} | {peak():.2f}")


def growth(updates: int) -> None:
    """Milliseconds and memory of an update against the number of columns."""
    print(
        "| columns | ms per update | of the calibration | peak resident GiB | parameters |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    for columns in GROWTH:
        print(f"| {columns:,} | {alone('columns', str(columns), str(updates))} |", flush=True)


def columns_(columns: int, updates: int, rows: int) -> None:
    """The child of :func:`growth`."""
    X = documents(rows, columns)
    fit(X, 2)
    network = per_update(X, updates)["network"]
    calibration = per_update(X, 10, held_out=0.02)["calibration"]
    model = JumpModel(max_updates=1, width=128, random_state=0, progress=False, validation_fraction=0.0).fit(X)
    parameters = sum(weight.numel() for weight in model.denoiser_.parameters())
    print(f"{1000 * network:.0f} | {1000 * calibration:.0f} | {peak():.2f} | {parameters:,}")


def speed(data: Path | None, updates: int, rows: int, repeats: int, timed: int, most: int) -> list[Line]:
    """An update and ``rows`` documents of 20 Newsgroups, and how well each fits after as many updates."""
    X = load("20news-bow", data).x
    naive = WideStraightforward(X, lam=10.0, batch=BATCH)
    threads, _ = best_threads(lambda: [naive.update() for _ in range(2)], most)
    say("timing updates")

    def mine() -> tuple[float, float]:
        torch.set_num_threads(most)
        took = per_update(X, timed)
        return took["network"], took["totals"]

    def theirs() -> float:
        torch.set_num_threads(threads)
        return seconds(lambda: [naive.update() for _ in range(timed)]) / timed

    mine()
    took = [(theirs(), *mine()) for _ in range(repeats)]
    naive_ms, mine_ms, totals_ms = (1000 * float(np.median(column)) for column in zip(*took, strict=True))
    say("training both")
    torch.set_num_threads(threads)
    naive_fit = seconds(lambda: [naive.update() for _ in range(updates)])
    torch.set_num_threads(most)
    model = JumpModel(max_updates=updates, batch_size=BATCH, random_state=0, progress=False)
    mine_fit = seconds(lambda: model.fit(X))
    say("timing sampling")
    block = min(
        BLOCKS,
        key=lambda b: min(seconds(lambda: naive.sample(min(b, rows), b, steps=2)) for _ in range(3)) / min(b, rows),
    )
    got = {}
    sampled = medians(
        lambda: got.update(naive=naive.sample(rows, block)),
        lambda: got.update(mine=model.sample(rows, random_state=0)),
        repeats=1,
    )
    real, _ = half_splits(X.shape[0], 1)[0]
    real = X[real[:rows]]
    lines = [
        Line(
            f"training update, width 128, batch {BATCH}",
            f"{naive_ms:.0f} ms (threads: {threads})",
            f"{mine_ms:.0f} ms",
            f"{ratio(naive_ms, mine_ms)} faster",
        ),
        Line("beforehand, the totals: an update of at most 2,500", "", f"{totals_ms:.0f} ms", ""),
        Line(
            f"sampling {rows:,} documents",
            f"{sampled[0]:.1f} s ({TIMESTEPS} steps, blocks of {block})",
            f"{sampled[1]:.1f} s (20 steps)",
            f"{ratio(*sampled)} faster",
        ),
        Line(f"fitting, {updates:,} updates", f"{naive_fit:.0f} s", f"{mine_fit:.0f} s", ""),
    ]
    for what, measure in {
        "W1 of sparsity (‰)": lambda Y: 1000 * w1(row_sparsity(real), row_sparsity(Y)),
        "W1 of length": lambda Y: w1(row_totals(real), row_totals(Y)),
        "two-sample AUC": lambda Y: two_sample_auc(real, Y),
    }.items():
        a, b = measure(got["naive"]), measure(got["mine"])
        lines.append(Line(what, f"{a:.3g}", f"{b:.3g}", ""))
    return lines


def zeros(data: Path | None, updates: int) -> None:
    """How well a row's softmax is normalised in training: the relative standard deviation of the sum under the logarithm.

    The columns of the batch are certain; another is included with probability q_d, and stands for 1/q_d. The sum then has the
    right mean, and the relative variance Σ p_d² (1 − q_d)/q_d over the columns that are not certain, p being the softmax.
    """
    X = load("20news-bow", data).x
    model = JumpModel(max_updates=updates, random_state=0, progress=False).fit(X)
    process, inclusion = model.process_, model.block_.inclusion.double()
    x = model.block_.read(X[:BATCH])
    certain = torch.zeros_like(inclusion, dtype=torch.bool).index_fill_(0, x.column, True)
    print("| α_t | certain | sampled, of the others | median over rows | largest |", "|---|---|---|---|---|", sep="\n")
    for alpha in (0.01, 0.1, 0.5):
        t = torch.tensor([process.schedule.time(alpha)], dtype=torch.float64)
        z = process.marginal(x, t[None]).sample(torch.Generator().manual_seed(0))
        with torch.no_grad():
            shares = model.denoiser_(z, t).missing.shares
            p2 = torch.addmm(shares.bias, shares.query, shares.table.t()).double().softmax(-1) ** 2
        for factor in (0.25, 1, 4):
            q = (factor * inclusion).clamp(max=1)
            spread = (p2 * torch.where(certain, 0.0, (1 - q) / q)).sum(-1).sqrt()
            sampled, others = float(q[~certain].sum()), int((~certain).sum())
            median, largest = float(spread.median()), float(spread.max())
            print(
                f"| {alpha} | {int(certain.sum()):,} | {sampled:,.0f} of {others:,} | {median:.3f} | {largest:.3f} |",
                flush=True,
            )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Wide sparse rows: memory, growth and speed.")
    commands = parser.add_subparsers(dest="what", required=True)
    command = commands.add_parser("memory")
    command.add_argument("--rows", type=int, default=2_000_000)
    command.add_argument("--updates", type=int, default=100)
    command = commands.add_parser("growth")
    command.add_argument("--updates", type=int, default=50)
    command = commands.add_parser("speed")
    command.add_argument("--data", type=Path, default=None)
    command.add_argument("--updates", type=int, default=1000)
    command.add_argument("--timed-updates", type=int, default=200)
    command.add_argument("--rows", type=int, default=2000)
    command.add_argument("--repeats", type=int, default=3)
    command.add_argument("--threads", type=int, default=torch.get_num_threads())
    command = commands.add_parser("zeros")
    command.add_argument("--data", type=Path, default=None)
    command.add_argument("--updates", type=int, default=500)
    command = commands.add_parser("one")
    command.add_argument("path")
    command.add_argument("updates", type=int)
    command.add_argument("where", choices=("memory", "disk"))
    command = commands.add_parser("columns")
    command.add_argument("columns", type=int)
    command.add_argument("updates", type=int)
    command.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args(argv or sys.argv[1:] or ["growth"])
    if given.what == "one":
        one(given.path, given.updates, given.where)
        return 0
    if given.what == "columns":
        columns_(given.columns, given.updates, given.rows)
        return 0
    options = {name: value for name, value in vars(given).items() if name not in ("what", "data")}
    words = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    print(f"`python benchmarks/wide.py {given.what} {words}`\n\n{platform.machine()}, torch {torch.__version__}.\n")
    if given.what == "memory":
        memory(given.rows, given.updates)
    elif given.what == "growth":
        growth(given.updates)
    elif given.what == "zeros":
        zeros(given.data, given.updates)
    else:
        torch.set_num_threads(given.threads)
        lines = speed(given.data, given.updates, given.rows, given.repeats, given.timed_updates, given.threads)
        print("| | straightforward | countjump | ratio |", "|---|---|---|---|", *lines, sep="\n")
    return 0


if __name__ == "__main__":
    start = time.perf_counter()
    code = main()
    print(f"({time.perf_counter() - start:.0f} s)", file=sys.stderr)
    sys.exit(code)
