"""Oracles against Bayes' rule, written out; and chains of them, with no training: the laws of what comes out are exact."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch
from block_examples import zero_atom
from goodness import LEVEL, flat, generator, grid, pearson, same
from torch import Tensor

from countjump.blocks import Block, Blocks, PoissonBlock, Reals, SparseCounts, Units
from countjump.domains import Count, NonNegative, Simplex
from countjump.laws import Binomial, NegativeBinomial, Poisson, Streams
from countjump.likelihood import lower_bound
from countjump.oracles import (
    CountOracle,
    DirichletOracle,
    EmpiricalOracle,
    GammaOracle,
    JointOracle,
    MeanOracle,
    Oracle,
    SparseDirichletOracle,
)
from countjump.processes import Jump
from countjump.sampling import chain, sample_rows
from countjump.schedules import Cosine
from countjump.sparse import SparseRows
from countjump.states import Joint


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


T = 0.4
ALPHA = float(Cosine().alpha(d(T)))


def at(oracle: Oracle, z: object):
    return oracle(z, d(T))


def exact(columns: int) -> Block:
    """z_0 = x_0."""
    return PoissonBlock(Count(), torch.ones(columns).double(), torch.ones(columns).double())


def randomised(*lam: float) -> Block:
    """z_0 ~ Pois(λ x_0)."""
    return PoissonBlock(NonNegative(), torch.ones(len(lam)).double(), torch.ones(len(lam)).double(), d(*lam))


def units(total: float, parts: int) -> Units:
    """One whole of so many units."""
    shares = torch.full((1, parts), 1 / parts, dtype=torch.float64)
    return Units(Simplex(), shares, torch.ones(1), torch.zeros(1, parts), d(total), components=1)


def test_gamma_oracle_is_bayes():
    lam, shape, mean = 3.0, 1.5, 2.0
    x = torch.linspace(1e-4, 40, 400_001, dtype=torch.float64)
    prior = torch.distributions.Gamma(d(shape), d(shape / mean)).log_prob(x)
    for z in (0.0, 2.0, 9.0):
        belief = at(GammaOracle(Cosine(), d(lam), d(shape), d(mean)), d([z]))
        joint = (prior + Poisson(lam * ALPHA * x).log_prob(d(z))).exp()
        posterior = joint / torch.trapezoid(joint, x)
        inside = slice(1000, None, 5000)
        density = belief.data[torch.zeros(len(x[inside]), dtype=torch.long)].log_prob(x[inside, None]).exp()
        torch.testing.assert_close(density, posterior[inside], rtol=1e-4, atol=1e-8)
        for n in (0.0, 1.0, 5.0):
            mixed = torch.trapezoid(posterior * Poisson(lam * (1 - ALPHA) * x).log_prob(d(n)).exp(), x)
            assert float(belief.missing.log_prob(d([n])).exp()) == pytest.approx(float(mixed), rel=1e-4)


@pytest.mark.parametrize("largest", [400, 3])
def test_count_oracle_is_bayes(largest: int):
    """Of negative binomial counts it says what the conjugate oracle says; and it has no other numbers than it was given."""
    law = NegativeBinomial(d(1.5), d(2.0))
    z, n = d([0, 2], [1, 3]), d([1, 0], [2, 0])
    belief = at(CountOracle(Cosine(), law, largest), z)
    if largest == 400:
        conjugate = at(GammaOracle(Cosine(), d(1.0), d(1.5), d(2.0)), z)
        torch.testing.assert_close(belief.missing.mean, conjugate.missing.mean)
        torch.testing.assert_close(belief.missing.log_prob(n), conjugate.missing.log_prob(n))
    else:
        numbers = torch.arange(4.0).double()
        weight = (law.log_prob(numbers) + Binomial(numbers, d(ALPHA)).log_prob(d(2.0))).exp()
        assert float(belief.missing.mean[0, 1]) == pytest.approx(float((weight * (numbers - 2)).sum() / weight.sum()))
        assert belief.missing.log_prob(d([1, 2], [0, 0])).tolist()[0] == -torch.inf


def test_dirichlet_oracle_is_bayes():
    total, a, b = 7.0, 1.5, 0.8
    x = torch.linspace(0, 1, 400_001, dtype=torch.float64)[1:-1]
    z = d([2.0, 1.0])[None]
    belief = at(DirichletOracle(Cosine(), d(total), d([a, b])), z)
    posterior = (x ** (a + 1) * (1 - x) ** b).double()
    posterior = posterior / torch.trapezoid(posterior, x)
    assert float(belief.data.mean[0, 0, 0]) == pytest.approx(float(torch.trapezoid(posterior * x, x)), rel=1e-4)
    for n in range(5):
        mixed = torch.trapezoid(posterior * Binomial(d(4), x).log_prob(d(n)).exp(), x)
        assert float(belief.missing.log_prob(d([n, 4 - n])[None]).exp()) == pytest.approx(float(mixed), rel=1e-4)
    assert belief.missing.log_prob(d([2, 1])[None]).item() == -torch.inf


def test_empirical_oracle_is_bayes_over_whole_rows():
    rows, weights = d([0, 4], [4, 0], [2, 3]), d(0.2, 0.5, 0.3)
    for block in (exact(2), randomised(2.0, 1.0)):
        belief = at(EmpiricalOracle(block, Cosine(), rows, weights), d([1, 0]))
        if block.exact:
            likelihood = Binomial(rows, d(ALPHA)).log_prob(d(1, 0)).sum(1).exp()
        else:
            likelihood = Poisson(block.lam * ALPHA * rows).log_prob(d(1, 0)).sum(1).exp()
        posterior = weights * likelihood / (weights * likelihood).sum()
        missing = rows - d(1, 0) if block.exact else block.lam * (1 - ALPHA) * rows
        torch.testing.assert_close(belief.missing.mean[0], (posterior[:, None] * missing.clamp(min=0)).sum(0))
        if block.exact:
            assert belief.data is None
            assert posterior[0] == 0
            masses = belief.missing[torch.zeros(3, dtype=torch.long)].log_prob(missing.clamp(min=0)).exp()
            torch.testing.assert_close(masses[1:], posterior[1:])
        else:
            of_rows = belief.data[torch.zeros(3, dtype=torch.long)].log_prob(rows).exp()
            torch.testing.assert_close(of_rows, posterior)
            torch.testing.assert_close(belief.data.mean[0], posterior @ rows)


def test_columns_apart_keep_the_marginals_and_lose_the_dependence():
    rows = d([0, 4], [4, 0])
    z = torch.zeros(1, 2, dtype=torch.float64)
    joint, apart = (at(EmpiricalOracle(exact(2), Cosine(), rows, joint=joint), z).missing for joint in (True, False))
    support = grid(5, 5)
    masses = [law[torch.zeros(25, dtype=torch.long)].log_prob(support).exp().reshape(5, 5) for law in (joint, apart)]
    for axis in (0, 1):
        torch.testing.assert_close(masses[0].sum(axis), masses[1].sum(axis))
    torch.testing.assert_close(masses[1], masses[0].sum(1)[:, None] * masses[0].sum(0))
    assert masses[0][4, 4] == 0 < masses[1][4, 4]


def test_one_whole_per_row_has_no_columns_apart():
    rows = d([0.5, 0.5, 0.0], [0.0, 0.1, 0.9])
    z = d([1, 1, 0])[None]
    block = units(4, 3)
    means = [at(EmpiricalOracle(block, Cosine(), rows, joint=joint), z).missing.mean for joint in (True, False)]
    torch.testing.assert_close(*means)
    torch.testing.assert_close(means[0], d([[1, 1, 0]]))  # only the first row has a first part


def test_equal_rows_are_merged_with_their_weights():
    twice = EmpiricalOracle(exact(1), Cosine(), d([2], [5], [2]))
    once = EmpiricalOracle(exact(1), Cosine(), d([2], [5]), d(2, 1))
    assert len(twice.points) == 2
    torch.testing.assert_close(twice.log_weights, once.log_weights)


def test_a_state_that_no_row_leads_to_is_believed_to_come_from_any():
    belief = at(EmpiricalOracle(exact(2), Cosine(), d([0, 4], [4, 0]), joint=False), d([1, 1]))
    torch.testing.assert_close(belief.missing.mean, d([1.5, 1.5]))


def test_mean_oracle_keeps_the_mean_only():
    oracle = EmpiricalOracle(randomised(2.0, 3.0), Cosine(), d([0, 4], [4, 0]))
    z = d([0, 0], [1, 0])
    belief = at(MeanOracle(oracle), z)
    assert isinstance(belief.missing.entries, Poisson)
    assert belief.data is None
    torch.testing.assert_close(belief.missing.mean, at(oracle, z).missing.mean)


def test_variance_of_the_posterior_is_in_its_means():
    """Var(x_j given z) = f_j(z) · (f_j(z + e_j) − f_j(z)), f with the signal of one more unit, for the Poisson channel."""
    rows = d([0.3], [1.0], [4.0])
    oracle = EmpiricalOracle(randomised(2.0), Cosine(), rows, d(0.5, 0.3, 0.2))
    z = grid(12)[:, None]
    data = at(oracle, z).data
    means = data.mean[:, 0]
    second = (data.logits.softmax(-1) * rows[:, 0] ** 2).sum(-1)
    torch.testing.assert_close(second[:-1] - means[:-1] ** 2, means[:-1] * (means[1:] - means[:-1]))


def test_every_row_may_have_a_time_of_its_own():
    oracle = GammaOracle(Cosine(), d(2.0), d(1.5), d(3.0))
    z, times = d([4], [4]), d(0.2, 0.7)
    together = oracle(z, times).missing.mean
    alone = [oracle(z[:1], t[None]).missing.mean for t in times]
    torch.testing.assert_close(together, torch.cat(alone))


# Wide rows: totals are negative binomial, shares Dirichlet.

SHAPE, MEAN = 1.5, 3.0


def wide_block(columns: int) -> SparseCounts:
    gammas = d([[1.0]], [[SHAPE]], [[MEAN]])
    return SparseCounts(torch.full((columns,), 1 / columns).double(), 1, MEAN, SHAPE, 30.0, gammas)


def wide(concentration: Tensor, mean: float = MEAN) -> tuple[Jump, SparseDirichletOracle]:
    total = GammaOracle(Cosine(), d(1.0), d(SHAPE), d(mean))
    return Jump(wide_block(len(concentration)), Cosine(), 0.95), SparseDirichletOracle(total, concentration)


def log_total(n: Tensor, shape: float = SHAPE, mean: float = MEAN) -> Tensor:
    return torch.from_numpy(scipy.stats.nbinom.logpmf(n.numpy(), shape, shape / (shape + mean)))


def log_wide(x: Tensor, concentration: Tensor, shape: float = SHAPE, mean: float = MEAN) -> Tensor:
    """ln P of whole rows: a negative binomial total that falls as a Dirichlet-multinomial."""
    falls = [
        float(scipy.stats.dirichlet_multinomial.logpmf(row.int().numpy(), concentration.numpy(), int(row.sum())))
        for row in x
    ]
    return log_total(x.sum(1), shape, mean) + d(*falls)


def log_column(n: Tensor, column: int, concentration: Tensor) -> Tensor:
    """ln P of one column's count: beta-binomial given the total."""
    totals = np.arange(400)
    weights = scipy.stats.nbinom.pmf(totals, SHAPE, SHAPE / (SHAPE + MEAN))
    a = float(concentration[column])
    given = scipy.stats.betabinom.pmf(n.numpy()[:, None], totals, a, float(concentration.sum()) - a)
    return torch.from_numpy(given @ weights).log()


