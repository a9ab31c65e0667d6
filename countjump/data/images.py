"""Sets of images: scikit-learn's digits, MNIST and CIFAR-10, the last two from the files of a directory."""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from countjump.data.places import ADVICE, data_directory

SETS = ("digits", "mnist", "cifar10")
HELD_OUT = 600
"""Digits that are held out: the set has no part for tests."""

ARCHIVES = {"mnist": "mnist_uint8.npz", "cifar10": "cifar10_5k1k_uint8.npz"}
IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
FOLDERS = {"mnist": (".", "MNIST/raw"), "cifar10": (".", "cifar-10-batches-py")}
MOST_BYTES = 2**30
"""Of a file that is unpacked: the sets are smaller by far."""

CLASSES = {
    "digits": list("0123456789"),
    "mnist": list("0123456789"),
    "cifar10": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
}


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images to train on and images that are held out, with their labels."""

    x: np.ndarray = field(repr=False)
    """uint8 (n, H, W) or (n, H, W, 3)."""
    labels: np.ndarray = field(repr=False)
    """Places in ``label_names`` (n,)."""
    test_x: np.ndarray = field(repr=False)
    test_labels: np.ndarray = field(repr=False)
    top: int
    """The largest value that a pixel can have."""
    label_names: list[str] = field(repr=False)
    source: str
    """What was read: files with different images make different sets."""


def load_images(name: str, directory: str | Path | None = None) -> ImageSet:
    """The set of that name: "digits" come with scikit-learn, "mnist" and "cifar10" from a directory, or that of ``COUNTJUMP_DATA``.

    MNIST is read from its four idx files (also ``.gz``), CIFAR-10 from its python batches, each in the directory itself or in the
    folder in which they are usually unpacked; where these are not there, from ``mnist_uint8.npz`` and ``cifar10_5k1k_uint8.npz``.

    >>> load_images("digits").x.shape
    (1197, 8, 8)
    """
    found = _find(name, directory)
    if found is None:
        return _digits()
    read, files = found
    try:
        images = read(files)
    except (pickle.UnpicklingError, zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError) as error:
        where = " or ".join(file.name for file in files)
        raise ValueError(f"{where} in {files[0].parent} is damaged ({error}): copy it again") from error
    for part in ("train", "test"):
        x, y = images[f"x_{part}"], images[f"y_{part}"]
        good = x.dtype == np.uint8 and x.ndim in (3, 4) and len(x) == len(y) > 0 and y.dtype.kind in "iu"
        if not good or not 0 <= int(y.min()) <= int(y.max()) < len(CLASSES[name]):
            where = f"{files[0].parent}: {', '.join(file.name for file in files)}"
            raise ValueError(f"the {part} images of {name} have no label from 0 to 9 each, or no bytes ({where})")
    y, test_y = (images[part].astype(np.int64) for part in ("y_train", "y_test"))
    return ImageSet(images["x_train"], y, images["x_test"], test_y, 255, CLASSES[name], files[0].name)


def require_images(names: Iterable[str], directory: str | Path | None = None) -> None:
    """Raise FileNotFoundError where :func:`load_images` would, before anything is read."""
    for name in names:
        _find(name, directory)


Read = Callable[[list[Path]], dict[str, np.ndarray]]


def _find(name: str, directory: str | Path | None) -> tuple[Read, list[Path]] | None:
    """How a set is read, and its files; None where it comes from scikit-learn."""
    if name not in SETS:
        raise ValueError(f"no set of images {name!r}: choose one of {', '.join(SETS)}")
    if name == "digits":
        return None
    place, archive = data_directory(directory), ARCHIVES[name]
    names, usual = (IDX, "its idx files") if name == "mnist" else (BATCHES, "its python batches")
    if place is None:
        raise FileNotFoundError(f"{name} is read from {usual} or {archive}, and no directory was given: {ADVICE}")
    for folder in FOLDERS[name]:
        files = [_packed(place / folder / each) for each in names]
        if all(file.is_file() for file in files):
            return (_read_idx if name == "mnist" else _read_batches), files
    if not (place / archive).is_file():
        raise FileNotFoundError(f"{name} needs {usual} or {archive}, and {place} does not hold them: {ADVICE}")
    return _read_archive, [place / archive]


def _packed(path: Path) -> Path:
    """The file, or the packed one in its place."""
    packed = path.with_name(path.name + ".gz")
    return packed if packed.is_file() and not path.is_file() else path


def _digits() -> ImageSet:
    from sklearn.datasets import load_digits  # here, as few who import countjump need it

    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.images))
    x, y = bunch.images[order].astype(np.uint8), bunch.target[order].astype(np.int64)
    split = len(x) - HELD_OUT
    return ImageSet(x[:split], y[:split], x[split:], y[split:], 16, CLASSES["digits"], "scikit-learn")


def _read_archive(files: list[Path]) -> dict[str, np.ndarray]:
    with np.load(files[0], allow_pickle=False) as held:
        return {name: held[name] for name in ("x_train", "y_train", "x_test", "y_test")}


# MNIST's idx files: two zeros, the type (8: bytes), the number of dimensions, each as four bytes, and the numbers.


def _read_idx(files: list[Path]) -> dict[str, np.ndarray]:
    parts = zip(("x_train", "y_train", "x_test", "y_test"), files, (3, 1, 3, 1), strict=True)
    return {name: _idx(file, dimensions) for name, file, dimensions in parts}


def _idx(file: Path, dimensions: int) -> np.ndarray:
    content = _bytes(file)
    head = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < head:
        raise ValueError(f"{file.name} does not begin like bytes of {dimensions} dimension(s)")
    shape = np.frombuffer(content[4:head], dtype=">u4").astype(np.int64).tolist()
    numbers = np.frombuffer(content, dtype=np.uint8, offset=head)
    if len(numbers) != int(np.prod(shape, dtype=object)):
        raise ValueError(f"{file.name} has {len(numbers)} numbers and says {' × '.join(map(str, shape))}")
    return numbers.reshape(shape).copy()


def _bytes(file: Path) -> bytes:
    if file.suffix != ".gz":
        return file.read_bytes()
    with gzip.open(file) as packed:
        content = packed.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{file.name} unpacks to more than {MOST_BYTES} bytes")
    return content


# CIFAR-10's python batches are pickles. A pickle can call any function, so this one may call the few that make arrays.


class _ArraysOnly(pickle.Unpickler):
    """Numbers, bytes, lists, dictionaries and arrays of numbers; whatever else a pickle asks for is an error."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _blank
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return _plain_dtype
        if (module, name) == ("_codecs", "encode"):
            return _latin
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array")


