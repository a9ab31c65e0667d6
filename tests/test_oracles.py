"""Oracles against Bayes' rule, written out."""

import pytest
import torch
from goodness import grid
from torch import Tensor

from countjump.laws import Binomial, Poisson
from countjump.oracles import DirichletOracle, EmpiricalOracle, GammaOracle, MeanOracle
from countjump.processes import Exact, Randomised, Units
from countjump.schedules import Cosine


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


T = 0.4
ALPHA = float(Cosine().alpha(d(T)))


def at(oracle, z: Tensor):
    return oracle(z, d(0.9, T), torch.ones(len(z), dtype=torch.long))


def test_gamma_oracle_is_bayes():
    lam, shape, mean = 3.0, 1.5, 2.0
    x = torch.linspace(1e-4, 40, 400_001, dtype=torch.float64)
    prior = torch.distributions.Gamma(d(shape), d(shape / mean)).log_prob(x)
    for z in (0.0, 2.0, 9.0):
        belief = at(GammaOracle(Cosine(), d(lam), d(shape), d(mean)), d([z]))
        joint = (prior + Poisson(lam * ALPHA * x).log_prob(d(z))).exp()
        posterior = joint / torch.trapezoid(joint, x)
        inside = slice(1000, None, 5000)
        density = belief.data.rows(torch.zeros(len(x[inside]), dtype=torch.long)).log_prob(x[inside, None]).exp()
        torch.testing.assert_close(density, posterior[inside], rtol=1e-4, atol=1e-8)
        for n in (0.0, 1.0, 5.0):
            mixed = torch.trapezoid(posterior * Poisson(lam * (1 - ALPHA) * x).log_prob(d(n)).exp(), x)
            assert float(belief.missing.log_prob(d([n])).exp()) == pytest.approx(float(mixed), rel=1e-4)


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
    for encoding in (Exact(2), Randomised(d(2.0, 1.0))):
        belief = at(EmpiricalOracle(encoding, Cosine(), rows, weights), d([1, 0]))
        if isinstance(encoding, Exact):
            likelihood = Binomial(rows, d(ALPHA)).log_prob(d(1, 0)).sum(1).exp()
        else:
            likelihood = Poisson(encoding.lam * ALPHA * rows).log_prob(d(1, 0)).sum(1).exp()
        posterior = weights * likelihood / (weights * likelihood).sum()
        missing = rows - d(1, 0) if isinstance(encoding, Exact) else encoding.lam * (1 - ALPHA) * rows
        torch.testing.assert_close(belief.missing.mean[0], (posterior[:, None] * missing.clamp(min=0)).sum(0))
        if isinstance(encoding, Exact):
            assert belief.data is None
            assert posterior[0] == 0
            masses = belief.missing.rows(torch.zeros(3, dtype=torch.long)).log_prob(missing.clamp(min=0)).exp()
            torch.testing.assert_close(masses[1:], posterior[1:])
        else:
            of_rows = belief.data.rows(torch.zeros(3, dtype=torch.long)).log_prob(rows).exp()
            torch.testing.assert_close(of_rows, posterior)
            torch.testing.assert_close(belief.data.mean[0], posterior @ rows)


def test_columns_apart_keep_the_marginals_and_lose_the_dependence():
    rows = d([0, 4], [4, 0])
    z = torch.zeros(1, 2, dtype=torch.float64)
    joint, apart = (at(EmpiricalOracle(Exact(2), Cosine(), rows, joint=joint), z).missing for joint in (True, False))
    support = grid(5, 5)
    masses = [
        law.rows(torch.zeros(25, dtype=torch.long)).log_prob(support).exp().reshape(5, 5) for law in (joint, apart)
    ]
    for axis in (0, 1):
        torch.testing.assert_close(masses[0].sum(axis), masses[1].sum(axis))
    torch.testing.assert_close(masses[1], masses[0].sum(1)[:, None] * masses[0].sum(0))
    assert masses[0][4, 4] == 0 < masses[1][4, 4]


def test_one_whole_per_row_has_no_columns_apart():
    rows = d([0.5, 0.5, 0.0], [0.0, 0.1, 0.9])
    z = d([1, 1, 0])[None]
    encoding = Units(d(4), 3)
    means = [at(EmpiricalOracle(encoding, Cosine(), rows, joint=joint), z).missing.mean for joint in (True, False)]
    torch.testing.assert_close(*means)
    torch.testing.assert_close(means[0], d([[1, 1, 0]]))  # only the first row has a first part


def test_equal_rows_are_merged_with_their_weights():
    twice = EmpiricalOracle(Exact(1), Cosine(), d([2], [5], [2]))
    once = EmpiricalOracle(Exact(1), Cosine(), d([2], [5]), d(2, 1))
    assert len(twice.points) == 2
    torch.testing.assert_close(twice.log_weights, once.log_weights)


def test_a_state_that_no_row_leads_to_is_believed_to_come_from_any():
    belief = at(EmpiricalOracle(Exact(2), Cosine(), d([0, 4], [4, 0]), joint=False), d([1, 1]))
    torch.testing.assert_close(belief.missing.mean, d([1.5, 1.5]))


def test_mean_oracle_keeps_the_mean_only():
    oracle = EmpiricalOracle(Randomised(d(2.0, 3.0)), Cosine(), d([0, 4], [4, 0]))
    z = d([0, 0], [1, 0])
    belief = at(MeanOracle(oracle), z)
    assert isinstance(belief.missing.entries, Poisson)
    assert belief.data is None
    torch.testing.assert_close(belief.missing.mean, at(oracle, z).missing.mean)


def test_variance_of_the_posterior_is_in_its_means():
    """Var(x_j given z) = f_j(z) · (f_j(z + e_j) − f_j(z)), f with the signal of one more unit, for the Poisson channel."""
    rows = d([0.3], [1.0], [4.0])
    oracle = EmpiricalOracle(Randomised(d(2.0)), Cosine(), rows, d(0.5, 0.3, 0.2))
    z = grid(12)[:, None]
    data = at(oracle, z).data
    means = data.mean[:, 0]
    second = (data.logits.softmax(-1) * rows[:, 0] ** 2).sum(-1)
    torch.testing.assert_close(second[:-1] - means[:-1] ** 2, means[:-1] * (means[1:] - means[:-1]))
