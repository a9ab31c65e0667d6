"""Files: what is read, what is refused, and what is left whatever happens while they are written."""

import io
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from countjump.atomic import check_writable, replacing, write_atomically
from countjump.data import as_matrix, read_matrix, read_names, write_matrix
from countjump.data.matrices import CSR_BEFORE, CSR_FILE

X = sp.csr_matrix([[0, 2, 0], [1, 0, 0], [0, 0, 3]])
Y = sp.csr_matrix([[5, 5], [0, 1]])


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def array(path: Path, part: str) -> Path:
    """The file of an array of a .csr directory."""
    return path / json.loads((path / CSR_FILE).read_text())[part]


def write_before(path: Path, matrix: sp.csr_matrix) -> None:
    """A .csr directory in the layout before the present one."""
    path.mkdir()
    for part in ("data", "indices", "indptr", "shape"):
        np.save(path / f"{part}.npy", np.asarray(getattr(matrix, part)))


def finished_process() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


# Replacing files.


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path, beside = tmp_path / "deep" / "file", tmp_path / "deep" / "file.part"
    write_atomically(path, b"one")
    beside.write_bytes(b"precious")
    for stop in (RuntimeError, KeyboardInterrupt):
        with suppress(stop), replacing(path) as file:
            file.write(b"half")
            raise stop
    assert path.read_bytes() == b"one"
    assert names(tmp_path / "deep") == {"file", "file.part"}
    assert beside.read_bytes() == b"precious"


def test_permissions_are_those_of_any_file_or_of_the_one_before(tmp_path):
    path = tmp_path / "file"
    before = os.umask(0o027)
    try:
        write_atomically(path, b"one")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    write_atomically(path, b"two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "file"
    link.symlink_to(target)
    for content in (b"new", b"newer"):
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert names(tmp_path) == {"there", "link"}


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(ValueError, match="choose a file"):
            write_atomically(tmp_path / name, b"")


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path):
    dead, long_ago = finished_process(), time.time() - 10_000
    code = "0123456789abcdef"
    left = {f".countjump-{dead}-{code}.tmp", f".countjump-{os.getpid()}-{code}.tmp"}
    others = {f".countjump-{os.getppid()}-{code}.tmp", f".countjump-{dead}-mine.tmp", f"x.countjump-{dead}-{code}.tmp"}
    for name in left | others:
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (long_ago, long_ago))
    young = f".countjump-{dead}-{code[::-1]}.tmp"  # of a process of this number on another machine, perhaps
    (tmp_path / young).write_bytes(b"")
    write_atomically(tmp_path / "file", b"")
    assert names(tmp_path) == {"file", young, *others}


def run(code: str, directory: Path, **options: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".csr"])
def test_a_full_disk_leaves_what_was_there(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    write_matrix(path, X)
    before = names(tmp_path), names(path) if suffix == ".csr" else None
    code = f"import numpy, countjump.data; countjump.data.write_matrix({str(path)!r}, numpy.random.rand(300, 40))"
    process = run(code, tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)))
    assert "OSError" in process.communicate()[1]
    assert (names(tmp_path), names(path) if suffix == ".csr" else None) == before
    np.testing.assert_array_equal(as_matrix(read_matrix(path)).shape, X.shape)


# Where a file can be written.


