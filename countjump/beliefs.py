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
:class:`BagHead`      wide counts and sparse reals           total × composition (× amounts)
===================  =====================================  ============================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from countjump.bags import Bags, Sample
from countjump.compositions import TILTS, Amounts, BagLaw
from countjump.laws import (
    Binomial,
    DirichletMixture,
    Gamma,
    Law,
    Mixture,
    NegativeBinomial,
    Poisson,
    Product,
    Shared,
    Split,
    Zero,
)

MAX_SHAPE = 1e6
"""The largest shape of a Gamma or negative binomial: beyond it they are a point and a Poisson for every purpose."""


TOKENS = 50.0
"""Units of an ordinary bag, at most."""

SAMPLED, MOST_SAMPLED = 1024, 0.75
"""Columns on which the softmax is worked out in training, about, beside those of the batch; and the share of all from which on a
sample is not worth its noise."""

WHOLE = 2**15
"""Columns up to which all are looked at where their vectors are not being learned: it costs little, and has no noise."""

LEVELS = 3
"""Powers of the logarithm of a column's frequency by which the shares are balanced."""

PACE = 128
"""Hidden units of the small network that corrects the belief about a bag's total."""

UNLIKELY = -3.0
"""The log-weight, before any training, of an atom at zero and of a binomial beside negative binomials that fit the column."""


@dataclass(frozen=True)
class Belief:
    """What is believed of a row given z_t: the law of the missing count z_0 − z_t and, where there is one, of x_0."""

    missing: Any
    data: Any = None

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
    """From network output to belief. ``inputs`` and ``outputs`` size the network."""

    inputs: int
    outputs: int

    @abstractmethod
    def features(self, z: Any, alpha: Tensor) -> Tensor:
        """What the network sees of z_t (B, …): (B, inputs), float32."""

    @abstractmethod
    def forward(self, output: Tensor, z: Any, alpha: Tensor) -> Belief:
        """The belief that the network's output (B, outputs) means."""

    def negative_log_likelihood(self, belief: Belief, missing: Any) -> Tensor:
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


