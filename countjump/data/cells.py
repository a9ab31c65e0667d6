"""Columns of text cells: what they hold, as arrays, and arrays as cells again.

An empty cell is missing. NA and the like are missing among numbers, dates and truth values, and words in a column of text. A number
with zeros before it, such as 02139, is text, and so is a whole number that int64 does not hold. Dates are such as
2024-12-31, 31.12.2024, and 31/12/2024 or 12/31/2024 where some number above 12 says which it is; where none does, they are text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

NA = ("NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL")
ABSENT = {"", *NA}
TRUTH = {"True/False": ("True", "False"), "true/false": ("true", "false"), "TRUE/FALSE": ("TRUE", "FALSE")}
"""How truth values are written."""
DATE = "YYYY-MM-DD"
CLOCKS = {"hh:mm": "m", "hh:mm:ss": "s", "hh:mm:ss.fff": "ms", "hh:mm:ss.ffffff": "us"}
DOTTED, DAY_FIRST, MONTH_FIRST = "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY"
DATES = {DATE: "D"} | {f"{DATE}{mark}{clock}": unit for mark in "T " for clock, unit in CLOCKS.items()}
for _day in (DOTTED, DAY_FIRST, MONTH_FIRST):
    DATES |= {_day: "D"} | {f"{_day} {clock}": CLOCKS[clock] for clock in ("hh:mm", "hh:mm:ss")}
"""How dates and times are written, and numpy's unit of each."""
UNITS = ("D", "m", "s", "ms", "us")
FIRST, LAST = np.datetime64("1678-01-01"), np.datetime64("2262-01-01")
"""Times between them are counted in nanoseconds, as pandas does, others in microseconds."""


def _column_of(cell: str) -> re.Pattern[str]:
    """What matches cells, a line each, all of which are such or missing."""
    absent = "|".join(map(re.escape, NA))
    return re.compile(rf"(?>[ \t]*(?:{cell}|{absent}|)[ \t]*\n)*+", re.ASCII)


def _real(decimal: str) -> str:
    digits = rf"(?:(?:0|[1-9]\d*)(?:{decimal}\d*)?|{decimal}\d+)"
    return rf"[+-]?(?:{digits}(?:[eE][+-]?\d+)?|(?i:inf(?:inity)?))"


