"""What networks make of a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class TimeEmbedding(nn.Module):
    """Sines and cosines of t at geometric frequencies, then two layers, each distinct time once.

    >>> TimeEmbedding(16)(torch.tensor([0.0, 0.5, 0.5]))[0].shape
    torch.Size([2, 16])
    """

    frequencies: Tensor

    def __init__(self, width: int, frequencies: int = 32, fastest: float = 200.0) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.logspace(0, math.log10(fastest), frequencies), persistent=False)
        self.layers = nn.Sequential(nn.Linear(2 * frequencies + 1, width), nn.LeakyReLU(0.01), nn.Linear(width, width))

    def forward(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) → the embeddings of the distinct times (U, width), and which of them every time has (B,)."""
        times, index = torch.unique(t, return_inverse=True)
        times = times.float()[:, None]
        angle = times * self.frequencies
        return self.layers(torch.cat([angle.sin(), angle.cos(), times], -1)), index
