"""Non-negative reals, and what their atoms are."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from countjump.blocks.base import MAX_SHAPE, Belief, constants, soft_clip
from countjump.blocks.columns import ColumnBlock, Gammas
from countjump.domains import Domain
from countjump.laws import Gamma, Known, Mixture, NegativeBinomial, Poisson, Product

SMALLEST_MEAN = 1e-150
"""Of a Gamma: the square of a smaller one, which its gradient needs, is no number."""


class Reals(ColumnBlock):
    """x_0 is an atom v, or one of K Gammas; the missing count is then Poisson(λ (1 − α) v), or a negative binomial.

    The network corrects the posterior of the prior's mixture, in log space. Zero is the atom that most columns have. ``atoms``
    (D, A) have the ``atom_shares`` in the data, 0 for none; given z_t their weights are those times Pois(z_t; λ α v), and the
    network's J numbers change their logarithms by the ``basis`` (D, A, J). A first zero of a column has the mass ``zero_escape`` in
    the score.
    """

    atoms: Tensor
    log_atoms: Tensor
    log_smooth: Tensor
    basis: Tensor
    has_zero: Tensor
    log_new_zero: Tensor

    def __init__(
        self,
        domain: Domain,
        mean: Tensor,
        shape: Tensor,
        lam: Tensor,
        gammas: Tensor,
        atoms: Tensor,
        atom_shares: Tensor,
        basis: Tensor,
        decoding: str = "draw",
        layout: Any = None,
        bounds: Tensor | None = None,
        escape: float = 0.0,
        zero_escape: float = 1e-9,
    ) -> None:
        super().__init__(
            domain, mean, shape, lam, decoding, layout, bounds, escape, 3 * gammas.shape[-1] + basis.shape[-1]
        )
        self.gammas = Gammas(gammas)
        smooth = 1 - atom_shares.sum(-1, keepdim=True)
        constants(self, atoms=atoms.double(), log_atoms=atom_shares.log(), log_smooth=smooth.clamp(min=1e-300).log())
        has_zero = ((atoms == 0) & (atom_shares > 0)).any(-1)
        prior = Mixture(self.gammas.log_weights, (Gamma(self.gammas.shapes, self.gammas.means),)).log_prob(self.mean)
        constants(self, basis=basis.double(), has_zero=has_zero, log_new_zero=math.log(zero_escape) - prior)

    def admit(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A zero in a column that never had one comes, by its escape mass, in the place of the mean."""
        x, mass = super().admit(x)
        new_zero = (x == 0) & ~self.has_zero
        return torch.where(new_zero, self.mean, x), mass + torch.where(new_zero, self.log_new_zero, 0.0).sum(1)

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        k = self.gammas.components
        for_means, for_shapes, for_weights, own = self.by_column(output).split([k, k, k, self.basis.shape[-1]], -1)
        weights, shapes, means = self.gammas.posterior(z, self.lam * alpha)
        means = (means * soft_clip(for_means, 12).exp()).clamp(min=SMALLEST_MEAN)
        shapes = (shapes * soft_clip(for_shapes, 8).exp()).clamp(1e-2, MAX_SHAPE)
        seen, rate = ((self.lam * each)[..., None] for each in (alpha, 1 - alpha))
        odds = torch.einsum("bdj,daj->bda", own, self.basis)
        # A column that is known has units at t = 1, too.
        atoms = self.log_atoms + Poisson(seen.clamp(min=1e-100) * self.atoms).log_prob(z[..., None]) + odds
        logits = torch.cat([atoms, self.log_smooth + weights + for_weights], -1)
        missing = Mixture(logits, (Poisson(rate * self.atoms), NegativeBinomial(shapes, rate * means)))
        data = Mixture(logits, (Known(self.atoms.expand(atoms.shape)), Gamma(shapes, means)))
        return Belief(Product(missing), Product(data))
