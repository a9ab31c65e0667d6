"""Matrices in files: scipy's sparse ``.npz``, numpy's ``.npz`` and ``.npy``, and ``.csv`` or ``.tsv`` with a line of names; and
``.csr``, a directory with the arrays of a CSR matrix, which is read where it lies.

Nothing is ever unpickled, and a file is written beside its place and renamed, so that no half-written one is left.
"""

from __future__ import annotations

import csv
import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from countjump.atomic import write_atomically
from countjump.data.rows import Matrix

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".npz", ".npy", ".csr", *SEPARATORS)
CSR_PARTS = ("data", "indices", "indptr", "shape")
SPARSE_KEYS = {"format", "data", "shape"}
"""What every file of ``scipy.sparse.save_npz`` holds."""


def read_matrix(path: str | Path, key: str | None = None) -> Matrix:
    """The matrix in a file; ``key`` names the array where an ``.npz`` holds several."""
    path = Path(path)
    suffix = check_suffix(path)
    if not path.exists():
        raise FileNotFoundError(f"no file at {path}")
    if path.is_file() == (suffix == ".csr"):
        kind = "a file, and a .csr is a directory" if path.is_file() else "a directory, and only a .csr is one"
        raise ValueError(f"{path} is {kind}: give what write_matrix wrote")
    if key is not None and suffix != ".npz":
        raise ValueError(f"{path} holds one matrix, and a key chooses among the arrays of an .npz: leave the key out")
    if suffix in SEPARATORS:
        return _read_text(path, SEPARATORS[suffix])
    try:
        if suffix == ".csr":
            return _read_csr(path)
        return _read_npz(path, key) if suffix == ".npz" else _read_npy(path)
    except (zipfile.BadZipFile, EOFError, OSError, TypeError, ValueError) as error:
        if "allow_pickle" in str(error) and suffix != ".csr":
            why = "holds Python objects, which are never unpickled here: save an array of numbers"
            raise ValueError(f"{path} {why}") from error
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        raise ValueError(f"{path} is damaged ({error}): write it again") from error


def read_names(path: str | Path) -> list[str] | None:
    """The names in the first line of a ``.csv`` or ``.tsv``; other files have none."""
    separator = SEPARATORS.get(Path(path).suffix.lower())
    return None if separator is None else _header(Path(path), _text(Path(path)), separator)


def write_matrix(path: str | Path, X: Matrix, names: list[str] | None = None) -> None:
    """Write a matrix in the format of the file's suffix.

    ``.npz``: sparse as ``scipy.sparse.save_npz`` does, dense as an array ``X``. ``.npy``, ``.csv`` and ``.tsv`` are dense; the
    last two begin with the names, or x0, x1, …. ``.csr`` is a directory.
    """
    path = Path(path)
    suffix = check_suffix(path)
    if suffix == ".csr":
        _write_csr(path, sp.csr_matrix(X))
        return
    buffer = io.BytesIO()
    dense = X.toarray() if sp.issparse(X) and suffix != ".npz" else X
    if sp.issparse(dense):
        sp.save_npz(buffer, sp.csr_matrix(X))
    elif suffix == ".npz":
        np.savez_compressed(buffer, X=X)
    elif suffix == ".npy":
        np.save(buffer, dense, allow_pickle=False)
    else:
        buffer.write(_as_text(dense, SEPARATORS[suffix], names).encode())
    write_atomically(path, buffer.getvalue())


