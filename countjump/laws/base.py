"""What a law is. A law is a frozen set of tensors, rows first. A *count law* knows ``thin(p)``: the law of what is left when every
unit is kept with probability p. That one method carries the whole of JUMP (see ``docs/architecture.md``).

A :class:`Family` has one number per entry; it becomes a :class:`Law`, which has one number per row, through a :class:`Product` or a
composition.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from countjump.states import concatenate


class Streams:
    """Random generators side by side, each for its own consecutive rows: what is drawn for these does not depend on others.

    >>> streams = Streams([torch.Generator().manual_seed(i) for i in range(2)], rows=3)
    >>> [rows for rows, _ in streams]
    [slice(0, 3, None), slice(3, 6, None)]
    """

    def __init__(self, generators: Sequence[torch.Generator | None], rows: int) -> None:
        self.generators, self.rows = list(generators), rows

    def __len__(self) -> int:
        return len(self.generators)

    def __iter__(self) -> Iterator[tuple[slice, torch.Generator | None]]:
        for i, generator in enumerate(self.generators):
            yield slice(i * self.rows, (i + 1) * self.rows), generator

    def sizes(self, row: Tensor) -> list[int]:
        """How many of the sorted ``row`` numbers (U,) belong to each stream."""
        ends = torch.arange(1, len(self), device=row.device) * self.rows
        return torch.diff(
            torch.searchsorted(row, ends), prepend=row.new_zeros(1), append=row.new_tensor([len(row)])
        ).tolist()

    def uniform(self, row: Tensor) -> Tensor:
        """A float64 number in [0, 1) for each of the sorted ``row`` numbers (U,), drawn from its row's stream."""
        sizes = self.sizes(row) if len(self) > 1 else [len(row)]
        draw = [
            torch.rand(size, dtype=torch.float64, device=row.device, generator=generator)
            for size, generator in zip(sizes, self.generators, strict=True)
        ]
        return torch.cat(draw)

    def sample(self, row: Tensor, family: Any) -> Tensor:
        """A flat family's values (U,), each from the stream of its ``row``; the rows are sorted."""
        if len(self) == 1:
            return family.sample(self.generators[0])
        drawn, start = [], 0
        for size, generator in zip(self.sizes(row), self.generators, strict=True):
            if size:
                drawn.append(family[start : start + size].sample(generator))
            start += size
        return torch.cat(drawn)


class Indexable:
    """Parameters with the rows on the first axis, of which some can be taken."""

    def __getitem__(self, rows: Any) -> Self:
        def take(field: Any) -> Any:
            if isinstance(field, Tensor):
                if field.shape[0] > 1:
                    return field[rows]
                if isinstance(rows, slice):  # one for all rows, however many of them are taken
                    return field
                size = int(rows.sum()) if rows.dtype == torch.bool else len(rows)
                return field.expand(size, *field.shape[1:])
            if isinstance(field, tuple):
                return tuple(take(part) for part in field)
            return field[rows] if isinstance(field, Indexable) else field

        return self._map(take)

    def _map(self, change: Callable[[Any], Any]) -> Self:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return type(self)(*(change(getattr(self, field.name)) for field in fields))


class Family(Indexable, ABC):
    """A law of single entries: independent ones, if there are several."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one value per entry."""

    @abstractmethod
    def log_prob(self, value: Tensor) -> Tensor:
        """ln of the mass (or the density) at ``value``, entry by entry; minus infinity outside the support."""

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """The expectation, entry by entry."""

    def draw(self, index: Tensor, streams: Streams) -> Tensor:
        """Draw one row for each of the rows ``index``, each from its own stream, as ``self[index].sample()`` does."""
        return torch.cat([self[index[rows]].sample(generator) for rows, generator in streams])

    def pick(self, entries: tuple[Tensor, ...], component: Tensor, shape: torch.Size) -> Self:
        """The flat law of the given entries, each at its own component of the last axis; ``shape`` is that of all of them."""
        return self._map(lambda field: field.expand(shape)[(*entries, component)])


class CountFamily(Family):
    """A family of counts."""

    @abstractmethod
    def thin(self, p: Tensor | float) -> CountFamily:
        """The law of the count when each unit is kept with probability ``p``."""


