"""Counts, bounded counts and binary columns, and what their atoms are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from countjump.blocks.base import MAX_SHAPE, Belief, constants, soft_clip, spread
from countjump.blocks.columns import ColumnBlock, Gammas
from countjump.domains import Domain
from countjump.laws import Binomial, Known, Mixture, NegativeBinomial, Product, Zero

UNLIKELY = -3.0  # the log-weight, before training, of an atom at zero and of a binomial beside negative binomials


class Counts(ColumnBlock):
    """The missing count is zero, one of K negative binomials, one of K Binomial(M − z_t, q), or that of an atom v: v − z_t.

    The negative binomials correct the posterior of the rates' mixture of ``gammas``; without them every column is bounded. M is the
    column's bound or its largest training value. A bounded column has no negative binomials, so that no count exceeds M. The
    binomials can be narrower than a Poisson, which no negative binomial is; a mixed Poisson count (Poisson JUMP) never is, and
    has none.

    An atom is a value that is more frequent than its neighbours say. ``atoms`` (D, A) have the ``atom_shares`` in the data, 0 for
    none; given z_t their weights are those times Bin(z_t; v, α), and the network's J numbers change their logarithms by the
    ``basis`` (D, A, J). Where atoms have all of a column's share, it has no other law: a categorical law over its values.
    """

    largest: Tensor
    excluded: Tensor
    offsets: Tensor
    bounded: Tensor
    atoms: Tensor
    log_atoms: Tensor
    log_smooth: Tensor
    basis: Tensor

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
        atoms: Tensor | None = None,
        atom_shares: Tensor | None = None,
        basis: Tensor | None = None,
    ) -> None:
        bounded = bounds.isfinite()
        negative = 0 if gammas is None else gammas.shape[-1]
        binomials = 1 if gammas is None and bool((largest <= 1).all()) else components * (lam is None)
        atoms = mean.new_zeros(len(mean), 0) if atoms is None else atoms
        shares = torch.zeros_like(atoms) if atom_shares is None else atom_shares
        basis = torch.zeros(*atoms.shape, 0) if basis is None else basis
        smooth = (1 - shares.sum(-1, keepdim=True)).clamp(min=0)
        smooth = smooth * (smooth > 1e-9)
        self.smooth = 1 + 2 * binomials + 3 * negative if bool((smooth > 0).any()) else 0
        super().__init__(domain, mean, shape, lam, decoding, layout, bounds, escape, self.smooth + basis.shape[-1])
        self.negative, self.binomials = negative, binomials
        self.gammas = None if gammas is None else Gammas(gammas)
        excluded = [torch.zeros(len(mean), 1 + binomials, dtype=torch.bool), bounded[:, None].expand(-1, negative)]
        constants(self, largest=largest, excluded=torch.cat(excluded, -1), offsets=spread(binomials), bounded=bounded)
        constants(self, atoms=atoms.double(), log_atoms=shares.double().log(), log_smooth=smooth.double().log())
        constants(self, basis=basis.double())

    def law(self, output: Tensor, z: Tensor, alpha: Tensor) -> Mixture:
        """The law of every column's missing count."""
        raw = self.by_column(output)
        smooth, own = raw.split([self.smooth, raw.shape[-1] - self.smooth], -1)
        logits, parts = self._smooth(smooth, z, alpha) if self.smooth else ([], [])
        if self.atoms.shape[-1]:
            # A column that is known has units at t = 1, too.
            thinned = Binomial(self.atoms, alpha[..., None].clamp(min=1e-100)).log_prob(z[..., None])
            odds = torch.einsum("bdj,daj->bda", own, self.basis)
            logits = [*logits, odds + self.log_atoms + thinned]
            parts = [*parts, Known(self.atoms - z[..., None])]
        return Mixture(torch.cat(logits, -1), tuple(parts))

    def _smooth(self, raw: Tensor, z: Tensor, alpha: Tensor) -> tuple[list[Tensor], list[Any]]:
        """Log-weights, on the scale of P(z_t), and components."""
        b, k = self.binomials, self.negative
        for_probs, for_means, for_shapes, logits = raw.split([b, k, k, 1 + b + k], -1)
        base = (1 - alpha) * self.lam * self.posterior_mean(z, alpha)
        left = (self.largest - z).clamp(min=0)
        share = (base / left.clamp(min=1)).clamp(1e-4, 1 - 1e-4)
        probs = torch.sigmoid(torch.logit(share)[..., None] + self.offsets + soft_clip(for_probs, 30))
        parts: list[Any] = [
            Zero(torch.zeros_like(base)[..., None]),
            Binomial(left[..., None], probs.clamp(1e-12, 1 - 1e-12)),
        ]
        if self.gammas is not None:
            weights, shapes, means = self.gammas.posterior(z, self.lam * alpha)
            means = (self.lam * (1 - alpha))[..., None] * means * soft_clip(for_means, 12).exp()
            shapes = shapes * soft_clip(for_shapes, 10).exp()
            parts.append(NegativeBinomial(shapes.clamp(1e-3, MAX_SHAPE), means.clamp(min=1e-12)))
            others = weights.logsumexp(-1, keepdim=True) + torch.where(self.bounded, 0.0, UNLIKELY)[:, None]
            logits = logits + torch.cat([others.expand(*z.shape, 1 + b), weights], -1)
        return [(logits + self.log_smooth).masked_fill(self.excluded, -torch.inf)], parts

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        return Belief(Product(self.law(output, z, alpha)))
