"""The sampler with oracles in the place of a trained network: what is exact is exact at any number of steps, and what is not
falls with them."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch
from goodness import LEVEL, Counting, generator, grid, pearson
from torch import Tensor, nn

from countjump.blocks import Block, PoissonBlock, Units
from countjump.blocks.base import Belief, ChainStep
from countjump.denoiser import ConditionEmbedding, Denoiser
from countjump.domains import Bounded, Count, NonNegative, Simplex
from countjump.laws import Binomial, NegativeBinomial, Poisson, Product, Streams
from countjump.networks import MLP
from countjump.oracles import DirichletOracle, EmpiricalOracle, GammaOracle, MeanOracle
from countjump.processes import Jump
from countjump.sampling import chain, sample_rows, seeded
from countjump.schedules import Cosine, LinearBeta
from countjump.states import distinct, row_hash

STEPS = [1, 2, 5, 20]
SHAPE, MEAN, LAM = 0.7, 2.0, 5.0


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def exact(columns: int) -> Block:
    """z_0 = x_0."""
    return PoissonBlock(Count(), torch.ones(columns).double(), torch.ones(columns).double())


def randomised(*lam: float) -> Block:
    """z_0 ~ Pois(λ x_0)."""
    one = torch.ones(len(lam)).double()
    return PoissonBlock(NonNegative(), one, one, d(*lam))


def units(total: Tensor, parts: int, bounds: Tensor | None = None) -> Units:
    """Wholes of so many units each."""
    share = torch.full((len(total), parts), 1 / parts, dtype=torch.float64)
    domain = Simplex() if bounds is None else Bounded(tuple(bounds.tolist()))
    return Units(domain, share, torch.ones(len(total)), torch.zeros(len(total), parts), total, 1, bounds)


def draw(block: Block, denoise, steps: int, rows: int = 5000, decode: str = "draw", schedule=None) -> Tensor:
    """Rows of data."""
    block.decoding = decode
    process = Jump(block, schedule or Cosine())
    x = sample_rows(process, denoise, process.grid(steps), Streams([generator(steps)], rows))
    return block.from_shares(x) if isinstance(block, Units) else x


# Exact at any number of steps.


@pytest.mark.parametrize("steps", STEPS)
def test_gamma_belief_on_a_gamma_prior_is_exact(steps: int):
    oracle = GammaOracle(Cosine(), d(LAM), d(SHAPE), d(MEAN))
    x = draw(randomised(LAM), oracle, steps)[:, 0]
    assert scipy.stats.kstest(x, scipy.stats.gamma(SHAPE, scale=MEAN / SHAPE).cdf).pvalue > LEVEL
    z_0 = draw(randomised(LAM), oracle, steps, decode="latent") * LAM
    assert pearson(z_0, grid(400)[:, None], NegativeBinomial(d(SHAPE), d(LAM * MEAN)).log_prob(grid(400))) > LEVEL


@pytest.mark.parametrize("steps", STEPS)
def test_dirichlet_belief_on_a_uniform_prior_is_exact(steps: int):
    oracle = DirichletOracle(Cosine(), d(10, 30), torch.ones(2, 2))
    x = draw(units(d(10, 30), 2, d(1.0, 4.0)), oracle, steps)
    assert scipy.stats.kstest(x[:, 0], "uniform").pvalue > LEVEL
    assert scipy.stats.kstest(x[:, 1] / 4, "uniform").pvalue > LEVEL
    assert abs(np.corrcoef(x.T)[0, 1]) < 0.05


ROWS = {
    "exact": (exact(2), d([0, 1], [2, 5], [7, 7], [3, 0]), "latent"),
    "randomised": (randomised(3, 1), d([0.0, 0.25], [1.5, 5.0], [7.0, 7.0], [3.0, 0.0]), "draw"),
    "one-hot": (units(d(1), 3), d([1, 0, 0], [0, 1, 0], [0, 0, 1]), "latent"),
    "simplex": (units(d(6), 3), d([0.25, 0.75, 0.0], [0.0, 0.0, 1.0], [0.5, 0.25, 0.25]), "draw"),
    "interval": (units(d(4, 4), 2, d(2.0, 1.0)), d([0.0, 0.0], [0.5, 1.0], [2.0, 0.25], [1.0, 0.5]), "draw"),
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("name", ROWS)
def test_joint_belief_about_correlated_columns_is_exact(name: str, steps: int):
    block, rows, decode = ROWS[name]
    weights = torch.arange(1, len(rows) + 1, dtype=torch.float64)
    oracle = EmpiricalOracle(block, Cosine(), rows, weights)
    drawn = draw(block, oracle, steps, 3000, decode)
    assert pearson(drawn, rows, (weights / weights.sum()).log()) > LEVEL


# Wrong by less with every step.


def test_error_of_columns_apart_falls_with_the_steps():
    """The total-variation distance of rows whose columns exclude each other."""
    block, rows = exact(2), d([0, 6], [6, 0], [3, 3])
    distances = {}
    for joint in (False, True):
        oracle = EmpiricalOracle(block, Cosine(), rows, joint=joint)
        distances[joint] = []
        for steps in (1, 4, 16, 64):
            drawn = draw(block, oracle, steps, 2000, "latent")
            shares = (drawn[:, None] == rows).all(-1).double().mean(0)
            distances[joint].append(float((1 / 3 - shares).clamp(min=0).sum()))
    assert distances[False][0] == pytest.approx(2 / 3, abs=0.05)  # nine pairs, of which three exist
    assert all(after < 0.75 * before for before, after in itertools.pairwise(distances[False]))
    assert max(distances[True]) < 0.05


def wasserstein(sample: Tensor) -> float:
    """W1 to Gamma(SHAPE, MEAN), by quantiles."""
    levels = (np.arange(len(sample)) + 0.5) / len(sample)
    return float(np.abs(np.sort(sample) - scipy.stats.gamma.ppf(levels, SHAPE, scale=MEAN / SHAPE)).mean())


def test_error_of_the_papers_belief_is_the_samplers():
    """With a perfect network the paper's Poisson belief is wrong at few steps, and less with more of them."""
    lam = 10.0
    schedule = LinearBeta.solve(lam * MEAN, timesteps=100)
    oracle = GammaOracle(schedule, d(lam), d(SHAPE), d(MEAN))
    paper, ours = (
        [wasserstein(draw(randomised(lam), each, steps, 8000, decode, schedule)[:, 0]) for steps in (5, 20, 100)]
        for each, decode in ((MeanOracle(oracle), "mean"), (oracle, "draw"))
    )
    assert paper[1] < 0.6 * paper[0]
    assert paper[2] < 0.6 * paper[1]
    assert max(ours) < 0.08 < paper[1]


