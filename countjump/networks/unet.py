"""The paper's U-Net (appendix B), after Nichol and Dhariwal (2021): residual blocks at several resolutions, with self-attention at
the coarser ones, and a time that scales and shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from countjump.networks.time import TimeEmbedding

PIXELS_PER_SIDE = 32
"""From which on a picture has the paper's network; a smaller one has a smaller one."""


@dataclass(frozen=True)
class UNetSizes:
    """The sizes of a :class:`UNet` besides its width; by default the paper's.

    >>> UNetSizes.of((28, 28)).patch
    2
    """

    multipliers: tuple[int, ...] = (1, 1, 1)
    """Channels at every resolution, each half as fine as the one before, in units of the width."""
    blocks: int = 3
    """Residual blocks of each resolution on the way down; on the way up there is one more."""
    attention: int = 1
    """The first resolution with self-attention."""
    head: int = 64
    """Channels of a head of attention, at most."""
    dropout: float = 0.2
    patch: int = 1
    """Squares of so many pixels a side are made channels first, and pixels last: a quarter of the work for 2. Then each pixel has
    a layer of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "multipliers", tuple(self.multipliers))
        numbers = (*self.multipliers, self.blocks, self.head, self.patch)
        if not self.multipliers or not all(isinstance(n, int) and 1 <= n <= 1024 for n in numbers):
            raise ValueError(f"UNetSizes needs whole numbers from 1 on, got {self}")
        if not isinstance(self.attention, int) or self.attention < 0 or not 0 <= self.dropout < 1:
            raise ValueError(f"UNetSizes needs attention >= 0 and 0 <= dropout < 1, got {self}")

    @classmethod
    def of(cls, shape: tuple[int, int]) -> UNetSizes:
        """For pictures of this shape: the paper's from 32 pixels a side on, below it what trains on a CPU in minutes."""
        side = max(shape)
        if side >= PIXELS_PER_SIDE:
            return cls()
        if side >= PIXELS_PER_SIDE // 2:
            return cls(multipliers=(1, 2), blocks=1, dropout=0.0, patch=2)
        return cls(multipliers=(1, 2), blocks=1, dropout=0.1)


def width_of(shape: tuple[int, int]) -> int:
    """Channels at the finest resolution: the paper's, or fewer for smaller pictures."""
    return 128 if max(shape) >= PIXELS_PER_SIDE else 32


