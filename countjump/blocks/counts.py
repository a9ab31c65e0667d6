"""Counts, bounded counts and binary columns, and what their atoms are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from countjump.blocks.base import MAX_SHAPE, Belief, constants, soft_clip, spread
from countjump.blocks.columns import ColumnBlock, Gammas
from countjump.domains import Domain
from countjump.laws import Binomial, Known, Mixture, NegativeBinomial, Product, Zero

MOST_LEVELS = 64  # of a leveled column

MATCHING_STEP = 0.7
"""How far a level's log-odds go towards what would put its share right."""

SEEN_MORE = 2.0
"""Rows that are added to those in which a level is seen, so that rare levels can be compared."""

WORTH = 5.0
"""Rows of a level from which on its bias is worth more than half of itself: what few rows say may be chance."""

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

    In ``leveled`` columns, which are bounded, every level v has a ``level_bias`` (D, L), by which its log-odds are raised: zero
    until chains have been drawn, and then what their margins lack.
    """

    leveled: Tensor
    levels: Tensor
    level_bias: Tensor

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
        leveled: Tensor | None = None,
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
        # What is decoded otherwise is not what the law says.
        self.matches_margins = leveled is not None and bool(leveled.any()) and self.exact and decoding == "latent"
        if leveled is not None and self.matches_margins:
            most = float(bounds[leveled].max())
            if leveled.dtype != torch.bool or leveled.shape != bounds.shape or not most < MOST_LEVELS:
                raise ValueError(f"levels of columns up to {most:g}: they have fewer than {MOST_LEVELS}")
            constants(self, leveled=leveled, levels=torch.arange(int(most) + 1, dtype=torch.float64))
            self.register_buffer("level_bias", torch.zeros(len(mean), len(self.levels), dtype=torch.float64))

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
        law = Mixture(torch.cat(logits, -1), tuple(parts))
        return self._biased(law, z) if self.matches_margins and bool(self.level_bias.any()) else law

    def _biased(self, law: Mixture, z: Tensor) -> Mixture:
        """The law with every level of a leveled column apart, at the probability that it has, and its bias."""
        missing = self.levels - z[..., None]
        level = torch.full_like(missing, -torch.inf)
        log_prob = self._of_leveled(law).log_prob(missing[:, self.leveled])
        level[:, self.leveled] = log_prob + self.level_bias[self.leveled]
        others = law.logits.log_softmax(-1).masked_fill(self.leveled[:, None], -torch.inf)
        return Mixture(torch.cat([others, level], -1), (*law.parts, Known(missing.clamp(min=0))))

    def _of_leveled(self, law: Any) -> Any:
        """The law of these columns (B, C, 1), which many values (B, C, L) can be asked of."""
        if isinstance(law, Mixture):
            kept = [not isinstance(part, NegativeBinomial) for part in law.parts]  # no bounded column has one
            logits = law.logits.split([part.components for part in law.parts], -1)
            some = torch.cat([each for each, keep in zip(logits, kept, strict=True) if keep], -1)
            parts = [self._of_leveled(part) for part, keep in zip(law.parts, kept, strict=True) if keep]
            return Mixture(some[:, self.leveled, None], tuple(parts))
        return law._map(lambda _, field: field[:, self.leveled, None])

    def match_margins(self, drawn: Tensor, held: Tensor) -> None:
        if not self.matches_margins:
            return
        there, seen = (torch.stack([(x == v).double().sum(0) for v in self.levels], 1) for x in (drawn, held))
        shares = (there / len(drawn), seen / len(held))
        more = SEEN_MORE / len(held)
        change = ((shares[1] + more) / (shares[0] + more)).log()
        change = change.masked_fill(self.levels > self.largest[:, None], 0.0)
        seen = seen.clamp(min=1)
        moved = (self.level_bias + MATCHING_STEP * change) / (1 + MATCHING_STEP * WORTH / seen)
        self.level_bias.copy_(moved * self.leveled[:, None])

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
