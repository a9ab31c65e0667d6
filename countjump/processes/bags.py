"""JUMP on wide sparse rows: the units of a bag are lost and come back, at a cost that follows the non-zeros.

z_0            the counts themselves; or, for sparse reals, the set of columns that are not zero
z_t            z_0 thinned by α_t
belief(z_t, t) total × composition of what is missing; of the reals, given their places
z_s, s < t     z_t + belief.thin((α_s − α_t)/(1 − α_t)).sample()
"""

from __future__ import annotations

import torch
from torch import Tensor

from countjump.bags import Bags, Thinned
from countjump.beliefs import BagHead, Belief
from countjump.laws import Binomial
from countjump.processes.base import Denoise, Process, Step
from countjump.schedules import Schedule

AMOUNT_SHARE = 4
"""One time in so many is 0, where the amounts are learned."""


class BagJump(Process):
    """Thinning and thickening of bags (binomial JUMP, the paper's appendix C).

    ``last`` is the largest time before 1 that is visited. With ``amounts`` the data is a positive real at some columns: z_0 is 1
    there, and x_0 is drawn given z_0.
    """

    discrete = True

    def __init__(self, head: BagHead, schedule: Schedule, last: float | None = None) -> None:
        self.head, self.schedule, self.last = head, schedule, last
        self.amounts = head.amounts is not None

    def units(self, x: Bags) -> Bags:
        """z_0."""
        return x.valued(torch.ones_like(x.value)) if self.amounts else x

    def narrow(self, x: Bags, generator: torch.Generator) -> Bags:
        """On its own columns and a sample of the others."""
        return self.head.narrow(x, generator)

    def prior(self, rows: int, generator: torch.Generator) -> Bags:
        """Exactly empty."""
        return Bags.empty(rows, self.head.columns, generator.device)

    def marginal(self, x: Bags, t: Tensor) -> Thinned:
        """q(z_t given x_0) = Binomial(z_0, α_t)."""
        return Thinned(self.units(x), self.schedule.alpha(t))

    def posterior(self, z: Bags, x: Bags, s: Tensor, t: Tensor) -> Thinned:
        """z_t plus what is missing, thinned (equation 20)."""
        return Thinned(self.units(x) + z.valued(-z.value), self.schedule.kept(s, t), z)

    def loss(self, x: Bags, z: Bags, t: Tensor, prediction: Belief, generator: torch.Generator) -> Tensor:
        """−ln belief(z_0 − z_t given its total), and at t = 0 −ln belief(x_0), by the row's size. z has the places of x."""
        whole = self.units(x)
        loss = self.head.negative_log_likelihood(prediction, whole.valued(whole.value - z.value))
        if self.amounts:
            at_zero = (t[:, 0] == 0).nonzero().squeeze(1)
            amounts = prediction.data.rows(at_zero).negative_log_likelihood(x.rows(at_zero))
            loss = loss.index_add(0, at_zero, amounts)
        return loss / self.head.divisor(z, self.schedule.alpha(t))

    def loss_of_totals(self, whole: Tensor, generator: torch.Generator) -> Tensor:
        """−ln belief(missing total) of totals (B, 1), each at one of a few times."""
        times = self.schedule.strew(32, self.last, generator)
        time = torch.randint(len(times), (len(whole),), device=whole.device, generator=generator)
        alpha = self.schedule.alpha(times[time][:, None])
        left = Binomial(whole, alpha).sample(generator)
        return -self.head.missing_total(left, alpha).log_prob(whole - left).squeeze(1)

    def step(self, z: Bags, prediction: Belief, t: Tensor, s: Tensor, generator: torch.Generator) -> Bags:
        """z_t plus the belief, thinned."""
        return z + prediction.missing.thin(self.schedule.kept(s, t)).sample(generator)

    def finish(self, z: Bags, before: Step, denoise: Denoise, generator: torch.Generator) -> Bags:
        """z_0, or the amounts at its places."""
        if not self.amounts:
            return z
        times, index = torch.zeros(1, device=z.device), torch.zeros(len(z), dtype=torch.long, device=z.device)
        return denoise(z, times, index).data.sample(generator)

    def draw_times(self, count: int, generator: torch.Generator) -> Tensor:
        """See :meth:`Schedule.strew`; every fourth is 0 if there are amounts."""
        times = self.schedule.strew(count, self.last, generator)
        if self.amounts:
            times[1::AMOUNT_SHARE] = 0.0
        return times

    def grid(self, steps: int) -> Tensor:
        """From 1 to ``last`` and then by even steps of t."""
        return self.schedule.grid(steps, self.last)
