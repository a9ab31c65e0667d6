"""Scores: what they depend on, how noisy they are, and what mass is left for what was inferred but never seen."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.stats import beta
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from tables import DATA, counts, one_hots, quick, shares, wide_counts, wide_reals

from countjump import Bounded, Count, JumpModel, Simplex
from countjump.baselines import D3PM
from countjump.denoiser import Denoiser

# What a score depends on.

SCORED = {
    "few columns": (lambda: quick(), lambda: counts(rows=60)),
    "reals": (lambda: quick(), lambda: DATA["non-negative"][:60]),
    "proportions": (lambda: quick(), lambda: shares(60)),
    "wide counts": (lambda: quick(), wide_counts),
    "wide counts, of the default width": (lambda: quick(width=256), lambda: wide_counts(columns=1000)),
    "wide reals": (lambda: quick(), wide_reals),
    "D3PM": (lambda: D3PM(max_updates=30, width=16, random_state=0, progress=False), lambda: counts(rows=60)),
}


@pytest.mark.parametrize("name", SCORED)
def test_a_score_depends_on_the_seed_and_the_row_alone(name):
    """To 1e-7 of itself, and with something to spare: a product of one row with a matrix is rounded otherwise than that of many."""
    model, X = (make() for make in SCORED[name])
    model.fit(X)
    steps = {"steps": 20, "random_state": 3}
    whole = model.score_samples(X, **steps)
    assert np.isfinite(whole).all()
    order = np.random.default_rng(0).permutation(X.shape[0])
    np.testing.assert_allclose(model.score_samples(X[order], **steps), whole[order], rtol=2e-8)
    for size in (1, 7):
        parts = [model.score_samples(X[start : start + size], **steps) for start in range(0, 21, size)]
        np.testing.assert_allclose(np.concatenate(parts), whole[:21], rtol=2e-8)
    kind = X.toarray() if sp.issparse(X) else sp.csr_matrix(X)
    np.testing.assert_allclose(model.score_samples(kind, **steps), whole, rtol=2e-8)
    assert (model.score_samples(X, steps=20, random_state=4) != whole).mean() > 0.9


def test_with_no_seed_given_the_models_own_is_used(tmp_path):
    model, X = quick().fit(counts()), counts(rows=20, seed=1)
    scores = model.score_samples(X)
    np.testing.assert_array_equal(model.score_samples(X, random_state=0), scores)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(JumpModel.load(tmp_path / "m").score_samples(X), scores)


def test_equal_rows_are_evaluated_once(monkeypatch):
    model, X = quick().fit(counts()), counts(rows=20, seed=1)
    asked = []
    real = Denoiser.forward

    def forward(self, z, t, condition=None):
        asked.append(len(z))
        return real(self, z, t, condition)

    monkeypatch.setattr(Denoiser, "forward", forward)
    once = model.score_samples(X, steps=5)
    few = sum(asked)
    asked.clear()
    many = model.score_samples(np.tile(X, (50, 1)), steps=5)
    assert sum(asked) == few
    np.testing.assert_array_equal(many, np.tile(once, 50))


def test_scores_average_over_draws():
    model = quick().fit(counts())
    X = counts(seed=1)
    one, many = (
        np.std([model.score_samples(X[:5], steps=10, draws=d, random_state=s) for s in range(12)], axis=0)
        for d in (1, 9)
    )
    assert many.mean() < 0.6 * one.mean()


def test_the_score_of_a_binary_column_has_a_standard_error_below_a_hundredth_of_a_nat():
    X = np.random.default_rng(0).integers(0, 2, size=(1000, 1))
    model = quick(max_updates=100).fit(X)
    scores = [model.score_samples(X, random_state=seed).mean() for seed in range(6)]
    assert 0 < np.std(scores, ddof=1) < 0.01
    assert np.mean(scores) == pytest.approx(-np.log(2), abs=0.05)


def test_scores_are_comparable_across_the_size_of_lam():
    """The bound is on the data itself, so that λ hardly moves it; the paper's own sum grows with λ."""
    X = np.random.default_rng(0).gamma(2.0, 1.0, size=(3000, 1))
    truth = np.mean(np.log(X) - X)
    for lam in (20.0, 200.0):
        model = quick(lam=lam, max_updates=300, batch_size=256, width=32, learning_rate=3e-3).fit(X)
        assert model.score_samples(X[:1000], steps=50).mean() == pytest.approx(truth, abs=0.15)


