"""Beliefs: from a network's output to the law of the count that is still missing (and of x_0, where the data is real).

A head says what the network sees (``features``), how many numbers it answers with (``outputs``) and what law they mean
(``forward``). Every head corrects a conjugate answer that is already right for a simple prior (the preconditioning): a network
that answers zero is a sensible model.

===================  =====================================  ============================================================
head                 data                                   belief
===================  =====================================  ============================================================
:class:`PoissonHead`  any non-negative                       the paper's: Poisson(λ (1 − α) f(z, t))
:class:`CountHead`    counts, bounded counts, binary         an atom at zero, K negative binomials, K binomials
:class:`GammaHead`    non-negative reals                     about x_0: an atom at zero and K Gammas
:class:`UnitsHead`    one-hot, simplex, bounded reals        about x_0: atoms at the vertices and K Dirichlets
:class:`TotalHead`    wide counts                            total × composition
===================  =====================================  ============================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from countjump.laws import (
    Binomial,
    CountLaw,
    DirichletMixture,
    Gamma,
    Law,
    Mixture,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Product,
    Shared,
    Split,
    Whole,
    Zero,
)

MAX_SHAPE = 1e6
"""The largest shape of a Gamma or negative binomial: beyond it they are a point and a Poisson for every purpose."""


@dataclass(frozen=True)
class Belief:
    """What is believed of a row given z_t: the law of the missing count z_0 − z_t and, where there is one, of x_0."""

    missing: CountLaw
    data: Law | None = None

    def rows(self, index: Tensor) -> Belief:
        """The beliefs of the rows ``index``."""
        return Belief(Shared(self.missing, index), None if self.data is None else Shared(self.data, index))


class Conjugate(nn.Module):
    """The Gamma prior of each column: x_0 ~ Gamma(shape, mean), z_t ~ Pois(λ α x_0); its posterior is what heads correct.

    E[x_0 given z_t] = (z_t + shape) / (λ α + shape / mean), with posterior shape z_t + shape.
    """

    mean: Tensor
    shape: Tensor
    lam: Tensor

    def __init__(self, mean: Tensor, shape: Tensor, lam: Tensor) -> None:
        super().__init__()
        _constants(self, mean=mean, shape=shape, lam=lam)

    def posterior_mean(self, z: Tensor, alpha: Tensor) -> Tensor:
        """E[x_0 given z_t]."""
        return (z + self.shape) / (self.lam * alpha + self.shape / self.mean)

    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        """Three views of z_t, each of about unit scale: against the prior, by its logarithm, and linear near the mean."""
        scale = self.lam * self.mean + 1
        return torch.cat(
            [
                (self.posterior_mean(z, alpha) / self.mean).log() / 2,
                z.log1p() / scale.log1p(),
                2 * z / (z + scale),
            ],
            -1,
        ).float()


class Head(nn.Module, ABC):
    """From network output to belief. ``inputs`` and ``outputs`` size the network; ``sparse`` features are mostly zero."""

    inputs: int
    outputs: int
    sparse = False

    @abstractmethod
    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        """What the network sees of z_t (B, …): (B, inputs), float32."""

    @abstractmethod
    def forward(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """The belief that the network's output (B, outputs) means."""

    def negative_log_likelihood(self, belief: Belief, missing: Tensor) -> Tensor:
        """−ln belief(missing) per row, on a scale of about one per entry."""
        return -belief.missing.log_prob(missing) / missing[0].numel()


class ColumnHead(Head):
    """A head that believes in every column apart, with ``per_column`` numbers for each."""

    def __init__(self, prior: Conjugate, per_column: int) -> None:
        super().__init__()
        self.prior = prior
        self.columns = len(prior.mean)
        self.inputs, self.outputs = 3 * self.columns, per_column * self.columns

    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        """See :class:`Conjugate`."""
        return self.prior.features(z, alpha)

    def by_column(self, output: Tensor) -> Tensor:
        """(B, outputs) → (B, columns, per_column), float64."""
        return output.double().reshape(len(output), self.columns, -1)


