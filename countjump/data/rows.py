"""Rows of a dense or sparse matrix: what went in, batches of them, and statistics of the columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

SOME = 2**24
"""Non-zeros read at once."""

LARGEST_LOG = 700.0
"""The largest logarithm of a number that float64 holds, about."""

Matrix = Any
"""A numeric ndarray of two dimensions, or scipy CSR."""


def as_matrix(X: object) -> Matrix:
    """A two-dimensional numeric ndarray, or CSR with its entries summed and sorted; nothing is made dense.

    >>> as_matrix(np.array([["a"]]))
    Traceback (most recent call last):
    ...
    TypeError: X holds strings or objects (dtype <U1), and needs numbers: encode them first
    """
    if sp.issparse(X):
        matrix = sp.csr_matrix(X)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    else:
        matrix = np.asarray(X)
        if matrix.dtype == object:
            matrix = _objects_to_numbers(matrix)
    if matrix.dtype.kind == "c":
        raise ValueError("Complex data not supported: X has a complex dtype")
    if matrix.dtype.kind not in "buif":
        raise TypeError(f"X holds strings or objects (dtype {matrix.dtype}), and needs numbers: encode them first")
    return matrix


def _objects_to_numbers(matrix: np.ndarray) -> np.ndarray:
    for place, value in np.ndenumerate(matrix):
        if isinstance(value, complex):
            raise ValueError(f"Complex data not supported: X{list(place)} = {value!r}")
        if not isinstance(value, int | float | np.number | np.bool_):
            why = "float() argument must be a string or a real number"
            raise TypeError(f"X{list(place)} = {value!r} is not a number ({why}): encode or drop such columns first")
        if isinstance(value, int) and abs(value) > 2**53:
            why = "where float64 no longer holds every count: rescale it"
            raise ValueError(f"X{list(place)} = {value} is above 2^53, {why}")
    return matrix.astype(np.float64)


def fingerprint(X: Matrix, *described: str) -> str:
    """A digest of the data and of what else decides a fit."""
    digest = hashlib.blake2b(str(X.shape).encode(), digest_size=16)
    arrays = (X.indptr, X.indices, X.data) if sp.issparse(X) else (np.ascontiguousarray(X),)
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    for text in described:
        digest.update(text.encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Columns:
    """Statistics of every column, in float64: enough to rebuild a model's priors."""

    mean: np.ndarray
    variance: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray
    zero_share: np.ndarray
    full_share: np.ndarray
    """The share of values equal to the largest."""

    def __getitem__(self, index: np.ndarray) -> Columns:
        return Columns(**{name: array[index] for name, array in vars(self).items()})


