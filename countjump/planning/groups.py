"""Which columns of a table belong together: groups of one domain, found column by column or declared."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from countjump import domains
from countjump.data import Rows
from countjump.domains import Binary, Bounded, Categorical, Count, Domain, NonNegative, OneHot, Simplex
from countjump.planning.decisions import SPARSE, WIDE, one_of
from countjump.transforms import Coding, Offset, Step, Weights
from countjump.transforms.columns import decimals_of, find_offset, find_step

MANY = 1000
"""Steps of a column of whole numbers, on average and from end to end, above which it is modelled as rounded reals beside others."""

MOST_FLAGS = 2048
"""Columns of 0 and 1 among which groups are looked for, where a wide matrix could be one of counts."""

TRIES = 1000
"""Of columns that may complete a group of 0/1 columns."""

NAMED = 6
"""Columns that a reason names, at most."""


@dataclass(frozen=True)
class Group:
    """Columns of one domain; ``coding`` is how their values become those of the domain, where they are not."""

    domain: Domain
    columns: np.ndarray
    declared: bool
    coding: Coding | None = None
    decimals: np.ndarray | None = None
    """Digits behind the point of every column, −1 for any number."""


class Names:
    """How columns are called in requests and in words; ``silent`` ones are not, nor are ``stand_ins`` for missing values.

    ``written`` says how a value of a column is written.
    """

    def __init__(
        self,
        count: int,
        names: Sequence[str] | None = None,
        silent: Iterable[int] = (),
        stand_ins: Mapping[int, float] | None = None,
        written: Callable[[int, float], str] = lambda column, value: f"{value:g}",
    ) -> None:
        self.count, self.names = count, None if names is None else [str(name) for name in names]
        self.silent, self.stand_ins, self.written = set(silent), dict(stand_ins or {}), written

    def __getitem__(self, column: int) -> str:
        return str(column) if self.names is None else self.names[column]

    def find(self, key: Any, what: str) -> list[int]:
        """The columns that a name, an index, a range, a slice or a tuple of these says."""
        if isinstance(key, slice):
            return list(range(self.count))[key]
        if isinstance(key, tuple | range):
            return [column for each in key for column in self.find(each, what)]
        if self.names is not None and isinstance(key, str):
            if key not in self.names:
                raise ValueError(
                    f"{what} names the column {key!r}, which is not there: X has {self.said(range(self.count))}"
                )
            if self.names.count(key) > 1:
                raise ValueError(f"{what} names the column {key!r}, of which there are several: use their indices")
            return [self.names.index(key)]
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            if not -self.count <= key < self.count:
                raise ValueError(f"{what} names the column {key}, and X has {self.count} columns")
            return [int(key) % self.count]
        raise TypeError(
            f"{what} has the key {key!r}: use a column's name, its index, a range, a slice or a tuple of them"
        )

    def said(self, columns: Iterable[int]) -> str:
        """Some columns in words, not too many of them."""
        columns = [column for column in columns if column not in self.silent]
        shown = ", ".join(self[column] for column in columns[:NAMED])
        return shown if len(columns) <= NAMED else f"{shown} and {len(columns) - NAMED} more"


def find_groups(
    X: Any,
    domain: Any,
    transform: Any,
    names: Names,
    strings: Mapping[int, int],
    lost_zero: bool,
    reasons: dict[str, str],
) -> list[Group]:
    """The groups of a matrix's columns, in the order of their first columns.

    ``strings`` says how many levels columns of strings have; ``lost_zero`` is whether a process was asked for to which zeros of
    a transformed column would be something else.
    """
    columns = X.shape[1]
    shifts = _declared_transforms(transform, names)
    look = transform is not None
    if isinstance(domain, Mapping):
        groups, left = _declared_groups(X, domain, names, shifts, strings)
        if len(left):
            groups += _auto(X, left, names, shifts, strings, look, reasons)
        return sorted(groups, key=lambda group: int(group.columns[0]))
    if not isinstance(domain, str) or domain != "auto":
        chosen = resolve_domain(domain, X)
        declared = isinstance(domain, Domain) or domain != "bounded"
        group = _declared_group(X, chosen, np.arange(columns), names, shifts, strings, declared)
        return [group]
    if lost_zero and not strings:
        domains.check_not_negative(X)
        found, why = domains.infer(X)
        reasons["domain"] = f"{found}: {why}"
        return [Group(found, np.arange(columns), False)]
    return _auto(X, np.arange(columns), names, shifts, strings, look, reasons)


def resolve_domain(asked: Any, X: Any) -> Domain:
    """A domain by its name or as it is; the bound of "bounded" is the largest value."""
    if isinstance(asked, Domain):
        return asked
    if not isinstance(asked, str):
        made = f": write {asked.__name__}()" if isinstance(asked, type) and issubclass(asked, Domain) else ""
        raise TypeError(f"domain must be a name, a Domain or a mapping from columns to these, got {asked!r}{made}")
    one_of("domain", asked, ("auto", *domains.DOMAINS))
    return Bounded(float(X.max()) or 1.0) if asked == "bounded" else domains.DOMAINS[asked]()


def _declared_groups(
    X: Any, domain: Mapping[Any, Any], names: Names, shifts: dict[int, Any], strings: Mapping[int, int]
) -> tuple[list[Group], np.ndarray]:
    groups, taken = [], set[int]()
    for key, asked in domain.items():
        columns = np.array(names.find(key, "domain"), dtype=np.int64)
        if len(set(columns.tolist())) < len(columns):
            raise ValueError(f"domain has the key {key!r}, which names a column twice: name each once")
        if twice := taken & set(columns.tolist()):
            raise ValueError(f"domain names the column {names[min(twice)]} twice: give each one domain")
        if not (isinstance(asked, str) and asked == "auto") and len(columns):
            taken |= set(columns.tolist())
            chosen = resolve_domain(asked, X[:, columns])
            declared = not (isinstance(asked, str) and asked == "bounded")
            groups.append(_declared_group(X, chosen, columns, names, shifts, strings, declared))
    return groups, np.array([c for c in range(X.shape[1]) if c not in taken], dtype=np.int64)


def _declared_group(
    X: Any,
    domain: Domain,
    columns: np.ndarray,
    names: Names,
    shifts: dict[int, Any],
    strings: Mapping[int, int],
    declared: bool,
) -> Group:
    for column in columns.tolist():
        if column in strings and not isinstance(domain, Categorical):
            raise ValueError(f"column {names[column]} holds strings, and is to be {domain.name}: use Categorical()")
        if isinstance(domain, Categorical) and domain.levels is not None and column in strings:
            domain = Categorical(tuple(str(level) for level in domain.levels))  # inside, they are places
    some = X if len(columns) == X.shape[1] else X[:, columns]
    chosen = [shifts.get(column, (0.0, None)) for column in columns.tolist()]
    coding = None
    if any(offset != 0 or step is not None for offset, step in chosen):
        offsets, steps = [offset for offset, _ in chosen], [step or 1.0 for _, step in chosen]
        coding = Coding.of(offsets, steps, [step is not None or domain.whole for _, step in chosen])
        some = _checked_coding(some, coding, columns, names)
    if coding is not None and isinstance(domain, Count | Bounded) and domain.max is not None:
        bounds = (domain.bounds(len(columns)) - coding.offset) / coding.step
        domain = dataclasses.replace(domain, max=tuple((np.rint(bounds) if domain.whole else bounds).tolist()))
    try:
        if not isinstance(domain, Categorical):
            domains.check_not_negative(some)
        domain.check(some)
    except ValueError as error:
        raise ValueError(error if len(columns) == X.shape[1] else _in_place(str(error), columns, names)) from error
    return Group(domain, columns, declared, coding)


def _in_place(message: str, columns: np.ndarray, names: Names) -> str:
    """An error of some columns as one of the whole table."""

    def place(found: re.Match[str]) -> str:
        column = int(columns[int(found[2])])
        return f"X[{found[1]}, {column}] (column {names[column]})"

    return re.sub(r"X\[(\d+), (\d+)\]", place, message)


def _checked_coding(X: Any, coding: Coding, columns: np.ndarray, names: Names) -> np.ndarray:
    """The coded values; a value that a declared transform cannot have made is an error."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    coded = coding.code(dense)
    wrong = (coded < 0) | (coding.whole & (np.abs(coding.decode(coded) - dense) > 1e-6 * np.maximum(np.abs(dense), 1)))
    if wrong.any():
        row, place = np.argwhere(wrong)[0]
        raise ValueError(
            f"row {row} of the column {names[columns[place]]} is {dense[row, place]:g}, which its transform does not make: it "
            f"begins at {coding.offset[place]:g} and goes by {coding.step[place]:g}"
        )
    return coded


