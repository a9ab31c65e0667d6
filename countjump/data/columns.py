"""Kinds of columns of a table: how the values of each become numbers, and how numbers become values of its dtype again.

A kind is found from a column by :func:`kind_of`, and kept as JSON. What is missing is the table's business, but for levels, where
it is a level of its own.
"""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from math import isfinite
from typing import Any, ClassVar

import numpy as np

WHOLE_DTYPES = tuple(f"{kind}{bits}" for kind in ("int", "uint", "Int", "UInt") for bits in (8, 16, 32, 64))
REAL_DTYPES = ("float16", "float32", "float64", "Float32", "Float64")
NUMBER_DTYPES = {"object", "whole", "decimal", "bool", "boolean", *WHOLE_DTYPES, *REAL_DTYPES}
LEVEL_DTYPES = {"object", "str", "string", "category", "ordered", "bool", "boolean"}
"""Of columns that come back as they were; those of other dtypes come back as the nearest of these. "whole" and "decimal"
are Python's whole and decimal numbers in a column of objects."""

MOST_LEVELS = 4096
"""Of one column of strings."""

LEAST_IDENTIFIERS = 50
"""Rows from which on a column that is different in all of them is taken for an identifier."""

MOST_DIGITS = 15
"""Of a number in an identifier that goes on."""

MOST_PLACES = 30
"""Digits of a decimal number behind its point."""

NEARLY_ALL = 0.95
"""The share of different values from which on texts are no levels."""