def test_papers_binomial_belief_breaks_a_constant_column():
    """A column that is always 7 comes out as something else in many rows: no Poisson is certain."""
    oracle = EmpiricalOracle(exact(1), Cosine(), d([7]))
    ours = draw(exact(1), oracle, 20, 2000, "latent")
    paper = draw(exact(1), MeanOracle(oracle), 20, 2000, "latent")
    assert (ours == 7).all()
    assert 0.1 < float((paper == 7).double().mean()) < 0.85
    assert float(paper.max()) > 7


# The loop.


def test_equal_states_are_evaluated_once():
    block, rows = exact(2), d([0, 1], [2, 1], [1, 0])
    counting = Counting(EmpiricalOracle(block, Cosine(), rows))
    draw(block, counting, 4, 1000, "latent")
    assert counting.asked[0] == 1  # every chain starts at zero
    assert max(counting.asked) <= 6


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2)])
def test_distinct_rows(shape: tuple[int, ...]):
    z = torch.randint(3, (200, *shape), generator=generator()).double()
    first, group = distinct(row_hash(z))
    assert torch.equal(z[first][group], z)
    assert len(first) == len(torch.unique(z.flatten(1), dim=0))


def test_distinct_rows_of_large_counts():
    z = d([2.0**52, 1], [2.0**52 + 1, 0], [2.0**52, 1], [1, 2.0**52])
    first, group = distinct(row_hash(z))
    assert len(first) == 3
    assert group[0] == group[2]


@pytest.mark.parametrize("steps", [1, 7])
def test_a_chain_has_one_more_state_than_steps(steps: int):
    process = Jump(exact(1), Cosine())
    oracle = EmpiricalOracle(process.block, process.schedule, d([0], [5]))
    times = process.grid(steps)
    streams = Streams([generator()], 10)
    states = list(chain(process, oracle, process.prior(10, streams, "cpu"), times, streams))
    assert len(states) == steps + 1
    assert [float(state.t[0]) for state in states] == times.tolist()
    assert all(state.z.shape == (10, 1) and state.z.dtype == torch.float64 for state in states)
    assert all((after.z >= before.z).all() for before, after in itertools.pairwise(states)), "units are never lost"
    assert isinstance(states[-1].prediction, ChainStep)
    assert states[-1].prediction is states[-2]


@pytest.mark.parametrize("steps", [1, 6])
def test_a_chain_from_a_given_state_draws_the_posterior_of_what_was_seen(steps: int):
    """From (1, 1) at α = ½, of the rows (2, 1), (1, 3) and (0, 9): P(x_0 given z_t) by Bayes' rule."""
    rows, seen = d([2, 1], [1, 3], [0, 9]), d([1, 1])
    process = Jump(exact(2), Cosine())
    oracle = EmpiricalOracle(process.block, process.schedule, rows)
    t = Cosine().time(0.5)
    times = torch.linspace(t, 0, steps + 1, dtype=torch.float64)
    chance = Binomial(rows, d(0.5)).log_prob(seen).sum(1)
    z = seen.expand(4000, -1)
    *_, last = chain(process, oracle, z, times, Streams([generator()], 4000))
    assert pearson(last.z, rows, chance.log_softmax(0)) > LEVEL


