"""Samplers for few steps: what is exact is exact at any number of steps, what is an approximation comes nearer with them."""

import numpy as np
import pytest
import torch
from goodness import LEVEL, Counting, flat, generator, grid, pearson
from test_sampling import d, exact, randomised

from countjump.blocks import PoissonBlock
from countjump.domains import NonNegative
from countjump.laws import Binomial, Mixture, Poisson, Product, Streams, Zero
from countjump.oracles import CountOracle, EmpiricalOracle, GammaOracle, SparseDirichletOracle
from countjump.processes import Jump
from countjump.samplers import SAMPLERS, Churn, LowNoise, Plain, SecondOrder, at_quantile, find_sampler, first_of
from countjump.sampling import chain, sample_rows
from countjump.schedules import Cosine
from countjump.sparse import SparseRows

STEPS = [1, 2, 5, 20]
PAIRS = d([0, 6], [6, 0], [3, 3])


def drawn(oracle, sampler, steps: int, columns: int = 1, rows: int = 4000) -> torch.Tensor:
    process = Jump(exact(columns), Cosine())
    return sample_rows(process, oracle, process.grid(steps), Streams([generator(steps)], rows), sampler=sampler)


@pytest.mark.parametrize(("alpha", "other"), [(0.1, 0.6), (0.5, 0.2), (0.3, 1.0), (1e-6, 0.4)])
def test_a_quantile_leads_from_one_binomial_to_the_other(alpha: float, other: float):
    x = torch.tensor([7, 0, 40]).repeat_interleave(4000)
    z = Binomial(x.double(), d(alpha)).sample(generator(1)).long()
    height = torch.rand(len(x), dtype=torch.float64, generator=generator(2))
    moved = at_quantile(x, z, d(alpha), d(other), height).double()
    for count in (7, 0, 40):
        own = moved[x == count]
        assert pearson(own, grid(count + 1), Binomial(d(count), d(other)).log_prob(grid(count + 1))) > LEVEL


def test_a_quantile_is_a_coupling_that_keeps_the_order():
    z = torch.arange(41)
    x, height = torch.full_like(z, 40), torch.full((41,), 0.5).double()
    assert (at_quantile(x, z, d(0.3), d(0.7), height).diff() >= 0).all()
    likely = slice(2, 30)
    same = at_quantile(x[likely], z[likely], d(0.3), d(0.3), height[likely])
    assert torch.equal(same, z[likely])


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("sampler", [Plain(), LowNoise(1.0), Churn(0.5), Churn(1.0)], ids=str)
def test_exact_samplers_have_the_law_of_one_column_at_any_number_of_steps(sampler, steps: int):
    law = Mixture(d([0.0, 0.5]), (Zero(d([0.0])), Poisson(d([6.0]))))
    values = drawn(CountOracle(Cosine(), law, 40), sampler, steps)
    assert pearson(values, grid(41)[:, None], law.log_prob(grid(41))) > LEVEL


@pytest.mark.parametrize("steps", STEPS)
def test_churn_with_a_joint_belief_is_exact_for_rows(steps: int):
    rows = drawn(EmpiricalOracle(exact(2), Cosine(), PAIRS), Churn(1.0), steps, 2)
    assert pearson(rows, PAIRS, torch.full((3,), 1 / 3).double().log()) > LEVEL


@pytest.mark.parametrize("steps", [1, 4])
def test_churn_of_randomised_counts_is_exact(steps: int):
    lam, shape, mean = d(5.0), d(0.7), d(2.0)
    block = randomised(5.0)
    process, oracle = Jump(block, Cosine()), GammaOracle(Cosine(), lam, shape, mean)
    plain, churned = (
        sample_rows(process, oracle, process.grid(steps), Streams([generator(3)], 4000), sampler=sampler)
        for sampler in (None, Churn(1.0))
    )
    assert float(churned.mean()) == pytest.approx(float(mean), rel=0.1)
    assert float(churned.var()) == pytest.approx(float(plain.var()), rel=0.25)