C = d(0.4, 2.0, 0.7)
STATES = d([0, 0, 0], [2, 0, 1], [1, 3, 2], [0, 0, 5])


def test_sparse_dirichlet_oracle_is_bayes():
    """Given z: P(z + n) q(z given z + n) over its sum, whatever of z is seen: nothing, some columns, or all."""
    _, oracle = wide(C)
    support = grid(31, 31, 31)
    support = support[support.sum(1) <= 30]
    for z in STATES:
        belief = oracle(SparseRows.from_dense(z[None]), d(T)).missing
        some = support[support.sum(1) <= 6]
        thinned = Binomial(z + support, d(ALPHA)).log_prob(z).sum(1)
        whole = log_wide_many(z + support) + thinned
        expected = (whole - whole.logsumexp(0))[support.sum(1) <= 6]
        found = belief[torch.zeros(len(some), dtype=torch.long)].log_prob(SparseRows.from_dense(some))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def log_wide_many(x: Tensor) -> Tensor:
    """:func:`log_wide` for many rows at once, by its formula."""
    n, c = x.sum(1), C.sum()
    orders = torch.lgamma(n + 1) - torch.lgamma(x + 1).sum(1)
    return (
        log_total(n) + orders + torch.lgamma(c) - torch.lgamma(c + n) + (torch.lgamma(C + x) - torch.lgamma(C)).sum(1)
    )


