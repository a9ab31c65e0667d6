"""Proportions: one-hot rows, simplex rows and bounded reals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from countjump.blocks.base import MAX_SHAPE, Belief, Block, constants, soft_clip
from countjump.domains import Domain
from countjump.laws import Binomial, DirichletMixture, Multinomial, Product, TotalTimesComposition

OTHER = 1e-6  # by how much shares miss a sum of one, at least, where a constant column has another share


class Units(Block):
    """Proportions of G wholes with C parts each, seen through N units of which some have fallen: x_0 is at a vertex (possible
    while no unit is elsewhere) or one of K Dirichlets; what is missing falls by the same law.

    A one-hot row is one whole with vertices only (K = 0) and N = 1; a simplex row is one whole; with ``bounds`` every column is a
    whole of the two parts x/bound and 1 − x/bound. Data are in the shape of the state: (B, G, C) shares. ``remainder`` is what
    constant columns leave of a simplex. In the score, a whole with a zero where no row had one has the mass ``zero_escape``.
    """

    share: Tensor
    total: Tensor
    concentration: Tensor
    log_weights: Tensor
    possible: Tensor
    bounds: Tensor

    def __init__(
        self,
        domain: Domain,
        share: Tensor,
        strength: Tensor,
        vertex_share: Tensor,
        total: Tensor,
        components: int,
        bounds: Tensor | None = None,
        has_law: bool = True,
        decoding: str = "draw",
        remainder: float = 1.0,
        escape: float = 0.0,
        zero_escape: float = 1e-9,
    ) -> None:
        super().__init__()
        self.domain, self.has_law, self.decoding = domain, has_law, decoding
        self.remainder, self.escape = remainder, escape
        self.groups, self.parts = share.shape
        self.size = self.parts if bounds is None else self.groups
        self.exact = bounds is None and bool((total == 1).all())
        self.components = components
        self.vertices = bool((vertex_share > 0).any())
        atoms = vertex_share if self.vertices else vertex_share[:, :0]
        inside = (1 - vertex_share.sum(-1, keepdim=True)).expand(-1, components) / max(components, 1)
        weights = torch.cat([atoms, inside.clamp(min=1e-12)], -1)
        self.whole = bounds is None
        self.log_zero_escape = math.log(zero_escape)
        constants(
            self,
            share=share,  # (G, C)
            total=total.double(),  # (G,)
            concentration=share * strength[:, None],
            log_weights=weights.clamp(min=1e-12).log(),
            possible=weights > 0,
            bounds=torch.ones(self.groups, dtype=torch.float64) if bounds is None else bounds,
        )
        self.knowables = self.groups
        self.inputs = self.groups * (self.parts + 2)
        self.outputs = self.groups * (self.log_weights.shape[-1] + components * self.parts)

    def to_data(self, values: Any) -> Tensor:
        x = super().to_data(values) / self.remainder
        if self.whole:
            return x[:, None]
        share = x / self.bounds
        return torch.stack([share, 1 - share], -1)

    def from_shares(self, x: Tensor) -> Tensor:
        """Back from (B, G, C) shares to data (B, D)."""
        return x[:, 0] if self.whole else x[..., 0] * self.bounds

    def to_values(self, x: Tensor) -> Tensor:
        return self.domain.project(self.from_shares(x)) * self.remainder

    def empty(self, rows: int, device: torch.device | str) -> Tensor:
        return torch.zeros(rows, self.groups, self.parts, dtype=torch.float64, device=device)

    def encode(self, x: Tensor) -> Product:
        return self._fall(self.total.expand(x.shape[:-1]), x)

    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> Product:
        return self._fall(self.total - z.sum(-1), x)

    @staticmethod
    def _fall(count: Tensor, x: Tensor) -> Product:
        return Product(TotalTimesComposition(Binomial(count, torch.ones_like(count)), Multinomial(x.log())))

    def features(self, z: Tensor, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        """The posterior shares against the prior ones, how many units have fallen, and whether the whole is known."""
        fallen = z.sum(-1, keepdim=True)
        strength = self.concentration.sum(-1, keepdim=True)
        share = (z + self.concentration) / (fallen + strength)
        known = torch.zeros_like(fallen) if known is None else known[..., None].to(z)
        view = [(share / self.share.clamp(min=1e-12)).log() / 2, fallen.log1p() / self.total[:, None].log1p(), known]
        return torch.cat(view, -1).flatten(1).float()

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """Each Dirichlet corrects the conjugate posterior z + prior, in log space."""
        raw = output.double().reshape(len(output), self.groups, -1)
        weights = self.log_weights.shape[-1]
        correction = raw[..., weights:].reshape(len(raw), self.groups, self.components, self.parts)
        concentration = (z + self.concentration)[..., None, :] * soft_clip(correction, 8).exp()
        concentration = concentration.clamp(1e-3, MAX_SHAPE)
        fallen = z.sum(-1)
        logits = (raw[..., :weights] + self.log_weights).masked_fill(~self.possible, -torch.inf)
        if self.vertices:
            elsewhere = pad(z != fallen[..., None], (0, self.components))
            logits = logits.masked_fill(elsewhere, -torch.inf)
        shares = DirichletMixture(logits, concentration, self.vertices)
        left = Binomial(self.total - fallen, torch.ones_like(fallen))
        return Belief(Product(TotalTimesComposition(left, shares)), Product(shares) if self.has_law else None)

    def knowable(self, known: Tensor) -> Tensor:
        if not self.whole:
            return known
        together = known.all(1)
        apart = (known.any(1) & ~together).nonzero()
        if len(apart):
            raise ValueError(
                f"row {int(apart[0])} has some columns of a {self.domain.name} group known and others not: they are known "
                "together, or not at all"
            )
        return together[:, None]

    def check_known(self, x: Tensor, known: Tensor) -> None:
        wrong = (known & ((x.sum(-1) - 1).abs() > OTHER)).any(1).nonzero()
        if len(wrong):
            total = float(x[int(wrong[0])].sum() * self.remainder)
            raise ValueError(
                f"row {int(wrong[0])} is known to have a {self.domain.name} group that adds up to {total:g}, and must to "
                f"{self.remainder:g}: correct it"
            )

    def whole_columns(self) -> np.ndarray:
        return np.full(self.size, self.domain.whole)

    def upper_bounds(self) -> np.ndarray:
        return np.ones(self.size) if self.whole else self.bounds.cpu().numpy()

    def shown(self, x: Tensor) -> Tensor:
        return self.total[:, None] * x

    def hold(self, z: Tensor, whole: Tensor, known: Tensor) -> Tensor:
        return torch.where(known[..., None], whole, z)

    def uncounted(self) -> tuple[int, str] | None:
        return 0, f"holds {self.domain.name} data, whose wholes lose no units"

    def latent(self, z: Tensor) -> Tensor:
        return z / self.total[:, None]

    def expectation(self, z: Tensor, belief: Belief, alpha: Tensor) -> Tensor:
        return belief.data.mean if belief.data is not None else self.latent(z + belief.missing.mean)

    def admit(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A real above its bound comes from bound²/x, which it mirrors, by the escape mass; above a declared bound, not at all."""
        x, mass = self._admit_shares(x) if self.whole else self._admit_bounded(x)
        return self._admit_zeros(x, mass)

    def _admit_zeros(self, x: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
        """A zero where no row had one, an end of an interval among them, comes by its escape mass, in the place of the mean."""
        if not self.components:
            return x, mass
        seen = self.possible[:, : self.parts] if self.vertices else torch.zeros_like(self.share, dtype=torch.bool)
        new = (x == 0).any(-1) & ~((x == 1) & seen).any(-1)
        share, prior = self.share.double(), self.concentration.double()
        density = prior.sum(-1).lgamma() - prior.lgamma().sum(-1) + ((prior - 1) * share.log()).sum(-1)
        size = torch.log(self.remainder * self.bounds.double()) * (self.parts - 1)
        log_new = self.log_zero_escape - density + size
        return torch.where(new[..., None], share, x), mass + torch.where(new, log_new, 0.0).sum(1)

    def _admit_bounded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        share = x[..., 0]
        above = share > 1
        if not self.escape:
            return x.clamp(0, 1), torch.where(above.any(1), -torch.inf, 0.0).double()
        mirrored = torch.where(above, 1 / share.clamp(min=1), share)
        mass = torch.where(above, math.log(self.escape) - 2 * share.clamp(min=1).log(), math.log1p(-self.escape))
        return torch.stack([mirrored, 1 - mirrored], -1), mass.sum(1)

    def _admit_shares(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Where a constant column has another value, the shares of what it leaves; of nothing, the likeliest part."""
        left = x.sum(-1, keepdim=True)
        other = (left - 1).abs() > OTHER
        likeliest = nn.functional.one_hot(self.share.argmax(-1), self.parts).to(x)
        volume = torch.where(other & (left > OTHER), (self.parts - 1) * left.clamp(min=OTHER).log(), 0.0)
        shares = torch.where(left > OTHER, x / left.clamp(min=OTHER), likeliest)
        inside = shares.max(-1).values < 1
        return torch.where(other, shares, x), -(inside * volume[..., 0]).sum(1)

    def data_log_prob(self, belief: Belief, x: Tensor) -> Tensor:
        """A density of shares as one of the data; the ends of an interval have mass, not density."""
        log_prob = belief.data.log_prob(x)
        if self.whole:
            # A density of shares of the remainder is one of shares of the whole, divided by its volume.
            inside = x[:, 0].max(1).values < 1
            volume = (self.parts - 1) * torch.log(torch.tensor(self.remainder, dtype=torch.float64))
            return log_prob - inside * volume
        inside = (x[..., 0] > 0) & (x[..., 0] < 1)
        return log_prob - torch.where(inside, self.bounds.log(), 0.0).sum(-1)

    def why_no_likelihood(self) -> str | None:
        """Zeros inside a simplex have no density, and other decodings none at all."""
        if not self.has_law:
            return "simplex rows with exact zeros have no density: replace the zeros by small shares to score them"
        return super().why_no_likelihood()