def test_a_place_that_cannot_be_written_is_noticed_at_once(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    check_writable(tmp_path / "new" / "deep" / "file")
    check_writable(tmp_path / "new" / "deep", directory=True)
    check_writable(tmp_path / "file")
    check_writable(tmp_path, directory=True)
    for path, directory in (("file", True), (".", False), ("file/deep", False), ("file/deep/er", True)):
        with pytest.raises(ValueError, match="choose a"):
            check_writable(tmp_path / path, directory)
    assert names(tmp_path) == {"file"}


def test_a_directory_without_permission_is_noticed_at_once():
    code = (
        "import os, countjump.atomic\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"  # who may do everything becomes nobody
        "try: countjump.atomic.check_writable('file')\n"
        "except OSError as error: print(error)"
    )
    with tempfile.TemporaryDirectory() as closed:
        os.chmod(closed, 0o555)
        said = run(code, Path(closed), env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).communicate()
    assert "file cannot be written (Permission denied" in said[0], said


# Directories of a CSR matrix.


def test_a_csr_directory_is_replaced_in_place_and_readers_keep_what_they_read(tmp_path):
    path = tmp_path / "a.csr"
    for beside in ("a.csr.old", "a.csr.new"):
        (tmp_path / beside).mkdir()
        (tmp_path / beside / "precious").write_text("mine")
    write_matrix(path, X)
    (path / "notes.txt").write_text("mine")
    first = read_matrix(path)
    assert not first.data.flags.writeable, "a memory map, not a copy"
    write_matrix(path, Y)
    np.testing.assert_array_equal(read_matrix(path).toarray(), Y.toarray())
    np.testing.assert_array_equal(first.toarray(), X.toarray())
    assert len(names(path)) == 5, "three arrays, what names them, and notes"
    write_matrix(path, read_matrix(path))
    np.testing.assert_array_equal(read_matrix(path).toarray(), Y.toarray())
    for beside in ("a.csr.old", "a.csr.new"):
        assert (tmp_path / beside / "precious").read_text() == "mine"


@pytest.mark.parametrize("matrix", [sp.csr_matrix((3, 4), dtype=int), sp.csr_matrix((0, 4)), np.eye(3, dtype="f2")])
def test_odd_matrices_go_in_and_come_out(matrix, tmp_path):
    write_matrix(tmp_path / "a.csr", matrix)
    read = read_matrix(tmp_path / "a.csr")
    assert read.shape == matrix.shape
    np.testing.assert_array_equal(read.toarray(), matrix.toarray() if sp.issparse(matrix) else matrix)


def test_the_layout_before_is_read_and_replaced(tmp_path):
    path = tmp_path / "a.csr"
    write_before(path, X)
    np.testing.assert_array_equal(read_matrix(path).toarray(), X.toarray())
    write_matrix(path, Y)
    np.testing.assert_array_equal(read_matrix(path).toarray(), Y.toarray())
    assert len(names(path)) == 4


@pytest.mark.parametrize(
    "content", [["notes.txt"], ["data.npy"], ["data.npy", "indices.npy", "indptr.npy", "shape.npy", "x"]]
)
def test_a_directory_of_somebody_else_is_not_replaced(content, tmp_path):
    path = tmp_path / "a.csr"
    path.mkdir()
    for name in content:
        (path / name).write_text("mine")
    with pytest.raises(ValueError, match=r"no \.csr of countjump"):
        write_matrix(path, X)
    assert names(path) == set(content)


def test_a_csr_directory_does_not_replace_a_file(tmp_path):
    (tmp_path / "data.csr").write_text("precious")
    with pytest.raises(ValueError, match=r"is a file, and a \.csr is a directory"):
        write_matrix(tmp_path / "data.csr", X)
    assert (tmp_path / "data.csr").read_text() == "precious"


DIE = """
import os, sys, builtins
import scipy.sparse as sp
from countjump.data import write_matrix
steps = 0
def watch(event, arguments):  # every time the process is about to touch a file
    global steps
    if event in ("open", "os.rename", "os.remove", "os.chmod", "os.mkdir") and "a.csr" in str(arguments[0]):
        steps += 1
        if steps > int(sys.argv[1]):
            os._exit(9)
sys.addaudithook(watch)
write_matrix("a.csr", sp.csr_matrix([[5, 5], [0, 1]]))
"""


@pytest.mark.parametrize("before", [write_matrix, write_before])
def test_a_death_at_any_moment_leaves_the_old_matrix_or_the_new_one(before, tmp_path):
    found = set()
    for step in range(100):
        place = tmp_path / str(step)
        place.mkdir()
        before(place / "a.csr", X)
        code = subprocess.run([sys.executable, "-c", DIE, str(step)], cwd=place, check=False).returncode
        read = read_matrix(place / "a.csr")
        assert read.shape in (X.shape, Y.shape)
        np.testing.assert_array_equal(read.toarray(), (X if read.shape == X.shape else Y).toarray())
        found.add(read.shape)
        for path in place.rglob("*"):
            os.utime(path, (1e9, 1e9))
        write_matrix(place / "a.csr", X)
        left = names(place / "a.csr") - (CSR_BEFORE if before is write_before else set())
        assert len(left) == 4, "what the dead process left is gone"
        if code == 0:
            break
    assert step > 10
    assert found == {X.shape, Y.shape}


@pytest.mark.parametrize("harm", ["junk", "outside", "shape", "gone", "elsewhere", "version"])
def test_a_damaged_csr_directory_says_so(harm, tmp_path):
    path = tmp_path / "data.csr"
    write_matrix(path, X)
    described = json.loads((path / CSR_FILE).read_text())
    if harm == "junk":
        array(path, "indices").write_bytes(b"junk")
    elif harm == "outside":
        np.save(array(path, "indices"), np.array([0, 7, 1], dtype=np.int32))
    elif harm == "gone":
        array(path, "indptr").unlink()
    else:
        described |= {"shape": {"shape": [2.0, 2]}, "elsewhere": {"data": "../data.npy"}, "version": {"version": 9}}[
            harm
        ]
        (path / CSR_FILE).write_text(json.dumps(described))
    with pytest.raises(ValueError, match=r"data\.csr.* (damaged|another version|no arrays)"):
        read_matrix(path)
    write_matrix(path, Y)
    assert read_matrix(path).shape == Y.shape


def test_a_matrix_that_is_not_in_order_is_put_in_order_when_it_is_written(tmp_path):
    odd = sp.csr_matrix((np.array([1, 2, 3]), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 3))
    write_matrix(tmp_path / "data.csr", odd)
    again = read_matrix(tmp_path / "data.csr")
    np.testing.assert_array_equal(again.toarray(), [[2, 0, 4], [0, 0, 0]])
    assert np.shares_memory(as_matrix(again).data, again.data), "what is not in order is copied"


# Files that promise what they do not hold.


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_files_of_every_kind_are_read(kind, tmp_path):
    for make in (sp.csr_matrix, sp.csr_array):
        sp.save_npz(tmp_path / "data.npz", make(X).asformat(kind))
        np.testing.assert_array_equal(read_matrix(tmp_path / "data.npz").toarray(), X.toarray())


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": [0, 2**30, 1]},
        {"indices": [0, -1, 1]},
        {"indptr": [0, 3, 1, 3]},
        {"indptr": [0, 1, 2, 2]},
        {"indptr": [0, 3]},
        {"shape": [3, 2]},
        {"shape": [2**62, 3]},
        {"shape": [3.5, 3.5]},
        {"format": "csc", "shape": [2**45, 3]},
        {"format": "xyz"},
        {"format": ["csr", "csr"]},
        {"data": ["a", "b", "c"]},
        {"data": [[1, 2, 3]]},
    ],
    ids=str,
)
def test_a_sparse_file_that_is_broken_is_refused(changed, tmp_path):
    whole = {"format": "csr", "shape": X.shape, "data": X.data, "indices": X.indices, "indptr": X.indptr}
    np.savez(tmp_path / "data.npz", **{name: np.asarray(value) for name, value in (whole | changed).items()})
    with pytest.raises(ValueError, match=r"data\.npz "):
        read_matrix(tmp_path / "data.npz")