@pytest.mark.parametrize("sampler", [LowNoise(0.0), SecondOrder()], ids=str)
def test_approximations_come_nearer_with_the_steps(sampler):
    law = Mixture(d([0.0, 0.5]), (Zero(d([0.0])), Poisson(d([6.0]))))
    oracle, true = CountOracle(Cosine(), law, 40), law.log_prob(grid(41)).exp()
    distances = []
    for steps in (2, 8, 64):
        values = drawn(oracle, sampler, steps, rows=8000)
        shares = torch.bincount(values[:, 0].long(), minlength=41)[:41] / len(values)
        distances.append(float((shares - true).abs().sum()) / 2)
    assert distances[2] < 0.6 * distances[0]
    assert distances[2] < 0.08


def test_second_order_steps_keep_more_of_the_dependence_at_equal_evaluations():
    g = np.random.default_rng(0)
    rows = torch.tensor(g.binomial(20, np.clip(g.random((30, 1)) + 0.1 * g.normal(size=(30, 4)), 0.02, 0.98))).double()
    oracle = Counting(EmpiricalOracle(exact(4), Cosine(), rows, joint=False))
    true, errors, asked = np.corrcoef(rows.numpy().T), [], []
    for sampler, steps in ((Plain(), 16), (SecondOrder(), 8)):
        oracle.asked.clear()
        values = drawn(oracle, sampler, steps, 4, 2000)
        errors.append(np.abs(np.corrcoef(values.numpy().T) - true).mean())
        asked.append(len(oracle.asked))
    assert asked[1] <= asked[0]
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_stream_does_not_feel_those_beside_it(name: str):
    process = Jump(exact(2), Cosine())
    oracle, times = EmpiricalOracle(exact(2), Cosine(), PAIRS, joint=False), process.grid(4)
    together = sample_rows(process, oracle, times, Streams([generator(i) for i in range(3)], 5), sampler=SAMPLERS[name])
    for i in range(3):
        alone = sample_rows(process, oracle, times, Streams([generator(i)], 5), sampler=SAMPLERS[name])
        assert torch.equal(together[5 * i : 5 * i + 5], alone)


def test_the_plain_sampler_is_the_chain_itself():
    process = Jump(exact(2), Cosine())
    oracle, times = EmpiricalOracle(exact(2), Cosine(), PAIRS, joint=False), process.grid(4)
    draws = [sample_rows(process, oracle, times, Streams([generator(0)], 50), sampler=each) for each in (None, Plain())]
    assert torch.equal(*draws)


def test_churn_of_wide_rows_keeps_their_law():
    oracle = SparseDirichletOracle(CountOracle(Cosine(), Binomial(d(6), d(0.5)), 6), d(0.5, 1.0, 2.0))
    block = PoissonBlock(NonNegative(), torch.ones(3).double(), torch.ones(3).double())
    process = Jump(block, Cosine())
    # Any state that the block can thin will do: here rows that are kept as their non-zeros.
    process.block = SparseStates(process.block)
    z = SparseRows.from_dense(torch.zeros(3000, 3, dtype=torch.float64))
    *_, last = chain(process, oracle, z, process.grid(4), Streams([generator(0)], 3000), sampler=Churn(1.0))
    total = flat(last.z).sum(1)
    assert pearson(total, grid(7), Binomial(d(6), d(0.5)).log_prob(grid(7))) > LEVEL


class SparseStates:
    """A block of wide rows of counts, as far as a sampler asks."""

    exact = True

    def __init__(self, block: PoissonBlock) -> None:
        self.block = block

    def encode(self, x: SparseRows):
        from countjump.laws.sparse import ThinnedRows

        return ThinnedRows(x, torch.ones(1, 1, dtype=torch.float64))


def test_what_a_sampler_cannot_do_is_said():
    process = Jump(randomised(5.0), Cosine())
    oracle = GammaOracle(Cosine(), d(5.0), d(1.0), d(2.0))
    for name in ("low-noise", "second-order"):
        with pytest.raises(ValueError, match="counts that are thinned themselves"):
            sample_rows(process, oracle, process.grid(3), Streams([generator()], 5), sampler=SAMPLERS[name])
    with pytest.raises(ValueError, match=r"sampler='ddim' is unknown: use one of 'plain', 'low-noise'"):
        find_sampler("ddim")
    assert find_sampler(Churn(0.1)) == Churn(0.1)
    assert Product(Zero(d([0.0]))).mean.shape == (1, 1)


def test_the_first_of_every_group():
    assert first_of(torch.tensor([2, 0, 0, 1, 2])).tolist() == [1, 3, 0]
