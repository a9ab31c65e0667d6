"""Categories: columns of unordered levels, and groups of 0/1 columns of which one is 1."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from countjump.blocks.base import Belief, Block, constants
from countjump.domains import Domain
from countjump.laws import Binomial, Multinomial, Product, TotalTimesComposition


class Categories(Block):
    """G columns or groups of columns with one of C levels each: one unit that lies on a level, and is missing until it has fallen.

    ``levels`` (G, C) are the values of a column, of which the first ``sizes`` (G,) count; ``shares`` (G, C) are those of the
    training rows. With ``dummies`` (G,) a group is as many 0/1 columns as it has levels, in the order of its levels; else it is a
    single column. An unknown level has the mass ``escape`` in the score, 0 where the levels were declared.
    """

    levels: Tensor
    possible: Tensor
    log_shares: Tensor
    exact = True
    has_law = True

    def __init__(
        self,
        domain: Domain,
        levels: Tensor,
        sizes: Tensor,
        shares: Tensor,
        dummies: Tensor,
        escape: float = 0.0,
    ) -> None:
        super().__init__()
        self.domain, self.escape = domain, escape
        self.groups, self.parts = levels.shape
        self.spans = [int(n) if dummy else 1 for n, dummy in zip(sizes, dummies, strict=True)]
        self.dummies = [bool(dummy) for dummy in dummies]
        self.size = sum(self.spans)
        self.inputs, self.outputs = self.groups * (self.parts + 2), self.groups * self.parts
        self.knowables = self.groups
        possible = torch.arange(self.parts) < sizes[:, None]
        constants(self, levels=levels.double(), possible=possible, log_shares=shares.double().clamp(min=1e-300).log())

    @property
    def varying(self) -> int:
        return self.groups

    def to_data(self, values: np.ndarray) -> Tensor:
        """(B, columns) → one-hot (B, G, C); all zero for a level that is not known."""
        x = torch.zeros(len(values), self.groups, self.parts, dtype=torch.float64, device=self.levels.device)
        for group, columns in enumerate(super().to_data(values).split(self.spans, 1)):
            size = int(self.possible[group].sum())
            if self.dummies[group]:
                right = ((columns == 0) | (columns == 1)).all(1) & (columns.sum(1) == 1)
                x[:, group, :size] = columns * right[:, None]
            else:
                x[:, group, :size] = (columns == self.levels[group, :size]).double()
        return x

    def to_values(self, x: Tensor) -> Tensor:
        columns = []
        for group, size in enumerate(self.possible.sum(1).tolist()):
            level = x[:, group, :size].argmax(1)
            one_hot = torch.nn.functional.one_hot(level, size).double()
            columns.append(one_hot if self.dummies[group] else self.levels[group][level][:, None])
        return torch.cat(columns, 1)

    def empty(self, rows: int, device: torch.device | str) -> Tensor:
        return torch.zeros(rows, self.groups, self.parts, dtype=torch.float64, device=device)

    def encode(self, x: Tensor) -> Product:
        return self._fall(x.sum(-1), x.log())

    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> Product:
        return self._fall((x - z).sum(-1), x.log())

    @staticmethod
    def _fall(count: Tensor, logits: Tensor) -> Product:
        return Product(TotalTimesComposition(Binomial(count, torch.ones_like(count)), Multinomial(logits)))

    def features(self, z: Tensor, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        """The level, if its unit has fallen, whether it has, and whether it was known."""
        fallen = z.sum(-1, keepdim=True)
        known = torch.zeros_like(fallen) if known is None else known[..., None].to(z)
        return torch.cat([z, fallen, known], -1).flatten(1).float()

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        """The training shares times exp(output)."""
        raw = output.double().reshape(len(output), self.groups, self.parts)
        logits = (raw + self.log_shares).masked_fill(~self.possible, -torch.inf)
        return Belief(self._fall(1 - z.sum(-1), logits))

    def latent(self, z: Tensor) -> Tensor:
        return z

    def admit(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A level that is not known comes by the escape mass, in the place of the likeliest one."""
        unknown = x.sum(-1) == 0
        likeliest = torch.nn.functional.one_hot(self.log_shares.argmax(-1), self.parts).to(x)
        escapes, stays = (math.log(self.escape), math.log1p(-self.escape)) if self.escape else (-math.inf, 0.0)
        mass = torch.where(unknown, escapes, stays).double().sum(1)
        return torch.where(unknown[..., None], likeliest, x), mass

    def exclude(self, values: Mapping[int, float]) -> None:
        starts = np.cumsum([0, *self.spans[:-1]])
        for group, start in enumerate(starts.tolist()):
            if start in values and not self.dummies[group]:
                left = self.possible[group] & (self.levels[group] != values[start])
                self.possible[group] = left if left.any() else self.possible[group]

    # What is known.

    def knowable(self, known: Tensor) -> Tensor:
        together = [columns.all(1) for columns in known.split(self.spans, 1)]
        for columns, each in zip(known.split(self.spans, 1), together, strict=True):
            apart = (columns.any(1) & ~each).nonzero()
            if len(apart):
                raise ValueError(
                    f"row {int(apart[0])} has some columns of a group of 0/1 columns known and others not: they are known "
                    "together, or not at all"
                )
        return torch.stack(together, 1)

    def shown(self, x: Tensor) -> Tensor:
        return x

    def hold(self, z: Tensor, whole: Tensor, known: Tensor) -> Tensor:
        return torch.where(known[..., None], whole, z)

    def uncounted(self) -> tuple[int, str] | None:
        return 0, "holds categories"