def npy(shape: tuple[int, ...], content: bytes = b"") -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue() + content


def test_an_array_is_not_allocated_because_a_header_says_so(tmp_path):
    path = tmp_path / "data.npy"
    for shape in ((2**40, 2**10), (2**62, 2**62), (-2, -2), (3, 3)):
        path.write_bytes(npy(shape, bytes(32)))
        with pytest.raises(ValueError, match=r"data\.npy is damaged"):
            read_matrix(path)
    with open(path, "wb") as file:  # a file with a hole, as large as it says
        file.write(npy((2**40, 1)))
        file.truncate(file.tell() + 2**43)
    with pytest.raises(ValueError, match="more than there is memory"):
        read_matrix(path)


def test_archives_that_numpy_did_not_write(tmp_path):
    path = tmp_path / "data.npz"

    def said(name: str = "X.npy", content: bytes = npy((2, 2), bytes(32)), method: int = zipfile.ZIP_DEFLATED) -> str:
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr(name, content)
        with pytest.raises(ValueError, match=r"data\.npz ") as caught:
            read_matrix(path)
        return str(caught.value)

    assert "compressed as numpy does not" in said(method=zipfile.ZIP_LZMA)
    assert "no array" in said("../X.npy")
    assert "no array" in said("/X.npy")
    assert "no array" in said("X.txt")
    assert "is damaged" in said(content=npy((2**50,), bytes(32)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy((2, 2), bytes(32)))
    content = path.read_bytes()
    directory = content.index(b"PK\x01\x02")
    for place, value in ((directory + 8, b"\x01\x00"), (directory + 24, (2**31).to_bytes(4, "little"))):
        path.write_bytes(content[:place] + value + content[place + len(value) :])
        with pytest.raises(ValueError, match=r"is encrypted|not as large as it says"):
            read_matrix(path)


def mutations(content: bytes, count: int) -> list[bytes]:
    """The same content with bits flipped, bytes replaced and ends cut off."""
    draw = np.random.default_rng(0)
    made = [content[: len(content) * part // 20] for part in range(20)]
    while len(made) < count:
        changed = bytearray(content)
        for _ in range(draw.integers(1, 4)):
            place = draw.integers(len(content))
            changed[place] = draw.integers(256) if draw.random() < 0.5 else changed[place] ^ 1 << draw.integers(8)
        made.append(bytes(changed))
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["sparse.npz", "dense.npz", "dense.npy", "text.csv", "data", "indptr", "indices", CSR_FILE]
)
def test_damaged_files_give_a_matrix_or_one_clear_error(name, tmp_path):
    path = tmp_path / (name if "." in name and name != CSR_FILE else "data.csr")
    write_matrix(path, X if path.name in ("sparse.npz", "data.csr") else X.toarray())
    damaged = path if path.is_file() else path / name if name == CSR_FILE else array(path, name)
    content, refused = damaged.read_bytes(), []
    for changed in mutations(content, 400):
        damaged.write_bytes(changed)
        try:
            matrix = as_matrix(read_matrix(path))
            matrix.sum(axis=0), (matrix.T @ matrix)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) >= 50
    assert all(path.name in said for said in refused)


# Text.


def read_text(tmp_path: Path, content: str) -> np.ndarray:
    (tmp_path / "data.csv").write_bytes(content.encode())
    return read_matrix(tmp_path / "data.csv")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\n1\n\n2\n", "line 3 of .*, column 'a', is empty"),
        ("a,b\n1,2\n\n2,3\n", "line 3 of .*, column 'a', is empty"),
        ("\na\n1\n", "line 1 of .* holds nothing"),
        ("a\n1\x0b2\n", r"line 2 of .*, column 'a', holds '1\\x0b2'"),
        ("a\n1\x1c2\n", r"line 2 of .*, column 'a', holds '1\\x1c2'"),
        ("a\n1\x852\n", r"line 2 of .*, column 'a', holds '1\\x852'"),
        ("a\n1\u20282\n", r"line 2 of .*, column 'a', holds '1\\u20282'"),
        ("a\n1\x00\n", r"line 2 of .*, column 'a', holds '1\\x00'"),
        ('a\n"1\n', "quotes that do not match"),
        ('a,b\n"1"2,3\n', "quotes that do not match"),
        ("a\n1_000\n", "holds '1_000'"),
        ("a\n0x10\n", "holds '0x10'"),
        ("a\n１\n", "holds '１'"),
        ('a,b\n"1,5",2\n', "holds '1,5'"),
        ("a\n9007199254740993\n", "of at most 2\\^53"),
        ("a,b\n1,2,3\n", "3 values for 2 columns"),
    ],
)
def test_text_that_is_no_matrix(content, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        read_text(tmp_path, content)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_text_that_is_a_matrix(end, tmp_path):
    read = read_text(tmp_path, end.join(["\ufeffa,b", " 1 ,2", '"3",4e0', "9007199254740992,.5", "", " ", ""]))
    np.testing.assert_array_equal(read, [[1, 2], [3, 4], [2**53, 0.5]])
    assert read_text(tmp_path, "a\n9007199254740992\n").dtype == np.int64


def test_names_of_every_kind_go_in_and_come_out(tmp_path):
    odd = ["a,b", 'say "x"', "two\nlines", "\x0b", " spaced ", "é\u2028"]
    write_matrix(tmp_path / "data.csv", np.eye(6, dtype=int), odd)
    assert read_names(tmp_path / "data.csv") == odd
    np.testing.assert_array_equal(read_matrix(tmp_path / "data.csv"), np.eye(6))
