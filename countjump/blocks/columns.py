"""Blocks that believe in every column apart: their encodings, priors, and layout of features and outputs."""

from __future__ import annotations

import math
from abc import ABC

import numpy as np
import torch
from torch import Tensor, nn

from countjump.blocks.base import Belief, Block, constants
from countjump.domains import Domain
from countjump.laws import Binomial, NegativeBinomial, Poisson, Product

VIEWS = 4  # features per column


def mirror(x: Tensor, bounds: Tensor, escape: float) -> tuple[Tensor, Tensor]:
    """A count above a bound M comes, by the escape mass, from the one that it mirrors; without an escape mass, not at all.

    M + 1 mirrors M, M + 2 mirrors M − 1, and so on; from 0 it goes round again, the n-th time with the share 1/(n (n + 1)). So all
    probabilities add up to one. The rows that are scored, and ln of their escape mass (B,).
    """
    above = x > bounds
    if not escape:
        return x, torch.where(above.any(1), -torch.inf, 0.0).double()
    beyond, size = torch.where(above, x - bounds - 1, 0.0), torch.where(above, bounds + 1, 1.0)
    turn = (beyond / size).floor() + 1
    stays = torch.where(bounds.isfinite(), math.log1p(-escape), 0.0)
    mass = torch.where(above, math.log(escape) - (turn * (turn + 1)).log(), stays)
    return torch.where(above, bounds - beyond % size, x), mass.double().sum(1)


