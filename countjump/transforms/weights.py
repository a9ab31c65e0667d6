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

_MOST_COUNT = 2.0**53

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
        object.__setattr__(self, "weights", weights)

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
        value = self._values(counts)
        X = sp.csr_matrix((np.log1p(value) if self.log1p else value, counts.indices, counts.indptr), counts.shape)
        return plain(X)

    def counts(self, X: sp.csr_matrix) -> tuple[sp.csr_matrix, np.ndarray]:
        """From reals to counts, and which rows have them. Of counts that give the same reals, the smallest.

        With ``norm="length"`` the counts of columns that weigh nothing are seen by their sum alone. The first of them has it.
        """
        self._check_columns(X)
        tolerance = max(self.tolerance, exact(X.dtype))
        X = plain(X)
        tolerance, linear = self._linear(X.data, tolerance)
        row, group = rows_of(X), rows_of(X)
        weight = self._weight(X.indices)
        with np.errstate(divide="ignore"):
            share = linear / (self.gain * weight)
        hidden = self.norm == "length" and not self.weights.all()
        if hidden:  # the sum, too, is whole
            some = np.flatnonzero(np.diff(X.indptr))
            share, group = np.concatenate([share, np.ones(len(some))]), np.concatenate([row, some])
        if self.norm is not None:
            share = share / least(group, share, X.shape[0])[group]
            most = most_units(tolerance)
            share = share * multiple(group, share, X.shape[0], tolerance, most, self.sublinear)[group]
        number = nearest(share[: X.nnz], self.sublinear)
        counts = sp.csr_matrix((number, X.indices, X.indptr), X.shape)
        total = np.ones(X.shape[0])
        if hidden:
            total[some] = np.rint(share[X.nnz :])
            counts = self._with_hidden(counts, total)
            size = total
        else:
            size = self._sizes(counts)
        again = self.gain * weight * term(number, self.sublinear) / np.where(size > 0, size, 1.0)[row]
        wrong = ~whole(share[: X.nnz], tolerance, self.sublinear) | (
            np.abs(again - linear) > STEPS * tolerance * linear
        )
        known = np.bincount(row, wrong, minlength=X.shape[0]) == 0
        return counts, known & (np.bincount(row, number, X.shape[0]) <= total if hidden else True)

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
        X = plain(X)
        if self.rows is None:
            return counts, np.where(known, 0.0, -math.inf)
        row = rows_of(X)
        with np.errstate(divide="ignore", over="ignore"):
            share = self._linear(X.data)[1] / (self.gain * self._weight(X.indices))
            if self.norm is not None:
                share = share / least(row, share, X.shape[0])[row]
        strange = sp.csr_matrix((nearest(share, self.sublinear), X.indices, X.indptr), X.shape)[~known]
        counts = sp.csr_matrix(sp.vstack([counts[known], strange]))[np.argsort(np.argsort(~known, kind="stable"))]
        near = np.asarray(self.apply(counts)[row, X.indices]).ravel()
        off = np.log(X.data / np.where(near > 0, near, 1.0))
        density = np.bincount(row, -np.log(np.pi * X.data * (1 + off**2)), X.shape[0])
        escape = 1 / (self.rows + 1)
        return counts, np.where(known, math.log1p(-escape), math.log(escape) + density)

    def _check_columns(self, X: sp.csr_matrix) -> None:
        if self.weights.ndim and X.shape[1] != len(self.weights):
            raise ValueError(f"{len(self.weights)} weights for {X.shape[1]} columns: give one weight for each column")

    def _weight(self, column: np.ndarray) -> np.ndarray:
        return self.weights[column] if self.weights.ndim else np.full(len(column), float(self.weights))

    def _linear(self, value: np.ndarray, tolerance: float = 0.0) -> tuple[float, np.ndarray]:
        """Values before ln(1 + x), and their tolerance."""
        if not self.log1p:
            return tolerance, value
        with np.errstate(over="ignore"):
            return tolerance * max(1.0, value.max(initial=0.0)), np.minimum(np.expm1(value), np.finfo(np.float64).max)

    def _values(self, counts: sp.csr_matrix) -> np.ndarray:
        """Of every entry, before ln(1 + x)."""
        size = self._sizes(counts)
        weighted = self.gain * self._weight(counts.indices) * term(counts.data, self.sublinear)
        return weighted / np.where(size > 0, size, 1.0)[rows_of(counts)]

    def _sizes(self, counts: sp.csr_matrix) -> np.ndarray:
        """Of every row."""
        weighted = self._weight(counts.indices) * term(counts.data, self.sublinear)
        terms = {None: None, "length": counts.data, "l1": weighted, "l2": weighted**2}[self.norm]
        if terms is None:
            return np.ones(counts.shape[0])
        sums = np.bincount(rows_of(counts), terms, counts.shape[0])
        return np.sqrt(sums) if self.norm == "l2" else sums

    def _with_hidden(self, counts: sp.csr_matrix, total: np.ndarray) -> sp.csr_matrix:
        """With what the rows' sums have beyond the columns that weigh something."""
        beyond = np.where(np.diff(counts.indptr) > 0, total - np.asarray(counts.sum(axis=1)).ravel(), 0.0)
        rows = np.flatnonzero(beyond > 0)
        first = np.full(len(rows), np.flatnonzero(self.weights == 0)[0])
        return sp.csr_matrix(counts + sp.csr_matrix((beyond[rows], (rows, first)), counts.shape))


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
        factor = float(term(np.float64(m), sublinear))
        wrong = np.bincount(group, ~whole(factor * value, tolerance, sublinear), minlength=groups)
        found[(found == 0) & (wrong == 0)] = factor
        unsettled = (found == 0)[group]
        if not unsettled.any():
            break
        group, value = group[unsettled], value[unsettled]
    return np.where(found > 0, found, 1.0)


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
