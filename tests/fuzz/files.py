"""``read_matrix`` and ``write_matrix``: every suffix, damaged bytes, hostile headers and texts, and foreign neighbours."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from countjump.data import read_matrix, read_names, write_matrix

from .arrays import small_model
from .case import Case, mutate
from .children import apart
from .inputs import MATRICES, TAMPERED
from .oracle import attempt, check, check_files, check_unchanged, contents, dense, granted, tree

SUFFIXES = [".npz", ".npy", ".csr", ".csv", ".tsv"]
NEIGHBOURS = ["{}.part", "{}.old", "{}.new", "{}.tmp", "{}~", ".{}", ".{}.part", "notes.txt", "other.csr", "{}.lock"]


def case(case: Case) -> None:
    case.scenario({_back: 5, _mutated: 5, _tampered: 3, _header: 3, _archive: 2, _text: 5, _asked: 3, _foreign: 1})


def files_of(path: Path) -> list[Path]:
    """Of a .csr: its arrays, and what names them, in an order that does not hang on the names."""
    return sorted(path.iterdir(), key=lambda each: each.name.partition("-")[0])


def plant(case: Case, name: str) -> None:
    """Files and directories of the user's, called much as temporary ones might be."""
    for pattern in case.random.sample(NEIGHBOURS, case.whole(0, 4)):
        place = case.place / pattern.format(name)
        if case.chance(0.4):
            place.mkdir()
            place = place / "mine.txt"
        place.write_bytes(b"mine")


def _back(case: Case) -> None:
    """What is written comes back; what lies beside it stays."""
    given, suffix = case.one_of(MATRICES), case.one_of(SUFFIXES)
    case.note(f"{given.name} as {suffix}")
    X = given.make(case.numbers())
    path, before = case.place / f"a{suffix}", contents(X)
    plant(case, path.name)
    files = tree(case.place)
    for _ in range(case.one_of([1, 1, 2])):
        granted(lambda: write_matrix(case.one_of([str, Path])(path), X), f"write_matrix {suffix}")
        check_unchanged(X, before, "write_matrix")
        check_files(case.place, files, lambda name: Path(name).parts[0] == path.name, f"write_matrix {suffix}")
    back = granted(lambda: read_matrix(path), f"read_matrix {suffix}")
    right = np.array_equal(dense(back).astype(X.dtype), dense(X))
    check(right, "wrong result", f"read_matrix {suffix}: other values", dense(X))
    if suffix in (".npz", ".npy"):
        check(back.dtype == X.dtype, "wrong result", f"read_matrix {suffix}: another dtype", (back.dtype, X.dtype))


def _use(case: Case, path: Path) -> Any:
    """Read a file that may be anything, and fit what comes of it, in a child."""

    def read_and_fit() -> str:
        X, error = attempt(lambda: read_matrix(path))
        if error is not None:
            return str(error)
        check(sp.issparse(X) or isinstance(X, np.ndarray), "wrong result", "read_matrix: no matrix", type(X))
        if X.ndim == 2 and X.shape[0] * X.shape[1] < 10**6:
            attempt(lambda: small_model(case, max_updates=1).fit(X))
        return ""

    return apart(read_and_fit, f"read and fit {path.suffix}")[1]


def _mutated(case: Case) -> None:
    given, suffix = case.one_of(MATRICES), case.one_of(SUFFIXES)
    path = case.place / f"a{suffix}"
    X = given.make(case.numbers())
    case.note(f"{given.name} as {suffix}")
    if suffix == ".npz" and sp.issparse(X) and case.chance(0.5):
        sp.save_npz(path, sp.coo_array(X) if case.chance(0.3) else sp.csr_matrix(X), compressed=case.chance(0.5))
    else:
        write_matrix(path, X)
    target = path if path.is_file() else case.one_of(files_of(path))
    if case.chance(0.05):
        target.unlink()
    else:
        target.write_bytes(mutate(case, target.read_bytes()))
    _use(case, path)


