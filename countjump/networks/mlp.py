"""The paper's conditional MLP (appendix B), for dense rows and for rows that are almost all zero."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from countjump.networks.time import TimeEmbedding


class SparseLinear(nn.Linear):
    """A linear layer whose cost follows the non-zeros of its input: the same numbers as ``nn.Linear``.

    >>> layer = SparseLinear(4, 2)
    >>> x = torch.tensor([[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    >>> torch.allclose(layer(x), functional.linear(x, layer.weight, layer.bias))
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        """(B, in) → (B, out)."""
        rows, columns = input.nonzero(as_tuple=True)
        offsets = torch.searchsorted(rows, torch.arange(len(input), device=input.device))
        table = self.weight.t().contiguous()
        return (
            functional.embedding_bag(columns, table, offsets, mode="sum", per_sample_weights=input[rows, columns])
            + self.bias
        )


class Block(nn.Module):
    """Two layers with what the time says added between them, layer norm, leaky ReLU, dropout, and a skip around."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dropout = 0.0
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, h: Tensor, time: Tensor) -> Tensor:
        """(B, width) and (B, width) → (B, width)."""
        inner = self.first(functional.leaky_relu(self.norm(h), 0.01)) + time
        return h + self.second(functional.dropout(functional.leaky_relu(inner, 0.01), self.dropout, self.training))


class MLP(nn.Module):
    """Three blocks of two layers and a time projection; ``sparse`` makes the first layer follow the non-zeros.

    >>> network = MLP(inputs=3, outputs=5, width=16)
    >>> network(torch.zeros(4, 3), torch.tensor([0.1, 0.1, 0.9, 0.9])).shape
    torch.Size([4, 5])
    """

    def __init__(self, inputs: int, outputs: int, width: int = 128, blocks: int = 3, sparse: bool = False) -> None:
        super().__init__()
        self.embedding = TimeEmbedding(width)
        self.input = (SparseLinear if sparse else nn.Linear)(inputs, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.time = nn.Linear(width, blocks * width)
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, outputs)
        nn.init.normal_(self.output.weight, std=0.01 / width**0.5)
        nn.init.zeros_(self.output.bias)

    def drop(self, share: float) -> None:
        """Leave out this share of the hidden units while training, at random."""
        for block in self.blocks:
            block.dropout = share  # type: ignore[assignment]

    def forward(self, features: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        """Features (B, inputs), times (B,) or (1,), and vectors (B, width) of what is given besides → (B, outputs).

        A time is embedded and projected, for all blocks at once, as often as it is distinct.
        """
        embedding, index = self.embedding(t)
        if condition is not None:
            embedding, index = embedding.index_select(0, index.expand(len(features))) + condition, None
        projected = self.time(functional.leaky_relu(embedding, 0.01))
        if index is not None and len(t) > 1:
            projected = projected.index_select(0, index)
        h = self.input(features)
        for block, time in zip(self.blocks, projected.chunk(len(self.blocks), 1), strict=True):
            h = block(h, time)
        return self.output(functional.leaky_relu(self.norm(h), 0.01))