UNITS = {"D": 86_400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Units of time, the coarsest first, in nanoseconds."""

CLOCK = {"date": datetime.date, "time": datetime.time}
"""Python's own dates and times of day, as a column of objects holds them."""

UNKNOWN = "is missing, and no value of it was in training: fill it in"

MISSING_LEVEL = "\0missing"
"""How a level of what is missing is written as JSON; no text of a file can be so."""


class Kind(ABC):
    """What a column is. ``modelled`` says whether it is part of the model."""

    name: ClassVar[str]
    modelled: ClassVar[bool] = True

    @abstractmethod
    def numbers(self, column: Any, name: str) -> np.ndarray:
        """Values, none of them missing (but for levels), as float64."""

    @abstractmethod
    def restore(self, numbers: np.ndarray, gone: np.ndarray) -> Any:
        """Values of the dtype that went in, missing where ``gone`` says so."""

    def said(self) -> str:
        """How values become numbers, in words; "" where they are these."""
        return ""

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": self.name} | asdict(self)  # type: ignore[call-overload]


@dataclass(frozen=True)
class Numbers(Kind):
    """Whole or real numbers, and truth values, of a dtype of numpy or pandas; decimal numbers have so many ``places``."""

    dtype: str
    places: int = 0
    name = "numbers"

    def __post_init__(self) -> None:
        if self.dtype not in NUMBER_DTYPES or not 0 <= self.places <= MOST_PLACES:
            raise ValueError(f"numbers of the unknown dtype {self.dtype!r}")

    def numbers(self, column: Any, name: str) -> np.ndarray:
        values = as_numpy(column)
        if values.dtype.kind in "mMc":
            raise TypeError(f"column {name!r} holds {values.dtype} now, and held numbers when the model was fitted")
        if values.dtype.kind in "iu" and (np.abs(values.astype(object)) > 2**53).any():
            raise ValueError(
                f"column {name!r} has values above 2^53, where float64 no longer holds every count: rescale it, or drop it"
            )
        if values.dtype == object:
            numbers = int | float | np.number | np.bool_ | Decimal
            odd = [row for row, value in enumerate(values) if not isinstance(value, numbers)]
            if odd:
                # One text among numbers makes texts of all of them: that one is to be named.
                row = next((row for row in odd if not _reads_as_number(values[row])), odd[0])
                times = isinstance(values[row], datetime.datetime)
                remedy = (
                    "make times of them, pd.to_datetime(column, utc=True)" if times else "encode or drop the column"
                )
                raise TypeError(f"column {name!r}, row {row}: {values[row]!r} is not a number: {remedy}")
        if values.dtype.kind == "f" and values.dtype.itemsize < 8:
            values = values.astype(str)  # 0.1 as it is written, not as the nearest number of fewer digits
        return values.astype(np.float64)

    def restore(self, numbers: np.ndarray, gone: np.ndarray) -> Any:
        kind = self.dtype.lower().rstrip("0123456789")
        if kind == "decimal":
            values = np.array([Decimal(f"{value:.{self.places}f}") for value in numbers], dtype=object)
            values[gone] = None
            return series(values, "object")
        if kind in ("int", "uint"):
            limits = np.iinfo(self.dtype.lower())
            least, most = max(limits.min, -(2**53)), min(limits.max, 2**53)
            values = np.clip(np.rint(numbers), least, most).astype(self.dtype.lower())
        elif kind in ("bool", "boolean"):
            values = numbers > 0
        else:
            values = numbers if kind in ("object", "whole") else numbers.astype(self.dtype.lower())
        if kind == "whole":
            values = np.array([int(value) for value in np.rint(numbers)], dtype=object)
            values[gone] = None
            return series(values, "object")
        if not gone.any():
            return series(values, self.dtype)
        if self.dtype[0].isupper():
            return _masked(values, gone, self.dtype)
        kept = object if self.dtype in ("object", "bool") else values.dtype if kind == "float" else np.float64
        values = values.astype(kept)
        values[gone] = None if values.dtype == object else np.nan
        return series(values, str(values.dtype))


@dataclass(frozen=True)
class Levels(Kind):
    """Strings, categories and truth values that may be missing: the ``levels`` in their order, None for what is missing.

    ``missing`` is what stands for it: "None" or "nan".
    """

    dtype: str
    levels: tuple[Any, ...]
    missing: str = "None"
    name = "levels"

    def __post_init__(self) -> None:
        if self.dtype not in LEVEL_DTYPES or self.missing not in ("None", "nan"):
            raise ValueError(f"levels of the unknown dtype {self.dtype!r}")
        if not self.levels or not all(isinstance(level, str | int | float | bool | None) for level in self.levels):
            raise ValueError("levels are strings, numbers or None")
        if len(set(self.levels)) < len(self.levels) or any(
            isinstance(level, float) and not isfinite(level) for level in self.levels
        ):
            raise ValueError("levels are all different, and finite")

    def numbers(self, column: Any, name: str) -> np.ndarray:
        """The places of the levels; an unknown one is the place behind the last."""
        place = {level: at for at, level in enumerate(self.levels)}
        return np.array([place.get(value, len(place)) for value in texts(column, name)], dtype=np.float64)

    def restore(self, numbers: np.ndarray, gone: np.ndarray) -> Any:
        import pandas as pd  # type: ignore[import-untyped]

        known = [level for level in self.levels if level is not None]
        levels = np.empty(len(self.levels), dtype=object)
        levels[:] = [(np.nan if self.missing == "nan" else None) if level is None else level for level in self.levels]
        values = levels[
            np.minimum(numbers.astype(int), len(levels) - 1)
        ]  # an unknown level is known to the caller alone
        if self.dtype in ("category", "ordered"):
            return pd.Series(pd.Categorical(values, categories=known, ordered=self.dtype == "ordered"))
        return series(values, "object" if self.dtype == "bool" else self.dtype)

    def said(self) -> str:
        return "missing is a level" if None in self.levels else ""

    def described(self) -> dict[str, Any]:
        levels = [MISSING_LEVEL if level is None else level for level in self.levels]
        return super().described() | {"levels": levels}


@dataclass(frozen=True)
class Times(Kind):
    """Dates, times and durations: so many steps after the ``start``, which is in nanoseconds since 1970 or of a duration.

    A step is ``every`` so many of a ``unit``. Of periods, the start is an ordinal. Times of a zone are ``local`` where the clocks
    there show them in coarser units than those of UTC do: whole days, say. After a time of day past midnight comes the next day's.

    ``dtype`` is "datetime64[ns]" and the like, with a time zone or not, "timedelta64[ns]", "date", "time" or "period[M]".
    """

    dtype: str
    start: int
    unit: str
    every: int = 1
    local: bool = False
    name = "times"

    def __post_init__(self) -> None:
        known = re.fullmatch(
            r"(datetime64|timedelta64)\[(s|ms|us|ns)(, [\w/+:-]+)?\]|date|time|period\[[\w-]{1,12}\]", self.dtype
        )
        if (
            not known
            or (self.unit not in UNITS and not self.is_period)
            or abs(self.start) > 2**90
            or not 0 < self.every < 2**63
        ):
            raise ValueError(f"times of the unknown dtype {self.dtype!r} or unit {self.unit!r}")

    @property
    def _size(self) -> int:
        return 1 if self.is_period else self.every * UNITS[self.unit]

    @property
    def is_period(self) -> bool:
        """Whether they are periods, which are counted as they are."""
        return self.dtype.startswith("period")

    @classmethod
    def of(cls, column: Any, dtype: str) -> Times:
        """That of some times, none of them missing: the coarsest unit that all are whole steps of."""
        if dtype.startswith("period"):
            return cls(dtype, int(as_period_numbers(column).min()), "")
        start, unit = _coarsest(nanoseconds(column, dtype))
        if getattr(column.dtype, "tz", None) is not None:
            local_start, local_unit = _coarsest(nanoseconds(column, dtype, local=True))
            if UNITS[local_unit] > UNITS[unit]:
                return cls(dtype, local_start, local_unit, local=True)
        return cls(dtype, start, unit)

    def numbers(self, column: Any, name: str) -> np.ndarray:
        try:
            passed = as_period_numbers(column).tolist() if self.is_period else self._nanoseconds(column)
        except (TypeError, ValueError, AttributeError) as error:
            raise TypeError(
                f"column {name!r} held dates or times ({self.dtype}), and does no longer ({error})"
            ) from error
        size = self._size
        return np.array([(each - self.start) / size for each in passed], dtype=np.float64)

    def _nanoseconds(self, column: Any) -> list[int]:
        zone = self.dtype.partition(", ")[2].rstrip("]")
        known = self.local and getattr(column.dtype, "tz", None) is not None
        return nanoseconds(column.dt.tz_convert(zone) if known else column, self.dtype, self.local)

    def restore(self, numbers: np.ndarray, gone: np.ndarray) -> Any:
        import pandas as pd

        steps = np.rint(np.where(gone, 0, numbers))
        if self.is_period:
            freq = self.dtype[len("period[") : -1]
            periods = pd.PeriodIndex.from_ordinals((self.start + steps).astype(np.int64), freq=freq)
            return pd.Series(periods).mask(pd.Series(gone))
        resolution = "us" if self.dtype in CLOCK else self.dtype.partition("[")[2].partition(",")[0].rstrip("]")
        room = 2**63 - 1 if self.dtype != "date" else 253_402_214_400 * 10**6  # the last day that has a date, year 9999
        size, coarse = self._size, UNITS[resolution]
        passed = [self.start + int(step) * size for step in steps.tolist()]
        if self.dtype == "time":  # past midnight it is the next day
            passed = [each % UNITS["D"] for each in passed]
        ticks = [min(max(each // coarse, -room), room) for each in passed]
        kind = "timedelta64" if self.dtype.startswith("timedelta64") else "datetime64"
        values = np.array(ticks, dtype=np.int64).view(f"{kind}[{resolution}]").copy()
        values[gone] = np.array("NaT", dtype=values.dtype)
        if self.dtype == "date":
            days = np.array(values.astype("datetime64[D]").astype(object))
            return pd.Series(days, dtype=object)
        if self.dtype == "time":
            return pd.Series(
                [None if lost else each.time() for each, lost in zip(values.astype(object), gone, strict=True)],
                dtype=object,
            )
        found = pd.Series(values)
        zone = self.dtype.partition(", ")[2].rstrip("]")
        if self.local:  # of an hour that clocks show twice, the first, and for one that they leave out, the next
            return found.dt.tz_localize(zone, ambiguous=np.ones(len(found), dtype=bool), nonexistent="shift_forward")
        return found.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else found

    def said(self) -> str:
        if self.is_period:
            return "counted from the first"
        start = str(np.datetime64(self.start // 10**9, "s"))
        first = (
            ""
            if self.dtype.startswith("timedelta")
            else f"from {start.partition('T')[2] if self.dtype == 'time' else start}"
        )
        return ", ".join(filter(None, [first.removesuffix("T00:00:00"), f"steps of 1 {self.unit}"]))


@dataclass(frozen=True)
class Identifiers(Kind):
    """Values that only name their rows, and are all different: fresh ones follow the ``last`` number, or are ``drop``-ped.

    Numbers go on by ``step``; texts that are a number between ``before`` and ``after`` too, with as many ``digits``.
    """

    dtype: str
    last: int
    step: int = 1
    before: str = ""
    after: str = ""
    digits: int = 0
    dropped: bool = False
    name = "identifiers"
    modelled = False

    def __post_init__(self) -> None:
        if self.dtype not in {*WHOLE_DTYPES, "object", "str", "string", "category"}:
            raise ValueError(f"identifiers of the unknown dtype {self.dtype!r}")
        if not (0 < self.step < 2**62 and abs(self.last) < 2**63 and 0 <= self.digits <= MOST_DIGITS):
            raise ValueError("identifiers beyond their limits")

    @classmethod
    def of(cls, column: Any, dtype: str, name: str, dropped: bool) -> Identifiers:
        """Those that follow some values."""
        values = [value for value in column.tolist() if value is not None and value == value]
        if dtype in WHOLE_DTYPES:
            steps = {abs(int(step)) for step in np.diff(np.array(values, dtype=object)).tolist()}
            return cls(dtype, int(max(values)), steps.pop() if len(steps) == 1 else 1, dropped=dropped)
        pattern = re.compile(rf"(.*?)(\d{{1,{MOST_DIGITS}}})(\D*)", re.DOTALL)
        parts = [pattern.fullmatch(str(value)) for value in values]
        found = {(part[1], part[3]) for part in parts if part}
        if all(parts) and len(found) == 1:
            before, after = found.pop()
            digits = [part[2] for part in parts if part]
            width = min(map(len, digits)) if any(each[0] == "0" for each in digits) else 0
            return cls(dtype, max(map(int, digits)), 1, before, after, width, dropped)
        return cls(dtype, 0, 1, f"{name} ", "", 0, dropped)

    def numbers(self, column: Any, name: str) -> np.ndarray:
        return np.zeros(len(column))

    def restore(self, numbers: np.ndarray, gone: np.ndarray) -> Any:
        fresh = [self.last + self.step * (place + 1) for place in range(len(numbers))]
        if self.dtype in WHOLE_DTYPES:
            return series(np.array(fresh, dtype=object), self.dtype)
        return series([f"{self.before}{each:0{self.digits}d}{self.after}" for each in fresh], self.dtype)


@dataclass(frozen=True)
class Empty(Kind):
    """A column that is missing everywhere, and comes back so."""

    dtype: str
    name = "empty"
    modelled = False

    def __post_init__(self) -> None:
        self.restore(np.zeros(1), np.ones(1, dtype=bool))  # which raises if there is no such dtype

    def numbers(self, column: Any, name: str) -> np.ndarray:
        return np.zeros(len(column))

    def restore(self, numbers: np.ndarray, gone: np.ndarray) -> Any:
        import pandas as pd

        return pd.Series([None] * len(numbers), dtype=self.dtype)


KINDS: dict[str, type[Any]] = {kind.name: kind for kind in (Numbers, Levels, Times, Identifiers, Empty)}


def recall(described: dict[str, Any]) -> Kind:
    """Back from :meth:`Kind.described`; what is no kind is an error."""
    fields = {name: value for name, value in described.items() if name != "kind"}
    if "levels" in fields:
        fields["levels"] = tuple(None if level == MISSING_LEVEL else level for level in fields["levels"])
    kind = KINDS[described["kind"]](**fields)
    for name, value in fields.items():
        wanted: Any = {
            "start": int,
            "every": int,
            "last": int,
            "step": int,
            "digits": int,
            "places": int,
            "dropped": bool,
            "local": bool,
            "levels": tuple,
        }.get(name, str)
        if type(value) is not wanted:
            raise ValueError(f"{name} of a column is {value!r}")
    return kind


def kind_of(column: Any, name: str, declared: Sequence[Any] | None = None, identifiers: str = "fresh") -> Kind:
    """What a column of a frame is. Levels that are ``declared`` are taken as they are."""
    gone = is_missing(column)
    present, dtype = column[~gone] if gone.any() else column, dtype_of(column)
    kind = getattr(column.dtype, "kind", "O")
    if declared is None and not len(present):
        return Empty(str(column.dtype))
    if declared is None and is_times(column, present):
        try:
            return Times.of(present, times_dtype(column, present))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            remedy = "convert them, to pandas' datetime64[ns] in UTC, say"
            raise ValueError(f"column {name!r} holds times of the unknown dtype {column.dtype}: {remedy}") from error
    if kind in "c" or str(column.dtype).startswith("interval"):
        raise TypeError(f"column {name!r} holds values of dtype {column.dtype}: turn them into numbers or strings")
    truth = dtype in ("bool", "boolean", "object") and is_truth(present)
    if is_levels(present) or (truth and (gone.any() or dtype == "object")):
        if declared is None and is_identifier(present):
            return Identifiers.of(present, dtype, name, identifiers == "drop")
        return Levels(dtype, _levels(column, present, gone, name, declared), _missing_mark(column, gone))
    if declared is None and is_identifier(present) and not gone.any():
        return Identifiers.of(present, dtype, name, identifiers == "drop")
    if (
        dtype == "object"
        and len(present)
        and all(isinstance(value, Decimal) and value.is_finite() for value in present)
    ):
        places = max(-int(value.as_tuple().exponent) for value in present)
        return Numbers("decimal", min(max(places, 0), MOST_PLACES))
    whole = dtype == "object" and all(isinstance(value, int | np.integer) for value in present)
    return Numbers("whole" if whole else dtype if dtype in NUMBER_DTYPES else "object")


def _levels(column: Any, present: Any, gone: np.ndarray, name: str, declared: Sequence[Any] | None) -> tuple[Any, ...]:
    values = texts(present, name)
    if declared is not None:
        known = tuple(declared)
        if unknown := sorted({str(value) for value in values} - {str(level) for level in known}):
            raise ValueError(f"column {name!r} holds {unknown[0]!r}, which is none of its levels: {known}")
    elif str(getattr(column, "dtype", "")) == "category":
        known = tuple(column.cat.categories.tolist())
    else:
        known = tuple(sorted(set(values), key=lambda value: (str(type(value)), value)))
    if any(isinstance(level, float) and not isfinite(level) for level in known):
        raise ValueError(f"column {name!r} has a category that is no finite number: drop it")
    if len(known) > MOST_LEVELS:
        raise ValueError(
            f"column {name!r} has {len(known)} different strings, more than {MOST_LEVELS}: drop it, or merge the rare ones"
        )
    return known + (None,) * bool(gone.any())


def texts(column: Any, name: str) -> list[Any]:
    """Strings, numbers or truth values, one kind of them, and None for what is missing."""
    gone = is_missing(column)
    values = [value.item() if isinstance(value, np.generic) else value for value in column.tolist()]
    kinds = [isinstance(value, str) for value, lost in zip(values, gone, strict=True) if not lost]
    if any(kinds) and not all(kinds):
        rare = sum(kinds) * 2 < len(kinds)
        row = int(np.flatnonzero(~gone)[kinds.index(rare)])
        other = "a string among numbers" if rare else "no string among strings"
        raise ValueError(f"column {name!r}, row {row}: {values[row]!r} is {other}: give a column one kind of values")
    for row, value in enumerate(values):
        if not gone[row] and not isinstance(value, str | int | float | bool):
            raise ValueError(
                f"column {name!r}, row {row}: {value!r} is no string: turn it into one, or drop the column"
            )
    return [None if lost else value for value, lost in zip(values, gone, strict=True)]


def is_missing(column: Any) -> np.ndarray:
    """Where a column of a frame, or an array of objects, has no value."""
    if hasattr(column, "isna"):
        return column.isna().to_numpy()
    return np.array([value is None or value != value for value in column], dtype=bool)


def is_levels(column: Any) -> bool:
    """Whether a column of a frame, nothing in it missing, holds strings or categories."""
    kind = str(column.dtype)
    if kind == "category" or kind.startswith(("string", "str", "large_string")):
        return True
    return kind == "object" and any(isinstance(value, str) for value in column)


def is_truth(column: Any) -> bool:
    """Whether all values are true or false."""
    return all(isinstance(value, bool | np.bool_) for value in column)


def is_times(column: Any, present: Any) -> bool:
    """Whether a column of a frame holds dates, times, durations or periods."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "mM" or str(column.dtype).startswith("period"):
        return True
    return kind == "O" and any(all(type(value) is each for value in present) for each in CLOCK.values())


def times_dtype(column: Any, present: Any) -> str:
    """That of a column of times; pandas' own days, minutes and the like have the resolution of seconds."""
    text = str(column.dtype)
    if text.startswith("period") or getattr(column.dtype, "kind", "O") in "mM":
        return text
    return next(name for name, kind in CLOCK.items() if type(present.iloc[0]) is kind)


def is_identifier(column: Any) -> bool:
    """Whether values, none of them missing, only name their rows.

    Such are texts that are nearly all different, and whole numbers that are all different though there is little room for that: n
    values of r possible ones, drawn by chance, are all different with probability exp(−n²/2r).
    """
    if len(column) < LEAST_IDENTIFIERS:
        return False
    if is_levels(column):
        return str(column.dtype) != "category" and column.nunique() > NEARLY_ALL * len(column)
    dtype, least = str(column.dtype), int(column.min()) if len(column) and str(column.dtype) in WHOLE_DTYPES else 0
    if dtype not in WHOLE_DTYPES or not column.is_unique:
        return False
    most, end = int(column.max()), np.iinfo(dtype.lower()).max
    if most > 2**53:  # which float64 does not tell apart
        return most < min(end, 2**63) - 2**40
    return most < end // 2 and most - least + 1 < len(column) ** 2 / 40  # there is room for fresh ones


def dtype_of(column: Any) -> str:
    """The dtype by which a column comes back."""
    dtype = column.dtype
    if str(dtype) == "category":
        return "ordered" if dtype.ordered else "category"
    if str(dtype) in NUMBER_DTYPES | LEVEL_DTYPES:
        return str(dtype)
    if str(dtype).startswith("string"):
        return "string"
    return {"i": "int64", "u": "uint64", "f": "float64", "b": "bool"}.get(getattr(dtype, "kind", "O"), "object")


def as_numpy(column: Any) -> np.ndarray:
    """The values as numpy has them."""
    if not hasattr(column, "to_numpy"):
        return np.asarray(column)
    kind = getattr(column.dtype, "kind", "O")
    return (
        column.to_numpy(dtype={"i": "int64", "u": "uint64", "f": "float64", "b": "bool"}[kind])
        if (str(column.dtype)[0].isupper() or str(column.dtype) == "boolean") and kind in "iufb"
        else column.to_numpy()
    )


def nanoseconds(column: Any, dtype: str, local: bool = False) -> list[int]:
    """Since 1970 in UTC, or as ``local`` clocks show it, or since midnight, or of a duration, in Python's whole numbers, which have
    no end."""
    if dtype == "time":
        day = datetime.date(1970, 1, 1)
        values = np.array(
            [datetime.datetime.combine(day, each.replace(tzinfo=None)) for each in column], "datetime64[us]"
        )
    elif dtype == "date":
        values = np.array(column.tolist(), dtype="datetime64[D]")
    else:
        values = np.asarray(_without_zone(column, local))
    if values.dtype.kind not in "mM":
        raise TypeError(f"it holds {values.dtype}")
    resolution, count = np.datetime_data(values.dtype)
    size = UNITS[resolution] * count
    return [each * size for each in values.view(np.int64).tolist()]


def as_period_numbers(column: Any) -> np.ndarray:
    """The ordinals of periods."""
    return np.array([period.ordinal for period in column], dtype=np.int64)


def _coarsest(passed: list[int]) -> tuple[int, str]:
    """The first of some times, and the coarsest unit that the others are whole steps of from there."""
    start = int(min(passed))
    apart = [each - start for each in passed]
    fitting = {unit: size for unit, size in UNITS.items() if max(apart) // size <= 2**53}  # as float64 holds them
    exact = (unit for unit, size in fitting.items() if all(each % size == 0 for each in apart))
    return start, next(exact, list(fitting)[-1])


def _without_zone(column: Any, local: bool) -> Any:
    if getattr(column.dtype, "tz", None) is not None:
        return (column if local else column.dt.tz_convert("UTC")).dt.tz_localize(None).to_numpy()
    return column.to_numpy()


def _missing_mark(column: Any, gone: np.ndarray) -> str:
    if not gone.any() or str(column.dtype) != "object":
        return "None"
    first = column.tolist()[int(np.argmax(gone))]
    return "None" if first is None else "nan"


def _masked(values: np.ndarray, gone: np.ndarray, dtype: str) -> Any:
    """A nullable column of pandas."""
    import pandas as pd

    found = pd.Series(values).astype(dtype)
    return found.mask(pd.Series(gone), pd.NA)


def series(values: Any, dtype: str) -> Any:
    """A column of pandas."""
    import pandas as pd

    return pd.Series(values, dtype=dtype)


def _reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