NOTHING, WHOLE = _column_of(r"(?!)"), _column_of(r"[+-]?(?:0|[1-9]\d{0,18})")
REAL = {".": _column_of(_real(r"\.")), ",": _column_of(_real(","))}
BOOLEAN = _column_of("|".join(word for words in TRUTH.values() for word in words))
TIME = _column_of(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?")
DOTTED_TIME, SLASHED_TIME = (
    _column_of(rf"\d\d{mark}\d\d{mark}\d{{4}}(?: \d\d:\d\d(?::\d\d)?)?") for mark in (r"\.", "/")
)


@dataclass
class Piece:
    """Some cells of a column, as what they are; ``form`` is how dates or truth values are written."""

    kind: str
    """"blank" (all empty), "absent" (all missing), "whole", "real", "truth", "time", "unclear" or "text".
    Of unclear times, whose days may be months, the values are the cells.
    """
    values: Any = None
    missing: np.ndarray | None = None
    form: str = ""
    size: int = 0


def read_piece(cells: Sequence[str], decimal: str) -> Piece:
    """What some cells are, if all are of one kind; else text.

    >>> read_piece(["3", "", "NA", "12"], ".").values
    array([ 3,  0,  0, 12])
    >>> read_piece(["02139", "10001"], ".").kind
    'text'
    """
    joined = "\n".join(cells) + "\n"
    if joined.count("\n") != len(cells):
        return Piece("text", cells, size=len(cells))
    if NOTHING.fullmatch(joined):
        return Piece("blank" if not joined.strip() else "absent", size=len(cells))
    read = _read_number(cells, joined, decimal) or _read_word(cells, joined)
    return read or Piece("text", cells, size=len(cells))


def _read_number(cells: Sequence[str], joined: str, decimal: str) -> Piece | None:
    if not REAL[decimal].fullmatch(joined):
        return None
    bare, missing = _bare(cells, joined)
    filled = ["0" if gone else cell for cell, gone in zip(bare, missing, strict=True)] if missing.any() else bare
    if WHOLE.fullmatch(joined):
        try:
            return Piece("whole", np.array(list(map(int, filled)), dtype=np.int64), missing, size=len(cells))
        except OverflowError:
            return None
    if decimal == ",":
        filled = [cell.replace(",", ".") for cell in filled]
    reals = np.array(list(map(float, filled)))
    if any(
        "n" not in bare[place].lower() for place in np.flatnonzero(np.isinf(reals)).tolist()
    ):  # 1e400 is no infinity
        return None
    reals[missing] = np.nan
    return Piece("real", reals, missing, size=len(cells))


def _bare(cells: Sequence[str], joined: str) -> tuple[Sequence[str], np.ndarray]:
    """Cells without the blanks around them, and which of them are missing."""
    bare = [cell.strip() for cell in cells] if " " in joined or "\t" in joined else cells
    if "" not in bare and not any(word in joined for word in NA):
        return bare, np.zeros(len(cells), dtype=bool)
    return bare, np.array([cell in ABSENT for cell in bare])


def _read_word(cells: Sequence[str], joined: str) -> Piece | None:
    """Truth values, or dates and times."""
    if BOOLEAN.fullmatch(joined):
        bare, missing = _bare(cells, joined)
        first = next(cell for cell, gone in zip(bare, missing, strict=True) if not gone)
        form = next(form for form, words in TRUTH.items() if first in words)
        return Piece("truth", np.array([cell.lower() == "true" for cell in bare]), missing, form, len(cells))
    try:
        return _read_time(cells, joined)
    except ValueError:  # a thirteenth month
        return None


def _read_time(cells: Sequence[str], joined: str) -> Piece | None:
    """Dates and times, by the order of their numbers."""
    if TIME.fullmatch(joined):
        return _read_days(cells, joined, DATE)
    if DOTTED_TIME.fullmatch(joined):
        return _read_days(cells, joined, DOTTED)
    if not SLASHED_TIME.fullmatch(joined):
        return None
    bare, missing = _bare(cells, joined)
    known = [cell for cell, gone in zip(bare, missing, strict=True) if not gone]
    above = [max(cell[at : at + 2] for cell in known) > "12" for at in (0, 3)]
    if all(above):
        return None
    read = _read_days(cells, joined, MONTH_FIRST if above[1] else DAY_FIRST)
    return read if any(above) else Piece("unclear", cells, missing, read.form, len(cells))


def _read_days(cells: Sequence[str], joined: str, day: str) -> Piece:
    """Dates and times whose days are written so; an error where one is none."""
    bare, missing = _bare(cells, joined)
    filled = ["" if gone else cell for cell, gone in zip(bare, missing, strict=True)]
    texts = filled
    if day != DATE:
        year, month, date = (slice(day.index(part), day.index(part) + len(part)) for part in ("YYYY", "MM", "DD"))
        texts = [cell and f"{cell[year]}-{cell[month]}-{cell[date]}{cell[len(day) :]}" for cell in filled]
    return Piece("time", np.array(texts, dtype="datetime64[us]"), missing, _form_of(filled, day), len(cells))


def _form_of(cells: Sequence[str], day: str) -> str:
    """How the longest of some times is written."""
    longest = max(cells, key=len)
    if len(longest) == len(day):
        return day
    places = len(longest[len(day) :].partition(".")[2])
    clock = "hh:mm" if len(longest) == 16 else "hh:mm:ss" + (".fff" if 0 < places <= 3 else ".ffffff" if places else "")
    return f"{day}{longest[len(day)]}{clock}"


@dataclass
class Column:
    """A column as it is read, piece by piece."""

    pieces: list[Piece] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    """So that equal cells of text are kept once."""

    def add(self, cells: Sequence[str], decimal: str) -> None:
        """Some more cells."""
        piece = read_piece(cells, decimal)
        if piece.kind in ("text", "unclear"):
            piece.values = list(map(self.words.setdefault, cells, cells))
        self.pieces.append(piece)

    @property
    def kind(self) -> str:
        """What fits all pieces; that of numbers among words is "text"."""
        kinds = {piece.kind for piece in self.pieces}
        named = kinds - {"blank", "absent"}
        if not named:
            return "text" if "absent" in kinds else "blank"
        if named == {"whole", "real"}:
            return "real"
        if "time" in named and named <= {"time", "unclear"}:
            days = self._days
            return "time" if len(days) == 1 and (named == {"time"} or days <= {DAY_FIRST, MONTH_FIRST}) else "text"
        if named == {"unclear"}:
            return "text"
        return named.pop() if len(named) == 1 else "text"

    @property
    def _days(self) -> set[str]:
        """How the days of times are written, where that is clear."""
        return {piece.form[: len(DATE)] for piece in self.pieces if piece.kind == "time"}

    @property
    def is_lost(self) -> bool:
        """Whether it is text of which some cells were taken for something else, so that it must be read again."""
        return self.kind == "text" and any(piece.kind not in ("text", "unclear", "blank") for piece in self.pieces)

    def add_text(self, cells: Sequence[str]) -> None:
        """Some more cells of what is known to be text."""
        self.pieces.append(Piece("text", list(map(self.words.setdefault, cells, cells)), size=len(cells)))

    @property
    def form(self) -> str:
        """How dates or truth values are written; "" of others."""
        forms = [piece.form for piece in self.pieces if piece.form]
        if self.kind not in ("time", "truth"):
            return ""
        longest = max(forms, key=len)
        return longest if self.kind == "truth" else self._days.pop() + longest[len(DATE) :]

    def series(self) -> pd.Series:
        """The column as pandas has it: int64 or Int64, float64, bool or boolean, datetime64, or strings."""
        import pandas as pd

        kind = self.kind
        if kind == "text":
            cells = [cell or None for piece in self.pieces for cell in (piece.values or repeat("", piece.size))]
            return pd.Series(cells)
        if kind == "time":
            (day,) = self._days
            self.pieces = [
                _read_days(piece.values, "\n".join(piece.values), day) if piece.kind == "unclear" else piece
                for piece in self.pieces
            ]
        missing = np.concatenate(
            [np.ones(piece.size, bool) if piece.missing is None else piece.missing for piece in self.pieces]
        )
        empty = {"blank": np.nan, "real": np.nan, "whole": 0, "truth": False, "time": np.datetime64("NaT", "us")}[kind]
        values = np.concatenate(
            [np.full(piece.size, empty) if piece.values is None else piece.values for piece in self.pieces]
        )
        if kind == "time":
            known = values[~missing]
            near = not known.size or (known.min() >= FIRST and known.max() < LAST)
            usual = pd.to_datetime(["2000-01-01"]).dtype  # nanoseconds in pandas 2, microseconds in pandas 3
            return pd.Series(values.astype(usual) if near else values)
        if kind in ("whole", "truth") and missing.any():
            array = pd.arrays.IntegerArray if kind == "whole" else pd.arrays.BooleanArray
            return pd.Series(array(values, missing))
        return pd.Series(values)


# And back.


def form_to_write(column: pd.Series, form: str) -> str:
    """How a column of dates or truth values is written: as ``form`` says if nothing is lost by it; "" of other columns."""
    kind = column.dtype.kind
    if kind == "b":
        return form if form in TRUTH else "True/False"
    if kind != "M" or getattr(column.dtype, "tz", None) is not None:
        return ""
    values = column.to_numpy(dtype="datetime64[us]")
    values = values[~np.isnat(values)]
    needed = next((u for u in UNITS if (values.astype(f"datetime64[{u}]") == values).all()), "us")
    if form in DATES and UNITS.index(DATES[form]) >= UNITS.index(needed):
        return form
    if needed == "D":
        return DATE
    mark, unit = "T" if "T" in form else " ", max(needed, "s", key=UNITS.index)
    days = (form[: len(DATE)], DATE)  # the other days have no fractions of seconds
    return next(n for day in days for n, each in DATES.items() if each == unit and n.startswith(f"{day}{mark}"))


def write_cells(column: pd.Series, form: str, decimal: str) -> list[Any]:
    """A column as cells; ``form`` is that of :func:`form_to_write`."""
    kind = getattr(column.dtype, "kind", "O")
    gone = column.isna().to_numpy()
    if form in DATES:
        times = column.to_numpy(dtype="datetime64[us]").astype(f"datetime64[{DATES[form]}]")
        texts = np.datetime_as_string(times).tolist()
        if not form.startswith(DATE):
            texts = [text if text == "NaT" else _reordered(text, form[: len(DATE)]) for text in texts]
        cells: list[Any] = texts if "T" in form else [text.replace("T", " ") for text in texts]
    elif form in TRUTH:
        yes, no = TRUTH[form]
        cells = [yes if value is True else no for value in column.astype(object)]
    elif kind == "f":
        values = column.to_numpy(dtype=column.dtype.name.lower(), na_value=np.nan)
        cells = values.tolist() if values.dtype.itemsize == 8 else values.astype(str).tolist()
        if decimal == ",":
            cells = [str(value).replace(".", ",") for value in cells]
    else:
        cells = column.tolist()
    return ["" if missing else cell for cell, missing in zip(cells, gone, strict=True)] if gone.any() else cells


def _reordered(text: str, day: str) -> str:
    """A time as numpy writes it, with its day as others do.

    >>> _reordered("2024-12-31T10:30", "DD.MM.YYYY")
    '31.12.2024T10:30'
    """
    date, mark, clock = text.partition("T")
    for part, number in zip(("YYYY", "MM", "DD"), date.rsplit("-", 2), strict=True):
        day = day.replace(part, number)
    return day + mark + clock
