"""Whether synthetic rows are copies of real ones, and whether they give away who was in the training rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom, fisher_exact, rankdata
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.random_projection import SparseRandomProjection

from countjump.metrics.reading import Table
from countjump.metrics.wide import normalised_logs

PROJECTED = 256
"""Wide rows are projected at random on so many dimensions, which keeps distances to some per cent and those of copies at 0."""

MOST_LEVELS = 50
"""Rarer levels of a category are alike to the distance."""

_CHUNK = 4000


@dataclass(frozen=True)
class Excess:
    """How many of some rows are near, and of others, where they differ the most."""

    share: float
    usual: float
    p_value: float


def copied(train: Table, rows: Table) -> np.ndarray:
    """Of every row, whether it equals a training row in all columns.

    >>> from countjump.metrics.reading import read
    >>> found = read(np.eye(20), np.vstack([np.eye(20)[:5], np.full((15, 20), 2)]))
    >>> int(copied(found.real, found.synthetic).sum())
    5
    """
    known = set(_fingerprints(train))
    return np.array([each in known for each in _fingerprints(rows)])


def repeated(train: Table, rows: np.ndarray) -> np.ndarray:
    """Of some training rows, whether another one equals it."""
    prints = list(_fingerprints(train))
    seen: dict[int, int] = {}
    for each in prints:
        seen[each] = seen.get(each, 0) + 1
    return np.array([seen[prints[row]] > 1 for row in rows])


class Distances:
    """√(Σ over numbers of (a − b)²/sd² + the categories that differ), or for wide rows, the angle between their ln(1 + x)."""

    def __init__(self, train: Table, seed: int = 0) -> None:
        self.columns = train.columns
        if train.wide:
            width = len(train.columns)
            self.projection = None
            if width > PROJECTED:
                self.projection = SparseRandomProjection(PROJECTED, random_state=seed, dense_output=True)
                self.projection.fit(sp.csr_matrix((1, width), dtype=np.float32))
            return
        numbers = ~train.categorical
        values = train.values[:, numbers]
        self.centre = np.nan_to_num(_safely(np.nanmean, values))
        spread = np.nan_to_num(_safely(np.nanstd, values))
        self.spread = np.where(spread > 0, spread, 1)

    def place(self, table: Table) -> np.ndarray:
        """The rows as points."""
        if table.wide:
            return np.vstack([self._project(table.values[i : i + _CHUNK]) for i in range(0, len(table), _CHUNK)])
        numbers, values = ~table.categorical, table.values
        gone = np.isnan(values)
        parts = [np.where(gone[:, numbers], 0, (values[:, numbers] - self.centre) / self.spread), gone[:, numbers]]
        for j in np.flatnonzero(~numbers):
            level = np.where(gone[:, j], 0, np.minimum(np.nan_to_num(values[:, j]) + 1, MOST_LEVELS)).astype(int)
            parts.append(np.eye(min(len(self.columns[j].levels), MOST_LEVELS) + 1)[level] / np.sqrt(2))
        return np.hstack(parts).astype(np.float32)

    def _project(self, rows: sp.csr_matrix) -> np.ndarray:
        logs = normalised_logs(rows).astype(np.float32)
        return logs.toarray() if self.projection is None else self.projection.transform(logs).astype(np.float32)


def nearest_distances(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The distance of every row from the nearest of the others."""
    place, far = pairwise_distances_argmin_min(rows, others)
    # The fast formula loses small distances to rounding: they are worked out again.
    return np.where(far < 0.5, np.sqrt(((rows - others[place]) ** 2).sum(axis=1)), far).astype(np.float64)


def nearest_other(points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The distance of some of the points from the nearest other point."""
    found = np.full(len(rows), np.inf)
    for begin in range(0, len(rows), 500):
        mine = rows[begin : begin + 500]
        squares = (points**2).sum(axis=1) - 2 * points[mine] @ points.T
        squares[np.arange(len(mine)), mine] = np.inf
        place = squares.argmin(axis=1)
        found[begin : begin + 500] = np.sqrt(((points[mine] - points[place]) ** 2).sum(axis=1))
    return found


def nearer(ours: np.ndarray, usual: np.ndarray) -> Excess:
    """Whether more of our distances are small than of the usual ones: the bound, of several, at which it is least by chance.

    Few usual distances cannot show that a very small one is improbable. Where they are continuous, their lower tail is extended as
    that of points in m dimensions, P(distance ≤ d) ∝ d^m.

    >>> rng = np.random.default_rng(0)
    >>> nearer(np.concatenate([rng.random(90) + 1, np.full(10, 0.01)]), rng.random(100) + 1).share
    0.1
    """
    low = float(np.quantile(usual, 0.01))
    found = []
    for bound in (1e-6, 0.25 * low, low, float(np.quantile(usual, 0.05))):
        hits, misses = int((ours <= bound + 1e-6).sum()), int((usual <= bound + 1e-6).sum())
        table = [[hits, len(ours) - hits], [misses, len(usual) - misses]]
        p_value = float(fisher_exact(table, alternative="greater").pvalue)
        if hits >= max(4, 0.02 * len(ours)):
            p_value = min(p_value, float(binom.sf(hits - 1, len(ours), _tail(usual, bound))))
        found.append(Excess(hits / len(ours), misses / len(usual), p_value))
    return min(found, key=lambda each: each.p_value)


def _tail(usual: np.ndarray, bound: float) -> float:
    """The probability of a distance up to the bound, from the smallest fifth of the usual ones; 1 where that is not known."""
    cut = float(np.quantile(usual, 0.2))
    small = usual[usual <= cut]
    different = len(np.unique(small.round(6)))  # two rows that are nearest to each other have one distance
    if bound >= 0.5 * cut or small.min() <= 1e-6 or different < 0.45 * len(small):
        return 1.0
    dimensions = min(1 / max(float(np.log(cut / small).mean()), 1e-9), 8.0)
    return float(0.2 * (max(bound, 1e-6) / cut) ** dimensions) + 1 / (10 * len(usual))


def membership_auc(members: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """How well a small distance tells members from others, and the standard error of that where there is nothing to tell.

    >>> membership_auc(np.array([0.0, 0.1]), np.array([0.5, 0.6]))[0]
    1.0
    """
    m, n = len(members), len(others)
    ranks = rankdata(np.concatenate([members, others]))
    auc = 1 - (ranks[:m].sum() - m * (m + 1) / 2) / (m * n)
    return float(auc), float(np.sqrt((m + n + 1) / (12 * m * n)))


def _safely(function: object, values: np.ndarray) -> np.ndarray:
    """A statistic of the columns; NaN for one that is all missing, without a warning."""
    empty = np.isnan(values).all(axis=0)
    return np.where(empty, np.nan, function(np.where(empty, 0, values), axis=0))  # type: ignore[operator]


def _fingerprints(table: Table) -> Iterator[int]:
    if not table.wide:
        values = np.ascontiguousarray(np.nan_to_num(table.values, nan=np.inf) + 0.0)  # -0.0 is 0.0
        yield from (hash(row.tobytes()) for row in values)
        return
    x = table.values
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    plain = not (x.data == 0).any()
    for begin, end in zip(x.indptr[:-1], x.indptr[1:], strict=True):
        data, places = x.data[begin:end], x.indices[begin:end]
        if not plain:
            data, places = data[data != 0], places[data != 0]
        yield hash((data.astype(np.float64).tobytes(), places.astype(np.int64).tobytes()))
