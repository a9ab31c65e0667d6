"""How a text file is written: its encoding, its separator and its decimal mark, found by looking at it."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from countjump.data.rows import memory

SEPARATORS = (",", ";", "\t", "|")
USUAL = {".csv": ",", ".tsv": "\t"}
"""The separator that a suffix promises; another is found all the same."""
BLOCK = 2**20
"""Bytes that are looked at together."""
HEAD = 2**18
"""Characters at the beginning by which separator and decimal mark are found."""
LINES = 1000
"""Lines of the head that are looked at."""
LONGEST = 2**26
"""Bytes of a line, at most."""
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the bytes that some programs begin a file with; that of UTF-32 begins with that of UTF-16."""
POINT, COMMA = (re.compile(rf"\s*[+-]?\d*{mark}\d+(?:[eE][+-]?\d+)?\s*") for mark in (r"\.", ","))


@dataclass(frozen=True)
class Dialect:
    """How a text file is written; ``forms`` says how columns of dates and truth values are, by their names.

    >>> Dialect(";", ",").described()
    {'separator': ';', 'decimal': ',', 'encoding': 'utf-8', 'line_end': '\\n', 'forms': {}}
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    line_end: str = "\n"
    forms: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or self.separator in '"\r\n0123456789':
            raise ValueError(f"separator {self.separator!r} cannot be: use ',', ';', a tab or '|'")
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal mark {self.decimal!r} cannot be: use '.' or ','")
        if self.line_end not in ("\n", "\r\n", "\r"):
            raise ValueError(f"{self.line_end!r} ends no line")
        check_encoding(self.encoding)

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "forms": dict(self.forms)}

    @classmethod
    def recall(cls, described: Mapping[str, Any]) -> Dialect:
        """Back from :meth:`described`."""
        text = {name: str(described[name]) for name in ("separator", "decimal", "encoding", "line_end")}
        return cls(**text, forms={str(name): str(form) for name, form in described["forms"].items()})


def check_encoding(name: str) -> None:
    """Raise where there is no such encoding of text.

    >>> check_encoding("klingon")
    Traceback (most recent call last):
    ...
    ValueError: encoding 'klingon' is unknown: use utf-8, utf-16, cp1252 or another that Python knows
    """
    try:
        "".encode(name)
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"encoding {name!r} is unknown: use utf-8, utf-16, cp1252 or another that Python knows"
        ) from error


def suffix_of_text(path: Path) -> str:
    """``.csv`` or ``.tsv``, gzipped or not."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked where it is gzipped, whatever its name says."""
    with open(path, "rb") as file:
        packed = path.suffix.lower() == ".gz" or file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else open(path, "rb")


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """The characters of a file, line ends as they are."""
    return io.TextIOWrapper(open_bytes(path), encoding=encoding, newline="")


def find_dialect(
    path: Path, separator: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> Dialect:
    """How a file is written; what is given is taken as it is."""
    encoding = find_encoding(path, encoding)
    with open_text(path, encoding) as file:
        try:
            head = file.read(HEAD)
        except UnicodeError as error:
            raise ValueError(f"{path} is not text in {encoding} ({error}): give its encoding") from error
    whole = len(head) < HEAD
    lines = list(io.StringIO(head, newline=""))[: None if whole else -1][:LINES] or [head]
    if separator is None:
        separator = find_separator(lines, USUAL.get(suffix_of_text(path), ","))
    if decimal is None:
        decimal = find_decimal(lines, separator)
    first = re.search(r"\r\n|\n|\r", head)
    return Dialect(separator, decimal, encoding, first[0] if first else "\n")


def find_encoding(path: Path, given: str | None = None) -> str:
    """That of a file. Bytes that are not UTF-8 are cp1252, as Windows writes, unless UTF-8 came before them."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    found, seen, fallback, line = given, False, "", 1
    for number, block in enumerate(_blocks(path)):
        if number == 0 and found is None:
            found = next((name for mark, name in MARKS.items() if block.startswith(mark)), None) or _wide(block)
        if found is not None and (given or found.startswith(("utf-16", "utf-32"))):
            continue  # read on, as a line may be too long
        if b"\0" in block:
            raise ValueError(f"{path} holds null bytes and is no text: give a text file, or its encoding")
        if fallback:
            continue
        try:
            decoder.decode(block)
            seen = seen or not block.isascii()
            line += block.count(b"\n")
        except UnicodeDecodeError as error:
            if seen or found == "utf-8-sig" or not block[: error.start].isascii():
                line += error.object.count(b"\n", 0, error.start)
                raise ValueError(
                    f"line {line} of {path} holds bytes that are not UTF-8, as the lines before are: mend it, or give its encoding"
                ) from error
            fallback = "cp1252"
        if fallback and re.search(rb"[\x81\x8d\x8f\x90\x9d]", block):
            fallback = "latin-1"  # which knows every byte
    return found or fallback or "utf-8"


def _blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, block by block; one that no memory would hold, and a line without end, are errors."""
    size, since = 0, 0
    with open_bytes(path) as file:
        while block := file.read(BLOCK):
            size += len(block)
            at = max(block.rfind(b"\n"), block.rfind(b"\r"))
            since = since + len(block) if at < 0 else len(block) - at
            if since > LONGEST:
                raise ValueError(f"{path} has a line of more than {LONGEST:,} bytes: is it a table?")
            if size > memory():
                raise ValueError(f"{path} holds more than {size:,} bytes of text, more than there is memory: split it")
            yield block


def _wide(block: bytes) -> str | None:
    """UTF-16 without a mark: every second byte of Western text is zero."""
    pairs = len(block) // 2
    if pairs == 0 or block.count(b"\0") < 0.4 * len(block):
        return None
    zeros = [block[place::2].count(b"\0") for place in (0, 1)]
    if zeros[0] < 0.1 * pairs:
        return "utf-16-le"
    return "utf-16-be" if zeros[1] < 0.1 * pairs else None


def find_separator(lines: list[str], usual: str) -> str:
    """The one by which most lines have as many cells as the first, if that has several.

    >>> find_separator(["name;price", "pen, red;1,5", "ink;12,0"], ",")
    ';'
    """

    def fits(separator: str) -> tuple[float, bool, int]:
        lengths = [len(cells) for cells in _records(lines, separator) if cells]
        if not lengths or lengths[0] < 2:
            return 0.0, separator == usual, 0
        return sum(n == lengths[0] for n in lengths) / len(lengths), separator == usual, lengths[0]

    return max(SEPARATORS, key=fits)


def find_decimal(lines: list[str], separator: str) -> str:
    """A comma, if numbers have commas and none has a point; that which separates cells is none.

    >>> find_decimal(["name;price", "pen, red;1,5"], ";")
    ','
    """
    cells = [cell for row in _records(lines, separator) for cell in row]
    commas = separator != "," and any(map(COMMA.fullmatch, cells))
    return "," if commas and not any(map(POINT.fullmatch, cells)) else "."


def _records(lines: list[str], separator: str) -> list[list[str]]:
    """Cells by a separator that may be wrong; from a line that cannot be read so on, none."""
    found: list[list[str]] = []
    try:
        found.extend(csv.reader(lines, delimiter=separator))
    except csv.Error:
        return found
    return found
