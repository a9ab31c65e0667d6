"""Oracles: exact beliefs for known distributions, in the place of a trained denoiser, so that samplers and bounds are tested
with no training.

=========================  =====================================  ==========================================================
oracle                     x_0                                    belief given z_t
=========================  =====================================  ==========================================================
:class:`GammaOracle`       independent Gammas (Poisson JUMP)      a Gamma about x_0, a negative binomial is missing
:class:`DirichletOracle`   independent Dirichlets (units)         a Dirichlet about x_0, a Dirichlet-multinomial is missing
:class:`EmpiricalOracle`   one of a finite number of rows         the same rows with new weights
:class:`MeanOracle`        what another oracle knows              the paper's: Poisson with the exact mean
=========================  =====================================  ==========================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from countjump.beliefs import Belief, Conjugate
from countjump.laws import (
    Binomial,
    CountLaw,
    DirichletMixture,
    Gamma,
    Law,
    NegativeBinomial,
    Poisson,
    Product,
    Split,
    draw_category,
)
from countjump.schedules import Schedule


class Encodes(Protocol):
    """What an oracle asks of an encoding (``countjump.processes``)."""

    exact: bool

    def lift(self, x: Tensor) -> Tensor:
        """Data (B, D) in the shape of the state."""

    def law(self, x: Tensor) -> CountLaw:
        """q(z_0 given x_0)."""

    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> Product:
        """q(z_0 − z_t given z_t, x_0)."""


@dataclass(frozen=True, eq=False)
class Known(Law):
    """A known real: all mass at ``value``.

    >>> Known(torch.tensor([2.5])).log_prob(torch.tensor([2.5, 0.0]))
    tensor([0., -inf])
    """

    value: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """The value."""
        return self.value

    def log_prob(self, value: Tensor) -> Tensor:
        """0 at the value, minus infinity elsewhere."""
        return torch.where(value == self.value, 0.0, -torch.inf).to(self.value.dtype)

    @property
    def mean(self) -> Tensor:
        """The value."""
        return self.value


@dataclass(frozen=True, eq=False)
class RowMixture(CountLaw):
    """Σ_r w_r law_r over whole rows: w = softmax(logits) (B, R), and ``each`` holds the B · R laws, a state's R together.

    With ``joint=False`` every column draws its own r: the product of the columns' mixtures, which is all that a belief in
    columns apart can say. Thinned, the same weights and every law thinned.

    >>> apart = torch.tensor([[4.0, 0.0], [0.0, 4.0]])
    >>> law = RowMixture(torch.zeros(1, 2), Product(Binomial(apart, torch.ones(2, 2))))
    >>> float(law.log_prob(torch.tensor([[4.0, 0.0]])).exp()), float(law.log_prob(torch.tensor([[4.0, 4.0]])).exp())
    (0.5, 0.0)
    """

    logits: Tensor
    each: Product
    joint: bool = True

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw r, then the row (or every column) from its own law."""
        states, size = self.logits.shape
        if self.joint:
            pick = draw_category(self.logits, generator)
            return self.each.rows(torch.arange(states, device=pick.device) * size + pick).sample(generator)
        rows = self.each.sample(generator).unflatten(0, (states, size))
        pick = draw_category(self.logits[:, None].expand(-1, rows.shape[2], -1), generator)
        return rows.take_along_dim(pick.reshape(states, 1, -1, *[1] * (rows.dim() - 3)), 1).squeeze(1)

    def log_prob(self, value: Tensor) -> Tensor:
        """ln Σ_r w_r law_r(value), one number per row."""
        repeated = value.repeat_interleave(self.logits.shape[1], 0)
        weights = self.logits.log_softmax(-1)
        if self.joint:
            return torch.logsumexp(weights + self.each.log_prob(repeated).reshape(weights.shape), 1)
        columns = self.each.entries.log_prob(repeated).reshape(*weights.shape, value.shape[1], -1).sum(-1)
        return torch.logsumexp(weights[..., None] + columns, 1).sum(-1)

    @property
    def mean(self) -> Tensor:
        """Σ_r w_r mean_r."""
        means = self.each.mean.unflatten(0, self.logits.shape)
        return (self.logits.softmax(-1).reshape(*self.logits.shape, *[1] * (means.dim() - 2)) * means).sum(1)

    def thin(self, p: Tensor | float) -> RowMixture:
        """Every law thinned."""
        p = p.repeat_interleave(self.logits.shape[1], 0) if isinstance(p, Tensor) and len(p) > 1 else p
        return RowMixture(self.logits, self.each.thin(p), self.joint)

    def rows(self, index: Tensor) -> RowMixture:
        """The laws of the states ``index``."""
        size = self.logits.shape[1]
        places = (index[:, None] * size + torch.arange(size, device=index.device)).flatten()
        return RowMixture(self.logits[index], self.each.rows(places), self.joint)


class Oracle(ABC):
    """A denoiser (``processes.base.Denoise``) that knows the distribution of x_0."""

    schedule: Schedule

    @abstractmethod
    def belief(self, z: Tensor, alpha: Tensor) -> Belief:
        """The exact belief given z_t, with α_t as (B, 1)."""

    def __call__(self, z: Tensor, times: Tensor, index: Tensor) -> Belief:
        """The exact belief given z at each row's time, times[index]."""
        return self.belief(z, self.schedule.alpha(times)[index][:, None])


