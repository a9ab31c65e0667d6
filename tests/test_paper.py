"""Chen and Zhou, "Learning to Jump" (ICML 2023): one test per theorem, lemma, algorithm and numbered equation.

The numbers are those that LaTeX gives: 1 to 12 in section 2, 13 to 26 in appendix C. What the paper states without a number is
named by its place.
"""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from goodness import LEVEL, generator, grid, pearson
from torch import Tensor

from countjump.blocks import Belief, PoissonBlock
from countjump.divergences import relative_entropy
from countjump.domains import Binary, Count, NonNegative, OneHot, Simplex
from countjump.laws import Binomial, Gamma, NegativeBinomial, Poisson, Product, Shifted, Streams, Zero
from countjump.oracles import GammaOracle, MeanOracle
from countjump.processes import Jump
from countjump.sampling import sample_rows
from countjump.schedules import Cosine, LinearBeta

LAM = 4.0
X = 1.7
COUNTS = grid(60)
SCHEDULE = LinearBeta.solve(scale=LAM * X, timesteps=100)
"""The paper's, with which t = k/100 is its step k."""


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def alpha(t: float) -> Tensor:
    return SCHEDULE.alpha(d(t))


def poisson_jump(objective: str = "reweighted", decode: str = "latent") -> Jump:
    return Jump(PoissonBlock(NonNegative(), d(1.0), d(1.0), d(LAM), decode), SCHEDULE, objective=objective)


def binomial_jump(objective: str = "reweighted") -> Jump:
    return Jump(PoissonBlock(Count(), d(1.0), d(1.0)), SCHEDULE, objective=objective)


def times(t: float, rows: int) -> Tensor:
    return torch.full((rows, 1), t, dtype=torch.float64)


def masses(law: object, support: Tensor = COUNTS) -> Tensor:
    """The masses of a law of one column over a support."""
    return law[torch.zeros(len(support), dtype=torch.long)].log_prob(support[:, None]).exp()


def says(rate: Tensor) -> Belief:
    return Belief(Product(Poisson(rate)))


# Section 2.1: Poisson-based randomisation.


def test_section_2_1_noise_to_signal_ratio_of_the_randomisation():
    x = d(0.1, 1.0, 50.0)
    for lam in (1.0, 10.0, 100.0):
        law = Poisson(lam * x)
        drawn = law[torch.arange(3)[:, None].expand(3, 4000).flatten()].sample(generator()).reshape(3, 4000)
        torch.testing.assert_close(drawn.std(1) / law.mean, 1 / (lam * x).sqrt(), rtol=0.07, atol=0)


def test_section_2_1_randomised_data_is_normal_for_large_lambda():
    lam = 1e6
    drawn = Poisson(d(lam * X))[torch.zeros(4000, dtype=torch.long)].sample(generator()) / lam
    assert scipy.stats.kstest(drawn, "norm", (X, math.sqrt(X / lam))).pvalue > LEVEL


def test_section_2_1_randomised_data_returns_to_the_data_for_large_lambda():
    errors = [float((Poisson(d(lam * X)).sample(generator()) / lam - X).abs()) for lam in (1e2, 1e6, 1e10)]
    assert errors[2] < 1e-4 < 1 / math.sqrt(1e2)
    assert errors[1] < 1e-2


def kolmogorov(lam: float, shape: float = 2.0, mean: float = 3.0) -> float:
    """The largest distance between the distribution functions of z_0/λ and x_0 ~ Gamma; z_0 is then negative binomial."""
    z = torch.arange(int(40 * mean * lam), dtype=torch.float64)
    randomised = NegativeBinomial(d(shape), d(lam * mean)).log_prob(z).exp().cumsum(0)
    data = scipy.stats.gamma.cdf((z + 0.5) / lam, shape, scale=mean / shape)
    return float(np.abs(randomised.numpy() - data).max())