def test_the_formula_of_many_rows_is_scipys():
    torch.testing.assert_close(log_wide_many(STATES), log_wide(STATES, C))


@pytest.mark.parametrize("steps", [1, 4, 20])
def test_a_chain_of_wide_rows_has_their_law(steps: int):
    process, oracle = wide(C)
    x = sample_rows(process, oracle, process.grid(steps), Streams([generator(steps)], 5000))
    numbers = grid(80)
    assert pearson(x.totals, numbers, log_total(numbers)) > LEVEL
    for column in range(3):
        assert pearson(x.dense()[:, column], numbers, log_column(numbers, column, C)) > LEVEL
    support = grid(9, 9, 9)
    assert pearson(x, support, log_wide_many(support)) > LEVEL


def test_a_chain_of_rows_of_many_columns_has_their_law():
    concentration = torch.linspace(0.01, 1.0, 300, dtype=torch.float64) ** 2
    process, oracle = wide(concentration, mean=40.0)
    streams = Streams([generator(seed) for seed in range(10)], 150)
    x = sample_rows(process, oracle, process.grid(6), streams).dense()
    rng = np.random.default_rng(0)
    total = rng.negative_binomial(SHAPE, SHAPE / (SHAPE + 40.0), 1500)
    direct = torch.from_numpy(rng.multinomial(total, rng.dirichlet(concentration, 1500))).double()
    for statistic in (
        lambda x: x.sum(1),
        lambda x: (x > 0).sum(1),
        lambda x: x.amax(1),
        lambda x: x[:, -1],
        lambda x: x[:, 9],
    ):
        assert same(statistic(x), statistic(direct)) > LEVEL


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_with_exact_beliefs_every_draw_of_the_bound_is_the_log_probability(steps: int):
    process, oracle = wide(C)
    x = torch.cat([STATES, d([7, 1, 12], [0, 1, 0])])
    many = SparseRows.from_dense(x.repeat(5, 1))
    bound = lower_bound(process, oracle, many, process.grid(steps), list(range(len(many))))
    torch.testing.assert_close(bound, log_wide(x, C).repeat(5), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("steps", [1, 5])
def test_a_chain_from_an_observed_state_has_the_conditional_law(steps: int):
    """Nothing that was observed is lost; what comes is NB(shape + |z|) units that fall as Dirichlet-multinomial(c + z)."""
    process, oracle = wide(C)
    times = torch.linspace(T, 0, steps + 1, dtype=torch.float64)
    observed = STATES.repeat_interleave(3000, 0)
    *_, last = chain(process, oracle, SparseRows.from_dense(observed), times, Streams([generator(1)], len(observed)))
    came = last.z.dense() - observed
    assert (came >= 0).all()
    support = grid(8, 8, 8)
    for z, n in zip(STATES, came.split(3000), strict=True):
        shape = SHAPE + float(z.sum())
        mean = shape * (1 - ALPHA) / (ALPHA + SHAPE / MEAN)
        assert pearson(n.sum(1), grid(120), log_total(grid(120), shape, mean)) > LEVEL
        assert pearson(n, support, log_wide(support, C + z, shape, mean)) > LEVEL


def test_a_chain_over_rows_that_are_known_gives_these_rows():
    """The finite oracle of a wide block."""
    rows, weights = d([3, 0, 1], [0, 0, 0], [0, 2, 0], [1, 1, 1]), d(0.1, 0.2, 0.3, 0.4)
    block = wide_block(3)
    process, oracle = Jump(block, Cosine()), EmpiricalOracle(block, Cosine(), rows, weights)
    x = sample_rows(process, oracle, process.grid(5), Streams([generator(0)], 3000))
    assert pearson(x, rows, weights.log()) > LEVEL
    bound = lower_bound(process, oracle, SparseRows.from_dense(rows), process.grid(5), [1, 2, 3, 4])
    torch.testing.assert_close(bound, weights.log())


# Parts side by side: counts, reals, shares and wide counts.


def parts() -> tuple[Jump, JointOracle]:
    """Columns 5 (a count), 1 (a real), 6 to 8 (shares) and 0, 2, 3 (wide counts); 4 is another count."""
    gammas = d([[1.0]], [[2.0]], [[3.0]])
    real = Reals(NonNegative(), d(3.0), d(2.0), d(4.0), gammas, *zero_atom(d(0.0)))
    places = [[4, 5], [1], [6, 7, 8], [0, 2, 3]]
    block = Blocks([exact(2), real, units(12, 3), wide_block(3)], [torch.tensor(each) for each in places])
    oracles = [
        CountOracle(Cosine(), Poisson(d(2.0)), 40),
        GammaOracle(Cosine(), d(4.0), d(2.0), d(3.0)),
        DirichletOracle(Cosine(), d(12), d([2.0, 1.0, 0.5])),
        wide(C)[1],
    ]
    return Jump(block, Cosine(), 0.95), JointOracle(oracles)


@pytest.mark.parametrize("steps", [1, 8])
def test_a_chain_of_parts_side_by_side_has_the_law_of_each_and_they_are_independent(steps: int):
    process, oracle = parts()
    streams = Streams([generator(seed) for seed in range(4)], 1000)
    x = sample_rows(process, oracle, process.grid(steps), streams)
    counts, real, shares, rows = x.parts
    for column in (0, 1):
        assert pearson(counts[:, column], grid(30), Poisson(d(2.0)).log_prob(grid(30))) > LEVEL
    assert scipy.stats.kstest(real[:, 0], scipy.stats.gamma(2.0, scale=1.5).cdf).pvalue > LEVEL
    for part, a in enumerate((2.0, 1.0, 0.5)):
        assert scipy.stats.kstest(shares[:, 0, part], scipy.stats.beta(a, 3.5 - a).cdf).pvalue > LEVEL
    assert pearson(rows, grid(9, 9, 9), log_wide_many(grid(9, 9, 9))) > LEVEL
    apart = torch.stack([counts[:, 0], counts[:, 1], real[:, 0], shares[:, 0, 0], rows.totals])
    correlation = np.corrcoef(apart.numpy())[~np.eye(5, dtype=bool)]
    assert abs(correlation).max() < 4 / 4000**0.5
    matrix = process.block.write(x)
    np.testing.assert_array_equal(matrix[:, [5, 4]].toarray(), counts[:, [1, 0]].numpy())
    np.testing.assert_array_equal(matrix[:, [0, 2, 3]].toarray(), rows.dense().numpy())


@pytest.mark.parametrize("steps", [1, 8])
def test_the_bound_of_parts_side_by_side_is_the_sum_of_their_log_probabilities(steps: int):
    process, oracle = parts()
    shares = d([0.2, 0.3, 0.5], [0.9, 0.05, 0.05])[:, None]
    x = Joint((d([0, 3], [2, 1]), d([0.4], [5.0]), shares, SparseRows.from_dense(STATES[:2])))
    expected = Poisson(d(2.0)).log_prob(x.parts[0]).sum(1) + log_wide(STATES[:2], C)
    expected += torch.from_numpy(scipy.stats.gamma(2.0, scale=1.5).logpdf(x.parts[1][:, 0]))
    expected += d(*[scipy.stats.dirichlet([2.0, 1.0, 0.5]).logpdf(row) for row in shares[:, 0]])
    for draw in range(3):
        bound = lower_bound(process, oracle, x, process.grid(steps), [2 * draw, 2 * draw + 1])
        torch.testing.assert_close(bound, expected, rtol=1e-6, atol=1e-6)


def test_a_joint_chain_from_an_observed_state_keeps_what_was_observed():
    process, oracle = parts()
    z = process.marginal(
        Joint((d([9, 3]), d([5.0]), d([0.2, 0.3, 0.5])[:, None], SparseRows.from_dense(d([4, 0, 6])))), d([T])
    ).sample(generator(0))
    observed = z[torch.zeros(500, dtype=torch.long)]
    times = torch.linspace(T, 0, 4, dtype=torch.float64)
    steps = list(chain(process, oracle, observed, times, Streams([generator(1)], 500)))
    for step, after in itertools.pairwise(steps):
        assert (flat(after.z) >= flat(step.z)).all()
    assert (flat(steps[-1].z)[:, 3:6].sum(1) == 12).all()
    # Of a Poisson count that was thinned the rest is Poisson, whatever was seen.
    rest = (steps[-1].z - observed).parts[0]
    for column in (0, 1):
        assert pearson(rest[:, column], grid(30), Poisson(d(2 * (1 - ALPHA))).log_prob(grid(30))) > LEVEL