def _tampered(case: Case) -> None:
    """Whole files of sparse matrices whose arrays contradict each other."""
    X = case.one_of(TAMPERED).make(case.numbers())
    path = case.place / case.one_of(["a.npz", "a.csr"])
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "row", "col") if hasattr(X, name)}
    shape = case.one_of([X.shape, X.shape, X.shape, (2**40, 3), (-1, 2), (3,), (2, 2, 2), (1.5, 2), ()])
    case.note(f"{X.format} as {path.suffix}, shape {shape}")
    if path.suffix == ".csr":
        path.mkdir()
        for name, array in (parts | {"shape": np.asarray(shape)}).items():
            np.save(path / f"{name}.npy", array)
    else:
        form = case.one_of([X.format, X.format, "csr", "xyz", "dia", "lil"])
        np.savez(path, format=np.asarray(case.one_of([form.encode(), form])), shape=np.asarray(shape), **parts)
    said = _use(case, path)
    check(said or (X.format == "coo" and path.suffix == ".csr"), "accepted", f"tampered {path.suffix}")


def _npy(case: Case) -> bytes:
    """A header that promises anything, with little behind it."""
    shapes = [
        "(1000000, 1000000)",
        "(-1, 3)",
        "(1000000000000, 3)",
        "(3,)",
        "()",
        "(1.5, 2)",
        "('a',)",
        "(2, 3)",
        "[2]",
    ]
    kinds = [
        "'<i8'",
        "'|O'",
        "'<U5'",
        "'<c16'",
        "[('a', '<i8')]",
        "'<f2'",
        "'>i4'",
        "'bogus'",
        "8",
        "'|V8'",
        "'<M8[s]'",
    ]
    text = f"{{'descr': {case.one_of(kinds)}, 'fortran_order': {case.one_of(['False', 'True', '7'])}, 'shape': "
    text += case.one_of(shapes) + case.one_of([", }", ", }", "}", "", ", 'more': 1}", ", \x00}", "(" * 300])
    head = text.encode().ljust(117) + b"\n"
    version = case.one_of([b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\x09\0"])
    size = len(head) + case.one_of([0, 0, 0, -9, 40000])
    length = struct.pack("<H" if version == b"\1\0" else "<I", size)
    return b"\x93NUMPY" + version + length + head + bytes(case.one_of([48, 48, 0, 8]))


def _header(case: Case) -> None:
    content = _npy(case)
    path = case.place / case.one_of(["a.npy", "a.npz", "a.csr"])
    case.note((path.suffix, content[10:150]))
    if path.suffix == ".npy":
        path.write_bytes(content)
    elif path.suffix == ".npz":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", content)
    else:
        write_matrix(path, np.eye(3))
        case.one_of(files_of(path)).write_bytes(content)
    _use(case, path)


def _archive(case: Case) -> None:
    """Zip archives that declare what cannot be: a method, a password, sizes, names."""
    path = case.place / "a.npz"
    names = case.one_of([["X"], ["X"], ["../X"], [], ["X", "Y"], ["\x1b[31mX", "Y"], [""]])
    np.savez_compressed(path, **{name: np.arange(6).reshape(2, 3) for name in names})
    content = bytearray(path.read_bytes())
    central, field = content.rfind(b"PK\1\2"), case.one_of([8, 10, 10, 16, 20, 24, 42])
    if central >= 0:
        content[central + field : central + field + 2] = struct.pack("<H", case.one_of([1, 9, 12, 14, 99, 65535]))
    case.note(f"{names!a}, field {field}")
    path.write_bytes(bytes(content))
    _use(case, path)


FIELDS = ["0", "1", "2.5", "1e3", " 3 ", '"4"', "07"]
ODD = [
    "",
    "",
    "",
    " ",
    "nan",
    "inf",
    "1e400",
    "-1",
    "0x10",
    "1_000",
    "١٢",
    "1,5",
    "½",
    "a",
    '"',
    '"1',
    "1\x0b2",
    "1\x1c2",
]
ODD += ["1\x0c", "\x1e3"]
ODD += ["1\x852", "1\u20282", "9007199254740993", "1\0", "True", "#1", "\x1b[31m1", "+5", "1e-400", "1" * 400]
ODD += ["9" * 140_000]


def _text(case: Case) -> None:
    """A table of texts: the very rows and numbers, or an error."""
    columns, separator = case.whole(1, 3), case.one_of([",", "\t"])
    table = [[case.one_of(FIELDS) for _ in range(columns)] for _ in range(case.whole(1, 5))]
    odd = case.one_of(ODD) if case.chance(0.7) else None
    if odd is not None:
        case.one_of(table)[case.whole(0, columns - 1)] = odd
    names = [case.one_of(["a", "b b", "é", '"q"', "0", "", "\x1b[1m", "n\x0bm", "1.5"]) for _ in range(columns)]
    end = case.one_of(["\n", "\n", "\r\n"])
    text = end.join(separator.join(row) for row in [names, *table])
    text = case.one_of(["", "\ufeff"]) + text + case.one_of(["", end])
    path = case.place / f"a{'.csv' if separator == ',' else '.tsv'}"
    path.write_bytes(text.encode(*case.one_of([("utf-8",), ("utf-8",), ("utf-8",), ("utf-16",)])))
    case.note(ascii(text[:200]))
    X, error = attempt(lambda: read_matrix(path))
    _, other = attempt(lambda: read_names(path))
    if error is None:
        check(other is None, "wrong result", "read_names: refused where read_matrix is not", other)
        expected = [[exactly(field) for field in row] for row in table]
        while columns == 1 and not table[len(expected) - 1][0].strip(" ") and len(expected) > 1 and len(X) < len(table):
            expected.pop()  # blank lines at the end may be none
        check(all(None not in row for row in expected), "accepted", f"text with {ascii(odd)[:20]}", dense(X))
        check(np.array_equal(X, expected, equal_nan=True), "wrong result", f"text with {ascii(odd)[:20]}", X)


def exactly(field: str) -> float | None:
    """What a field of a table says; None where it says no number, or one that a double cannot hold."""
    bare = field.strip(" ").removeprefix('"').removesuffix('"')
    try:
        value = float(bare)
    except ValueError:
        return None
    if bare.isdigit() and value < 2**60 and int(value) != int(bare):
        return None
    return value


def _asked(case: Case) -> None:
    """Places, keys and names that cannot be."""
    X = np.arange(6).reshape(2, 3)
    (case.place / "file").write_bytes(b"mine")
    (case.place / "full.csr").mkdir()
    names = ["a.xlsx", "a", "", ".npy", "a.NPY", "file/a.npy", "new/a.csv", "full.csr", "a" * 300 + ".npy", "a\0.npy"]
    names += ["é.tsv", "a\n.csv"]
    path = f"{case.place}/{case.one_of(names)}"
    columns = case.one_of([None, ["a", "b", "c"], ["a"], ["a"] * 3, ["x,y", 'q"', "n\nm"], ["0", "1", "2"], [""] * 3])
    case.note((ascii(path[-20:]), columns))
    _, error = attempt(lambda: write_matrix(path, X, columns))
    check((case.place / "file").read_bytes() == b"mine", "foreign file lost or changed", "write_matrix")
    if error is None:
        back = granted(lambda: read_matrix(path), "read_matrix of what was written")
        check(np.array_equal(dense(back), X), "wrong result", "read_matrix: other values")
        if columns is not None and path.endswith("v"):
            check(granted(lambda: read_names(path), "read_names") == columns, "wrong result", "read_names", columns)
    attempt(lambda: read_matrix(path, key=case.one_of([None, "X", "Y", "", 3])))


def _foreign(case: Case) -> None:
    """A directory of the user's that is called like the one to write."""
    path = case.place / "a.csr"
    path.mkdir()
    for name in case.random.sample(["notes.txt", "data.npy", "sub", "shape.npy"], case.whole(1, 3)):
        (path / name).write_bytes(b"mine")
    before = tree(path)
    attempt(lambda: write_matrix(path, np.eye(2)))
    lost = [name for name, content in before.items() if tree(path).get(name) != content]
    check(not lost, "foreign file lost or changed", "write_matrix .csr over a directory", lost)
