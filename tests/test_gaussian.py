"""Gaussian diffusion against DDPM's formulas, Bayes' rule and a column whose denoiser is known."""

import math

import pytest
import scipy.stats
import torch
from goodness import LEVEL, generator
from torch import Tensor

from countjump.laws import Product, Streams
from countjump.processes.gaussian import AMPLITUDES, FIRST, GaussianDiffusion, MeanBlock, Normal
from countjump.sampling import sample_rows

WIDE = torch.tensor([100.0])


def d(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def times(t: float, rows: int = 1) -> Tensor:
    return torch.full((rows, 1), t, dtype=torch.float64)


@pytest.fixture(params=sorted(AMPLITUDES))
def process(request: pytest.FixtureRequest) -> GaussianDiffusion:
    return GaussianDiffusion(-WIDE, WIDE, AMPLITUDES[request.param])


def test_linear_beta_is_ddpms() -> None:
    beta = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
    k = torch.tensor([1, 10, 500, 999])
    alpha = AMPLITUDES["linear-beta"].alpha(k / 1000)
    assert torch.allclose(alpha**2, (1 - beta).cumprod(0)[k - 1], rtol=1e-5)


def test_cosine_is_that_of_nichol_and_dhariwal() -> None:
    schedule = AMPLITUDES["cosine"]
    t = d(0.0, 0.3, 1.0)
    assert torch.allclose(schedule.alpha(t) ** 2, torch.cos(math.pi * t / 2) ** 2)
    assert schedule.time(float(schedule.alpha(d(0.3)))) == pytest.approx(0.3)


def test_normal_against_scipy() -> None:
    law = Normal(d(1.0, -2.0), d(0.5, 3.0))
    value = d(1.3, 4.0)
    expected = scipy.stats.norm(law.loc.numpy(), law.scale.numpy()).logpdf(value.numpy())
    assert torch.allclose(law.log_prob(value), torch.from_numpy(expected))
    assert torch.equal(law.mean, law.loc)


def test_normal_without_spread_is_an_atom() -> None:
    law = Normal(d(1.0, 1.0), d(0.0, 0.0))
    assert torch.equal(law.log_prob(d(1.0, 1.5)), d(0.0, -math.inf))
    assert torch.equal(law.sample(generator()), law.loc)


@pytest.mark.parametrize(("s", "t"), [(0.1, 0.4), (0.5, 0.9), (0.9, 0.99)])
def test_posterior_is_bayes_rule(process: GaussianDiffusion, s: float, t: float) -> None:
    x, z_t, z_s = d(1.7)[None], d(-0.3)[None], d(0.8)[None]
    ratio = process.schedule.alpha(times(t)) / process.schedule.alpha(times(s))
    forward = Product(Normal(ratio * z_s, (1 - ratio**2).sqrt()))
    joint = process.marginal(x, times(s)).log_prob(z_s) + forward.log_prob(z_t)
    posterior = process.posterior(z_t, x, times(s), times(t))
    assert torch.allclose(posterior.log_prob(z_s), joint - process.marginal(x, times(t)).log_prob(z_t), atol=1e-8)


@pytest.mark.parametrize(("s", "t"), [(0.05, 0.6), (0.7, 1.0)])
def test_there_and_back(process: GaussianDiffusion, s: float, t: float) -> None:
    rows, rng = 20_000, generator(1)
    x = torch.full((rows, 1), 1.3, dtype=torch.float64)
    z_t = process.marginal(x, times(t, rows)).sample(rng)
    z_s = process.posterior(z_t, x, times(s, rows), times(t, rows)).sample(rng)
    alpha = float(process.schedule.alpha(times(s)))
    law = scipy.stats.norm(1.3 * alpha, math.sqrt(1 - alpha**2))
    assert scipy.stats.kstest(z_s[:, 0].numpy(), law.cdf).pvalue > LEVEL


def test_the_end_is_the_prediction(process: GaussianDiffusion) -> None:
    x, z = d(1.7, -0.2)[:, None], d(5.0, 0.1)[:, None]
    assert torch.equal(process.reverse(z, x, times(0.0, 2), times(0.02, 2)).sample(generator()), x)
    assert torch.equal(process.marginal(x, times(0.0, 2)).sample(generator()), x)


def test_predictions_are_clipped_to_the_data() -> None:
    process = GaussianDiffusion(d(-0.5), d(2.0), AMPLITUDES["cosine"])
    law = process.reverse(d(0.0, 0.0)[:, None], d(-3.0, 7.0)[:, None], times(0.0, 2), times(0.1, 2))
    end = law.sample(generator())
    assert end[:, 0].tolist() == [-0.5, 2.0]


def test_the_start_is_the_prior(process: GaussianDiffusion) -> None:
    law = process.marginal(d(3.0)[None], times(1.0)).entries
    assert (float(law.mean), float(law.scale)) == (0.0, 1.0)
    z = process.prior(10_000, Streams([generator()], 10_000), "cpu")
    assert scipy.stats.kstest(z[:, 0].numpy(), "norm").pvalue > LEVEL


def test_loss_is_the_error_of_the_noise(process: GaussianDiffusion) -> None:
    block, t = MeanBlock(2), times(0.3, 4)
    alpha = process.schedule.alpha(t)
    sigma = (1 - alpha**2).sqrt()
    x, noise, v = (torch.randn(4, 2, dtype=torch.float64, generator=generator(i)) for i in range(3))
    z = alpha * x + sigma * noise
    expected = ((noise - (sigma * z + alpha * v)) ** 2).mean(-1)
    assert torch.allclose(process.loss(x, z, t, block.belief(v, z, alpha), generator()), expected)


def test_a_silent_network_is_the_best_linear_denoiser(process: GaussianDiffusion) -> None:
    rng, t = generator(2), times(0.4, 200_000)
    x = torch.distributions.Exponential(1.0).icdf(torch.rand(200_000, 1, generator=rng, dtype=torch.float64)) - 1
    z = process.marginal(x, t).sample(rng)
    alpha = process.schedule.alpha(t)
    fitted = (x * z).mean() / (z * z).mean()
    assert torch.allclose(
        MeanBlock(1).belief(torch.zeros_like(z), z, alpha), fitted * z, atol=0.02 * float(z.abs().max())
    )


@pytest.mark.parametrize("variance", [0.2, 1.0])
def test_a_known_column_comes_back(process: GaussianDiffusion, variance: float) -> None:
    mean = 0.7

    def denoise(z: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        alpha = process.schedule.alpha(t)[:, None]
        return mean + variance * alpha * (z - alpha * mean) / (alpha**2 * variance + 1 - alpha**2)

    x = sample_rows(process, denoise, process.grid(200), Streams([generator(3)], 20_000))[:, 0]
    assert float(x.mean()) == pytest.approx(mean, abs=5 * math.sqrt(variance / 20_000))
    # The mean of x_0 stands for x_0: the variance falls short by a share that falls with the steps.
    assert 0.9 * variance < float(x.var()) < 1.04 * variance


def test_same_generator_same_draw(process: GaussianDiffusion) -> None:
    def draw() -> Tensor:
        return sample_rows(process, lambda z, t, condition=None: z / 2, process.grid(5), Streams([generator(4)], 8))

    assert torch.equal(draw(), draw())


def test_times(process: GaussianDiffusion) -> None:
    drawn = process.draw_times(50, generator(5))
    assert drawn.min() >= FIRST
    assert drawn.max() <= 1
    assert drawn.diff().min() > 0
    assert process.grid(4).tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]


@pytest.mark.parametrize("noise", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("s", "t"), [(0.0, 0.3), (0.1, 0.4), (0.5, 0.9)])
def test_steps_of_any_noise_have_the_same_marginals(noise: float, s: float, t: float) -> None:
    """DDIM's lemma 1: z_s is linear in z_t and Gaussian, and so are both marginals; α_s x_0 and 1 − α_s² are left."""
    process = GaussianDiffusion(-WIDE, WIDE, AMPLITUDES["cosine"], noise)
    x, at_s, at_t = d(1.7)[None], times(s), times(t)
    seen = process.marginal(x, at_t).entries
    below, above = (process.posterior(seen.loc + side * seen.scale, x, at_s, at_t).entries for side in (-1, 1))
    slope = (above.loc - below.loc) / (2 * seen.scale)
    wanted = process.marginal(x, at_s).entries
    assert torch.allclose((below.loc + above.loc) / 2, wanted.loc)
    assert torch.allclose(slope**2 * seen.scale**2 + below.scale**2, wanted.scale**2)
    assert torch.equal(below.scale == 0, torch.full_like(below.scale, noise == 0 or s == 0).bool())


def test_ddim_draws_nothing_and_keeps_the_law_of_a_known_column() -> None:
    """x_0 ~ N(1, 4), whose denoiser is known: the last state is a function of the first, and has the law of the data."""
    process = GaussianDiffusion(-WIDE, WIDE, AMPLITUDES["cosine"], 0.0)

    def denoise(z: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        alpha = process.schedule.alpha(t)[:, None]
        return 1 + 4 * alpha / (4 * alpha**2 + 1 - alpha**2) * (z - alpha)

    grid = process.grid(200)
    first, again = (
        sample_rows(process, denoise, grid, Streams([generator()], 4000), "cpu").squeeze(1) for _ in range(2)
    )
    assert torch.equal(first, again)
    assert float(first.mean()) == pytest.approx(1, abs=4 * 2 / math.sqrt(4000))
    assert float(first.std()) == pytest.approx(2, rel=0.05)