# Mass: a bound sums to at most one, and so it does with what was never seen.


def total(model, X, **options):
    """The sum of the probabilities of some rows, by their scores."""
    return float(np.exp(model.score_samples(X, steps=20, **options)).sum())


def test_the_probabilities_of_all_rows_sum_to_at_most_one():
    X = np.random.default_rng(0).integers(0, 4, size=(500, 2))
    model = quick(domain=Count(max=3), max_updates=200, learning_rate=3e-3).fit(X)
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(4)), -1).reshape(-1, 2)
    assert 0.7 < total(model, grid, draws=100) < 1.01


@pytest.mark.parametrize("value", [0, 7])
def test_another_value_of_a_constant_count_has_an_escape_mass(value):
    rows = 20
    model = quick().fit(np.full((rows, 1), value))
    others = np.setdiff1d(np.arange(5000), value)[:, None]
    escaped = total(model, others)
    assert total(model, [[value]]) == pytest.approx(1 - 1 / (rows + 1))
    assert 0.4 / (rows + 1) < escaped <= 1 / (rows + 1)


def test_another_value_of_a_constant_real_has_a_density():
    rows = 20
    model = quick().fit(np.full((rows, 1), 2.5))
    x = np.linspace(0, 500, 20_001)
    density = np.exp(model.score_samples(x[:, None]))
    inside = density[x != 2.5].sum() * (x[1] - x[0])
    assert 0.4 / (rows + 1) < inside <= 1 / (rows + 1)
    assert density[x == 2.5] == pytest.approx(1 - 1 / (rows + 1))


def test_constants_share_one_escape_mass():
    rows = 100
    model = quick().fit(np.tile([0, 7, 5], (rows, 1)))
    assert total(model, [[0, 7, 5]]) == pytest.approx(1 - 1 / (rows + 1), rel=1e-3)
    grid = np.stack(np.meshgrid(*[np.arange(30)] * 3), -1).reshape(-1, 3)
    assert 1 - 1 / (rows + 1) < total(model, grid) <= 1


@pytest.mark.parametrize("bound", [1, 5])
def test_a_count_above_an_inferred_bound_has_an_escape_mass(bound):
    rows = 300
    X = np.random.default_rng(0).integers(0, bound + 1, size=(rows, 1))
    model = quick(max_updates=100, learning_rate=3e-3).fit(X)
    assert model.domain_.name == ("binary" if bound == 1 else "count")
    inside = total(model, np.arange(bound + 1)[:, None])
    above = total(model, np.arange(bound + 1, 20 * (bound + 1))[:, None], draws=20)
    assert 0.8 / (rows + 1) < above < 1.1 / (rows + 1)
    assert 0.9 < inside + above < 1.01


def test_a_real_above_an_inferred_bound_has_an_escape_mass():
    rows = 300
    model = quick(max_updates=100).fit(np.random.default_rng(0).random((rows, 1)))
    assert model.domain_ == Bounded(1.0)
    edges = np.geomspace(1 + 1e-9, 1e3, 401)
    middle = np.sqrt(edges[1:] * edges[:-1])
    density = np.exp(model.score_samples(middle[:, None], steps=20, draws=4))
    above = (density * np.diff(edges)).sum()
    assert 0.8 / (rows + 1) < above < 1.1 / (rows + 1)


def test_columns_share_the_escape_mass_of_their_bounds():
    rows = 300
    model = quick(max_updates=100, learning_rate=3e-3).fit(np.random.default_rng(0).integers(0, 2, size=(rows, 2)))
    grid = np.stack(np.meshgrid(np.arange(40), np.arange(40)), -1).reshape(-1, 2)
    outside = (grid > 1).any(1)
    escaped = total(model, grid[outside], draws=4)
    assert 0.8 / (rows + 1) < escaped < 1.1 / (rows + 1)
    assert 0.9 < total(model, grid[~outside], draws=100) + escaped < 1.02


