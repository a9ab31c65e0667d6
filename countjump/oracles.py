"""Oracles: exact beliefs for known distributions, in place of a trained denoiser: samplers and bounds are tested untrained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from countjump import laws, schedules
from countjump.blocks.base import Belief, Block
from countjump.laws import Binomial, CountLaw, Product, Streams
from countjump.laws.base import category_at, draw_category
from countjump.laws.sparse import NEVER, Shares, TotalComposition


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
    each: Any
    joint: bool = True

    def __getitem__(self, rows: Any) -> RowMixture:
        size, device = self.logits.shape[1], self.logits.device
        index = torch.arange(len(self.logits), device=device)[rows]
        places = (index[:, None] * size + torch.arange(size, device=device)).flatten()
        return RowMixture(self.logits[index], self.each[places], self.joint)

    def sample(self, generator: torch.Generator | None = None) -> Any:
        states, size = self.logits.shape
        if self.joint:
            return self.draw(Streams([generator], states))
        rows = self.each.sample(generator).unflatten(0, (states, size))
        pick = draw_category(self.logits[:, None].expand(-1, rows.shape[2], -1), generator)
        return rows.take_along_dim(pick.reshape(states, 1, -1, *[1] * (rows.dim() - 3)), 1).squeeze(1)

    def draw(self, streams: Streams, index: Tensor | None = None) -> Any:
        if not self.joint:
            return super().draw(streams, index)
        index = torch.arange(len(self.logits), device=self.logits.device) if index is None else index
        height = streams.uniform(torch.arange(len(index), device=index.device))
        pick = category_at(self.logits.softmax(-1).cumsum(-1)[index], height)
        return self.each.draw(streams, index * self.logits.shape[1] + pick)

    def log_prob(self, value: Any) -> Tensor:
        repeated = value[torch.arange(len(value), device=value.device).repeat_interleave(self.logits.shape[1])]
        weights = self.logits.log_softmax(-1)
        if self.joint:
            return torch.logsumexp(weights + self.each.log_prob(repeated).reshape(weights.shape), 1)
        columns = self.each.entries.log_prob(repeated).reshape(*weights.shape, value.shape[1], -1).sum(-1)
        return torch.logsumexp(weights[..., None] + columns, 1).sum(-1)

    @property
    def mean(self) -> Tensor:
        means = self.each.mean.unflatten(0, self.logits.shape)
        return (self.logits.softmax(-1).reshape(*self.logits.shape, *[1] * (means.dim() - 2)) * means).sum(1)

    def thin(self, p: Tensor | float) -> RowMixture:
        p = torch.as_tensor(p, dtype=torch.float64)
        p = p.repeat_interleave(self.logits.shape[1], 0) if p.dim() and len(p) > 1 else p
        return RowMixture(self.logits, self.each.thin(p), self.joint)


class Oracle(ABC):
    """A denoiser (``processes.base.Denoise``) that knows the distribution of x_0."""

    schedule: schedules.Schedule

    @abstractmethod
    def belief(self, z: Any, alpha: Tensor) -> Belief:
        """The exact belief given z_t, with α_t as (B, 1)."""

    def __call__(self, z: Any, t: Tensor, condition: Tensor | None = None, known: Tensor | None = None) -> Belief:
        """The exact belief given z at the times t, (B,) or (1,) for all rows; no oracle knows of conditions."""
        alpha = self.schedule.alpha(t)[:, None].expand(len(z), 1)
        return self.belief(z, alpha) if known is None else self.belief_given(z, alpha, known)

    def belief_given(self, z: Any, alpha: Tensor, known: Tensor) -> Belief:
        """The exact belief given z_t, and x_0 where it is ``known``, as z shows it; by default that of columns which are
        independent, where it tells nothing."""
        return self.belief(z, alpha)


class GammaOracle(Oracle):
    """x_0 ~ Gamma(shape, mean) in every column apart, z_t ~ Pois(λ α_t x_0): given z_t, x_0 is Gamma with shape z_t + shape and
    mean (z_t + shape)/(λ α_t + shape/mean), and the missing count a negative binomial.

    With λ = 1 it is also the oracle of negative binomial counts that are thinned.

    >>> oracle = GammaOracle(schedules.Cosine(), lam=torch.tensor([10.0]), shape=torch.tensor([2.0]), mean=torch.tensor([3.0]))
    >>> belief = oracle(torch.zeros(1, 1), torch.ones(1))
    >>> float(belief.data.mean), float(belief.missing.mean)  # nothing is known yet at t = 1
    (3.0, 30.0)
    """

    def __init__(self, schedule: schedules.Schedule, lam: Tensor, shape: Tensor, mean: Tensor) -> None:
        self.schedule, self.lam, self.shape, self.mean = schedule, lam.double(), shape.double(), mean.double()

    def belief(self, z: Tensor, alpha: Tensor) -> Belief:
        shape = z + self.shape
        mean = shape / (self.lam * alpha + self.shape / self.mean)
        missing = laws.NegativeBinomial(shape, self.lam * (1 - alpha) * mean)
        return Belief(Product(missing), Product(laws.Gamma(shape, mean)))


class CountOracle(Oracle):
    """x_0 is a count by any ``law`` (1,), the same in every column; nothing above ``largest`` is believed.

    >>> oracle = CountOracle(schedules.Cosine(), laws.Poisson(torch.tensor([4.0]).double()), largest=60)
    >>> oracle(torch.full((1, 1), 9.0).double(), torch.tensor([0.5])).missing.mean  # of a Poisson count 1 − α is missing
    tensor([[2.0000]], dtype=torch.float64)
    """

    def __init__(self, schedule: schedules.Schedule, law: laws.CountFamily, largest: int) -> None:
        self.schedule, self.support = schedule, torch.arange(largest + 1, dtype=torch.float64)
        self.log_weights = law.log_prob(self.support)

    def belief(self, z: Tensor, alpha: Tensor) -> Belief:
        z, alpha = z[..., None], alpha[..., None]
        logits = self.log_weights + Binomial(self.support, alpha).log_prob(z)
        left = (self.support - z).clamp(min=0)
        return Belief(Product(laws.Mixture(logits, (Binomial(left, torch.ones_like(left)),))))


class DirichletOracle(Oracle):
    """x_0 ~ Dirichlet(concentration) in every whole apart, of whose N units z_t have fallen: given z_t, x_0 is
    Dirichlet(z_t + concentration), and the N − |z_t| missing units fall by it. ``total`` (G,), ``concentration`` (G, C).

    With two parts and a concentration of one it is the uniform law of a bounded real.

    >>> oracle = DirichletOracle(schedules.Cosine(), total=torch.tensor([8.0]), concentration=torch.ones(1, 2))
    >>> belief = oracle(torch.tensor([[[2.0, 0.0]]]), torch.tensor([0.5]))
    >>> belief.data.mean, belief.missing.mean
    (tensor([[[0.7500, 0.2500]]], dtype=torch.float64), tensor([[[4.5000, 1.5000]]], dtype=torch.float64))
    """

    def __init__(self, schedule: schedules.Schedule, total: Tensor, concentration: Tensor) -> None:
        self.schedule, self.total, self.concentration = schedule, total.double(), concentration.double()

    def belief(self, z: Tensor, alpha: Tensor) -> Belief:
        concentration = (z + self.concentration)[..., None, :]
        shares = laws.DirichletMixture(torch.zeros_like(concentration[..., 0]), concentration, False)
        left = self.total - z.sum(-1)
        missing = laws.TotalTimesComposition(Binomial(left, torch.ones_like(left)), shares)
        return Belief(Product(missing), Product(shares))


class SparseDirichletOracle(Oracle):
    """Wide counts: the ``total`` of a row is a count, given by the oracle of one such column, and its units fall by shares that are
    Dirichlet(concentration), (D,). Given z_t, what is missing of the total falls as Dirichlet-multinomial(concentration + z_t).

    >>> from countjump.blocks import SparseCounts
    >>> total = GammaOracle(schedules.Cosine(), lam=torch.ones(1), shape=torch.ones(1), mean=torch.full((1,), 4.0))
    >>> z = SparseCounts(torch.ones(3) / 3, 1, 1.0, 1.0, 1.0, torch.ones(3, 1, 1)).empty(1, "cpu")
    >>> SparseDirichletOracle(total, concentration=torch.tensor([1.0, 2.0, 5.0]))(z, torch.ones(1)).missing.mean
    tensor([[0.5000, 1.0000, 2.5000]], dtype=torch.float64)
    """

    def __init__(self, total: Oracle, concentration: Tensor) -> None:
        self.schedule, self.total, self.concentration = total.schedule, total, concentration.double()

    def belief(self, z: Any, alpha: Tensor) -> Belief:
        """One Pólya urn, as a tree of Pólya urns whose strengths are its own on either side."""
        columns, whole = len(self.concentration), self.concentration.sum()
        units = z.totals
        strength = units + whole
        seen = z.per_row(torch.where(z.value > 0, self.concentration[z.column] + z.value, 0.0))
        # μ = (c + z)/|c + z|: a unit is like one of those seen with probability |z|/|c + z|, without discount, else new by c/|c|.
        shares = Shares(
            query=units.new_zeros(len(z), 1),
            reuse=torch.stack([(units / whole).log(), torch.zeros_like(units), torch.zeros_like(units)], 1),
            given=z,
            table=units.new_zeros(columns, 1),
            bias=self.concentration.log(),
            burstiness=units.new_tensor([[NEVER, 0.0]]).expand(columns, 2),
        )
        total = self.total.belief(units[:, None], alpha).missing.entries
        return Belief(TotalComposition(total, shares, torch.stack([strength, strength - seen, seen], 1)))


class EmpiricalOracle(Oracle):
    """x_0 is one of the given rows (R, D) of a block's columns, with the given weights (R,): P(x_0 = x_r given z_t) ∝ w_r
    q(z_t given x_r).

    With ``joint=False`` the belief is the product of the columns' beliefs. A state that no row can lead to, where only such a
    belief can go, is believed to come from any row. Equal rows are merged; the cost is that of states × distinct rows.

    >>> from countjump.blocks import PoissonBlock
    >>> from countjump.domains import Count
    >>> block = PoissonBlock(Count(), mean=torch.ones(2), shape=torch.ones(2))
    >>> oracle = EmpiricalOracle(block, schedules.Cosine(), torch.tensor([[0.0, 9.0], [1.0, 2.0], [9.0, 0.0]]))
    >>> belief = oracle(torch.tensor([[1.0, 1.0]]), torch.tensor([0.5]))
    >>> belief.missing.mean  # only the second row can have left (1, 1)
    tensor([[0., 1.]], dtype=torch.float64)
    """

    def __init__(
        self,
        block: Block,
        schedule: schedules.Schedule,
        rows: Tensor,
        weights: Tensor | None = None,
        joint: bool = True,
    ) -> None:
        self.block, self.schedule, self.joint = block, schedule, joint
        distinct, group = torch.unique(rows.double(), dim=0, return_inverse=True)
        each = torch.ones(len(rows)) if weights is None else weights
        self.points = block.read(distinct.numpy())
        self.log_weights = distinct.new_zeros(len(distinct)).index_add(0, group, each.double()).log()

    def belief(self, z: Any, alpha: Tensor) -> Belief:
        return self._belief(z, alpha, None)

    def belief_given(self, z: Any, alpha: Tensor, known: Tensor) -> Belief:
        return self._belief(z, alpha, known)

    def _belief(self, z: Any, alpha: Tensor, known: Tensor | None) -> Belief:
        states, size = len(z), len(self.points)
        x = self.points[torch.arange(size).repeat(states)]
        z, alpha = z[torch.arange(states).repeat_interleave(size)], alpha.repeat_interleave(size, 0)
        thinned: Any = self.block.encode(x).thin(alpha)
        if known is None:
            likelihood = thinned.log_prob(z)
        else:
            known = known.repeat_interleave(size, 0)
            same = (self.block.hold(z, self.block.shown(x), known) == z).flatten(1).all(1)
            likelihood = torch.where(same, thinned.log_prob_without(z, known), -torch.inf)
        logits = self.log_weights + likelihood.reshape(states, size)
        logits = torch.where(logits.isneginf().all(1, keepdim=True), self.log_weights, logits)
        missing = RowMixture(logits, self.block.missing(x, z, alpha), self.joint)
        return Belief(missing, None if self.block.exact else RowMixture(logits, Product(laws.Known(x)), self.joint))


class JointOracle(Oracle):
    """Independent parts, each known to its own oracle, as the parts of :class:`countjump.blocks.Blocks`.

    >>> from countjump.states import Joint
    >>> part = GammaOracle(schedules.Cosine(), lam=torch.ones(1), shape=torch.ones(1), mean=torch.ones(1))
    >>> belief = JointOracle([part, part])(Joint((torch.zeros(1, 1), torch.ones(1, 1))), torch.tensor([0.5]))
    >>> belief.missing.log_prob(Joint((torch.zeros(1, 1), torch.zeros(1, 1)))).exp()  # 3/4 and its square
    tensor([0.4219], dtype=torch.float64)
    """

    def __init__(self, parts: Sequence[Oracle]) -> None:
        self.schedule, self.parts = parts[0].schedule, parts

    def belief(self, z: Any, alpha: Tensor) -> Belief:
        return Belief.join([oracle.belief(part, alpha) for oracle, part in zip(self.parts, z.parts, strict=True)])


class MeanOracle(Oracle):
    """The paper's belief with a perfect network: of another oracle's belief only the mean is kept, Poisson(E[z_0 − z_t]).

    What a sampler still gets wrong with it is the sampler's error, not the network's.

    >>> oracle = MeanOracle(GammaOracle(schedules.Cosine(), lam=torch.ones(1), shape=torch.ones(1), mean=torch.full((1,), 3.0)))
    >>> oracle(torch.zeros(1, 1), torch.ones(1)).missing.entries
    Poisson(rate=tensor([[3.]], dtype=torch.float64))
    """

    def __init__(self, oracle: Oracle) -> None:
        self.schedule, self.oracle = oracle.schedule, oracle

    def belief(self, z: Tensor, alpha: Tensor) -> Belief:
        return Belief(Product(laws.Poisson(self.oracle.belief(z, alpha).missing.mean)))
