"""What is known before training: of a column, a mixture of Gammas fitted by EM; of many, the directions in which rows differ."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma, gammaln, zeta

BINS = 512
ROUNDS = 300

SPARE, PASSES = 10, 5  # of the search for directions: more than are asked for, and passes over the rows
OFTEN = 30  # rows in which a column is not zero, from which on it counts fully
SMALLEST = 1e-150  # a mean of a Gamma, of which the square is still a number
_STEEPEST = 2.0  # the largest change of a column's logarithm along a direction


def gamma_mixture(value: np.ndarray, components: int, counts: bool = False, rounds: int = ROUNDS) -> np.ndarray:
    """Weights, shapes and means (3, K) of a mixture of Gammas fitted to positive numbers, or to the rates behind ``counts``.

    Numbers are binned by their logarithm, so that tails keep their resolution, and a component starts in every stretch of it, so
    that a heavy tail has its own. A count is Poisson given its rate: the fitted law of counts is a mixture of negative binomials.

    >>> x = np.random.default_rng(0).gamma(3.0, 2.0, 5000)
    >>> gamma_mixture(x, 1).ravel().round(1)
    array([1. , 3. , 6.1])
    >>> gamma_mixture(np.random.default_rng(0).poisson(x), 1, counts=True).ravel().round(1)
    array([1. , 3. , 6.1])
    """
    value = value if counts else np.maximum(value, SMALLEST)
    x, log_x, count = _binned(value, counts)
    low, high = np.log(max(np.quantile(value, 0.02), 0.5 if counts else 0)), np.log(value.max())
    weights, shapes = np.full(components, 1 / components), np.ones(components)
    means = np.exp(low + (high - low) * (np.arange(components) + 0.5) / components)
    for _ in range(rounds):
        rate = shapes / means
        if counts:
            log_p = gammaln(x[:, None] + shapes) - gammaln(shapes) + shapes * np.log(rate)
            log_p = log_p - (x[:, None] + shapes) * np.log1p(rate)
            seen, log_seen = (x[:, None] + shapes) / (1 + rate), digamma(x[:, None] + shapes) - np.log1p(rate)
        else:
            log_p = shapes * np.log(rate) - gammaln(shapes) + (shapes - 1) * log_x[:, None] - rate * x[:, None]
            seen, log_seen = x[:, None], log_x[:, None]
        log_p = log_p + np.log(weights)
        share = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        share *= (count / share.sum(axis=1))[:, None]
        mass = share.sum(0) + 1e-6
        weights = mass / mass.sum()
        before, means = means, ((share * seen).sum(0) + 1e-6 * means) / mass
        # The shape solves ln a − ψ(a) = ln E[x] − E[ln x]: to within 1.5 % in closed form, then a step of Newton's (Minka, 2002).
        spread = np.maximum(np.log(means) - ((share * log_seen).sum(0) + 1e-6 * np.log(before)) / mass, 1e-8)
        shapes = (3 - spread + np.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
        slope = 1 / shapes - zeta(2.0, shapes)  # ψ'(a) = ζ(2, a)
        shapes = np.clip(shapes - (np.log(shapes) - digamma(shapes) - spread) / slope, 0.05, 1e4)
    return np.stack([weights, shapes, means])


def _binned(value: np.ndarray, counts: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean, the mean logarithm and the number of the values in every bin; few enough counts are bins themselves."""
    if counts:
        distinct, place = np.unique(value, return_inverse=True)
        if len(distinct) <= BINS:
            return distinct.astype(float), distinct, np.bincount(place)
    log_value = np.log1p(value) if counts else np.log(value)
    edges = np.linspace(log_value.min(), log_value.max(), BINS + 1)
    place = np.clip(np.searchsorted(edges, log_value) - 1, 0, BINS - 1)
    count = np.bincount(place, minlength=BINS)
    filled = count > 0
    x, log_x = (np.bincount(place, each, minlength=BINS)[filled] / count[filled] for each in (value, log_value))
    return x, log_x, count[filled]


def directions(x: sp.csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``count`` directions, or fewer, in which sparse rows differ most: principal components of ln(1 + x), standardised.

    Returns a table (D, count), by how much the logarithm of a column rises along each direction, and the standard deviations
    (count,) over the rows of ln(1 + x) times that table. Columns that are seldom filled count less. Nothing is made
    dense: the mean is taken off inside the products.

    >>> rise, _ = directions(sp.csr_matrix([[3, 3, 0], [2, 2, 1], [0, 0, 9], [0, 0, 8]]), 1)
    >>> bool(rise[0] * rise[1] > 0), bool(rise[0] * rise[2] > 0)  # the first two go together, the third against
    (True, False)
    """
    logs = sp.csr_matrix(x, dtype=np.float64).log1p()
    rows, columns = logs.shape
    mean = np.asarray(logs.mean(axis=0)).ravel()
    variance = np.asarray(logs.multiply(logs).mean(axis=0)).ravel() - mean**2
    spread = np.sqrt(np.maximum(variance, 1e-12))
    filled = np.bincount(logs.indices[logs.data != 0], minlength=columns)
    weight = np.sqrt(np.minimum(filled / OFTEN, 1)) / spread * (variance > 1e-12)
    size, along = _principal(logs @ sp.diags(weight), mean * weight, count)
    real = size > 1e-3 * size.max(initial=0.0)  # rows that are alike differ in fewer directions
    size, along = size[real] / np.sqrt(rows), along[:, real]
    per_unit = weight * (mean + 0.05 * spread)
    rise = along * size / np.where(per_unit > 0, per_unit, np.inf)[:, None]
    rise = np.clip(rise, -_STEEPEST, _STEEPEST)
    return rise, (logs @ rise).std(axis=0)


def _principal(matrix: sp.csr_matrix, centre: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest singular values of matrix − centre, and their right vectors (D, count), largest first.

    By random projection and subspace iteration (Halko, Martinsson and Tropp, 2011): the same answer every time.
    """
    back = sp.csr_matrix(matrix.T)
    guess = np.random.default_rng(0).standard_normal((matrix.shape[1], min(count + SPARE, *matrix.shape)))
    for _ in range(PASSES):
        seen, _ = np.linalg.qr(matrix @ guess - centre @ guess)
        guess, _ = np.linalg.qr(back @ seen - np.outer(centre, seen.sum(0)))
    _, size, along = np.linalg.svd(matrix @ guess - centre @ guess, full_matrices=False)
    return size[:count], (guess @ along.T)[:, :count]
