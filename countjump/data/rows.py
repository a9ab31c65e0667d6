"""Rows of a dense or sparse matrix: what went in, batches of them, and statistics of the columns."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

SOME = 2**24
"""Non-zeros read at once."""

LARGEST_LOG = 700.0
"""The largest logarithm of a number that float64 holds, about."""

Matrix = Any
"""A numeric ndarray of two dimensions, or scipy CSR."""


MOST = 2**53
"""Above it, float64 no longer holds every whole number."""

INDEX_ARRAYS = {
    **dict.fromkeys(("csr", "csc", "bsr"), ("indices", "indptr")),
    **{"coo": ("row", "col"), "dia": ("offsets",)},
}
"""The arrays besides ``data`` of scipy's sparse matrices."""


def as_matrix(X: Any) -> Matrix:
    """A two-dimensional numeric ndarray, or CSR with its entries summed and sorted; nothing is made dense.

    Numbers come in the machine's byte order, and long doubles as float64.

    >>> as_matrix(np.array([["a"]]))
    Traceback (most recent call last):
    ...
    TypeError: X holds strings or objects (dtype <U1), and needs numbers: encode them first
    """
    if all(hasattr(X, name) for name in ("X", "obs", "var")) and not hasattr(X, "columns"):
        raise TypeError(f"X is a {type(X).__name__}, not a matrix: pass adata.X, or one of adata.layers")
    names = getattr(X, "columns", None)
    if names is not None and len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"X has several columns of the name {twice!r}: give each a name of its own")
    for name in names if names is not None and hasattr(X, "dtypes") else ():
        if getattr(X[name].dtype, "kind", "") in "iu" and (X[name] > MOST).any():
            why = "where float64 no longer holds every count: rescale it"
            raise ValueError(f"column {name!r} of X has {X[name].max()}, which is above 2^53, {why}")
    if getattr(X, "ndim", 0) == 2 and X.shape[1] and hasattr(X, "sparse"):  # a DataFrame whose columns are all sparse
        X = X.sparse.to_coo()
    sparse = sp.issparse(X)
    matrix = X if sparse else _as_array(X)
    if matrix.dtype == object and not sparse:
        matrix = _objects_to_numbers(matrix, names)
    if matrix.dtype.kind == "c":
        raise ValueError("Complex data not supported: X has a complex dtype")
    if matrix.dtype.kind not in "buif":
        raise TypeError(f"X holds strings or objects (dtype {matrix.dtype}), and needs numbers: encode them first")
    return _as_csr(matrix) if sparse else _native(matrix)


def memory() -> float:
    """The bytes of memory of this machine, or infinity where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError):
        return np.inf


def _as_array(X: Any) -> np.ndarray:
    """An ndarray of whatever numpy takes for one."""
    if np.ma.is_masked(X):
        place = np.argwhere(np.ma.getmaskarray(X))[0].tolist()
        raise ValueError(f"X{place} is masked: fill such values in, or drop their rows, first")
    try:
        # A tensor of torch may have a gradient, or be on another device.
        array = np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    except (TypeError, ValueError, RuntimeError) as error:
        kinds = "an ndarray, a DataFrame or a scipy.sparse matrix of numbers"
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"X is no array ({error}): give rows of equal lengths, as {kinds}") from error
    if array.dtype.kind == "f" and not hasattr(X, "dtype") and (array >= MOST).any():
        array = np.asarray(X, dtype=object)  # whole numbers among them may have been rounded
    if array.ndim == 0 and array.dtype.kind not in "buifc":
        raise TypeError(
            f"X is of type {type(X).__name__}: give rows of numbers, as an ndarray or a scipy.sparse matrix"
        )
    return array


def _objects_to_numbers(matrix: np.ndarray, names: Any) -> np.ndarray:
    for place, value in np.ndenumerate(matrix):
        where = f"X{list(place)}" + ("" if names is None else f" (column {names[place[-1]]!r})")
        if isinstance(value, complex | np.complexfloating):
            raise ValueError(f"Complex data not supported: {where} = {value!r}")
        if not isinstance(value, int | float | np.number | np.bool_):
            why = "float() argument must be a string or a real number"
            raise TypeError(f"{where} = {value!r} is not a number ({why}): fill it in, or encode or drop such columns")
        if isinstance(value, int | np.integer) and abs(int(value)) > MOST:
            raise ValueError(f"{where} = {value} is above 2^53, where float64 no longer holds every count: rescale it")
    return matrix.astype(np.float64)


def _native(values: np.ndarray) -> np.ndarray:
    """The same values in the machine's byte order, and long doubles as float64."""
    if values.dtype.kind != "f" or values.dtype.itemsize <= 8:
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    if (values > MOST).any():
        raise ValueError("X holds values above 2^53, where float64 no longer holds every count: rescale them")
    return values.astype(np.float64)


def _as_csr(X: Any) -> sp.csr_matrix:
    if X.format == "lil":
        X = _of_lists(X)
    if X.format == "dok":
        X = X.tocoo()  # which checks the places
    return csr_of_arrays(X.format, X.shape, {name: getattr(X, name) for name in ("data", *INDEX_ARRAYS[X.format])})


