"""Matrices in the Matrix Market format, ``.mtx`` and ``.mtx.gz``."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import scipy.sparse as sp

from countjump.atomic import replacing
from countjump.data.dialects import open_bytes
from countjump.data.rows import Matrix, memory

SHORTEST = {"coordinate": 4, "array": 2}
"""Bytes of an entry at least, by the format: "1 1" or "1", and the end of its line."""
LONGEST = 2**16
"""Bytes of a line of the header, at most."""


def read_market(path: Path) -> Matrix:
    """The matrix in a file: CSR, or dense if it is written so. What its header promises is held against its size."""
    from scipy.io import mmread

    with open_bytes(path) as file:
        _check_header(path, file)
    with open_bytes(path) as file:
        found = mmread(file)
    return sp.csr_matrix(found) if sp.issparse(found) else np.asarray(found)


def _check_header(path: Path, file: BinaryIO) -> None:
    words = file.readline(LONGEST).decode("utf-8", "replace").lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix" or words[2] not in SHORTEST:
        raise ValueError(f"{path} is not a Matrix Market file: write it with scipy.io.mmwrite")
    if words[3] not in ("integer", "unsigned-integer", "real", "pattern"):
        raise ValueError(f"{path} holds {words[3]} values: give whole numbers or reals")
    line = b"%"
    while line.startswith(b"%") or (line and not line.strip()):
        line = file.readline(LONGEST)
    try:
        sizes = [int(word) for word in line.split()]
    except ValueError:
        sizes = []
    if len(sizes) != (3 if words[2] == "coordinate" else 2) or min(sizes) < 0:
        raise ValueError(f"{path} is damaged (its header says no size): write it again")
    rows, columns, *entries = sizes
    entry = entries[0] if entries else rows * columns
    if words[4] == "general" and entry * SHORTEST[words[2]] > _bytes_after(path, file):
        raise ValueError(f"{path} is damaged (it promises {entry:,} entries and is too short): write it again")
    if 8 * (rows + 3 * entry) > memory():
        raise ValueError(f"{path} holds {rows:,} rows with {entry:,} entries, more than there is memory")


def _bytes_after(path: Path, file: BinaryIO) -> int:
    """How many bytes are left, at least one more than an unended last line needs."""
    size = 1
    while block := file.read(2**20):
        size += len(block)
    return size


def write_market(path: Path, X: Matrix) -> None:
    """Write a matrix: sparse ones as their non-zeros, dense ones as all their entries."""
    from scipy.io import mmwrite

    with replacing(path) as file:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                mmwrite(cast(BinaryIO, packed), X, symmetry="general")
        else:
            mmwrite(file, X, symmetry="general")
