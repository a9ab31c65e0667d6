"""Single columns made of counts: x = offset + step · n.

A year is 1990 and some years; a temperature below zero is so much above the lowest one; a price in steps of 0.05 is a count of
these.
:func:`find_step` and :func:`find_offset` look for them; :class:`Coding` goes from a table to counts (or reals from 0) and back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

MOST_DECIMALS = 8
"""Digits behind the point with which a number may be written; with more it is a real."""

LEAST_MULTIPLES = 10
"""Values, besides the smallest, that are all multiples of some number before that is more than chance (one in 2^10)."""

MOST_CELLS = 1000
"""Steps from the smallest to the largest value, up to which a column of fractions is one of steps."""


@dataclass(frozen=True)
class Offset:
    """x = value + n: ``transform={"year": Offset(1990)}``.

    >>> Offset(1990)
    Offset(value=1990)
    """

    value: float

    def __post_init__(self) -> None:
        if not _is_number(self.value) or not math.isfinite(self.value):
            raise ValueError(f"Offset needs a finite number, got {self.value!r}")


@dataclass(frozen=True)
class Step:
    """x = size · n, with whole n: ``transform={"price": Step(0.05)}``; with an offset, ``(Offset(10), Step(0.05))``.

    >>> Step(0.05)
    Step(size=0.05)
    """

    size: float

    def __post_init__(self) -> None:
        if not _is_number(self.size) or not (math.isfinite(self.size) and self.size > 0):
            raise ValueError(f"Step needs a positive number, got {self.size!r}")


@dataclass(frozen=True, eq=False)
class Coding:
    """x = offset + step · n, column by column; n is whole where ``whole`` says so. ``decimals`` are those of x, −1 for any number.

    A value that an inferred coding cannot have made (``escape`` > 0) has an escape mass in the score: with half of it, it lies
    beside the grid, anywhere in the cell of the nearest n; with the other half below the offset, mirrored. A declared one forbids
    both.

    >>> coding = Coding.of([1990.0], [0.5], [True])
    >>> coding.code(np.array([[1991.5]])), coding.decode(np.array([[3.0]]))
    (array([[3.]]), array([[1991.5]]))
    """

    offset: np.ndarray
    step: np.ndarray
    whole: np.ndarray
    decimals: np.ndarray
    escape: np.ndarray

    @classmethod
    def of(cls, offset: list[float], step: list[float], whole: list[bool], escape: float = 0.0) -> Coding:
        """With the decimals that offsets and steps have."""
        decimals = [
            max(decimals_of(np.array([a])), decimals_of(np.array([b]))) for a, b in zip(offset, step, strict=True)
        ]
        places = np.where(whole, decimals, -1)
        offsets, steps = np.array(offset, dtype=np.float64), np.array(step, dtype=np.float64)
        return cls(offsets, steps, np.array(whole, dtype=bool), places, np.full(len(offset), escape))

    def __getitem__(self, columns: np.ndarray) -> Coding:
        return Coding(*(array[columns] for array in vars(self).values()))

    @property
    def is_trivial(self) -> bool:
        """Whether data and n are the same."""
        return bool((self.offset == 0).all() and (self.step == 1).all())

    def code(self, x: np.ndarray) -> np.ndarray:
        """From data (B, D) to n."""
        n = (x - self.offset) / self.step
        return np.where(self.whole, np.rint(n), n)

    def decode(self, n: np.ndarray) -> np.ndarray:
        """From n back to data, each number the nearest one to its decimals."""
        x = self.offset + self.step * n
        for places in np.unique(self.decimals[self.decimals >= 0]):
            columns = self.decimals == places
            x[:, columns] = np.round(x[:, columns], int(places))
        return x

    def admit(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """n that can be, and ln of the escape mass (B,) by which these become the rows."""
        n = (x - self.offset) / self.step
        nearest = np.where(self.whole, np.rint(n), n)
        beside = self.whole & (np.abs(n - nearest) > 1e-6 * np.maximum(np.abs(n), 1))
        below = nearest < 0
        with np.errstate(divide="ignore"):
            half = np.log(self.escape / 2)
            stays = np.log1p(-self.escape / 2)
            mass = np.where(beside, half - np.log(self.step), np.where(self.whole, stays, 0.0))
            mass = mass + np.where(below, half, stays)
        # Reals are densities of x, not of n.
        mass = mass - np.where(self.whole, 0.0, np.log(self.step))
        return np.where(below, -nearest - self.whole, nearest), mass.sum(1)

    def described(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {name: np.asarray(array) for name, array in vars(self).items()}

    @classmethod
    def recall(cls, arrays: dict[str, np.ndarray], columns: int) -> Coding:
        """Back from :meth:`described`; what is no coding of so many columns is an error."""
        coding = cls(**arrays)
        if any(array.shape != (columns,) for array in vars(coding).values()) or not (coding.step > 0).all():
            raise ValueError(f"no coding of {columns} columns")
        if (coding.decimals > MOST_DECIMALS).any() or not ((coding.escape >= 0) & (coding.escape < 1)).all():
            raise ValueError("decimals or escape mass of a coding beyond their limits")
        return coding


def decimals_of(values: np.ndarray) -> int:
    """How many digits behind the point numbers are written with; −1 if more than :data:`MOST_DECIMALS`.

    >>> decimals_of(np.array([0.25, 3.0])), decimals_of(np.array([np.pi]))
    (2, -1)
    """
    spacing = np.spacing(np.abs(values)).max(initial=0.0)
    for places in range(MOST_DECIMALS + 1):
        rounded = np.round(values, places)
        if np.abs(values - rounded).max(initial=0.0) <= spacing and (values[rounded == 0] == 0).all():
            return places if places == 0 or 10.0**-places > 64 * spacing else -1
    return -1


def find_step(values: np.ndarray) -> float | None:
    """The largest number of which the differences of all values are multiples, if there is one that tells something.

    It tells something if the column has at most a thousand steps from end to end; whole numbers are steps of one, at least. That a
    few values have a common divisor is chance: theirs is the last digit with which they are written.

    >>> find_step(0.1 + 0.2 * np.arange(12)), find_step(5.0 * np.arange(3, 15)), find_step(np.array([0.1, 0.3, 0.7]))
    (0.2, 5.0, 0.1)
    """
    distinct = np.unique(values)
    places = decimals_of(distinct)
    if places < 0 or len(distinct) < 2:
        return None
    units = np.rint((distinct - distinct[0]) * 10.0**places)
    if units[-1] > 2**53:
        return None
    common = int(np.gcd.reduce(units.astype(np.int64))) if (values > distinct[0]).sum() >= LEAST_MULTIPLES else 1
    cells = units[-1] / common
    if cells > MOST_CELLS and places > 0:
        return None
    return float(np.round(common / 10.0**places, places))


def find_offset(values: np.ndarray, step: float | None) -> float:
    """Where a column begins, if that is not at zero.

    It is not if a value is negative, if the values spread less than counts of their size would (their variance, in steps, is below
    half their mean, and by more than chance), or if they begin as if at a wall.
    """
    low, size = float(values.min()), step or 1.0
    if step is None:
        spread = float(values.max()) - low
        if low >= 0 and low <= spread:
            return 0.0
        # A little below the smallest value, which is no atom.
        room = spread / (len(values) + 1)
        digits = 1 - math.floor(math.log10(room)) if room > 0 else 0
        return math.floor((low - room) * 10.0**digits) / 10.0**digits
    n = values / size
    wall = low > 0 and begins_at_wall(np.rint((values - low) / size), len(values))
    if low < 0 or wall or n.var() < min(0.5, _least_dispersion(len(n))) * n.mean():
        return low
    return 0.0 if _is_multiple(low, size) else math.fmod(low, size)


def begins_at_wall(n: np.ndarray, rows: int) -> bool:
    """Whether counts begin at 0 as if at a wall: it has so many rows that, at the rate at which they rise, more would lie below.

    At that rate at²/after rows would, which is twice as many as a Poisson law has there. So with 15 of them one Poisson column in
    a thousand that could have begun one lower is taken for one with a wall.
    """
    at, after = int((n == 0).sum()), int((n == 1).sum())
    return at >= max(5, 0.01 * rows) and at * at >= 15 * after


def _least_dispersion(rows: int) -> float:
    """The variance over the mean that one sample of Poisson counts in a thousand has (Wilson and Hilferty's chi-square)."""
    part = 2 / (9 * max(rows - 1, 1))
    return max(1 - part - 3 * math.sqrt(part), 0.0) ** 3


def _is_multiple(value: float, size: float) -> bool:
    return abs(value / size - round(value / size)) < 1e-9 * max(abs(value / size), 1)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
