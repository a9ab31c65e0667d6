"""JUMP: counts are thinned towards zero and thickened back (the paper's sections 2.2 to 2.5 and appendix C).

z_0            counts from data, by a block: z_0 = x_0, or z_0 ~ Pois(λ x_0), or N units that fall by x_0
z_t            z_0 thinned by α_t
belief(z_t, t) the law of the missing count n = z_0 − z_t
z_s, s < t     z_t + belief.thin((α_s − α_t)/(1 − α_t)).sample()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from countjump.blocks.base import Belief, Block, ChainStep
from countjump.laws import CountLaw, Law, Shifted, Streams
from countjump.processes.base import Denoise, Process
from countjump.schedules import Schedule
from countjump.states import arrivals

OBJECTIVES = ("nll", "reweighted", "elbo")
DECODINGS = ("latent", "mean", "draw")

PARTLY_KNOWN = 4  # one in so many rows of an update comes again, with some of its columns known
AT_ZERO = 4  # one time in so many is 0, for a block that visits it


class Jump(Process):
    """Thinning and thickening of any block's counts. ``t_max`` is the largest time before 1 that training and sampling visit.

    >>> from countjump.blocks import Counts
    >>> from countjump.domains import Count
    >>> from countjump.schedules import Cosine
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> process = Jump(Counts(Count(), one, one, 9 * one, 9 * one, components=1), Cosine())
    >>> process.marginal(8 * torch.ones(1, 1).double(), torch.tensor([[0.5]])).mean
    tensor([[4.0000]], dtype=torch.float64)
    """

    discrete = True

    def __init__(self, block: Block, schedule: Schedule, t_max: float | None = None, objective: str = "nll") -> None:
        self.block, self.schedule, self.t_max, self.objective = block, schedule, t_max, objective

    def prior(self, rows: int, streams: Streams, device: torch.device | str) -> Any:
        return self.block.empty(rows, device)

    def marginal(self, x: Any, t: Tensor) -> CountLaw:
        return self.block.encode(x).thin(self.schedule.alpha(t))

    def posterior(self, z: Any, x: Any, s: Tensor, t: Tensor) -> Law:
        """z_t plus what is missing, thinned: shifted Poisson (equation 5) or shifted binomial (equation 20)."""
        missing = self.block.missing(x, z, self.schedule.alpha(t))
        return Shifted(z, missing.thin(self.schedule.reveal(s, t)))

    def reverse(self, z: Any, prediction: Belief, s: Tensor, t: Tensor) -> Law:
        return Shifted(z, prediction.missing.thin(self.schedule.reveal(s, t)))

    def draw_known(self, rows: int, generator: torch.Generator) -> Tensor | None:
        """A random part of the columns, of every size alike; nothing where there is no second column."""
        if self.block.knowables < 2:
            return None
        look: dict[str, Any] = {"dtype": torch.float64, "device": generator.device, "generator": generator}
        size = -(-rows // PARTLY_KNOWN)
        return torch.rand(size, self.block.knowables, **look) < torch.rand(size, 1, **look)

    def loss(
        self,
        x: Any,
        z: Any,
        t: Tensor,
        prediction: Belief,
        generator: torch.Generator,
        known: Tensor | None = None,
    ) -> Tensor:
        """The objective, per row, of what is not ``known``.

        ``nll``: the block's loss. ``reweighted``: the paper's D_φ(x_0, f) (equation 12), or D_φ(x_0 − z_t, f − z_t) for binomial
        JUMP. ``elbo``: the same with the weight of the step.
        """
        alpha = self.schedule.alpha(t)
        without = () if known is None else (known,)
        if self.objective == "nll":
            return self.block.loss(prediction, x, z, alpha, generator, *without)
        if self.objective == "reweighted":
            return self.block.divergence(prediction, x, z, alpha, None, *without)
        before = (t - 1 / getattr(self.schedule, "timesteps", 1000)).clamp(min=0)
        return self.block.divergence(prediction, x, z, alpha, self.schedule.reveal(before, t), *without)

    def finish(self, z: Any, before: ChainStep, denoise: Denoise, streams: Streams) -> Any:
        belief = denoise(z, before.t.new_zeros(1)) if self.block.decoding == "draw" else None
        return self.block.decode(z, belief, before, self.schedule.alpha(before.t)[:, None], streams)

    def subsample(self, x: Any, learning: bool, generator: torch.Generator) -> Any:
        return self.block.subsample(x, learning, generator)

    def draw_times(self, count: int, generator: torch.Generator) -> Tensor:
        """See :meth:`Schedule.stratified_times`; every fourth is 0 where the block wants to go there."""
        times = self.schedule.stratified_times(count, self.t_max, generator)
        if self.block.visits_zero:
            times[1::AT_ZERO] = 0.0
        return times

    def grid(self, steps: int) -> Tensor:
        """From 1 to ``t_max`` and then by even steps of t."""
        return self.schedule.grid(steps, self.t_max)

    # Likelihoods.

    def why_no_likelihood(self) -> str | None:
        return self.block.why_no_likelihood()

    def path(self, x: Any, times: Tensor, keys: list[int]) -> Iterator[Any]:
        """Every unit of z_0 comes back in one step of the chain, the one from t to s with probability α_s − α_t."""
        alpha = self.schedule.alpha(times).cpu().numpy()
        generators = [np.random.Generator(np.random.Philox(key=key)) for key in keys]
        law = self.block.encode(x)
        if self.block.exact:
            whole = law.sample(torch.Generator(device=x.device))
        else:
            seeds = [torch.Generator(device=x.device).manual_seed(int(g.integers(2**62))) for g in generators]
            whole = law.draw(Streams(seeds, 1))
        yield from arrivals(whole, np.diff(alpha), generators)

    def data_log_prob(self, z: Any, x: Any, denoise: Denoise) -> Tensor:
        if self.block.exact:
            return super().data_log_prob(z, x, denoise)
        return self.block.data_log_prob(denoise(z, torch.zeros(1, dtype=torch.float64, device=z.device)), x)
