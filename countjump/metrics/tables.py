"""Metrics of ordinary tables, with numbers and categories.

A table is a DataFrame or a 2-D array. A column is one of categories if ``categorical`` names it, or if its values are not all
numbers, or are booleans, or have the dtype "category"; the first table decides for all. Columns of a DataFrame are found by
name. A missing category is a level of its own; a missing number is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.model_selection import StratifiedKFold, cross_val_score

MOST_LEVELS = 255
"""What HistGradientBoosting can take of one column."""

FEWEST_PRESENT = 20
"""Present values of a column, from which on some of them are in every part of the rows that a classifier is trained on."""

BINS = 10
"""Of a column of numbers beside one of categories, in ``pair_trends``."""

_ROUNDING = 1e-6
"""A distance that equal rows can have."""


@dataclass(frozen=True)
class Coded:
    """Tables of the same columns as matrices of numbers."""

    names: list[Any]
    categorical: np.ndarray
    """Which columns hold categories: each is there the number of its level, the most frequent of all the tables first."""
    tables: list[np.ndarray]

    def one_hot(self) -> list[np.ndarray]:
        """The tables with a column of 0 and 1 for every level of a category, after the numbers."""
        levels = np.max([table.max(axis=0, initial=-1) for table in self.tables], axis=0).astype(int) + 1
        wide = []
        for table in self.tables:
            groups = [np.eye(levels[j])[table[:, j].astype(int)] for j in np.flatnonzero(self.categorical)]
            wide.append(np.hstack([table[:, ~self.categorical], *groups]))
        return wide


def coded(*tables: Any, categorical: Collection[Any] | None = None, missing: bool = False) -> Coded:
    """Tables as matrices of numbers, levels numbered alike in all of them; where ``missing`` says so, numbers may be NaN.

    >>> found = coded([[1.5, "b"], [0, "a"], [2, "a"]], [[1, "c"]])
    >>> found.categorical, found.tables[0][:, 1], found.tables[1]
    (array([False,  True]), array([1., 0., 0.]), array([[1., 2.]]))
    """
    columns = [_columns(table) for table in tables]
    names = list(columns[0])
    for other in columns[1:]:
        if set(other) != set(names):
            raise ValueError(f"the tables have different columns, {names} and {list(other)}: compare the same columns")
    for name in categorical or ():
        if name not in names:
            raise ValueError(f"categorical names the column {name!r}, which the tables do not have: they have {names}")
    parts = [np.empty((len(next(iter(each.values()))), len(names))) for each in columns]
    is_category = np.array([name in (categorical or ()) or _holds_categories(columns[0][name]) for name in names])
    for j, name in enumerate(names):
        mine = [each[name] for each in columns]
        values = _levels(mine) if is_category[j] else [_numbers(each, name, missing) for each in mine]
        for part, value in zip(parts, values, strict=True):
            part[:, j] = value
    return Coded(names, is_category, parts)


def two_sample_auc(
    real: Any,
    synthetic: Any,
    categorical: Collection[Any] | None = None,
    seed: int = 0,
    folds: int = 5,
    missing: bool = False,
) -> float:
    """How well gradient boosting tells generated rows from real ones that it was not trained on: 0.5 is perfect, 1 is easily.

    It is scikit-learn's HistGradientBoostingClassifier with its defaults on the raw columns, categories declared; levels beyond the
    254 most frequent of a column are joined. The AUC is the mean over stratified folds. Both tables have as many rows: where they
    have not, draw as many. Where ``missing`` says so, numbers may be missing, which the classifier sees.

    >>> rng = np.random.default_rng(0)
    >>> round(two_sample_auc(rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) + [9, 0]), 3)
    1.0
    """
    both = coded(real, synthetic, categorical=categorical, missing=missing)
    sizes = [len(table) for table in both.tables]
    if sizes[0] != sizes[1]:
        raise ValueError(f"there are {sizes[0]} real and {sizes[1]} generated rows: compare as many of each")
    x, side = for_boosting(np.vstack(both.tables), both.categorical), np.repeat([0, 1], sizes)
    boosting = HistGradientBoostingClassifier(categorical_features=both.categorical, random_state=seed)
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return float(cross_val_score(boosting, x, side, scoring="roc_auc", cv=splits).mean())


def for_boosting(x: np.ndarray, categorical: np.ndarray) -> np.ndarray:
    """Rows as gradient boosting takes them: rare levels joined; of a column with hardly a value, whether it is missing.

    >>> for_boosting(np.array([[1.0, np.nan], [300.0, 7.0]]), np.array([True, False]))[:, 1]
    array([1., 0.])
    """
    x = x.copy()
    x[:, categorical] = np.minimum(x[:, categorical], MOST_LEVELS - 1)
    gone = np.isnan(x)
    rare = gone.any(0) & ((~gone).sum(0) < FEWEST_PRESENT)
    x[:, rare] = gone[:, rare]
    return x


def column_shapes(real: Any, synthetic: Any, categorical: Collection[Any] | None = None) -> float:
    """How well the columns agree one by one, by SDMetrics' definition: 1 is perfect, 0 is not at all.

    The mean over columns of 1 − max over v of |F(v) − G(v)| for numbers (KSComplement; F and G are the distribution
    functions), and of 1 − ½ Σ over levels of |p − q| for categories (TVComplement).

    >>> column_shapes([[0, "a"], [1, "b"]], [[0, "a"], [0, "a"]])  # ½ of the distribution function, ½ of the levels
    0.5
    """
    both = coded(real, synthetic, categorical=categorical)
    pairs = zip(both.tables[0].T, both.tables[1].T, both.categorical, strict=True)
    return float(np.mean([1 - (total_variation if category else _kolmogorov)(a, b) for a, b, category in pairs]))


def pair_trends(real: Any, synthetic: Any, categorical: Collection[Any] | None = None) -> float:
    """How well the columns agree two by two, by SDMetrics' definition: 1 is perfect, 0 is not at all.

    The mean over pairs of columns of 1 − ½ |r − s| for two columns of numbers, r and s being their Pearson correlations
    (CorrelationSimilarity), and of 1 − ½ Σ |p − q| over pairs of levels for others (ContingencySimilarity). Beside categories a
    column of numbers is cut into ten bins of equal width over its range in the real table, of which the outer two are open.
    Where a real column of numbers has one value, its correlations are not defined, and its pairs with numbers are left out;
    where only the generated one has, they are 0. (SDMetrics leaves out those, too.)

    >>> round(pair_trends([[0, 0], [1, 1]], [[0, 1], [1, 0]]), 9)  # r = 1, s = −1
    0.0
    >>> pair_trends([[0.0, "a"], [1.0, "b"]], [[0.04, "a"], [7.0, "a"]])  # the first and the last bin
    0.5
    """
    both = coded(real, synthetic, categorical=categorical)
    a, b = both.tables
    numbers = np.flatnonzero(~both.categorical)
    scores = list(1 - 0.5 * _correlation_errors(a[:, numbers], b[:, numbers]))
    levels = [(a[:, j], b[:, j]) if both.categorical[j] else _binned(a[:, j], b[:, j]) for j in range(a.shape[1])]
    for i, j in combinations(range(a.shape[1]), 2):
        if both.categorical[i] or both.categorical[j]:
            width = max(part.max() for part in levels[j]) + 1
            joint = (first * width + second for first, second in zip(levels[i], levels[j], strict=True))
            scores.append(1 - total_variation(*joint))
    if not scores:
        raise ValueError("there is no pair of columns that vary: pair trends need two")
    return float(np.mean(scores))


def rank_correlation_error(real: Any, synthetic: Any, categorical: Collection[Any] | None = None) -> float:
    """The mean of |r − s| over pairs of columns of numbers, r and s being their Spearman correlations in the two tables.

    Columns of one value are treated as in :func:`pair_trends`. Fresh real rows do not score 0: read it beside what they score.

    >>> round(rank_correlation_error([[0, 0], [1, 9]], [[0, 9], [1, 0]]), 9)  # r = 1, s = −1
    2.0
    """
    both = coded(real, synthetic, categorical=categorical)
    errors = _correlation_errors(*(rankdata(table[:, ~both.categorical], axis=0) for table in both.tables))
    if not len(errors):
        raise ValueError("there are no two columns of numbers that vary: rank correlations need two")
    return float(errors.mean())


def nearer_copies(
    train: Any, synthetic: Any, held_out: Any, categorical: Collection[Any] | None = None
) -> tuple[float, float]:
    """The share of generated rows that are as near to a training row as the nearest 1 % of held-out rows, and its floor.

    The distance is √(Σ over numbers of (a − b)²/sd² + the number of categories that differ), sd being that of the training rows. A
    row's distance is that to its nearest training row, and the bound is the 1 % quantile of the held-out rows' distances. The
    floor is the share of held-out rows within the bound: 0.01, or more where many rows are equal.

    >>> train, held_out = np.arange(100.0)[:, None], np.arange(100.0)[:, None] + 0.5
    >>> nearer_copies(train, train, held_out), nearer_copies(train, held_out + 200, held_out)
    ((1.0, 1.0), (0.0, 1.0))
    """
    parts = coded(train, synthetic, held_out, categorical=categorical)
    numbers = int((~parts.categorical).sum())
    wide = parts.one_hot()
    scale = np.full(wide[0].shape[1], np.sqrt(2))  # two levels that differ are at distance √2 in one-hot columns
    spread = wide[0][:, :numbers].std(axis=0)
    scale[:numbers] = np.where(spread > 0, spread, 1)
    near, ours, theirs = (part / scale for part in wide)
    ours, theirs = (pairwise_distances_argmin_min(rows, near)[1] for rows in (ours, theirs))
    bound = np.quantile(theirs, 0.01) + _ROUNDING
    return float((ours <= bound).mean()), float((theirs <= bound).mean())


def _columns(table: Any) -> dict[Any, Any]:
    """Its columns by name, or by number."""
    if hasattr(table, "iloc"):
        names = list(table.columns)
        if len(set(names)) < len(names):
            raise ValueError(f"several columns have one name in {names}: give them different names")
        columns = {name: table.iloc[:, j] for j, name in enumerate(names)}
    else:
        array = np.asarray(table, dtype=None if hasattr(table, "dtype") else object)
        if array.ndim != 2:
            raise ValueError(f"a table has rows and columns, and this has the shape {array.shape}")
        columns = {j: array[:, j] for j in range(array.shape[1])}
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError("a table is empty: metrics need rows and columns")
    return columns


def _holds_categories(column: Any) -> bool:
    if str(column.dtype) == "category":
        return True
    values = np.asarray(column)
    return (np.asarray(values.tolist()) if values.dtype.kind == "O" else values).dtype.kind not in "iuf"


def _levels(columns: list[Any]) -> list[np.ndarray]:
    """The number of every value's level, the most frequent first; whatever is missing is one level."""
    values = [[value if _is_there(value) else None for value in np.asarray(column).tolist()] for column in columns]
    counted = Counter(value for column in values for value in column)
    number = {level: j for j, (level, _) in enumerate(counted.most_common())}
    return [np.array([number[value] for value in column]) for column in values]


