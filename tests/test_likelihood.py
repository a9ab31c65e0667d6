"""Bounds on ln p(x): never above it, equal to it for an exact belief, and nearer with every step for a wrong one."""

import itertools
import math

import pytest
import scipy.stats
import torch
from goodness import generator, grid
from torch import Tensor

from countjump.beliefs import Belief
from countjump.divergences import relative_entropy
from countjump.laws import Poisson
from countjump.likelihood import lower_bound
from countjump.oracles import DirichletOracle, EmpiricalOracle, GammaOracle, MeanOracle
from countjump.processes import Exact, Jump, Randomised, Units
from countjump.schedules import Cosine

STEPS = [1, 3, 30]


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def score(encoding, denoise, x: Tensor, steps: int, draws: int = 1) -> Tensor:
    """The mean of many draws of the bound, for each row."""
    process = Jump(encoding, None, Cosine())
    many = x.repeat_interleave(draws, 0)
    return lower_bound(process, denoise, many, process.grid(steps), generator(steps)).reshape(len(x), draws).mean(1)


# With an exact belief the chain's law is the data's, and every single draw of the bound is ln p(x) itself.


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_counts_scores_their_probability(steps: int):
    rows, weights = d([0, 1], [2, 5], [7, 7], [3, 0]), d(0.1, 0.2, 0.3, 0.4)
    oracle = EmpiricalOracle(Exact(2), Cosine(), rows, weights)
    torch.testing.assert_close(score(Exact(2), oracle, rows, steps), weights.log(), rtol=1e-8, atol=1e-8)
    assert score(Exact(2), oracle, d([7, 6]), steps).item() == -torch.inf


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_categories_scores_their_probability(steps: int):
    rows, weights = torch.eye(3, dtype=torch.float64), d(0.1, 0.2, 0.7)
    encoding = Units(d(1), 3)
    oracle = EmpiricalOracle(encoding, Cosine(), rows, weights)
    torch.testing.assert_close(score(encoding, oracle, rows, steps), weights.log(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_reals_scores_their_density(steps: int):
    shape, mean = d(0.7, 3.0), d(2.0, 1.0)
    x = d([0.01, 1.0], [2.0, 0.3], [9.0, 2.0])
    oracle = GammaOracle(Cosine(), d(5, 20), shape, mean)
    density = scipy.stats.gamma.logpdf(x, shape, scale=mean / shape).sum(1)
    assert score(Randomised(d(5, 20)), oracle, x, steps).tolist() == pytest.approx(density, rel=1e-7)


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_bounded_reals_scores_their_density(steps: int):
    encoding = Units(d(6, 20), 2, d(1.0, 4.0))
    uniform = DirichletOracle(Cosine(), d(6, 20), torch.ones(2, 2))
    x = d([0.2, 0.1], [0.9, 3.5])
    assert score(encoding, uniform, x, steps).tolist() == pytest.approx([-math.log(4)] * 2, rel=1e-7)
    beta = DirichletOracle(Cosine(), d(6, 20), d([2.0, 3.0], [0.5, 0.5]))
    density = scipy.stats.beta.logpdf(x[:, 0], 2, 3) + scipy.stats.beta.logpdf(x[:, 1] / 4, 0.5, 0.5) - math.log(4)
    assert score(encoding, beta, x, steps).tolist() == pytest.approx(density, rel=1e-7)


@pytest.mark.parametrize("steps", STEPS)
def test_exact_belief_about_proportions_scores_their_density(steps: int):
    concentration = d([2.0, 1.0, 0.5])
    oracle = DirichletOracle(Cosine(), d(9), concentration)
    x = d([0.2, 0.3, 0.5], [0.01, 0.98, 0.01])
    density = [scipy.stats.dirichlet.logpdf(row, concentration[0]) for row in x.numpy()]
    assert score(Units(d(9), 3), oracle, x, steps).tolist() == pytest.approx(density, rel=1e-7)


# With a wrong belief it stays a bound.

ROWS, WEIGHTS = d([0, 2], [2, 0], [1, 1]), d(0.5, 0.3, 0.2)


@pytest.mark.parametrize("steps", [1, 4, 16])
@pytest.mark.parametrize("kind", ["columns apart", "the paper's"])
def test_probabilities_by_the_bound_add_up_to_at_most_one(kind: str, steps: int):
    exact = EmpiricalOracle(Exact(2), Cosine(), ROWS, WEIGHTS)
    oracle = (
        MeanOracle(exact) if kind == "the paper's" else EmpiricalOracle(Exact(2), Cosine(), ROWS, WEIGHTS, joint=False)
    )
    size = 3 if kind == "columns apart" else 8
    total = float(score(Exact(2), oracle, grid(size, size), steps, draws=60).exp().sum())
    assert total <= 1.01
    assert total > (0.2 if kind == "the paper's" else 0.5)


def test_bound_of_columns_apart_rises_to_the_truth_with_the_steps():
    oracle = EmpiricalOracle(Exact(2), Cosine(), ROWS, WEIGHTS, joint=False)
    gaps = [
        float((WEIGHTS * (WEIGHTS.log() - score(Exact(2), oracle, ROWS, steps, draws=200))).sum())
        for steps in (1, 4, 16, 64)
    ]
    assert all(gap > 0 for gap in gaps)
    assert all(after < 0.6 * before for before, after in itertools.pairwise(gaps))
    assert gaps[-1] < 0.05


def test_densities_by_the_bound_integrate_to_at_most_one():
    """The paper's belief about the jumps, with the exact belief about x_0 at the end; a wrong prior is a model of its own."""
    exact = GammaOracle(Cosine(), d(5), d(2.0), d(2.0))

    def paper(z: Tensor, times: Tensor, index: Tensor) -> Belief:
        return Belief(MeanOracle(exact)(z, times, index).missing, exact(z, times, index).data)

    x = torch.linspace(0.005, 16, 300, dtype=torch.float64)
    truth = torch.from_numpy(scipy.stats.gamma.logpdf(x, 2.0, scale=1.0))
    totals, gaps = [], []
    for steps in (1, 5, 25):
        bound = score(Randomised(d(5)), paper, x[:, None], steps, draws=30)
        totals.append(float(torch.trapezoid(bound.exp(), x)))
        gaps.append(float(torch.trapezoid(truth.exp() * (truth - bound), x)))
    assert max(totals) <= 1.01
    assert gaps[0] > gaps[1] > gaps[2] > 0


def test_one_step_of_the_papers_belief_is_a_poisson_probability():
    """With one step from zero the model is Pois(E[x_0]), and the bound is exact for it."""
    oracle = MeanOracle(EmpiricalOracle(Exact(1), Cosine(), d([0], [5]), d(0.4, 0.6)))
    x = grid(8)[:, None]
    torch.testing.assert_close(score(Exact(1), oracle, x, 1), Poisson(d(3.0)).log_prob(x[:, 0]))


def test_probability_of_a_count_is_the_integral_of_the_relative_entropy():
    """−ln P(x) = ∫ E D_φ(x, f(z_γ, γ)) dγ over γ from 0 to ∞, z_γ ~ Pois(γ x) (Guo, Shamai and Verdú 2008)."""
    values, weights = d(0, 1, 3), d(0.5, 0.3, 0.2)
    largest = 60.0
    oracle = EmpiricalOracle(Randomised(d(largest)), Cosine(), values[:, None], weights)
    gamma = torch.linspace(0, 1, 301, dtype=torch.float64) ** 3 * largest
    z = grid(260)[:, None]
    posterior_mean = torch.stack([oracle.belief(z, (g / largest).expand(260, 1)).data.mean[:, 0] for g in gamma])
    for x, weight in zip(values, weights, strict=True):
        chances = Poisson((gamma * x)[:, None]).log_prob(z[:, 0]).exp()
        integrand = (chances * relative_entropy(x.expand_as(posterior_mean), posterior_mean)).sum(1)
        assert float(torch.trapezoid(integrand, gamma)) == pytest.approx(-math.log(weight), rel=2e-3)