@pytest.mark.parametrize(
    ("domain", "X", "row"),
    [
        (Count(max=5), DATA["bounded-count"], [6, 1]),
        ("binary", DATA["binary"], [2, 1, 1]),
        (Bounded(1.0), DATA["bounded"], [0.5, 1.5]),
    ],
)
def test_what_a_declared_domain_forbids_scores_minus_infinity(domain, X, row):
    model = quick(domain=domain).fit(X)
    scores = model.score_samples(np.vstack([X[:3], [row]]))
    assert np.isfinite(scores).tolist() == [True] * 3 + [False]
    assert scores[3] == -np.inf


def test_a_category_that_was_never_seen_has_an_escape_mass():
    rows = 200
    X = np.column_stack([one_hots(rows, parts=3), np.zeros(rows, dtype=int)])
    model = quick(max_updates=100).fit(X)
    probability = np.exp(model.score_samples(np.eye(4, dtype=int)))
    assert 0.05 / (rows + 1) < probability[3] <= 1 / (rows + 1)
    assert 0.9 < probability.sum() < 1.01


def test_another_share_of_a_constant_part_of_a_simplex_has_a_density():
    """The other parts share what it leaves as they did before, on a scale of their own: 1 − 0.4 in the place of 1 − 0.5."""
    rows = 300
    X = np.column_stack([np.full(rows, 0.5), shares(rows) / 2])
    model = quick(max_updates=100).fit(X)
    usual, unusual = (
        model.score_samples(np.column_stack([np.full(rows, 1 - left), shares(rows) * left]), steps=10, draws=10)
        for left in (0.5, 0.6)
    )
    # A Cauchy density of scale one, at a distance of a tenth.
    escaped = -np.log(rows + 1) - np.log(np.pi * 1.01)
    expected = escaped - np.log1p(-1 / (rows + 1)) - 2 * np.log(0.6 / 0.5)
    assert (unusual - usual).mean() == pytest.approx(expected, abs=0.03)


def test_a_wide_column_that_was_never_seen_has_an_escape_mass():
    """Of 30 columns that were never seen in 200 rows a row is expected to hold 1/201 units."""
    X = np.random.default_rng(0).poisson(0.3, size=(200, 300))
    X[:, :30] = 0
    model = quick(max_updates=100, learning_rate=3e-3).fit(sp.csr_matrix(X))
    assert model.belief_ == "composition"
    held_out = np.random.default_rng(1).poisson(0.3, size=(30, 300))
    held_out[:, :30] = 0
    with_one = held_out.copy()
    with_one[:, 7] = 1
    with_another = held_out.copy()
    with_another[:, 100] += 1
    none, one, another = (model.score_samples(each, steps=20) for each in (held_out, with_one, with_another))
    assert np.isfinite(one).all()
    # One unit of a column whose share is 1/(201 · 30), against one of a column that is expected 0.3 times.
    assert (one - another).mean() == pytest.approx(np.log(1 / (201 * 30) / 0.3), abs=1.5)
    assert (one < none).mean() > 0.9


@pytest.mark.parametrize("reals", [False, True])
def test_unseen_and_constant_columns_of_wide_rows_are_scored(reals):
    X = (wide_reals() if reals else wide_counts()).tolil()
    X[:, 3], X[:, 5] = 7, 0
    model = quick(max_updates=5).fit(X.tocsr())
    assert model.belief_ == "composition"
    rows = X[:4]
    rows[1, 3], rows[2, 3], rows[3, 5] = 8, 0, 1
    usual, scores = (model.score_samples(each.tocsr(), steps=5, draws=50) for each in (X[:4], rows))
    assert np.isfinite(scores).all()
    assert (scores[1:] < usual[1:] - np.log(91) + 1).all()
    np.testing.assert_allclose(model.score_samples(rows.toarray(), steps=5, draws=50), scores, rtol=1e-7)


