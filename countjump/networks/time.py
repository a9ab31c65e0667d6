"""The embedding of time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class TimeEmbedding(nn.Module):
    """Sines and cosines of t at geometric frequencies, then two layers.

    >>> TimeEmbedding(16)(torch.tensor([0.0, 0.5])).shape
    torch.Size([2, 16])
    """

    frequencies: Tensor

    def __init__(self, width: int, frequencies: int = 32, fastest: float = 200.0) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.logspace(0, math.log10(fastest), frequencies), persistent=False)
        self.layers = nn.Sequential(nn.Linear(2 * frequencies + 1, width), nn.LeakyReLU(0.01), nn.Linear(width, width))

    def forward(self, times: Tensor) -> Tensor:
        """(U,) → (U, width)."""
        t = times.float()[:, None]
        angle = t * self.frequencies
        return self.layers(torch.cat([angle.sin(), angle.cos(), t], -1))
