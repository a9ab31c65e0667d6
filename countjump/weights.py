"""Counts behind weights: x_id = w_d n_id / size(n_i), with whole numbers n. TF-IDF, counts per million, and prices are such.

Where a matrix of reals is that, its counts are what there is to model: they, and not the reals, have the exact values that the
data has. :func:`find` looks for w and the size; :class:`Weights` goes from reals to counts and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

LEAST = 2
"""Entries for every row and column that is not empty, at least: fewer could be counts by chance."""

MOST_ENTRIES = 2**26
"""Entries of a matrix that is looked at, at most."""

_LOW = 0.3
"""Which of a row's or column's entries is taken for a count of one at first: most counts are small."""

_ROUNDS, _PATIENCE = 40, 12
_NEARLY = 0.95
_MOST_UNITS = 64
"""The smallest count of a row, at most."""

_SIZES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray | None]] = {
    "one": lambda counts, weighted: None,
    "length": lambda counts, weighted: counts,
    "l1": lambda counts, weighted: weighted,
    "l2": lambda counts, weighted: weighted**2,
}
MEANING = {
    "one": "",
    "length": ", over the row's sum of these",
    "l1": ", the row then over its sum",
    "l2": ", the row then over its Euclidean length",
}


@dataclass(frozen=True, eq=False)
class Weights:
    """x_id = gain · w_d n_id / size(n_i); ``size`` is "one", "length" (Σ n), "l1" (Σ w n) or "l2" (√Σ (w n)²).

    >>> per_hundred = Weights(np.full(3, 100.0), "length")
    >>> per_hundred.apply(sp.csr_matrix([[1, 0, 3]])).toarray()
    array([[25.,  0., 75.]])
    >>> per_hundred.counts(sp.csr_matrix([[25.0, 0.0, 75.0], [10.0, 20.0, 70.1]]))[0].toarray()[0]
    array([1., 0., 3.])
    """

    weights: np.ndarray
    size: str
    gain: float = 1.0
    tolerance: float = 1e-7
    """By how much of itself a number may miss a whole one."""

    def __post_init__(self) -> None:
        if self.size not in _SIZES:
            raise ValueError(f"size={self.size!r} is unknown: use one of {', '.join(map(repr, _SIZES))}")

    def __str__(self) -> str:
        return f"every value is its column's weight times a whole number{MEANING[self.size]}"

    def described(self) -> dict[str, Any]:
        """All but the weights themselves, as plain values."""
        return {"size": self.size, "gain": self.gain, "tolerance": self.tolerance}

    def apply(self, counts: sp.csr_matrix) -> sp.csr_matrix:
        """From counts to reals."""
        row, size = _rows(counts), self._sizes(counts)
        value = self.gain * self.weights[counts.indices] * counts.data / np.where(size > 0, size, 1.0)[row]
        return sp.csr_matrix((value, counts.indices, counts.indptr), shape=counts.shape)

    def _sizes(self, counts: sp.csr_matrix) -> np.ndarray:
        """Of every row."""
        terms = _SIZES[self.size](counts.data, self.weights[counts.indices] * counts.data)
        if terms is None:
            return np.ones(counts.shape[0])
        sums = np.bincount(_rows(counts), terms, counts.shape[0])
        return np.sqrt(sums) if self.size == "l2" else sums

    def counts(self, X: sp.csr_matrix) -> tuple[sp.csr_matrix, np.ndarray]:
        """From reals to counts, and which rows have them. Of counts that give the same reals, the smallest."""
        X = sp.csr_matrix(X, dtype=np.float64)
        row = _rows(X)
        plain = X.data / self.weights[X.indices]
        if self.size != "one":
            plain = plain / _least(row, plain, X.shape[0])[row]
            plain = plain * _multiple(row, plain, X.shape[0], self.tolerance)[row]
        counts = sp.csr_matrix((np.rint(plain), X.indices, X.indptr), shape=X.shape)
        again = self.apply(counts)
        wrong = np.abs(again.data - X.data) > 10 * self.tolerance * X.data
        return counts, np.bincount(row, wrong, minlength=X.shape[0]) == 0


def find(X: sp.csr_matrix) -> Weights | None:
    """The weights by which a matrix of non-negative reals is made of counts, if it is.

    >>> counts = sp.csr_matrix(np.random.default_rng(0).poisson(0.8, size=(40, 8)))
    >>> hidden = Weights(np.array([0.3, 1.7, 2.0, 0.1, 5.0, 0.9, 1.1, 3.3]), "l2")
    >>> find(hidden.apply(counts)).size
    'l2'
    """
    if not 0 < X.nnz <= MOST_ENTRIES:
        return None
    tolerance = 1e-7 if X.dtype == np.float64 else 2e-5
    X = sp.csr_matrix(X, dtype=np.float64)
    if (X.data == 0).any():
        X = X.copy()
        X.eliminate_zeros()
    row, column = _rows(X), X.indices
    if X.nnz < LEAST * (len(np.unique(row)) + len(np.unique(column))):
        return None
    found = _rank_one(row, column, np.log(X.data), X.shape, tolerance)
    if found is None:
        return None
    log_weight, log_unit = found
    weights, filled = np.exp(log_weight), np.diff(X.indptr) > 0
    whole = np.rint(np.exp(np.log(X.data) - log_weight[column] - log_unit[row]))
    counts = sp.csr_matrix((whole, column, X.indptr), X.shape)
    for size in _SIZES:
        candidate = Weights(weights, size, 1.0, tolerance)
        # What is common to all rows is the gain; rows whose counts have a common factor may differ from it.
        gain = float(np.median((np.exp(log_unit) * candidate._sizes(counts))[filled]))
        if size in ("l1", "l2"):
            candidate = replace(candidate, gain=gain)
        elif size == "one":
            candidate = replace(candidate, weights=weights * gain)
        else:
            candidate = replace(candidate, weights=_with_multiples(X, weights * gain, tolerance))
        if candidate.counts(X)[1].all():
            return candidate
    return None


def _rank_one(
    row: np.ndarray, column: np.ndarray, log_x: np.ndarray, shape: tuple[int, int], tolerance: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """ln w_d and ln u_i for which x_id/(w_d u_i) are whole numbers, if there are such.

    Perhaps w is the same everywhere. If not, a count of one is common: ln w_d is a low quantile of ln x − ln u over the column,
    and ln u_i one of ln x − ln w over the row, turn about; what then is a fraction is made whole.
    """
    weight, unit = np.zeros(shape[1]), np.log(_least(row, np.exp(log_x), shape[0]))

    def plain() -> np.ndarray:
        return np.exp(log_x - weight[column] - unit[row])

    def share_of_whole() -> float:
        return float((_miss(plain()) <= 10 * tolerance).mean())

    unit -= np.log(_multiple(row, plain(), shape[0], tolerance))
    if share_of_whole() == 1:
        return weight, unit
    unit = np.zeros(shape[0])
    for attempt in range(_ROUNDS):
        before = weight
        weight = _quantile(column, log_x - unit[row], shape[1])
        unit = _quantile(row, log_x - weight[column], shape[0])
        settled = np.abs(weight - before).max() <= tolerance
        if (settled or attempt >= _PATIENCE) and share_of_whole() < 0.5:
            return None
        if settled:
            break
    for _ in range(_PATIENCE):
        # A row that is whole nearly everywhere has the right unit, and tells the weights of its columns; and the other way round.
        right = _mostly(row, _miss(plain()) <= 10 * tolerance, shape[0])
        weight[np.unique(column[right])] = 0.0
        weight += _quantile(column[right], (log_x - unit[row])[right], shape[1])
        weight -= np.log(_multiple(column[right], plain()[right], shape[1], tolerance))
        right = _mostly(column, _miss(plain()) <= 10 * tolerance, shape[1])
        unit[np.unique(row[right])] = 0.0
        unit += _quantile(row[right], (log_x - weight[column])[right], shape[0])
        unit -= np.log(_multiple(row[right], plain()[right], shape[0], tolerance))
        if not 0 < share_of_whole() < 1:
            break
    if share_of_whole() < 1:
        return None
    several = np.flatnonzero((np.bincount(row, minlength=shape[0]) > 1)[row])  # a row of one entry fits any weight
    several = several[np.argsort(column[several], kind="stable")]
    filled, first = np.unique(column[several], return_index=True)
    weight[filled] += (
        np.log(np.gcd.reduceat(np.rint(plain()).astype(np.int64)[several], first)) if len(several) else 0.0
    )
    return weight, unit


def _with_multiples(X: sp.csr_matrix, weights: np.ndarray, tolerance: float) -> np.ndarray:
    """Weights by which every row of x/w adds up to one, where some columns' weights are off by a whole factor.

    Such a column lacks something, or has too much, in all of its rows; where it is the only such one in a row, what is lacking
    tells the factor.
    """
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


def _multiple(group: np.ndarray, value: np.ndarray, groups: int, tolerance: float) -> np.ndarray:
    """The smallest whole number of at most 64 by which the values of a group become whole; 1 where there is none."""
    found = np.zeros(groups)
    for multiple in range(1, _MOST_UNITS + 1):
        wrong = np.bincount(group, _miss(multiple * value) > 10 * tolerance, minlength=groups)
        found[(found == 0) & (wrong == 0)] = multiple
        unsettled = (found == 0)[group]
        if not unsettled.any():
            break
        group, value = group[unsettled], value[unsettled]
    return np.maximum(found, 1)


def _miss(value: np.ndarray) -> np.ndarray:
    """By how much of themselves numbers miss whole ones."""
    whole = np.maximum(np.rint(value), 1)
    return np.abs(value / whole - 1)


def _rows(x: sp.csr_matrix) -> np.ndarray:
    """The row of every entry."""
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
