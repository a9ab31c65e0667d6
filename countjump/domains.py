"""Domains: the paper's g. A domain checks data on the way in and projects on the way out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

MAX_COUNT = 2**53
Matrix = Any
"""A numeric ndarray of two dimensions, or scipy CSR."""


class Domain:
    """Where the data lives: reals from 0 up to ``max``, where there is one, or some of these."""

    name: str
    whole = False  # whether values are whole numbers
    max: float | tuple[float, ...] | None = None  # the largest value, of all columns or of each

    def check(self, X: Matrix) -> None:
        """Raise a ValueError that names the row, the column and the value that does not belong here."""
        if self.max is not None:
            check_at_most(X, self)

    def project(self, y: Tensor) -> Tensor:
        """The paper's g: the nearest thing in this domain."""
        y = y.clamp(min=0)
        return y if self.max is None else y.minimum(torch.as_tensor(self.max, dtype=y.dtype, device=y.device))

    def select(self, columns: np.ndarray) -> Domain:
        """The domain of some of the columns."""
        if not isinstance(self.max, tuple):
            return self
        bounds = np.asarray(self.max)[columns].tolist()
        bound = tuple(bounds) if len(set(bounds)) != 1 else bounds[0] if np.isfinite(bounds[0]) else None
        return dataclasses.replace(self, max=bound)  # type: ignore[type-var]

    def bounds(self, columns: int) -> np.ndarray:
        """The upper bound of every column, infinity for none."""
        bound = np.asarray(np.inf if self.max is None else self.max, dtype=float)
        return np.broadcast_to(bound, (columns,)).copy()

    def unbounded(self) -> Domain:
        """The domain without its bound: a value above a bound is unlikely or impossible, not wrong."""
        return self if self.max is None else Count() if self.whole else NonNegative()


@dataclass(frozen=True)
class NonNegative(Domain):
    """Reals ≥ 0: g(y) = y.

    >>> NonNegative().project(torch.tensor([[0.0, 2.5]]))
    tensor([[0.0000, 2.5000]])
    """

    name = "non-negative"


@dataclass(frozen=True)
class Count(Domain):
    """Integers ≥ 0, at most ``max`` where it is given (one number, or one per column): g(y) = round(y).

    >>> Count(max=5).project(torch.tensor([[1.4, 7.0]]))
    tensor([[1., 5.]])
    """

    max: float | tuple[float, ...] | None = None
    name = "count"
    whole = True

    def __post_init__(self) -> None:
        if self.max is not None:
            bound = _keep_bound(self)
            if not ((bound >= 0) & (np.isinf(bound) | (bound == np.floor(bound)))).all():
                raise ValueError(f"Count needs a whole max (or one per column, inf for none), got {self.max}")

    def check(self, X: Matrix) -> None:
        bad_value(X, lambda v: v != np.floor(v), "is not a whole number: round it, or use domain='non-negative'")
        super().check(X)

    def project(self, y: Tensor) -> Tensor:
        return super().project(y).round()


@dataclass(frozen=True)
class Binary(Domain):
    """0 or 1: g(y) = 1(y > 0).

    >>> Binary().project(torch.tensor([[0.0, 0.2]]))
    tensor([[0., 1.]])
    """

    name = "binary"
    whole = True
    max = 1.0

    def check(self, X: Matrix) -> None:
        bad_value(X, lambda v: (v != 0) & (v != 1), "is neither 0 nor 1: use domain='count' or 'non-negative'")

    def project(self, y: Tensor) -> Tensor:
        return (y > 0).to(y.dtype)


