"""Tables in files of every format: what is read is a frame, a matrix or AnnData, and is written in the format of the suffix.

| format | holds | needs |
|---|---|---|
| ``.csv`` ``.tsv`` (``.gz``) | a frame | |
| ``.parquet`` ``.feather`` | a frame | ``countjump[parquet]`` |
| ``.npz`` ``.npy`` ``.csr`` ``.mtx`` (``.gz``) | a matrix, dense or sparse | |
| ``.h5ad`` | AnnData | ``countjump[anndata]`` |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from countjump.atomic import check_writable, plain_path, replacing
from countjump.data import matrices
from countjump.data.annotated import is_anndata
from countjump.data.dialects import USUAL, Dialect, suffix_of_text
from countjump.data.libraries import MissingLibraryError, require_library
from countjump.data.matrixmarket import read_market, write_market
from countjump.data.rows import as_matrix
from countjump.data.text import read_text, write_text

TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
FRAMES = (".parquet", ".feather")
MATRICES = (".npz", ".npy", ".csr")
MARKET = (".mtx", ".mtx.gz")
ANNDATA = ".h5ad"
FORMATS = (*TEXT, *FRAMES, *MATRICES, *MARKET, ANNDATA)


def format_of(path: str | Path) -> str:
    """The suffix of a file, that before ``.gz`` included, if it is one that is read and written here.

    >>> format_of("Sales.CSV.gz")
    '.csv.gz'
    >>> format_of("counts.xlsx")
    Traceback (most recent call last):
    ...
    ValueError: counts.xlsx ends in '.xlsx': use .csv, .tsv, .csv.gz, .tsv.gz, .parquet, ... or .h5ad
    """
    name = Path(path).name.lower()
    found = [suffix for suffix in FORMATS if name.endswith(suffix) and name != suffix]
    if not found:
        suffix = Path(path).suffix
        raise ValueError(f"{path} ends in {suffix!r}: use {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    return max(found, key=len)


def check_target(path: str | Path) -> None:
    """Raise where :func:`write_table` could not write, or would have to replace what it did not write."""
    suffix = format_of(path)
    if suffix in MATRICES:
        matrices.check_target(path)
        return
    check_writable(path)
    if suffix in FRAMES:
        require_library("pyarrow", "parquet", str(path))
    elif suffix == ANNDATA:
        require_library("anndata", "anndata", str(path))


def read_table(
    path: str | Path,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    key: str | None = None,
) -> Any:
    """What a file holds: a DataFrame, an array, CSR or AnnData.

    How a text file is written is found by looking at it, or given: ``separator``, ``decimal`` mark and ``encoding``. ``key`` names
    an array where an ``.npz`` holds several, or a layer of an ``.h5ad`` that is wanted in the place of X.
    """
    return read_with_dialect(path, separator=separator, decimal=decimal, encoding=encoding, key=key)[0]


def read_with_dialect(
    path: str | Path,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    key: str | None = None,
) -> tuple[Any, Dialect | None]:
    """The same, and how it is written if it is text."""
    path = plain_path(path)
    suffix = format_of(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file at {path}: check the name and the directory")
    if path.is_dir() != (suffix == ".csr"):
        kind = "a directory, and only a .csr is one" if path.is_dir() else "a file, and a .csr is a directory"
        raise ValueError(f"{path} is {kind}: give a file")
    if suffix not in TEXT:
        given = {"separator": separator, "decimal": decimal, "encoding": encoding}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"{path} is no text file, and has no {wrong[0]}: leave it out")
    Dialect(separator or ",", decimal or ".", encoding or "utf-8")  # which says what cannot be
    if key is not None and suffix not in (".npz", ANNDATA):
        raise ValueError(f"{path} holds one table, and a key chooses among several: leave the key out")
    with _damage(path):
        if suffix in TEXT:
            return read_text(path, separator, decimal, encoding)
        if suffix in FRAMES:
            return _read_frame(path, suffix), None
        if suffix == ANNDATA:
            return _read_anndata(path, key), None
        return (read_market(path) if suffix in MARKET else matrices.read_matrix(path, key)), None


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes a library raise is one error that names the file."""
    try:
        yield
    except (PermissionError, MissingLibraryError):
        raise
    except MemoryError as error:  # a damaged file may promise anything
        raise ValueError(
            f"{path} holds more than there is memory for, or is damaged: split it, or write it again"
        ) from error
    except Exception as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        raise ValueError(f"{path} is damaged ({error or type(error).__name__}): write it again") from error


