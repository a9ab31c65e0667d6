"""How far columns are from each other one by one, for all columns of two tables at once."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from countjump.metrics.reading import Table
from countjump.metrics.tables import total_variation
from countjump.metrics.values import w1

QUANTILES = {"q99": 0.99, "q999": 0.999}
"""Of the tail, where there are enough rows to have them."""

METRICS = ("distance", "zero_share", "missing_share", *QUANTILES)


def compare(a: Table, b: Table) -> dict[str, np.ndarray]:
    """Per column: W1 or total variation, and |difference| of the shares and tail quantiles; NaN where one is not defined.

    >>> from countjump.metrics.reading import read
    >>> found = read(np.eye(20)[:, :3], np.zeros((20, 3)))
    >>> compare(found.real, found.synthetic)["zero_share"].round(3)
    array([0.05, 0.05, 0.05])
    """
    first, second = describe(a), describe(b)
    found = {name: np.abs(first[name] - second[name]) for name in METRICS if name != "distance"}
    return {"distance": distances(a, b), **found}


def describe(table: Table) -> dict[str, np.ndarray]:
    """Per column of one table: shares of zeros (among present values) and of missing values, mean, sd, range, tail quantiles."""
    return _describe_sparse(table.values) if table.wide else _describe_dense(table)


def distances(a: Table, b: Table) -> np.ndarray:
    """W1 of numbers and dates, total variation of categories, among the values that are present."""
    if a.wide:
        return _sparse_w1(a.values, b.values)
    found = np.empty(len(a.columns))
    for j, column in enumerate(a.columns):
        x, y = (values[~np.isnan(values)] for values in (a.values[:, j], b.values[:, j]))
        if not len(x) or not len(y):
            found[j] = 0.0 if len(x) == len(y) else np.nan
        else:
            found[j] = total_variation(x, y) if column.kind == "category" else w1(x, y)
    return found


def _describe_dense(table: Table) -> dict[str, np.ndarray]:
    values = np.sort(table.values, axis=0)  # what is missing comes last
    present = (~np.isnan(values)).sum(axis=0)
    filled, numbers = np.maximum(present, 1), ~table.categorical
    known = np.where(np.isnan(values), 0, values)
    mean = known.sum(axis=0) / filled
    sd = np.sqrt((np.where(np.isnan(values), 0, values - mean) ** 2).sum(axis=0) / filled)
    zeros = ((values == 0).sum(axis=0) / filled).astype(np.float64)
    columns = np.arange(values.shape[1])
    wide = values[np.maximum(present - 1, 0), columns] - values[0]
    found = {"mean": mean, "sd": sd, "range": np.nan_to_num(wide), "zero_share": np.where(present > 0, zeros, np.nan)}
    for name, q in QUANTILES.items():
        place = np.maximum(np.ceil(q * present).astype(int) - 1, 0)
        found[name] = np.where(present >= 1 / (1 - q) - 1e-6, values[place, columns], np.nan)
    found = {name: np.where(numbers, each, np.nan) for name, each in found.items()}
    return {**found, "missing_share": 1 - present / len(table)}


def _describe_sparse(values: sp.csr_matrix) -> dict[str, np.ndarray]:
    rows, count = values.shape
    ends, data = _sorted_columns(values)
    place = np.repeat(np.arange(count), np.diff(ends))
    filled = np.diff(ends)
    mean, square = (np.bincount(place, data**power, count) / rows for power in (1, 2))
    found = {"mean": mean, "sd": np.sqrt(np.maximum(square - mean**2, 0))}
    found["range"] = np.where(filled > 0, data[np.minimum(ends[:-1], max(len(data) - 1, 0))] if len(data) else 0.0, 0.0)
    found["zero_share"] = 1 - filled / rows
    for name, q in QUANTILES.items():
        above = rows - int(np.ceil(q * rows))  # how many are larger than the quantile
        has = filled > above
        found[name] = np.zeros(count)
        found[name][has] = data[ends[:-1][has] + above]
        if rows < 1 / (1 - q) - 1e-6:
            found[name][:] = np.nan
    return {**found, "missing_share": np.zeros(count)}


def _sparse_w1(a: sp.csr_matrix, b: sp.csr_matrix) -> np.ndarray:
    """Of non-negative columns with as many rows: the largest beside the largest, and zeros beside what is left over."""
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"there are {a.shape[0]} and {b.shape[0]} sparse rows: compare as many of each")
    count = a.shape[1]
    (ends, x), (other_ends, y) = _sorted_columns(a), _sorted_columns(b)
    filled, others = np.diff(ends), np.diff(other_ends)
    longest = np.maximum(filled, others)
    start = np.concatenate([[0], np.cumsum(longest)])
    side = np.zeros(start[-1])
    for sign, data, begin, sizes in ((1, x, ends, filled), (-1, y, other_ends, others)):
        inside = np.arange(len(data)) - np.repeat(begin[:-1], sizes)
        side[np.repeat(start[:-1], sizes) + inside] += sign * data
    return np.bincount(np.repeat(np.arange(count), longest), np.abs(side), count) / a.shape[0]


def _sorted_columns(values: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Where each column begins and ends, and its non-zeros, the largest first."""
    columns = sp.csc_matrix(values, dtype=np.float64)
    columns.eliminate_zeros()
    place = np.repeat(np.arange(columns.shape[1]), np.diff(columns.indptr))
    order = np.lexsort([-columns.data, place])
    return columns.indptr.astype(np.int64), columns.data[order]
