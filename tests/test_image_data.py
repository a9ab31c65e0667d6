"""Sets of images: every form in which a user may have them, damage that is named, and pickles that may not call anything."""

import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from countjump.data import load_images, require_images
from countjump.data.images import BATCHES, IDX

DATA = Path(os.environ.get("COUNTJUMP_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def write_idx(path: Path, x: np.ndarray, packed: bool) -> None:
    content = bytes([0, 0, 8, x.ndim]) + np.array(x.shape, dtype=">u4").tobytes() + x.tobytes()
    if packed:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


def write_mnist(place: Path, rng: np.random.Generator, packed: bool) -> list[np.ndarray]:
    place.mkdir(parents=True, exist_ok=True)
    shapes = ((6, 28, 28), (6,), (4, 28, 28), (4,))
    arrays = [rng.integers(0, 256 if len(shape) > 1 else 10, shape, dtype=np.uint8) for shape in shapes]
    for name, x in zip(IDX, arrays, strict=True):
        write_idx(place / name, x, packed)
    return arrays


def write_cifar(place: Path, rng: np.random.Generator, protocol: int) -> list[np.ndarray]:
    place.mkdir(parents=True, exist_ok=True)
    images = [rng.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8) for _ in BATCHES]
    for name, x in zip(BATCHES, images, strict=True):
        rows = np.ascontiguousarray(x.transpose(0, 3, 1, 2).reshape(len(x), -1))
        held = {b"data": rows, b"labels": [1, 2, 9], b"batch_label": b"a batch", b"filenames": [b"a.png"] * 3}
        (place / name).write_bytes(pickle.dumps(held, protocol=protocol))
    return images


def test_digits_are_scikit_learns_and_the_same_every_time():
    digits = load_images("digits")
    assert (digits.x.shape, digits.test_x.shape, digits.x.dtype) == ((1197, 8, 8), (600, 8, 8), np.uint8)
    assert (digits.x.max(), digits.top) == (16, 16)
    assert set(digits.labels) == set(digits.test_labels) == set(range(10))
    np.testing.assert_array_equal(load_images("digits").x, digits.x)
    from sklearn.datasets import load_digits

    both = np.concatenate([digits.x, digits.test_x]).reshape(-1, 64)
    assert sorted(map(bytes, both)) == sorted(map(bytes, load_digits().data.astype(np.uint8)))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("folder", [".", "MNIST/raw"])
def test_mnist_from_idx_files(tmp_path, rng, packed, folder):
    x, y, test_x, test_y = write_mnist(tmp_path / folder, rng, packed)
    mnist = load_images("mnist", tmp_path)
    for found, written in ((mnist.x, x), (mnist.labels, y), (mnist.test_x, test_x), (mnist.test_labels, test_y)):
        np.testing.assert_array_equal(found, written)
    assert (mnist.top, mnist.x.dtype, mnist.labels.dtype) == (255, np.uint8, np.int64)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("folder", [".", "cifar-10-batches-py"])
def test_cifar10_from_python_batches(tmp_path, rng, protocol, folder):
    """Rows of the batches are all reds, then all greens, then all blues."""
    images = write_cifar(tmp_path / folder, rng, protocol)
    cifar = load_images("cifar10", tmp_path)
    np.testing.assert_array_equal(cifar.x, np.concatenate(images[:-1]))
    np.testing.assert_array_equal(cifar.test_x, images[-1])
    assert cifar.labels.tolist() == [1, 2, 9] * 5


def test_a_batch_as_python_2_wrote_it(tmp_path, rng):
    """The form of the published files: strings are bytes, and numpy is where it was in 2009."""
    images = write_cifar(tmp_path, rng, 2)
    old = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
        b"(K\x01K\x03M\x00\x0c\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89T\x00\x24\x00\x00"
        + images[0].transpose(0, 3, 1, 2).tobytes()
        + b"tbU\x06labelsq\x08]q\x09(K\x01K\x02K\x09eu."
    )
    (tmp_path / BATCHES[0]).write_bytes(old)
    np.testing.assert_array_equal(load_images("cifar10", tmp_path).x, np.concatenate(images[:-1]))


