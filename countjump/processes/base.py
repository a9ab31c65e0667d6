"""What a process is: it corrupts, scores and steps. And the denoiser that it asks: a network with a head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from countjump.bags import Bags
from countjump.schedules import Schedule

State = Any
"""Rows in the middle of a process: a tensor (B, …), or Bags."""

Prediction = Any
"""What a denoiser answers: a Belief (JUMP), a mean (Gaussian) or logits (categorical). It can be indexed by ``rows``."""


class Denoise(Protocol):
    """(z, times (U,), index (B,)) → prediction: a trained :class:`Denoiser`, or an oracle."""

    def __call__(self, z: State, times: Tensor, index: State) -> Prediction:
        """What is believed of x_0 given z at each row's time, times[index]."""


@dataclass(frozen=True)
class Step:
    """One step of a chain: the state at time t (1, 1) and what was predicted there."""

    z: State
    prediction: Prediction
    t: Tensor


class Process(ABC):
    """The corruption of rows and its reversal. Times t and s, 0 ≤ s < t ≤ 1, arrive shaped (B, 1), or (1, 1) for all."""

    discrete: bool
    """Whether states can be equal, so that equal ones are evaluated once."""

    schedule: Schedule

    @abstractmethod
    def prior(self, rows: int, generator: torch.Generator) -> State:
        """The state at t = 1."""

    @abstractmethod
    def marginal(self, x: State, t: Tensor) -> Any:
        """q(z_t given x_0)."""

    @abstractmethod
    def posterior(self, z: State, x: State, s: Tensor, t: Tensor) -> Any:
        """q(z_s given z_t, x_0)."""

    def narrow(self, x: State, generator: torch.Generator) -> State:
        """What an update looks at of x_0: all of it."""
        return x

    def corrupt(self, x: State, t: Tensor, generator: torch.Generator) -> State:
        """Draw z_t given x_0."""
        return self.marginal(x, t).sample(generator)

    @abstractmethod
    def loss(self, x: State, z: State, t: Tensor, prediction: Prediction, generator: torch.Generator) -> Tensor:
        """One number per row."""

    @abstractmethod
    def step(self, z: State, prediction: Prediction, t: Tensor, s: Tensor, generator: torch.Generator) -> State:
        """Draw z_s given z_t."""

    @abstractmethod
    def finish(self, z: State, before: Step, denoise: Denoise, generator: torch.Generator) -> State:
        """From z_0, and the step that led there, to x_0."""

    @abstractmethod
    def draw_times(self, count: int, generator: torch.Generator) -> Tensor:
        """Times to train on, (count,)."""

    @abstractmethod
    def grid(self, steps: int) -> Tensor:
        """The times of a chain, from 1 down to 0."""


def distinct_rows(z: State) -> tuple[Tensor, Tensor]:
    """The index of one row of each kind, and for every row the place of its kind in that index.

    Rows of integers, and bags of them, are compared by a 64-bit hash.

    >>> distinct_rows(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))[1].unique().numel()
    2
    """
    if isinstance(z, Bags):
        key = z.per_row(z.value.long() * _odd_numbers(z.shape[1]).to(z.device)[z.column])
        return _one_of_each(key)
    flat = z.flatten(1).long()
    key = flat[:, 0] if flat.shape[1] == 1 else (flat * _odd_numbers(flat.shape[1]).to(z.device)).sum(1)
    return _one_of_each(key)


def _one_of_each(key: Tensor) -> tuple[Tensor, Tensor]:
    _, kind = torch.unique(key, return_inverse=True)
    first = torch.full((int(kind.max()) + 1,), len(key), dtype=torch.long, device=key.device)
    return first.scatter_reduce(0, kind, torch.arange(len(key), device=key.device), "amin"), kind


@cache
def _odd_numbers(count: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(2**62, size=count) * 2 + 1)


class Denoiser(nn.Module):
    """A network with a head. When not training it evaluates in chunks of one shape, so that rows do not feel their batch.

    In training, rows of one column that are in equal states at equal times are evaluated once, if states are ``discrete``.
    """

    chunk = 256

    def __init__(self, network: nn.Module, head: nn.Module, schedule: Schedule, discrete: bool = True) -> None:
        super().__init__()
        self.network, self.head, self.schedule, self.discrete = network, head, schedule, discrete

    def forward(self, z: State, times: Tensor, index: State) -> Prediction:
        """See :class:`Denoise`."""
        alpha = self.schedule.alpha(times)[index][:, None]
        features = self.head.features(z, alpha)  # type: ignore[operator]
        if self.training and self.discrete and features.shape[1] <= 3:
            first, kind = distinct_rows(torch.cat([index[:, None], z.flatten(1)], 1))
            output = self.network(features[first], times, index[first]).index_select(0, kind)
        elif self.training:
            output = self.network(features, times, index)
        else:
            pad = -len(features) % self.chunk
            features = nn.functional.pad(features, (0, 0, 0, pad)).split(self.chunk)
            places = nn.functional.pad(index, (0, pad)).split(self.chunk)
            pieces = [self.network(piece, times, place) for piece, place in zip(features, places, strict=True)]
            output = torch.cat(pieces)[: len(z)]
        return self.head(output, z, alpha)