def test_theorem_1_poisson_randomisation_converges():
    distances = [kolmogorov(lam) for lam in (1.0, 10.0, 100.0, 1000.0)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-3


def test_equation_1_moment_generating_function_of_the_randomised_data():
    for t in (-1.0, 0.3, 0.9):
        series = (masses(Product(Poisson(d([LAM * X])))) * (t * COUNTS / LAM).exp()).sum()
        closed = math.exp(LAM * X * math.expm1(t / LAM))
        assert float(series) == pytest.approx(closed, rel=1e-9)
        limit = [abs(lam * math.expm1(t / lam) - t) for lam in (1.0, 10.0, 100.0)]
        assert limit[2] < 0.01 * abs(limit[0]) + 1e-2
        assert limit == sorted(limit, reverse=True)


def test_section_2_1_domains_are_the_map_g():
    y = d([0.0, 0.6, 2.4])
    assert torch.equal(NonNegative().project(y), y)
    assert torch.equal(Count().project(y), d([0, 1, 2]))
    assert torch.equal(Binary().project(y), d([0, 1, 1]))
    assert torch.equal(OneHot().project(y), d([0, 0, 1]))
    torch.testing.assert_close(Simplex().project(y), y / 3)


def test_section_2_1_signal_to_noise_ratio_is_lambda_times_the_mean():
    x = Gamma(d(2.0), d(0.5))[torch.zeros(50_000, dtype=torch.long)].sample(generator())
    for lam, expected in ((10.0, 5.0), (100.0, 50.0)):
        law = Poisson(lam * x)
        variance = law.mean  # of a Poisson
        assert float((law.mean**2 / variance).mean()) == pytest.approx(expected, rel=0.02)
    drawn = Poisson(d(10 * X))[torch.zeros(20_000, dtype=torch.long)].sample(generator())
    assert float(drawn.mean() ** 2 / drawn.var()) == pytest.approx(10 * X, rel=0.05)


# Section 2.2: thinning is reversed by a shifted Poisson.


def test_section_2_2_a_thinned_poisson_is_poisson():
    x, y = COUNTS[:, None], COUNTS[None]
    for pi in (0.0, 0.3, 1.0):
        thinned = torch.logsumexp(Binomial(x, d(pi)).log_prob(y) + Poisson(d(LAM)).log_prob(x), 0)
        torch.testing.assert_close(
            thinned.exp(), Poisson(d(LAM)).thin(pi).log_prob(COUNTS).exp(), rtol=1e-9, atol=1e-15
        )


def test_section_2_2_shifted_poisson_mass():
    law = Shifted(d(3), Poisson(d(2.0)))
    for k in (3, 4, 9):
        assert float(law.log_prob(d(k)).exp()) == pytest.approx(2.0 ** (k - 3) * math.exp(-2) / math.factorial(k - 3))
    assert law.log_prob(d(2)).item() == -torch.inf


def test_lemma_1_thinning_reverses():
    """Equation 2: Binomial(y; x, π) Pois(x; λ) = Pois_y(x; (1 − π) λ) Pois(y; π λ)."""
    x, y = COUNTS[:, None], COUNTS[None]
    for lam, pi in ((4.0, 0.3), (0.1, 0.9), (20.0, 0.01)):
        forward = Binomial(x, d(pi)).log_prob(y) + Poisson(d(lam)).log_prob(x)
        reverse = Shifted(y, Poisson(d((1 - pi) * lam))).log_prob(x) + Poisson(d(pi * lam)).log_prob(y)
        torch.testing.assert_close(forward, reverse, rtol=1e-9, atol=1e-9)


# Section 2.3: the encoder.


def test_equation_3_steps_of_thinning_make_one_thinning():
    """Also q(z_t given z_0) = Binomial(z_t; z_0, α_t), where the paper slips and writes x_0 for z_0."""
    z_0 = 12.0
    state = torch.nn.functional.one_hot(torch.tensor(12), 13).double()
    support = grid(13)
    for before, after in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8)):
        ratio = alpha(after) / alpha(before)
        state = (state[:, None] * Binomial(support[:, None], ratio).log_prob(support[None]).exp()).sum(0)
        torch.testing.assert_close(state, Binomial(d(z_0), alpha(after)).log_prob(support).exp(), rtol=1e-9, atol=1e-12)


def test_section_2_3_coefficients_fall_from_one_and_zero_absorbs():
    coefficients = SCHEDULE.alpha(torch.linspace(0, 1, 101, dtype=torch.float64))
    assert coefficients[0] == 1
    assert (coefficients.diff() < 0).all()
    assert coefficients[-1] == 0
    assert masses(Product(Binomial(d([12]), alpha(1.0))))[0] == 1


