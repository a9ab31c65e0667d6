"""The paper's belief."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from countjump.blocks.base import Belief
from countjump.blocks.columns import ColumnBlock
from countjump.laws import Poisson, Product

ONE = math.log(math.e - 1)  # where the softplus is one
LARGEST = 30.0  # the logarithm of a guided correction, at most; the network's own has no bound


class PoissonBlock(ColumnBlock):
    """The missing count is Poisson(λ (1 − α_t) f(z_t, t)), f the posterior mean of x_0.

    In binomial JUMP, without λ, the rate is f(z_t, t) − z_t: the missing count is what is predicted.
    """

    believes = "poisson"

    def mix(self, plain: Tensor, given: Tensor, weight: float) -> Tensor:
        """By the logarithms of the corrections, so that the rates are mixed geometrically; one is at most LARGEST."""
        without, with_it = (nn.functional.softplus(each.double() + ONE).log() for each in (plain, given))
        mixed = (without + weight * (with_it - without)).clamp(-LARGEST, LARGEST)
        # The inverse of the softplus: ln(e^c − 1), the correction c being a logarithm here.
        correction = mixed.exp()
        return correction + torch.log(-torch.expm1(-correction)) - ONE

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """f is the conjugate mean times softplus, which is 1 where the network answers 0."""
        correction = nn.functional.softplus(self.by_column(output)[..., 0] + ONE)
        f = self.posterior_mean(z, alpha) * correction
        return Belief(Product(Poisson(self.lam * (1 - alpha) * f)))
