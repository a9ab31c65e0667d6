"""What can be said of a row as a whole: how many of its entries are zero or missing, its total, its distinct values."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from countjump.metrics.reading import Table
from countjump.metrics.wide import row_sparsity, row_totals


def row_numbers(table: Table) -> dict[str, np.ndarray]:
    """Name → a number of every row. Totals and distinct values are of tables of non-negative numbers alone.

    >>> from countjump.metrics.reading import read
    >>> x = np.tile([[0, 2, 2, 5, 0]], (20, 1))
    >>> {name: float(values[0]) for name, values in row_numbers(read(x, x).real).items()}
    {'zeros': 0.4, 'total': 9.0, 'distinct': 3.0}
    """
    if table.wide:
        x = table.values
        return {"zeros": row_sparsity(x), "total": row_totals(x), "distinct": _distinct_sparse(x)}
    numbers = np.array([column.kind == "number" for column in table.columns], dtype=bool)
    values, found = table.values[:, numbers], {}
    if numbers.sum() >= 2 and (values == 0).any():
        found["zeros"] = (values == 0).mean(axis=1)
    if np.isnan(table.values).any():
        found["missing"] = np.isnan(table.values).mean(axis=1)
    if numbers.all() and numbers.sum() >= 3 and (values >= 0).all():
        found["total"] = values.sum(axis=1)
        ordered = np.sort(values, axis=1)
        found["distinct"] = 1.0 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    return found


def _distinct_sparse(x: sp.csr_matrix) -> np.ndarray:
    """Zero, where there is one, is a value too."""
    filled = np.diff(x.indptr)
    row = np.repeat(np.arange(x.shape[0]), filled)
    order = np.lexsort([x.data, row])
    data, place = x.data[order], row[order]
    first = np.ones(len(data), dtype=bool)
    first[1:] = (data[1:] != data[:-1]) | (place[1:] != place[:-1])
    first &= data != 0
    zeros = np.bincount(row, x.data != 0, x.shape[0]) < x.shape[1]
    return np.bincount(place, first, x.shape[0]) + zeros