class GammaOracle(Oracle):
    """x_0 ~ Gamma(shape, mean) in every column apart, z_t ~ Pois(λ α_t x_0): given z_t, x_0 is Gamma with shape z_t + shape and
    mean (z_t + shape)/(λ α_t + shape/mean), and the missing count a negative binomial.

    >>> from countjump.schedules import Cosine
    >>> oracle = GammaOracle(Cosine(), lam=torch.tensor([10.0]), shape=torch.tensor([2.0]), mean=torch.tensor([3.0]))
    >>> belief = oracle(torch.zeros(1, 1), torch.ones(1), torch.zeros(1, dtype=torch.long))
    >>> float(belief.data.mean), float(belief.missing.mean)  # nothing is known yet at t = 1
    (3.0, 30.0)
    """

    def __init__(self, schedule: Schedule, lam: Tensor, shape: Tensor, mean: Tensor) -> None:
        self.schedule, self.prior = schedule, Conjugate(mean.double(), shape.double(), lam.double())

    def belief(self, z: Tensor, alpha: Tensor) -> Belief:
        """Conjugate."""
        shape, mean = z + self.prior.shape, self.prior.posterior_mean(z, alpha)
        missing = NegativeBinomial(shape, self.prior.lam * (1 - alpha) * mean)
        return Belief(Product(missing), Product(Gamma(shape, mean)))


class DirichletOracle(Oracle):
    """x_0 ~ Dirichlet(concentration) in every whole apart, of whose N units z_t have fallen: given z_t, x_0 is
    Dirichlet(z_t + concentration), and the N − |z_t| missing units fall by it. ``total`` (G,), ``concentration`` (G, C).

    With two parts and a concentration of one it is the uniform law of a bounded real.

    >>> from countjump.schedules import Cosine
    >>> oracle = DirichletOracle(Cosine(), total=torch.tensor([8.0]), concentration=torch.ones(1, 2))
    >>> belief = oracle(torch.tensor([[[2.0, 0.0]]]), torch.tensor([0.5]), torch.zeros(1, dtype=torch.long))
    >>> belief.data.mean, belief.missing.mean
    (tensor([[[0.7500, 0.2500]]], dtype=torch.float64), tensor([[[4.5000, 1.5000]]], dtype=torch.float64))
    """

    def __init__(self, schedule: Schedule, total: Tensor, concentration: Tensor) -> None:
        self.schedule, self.total, self.concentration = schedule, total.double(), concentration.double()

    def belief(self, z: Tensor, alpha: Tensor) -> Belief:
        """Conjugate."""
        concentration = (z + self.concentration)[..., None, :]
        shares = DirichletMixture(torch.zeros_like(concentration[..., 0]), concentration, False)
        left = self.total - z.sum(-1)
        return Belief(Product(Split(Binomial(left, torch.ones_like(left)), shares)), Product(shares))


class EmpiricalOracle(Oracle):
    """x_0 is one of the given rows (R, D), with the given weights (R,): P(x_0 = x_r given z_t) ∝ w_r q(z_t given x_r).

    With ``joint=False`` the belief is the product of the columns' beliefs. A state that no row can lead to, where only such a
    belief can go, is believed to come from any row. Equal rows are merged; the cost is that of states × distinct rows.

    >>> from countjump.processes import Exact
    >>> from countjump.schedules import Cosine
    >>> oracle = EmpiricalOracle(Exact(2), Cosine(), torch.tensor([[0.0, 9.0], [1.0, 2.0], [9.0, 0.0]]))
    >>> belief = oracle(torch.tensor([[1.0, 1.0]]), torch.tensor([0.5]), torch.zeros(1, dtype=torch.long))
    >>> belief.missing.mean  # only the second row can have left (1, 1)
    tensor([[0., 1.]], dtype=torch.float64)
    """

    def __init__(
        self, encoding: Encodes, schedule: Schedule, rows: Tensor, weights: Tensor | None = None, joint: bool = True
    ) -> None:
        self.encoding, self.schedule, self.joint = encoding, schedule, joint
        distinct, kind = torch.unique(rows.double(), dim=0, return_inverse=True)
        each = torch.ones(len(rows)) if weights is None else weights
        self.points = encoding.lift(distinct)
        self.log_weights = distinct.new_zeros(len(distinct)).index_add(0, kind, each.double()).log()

    def belief(self, z: Tensor, alpha: Tensor) -> Belief:
        """Bayes' rule over the rows."""
        states, size = len(z), len(self.points)
        x = self.points.repeat(states, *[1] * (z.dim() - 1))
        z, alpha = z.double().repeat_interleave(size, 0), alpha.repeat_interleave(size, 0)
        likelihood = self.encoding.law(x).thin(alpha).log_prob(z).reshape(states, size)
        logits = self.log_weights + likelihood
        logits = torch.where(logits.isneginf().all(1, keepdim=True), self.log_weights, logits)
        missing = self.encoding.missing(x, z, alpha)
        data = None if self.encoding.exact else RowMixture(logits, Product(Known(x)), self.joint)
        return Belief(RowMixture(logits, missing, self.joint), data)


class MeanOracle:
    """The paper's belief with a perfect network: of another oracle's belief only the mean is kept, Poisson(E[z_0 − z_t]).

    What a sampler still gets wrong with it is the sampler's error, not the network's.

    >>> from countjump.processes import Exact
    >>> from countjump.schedules import Cosine
    >>> oracle = MeanOracle(EmpiricalOracle(Exact(1), Cosine(), torch.tensor([[0.0], [6.0]])))
    >>> oracle(torch.zeros(1, 1), torch.ones(1), torch.zeros(1, dtype=torch.long)).missing.entries
    Poisson(rate=tensor([[3.]], dtype=torch.float64))
    """

    def __init__(self, oracle: Callable[[Tensor, Tensor, Tensor], Belief]) -> None:
        self.oracle = oracle

    def __call__(self, z: Tensor, times: Tensor, index: Tensor) -> Belief:
        """Poisson in every entry."""
        return Belief(Product(Poisson(self.oracle(z, times, index).missing.mean)))
