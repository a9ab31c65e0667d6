"""Wide sparse reals: a set of columns that are not zero, and the amounts there."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from countjump.blocks.base import Belief, Stage, Training, constants, soft_clip, spread
from countjump.blocks.sparse import ORDINARY, SparseBlock
from countjump.laws.sparse import Amounts, SparseSet, ThinnedRows
from countjump.sparse import SparseRows

RANK, LEVELS, FACTORS = 16, 6, 16  # of the amounts: length of a column's vector, Gammas of an entry, factors of a row


class SparseReals(SparseBlock):
    """z_0 is the set of columns that are not zero, thinned and thickened by :class:`countjump.laws.sparse.SparseSet`; the reals are
    drawn at the end, given the set, by :class:`countjump.laws.sparse.Amounts`.

    ``shares`` (D,) are the columns' shares in all non-zeros, ``filled`` their mean number in a row, ``log_size`` (D,) the logarithm
    of a column's mean where it is not zero.
    """

    offsets: Tensor
    decoding = "draw"

    def __init__(self, shares: Tensor, width: int, filled: float, log_size: Tensor, components: int) -> None:
        super().__init__(shares, width, sparse_gradients=False)
        self.components, self.filled = components, filled
        constants(self, offsets=_even(spread(components)).float())
        self.log_size = nn.Parameter(log_size.float())
        self.amount_table = nn.Parameter(torch.randn(self.size, RANK) / RANK**0.5)
        self.level = nn.Parameter(_even(torch.linspace(-1.0, 1.0, LEVELS)))
        self.log_shape = nn.Parameter(torch.full((LEVELS,), 2.0))
        self.column_logits = nn.Parameter(torch.zeros(self.size, LEVELS))
        self.factor = nn.Parameter(_even(torch.linspace(-1.0, 1.0, FACTORS)))
        self.inputs = width + 3
        self.outputs = width + 2 * components + RANK + LEVELS + 2 * FACTORS

    def encode(self, x: SparseRows) -> ThinnedRows:
        return super().encode(x.with_values((x.value > 0).double()))

    def features(self, z: SparseRows, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        """Σ table_d over the set, each direction by its scale, and how many are seen."""
        seen = z.nonzero()
        view = nn.functional.embedding_bag(seen.column, self.table.weight, seen.starts, mode="sum")
        size = z.totals[:, None]
        alpha = alpha if known is None else torch.where(known, 1.0, alpha)
        sizes = torch.cat([size.log1p() / 4, size / (size + self.filled), alpha.expand(len(z), 1)], 1).float()
        return torch.cat([view * self.input_scale, sizes], -1)

    def belief(self, output: Tensor, z: SparseRows, alpha: Tensor) -> Belief:
        """The rest of the set, and the amounts at what is seen."""
        k = self.components
        sizes = [self.width, k, k, RANK, LEVELS, FACTORS, FACTORS]
        query, logits, rates, amount, levels, factors, offsets = output.split(sizes, 1)
        expected = ((1 - alpha) * (z.totals[:, None] + 1) / (alpha + 1 / self.filled)).clamp(min=1e-6).log().float()
        rates = expected + soft_clip(rates + self.offsets, 12)
        kept = torch.ones(1, 1, dtype=torch.float64, device=z.device)
        missing = SparseSet(logits, rates, query, z, self.table.weight, self.bias, kept)
        data = Amounts(
            places=z,
            query=amount,
            factor_logits=factors,
            offsets=soft_clip(self.factor + offsets, 8),
            level_logits=levels,
            table=self.amount_table,
            size=self.log_size,
            levels=self.level,
            shapes=soft_clip(self.log_shape, 10).exp().clamp(1e-1, 1e6),
            column_logits=self.column_logits,
        )
        return Belief(missing, data)

    def belief_given(self, belief: Belief, x: SparseRows, known: Any) -> tuple[Belief, Tensor]:
        if known is None:
            return super().belief_given(belief, x, known)
        data, log_prob = belief.data.given(x, known)
        return Belief(belief.missing, data), log_prob

    def uncounted(self) -> tuple[int, str] | None:
        return 0, "holds reals"

    def loss(
        self,
        belief: Belief,
        x: SparseRows,
        z: SparseRows,
        alpha: Tensor,
        generator: torch.Generator,
        known: Tensor | None = None,
    ) -> Tensor:
        """−ln belief(the rest of the set), and at t = 0, where the whole set is seen, −ln belief(x_0)."""
        rest = self.encode(x).units - z
        loss = -belief.missing.log_prob(rest)
        whole = (alpha.expand(len(x), 1)[:, 0] == 1).nonzero().squeeze(1)
        amounts = belief.data[whole].log_prob(x[whole])
        loss = loss.index_add(0, whole, -amounts) / min(max(self.filled, 1.0), ORDINARY)
        return loss if known is None else loss.masked_fill(known[:, 0], 0.0)

    def stages(self, training: Training, rows: np.ndarray, held_out: np.ndarray, updates: int) -> list[Stage]:
        """The embeddings begin with the principal components of the sets."""
        nothing = torch.zeros(())
        start = partial(self.initialise, training.rows, rows)
        return [Stage("embeddings", [], lambda index, generator: nothing, rows, 0, 1, 0.0, start=start)]


def _even(offsets: Tensor) -> Tensor:
    """Offsets of logarithms whose mixture begins with the right mean."""
    return offsets - offsets.exp().mean().log()