class Rows:
    """The rows of a matrix, and what is known of its columns.

    >>> Rows(sp.csr_matrix([[0, 2], [1, 0]])).dense(np.array([1]))
    array([[1., 0.]])
    """

    def __init__(self, matrix: Matrix, kept: np.ndarray | None = None) -> None:
        """``kept`` are the columns that count, of a sparse matrix which is not copied for that: it may lie on disk."""
        self.matrix, self.kept = matrix, kept
        self.count, self.columns = matrix.shape[0], matrix.shape[1] if kept is None else len(kept)

    @staticmethod
    def is_sparse(matrix: Matrix) -> bool:
        """Whether a matrix is scipy sparse."""
        return sp.issparse(matrix)

    def take(self, rows: np.ndarray) -> Matrix:
        """The given rows, as they are."""
        picked = self.matrix[rows]
        return picked if self.kept is None else picked[:, self.kept]

    def dense(self, rows: np.ndarray) -> np.ndarray:
        """The given rows (B, D) in float64."""
        picked = self.take(rows)
        return np.ascontiguousarray(picked.toarray() if sp.issparse(picked) else picked, dtype=np.float64)

    def select(self, columns: np.ndarray) -> Rows:
        """The same rows with the given columns only."""
        if len(columns) == self.columns:
            return self
        if not sp.issparse(self.matrix):
            return Rows(self.matrix[:, columns])
        return Rows(self.matrix, columns if self.kept is None else self.kept[columns])

    def scaled(self, factor: float) -> Rows:
        """The same rows times a number."""
        return self if factor == 1 else Rows(self.matrix * factor, self.kept)

    def nonzeros(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(column, value) of every non-zero, some at a time."""
        if not sp.issparse(self.matrix):
            size = max(SOME // max(self.columns, 1), 1)
            for start in range(0, self.count, size):
                some = self.matrix[start : start + size]
                row, column = np.nonzero(some)
                yield column, some[row, column].astype(np.float64)
            return
        place = np.full(self.matrix.shape[1], -1)
        place[slice(None) if self.kept is None else self.kept] = np.arange(self.columns)
        for start in range(0, self.matrix.nnz, SOME):
            value, column = (each[start : start + SOME] for each in (self.matrix.data, self.matrix.indices))
            column = place[column]
            here = np.flatnonzero((value != 0) & (column >= 0))
            yield column[here], value[here].astype(np.float64)

    @cached_property
    def _left_out(self) -> Rows:
        """The columns that do not count: few, or with few non-zeros."""
        others = np.ones(self.matrix.shape[1], dtype=bool)
        others[self.kept] = False
        return Rows(self.matrix[:, others])

    def totals(self) -> np.ndarray:
        """The sum of every row."""
        whole = np.asarray(self.matrix.sum(axis=1, dtype=np.float64)).ravel()
        return whole if self.kept is None else whole - self._left_out.totals()

    def filled(self) -> np.ndarray:
        """The number of non-zeros of every row, in float64."""
        if not sp.issparse(self.matrix):
            return np.count_nonzero(self.matrix, axis=1).astype(np.float64)
        empty = np.searchsorted(np.flatnonzero(self.matrix.data == 0), self.matrix.indptr)
        filled = np.diff(self.matrix.indptr - empty).astype(np.float64)
        return filled if self.kept is None else filled - self._left_out.filled()

    def statistics(self) -> Columns:
        """Of every column, without making anything dense."""

        def add_up(weigh: Callable[[np.ndarray, np.ndarray], np.ndarray | None]) -> np.ndarray:
            whole = np.zeros(self.columns)
            for column, value in self.nonzeros():
                whole += np.bincount(column, weigh(column, value), minlength=self.columns)
            return whole

        largest, smallest = np.zeros(self.columns), np.full(self.columns, np.inf)
        for column, value in self.nonzeros():
            np.maximum.at(largest, column, value)
            np.minimum.at(smallest, column, value)
        filled = add_up(lambda column, value: None)
        smallest[filled < self.count] = 0
        mean = add_up(lambda column, value: value) / self.count
        deviation = add_up(lambda column, value: (value - mean[column]) ** 2) + (self.count - filled) * mean**2
        at_top = add_up(lambda column, value: value == largest[column])
        return Columns(mean, deviation / self.count, smallest, largest, 1 - filled / self.count, at_top / self.count)

    def smallest_scale(self, loss: float = 0.01, pooled: bool = False) -> np.ndarray:
        """The smallest λ for which z_0 ~ Pois(λ x_0) is expected to lose at most this share of the non-zeros.

        One per column, or one for all columns together (``pooled``).

        >>> float(Rows(np.full((3, 1), 2.0)).smallest_scale()[0].round(4))  # e^(-2 λ) = 0.01
        2.3026
        """
        column, log_value = self._logarithms()
        groups = 1 if pooled else self.columns
        column = np.zeros_like(column) if pooled else column
        # By logarithms: a p-value may be so small that its λ is no number.
        low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
        np.minimum.at(low, column, np.log(-np.log(loss)) - log_value)
        np.maximum.at(high, column, np.log(-np.log(loss)) - log_value)
        low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
        while (high > low + 1e-6).any():
            middle = (low + high) / 2
            lost = _lost(column, log_value, middle)
            low, high = np.where(lost > loss, middle, low), np.where(lost > loss, high, middle)
        return np.exp(np.minimum(high, LARGEST_LOG))

    def lost(self, lam: np.ndarray) -> np.ndarray:
        """The share of every column's non-zeros that Pois(λ x_0) is expected to lose."""
        return _lost(*self._logarithms(), np.log(lam))

    def _logarithms(self) -> tuple[np.ndarray, np.ndarray]:
        """(column, ln value) of every non-zero."""
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        column, value = (np.concatenate(each) for each in zip(nothing, *self.nonzeros(), strict=True))
        return column, np.log(value)


def _lost(column: np.ndarray, log_value: np.ndarray, log_lam: np.ndarray) -> np.ndarray:
    """The mean of exp(−λ x) over the non-zeros x of every column."""
    stays = np.exp(-np.exp(np.minimum(log_lam[column] + log_value, LARGEST_LOG)))
    return np.bincount(column, stays, len(log_lam)) / np.maximum(np.bincount(column, minlength=len(log_lam)), 1)
