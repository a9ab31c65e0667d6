"""Scalar families: of counts, each closed under thinning, and of reals; and their mixtures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.special import gammaln, xlogy

from countjump.laws.base import CountFamily, Family, Streams, category_at

MAX_COUNT = 2**53
"""The largest count that float64 holds exactly together with all smaller ones."""

TINY = 1e-300


def times_log(count: Tensor, y: Tensor) -> Tensor:
    """count · ln y, where a count of zero has no part in the gradient (``xlogy`` has NaN at y = 0)."""
    return xlogy(count, torch.where(count == 0, 1.0, y))


def on_support(value: Tensor, log_prob: Tensor) -> Tensor:
    """Minus infinity for counts below zero."""
    return torch.where(value < 0, -torch.inf, log_prob)


@dataclass(frozen=True, eq=False)
class Zero(CountFamily):
    """An atom at zero; thinned, itself. ``like`` gives the shape.

    >>> Zero(torch.zeros(2)).log_prob(torch.tensor([0.0, 3.0]))
    tensor([0., -inf])
    """

    like: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return torch.zeros_like(self.like)

    def log_prob(self, value: Tensor) -> Tensor:
        at_zero = (value == 0).expand(torch.broadcast_shapes(value.shape, self.like.shape))
        return torch.where(at_zero, 0.0, -torch.inf).to(self.like.dtype)

    @property
    def mean(self) -> Tensor:
        return torch.zeros_like(self.like)

    def thin(self, p: Tensor | float) -> Zero:
        return self

    def rest(self, kept: Tensor, p: Tensor) -> Zero:
        return self

    def upper_quantile(self, nats: float) -> Tensor:
        return self.mean


@dataclass(frozen=True, eq=False)
class Poisson(CountFamily):
    """P(n) = rate^n e^(−rate) / n!; thinned, Poisson(p · rate) (the paper's section 2.2).

    >>> float(Poisson(torch.tensor([4.0])).thin(0.5).mean)
    2.0
    """

    rate: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw; a rate above 2^53 is drawn at 2^53 (torch would return a negative count for an infinite one)."""
        return torch.poisson(self.rate.clamp(max=MAX_COUNT), generator=generator)

    def log_prob(self, value: Tensor) -> Tensor:
        n = value.clamp(min=0)
        return on_support(value, times_log(n, self.rate) - self.rate - gammaln(n + 1))

    @property
    def mean(self) -> Tensor:
        return self.rate

    def thin(self, p: Tensor | float) -> Poisson:
        return Poisson(self.rate * p)

    def rest(self, kept: Tensor, p: Tensor) -> Poisson:
        """Independent of what was kept."""
        return Poisson(self.rate * (1 - p) + 0 * kept)

    def upper_quantile(self, nats: float) -> Tensor:
        """r + √(2 r t) + t, beyond which there is less than exp(−t) (Bernstein's inequality)."""
        return torch.where(self.rate > 0, self.rate + (2 * self.rate * nats).sqrt() + nats, 0.0)


@dataclass(frozen=True, eq=False)
class Binomial(CountFamily):
    """P(n) = C(count, n) probs^n (1 − probs)^(count − n); thinned, Binomial(count, p · probs).

    A known number is Binomial(count, 1). A negative ``count`` is read as zero.

    >>> Binomial(torch.tensor([7.0]), torch.tensor([1.0])).sample()
    tensor([7.])
    """

    count: Tensor
    probs: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        count, probs = torch.broadcast_tensors(self.count.clamp(min=0), self.probs)
        return torch.binomial(count.contiguous(), probs.contiguous(), generator=generator)

    def log_prob(self, value: Tensor) -> Tensor:
        count, n = self.count.clamp(min=0), value.clamp(min=0)
        rest = (count - n).clamp(min=0)
        choose = gammaln(count + 1) - gammaln(n + 1) - gammaln(rest + 1)
        inside = choose + times_log(n, self.probs) + times_log(rest, 1 - self.probs)
        return torch.where((value > count) | (value < 0), -torch.inf, inside)

    @property
    def mean(self) -> Tensor:
        return self.count.clamp(min=0) * self.probs

    def thin(self, p: Tensor | float) -> Binomial:
        return Binomial(self.count, self.probs * p)

    def rest(self, kept: Tensor, p: Tensor) -> Binomial:
        """Of those that were not kept, each is there with probability probs (1 − p)/(1 − probs p)."""
        return Binomial(self.count - kept, self.probs * (1 - p) / (1 - self.probs * p).clamp(min=TINY))

    def upper_quantile(self, nats: float) -> Tensor:
        return self.count.clamp(min=0)


@dataclass(frozen=True, eq=False)
class NegativeBinomial(CountFamily):
    """A Poisson count whose rate is Gamma(shape, mean); thinned, NegativeBinomial(shape, p · mean).

    >>> float(NegativeBinomial(torch.tensor([2.0]), torch.tensor([10.0])).thin(0.1).mean)
    1.0
    """

    shape: Tensor
    scale_mean: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return Poisson(Gamma(self.shape, self.scale_mean).sample(generator)).sample(generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """Written with log1p so that the Poisson limit (a large shape) keeps its digits."""
        shape, mean, n = self.shape, self.scale_mean, value.clamp(min=0)
        choose = gammaln(n + shape) - gammaln(shape) - gammaln(n + 1)
        return on_support(value, choose + times_log(n, mean / (shape + mean)) - shape * torch.log1p(mean / shape))

    @property
    def mean(self) -> Tensor:
        return self.scale_mean

    def thin(self, p: Tensor | float) -> NegativeBinomial:
        return NegativeBinomial(self.shape, self.scale_mean * p)

    def rest(self, kept: Tensor, p: Tensor) -> NegativeBinomial:
        """The Gamma behind it has learned from what was kept."""
        shape = self.shape + kept
        return NegativeBinomial(shape, (1 - p) * self.scale_mean * shape / (self.shape + p * self.scale_mean))

    def upper_quantile(self, nats: float) -> Tensor:
        """That of a Poisson count whose rate is at that of a Gamma: 1 + √(2 t/a) + t/a for a mean of 1 and the shape a."""
        rate = self.scale_mean * (1 + (2 * nats / self.shape).sqrt() + nats / self.shape)
        return Poisson(rate).upper_quantile(nats)


@dataclass(frozen=True, eq=False)
class Gamma(Family):
    """The density of a positive real with the given shape and mean; none at zero, where only an atom has mass.

    >>> float(Gamma(torch.tensor([1.0]), torch.tensor([2.0])).log_prob(torch.tensor([2.0])).exp())  # e^-1 / 2
    0.183...
    """

    shape: Tensor
    scale_mean: Tensor
    is_density: ClassVar[bool] = True

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        shape, mean = torch.broadcast_tensors(self.shape, self.scale_mean)
        return torch._standard_gamma(shape.contiguous(), generator=generator) * (mean / shape)

    def log_prob(self, value: Tensor) -> Tensor:
        rate = self.shape / self.scale_mean
        safe = value.clamp(min=TINY)
        inside = self.shape * rate.log() + (self.shape - 1) * safe.log() - rate * safe - gammaln(self.shape)
        return torch.where(value > 0, inside, -torch.inf)

    @property
    def mean(self) -> Tensor:
        return self.scale_mean


@dataclass(frozen=True, eq=False)
class Known(CountFamily):
    """A known number: all mass at ``value``. A known count, thinned, is Binomial(value, p).

    >>> Known(torch.tensor([2.5])).log_prob(torch.tensor([2.5, 0.0]))
    tensor([0., -inf])
    """

    value: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.value

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.where(value == self.value, 0.0, -torch.inf).to(self.value.dtype)

    @property
    def mean(self) -> Tensor:
        return self.value

    def thin(self, p: Tensor | float) -> Binomial:
        return Binomial(self.value, p * torch.ones_like(self.value))

    def upper_quantile(self, nats: float) -> Tensor:
        return self.value.clamp(min=0)


@dataclass(frozen=True, eq=False)
class Mixture(CountFamily):
    """Σ_k w_k law_k: families with their components along a last axis, weights softmax(logits) over all of them.

    Thinned, the same weights and every component thinned. Beside densities, a value that has mass is scored by its mass alone.

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
            size = part.components
            entries = ((pick >= first) & (pick < first + size)).nonzero(as_tuple=True)
            if len(entries[0]):
                shape = torch.Size([*self.logits.shape[:-1], size])
                drawn = part.pick((index[entries[0]], *entries[1:]), pick[entries] - first, shape)
                value[entries] = streams.sample(entries[0], drawn)
            first += size
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        parts = [part.log_prob(value[..., None]) for part in self.parts]
        if any(part.is_density for part in self.parts):
            masses = [each for part, each in zip(self.parts, parts, strict=True) if not part.is_density]
            at_mass = (torch.cat(masses, -1) == 0).any(-1, keepdim=True) if masses else torch.tensor(False)
            parts = [
                each.masked_fill(at_mass, -torch.inf) if part.is_density else each
                for part, each in zip(self.parts, parts, strict=True)
            ]
        return torch.logsumexp(self.logits.log_softmax(-1) + torch.cat(parts, -1), -1)

    @property
    def mean(self) -> Tensor:
        parts = [part.mean.expand(*self.logits.shape[:-1], part.mean.shape[-1]) for part in self.parts]
        return (self.logits.softmax(-1) * torch.cat(parts, -1)).sum(-1)

    def thin(self, p: Tensor | float) -> Mixture:
        p = p[..., None] if isinstance(p, Tensor) else p
        return Mixture(self.logits, tuple(part.thin(p) for part in self.parts))

    def rest(self, kept: Tensor, p: Tensor) -> Mixture:
        kept, p = kept[..., None], p[..., None]
        likelihood = torch.cat([part.thin(p).log_prob(kept) for part in self.parts], -1)
        logits = self.logits.log_softmax(-1) + likelihood
        # A number that no component can have kept says nothing about them.
        logits = torch.where(logits.isneginf().all(-1, keepdim=True), self.logits, logits)
        return Mixture(logits, tuple(part.rest(kept, p) for part in self.parts))

    def upper_quantile(self, nats: float) -> Tensor:
        """The largest of those components that can come: of a weight above exp(−2 nats)."""
        limits = torch.cat([part.upper_quantile(nats).expand(part.mean.shape) for part in self.parts], -1)
        return torch.where(self.logits.log_softmax(-1) > -2 * nats, limits, 0.0).amax(-1)