def _auto(
    X: Any,
    columns: np.ndarray,
    names: Names,
    shifts: dict[int, Any],
    strings: Mapping[int, int],
    look: bool,
    reasons: dict[str, str],
) -> list[Group]:
    some = X if len(columns) == X.shape[1] else X[:, columns]
    coded = np.isin(columns, list(strings))
    if not coded.any() and not any(column in shifts for column in columns.tolist()) and _as_a_whole(some):
        domains.check_not_negative(some)
        found, why = domains.infer(some)
        _say(reasons, "domain", f"{found}: {why}")
        return [Group(found, columns, False)]
    return _column_by_column(some, columns, names, shifts, strings, look, reasons)


def _as_a_whole(X: Any) -> bool:
    """Whether a matrix is looked at as a whole: wide sparse rows and images, and what only whole rows can be."""
    values = X.data if sp.issparse(X) else X
    if values.size and values.min() < 0:
        return False
    if X.shape[1] >= WIDE:
        return sp.issparse(X) or ((X == 0).mean() >= SPARSE and not _of_several_kinds(X))
    found = domains.infer(X)[0]
    if isinstance(found, Binary):
        return not _dummy_groups(X, np.arange(X.shape[1]))
    return isinstance(found, OneHot | Simplex) or not values.any()


def _of_several_kinds(X: np.ndarray) -> bool:
    """Whether columns of fractions stand beside as many of whole numbers, or most columns of 0 and 1 are in groups that sum to one:
    a few may be so by chance."""
    whole = (np.floor(X) == X).all(0)
    if 0.5 <= whole.mean() < 1:
        return True
    flags = np.flatnonzero(whole & (X.max(0) == 1))
    return 0 < len(flags) <= MOST_FLAGS and 2 * sum(map(len, _dummy_groups(X, flags))) >= len(flags)


