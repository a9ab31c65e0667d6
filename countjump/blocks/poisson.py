"""The paper's belief."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from countjump.blocks.base import Belief
from countjump.blocks.columns import ColumnBlock
from countjump.domains import Domain
from countjump.laws import Poisson, Product


class PoissonBlock(ColumnBlock):
    """The missing count is Poisson(λ (1 − α_t) f(z_t, t)), f the posterior mean of x_0.

    In binomial JUMP, without λ, the rate is f(z_t, t) − z_t: the missing count is what is predicted.
    """

    def __init__(
        self,
        domain: Domain,
        mean: Tensor,
        shape: Tensor,
        lam: Tensor | None = None,
        decoding: str = "latent",
        layout: Any = None,
        bounds: Tensor | None = None,
        escape: float = 0.0,
    ) -> None:
        super().__init__(domain, mean, shape, lam, 1, layout, bounds, escape)
        self.decoding = decoding

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """f is the conjugate mean times softplus, which is 1 where the network answers 0."""
        correction = nn.functional.softplus(self.by_column(output)[..., 0] + math.log(math.e - 1))
        f = self.prior.posterior_mean(z, alpha) * correction
        return Belief(Product(Poisson(self.lam * (1 - alpha) * f)))

    def why_no_likelihood(self) -> str | None:
        if self.exact:
            return None
        change = "belief='mixture'" if self.domain.name == "non-negative" else "process='binomial'"
        return (
            f"process='poisson' with belief='poisson' on {self.domain.name} data gives no law of x_0, and so no likelihood "
            f"of the data: use {change}"
        )
