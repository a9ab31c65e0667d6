"""Whether rows can be told from others, by which columns, and where they lie."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split

from countjump.metrics import tables, wide
from countjump.metrics.reading import Table
from countjump.metrics.safety import Distances


def detection_auc(a: Table, b: Table, seed: int = 0, folds: int = 3) -> float:
    """How well gradient boosting tells rows of ``b`` from rows of ``a``: the two-sample AUC of tables or of wide rows."""
    if a.wide:
        return wide.two_sample_auc(a.values, b.values, seed=seed)
    categorical = np.flatnonzero(a.categorical).tolist()
    return tables.two_sample_auc(a.values, b.values, categorical, seed=seed, folds=folds, missing=True)


def given_away(a: Table, b: Table, seed: int = 0) -> np.ndarray:
    """Per column, how much it helps to tell the tables apart.

    Of a table: what the AUC of gradient boosting loses on rows not seen in training when the column is shuffled. Of wide rows:
    the column's share of what a linear classifier on ln(1 + x) finds between the two.
    """
    side = np.repeat([0, 1], [len(a), len(b)])
    if a.wide:
        return _linear_shares(sp.csr_matrix(sp.vstack([a.values, b.values])), side)
    x = tables.for_boosting(np.vstack([a.values, b.values]), a.categorical)
    train_x, test_x, train_y, test_y = train_test_split(x, side, test_size=0.4, stratify=side, random_state=seed)
    boosting = HistGradientBoostingClassifier(categorical_features=a.categorical, random_state=seed, max_iter=60)
    boosting.fit(train_x, train_y)
    found = permutation_importance(boosting, test_x, test_y, scoring="roc_auc", n_repeats=3, random_state=seed)
    return found.importances_mean


def _linear_shares(x: sp.csr_matrix, side: np.ndarray) -> np.ndarray:
    logs = wide.normalised_logs(x)
    weight = RidgeClassifier(solver="sparse_cg").fit(logs, side).coef_.ravel()
    between = [np.asarray(logs[side == each].mean(axis=0)).ravel() for each in (0, 1)]
    parts = weight * (between[1] - between[0])
    return parts / max(float(parts.sum()), 1e-12)


def projection(real: Table, synthetic: Table, seed: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    """Both tables on the two principal components of the real one, and the share of its variance that they have.

    >>> from countjump.metrics.reading import read
    >>> both = read(np.arange(40.0).reshape(20, 2) ** 2, np.ones((20, 2)))
    >>> [part.shape for part in projection(both.real, both.synthetic)[:2]]
    [(20, 2), (20, 2)]
    """
    if real.wide:
        x, y = (wide.normalised_logs(table.values) for table in (real, synthetic))
        judge = TruncatedSVD(2, random_state=seed)
    else:
        distances = Distances(real)
        x, y = (np.clip(distances.place(table).astype(np.float64), -4, 4) for table in (real, synthetic))
        if x.shape[1] < 2:
            x, y = (np.hstack([part, np.zeros_like(part)]) for part in (x, y))
        judge = PCA(2, random_state=seed)
    first = judge.fit_transform(x)
    with np.errstate(invalid="ignore", divide="ignore"):  # of a table without any variance
        share = float(np.nan_to_num(judge.explained_variance_ratio_.sum()))
    return first, judge.transform(y), share
