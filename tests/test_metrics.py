"""Metrics: W1 against scipy's and its formula, and a floor that can be had again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from countjump.metrics import floor, w1

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)


@given(values, values)
def test_w1_is_scipys(real, synthetic):
    expected = wasserstein_distance(real, synthetic)
    assert w1(np.array(real), np.array(synthetic)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=30))
def test_w1_of_one_size_is_the_papers_sorted_difference(pairs):
    x, y = np.array(pairs).T
    assert w1(x, y) == pytest.approx(np.linalg.norm(np.sort(x) - np.sort(y), 1) / len(x))
    assert w1(x, y) == w1(y, x)
    assert w1(x, x[::-1]) == 0


def test_w1_does_not_wrap_small_integers_or_mind_shapes():
    assert w1(np.array([[0], [0]], dtype=np.uint8), np.array([[200], [255]], dtype=np.uint8)) == 227.5


def test_the_floor_can_be_had_again_and_each_pair_is_fresh():
    def draw(generator):
        return generator.poisson(5.0, 1000)

    once = floor(draw, pairs=5)
    np.testing.assert_array_equal(once, floor(draw, pairs=5))
    np.testing.assert_array_equal(once[:3], floor(draw, pairs=3))
    assert len(set(once)) == 5
    assert not set(once) & set(floor(draw, pairs=5, seed=1))
    generator = np.random.default_rng([0, 0])
    assert once[0] == w1(draw(generator), draw(generator))


def test_the_floor_of_a_uniform_is_what_theory_says():
    """E W1 of two samples of n uniform values is about √(2/n) · ∫ E|B| = √(2/n) · √(π/32), B a Brownian bridge."""
    n = 2000
    floors = floor(lambda generator: generator.random(n), pairs=200)
    expected = np.sqrt(2 / n) * np.sqrt(np.pi / 32)
    assert floors.mean() == pytest.approx(expected, abs=4 * floors.std() / np.sqrt(200))
