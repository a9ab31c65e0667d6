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
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from countjump.sparse import SparseRows
from countjump.states import Joint, concatenate


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

    def parts(self, row: Tensor) -> Iterator[tuple[slice, torch.Generator | None]]:
        """Which of the sorted ``row`` numbers (U,) belong to each stream."""
        ends = torch.searchsorted(row, torch.arange(1, len(self), device=row.device) * self.rows).tolist()
        for start, end, generator in zip([0, *ends], [*ends, len(row)], self.generators, strict=True):
            yield slice(start, end), generator

    def uniform(self, row: Tensor) -> Tensor:
        """A float64 number in [0, 1) for each of the sorted ``row`` numbers (U,), drawn from its row's stream."""
        look: dict[str, Any] = {"dtype": torch.float64, "device": row.device}
        return torch.cat([torch.rand(len(row[some]), generator=each, **look) for some, each in self.parts(row)])

    def sample(self, row: Tensor, family: Any) -> Tensor:
        """A flat family's values (U,), each from the stream of its ``row``; the rows are sorted."""
        if len(self) == 1:
            return family.sample(self.generators[0])
        return torch.cat([family[some].sample(each) for some, each in self.parts(row) if len(row[some])])


class Indexable:
    """Parameters with the rows on the first axis, of which some can be taken."""

    shared: ClassVar[tuple[str, ...]] = ()
    """The names of those that all rows have in common."""

    def __getitem__(self, rows: Any) -> Self:
        return self._map(lambda name, field: field if name in self.shared else _take(field, rows))

    def _map(self, change: Callable[[str, Any], Any]) -> Self:
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return type(self)(*(change(name, getattr(self, name)) for name in names))


def _take(field: Any, rows: Any) -> Any:
    """Some rows of a parameter; one that is of length one is the same for all rows, however many of them are taken."""
    if isinstance(field, tuple):
        return tuple(_take(part, rows) for part in field)
    if isinstance(field, Tensor) and field.shape[0] <= 1:
        if isinstance(rows, slice):
            return field
        size = int(rows.sum()) if rows.dtype == torch.bool else len(rows)
        return field.expand(size, *field.shape[1:])
    return field[rows] if isinstance(field, Tensor | Indexable | Joint | SparseRows) else field


