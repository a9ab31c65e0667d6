"""A mixture over whole rows: what makes the columns of a row depend on each other within one draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from countjump.laws.base import CountLaw, Streams, category_at
from countjump.laws.scalar import Mixture


@dataclass(frozen=True, eq=False)
class Alternatives(CountLaw):
    """One of K alternatives holds for all columns of a row, the k-th with probability softmax(``weights``)_k, (B, K). They share
    the components (B, D, M) of every column. The first gives them the weights softmax(``logits``), (B, D, M), and each of the
    others softmax(``logits`` + its ``shifts``), (B, K − 1, D, M).

    Thinned, the same weights and every component thinned.

    >>> from countjump.laws import Known
    >>> sure, other = torch.tensor([[[9.0, -9.0]] * 2]).double(), torch.tensor([[[[-18.0, 18.0]] * 2]]).double()
    >>> law = Alternatives(torch.zeros(1, 2).double(), sure, other, (Known(torch.tensor([[[0.0, 1.0]] * 2]).double()),))
    >>> law.log_prob(torch.ones(1, 2).double()).exp(), law.log_prob(torch.tensor([[0.0, 1.0]]).double()).exp()
    (tensor([0.5000], dtype=torch.float64), tensor([1.5230e-08], dtype=torch.float64))
    """

    weights: Tensor
    logits: Tensor
    shifts: Tensor
    parts: tuple[Any, ...]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.draw(Streams([generator], len(self.weights)))

    def draw(self, streams: Streams, index: Tensor | None = None) -> Tensor:
        row = torch.arange(len(streams) * streams.rows, device=self.weights.device)
        index = row if index is None else index
        picked = category_at(self.weights.softmax(-1).cumsum(-1)[index], streams.uniform(row))
        logits, others = self.logits[index], (picked > 0).nonzero()[:, 0]
        logits[others] += self.shifts[index[others], picked[others] - 1]
        return Mixture(logits, tuple(part[index] for part in self.parts)).draw(streams)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._sum(value, lambda entries: entries)

    def log_prob_without(self, value: Tensor, left_out: Tensor) -> Tensor:
        """Of all columns but those that are ``left_out``."""
        return self._sum(value, lambda entries: entries.masked_fill(left_out[:, None], 0.0))

    def _sum(self, value: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        parts = torch.cat([part.log_prob(value[..., None]) for part in self.parts], -1)
        each = [torch.logsumexp(logits + parts, -1) - torch.logsumexp(logits, -1) for logits in self._each()]
        return torch.logsumexp(self.weights.log_softmax(-1) + change(torch.stack(each, 1)).sum(-1), -1)

    def _each(self) -> Iterator[Tensor]:
        """The logits of every alternative. One after another, what is worked out of them stays in the processor's cache."""
        yield self.logits
        yield from (self.logits + shift for shift in self.shifts.unbind(1))

    @property
    def mean(self) -> Tensor:
        parts = torch.cat([part.mean.expand(*self.logits.shape[:-1], part.mean.shape[-1]) for part in self.parts], -1)
        each = torch.stack([(logits.softmax(-1) * parts).sum(-1) for logits in self._each()], 1)
        return (self.weights.softmax(-1)[..., None] * each).sum(1)

    def thin(self, p: Tensor | float) -> Alternatives:
        p = p[..., None] if isinstance(p, Tensor) else p
        return replace(self, parts=tuple(part.thin(p) for part in self.parts))
