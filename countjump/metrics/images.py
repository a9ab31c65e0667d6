"""Distances between two groups of images, from their features: (real, synthetic) → numbers.

Features are rows of numbers (n, d) that ``metrics.features`` makes. A distance is named for what it is: the Fréchet distance is
called FID only where the features are the Inception network's. Compare distances at equal numbers of images alone, and beside their
floor, the distance between two groups of real images of that size: the Fréchet distance of few images is far above zero.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import svdvals
from scipy.spatial.distance import cdist

NEIGHBOURS = 5
"""The neighbours of precision, recall, density and coverage (Naeem et al. 2020)."""

AT_ONCE = 2048
"""Rows of a matrix of kernels or distances that are there at once."""


def frechet_distance(real: np.ndarray, synthetic: np.ndarray) -> float:
    """‖μ − ν‖² + tr(S + T − 2 (S T)^½), of the means μ, ν and covariances S, T of both groups (Heusel et al. 2017).

    The trace of the root is the sum of the singular values of C Dᵀ, where S = CᵀC and T = DᵀD: no root of a matrix that is nearly
    singular is taken, and fewer images than features are no trouble.

    >>> frechet_distance(np.array([[0.0], [2.0]]), np.array([[3.0], [5.0]]))
    9.0
    """
    x, y = _pair(real, synthetic)
    mean = x.mean(0) - y.mean(0)
    roots = [_root(each) for each in (x, y)]
    traces = sum(float((root**2).sum()) for root in roots)
    return max(float(mean @ mean) + traces - 2 * float(svdvals(roots[0] @ roots[1].T).sum()), 0.0)


def _root(x: np.ndarray) -> np.ndarray:
    """C with CᵀC = the covariance of the rows of x, of as few rows as it can have."""
    centred = (x - x.mean(0)) / np.sqrt(len(x) - 1)
    return np.asarray(np.linalg.qr(centred, mode="r")) if len(x) > x.shape[1] else centred


def kernel_distance(real: np.ndarray, synthetic: np.ndarray) -> float:
    """The squared maximum mean discrepancy for the kernel (xᵀy/d + 1)³, unbiased (KID, Bińkowski et al. 2018).

    Its mean is zero where both groups have one law, however few images there are, so it can be negative. All pairs are used, where
    the paper averages over subsets: the same mean, and a smaller variance.

    >>> kernel_distance(np.array([[1.0], [1.0]]), np.array([[1.0], [1.0]]))
    0.0
    """
    x, y = _pair(real, synthetic)
    return _pairs_mean(x, x, True) + _pairs_mean(y, y, True) - 2 * _pairs_mean(x, y, False)


def _pairs_mean(x: np.ndarray, y: np.ndarray, apart: bool) -> float:
    """The mean kernel of a row of x and one of y; of different rows, where x and y are the same and ``apart`` is set."""
    total = 0.0
    for start in range(0, len(x), AT_ONCE):
        total += float(((x[start : start + AT_ONCE] @ y.T / x.shape[1] + 1) ** 3).sum())
    if not apart:
        return total / (len(x) * len(y))
    return (total - float((((x**2).sum(1) / x.shape[1] + 1) ** 3).sum())) / (len(x) * (len(x) - 1))


def neighbourhoods(real: np.ndarray, synthetic: np.ndarray, neighbours: int = NEIGHBOURS) -> dict[str, float]:
    """Precision, recall (Kynkäänniemi et al. 2019), density and coverage (Naeem et al. 2020).

    A ball around an image reaches to its k-th nearest neighbour of its own group. Precision is the share of the generated images in
    some real ball, recall that of the real ones in some generated ball, density the mean number of real balls around a generated
    image, over k, and coverage the share of the real balls that hold a generated image. What two real groups score is their floor:
    for precision and recall far below 1.

    >>> x = np.arange(6.0)[:, None]
    >>> neighbourhoods(x, x, neighbours=2)
    {'precision': 1.0, 'recall': 1.0, 'density': 1.5, 'coverage': 1.0}
    """
    x, y = _pair(real, synthetic)
    if min(len(x), len(y)) <= neighbours:
        raise ValueError(f"{len(x)} and {len(y)} images are too few for {neighbours} neighbours: more are needed")
    of_x, of_y = _radii(x, neighbours), _radii(y, neighbours)
    held, recalled, covered = np.zeros(len(y), dtype=np.int64), 0, 0
    for start in range(0, len(x), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        distance = cdist(x[some], y)
        in_real = distance <= of_x[some, None]
        held += in_real.sum(0)
        covered += int(in_real.any(1).sum())
        recalled += int((distance <= of_y).any(1).sum())
    return {
        "precision": float((held > 0).mean()),
        "recall": recalled / len(x),
        "density": float(held.mean()) / neighbours,
        "coverage": covered / len(x),
    }


def _radii(x: np.ndarray, neighbours: int) -> np.ndarray:
    """The distance of every row to its k-th nearest other row."""
    parts = [cdist(x[start : start + AT_ONCE], x) for start in range(0, len(x), AT_ONCE)]
    return np.concatenate([np.partition(part, neighbours, axis=1)[:, neighbours] for part in parts])


def inception_score(probabilities: np.ndarray) -> float:
    """exp E[KL(p(y given x) ‖ p(y))] of a classifier's probabilities (n, classes) of generated images (Salimans et al. 2016).

    It is the Inception score where the classifier is the Inception network; here it says which one it was.

    >>> round(inception_score(np.eye(4)), 6)
    4.0
    """
    p = np.asarray(probabilities, dtype=np.float64)
    logs = np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(p.mean(0), 1e-300))
    return float(np.exp((p * logs).sum(1).mean()))


def _pair(real: np.ndarray, synthetic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64, or an error that says what does not fit."""
    x, y = (np.asarray(each, dtype=np.float64) for each in (real, synthetic))
    for name, each in (("real", x), ("synthetic", y)):
        if each.ndim != 2 or len(each) < 2:
            raise ValueError(f"{name} features have the shape {each.shape}: two rows or more of numbers are needed")
        if not np.isfinite(each).all():
            raise ValueError(f"{name} features hold a number that is not finite: look at the images")
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"real features are {x.shape[1]} numbers, synthetic ones {y.shape[1]}: use one network")
    return x, y
