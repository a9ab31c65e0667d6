"""What a process is: it corrupts, scores and reverses. A denoiser is asked for what is believed of x_0."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from countjump.blocks.base import ChainStep
from countjump.laws import Law, Streams
from countjump.schedules import Schedule, even_times

Prediction = Any
"""What a denoiser answers: a Belief (JUMP), a mean (Gaussian) or a law of states (categorical)."""


class Denoise(Protocol):
    """(z, t, condition, known) → prediction: a trained :class:`countjump.denoiser.Denoiser`, or an oracle."""

    def __call__(self, z: Any, t: Tensor, condition: Tensor | None = None, known: Tensor | None = None) -> Prediction:
        """What is believed of x_0 given z at the time t, (B,) or (1,) for all rows; what is ``known`` is at time 0."""


class Process(ABC):
    """The corruption of rows and its reversal. Times t and s, 0 ≤ s < t ≤ 1, arrive shaped (B, 1), or (1, 1) for all."""

    discrete: bool
    """Whether states can be equal, so that equal ones are evaluated once."""

    schedule: Schedule

    @abstractmethod
    def prior(self, rows: int, streams: Streams, device: torch.device | str) -> Any:
        """The state at t = 1."""

    @abstractmethod
    def marginal(self, x: Any, t: Tensor) -> Law:
        """q(z_t given x_0)."""

    @abstractmethod
    def posterior(self, z: Any, x: Any, s: Tensor, t: Tensor) -> Law:
        """q(z_s given z_t, x_0)."""

    @abstractmethod
    def reverse(self, z: Any, prediction: Prediction, s: Tensor, t: Tensor) -> Law:
        """p(z_s given z_t)."""

    @abstractmethod
    def loss(self, x: Any, z: Any, t: Tensor, prediction: Prediction, generator: torch.Generator) -> Tensor:
        """One number per row."""

    def draw_known(self, rows: int, generator: torch.Generator) -> Tensor | None:
        """What is known of some of so many rows to train on, (some, knowables); None where nothing can be."""
        return None

    def finish(self, z: Any, before: ChainStep, denoise: Denoise, streams: Streams) -> Any:
        """From z_0, and the step that led there, to x_0."""
        return z

    def draw_times(self, count: int, generator: torch.Generator) -> Tensor:
        """Times to train on, (count,)."""
        return even_times(count, generator)

    def grid(self, steps: int) -> Tensor:
        """The times of a chain, from 1 down to 0."""
        return self.schedule.grid(steps)

    def subsample(self, x: Any, learning: bool, generator: torch.Generator) -> Any:
        """What an update looks at of x_0: all of it."""
        return x

    # Likelihoods.

    def why_no_likelihood(self) -> str | None:
        """A sentence on why x_0 has no likelihood, and what to do; None if it has one."""
        return None

    def path(self, x: Any, times: Tensor, keys: list[int]) -> Iterator[Any]:
        """States down the times, drawn from q given x_0; row i from a stream of random numbers that ``keys[i]`` names."""
        raise TypeError(f"{type(self).__name__} has no likelihood")

    def data_log_prob(self, z: Any, x: Any, denoise: Denoise) -> Tensor:
        """ln p(x_0 given z_0), per row; 0 where z_0 is x_0."""
        return torch.zeros(len(z), dtype=torch.float64, device=z.device)