class Gammas(nn.Module):
    """The prior of every column, a mixture of Gammas (3, D, K: weights, shapes, means), and its posterior given z_t.

    Given z_t ~ Pois(λ α x) each weight is multiplied by the negative binomial probability of z_t, and each Gamma is the conjugate
    one, with shape z_t + shape. Counts that are thinned are the same with λ = 1, x being the rate behind the count.
    """

    log_weights: Tensor
    shapes: Tensor
    means: Tensor

    def __init__(self, mixture: Tensor) -> None:
        super().__init__()
        weights, shapes, means = mixture.double()
        self.components = weights.shape[-1]
        constants(self, log_weights=weights.log(), shapes=shapes, means=means)

    def posterior(self, z: Tensor, rate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights (not normalised), shapes and means (B, D, K) given z (B, D) and λ α."""
        z = z[..., None]
        seen = (rate[..., None] * self.means).clamp(min=1e-300)
        likelihood = NegativeBinomial(self.shapes, seen).log_prob(z)
        return self.log_weights + likelihood, z + self.shapes, (z + self.shapes) / (seen + self.shapes) * self.means


class ColumnBlock(Block, ABC):
    """A block that believes in every column apart, with ``per_column`` numbers for each.

    Without λ it is binomial JUMP (appendix C): z_0 = x_0, and x_0 − z_t is missing. With λ it is Poisson JUMP (section 2):
    z_0 ~ Pois(λ x_0), and Pois(λ (1 − α_t) x_0) is missing.

    What it corrects is the posterior under a Gamma prior of each column, x_0 ~ Gamma(shape, mean).

    Features are laid out as (4, D) and outputs as (per_column, D), flat. With ``layout`` = (all, places) D is a larger number of
    columns, of which the block has those ``places``: so that a network of one's own sees a picture whole.
    """

    mean: Tensor
    shape: Tensor
    lam: Tensor
    """Counts per unit of data: z_0/λ is about x_0."""
    bounds: Tensor
    places: Tensor

    flat = True
    believes = "mixture"
    """The name of its belief; a mixture on non-negative reals is one about x_0 itself."""

    def __init__(
        self,
        domain: Domain,
        mean: Tensor,
        shape: Tensor,
        lam: Tensor | None = None,
        decoding: str = "latent",
        layout: tuple[int, Tensor] | None = None,
        bounds: Tensor | None = None,
        escape: float = 0.0,
        per_column: int = 1,
    ) -> None:
        super().__init__()
        self.domain, self.size, self.decoding, self.layout, self.escape = domain, len(mean), decoding, layout, escape
        self.exact = lam is None
        wide = self.size if layout is None else layout[0]
        self.knowables = self.size
        self.inputs, self.outputs, self.per_column = VIEWS * wide, per_column * wide, per_column
        lam = torch.ones_like(mean) if lam is None else lam
        constants(self, mean=mean.double(), shape=shape.double(), lam=lam.double())
        constants(self, bounds=torch.full_like(mean, torch.inf) if bounds is None else bounds)
        if layout is not None:
            constants(self, places=layout[1])

    def posterior_mean(self, z: Tensor, alpha: Tensor) -> Tensor:
        """E[x_0 given z_t] = (z_t + shape) / (λ α + shape / mean)."""
        return (z + self.shape) / (self.lam * alpha + self.shape / self.mean)

    def to_values(self, x: Tensor) -> Tensor:
        return self.domain.project(x)

    def empty(self, rows: int, device: torch.device | str) -> Tensor:
        return torch.zeros(rows, self.size, dtype=torch.float64, device=device)

    def encode(self, x: Tensor) -> Product:
        return Product(Binomial(x, torch.ones_like(x)) if self.exact else Poisson(self.lam * x))

    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> Product:
        """Pois(λ (1 − α) x_0), or what is known to be missing."""
        return Product(Binomial(x - z, torch.ones_like(x)) if self.exact else Poisson(self.lam * (1 - alpha) * x))

    def rate_scale(self, alpha: Tensor) -> Tensor:
        return torch.ones_like(alpha) if self.exact else self.lam * (1 - alpha)

    def latent(self, z: Tensor) -> Tensor:
        return z / self.lam

    def expectation(self, z: Tensor, belief: Belief, alpha: Tensor) -> Tensor:
        """The belief's mean of x_0, or what its mean of the missing count says."""
        if belief.data is not None:
            return belief.data.mean
        return super().expectation(z, belief, alpha) if self.exact else belief.missing.mean / self.rate_scale(alpha)

    def features(self, z: Tensor, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        """Three views of z_t, each of about unit scale: against the prior, by its logarithm, and linear near the mean; and whether
        the column is known, so that its α is 1."""
        scale = self.lam * self.mean + 1
        known = torch.zeros_like(z, dtype=torch.bool) if known is None else known
        against_prior = (self.posterior_mean(z, torch.where(known, 1.0, alpha)) / self.mean).log() / 2
        views = torch.stack([against_prior, z.log1p() / scale.log1p(), 2 * z / (z + scale), known], 1).float()
        if self.layout is not None:
            whole = views.new_zeros(len(z), VIEWS, self.layout[0])
            whole[..., self.places] = views
            views = whole
        return views.flatten(1)

    def knowable(self, known: Tensor) -> Tensor:
        return known

    def shown(self, x: Tensor) -> Tensor:
        return self.lam * x

    def hold(self, z: Tensor, whole: Tensor, known: Tensor) -> Tensor:
        return torch.where(known, whole, z)

    def uncounted(self) -> tuple[int, str] | None:
        if self.exact and self.domain.whole:
            return None
        if self.domain.whole:
            return 0, "is modelled by process='poisson', whose z_0 is drawn and not the data: use process='binomial'"
        return 0, f"holds {self.domain.name} reals"

    def upper_bounds(self) -> np.ndarray:
        return self.bounds.cpu().numpy().astype(float)

    def whole_columns(self) -> np.ndarray:
        return np.full(self.size, self.domain.whole)

    def by_column(self, output: Tensor) -> Tensor:
        """(B, outputs) → (B, D, per_column), float64."""
        channels = output.reshape(len(output), self.per_column, -1)
        if self.layout is not None:
            channels = channels[..., self.places]
        return channels.transpose(1, 2).double()

    def admit(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return mirror(x, self.bounds, self.escape)

    def why_no_likelihood(self) -> str | None:
        real = self.domain.name == "non-negative"
        if self.exact or (real and self.believes == "mixture"):
            return super().why_no_likelihood()
        change = "belief='mixture'" if real else "process='binomial'"
        return (
            f"process='poisson' with belief={self.believes!r} on {self.domain.name} data gives no law of x_0, and so no "
            f"likelihood of the data: use {change}"
        )