def test_equation_4_marginal_is_poisson():
    for t in (0.0, 0.3, 0.9, 1.0):
        expected = scipy.stats.poisson.pmf(COUNTS, LAM * float(alpha(t)) * X)
        np.testing.assert_allclose(
            masses(poisson_jump().marginal(d([X]), times(t, 1))), expected, rtol=1e-9, atol=1e-15
        )
    drawn = poisson_jump().marginal(torch.full((5000, 1), X, dtype=torch.float64), times(0.3, 5000)).sample(generator())
    assert pearson(drawn, COUNTS[:, None], Poisson(LAM * alpha(0.3) * X).log_prob(COUNTS)) > LEVEL


def test_equation_5_shifted_poisson_posterior_is_bayes():
    for s, t in ((0.0, 0.01), (0.2, 0.5), (0.5, 1.0)):
        prior = Poisson(LAM * alpha(s) * X).log_prob(COUNTS)
        for z in (0, 1, 7) if t < 1 else (0,):
            bayes = (prior + Binomial(COUNTS, alpha(t) / alpha(s)).log_prob(d(z))).softmax(0)
            posterior = masses(poisson_jump().posterior(d([z]), d([X]), times(s, 1), times(t, 1)))
            torch.testing.assert_close(posterior, bayes, rtol=1e-8, atol=1e-12)
            shifted = scipy.stats.poisson.pmf(COUNTS - z, LAM * float(alpha(s) - alpha(t)) * X)
            np.testing.assert_allclose(posterior, shifted, rtol=1e-8, atol=1e-12)


# Section 2.4: the decoder.


def test_equation_6_decoder_jumps_by_the_posterior_at_the_prediction():
    f, s, t, z = 2.3, 0.4, 0.6, 3.0
    prediction = says(torch.full((6000, 1), float(LAM * (1 - alpha(t)) * f), dtype=torch.float64))
    z_t = torch.full((6000, 1), z, dtype=torch.float64)
    drawn = poisson_jump().reverse(z_t, prediction, times(s, 6000), times(t, 6000)).sample(generator())
    support = COUNTS[3:, None]
    by_the_paper = Shifted(d(z), Poisson(LAM * (alpha(s) - alpha(t)) * f)).log_prob(support[:, 0])
    assert pearson(drawn, support, by_the_paper) > LEVEL
    of_the_posterior = masses(poisson_jump().posterior(d([z]), d([f]), times(s, 1), times(t, 1)), support[:, 0])
    torch.testing.assert_close(by_the_paper.exp(), of_the_posterior, rtol=1e-9, atol=1e-12)


# Section 2.5: variational inference.


def chain_of_two() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """ln q(z_1, z_0 given x_0), ln p(z_1, z_0) of a decoder whose f is the posterior mean, and L_1, L_0 by equation 8."""
    middle = alpha(0.4)
    prior = PoissonBlock(NonNegative(), mean=d(1.0), shape=d(2.0), lam=d(LAM))
    f_1, f_0 = prior.posterior_mean(d([0]), alpha(1.0)), prior.posterior_mean(COUNTS[:, None], middle)
    z_1, z_0 = COUNTS[:, None], COUNTS[None]
    q_1 = Poisson(LAM * middle * X).log_prob(z_1)
    q = q_1 + Shifted(z_1, Poisson(LAM * (1 - middle) * X)).log_prob(z_0)
    p = Poisson(LAM * middle * f_1).log_prob(z_1) + Shifted(z_1, Poisson(LAM * (1 - middle) * f_0)).log_prob(z_0)
    l_1 = LAM * middle * relative_entropy(d(X), f_1[0])
    l_0 = (q_1[:, 0].exp() * LAM * (1 - middle) * relative_entropy(d(X), f_0[:, 0])).sum()
    return q, p, l_1.squeeze(), l_0


def divergence(log_q: Tensor, log_p: Tensor) -> Tensor:
    return torch.where(log_q > -torch.inf, log_q.exp() * (log_q - log_p), 0.0).sum()


def test_equation_7_negative_elbo_is_the_sum_of_its_terms_and_a_bound():
    q, p, l_1, l_0 = chain_of_two()
    torch.testing.assert_close(divergence(q, p), l_1 + l_0, rtol=1e-9, atol=0)
    of_z_0 = divergence(q.logsumexp(0), p.logsumexp(0))
    assert 0 < of_z_0 < l_1 + l_0


