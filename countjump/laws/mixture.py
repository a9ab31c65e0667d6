"""Mixtures of scalar families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from countjump.laws.base import CountFamily, Streams, category_at


@dataclass(frozen=True, eq=False)
class Mixture(CountFamily):
    """Σ_k w_k law_k: families with their components along a last axis, weights softmax(logits) over all of them.

    Thinned, the same weights and every component thinned.

    >>> from countjump.laws import Poisson, Zero
    >>> law = Mixture(torch.zeros(1, 2), (Zero(torch.zeros(1, 1)), Poisson(torch.full((1, 1), 6.0))))
    >>> float(law.mean), float(law.thin(0.5).mean)
    (3.0, 1.5)
    """

    logits: Tensor
    parts: tuple[Any, ...]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw the component of every entry, then each entry from its own component only."""
        return self.draw(Streams([generator], len(self.logits)))

    def draw(self, streams: Streams, index: Tensor | None = None) -> Tensor:
        """The weights are added up once per row of the law, and of the parameters only the drawn ones are gathered."""
        index = torch.arange(len(self.logits), device=self.logits.device) if index is None else index
        cumulative = self.logits.softmax(-1).cumsum(-1).index_select(0, index)
        row = torch.arange(len(index), device=index.device)
        entries_of_row = cumulative[0].numel() // cumulative.shape[-1] if len(index) else 0
        height = streams.uniform(row.repeat_interleave(entries_of_row)).reshape(cumulative.shape[:-1])
        pick = category_at(cumulative, height)
        value = torch.zeros(pick.shape, dtype=self.logits.dtype, device=self.logits.device)
        first = 0
        for part in self.parts:
            size = part.mean.shape[-1]
            entries = ((pick >= first) & (pick < first + size)).nonzero(as_tuple=True)
            if len(entries[0]):
                shape = torch.Size([*self.logits.shape[:-1], size])
                drawn = part.pick((index[entries[0]], *entries[1:]), pick[entries] - first, shape)
                value[entries] = streams.sample(entries[0], drawn)
            first += size
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        parts = [part.log_prob(value[..., None]) for part in self.parts]
        return torch.logsumexp(self.logits.log_softmax(-1) + torch.cat(parts, -1), -1)

    @property
    def mean(self) -> Tensor:
        parts = [part.mean.expand(*self.logits.shape[:-1], part.mean.shape[-1]) for part in self.parts]
        return (self.logits.softmax(-1) * torch.cat(parts, -1)).sum(-1)

    def thin(self, p: Tensor | float) -> Mixture:
        p = p[..., None] if isinstance(p, Tensor) else p
        return Mixture(self.logits, tuple(part.thin(p) for part in self.parts))

    def upper_quantile(self, nats: float) -> Tensor:
        """The largest of those components that can come: of a weight above exp(−2 nats)."""
        limits = torch.cat([part.upper_quantile(nats).expand(part.mean.shape) for part in self.parts], -1)
        return torch.where(self.logits.log_softmax(-1) > -2 * nats, limits, 0.0).amax(-1)
