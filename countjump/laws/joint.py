"""The law of states side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from countjump.laws.base import CountLaw, Streams
from countjump.states import Joint


@dataclass(frozen=True, eq=False)
class JointLaw(CountLaw):
    """Independent laws of the parts of a row: the log-probabilities add up, and each is thinned.

    >>> from countjump.laws import Poisson, Product
    >>> law = JointLaw((Product(Poisson(torch.ones(1, 1))), Product(Poisson(torch.ones(1, 2)))))
    >>> law.log_prob(Joint((torch.zeros(1, 1), torch.zeros(1, 2))))
    tensor([-3.])
    """

    parts: tuple[Any, ...]

    def sample(self, generator: torch.Generator | None = None) -> Joint:
        return Joint(tuple(part.sample(generator) for part in self.parts))

    def draw(self, index: Tensor, streams: Streams) -> Joint:
        return Joint(tuple(part.draw(index, streams) for part in self.parts))

    def sample_streams(self, streams: Streams) -> Joint:
        return Joint(tuple(part.sample_streams(streams) for part in self.parts))

    def log_prob(self, value: Joint) -> Tensor:
        parts = (law.log_prob(each) for law, each in zip(self.parts, value.parts, strict=True))
        return torch.stack(list(parts)).sum(0)

    @property
    def mean(self) -> Joint:
        return Joint(tuple(part.mean for part in self.parts))

    def thin(self, p: Tensor | float) -> JointLaw:
        return JointLaw(tuple(part.thin(p) for part in self.parts))