def test_equation_8_is_the_mean_divergence_of_posterior_and_decoder():
    s, t, f = 0.2, 0.5, 2.3
    mean_divergence = torch.zeros(())
    for z in range(40):
        posterior = Poisson(LAM * (alpha(s) - alpha(t)) * X).log_prob(COUNTS)  # of the jump, at any z_t
        decoder = Poisson(LAM * (alpha(s) - alpha(t)) * (f + z)).log_prob(COUNTS)
        mean_divergence = mean_divergence + Poisson(LAM * alpha(t) * X).log_prob(d(z)).exp() * divergence(
            posterior, decoder
        )
    weight = Poisson(LAM * alpha(t) * X).log_prob(grid(40)).exp()
    closed = (weight * LAM * (alpha(s) - alpha(t)) * relative_entropy(d(X), f + grid(40))).sum()
    torch.testing.assert_close(mean_divergence.squeeze(), closed, rtol=1e-8, atol=0)


def test_equation_9_is_least_for_the_posterior_of_x_and_the_map_g_comes_near_it():
    """L₋₁ = −E ln p(x_0 given z_0) is minimised by q(x_0 given z_0), which z_0/λ stands in for when λ is large."""
    rows = 20_000
    x = Gamma(d(2.0), d(3.0))[torch.zeros(rows, dtype=torch.long)].sample(generator())[:, None]
    z = Poisson(LAM * x).sample(generator(1))
    data = GammaOracle(SCHEDULE, d(LAM), d(2.0), d(3.0))(z, torch.zeros(1)).data
    exact = -data.log_prob(x).mean()
    for shape, mean in ((1.3, 1.0), (0.7, 1.0), (1.0, 1.1), (1.0, 0.9)):
        other = Product(Gamma(data.entries.shape * shape, data.entries.scale_mean * mean))
        assert -other.log_prob(x).mean() > exact
    for lam in (1e2, 1e6):
        z = d([lam * X]).round()
        belief = GammaOracle(SCHEDULE, d(lam), d(2.0), d(3.0))(z, torch.zeros(1)).data
        assert float((belief.mean - z / lam).abs()) < 2 / lam
        assert float(belief.mean / belief.entries.shape.sqrt()) < 2 / math.sqrt(lam)  # its standard deviation


def test_equation_10_last_term_vanishes_only_because_alpha_ends_at_zero():
    z_0, end = d(12), Zero(d(0))
    at_the_end = Binomial(z_0, alpha(1.0)).log_prob(COUNTS)
    assert divergence(at_the_end, end.log_prob(COUNTS)) == 0
    # The paper's own α_T > 0 leaves mass above zero, where the point mass at zero has none: L_T is infinite, not about 0.
    before_the_end = Binomial(z_0, SCHEDULE.interior(d(1.0))).log_prob(COUNTS)
    assert divergence(before_the_end, end.log_prob(COUNTS)) == torch.inf
    assert before_the_end[0].exp() > 1 - 1e-4


def test_section_2_5_kl_closed_form_matches_monte_carlo():
    s, t, f, z = 0.2, 0.5, 2.3, 4.0
    posterior = Shifted(d(z), Poisson(LAM * (alpha(s) - alpha(t)) * X))
    decoder = Shifted(d(z), Poisson(LAM * (alpha(s) - alpha(t)) * f))
    drawn = posterior[torch.zeros(50_000, dtype=torch.long)].sample(generator())
    terms = posterior.log_prob(drawn) - decoder.log_prob(drawn)
    closed = float(LAM * (alpha(s) - alpha(t)) * relative_entropy(d(X), d(f)))
    assert abs(float(terms.mean()) - closed) < 4 * float(terms.std()) / math.sqrt(len(terms))
    exact = divergence(posterior.log_prob(COUNTS), decoder.log_prob(COUNTS))
    assert float(exact) == pytest.approx(closed, rel=1e-9)


