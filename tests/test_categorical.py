"""Categorical diffusion against explicit matrices, Bayes' rule and D3PM's own transitions."""

import itertools
import math

import pytest
import scipy.linalg
import torch
from goodness import LEVEL, generator, grid, pearson
from torch import Tensor

from countjump.laws import Indexed, Product, Streams
from countjump.likelihood import lower_bound
from countjump.processes.base import Denoise
from countjump.processes.categorical import (
    TRANSITIONS,
    Categorical,
    CategoricalDiffusion,
    DiscreteGaussian,
    StateBlock,
    States,
    Transition,
    Uniform,
)
from countjump.sampling import sample_rows
from countjump.schedules import Cosine

K = 6
STATES = torch.arange(K, dtype=torch.float64)
TIMES = [(0.1, 0.4), (0.3, 1.0), (0.0, 0.7)]


def d(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def times(t: float, rows: int = 1) -> Tensor:
    return torch.full((rows, 1), t, dtype=torch.float64)


def matrix(transition: Transition, alpha: float) -> Tensor:
    """Q(z, ·) for every z."""
    return transition.reach(torch.arange(transition.states), d(alpha))


def masses(law: States) -> Tensor:
    """P(k) of the one column of the one row, for every k."""
    return law[torch.zeros(K, dtype=torch.long)].log_prob(STATES[:, None]).exp()


@pytest.fixture(params=sorted(TRANSITIONS))
def transition(request: pytest.FixtureRequest) -> Transition:
    return TRANSITIONS[request.param](K)


@pytest.fixture
def process(transition: Transition) -> CategoricalDiffusion:
    return CategoricalDiffusion(1, transition, Cosine())


def brute(process: CategoricalDiffusion, s: float, t: float) -> tuple[Tensor, Tensor]:
    """Q_s|0 and Q_t|s as matrices."""
    alpha_s, alpha_t = (float(process.schedule.alpha(times(u))) for u in (s, t))
    return matrix(process.transition, alpha_s), matrix(process.transition, alpha_t / alpha_s)


def test_law() -> None:
    p = d(0.5, 0.0, 0.2, 0.3)
    law = Product(Categorical(p.log().expand(20_000, 1, 4)))
    drawn = law.sample(generator())
    assert pearson(drawn, torch.arange(4.0)[:, None], p.log()) > LEVEL
    assert torch.allclose(law.mean[0], (p * torch.arange(4)).sum())
    assert torch.allclose(law.log_prob(torch.full((20_000, 1), 3.0))[0].exp(), p[3])
    assert law.log_prob(torch.ones(20_000, 1))[0] == -math.inf


def test_log_prob_adds_columns_up() -> None:
    law = Product(Categorical(torch.randn(3, 2, 4, generator=generator())))
    value = torch.tensor([[0.0, 3.0], [1.0, 1.0], [2.0, 0.0]])
    columns = [law.entries.log_prob(value)[:, j] for j in range(2)]
    assert torch.allclose(law.log_prob(value), columns[0] + columns[1])


def test_transitions_are_symmetric_and_compose(transition: Transition) -> None:
    q = matrix(transition, 0.3)
    assert torch.allclose(q.sum(-1), torch.ones(K, dtype=torch.float64))
    assert torch.allclose(q, q.T)
    assert (q > 0).all()
    assert torch.allclose(matrix(transition, 0.6) @ matrix(transition, 0.5), q)


def test_transitions_end_uniform_and_start_exact(transition: Transition) -> None:
    assert torch.equal(matrix(transition, 1.0), torch.eye(K, dtype=torch.float64))
    assert torch.allclose(matrix(transition, 0.0), torch.full((K, K), 1 / K, dtype=torch.float64))


def test_alpha_is_the_slowest_mode(transition: Transition) -> None:
    assert float(torch.linalg.eigvalsh(matrix(transition, 0.3))[-2]) == pytest.approx(0.3)


def test_carry_is_a_product_with_the_matrix(transition: Transition) -> None:
    p = torch.rand(5, K, dtype=torch.float64, generator=generator())
    assert torch.allclose(transition.carry(p, d(0.3)), p @ matrix(transition, 0.3))


def test_uniform_keeps_or_draws_anew() -> None:
    expected = 0.3 * torch.eye(K, dtype=torch.float64) + 0.7 / K
    assert torch.allclose(matrix(Uniform(K), 0.3), expected)


def test_discrete_gaussian_is_the_exponential_of_a_walk() -> None:
    walk = torch.diag(torch.ones(K - 1), 1) + torch.diag(torch.ones(K - 1), -1)
    walk = (walk - torch.diag(walk.sum(-1))).double() / 2
    duration = -math.log(0.3) / (1 - math.cos(math.pi / K))
    expected = torch.from_numpy(scipy.linalg.expm(duration * walk.numpy()))
    assert torch.allclose(matrix(DiscreteGaussian(K), 0.3), expected)


def test_discrete_gaussian_is_gaussian_far_from_the_ends() -> None:
    states, alpha = 101, 0.97
    variance = -math.log(alpha) / (1 - math.cos(math.pi / states))
    away = torch.arange(states, dtype=torch.float64) - 50
    density = torch.exp(-(away**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    assert torch.allclose(matrix(DiscreteGaussian(states), alpha)[50], density, atol=0.01 * float(density.max()))


def test_discrete_gaussian_is_the_limit_of_d3pms() -> None:
    """D3PM's appendix A.2.3: exp(−4n²/((K − 1)²β)) over its sum off the diagonal, the rest of the mass on it."""
    distance = (STATES[:, None] - STATES) ** 2
    beta = 4 / ((K - 1) ** 2 * math.log(1e4))
    wide = torch.arange(-(K - 1), K, dtype=torch.float64)
    step = torch.exp(-4 * distance / ((K - 1) ** 2 * beta)) / torch.exp(-4 * wide**2 / ((K - 1) ** 2 * beta)).sum()
    step = step.fill_diagonal_(0)
    step += torch.diag(1 - step.sum(-1))
    many = torch.linalg.matrix_power(step, 10_000)
    alpha = float(torch.linalg.eigvalsh(many)[-2])
    assert 0.1 < alpha < 0.9
    assert torch.allclose(many, matrix(DiscreteGaussian(K), alpha), atol=1e-3)


def test_two_states_are_uniform_and_gaussian_at_once() -> None:
    assert torch.allclose(matrix(DiscreteGaussian(2), 0.4), matrix(Uniform(2), 0.4))


@pytest.mark.parametrize(("s", "t"), TIMES)
def test_posterior_is_bayes_rule(process: CategoricalDiffusion, s: float, t: float) -> None:
    from_x, onward = brute(process, s, t)
    for x, z in [(1, 4), (0, 0), (5, 2)]:
        joint = from_x[x] * onward[:, z]
        posterior = process.posterior(d(z)[None], d(x)[None], times(s), times(t))
        assert torch.allclose(masses(posterior), joint / joint.sum())


@pytest.mark.parametrize(("s", "t"), [(0.2, 0.6), (0.5, 1.0)])
def test_there_and_back(process: CategoricalDiffusion, s: float, t: float) -> None:
    rows, rng = 20_000, generator(1)
    x = torch.ones(rows, 1, dtype=torch.float64)
    z_t = process.marginal(x, times(t, rows)).sample(rng)
    z_s = process.posterior(z_t, x, times(s, rows), times(t, rows)).sample(rng)
    law = process.marginal(d(1)[None].expand(K, 1), times(s, K))
    assert pearson(z_s, STATES[:, None], law.log_prob(STATES[:, None])) > LEVEL


@pytest.mark.parametrize(("s", "t"), TIMES)
def test_backward_mixes_posteriors_by_the_belief(process: CategoricalDiffusion, s: float, t: float) -> None:
    z, weights = 4, torch.rand(K, dtype=torch.float64, generator=generator())
    prediction = Categorical(weights.log()[None, None])
    from_x, onward = brute(process, s, t)
    belief = weights * (from_x @ onward)[:, z]
    belief /= belief.sum()
    posteriors = from_x * onward[:, z]
    expected = belief @ (posteriors / posteriors.sum(-1, keepdim=True))
    law = process.reverse(d(z)[None], prediction, times(s), times(t))
    assert torch.allclose(masses(law), expected)
    if s == 0:
        losses = [process.loss(d(x)[None], d(z)[None], times(t), prediction, generator()) for x in range(K)]
        assert torch.allclose(torch.cat(losses), -belief.log())


def test_loss_bounds_the_divergence_of_every_step(process: CategoricalDiffusion) -> None:
    z, x, t = d(4)[None], d(1)[None], times(0.6)
    prediction = Categorical(torch.randn(1, 1, K, dtype=torch.float64, generator=generator()))
    loss = float(process.loss(x, z, t, prediction, generator()))
    for s in (0.0, 0.2, 0.59):
        q, p = process.posterior(z, x, times(s), t), process.reverse(z, prediction, times(s), t)
        divergence = float(torch.nansum(masses(q) * (masses(q) / masses(p)).log()))
        assert float(q.kl(p)) == pytest.approx(divergence)
        assert divergence <= loss + 1e-9


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_a_known_column_comes_back(process: CategoricalDiffusion, steps: int) -> None:
    frequency = d(0.5, 0.0, 0.1, 0.1, 0.05, 0.25)

    def denoise(z: Tensor, t: Tensor, condition: Tensor | None = None) -> Categorical:
        return Categorical(frequency.log().expand(len(z), 1, K))

    x = sample_rows(process, denoise, process.grid(steps), Streams([generator(2)], 20_000))
    assert pearson(x, STATES[:, None], frequency.log()) > LEVEL


@pytest.mark.parametrize("entries", [10**6, 2 * K])
def test_rows_alike_draw_from_one_table_what_they_draw_alone(
    process: CategoricalDiffusion, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    monkeypatch.setattr("countjump.processes.categorical.ENTRIES", entries)
    logits, z = torch.randn(4, 1, K, generator=generator()), d(0, 3, 3, 5)[:, None]
    group = torch.randint(4, (1000,), generator=generator(1))
    shared = Indexed(process.reverse(z, Categorical(logits), times(0.3), times(0.8)), group)
    apart = process.reverse(z[group], Categorical(logits[group]), times(0.3), times(0.8))
    assert torch.equal(shared.sample(generator(3)), apart.sample(generator(3)))
    value = torch.randint(K, (1000, 1), generator=generator(2)).double()
    torch.testing.assert_close(shared.log_prob(value), apart.log_prob(value))
    torch.testing.assert_close(shared.mean, apart.mean)


def test_sampling_in_pieces_is_the_same(process: CategoricalDiffusion, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 5_000
    z, prediction = torch.full((rows, 1), 2.0).double(), Categorical(torch.zeros(rows, 1, K).double())

    def law() -> States:
        return process.reverse(z, prediction, times(0.3, rows), times(0.8, rows))

    whole, mean = law().sample(generator(3)), law().mean
    assert pearson(whole, STATES[:, None], law()[torch.arange(K)].log_prob(STATES[:, None])) > LEVEL
    monkeypatch.setattr("countjump.processes.categorical.ENTRIES", 700 * K)
    assert torch.equal(law().sample(generator(3)), whole)
    torch.testing.assert_close(law().mean, mean)
    torch.testing.assert_close(law().kl(law()[torch.arange(rows)]), torch.zeros(rows).double())


def test_draws_follow_the_weights(process: CategoricalDiffusion) -> None:
    """The binary search in the cumulative weights, at heights that lie in each of them."""
    law = process.marginal(STATES[:, None], times(0.5))
    cumulative = torch.stack([masses(law[[row]]) for row in range(K)]).cumsum(-1)
    for height in (0.0, 0.1, 0.5, 0.99):
        expected = (cumulative <= height).sum(-1).double()
        assert torch.equal(law.at(torch.arange(K), torch.full((K, 1), height).double())[:, 0], expected)


def test_at_the_start_nothing_has_moved(process: CategoricalDiffusion) -> None:
    x, t = STATES.repeat(500)[:, None], torch.rand(500 * K, 1, dtype=torch.float64, generator=generator())
    assert torch.equal(process.marginal(x, 0 * t).sample(generator()), x)


def bounds(process: CategoricalDiffusion, denoise: Denoise, x: Tensor, steps: int, draws: int) -> Tensor:
    """Draws of the bound (len(x), draws)."""
    many = x.repeat_interleave(draws, 0)
    return lower_bound(process, denoise, many, process.grid(steps), list(range(len(many)))).reshape(-1, draws)


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_the_bound_of_an_exact_belief_is_the_probability(process: CategoricalDiffusion, steps: int) -> None:
    frequency = d(0.5, 0.0, 0.1, 0.1, 0.05, 0.25)

    def denoise(z: Tensor, t: Tensor, condition: Tensor | None = None) -> Categorical:
        return Categorical(frequency.log().expand(len(z), 1, K))

    drawn = bounds(process, denoise, STATES[:, None], steps, 1000)
    possible = frequency > 0
    assert (drawn[~possible] == -math.inf).all()
    error = drawn.mean(1) - frequency.log()
    assert (error.abs() < 4 * drawn.std(1) / 1000**0.5 + 1e-9)[possible].all()
    assert (drawn <= 1e-9).all()


def test_the_bound_of_columns_apart_rises_to_the_truth_with_the_steps(transition: Transition) -> None:
    """Two columns that are equal, of which the denoiser knows each one's exact law given both states."""
    process = CategoricalDiffusion(2, transition, Cosine())
    frequency = d(0.1, 0.3, 0.05, 0.25, 0.2, 0.1)

    def denoise(z: Tensor, t: Tensor, condition: Tensor | None = None) -> Categorical:
        reach = transition.reach(z, process.schedule.alpha(t)[:, None, None])
        weights = frequency * reach.flip(1)  # what the other column says
        return Categorical(weights.log())

    gaps = []
    for steps in (1, 4, 16):
        drawn = bounds(process, denoise, grid(K, K), steps, 300).mean(1).reshape(K, K)
        assert float(drawn.exp().sum()) <= 1.01
        gaps.append(float((frequency * (frequency.log() - drawn.diagonal())).sum()))
    assert gaps[0] == pytest.approx(-float((frequency * frequency.log()).sum()))
    assert all(0 < after < 0.7 * before for before, after in itertools.pairwise(gaps))


def test_scoring_in_pieces_is_the_same(process: CategoricalDiffusion, monkeypatch: pytest.MonkeyPatch) -> None:
    def denoise(z: Tensor, t: Tensor, condition: Tensor | None = None) -> Categorical:
        return Categorical(STATES.expand(len(z), 1, K))

    whole = bounds(process, denoise, STATES[:, None], 5, 200)
    monkeypatch.setattr("countjump.processes.categorical.ENTRIES", 70 * K)
    torch.testing.assert_close(bounds(process, denoise, STATES[:, None], 5, 200), whole)


def test_same_generator_same_draw(process: CategoricalDiffusion) -> None:
    def draw() -> Tensor:
        return process.marginal(torch.ones(50, 1, dtype=torch.float64), times(0.5, 50)).sample(generator(4))

    assert torch.equal(draw(), draw())


def test_block_starts_at_the_frequencies() -> None:
    frequency = d(0.2, 0.5, 0.3)
    block = StateBlock(torch.stack([frequency, frequency.flip(0)]).log())
    z = d(0, 2)[None]
    features = block.features(z, d(0.5)[None])
    assert features.tolist() == [[1, 0, 0, 0, 0, 1, -1, 1]]
    assert features.shape[1] == block.inputs
    law = block.belief(torch.zeros(1, block.outputs), z, d(0.5)[None])
    assert torch.allclose(law.logits.softmax(-1)[0, 1].double(), frequency.flip(0))


def test_gradients_are_finite_everywhere(process: CategoricalDiffusion) -> None:
    logits = torch.zeros(3, 1, K, requires_grad=True)
    t = d(0.0, 1e-6, 1.0)[:, None]
    x = d(0, 3, 5)[:, None]
    z = process.marginal(x, t).sample(generator(5))
    process.loss(x, z, t, Categorical(logits), generator()).sum().backward()
    assert logits.grad.isfinite().all()