@dataclass
class _Found:
    """What one column is."""

    kind: str
    offset: float = 0.0
    step: float | None = None
    declared: bool = False
    decimals: int = -1

    @property
    def is_coded(self) -> bool:
        return self.offset != 0 or self.step not in (None, 1.0)


def _column_by_column(
    X: Any,
    columns: np.ndarray,
    names: Names,
    shifts: dict[int, Any],
    strings: Mapping[int, int],
    look: bool,
    reasons: dict[str, str],
) -> list[Group]:
    found: list[_Found] = []
    for place, column in enumerate(columns.tolist()):
        if column in strings:
            if shifts.get(column, (0.0, None)) != (0.0, None):
                raise ValueError(f"transform names the column {names[column]}, which holds strings: leave it out")
            found.append(_Found("categories"))
            continue
        values = _column(X, place)
        if shifts.get(column) == (0.0, None):
            found.append(_look_at(values, False, several=X.shape[1] > 1))
            if values.min() < 0:
                raise ValueError(f"column {names[column]} has {values.min():g}, and no transform: it needs an Offset")
        elif column in shifts:
            offset, step = shifts[column]
            coding = Coding.of([offset], [step or 1.0], [step is not None])
            coded = _checked_coding(values[:, None], coding, np.array([column]), names)[:, 0]
            whole = step is not None or bool((coded == np.rint(coded)).all())
            found.append(_Found("count" if whole else "real", offset, step or (1.0 if whole else None), True))
        else:
            found.append(_look_at(values, look, several=X.shape[1] > 1))
        if not look and values.min() < 0:
            raise ValueError(
                f"column {names[column]} has {values.min():g}, which is negative, and transform=None takes values as they are: "
                f"give it an Offset, or leave transform='auto'"
            )
    groups = []
    kinds = np.array([each.kind for each in found], dtype=object)
    dummies = _dummy_groups(X, np.flatnonzero(kinds == "flag"))
    for group in dummies:
        kinds[group] = "dummies"
        groups.append(Group(OneHot(), columns[group], False))
    kinds[kinds == "flag"] = "count"
    plain = np.array([each.kind == "count" and not each.is_coded for each in found])
    if plain.sum() >= WIDE:  # wide counts are a block of their own
        kinds[plain] = "wide"
        groups.append(Group(Count(), columns[plain], False))
    for kind in ("count", "real", "bounded", "categories"):
        places = np.flatnonzero(kinds == kind)
        if len(places):
            groups.append(_group(X, kind, places, columns, [found[place] for place in places]))
    alone = len(groups) == 1 and not any(each.is_coded for each in found)
    if alone and (shown := domains.infer(X))[0] == groups[0].domain:
        _say(reasons, "domain", f"{shown[0]}: {shown[1]}")
    else:
        _say_kinds(kinds, found, columns, names, dummies, reasons)
    return groups