def check_suffix(path: str | Path) -> str:
    """The suffix, if it is one that is read and written here.

    >>> check_suffix("counts.xlsx")
    Traceback (most recent call last):
    ...
    ValueError: counts.xlsx ends in '.xlsx': use .npz, .npy, .csr, .csv or .tsv
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path} ends in {suffix!r}: use {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    return suffix


def _read_csr(path: Path) -> sp.csr_matrix:
    """The arrays stay on disk: they are looked over once, and then read where they are touched."""
    *parts, shape = (np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in CSR_PARTS)
    matrix = sp.csr_matrix(tuple(parts), shape=tuple(shape.tolist()))
    matrix.check_format(full_check=True)
    return matrix


def _write_csr(path: Path, X: sp.csr_matrix) -> None:
    if path.is_file():
        raise ValueError(f"{path} is a file, and a .csr is a directory: choose another name")
    beside, before = (path.with_name(f"{path.name}.{word}") for word in ("new", "old"))
    for leftover in (beside, before):
        shutil.rmtree(leftover, ignore_errors=True)
    beside.mkdir(parents=True)
    if not X.has_canonical_format:  # else it would be copied when it is read
        X = X.copy()
        X.sum_duplicates()
    for name in CSR_PARTS:
        np.save(beside / f"{name}.npy", np.asarray(getattr(X, name)), allow_pickle=False)
    if path.exists():
        path.rename(before)
    beside.rename(path)
    shutil.rmtree(before, ignore_errors=True)


def _read_npz(path: Path, key: str | None) -> Matrix:
    if not zipfile.is_zipfile(path):
        write = "numpy.savez or scipy.sparse.save_npz"
        raise ValueError(f"{path} is not an .npz file (no zip archive): write it with {write}")
    with np.load(path, allow_pickle=False) as arrays:
        names = list(arrays.files)
        if set(names) >= SPARSE_KEYS:
            if key is not None:
                raise ValueError(f"{path} holds one sparse matrix: leave the key out")
            return sp.csr_matrix(_numbers(path, sp.load_npz(path)))
        if not names:
            raise ValueError(f"{path} holds no array")
        if key is None and len(names) > 1:
            raise ValueError(f"{path} holds several arrays ({', '.join(names)}): choose one by its key")
        if key is not None and key not in names:
            raise ValueError(f"{path} holds no array {key!r}, only {', '.join(names)}")
        return _numbers(path, arrays[key or names[0]])


def _read_npy(path: Path) -> np.ndarray:
    if path.read_bytes()[:6] != b"\x93NUMPY":
        raise ValueError(f"{path} is not an .npy file: write it with numpy.save")
    return _numbers(path, np.load(path, allow_pickle=False))


def _numbers(path: Path, matrix: Matrix) -> Matrix:
    if matrix.dtype.kind not in "buif":
        raise ValueError(f"{path} holds values of dtype {matrix.dtype}, and needs numbers: encode them first")
    return matrix


def _text(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error})") from error
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _header(path: Path, lines: list[str], separator: str) -> list[str]:
    if not lines:
        raise ValueError(f"{path} is empty: it needs a line of column names, and rows of numbers")
    names = next(csv.reader([lines[0]], delimiter=separator))
    # Numbers that count the columns are names that pandas gives; any others are a row that nobody wants to lose.
    if names != [str(place) for place in range(len(names))] and all(map(_is_number, names)):
        needs = "the names of the columns: put a line of names first"
        raise ValueError(f"line 1 of {path} holds numbers, and needs {needs}")
    return names


def _read_text(path: Path, separator: str) -> np.ndarray:
    lines = _text(path)
    names = _header(path, lines, separator)
    if len(lines) == 1:
        raise ValueError(f"{path} holds a line of column names and no rows")
    for number, line in enumerate(lines[1:], start=2):
        if line.count(separator) != len(names) - 1:
            raise ValueError(f"line {number} of {path} has {line.count(separator) + 1} values for {len(names)} columns")
    try:
        values = np.loadtxt(lines[1:], delimiter=separator, ndmin=2, quotechar='"', comments=None)
    except ValueError as error:
        raise _not_a_number(path, lines, names, separator) or ValueError(f"{path}: {error}") from error
    whole = np.isfinite(values).all() and (values == np.floor(values)).all() and np.abs(values).max() < 2**53
    return values.astype(np.int64) if whole else values


def _not_a_number(path: Path, lines: list[str], names: list[str], separator: str) -> ValueError | None:
    for number, line in enumerate(csv.reader(lines[1:], delimiter=separator), start=2):
        for name, value in zip(names, line, strict=False):
            if not _is_number(value):
                found = f"holds {value!r}" if value.strip() else "is empty"
                return ValueError(f"line {number} of {path}, column {name!r}, {found}, and needs a number")
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_text(dense: np.ndarray, separator: str, names: list[str] | None) -> str:
    values = dense.astype(np.uint8) if dense.dtype == bool else dense
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    writer.writerow(names if names is not None else [f"x{column}" for column in range(dense.shape[1])])
    writer.writerows(values.astype(str).tolist())
    return out.getvalue()
