"""Metrics of wide sparse rows: CSR, of counts or of non-negative reals. Nothing of rows × columns is ever made dense.

Compare equal numbers of rows.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn import config_context
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import normalize
from sklearn.utils.sparsefuncs import mean_variance_axis

_ROUNDING = 1e-9
"""A distance that copies can have."""

BLOCK_MIB = 64
"""The most that a block of distances may take."""


def row_sparsity(x: sp.csr_matrix) -> np.ndarray:
    """The share of zeros in every row.

    >>> row_sparsity(sp.csr_matrix([[0, 3, 0, 1], [0, 0, 0, 0]]))
    array([0.5, 1. ])
    """
    return 1 - _filled_in_rows(x) / x.shape[1]


def row_totals(x: sp.csr_matrix) -> np.ndarray:
    """The sum of every row: a document's length, a cell's library size, the ℓ1 norm.

    >>> row_totals(sp.csr_matrix([[0, 3, 0, 1], [0, 0, 0, 0]]))
    array([4., 0.])
    """
    return np.asarray(x.sum(axis=1), dtype=np.float64).ravel()


def half_splits(rows: int, splits: int = 20, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random halves of so many rows, as row numbers in random order; the two are of one size, and an odd row is left out.

    >>> [(first, second)] = half_splits(5, splits=1)
    >>> len(first), len(second), len({*first, *second})
    (2, 2, 4)
    """
    shuffled = (np.random.default_rng([seed, split]).permutation(rows) for split in range(splits))
    half = rows // 2
    return [(order[:half], order[half : 2 * half]) for order in shuffled]


