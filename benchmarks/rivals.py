"""Three plain ways to make rows like those of a DataFrame, to stand beside a model in ``benchmarks/tables.py``.

Each has ``fit(frame)`` and ``sample(rows)``, and no setting but the seed. A column of strings is one of categories.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

LEAF = 5
"""The fewest rows of a leaf."""


class Columns:
    """Every column is drawn from its own values, apart from the others."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def fit(self, frame: pd.DataFrame) -> Self:
        self.frame = frame
        return self

    def sample(self, rows: int) -> pd.DataFrame:
        draw = lambda name: self.frame[name].array[self.rng.integers(len(self.frame), size=rows)]  # noqa: E731
        return pd.DataFrame({name: draw(name) for name in self.frame})


class Copula:
    """A Gaussian copula with the empirical margins.

    A value becomes a number that is uniform between the shares of rows below it and up to it, and that number a normal score;
    the scores have a joint normal law. So the values may be tied, and categories are in the order of their names.
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def fit(self, frame: pd.DataFrame) -> Self:
        self.ordered = {name: frame[name].sort_values(kind="stable").array for name in frame}
        scores = np.empty(frame.shape)
        for j, name in enumerate(frame):
            _, place, count = np.unique(frame[name].to_numpy(), return_inverse=True, return_counts=True)
            below = (np.cumsum(count) - count)[place]
            scores[:, j] = ndtri((below + count[place] * self.rng.uniform(1e-9, 1 - 1e-9, len(frame))) / len(frame))
        self.correlations = np.atleast_2d(np.corrcoef(scores.T))
        return self

    def sample(self, rows: int) -> pd.DataFrame:
        size = len(self.correlations)
        scores = self.rng.multivariate_normal(np.zeros(size), self.correlations, rows, method="eigh")
        columns = zip(self.ordered.items(), ndtr(scores).T, strict=True)
        return pd.DataFrame({name: values[(u * len(values)).astype(int)] for (name, values), u in columns})


class Cart:
    """The first column is drawn from its values, each other one from a leaf of a tree that predicts it by those before it."""

    def __init__(self, seed: int = 0) -> None:
        self.rng, self.seed = np.random.default_rng(seed), seed

    def fit(self, frame: pd.DataFrame) -> Self:
        self.frame, self.trees, self.leaves = frame, {}, {}
        seen = self._seen(frame)
        for j, name in enumerate(frame):
            if j > 0:
                kind = DecisionTreeRegressor if _is_number(frame[name]) else DecisionTreeClassifier
                before = np.hstack(seen[:j])
                tree = kind(min_samples_leaf=LEAF, random_state=self.seed).fit(before, frame[name].to_numpy())
                self.trees[name], self.leaves[name] = tree, tree.apply(before)
        return self

    def sample(self, rows: int) -> pd.DataFrame:
        made: dict[str, pd.Series] = {}
        for name, values in self.frame.items():
            if not made:
                chosen = self.rng.integers(len(values), size=rows)
            else:
                leaf = self.trees[name].apply(np.hstack(self._seen(made)))
                order = np.argsort(self.leaves[name], kind="stable")
                ends = [np.searchsorted(self.leaves[name][order], leaf, side) for side in ("left", "right")]
                chosen = order[self.rng.integers(*ends)]
            made[name] = values.take(chosen).reset_index(drop=True)
        return pd.DataFrame(made)

    def _seen(self, columns: pd.DataFrame | dict[str, pd.Series]) -> list[np.ndarray]:
        """What a tree sees of each column: a number, or 0 and 1 for every level of a category."""
        found = []
        for name, column in columns.items():
            values = column.to_numpy()[:, None]
            found.append(values if _is_number(column) else values == np.unique(self.frame[name].to_numpy()))
        return [each.astype(np.float32) for each in found]


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column)


RIVALS = {"columns": Columns, "copula": Copula, "cart": Cart}
