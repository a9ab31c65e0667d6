"""A number beside its floor: what real rows score against other real rows, and how the two compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np

from countjump.metrics.reading import Table

GOOD, FAIR, POOR = "good", "fair", "poor"
ORDER = (GOOD, FAIR, POOR)


@dataclass(frozen=True)
class Measure:
    """A line of the frame that ``evaluate`` returns."""

    part: str
    metric: str
    column: str = ""
    value: float = nan
    floor: float = nan
    floor_sd: float = nan
    real: float = nan
    synthetic: float = nan
    judgement: str = ""
    meaning: str = ""


class Parts(NamedTuple):
    """Disjoint real rows, and synthetic ones, as many of each."""

    real: Table
    other: Table
    synthetic: Table


def split(real: Table, synthetic: Table, most: int, count: int, seed: int) -> Iterator[Parts]:
    """``count`` random draws: (real, synthetic) gives a metric and (real, other) its floor, both from as many rows."""
    rows = part_size(real, synthetic, most)
    for draw in range(count):
        rng = np.random.default_rng([seed, draw])
        mine, theirs = rng.permutation(len(real))[: 2 * rows], rng.permutation(len(synthetic))[:rows]
        yield Parts(real.take(mine[:rows]), real.take(mine[rows:]), synthetic.take(theirs))


def part_size(real: Table, synthetic: Table, most: int) -> int:
    """How many rows such a part has: at most half of the real ones."""
    return min(len(real) // 2, len(synthetic), most)


def sample(table: Table, most: int, seed: int) -> Table:
    """At most so many rows, drawn at random, in their order."""
    return table if len(table) <= most else table.take(drawn(len(table), most, seed))


def drawn(rows: int, most: int, seed: int) -> np.ndarray:
    """At most so many row numbers, drawn at random, in their order."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def worst(judgements: list[str]) -> str:
    """The worst of some judgements.

    >>> worst(["good", "poor", "fair"]), worst([])
    ('poor', 'good')
    """
    return max(judgements, key=ORDER.index, default=GOOD)