def _read_frame(path: Path, suffix: str) -> Any:
    module = require_library(f"pyarrow.{suffix[1:]}", "parquet", str(path))
    table = module.read_table(path)
    table.validate(full=True)  # a damaged file would be read beyond its end
    frame = table.to_pandas()
    if 0 in frame.shape:
        raise ValueError(f"{path} holds {frame.shape[0]} rows and {frame.shape[1]} columns: give some")
    return frame


def _read_anndata(path: Path, layer: str | None) -> Any:
    anndata = require_library("anndata", "anndata", str(path))
    found = anndata.read_h5ad(path)
    if layer is not None:
        if layer not in found.layers:
            known = ", ".join(map(repr, found.layers)) or "none"
            raise ValueError(f"{path} holds no layer {layer!r}: it has {known}")
        found.X = found.layers[layer]
    if found.X is None:
        raise ValueError(f"{path} holds no X: name a layer as the key")
    return found


def write_table(path: str | Path, table: Any, dialect: Dialect | None = None) -> None:
    """Write a frame, a matrix or AnnData in the format of the suffix, text as the ``dialect`` says.

    A matrix becomes a frame with the columns x0, x1, … where the format holds frames, and a frame of numbers a matrix.
    """
    path = plain_path(path)
    check_target(path)
    suffix = format_of(path)
    if suffix in TEXT:
        usual = USUAL[suffix_of_text(path)]
        write_text(path, _as_frame(table), dialect or Dialect(separator=usual))
    elif suffix in FRAMES:
        _write_frame(path, _as_frame(table), suffix)
    elif suffix == ANNDATA:
        _write_anndata(path, table)
    elif suffix in MARKET:
        write_market(path, _as_numbers(path, table))
    else:
        matrices.write_matrix(path, _as_numbers(path, table))


def dialect_for(
    path: str | Path,
    source: Dialect | None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Dialect | None:
    """How to write a text file: as is given, else as the ``source`` was, but with the separator that the suffix promises if that of
    the source does not fit it. None for what is no text."""
    if format_of(path) not in TEXT:
        return None
    usual = USUAL[suffix_of_text(Path(path))]
    base = source or Dialect(separator=usual)
    fitting = usual if "\t" in (usual, base.separator) else base.separator
    return Dialect(
        separator or fitting, decimal or base.decimal, encoding or base.encoding, base.line_end, dict(base.forms)
    )


def is_frame(table: Any) -> bool:
    """Whether it is a DataFrame."""
    return hasattr(table, "iloc") and hasattr(table, "dtypes")


def _as_frame(table: Any) -> Any:
    import pandas as pd  # type: ignore[import-untyped]

    if is_frame(table):
        return table
    if is_anndata(table):
        return table.to_df()
    matrix = as_matrix(table)
    if sp.issparse(matrix):
        matrix = matrix.toarray()
    return pd.DataFrame(matrix, columns=[f"x{place}" for place in range(matrix.shape[1])])


def _as_numbers(path: Path, table: Any) -> Any:
    """A matrix; whatever is no number is an error."""
    if is_anndata(table):
        table = table.X
    if not is_frame(table):
        return as_matrix(table)
    for place, name in enumerate(table.columns):
        column = table.iloc[:, place]
        if getattr(column.dtype, "kind", "O") not in "buif" or str(column.dtype) == "category":
            raise ValueError(f"{path} holds numbers alone, and column {name!r} holds none: write a .csv or .parquet")
        if column.dtype.kind != "f" and column.isna().any():
            raise ValueError(f"{path} cannot hold the missing values of column {name!r}: write a .csv or .parquet")
    if hasattr(table, "sparse") and table.shape[1]:
        return as_matrix(table)
    return np.stack([table.iloc[:, place].to_numpy() for place in range(table.shape[1])], 1)


def _write_frame(path: Path, frame: Any, suffix: str) -> None:
    with replacing(path) as file:
        if suffix == ".parquet":
            frame.to_parquet(file, engine="pyarrow")
        else:
            frame.to_feather(file)


def _write_anndata(path: Path, table: Any) -> None:
    anndata = require_library("anndata", "anndata", str(path))
    if not is_anndata(table):
        names = list(map(str, table.columns)) if is_frame(table) else None
        table = anndata.AnnData(_as_numbers(path, table))
        if names is not None:
            table.var_names = names
    with replacing(path) as file:
        table.write_h5ad(file.name)