def test_equation_11_relative_entropy_is_the_bregman_divergence_of_x_ln_x():
    p, q = torch.meshgrid(d(0.1, 1.0, 7.0), d(0.2, 1.0, 30.0), indexing="ij")
    q = q.clone().requires_grad_()
    phi = (q * q.log()).sum()
    (slope,) = torch.autograd.grad(phi, q)
    bregman = p * p.log() - q * q.log() - (p - q) * slope
    torch.testing.assert_close(relative_entropy(p, q), bregman)
    assert (relative_entropy(p, q) >= 0).all()


def test_equation_12_is_the_reweighted_objective():
    x, z, f = d([X], [0.4]), d([2], [0]), d([2.3], [0.1])
    t = times(0.5, 2)
    prediction = says(LAM * (1 - alpha(0.5)) * f)
    loss = poisson_jump("reweighted").loss(x, z, t, prediction, generator())
    torch.testing.assert_close(loss, relative_entropy(x, f).squeeze(1))
    assert (loss >= 0).all()
    weight = LAM * (alpha(0.49) - alpha(0.5))
    elbo = poisson_jump("elbo").loss(x, z, t, prediction, generator())
    torch.testing.assert_close(elbo, weight * relative_entropy(x, f).squeeze(1))


def test_section_2_5_loss_is_minimised_by_the_posterior_mean():
    """A Bregman divergence is least, on average over its first argument, at the mean."""
    x, weight = d(0.2, 1.0, 6.0), d(0.5, 0.3, 0.2)
    for z, t in ((0, 0.6), (3, 0.6), (9, 0.1)):
        posterior = (weight.log() + Poisson(LAM * alpha(t) * x).log_prob(d(z))).softmax(0)
        mean = (posterior * x).sum()
        losses = [(posterior * relative_entropy(x, mean * by)).sum() for by in (0.9, 0.999, 1.0, 1.001, 1.1)]
        assert min(losses) == losses[2]


def test_section_2_5_gradient_of_the_loss():
    f = d(0.3, 2.0, 50.0).requires_grad_()
    x = d(0.0, X, 3.0)
    (gradient,) = torch.autograd.grad(relative_entropy(x, f).sum(), f)
    (by_the_paper,) = torch.autograd.grad((f - x * f.log()).sum(), f)
    torch.testing.assert_close(gradient, by_the_paper)


