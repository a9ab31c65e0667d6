"""Tables in text files, ``.csv`` and ``.tsv``, gzipped or not: a line of names, and a line for every row."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from countjump.atomic import replacing
from countjump.data.cells import Column, form_to_write, read_piece, write_cells
from countjump.data.dialects import Dialect, find_dialect, open_text

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

ROWS = 2**14
"""Rows that are read or written together."""


def read_text(
    path: Path, separator: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> tuple[pd.DataFrame, Dialect]:
    """The table in a text file, and how it is written; what is given of that is taken as it is."""
    import pandas as pd

    dialect = find_dialect(path, separator, decimal, encoding)
    records = _records(path, dialect)
    names = _names(path, records, dialect)
    columns = [Column() for _ in names]
    for rows in _pieces(path, records, len(names)):
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
            column.add(cells, dialect.decimal)
    if not columns[0].pieces:
        raise ValueError(f"{path} holds a line of column names and no rows: give some")
    lost = [place for place, column in enumerate(columns) if column.is_lost]
    if lost:  # numbers at first, and words later: read again, as what they say
        columns = [Column() if place in lost else column for place, column in enumerate(columns)]
        again = _records(path, dialect)
        next(again)
        for rows in _pieces(path, again, len(names)):
            for place in lost:
                columns[place].add_text([row[place] for row in rows])
    forms = {name: column.form for name, column in zip(names, columns, strict=True) if column.form}
    series = {}
    for place, column in enumerate(columns):
        series[place] = column.series()
        column.pieces.clear()
    frame = pd.DataFrame(series)
    frame.columns = pd.Index(names)
    return frame, replace(dialect, forms=forms)


def _records(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """(the line where it begins, cells) of every record; the empty lines at the end are none."""
    with open_text(path, dialect.encoding) as file:
        reader = csv.reader(file, delimiter=dialect.separator, strict=True)
        empty: list[int] = []
        start = 1
        try:
            for cells in reader:
                if not cells:
                    empty.append(start)
                else:
                    yield from ((line, []) for line in empty)
                    empty.clear()
                    yield start, cells
                start = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(
                f"line {start} of {path} has quotes that do not match, or a cell too long ({error}): close them"
            ) from error
        except UnicodeError as error:
            raise ValueError(
                f"line {start} of {path} or one soon after it is not text in {dialect.encoding} ({error}): give its encoding"
            ) from error


def _names(path: Path, records: Iterator[tuple[int, list[str]]], dialect: Dialect) -> list[str]:
    _, names = next(records, (0, None))
    if names is None:
        raise ValueError(f"{path} is empty: it needs a line of column names, and rows")
    if not names or (len(names) == 1 and names[0].startswith("#")):
        what = "is a comment" if names else "holds nothing"
        raise ValueError(
            f"line 1 of {path} {what}, and needs the names of the columns: remove the lines above the names"
        )
    # Numbers that count the columns are names that pandas gives; any others are a row that nobody wants to lose.
    counted = names == [str(place) for place in range(len(names))]
    if not counted and all(read_piece([name], dialect.decimal).kind in ("whole", "real") for name in names):
        raise ValueError(
            f"line 1 of {path} holds numbers, and needs the names of the columns: put a line of names first"
        )
    return names


def _pieces(path: Path, records: Iterable[tuple[int, list[str]]], columns: int) -> Iterator[list[list[str]]]:
    """So many rows at a time; one with too many or too few cells is an error."""
    rest = iter(records)
    while some := list(islice(rest, ROWS)):
        for place, (line, cells) in enumerate(some):
            if len(cells) != columns:
                if columns > 1 or cells:
                    raise ValueError(_wrong_length(path, line, len(cells), columns))
                some[place] = line, [""]  # of one column an empty line is an empty cell
        yield [cells for _, cells in some]


def _wrong_length(path: Path, line: int, found: int, columns: int) -> str:
    if found == 0:
        return f"line {line} of {path} is empty: remove it"
    remedy = "give one for each, quote a cell that holds the separator, or name the separator"
    return f"line {line} of {path} has {found} values for {columns} column{'s' * (columns > 1)}: {remedy}"


class _Lines:
    """What csv writes, with the line ends of the dialect: csv quotes a cell for its line ends only if it ends lines by them."""

    def __init__(self, file: TextIO, end: str) -> None:
        self.file, self.end = file, end

    def write(self, line: str) -> int:
        return self.file.write(line[:-2] + self.end)


def write_text(path: Path, frame: pd.DataFrame, dialect: Dialect) -> None:
    """Write a table as the dialect says."""
    with replacing(path) as file:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                _write(path, cast(BinaryIO, packed), frame, dialect)
        else:
            _write(path, file, frame, dialect)


def _write(path: Path, file: BinaryIO, frame: pd.DataFrame, dialect: Dialect) -> None:
    text = io.TextIOWrapper(file, encoding=dialect.encoding, newline="")
    writer = csv.writer(_Lines(text, dialect.line_end), delimiter=dialect.separator, lineterminator="\r\n")
    forms = [
        form_to_write(frame.iloc[:, place], dialect.forms.get(str(name), ""))
        for place, name in enumerate(frame.columns)
    ]
    try:
        writer.writerow(list(map(str, frame.columns)))
        for start in range(0, len(frame), ROWS):
            some = frame.iloc[start : start + ROWS]
            cells = [write_cells(some.iloc[:, place], form, dialect.decimal) for place, form in enumerate(forms)]
            writer.writerows(zip(*cells, strict=True))
        text.flush()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path} cannot hold {error.object[error.start]!r} in {dialect.encoding}: give the encoding utf-8"
        ) from error
    finally:
        text.detach()
