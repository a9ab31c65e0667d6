"""Thinning schedules α: [0, 1] → [0, 1], decreasing, α(0) = 1 and α(1) = 0, and the grids of steps taken on them.

Time is continuous. The paper's step k of T is t = k/T. At t = 1 every schedule is exactly zero, so that a chain starts from
exactly zero; just before it, α may stop at a small positive value.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

MOST_TIMESTEPS = 10**6
"""Of a schedule that is kept as a table."""


class Schedule(ABC):
    """A decreasing function α of time."""

    @abstractmethod
    def interior(self, t: Tensor) -> Tensor:
        """α on 0 ≤ t < 1, continued to t = 1."""

    @abstractmethod
    def time(self, alpha: float) -> float:
        """The time at which α falls to ``alpha``; at most 1."""

    def alpha(self, t: Tensor) -> Tensor:
        """α(t) in float64, exactly 0 at t = 1."""
        t = t.double()
        return torch.where(t >= 1, 0.0, self.interior(t))

    def reveal(self, s: Tensor, t: Tensor) -> Tensor:
        """The fraction of the missing count that is back by s < t: p = (α_s − α_t)/(1 − α_t)."""
        alpha_s, alpha_t = self.alpha(s), self.alpha(t)
        return (alpha_s - alpha_t) / (1 - alpha_t)

    def stratified_times(self, count: int, t_max: float | None, generator: torch.Generator) -> Tensor:
        """Times to train on: the first at 1, where every chain starts, the others one in each stretch of [0, t_max]."""
        first = torch.ones(1, dtype=torch.float64, device=generator.device)
        return torch.cat([first, even_times(count - 1, generator) * (t_max or 1.0)])

    def grid(self, steps: int, t_max: float | None = None) -> Tensor:
        """The times 1 = t_0 > t_1 > … > t_steps = 0 of a chain: even steps of t, or from 1 to ``t_max`` and then even ones.

        >>> Cosine().grid(4), Cosine().grid(3, t_max=0.8)
        (tensor([1.0000, 0.7500, 0.5000, 0.2500, 0.0000], dtype=torch.float64),
         tensor([1.0000, 0.8000, 0.4000, 0.0000], dtype=torch.float64))
        """
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}")
        if t_max is None or steps == 1:
            return torch.linspace(1, 0, steps + 1, dtype=torch.float64)
        return torch.cat([torch.ones(1, dtype=torch.float64), torch.linspace(t_max, 0, steps, dtype=torch.float64)])


def even_times(count: int, generator: torch.Generator) -> Tensor:
    """Random times, one in each of ``count`` even stretches of [0, 1)."""
    jitter = torch.rand(count, dtype=torch.float64, device=generator.device, generator=generator)
    return (torch.arange(count, device=generator.device) + jitter) / count


@dataclass(frozen=True)
class LinearBeta(Schedule):
    """α_k = √∏_{i≤k} (1 − β_i) with β rising evenly from ``beta_first`` to ``beta_last`` (the paper's appendix A).

    At t = k/``timesteps``, k < ``timesteps``, it is the paper's α_k; between them ln α is interpolated. Use :meth:`solve` for
    the paper's choice of ``beta_last``.

    >>> schedule = LinearBeta.solve(scale=10.0, timesteps=100)
    >>> round(math.log(10.0 * float(schedule.interior(torch.tensor(1.0)))), 6)
    -12.0
    """

    beta_first: float = 0.001
    beta_last: float = 0.05
    timesteps: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.beta_first <= self.beta_last < 1 or not 2 <= self.timesteps <= MOST_TIMESTEPS:
            needs = f"0 < beta_first <= beta_last < 1 and 2 <= timesteps <= {MOST_TIMESTEPS}"
            raise ValueError(f"LinearBeta needs {needs}, got {self}")

    @classmethod
    def solve(
        cls, scale: float, log_snr: float = -12.0, beta_first: float = 0.001, timesteps: int = 1000
    ) -> LinearBeta:
        """The β_T at which the mean log-SNR of the last step, ln(scale · α_T), is ``log_snr``; scale is λ E[x].

        >>> LinearBeta.solve(scale=1e-7)
        Traceback (most recent call last):
        ...
        ValueError: no linear-beta schedule ends at a log-SNR of -12 with scale 1e-07: ...
        """
        if not 0 < scale < math.inf:
            raise ValueError(f"LinearBeta needs a positive scale, got {scale:g}")

        def excess(beta_last: float) -> float:
            return math.log(scale) + float(cls(beta_first, beta_last, timesteps)._log_alpha[-1]) - log_snr

        if not excess(beta_first) > 0 > excess(1 - 1e-12):
            change = "raise lam" if excess(beta_first) <= 0 else "use more timesteps"
            none = f"no linear-beta schedule ends at a log-SNR of {log_snr:g} with scale {scale:g}"
            raise ValueError(f"{none}: {change}, change log_snr, or use schedule='cosine'")
        from scipy.optimize import brentq  # here, as it takes long to import

        return cls(beta_first, float(brentq(excess, beta_first, 1 - 1e-12, xtol=1e-15)), timesteps)

    @cached_property
    def _log_alpha(self) -> np.ndarray:
        beta = np.linspace(self.beta_first, self.beta_last, self.timesteps)
        return np.concatenate([[0.0], np.cumsum(np.log1p(-beta)) / 2])

    def interior(self, t: Tensor) -> Tensor:
        table = torch.as_tensor(self._log_alpha, device=t.device)
        place = (t.double() * self.timesteps).clamp(0, self.timesteps)
        below = place.long().clamp(max=self.timesteps - 1)
        return torch.lerp(table[below], table[below + 1], place - below).exp()

    def time(self, alpha: float) -> float:
        steps = np.arange(self.timesteps + 1) / self.timesteps
        return float(np.interp(-math.log(alpha), -self._log_alpha, steps))


@dataclass(frozen=True)
class Cosine(Schedule):
    """α(t) = cos²(πt/2).

    >>> Cosine().alpha(torch.tensor([0.0, 0.5, 1.0]))
    tensor([1.0000, 0.5000, 0.0000], dtype=torch.float64)
    """

    def interior(self, t: Tensor) -> Tensor:
        return torch.cos(t.double() * (math.pi / 2)) ** 2

    def time(self, alpha: float) -> float:
        return 2 / math.pi * math.acos(math.sqrt(alpha))


@dataclass(frozen=True)
class Polynomial(Schedule):
    """α(t) = (1 − t)^exponent: the larger the exponent, the more of the time is spent where little is there.

    >>> Polynomial(3.0).alpha(torch.tensor([0.0, 0.5, 1.0]))
    tensor([1.0000, 0.1250, 0.0000], dtype=torch.float64)
    """

    exponent: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.exponent <= 100:
            raise ValueError(f"Polynomial needs an exponent above 0 and at most 100, got {self.exponent}")

    def interior(self, t: Tensor) -> Tensor:
        return (1 - t.double()) ** self.exponent

    def time(self, alpha: float) -> float:
        return 1 - alpha ** (1 / self.exponent)


@dataclass(frozen=True)
class Geometric(Schedule):
    """α(t) = last^t: every step thins by the same factor.

    >>> Geometric(1e-4).alpha(torch.tensor([0.0, 0.5, 1.0]))
    tensor([1.0000, 0.0100, 0.0000], dtype=torch.float64)
    """

    last: float = 1e-6

    def __post_init__(self) -> None:
        if not 0 < self.last < 1:
            raise ValueError(f"Geometric needs 0 < last < 1, got {self.last}")

    def interior(self, t: Tensor) -> Tensor:
        return torch.exp(t.double() * math.log(self.last))

    def time(self, alpha: float) -> float:
        return min(1.0, math.log(alpha) / math.log(self.last))
