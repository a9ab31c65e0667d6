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
    seen, rise = directions(x, 2)
    place = x.log1p() @ seen[:, 0]
    place = place - place.mean()
    assert abs(np.corrcoef(place, second)[0, 1]) > 0.9
    assert (np.sign(rise[:10, 0]) == -np.sign(rise[10:20, 0])).all()
    assert abs(rise[20:, 0]).max() < 0.5 * abs(rise[:20, 0]).min()


@pytest.mark.parametrize("rows", [600, 35])
def test_places_are_the_principal_components_of_the_standardised_logarithms(rows, monkeypatch):
    monkeypatch.setattr("countjump.priors.OFTEN", 1)
    x, _ = two_topics(rows)
    logs = np.log1p(x.toarray())
    standard = (logs - logs.mean(0)) / logs.std(0)
    u, _, _ = np.linalg.svd(standard, full_matrices=False)
    seen, _ = directions(x, 3)
    places = logs @ seen
    places -= places.mean(0)
    np.testing.assert_allclose(abs(places[:, 0]), abs(u[:, 0]) * np.sqrt(len(logs)), atol=1e-3)
    np.testing.assert_allclose(places.std(0), 1.0, rtol=1e-3)


def test_the_same_rows_give_the_same_directions():
    x, _ = two_topics()
    for one, other in zip(directions(x, 3), directions(x, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_column_that_is_seldom_filled_counts_less():
    x = two_topics()[0].tolil()
    x[:, 39] = 0
    x[0, 39] = 500
    seen, _ = directions(sp.csr_matrix(x), 1)
    assert abs(seen[39, 0]) < 0.2 * abs(seen[:20, 0]).mean()


def test_a_column_that_is_never_filled_goes_nowhere():
    x = sp.hstack([two_topics()[0], sp.csr_matrix((600, 1))], format="csr")
    seen, rise = directions(x, 2)
    assert (seen[-1] == 0).all()
    assert (rise[-1] == 0).all()


@pytest.mark.parametrize("same", ["rows", "columns", "all"])
def test_rows_that_are_alike_differ_in_fewer_directions(same):
    x = two_topics(12)[0]
    alike = {"rows": sp.vstack([x] * 10), "columns": sp.hstack([two_topics(60)[0]] * 3), "all": sp.vstack([x[0]] * 9)}
    rank = {"rows": 11, "columns": 40, "all": 0}[same]
    for one, other in zip(*(directions(sp.csr_matrix(alike[same]), 50) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.shape[1] <= rank
        assert np.abs(one).max(initial=0) < 100
