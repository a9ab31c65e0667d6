"""Counts behind weights: x_id = gain · w_d g(n_id) / size(n_i), with whole n. TF-IDF and counts per million are such.

Where a matrix of reals is that, its counts are what there is to model: they, and not the reals, have the exact values that the
data has. :class:`Weights` goes from reals to counts and back; :func:`countjump.transforms.find` looks for one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

MOST_UNITS = 4096
"""The smallest count of a row, at most."""

_EXACT = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-7}
"""By how much of itself a number may miss what it should be, after one step of arithmetic."""

STEPS = 10
"""Steps of arithmetic between the counts and the data, about."""

_CHANCE = 0.02
"""Where g(n) and g(n + 1) differ by less than tolerance/_CHANCE of themselves, all numbers are whole."""

LOG_STEPS = 16
"""Such steps in exp(x) − 1, about: as many as x is large."""

_LARGEST_LOG = 700.0
_MOST_COUNT, _MOST_NEAR = 2.0**53, 2.0**10
"""The largest count, and that of a row that is not of the form."""

_NORMS = {
    None: "",
    "length": ", over the row's sum of whole numbers",
    "l1": ", the row then over its sum",
    "l2": ", the row then over its Euclidean length",
}
"""What a row is divided by, in words."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Reals that are counts behind weights: x_id = gain · w_d g(n_id) / size(n_i).

    Parameters
    ----------
    weights : number or one per column
        w. A column that weighs 0 holds zeros only.
    norm : None, "length", "l1" or "l2"
        The size: 1, Σ n, Σ w g(n) or √Σ (w g(n))².
    sublinear : bool
        g(n) is 1 + ln n in place of n, as with ``sublinear_tf`` of scikit-learn.
    log1p : bool
        The data is ln(1 + x) in place of x, as is usual of single cells.
    gain : number
    tolerance : number
        By how much of itself a number may miss what it should be, after one step of arithmetic; float32 is seen.
    rows : int or None
        Rows in which the form was found; None if it is declared.

    Examples
    --------
    >>> per_hundred = Weights(100.0, norm="length")
    >>> per_hundred.apply(sp.csr_matrix([[1, 0, 3]])).toarray()
    array([[25.,  0., 75.]])
    >>> per_hundred.counts(sp.csr_matrix([[25.0, 0.0, 75.0], [10.0, 20.0, 70.1]]))[0].toarray()[0]
    array([1., 0., 3.])

    ``Weights(vectorizer.idf_, norm="l2")`` is what scikit-learn's ``TfidfVectorizer`` does, ``Weights(1e4, norm="length",
    log1p=True)`` the usual normalisation of single cells.
    """

    weights: Any
    norm: str | None = None
    sublinear: bool = False
    log1p: bool = False
    gain: float = 1.0
    tolerance: float = _EXACT[np.dtype(np.float64)]
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.norm not in _NORMS:
            raise ValueError(f"norm={self.norm!r} is unknown: use one of {', '.join(map(repr, _NORMS))}")
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim > 1 or not weights.size:
            raise ValueError(f"weights must be a number or one for each column, got an array of shape {weights.shape}")
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise ValueError("weights must be finite and not negative, and one of them positive")
        for name in ("gain", "tolerance"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)!r} must be a positive number")
        if self.sublinear and self.norm == "length":
            raise ValueError("sublinear=True goes with norm=None, 'l1' or 'l2': a length is a sum of counts")
        object.__setattr__(self, "weights", weights if weights.size > 1 else weights.reshape(()))

    def __str__(self) -> str:
        weight = "a weight" if self.weights.ndim == 0 else "its column's weight"
        whole = "1 + ln of a whole number" if self.sublinear else "a whole number"
        value = "exp(value) − 1" if self.log1p else "value"
        return f"every {value} is {weight} times {whole}{_NORMS[self.norm]}"

    def described(self) -> dict[str, Any]:
        """All but the weights themselves, as plain values."""
        return {name: value for name, value in vars(self).items() if name != "weights"}

    def apply(self, counts: sp.csr_matrix) -> sp.csr_matrix:
        """From counts to reals."""
        self._check_columns(counts)
        counts = plain(counts)
        size = self._sizes(counts)
        value = self.gain * self._weighted(counts) / np.where(size > 0, size, 1.0)[rows_of(counts)]
        return plain(
            sp.csr_matrix((np.log1p(value) if self.log1p else value, counts.indices, counts.indptr), counts.shape)
        )

    def counts(self, X: sp.csr_matrix) -> tuple[sp.csr_matrix, np.ndarray]:
        """From reals to counts, and which rows have them. Of counts that give the same reals, the smallest.

        With ``norm="length"`` the counts of columns that weigh nothing are seen by their sum alone. The first of them has it.
        """
        self._check_columns(X)
        tolerance = (LOG_STEPS if self.log1p else 1) * max(self.tolerance, exact(X.dtype))
        X = plain(X)
        row, share, rows = rows_of(X), self._shares(X), X.shape[0]
        filled = np.flatnonzero(np.diff(X.indptr))
        hidden = self.norm == "length" and not self.weights.all()
        group = row
        if hidden:  # the whole row, too, is whole
            group, share = np.concatenate([row, filled]), np.concatenate([share, np.ones(len(filled))])
        if self.norm is not None:
            with np.errstate(over="ignore"):  # what is as large is no count
                share = share / least(group, share, rows)[group]
            share = share * multiple(group, share, rows, tolerance, most_units(tolerance), self.sublinear)[group]
        right = whole(share, tolerance, self.sublinear)
        counts = sp.csr_matrix((nearest(share[: X.nnz], self.sublinear), X.indices, X.indptr), X.shape)
        size = self._sizes(counts)
        if hidden:
            beyond = np.rint(share[X.nnz :]) - size[filled]
            size[filled] += beyond
            right[X.nnz :] &= beyond >= 0
            place = filled[beyond > 0], np.full(np.count_nonzero(beyond > 0), np.argmin(self.weights))
            again = self.gain * self._weighted(counts)
            counts = sp.csr_matrix(counts + sp.csr_matrix((beyond[beyond > 0], place), X.shape))
        else:
            again = self.gain * self._weighted(counts)
        linear = self._linear(X.data)
        right[: X.nnz] &= np.abs(again / np.where(size > 0, size, 1.0)[row] - linear) <= STEPS * tolerance * linear
        return counts, np.bincount(group, ~right, minlength=rows) == 0

    def exact_counts(self, X: sp.csr_matrix) -> sp.csr_matrix:
        """The counts of a matrix that is all of this form; an error that names the first row that is not.

        >>> Weights(0.5).exact_counts(sp.csr_matrix([[1.0, 0.0], [0.0, 0.7]]))
        Traceback (most recent call last):
        ...
        ValueError: row 1 is not of the declared form: every value is a weight times a whole number
        """
        counts, known = self.counts(X)
        if not known.all():
            raise ValueError(f"row {np.flatnonzero(~known)[0]} is not of the declared form: {self}")
        return counts

    def admit(self, X: sp.csr_matrix) -> tuple[sp.csr_matrix, np.ndarray]:
        """Counts of every row, and ln of the mass (B,) by which these become the row.

        A row that is not of the form that was found comes by 1/(rows + 1) from counts that are near, each entry by a log-Cauchy
        law. One that is not of a declared form has no mass.
        """
        counts, known = self.counts(X)
        dtype, X = X.dtype, plain(X)
        row = rows_of(X)
        share = self._shares(X)
        if self.norm is not None:
            some = np.isfinite(share)
            unit, _ = mode(row[some], np.log(share[some]), X.shape[0], STEPS * exact(dtype))
            with np.errstate(over="ignore"):
                share = share / np.exp(unit)[row]
        number = np.minimum(nearest(share, self.sublinear), _MOST_NEAR)
        near = sp.csr_matrix((number, X.indices, X.indptr), X.shape)
        counts = sp.csr_matrix(
            sp.diags(known.astype(np.float64)) @ counts + sp.diags((~known).astype(np.float64)) @ near
        )
        if self.rows is None:
            return counts, np.where(known, 0.0, -math.inf)
        value = np.asarray(self.apply(counts)[row, X.indices]).ravel()
        off = np.log(X.data / np.where(value > 0, value, 1.0))
        density = np.bincount(row, -np.log(np.pi * X.data * (1 + off**2)), X.shape[0])
        escape = 1 / (self.rows + 1)
        return counts, np.where(known, math.log1p(-escape), math.log(escape) + density)

    def _check_columns(self, X: sp.csr_matrix) -> None:
        if self.weights.ndim and X.shape[1] != len(self.weights):
            raise ValueError(f"{len(self.weights)} weights for {X.shape[1]} columns: give one weight for each column")

    def _weight(self, column: np.ndarray) -> np.ndarray:
        return self.weights[column] if self.weights.ndim else np.full(len(column), float(self.weights))

    def _weighted(self, counts: sp.csr_matrix) -> np.ndarray:
        """w g(n) of every entry."""
        return self._weight(counts.indices) * term(counts.data, self.sublinear)

    def _linear(self, value: np.ndarray) -> np.ndarray:
        """Values before ln(1 + x)."""
        return np.expm1(np.minimum(value, _LARGEST_LOG)) if self.log1p else value

    def _shares(self, X: sp.csr_matrix) -> np.ndarray:
        """x/(gain w) of every entry."""
        with np.errstate(divide="ignore", over="ignore"):
            share = self._linear(X.data) / (self.gain * self._weight(X.indices))
        return np.maximum(share, np.finfo(np.float64).tiny)

    def _sizes(self, counts: sp.csr_matrix) -> np.ndarray:
        """Of every row."""
        if self.norm is None:
            return np.ones(counts.shape[0])
        terms = counts.data if self.norm == "length" else self._weighted(counts)
        sums = np.bincount(rows_of(counts), terms**2 if self.norm == "l2" else terms, counts.shape[0])
        return np.sqrt(sums) if self.norm == "l2" else sums


def exact(dtype: np.dtype) -> float:
    """By how much of itself a number of that type may miss what it should be."""
    return _EXACT.get(np.dtype(dtype), _EXACT[np.dtype(np.float64)])


def most_units(tolerance: float) -> int:
    """The smallest count of a row, at most, if two numbers are not to be whole multiples of a third by chance."""
    return min(MOST_UNITS, int(math.sqrt(0.01 / tolerance)))


def term(number: np.ndarray, sublinear: bool) -> np.ndarray:
    """g(n)."""
    return 1 + np.log(number) if sublinear else number


def nearest(value: np.ndarray, sublinear: bool) -> np.ndarray:
    """The n ≥ 1 whose g(n) is nearest."""
    with np.errstate(over="ignore"):
        return np.clip(np.rint(np.exp(value - 1) if sublinear else value), 1.0, _MOST_COUNT)


def whole(value: np.ndarray, tolerance: float, sublinear: bool) -> np.ndarray:
    """Which values are some g(n), and not by chance: large numbers always are."""
    number = nearest(value, sublinear)
    spacing = 1 / (number * term(number, sublinear)) if sublinear else 1 / number
    with np.errstate(invalid="ignore"):
        near = np.abs(value / term(number, sublinear) - 1) <= STEPS * tolerance
    return near & (spacing >= tolerance / _CHANCE)


def least(group: np.ndarray, value: np.ndarray, groups: int) -> np.ndarray:
    """The smallest value of every group; 1 where there is none."""
    smallest = np.full(groups, np.inf)
    np.minimum.at(smallest, group, value)
    return np.where(np.isfinite(smallest), smallest, 1.0)


def multiple(
    group: np.ndarray, value: np.ndarray, groups: int, tolerance: float, most: int, sublinear: bool = False
) -> np.ndarray:
    """The smallest g(m), m up to ``most``, by which the values of a group become some g(n); 1 where there is none."""
    found = np.zeros(groups)
    for m in range(1, most + 1):
        factor = float(term(np.asarray(float(m)), sublinear))
        wrong = np.bincount(group, ~whole(factor * value, tolerance, sublinear), minlength=groups)
        found[(found == 0) & (wrong == 0)] = factor
        unsettled = (found == 0)[group]
        if not unsettled.any():
            break
        group, value = group[unsettled], value[unsettled]
    return np.where(found > 0, found, 1.0)


def runs(value: np.ndarray, width: float, group: np.ndarray | None = None) -> np.ndarray:
    """Which sorted values belong together, numbered: those that follow one another at no more than a width in a group."""
    apart = np.diff(value) > width
    if group is not None:
        apart |= np.diff(group) > 0
    return np.concatenate([[0], np.cumsum(apart)])


def mode(group: np.ndarray, value: np.ndarray, groups: int, width: float) -> tuple[np.ndarray, np.ndarray]:
    """The commonest value of every group, the smallest of the commonest, and how often it comes; 0 times where there is none."""
    commonest, most = np.zeros(groups), np.zeros(groups, dtype=np.int64)
    if not len(value):
        return commonest, most
    order = np.lexsort((value, group))
    group, value = group[order], value[order]
    run = runs(value, width, group)
    times = np.bincount(run)
    middle, owner = np.bincount(run, value) / times, group[np.cumsum(times) - times]
    best = np.lexsort((middle, -times, owner))
    owners, place = np.unique(owner[best], return_index=True)
    commonest[owners], most[owners] = middle[best[place]], times[best[place]]
    return commonest, most


def plain(X: sp.csr_matrix) -> sp.csr_matrix:
    """In float64, without explicit zeros."""
    X = sp.csr_matrix(X, dtype=np.float64)
    if not X.data.all():
        X = X.copy()
        X.eliminate_zeros()
    return X


def rows_of(x: sp.csr_matrix) -> np.ndarray:
    """The row of every entry."""
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
