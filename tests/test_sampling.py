"""The sampler with oracles in the place of a trained network: what is exact is exact at any number of steps, and what is not
falls with them."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch
from goodness import LEVEL, generator, grid, pearson
from torch import Tensor

from countjump.laws import NegativeBinomial
from countjump.oracles import DirichletOracle, EmpiricalOracle, GammaOracle, MeanOracle
from countjump.processes import Exact, Jump, Randomised, Step, Units
from countjump.processes.base import distinct_rows
from countjump.sampling import chain, once, sample_block, seeded
from countjump.schedules import Cosine, LinearBeta

STEPS = [1, 2, 5, 20]
SHAPE, MEAN, LAM = 0.7, 2.0, 5.0


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def draw(encoding, denoise, steps: int, rows: int = 5000, decode: str = "draw", schedule=None) -> Tensor:
    process = Jump(encoding, None, schedule or Cosine(), decode=decode)
    return sample_block(process, denoise, rows, process.grid(steps), generator(steps))


# Exact at any number of steps.


@pytest.mark.parametrize("steps", STEPS)
def test_gamma_belief_on_a_gamma_prior_is_exact(steps: int):
    oracle = GammaOracle(Cosine(), d(LAM), d(SHAPE), d(MEAN))
    x = draw(Randomised(d(LAM)), oracle, steps)[:, 0]
    assert scipy.stats.kstest(x, scipy.stats.gamma(SHAPE, scale=MEAN / SHAPE).cdf).pvalue > LEVEL
    z_0 = draw(Randomised(d(LAM)), oracle, steps, decode="latent") * LAM
    assert pearson(z_0, grid(400)[:, None], NegativeBinomial(d(SHAPE), d(LAM * MEAN)).log_prob(grid(400))) > LEVEL


@pytest.mark.parametrize("steps", STEPS)
def test_dirichlet_belief_on_a_uniform_prior_is_exact(steps: int):
    oracle = DirichletOracle(Cosine(), d(10, 30), torch.ones(2, 2))
    x = draw(Units(d(10, 30), 2, d(1.0, 4.0)), oracle, steps)
    assert scipy.stats.kstest(x[:, 0], "uniform").pvalue > LEVEL
    assert scipy.stats.kstest(x[:, 1] / 4, "uniform").pvalue > LEVEL
    assert abs(np.corrcoef(x.T)[0, 1]) < 0.05


ROWS = {
    "exact": (Exact(2), d([0, 1], [2, 5], [7, 7], [3, 0]), "latent"),
    "randomised": (Randomised(d(3, 1)), d([0.0, 0.25], [1.5, 5.0], [7.0, 7.0], [3.0, 0.0]), "draw"),
    "one-hot": (Units(d(1), 3), d([1, 0, 0], [0, 1, 0], [0, 0, 1]), "latent"),
    "simplex": (Units(d(6), 3), d([0.25, 0.75, 0.0], [0.0, 0.0, 1.0], [0.5, 0.25, 0.25]), "draw"),
    "interval": (Units(d(4, 4), 2, d(2.0, 1.0)), d([0.0, 0.0], [0.5, 1.0], [2.0, 0.25], [1.0, 0.5]), "draw"),
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("name", ROWS)
def test_joint_belief_about_correlated_columns_is_exact(name: str, steps: int):
    encoding, rows, decode = ROWS[name]
    weights = torch.arange(1, len(rows) + 1, dtype=torch.float64)
    oracle = EmpiricalOracle(encoding, Cosine(), rows, weights)
    drawn = draw(encoding, oracle, steps, 3000, decode)
    assert pearson(drawn, rows, (weights / weights.sum()).log()) > LEVEL


# Wrong by less with every step.


def test_error_of_columns_apart_falls_with_the_steps():
    """The total-variation distance of rows whose columns exclude each other."""
    encoding, rows = Exact(2), d([0, 6], [6, 0], [3, 3])
    distances = {}
    for joint in (False, True):
        oracle = EmpiricalOracle(encoding, Cosine(), rows, joint=joint)
        distances[joint] = []
        for steps in (1, 4, 16, 64):
            drawn = draw(encoding, oracle, steps, 2000, "latent")
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
    exact = GammaOracle(schedule, d(lam), d(SHAPE), d(MEAN))
    encoding = Randomised(d(lam))
    paper = [
        wasserstein(draw(encoding, MeanOracle(exact), steps, 8000, "mean", schedule)[:, 0]) for steps in (5, 20, 100)
    ]
    ours = [wasserstein(draw(encoding, exact, steps, 8000, "draw", schedule)[:, 0]) for steps in (5, 20, 100)]
    assert paper[1] < 0.6 * paper[0]
    assert paper[2] < 0.6 * paper[1]
    assert max(ours) < 0.08 < paper[1]


def test_papers_binomial_belief_breaks_a_constant_column():
    """A column that is always 7 comes out as something else in many rows: no Poisson is certain."""
    oracle = EmpiricalOracle(Exact(1), Cosine(), d([7]))
    exact = draw(Exact(1), oracle, 20, 2000, "latent")
    paper = draw(Exact(1), MeanOracle(oracle), 20, 2000, "latent")
    assert (exact == 7).all()
    assert 0.1 < float((paper == 7).double().mean()) < 0.85
    assert float(paper.max()) > 7


# The loop.


class Counting:
    """A denoiser that notes how many rows it was asked for."""

    def __init__(self, denoise) -> None:
        self.denoise, self.asked = denoise, []

    def __call__(self, z: Tensor, times: Tensor, index: Tensor):
        self.asked.append(len(z))
        return self.denoise(z, times, index)


def test_equal_states_are_evaluated_once():
    encoding, rows = Exact(2), d([0, 1], [2, 1], [1, 0])
    counting = Counting(EmpiricalOracle(encoding, Cosine(), rows))
    draw(encoding, counting, 4, 1000, "latent")
    assert counting.asked[0] == 1  # every chain starts at zero
    assert max(counting.asked) <= 6
    z = d([1, 0], [0, 1], [1, 0], [0, 0], [0, 1])
    args = z, d(0.5), torch.zeros(5, dtype=torch.long)
    whole, shared = counting.denoise(*args).missing, once(counting)(*args).missing
    assert counting.asked[-1] == 3
    torch.testing.assert_close(shared.mean, whole.mean)
    torch.testing.assert_close(shared.log_prob(z), whole.log_prob(z))


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2)])
def test_distinct_rows(shape: tuple[int, ...]):
    z = torch.randint(3, (200, *shape), generator=generator()).double()
    first, kind = distinct_rows(z)
    assert torch.equal(z[first][kind], z)
    assert len(first) == len(torch.unique(z.flatten(1), dim=0))


def test_distinct_rows_of_large_counts():
    z = d([2.0**52, 1], [2.0**52 + 1, 0], [2.0**52, 1], [1, 2.0**52])
    first, kind = distinct_rows(z)
    assert len(first) == 3
    assert kind[0] == kind[2]


@pytest.mark.parametrize("steps", [1, 7])
def test_a_chain_has_one_more_state_than_steps(steps: int):
    process = Jump(Exact(1), None, Cosine())
    oracle = EmpiricalOracle(process.encoding, process.schedule, d([0], [5]))
    times = process.grid(steps)
    states = list(chain(process, oracle, 10, times, generator()))
    assert len(states) == steps + 1
    assert [float(state.t[0]) for state in states] == times.tolist()
    assert all(state.z.shape == (10, 1) and state.z.dtype == torch.float64 for state in states)
    assert isinstance(states[-1].prediction, Step)
    assert states[-1].prediction is states[-2]


def test_decodings():
    oracle = GammaOracle(Cosine(), d(LAM), d(SHAPE), d(MEAN))
    latent, mean, drawn = (draw(Randomised(d(LAM)), oracle, 5, 2000, decode) for decode in ("latent", "mean", "draw"))
    torch.testing.assert_close((latent * LAM).round(), latent * LAM)
    assert (mean > 0).all()
    assert len(drawn.unique()) == 2000
    for x in (latent, mean, drawn):
        assert float(x.mean()) == pytest.approx(MEAN, rel=0.1)


def test_seeds():
    first, again, other, longer = (
        torch.rand(4, generator=seeded("cpu", *entropy)) for entropy in ((1, 2), (1, 2), (2, 1), (1, 2, 0))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, longer)
