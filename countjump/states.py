"""States: rows in the middle of a process. A state is a tensor (B, …), :class:`countjump.sparse.SparseRows`, or a :class:`Joint`.

Whatever its kind, a state knows ``len(z)``, ``z[rows]``, ``z + other``, ``z - other`` and ``z.to(device)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Joint:
    """States side by side: the same rows in several parts.

    >>> z = Joint((torch.zeros(2, 1), torch.ones(2, 3)))
    >>> (z + z)[torch.tensor([0])].parts
    (tensor([[0.]]), tensor([[2., 2., 2.]]))
    """

    parts: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: Any) -> Joint:
        return Joint(tuple(part[rows] for part in self.parts))

    def __add__(self, other: Joint) -> Joint:
        return Joint(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def __sub__(self, other: Joint) -> Joint:
        return Joint(tuple(a - b for a, b in zip(self.parts, other.parts, strict=True)))

    @property
    def device(self) -> torch.device:
        """Where the parts are."""
        return self.parts[0].device

    def to(self, device: Any) -> Joint:
        """On another device."""
        return Joint(tuple(part.to(device) for part in self.parts))

    def row_hash(self) -> Tensor:
        """See :func:`row_hash`."""
        key = torch.zeros(len(self), dtype=torch.int64, device=self.device)
        for part in self.parts:
            key = mixed(key, row_hash(part))
        return key

    def arrivals(self, shares: np.ndarray, generators: Sequence[np.random.Generator]) -> Iterator[Joint]:
        """See :func:`arrivals`."""
        for parts in zip(*(arrivals(part, shares, generators) for part in self.parts), strict=True):
            yield Joint(parts)

    @classmethod
    def concatenate(cls, pieces: Sequence[Joint]) -> Joint:
        """Rows one after another."""
        return cls(tuple(concatenate(each) for each in zip(*(piece.parts for piece in pieces), strict=True)))


def concatenate(pieces: Sequence[Any]) -> Any:
    """States of one kind, their rows one after another."""
    if len(pieces) == 1:
        return pieces[0]
    kind = type(pieces[0])
    return kind.concatenate(pieces) if hasattr(kind, "concatenate") else torch.cat(list(pieces))


def constant_like(z: Any, value: float) -> Any:
    """A dense state, or dense states side by side, with one number everywhere."""
    parts = [torch.full_like(part, value) for part in getattr(z, "parts", (z,))]
    return Joint(tuple(parts)) if hasattr(z, "parts") else parts[0]


def as_matrix(z: Any) -> Tensor:
    """A dense state, or dense states side by side, as one matrix (B, …).

    >>> as_matrix(Joint((torch.zeros(2, 1), torch.ones(2, 3, 2)))).shape
    torch.Size([2, 7])
    """
    parts = z.parts if hasattr(z, "parts") else (z,)
    return torch.cat([part.flatten(1) for part in parts], 1)


@cache
def odd_numbers(count: int) -> Tensor:
    """Fixed random odd numbers of 63 bits."""
    return torch.from_numpy(np.random.default_rng(0).integers(2**62, size=count) * 2 + 1)


def row_hash(z: Any) -> Tensor:
    """A 64-bit number per row (B,), equal for equal rows of whole numbers."""
    if hasattr(z, "row_hash"):
        return z.row_hash()
    flat = z.flatten(1).long()
    return flat[:, 0] if flat.shape[1] == 1 else (flat * odd_numbers(flat.shape[1]).to(z.device)).sum(1)


def mixed(key: Tensor, more: Tensor) -> Tensor:
    """One 64-bit number for two: a sum of products would be the same for parts that change places (MurmurHash3's finaliser)."""
    key = key * 0x9E3779B97F4A7C1 + more
    for factor in (0x7F51AFD7ED558CCD, 0x44CEB9FE1A85EC53):
        key = (key ^ ((key >> 33) & 0x7FFFFFFF)) * factor
    return key ^ ((key >> 33) & 0x7FFFFFFF)


def distinct(key: Tensor) -> tuple[Tensor, Tensor]:
    """The index of one row of each key (B,), and for every row the place of its key in that index.

    >>> distinct(torch.tensor([7, 5, 7]))
    (tensor([1, 0]), tensor([1, 0, 1]))
    """
    _, group = torch.unique(key, return_inverse=True)
    first = torch.full((int(group.max()) + 1,), len(key), dtype=torch.long, device=key.device)
    return first.scatter_reduce(0, group, torch.arange(len(key), device=key.device), "amin"), group


def arrivals(whole: Any, shares: np.ndarray, generators: Sequence[np.random.Generator]) -> Iterator[Any]:
    """A state of counts filling up from zero in ``len(shares)`` steps, every unit in one of them by its share.

    Row i is drawn from the i-th generator.

    >>> [int(z) for z in arrivals(torch.tensor([[5.0]]), np.array([0.0, 1.0]), [np.random.default_rng(0)])]
    [0, 0, 5]
    """
    if hasattr(whole, "arrivals"):
        yield from whole.arrivals(shares, generators)
        return
    starts = np.arange(len(whole)) * whole[0].numel()
    for z in fill_up(whole.flatten(), starts, shares, generators):
        yield z.reshape(whole.shape)


def fill_up(
    counts: Tensor, starts: np.ndarray, shares: np.ndarray, generators: Sequence[np.random.Generator]
) -> Iterator[Tensor]:
    """See :func:`arrivals`: flat counts (N,) of rows that begin at ``starts`` (B,)."""
    shares = np.clip(shares, 0, None) / shares.sum()
    rows = np.split(counts.cpu().numpy().astype(np.int64), starts[1:])
    steps = np.concatenate([each.multinomial(row, shares) for row, each in zip(rows, generators, strict=True)])
    z = torch.zeros_like(counts)
    yield z
    for step in steps.T:
        z = z + torch.from_numpy(step.astype(np.float64)).to(z)
        yield z
