"""countjump beside the paper's algorithms 1 and 2 as they are written: sampling and training on PoisMix, as ratios.

    python benchmarks/univariate.py --rows 100000 --threads 2

Both sides may use the same threads, and are timed in turns; times are medians over ``--repeats``. The straightforward side
takes its own best block size, and one thread where that is faster, as it is on a busy machine.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.straightforward import TIMESTEPS, Straightforward
from countjump import JumpModel
from countjump.experiments.univariate import SETS
from countjump.metrics import floor, w1

LAM, BATCH = 10.0, 1000
BLOCKS = (1000, 3000, 10_000, 30_000, 100_000)
STEPS = 20


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    what: str
    straightforward: str
    ours: str
    ratio: str

    def __str__(self) -> str:
        return f"| {self.what} | {self.straightforward} | {self.ours} | {self.ratio} |"


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def medians(*works: Callable[[], object], repeats: int) -> list[float]:
    """The median seconds of each, run in turns so that a busy machine is busy for all."""
    times = [[seconds(work) for work in works] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def best_threads(work: Callable[[], object], most: int, rounds: int = 3) -> tuple[int, float]:
    """The number of threads, one or ``most``, with which the straightforward side is faster; it keeps them. And its seconds."""
    times = {}
    for threads in sorted({1, most}):
        torch.set_num_threads(threads)
        times[threads] = min(seconds(work) for _ in range(rounds))
    best = min(times, key=lambda threads: times[threads])
    torch.set_num_threads(best)
    return best, times[best]


def best_block(model: Straightforward, rows: int, most: int) -> tuple[int, int]:
    """The block size and the threads with which the straightforward sampler is fastest, by one of its steps."""
    times = {}
    for block in sorted({min(block, rows) for block in BLOCKS}):
        threads, took = best_threads(lambda b=block: model.sample(rows, b, steps=1), most, rounds=2)
        times[took] = (block, threads)
    return times[min(times)]


def say(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def fit_seconds(x: np.ndarray, updates: int, **settings: object) -> float:
    model = JumpModel(max_updates=updates, random_state=0, progress=False, **settings)
    return seconds(lambda: model.fit(x[:, None]))


def update_seconds(x: np.ndarray, updates: int, **settings: object) -> float:
    """The seconds of one update: a fit of so many more than another, so that what happens once does not count."""
    few = max(updates // 10, 1)
    return max(fit_seconds(x, updates + few, **settings) - fit_seconds(x, few, **settings), 0.0) / updates


def training(x: np.ndarray, updates: int, repeats: int, most: int) -> list[Line]:
    """Milliseconds per update; the loss, the network and the batch are the same in the first line."""
    say("timing training")
    naive = Straightforward(torch.from_numpy(x), LAM, BATCH)
    threads, _ = best_threads(lambda: [naive.update() for _ in range(3)], most)
    same = {"process": "poisson", "belief": "poisson", "lam": LAM, "objective": "reweighted", "batch_size": BATCH}
    times: list[list[float]] = []
    for _ in range(repeats):
        torch.set_num_threads(threads)
        theirs = seconds(lambda: [naive.update() for _ in range(updates)]) / updates
        torch.set_num_threads(most)
        times.append(
            [
                theirs,
                update_seconds(x, updates, width=128, validation_fraction=0.0, **same),
                update_seconds(x, updates, validation_fraction=0.0),
            ]
        )
    theirs, ours, default = (1000 * statistics.median(column) for column in zip(*times, strict=True))
    return [
        Line(
            f"training update, same network, batch of {BATCH:,}",
            f"{theirs:.1f} ms (threads: {threads})",
            f"{ours:.1f} ms",
            f"{ratio(theirs, ours)} faster",
        ),
        Line(
            "training update, our defaults",
            f"{theirs:.1f} ms (threads: {threads})",
            f"{default:.1f} ms",
            f"{ratio(theirs, default)} faster",
        ),
    ]


def sampling(x: np.ndarray, updates: int, repeats: int, most: int) -> list[Line]:
    """Seconds for as many values as there are in ``x``, and their W1."""
    say("training both")
    rows = len(x)
    naive = Straightforward(torch.from_numpy(x), LAM, BATCH)
    best_threads(lambda: [naive.update() for _ in range(3)], most)
    naive_fit = seconds(lambda: [naive.update() for _ in range(updates)])
    torch.set_num_threads(most)
    ours = JumpModel(max_updates=updates, random_state=0, progress=False)
    ours_fit = seconds(lambda: ours.fit(x[:, None]))
    block, threads = best_block(naive, rows, most)
    samples: dict[str, np.ndarray] = {}

    def sample_naive() -> None:
        torch.set_num_threads(threads)
        samples["naive"] = naive.sample(rows, block).numpy().ravel()

    def sample_ours() -> None:
        torch.set_num_threads(most)
        samples["ours"] = ours.sample(rows, random_state=0).ravel()

    say("timing sampling")
    ours.sample(1)
    theirs, mine = medians(sample_naive, sample_ours, repeats=repeats)
    errors = [w1(x, samples[name]) for name in ("naive", "ours")]
    lowest = float(floor(lambda generator: SETS["PoisMix"](generator, rows), pairs=20).mean())
    return [
        Line(
            f"sampling {rows:,} values",
            f"{1000 * theirs:,.0f} ms ({TIMESTEPS} steps, blocks of {block:,}, threads: {threads})",
            f"{1000 * mine:,.0f} ms ({STEPS} steps, defaults)",
            f"{ratio(theirs, mine)} faster",
        ),
        Line(
            f"W1 of them (floor {lowest:.3g})",
            f"{errors[0]:.3g} ({errors[0] / lowest:.2f} × floor)",
            f"{errors[1]:.3g} ({errors[1] / lowest:.2f} × floor)",
            f"{ratio(*errors)} lower",
        ),
        Line(f"fitting, {updates:,} updates", f"{naive_fit:.1f} s", f"{ours_fit:.1f} s", ""),
    ]


def ratio(theirs: float, ours: float) -> str:
    return f"{theirs / ours:.3g} ×" if ours > 0 else "—"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Times countjump beside a straightforward implementation of the paper."
    )
    parser.add_argument("--rows", type=int, default=100_000, help="training values, and values sampled")
    parser.add_argument("--updates", type=int, default=2000, help="updates before sampling")
    parser.add_argument("--timed-updates", type=int, default=200, help="updates per timing of the trainers")
    parser.add_argument("--repeats", type=int, default=3, help="timings, of which the median is printed")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="that each side may use")
    arguments = parser.parse_args(argv)
    for name, value in vars(arguments).items():
        if value < (2 if name == "rows" else 1):
            parser.error(f"--{name.replace('_', '-')} is too small: {value}")
    x = SETS["PoisMix"](np.random.default_rng(0), arguments.rows)
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in vars(arguments).items())
    lines = training(x, arguments.timed_updates, arguments.repeats, arguments.threads)
    lines = [*sampling(x, arguments.updates, arguments.repeats, arguments.threads), *lines]
    print(f"`python benchmarks/univariate.py {options}`\n")
    print(f"PoisMix; {platform.machine()}, torch {torch.__version__}, threads: {arguments.threads}.\n")
    print("| | straightforward | countjump | ratio |", "|---|---|---|---|", *lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