def csr_of_arrays(kind: str, shape: Sequence[int], arrays: dict[str, np.ndarray]) -> sp.csr_matrix:
    """CSR with its entries summed and sorted, out of the arrays of a sparse matrix of some kind.

    They are checked before scipy goes through them: it trusts them, and would read beyond their ends.
    """
    if len(shape) != 2 or not all(isinstance(length, int | np.integer) and length >= 0 for length in shape):
        raise ValueError(f"X must be two-dimensional (rows × columns), and is a sparse array of shape {tuple(shape)}")
    (rows, columns), data, size = shape, arrays["data"], len(arrays["data"])
    brought = sum(each.nbytes for each in arrays.values())
    if 8 * (int(rows) + int(columns)) > max(2**26, 1000 * brought):
        raise ValueError(f"X has {rows} rows and {columns} columns, and {brought:,} bytes in them: drop the empty ones")
    wrong = f"X is a broken {kind} matrix, build it again:"

    def check(name: str, length: int, low: int, high: int) -> np.ndarray:
        index = arrays[name]
        if index.dtype.kind not in "iu" or index.shape != (length,):
            raise ValueError(f"{wrong} {name} is no list of {length} whole numbers")
        if length and not low <= int(index.min()) <= int(index.max()) < high:
            place = np.flatnonzero((index < low) | (index >= high))[0]
            raise ValueError(f"{wrong} {name}[{place}] = {index[place]} is not between {low} and {high - 1}")
        return index

    parts: tuple[Any, ...]
    if kind == "coo":
        parts = ((check("row", size, 0, rows), check("col", size, 0, columns)),)
    elif kind == "dia":
        parts = (check("offsets", size, 1 - rows, columns),)
    else:
        height, width = data.shape[1:] if kind == "bsr" else (1, 1)
        if rows % max(height, 1) or columns % max(width, 1):
            raise ValueError(f"{wrong} blocks of {height} × {width} do not fill {rows} × {columns}")
        lines, across = rows // max(height, 1), columns // max(width, 1)
        lines, across = (across, lines) if kind == "csc" else (lines, across)
        ends = check("indptr", lines + 1, 0, size + 1)
        if ends[0] != 0 or ends[-1] != size or (ends[1:] < ends[:-1]).any():
            raise ValueError(f"{wrong} indptr does not rise from 0 to the number of its entries, {size}")
        parts = (check("indices", size, 0, across), ends)
    data = _native(data)
    data = data.astype(np.float32) if data.dtype == np.float16 else data  # scipy has no float16
    matrix = sp.csr_matrix(getattr(sp, f"{kind}_matrix")((data, *parts), shape=(rows, columns)))
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    small = data.dtype.kind in "iu" and data.itemsize < 8 and kind != "dia" and matrix.nnz < data.size
    if small and matrix.data.sum(dtype=np.int64) != data.sum(dtype=np.int64):
        raise ValueError(f"X has several entries of one place, whose sum is beyond {data.dtype}: take int64")
    return matrix


def _of_lists(X: Any) -> sp.coo_matrix:
    """The entries of a matrix of lists; scipy's own way trusts their lengths and places."""
    if [len(each) for each in X.rows] != [len(each) for each in X.data]:
        raise ValueError("X is a broken lil matrix, build it again: its rows and data are not of the same lengths")
    row = np.repeat(np.arange(len(X.rows)), [len(each) for each in X.rows])
    column, value = (np.array(list(chain.from_iterable(each))) for each in (X.rows, X.data))
    return sp.coo_matrix((value.astype(X.dtype), (row, column.astype(np.int64))), shape=X.shape)


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
        self.matrix = matrix.astype(np.float32) if matrix.dtype == np.float16 else matrix  # scipy has no float16
        self.kept = kept
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
        return ((column, value) for _, column, value in self._entries())

    def _entries(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(row, column, value) of every non-zero, some at a time."""
        if not sp.issparse(self.matrix):
            size = max(SOME // max(self.columns, 1), 1)
            for start in range(0, self.count, size):
                some = self.matrix[start : start + size]
                row, column = np.nonzero(some)
                yield row + start, column, some[row, column].astype(np.float64)
            return
        place = np.full(self.matrix.shape[1], -1)
        place[slice(None) if self.kept is None else self.kept] = np.arange(self.columns)
        for start in range(0, self.matrix.nnz, SOME):
            value, column = (each[start : start + SOME] for each in (self.matrix.data, self.matrix.indices))
            row = np.repeat(np.arange(self.count), np.diff(np.clip(self.matrix.indptr, start, start + len(value))))
            column = place[column]
            here = np.flatnonzero((value != 0) & (column >= 0))
            yield row[here], column[here], value[here].astype(np.float64)

    def totals(self) -> np.ndarray:
        """The sum of every row."""
        if not sp.issparse(self.matrix):
            return self.matrix.sum(axis=1, dtype=np.float64)
        parts = (np.bincount(row, value, minlength=self.count) for row, _, value in self._entries())
        return sum(parts, start=np.zeros(self.count))

    def filled(self) -> np.ndarray:
        """The number of non-zeros of every row, in float64."""
        parts = (np.bincount(row, minlength=self.count) for row, _, _ in self._entries())
        return sum(parts, start=np.zeros(self.count))

    def statistics(self) -> Columns:
        """Of every column, without making anything dense."""

        def add_up(weigh: Callable[[np.ndarray, np.ndarray], np.ndarray | None]) -> np.ndarray:
            whole = np.zeros(self.columns)
            for column, value in self.nonzeros():
                whole += np.bincount(column, weigh(column, value), minlength=self.columns)
            return whole

        largest, smallest = np.full(self.columns, -np.inf), np.full(self.columns, np.inf)
        for column, value in self.nonzeros():
            np.maximum.at(largest, column, value)
            np.minimum.at(smallest, column, value)
        filled = add_up(lambda column, value: None)
        some_zeros = filled < self.count
        smallest[some_zeros], largest[some_zeros] = (
            each[some_zeros] for each in (np.minimum(smallest, 0), np.maximum(largest, 0))
        )
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