def test_rows_outside_what_was_seen_score_minus_infinity_or_a_number():
    vertices = quick(domain="simplex").fit(one_hots(parts=3).astype(float))
    ends = quick(domain=Bounded(1)).fit(DATA["binary"].astype(float))
    for scores in (vertices.score_samples([[0.2, 0.3, 0.5]]), ends.score_samples([[0.2, 0.3, 0.5]])):
        assert not np.isnan(scores).any()
        assert (scores < 0).all()


@pytest.mark.parametrize("domain", ["auto", Bounded(1.0)])
def test_an_end_that_no_row_was_at_has_an_escape_mass(domain):
    """After 40 rows of two columns: 1/(41 · 2), in the place of what the prior says of the column's mean."""
    X = np.random.default_rng(0).beta(0.8, 0.8, (40, 2))
    model = quick(domain=domain, max_updates=1, learning_rate=1e-9).fit(X)
    assert isinstance(model.domain_, Bounded)
    mean = X[:, 0].mean()
    middle, low, high = model.score_samples([[mean, 0.5], [0, 0.5], [1, 0.5]], steps=50, draws=20)
    density = beta(*model.block_.concentration[0].tolist()).logpdf(mean)
    for end in (low, high):
        assert end == pytest.approx(middle - density - np.log(41 * 2), abs=0.2)


def test_a_zero_that_no_simplex_row_had_has_an_escape_mass():
    X = np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], 40)
    model = quick(max_updates=1, learning_rate=1e-9).fit(X)
    assert isinstance(model.domain_, Simplex)
    inner, corner, usual = model.score_samples([[0, 0.5, 0.5], [0, 0, 1], X[0]], steps=20)
    assert np.isfinite([inner, corner, usual]).all()
    assert inner == pytest.approx(-np.log(41), abs=1)
    assert corner == pytest.approx(-np.log(41), abs=1)


def test_samples_break_neither_bounds_nor_constants():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, (40, 2)), np.full(40, 1), np.zeros(40, dtype=int)])
    Y = quick().fit(X).sample(5000, steps=3, random_state=0)
    assert Y.max() == 1
    assert (Y[:, 2] == 1).all()
    assert (Y[:, 3] == 0).all()
    Y = (
        quick()
        .fit(np.column_stack([rng.integers(0, 6, (40, 2)), np.full(40, 9)]))
        .sample(5000, steps=3, random_state=0)
    )
    assert Y[:, :2].max() == 5
    assert (Y[:, 2] == 9).all()
    assert quick().fit(rng.random((40, 2))).sample(5000, steps=3, random_state=0).max() <= 1


# Model selection on wide counts.

WORDS = {
    "sea": ["ship", "wave", "salt", "harbour", "sail", "storm", "deck", "anchor", "tide", "crew", "rope", "mast"],
    "kitchen": ["salt", "pan", "bread", "butter", "oven", "flour", "sugar", "spoon", "knife", "plate", "soup", "stove"],
}


def documents(count=60):
    """Made-up documents about two things; most of their words are rare and come in one document alone."""
    rng = np.random.default_rng(0)
    made = []
    for place in range(count):
        about = list(WORDS.values())[place % 2]
        rare = [f"rare{place}x{i}" for i in range(6)]
        made.append(" ".join([*rng.choice(about, 20), *rng.choice(rare, 6)]))
    return made


def test_cross_validation_on_a_count_vectorizers_output_is_finite_in_every_fold():
    X = CountVectorizer().fit_transform(documents())
    model = quick(max_updates=5)
    scores = cross_val_score(model, X, cv=3)
    assert model.fit(X).belief_ == "composition"
    assert np.isfinite(scores).all()
    assert (scores < 0).all()


def test_a_grid_search_on_wide_counts_ranks_a_longer_fit_above_a_very_short_one():
    X = CountVectorizer().fit_transform(documents())
    model = quick(width=32, learning_rate=3e-3)
    search = GridSearchCV(model, {"max_updates": [2, 80]}, cv=2, refit=False).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_ == {"max_updates": 80}


def test_no_gradient_is_kept_of_a_score():
    model = quick(max_updates=2).fit(wide_counts())
    model.score_samples(wide_counts()[:3], steps=2)
    assert all(weight.grad is None for weight in model.denoiser_.parameters())
    assert torch.is_grad_enabled()
