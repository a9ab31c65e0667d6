"""Non-negative reals."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from countjump.blocks.base import MAX_SHAPE, Belief, constants, soft_clip
from countjump.blocks.columns import ColumnBlock, Gammas
from countjump.domains import Domain
from countjump.laws import Gamma, Mixture, NegativeBinomial, Product, Zero

SMALLEST_MEAN = 1e-150
"""Of a Gamma: the square of a smaller one, which its gradient needs, is no number."""


class Reals(ColumnBlock):
    """x_0 is zero (possible while z_t = 0) or one of K Gammas; the missing count is then a mixture of negative binomials.
    The network corrects the posterior of the prior's mixture, in log space.
    """

    log_zero: Tensor
    log_more: Tensor

    def __init__(
        self,
        domain: Domain,
        mean: Tensor,
        shape: Tensor,
        lam: Tensor,
        zero_share: Tensor,
        gammas: Tensor,
        decoding: str = "draw",
        layout: Any = None,
        bounds: Tensor | None = None,
        escape: float = 0.0,
    ) -> None:
        super().__init__(domain, mean, shape, lam, decoding, layout, bounds, escape, 3 * gammas.shape[-1] + 1)
        self.gammas = Gammas(gammas)
        constants(self, log_zero=zero_share.log()[:, None], log_more=torch.log1p(-zero_share)[:, None])

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        k = self.gammas.components
        raw = self.by_column(output)
        weights, shapes, means = self.gammas.posterior(z, self.lam * alpha)
        means = (means * soft_clip(raw[..., :k], 12).exp()).clamp(min=SMALLEST_MEAN)
        shapes = (shapes * soft_clip(raw[..., k : 2 * k], 8).exp()).clamp(1e-2, MAX_SHAPE)
        atom = torch.where(z[..., None] == 0, self.log_zero + raw[..., 2 * k : 2 * k + 1], -torch.inf)
        logits = torch.cat([atom, self.log_more + weights + raw[..., 2 * k + 1 :]], -1)
        zero = Zero(torch.zeros_like(atom))
        rate = (self.lam * (1 - alpha))[..., None]
        missing = Mixture(logits, (zero, NegativeBinomial(shapes, rate * means)))
        return Belief(Product(missing), Product(Mixture(logits, (zero, Gamma(shapes, means)))))
