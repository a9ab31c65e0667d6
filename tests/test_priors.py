"""What is known before training: the directions in which sparse rows differ."""

import numpy as np
import pytest
import scipy.sparse as sp

from countjump.priors import directions


def two_topics(rows: int = 600) -> tuple[sp.csr_matrix, np.ndarray]:
    """Columns 0–9 belong to the first topic, 10–19 to the second, 20–39 to both; and which rows are of the second."""
    rng = np.random.default_rng(0)
    second = rng.random(rows) < 0.4
    rate = np.ones((2, 40))
    rate[0, 10:20] = rate[1, :10] = 0.1
    return sp.csr_matrix(rng.poisson(rate[second.astype(int)])), second


def test_the_first_direction_parts_two_topics():
    x, second = two_topics()
    rise, _ = directions(x, 2)
    assert abs(np.corrcoef(x.log1p() @ rise[:, 0], second)[0, 1]) > 0.9
    assert (np.sign(rise[:10, 0]) == -np.sign(rise[10:20, 0])).all()
    assert abs(rise[20:, 0]).max() < 0.5 * abs(rise[:20, 0]).min()


@pytest.mark.parametrize("rows", [600, 35])
def test_directions_are_the_principal_ones_of_the_standardised_logarithms(rows, monkeypatch):
    """A step of one standard deviation, against the mean."""
    monkeypatch.setattr("countjump.priors.OFTEN", 1)
    x, _ = two_topics(rows)
    logs = np.log1p(x.toarray())
    mean, spread = logs.mean(0), logs.std(0)
    _, size, along = np.linalg.svd((logs - mean) / spread, full_matrices=False)
    expected = size[0] / np.sqrt(rows) * along[0] * spread / (mean + 0.05 * spread)
    rise, deviations = directions(x, 3)
    np.testing.assert_allclose(abs(rise[:, 0]), abs(expected), atol=1e-3)
    np.testing.assert_allclose(deviations, (logs @ rise).std(0))


def test_the_same_rows_give_the_same_directions():
    x, _ = two_topics()
    for one, other in zip(directions(x, 3), directions(x, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_columns_that_are_seldom_filled_count_less(monkeypatch):
    """A hundred that one row alone has are not what parts the rows; they would be, if they counted as much."""
    topics, second = two_topics()
    odd = sp.csr_matrix((np.full(100, 500), (np.zeros(100, int), np.arange(100))), shape=(600, 100))
    x = sp.hstack([topics, odd], format="csr")

    def parted() -> float:
        return abs(np.corrcoef(topics.log1p() @ directions(x, 1)[0][:40, 0], second)[0, 1])

    assert parted() > 0.9
    monkeypatch.setattr("countjump.priors.OFTEN", 1)
    assert parted() < 0.85


def test_a_column_that_is_never_filled_goes_nowhere():
    x = sp.hstack([two_topics()[0], sp.csr_matrix((600, 1))], format="csr")
    assert (directions(x, 2)[0][-1] == 0).all()


@pytest.mark.parametrize("same", ["rows", "columns", "all"])
def test_rows_that_are_alike_differ_in_fewer_directions(same):
    x = two_topics(12)[0]
    alike = {"rows": sp.vstack([x] * 10), "columns": sp.hstack([two_topics(60)[0]] * 3), "all": sp.vstack([x[0]] * 9)}
    rank = {"rows": 11, "columns": 40, "all": 0}[same]
    (one, deviations), (other, _) = (directions(sp.csr_matrix(alike[same]), 50) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert one.shape[1] <= rank
    assert (deviations > 0).all()
    assert np.abs(one).max(initial=0) < 100
