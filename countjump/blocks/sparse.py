"""What blocks of wide sparse rows share: rows are kept as their non-zeros, and every column has a vector."""

from __future__ import annotations

from abc import ABC
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from countjump.blocks.base import Block
from countjump.laws.sparse import ThinnedRows
from countjump.priors import directions
from countjump.sparse import SparseRows

ORDINARY = 50.0  # units (or non-zeros) of an ordinary row, at most: losses are on the scale of one
PCA_ROWS, PCA_ENTRIES = 20_000, 2**24  # of principal components: rows, and entries of their table, at most


class SparseBlock(Block, ABC):
    """``shares`` (D,) are the columns' shares in all units. A column has one vector, a row of ``table``, by which it is seen and by
    which it comes; ``input_scale`` is that of each direction."""

    sparse = True
    knowables = 1

    def __init__(self, shares: Tensor, width: int, sparse_gradients: bool) -> None:
        super().__init__()
        self.width, self.size = width, len(shares)
        self.table = nn.Embedding(self.size, width, sparse=sparse_gradients)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.input_scale = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(shares.log().float())

    def read(self, matrix: Any) -> SparseRows:
        return SparseRows.from_csr(matrix if sp.issparse(matrix) else sp.csr_matrix(matrix)).to(self.bias.device)

    def write(self, x: SparseRows) -> sp.csr_matrix:
        return x.csr()

    def empty(self, rows: int, device: torch.device | str) -> SparseRows:
        return SparseRows.empty(rows, self.size, device)

    def encode(self, x: SparseRows) -> ThinnedRows:
        return ThinnedRows(x, torch.ones(1, 1, dtype=torch.float64, device=x.device))

    def missing(self, x: SparseRows, z: SparseRows, alpha: Tensor) -> ThinnedRows:
        whole = self.encode(x)
        return ThinnedRows(whole.units - z, whole.p)

    def knowable(self, known: Tensor) -> Tensor:
        """The network learns of rows that are known as a whole; where some columns are, see :meth:`partly`."""
        return known.all(1, keepdim=True)

    def partly(self, known: Tensor) -> Tensor | None:
        some = known.any(1) & ~known.all(1)
        return known & some[:, None] if bool(some.any()) else None

    def bridge(self, z: SparseRows, x: SparseRows, known: Any, p: Tensor, generator: torch.Generator | None) -> Any:
        if known is None:
            return None
        left = self.encode(x).units - z
        left = left.with_values(torch.where(known[left.row, left.column], left.value, 0.0))
        return ThinnedRows(left.nonzero(), p).sample(generator)

    def hold(self, z: SparseRows, whole: SparseRows, known: Tensor) -> SparseRows:
        rest, mine = z.value * ~known[z.row, 0], whole.value * known[whole.row, 0]
        return z.with_values(rest) + whole.with_values(mine)

    def latent(self, z: SparseRows) -> SparseRows:
        return z

    @torch.no_grad()
    def initialise(self, rows: Any, training: np.ndarray) -> None:
        """Begin with the principal components in which z_0 of some of the ``training`` rows differ most."""
        some = self.encode(self.read(rows.take(np.sort(training[:PCA_ROWS])))).units.csr()
        count = min(self.width, PCA_ENTRIES // self.size, min(some.shape) - 1)
        if count > 0:
            rise, spread = (torch.from_numpy(each).float().to(self.bias.device) for each in directions(some, count))
            known = len(spread)
            self.table.weight.mul_(0.1)
            self.table.weight[:, :known], self.input_scale[:known] = rise, 1 / spread.clamp(min=1e-3)
