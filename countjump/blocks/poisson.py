"""The paper's belief."""

from __future__ import annotations

import math

from torch import Tensor, nn

from countjump.blocks.base import Belief
from countjump.blocks.columns import ColumnBlock
from countjump.laws import Poisson, Product


class PoissonBlock(ColumnBlock):
    """The missing count is Poisson(λ (1 − α_t) f(z_t, t)), f the posterior mean of x_0.

    In binomial JUMP, without λ, the rate is f(z_t, t) − z_t: the missing count is what is predicted.
    """

    believes = "poisson"

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """f is the conjugate mean times softplus, which is 1 where the network answers 0."""
        correction = nn.functional.softplus(self.by_column(output)[..., 0] + math.log(math.e - 1))
        f = self.posterior_mean(z, alpha) * correction
        return Belief(Product(Poisson(self.lam * (1 - alpha) * f)))
