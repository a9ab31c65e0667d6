"""The denoiser: a network, the block that says what it sees and means, and the condition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from countjump.schedules import Schedule
from countjump.states import as_matrix, constant_like, distinct, mixed, odd_numbers, row_hash

NARROW = 4  # features up to which rows in equal states at equal times are evaluated once in training
CHUNK, SPARSE_CHUNK = 256, 64  # dense and sparse rows that are evaluated together when not training


class ConditionEmbedding(nn.Module):
    """A vector for every condition: labels by tables, numbers by a linear layer, and where there are several, two layers of what
    these add up to. A condition that is not given, None or a row of NaN, has a learned vector of its own.

    A condition (B, C) holds the places of labels among their ``levels``, and then some ``numbers``.

    >>> embedding = ConditionEmbedding(levels=[3], numbers=0, width=8)
    >>> embedding(torch.tensor([[2.0], [torch.nan]]), 2).shape
    torch.Size([2, 8])
    """

    starts: Tensor

    def __init__(self, levels: Sequence[int], numbers: int, width: int) -> None:
        super().__init__()
        starts = torch.tensor(list(itertools.accumulate(levels, initial=0))[:-1], dtype=torch.long)
        self.register_buffer("starts", starts, persistent=False)
        self.table = nn.Embedding(max(sum(levels), 1), width)
        self.linear = nn.Linear(numbers, width) if numbers else None
        several = len(levels) + numbers > 1
        self.layers = nn.Sequential(nn.SiLU(), nn.Linear(width, width)) if several else None
        self.null = nn.Parameter(torch.zeros(width))

    def forward(self, condition: Tensor | None, rows: int) -> Tensor:
        """(B, C), or None for so many rows → (B, width)."""
        if condition is None:
            return self.null.expand(rows, -1)
        absent = condition[:, :1].isnan()
        given = condition.masked_fill(absent, 0.0)
        places, numbers = given[:, : len(self.starts)].long() + self.starts, given[:, len(self.starts) :].float()
        embedded = self.table(places).sum(1)
        embedded = embedded if self.linear is None else embedded + self.linear(numbers)
        embedded = embedded if self.layers is None else embedded + self.layers(embedded)
        return torch.where(absent, self.null, embedded)


class Denoiser(nn.Module):
    """What a network believes of x_0 given z_t, t and a condition.

    ``block`` has ``features(z, alpha)``, ``belief(output, z, alpha)``, ``inputs`` and ``outputs``. ``condition`` is a module from
    conditions (B, …), or None, and a number of rows to vectors (B, width) that the network adds to its time embedding. With a
    ``linear`` posterior the network sees this besides the block's features. When not training, the network is evaluated in chunks
    of one shape, so that rows do not feel their batch.
    """

    def __init__(
        self,
        network: nn.Module,
        block: nn.Module,
        schedule: Schedule,
        discrete: bool = True,
        condition: nn.Module | None = None,
        linear: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.network, self.block, self.schedule, self.discrete = network, block, schedule, discrete
        self.condition, self.linear = condition, linear
        self.precision = torch.float32
        """Of what the network works out; its weights are float32, and so is what it answers."""
        self.chunk = SPARSE_CHUNK if getattr(block, "sparse", False) else CHUNK

    def forward(self, z: Any, t: Tensor, condition: Tensor | None = None, known: Tensor | None = None) -> Any:
        """The prediction for the states z at the times t, (B,) or (1,) for all; what is ``known`` (B, knowables) is at time 0."""
        return self.meaning(self.output(z, t, condition, known), z, t, condition)

    def output(self, z: Any, t: Tensor, condition: Tensor | None = None, known: Tensor | None = None) -> Tensor:
        """What the network answers, (B, outputs)."""
        if condition is not None and self.condition is None:
            raise ValueError("this denoiser takes no condition: give it a module that embeds one")
        features = self._features(z, self._alpha(z, t), known)
        if not self.training:
            return self._in_chunks(features, t, condition)
        if self.discrete and features.shape[1] <= NARROW and known is None:
            first, group = distinct(_key(z, t, condition))
            some = None if condition is None else condition[first]
            return self._ask(features[first], t[first] if len(t) > 1 else t, some).index_select(0, group)
        return self._ask(features, t, condition)

    def _features(self, z: Any, alpha: Tensor, known: Tensor | None) -> Tensor:
        """What the block's features are, and then what the linear posterior is worked out from."""
        features = self.block.features(z, alpha, *(() if known is None else (known,)))  # type: ignore[operator]
        if self.linear is None:
            return features
        if known is not None:
            whole = self.block.hold(constant_like(z, 0.0), constant_like(z, 1.0), known)  # type: ignore[operator]
            alpha = torch.where(as_matrix(whole) > 0, 1.0, alpha)
        return torch.cat([features, self.linear.view(as_matrix(z), alpha)], 1)  # type: ignore[operator]

    def meaning(self, output: Tensor, z: Any, t: Tensor, condition: Tensor | None = None) -> Any:
        """The prediction that an output means."""
        alpha = self._alpha(z, t)
        prediction = self.block.belief(output, z, alpha)  # type: ignore[operator]
        if self.condition is None or not hasattr(self.block, "conditioned"):
            return prediction
        return self.block.conditioned(prediction, z, alpha, condition)  # type: ignore[operator]

    def take_condition(self, levels: Sequence[int], numbers: int, width: int) -> None:
        """Embed conditions of so many labels and numbers, for the network and for what its block learns apart."""
        self.condition = ConditionEmbedding(levels, numbers, width)
        if hasattr(self.block, "take_condition"):
            self.block.take_condition(partial(ConditionEmbedding, levels, numbers))  # type: ignore[operator]
        inputs: Any = self.block.inputs + (0 if self.linear is None else self.linear.inputs)  # type: ignore[operator]
        with torch.enable_grad():
            answer = self._ask(torch.zeros(2, inputs), torch.zeros(1, dtype=torch.float64), None).sum()
        if torch.autograd.grad(answer, [self.condition.null], allow_unused=True)[0] is None:
            raise ValueError(
                f"the network {type(self.network).__name__} takes no notice of its condition: let forward(features, t, condition) "
                "add it, (B, width), to what it makes of the time"
            )

    def _alpha(self, z: Any, t: Tensor) -> Tensor:
        return self.schedule.alpha(t)[:, None].expand(len(z), 1)

    def _ask(self, features: Tensor, t: Tensor, condition: Tensor | None) -> Tensor:
        embedded = None if self.condition is None else self.condition(condition, len(features))
        if self.linear is not None:
            own, view = features.split([features.shape[1] - self.linear.inputs, self.linear.inputs], 1)  # type: ignore[operator]
            features = torch.cat([own, self.linear(view)], 1)
        with torch.autocast(features.device.type, self.precision, enabled=self.precision != torch.float32):
            return self.network(features, t, embedded).float()

    def _in_chunks(self, features: Tensor, t: Tensor, condition: Tensor | None) -> Tensor:
        rows = len(features)
        missing = max(-(-rows // self.chunk), 1) * self.chunk - rows

        def chunks(each: Tensor) -> tuple[Tensor, ...]:
            filled = torch.cat([each, each.new_zeros(missing, *each.shape[1:])]) if missing else each
            return filled.split(self.chunk)

        times = chunks(t) if len(t) > 1 else itertools.repeat(t)
        conditions = itertools.repeat(None) if condition is None else chunks(condition)
        return torch.cat(list(map(self._ask, chunks(features), times, conditions)))[:rows]


class Guided:
    """A denoiser whose network's outputs with the condition and without it are mixed: o_u + w (o_c − o_u), w being the ``weight``.

    Of a softmax and of a Poisson rate that is the geometric mix of the two beliefs, p_u^(1 − w) p_c^w (Ho and Salimans 2022).
    What a block learns apart from the network, such as the total of a wide row, is that with the condition, as for w = 1.
    """

    def __init__(self, denoiser: Denoiser, weight: float) -> None:
        self.denoiser, self.weight = denoiser, weight

    def __call__(self, z: Any, t: Tensor, condition: Tensor | None = None, known: Tensor | None = None) -> Any:
        """As :meth:`Denoiser.forward`."""
        denoiser = self.denoiser
        if condition is None:
            return denoiser(z, t, None, known)
        plain, given = denoiser.output(z, t, None, known), denoiser.output(z, t, condition, known)
        mix = getattr(denoiser.block, "mix", torch.lerp)
        return denoiser.meaning(mix(plain, given, self.weight), z, t, condition)


def _key(z: Any, t: Tensor, condition: Tensor | None) -> Tensor:
    """Equal for equal states under equal conditions at equal times."""
    return mixed(condition_key(z, condition), time_key(t))


def time_key(t: Tensor) -> Tensor:
    """Numbers that are equal for equal times."""
    return t.double().view(torch.int64) * odd_numbers(2)[1].to(t.device)


def condition_key(z: Any, condition: Tensor | None) -> Tensor:
    """A number per row that is equal for equal states under equal conditions."""
    if condition is None:
        return row_hash(z)
    bits = condition.reshape(len(condition), -1).double().view(torch.int64)
    return mixed(row_hash(z), (bits * odd_numbers(bits.shape[1]).to(bits.device)).sum(1))
