"""Tables of the commands: read with the options that say how they are written, and written as they were read."""

from __future__ import annotations

import difflib
import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countjump.atomic import check_writable, write_atomically
from countjump.cli.asking import UsageError

if TYPE_CHECKING:
    from countjump.data import Dialect

READ = ".csv or .tsv (also .gz), .parquet, .feather, .npz, .npy, .csr, .mtx (also .gz) or .h5ad"
SOURCE = "source.json"
"""In a model's directory: how the text file that it was fitted to is written."""
NAMED = 8
"""Columns that a message names, at most."""


def add_reading(add: Callable[..., None], key: bool = True) -> None:
    """Options that say how files are written; what is not given is found."""
    add("--separator", "MARK", "what separates the cells of text files: , ; tab or | (default: found)")
    add("--decimal", "MARK", "the decimal mark of text files: . or comma (default: found)")
    add("--encoding", "NAME", "the encoding of text files, such as utf-8 or cp1252 (default: found)")
    if key:
        add("--key", "NAME", "which array of an .npz that holds several, or which layer of an .h5ad")


def read(arguments: Namespace, path: str) -> tuple[Any, Dialect | None]:
    """What a file holds, and how it is written if it is text."""
    from countjump.data import Dialect, read_with_dialect

    given = _given(arguments)
    try:
        Dialect(given["separator"] or ",", given["decimal"] or ".", given["encoding"] or "utf-8")
    except ValueError as error:
        raise UsageError(str(error)) from error
    return read_with_dialect(path, **given, key=getattr(arguments, "key", None))


def read_table(arguments: Namespace, path: str) -> tuple[Any, Dialect | None]:
    """As :func:`read`, where it has rows and columns; images are an error."""
    table, dialect = read(arguments, path)
    if getattr(table, "ndim", 2) != 2:
        raise ValueError(
            f"{path} holds an array of shape {table.shape}: this command is for rows and columns. Images go to fit, sample, score, "
            "deepen and complete"
        )
    return table, dialect


def check_out(path: str) -> None:
    """Raise where no table can be written: before the work and not after it."""
    from countjump.data import check_target, format_of

    try:
        format_of(path)
    except ValueError as error:
        raise UsageError(str(error)) from error
    check_target(path)


def check_page(path: str) -> None:
    """The same of a page."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{path} is a page: let its name end in .html")
    check_writable(path)


def write(arguments: Namespace, path: str, table: Any, source: Dialect | None) -> None:
    """Write a table, text as the options say, and as the ``source`` was where they do not."""
    if getattr(table, "ndim", 2) != 2 and Path(path).suffix.lower() not in (".npy", ".npz"):
        raise ValueError(f"images, an array of shape {table.shape}, go to .npy or .npz, and not to {path}")
    from countjump.data import dialect_for, write_table

    write_table(path, table, dialect_for(path, source, **_given(arguments)))


def _given(arguments: Namespace) -> dict[str, str | None]:
    return {name: getattr(arguments, name, None) for name in ("separator", "decimal", "encoding")}


def shape(table: Any) -> str:
    """How large a table is, in words."""
    return f"{table.shape[0]:,} rows × {table.shape[1]:,} columns"


def said_of(dialect: Dialect | None) -> str:
    """How a text file is written, in words; "" for no dialect."""
    if dialect is None:
        return ""
    separator = "tab" if dialect.separator == "\t" else repr(dialect.separator)
    return f"separator {separator}, decimal mark {dialect.decimal!r}, {dialect.encoding}"


def check_label(table: Any, label: str | None, path: str) -> None:
    """Raise where a table has no such column; that of AnnData is one of ``obs``."""
    if label is None:
        return
    names = list(map(str, getattr(getattr(table, "obs", table), "columns", [])))
    if not names:
        raise ValueError(f"{path} has no names of columns, and --label needs one: give a .csv, .parquet or .h5ad")
    if names.count(label) > 1:
        raise ValueError(f"{path} has several columns of the name {label!r}: give each a name of its own")
    if label not in names:
        near = difflib.get_close_matches(label, names, NAMED, 0.5) or names[:NAMED]
        raise ValueError(f"{path} has no column {label!r}: it has {', '.join(map(repr, near))}")


def rows_of(table: Any, places: Any) -> Any:
    """Some rows of a table."""
    if hasattr(table, "iloc"):
        return table.iloc[places].reset_index(drop=True)
    return table[places].copy() if hasattr(table, "obs") else table[places]


def keep_source(model: str, dialect: Dialect | None) -> None:
    """Write down beside a saved model how the file that it was fitted to is written."""
    if dialect is not None:
        described = {"of": _digest(Path(model)), "dialect": dialect.described()}
        write_atomically(Path(model) / SOURCE, (json.dumps(described, indent=1) + "\n").encode())


def recall_source(model: str) -> Dialect | None:
    """What :func:`keep_source` wrote of the very model that is there; None where nothing, or nothing whole, is."""
    from countjump.data import Dialect

    try:
        described = json.loads((Path(model) / SOURCE).read_text(encoding="utf-8"))
        return Dialect.recall(described["dialect"]) if described["of"] == _digest(Path(model)) else None
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # a convenience, and no part of the model
        return None


def _digest(model: Path) -> str:
    return str(json.loads((model / "model.json").read_text(encoding="utf-8"))["digest"])