class Gammas(nn.Module):
    """The prior of every column, a mixture of Gammas (3, D, K: weights, shapes, means), and its posterior given z_t.

    Given z_t ~ Pois(λ α x) each weight is multiplied by the negative binomial probability of z_t, and each Gamma is the conjugate
    one, with shape z_t + shape. Counts that are thinned are the same with λ = 1, x being the rate behind the count.
    """

    log_weights: Tensor
    shapes: Tensor
    means: Tensor

    def __init__(self, mixture: Tensor) -> None:
        super().__init__()
        weights, shapes, means = mixture.double()
        self.components = weights.shape[-1]
        _constants(self, log_weights=weights.log(), shapes=shapes, means=means)

    def posterior(self, z: Tensor, rate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights (not normalised), shapes and means (B, D, K) given z (B, D) and λ α."""
        z = z[..., None]
        seen = (rate[..., None] * self.means).clamp(min=1e-300)
        likelihood = NegativeBinomial(self.shapes, seen).log_prob(z)
        return self.log_weights + likelihood, z + self.shapes, (z + self.shapes) / (seen + self.shapes) * self.means


class GammaHead(ColumnHead):
    """Non-negative reals: x_0 is zero (possible while z_t = 0) or one of K Gammas; the missing count is then a mixture of
    negative binomials. The network corrects the posterior of the prior's mixture, in log space.
    """

    log_zero: Tensor
    log_more: Tensor

    def __init__(self, prior: Conjugate, zero_share: Tensor, gammas: Gammas) -> None:
        super().__init__(prior, 3 * gammas.components + 1)
        self.gammas = gammas
        _constants(self, log_zero=zero_share.log()[:, None], log_more=torch.log1p(-zero_share)[:, None])

    def forward(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """The posterior, corrected."""
        k = self.gammas.components
        raw = self.by_column(output)
        weights, shapes, means = self.gammas.posterior(z, self.prior.lam * alpha)
        means = means * _soft(raw[..., :k], 12).exp()
        shapes = (shapes * _soft(raw[..., k : 2 * k], 8).exp()).clamp(1e-2, MAX_SHAPE)
        atom = torch.where(z[..., None] == 0, self.log_zero + raw[..., 2 * k : 2 * k + 1], -torch.inf)
        logits = torch.cat([atom, self.log_more + weights + raw[..., 2 * k + 1 :]], -1)
        zero = Zero(torch.zeros_like(atom))
        rate = (self.prior.lam * (1 - alpha))[..., None]
        missing = Mixture(logits, (zero, NegativeBinomial(shapes, rate * means)))
        return Belief(Product(missing), Product(Mixture(logits, (zero, Gamma(shapes, means)))))


class CountHead(ColumnHead):
    """Counts: the missing count is zero, one of K negative binomials, or one of K Binomial(M − z_t, q).

    The negative binomials correct the posterior of the rates' mixture of ``gammas``; without them the column is bounded. M is the
    column's bound or its largest training value. A ``bounded`` column has no negative binomials, so that no count exceeds M. The
    binomials can be narrower than a Poisson, which no negative binomial is; a ``mixed`` Poisson count (Poisson JUMP) never is, and
    has none.
    """

    largest: Tensor
    excluded: Tensor
    steps: Tensor

    def __init__(
        self,
        prior: Conjugate,
        largest: Tensor,
        bounded: Tensor,
        components: int,
        gammas: Gammas | None = None,
        mixed: bool = False,
    ) -> None:
        negative = 0 if gammas is None else gammas.components
        binomials = 1 if gammas is None and bool((largest <= 1).all()) else components * (not mixed)
        super().__init__(prior, 1 + 2 * binomials + 3 * negative)
        self.negative, self.binomials, self.gammas = negative, binomials, gammas
        excluded = torch.cat(
            [torch.zeros(len(bounded), 1 + binomials, dtype=torch.bool), bounded[:, None].expand(-1, negative)], -1
        )
        _constants(self, largest=largest, excluded=excluded, steps=_spread(binomials))

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
        if self.gammas is not None:
            weights, shapes, means = self.gammas.posterior(z, self.prior.lam * alpha)
            means = (self.prior.lam * (1 - alpha))[..., None] * means * _soft(raw[..., b : b + k], 12).exp()
            shapes = shapes * _soft(raw[..., b + k : b + 2 * k], 10).exp()
            parts.append(NegativeBinomial(shapes.clamp(1e-3, MAX_SHAPE), means.clamp(min=1e-12)))
            others = torch.full_like(raw[..., : 1 + b], UNLIKELY)
            logits = logits + torch.cat([others, weights.log_softmax(-1)], -1)
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


class BagHead(Head):
    """Wide sparse rows, total × composition: the missing total by :class:`CountHead`, and its units fall by
    softmax(b_d + table_d · q), or, with probability π, on units that lie already, by (z_d − δ_d) exp(g c_d) over its sum; q, π
    and g are the network's, and so is a common shift of the discounts δ.

    How strongly a column that is already there calls for itself is learned. ``balance`` moves what is common to all rows at a
    time: how much likelier frequent columns come anew than rare ones, the log-odds of π, ln g, how much likelier frequent columns
    come again, and the tilts of columns that are there 0, 1, 2, ... times, and of large shares. It is found on rows that were held
    out. What the network sees is the sum of the same vectors, table_d, over the non-zeros: a zero costs something in the softmax
    only. With ``amounts`` rows are sets of columns with a positive real at each: a column comes once, and the real is believed by
    :class:`countjump.compositions.Amounts`.
    """

    inclusion: Tensor
    levels: Tensor

    def __init__(self, shares: Tensor, total: CountHead, width: int, amounts: AmountHead | None = None) -> None:
        super().__init__()
        self.total, self.amounts, self.width = total, amounts, width
        self.columns = len(shares)
        self.tokens = min(max(float(total.prior.mean.sum()), 1.0), TOKENS)
        self.table = nn.Embedding(self.columns, width, sparse=True)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.gauge = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(shares.log().float())
        _constants(
            self,
            inclusion=(SAMPLED * (shares + 1 / self.columns) / 2).clamp(max=1).float(),
            levels=_powers(shares.log(), shares, LEVELS).clamp(-5, 5).float(),
        )
        if amounts is None:
            self.calling = nn.Parameter(torch.zeros(self.columns, 2))
        self.balanced = [LEVELS, *([] if amounts else [1, 1, LEVELS, TILTS])]
        self.balance = nn.Parameter(torch.zeros(4, sum(self.balanced)), requires_grad=False)
        last = nn.Linear(PACE, total.outputs)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        hidden = [nn.Linear(total.inputs + 2, PACE), nn.SiLU(), nn.Linear(PACE, PACE), nn.SiLU(), nn.Linear(PACE, PACE)]
        self.pace = nn.Sequential(*hidden, nn.SiLU(), last)
        self.inputs = width + total.inputs
        self.outputs = width + 3 + (0 if amounts is None else amounts.outputs)

    @torch.no_grad()
    def start(self, rise: Tensor, spread: Tensor) -> None:
        """Begin with known directions (D, K ≤ H) in which rows differ, see :func:`countjump.priors.directions`."""
        known = len(spread)
        self.table.weight.mul_(0.1)
        self.table.weight[:, :known], self.gauge[:known] = rise, 1 / spread.clamp(min=1e-3)

    def features(self, z: Bags, alpha: Tensor) -> Tensor:
        """Σ_d ln(1 + z_d) · table_d, each direction by its gauge, and the total's features."""
        table = self.table.weight if z.sample is None else z.sample.table
        there = z.nonzero()
        amount = there.value.float().log1p()
        seen = nn.functional.embedding_bag(there.column, table, there.starts(), mode="sum", per_sample_weights=amount)
        return torch.cat([seen * self.gauge, self.total.features(z.totals()[:, None], alpha)], -1)

    def forward(self, output: Tensor, z: Bags, alpha: Tensor) -> Belief:
        """Total × composition, and the amounts."""
        query, echo, rest = output.split([self.width, 3, self.outputs - self.width - 3], 1)
        there = z.totals()
        learning = self.training and torch.is_grad_enabled()
        total = None if learning else self.missing_total(there[:, None], alpha)
        sets = self.amounts is not None
        odds, gain, shift = echo[:, :1] - 1, _soft(echo[:, 1:2], 2).exp(), _soft(echo[:, 2:], 12)
        tilt, lean, levels = None, None, None
        table, bias, calling = self._columns(z.sample)
        if self.balance.requires_grad or bool(self.balance.any()):
            lean, *others = (self._when(alpha) @ self.balance).split(self.balanced, 1)
            levels = self.levels if z.sample is None else self.levels[z.sample.columns]
            if calling is not None:
                more, factor, again, tilt = others
                odds, tilt = odds + more, _soft(tilt, 6)
                gain = torch.cat([gain * _soft(factor, 2).exp(), _soft(again, 2)], 1)
                calling = torch.cat([calling, levels], 1)
        echo = torch.cat([_soft(odds, 12), shift, gain], 1)
        most = torch.full_like(there, self.columns) if sets else 2 * self.total.largest
        limit = (most - there).clamp(min=0)
        missing = BagLaw(total, query, echo, z, table, bias, calling, limit, tilt, lean, levels, gather=True)
        return Belief(missing, None if self.amounts is None else self.amounts(rest, z))

    def narrow(self, x: Bags, generator: torch.Generator) -> Bags:
        """On its own columns and a sample of the others, where columns are many."""
        learning = self.table.weight.requires_grad and torch.is_grad_enabled()
        if not learning and self.columns <= WHOLE:
            return x
        chosen = torch.rand(self.columns, generator=generator, device=x.device) < self.inclusion
        chosen = chosen.index_fill_(0, x.column, True)
        columns = chosen.nonzero().squeeze(1)
        if len(columns) > MOST_SAMPLED * self.columns:
            return x
        inclusion = self.inclusion.index_fill(0, x.column, 1.0)[columns]
        place = (chosen.cumsum(0) - 1)[x.column]
        return Bags(x.row, place, x.value, (len(x), len(columns)), Sample(columns, inclusion, self.table(columns)))

    def _columns(self, sample: Sample | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Of every column its row of the table, its bias, and how it calls for itself.

        A column of a sample stands for those like it that are not included, so that the sum under the softmax has the right mean
        (Horvitz and Thompson, 1952).
        """
        table: Tensor = self.table.weight
        bias: Tensor = self.bias
        calling: Tensor | None = self.calling if self.amounts is None else None
        if sample is not None:
            table, bias = sample.table, bias.index_select(0, sample.columns) - sample.inclusion.log()
            calling = None if calling is None else calling.index_select(0, sample.columns)
        if calling is not None:
            calling = torch.cat([calling[:, 1:] - 1, _soft(calling[:, :1], 4)], 1)
        return table, bias, calling

    def missing_total(self, there: Tensor, alpha: Tensor) -> Mixture:
        """The law of what is missing of the totals of which ``there`` (B, 1) is left.

        A thinned total is thinned, whatever falls where: totals are a JUMP of one column, and need nothing else to be right.
        """
        seen = torch.cat([self.total.features(there, alpha), self._when(alpha)[:, 1:3]], 1)
        return self.total.law(self.pace(seen), there, alpha)

    def _when(self, alpha: Tensor) -> Tensor:
        """1, ln α, √α and α, (B, 4)."""
        return torch.cat([torch.ones_like(alpha), alpha.clamp(min=1e-6).log() / 4, alpha.sqrt(), alpha], 1).float()

    def negative_log_likelihood(self, belief: Belief, missing: Bags) -> Tensor:
        """The composition's: the total's belief is learned apart."""
        return belief.missing.cross_entropy(missing)

    def divisor(self, z: Bags, alpha: Tensor) -> Tensor:
        """What a row's loss is divided by (B,): the units of an ordinary row; above, its weight grows with the root of its size.

        So a few huge rows do not teach all the others. The size is the rate that is expected given z_t: a weight that z_t does
        not tell would move the optimum.
        """
        size = self.total.prior.posterior_mean(z.totals()[:, None], alpha).squeeze(1)
        return (self.tokens * size.clamp(min=self.tokens)).sqrt()


class AmountHead(nn.Module):
    """The positive reals of a sparse row given where they are (see :class:`countjump.compositions.Amounts`)."""

    log_total: Tensor
    spread: Tensor

    def __init__(self, size: Tensor, log_total: float, components: int, levels: int = 6, factors: int = 8) -> None:
        super().__init__()
        columns, self.rank = len(size), 16
        self.components, self.levels, self.factors = components, levels, factors
        spread = _spread(components)
        spread = spread - spread.exp().mean().log()  # so that the mixture begins with the right mean
        _constants(self, log_total=torch.tensor(log_total, dtype=torch.float64), spread=spread)
        self.size = nn.Parameter(size.float())
        self.table = nn.Parameter(torch.randn(columns, self.rank) / self.rank**0.5)
        self.level = nn.Parameter(torch.arange(1.0, levels + 1).log())
        self.log_shape = nn.Parameter(torch.full((levels,), 2.0))
        self.column_weights = nn.Parameter(torch.zeros(columns, levels))
        self.offset = nn.Parameter(torch.linspace(-0.5, 0.5, factors))
        self.outputs = 3 * components + self.rank + levels + 2 * factors

    def forward(self, output: Tensor, z: Bags) -> Amounts:
        """The law at the places of z."""
        k = self.components
        means, shapes, weights, rest = output.double().split([k, k, k, output.shape[1] - 3 * k], 1)
        means = (self.log_total + _soft(means + self.spread, 12)).exp()[:, None]
        shapes = (2 + _soft(shapes, 8)).exp()[:, None]
        total = Mixture(weights[:, None], (Gamma(shapes.clamp(1e-2, MAX_SHAPE), means),))
        query, levels, factors, offsets = rest.float().split([self.rank, self.levels, self.factors, self.factors], 1)
        return Amounts(
            places=z,
            total=total,
            query=query,
            weights=factors,
            offsets=_soft(self.offset + offsets, 8),
            level_weights=levels,
            table=self.table,
            size=self.size,
            levels=self.level,
            shapes=_soft(self.log_shape, 10).exp().clamp(1e-1, MAX_SHAPE),
            column_weights=self.column_weights,
        )


def _soft(raw: Tensor, limit: float) -> Tensor:
    """The identity near zero, bounded by ±limit."""
    return limit * torch.tanh(raw / limit)


def _powers(value: Tensor, weights: Tensor, count: int) -> Tensor:
    """(D, count): powers of numbers (D,), each free of the lower ones and of variance one under the weights (D,)."""
    found = [torch.ones_like(value)]
    for _ in range(count):
        power = found[-1] * value
        for lower in found * 2:
            power = power - (weights * power * lower).sum() * lower
        found.append(power / (weights * power**2).sum().sqrt().clamp(min=1e-9))
    return torch.stack(found[1:], 1)


def _spread(components: int) -> Tensor:
    """Offsets that part the components at the start."""
    return torch.linspace(-1.5, 1.5, components, dtype=torch.float64) * (components > 1)


def _constants(module: nn.Module, **tensors: Tensor) -> None:
    """Keep tensors that move with the module but are not part of its saved weights."""
    for name, tensor in tensors.items():
        module.register_buffer(name, tensor, persistent=False)
