"""Rows of which a part was observed: with exact beliefs, what is drawn and expected has the conditional law."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from goodness import LEVEL, Counting, generator, grid, pearson

from countjump import Count, JumpModel
from countjump.blocks import PoissonBlock
from countjump.laws import NegativeBinomial, Streams
from countjump.oracles import CountOracle, GammaOracle, SparseDirichletOracle
from countjump.processes import Jump
from countjump.sampling import chain
from countjump.schedules import Cosine

SHAPE, MEAN = 1.5, 4.0


def d(*values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def counts(rows: int = 400, columns: int = 2, seed: int = 0) -> np.ndarray:
    g = np.random.default_rng(seed)
    return g.negative_binomial(SHAPE, SHAPE / (SHAPE + MEAN), (rows, columns))


def fitted(X: object, **params: object) -> JumpModel:
    return JumpModel(**({"max_updates": 3, "width": 16, "random_state": 0, "progress": False} | params)).fit(X)


def told(model: JumpModel) -> JumpModel:
    """The model with an exact belief about negative binomial counts in the place of its network."""
    model.denoiser_ = CountOracle(model.process_.schedule, NegativeBinomial(d(SHAPE), d(MEAN)), 200)
    return model


def missing(z: float, fraction: float) -> NegativeBinomial:
    """Of a negative binomial count of which z is left: conjugacy, written out."""
    shape = SHAPE + z
    return NegativeBinomial(d(shape), d((1 - fraction) * shape / (fraction + SHAPE / MEAN)))


# Chains whose rows have times of their own.


@pytest.mark.parametrize("steps", [1, 6])
def test_rows_may_start_at_times_of_their_own(steps: int):
    process = Jump(PoissonBlock(Count(), d(1.0), d(1.0)), Cosine())
    oracle = GammaOracle(Cosine(), d(1.0), d(SHAPE), d(MEAN))
    cases = [(0.0, 0.3), (3.0, 0.3), (3.0, 0.8)]
    z = d(*([z] for z, _ in cases)).repeat_interleave(3000, 0)
    first = torch.tensor([Cosine().time(fraction) for _, fraction in cases]).double().repeat_interleave(3000)
    times = torch.linspace(1, 0, steps + 1).double()[:, None] * first
    *_, last = chain(process, oracle, z, times, Streams([generator(1)], len(z)))
    for (seen, fraction), came in zip(cases, (last.z - z).split(3000), strict=True):
        assert pearson(came[:, 0], grid(150), missing(seen, fraction).log_prob(grid(150))) > LEVEL


def test_equal_states_are_evaluated_once_if_their_times_are_equal():
    process = Jump(PoissonBlock(Count(), d(1.0), d(1.0)), Cosine())
    oracle = Counting(GammaOracle(Cosine(), d(1.0), d(SHAPE), d(MEAN)))
    z, first = d([2], [2], [2], [5], [5]).repeat(20, 1), d(0.4, 0.6, 0.4, 0.4, 0.6).repeat(20)
    list(chain(process, oracle, z, torch.stack([first, 0 * first]), Streams([generator()], len(z))))
    assert oracle.asked == [4]


def test_times_of_all_rows_and_of_each_are_one_chain():
    process = Jump(PoissonBlock(Count(), d(1.0), d(1.0)), Cosine())
    oracle = GammaOracle(Cosine(), d(1.0), d(SHAPE), d(MEAN))
    z, times = torch.arange(50.0).double()[:, None], torch.linspace(0.7, 0, 5).double()
    ends = []
    for each in (times, times[:, None].expand(-1, 50)):
        *_, last = chain(process, oracle, z, each, Streams([generator()], 50))
        ends.append(last.z)
    assert torch.equal(*ends)


# Deepening and denoising with exact beliefs.


@pytest.mark.parametrize("steps", [1, 10])
def test_whole_rows_have_the_conditional_law(steps: int):
    """Given z units, of which each was kept with probability f: NB(shape + z) more, whatever the number of steps."""
    model = told(fitted(counts()))
    cases = [(0, 0.3), (7, 0.3), (2, 0.9)]
    X = np.repeat([[z, z] for z, _ in cases], 1500, 0)
    whole = model.deepen(X, np.repeat([f for _, f in cases], 1500), steps=steps, random_state=1)
    came = torch.from_numpy(whole - X).double().reshape(len(cases), -1)
    for (z, fraction), each in zip(cases, came, strict=True):
        assert pearson(each, grid(150), missing(z, fraction).log_prob(grid(150))) > LEVEL


def test_thinned_rows_get_the_law_of_whole_ones():
    X = counts(3000)
    thinned = np.random.default_rng(1).binomial(X, 0.3)
    whole = told(fitted(counts())).deepen(thinned, 0.3, steps=5, random_state=0)
    law = NegativeBinomial(d(SHAPE), d(MEAN))
    assert pearson(torch.from_numpy(whole[:, 0]).double(), grid(150), law.log_prob(grid(150))) > LEVEL
    assert np.corrcoef(whole[:, 0], X[:, 0])[0, 1] > 0.5  # it is of the same rows


def test_expected_rows_are_what_is_seen_and_the_mean_of_what_is_missing():
    X, fraction = np.array([[0, 7], [2, 2], [5, 1]]), np.array([0.3, 0.9, 1.0])
    expected = told(fitted(counts())).denoise(X, fraction)
    assert expected.dtype == np.float32
    for row in range(2):
        for column in range(2):
            z = float(X[row, column])
            assert expected[row, column] == pytest.approx(z + float(missing(z, fraction[row]).mean), rel=1e-6)
    np.testing.assert_array_equal(expected[2], X[2])


def wide_counts(rows: int = 120, columns: int = 300) -> sp.csr_matrix:
    g = np.random.default_rng(0)
    return sp.csr_matrix(g.poisson(g.gamma(0.2, 1.0, (rows, columns))).astype(np.int32))


@pytest.fixture(scope="module")
def wide() -> JumpModel:
    return fitted(wide_counts())


def test_wide_rows_have_the_conditional_expectation(wide: JumpModel):
    """NB(shape + |z|) units fall by (c + z)/|c + z|; only the columns that are asked for are made."""
    concentration = torch.linspace(0.1, 1, 300).double()
    total = GammaOracle(wide.process_.schedule, d(1.0), d(SHAPE), d(60.0))
    X, denoiser = wide_counts()[:4], wide.denoiser_
    wide.denoiser_ = SparseDirichletOracle(total, concentration)
    try:
        expected = wide.denoise(X, 0.4)
        some = wide.denoise(X, 0.4, columns=[7, -1, 0])
    finally:
        wide.denoiser_ = denoiser
    z = X.toarray().astype(float)
    units = z.sum(1, keepdims=True)
    left = 0.6 * (SHAPE + units) / (0.4 + SHAPE / 60)
    weights = concentration.numpy() + z
    np.testing.assert_allclose(expected, z + left * weights / weights.sum(1, keepdims=True), rtol=1e-4)
    np.testing.assert_array_equal(some, expected[:, [7, 299, 0]])


# What a model promises.


@pytest.mark.parametrize(
    "make", [np.asarray, sp.csr_matrix, sp.csr_array, sp.coo_matrix], ids=lambda each: each.__name__
)
def test_wide_rows_keep_their_units_kind_and_dtype(wide: JumpModel, make):
    thinned = np.random.default_rng(1).binomial(wide_counts().toarray(), 0.3).astype(float)
    whole = wide.deepen(make(thinned), 0.3, steps=3, random_state=0)
    assert sp.issparse(whole) == (make is not np.asarray)
    assert isinstance(whole, sp.sparray) == (make is sp.csr_array)
    assert whole.dtype == np.int32
    assert ((whole.toarray() if sp.issparse(whole) else whole) >= thinned).all()


@pytest.mark.parametrize("kind", ["dense", "wide"])
def test_a_row_depends_on_itself_its_number_and_the_seed_alone(kind: str, wide: JumpModel):
    model, X = (wide, wide_counts()[:30].toarray()) if kind == "wide" else (fitted(counts()), counts(30))
    fraction = np.linspace(0.2, 0.9, 30)
    whole = model.deepen(X, fraction, steps=4, random_state=3)
    X_other, fraction_other = X.copy(), fraction.copy()
    X_other[:10] += 5
    fraction_other[20:] = 1.0
    other = model.deepen(X_other, fraction_other, steps=4, random_state=3)
    np.testing.assert_array_equal(other[10:20], whole[10:20])
    np.testing.assert_array_equal(other[20:], X[20:])
    np.testing.assert_array_equal(model.deepen(X[:25], fraction[:25], steps=4, random_state=3), whole[:25])
    assert (model.deepen(X, fraction, steps=4, random_state=4) != whole).any()


def test_columns_that_never_change_and_columns_never_seen(wide: JumpModel):
    X = counts()
    X[:, 0] = 3
    model = fitted(X)
    observed = np.array([[0, 2], [3, 0], [1, 9]])
    whole = model.deepen(observed, [0.5, 0.5, 1.0], random_state=0)
    assert (whole[:, 0] == 3).all()
    assert (whole[:, 1] >= observed[:, 1]).all()
    assert (model.denoise(observed, 0.5)[:, 0] == 3).all()
    alone = fitted(np.full((20, 2), 3))
    np.testing.assert_array_equal(alone.deepen([[0, 1]], 0.2), [[3, 3]])
    np.testing.assert_array_equal(alone.denoise([[0, 1]], 0.2), [[3, 3]])
    rare = wide_counts().toarray()
    rare[:, 5] = 0
    unseen = fitted(sp.csr_matrix(rare))
    observed = np.zeros((2, 300), dtype=int)
    observed[0, 5] = 4
    assert (unseen.deepen(observed, 0.5, steps=3, random_state=0) >= observed).all()


def test_bounds_hold_in_whole_rows():
    X = np.minimum(counts(), 6)
    model = fitted(X, domain=Count(max=6))
    thinned = np.random.default_rng(0).binomial(X, 0.5)
    whole = model.deepen(thinned, 0.5, steps=5, random_state=0)
    assert whole.max() <= 6
    assert (whole >= thinned).all()
    with pytest.raises(ValueError, match=r"X\[1, 0\] = 7, in column 0, is above the column's bound 6"):
        model.deepen([[1, 1], [7, 0]], 0.5)


def test_counts_behind_weights_are_given_and_made_as_counts():
    hidden = wide_counts(200)
    weights = np.random.default_rng(2).uniform(0.5, 3, 300)
    model = fitted(sp.csr_matrix(hidden.multiply(weights)))
    assert model.scaling_ is not None
    whole = model.deepen(hidden[:5], 0.5, steps=3, random_state=0)
    assert (whole.toarray() == np.floor(whole.toarray())).all()
    assert (whole.toarray() >= hidden[:5].toarray()).all()
    assert (model.denoise(hidden[:5], 0.5) >= hidden[:5].toarray()).all()
    with pytest.raises(ValueError, match="must be these counts"):
        model.deepen(hidden[:5].multiply(weights), 0.5)


def test_columns_are_asked_for_by_name():
    import pandas as pd

    model = fitted(pd.DataFrame(counts(), columns=["visits", "orders"]))
    X = pd.DataFrame([[1, 2], [3, 4]], columns=["visits", "orders"])
    whole = model.denoise(X, 0.5)
    np.testing.assert_array_equal(model.denoise(X, 0.5, columns=["orders"]), whole[:, 1:])
    np.testing.assert_array_equal(model.denoise(X, 0.5, columns="visits"), whole[:, :1])
    np.testing.assert_array_equal(model.denoise(X, 0.5, columns=[False, True]), whole[:, 1:])
    with pytest.raises(ValueError, match="no column 'clicks': the names are 'visits', 'orders'"):
        model.denoise(X, 0.5, columns=["clicks"])
    with pytest.raises(ValueError, match="2 is no column"):
        model.denoise(X, 0.5, columns=[2])


@pytest.mark.parametrize(
    ("X", "params", "why"),
    [
        (counts() + 0.5, {}, "column 'first' begins at 0.5 and goes by steps of 1, and only plain counts lose units"),
        (counts(), {"process": "poisson"}, "column 'first' is modelled by process='poisson'"),
        (np.eye(2)[counts()[:, 0] % 2], {"domain": "one-hot"}, "column 'first' holds one-hot data"),
        (counts() / counts().max(), {"domain": "bounded"}, "column 'first' holds bounded data"),
    ],
    ids=["reals", "poisson", "one-hot", "bounded"],
)
def test_what_loses_no_units_is_named(X: np.ndarray, params: dict, why: str):
    import pandas as pd

    frame = pd.DataFrame(X, columns=["first", "second"])
    model = fitted(frame, **params)
    for method in (model.deepen, model.denoise):
        with pytest.raises(ValueError, match=why):
            method(frame, 0.5)


@pytest.mark.parametrize(
    ("fraction", "why"),
    [
        (0.0, "fraction must be above 0"),
        (1.5, "at most 1, got 1.5"),
        ([0.5, np.nan], r"fraction\[1\] must be"),
        ([0.5], r"one per row, of 2 rows, got of shape \(1,\)"),
        ("half", "one per row, of 2 rows, got 'half'"),
        (1e-9, "where the model's chains begin"),
    ],
)
def test_fractions_are_checked(fraction: object, why: str):
    model = fitted(counts())
    with pytest.raises(ValueError, match=why):
        model.deepen([[1, 2], [0, 0]], fraction)


def test_rows_are_checked():
    model = fitted(counts())
    with pytest.raises(ValueError, match="whole number"):
        model.deepen([[1.5, 2]], 0.5)
    with pytest.raises(ValueError, match="3 features"):
        model.deepen([[1, 2, 3]], 0.5)
    with pytest.raises(ValueError, match="not fitted"):
        JumpModel().deepen([[1, 2]], 0.5)
