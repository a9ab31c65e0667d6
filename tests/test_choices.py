"""What "auto" chooses, on made-up data for every rule and on real data where it is at hand."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from countjump import Bounded, Count, NonNegative, Simplex, choices, domains
from countjump.data import Rows, as_matrix

DATA = Path(os.environ.get("COUNTJUMP_DATA", Path(__file__).parents[2] / "shared" / "data"))


def resolve(X, **options):
    matrix = as_matrix(X)
    domain, _ = domains.infer(matrix)
    reasons = {}
    process = choices.choose_process("auto", domain, "auto", reasons)
    belief = choices.choose_belief("auto", domain, process, matrix.shape[1], (matrix == 0).mean(), False, reasons)
    defaults = {"lam": "auto", "components": 2, "objective": "auto", "decode": "auto", "schedule": "linear-beta"}
    columns = matrix.shape[1]
    made = {"process": process, "belief": belief, "network": "mlp", "width": None, "reasons": reasons}
    return choices.choose(Rows(matrix), domain, columns, np.arange(columns), **(made | defaults | options))


def test_digits_are_bounded_counts_in_columns():
    X = load_digits().data
    domain, why = domains.infer(X)
    assert domain == Count(max=16)
    assert "columns share the largest, 16" in why
    assert choices.choose_belief("auto", domain, "binomial", 64, 0.5, False, {}) == "mixture"


@pytest.mark.parametrize(
    ("file", "bounded", "belief"),
    [
        ("20news_bow.npz", False, "composition"),
        ("nips1-17_bow.npz", False, "composition"),
        ("pbmc_facs_counts.npz", False, "composition"),
        ("mnist_uint8.npz", True, "mixture"),
    ],
)
def test_auto_is_right_on_real_data(file, bounded, belief):
    if not (DATA / file).exists():
        pytest.skip(f"no {DATA / file}: set COUNTJUMP_DATA to the directory that holds it")
    X = sp.load_npz(DATA / file) if not bounded else np.load(DATA / file)["x_train"][:3000].reshape(3000, -1)
    domain, _ = domains.infer(X)
    assert domain == Count(max=255 if bounded else None)
    assert choices.choose_belief("auto", domain, "binomial", X.shape[1], 0.9, False, {}) == belief


def test_the_grid_starts_where_a_row_has_a_quarter_of_a_unit():
    X = np.random.default_rng(0).poisson(5.0, size=(500, 4))
    plan = resolve(X)
    process, _ = choices.build(plan)
    alpha = process.schedule.alpha(process.grid(10))
    assert alpha[0] == 0
    assert alpha[-1] == 1
    assert float(alpha[1]) * X.sum(1).mean() == pytest.approx(choices.FIRST_TOKENS, rel=1e-3)


def test_the_grid_starts_earlier_where_the_tail_is_heavy():
    X = np.random.default_rng(0).standard_cauchy(20_000).__abs__()[:, None]
    plan = resolve(X)
    process, _ = choices.build(plan)
    alpha = process.schedule.alpha(process.grid(10))
    assert float(alpha[1] * plan.lam[0]) * np.quantile(X, 0.999) == pytest.approx(1, rel=1e-3)
    assert float(alpha[1] * plan.lam[0]) * X.mean() < choices.FIRST_TOKENS


def test_several_columns_of_large_numbers_keep_their_resolution():
    """λ from lost zeros alone would blur a column far from zero, and with it every correlation."""
    X = np.random.default_rng(0).normal(1000.0, 10.0, size=(500, 2))
    plan = resolve(X)
    signal, noise = plan.lam**2 * X.var(0), plan.lam * X.mean(0)
    np.testing.assert_allclose(signal / noise, choices.RESOLUTION, rtol=1e-6)
    assert isinstance(plan.domain, NonNegative)
    assert resolve(X[:, :1]).lam[0] < plan.lam[0]


def test_units_of_proportions():
    simplex = resolve(np.random.default_rng(0).dirichlet(np.ones(4), size=300))
    assert isinstance(simplex.domain, Simplex)
    assert simplex.lam.shape == (1,)
    assert simplex.lam == np.ceil(simplex.lam)
    bounded = resolve(np.random.default_rng(0).random((300, 2)))
    assert isinstance(bounded.domain, Bounded)
    assert bounded.lam.shape == (2,)
    assert (bounded.decode, simplex.decode) == ("draw", "draw")


def test_simplex_rows_with_inner_zeros_have_no_density_and_are_decoded_as_shares():
    X = np.random.default_rng(0).dirichlet(np.ones(4), size=300)
    X[::3, 1] = 0
    plan = resolve(X / X.sum(1, keepdims=True))
    assert not plan.has_law
    assert plan.decode == "latent"
    with pytest.raises(ValueError, match="exact zeros"):
        choices.check_scorable(plan)
    vertices = np.vstack([np.random.default_rng(0).dirichlet(np.ones(4), size=300), np.eye(4)])
    assert resolve(vertices).has_law, "whole rows on one part have an atom"