def norm(channels: int) -> nn.GroupNorm:
    """Group norm with at most 32 groups, of four channels at least where there are as many."""
    return nn.GroupNorm(
        math.gcd(channels, 32) if channels >= 128 else math.gcd(channels, max(channels // 4, 1)), channels
    )


class Residual(nn.Module):
    """Two convolutions, the time scaling and shifting between them, dropout, and a skip around."""

    def __init__(self, inputs: int, outputs: int, time: int, dropout: float) -> None:
        super().__init__()
        self.first_norm, self.second_norm = norm(inputs), norm(outputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, 2 * outputs)
        self.dropout = nn.Dropout(dropout)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        small(self.second)

    def forward(self, h: Tensor, time: Tensor) -> Tensor:
        """(B, inputs, H, W) and (B or 1, time) → (B, outputs, H, W)."""
        scale, shift = self.time(time)[:, :, None, None].chunk(2, 1)
        inner = self.second_norm(self.first(functional.silu(self.first_norm(h))))
        inner = functional.silu(inner * (1 + scale) + shift)
        return self.skip(h) + self.second(self.dropout(inner))


class Attention(nn.Module):
    """Self-attention of all places of a picture, and a skip around."""

    def __init__(self, channels: int, head: int) -> None:
        super().__init__()
        self.heads = channels // math.gcd(channels, head)
        self.norm = norm(channels)
        self.project = nn.Conv2d(channels, 3 * channels, 1)
        self.output = nn.Conv2d(channels, channels, 1)
        small(self.output)

    def forward(self, h: Tensor, time: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C, H, W); the time has no part."""
        projected = self.project(self.norm(h)).flatten(2).unflatten(1, (3, self.heads, -1)).transpose(-1, -2)
        mixed = functional.scaled_dot_product_attention(*projected.unbind(1))
        return h + self.output(mixed.transpose(-1, -2).flatten(1, 2).unflatten(-1, h.shape[2:]))


class Stage(nn.Module):
    """A residual block, and perhaps attention after it."""

    def __init__(self, inputs: int, outputs: int, time: int, sizes: UNetSizes, attends: bool) -> None:
        super().__init__()
        self.residual = Residual(inputs, outputs, time, sizes.dropout)
        self.attention = Attention(outputs, sizes.head) if attends else None

    def forward(self, h: Tensor, time: Tensor) -> Tensor:
        """(B, inputs, H, W) → (B, outputs, H, W)."""
        h = self.residual(h, time)
        return h if self.attention is None else self.attention(h, time)


class UNet(nn.Module):
    """Down to coarser resolutions, and up again beside what was seen on the way down. Any height and width will do.

    Features and outputs are flat: (B, inputs) holds (channels, H, W), and so does (B, outputs).

    >>> network = UNet(inputs=2 * 49, outputs=3 * 49, width=8, shape=(7, 7))
    >>> network(torch.zeros(4, 98), torch.tensor([0.1, 0.1, 0.9, 0.9])).shape
    torch.Size([4, 147])
    """

    def __init__(
        self, inputs: int, outputs: int, width: int, shape: tuple[int, int], sizes: UNetSizes | None = None
    ) -> None:
        super().__init__()
        self.shape, self.sizes = tuple(shape), sizes or UNetSizes.of(shape)
        sizes, pixels, time = self.sizes, shape[0] * shape[1], 4 * width
        if inputs % pixels or outputs % pixels:
            raise ValueError(f"{inputs} inputs and {outputs} outputs are no channels of {shape[0]} × {shape[1]} pixels")
        square = sizes.patch**2
        self.channels = outputs // pixels
        self.embedding = TimeEmbedding(width)
        self.spread = nn.Sequential(nn.SiLU(), nn.Linear(width, time), nn.SiLU())
        self.input = nn.Conv2d(inputs // pixels * square, width, 3, padding=1)
        channels, kept = width, [width]
        self.down, self.coarser = nn.ModuleList(), nn.ModuleList()
        for level, multiplier in enumerate(sizes.multipliers):
            stages = nn.ModuleList()
            for _ in range(sizes.blocks):
                stages.append(Stage(channels, multiplier * width, time, sizes, level >= sizes.attention))
                channels = multiplier * width
                kept.append(channels)
            self.down.append(stages)
            if level + 1 < len(sizes.multipliers):
                self.coarser.append(nn.Conv2d(channels, channels, 3, stride=2, padding=1))
                kept.append(channels)
        self.middle = nn.ModuleList(
            [
                Stage(channels, channels, time, sizes, attends=True),
                Stage(channels, channels, time, sizes, attends=False),
            ]
        )
        self.up, self.finer = nn.ModuleList(), nn.ModuleList()
        for level, multiplier in reversed(list(enumerate(sizes.multipliers))):
            stages = nn.ModuleList()
            for _ in range(sizes.blocks + 1):
                stages.append(Stage(channels + kept.pop(), multiplier * width, time, sizes, level >= sizes.attention))
                channels = multiplier * width
            self.up.append(stages)
            if level:
                self.finer.append(nn.Conv2d(channels, channels, 3, padding=1))
        self.norm = norm(channels)
        # The pixels of a square have channels of their own first: their laws have more numbers than the network is wide.
        whole = sizes.patch == 1
        self.output = nn.Conv2d(channels, self.channels if whole else width * square, 3, padding=1)
        self.pixels = None if whole else nn.Conv2d(width, self.channels, 1)
        small(self.pixels or self.output)

    def forward(self, features: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        """Features (B, inputs), times (B,) or (1,), and vectors (B, width) of what is given besides → (B, outputs)."""
        embedding, index = self.embedding(t)
        embedding = embedding.index_select(0, index)
        time = self.spread(embedding if condition is None else embedding + condition)
        h = self.input(self._squared(features.unflatten(1, (-1, *self.shape))))
        kept = [h]
        for level, stages in enumerate(self.down):
            for stage in stages:  # type: ignore[attr-defined]
                h = stage(h, time)
                kept.append(h)
            if level < len(self.coarser):
                h = self.coarser[level](h)
                kept.append(h)
        for stage in self.middle:
            h = stage(h, time)
        for level, stages in enumerate(self.up):
            for stage in stages:  # type: ignore[attr-defined]
                h = stage(torch.cat([h, kept.pop()], 1), time)
            if level < len(self.finer):
                h = self.finer[level](functional.interpolate(h, kept[-1].shape[2:], mode="nearest"))
        answer = functional.pixel_shuffle(self.output(functional.silu(self.norm(h))), self.sizes.patch)
        answer = answer if self.pixels is None else self.pixels(functional.silu(answer))
        return answer[:, :, : self.shape[0], : self.shape[1]].flatten(1)

    def _squared(self, h: Tensor) -> Tensor:
        """Squares of pixels as channels; sides that are no multiple are filled up."""
        patch = self.sizes.patch
        missing = [-side % patch for side in self.shape]
        return functional.pixel_unshuffle(functional.pad(h, (0, missing[1], 0, missing[0])), patch)


def small(layer: nn.Conv2d) -> None:
    """Begin near zero: a block near the identity, and an answer near none."""
    nn.init.normal_(layer.weight, std=0.1 / math.sqrt(layer.weight[0].numel()))
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
