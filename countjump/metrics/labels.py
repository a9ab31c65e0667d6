"""The usefulness of generated rows with labels."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge, RidgeClassifier

from countjump.metrics.tables import coded
from countjump.metrics.wide import normalised_logs


def label_usefulness(
    train_x: Any,
    train_y: Any,
    synthetic_x: Any,
    synthetic_y: Any,
    test_x: Any,
    test_y: Any,
    categorical: Collection[Any] | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """The accuracy on test rows of a classifier trained on generated rows with their own labels, over one trained on real rows.

    ``synthetic`` and ``real`` are the two accuracies, ``ratio`` is the first over the second: 1 is as useful as real rows. Both
    classifiers are trained on as many rows. Wide sparse rows are judged by ridge regression on the normalised ln(1 + x), tables
    by a random forest of 200 trees, for which categories are one-hot.

    >>> x, y = np.arange(40.0)[:, None], np.repeat(["low", "high"], 20)
    >>> label_usefulness(x, y, x, y[::-1], x, y)
    {'synthetic': 0.0, 'real': 1.0, 'ratio': 0.0}
    """
    rows = {"train": (train_x, train_y), "synthetic": (synthetic_x, synthetic_y), "test": (test_x, test_y)}
    for name, (x, y) in rows.items():
        if _length(x) != len(y):
            raise ValueError(f"there are {_length(x)} rows and {len(y)} labels in {name}: give a label to every row")
    if len(train_y) != len(synthetic_y):
        there = f"there are {len(train_y)} real and {len(synthetic_y)} generated rows"
        raise ValueError(f"{there}: train on as many of each")
    tables = [x for x, _ in rows.values()]
    if all(sp.issparse(table) for table in tables):
        train, synthetic, test = (normalised_logs(table) for table in tables)
    else:
        train, synthetic, test = coded(*tables, categorical=categorical).one_hot()
    ours = accuracy(synthetic, np.asarray(synthetic_y), test, np.asarray(test_y), seed)
    theirs = accuracy(train, np.asarray(train_y), test, np.asarray(test_y), seed)
    return {"synthetic": ours, "real": theirs, "ratio": ours / theirs if theirs else float("nan")}


def _length(x: Any) -> int:
    return x.shape[0] if hasattr(x, "shape") else len(x)


def accuracy(x: Any, y: np.ndarray, test_x: Any, test_y: np.ndarray, seed: int, trees: int = 200) -> float:
    """Of a classifier trained on x and y, on the test rows."""
    if len(np.unique(y)) == 1:  # not every classifier takes one class
        return float((test_y == y[0]).mean())
    judge = RidgeClassifier(solver="sparse_cg") if sp.issparse(x) else RandomForestClassifier(trees, random_state=seed)
    return float(judge.fit(x, y).score(test_x, test_y))


def r_squared(x: Any, y: np.ndarray, test_x: Any, test_y: np.ndarray, seed: int, trees: int = 200) -> float:
    """The share of the variance of the test rows' numbers that a regression trained on x and y explains; it can be negative."""
    forest = RandomForestRegressor(trees, max_features=1 / 3, min_samples_leaf=2, random_state=seed)
    judge = Ridge(solver="sparse_cg") if sp.issparse(x) else forest
    return float(judge.fit(x, y).score(test_x, test_y))
