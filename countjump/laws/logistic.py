"""A discretised logistic law of what is missing of a bounded count, and thinning where there is no closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from countjump.laws.base import CountFamily
from countjump.laws.scalar import Binomial

ENTRIES = 2**22
"""Entries times levels that are worked out together."""


@dataclass(frozen=True, eq=False)
class DiscretisedLogistic(CountFamily):
    """n = x − seen, with x the whole number nearest to a logistic variable, 0 ≤ x ≤ largest, given that x ≥ seen.

    All that lies below ½ is x = 0, and all above largest − ½ is the largest (Salimans et al. 2017, PixelCNN++).

    >>> law = DiscretisedLogistic(*(torch.tensor([each]).double() for each in (3.0, 0.5, 0.0, 7.0)))
    >>> float(law.log_prob(torch.arange(8).double()[:, None]).exp().sum().round(decimals=9))
    1.0
    """

    loc: Tensor
    scale: Tensor
    seen: Tensor
    largest: Tensor

    @property
    def components(self) -> int:
        return self.loc.shape[-1]

    def _below(self, x: Tensor) -> Tensor:
        """Where the cell of x begins, on the scale of a standard logistic variable."""
        return torch.where(x <= 0, -torch.inf, (x - 0.5 - self.loc) / self.scale)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """By the inverse of the survival function, whose logarithm has digits in the tail that is left."""
        low = self._below(self.seen)
        height = torch.rand(
            torch.broadcast_shapes(low.shape, self.scale.shape), dtype=low.dtype, device=low.device, generator=generator
        )
        log_survival = logsigmoid(-low) + (-height).log1p()
        # The survival function is σ(−y): y = −logit of it.
        y = torch.log(-torch.expm1(log_survival)) - log_survival
        x = (self.loc + self.scale * y + 0.5).floor()
        return torch.minimum(torch.maximum(x, self.seen), self.largest) - self.seen

    def log_prob(self, value: Tensor) -> Tensor:
        """σ(u) − σ(v) = σ(u) σ(−v) (1 − e^(v − u)) keeps its digits in both tails."""
        x, one = self.seen + value, 1 / self.scale
        low, end = (x - 0.5 - self.loc) * one, x >= self.largest
        bottom, top = logsigmoid(-low), logsigmoid(low + one)
        inside = torch.where(x <= 0, 0.0, bottom) + torch.where(end, 0.0, top)
        inside = inside + torch.where(end | (x <= 0), 0.0, torch.log(-torch.expm1(-one)))
        total = torch.where(self.seen <= 0, 0.0, logsigmoid((self.loc - self.seen + 0.5) * one))
        return torch.where((value < 0) | (x > self.largest), -torch.inf, inside - total)

    @property
    def mean(self) -> Tensor:
        """Σ_{n ≥ 1} P(at least n), level by level."""
        total = torch.zeros(
            torch.broadcast_shapes(self.loc.shape, self.seen.shape), dtype=self.loc.dtype, device=self.loc.device
        )
        first = logsigmoid(-self._below(self.seen))
        for level in range(1, int(self.largest.max()) + 1):
            reached = (logsigmoid(-self._below(torch.full_like(self.seen, level))) - first).exp()
            total = total + torch.where((level > self.seen) & (level <= self.largest), reached, 0.0)
        return total

    def thin(self, p: Tensor | float) -> Thinned:
        return Thinned(self, p * torch.ones_like(self.loc), (self.largest - self.seen).clamp(min=0))


@dataclass(frozen=True, eq=False)
class Thinned(CountFamily):
    """What is left of counts by a ``law``, none above ``most``, when each unit is kept with probability ``p``: drawn in two steps,
    and scored as Σ_n P(n) Bin(k; n, p).

    >>> one = torch.ones(1).double()
    >>> Thinned(Binomial(2 * one, one), one / 2, 2 * one).log_prob(one).exp()
    tensor([0.5000], dtype=torch.float64)
    """

    law: Any
    p: Tensor
    most: Tensor

    @property
    def components(self) -> int:
        return self.law.components

    def pick(self, entries: tuple[Tensor, ...], component: Tensor, shape: torch.Size) -> Self:
        own = (field.expand(shape)[(*entries, component)] for field in (self.p, self.most))
        return type(self)(self.law.pick(entries, component, shape), *own)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return Binomial(self.law.sample(generator), self.p).sample(generator)

    def log_prob(self, value: Tensor) -> Tensor:
        highest, total = int(self.most.max()) if self.most.numel() else 0, None
        size = max(value.numel(), self.p.numel())
        together = max(ENTRIES // max(size, 1), 1)
        for start in range(0, highest + 1, together):
            n = torch.arange(start, min(start + together, highest + 1), dtype=value.dtype, device=value.device)
            n = n.reshape(-1, *[1] * max(value.dim(), self.p.dim()))
            terms = self.law.log_prob(n) + Binomial(n, self.p).log_prob(value)
            some = torch.logsumexp(terms.masked_fill(n > self.most, -torch.inf), 0)
            total = some if total is None else torch.logaddexp(total, some)
        assert total is not None
        return torch.where(value < 0, -torch.inf, total)

    @property
    def mean(self) -> Tensor:
        return self.p * self.law.mean

    def thin(self, p: Tensor | float) -> Thinned:
        return Thinned(self.law, self.p * p, self.most)