def _blank(kind: Any, shape: Any, code: Any) -> np.ndarray:
    """What numpy calls before it fills an array."""
    if kind is not np.ndarray or tuple(shape) != (0,):
        raise pickle.UnpicklingError("it holds an array of an unusual kind")
    return np.ndarray((0,), dtype=np.uint8)


def _plain_dtype(code: Any, *options: Any) -> np.dtype:
    text = code.decode("ascii", "replace") if isinstance(code, bytes) else code
    if text not in ("u1", "i1", "i2", "i4", "i8", "f4", "f8"):
        raise pickle.UnpicklingError(f"it holds an array of {text!r}, which are no numbers")
    return np.dtype(text)


def _latin(text: str, code: str = "latin1") -> bytes:
    """How Python 3 writes bytes for Python 2."""
    return text.encode("latin1")


def _read_batches(files: list[Path]) -> dict[str, np.ndarray]:
    batches = [_batch(file) for file in files]
    x, y = (np.concatenate([batch[place] for batch in batches[:-1]]) for place in (0, 1))
    return {"x_train": x, "y_train": y, "x_test": batches[-1][0], "y_test": batches[-1][1]}


def _batch(file: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        held = _ArraysOnly(io.BytesIO(_bytes(file)), encoding="bytes").load()
    except (AttributeError, IndexError, TypeError, MemoryError, RecursionError, ImportError) as error:
        raise ValueError(f"{file.name} is no pickle of arrays: {error}") from error
    if not isinstance(held, dict):
        raise ValueError(f"{file.name} holds no dictionary")
    named = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in held.items()}
    x, y = named["data"], named["labels"]
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != 3 * 32 * 32:
        raise ValueError(f"{file.name} does not hold rows of 3,072 bytes")
    if not isinstance(y, list) or not all(isinstance(label, int) for label in y):
        raise ValueError(f"{file.name} does not hold a list of labels")
    return np.ascontiguousarray(x.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), np.array(y, dtype=np.int64)
