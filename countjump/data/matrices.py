"""Matrices in files: scipy's sparse ``.npz``, numpy's ``.npz`` and ``.npy``, and ``.csv`` or ``.tsv`` with a line of names; and
``.csr``, a directory with the arrays of a CSR matrix, which is read where it lies.

Nothing is ever unpickled, and nothing is allocated that a file only promises: what a header says is held against the size of
the file. A file is written beside its place and renamed, so that no half-written one is left.

A ``.csr`` holds ``data-….npy``, ``indices-….npy`` and ``indptr-….npy``, and ``countjump-csr.json``, which names these three and
the shape. A matrix that takes its place is written beside it under new names; then the JSON file is replaced, and the arrays
that it no longer names are removed. So a crash leaves the old matrix, or the new one, whole. The layout before, ``data.npy``,
``indices.npy``, ``indptr.npy`` and ``shape.npy``, is read, too. No file of another name is ever touched.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import secrets
import zipfile
from array import array
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from countjump.atomic import TEMPORARY, check_writable, plain_path, remove_leftovers, replacing, write_atomically
from countjump.data.rows import INDEX_ARRAYS, MOST, Matrix, Rows, as_matrix, csr_of_arrays, memory

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".npz", ".npy", ".csr", *SEPARATORS)
CSR_FILE = "countjump-csr.json"
CSR_FORMAT = {"format": "countjump-csr", "version": 1}
CSR_PARTS = ("data", "indices", "indptr")
CSR_BEFORE = {f"{name}.npy" for name in (*CSR_PARTS, "shape")}
CSR_ARRAY = re.compile(r"(?:data|indices|indptr)-(\d{1,9})-[0-9a-f]{16}\.npy")
"""Names of arrays: the process that wrote them, and what tells them from others."""
SPARSE_KEYS = {"format", "data", "shape"}
"""What every file of ``scipy.sparse.save_npz`` holds."""
HEADER = 2**14
"""Bytes at the beginning of an array where its header ends: numpy refuses longer ones."""
DEFLATE = 1100
"""More than deflate can make of a byte."""
NUMBER = "a number such as 12 or 0.5 (not 1_000), of at most 2^53"


def read_matrix(path: str | Path, key: str | None = None) -> Matrix:
    """The matrix in a file; ``key`` names the array where an ``.npz`` holds several."""
    path = plain_path(path)
    suffix = check_suffix(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file at {path}: check the name and the directory")
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
        with open(path, "rb") as file:
            return _read_npz(path, file, key) if suffix == ".npz" else _read_npy(path, file)
    except PermissionError:
        raise
    except Exception as error:  # damaged bytes make zipfile, zlib, numpy, scipy and json raise almost anything
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        raise ValueError(f"{path} is damaged ({error or type(error).__name__}): write it again") from error


def read_names(path: str | Path) -> list[str] | None:
    """The names in the first line of a ``.csv`` or ``.tsv``; other files have none."""
    separator = SEPARATORS.get(Path(path).suffix.lower())
    return None if separator is None else _header(Path(path), _lines(Path(path), separator))


def write_matrix(path: str | Path, X: Matrix, names: list[str] | None = None) -> None:
    """Write a matrix in the format of the file's suffix.

    ``.npz``: sparse as ``scipy.sparse.save_npz`` does, dense as an array ``X``. ``.npy``, ``.csv`` and ``.tsv`` are dense; the
    last two begin with the names, or x0, x1, …. ``.csr`` is a directory.
    """
    path = Path(path)
    check_target(path)
    suffix = check_suffix(path)
    X = as_matrix(X)
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"{len(names)} names for the {X.shape[1]} columns of {path}: give one for each")
    if suffix == ".csr":
        _write_csr(path, sp.csr_matrix(Rows(X).matrix))
        return
    buffer = io.BytesIO()
    dense = X.toarray() if sp.issparse(X) and suffix != ".npz" else X
    try:
        if sp.issparse(dense):
            sp.save_npz(buffer, X)
        elif suffix == ".npz":
            np.savez_compressed(buffer, X=X)
        elif suffix == ".npy":
            np.save(buffer, dense, allow_pickle=False)
        else:
            buffer.write(_as_text(dense, SEPARATORS[suffix], names).encode())
    except ValueError as error:  # by which zipfile hides a Ctrl-C
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
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


def check_target(path: str | Path) -> None:
    """Raise where :func:`write_matrix` could not write, or would have to replace what it did not write."""
    directory = check_suffix(path) == ".csr"
    if directory and Path(path).is_file():
        raise ValueError(f"{path} is a file, and a .csr is a directory: choose another name")
    check_writable(path, directory)
    there = set(os.listdir(path)) if directory and os.path.isdir(path) else set()
    foreign = {name for name in there if not (CSR_ARRAY.fullmatch(name) or TEMPORARY.fullmatch(name))}
    if CSR_FILE not in there and foreign and foreign != CSR_BEFORE:
        raise ValueError(f"{path} is a directory with {min(foreign)!r}, and no .csr of countjump: choose another name")


def _read_csr(path: Path) -> sp.csr_matrix:
    """The arrays stay on disk: they are looked over once, and then read where they are touched."""

    def load(name: str) -> np.ndarray:
        with open(path / name, "rb") as file:
            _check_array(path, file, os.fstat(file.fileno()).st_size)
        return np.load(path / name, mmap_mode="r", allow_pickle=False)

    described = _describe_csr(path)
    shape = described["shape"] if "shape" in described else load("shape.npy").tolist()
    return csr_of_arrays("csr", shape, {part: _numbers(path, load(described[part])) for part in CSR_PARTS})


def _describe_csr(path: Path) -> dict[str, Any]:
    """What the files of the arrays are called; and the shape, but in the layout before."""
    if not (path / CSR_FILE).exists():
        return {part: f"{part}.npy" for part in CSR_PARTS}
    described = json.loads((path / CSR_FILE).read_text(encoding="utf-8"))
    if {name: described.get(name) for name in CSR_FORMAT} != CSR_FORMAT:
        raise ValueError(f"{path / CSR_FILE} is of another version of countjump: read the matrix with that one")
    if not all(CSR_ARRAY.fullmatch(described[part]) for part in CSR_PARTS):
        raise ValueError(f"{path / CSR_FILE} names files that are no arrays of countjump: write the matrix again")
    return described


def _csr_files(path: Path) -> set[str]:
    """The arrays in use; none where nobody can say."""
    try:
        described = _describe_csr(path)
    except Exception:  # a damaged file, which is about to be replaced
        return set()
    return {described[part] for part in CSR_PARTS} if "shape" in described else CSR_BEFORE


def _write_csr(path: Path, X: sp.csr_matrix) -> None:
    path.mkdir(parents=True, exist_ok=True)
    mark = f"{os.getpid()}-{secrets.token_hex(8)}"
    names = {part: f"{part}-{mark}.npy" for part in CSR_PARTS}
    before = _csr_files(path)
    try:
        for part, name in names.items():
            with replacing(path / name) as file:
                np.lib.format.write_array(file, np.asarray(getattr(X, part)), allow_pickle=False)
        described = CSR_FORMAT | names | {"shape": [int(length) for length in X.shape]}
        write_atomically(path / CSR_FILE, (json.dumps(described, indent=1) + "\n").encode())
    finally:  # whether or not it came to the last line
        used = _csr_files(path)
        for name in {*before, *names.values()} - used:
            (path / name).unlink(missing_ok=True)
        remove_leftovers(path, CSR_ARRAY, used)
        if not os.listdir(path):
            path.rmdir()


def _read_npz(path: Path, file: BinaryIO, key: str | None) -> Matrix:
    if not zipfile.is_zipfile(file):
        write = "numpy.savez or scipy.sparse.save_npz"
        raise ValueError(f"{path} is not an .npz file (no zip archive): write it with {write}")
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

        def load(name: str) -> np.ndarray:
            _check_member(path, members[name], size)
            with archive.open(members[name]) as part:
                _check_array(path, part, members[name].file_size)
            with archive.open(members[name]) as part:
                return np.lib.format.read_array(part, allow_pickle=False)

        if set(members) >= SPARSE_KEYS:
            if key is not None:
                raise ValueError(f"{path} holds one sparse matrix: leave the key out")
            kind = load("format").item()
            kind = kind.decode() if isinstance(kind, bytes) else kind
            arrays = {name: _numbers(path, load(name)) for name in ("data", *INDEX_ARRAYS[kind])}
            return csr_of_arrays(kind, load("shape").tolist(), arrays)
        if not members:
            raise ValueError(f"{path} holds no array: write one with numpy.savez")
        if key is None and len(members) > 1:
            raise ValueError(f"{path} holds several arrays ({', '.join(map(repr, members))}): choose one by its key")
        if key is not None and key not in members:
            raise ValueError(f"{path} holds no array {key!r}: use one of {', '.join(map(repr, members))}")
        return _numbers(path, load(key or next(iter(members))))


def _read_npy(path: Path, file: BinaryIO) -> np.ndarray:
    if file.read(6) != b"\x93NUMPY":
        raise ValueError(f"{path} is not an .npy file: write it with numpy.save")
    size = os.fstat(file.fileno()).st_size
    _check_memory(path, size)
    file.seek(0)
    _check_array(path, file, size)
    file.seek(0)
    return _numbers(path, np.lib.format.read_array(file, allow_pickle=False))


def _check_member(path: Path, member: zipfile.ZipInfo, size: int) -> None:
    """Refuse a member of an archive that numpy did not write, or that is larger than such an archive can hold."""
    place = PurePosixPath(member.filename)
    if place.suffix != ".npy" or place.is_absolute() or ".." in place.parts:
        raise ValueError(f"{path} holds {member.filename!r}, which is no array: write it with numpy.savez")
    if member.flag_bits & 1:
        raise ValueError(f"{path} is encrypted: write it without a password")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{path} is compressed as numpy does not: write it with numpy.savez_compressed")
    if member.compress_size > size or member.file_size > DEFLATE * (member.compress_size + 1):
        raise ValueError(f"{path} is damaged ({member.filename!r} is not as large as it says): write it again")
    _check_memory(path, member.file_size)


def _check_memory(path: Path, size: int) -> None:
    if size > memory():
        raise ValueError(
            f"{path} holds an array of {size:,} bytes, more than there is memory: write a sparse one as .csr"
        )


def _check_array(path: Path, file: IO[bytes], size: int) -> None:
    """Refuse an array whose header promises what its ``size`` bytes do not hold, before it is allocated."""
    head = io.BytesIO(file.read(HEADER))
    version = np.lib.format.read_magic(head)
    old = version == (1, 0)
    shape, _, dtype = (np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0)(head)
    if dtype.hasobject:
        raise ValueError(f"{path} holds Python objects, which are never unpickled here: save an array of numbers")
    promised = head.tell() + math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or promised != size:
        raise ValueError(
            f"{path} is damaged (an array of shape {shape} takes {promised:,} bytes, not {size:,}): write it again"
        )


def _numbers(path: Path, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "buif":
        raise ValueError(f"{path} holds values of dtype {values.dtype}, and needs numbers: encode them first")
    return values


def _lines(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(number of its line, cells) of every row of a text; the empty lines at its end are none."""
    try:
        text = io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error}): save it as UTF-8") from error
    reader = csv.reader(text, delimiter=separator, strict=True)
    empty: list[int] = []
    try:
        for cells in reader:
            if len(cells) <= 1 and not "".join(cells).strip():
                empty.append(reader.line_num)
                continue
            yield from ((number, []) for number in empty)
            empty.clear()
            yield reader.line_num, cells
    except csv.Error as error:
        raise ValueError(
            f"line {reader.line_num} of {path} has quotes that do not match ({error}): close them"
        ) from error


