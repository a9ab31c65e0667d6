"""Compositions: how the units of a total fall on the parts of a whole, and total × composition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.special import gammaln

from countjump.laws.base import CountFamily, Family, draw_category
from countjump.laws.scalar import TINY, Binomial


@dataclass(frozen=True, eq=False)
class Multinomial(Family):
    """Each unit falls on part c with probability softmax(logits)_c, independently: a composition.

    As a law by itself it is one unit.

    >>> Multinomial(torch.tensor([[0.0, -torch.inf]])).allocate(torch.tensor([5.0]), None)
    tensor([[5., 0.]])
    """

    logits: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.allocate(torch.ones_like(self.logits[..., 0]), generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """Of one unit (or of the units in ``value``, given how many they are)."""
        return self.log_allocation(value)

    @property
    def mean(self) -> Tensor:
        return self.logits.softmax(-1)

    def allocate(self, total: Tensor, generator: torch.Generator | None) -> Tensor:
        """Let ``total`` (…,) units fall on the parts (…, C)."""
        return draw_multinomial(total, self.mean, generator)

    def log_allocation(self, value: Tensor) -> Tensor:
        """The multinomial coefficient and Σ n_c ln p_c."""
        log_p = self.logits.log_softmax(-1)
        return _log_coefficient(value) + torch.where(value > 0, value * log_p, 0.0).sum(-1)


@dataclass(frozen=True, eq=False)
class DirichletMixture(Family):
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
        pick = draw_category(self.logits, generator)
        parts = self.concentration.shape[-1]
        first = parts if self.vertices else 0
        if self.concentration.shape[-2] == 0:
            return torch.nn.functional.one_hot(pick, parts).to(self.concentration)
        component = (pick - first).clamp(min=0)
        chosen = self.concentration.take_along_dim(component[..., None, None], -2).squeeze(-2)
        weight = torch._standard_gamma(chosen, generator=generator).clamp(min=TINY)
        interior = weight / weight.sum(-1, keepdim=True)
        if not self.vertices:
            return interior
        vertex = torch.nn.functional.one_hot(pick.clamp(max=parts - 1), parts).to(interior)
        return torch.where((pick < first)[..., None], vertex, interior)

    def log_prob(self, value: Tensor) -> Tensor:
        """Mass at a vertex, density inside, minus infinity on the rest of the boundary."""
        safe = value.clamp(min=TINY)[..., None, :]
        a = self.concentration
        dirichlet = gammaln(a.sum(-1)) - gammaln(a).sum(-1) + ((a - 1) * safe.log()).sum(-1)
        dirichlet = torch.where((value > 0).all(-1, keepdim=True), dirichlet, -torch.inf)
        return self._mix(torch.where(value == 1, 0.0, -torch.inf).to(value), dirichlet)

    @property
    def mean(self) -> Tensor:
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
class TotalTimesComposition(CountFamily):
    """Total × composition: a total by any count law, its units fall by an exchangeable composition.

    Thinned, the total is thinned and the composition stays, because any subset of exchangeable units falls alike.

    >>> from countjump.laws import Poisson
    >>> law = TotalTimesComposition(Poisson(torch.tensor([8.0])), Multinomial(torch.zeros(1, 4)))
    >>> law.thin(0.5).mean
    tensor([[1., 1., 1., 1.]])
    """

    total: Any
    composition: Any

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.composition.allocate(self.total.sample(generator), generator)

    def log_prob(self, value: Tensor) -> Tensor:
        inside = value.clamp(min=0)
        log_prob = self.total.log_prob(inside.sum(-1)) + self.composition.log_allocation(inside)
        return torch.where((value < 0).any(-1), -torch.inf, log_prob)

    @property
    def mean(self) -> Tensor:
        return self.total.mean[..., None] * self.composition.mean

    def thin(self, p: Tensor | float) -> TotalTimesComposition:
        return TotalTimesComposition(self.total.thin(p), self.composition)


def draw_multinomial(total: Tensor, probs: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Let ``total`` (…,) units fall on the last axis of ``probs`` (…, C), independently.

    Few units are dropped one by one, at a cost that follows the units; many are halved down a tree of binomial draws, at a
    cost that follows the entries, whatever the totals.
    """
    total, probs = total.expand(probs.shape[:-1]), probs.double()
    flat_total, flat_probs = total.reshape(-1), probs.reshape(-1, probs.shape[-1])
    if flat_total.sum() <= 2 * flat_probs.numel():
        counts = _draw_units(flat_total, flat_probs, generator)
    else:
        counts = _halve(flat_total, flat_probs, generator)
    return counts.reshape(probs.shape).to(total.dtype)


def _draw_units(total: Tensor, probs: Tensor, generator: torch.Generator | None) -> Tensor:
    rows, parts = probs.shape
    cumulative = probs.cumsum(-1)
    row = torch.repeat_interleave(torch.arange(rows, device=probs.device), total.long())
    height = torch.rand(len(row), dtype=probs.dtype, device=probs.device, generator=generator) * cumulative[row, -1]
    # One search for all rows: row r occupies the heights between base_r and base_(r+1).
    base = torch.cat([cumulative.new_zeros(1), cumulative[:, -1].cumsum(0)])[:-1]
    heights = (cumulative + base[:, None]).reshape(-1)
    place = torch.searchsorted(heights, height + base[row], right=True)
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
        share = torch.where(right > 0, left / (left + right).clamp(min=TINY), 1.0)
        on_left = Binomial(counts, share).sample(generator)
        counts = torch.stack([on_left, counts - on_left], -1).reshape(rows, -1)
    return counts[:, :parts]


def _log_coefficient(value: Tensor) -> Tensor:
    return gammaln(value.sum(-1) + 1) - gammaln(value + 1).sum(-1)
