"""Bounds on ln p(x): never above it, equal to it for an exact belief, and nearer with every step for a wrong one."""

import itertools
import math

import pytest
import scipy.stats
import torch
from goodness import Counting, generator, grid
from torch import Tensor

from countjump.blocks import Belief, Block, PoissonBlock, Units
from countjump.divergences import relative_entropy
from countjump.domains import Bounded, Count, NonNegative, Simplex
from countjump.laws import Poisson
from countjump.likelihood import lower_bound
from countjump.oracles import DirichletOracle, EmpiricalOracle, GammaOracle, MeanOracle
from countjump.processes import Jump
from countjump.processes.categorical import Categorical, CategoricalDiffusion, DiscreteGaussian, Uniform
from countjump.processes.gaussian import GaussianDiffusion
from countjump.schedules import Cosine

STEPS = [1, 3, 30]


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def exact(columns: int) -> Block:
    """z_0 = x_0."""
    return PoissonBlock(Count(), torch.ones(columns).double(), torch.ones(columns).double())


def randomised(*lam: float) -> Block:
    """z_0 ~ Pois(λ x_0)."""
    one = torch.ones(len(lam)).double()
    return PoissonBlock(NonNegative(), one, one, d(*lam), decoding="draw")


def units(total: Tensor, parts: int, bounds: Tensor | None = None) -> Units:
    """Wholes of so many units each."""
    share = torch.full((len(total), parts), 1 / parts, dtype=torch.float64)
    domain = Simplex() if bounds is None else Bounded(tuple(bounds.tolist()))
    return Units(domain, share, torch.ones(len(total)), torch.zeros(len(total), parts), total, 1, bounds)


def score(block: Block, denoise, x: Tensor, steps: int, draws: int = 1) -> Tensor:
    """The mean of many draws of the bound, for each row of data."""
    process = Jump(block, Cosine())
    many = block.read(x.repeat_interleave(draws, 0).numpy())
    bound = lower_bound(process, denoise, many, process.grid(steps), list(range(len(x) * draws)))
    return bound.reshape(len(x), draws).mean(1)


