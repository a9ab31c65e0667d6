"""Columns that never change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from countjump.blocks.base import Belief, Block, constants
from countjump.laws import Known, Product, Zero


class Constant(Block):
    """Every row holds the same ``values`` (D,). They need no counts: nothing is lost, seen or missing.

    A constant that was seen in so many ``rows`` has an escape mass of 1/(rows + 1) in the score, shared among the columns: another
    value comes by 1/(k (k + 1))/2 for ``whole`` numbers at distance k, else by a Cauchy density; above declared
    ``bounds`` none does.
    """

    values: Tensor
    whole: Tensor
    bounds: Tensor
    inputs = outputs = 0
    exact = True

    def __init__(
        self, values: Tensor, whole: Tensor, rows: int, sparse: bool = False, bounds: Tensor | None = None
    ) -> None:
        super().__init__()
        self.size, self.sparse = len(values), sparse
        self.escape = 1 / ((rows + 1) * max(len(values), 1))
        bounds = torch.full_like(values, torch.inf) if bounds is None else bounds
        constants(self, values=values.double(), whole=whole, bounds=bounds)

    def read(self, matrix: Any) -> Tensor:
        """Sparse rows are made dense only where one of them has another value."""
        if sp.issparse(matrix) and not (matrix - self._rows(matrix.shape[0])).count_nonzero():
            return self.values.expand(matrix.shape[0], -1)
        return super().read(matrix)

    def write(self, x: Tensor) -> Any:
        return self._rows(len(x)) if self.sparse else self._rows(len(x)).toarray()

    def _rows(self, count: int) -> sp.csr_matrix:
        return sp.csr_matrix(np.ones((count, 1))) @ sp.csr_matrix(self.values.cpu().numpy())

    def empty(self, rows: int, device: torch.device | str) -> Tensor:
        return torch.zeros(rows, 0, dtype=torch.float64, device=device)

    def encode(self, x: Tensor) -> Product:
        return Product(Zero(self.empty(len(x), x.device)))

    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> Product:
        return self.encode(x)

    def features(self, z: Tensor, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        return z.float()

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        return Belief(Product(Zero(z)), Product(Known(self.values.expand(len(z), -1))))

    def loss(
        self,
        belief: Belief,
        x: Tensor,
        z: Tensor,
        alpha: Tensor,
        generator: torch.Generator,
        known: Tensor | None = None,
    ) -> Tensor:
        return torch.zeros(len(z), device=z.device)

    def divergence(
        self,
        belief: Belief,
        x: Tensor,
        z: Tensor,
        alpha: Tensor,
        reveal: Tensor | None = None,
        known: Tensor | None = None,
    ) -> Tensor:
        """Nothing to learn."""
        return torch.zeros(len(z), device=z.device)

    def latent(self, z: Tensor) -> Tensor:
        return self.values.expand(len(z), -1)

    def expectation(self, z: Tensor, belief: Belief, alpha: Tensor) -> Tensor:
        return self.latent(z)

    def whole_columns(self) -> np.ndarray:
        return self.whole.cpu().numpy()

    def uncounted(self) -> None:
        """It is what it is, whatever was observed of it."""
        return None

    def decode(self, z: Tensor, belief: Any, before: Any, alpha: Tensor, generator: Any) -> Tensor:
        return self.latent(z)

    def admit(self, x: Tensor) -> tuple[Tensor, Tensor]:
        distance = (x - self.values).abs()
        if not distance.any():
            return x, torch.full((len(x),), self.size * math.log1p(-self.escape), dtype=torch.float64, device=x.device)
        scale = self.values.clamp(min=1.0)
        real = scale.log() - math.log(math.pi) - (scale**2 + distance**2).log()
        whole = -(2 * distance * (distance + 1)).clamp(min=1).log()
        mass = math.log(self.escape) + torch.where(self.whole, whole, real)
        mass = mass.masked_fill(x > self.bounds, -torch.inf)
        return self.values.expand(len(x), -1), torch.where(distance > 0, mass, math.log1p(-self.escape)).sum(1)