def test_a_chain_in_two_halves_goes_where_the_whole_one_goes():
    """Given the same random numbers: a chain has no memory but its state."""
    process = Jump(randomised(LAM), Cosine())
    oracle = GammaOracle(Cosine(), d(LAM), d(SHAPE), d(MEAN))
    times, streams = process.grid(8), Streams([generator()], 50)
    whole = [step.z for step in chain(process, oracle, process.prior(50, streams, "cpu"), times, streams)]
    streams = Streams([generator()], 50)
    first = [step.z for step in chain(process, oracle, process.prior(50, streams, "cpu"), times[:4], streams)]
    rest = [step.z for step in chain(process, oracle, first[-1], times[3:], streams)]
    for one, other in zip(whole, first + rest[1:], strict=True):
        assert torch.equal(one, other)


# Streams and seeds.


def test_rows_of_a_stream_do_not_feel_the_streams_beside_it():
    process = Jump(randomised(LAM), Cosine())
    oracle = GammaOracle(Cosine(), d(LAM), d(SHAPE), d(MEAN))
    process.block.decoding = "draw"
    times = process.grid(5)

    def rows(*seeds: int) -> Tensor:
        return sample_rows(process, oracle, times, Streams([generator(seed) for seed in seeds], 8))

    together = rows(1, 2, 3)
    assert together.shape == (24, 1)
    for place, seed in enumerate((1, 2, 3)):
        assert torch.equal(together[8 * place : 8 * place + 8], rows(seed))


def test_seeds():
    first, again, other, longer = (
        torch.rand(4, generator=seeded("cpu", *entropy)) for entropy in ((1, 2), (1, 2), (2, 1), (1, 2, 0))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, longer)


# Conditions.


class Given:
    """A denoiser that believes what its condition (B,) says: so many units are there in all."""

    schedule = Cosine()

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, z: Tensor, t: Tensor, condition: Tensor | None = None) -> Belief:
        assert condition is not None
        self.asked.append(len(z))
        left = condition.reshape(-1, 1).double() - z
        return Belief(Product(Binomial(left, torch.ones_like(left))))


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_equal_states_under_different_conditions_are_evaluated_apart(shape: tuple[int, ...]):
    process, given = Jump(exact(1), Cosine()), Given()
    condition = torch.arange(5).repeat(200).reshape(shape)
    streams = Streams([generator()], 1000)
    *_, last = chain(process, given, process.prior(1000, streams, "cpu"), process.grid(4), streams, condition)
    assert torch.equal(last.z, condition.reshape(-1, 1).double())
    assert given.asked[0] == 5, "one empty state under five conditions"
    assert max(given.asked) <= 15, "of states and conditions there are as many"


def test_a_denoiser_adds_its_condition_and_rows_do_not_feel_their_batch():
    torch.manual_seed(0)
    block = exact(2)
    network = MLP(block.inputs, block.outputs, width=16)
    nn.init.normal_(network.output.weight)
    denoiser = Denoiser(network, block, Cosine(), condition=ConditionEmbedding([3], 0, 16)).eval()
    z, t, label = d([1, 2], [1, 2], [1, 2], [0, 4]), d(0.3, 0.3, 0.3, 0.9), d(0, 1, 0, 2)[:, None]
    with torch.no_grad():
        mean = denoiser(z, t, label).missing.mean
        plain = denoiser(z, t).missing.mean
        for row in range(4):
            alone = denoiser(z[row : row + 1], t[row : row + 1], label[row : row + 1]).missing.mean
            torch.testing.assert_close(alone, mean[row : row + 1], rtol=1e-6, atol=0)
    assert torch.equal(mean[0], mean[2])
    assert not torch.allclose(mean[0], mean[1])
    assert torch.equal(plain[0], plain[1])
    assert isinstance(denoiser(z, t).missing.entries, Poisson)


def test_decodings():
    oracle = GammaOracle(Cosine(), d(LAM), d(SHAPE), d(MEAN))
    latent, mean, drawn = (draw(randomised(LAM), oracle, 5, 2000, decode) for decode in ("latent", "mean", "draw"))
    torch.testing.assert_close((latent * LAM).round(), latent * LAM)
    assert (mean > 0).all()
    assert len(drawn.unique()) == 2000
    for x in (latent, mean, drawn):
        assert float(x.mean()) == pytest.approx(MEAN, rel=0.1)
