"""Metrics of single columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import wasserstein_distance


def w1(real: np.ndarray, synthetic: np.ndarray) -> float:
    """∫ |P − Q|; for samples of one size, ‖sort(x) − sort(y)‖₁/n (the paper's section 4.1).

    >>> w1(np.array([0.0, 2.0]), np.array([3.0, 1.0]))
    1.0
    """
    real, synthetic = np.ravel(real).astype(np.float64), np.ravel(synthetic).astype(np.float64)
    if len(real) == len(synthetic):
        return float(np.abs(np.sort(real) - np.sort(synthetic)).mean())
    return float(wasserstein_distance(real, synthetic))


def floor(draw: Callable[[np.random.Generator], np.ndarray], pairs: int, seed: int = 0) -> np.ndarray:
    """The W1 of each of ``pairs`` pairs of fresh true samples: what a perfect model would score.

    >>> floor(lambda generator: generator.random(1000), pairs=3).shape
    (3,)
    """
    generators = (np.random.default_rng([seed, pair]) for pair in range(pairs))
    return np.array([w1(draw(generator), draw(generator)) for generator in generators])