def _group(X: Any, kind: str, places: np.ndarray, columns: np.ndarray, found: list[_Found]) -> Group:
    if kind == "categories":
        return Group(Categorical(), columns[places], False)
    rows = X.shape[0]
    escape = 1 / ((rows + 1) * len(columns))
    whole = kind == "count"
    coding = Coding.of(
        [each.offset for each in found], [each.step or 1.0 for each in found], [whole] * len(found), escape
    )
    coding.escape[[each.declared for each in found]] = 0.0
    decimals = np.array([each.decimals for each in found])
    if not whole:
        coding.decimals[:] = decimals
    if kind == "bounded":
        return Group(Bounded(1.0), columns[places], False, coding, decimals)
    if whole:
        n = coding.code(Rows(X).select(places).dense(np.arange(rows)))
        domain: Domain = domains.infer_bound(n.clip(min=0))[0]  # only a constant, which is what it is, can lie below
        flags = [each.kind == "flag" for each in found]
        if any(flags):  # however rare its ones are
            domain = Count(max=tuple(np.where(flags, 1.0, domain.bounds(len(found)))))
    else:
        domain = NonNegative()
    return Group(domain, columns[places], False, coding, decimals)


def _look_at(values: np.ndarray, look: bool, several: bool) -> _Found:
    """The kind of a column of numbers, its offset and step."""
    if ((values == 0) | (values == 1)).all():
        return _Found("flag", step=1.0)
    places = decimals_of(values)
    whole = bool((values == np.floor(values)).all())
    step = (find_step(values) if look else None) or (1.0 if whole else None)
    if not look:
        return _Found("count" if whole else "real", 0.0, step, decimals=places)
    if (
        step is None
        and values.min() >= 0
        and values.max() <= 1
        and (values > 0.9).sum() >= 0.01 * np.count_nonzero(values)
    ):
        return _Found("bounded", decimals=places)
    if values.min() == values.max():
        return _Found("count" if whole else "real", 0.0, 1.0 if whole else None, decimals=places)
    if (
        step is not None
        and several
        and np.abs(values).mean() > MANY * step
        and (values.max() - values.min()) > MANY * step
    ):
        step = None  # as counts, they would be seen long before the other columns
    offset = find_offset(values, step)
    return _Found("real" if step is None else "count", offset, step, decimals=places)


def _dummy_groups(X: Any, flags: np.ndarray) -> list[np.ndarray]:
    """Groups of 0/1 columns that sum to one in every row: runs of neighbours first, then any others.

    >>> _dummy_groups(np.array([[1, 0, 1], [0, 1, 1], [1, 0, 0]]), np.arange(3))
    [array([0, 1])]
    """
    if len(flags) < 2:
        return []
    x = Rows(X).select(flags).dense(np.arange(X.shape[0]))
    varying = np.flatnonzero(x.any(0) & ~x.all(0))
    together = x.T @ x > 0
    groups, taken = [], set[int]()
    for first in varying.tolist():
        if first in taken:
            continue
        free = [column for column in varying.tolist() if column > first and column not in taken]
        group = _covering(x, together, [first], free, [TRIES])
        if group is not None:
            groups.append(flags[sorted(group)])
            taken |= set(group)
    return groups