def marginals(a: sp.csr_matrix, b: sp.csr_matrix) -> dict[str, float]:
    """How well every column's mean, zero rate and variance in ``b`` agree with those in ``a``, the real rows.

    ``…_spearman`` is the correlation of the columns' ranks, and ``…_log_error`` the mean of |ln(value in b / value in a)|. So that
    a column of zeros counts, each value gets what half a non-zero would add to it: ½ · v/n to a mean and ½ · v²/n to a
    variance, with n the rows of ``a`` and v its mean non-zero. The zero rate, near one in most columns, enters the log-error
    as its odds, (zeros + ½)/(non-zeros + ½).

    >>> x = sp.csr_matrix([[0, 3, 0], [1, 0, 0]])
    >>> marginals(x, 2 * x)["zero_rate_log_error"]
    0.0
    """
    real, other = _column_statistics(a), _column_statistics(b)
    half = 0.5 / a.shape[0]
    value = a.sum() / max(a.count_nonzero(), 1) or 1.0

    def logs(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        odds = (columns["zero_rate"] + half) / (1 - columns["zero_rate"] + half)
        mean, variance = columns["mean"] + half * value, columns["variance"] + half * value**2
        return {"mean": np.log(mean), "zero_rate": np.log(odds), "variance": np.log(variance)}

    real_logs, other_logs = logs(real), logs(other)
    found = {}
    for name in real:
        # In float32, so that rounding does not order columns that are equal.
        ranks = (rankdata(columns[name].astype(np.float32)) for columns in (real, other))
        found[f"{name}_spearman"] = _correlation(*ranks)
        found[f"{name}_log_error"] = float(np.abs(other_logs[name] - real_logs[name]).mean())
    return found


def most_frequent(x: sp.csr_matrix, count: int = 300) -> np.ndarray:
    """The columns that are non-zero in the most rows, most frequent first; of equal ones the first.

    >>> most_frequent(sp.csr_matrix([[0, 9, 1], [2, 0, 1]]), count=2)
    array([2, 0])
    """
    return np.argsort(-_filled_in_columns(x), kind="stable")[:count]


def pmi(x: sp.csr_matrix, columns: np.ndarray, smoothing: float = 0.5) -> np.ndarray:
    """ln P(i and j) / (P(i) P(j)) of every pair i < j of the columns, where P is the share of rows that are non-zero there.

    The smoothing is added to every number of rows, so that a pair that never meets has a finite value.

    >>> x = sp.csr_matrix([[1, 2], [3, 1], [0, 0], [0, 0]])  # P(both) = P(first) = P(second) = 1/2
    >>> pmi(x, np.array([0, 1]), smoothing=0).round(4)  # ln 2
    array([0.6931])
    """
    present = sp.csr_matrix(x[:, columns] != 0, dtype=np.float64)
    together = (present.T @ present).toarray() + smoothing
    alone = np.diag(together)
    ratio = together * (x.shape[0] + smoothing) / np.outer(alone, alone)
    return np.log(ratio[np.triu_indices(len(columns), 1)])


def pmi_correlation(a: sp.csr_matrix, b: sp.csr_matrix, columns: np.ndarray) -> float:
    """The correlation over pairs of columns of their PMI in ``a`` and in ``b``: do the same words meet? 1 is perfect.

    ``columns`` are ``most_frequent`` of all the real rows. Rows whose columns are independent score about 0.
    """
    return _correlation(pmi(a, columns), pmi(b, columns))


def two_sample_auc(a: sp.csr_matrix, b: sp.csr_matrix, seed: int = 0, most: int = 4000) -> float:
    """How well gradient boosting tells rows of ``b`` from rows of ``a`` that it was not trained on: 0.5 is perfect, 1 is easily.

    It sees 30 SVD components of ln(1 + x) and each row's number of non-zeros, total and maximum. The AUC is the mean of a
    three-fold cross-validation, over at most ``most`` random rows of each.
    """
    rng = np.random.default_rng(seed)
    some = [x if x.shape[0] <= most else x[np.sort(rng.choice(x.shape[0], most, replace=False))] for x in (a, b)]
    x, side = sp.vstack(some, format="csr"), np.repeat([0, 1], [rows.shape[0] for rows in some])
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    boosting = HistGradientBoostingClassifier(random_state=seed)
    return float(cross_val_score(boosting, _row_features(x, seed), side, scoring="roc_auc", cv=folds).mean())


def synthetic_accuracy(
    train_x: sp.csr_matrix, train_y: np.ndarray, synthetic_x: sp.csr_matrix, test_x: sp.csr_matrix, test_y: np.ndarray
) -> tuple[float, float]:
    """The accuracy on real test rows of a classifier trained on synthetic rows, and of one trained on real rows.

    The synthetic rows have the labels that the second classifier gives them. So fresh real rows in their place score a little
    less than the second, and rows without any topics can score well where they are many and the columns few: read it beside
    what other rows score. The classifier is ridge regression on the normalised ln(1 + x).
    """
    train, synthetic, test = (normalised_logs(x) for x in (train_x, synthetic_x, test_x))
    theirs = RidgeClassifier(solver="sparse_cg").fit(train, train_y)
    ours = RidgeClassifier(solver="sparse_cg").fit(synthetic, theirs.predict(synthetic))
    return float(ours.score(test, test_y)), float(theirs.score(test, test_y))


def normalised_logs(x: sp.csr_matrix) -> sp.csr_matrix:
    """ln(1 + x), every row divided by its length √Σ: what linear classifiers see.

    >>> normalised_logs(sp.csr_matrix([[0, 3, 3], [0, 7, 0]])).toarray().round(4)
    array([[0.    , 0.7071, 0.7071],
           [0.    , 1.    , 0.    ]])
    """
    return normalize(_log1p(x))


def nearest(train: sp.csr_matrix, rows: sp.csr_matrix) -> np.ndarray:
    """The cosine distance of every row from its nearest training row, on ln(1 + x); empty rows are left out on both sides.

    >>> nearest(sp.csr_matrix([[2, 0], [0, 5]]), sp.csr_matrix([[0, 5], [0, 0], [1, 1]])).round(4)  # a copy, empty, between
    array([0.    , 0.2929])
    """
    train, rows = (_log1p(x)[_filled_in_rows(x) > 0] for x in (train, rows))
    if rows.shape[0] == 0 or train.shape[0] == 0:
        return np.full(rows.shape[0], np.nan)
    with config_context(working_memory=BLOCK_MIB):
        return pairwise_distances_argmin_min(rows, train, metric="cosine")[1]


def copies(train: sp.csr_matrix, held_out: sp.csr_matrix, generated: sp.csr_matrix) -> dict[str, float]:
    """How near generated rows come to training rows, beside held-out real ones.

    ``copy_ratio`` is the median ``nearest`` distance of generated rows over that of held-out ones: about 1 is good, near 0 is
    copying. ``copy_share`` is the share of generated rows that are as near as the nearest 1 % of held-out ones: about 0.01 is good,
    and a few copies are seen. Either is not a number where it is not defined, as of empty rows.

    >>> train, held_out = sp.csr_matrix([[2, 0], [0, 5]]), sp.csr_matrix([[1, 1]])
    >>> copies(train, held_out, train)
    {'copy_ratio': 0.0, 'copy_share': 1.0}
    """
    ours, theirs = nearest(train, generated), nearest(train, held_out)
    if len(ours) == 0 or len(theirs) == 0 or np.isnan(theirs).any():
        return {"copy_ratio": float("nan"), "copy_share": float("nan")}
    ratio = float(np.median(ours) / np.median(theirs)) if np.median(theirs) else float("nan")
    return {"copy_ratio": ratio, "copy_share": float((ours <= np.quantile(theirs, 0.01) + _ROUNDING).mean())}


def _filled_in_rows(x: sp.csr_matrix) -> np.ndarray:
    return np.diff(sp.csr_matrix(x != 0).indptr)


def _filled_in_columns(x: sp.csr_matrix) -> np.ndarray:
    x = sp.csr_matrix(x)
    return np.bincount(x.indices[x.data != 0], minlength=x.shape[1])


def _column_statistics(x: sp.csr_matrix) -> dict[str, np.ndarray]:
    mean, variance = mean_variance_axis(sp.csr_matrix(x, dtype=np.float64), axis=0)
    return {"mean": mean, "zero_rate": 1 - _filled_in_columns(x) / x.shape[0], "variance": variance}


def _correlation(u: np.ndarray, v: np.ndarray) -> float:
    """Pearson's; a constant tells nothing of the other, and scores 0."""
    return float(np.corrcoef(u, v)[0, 1]) if np.ptp(u) > 0 and np.ptp(v) > 0 else 0.0


def _log1p(x: sp.csr_matrix) -> sp.csr_matrix:
    return sp.csr_matrix(x, dtype=np.float64).log1p()


def _row_features(x: sp.csr_matrix, seed: int) -> np.ndarray:
    """(rows, up to 33): what the two-sample classifier sees."""
    logs = _log1p(x)[:, _filled_in_columns(x) > 0]  # an empty column would only cost memory
    projected = logs.toarray() if logs.shape[1] <= 30 else TruncatedSVD(30, random_state=seed).fit_transform(logs)
    sizes = np.log1p(row_totals(x)), np.log1p(x.max(axis=1).toarray())
    return np.column_stack([projected, _filled_in_rows(x), *sizes])