class Hostile:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_calls_something_is_refused(tmp_path, rng, protocol):
    write_cifar(tmp_path, rng, 2)
    (tmp_path / BATCHES[2]).write_bytes(pickle.dumps({b"data": Hostile(tmp_path / "made")}, protocol=protocol))
    with pytest.raises(ValueError, match=r"is damaged \(it asks for .*mkdir, which is no array\)"):
        load_images("cifar10", tmp_path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "held",
    [
        [1, 2],
        {b"data": np.zeros((2, 3072), dtype=np.uint8)},
        {b"data": np.zeros((2, 7), dtype=np.uint8), b"labels": [1, 2]},
        {b"data": np.zeros((2, 3072)), b"labels": [1, 2]},
        {b"data": np.array([{}, {}]), b"labels": [1, 2]},
        {b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": "ab"},
        {b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": [1, 11]},
        {b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": [1]},
    ],
)
def test_a_batch_that_is_none(tmp_path, rng, held):
    write_cifar(tmp_path, rng, 2)
    (tmp_path / BATCHES[1]).write_bytes(pickle.dumps(held, protocol=2))
    with pytest.raises(ValueError, match=r"is damaged|have no label"):
        load_images("cifar10", tmp_path)


@pytest.mark.parametrize("cut", [0, 3, 15, 40, 4719])
def test_a_file_that_ends_early(tmp_path, rng, cut):
    write_mnist(tmp_path, rng, packed=False)
    path = tmp_path / IDX[0]
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match="is damaged"):
        load_images("mnist", tmp_path)


def test_a_packed_file_that_is_none(tmp_path, rng):
    write_mnist(tmp_path, rng, packed=True)
    for content in (b"nothing", (tmp_path / f"{IDX[0]}.gz").read_bytes()[:-9]):
        (tmp_path / f"{IDX[1]}.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte.gz in .* is damaged"):
            load_images("mnist", tmp_path)


def test_labels_that_do_not_fit(tmp_path, rng):
    write_mnist(tmp_path, rng, packed=False)
    write_idx(tmp_path / IDX[1], np.full(6, 10, dtype=np.uint8), packed=False)
    with pytest.raises(ValueError, match="the train images of mnist have no label from 0 to 9 each"):
        load_images("mnist", tmp_path)


def test_archives_hold_no_objects(tmp_path):
    x = np.array([{}], dtype=object)
    np.savez(tmp_path / "mnist_uint8.npz", x_train=x, y_train=x, x_test=x, y_test=x)
    with pytest.raises(ValueError, match=r"mnist_uint8.npz in .* is damaged"):
        load_images("mnist", tmp_path)


def test_what_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"mnist is read from its idx files or mnist_uint8.npz, and no directory"
    ):
        require_images(["digits", "mnist"])
    with pytest.raises(FileNotFoundError, match=r"cifar10 needs its python batches or cifar10_5k1k_uint8.npz, and"):
        require_images(["cifar10"], tmp_path)
    with pytest.raises(ValueError, match="no set of images 'faces': choose one of digits, mnist, cifar10"):
        load_images("faces")


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("mnist", ((60_000, 28, 28), (10_000, 28, 28))), ("cifar10", ((5000, 32, 32, 3), (1000, 32, 32, 3)))],
)
def test_the_archives_are_those_of_the_readme(name, shapes):
    if not DATA.is_dir():
        pytest.skip(f"no {DATA}: set COUNTJUMP_DATA to the directory that holds the data")
    images = load_images(name, DATA)
    assert (images.x.shape, images.test_x.shape) == shapes
    assert len(np.unique(images.labels)) == 10
