"""Counts behind weights: x_id = w_d n_id / size(n_i), with whole n, most of them one. TF-IDF and counts per million are such.

Where a matrix of reals is that, its counts are what there is to model: they, and not the reals, have the exact values that the
data has. :func:`find` looks for w and the size; :class:`Scaling` goes from reals to counts and back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

LEAST = 2
"""Entries for every row and column that is not empty, at least: fewer could be counts by chance."""

MOST_ENTRIES, FIRST_ENTRIES = 2**26, 2**19
"""Entries of a matrix that is looked at, at most, and of those of its rows that are looked at first."""

_EXACT = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 4e-7}
"""By how much of itself a number may miss a whole one, after one step of arithmetic."""

_LOW = 0.3
"""Which of a row's or column's entries is taken for a count of one at first: most counts are small."""

_ROUNDS, _PATIENCE = 40, 12
_HALF, _NEARLY = 0.5, 0.95
_FEW_UNITS, _MOST_UNITS = 16, 4096
"""The smallest count of a column, and of a row, at most."""

_SIZES: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray | None], str]] = {
    "one": (lambda counts, weighted: None, ""),
    "length": (lambda counts, weighted: counts, ", over the row's sum of these"),
    "l1": (lambda counts, weighted: weighted, ", the row then over its sum"),
    "l2": (lambda counts, weighted: weighted**2, ", the row then over its Euclidean length"),
}
"""What is summed up over a row, and the meaning in words."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """x_id = gain · w_d n_id / size(n_i); ``size`` is "one", "length" (Σ n), "l1" (Σ w n) or "l2" (√Σ (w n)²).

    >>> per_hundred = Scaling(np.full(3, 100.0), "length")
    >>> per_hundred.apply(sp.csr_matrix([[1, 0, 3]])).toarray()
    array([[25.,  0., 75.]])
    >>> per_hundred.counts(sp.csr_matrix([[25.0, 0.0, 75.0], [10.0, 20.0, 70.1]]))[0].toarray()[0]
    array([1., 0., 3.])
    """

    weights: np.ndarray
    size: str
    gain: float = 1.0
    tolerance: float = _EXACT[np.dtype(np.float64)]
    rows: int = 0
    """Rows in which the form was found."""

    def __post_init__(self) -> None:
        if self.size not in _SIZES:
            raise ValueError(f"size={self.size!r} is unknown: use one of {', '.join(map(repr, _SIZES))}")

    def __str__(self) -> str:
        return f"every value is its column's weight times a whole number{_SIZES[self.size][1]}"

    def described(self) -> dict[str, Any]:
        """All but the weights themselves, as plain values."""
        return {"size": self.size, "gain": self.gain, "tolerance": self.tolerance, "rows": self.rows}

    def apply(self, counts: sp.csr_matrix) -> sp.csr_matrix:
        """From counts to reals."""
        row, size = _rows(counts), self._sizes(counts)
        value = self.gain * self.weights[counts.indices] * counts.data / np.where(size > 0, size, 1.0)[row]
        return sp.csr_matrix((value, counts.indices, counts.indptr), shape=counts.shape)

    def _sizes(self, counts: sp.csr_matrix) -> np.ndarray:
        """Of every row."""
        terms = _SIZES[self.size][0](counts.data, self.weights[counts.indices] * counts.data)
        if terms is None:
            return np.ones(counts.shape[0])
        sums = np.bincount(_rows(counts), terms, counts.shape[0])
        return np.sqrt(sums) if self.size == "l2" else sums

    def counts(self, X: sp.csr_matrix) -> tuple[sp.csr_matrix, np.ndarray]:
        """From reals to counts, and which rows have them. Of counts that give the same reals, the smallest."""
        tolerance = max(self.tolerance, _EXACT.get(X.dtype, 0.0))
        X = _plain(X)
        row = _rows(X)
        plain = X.data / self.weights[X.indices]
        if self.size != "one":
            plain = plain / _least(row, plain, X.shape[0])[row]
            plain = plain * _multiple(row, plain, X.shape[0], tolerance, _MOST_UNITS)[row]
        counts = sp.csr_matrix((np.rint(plain), X.indices, X.indptr), shape=X.shape)
        # Large counts are whole by chance.
        wrong = (np.abs(self.apply(counts).data - X.data) > 10 * tolerance * X.data) | (plain > 0.01 / tolerance)
        return counts, np.bincount(row, wrong, minlength=X.shape[0]) == 0

    def admit(self, X: sp.csr_matrix) -> tuple[sp.csr_matrix, np.ndarray]:
        """Counts of every row, and ln of the escape mass (B,) by which these become the row.

        A row that is not of the form comes by 1/(rows + 1) from counts that are near, each entry by a log-Cauchy law.
        """
        counts, known = self.counts(X)
        X = _plain(X)
        row, escape = _rows(X), 1 / (self.rows + 1)
        plain = X.data / self.weights[X.indices]
        if self.size != "one":
            plain = plain / _least(row, plain, X.shape[0])[row]
        counts.data = np.where(known[row], counts.data, np.maximum(np.rint(plain), 1.0))
        off = np.log(X.data / self.apply(counts).data)
        density = np.bincount(row, -np.log(np.pi * X.data * (1 + off**2)), X.shape[0])
        return counts, np.where(known, math.log1p(-escape), math.log(escape) + density)


def find(X: sp.csr_matrix) -> Scaling | None:
    """The weights by which a matrix of non-negative reals is made of counts, if it is.

    >>> rng = np.random.default_rng(0)
    >>> counts = sp.csr_matrix(rng.poisson(0.3, size=(200, 30)))
    >>> hidden = Scaling(rng.lognormal(size=30), "l2")
    >>> find(hidden.apply(counts)).size
    'l2'
    """
    if not 0 < X.nnz <= MOST_ENTRIES:
        return None
    tolerance = _EXACT.get(X.dtype, _EXACT[np.dtype(np.float64)])
    X = _plain(X)
    if X.nnz > FIRST_ENTRIES:
        some = _plain(X[np.random.default_rng(0).permutation(X.shape[0])[: X.shape[0] * FIRST_ENTRIES // X.nnz]])
        some = some[:, np.bincount(some.indices, minlength=X.shape[1]) > LEAST]
        if _determined(some) and not _Fit(some, tolerance).guess():
            return None
    fit = _Fit(X, tolerance)
    if not (_determined(X) and fit.guess() and fit.refine()):
        return None
    weights, filled = np.exp(fit.weight), np.diff(X.indptr) > 0
    unseen = np.bincount(X.indices, minlength=X.shape[1]) == 0
    weights[unseen] = np.median(weights[~unseen])
    counts = sp.csr_matrix((np.rint(fit.plain()), X.indices, X.indptr), X.shape)
    for size in _SIZES:
        candidate = Scaling(weights, size, 1.0, tolerance, X.shape[0])
        # What is common to all rows is the gain; rows whose counts have a common factor may differ from it.
        gain = float(np.median((np.exp(fit.unit) * candidate._sizes(counts))[filled]))
        if size in ("l1", "l2"):
            candidate = replace(candidate, gain=gain)
        else:
            scaled = weights * gain
            candidate = replace(candidate, weights=scaled if size == "one" else _with_multiples(X, scaled, tolerance))
        if candidate.counts(X)[1].all():
            return candidate
    return None


class _Fit:
    """ln w_d and ln u_i for which x_id/(w_d u_i) are whole numbers, as far as they are found."""

    def __init__(self, X: sp.csr_matrix, tolerance: float) -> None:
        self.row, self.column, self.shape, self.tolerance = _rows(X), X.indices, X.shape, tolerance
        self.log_x = np.log(X.data)
        self.weight, self.unit = np.zeros(X.shape[1]), np.log(_least(self.row, X.data, X.shape[0]))

    def plain(self) -> np.ndarray:
        """x_id/(w_d u_i)."""
        return np.exp(self.log_x - self.weight[self.column] - self.unit[self.row])

    def whole(self) -> np.ndarray:
        """Which of these are whole."""
        return _miss(self.plain()) <= 10 * self.tolerance

    def guess(self) -> bool:
        """Whether it seems that there are such.

        Perhaps w is the same everywhere. If not, a count of one is common: ln w_d is a low quantile of ln x − ln u over the
        column, and ln u_i one of ln x − ln w over the row, turn about.
        """
        rows, columns = self.shape
        self.unit -= np.log(_multiple(self.row, self.plain(), rows, self.tolerance, _FEW_UNITS))
        if self.whole().all():
            return True
        self.unit = np.zeros(rows)
        for attempt in range(_ROUNDS):
            before = self.weight
            self.weight = _quantile(self.column, self.log_x - self.unit[self.row], columns)
            self.unit = _quantile(self.row, self.log_x - self.weight[self.column], rows)
            settled = np.abs(self.weight - before).max() <= self.tolerance
            if settled or (attempt >= _PATIENCE and self.whole().mean() < _HALF):
                break
        return bool(self.whole().mean() >= _HALF)

    def refine(self) -> bool:
        """Whether what is still a fraction can be made whole.

        A row that is whole nearly everywhere has the right unit, and tells the weights of its columns; and the other way round.
        """
        rows, columns = self.shape
        for _ in range(_PATIENCE):
            if self.whole().all():
                break
            right = _mostly(self.row, self.whole(), rows)
            self.weight[np.unique(self.column[right])] = 0.0
            self.weight += _quantile(self.column[right], (self.log_x - self.unit[self.row])[right], columns)
            multiple = _multiple(self.column[right], self.plain()[right], columns, self.tolerance, _FEW_UNITS)
            self.weight -= np.log(multiple)
            right = _mostly(self.column, self.whole(), columns)
            self.unit[np.unique(self.row[right])] = 0.0
            self.unit += _quantile(self.row[right], (self.log_x - self.weight[self.column])[right], rows)
            self.unit -= np.log(_multiple(self.row[right], self.plain()[right], rows, self.tolerance, _MOST_UNITS))
        if not self.whole().all():
            return False
        # A row of one entry fits any weight.
        several = np.flatnonzero((np.bincount(self.row, minlength=rows) > 1)[self.row])
        several = several[np.argsort(self.column[several], kind="stable")]
        if len(several):
            filled, first = np.unique(self.column[several], return_index=True)
            common = np.gcd.reduceat(np.rint(self.plain()).astype(np.int64)[several], first)
            self.weight[filled] += np.log(common)
        return True


def _with_multiples(X: sp.csr_matrix, weights: np.ndarray, tolerance: float) -> np.ndarray:
    """Weights by which every row of x/w adds up to one, where some are off by a whole factor: such a column lacks something, or has
    too much, in all of its rows; where it is the only such one in a row, what is lacking tells the factor."""
    row, column = _rows(X), X.indices
    for _ in range(_PATIENCE):
        share = X.data / weights[column]
        lacking = (1 - np.bincount(row, share, X.shape[0]))[row]
        suspect = (_least(column, np.abs(lacking), X.shape[1]) > 10 * tolerance)[column]
        alone = suspect & (np.bincount(row, suspect, X.shape[0]) == 1)[row]
        if not alone.any():
            break
        factor, ratio = np.ones(X.shape[1]), np.maximum(1 + lacking[alone] / share[alone], 1 / _MOST_UNITS)
        factor[column[alone]] = np.where(ratio > 1, np.rint(ratio), 1 / np.rint(1 / np.minimum(ratio, 1)))
        weights = weights / factor
    return weights


def _quantile(group: np.ndarray, value: np.ndarray, groups: int) -> np.ndarray:
    """A low quantile of the values of every group, one of them; 0 where there is none."""
    count = np.bincount(group, minlength=groups)
    start = np.concatenate([[0], np.cumsum(count)[:-1]])
    if not len(value):
        return np.zeros(groups)
    place = np.minimum(start + (_LOW * count).astype(np.int64), len(value) - 1)
    return np.where(count > 0, value[np.lexsort((value, group))][place], 0.0)


def _mostly(group: np.ndarray, holds: np.ndarray, groups: int) -> np.ndarray:
    """Of every entry, whether it is of a group in which something holds nearly everywhere."""
    share = np.bincount(group, holds, groups) / np.maximum(np.bincount(group, minlength=groups), 1)
    return share[group] >= _NEARLY


def _least(group: np.ndarray, value: np.ndarray, groups: int) -> np.ndarray:
    """The smallest value of every group; 1 where there is none."""
    least = np.full(groups, np.inf)
    np.minimum.at(least, group, value)
    return np.where(np.isfinite(least), least, 1.0)


def _multiple(group: np.ndarray, value: np.ndarray, groups: int, tolerance: float, most: int) -> np.ndarray:
    """The smallest whole number, up to ``most``, by which the values of a group become whole; 1 where there is none."""
    found = np.zeros(groups)
    for multiple in range(1, most + 1):
        wrong = np.bincount(group, _miss(multiple * value) > 10 * tolerance, minlength=groups)
        found[(found == 0) & (wrong == 0)] = multiple
        unsettled = (found == 0)[group]
        if not unsettled.any():
            break
        group, value = group[unsettled], value[unsettled]
    return np.maximum(found, 1)


def _miss(value: np.ndarray) -> np.ndarray:
    """By how much of themselves numbers miss whole ones."""
    return np.abs(value / np.maximum(np.rint(value), 1) - 1)


def _plain(X: sp.csr_matrix) -> sp.csr_matrix:
    """In float64, without explicit zeros."""
    X = sp.csr_matrix(X, dtype=np.float64)
    if not X.data.all():
        X = X.copy()
        X.eliminate_zeros()
    return X


def _determined(X: sp.csr_matrix) -> bool:
    """Whether there is more in a matrix than a weight for every column and a unit for every row."""
    filled = np.count_nonzero(np.diff(X.indptr)) + len(np.unique(X.indices))
    return X.nnz > 0 and X.nnz >= LEAST * filled


def _rows(x: sp.csr_matrix) -> np.ndarray:
    """The row of every entry."""
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
