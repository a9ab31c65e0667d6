"""The denoiser: a network, the block that says what it sees and means, and the condition."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn

from countjump.schedules import Schedule
from countjump.states import distinct, odd_numbers, row_hash

NARROW = 4  # features up to which rows in equal states at equal times are evaluated once in training
CHUNK, SPARSE_CHUNK = 256, 64  # dense and sparse rows that are evaluated together when not training


class Denoiser(nn.Module):
    """What a network believes of x_0 given z_t, t and a condition.

    ``block`` has ``features(z, alpha)``, ``belief(output, z, alpha)``, ``inputs`` and ``outputs``. ``condition`` is a module from
    conditions (B, …) to vectors (B, width) that the network adds to its time embedding. When not training, the network is evaluated
    in chunks of one shape, so that rows do not feel their batch.
    """

    def __init__(
        self,
        network: nn.Module,
        block: nn.Module,
        schedule: Schedule,
        discrete: bool = True,
        condition: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.network, self.block, self.schedule, self.discrete = network, block, schedule, discrete
        self.condition = condition
        self.chunk = SPARSE_CHUNK if getattr(block, "sparse", False) else CHUNK

    def forward(self, z: Any, t: Tensor, condition: Tensor | None = None, known: Tensor | None = None) -> Any:
        """The prediction for the states z at the times t, (B,) or (1,) for all; what is ``known`` (B, knowables) is at time 0."""
        alpha = self.schedule.alpha(t)[:, None].expand(len(z), 1)
        features = self.block.features(z, alpha, *(() if known is None else (known,)))  # type: ignore[operator]
        if condition is not None and self.condition is None:
            raise ValueError("this denoiser takes no condition: give it a module that embeds one")
        embedded = None if condition is None or self.condition is None else self.condition(condition)
        if not self.training:
            output = self._in_chunks(features, t, embedded)
        elif self.discrete and features.shape[1] <= NARROW and embedded is None and known is None:
            first, group = distinct(_key(z, t))
            output = self.network(features[first], t[first] if len(t) > 1 else t, None).index_select(0, group)
        else:
            output = self.network(features, t, embedded)
        return self.block.belief(output, z, alpha)  # type: ignore[operator]

    def _in_chunks(self, features: Tensor, t: Tensor, embedded: Tensor | None) -> Tensor:
        rows = len(features)
        missing = max(-(-rows // self.chunk), 1) * self.chunk - rows

        def chunks(each: Tensor) -> tuple[Tensor, ...]:
            filled = torch.cat([each, each.new_zeros(missing, *each.shape[1:])]) if missing else each
            return filled.split(self.chunk)

        times = chunks(t) if len(t) > 1 else itertools.repeat(t)
        conditions = itertools.repeat(None) if embedded is None else chunks(embedded)
        return torch.cat(list(map(self.network, chunks(features), times, conditions)))[:rows]


def _key(z: Any, t: Tensor) -> Tensor:
    """Equal for equal states at equal times."""
    return row_hash(z) * odd_numbers(2)[0].to(t.device) + time_key(t)


def time_key(t: Tensor) -> Tensor:
    """Numbers that are equal for equal times."""
    return t.double().view(torch.int64) * odd_numbers(2)[1].to(t.device)


def condition_key(z: Any, condition: Tensor | None) -> Tensor:
    """A number per row that is equal for equal states under equal conditions."""
    if condition is None:
        return row_hash(z)
    bits = condition.reshape(len(condition), -1).double().view(torch.int64)
    return row_hash(z) * 3 + (bits * odd_numbers(bits.shape[1]).to(bits.device)).sum(1)