def _covering(
    x: np.ndarray, together: np.ndarray, group: list[int], free: list[int], tries: list[int]
) -> list[int] | None:
    """Columns of which every row has exactly one 1, by trying what can have the first row that lacks one; neighbours first."""
    tries[0] -= 1
    lacking = np.flatnonzero(x[:, group].sum(1) == 0)
    if not len(lacking):
        return group if len(group) > 1 else None
    able = [column for column in free if x[lacking[0], column] and not together[column, group].any()]
    for column in sorted(able, key=lambda each: min(abs(each - one) for one in group)):
        found = _covering(x, together, [*group, column], free, tries) if tries[0] > 0 else None
        if found is not None:
            return found
    return None


def _declared_transforms(transform: Any, names: Names) -> dict[int, tuple[float, float | None]]:
    """(offset, step) of the columns that a request names."""
    if transform is None or isinstance(transform, Weights):
        return {}
    if isinstance(transform, str) and one_of("transform", transform, ("auto",)):
        return {}
    whole: Mapping[Any, Any] = transform if isinstance(transform, Mapping) else {range(names.count): transform}
    chosen: dict[int, tuple[float, float | None]] = {}
    for key, asked in whole.items():
        each = asked if isinstance(asked, tuple) else () if asked is None else (asked,)
        if not all(isinstance(one, Offset | Step) for one in each):
            raise TypeError(
                f"transform has {asked!r} for {key!r}: use Offset(...), Step(...), a tuple of both, or None"
            )
        offset = next((float(one.value) for one in each if isinstance(one, Offset)), 0.0)
        step = next((float(one.size) for one in each if isinstance(one, Step)), None)
        for column in names.find(key, "transform"):
            chosen[column] = (offset, step)
    return chosen


def _column(X: Any, place: int) -> np.ndarray:
    """One column, dense, in its own dtype or float64."""
    column = X[:, [place]].toarray().ravel() if sp.issparse(X) else X[:, place]
    return column if column.dtype == np.float32 else column.astype(np.float64)


def _say(reasons: dict[str, str], name: str, sentence: str) -> None:
    reasons[name] = f"{reasons[name]}; {sentence}" if name in reasons else sentence


def _say_kinds(
    kinds: np.ndarray,
    found: list[_Found],
    columns: np.ndarray,
    names: Names,
    dummies: list[np.ndarray],
    reasons: dict[str, str],
) -> None:
    words = {
        "wide": "wide counts",
        "count": "whole numbers",
        "real": "reals",
        "bounded": "reals from 0 to 1",
        "categories": "categories",
    }
    said = [f"{words[kind]} ({names.said(columns[kinds == kind].tolist())})" for kind in words if (kinds == kind).any()]
    said += [
        f"groups of 0/1 columns that sum to one ({names.said(columns[group].tolist())})" for group in dummies[:NAMED]
    ]
    said += [f"{len(dummies) - NAMED} more of these groups"] * (len(dummies) > NAMED)
    _say(reasons, "domain", ", ".join(said) + ": what every column shows")
    offsets = [(column, each) for column, each in zip(columns.tolist(), found, strict=True) if each.offset != 0]
    steps = [
        (column, each) for column, each in zip(columns.tolist(), found, strict=True) if each.step not in (None, 1.0)
    ]
    said = [f"{names[column]} from {each.offset:g}" for column, each in offsets[:NAMED]]
    said += [f"{names[column]} in steps of {each.step:g}" for column, each in steps[:NAMED]]
    more = max(len(offsets) - NAMED, 0) + max(len(steps) - NAMED, 0)
    if said:
        _say(reasons, "transform", ", ".join(said) + (f" and {more} more" if more else ""))