def _is_there(value: Any) -> bool:
    """Whether it equals itself: NaN does not, and of pandas' NA it is not known."""
    same = value == value
    return isinstance(same, bool | np.bool_) and bool(same)


def _numbers(column: Any, name: Any, missing: bool) -> np.ndarray:
    try:
        values = np.asarray(column).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} holds numbers in the first table, and not in another ({error})") from error
    wrong = np.isinf(values) if missing else ~np.isfinite(values)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"column {name!r} holds {values[row]} in row {row}: fill it, or make it a level of a category")
    return values


def _kolmogorov(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference of two distribution functions."""
    places = np.concatenate([a, b])
    first, second = (np.searchsorted(np.sort(x), places, side="right") / len(x) for x in (a, b))
    return float(np.abs(first - second).max())


def total_variation(a: np.ndarray, b: np.ndarray) -> float:
    """½ Σ |p − q| over the values.

    >>> total_variation(np.array([0, 0, 1, 2]), np.array([0, 0, 1, 1]))
    0.25
    """
    values, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    p, q = (np.bincount(part, minlength=len(values)) / len(part) for part in np.split(place, [len(a)]))
    return float(0.5 * np.abs(p - q).sum())


def _binned(real: np.ndarray, synthetic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In which of ten bins of equal width over the real range each value is; the outer two are open."""
    inner = np.histogram_bin_edges(real, BINS)[1:-1]
    return np.digitize(real, inner), np.digitize(synthetic, inner)


def _correlation_errors(real: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """|r − s| of every pair of columns that vary in the real table."""
    vary = np.ptp(real, axis=0) > 0
    above = np.triu_indices(int(vary.sum()), 1)
    r, s = (_correlations(x[:, vary])[above] for x in (real, synthetic))
    return np.abs(r - s)


def _correlations(x: np.ndarray) -> np.ndarray:
    """Pearson's, of every pair of columns; 0 where a column has one value."""
    vary = np.ptp(x, axis=0) > 0
    centred = np.where(vary, x - x.mean(axis=0), 0)
    length = np.where(vary, np.sqrt((centred**2).sum(axis=0)), 1)
    return (centred / length).T @ (centred / length)