class Distribution(Indexable, ABC):
    """What is sampled as it is scored: a family has one number per entry, a law one per row."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Any:
        """Draw one value for each entry, or one row for each row."""

    @abstractmethod
    def log_prob(self, value: Any) -> Tensor:
        """ln of the mass (or the density) of every entry, or of every row (B,); minus infinity outside the support."""

    @property
    def mean(self) -> Any:
        """The expectation."""
        raise TypeError(f"{type(self).__name__} has no mean in closed form")

    def draw(self, streams: Streams, index: Tensor | None = None) -> Any:
        """Draw every row from its own stream: row i has the law of the row ``index`` i, where such numbers are given.

        Equal rows share what is worked out; what is drawn is what ``self[index].sample()`` would draw.
        """
        return concatenate([self[rows if index is None else index[rows]].sample(each) for rows, each in streams])


class Family(Distribution):
    """A law of single entries: independent ones, if there are several."""

    is_density: ClassVar[bool] = False
    """Whether ``log_prob`` is that of a density, so that single values have no mass."""

    @property
    def components(self) -> int:
        """The length of the last axis: of the components in a mixture."""
        return self.mean.shape[-1]

    def pick(self, entries: tuple[Tensor, ...], component: Tensor, shape: torch.Size) -> Self:
        """The flat law of the given entries, each at its own component of the last axis; ``shape`` is that of all of them."""
        return self._map(lambda _, field: field.expand(shape)[(*entries, component)])


class CountFamily(Family):
    """A family of counts."""

    @abstractmethod
    def thin(self, p: Tensor | float) -> CountFamily:
        """The law of the count when each unit is kept with probability ``p``."""

    def rest(self, kept: Tensor, p: Tensor) -> CountFamily:
        """The law of what was not kept, given that so many units were kept, each with probability ``p`` (Bayes' rule)."""
        raise TypeError(f"{type(self).__name__} does not say what is left of it")

    def upper_quantile(self, nats: float) -> Tensor:
        """A number, entry by entry, beyond which there is at most 2 exp(−nats) of the mass."""
        raise TypeError(f"{type(self).__name__} says no upper quantile, which the total of a wide row needs")


class Law(Distribution):
    """A law of rows."""

    def draw_given(self, value: Any, known: Any, streams: Streams) -> tuple[Any, Tensor]:
        """Rows that have the ``value`` where they are ``known``, and the logarithm of their weight (B,).

        The rest is drawn from some law r that is near to the conditional one; the weight is p(row)/r(rest), so that weighted rows
        have p(value) times the conditional law. Where nothing is known (None) it is plainly drawn.
        """
        if known is not None:
            raise TypeError(f"{type(self).__name__} cannot be drawn given some of its columns")
        drawn = self.draw(streams)
        return drawn, torch.zeros(len(drawn), dtype=torch.float64, device=drawn.device)


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

    def draw(self, streams: Streams, index: Tensor | None = None) -> Tensor:
        return self.entries.draw(streams, index)

    def log_prob(self, value: Tensor) -> Tensor:
        return self.entries.log_prob(value).flatten(1).sum(1)

    def log_prob_without(self, value: Tensor, left_out: Tensor) -> Tensor:
        """Of all entries but those that are ``left_out``."""
        return self.entries.log_prob(value).masked_fill(left_out, 0.0).flatten(1).sum(1)

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
    shared = ("law",)

    def sample(self, generator: torch.Generator | None = None) -> Any:
        return self.draw(Streams([generator], len(self.index)))

    def draw(self, streams: Streams, index: Tensor | None = None) -> Any:
        return self.law.draw(streams, self.index if index is None else self.index[index])

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

    def sample(self, generator: torch.Generator | None = None) -> Any:
        return self.by + self.jump.sample(generator)

    def draw(self, streams: Streams, index: Tensor | None = None) -> Any:
        return (self.by if index is None else self.by[index]) + self.jump.draw(streams, index)

    def draw_given(self, value: Any, known: Any, streams: Streams) -> tuple[Any, Tensor]:
        """``value`` is that of the jump."""
        jump, log_weight = self.jump.draw_given(value, known, streams)
        return self.by + jump, log_weight

    def log_prob(self, value: Any) -> Tensor:
        """Of the jump; a count law gives a jump below zero minus infinity."""
        return self.jump.log_prob(value - self.by)

    @property
    def mean(self) -> Any:
        return self.by + self.jump.mean


@dataclass(frozen=True, eq=False)
class JointLaw(CountLaw):
    """Independent laws of the parts of a row: the log-probabilities add up, and each is thinned.

    >>> from countjump.laws import Poisson
    >>> law = JointLaw((Product(Poisson(torch.ones(1, 1))), Product(Poisson(torch.ones(1, 2)))))
    >>> law.log_prob(Joint((torch.zeros(1, 1), torch.zeros(1, 2))))
    tensor([-3.])
    """

    parts: tuple[Any, ...]

    def sample(self, generator: torch.Generator | None = None) -> Joint:
        return Joint(tuple(part.sample(generator) for part in self.parts))

    def draw(self, streams: Streams, index: Tensor | None = None) -> Joint:
        return Joint(tuple(part.draw(streams, index) for part in self.parts))

    def draw_given(self, value: Any, known: Any, streams: Streams) -> tuple[Joint, Tensor]:
        """Each part with its own of the values and of what is known of them."""
        drawn = [law.draw_given(*own, streams) for law, *own in zip(self.parts, value, known, strict=True)]
        return Joint(tuple(each for each, _ in drawn)), torch.stack([log_weight for _, log_weight in drawn]).sum(0)

    def log_prob(self, value: Joint) -> Tensor:
        parts = (law.log_prob(each) for law, each in zip(self.parts, value.parts, strict=True))
        return torch.stack(list(parts)).sum(0)

    @property
    def mean(self) -> Joint:
        return Joint(tuple(part.mean for part in self.parts))

    def thin(self, p: Tensor | float) -> JointLaw:
        return JointLaw(tuple(part.thin(p) for part in self.parts))


def draw_category(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One index of the last axis for every entry, with probabilities softmax(logits)."""
    height = torch.rand(logits.shape[:-1], dtype=logits.dtype, device=logits.device, generator=generator)
    return category_at(logits.softmax(-1).cumsum(-1), height)


def category_at(cumulative: Tensor, height: Tensor) -> Tensor:
    """Where the cumulative weights (…, K) pass the height (…,) in [0, 1)."""
    return (cumulative[..., :-1] <= height[..., None] * cumulative[..., -1:]).sum(-1)
