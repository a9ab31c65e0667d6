"""Laws of counts, each of which can be thinned, and the continuous laws that beliefs about real data need.

A law is a frozen bag of tensors, rows first. A *count law* knows ``thin(p)``: the law of what is left when every unit is
kept with probability p. That one method carries the whole of JUMP (see ``docs/architecture.md``).

======================  ==================================================================================
scalar count laws       :class:`Zero`, :class:`Poisson`, :class:`Binomial`, :class:`NegativeBinomial`
continuous laws         :class:`Gamma`, :class:`DirichletMixture`
built from others       :class:`Mixture`, :class:`Split` (total × composition), :class:`Product`, :class:`Shared`,
                        :class:`Shifted`
======================  ==================================================================================
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.special import gammaln, xlogy

MAX_COUNT = 2**53
"""The largest count that float64 holds exactly together with all smaller ones."""

_TINY = 1e-300


class Law(ABC):
    """A law whose parameters are tensors with the rows on the first axis."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one value per entry."""

    @abstractmethod
    def log_prob(self, value: Tensor) -> Tensor:
        """ln of the mass (or the density) at ``value``; minus infinity outside the support."""

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """The expectation, entry by entry."""

    def rows(self, index: Tensor) -> Self:
        """The law of the rows ``index``: rows in equal states share one evaluation and part ways here."""

        def take(field: object) -> object:
            if isinstance(field, Tensor):
                return field[index] if field.shape[0] > 1 else field.expand(len(index), *field.shape[1:])
            if isinstance(field, Law):
                return field.rows(index)
            return tuple(take(part) for part in field) if isinstance(field, tuple) else field

        return self._map(take)

    def draw(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one row for each of the rows ``index``, as ``rows(index).sample()`` does."""
        return self.rows(index).sample(generator)

    def pick(self, entries: tuple[Tensor, ...], component: Tensor, shape: torch.Size) -> Self:
        """The flat law of the given entries, each at its own component of the last axis; ``shape`` is that of all of them."""
        return self._map(lambda field: field.expand(shape)[(*entries, component)])

    def _map(self, change: object) -> Self:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return type(self)(*(change(getattr(self, field.name)) for field in fields))  # type: ignore[operator]


class CountLaw(Law):
    """A law of counts."""

    @abstractmethod
    def thin(self, p: Tensor | float) -> CountLaw:
        """The law of the count when each unit is kept with probability ``p``."""


@dataclass(frozen=True, eq=False)
class Zero(CountLaw):
    """An atom at zero; thinned, itself. ``like`` gives the shape.

    >>> Zero(torch.zeros(2)).log_prob(torch.tensor([0.0, 3.0]))
    tensor([0., -inf])
    """

    like: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Zeros."""
        return torch.zeros_like(self.like)

    def log_prob(self, value: Tensor) -> Tensor:
        """0 at zero, minus infinity elsewhere."""
        at_zero = (value == 0).expand(torch.broadcast_shapes(value.shape, self.like.shape))
        return torch.where(at_zero, 0.0, -torch.inf).to(self.like.dtype)

    @property
    def mean(self) -> Tensor:
        """Zeros."""
        return torch.zeros_like(self.like)

    def thin(self, p: Tensor | float) -> Zero:
        """Itself."""
        return self


@dataclass(frozen=True, eq=False)
class Poisson(CountLaw):
    """P(n) = rate^n e^(−rate) / n!; thinned, Poisson(p · rate) (the paper's section 2.2).

    >>> float(Poisson(torch.tensor([4.0])).thin(0.5).mean)
    2.0
    """

    rate: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw; a rate above 2^53 is drawn at 2^53 (torch would return a negative count for an infinite one)."""
        return torch.poisson(self.rate.clamp(max=MAX_COUNT), generator=generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """N ln rate − rate − ln n!."""
        return _times_log(value, self.rate) - self.rate - gammaln(value + 1)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    def thin(self, p: Tensor | float) -> Poisson:
        """Poisson(p · rate)."""
        return Poisson(self.rate * p)


@dataclass(frozen=True, eq=False)
class Binomial(CountLaw):
    """P(n) = C(count, n) probs^n (1 − probs)^(count − n); thinned, Binomial(count, p · probs).

    A known number is Binomial(count, 1). A negative ``count`` is read as zero.

    >>> Binomial(torch.tensor([7.0]), torch.tensor([1.0])).sample()
    tensor([7.])
    """

    count: Tensor
    probs: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw."""
        count, probs = torch.broadcast_tensors(self.count.clamp(min=0), self.probs)
        return torch.binomial(count.contiguous(), probs.contiguous(), generator=generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """Minus infinity above ``count``."""
        count = self.count.clamp(min=0)
        rest = (count - value).clamp(min=0)
        choose = gammaln(count + 1) - gammaln(value + 1) - gammaln(rest + 1)
        inside = choose + _times_log(value, self.probs) + _times_log(rest, 1 - self.probs)
        return torch.where(value > count, -torch.inf, inside)

    @property
    def mean(self) -> Tensor:
        """Count · probs."""
        return self.count.clamp(min=0) * self.probs

    def thin(self, p: Tensor | float) -> Binomial:
        """Binomial(count, p · probs)."""
        return Binomial(self.count, self.probs * p)


@dataclass(frozen=True, eq=False)
class NegativeBinomial(CountLaw):
    """A Poisson count whose rate is Gamma(shape, mean); thinned, NegativeBinomial(shape, p · mean).

    >>> float(NegativeBinomial(torch.tensor([2.0]), torch.tensor([10.0])).thin(0.1).mean)
    1.0
    """

    shape: Tensor
    scale_mean: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw a rate, then a count."""
        return Poisson(Gamma(self.shape, self.scale_mean).sample(generator)).sample(generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """Written with log1p so that the Poisson limit (a large shape) keeps its digits."""
        shape, mean = self.shape, self.scale_mean
        choose = gammaln(value + shape) - gammaln(shape) - gammaln(value + 1)
        return choose + _times_log(value, mean / (shape + mean)) - shape * torch.log1p(mean / shape)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale_mean

    def thin(self, p: Tensor | float) -> NegativeBinomial:
        """NegativeBinomial(shape, p · mean)."""
        return NegativeBinomial(self.shape, self.scale_mean * p)


@dataclass(frozen=True, eq=False)
class Gamma(Law):
    """The density of a positive real with the given shape and mean; none at zero, where only an atom has mass.

    >>> float(Gamma(torch.tensor([1.0]), torch.tensor([2.0])).log_prob(torch.tensor([2.0])).exp())  # e^-1 / 2
    0.183...
    """

    shape: Tensor
    scale_mean: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw."""
        shape, mean = torch.broadcast_tensors(self.shape, self.scale_mean)
        return torch._standard_gamma(shape.contiguous(), generator=generator) * (mean / shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Minus infinity at zero."""
        rate = self.shape / self.scale_mean
        safe = value.clamp(min=_TINY)
        inside = self.shape * rate.log() + (self.shape - 1) * safe.log() - rate * safe - gammaln(self.shape)
        return torch.where(value > 0, inside, -torch.inf)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale_mean


@dataclass(frozen=True, eq=False)
class Mixture(CountLaw):
    """Σ_k w_k law_k: families of laws with their components along a last axis, weights softmax(logits) over all of them.

    Thinned, the same weights and every component thinned.

    >>> law = Mixture(torch.zeros(1, 2), (Zero(torch.zeros(1, 1)), Poisson(torch.full((1, 1), 6.0))))
    >>> float(law.mean), float(law.thin(0.5).mean)
    (3.0, 1.5)
    """

    logits: Tensor
    parts: tuple[Law, ...]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw the component of every entry, then each entry from its own component only."""
        return self.draw(None, generator)

    def draw(self, index: Tensor | None, generator: torch.Generator | None = None) -> Tensor:
        """The weights are added up once per row of the law, and of the parameters only the drawn ones are gathered."""
        pick = draw_category(self.logits, generator, index)
        value = torch.zeros(pick.shape, dtype=self.logits.dtype, device=self.logits.device)
        first = 0
        for part in self.parts:
            size = part.mean.shape[-1]
            entries = ((pick >= first) & (pick < first + size)).nonzero(as_tuple=True)
            if len(entries[0]):
                here = entries if index is None else (index[entries[0]], *entries[1:])
                shape = torch.Size([*self.logits.shape[:-1], size])
                value[entries] = part.pick(here, pick[entries] - first, shape).sample(generator)
            first += size
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        """ln Σ_k w_k law_k(value)."""
        parts = [part.log_prob(value[..., None]) for part in self.parts]
        return torch.logsumexp(self.logits.log_softmax(-1) + torch.cat(parts, -1), -1)

    @property
    def mean(self) -> Tensor:
        """Σ_k w_k mean_k."""
        parts = [part.mean.expand(*self.logits.shape[:-1], part.mean.shape[-1]) for part in self.parts]
        return (self.logits.softmax(-1) * torch.cat(parts, -1)).sum(-1)

    def thin(self, p: Tensor | float) -> Mixture:
        """Every component thinned."""
        p = p[..., None] if isinstance(p, Tensor) else p
        return Mixture(self.logits, tuple(part.thin(p) for part in self.parts))  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Multinomial(Law):
    """Each unit falls on part c with probability softmax(logits)_c, independently: a composition.

    As a law by itself it is one unit.

    >>> Multinomial(torch.tensor([[0.0, -torch.inf]])).allocate(torch.tensor([5.0]), None)
    tensor([[5., 0.]])
    """

    logits: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """One unit."""
        return self.allocate(torch.ones_like(self.logits[..., 0]), generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """Of one unit (or of the units in ``value``, given how many they are)."""
        return self.log_allocation(value)

    @property
    def mean(self) -> Tensor:
        """softmax(logits)."""
        return self.logits.softmax(-1)

    def allocate(self, total: Tensor, generator: torch.Generator | None) -> Tensor:
        """Let ``total`` (…,) units fall on the parts (…, C)."""
        return draw_multinomial(total, self.mean, generator)

    def log_allocation(self, value: Tensor) -> Tensor:
        """The multinomial coefficient and Σ n_c ln p_c."""
        log_p = self.logits.log_softmax(-1)
        return _log_coefficient(value) + torch.where(value > 0, value * log_p, 0.0).sum(-1)


@dataclass(frozen=True, eq=False)
class DirichletMixture(Law):
    """A law of proportions: C atoms at the vertices (if ``vertices``) and K Dirichlets; also a composition.

    ``logits`` (…, C + K) or (…, K); ``concentration`` (…, K, C). The density is on the simplex's interior with respect to the
    first C − 1 coordinates; at a vertex only its atom has mass.

    >>> law = DirichletMixture(torch.zeros(1, 1), torch.ones(1, 1, 3), False)
    >>> float(law.log_prob(torch.full((1, 3), 1 / 3)).exp())  # uniform on a triangle of area 1/2
    2.0
    """

    logits: Tensor
    concentration: Tensor
    vertices: bool

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw proportions (…, C)."""
        pick = draw_category(self.logits, generator)
        parts = self.concentration.shape[-1]
        first = parts if self.vertices else 0
        if self.concentration.shape[-2] == 0:
            return torch.nn.functional.one_hot(pick, parts).to(self.concentration)
        component = (pick - first).clamp(min=0)
        chosen = self.concentration.take_along_dim(component[..., None, None], -2).squeeze(-2)
        weight = torch._standard_gamma(chosen, generator=generator).clamp(min=_TINY)
        interior = weight / weight.sum(-1, keepdim=True)
        if not self.vertices:
            return interior
        vertex = torch.nn.functional.one_hot(pick.clamp(max=parts - 1), parts).to(interior)
        return torch.where((pick < first)[..., None], vertex, interior)

    def log_prob(self, value: Tensor) -> Tensor:
        """Mass at a vertex, density inside, minus infinity on the rest of the boundary."""
        safe = value.clamp(min=_TINY)[..., None, :]
        a = self.concentration
        dirichlet = gammaln(a.sum(-1)) - gammaln(a).sum(-1) + ((a - 1) * safe.log()).sum(-1)
        dirichlet = torch.where((value > 0).all(-1, keepdim=True), dirichlet, -torch.inf)
        return self._mix(torch.where(value == 1, 0.0, -torch.inf).to(value), dirichlet)

    @property
    def mean(self) -> Tensor:
        """The expected proportions."""
        weights = self.logits.softmax(-1)
        inside = self.concentration / self.concentration.sum(-1, keepdim=True)
        parts = inside.shape[-1]
        first = parts if self.vertices else 0
        mean = (weights[..., first:, None] * inside).sum(-2)
        return mean + weights[..., :parts] if self.vertices else mean

    def allocate(self, total: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw the proportions, then let the units fall by them."""
        return draw_multinomial(total, self.sample(generator), generator)

    def log_allocation(self, value: Tensor) -> Tensor:
        """The mixture of Dirichlet-multinomials (and, for the atoms, of units that all fall on one part)."""
        total = value.sum(-1, keepdim=True)
        a, n = self.concentration, value[..., None, :]
        whole = a.sum(-1)
        urn = gammaln(whole) - gammaln(whole + total) + (gammaln(a + n) - gammaln(a)).sum(-1)
        urn = urn + _log_coefficient(value)[..., None]
        return self._mix(torch.where(value == total, 0.0, -torch.inf).to(urn), urn)

    def _mix(self, at_vertices: Tensor, inside: Tensor) -> Tensor:
        terms = torch.cat([at_vertices, inside], -1) if self.vertices else inside
        return torch.logsumexp(self.logits.log_softmax(-1) + terms, -1)


@dataclass(frozen=True, eq=False)
class Split(CountLaw):
    """Total × composition: a total by any count law, its units fall by an exchangeable composition.

    Thinned, the total is thinned and the composition stays, because any subset of exchangeable units falls alike.

    >>> law = Split(Poisson(torch.tensor([8.0])), Multinomial(torch.zeros(1, 4)))
    >>> law.thin(0.5).mean
    tensor([[1., 1., 1., 1.]])
    """

    total: CountLaw
    composition: Multinomial | DirichletMixture

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw a total, then let it fall."""
        return self.composition.allocate(self.total.sample(generator), generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """ln P(total) + ln P(value given its total)."""
        return self.total.log_prob(value.sum(-1)) + self.composition.log_allocation(value)

    @property
    def mean(self) -> Tensor:
        """The mean total times the mean shares."""
        return self.total.mean[..., None] * self.composition.mean

    def thin(self, p: Tensor | float) -> Split:
        """The total thinned."""
        return Split(self.total.thin(p), self.composition)


@dataclass(frozen=True, eq=False)
class Product(CountLaw):
    """Independent entries: the log-probabilities of a row add up.

    >>> Product(Poisson(torch.ones(2, 3))).log_prob(torch.zeros(2, 3))
    tensor([-3., -3.])
    """

    entries: Law

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw every entry."""
        return self.entries.sample(generator)

    def draw(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """See :meth:`Law.draw`."""
        return self.entries.draw(index, generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """One number per row."""
        return self.entries.log_prob(value).flatten(1).sum(1)

    @property
    def mean(self) -> Tensor:
        """Entry by entry."""
        return self.entries.mean

    def thin(self, p: Tensor | float) -> Product:
        """Every entry thinned."""
        return Product(self.entries.thin(p))  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Shared(CountLaw):
    """Row i has the row ``index`` i of ``law``: rows in equal states share one evaluation, and part ways when they are drawn.

    >>> Shared(Poisson(torch.tensor([[1.0], [5.0]])), torch.tensor([1, 1, 0])).mean.ravel()
    tensor([5., 5., 1.])
    """

    law: Law
    index: Tensor

    @property
    def each(self) -> Law:
        """The law of every row, written out."""
        return self.law.rows(self.index)

    def rows(self, index: Tensor) -> Shared:
        """See :meth:`Law.rows`."""
        return Shared(self.law, self.index[index])

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw every row by itself."""
        return self.law.draw(self.index, generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """Of every row."""
        return self.each.log_prob(value)

    @property
    def mean(self) -> Tensor:
        """Of every row."""
        return self.law.mean[self.index]

    def thin(self, p: Tensor | float) -> CountLaw:
        """Rows stay shared where ``p`` is one for all."""
        if isinstance(p, Tensor) and p.dim() > 0 and len(p) > 1:
            return self.each.thin(p)  # type: ignore[attr-defined]
        return Shared(self.law.thin(p), self.index)  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Shifted(Law):
    """by + law: the paper's Pois_m and shifted binomial, a jump added to the count that is already there.

    >>> float(Shifted(torch.tensor([3.0]), Poisson(torch.tensor([2.0]))).mean)
    5.0
    """

    by: Tensor
    jump: Law

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Jump."""
        return self.by + self.jump.sample(generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """Of the jump; minus infinity for a jump below zero."""
        jump = value - self.by
        below = jump < 0
        inside = self.jump.log_prob(jump.clamp(min=0))
        return torch.where(below if below.shape == inside.shape else below.flatten(1).any(1), -torch.inf, inside)

    @property
    def mean(self) -> Tensor:
        """by + the mean jump."""
        return self.by + self.jump.mean


def draw_category(logits: Tensor, generator: torch.Generator | None = None, rows: Tensor | None = None) -> Tensor:
    """One index of the last axis for every entry (of the given ``rows``), with probabilities softmax(logits)."""
    cumulative = logits.softmax(-1).cumsum(-1)
    cumulative = cumulative if rows is None else cumulative.index_select(0, rows)
    shape = (*cumulative.shape[:-1], 1)
    threshold = torch.rand(shape, dtype=logits.dtype, device=logits.device, generator=generator)
    return (cumulative[..., :-1] <= threshold * cumulative[..., -1:]).sum(-1)


def draw_multinomial(total: Tensor, probs: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Let ``total`` (…,) units fall on the last axis of ``probs`` (…, C), independently.

    Few units are dropped one by one, at a cost that follows the units; many are halved down a tree of binomial draws, at a
    cost that follows the entries, whatever the totals.
    """
    total, probs = total.expand(probs.shape[:-1]), probs.double()
    flat_total, flat_probs = total.reshape(-1), probs.reshape(-1, probs.shape[-1])
    if flat_total.sum() <= 2 * flat_probs.numel():
        counts = _drop_units(flat_total, flat_probs, generator)
    else:
        counts = _halve(flat_total, flat_probs, generator)
    return counts.reshape(probs.shape).to(total.dtype)


def _drop_units(total: Tensor, probs: Tensor, generator: torch.Generator | None) -> Tensor:
    rows, parts = probs.shape
    cumulative = probs.cumsum(-1)
    row = torch.repeat_interleave(torch.arange(rows, device=probs.device), total.long())
    height = torch.rand(len(row), dtype=probs.dtype, device=probs.device, generator=generator) * cumulative[row, -1]
    # One search for all rows: row r occupies the heights between base_r and base_(r+1).
    base = torch.cat([cumulative.new_zeros(1), cumulative[:, -1].cumsum(0)])[:-1]
    ladder = (cumulative + base[:, None]).reshape(-1)
    place = torch.searchsorted(ladder, height + base[row], right=True)
    place = torch.minimum(torch.maximum(place, row * parts), row * parts + parts - 1)
    return torch.bincount(place, minlength=rows * parts).to(probs).reshape(rows, parts)


def _halve(total: Tensor, probs: Tensor, generator: torch.Generator | None) -> Tensor:
    rows, parts = probs.shape
    levels = [torch.nn.functional.pad(probs, (0, (1 << (parts - 1).bit_length()) - parts))]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1].reshape(rows, -1, 2).sum(-1))
    counts = total[:, None].to(probs)
    for level in reversed(levels[:-1]):
        left, right = level[:, 0::2], level[:, 1::2]
        share = torch.where(right > 0, left / (left + right).clamp(min=_TINY), 1.0)
        on_left = Binomial(counts, share).sample(generator)
        counts = torch.stack([on_left, counts - on_left], -1).reshape(rows, -1)
    return counts[:, :parts]


def _times_log(count: Tensor, y: Tensor) -> Tensor:
    """count · ln y, where a count of zero has no part in the gradient (``xlogy`` has NaN at y = 0)."""
    return xlogy(count, torch.where(count == 0, 1.0, y))


def _log_coefficient(value: Tensor) -> Tensor:
    return gammaln(value.sum(-1) + 1) - gammaln(value + 1).sum(-1)
