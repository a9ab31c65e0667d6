"""Which rows an update sees."""

from __future__ import annotations

import numpy as np


class Batches:
    """The rows of every update, a function of (seed, update, stage): each epoch visits every row once, in a fresh order.

    With ``strata`` (one number per row) every batch holds one row of each of ``size`` strata of that number: batches look like the
    data, and the gradient has less noise.

    >>> sorted(np.concatenate([Batches(4, 2, key=(0, 0)).rows(update) for update in (0, 1)]).tolist())
    [0, 1, 2, 3]
    """

    def __init__(self, count: int, size: int, key: tuple[int, int], strata: np.ndarray | None = None) -> None:
        """``key`` is (seed, stage)."""
        self.count, self.size, self.key = count, min(size, count), key
        self.per_epoch = count // self.size
        self.sorted = np.arange(count) if strata is None else np.argsort(strata, kind="stable")
        self.epoch, self.batches = -1, np.empty((0, 0), dtype=np.int64)

    def rows(self, update: int) -> np.ndarray:
        """Those of an update, counted from zero."""
        epoch, place = divmod(update, self.per_epoch)
        if epoch != self.epoch:
            generator = np.random.default_rng([self.key[0], epoch, self.key[1]])
            kept = np.sort(generator.permutation(self.count)[: self.size * self.per_epoch])
            self.batches = generator.permuted(self.sorted[kept].reshape(self.size, self.per_epoch), axis=1)
            self.epoch = epoch
        return self.batches[:, place]
