"""Columns of text cells: what they hold, as arrays, and arrays as cells again.

An empty cell is missing. NA and the like are missing among numbers, dates and truth values, and words in a column of text. A number
with zeros before it, such as 02139, is text, and so is a whole number that int64 does not hold. Which dates and times are read, is
the business of :mod:`countjump.data.moments`; where nothing says which number is the month, they are text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from countjump.data.moments import Moments, as_column, as_values, form_for, read_moments

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

NA = ("NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL")
ABSENT = {"", *NA}
TRUTH = {"True/False": ("True", "False"), "true/false": ("true", "false"), "TRUE/FALSE": ("TRUE", "FALSE")}
"""How truth values are written."""


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
    return _read_time(cells, joined)


def _read_time(cells: Sequence[str], joined: str, order: str = "") -> Piece | None:
    """Dates and times; days that may be months are in that order."""
    bare, missing = _bare(cells, joined)
    read = read_moments([cell for cell, gone in zip(bare, missing, strict=True) if not gone], order)
    if read is None:
        return None
    known, form, unclear = read
    if unclear and not order:
        return Piece("unclear", cells, missing, str(form), len(cells))
    values = np.full(len(cells), np.datetime64("NaT", "us"))
    values[~missing] = known
    return Piece("time", values, missing, str(form), len(cells))


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
            return "text" if self._moments is None else "time"
        if named == {"unclear"}:
            return "text"
        return named.pop() if len(named) == 1 else "text"

    @property
    def _moments(self) -> Moments | None:
        """How all times are written, where there is one form of them and it is clear."""
        forms = {
            piece.kind: dict.fromkeys(each.form for each in self.pieces if each.kind == piece.kind)
            for piece in self.pieces
        }
        clear = [made for name in forms.get("time", {}) if (made := Moments.named(name))]
        unclear = [made for name in forms.get("unclear", {}) if (made := Moments.named(name))]
        if not clear:
            return None
        months = clear[0].order == "MDY"
        found: Moments | None = clear[0]
        for other in [*clear, *(replace(form, order="MDY") if months else form for form in unclear)]:
            found = found and found.with_(other)
        return found

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
        if self.kind == "time":
            return str(self._moments)
        return next(piece.form for piece in self.pieces if piece.form) if self.kind == "truth" else ""

    def series(self) -> pd.Series:
        """The column as pandas has it: int64 or Int64, float64, bool or boolean, datetime64, or strings."""
        import pandas as pd

        kind = self.kind
        if kind == "text":
            cells = [cell or None for piece in self.pieces for cell in (piece.values or repeat("", piece.size))]
            return pd.Series(cells)
        if kind == "time":
            order = "" if self._moments is None else self._moments.order
            self.pieces = [
                (_read_time(piece.values, "\n".join(piece.values), order) or piece)
                if piece.kind == "unclear"
                else piece
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
            return as_column(values, missing, self._moments or Moments())
        if kind in ("whole", "truth") and missing.any():
            array = pd.arrays.IntegerArray if kind == "whole" else pd.arrays.BooleanArray
            return pd.Series(array(values, missing))
        return pd.Series(values)


# And back.


def form_to_write(column: pd.Series, form: str) -> str:
    """How a column of times or truth values is written: as ``form`` says if nothing is lost by it; "" of other columns."""
    if column.dtype.kind == "b":
        return form if form in TRUTH else "True/False"
    moments = form_for(column, form)
    return "" if moments is None else str(moments)


def write_cells(column: pd.Series, form: str, decimal: str) -> list[Any]:
    """A column as cells; ``form`` is that of :func:`form_to_write`."""
    kind = getattr(column.dtype, "kind", "O")
    gone = column.isna().to_numpy()
    moments = Moments.named(form)
    if moments is not None:
        cells: list[Any] = moments.write(as_values(column, moments))
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