class PoissonHead(ColumnHead):
    """The paper's belief: the missing count is Poisson(λ (1 − α_t) f(z_t, t)), f the posterior mean of x_0.

    With λ = 1 it serves binomial JUMP as well, where the rate is f(z_t, t) − z_t: the missing count is what is predicted.
    """

    def __init__(self, prior: Conjugate) -> None:
        super().__init__(prior, 1)

    def forward(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """f is the conjugate mean times softplus, which is 1 where the network answers 0."""
        correction = nn.functional.softplus(self.by_column(output)[..., 0] + math.log(math.e - 1))
        f = self.prior.posterior_mean(z, alpha) * correction
        return Belief(Product(Poisson(self.prior.lam * (1 - alpha) * f)))


class GammaHead(ColumnHead):
    """Non-negative reals: x_0 is zero (possible while z_t = 0) or one of K Gammas; the missing count is then a mixture of
    negative binomials.
    """

    log_odds_zero: Tensor
    has_zeros: Tensor
    spread: Tensor

    def __init__(self, prior: Conjugate, zero_share: Tensor, components: int) -> None:
        super().__init__(prior, 3 * components + 1)
        self.components = components
        _constants(
            self,
            log_odds_zero=torch.logit(zero_share.clamp(1e-12, 1 - 1e-12)),
            has_zeros=zero_share > 0,
            spread=_spread(components),
        )

    def forward(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """Each Gamma corrects the conjugate posterior's mean and shape, in log space."""
        k = self.components
        raw = self.by_column(output)
        means = self.prior.posterior_mean(z, alpha)[..., None] * _soft(raw[..., :k] + self.spread, 12).exp()
        shapes = (z + self.prior.shape)[..., None] * _soft(raw[..., k : 2 * k], 8).exp()
        shapes = shapes.clamp(1e-2, MAX_SHAPE)
        atom = raw[..., 2 * k] + self.log_odds_zero
        atom = torch.where(self.has_zeros & (z == 0), atom, -torch.inf)
        logits = torch.cat([atom[..., None], raw[..., 2 * k + 1 :].log_softmax(-1)], -1)
        zero = Zero(torch.zeros_like(atom)[..., None])
        rate = (self.prior.lam * (1 - alpha))[..., None]
        missing = Mixture(logits, (zero, NegativeBinomial(shapes, rate * means)))
        return Belief(Product(missing), Product(Mixture(logits, (zero, Gamma(shapes, means)))))


class CountHead(ColumnHead):
    """Counts: the missing count is zero, one of K negative binomials, or one of K Binomial(M − z_t, q).

    M is the column's bound or its largest training value. A ``bounded`` column has no negative binomials, so that no count
    exceeds M. The binomials can be narrower than a Poisson, which no negative binomial is; a ``mixed`` Poisson count (Poisson JUMP)
    never is, and has none.
    """

    largest: Tensor
    excluded: Tensor
    spread: Tensor
    steps: Tensor

    def __init__(
        self, prior: Conjugate, largest: Tensor, bounded: Tensor, components: int, mixed: bool = False
    ) -> None:
        all_bounded = bool(bounded.all())
        negative = 0 if all_bounded else components
        binomials = 1 if all_bounded and bool((largest <= 1).all()) else components * (not mixed)
        super().__init__(prior, 1 + 2 * binomials + 3 * negative)
        self.negative, self.binomials = negative, binomials
        excluded = torch.cat(
            [torch.zeros(len(bounded), 1 + binomials, dtype=torch.bool), bounded[:, None].expand(-1, negative)], -1
        )
        _constants(self, largest=largest, excluded=excluded, spread=_spread(negative), steps=_spread(binomials))

    def law(self, output: Tensor, z: Tensor, alpha: Tensor) -> Mixture:
        """The law of every column's missing count."""
        b, k = self.binomials, self.negative
        raw = self.by_column(output)
        base = (1 - alpha) * self.prior.lam * self.prior.posterior_mean(z, alpha)
        left = (self.largest - z).clamp(min=0)
        share = (base / left.clamp(min=1)).clamp(1e-4, 1 - 1e-4)
        probs = torch.sigmoid(torch.logit(share)[..., None] + self.steps + _soft(raw[..., :b], 30))
        parts: list[Law] = [
            Zero(torch.zeros_like(base)[..., None]),
            Binomial(left[..., None], probs.clamp(1e-12, 1 - 1e-12)),
        ]
        logits = raw[..., 2 * k + b :]
        if k:
            means = base[..., None].clamp(min=1e-12) * _soft(raw[..., b : b + k] + self.spread, 12).exp()
            shapes = (z + self.prior.shape)[..., None] * _soft(raw[..., b + k : b + 2 * k], 10).exp()
            parts.append(NegativeBinomial(shapes.clamp(1e-3, MAX_SHAPE), means))
        return Mixture(logits.masked_fill(self.excluded, -torch.inf), tuple(parts))

    def forward(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """Columns apart."""
        return Belief(Product(self.law(output, z, alpha)))


class UnitsHead(Head):
    """Proportions of G wholes with C parts each, seen through N units of which some have fallen: x_0 is at a vertex
    (possible while no unit lies elsewhere) or one of K Dirichlets; what is missing falls by the same law.

    A one-hot row is one whole with vertices only (K = 0); a simplex row is one whole; a bounded real is a whole of two parts.
    """

    share: Tensor
    total: Tensor
    concentration: Tensor
    log_weights: Tensor
    possible: Tensor

    def __init__(
        self,
        share: Tensor,
        strength: Tensor,
        vertex_share: Tensor,
        total: Tensor,
        components: int,
        has_law: bool = True,
    ) -> None:
        super().__init__()
        self.groups, self.parts = share.shape
        self.components, self.has_law = components, has_law
        self.vertices = bool((vertex_share > 0).any())
        atoms = vertex_share if self.vertices else vertex_share[:, :0]
        inside = (1 - vertex_share.sum(-1, keepdim=True)).expand(-1, components) / max(components, 1)
        weights = torch.cat([atoms, inside.clamp(min=1e-12)], -1)
        _constants(
            self,
            share=share,  # (G, C)
            total=total,  # (G,)
            concentration=share * strength[:, None],
            log_weights=weights.clamp(min=1e-12).log(),
            possible=weights > 0,
        )
        self.inputs = self.groups * (self.parts + 1)
        self.outputs = self.groups * (self.log_weights.shape[-1] + components * self.parts)

    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        """The posterior shares against the prior ones, and how many units have fallen."""
        fallen = z.sum(-1, keepdim=True)
        strength = self.concentration.sum(-1, keepdim=True)
        share = (z + self.concentration) / (fallen + strength)
        view = [(share / self.share.clamp(min=1e-12)).log() / 2, fallen.log1p() / self.total[:, None].log1p()]
        return torch.cat(view, -1).flatten(1).float()

    def forward(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """Each Dirichlet corrects the conjugate posterior z + prior, in log space."""
        raw = output.double().reshape(len(output), self.groups, -1)
        weights = self.log_weights.shape[-1]
        correction = raw[..., weights:].reshape(len(raw), self.groups, self.components, self.parts)
        concentration = (z + self.concentration)[..., None, :] * _soft(correction, 8).exp()
        concentration = concentration.clamp(1e-3, MAX_SHAPE)
        fallen = z.sum(-1)
        logits = (raw[..., :weights] + self.log_weights).masked_fill(~self.possible, -torch.inf)
        if self.vertices:
            elsewhere = nn.functional.pad(z != fallen[..., None], (0, self.components))
            logits = logits.masked_fill(elsewhere, -torch.inf)
        shares = DirichletMixture(logits, concentration, self.vertices)
        left = Binomial(self.total - fallen, torch.ones_like(fallen))
        return Belief(Product(Split(left, shares)), Product(shares) if self.has_law else None)


class TotalHead(Head):
    """Wide counts: the missing total by :class:`CountHead`, and its units fall by
    softmax(ln μ_d + u_d · ln(1 + z_d) · exp(s) + (W h)_d), where W h and s are the network's.

    How strongly a column that is already there calls for itself (u, s) is learned.
    """

    sparse = True

    log_shares: Tensor

    def __init__(self, shares: Tensor, total: CountHead) -> None:
        super().__init__()
        self.total = total
        self.columns = len(shares)
        _constants(self, log_shares=shares.log().float())
        self.tokens = float(total.prior.mean.sum())
        self.self_excitation = nn.Parameter(torch.full((self.columns,), 0.5))
        self.inputs = self.columns + total.inputs
        self.outputs = self.columns + 1 + total.outputs

    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        """ln(1 + z), zero where z is, and the total's features."""
        return torch.cat([z.float().log1p(), self.total.features(z.sum(-1, keepdim=True), alpha)], -1)

    def forward(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """Total × composition; the logits stay in float32."""
        strength, composition = output[:, :1], output[:, 1 : 1 + self.columns]
        excited = self.self_excitation * z.float().log1p() * _soft(strength, 4).exp()
        logits = self.log_shares + excited + composition
        total = self.total.law(output[:, 1 + self.columns :], z.sum(-1, keepdim=True), alpha)
        return Belief(Whole(Split(total, Multinomial(logits[:, None, :]))))

    def negative_log_likelihood(self, belief: Belief, missing: Tensor) -> Tensor:
        """The total's and the composition's, the latter per expected token: two factors, so any weights share a minimiser."""
        split = belief.missing.split  # type: ignore[attr-defined]
        total = -split.total.log_prob(missing.sum(-1, keepdim=True)).squeeze(1)
        composition = -(missing * split.composition.logits.squeeze(1).log_softmax(-1)).sum(-1)
        return total + composition / max(self.tokens, 1.0)


def _soft(raw: Tensor, limit: float) -> Tensor:
    """The identity near zero, bounded by ±limit."""
    return limit * torch.tanh(raw / limit)


def _spread(components: int) -> Tensor:
    """Offsets that part the components at the start."""
    return torch.linspace(-1.5, 1.5, components, dtype=torch.float64) * (components > 1)


def _constants(module: nn.Module, **tensors: Tensor) -> None:
    """Keep tensors that move with the module but are not part of its saved weights."""
    for name, tensor in tensors.items():
        module.register_buffer(name, tensor, persistent=False)
