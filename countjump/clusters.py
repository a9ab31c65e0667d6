"""Clusters: groups of pictures that are alike, by k-means. A model is given the group as it is given a label, and draws it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST, EACH, FEWEST = 30, 40, 1000
"""Groups that "auto" makes at most, pictures of each on average at least, and the pictures from which on it makes some."""

MOST_SEEN = 20_000  # rows, chosen at random, from which the centres are found


@dataclass(frozen=True)
class Clusters:
    """A row belongs to the nearest of the ``centres`` (K, D).

    >>> clusters = Clusters.find(np.array([[0.0], [1.0], [9.0], [8.0]]), 2, seed=0)
    >>> numbers = clusters.numbers(np.array([[0.2], [8.6], [7.0]]))
    >>> bool(numbers[1] == numbers[2] != numbers[0])
    True
    """

    centres: np.ndarray

    @classmethod
    def find(cls, rows: np.ndarray, count: int, seed: int) -> Clusters:
        """At most so many, by k-means, each with some of the rows."""
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        order = np.random.default_rng([seed, 4]).permutation(len(rows))[:MOST_SEEN]
        some = rows[np.sort(order)].astype(np.float64)
        count = min(count, len(np.unique(some, axis=0)))
        with threadpool_limits(1):  # several threads add up in an order of their own
            found = KMeans(count, n_init=1, random_state=seed % 2**32).fit(some)
        clusters = cls(found.cluster_centers_.astype(np.float32))
        return cls(clusters.centres[np.unique(clusters.numbers(rows))])

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """That of the cluster (n,) of every row (n, D). It does not depend on the other rows."""
        distances = [np.square(rows - centre).sum(1) for centre in self.centres.astype(np.float64)]
        return np.argmin(distances, axis=0)


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
        raise ValueError(f"clusters={asked}: they stand in for labels, and y was given: leave clusters=None")
    if int(asked) > rows:
        raise ValueError(f"clusters={asked} of {rows} pictures: ask for fewer")
    return int(asked)
