"""The paper's sampler with a perfect network, on the nine univariate sets: what of the error of ``jump-paper`` is the sampler's.

    python benchmarks/oracle.py --rows 100000 --runs 3

The network is replaced by E[x_0 given z_t], computed from the training values themselves. Schedule, λ, 100 Poisson steps and
decoding are those of ``countjump reproduce univariate --methods jump-paper``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from countjump import LinearBeta, NonNegative
from countjump.blocks import Belief, PoissonBlock
from countjump.experiments.runner import recipe
from countjump.experiments.univariate import SETS
from countjump.laws import Poisson, Product, Streams
from countjump.metrics import floor, w1
from countjump.processes import Jump
from countjump.sampling import sample_rows, seeded

STEPS, BLOCK = 100, 20_000
GROUPS = 2000
"""Values that stand for all: means of groups, of one value each in the tail."""


def representatives(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and how many each stands for; distinct counts stand for themselves."""
    values, count = np.unique(x, return_counts=True)
    if len(values) <= GROUPS:
        return values.astype(float), count
    tail = GROUPS // 2
    body = np.array_split(values[:-tail], tail)
    grouped = np.array([group.mean() for group in body])
    return np.concatenate([grouped, values[-tail:]]), np.array([len(g) for g in body] + [1] * tail)


class PosteriorMean:
    """The paper's belief with the exact f(z, t) = E[x_0 given z_t], of the values given."""

    def __init__(self, x: np.ndarray, lam: float, schedule: LinearBeta) -> None:
        values, count = representatives(x)
        self.x, self.log_count = torch.from_numpy(values), torch.from_numpy(np.log(count))
        self.lam, self.schedule = lam, schedule

    def __call__(self, z: torch.Tensor, t: torch.Tensor, condition: torch.Tensor | None = None) -> Belief:
        """z of one column at one common time."""
        alpha = self.schedule.alpha(t)[0]
        rate = self.lam * alpha * self.x
        log_p = torch.where(z > 0, z * rate.log(), 0.0) - rate + self.log_count
        f = (log_p.softmax(-1) * self.x).sum(-1, keepdim=True)
        return Belief(Product(Poisson(self.lam * (1 - alpha) * f)))


def sample(x: np.ndarray, lam: float, discrete: bool, seed: int) -> np.ndarray:
    schedule = LinearBeta.solve(lam * float(x.mean()), timesteps=STEPS)
    mean = torch.tensor([float(x.mean())], dtype=torch.float64)
    process = Jump(PoissonBlock(NonNegative(), mean, torch.ones_like(mean), torch.full_like(mean, lam)), schedule)
    denoise = PosteriorMean(x, lam, schedule)
    blocks = [
        sample_rows(process, denoise, process.grid(STEPS), Streams([seeded("cpu", seed, block)], BLOCK))
        for block in range(-(-len(x) // BLOCK))
    ]
    y = torch.cat(blocks)[: len(x), 0].numpy()
    return np.rint(y) if discrete else y


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The paper's sampler with a perfect network.")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args(argv)
    print(f"`python benchmarks/oracle.py --rows {given.rows} --runs {given.runs}`\n")
    print("| set | floor | perfect network, 100 steps | paper: jump |", "|---|---|---|---|", sep="\n")
    for name, about in recipe("univariate")["sets"].items():
        unit = 100 if name in ("Uniform", "Beta05", "Beta2") else 1
        found = []
        for run in range(given.runs):
            seed = 1000 * list(SETS).index(name) + run
            x = SETS[name](np.random.default_rng([seed, 0]), given.rows)
            found.append(w1(x, sample(x, float(about["lam"]), about["counts"], seed)))
        lowest = floor(lambda g, name=name: SETS[name](g, given.rows), 20).mean()
        mean, spread = unit * np.mean(found), unit * np.std(found)
        paper = " ± ".join(f"{unit * number:.3g}" for number in about["paper"]["jump"])
        print(
            f"| {name}{' (×100)' if unit > 1 else ''} | {unit * lowest:.3g} | {mean:.3g} ± {spread:.2g} | {paper} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