# With an exact belief the chain's law is the data's, and every single draw of the bound is ln p(x) itself.


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_counts_scores_their_probability(steps: int):
    rows, weights = d([0, 1], [2, 5], [7, 7], [3, 0]), d(0.1, 0.2, 0.3, 0.4)
    oracle = EmpiricalOracle(exact(2), Cosine(), rows, weights)
    torch.testing.assert_close(score(exact(2), oracle, rows, steps), weights.log(), rtol=1e-8, atol=1e-8)
    assert score(exact(2), oracle, d([7, 6]), steps).item() == -torch.inf


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_categories_scores_their_probability(steps: int):
    rows, weights = torch.eye(3, dtype=torch.float64), d(0.1, 0.2, 0.7)
    block = units(d(1), 3)
    oracle = EmpiricalOracle(block, Cosine(), rows, weights)
    torch.testing.assert_close(score(block, oracle, rows, steps), weights.log(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_reals_scores_their_density(steps: int):
    shape, mean = d(0.7, 3.0), d(2.0, 1.0)
    x = d([0.01, 1.0], [2.0, 0.3], [9.0, 2.0])
    oracle = GammaOracle(Cosine(), d(5, 20), shape, mean)
    density = scipy.stats.gamma.logpdf(x, shape, scale=mean / shape).sum(1)
    assert score(randomised(5, 20), oracle, x, steps).tolist() == pytest.approx(density, rel=1e-7)


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_bounded_reals_scores_their_density(steps: int):
    block = units(d(6, 20), 2, d(1.0, 4.0))
    uniform = DirichletOracle(Cosine(), d(6, 20), torch.ones(2, 2))
    x = d([0.2, 0.1], [0.9, 3.5])
    assert score(block, uniform, x, steps).tolist() == pytest.approx([-math.log(4)] * 2, rel=1e-7)
    beta = DirichletOracle(Cosine(), d(6, 20), d([2.0, 3.0], [0.5, 0.5]))
    density = scipy.stats.beta.logpdf(x[:, 0], 2, 3) + scipy.stats.beta.logpdf(x[:, 1] / 4, 0.5, 0.5) - math.log(4)
    assert score(block, beta, x, steps).tolist() == pytest.approx(density, rel=1e-7)


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_proportions_scores_their_density(steps: int):
    concentration = d([2.0, 1.0, 0.5])
    oracle = DirichletOracle(Cosine(), d(9), concentration)
    x = d([0.2, 0.3, 0.5], [0.01, 0.98, 0.01])
    density = [scipy.stats.dirichlet.logpdf(row, concentration[0]) for row in x.numpy()]
    assert score(units(d(9), 3), oracle, x, steps).tolist() == pytest.approx(density, rel=1e-7)


# With a wrong belief it stays a bound.

ROWS, WEIGHTS = d([0, 2], [2, 0], [1, 1]), d(0.5, 0.3, 0.2)


@pytest.mark.parametrize("steps", [1, 4, 16])
@pytest.mark.parametrize("kind", ["columns apart", "the paper's"])
def test_probabilities_by_the_bound_add_up_to_at_most_one(kind: str, steps: int):
    oracle = EmpiricalOracle(exact(2), Cosine(), ROWS, WEIGHTS, joint=kind == "the paper's")
    oracle = MeanOracle(oracle) if kind == "the paper's" else oracle
    size = 3 if kind == "columns apart" else 8
    total = float(score(exact(2), oracle, grid(size, size), steps, draws=60).exp().sum())
    assert total <= 1.01
    assert total > (0.2 if kind == "the paper's" else 0.5)


def test_bound_of_columns_apart_rises_to_the_truth_with_the_steps():
    oracle = EmpiricalOracle(exact(2), Cosine(), ROWS, WEIGHTS, joint=False)
    gaps = [
        float((WEIGHTS * (WEIGHTS.log() - score(exact(2), oracle, ROWS, steps, draws=200))).sum())
        for steps in (1, 4, 16, 64)
    ]
    assert all(gap > 0 for gap in gaps)
    assert all(after < 0.6 * before for before, after in itertools.pairwise(gaps))
    assert gaps[-1] < 0.05


def test_densities_by_the_bound_integrate_to_at_most_one():
    """The paper's belief about the jumps, with the exact belief about x_0 at the end; a wrong prior is a model of its own."""
    oracle = GammaOracle(Cosine(), d(5), d(2.0), d(2.0))

    def paper(z: Tensor, t: Tensor, condition: Tensor | None = None) -> Belief:
        return Belief(MeanOracle(oracle)(z, t).missing, oracle(z, t).data)

    x = torch.linspace(0.005, 16, 300, dtype=torch.float64)
    truth = torch.from_numpy(scipy.stats.gamma.logpdf(x, 2.0, scale=1.0))
    totals, gaps = [], []
    for steps in (1, 5, 25):
        bound = score(randomised(5), paper, x[:, None], steps, draws=30)
        totals.append(float(torch.trapezoid(bound.exp(), x)))
        gaps.append(float(torch.trapezoid(truth.exp() * (truth - bound), x)))
    assert max(totals) <= 1.01
    assert gaps[0] > gaps[1] > gaps[2] > 0


def test_one_step_of_the_papers_belief_is_a_poisson_probability():
    """With one step from zero the model is Pois(E[x_0]), and the bound is exact for it."""
    oracle = MeanOracle(EmpiricalOracle(exact(1), Cosine(), d([0], [5]), d(0.4, 0.6)))
    x = grid(8)[:, None]
    torch.testing.assert_close(score(exact(1), oracle, x, 1), Poisson(d(3.0)).log_prob(x[:, 0]))


def test_probability_of_a_count_is_the_integral_of_the_relative_entropy():
    """−ln P(x) = ∫ E D_φ(x, f(z_γ, γ)) dγ over γ from 0 to ∞, z_γ ~ Pois(γ x) (Guo, Shamai and Verdú 2008)."""
    values, weights = d(0, 1, 3), d(0.5, 0.3, 0.2)
    largest = 60.0
    oracle = EmpiricalOracle(randomised(largest), Cosine(), values[:, None], weights)
    gamma = torch.linspace(0, 1, 301, dtype=torch.float64) ** 3 * largest
    z = grid(260)[:, None]
    posterior_mean = torch.stack([oracle.belief(z, (g / largest).expand(260, 1)).data.mean[:, 0] for g in gamma])
    for x, weight in zip(values, weights, strict=True):
        chances = Poisson((gamma * x)[:, None]).log_prob(z[:, 0]).exp()
        integrand = (chances * relative_entropy(x.expand_as(posterior_mean), posterior_mean)).sum(1)
        assert float(torch.trapezoid(integrand, gamma)) == pytest.approx(-math.log(weight), rel=2e-3)


# One bound for every process that has one.


def states_oracle(process: CategoricalDiffusion, log_weights: Tensor):
    """Knows the law of every column's state; what it says of x_0 leaves z_t to the process."""
    return lambda z, t, condition=None: Categorical(log_weights.expand(len(z), process.columns, -1))


@pytest.mark.parametrize("transition", [Uniform, DiscreteGaussian])
@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_states_scores_their_probability(transition, steps: int):
    """Steps are scored by their divergence, so that a single draw has noise; the mean of many is ln p(x)."""
    process = CategoricalDiffusion(1, transition(3), Cosine())
    log_weights = d(0.2, 0.5, 0.3).log()
    x = grid(3)[:, None].repeat_interleave(4000, 0)
    bound = lower_bound(process, states_oracle(process, log_weights), x, process.grid(steps), list(range(len(x))))
    draws = bound.reshape(3, -1)
    error = draws.std(1) / len(draws[0]) ** 0.5
    assert error.max() < 0.05
    assert ((draws.mean(1) - log_weights).abs() < 4 * error + 1e-9).all()


def test_a_process_without_a_likelihood_says_so():
    process = GaussianDiffusion(d(-1.0), d(1.0), Cosine())
    with pytest.raises(TypeError, match="has no likelihood"):
        lower_bound(process, lambda z, t, condition=None: z, d([0.0]), process.grid(3), [0])


def test_equal_states_are_evaluated_once():
    rows = d([0, 1], [2, 1], [1, 0])
    oracle = EmpiricalOracle(exact(2), Cosine(), rows)
    counting = Counting(oracle)
    many = rows.repeat(500, 1)
    together = score(exact(2), counting, many, 6)
    assert max(counting.asked) <= 6
    torch.testing.assert_close(together, torch.full_like(together, -math.log(3)))


def test_a_draw_is_a_function_of_the_row_and_its_key():
    """And of nothing else: neither the rows beside it nor their order."""
    oracle = EmpiricalOracle(exact(2), Cosine(), ROWS, WEIGHTS, joint=False)
    process = Jump(exact(2), Cosine())
    x, times = ROWS.repeat(4, 1), process.grid(5)
    keys = [2**100 + 7 * i for i in range(len(x))]
    whole = lower_bound(process, oracle, x, times, keys)
    order = torch.randperm(len(x), generator=generator())
    moved = lower_bound(process, oracle, x[order], times, [keys[i] for i in order])
    torch.testing.assert_close(moved, whole[order], rtol=1e-12, atol=1e-12)
    alone = lower_bound(process, oracle, x[5:6], times, keys[5:6])
    torch.testing.assert_close(alone, whole[5:6], rtol=1e-12, atol=1e-12)
    assert len(whole.unique()) > 3, "equal rows under other keys are other draws"
