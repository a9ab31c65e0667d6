"""Rows of which a part is known: with an exact belief the rest has the conditional law, of columns that depend on each other."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from goodness import LEVEL, generator, grid, pearson
from torch import Tensor

from countjump import JumpModel
from countjump.blocks import Block, Blocks, PoissonBlock, SparseCounts, Units
from countjump.domains import Bounded, Categorical, Count, NonNegative, Simplex
from countjump.laws import Binomial, Mixture, NegativeBinomial, Poisson, Streams, Zero
from countjump.laws.sparse import SparseSet
from countjump.oracles import EmpiricalOracle, GammaOracle, SparseDirichletOracle
from countjump.processes import Jump
from countjump.sampling import complete_by_particles, complete_rows
from countjump.schedules import Cosine
from countjump.sparse import SparseRows

WEIGHTS = (0.3, 0.1, 0.2, 0.15, 0.25)


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def exact(columns: int) -> Block:
    """z_0 = x_0."""
    return PoissonBlock(Count(), torch.ones(columns).double(), torch.ones(columns).double())


def randomised(*lam: float) -> Block:
    """z_0 ~ Pois(λ x_0)."""
    one = torch.ones(len(lam)).double()
    return PoissonBlock(NonNegative(), one, one, d(*lam), decoding="draw")


def interval(total: Tensor, bounds: Tensor) -> Units:
    share = torch.full((len(total), 2), 0.5, dtype=torch.float64)
    return Units(
        Bounded(tuple(bounds.tolist())), share, torch.ones(len(total)), torch.zeros(len(total), 2), total, 1, bounds
    )


ROWS = {
    "exact": (exact(3), d([0, 1, 4], [0, 5, 0], [7, 1, 2], [7, 1, 9], [0, 1, 0])),
    "randomised": (randomised(3, 1, 2), d([0, 1, 4.5], [0, 5, 0], [7.25, 1, 2], [7.25, 1, 9], [0, 1, 0.5])),
    "interval": (interval(d(4, 6, 5), d(8.0, 8.0, 9.0)), d([0, 1, 4.5], [0, 5, 0], [7, 1, 2], [7, 1, 9], [0, 1, 0.5])),
}


@pytest.mark.parametrize("steps", [1, 3, 12])
@pytest.mark.parametrize("columns", [[0], [0, 1], [2]], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_what_is_not_known_has_the_conditional_law(name: str, columns: list[int], steps: int):
    """p(x given x_known), at any number of steps: known columns are at their own time 0 from the beginning."""
    block, rows = ROWS[name]
    weights = d(*WEIGHTS)
    oracle = EmpiricalOracle(block, Cosine(), rows, weights)
    process = Jump(block, Cosine())
    for row in range(len(rows)):
        known = torch.zeros(2000, 3, dtype=torch.bool)
        known[:, columns] = True
        x = block.read(torch.where(known, rows[row], 0.0).numpy())
        drawn = complete_rows(process, oracle, process.grid(steps), Streams([generator(row)], 2000), x, known)
        drawn = block.from_shares(drawn) if isinstance(block, Units) else drawn
        agree = (rows[:, columns] == rows[row, columns]).all(1)
        others = [column for column in range(3) if column not in columns]
        conditional = (weights * agree / weights[agree].sum()).log()
        support = rows[agree][:, others]
        assert pearson(drawn[:, others], support, conditional[agree]) > LEVEL


def test_every_row_may_have_its_own_columns_known():
    block, rows = ROWS["exact"]
    oracle, process = EmpiricalOracle(block, Cosine(), rows, d(*WEIGHTS)), Jump(block, Cosine())
    known = d([1, 0, 0], [0, 1, 0], [0, 0, 0]).bool().repeat_interleave(2000, 0)
    x = d([7, 0, 0], [0, 5, 0], [0, 0, 0]).repeat_interleave(2000, 0)
    drawn = complete_rows(process, oracle, process.grid(4), Streams([generator()], 6000), x, known).split(2000)
    assert pearson(drawn[0][:, 2], d(2, 9), (d(0.2, 0.15) / 0.35).log()) > LEVEL
    assert (drawn[1][:, [0, 2]] == 0).all()
    assert pearson(drawn[2], rows, d(*WEIGHTS).log()) > LEVEL


def test_thinning_what_is_known_along_the_chain_is_biased():
    """The usual shortcut, with the same exact belief: what was drawn before the known column came back contradicts it."""
    block, rows = ROWS["exact"]
    oracle, process = EmpiricalOracle(block, Cosine(), rows, d(*WEIGHTS)), Jump(block, Cosine())
    x, times, g = d([7, 0, 0]).repeat(4000, 1), process.grid(8), generator()
    z = process.prior(4000, Streams([g], 4000), "cpu")
    for t, s in zip(times[:-1, None], times[1:, None], strict=True):
        drawn = process.reverse(z, oracle(z, t), s[None], t[None]).sample(g)
        bridged = process.posterior(z, x, s[None], t[None]).sample(g)
        z = torch.cat([bridged[:, :1], drawn[:, 1:]], 1)
    assert pearson(z[:, 2], d(2, 9), (d(0.2, 0.15) / 0.35).log()) < LEVEL


def test_a_group_is_known_as_a_whole():
    """Two dependent wholes, one of three parts and one of two: the parts of a simplex are known together."""
    share = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    whole = Units(Simplex(), share, torch.ones(1), torch.zeros(1, 3), d(5), components=1)
    block = Blocks([exact(2), whole], [torch.tensor([0, 4]), torch.tensor([1, 2, 3])])
    assert block.knowables == 3
    known = torch.tensor([[True, True, True, True, False], [False, False, False, False, True]])
    assert block.knowable(known).tolist() == [[True, False, True], [False, True, False]]
    with pytest.raises(ValueError, match="row 1 has some columns of a simplex group known"):
        block.knowable(torch.tensor([[True] * 5, [True, True, False, False, True]]))


@pytest.mark.parametrize("name", ROWS)
def test_the_network_sees_what_is_known_whole_and_that_it_is(name: str):
    block, rows = ROWS[name]
    x = block.read(rows.numpy())
    known = torch.zeros(5, 3, dtype=torch.bool)
    known[:, 1] = True
    alphas = [torch.full((5, 1), alpha, dtype=torch.float64) for alpha in (0.2, 0.6)]
    z = Jump(block, Cosine()).marginal(x, d([0.7])).sample(generator())
    held = block.hold(z, block.shown(x), known)
    assert torch.equal(block.hold(held, block.shown(x), known), held)
    views = 4 if isinstance(block, Units) else len(block.features(held, alphas[0], known)[0]) // 3
    seen = [
        block.features(held, alpha, known).reshape(5, *((3, views) if isinstance(block, Units) else (views, 3)))
        for alpha in alphas
    ]
    column = [each[:, 1] if isinstance(block, Units) else each[:, :, 1] for each in seen]
    torch.testing.assert_close(*column)  # whatever the time is
    assert (column[0][:, -1] == 1).all()
    assert len(torch.unique(column[0], dim=0)) == len(torch.unique(rows[:, 1]))
    plain = block.features(z, alphas[0])
    torch.testing.assert_close(block.features(z, alphas[0], torch.zeros_like(known)), plain)


def test_loss_leaves_out_what_is_known():
    block, rows = ROWS["randomised"]
    x, z, alpha = rows, d([0, 1, 1]).repeat(5, 1), d([0.5]).repeat(5, 1)
    belief = block.belief(torch.zeros(5, block.outputs), z, alpha)
    every = [torch.zeros(5, 3, dtype=torch.bool) for _ in range(4)]
    for column in range(3):
        every[column][:, :] = True
        every[column][:, column] = False
    apart = sum(block.loss(belief, x, z, alpha, generator(1), known) for known in every[:3])
    torch.testing.assert_close(apart, block.loss(belief, x, z, alpha, generator(1)))
    assert (block.loss(belief, x, z, alpha, generator(1), ~every[3]) == 0).all()


# Wide rows, whose network knows nothing of known columns: particles.

SHAPE, MEAN, C = 1.5, 3.0, d(0.4, 2.0, 0.7, 0.3)


def wide() -> tuple[Jump, SparseDirichletOracle]:
    """Totals are negative binomial, and fall by Dirichlet shares: every column tells something of every other."""
    gammas = d([[1.0]], [[SHAPE]], [[MEAN]])
    block = SparseCounts(torch.full((4,), 0.25).double(), 1, MEAN, SHAPE, 30.0, gammas)
    total = GammaOracle(Cosine(), d(1.0), d(SHAPE), d(MEAN))
    return Jump(block, Cosine(), 0.95), SparseDirichletOracle(total, C)


def log_wide(x: Tensor) -> Tensor:
    """ln P of whole rows."""
    n, c = x.sum(1), C.sum()
    total = NegativeBinomial(d(SHAPE), d(MEAN)).log_prob(n)
    orders = torch.lgamma(n + 1) - torch.lgamma(x + 1).sum(1)
    return total + orders + torch.lgamma(c) - torch.lgamma(c + n) + (torch.lgamma(C + x) - torch.lgamma(C)).sum(1)


@pytest.mark.parametrize(("value", "steps"), [(0, 1), (2, 1), (2, 8), (9, 8)])
def test_wide_rows_have_the_conditional_law_given_some_columns(value: int, steps: int):
    """The first column is known; the others have P(x)/P(x_1)."""
    process, oracle = wide()
    rows, known = 1000, torch.zeros(1000, 4, dtype=torch.bool)
    known[:, 0] = True
    x = SparseRows.from_dense(d([value, 0, 0, 0]).repeat(rows, 1))
    block = process.block
    found = (block.knowable(known), block.partly(known))
    drawn = complete_by_particles(process, oracle, process.grid(steps), generator(value), x, *found, particles=64)
    assert (drawn.dense()[:, 0] == value).all()
    support = torch.cat([torch.full((40**3, 1), float(value)).double(), grid(40, 40, 40)], 1)
    conditional = log_wide(support) - log_wide(support).logsumexp(0)
    some = (support[:, 1:] < 8).all(1)
    assert pearson(drawn.dense()[:, 1:], support[some][:, 1:], conditional[some]) > LEVEL
    totals = torch.zeros(118).double().index_add(0, support[:, 1:].sum(1).long(), conditional.exp())
    assert pearson(drawn.dense()[:, 1:].sum(1), grid(118), totals.log()) > LEVEL


def test_what_is_left_of_a_count_is_bayes():
    """P(rest given kept) = P(whole) Binomial(kept of whole) over its sum, for every family."""
    logits = d([0.3, -0.5, 0.2, 0.1])
    families = {
        "poisson": Poisson(d([3.0])),
        "binomial": Binomial(d([9.0]), d([0.4])),
        "negative binomial": NegativeBinomial(d([1.5]), d([4.0])),
        "mixture": Mixture(
            logits[:, None],
            (Zero(d([[0.0]])), Binomial(d([[9.0]]), d([[0.4]])), NegativeBinomial(d([[1.5, 3.0]]), d([[4.0, 1.0]]))),
        ),
    }
    numbers = grid(300)
    for name, family in families.items():
        for kept in (0.0, 2.0):
            p = d([0.3])
            whole = family.log_prob((numbers + kept)[:, None]) + Binomial(numbers[:, None] + kept, p).log_prob(
                d([kept])
            )
            expected = (whole - whole.logsumexp(0))[:, 0]
            found = family.rest(d([kept]), p).log_prob(numbers[:, None])[:, 0]
            torch.testing.assert_close(found[:9], expected[:9], msg=f"{name}, {kept}")


def test_a_wide_law_given_some_columns_is_weighted_right():
    """The mean weight of draws given n_K is P(n_K), whatever is seen."""
    _, oracle = wide()
    for seen in ([0, 0, 0, 0], [1, 2, 0, 0], [3, 0, 0, 1]):
        z = SparseRows.from_dense(d(seen).repeat(4000, 1))
        law = oracle(z, d(0.6)).missing.thin(0.5)
        known = d([1, 1, 0, 0]).bool().repeat(4000, 1)
        value = SparseRows.from_dense(d([1, 2, 0, 0]).repeat(4000, 1))
        drawn, log_weight = law.draw_given(value, known, Streams([generator()], 4000))
        assert (drawn.dense()[:, :2] == d(1, 2)).all()
        support = torch.cat([d([1, 2]).repeat(900, 1), grid(30, 30)], 1)
        one = law[torch.zeros(900, dtype=torch.long)]
        expected = float(one.log_prob(SparseRows.from_dense(support)).exp().sum())
        weight = log_weight.exp()
        assert float(weight.mean()) == pytest.approx(expected, abs=4 * float(weight.std()) / 4000**0.5)


def test_wide_sets_have_the_conditional_law_given_some_columns():
    """Sets whose columns depend on each other by the size of the row alone: exact in every step."""
    logits, log_rate = d([0.0, 0.0]), d([0.5, 4.0]).log()
    bias = d(0.2, 0.3, 0.1, 0.4).log()
    rows = 4000
    z = SparseRows.empty(rows, 4)
    every = torch.ones(rows, 1).double()
    law = SparseSet(
        logits.repeat(rows, 1),
        log_rate.repeat(rows, 1),
        torch.zeros(rows, 1).double(),
        z,
        torch.zeros(4, 1).double(),
        bias,
        0.7 * every,
    )
    known = d([0, 1, 0, 1]).bool().repeat(rows, 1)
    value = SparseRows.from_dense(d([0, 1, 0, 0]).repeat(rows, 1))
    drawn, log_weight = law.draw_given(value, known, Streams([generator()], rows))
    support = d([0, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0])
    log_prob = law[torch.zeros(4, dtype=torch.long)].log_prob(SparseRows.from_dense(support))
    torch.testing.assert_close(log_weight[0], log_prob.logsumexp(0))
    assert pearson(drawn, support, log_prob - log_prob.logsumexp(0)) > LEVEL


# What a model promises.


def fitted(X: object, **params: object) -> JumpModel:
    return JumpModel(**({"max_updates": 3, "width": 16, "random_state": 0, "progress": False} | params)).fit(X)


def dependent(rows: int = 1000) -> np.ndarray:
    """The second column is about twice the first, the third has nothing to do with them."""
    g = np.random.default_rng(0)
    first = g.poisson(g.choice([2.0, 20.0], rows))
    return np.stack([first, g.poisson(2 * first), g.poisson(5.0, rows)], 1)


def test_a_model_learns_what_known_columns_tell():
    model = fitted(dependent(), max_updates=500, width=64, learning_rate=5e-3)
    X = np.array([[1, 0, 0], [20, 0, 0]]).repeat(300, 0)
    drawn = model.complete(X, known=[0], steps=10, random_state=0)
    np.testing.assert_array_equal(drawn[:, 0], X[:, 0])
    assert drawn[:300, 1].mean() == pytest.approx(2, abs=1.5)
    assert drawn[300:, 1].mean() == pytest.approx(40, abs=4)
    assert drawn[:, 2].mean() == pytest.approx(5, abs=0.7)
    backwards = model.complete(np.array([[0, 2, 0], [0, 40, 0]]).repeat(300, 0), known=[1], steps=10, random_state=0)
    assert backwards[:300, 0].mean() < 4 < 16 < backwards[300:, 0].mean()


def examples() -> dict[str, tuple[object, dict]]:
    g = np.random.default_rng(1)
    sparse = sp.csr_matrix(g.poisson(g.gamma(0.2, 1.0, (120, 300))))
    real = sparse.multiply(g.gamma(2.0, 1.0, (120, 300))).tocsr()
    return {
        "counts": (dependent(200), {}),
        "a constant": (np.column_stack([dependent(200), np.full(200, 7)]), {}),
        "reals": (dependent(200) * 0.5 + 0.25, {}),
        "bounded": (g.beta(0.5, 0.5, (200, 3)), {"domain": "bounded"}),
        "binary": (g.integers(0, 2, (200, 3)), {}),
        "poisson": (dependent(200), {"process": "poisson", "belief": "poisson"}),
        "wide counts": (sparse, {}),
        "wide reals": (real, {}),
    }


@pytest.mark.parametrize("name", examples())
def test_what_is_known_stays_and_the_rest_belongs_there(name: str):
    X, params = examples()[name]
    model = fitted(X, **params)
    dense = X.toarray() if sp.issparse(X) else X
    rows = dense[:6]
    known = np.random.default_rng(0).random(rows.shape) < 0.5
    known[0], known[1] = True, False
    hidden = rows.astype(float)
    if not sp.issparse(X):
        hidden[~known] = np.nan
    given = sp.csr_matrix(hidden) if sp.issparse(X) else hidden
    drawn = model.complete(given, known, steps=4, random_state=0, particles=3)
    assert sp.issparse(drawn) == sp.issparse(X)
    assert drawn.dtype == X.dtype
    again = model.complete(given, known, steps=4, random_state=0, particles=3)
    drawn, again = (each.toarray() if sp.issparse(each) else each for each in (drawn, again))
    np.testing.assert_array_equal(drawn[known], rows[known])
    np.testing.assert_array_equal(drawn, again)
    assert (drawn >= 0).all()
    if name in ("counts", "a constant", "binary", "wide counts", "poisson"):
        assert (drawn == np.floor(drawn)).all()
    if name in ("bounded", "binary"):
        assert drawn.max() <= 1
    if name == "a constant":
        assert (drawn[:, 3] == 7).all()


def test_known_columns_are_given_by_name_number_or_mask():
    import pandas as pd

    frame = pd.DataFrame(dependent(200), columns=["first", "second", "third"])
    model = fitted(frame)
    X = frame[:5].astype(float)
    X["second"] = np.nan
    ways = [["first", "third"], [0, 2], [True, False, True], np.tile([True, False, True], (5, 1))]
    drawn = [model.complete(X, known, steps=3, random_state=0) for known in ways]
    for each in drawn[1:]:
        np.testing.assert_array_equal(each, drawn[0])
    pd.testing.assert_frame_equal(drawn[0][["first", "third"]], frame[:5][["first", "third"]])
    with pytest.raises(ValueError, match="no column 'fourth'"):
        model.complete(X, ["fourth"])
    with pytest.raises(ValueError, match=r"mask of shape \(2, 3\), and X is of shape \(5, 3\)"):
        model.complete(X, np.ones((2, 3), dtype=bool))
    with pytest.raises(ValueError, match="column 'second', row 0: a value is missing"):
        model.complete(X, ["second"])
    with pytest.raises(ValueError, match="in column 'first', is not a whole number"):
        model.complete(X + 0.5, ["first"])


def test_one_hot_rows_are_known_as_a_whole_and_must_be_one_hot():
    model = fitted(np.eye(3)[np.random.default_rng(0).integers(0, 3, 100)], domain="one-hot")
    X = np.array([[0.0, 1.0, 0.0], [np.nan, np.nan, np.nan]])
    drawn = model.complete(X, ~np.isnan(X), random_state=0)
    np.testing.assert_array_equal(drawn[0], X[0])
    assert drawn[1].sum() == 1
    with pytest.raises(ValueError, match="row 0 has some columns of a one-hot group known"):
        model.complete(X[:1], [0])
    with pytest.raises(ValueError, match="row 0 is known to have a one-hot group that adds up to 2"):
        model.complete([[1, 1, 0]], [0, 1, 2])


def test_what_is_known_in_training_has_every_size_alike_and_a_single_column_is_never_known():
    process = Jump(exact(5), Cosine())
    known = process.draw_known(40_000, generator())
    assert known.shape == (10_000, 5)
    sizes = torch.bincount(known.sum(1), minlength=6).double() / len(known)
    torch.testing.assert_close(sizes, torch.full((6,), 1 / 6).double(), atol=0.02, rtol=0)
    assert Jump(exact(1), Cosine()).draw_known(10, generator()) is None


def test_known_values_that_the_rows_of_the_fit_did_not_have_stay():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "year": rng.integers(2000, 2020, 200),
            "euros": rng.gamma(2.0, 10.0, 200).round(2),
            "share": rng.random(200),
            "city": rng.choice(["Porto", "Lyon"], 200),
            "visits": rng.poisson(3.0, 200),
        }
    )
    model = JumpModel(max_updates=5, random_state=0, progress=False).fit(frame)
    rows = pd.DataFrame(
        {
            "year": [2031, 1990, 2005, 2005],
            "euros": [5.0, -1.0, 1e6, 3.14159],
            "share": [1.5, 0.5, -0.1, 0.5],
            "city": ["Porto", "Nice", "Lyon", "Lyon"],
            "visits": [np.nan] * 4,
        }
    )
    whole = model.complete(rows, steps=3, random_state=0)
    pd.testing.assert_frame_equal(whole.drop(columns="visits"), rows.drop(columns="visits"), check_dtype=False)
    assert (whole["visits"] >= 0).all()


def test_a_known_value_that_a_declared_domain_forbids_is_an_error_that_names_it():
    X = np.random.default_rng(0).poisson(3.0, (50, 2))
    model = JumpModel({1: Count(max=20)}, max_updates=2, random_state=0, progress=False).fit(X)
    with pytest.raises(ValueError, match=r"X\[1, 1\] = 30, in column 1, is above the column's bound 20"):
        model.complete([[X.max() + 9, np.nan], [np.nan, 30]])


@pytest.mark.parametrize("value", [2001.5, 7.5])
def test_known_values_that_rows_of_whole_numbers_cannot_hold_are_errors(value):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(2000, 2020, 100), rng.integers(1, 4, 100), rng.poisson(3.0, 100)])
    model = JumpModel(max_updates=2, random_state=0, progress=False).fit(X)
    with pytest.raises(ValueError, match=r"X\[0, 0\] = .*, in column 0, is no"):
        model.complete([[value, 1, np.nan]])
    assert model.complete([[1990, 1, np.nan]], steps=2)[0, 0] == 1990


def test_what_is_not_known_says_nothing_of_what_is():
    X = np.column_stack([np.arange(100) % 20 + 2000, np.arange(100) % 3 + 1, np.arange(100) % 7])
    model = JumpModel({1: Categorical([1, 2, 3])}, max_updates=2, random_state=0, progress=False).fit(X)
    assert model.complete([[1990, np.nan, np.nan]], steps=2)[0, 0] == 1990


@pytest.mark.parametrize("value", [-3, 3.5, 21])
def test_declared_counts_are_held_to_what_was_declared(value):
    X = np.random.default_rng(0).poisson(3.0, (60, 2)).astype(float)
    model = JumpModel(Count(max=20), max_updates=2, random_state=0, progress=False).fit(X)
    with pytest.raises(ValueError, match=r"X\[0, 0\] = .*, in column 0, is"):
        model.complete([[value, np.nan]])