def _header(path: Path, lines: Iterator[tuple[int, list[str]]]) -> list[str]:
    _, names = next(lines, (0, None))
    if names is None:
        raise ValueError(f"{path} is empty: it needs a line of column names, and rows of numbers")
    # Numbers that count the columns are names that pandas gives; any others are a row that nobody wants to lose.
    if not names or (names != [str(place) for place in range(len(names))] and all(map(_is_number, names))):
        held = "numbers" if names else "nothing"
        raise ValueError(
            f"line 1 of {path} holds {held}, and needs the names of the columns: put a line of names first"
        )
    return names


def _read_text(path: Path, separator: str) -> np.ndarray:
    lines = _lines(path, separator)
    names = _header(path, lines)
    numbers = array("d")
    for number, cells in lines:
        if cells and len(cells) != len(names):
            raise ValueError(
                f"line {number} of {path} has {len(cells)} values for {len(names)} columns: give one for each"
            )
        try:
            numbers.extend(_row(cells or [""]))
        except ValueError:
            place = [_is_number(cell) for cell in cells].index(False) if cells else 0
            column, cell = names[place], cells[place] if cells else ""
            found = f"holds {cell!r}" if cell.strip() else "is empty"
            raise ValueError(f"line {number} of {path}, column {column!r}, {found}, and needs {NUMBER}") from None
    if not numbers:
        raise ValueError(f"{path} holds a line of column names and no rows: give some")
    values = np.frombuffer(numbers).reshape(-1, len(names))
    whole = np.isfinite(values).all() and (values == np.floor(values)).all() and np.abs(values).max() <= MOST
    return values.astype(np.int64) if whole else values.copy()


def _row(cells: list[str]) -> list[float]:
    """Stricter than Python: 1_000 and digits of other scripts are mistakes, and so is a count that float64 would change."""
    text, values = "".join(cells), list(map(float, cells))
    if "_" in text or not text.isascii():
        raise ValueError
    if MOST in values and any(Decimal(c.strip()) != MOST for c, v in zip(cells, values, strict=True) if v == MOST):
        raise ValueError
    return values


def _is_number(text: str) -> bool:
    try:
        _row([text])
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