@dataclass(frozen=True)
class OneHot(Domain):
    """A single 1 in every row: g(y) is the one-hot vector of the largest entry.

    >>> OneHot().project(torch.tensor([[0.1, 3.0, 0.2]]))
    tensor([[0., 1., 0.]])
    """

    name = "one-hot"
    whole = True

    def check(self, X: Matrix) -> None:
        Binary().check(X)
        bad_row(X, lambda total: total != 1, "a one-hot row holds a single 1: use domain='binary'")

    def project(self, y: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(y.argmax(-1), y.shape[-1]).to(y.dtype)


@dataclass(frozen=True)
class Simplex(Domain):
    """Rows of proportions that add up to one: g(y) = y/‖y‖₁; an all-zero row becomes even.

    >>> Simplex().project(torch.tensor([[1.0, 3.0]]))
    tensor([[0.2500, 0.7500]])
    """

    name = "simplex"

    def check(self, X: Matrix) -> None:
        bad_row(X, lambda total: np.abs(total - 1) > 1e-6, "proportions add up to 1: divide each row by its sum")

    def project(self, y: Tensor) -> Tensor:
        total = y.sum(-1, keepdim=True)
        return torch.where(total > 0, y / total, 1 / y.shape[-1])


@dataclass(frozen=True)
class Bounded(Domain):
    """Reals between 0 and ``max`` (one number, or one per column): g(y) clips.

    >>> Bounded(1.0).project(torch.tensor([[0.3, 1.2]]))
    tensor([[0.3000, 1.0000]])
    """

    max: float | tuple[float, ...] = 1.0
    name = "bounded"

    def __post_init__(self) -> None:
        bound = _keep_bound(self)
        if not ((bound > 0) & np.isfinite(bound)).all():
            raise ValueError(f"Bounded needs a positive max, finite (or one per column), got {self.max}")


@dataclass(frozen=True)
class Categorical(Domain):
    """One of some unordered ``levels``, numbers or strings, in every column; None for those that the data holds.

    Inside a model a string is the place of its level.

    >>> Categorical(("red", "green"))
    Categorical(levels=('red', 'green'))
    """

    levels: tuple[Any, ...] | None = None
    name = "categorical"
    whole = True

    def __post_init__(self) -> None:
        if self.levels is None:
            return
        levels = tuple(each.item() if isinstance(each, np.generic) else each for each in self.levels)
        if (
            not levels
            or len(set(levels)) < len(levels)
            or not all(isinstance(each, str | int | float) for each in levels)
        ):
            raise ValueError(f"Categorical needs different levels, numbers or strings, got {self.levels!r}")
        object.__setattr__(self, "levels", levels)

    def places(self) -> np.ndarray | None:
        """The levels as numbers: those of strings are their places."""
        if self.levels is None:
            return None
        strings = any(isinstance(each, str) for each in self.levels)
        return np.arange(len(self.levels), dtype=float) if strings else np.array(self.levels, dtype=float)

    def check(self, X: Matrix) -> None:
        known = self.places()
        if known is not None:
            bad_value(X, lambda v: ~np.isin(v, known), f"is none of the levels {self.levels}: add it, or drop the row")

    def unbounded(self) -> Domain:
        return Categorical()


def _keep_bound(domain: Count | Bounded) -> np.ndarray:
    """Keep a bound as a float or a tuple of floats, whatever sequence it came as."""
    bound = np.asarray(domain.max)
    if bound.dtype.kind not in "uif" or bound.ndim > 1:
        raise TypeError(f"max must be a number or one per column, got {domain.max!r}")
    object.__setattr__(domain, "max", tuple(bound.tolist()) if bound.ndim else bound.item())
    return bound


DOMAINS: dict[str, type[Domain]] = {
    kind.name: kind for kind in (NonNegative, Count, Binary, OneHot, Simplex, Bounded, Categorical)
}


def check_values(X: Matrix, names: Sequence[str] | None = None) -> None:
    """What no model allows: NaN, infinity, and numbers beyond 2^53. Columns are called by their ``names``, where they have some."""
    bad_value(X, np.isnan, "is NaN: drop such rows or fill them in first", names)
    bad_value(X, np.isinf, "is infinity (inf): drop such rows or cap them first", names)
    # Whole numbers as such: as float64, 2^53 + 1 would be 2^53.
    why = "2^53, where float64 no longer holds every whole number: rescale it"
    bad_value(X, lambda v: v > _most(v), f"is above {why}", names)
    if (X.data if sp.issparse(X) else X).dtype.kind != "u":
        bad_value(X, lambda v: v < -_most(v), f"is below -{why}", names)


def _most(values: np.ndarray) -> Any:
    return MAX_COUNT if values.dtype.kind in "iu" else np.float64(MAX_COUNT)


def check_not_negative(X: Matrix, names: Sequence[str] | None = None) -> None:
    """What no domain allows: negative values have no counts."""
    why = "is negative. Negative values in data have no counts: shift the column (transform=Offset(...)), or take another model"
    bad_value(X, lambda v: v < 0, why, names)


def check_at_most(X: Matrix, domain: Domain) -> None:
    """Every value at most its column's bound."""
    name = type(domain).__name__
    if isinstance(domain.max, tuple) and len(domain.max) != X.shape[1]:
        what = f"{len(domain.max)} bounds for {X.shape[1]} columns"
        raise ValueError(f"{name}(max=...) has {what}: give one, or one per column")
    bound = domain.bounds(X.shape[1])
    if place := find_value(X, lambda v, column: v > bound[column]):
        where = f"X[{place[0]}, {place[1]}] = {place[2]:g}"
        raise ValueError(f"{where} is above the bound {bound[place[1]]:g} of {name}: raise max, or drop it")


def bad_value(X: Matrix, bad: Callable[[np.ndarray], np.ndarray], why: str, names: Sequence[str] | None = None) -> None:
    """Raise for the first value that is bad."""
    if place := find_value(X, lambda v, _: bad(v)):
        where = (
            f"Input X[{place[0]}, {place[1]}] =" if names is None else f"column {names[place[1]]!r}, row {place[0]}:"
        )
        raise ValueError(f"{where} {place[2]:g} {why}")


def bad_row(X: Matrix, bad: Callable[[np.ndarray], np.ndarray], why: str) -> None:
    """Raise for the first row whose sum is bad."""
    total = _totals(X)
    rows = np.flatnonzero(bad(total))
    if len(rows):
        raise ValueError(f"row {rows[0]} of X adds up to {total[rows[0]]:g}: {why}")


def _totals(X: Matrix) -> np.ndarray:
    """The sum of every row, in float64 whatever the dtype of the values is."""
    return X @ np.ones(X.shape[1]) if sp.issparse(X) else X.sum(axis=1, dtype=np.float64)


def find_value(X: Matrix, bad: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[int, int, float] | None:
    """The first bad entry; absent zeros are good everywhere."""
    values, columns = (X.data, X.indices) if sp.issparse(X) else (X, np.arange(X.shape[1]))
    places = np.flatnonzero(bad(values, columns))
    if not len(places):
        return None
    row, column = divmod(int(places[0]), X.shape[1])
    if sp.issparse(X):
        row, column = int(np.searchsorted(X.indptr, places[0], side="right")) - 1, int(columns[places[0]])
    return row, column, float(values.flat[places[0]])


def infer(X: Matrix) -> tuple[Domain, str]:
    """The domain that the data shows, and why. ``docs/domains.md`` states the rules.

    >>> infer(np.array([[0, 1], [1, 1]]))
    (Binary(), 'every value is 0 or 1')
    >>> infer(np.array([[0.0, 2.5], [1.0, 0.0]]))[0]
    NonNegative()
    """
    values = X.data if sp.issparse(X) else X
    total = _totals(X)
    several = X.shape[1] > 1
    if not len(values.ravel()) or not values.any():
        return Count(), "every value is 0"
    if ((values == 0) | (values == 1)).all():
        if several and (total == 1).all():
            return OneHot(), "every row holds a single 1"
        return Binary(), "every value is 0 or 1"
    if (values == np.floor(values)).all():
        return infer_bound(X)
    if several and (np.abs(total - 1) <= 1e-6).all() and _constant_share(X) < 1 - 1e-6:
        return Simplex(), "every row adds up to 1"
    if values.max() <= 1 and (values > 0.9).sum() >= 0.01 * np.count_nonzero(values):
        return Bounded(1.0), "no value is above 1 and at least 1 % of the non-zeros are above 0.9"
    return NonNegative(), "there are fractions"


def _constant_share(X: Matrix) -> float:
    """What the columns that never change add up to."""
    low, high = (np.asarray(each.todense() if sp.issparse(each) else each).ravel() for each in (X.min(0), X.max(0)))
    return float(high[low == high].sum())


def infer_bound(X: Matrix) -> tuple[Count, str]:
    """Count, with a bound where the data stops as if at a wall."""
    largest = np.asarray(X.max(axis=0).todense() if sp.issparse(X) else X.max(axis=0), dtype=np.float64).ravel()
    top = largest.max()
    shared = int((largest == top).sum())
    values = X.data if sp.issparse(X) else X
    if shared >= 10 and _is_wall(values, top, 0):
        return Count(max=float(top)), f"whole numbers, and {shared} columns share the largest, {top:g}"
    if X.shape[1] > 64:
        return Count(), "whole numbers"
    bounds = []
    for column, high in enumerate(largest):
        values = X[:, [column]].toarray() if sp.issparse(X) else X[:, column]
        bounds.append(float(high) if _is_wall(values, high, 0.01 * X.shape[0]) else np.inf)
    walls = int(np.isfinite(bounds).sum())
    if not walls:
        return Count(), "whole numbers"
    bound = bounds[0] if len(set(bounds)) == 1 else tuple(bounds)
    return Count(max=bound), f"whole numbers, and {walls} of {len(bounds)} columns end at a wall"


def _is_wall(values: np.ndarray, top: float, least: float) -> bool:
    """Whether counts end at ``top`` as if at a wall: at²/before values would lie one beyond, at the rate at which they fall."""
    at, before = int((values == top).sum()), int((values == top - 1).sum())
    return at >= max(5, least) and at * at >= 5 * before
