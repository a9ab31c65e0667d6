"""What "auto" chooses, on made-up data for every rule and on real data where it is at hand."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits

from countjump import Bounded, Categorical, Count, JumpModel, NonNegative, Simplex, domains
from countjump.blocks import Blocks, Constant
from countjump.data import as_matrix
from countjump.planning import PLANNERS, build, decisions, make_plan

DATA = Path(os.environ.get("COUNTJUMP_DATA", Path(__file__).parents[2] / "shared" / "data"))


def resolve(X, **options):
    """The plan for some rows."""
    return make_plan(as_matrix(X), JumpModel(**options).get_params())


def test_digits_are_bounded_counts_in_columns():
    X = load_digits().data
    domain, why = domains.infer(X)
    assert domain == Count(max=16)
    assert "columns share the largest, 16" in why
    assert decisions.choose_belief("auto", domain, "binomial", 64, 0.5, False, {}) == "mixture"


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
    assert decisions.choose_belief("auto", domain, "binomial", X.shape[1], 0.9, False, {}) == belief


def test_the_grid_starts_where_a_row_has_a_quarter_of_a_unit():
    X = np.random.default_rng(0).poisson(5.0, size=(500, 4))
    plan = resolve(X)
    _, process, _ = build(plan, "mlp")
    alpha = process.schedule.alpha(process.grid(10))
    assert alpha[0] == 0
    assert alpha[-1] == 1
    assert float(alpha[1]) * X.sum(1).mean() == pytest.approx(decisions.FIRST_UNITS, rel=1e-3)


def test_the_grid_starts_earlier_where_the_tail_is_heavy():
    X = np.random.default_rng(0).standard_cauchy(20_000).__abs__()[:, None]
    plan = resolve(X)
    _, process, _ = build(plan, "mlp")
    alpha = process.schedule.alpha(process.grid(10))
    assert float(alpha[1] * plan.lam[0]) * np.quantile(X, 0.999) == pytest.approx(1, rel=1e-3)
    assert float(alpha[1] * plan.lam[0]) * X.mean() < decisions.FIRST_UNITS


def test_several_columns_of_large_numbers_keep_their_resolution():
    """λ from lost zeros alone would blur a column far from zero, and with it every correlation; with an offset it is not far."""
    X = np.random.default_rng(0).normal(1000.0, 10.0, size=(500, 2))
    plan = resolve(X, transform=None)
    signal, noise = plan.lam**2 * X.var(0), plan.lam * X.mean(0)
    np.testing.assert_allclose(signal / noise, decisions.RESOLUTION, rtol=1e-6)
    assert isinstance(plan.domain, NonNegative)
    assert resolve(X[:, :1], transform=None).lam[0] < plan.lam[0]
    shifted = resolve(X)
    assert (shifted.parts[0].coding.offset > 900).all()
    assert (shifted.parts[0].coding.offset < X.min(0)).all()


def test_units_of_proportions():
    simplex = resolve(np.random.default_rng(0).dirichlet(np.ones(4), size=300))
    assert isinstance(simplex.domain, Simplex)
    assert simplex.lam.shape == (1,)
    assert simplex.lam == np.ceil(simplex.lam)
    bounded = resolve(np.random.default_rng(0).random((300, 2)))
    assert isinstance(bounded.domain, Bounded)
    assert bounded.lam.shape == (2,)
    assert [plan.parts[-1].options["decoding"] for plan in (bounded, simplex)] == ["draw", "draw"]


def test_a_share_that_rounds_to_one_does_not_hide_an_inner_zero():
    shares = np.array([[1e-140, 1.0, 1e-40], [1e-100, 1e-45, 1.0], [0.5, 0.0, 0.5]] * 4)
    model = JumpModel(max_updates=2, width=8, random_state=0, progress=False).fit(shares)
    with pytest.raises(ValueError, match="exact zeros have no density"):
        model.score_samples(shares)


def test_simplex_rows_with_inner_zeros_have_no_density_and_are_decoded_as_shares():
    X = np.random.default_rng(0).dirichlet(np.ones(4), size=300)
    X[::3, 1] = 0
    plan = resolve(X / X.sum(1, keepdims=True))
    assert not plan.parts[-1].options["has_law"]
    assert plan.parts[-1].options["decoding"] == "latent"
    _, process, _ = build(plan, "mlp")
    assert "exact zeros" in process.why_no_likelihood()
    vertices = np.vstack([np.random.default_rng(0).dirichlet(np.ones(4), size=300), np.eye(4)])
    assert resolve(vertices).parts[-1].options["has_law"], "whole rows on one part have an atom"


# Parts.

COUNTS = np.random.default_rng(0).poisson(3.0, size=(50, 3))
SPARSE = np.random.default_rng(0).poisson(0.1, size=(50, 300))
KINDS = {
    "counts": (COUNTS, {}),
    "poisson": (COUNTS, {"belief": "poisson"}),
    "reals": (np.random.default_rng(0).gamma(1.0, 9.0, size=(50, 3)), {}),
    "units": (np.random.default_rng(0).dirichlet(np.ones(3), size=50), {}),
    "sparse-counts": (SPARSE, {"domain": "count"}),
    "sparse-reals": (SPARSE * np.pi, {}),
}


def test_every_planner_has_an_example():
    assert set(KINDS) == set(PLANNERS)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_planned_as_a_part_of_their_kind_and_constants_as_a_part_of_their_own(kind):
    X, options = KINDS[kind]
    whole = resolve(X, **options)
    assert [part.kind for part in whole.parts] == [kind]
    with_constant = np.insert(X.astype(float), 1, 2.0 if kind != "units" else 0.0, axis=1)
    plan = resolve(with_constant, **options)
    assert [part.kind for part in plan.parts] == ["constant", kind]
    assert plan.parts[0].columns.tolist() == [1]
    assert plan.parts[1].columns.tolist() == [0, *range(2, with_constant.shape[1])]
    _, process, denoiser = build(plan, "mlp")
    assert isinstance(process.block, Blocks)
    assert isinstance(process.block.parts[0], Constant)
    assert denoiser.block is process.block
    assert process.block.size == with_constant.shape[1]


def test_a_wide_column_that_was_never_seen_is_no_constant():
    """It has its share of 1/(rows + 1) units; but a column of few that is always zero is a constant."""
    X = SPARSE.copy()
    X[:, [4, 7]] = 0
    unseen = np.flatnonzero(X.sum(0) == 0)
    plan = resolve(X, domain="count")
    assert [part.kind for part in plan.parts] == ["sparse-counts"]
    shares = plan.parts[0].arrays["shares"]
    assert shares.sum() == pytest.approx(1)
    assert shares[unseen].sum() == pytest.approx(1 / 51 / X.sum(1).mean(), rel=0.01)
    assert resolve(np.insert(COUNTS, 1, 0, axis=1)).parts[0].columns.tolist() == [1]


@pytest.mark.parametrize(("options", "inferred"), [({}, True), ({"domain": Count(max=5)}, False)])
def test_only_an_inferred_bound_has_an_escape_mass(options, inferred):
    X = np.random.default_rng(0).integers(0, 6, size=(100, 2))
    plan = resolve(X, **options)
    assert plan.parts[-1].options["escape"] == (1 / (101 * 2) if inferred else 0.0)


def test_a_network_of_one_s_own_gets_the_layout_of_the_whole_row():
    X = np.insert(COUNTS, 1, 4, axis=1)
    asked = []

    def network(inputs, outputs, width):
        asked.append((inputs, outputs, width))
        return torch.nn.Linear(inputs, outputs)

    own, known = resolve(X, network=network), resolve(X)
    assert own.network == "own: network"
    _, process, _ = build(own, network)
    per_column = process.block.parts[-1].per_column
    assert asked == [(4 * 4, per_column * 4, 128)]
    assert build(known, "mlp")[0].inputs == 4 * 3


def test_a_flag_is_bounded_however_rare_its_ones_are():
    rng = np.random.default_rng(0)
    X = np.stack([rng.poisson(5.0, 500), rng.random(500) < 0.004, rng.normal(size=500)], 1)
    assert 0 < X[:, 1].sum() < 5
    domain = resolve(X).domain
    assert isinstance(domain, dict)
    assert domain[0].bounds(1) == np.inf
    assert domain[1].bounds(1) == 1
    assert domain[2] == NonNegative()


def test_columns_are_named_by_indices_ranges_and_tuples_of_them_in_one_mapping():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(300, 6)).astype(float)
    X[:, 4] = rng.gamma(2.0, 3.0, size=300)
    asked = {range(2): "count", (2, -1): Categorical(), 3: Count(max=9)}
    plan = resolve(X, domain=asked)
    assert isinstance(plan.domain, dict)
    expected = [Count(), Count(), Categorical(), Count(max=9), NonNegative(), Categorical()]
    assert [plan.domain[column] for column in range(6)] == expected
    with pytest.raises(ValueError, match="names the column 1 twice"):
        resolve(X, domain={range(2): "count", 1: Categorical()})
