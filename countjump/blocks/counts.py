"""Counts, bounded counts and binary columns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from countjump.blocks.base import MAX_SHAPE, Belief, constants, soft_clip, spread
from countjump.blocks.columns import ColumnBlock, Gammas
from countjump.domains import Domain
from countjump.laws import Binomial, Mixture, NegativeBinomial, Product, Zero

UNLIKELY = -3.0  # the log-weight, before training, of an atom at zero and of a binomial beside negative binomials


class Counts(ColumnBlock):
    """The missing count is zero, one of K negative binomials, or one of K Binomial(M − z_t, q).

    The negative binomials correct the posterior of the rates' mixture of ``gammas``; without them every column is bounded. M is the
    column's bound or its largest training value. A bounded column has no negative binomials, so that no count exceeds M. The
    binomials can be narrower than a Poisson, which no negative binomial is; a mixed Poisson count (Poisson JUMP) never is, and
    has none.
    """

    largest: Tensor
    excluded: Tensor
    offsets: Tensor

    def __init__(
        self,
        domain: Domain,
        mean: Tensor,
        shape: Tensor,
        largest: Tensor,
        bounds: Tensor,
        components: int,
        gammas: Tensor | None = None,
        lam: Tensor | None = None,
        decoding: str = "latent",
        layout: Any = None,
        escape: float = 0.0,
    ) -> None:
        bounded = bounds.isfinite()
        negative = 0 if gammas is None else gammas.shape[-1]
        binomials = 1 if gammas is None and bool((largest <= 1).all()) else components * (lam is None)
        super().__init__(domain, mean, shape, lam, decoding, layout, bounds, escape, 1 + 2 * binomials + 3 * negative)
        self.negative, self.binomials = negative, binomials
        self.gammas = None if gammas is None else Gammas(gammas)
        excluded = [torch.zeros(len(mean), 1 + binomials, dtype=torch.bool), bounded[:, None].expand(-1, negative)]
        constants(self, largest=largest, excluded=torch.cat(excluded, -1), offsets=spread(binomials))

    def law(self, output: Tensor, z: Tensor, alpha: Tensor) -> Mixture:
        """The law of every column's missing count."""
        b, k = self.binomials, self.negative
        raw = self.by_column(output)
        base = (1 - alpha) * self.lam * self.posterior_mean(z, alpha)
        left = (self.largest - z).clamp(min=0)
        share = (base / left.clamp(min=1)).clamp(1e-4, 1 - 1e-4)
        probs = torch.sigmoid(torch.logit(share)[..., None] + self.offsets + soft_clip(raw[..., :b], 30))
        parts: list[Any] = [
            Zero(torch.zeros_like(base)[..., None]),
            Binomial(left[..., None], probs.clamp(1e-12, 1 - 1e-12)),
        ]
        logits = raw[..., 2 * k + b :]
        if self.gammas is not None:
            weights, shapes, means = self.gammas.posterior(z, self.lam * alpha)
            means = (self.lam * (1 - alpha))[..., None] * means * soft_clip(raw[..., b : b + k], 12).exp()
            shapes = shapes * soft_clip(raw[..., b + k : b + 2 * k], 10).exp()
            parts.append(NegativeBinomial(shapes.clamp(1e-3, MAX_SHAPE), means.clamp(min=1e-12)))
            others = torch.full_like(raw[..., : 1 + b], UNLIKELY)
            logits = logits + torch.cat([others, weights.log_softmax(-1)], -1)
        return Mixture(logits.masked_fill(self.excluded, -torch.inf), tuple(parts))

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        return Belief(Product(self.law(output, z, alpha)))