class Law(Indexable, ABC):
    """A law of rows."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Any:
        """Draw one row for each row of the law."""

    @abstractmethod
    def log_prob(self, value: Any) -> Tensor:
        """ln of the mass (or the density) of every row (B,); minus infinity outside the support."""

    @property
    def mean(self) -> Any:
        """The expectation."""
        raise TypeError(f"{type(self).__name__} has no mean in closed form")

    def draw(self, index: Tensor, streams: Streams) -> Any:
        """One row for each of the rows ``index`` (B,), each from its own stream; equal rows share what is worked out."""
        return concatenate([self[index[rows]].sample(generator) for rows, generator in streams])

    def sample_streams(self, streams: Streams) -> Any:
        """Draw every row from its own stream."""
        return concatenate([self[rows].sample(generator) for rows, generator in streams])


class CountLaw(Law):
    """A law of rows of counts."""

    @abstractmethod
    def thin(self, p: Tensor | float) -> CountLaw:
        """The law of the counts when each unit is kept with probability ``p``, a number or (B, 1)."""


@dataclass(frozen=True, eq=False)
class Product(CountLaw):
    """Independent entries: the log-probabilities of a row add up.

    >>> from countjump.laws import Poisson
    >>> Product(Poisson(torch.ones(2, 3))).log_prob(torch.zeros(2, 3))
    tensor([-3., -3.])
    """

    entries: Any

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.entries.sample(generator)

    def draw(self, index: Tensor, streams: Streams) -> Tensor:
        return self.entries.draw(index, streams)

    def log_prob(self, value: Tensor) -> Tensor:
        return self.entries.log_prob(value).flatten(1).sum(1)

    @property
    def mean(self) -> Tensor:
        return self.entries.mean

    def thin(self, p: Tensor | float) -> Product:
        return Product(self.entries.thin(p))


@dataclass(frozen=True, eq=False)
class Indexed(CountLaw):
    """Row i has the row ``index`` i of ``law``: rows in equal states share one evaluation, and part ways when they are drawn.

    >>> from countjump.laws import Poisson
    >>> Indexed(Product(Poisson(torch.tensor([[1.0], [5.0]]))), torch.tensor([1, 1, 0])).mean.ravel()
    tensor([5., 5., 1.])
    """

    law: Any
    index: Tensor

    def __getitem__(self, rows: Any) -> Indexed:
        return Indexed(self.law, self.index[rows])

    def sample(self, generator: torch.Generator | None = None) -> Any:
        return self.law.draw(self.index, Streams([generator], len(self.index)))

    def sample_streams(self, streams: Streams) -> Any:
        return self.law.draw(self.index, streams)

    def log_prob(self, value: Any) -> Tensor:
        return self.law[self.index].log_prob(value)

    @property
    def mean(self) -> Any:
        return self.law.mean[self.index]

    def thin(self, p: Tensor | float) -> CountLaw:
        if isinstance(p, Tensor) and p.dim() > 0 and len(p) > 1:
            return self.law[self.index].thin(p)
        return Indexed(self.law.thin(p), self.index)


@dataclass(frozen=True, eq=False)
class Shifted(Law):
    """by + jump: the paper's Pois_m and shifted binomial, a jump added to the count that is already there.

    >>> from countjump.laws import Poisson
    >>> float(Shifted(torch.tensor([[3.0]]), Product(Poisson(torch.tensor([[2.0]])))).mean)
    5.0
    """

    by: Any
    jump: Any

    def __getitem__(self, rows: Any) -> Shifted:
        return Shifted(self.by[rows], self.jump[rows])

    def sample(self, generator: torch.Generator | None = None) -> Any:
        return self.by + self.jump.sample(generator)

    def draw(self, index: Tensor, streams: Streams) -> Any:
        return self.by[index] + self.jump.draw(index, streams)

    def sample_streams(self, streams: Streams) -> Any:
        return self.by + self.jump.sample_streams(streams)

    def log_prob(self, value: Any) -> Tensor:
        """Of the jump; a count law gives a jump below zero minus infinity."""
        return self.jump.log_prob(value - self.by)

    @property
    def mean(self) -> Any:
        return self.by + self.jump.mean


def draw_category(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One index of the last axis for every entry, with probabilities softmax(logits)."""
    height = torch.rand(logits.shape[:-1], dtype=logits.dtype, device=logits.device, generator=generator)
    return category_at(logits.softmax(-1).cumsum(-1), height)


def category_at(cumulative: Tensor, height: Tensor) -> Tensor:
    """Where the cumulative weights (…, K) pass the height (…,) in [0, 1)."""
    return (cumulative[..., :-1] <= height[..., None] * cumulative[..., -1:]).sum(-1)