def test_section_2_5_continuous_time_is_the_limit_of_the_steps():
    """The sum over steps, each with its width, tends to the integral; here of E D_φ(x_0, f) with f the posterior mean."""
    prior = PoissonBlock(NonNegative(), mean=d(1.0), shape=d(2.0), lam=d(LAM))

    def mean_loss(t: Tensor) -> Tensor:
        a = Cosine().alpha(t)[:, None]
        weight = Poisson(LAM * a * X).log_prob(COUNTS).exp()
        return (weight * relative_entropy(d(X), prior.posterior_mean(COUNTS, a))).sum(1)

    fine = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    integral = torch.trapezoid(mean_loss(fine), fine)
    errors = [abs(float(mean_loss(torch.arange(1, n + 1) / n).mean() - integral)) for n in (10, 100, 1000)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3


def test_algorithm_1_training_finds_the_posterior_mean():
    """Stochastic gradients of D_φ(x_0, f(z_t, t)) at two times teach a table of f's the conjugate posterior mean."""
    process, draw = poisson_jump("reweighted"), generator()
    two = d(SCHEDULE.time(0.8), SCHEDULE.time(0.3))
    prior = PoissonBlock(NonNegative(), mean=d(1.5), shape=d(2.0), lam=d(LAM))
    table = torch.zeros(2, 12, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([table], lr=0.1)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 300)
    for _ in range(300):
        x = Gamma(d(2.0), d(1.5))[torch.zeros(1000, dtype=torch.long)].sample(draw)[:, None]
        step = torch.randint(2, (1000,), generator=draw)
        t = two[step][:, None]
        z = process.marginal(x, t).sample(draw)
        f = table.exp()[step, z[:, 0].long().clamp(max=11)][:, None]
        loss = process.loss(x, z, t, says(LAM * (1 - SCHEDULE.alpha(t)) * f), draw).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
    often = grid(6)
    for step in (0, 1):
        expected = prior.posterior_mean(often, alpha(float(two[step])))
        torch.testing.assert_close(table[step, :6].exp().detach(), expected, rtol=0.06, atol=0)


@pytest.mark.parametrize("steps", [1, 3, 30])
def test_algorithm_2_sampling_adds_poisson_jumps_to_zero(steps: int):
    """With f constant the jumps add up to Pois(λ f), whatever the steps; x_0 is then g(z_0/λ) or g of the last f."""

    def denoise(z: Tensor, t: Tensor, condition: Tensor | None = None) -> Belief:
        return says((LAM * (1 - SCHEDULE.alpha(t)) * X)[:, None].expand(len(z), 1))

    rows = sample_rows(poisson_jump(), denoise, SCHEDULE.grid(steps), Streams([generator(steps)], 6000))
    assert pearson(rows * LAM, COUNTS[:, None], Poisson(d(LAM * X)).log_prob(COUNTS)) > LEVEL
    means = sample_rows(poisson_jump(decode="mean"), denoise, SCHEDULE.grid(steps), Streams([generator()], 10))
    torch.testing.assert_close(means, torch.full((10, 1), X, dtype=torch.float64))


def test_the_poisson_block_is_the_papers_decoder():
    """The belief thinned from t to s is Pois(λ (α_s − α_t) f), and f is what ``decode="mean"`` returns."""
    mean, shape, lam = d(1.0, 3.0), d(2.0, 0.5), d(LAM, LAM)
    z, t, s = d([2, 0], [0, 9]), times(0.6, 2), times(0.4, 2)
    block = PoissonBlock(NonNegative(), mean, shape, lam)
    belief = block.belief(torch.zeros(2, 2), z, SCHEDULE.alpha(t))
    f = block.expectation(z, belief, SCHEDULE.alpha(t))
    posterior = GammaOracle(SCHEDULE, lam, shape, mean).belief(z, SCHEDULE.alpha(t)).data.mean
    torch.testing.assert_close(f, posterior)
    torch.testing.assert_close(f, block.posterior_mean(z, SCHEDULE.alpha(t)))
    jump = belief.missing.thin(SCHEDULE.reveal(s, t)).mean
    torch.testing.assert_close(jump, LAM * (alpha(0.4) - alpha(0.6)) * f)


# Appendix A: the schedule.


@pytest.mark.parametrize("timesteps", [100, 1000])
def test_appendix_a_beta_linear_schedule(timesteps: int):
    schedule = LinearBeta.solve(scale=10.0, timesteps=timesteps)
    assert schedule.beta_first == 0.001
    beta = np.linspace(schedule.beta_first, schedule.beta_last, timesteps)
    discrete = np.sqrt(np.cumprod(1 - beta))
    k = torch.arange(1, timesteps, dtype=torch.float64)
    np.testing.assert_allclose(schedule.alpha(k / timesteps), discrete[:-1], rtol=1e-10)
    assert math.log(10.0 * discrete[-1]) == pytest.approx(-12, abs=1e-6)
    assert float(schedule.interior(d(1.0))) == pytest.approx(discrete[-1], rel=1e-10)
    assert schedule.alpha(d(1.0)) == 0


@pytest.mark.parametrize(
    ("scale", "timesteps", "remedy"),
    [(1e6, 2, "more timesteps"), (1e-9, 1000, "raise lam")],
    ids=["few steps", "no signal"],
)
def test_appendix_a_schedule_without_a_solution_is_an_error_that_says_what_to_do(scale, timesteps, remedy):
    with pytest.raises(ValueError, match=f"log-SNR of -12.*{remedy}"):
        LinearBeta.solve(scale=scale, timesteps=timesteps, beta_first=0.5 if scale < 1 else 0.001)


# Appendix C: binomial JUMP.


def test_equation_13_and_14_forward_process_has_a_binomial_marginal():
    x = 9.0
    support = grid(10)
    state = torch.nn.functional.one_hot(torch.tensor(9), 10).double()
    for before, after in ((0.0, 0.1), (0.1, 0.6), (0.6, 0.61)):
        state = (state[:, None] * Binomial(support[:, None], alpha(after) / alpha(before)).log_prob(support).exp()).sum(
            0
        )
        marginal = masses(binomial_jump().marginal(d([x]), times(after, 1)), support)
        torch.testing.assert_close(state, marginal, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            marginal, scipy.stats.binom.pmf(support, x, float(alpha(after))), rtol=1e-8, atol=1e-12
        )


def factorial(n: Tensor) -> Tensor:
    return torch.lgamma(n + 1).exp()


@pytest.mark.parametrize("equation", [15, 16, 17, 18, 19])
def test_equations_15_to_19_shifted_binomial_posterior_is_bayes(equation: int):
    x, z, s, t = 9.0, 2.0, 0.3, 0.6
    a, b = alpha(s), alpha(t)
    m = torch.arange(z, x + 1, dtype=torch.float64)
    p = (a - b) / (1 - b)
    lines = {
        15: Binomial(d(x), a).log_prob(m).exp() * Binomial(m, b / a).log_prob(d(z)).exp(),
        16: factorial(d(x)) / factorial(m) / factorial(x - m) * a**m * (1 - a) ** (x - m)
        * factorial(m) / factorial(d(z)) / factorial(m - z) * (b / a) ** z * (1 - b / a) ** (m - z),
        17: 1 / factorial(x - m) / factorial(m - z) * ((a - b) / (1 - a)) ** m,
        18: factorial(d(x - z)) / factorial(x - m) / factorial(m - z) * p ** (m - z) * (1 - p) ** (x - m),
        19: Binomial(d(x - z), p).log_prob(m - z).exp(),
    }  # fmt: skip
    posterior = masses(binomial_jump().posterior(d([z]), d([x]), times(s, 1), times(t, 1)), m)
    torch.testing.assert_close(lines[equation] / lines[equation].sum(), posterior, rtol=1e-9, atol=1e-12)
    if equation == 19:
        torch.testing.assert_close(lines[equation], posterior, rtol=1e-9, atol=1e-12)


def test_equation_20_posterior_is_a_shifted_binomial():
    s, t = times(0.3, 6000), times(0.6, 6000)
    x, z = torch.full((6000, 1), 9.0, dtype=torch.float64), torch.full((6000, 1), 2.0, dtype=torch.float64)
    p = SCHEDULE.reveal(s[:1], t[:1])
    torch.testing.assert_close(p.squeeze(), (alpha(0.3) - alpha(0.6)).squeeze() / (1 - alpha(0.6)).squeeze())
    drawn = binomial_jump().posterior(z, x, s, t).sample(generator())
    assert pearson(drawn, grid(10)[:, None], Shifted(d(2), Binomial(d(7), p[0])).log_prob(grid(10))) > LEVEL


@pytest.mark.parametrize("f", [9.3, 1.0])
def test_equations_21_and_22_binomials_of_a_poisson_number_are_poisson(f: float):
    z, p = 2.0, 0.37
    rate = max(f - z, 0.0)
    n, jump = COUNTS[:, None], COUNTS[None]
    mixed = torch.logsumexp(Binomial(n, d(p)).log_prob(jump) + Poisson(d(rate)).log_prob(n), 0)
    shifted = Shifted(d(z), Poisson(d(rate)).thin(p)).log_prob(z + COUNTS)
    torch.testing.assert_close(mixed.exp(), shifted.exp(), rtol=1e-9, atol=1e-14)


def test_appendix_c_poisson_approximation_has_the_right_mean_and_too_large_variance():
    """Pois(p (x_0 − z_t)) has the mean of Binomial(x_0 − z_t, p), and 1/(1 − p) times its variance.

    At the last step p = 1: the binomial is certain and the Poisson is not.
    """
    n = 30.0
    for p in (0.01, 0.3, 0.9):
        binomial, poisson = Binomial(d(n), d(p)), Poisson(d(n * p))
        assert float(binomial.mean) == pytest.approx(float(poisson.mean))
        variances = [
            float((law.log_prob(COUNTS).exp() * (COUNTS - law.mean) ** 2).sum()) for law in (poisson, binomial)
        ]
        assert variances[0] / variances[1] == pytest.approx(1 / (1 - p), rel=1e-4)
    s, t = times(0.0, 1), times(0.01, 1)
    assert SCHEDULE.reveal(s, t) == 1
    assert float(Poisson(d(7)).log_prob(d(7)).exp()) == pytest.approx(0.149, abs=1e-3)  # of a column that is always 7


def test_equation_23_terms_add_up_to_the_divergence_of_the_chains_up_to_a_constant():
    """With q the exact binomial posterior, L is the sum of the paper's terms plus KL(Binomial ‖ Poisson of its mean), which
    is free of f: the paper's approximate ELBO has the exact one's minimiser, and is less by that."""
    x, middle = 6.0, alpha(0.4)
    z_1, z_0 = grid(7), x
    q_1 = Binomial(d(x), middle).log_prob(z_1)
    exact, paper = [], []
    for f_2, f_1 in ((5.0, 6.5), (7.0, 8.0)):
        left = (f_1 - z_1).clamp(min=1e-9)
        l_0 = -(q_1.exp() * Poisson(left).log_prob(z_0 - z_1)).sum()
        log_p = Poisson(middle * f_2).log_prob(z_1) + Poisson(left).log_prob(z_0 - z_1)
        exact.append(float((q_1.exp() * (q_1 - log_p)).sum()))
        paper.append(float(l_0 + middle * relative_entropy(d(x), d(f_2))))
    constant = float(divergence(q_1, Poisson(middle * x).log_prob(z_1)))
    assert exact == pytest.approx([each + constant for each in paper], rel=1e-9)


def test_equation_24_first_term_is_the_score_of_the_missing_count():
    """At the last step the whole missing count comes back: −ln p(x_0 given z_1) = −ln Pois(x_0 − z_1; f − z_1)."""
    z, x, f, t = 2.0, 7.0, 6.2, times(0.01, 1)
    belief = says(d([f - z]))
    kept = SCHEDULE.reveal(times(0.0, 1), t)
    last_step = Shifted(d([z]), belief.missing.thin(kept)).log_prob(d([x]))
    assert float(last_step) == pytest.approx(scipy.stats.poisson.logpmf(x - z, f - z))


def test_equation_25_is_the_divergence_up_to_a_constant():
    """KL(Binomial(n, p) ‖ Pois(p m)) = D_φ(p n, p m) + KL(Binomial(n, p) ‖ Pois(p n)), the last free of the prediction m."""
    n, p = 9.0, 0.4
    posterior = Binomial(d(n), d(p)).log_prob(COUNTS)
    constant = divergence(posterior, Poisson(d(n * p)).log_prob(COUNTS))
    for m in (3.0, 9.0, 20.0):
        exact = divergence(posterior, Poisson(d(m * p)).log_prob(COUNTS))
        torch.testing.assert_close(exact - constant, relative_entropy(d(n * p), d(m * p))[0], rtol=1e-9, atol=1e-9)
    x, z, f = d([9]), d([2]), d([6.2])
    t = times(0.5, 1)
    elbo = binomial_jump("elbo").loss(x, z, t, says(f - z), generator())
    weight = (alpha(0.49) - alpha(0.5)) / (1 - alpha(0.5))
    torch.testing.assert_close(elbo, weight * relative_entropy(x - z, f - z).squeeze(1))


def test_equation_26_last_term_vanishes():
    end = binomial_jump().marginal(d([9]), times(1.0, 1))
    start = binomial_jump().prior(1, Streams([generator()], 1), "cpu")
    assert float(end.log_prob(start)) == 0


def test_appendix_c_reweighted_loss_of_binomial_jump():
    x, z, f = d([9], [2]), d([2], [2]), d([6.2], [2.5])
    loss = binomial_jump("reweighted").loss(x, z, times(0.5, 2), says(f - z), generator())
    missing, predicted = (x - z)[0], (f - z)[0]
    by_the_paper = missing * (missing / predicted).log() - (missing - predicted)
    assert loss.tolist() == pytest.approx([float(by_the_paper), 0.5])


def test_section_2_5_the_perfect_decoder_keeps_the_mean_and_loses_the_spread():
    """What is missing is a *mixed* Poisson; the paper's belief has its mean, and too small a variance."""
    oracle = GammaOracle(SCHEDULE, d(LAM), d(2.0), d(3.0))
    at = d([1]), d(0.5)
    exact, paper = oracle(*at).missing, MeanOracle(oracle)(*at).missing
    torch.testing.assert_close(exact.mean, paper.mean)
    support = grid(400)
    variance = [(masses(law, support) * (support - law.mean[0]) ** 2).sum() for law in (exact, paper)]
    mean, shape = exact.mean.squeeze(), 1 + 2.0
    torch.testing.assert_close(variance[0] / variance[1], 1 + mean / shape)
