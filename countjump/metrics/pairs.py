"""How columns hang together two by two: rank correlations of numbers, Cramér's V of categories, the correlation ratio between."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from countjump.metrics.reading import Column, Table

MOST_COLUMNS = 200
"""Of which pairs are compared: those that vary the most."""

MOST_LEVELS = 30
"""Rarer levels of a category are joined."""


def varying(table: Table, most: int = MOST_COLUMNS) -> np.ndarray:
    """The columns in which the most frequent value (or what is missing) is rarest, in the table's order."""
    if table.wide:
        filled = np.bincount(table.values.indices[table.values.data != 0], minlength=len(table.columns))
        share = np.maximum(filled, len(table) - filled) / len(table)
        share[filled == 0] = 1
    else:
        values = np.sort(np.nan_to_num(table.values, nan=np.inf), axis=0)
        share = np.array([_largest_run(column) for column in values.T]) / len(values)
    order = np.argsort(share, kind="stable")
    return np.sort(order[: min(most, int((share < 1).sum()))])


def with_missing(table: Table, shown: np.ndarray) -> Table:
    """A dense table, with a column of 0 and 1 for every column of ``shown`` that says where it is missing."""
    if table.wide:
        return Table(table.columns, table.values.toarray().astype(np.float64))
    added = [Column(f"{table.columns[j].name} is missing", "number", whole=True) for j in shown]
    return Table([*table.columns, *added], np.hstack([table.values, np.isnan(table.values[:, shown])]))


def dependence(table: Table) -> np.ndarray:
    """A symmetric matrix: Spearman's ρ, or the bias-corrected Cramér's V or correlation ratio where categories are involved.

    What is missing has the mean rank among numbers, and is a level of its own among categories.

    >>> from countjump.metrics.reading import read
    >>> x = np.column_stack([np.arange(40), -np.arange(40) ** 3, np.arange(40) % 2])
    >>> dependence(read(x, x).real).round(1)[0]
    array([ 1., -1.,  0.])
    """
    rows, categorical = len(table), table.categorical
    ranks = np.column_stack([_ranks(column) for column in table.values.T])
    found = ranks.T @ ranks
    indicators = {j: _indicators(table.values[:, j]) for j in np.flatnonzero(categorical)}
    numbers = np.flatnonzero(~categorical)
    for i, mine in indicators.items():
        sizes = np.maximum(mine.sum(axis=0), 1)
        between = ((mine.T @ ranks[:, numbers]) ** 2 / sizes[:, None]).sum(axis=0)
        chance = (len(sizes) - 1) / max(rows - 1, 1)
        ratio = np.sqrt(np.clip((between - chance) / max(1 - chance, 1e-9), 0, 1))
        found[i, numbers] = found[numbers, i] = np.where((ranks[:, numbers] != 0).any(axis=0), ratio, 0)
        for j, other in indicators.items():
            if j < i:
                found[i, j] = found[j, i] = _cramer(mine, other, rows)
    np.fill_diagonal(found, 1)
    return found


def _largest_run(values: np.ndarray) -> int:
    change = np.flatnonzero(values[1:] != values[:-1])
    return int(np.diff(np.concatenate([[-1], change, [len(values) - 1]])).max())


def _ranks(values: np.ndarray) -> np.ndarray:
    """Centred ranks of length 1; zeros for a column of one value."""
    there = ~np.isnan(values)
    found = np.zeros(len(values))
    if there.any():
        found[there] = rankdata(values[there])
        found[there] -= found[there].mean()
    length = np.sqrt((found**2).sum())
    return found / length if length > 1e-9 else np.zeros(len(values))


def _indicators(values: np.ndarray) -> np.ndarray:
    """(rows, levels) of 0 and 1."""
    levels, place, counts = np.unique(np.nan_to_num(values, nan=-1), return_inverse=True, return_counts=True)
    number = np.empty(len(levels), dtype=int)
    number[np.argsort(-counts, kind="stable")] = np.minimum(np.arange(len(levels)), MOST_LEVELS - 1)
    return np.eye(number.max() + 1)[number[place]]


def _cramer(a: np.ndarray, b: np.ndarray, rows: int) -> float:
    """Bergsma's bias-corrected V."""
    table = a.T @ b
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / rows
    phi = (((table - expected) ** 2) / np.maximum(expected, 1e-12)).sum() / rows
    r, c = table.shape
    if min(r, c) < 2:
        return 0.0
    phi = max(0.0, phi - (r - 1) * (c - 1) / (rows - 1))
    r_less, c_less = r - (r - 1) ** 2 / (rows - 1), c - (c - 1) ** 2 / (rows - 1)
    return float(np.sqrt(min(1.0, phi / max(min(r_less, c_less) - 1, 1e-9))))


def densely(table: Table, places: np.ndarray) -> Table:
    """Some columns of a table as a dense one."""
    some = table.select(places)
    return Table(some.columns, some.values.toarray().astype(np.float64) if sp.issparse(some.values) else some.values)
