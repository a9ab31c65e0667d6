"""Kinds of matrices: what X is, in numbers that models work with on the way in, and as it was on the way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from countjump.data.rows import Matrix

LEAST_REAL = 1e-290  # smaller reals are taken for zeros


def kind_of(*matrices: Any) -> str:
    """What the first of them is that is sparse: a "matrix" or an "array" of scipy; "", of numpy, where none is."""
    sparse = [isinstance(each, sp.sparray) for each in matrices if sp.issparse(each)]
    return "" if not sparse else "array" if sparse[0] else "matrix"


def as_kind(rows: np.ndarray | sp.csr_matrix, kind: str, dtype: np.dtype) -> Any:
    """In that dtype, as a "matrix" or "array" of scipy, or, for "", of numpy."""
    make = {"array": sp.csr_array, "matrix": sp.csr_matrix, "": np.asarray}[kind]
    finished = make(rows if kind or isinstance(rows, np.ndarray) else rows.toarray())
    values = finished.data if kind else finished
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        most = float(limits.max)  # which float64 may round up
        values = np.clip(np.rint(values), limits.min, most if most <= limits.max else np.nextafter(most, 0))
    elif dtype.kind == "f":
        values = np.minimum(values, np.finfo(dtype).max)
    if not kind:
        return values.astype(dtype)
    finished.data = values
    return finished.astype(dtype)


def check_shape(matrix: Matrix) -> None:
    """Raise where there are no rows and columns."""
    if matrix.ndim != 2:
        remedy = "X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row"
        if matrix.ndim > 2:
            remedy = "X.reshape(len(X), -1) makes every image or table one row"
        raise ValueError(
            f"X must be two-dimensional (rows × columns), got {matrix.ndim} dimension(s). Reshape your data: {remedy}"
        )
    if matrix.shape[0] == 0:
        raise ValueError(
            f"X is empty: Found array with 0 sample(s) (shape={matrix.shape}) while a minimum of 1 is required."
        )
    if matrix.shape[1] == 0:
        raise ValueError(f"X has no columns: 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")


def without_denormals(matrix: Matrix) -> Matrix:
    """The same numbers, but zeros in the place of reals that are too small to be divided by."""
    values = matrix.data if sp.issparse(matrix) else matrix
    if matrix.dtype.kind != "f" or not ((values > 0) & (values < LEAST_REAL)).any():
        return matrix
    matrix = matrix.copy()
    (matrix.data if sp.issparse(matrix) else matrix)[values < LEAST_REAL] = 0
    return matrix


def without_float16(matrix: Matrix) -> Matrix:
    """The same numbers: sums of float16 end at 65,504, and scipy does not know it."""
    return matrix.astype(np.float32) if matrix.dtype == np.float16 else matrix
