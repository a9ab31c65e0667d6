"""What is believed of a column before anything is seen of a row: a mixture of Gammas, fitted to its values by EM."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, polygamma

BINS = 512
ROUNDS = 300


def gamma_mixture(value: np.ndarray, components: int, counts: bool = False) -> np.ndarray:
    """Weights, shapes and means (3, K) of a mixture of Gammas fitted to positive numbers, or to the rates behind ``counts``.

    Numbers are binned by their logarithm, so that tails keep their resolution, and a component starts in every stretch of it, so
    that a heavy tail has its own. A count is Poisson given its rate: the fitted law of counts is a mixture of negative binomials.

    >>> x = np.random.default_rng(0).gamma(3.0, 2.0, 5000)
    >>> gamma_mixture(x, 1).ravel().round(1)
    array([1. , 3. , 6.1])
    >>> gamma_mixture(np.random.default_rng(0).poisson(x), 1, counts=True).ravel().round(1)
    array([1. , 3. , 6.1])
    """
    x, log_x, count = _binned(value, counts)
    low, high = np.log(max(np.quantile(value, 0.02), 0.5 if counts else 0)), np.log(value.max())
    weights, shapes = np.full(components, 1 / components), np.ones(components)
    means = np.exp(low + (high - low) * (np.arange(components) + 0.5) / components)
    for _ in range(ROUNDS):
        rate = shapes / means
        if counts:
            log_p = gammaln(x[:, None] + shapes) - gammaln(shapes) + shapes * np.log(rate)
            log_p = log_p - (x[:, None] + shapes) * np.log1p(rate)
            seen, log_seen = (x[:, None] + shapes) / (1 + rate), digamma(x[:, None] + shapes) - np.log1p(rate)
        else:
            log_p = shapes * np.log(rate) - gammaln(shapes) + (shapes - 1) * log_x[:, None] - rate * x[:, None]
            seen, log_seen = x[:, None], log_x[:, None]
        log_p = log_p + np.log(weights)
        share = np.exp(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)) * count[:, None]
        mass = share.sum(0) + 1e-6
        weights = mass / mass.sum()
        before, means = means, ((share * seen).sum(0) + 1e-6 * means) / mass
        # The shape solves ln a − ψ(a) = ln E[x] − E[ln x]: to within 1.5 % in closed form, then a step of Newton's (Minka, 2002).
        spread = np.maximum(np.log(means) - ((share * log_seen).sum(0) + 1e-6 * np.log(before)) / mass, 1e-8)
        shapes = (3 - spread + np.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
        slope = 1 / shapes - polygamma(1, shapes)
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
