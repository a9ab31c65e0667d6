"""Clusters: groups of pictures that are alike, by k-means. A model is given the group as it is given a label, and draws it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST, EACH, FEWEST = 30, 40, 1000
"""Groups that "auto" makes at most, pictures of each on average at least, and the pictures from which on it makes some."""

MOST_SEEN = 20_000  # rows, chosen at random, from which the centres are found
ENTRIES = 2**20  # of rows whose distances are worked out together


@dataclass(frozen=True)
class Clusters:
    """A row belongs to the nearest of the ``centres`` (K, D).

    >>> clusters, _ = Clusters.find(np.array([[0.0], [1.0], [9.0], [8.0]]), 2, seed=0)
    >>> numbers = clusters.numbers(np.array([[0.2], [8.6], [7.0]]))
    >>> bool(numbers[1] == numbers[2] != numbers[0])
    True
    """

    centres: np.ndarray

    @classmethod
    def find(cls, rows: np.ndarray, count: int, seed: int) -> tuple[Clusters, np.ndarray]:
        """Clusters by k-means, ``count`` or, where rows are equal, fewer; and those of the rows. None is empty."""
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        order = np.random.default_rng([seed, 4]).permutation(len(rows))[:MOST_SEEN]
        some = rows[np.sort(order)].astype(np.float64)
        count = min(count, len(np.unique(some, axis=0)))
        with threadpool_limits(1):  # several threads add up in an order of their own
            found = KMeans(count, n_init=1, random_state=seed % 2**32).fit(some)
        centres = found.cluster_centers_.astype(np.float32)
        used, numbers = np.unique(cls(centres).numbers(rows), return_inverse=True)
        return cls(centres[used]), numbers

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """That of the cluster (n,) of every row (n, D). It does not depend on the other rows."""
        numbers, at_once = np.empty(len(rows), dtype=np.int64), max(ENTRIES // rows.shape[1], 1)
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once].astype(np.float64)
            distances = [np.square(some - centre).sum(1) for centre in self.centres.astype(np.float64)]
            numbers[start : start + at_once] = np.argmin(distances, axis=0)
        return numbers


def how_many(asked: int | str | None, rows: int, pictures: bool, labelled: bool) -> int:
    """How many clusters a fit finds, 0 for none; rows that are ``labelled`` have none.

    >>> how_many("auto", 60_000, True, False), how_many("auto", 1200, True, False), how_many("auto", 500, True, False)
    (30, 30, 0)
    """
    if asked is None:
        return 0
    if asked == "auto":
        return min(MOST, rows // EACH) if pictures and not labelled and rows >= FEWEST else 0
    if not pictures:
        raise ValueError(f"clusters={asked}: only pictures, X of three or four dimensions, are put into clusters")
    if labelled:
        raise ValueError(f"clusters={asked}: they stand in for labels, and y was given: leave clusters='auto'")
    if int(asked) > rows:
        raise ValueError(f"clusters={asked} of {rows} pictures: ask for fewer")
    return int(asked)
