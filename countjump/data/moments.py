"""How dates and times are written in text: found by looking at cells, and written so again.

Days are such as 2024-12-31, 2024/12/31, 31.12.2024, 31/12/2024 or 12/31/2024, the last two where some number above 12 says which it
is, and numbers may lack their zeros: 1/5/2024. After the day may come a clock and a zone, Z or +02:00. A clock alone is a time of
day.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

CLOCKS = {"": "D", "mm": "m", "mm:ss": "s", "mm:ss.fff": "ms", "mm:ss.ffffff": "us"}
"""What is shown behind the hours, and numpy's unit of that."""
UNITS = tuple(CLOCKS.values())
EPOCH = "1970", "01", "01"
"""The day of times that have none."""
OFFSET = r"Z|[+-]\d\d(?::?\d\d)?"
CLOCK = r"(\d\d?):(\d\d(?::\d\d(?:\.\d{1,6})?)?)"
DAY = r"(\d{4}|\d\d?)([-/.])(\d\d?)\2(\d{4}|\d\d?)"
TIME = rf"{DAY}(?:([T ]){CLOCK}[ ]?({OFFSET})?)?"
MOMENT, ALONE = re.compile(TIME, re.ASCII), re.compile(CLOCK, re.ASCII)
NAME = re.compile(rf"([DMY]+)([-/.])([DMY]+)\2([DMY]+)(?:([T ])(hh?):([m:s.f]+)({OFFSET})?)?|(hh?):([m:s.f]+)")


@dataclass(frozen=True)
class Moments:
    """The form of some times: the ``order`` of the day ("" of times of day) with a ``mark`` between its numbers; what is
    ``between`` day and clock; how fine the ``clock`` is; the ``zone``. Days and hours are full where they keep their zeros.

    >>> str(Moments("MDY", "/", False, " ", "mm", False))
    'M/D/YYYY h:mm'
    >>> Moments.named("DD.MM.YYYY hh:mm").zone
    ''
    """

    order: str = "YMD"
    mark: str = "-"
    full_day: bool = True
    between: str = ""
    clock: str = ""
    full_hour: bool = True
    zone: str = ""

    def __str__(self) -> str:
        size = 2 if self.full_day else 1
        day = self.mark.join("YYYY" if part == "Y" else part * size for part in self.order)
        return day + self.between + f"{'hh' if self.full_hour else 'h'}:{self.clock}{self.zone}" * bool(self.clock)

    @classmethod
    def named(cls, name: str) -> Moments | None:
        """That of a name, as ``str`` gives it; None for anything else."""
        found = NAME.fullmatch(name)
        if found is None:
            return None
        *day, between, hours, clock, zone, hours_alone, clock_alone = found.groups()
        if day[0] is None:
            made = cls("", "", True, "", clock_alone, len(hours_alone) == 2)
        else:
            order, full = "".join(part[0] for part in (day[0], day[2], day[3])), "DD" in day
            made = cls(order, day[1], full, between or "", clock or "", hours != "h", zone or "")
        return made if str(made) == name and made.clock in CLOCKS else None

    @property
    def unit(self) -> str:
        """The finest unit of numpy that it shows."""
        return CLOCKS[self.clock]

    def with_(self, other: Moments) -> Moments | None:
        """The form of times of both; None where there is none. Offsets that differ become those of UTC."""
        if (self.order, self.mark, bool(self.zone)) != (other.order, other.mark, bool(other.zone)):
            return None
        return replace(
            self,
            full_day=self.full_day and other.full_day,
            between=self.between or other.between,
            clock=max(self.clock, other.clock, key=len),
            full_hour=self.full_hour and other.full_hour,
            zone=self.zone if self.zone == other.zone else "+00:00",
        )

    def showing(self, unit: str) -> Moments:
        """The same, as fine as that unit needs; clocks that are added show seconds."""
        if UNITS.index(self.unit) >= UNITS.index(unit):
            return self
        needed = max(unit, "s", key=UNITS.index)
        return replace(self, between=self.between or " ", clock=next(c for c, each in CLOCKS.items() if each == needed))

    def write(self, values: np.ndarray) -> list[str]:
        """Times as cells; those with a zone are as clocks there show them."""
        texts = np.datetime_as_string(values.astype(f"datetime64[{self.unit}]")).tolist()
        plain = self.order == "YMD" and self.mark == "-" and self.full_day and self.full_hour and not self.zone
        if plain and self.between != " ":
            return texts
        return [text if text == "NaT" else self._written(text) for text in texts]

    def _written(self, text: str) -> str:
        """
        >>> Moments("DMY", ".", True, " ", "mm")._written("2024-12-31T10:30")
        '31.12.2024 10:30'
        """
        date, _, clock = text.partition("T")
        parts = dict(zip("YMD", date.split("-"), strict=True)) if self.order else {}
        day = self.mark.join(parts[part] if self.full_day else parts[part].lstrip("0") for part in self.order)
        if clock and not self.full_hour:
            clock = clock.removeprefix("0")
        return day + self.between + clock + self.zone


def read_moments(cells: Sequence[str], order: str = "") -> tuple[np.ndarray, Moments, bool] | None:
    """(times in UTC, or without a zone; their form; whether days may be months); None where cells are no times of one form.

    Where days may be months, they are in that ``order``.
    """
    parts = [_parts(cell) for cell in cells]
    forms: dict[tuple[Any, ...], None] = dict.fromkeys(part[:7] for part in parts if part)
    form = None
    for own in forms:
        form = Moments(*own) if form is None else form.with_(Moments(*own))
        if form is None:
            return None
    if form is None or None in parts:
        return None
    dates, clocks, offsets = zip(*(part[7:] for part in parts if part), strict=True)
    unclear = form.order == "DMY" and form.mark != "."
    if unclear:
        over = [max(date[place] for date in dates) > "12" for place in (2, 1)]
        if all(over):
            return None
        form = replace(form, order="MDY" if over[1] else "DMY" if over[0] else order or "DMY")
        unclear = not any(over)
        if form.order == "MDY":
            dates = tuple((year, day, month) for year, month, day in dates)
    try:
        values = np.array(
            [f"{'-'.join(date)}{clock}" for date, clock in zip(dates, clocks, strict=True)], "datetime64[us]"
        )
    except ValueError:  # a thirteenth month
        return None
    if form.zone:
        values = values - np.array([minutes(offset) for offset in offsets], dtype="timedelta64[m]")
    return values, form, unclear


def _parts(cell: str) -> tuple[Any, ...] | None:
    """What :class:`Moments` is made of; and (year, month, day), clock and offset. None of what is no time."""
    if found := ALONE.fullmatch(cell):
        hour, rest = found.groups()
        return "", "", True, "", _clock_of(rest), len(hour) == 2, "", EPOCH, f"T{hour:0>2}:{rest}", ""
    if (found := MOMENT.fullmatch(cell)) is None:
        return None
    first, mark, second, third, between, hour, rest, offset = found.groups(default="")
    if (len(first) == 4) == (len(third) == 4) or (mark == "." and len(first) == 4):
        return None
    order, date = ("YMD", (first, second, third)) if len(first) == 4 else ("DMY", (third, second, first))
    full = len(first) + len(second) + len(third) == 8
    clock = f"T{hour:0>2}:{rest}" if hour else ""
    date = (date[0], date[1].zfill(2), date[2].zfill(2))
    return order, mark, full, between, _clock_of(rest), len(hour) != 1, offset, date, clock, offset


def minutes(offset: str) -> int:
    """Those of an offset of UTC.

    >>> minutes("Z"), minutes("+02"), minutes("-0330")
    (0, 120, -210)
    """
    digits = re.sub(r"\D", "", offset).ljust(4, "0")
    return (-1 if offset[0] == "-" else 1) * (60 * int(digits[:2]) + int(digits[2:]))


def zone_of(offset: str) -> str:
    """The name that pandas has for an offset.

    >>> zone_of("Z"), zone_of("-0330")
    ('UTC', 'UTC-03:30')
    """
    passed = minutes(offset)
    return f"UTC{'-' if passed < 0 else '+'}{abs(passed) // 60:02d}:{abs(passed) % 60:02d}" if passed else "UTC"


def _clock_of(rest: str) -> str:
    """How fine a clock is, by what is behind the hours."""
    if not rest:
        return ""
    places = len(rest.partition(".")[2])
    return "mm:ss" + ("." + "f" * (3 if places <= 3 else 6) if places else "") if ":" in rest else "mm"


def unit_of(values: np.ndarray) -> str:
    """The coarsest unit that shows all of some times."""
    known = values[~np.isnat(values)]
    return next((unit for unit in UNITS if (known.astype(f"datetime64[{unit}]") == known).all()), "us")


def as_column(values: np.ndarray, missing: np.ndarray, form: Moments) -> Any:
    """Times as pandas has them: with their zone, or Python's own times of day."""
    import pandas as pd  # type: ignore[import-untyped]

    if not form.order:
        moments = values.astype("datetime64[us]").astype(object)
        return pd.Series(
            [None if gone else each.time() for each, gone in zip(moments, missing, strict=True)], dtype=object
        )
    known = values[~missing]
    first, last = np.datetime64("1678-01-01"), np.datetime64("2262-01-01")
    near = not known.size or (known.min() >= first and known.max() < last)
    usual = pd.to_datetime(["2000-01-01"]).dtype  # nanoseconds in pandas 2, microseconds in pandas 3
    column = pd.Series(values.astype(usual) if near else values)
    return column.dt.tz_localize("UTC").dt.tz_convert(zone_of(form.zone)) if form.zone else column


def form_for(column: Any, name: str) -> Moments | None:
    """How a column of times is written: in the form of that name if it fits, as fine as it must be; None of other columns."""
    form, zone = Moments.named(name), getattr(column.dtype, "tz", None)
    if getattr(column.dtype, "kind", "O") == "M":
        if form is None or not form.order or bool(form.zone) != (zone is not None):
            form = Moments() if zone is None else None
    elif column.dtype == object and _are_clocks(column):
        form = form if form is not None and not form.order else Moments("", "", clock="mm")
    else:
        form = None
    return None if form is None else form.showing(unit_of(as_values(column, form)))


def as_values(column: Any, form: Moments) -> np.ndarray:
    """Times as clocks show them."""
    if not form.order:
        day = datetime.date(1970, 1, 1)
        gone = column.isna()
        times = [
            None if lost else datetime.datetime.combine(day, each) for each, lost in zip(column, gone, strict=True)
        ]
        return np.array(times, dtype="datetime64[us]")
    if form.zone:
        column = column.dt.tz_convert(zone_of(form.zone)).dt.tz_localize(None)
    return column.to_numpy(dtype="datetime64[us]")


def _are_clocks(column: Any) -> bool:
    known = column.dropna()
    return len(known) > 0 and all(type(each) is datetime.time for each in known)
