"""The contract of every process: its exact laws agree with each other and with what it draws.

A new process is one more line in CASES; with a ``support`` its laws are also compared exactly.
"""

import inspect
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from block_examples import zero_atom
from goodness import LEVEL, flat, generator, grid, pearson, same
from torch import Tensor, nn

from countjump import Bounded, Count, NonNegative, OneHot, Simplex
from countjump.blocks import (
    Belief,
    Block,
    Blocks,
    Constant,
    Counts,
    PoissonBlock,
    Reals,
    SparseCounts,
    SparseReals,
    Units,
)
from countjump.denoiser import Denoiser
from countjump.laws import Streams
from countjump.likelihood import lower_bound
from countjump.networks import MLP
from countjump.oracles import EmpiricalOracle
from countjump.processes import Jump, Process
from countjump.processes.categorical import Categorical, CategoricalDiffusion, DiscreteGaussian, StateBlock, Uniform
from countjump.processes.gaussian import CosineAmplitude, GaussianDiffusion, MeanBlock
from countjump.sampling import chain, sample_rows
from countjump.schedules import Cosine, Geometric, LinearBeta
from countjump.sparse import SparseRows
from countjump.states import Joint


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass
class Case:
    process: Process
    block: nn.Module
    """What gives a network's output its meaning."""
    x: Any
    """One row, as the process takes it."""
    support: Any = None
    """All states that it can lead to, but for a negligible mass."""
    data: Any = None
    """All rows that the process can make, but for a small mass."""


def jump(block: Block, x: list[float], support: Any, data: Any = None, schedule: Any = None) -> Case:
    rows = None if data is None else block.read(data.numpy())
    return Case(Jump(block, schedule or Cosine()), block, block.read(np.array([x])), support, rows)


def counts(size: int, bound: float = np.inf) -> Counts:
    one = torch.ones(size, dtype=torch.float64)
    gammas = None if np.isfinite(bound) else torch.stack([one, 2 * one, 2 * one])[..., None]
    largest = min(bound, 9.0)
    return Counts(Count(bound if np.isfinite(bound) else None), 2 * one, 2 * one, largest * one, bound * one, 2, gammas)


def units(domain: Any, total: Tensor, parts: int, bounds: Tensor | None = None) -> Units:
    groups = len(total)
    share = torch.full((groups, parts), 1 / parts, dtype=torch.float64)
    one_hot = bounds is None and bool((total == 1).all())
    vertex = share if one_hot else 0 * share
    decoding = "latent" if one_hot else "draw"
    return Units(
        domain, share, 3 * torch.ones(groups).double(), vertex, total, 0 if one_hot else 2, bounds, decoding=decoding
    )


def sparse_counts() -> SparseCounts:
    torch.manual_seed(0)
    gammas = torch.tensor([1.0, 2.0, 3.0]).double()[:, None, None]
    return SparseCounts(d(0.5, 0.3, 0.2), 4, 3.0, 2.0, 9.0, gammas)


def sparse_reals() -> SparseReals:
    torch.manual_seed(0)
    return SparseReals(d(0.5, 0.3, 0.2), 4, 1.5, d(0.0, 0.5, -0.5), 3)


def side_by_side() -> Blocks:
    constant = Constant(d(7.0), torch.tensor([True]), rows=9)
    return Blocks(
        [constant, counts(1, 3.0), sparse_counts()], [torch.tensor([1]), torch.tensor([0]), torch.tensor([2, 3, 4])]
    )


SPARSE = grid(3, 2, 3)
TRIANGLE = grid(5, 5, 5)
TRIANGLE = TRIANGLE[TRIANGLE.sum(-1) <= 4]
JOINT = torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in (4, 3, 2, 3)))
ONES = torch.ones(2, dtype=torch.float64)
GAMMAS = torch.stack([ONES, 2 * ONES, ONES])[..., None]
CASES = {
    "counts": jump(counts(2), [3, 5], grid(4, 6), grid(25, 25)),
    "counts, linear beta": jump(counts(2), [3, 5], grid(4, 6), schedule=LinearBeta(0.001, 0.2, 50)),
    "bounded counts": jump(counts(2, 3.0), [3, 1], grid(4, 2), grid(4, 4)),
    "poisson": jump(PoissonBlock(NonNegative(), ONES, ONES, d(2, 1)), [0.8, 1.5], grid(20, 20)),
    "poisson, geometric": jump(
        PoissonBlock(NonNegative(), ONES, ONES, d(2, 1)), [0.8, 0.0], grid(20, 2), schedule=Geometric(1e-3)
    ),
    "poisson, exact": jump(PoissonBlock(Count(), ONES, ONES), [3, 1], grid(4, 2), grid(25, 25)),
    "reals": jump(Reals(NonNegative(), ONES, ONES, d(2, 1), GAMMAS, *zero_atom(0.2 * ONES)), [0.8, 1.5], grid(20, 20)),
    "one-hot": jump(units(OneHot(), d(1), 3), [0, 1, 0], grid(2, 2, 2)[:, None], torch.eye(3).double()),
    "simplex": jump(units(Simplex(), d(4), 3), [0.2, 0.5, 0.3], TRIANGLE[:, None]),
    "interval": jump(
        units(Bounded((2.0, 1.0)), d(3, 2), 2, d(2.0, 1.0)), [0.5, 0.3], grid(4, 4, 3, 3).reshape(-1, 2, 2)
    ),
    "sparse counts": jump(sparse_counts(), [2, 0, 2], SparseRows.from_dense(SPARSE), grid(9, 9, 9)),
    "sparse reals": jump(sparse_reals(), [0.4, 0.0, 1.7], SparseRows.from_dense(grid(2, 2, 2))),
    "joint": jump(
        side_by_side(),
        [3, 7, 2, 0, 2],
        Joint((torch.zeros(len(JOINT), 0).double(), JOINT[:, :1], SparseRows.from_dense(JOINT[:, 1:]))),
    ),
    "gaussian": Case(GaussianDiffusion(d(-9, -9), d(9, 9), CosineAmplitude()), MeanBlock(2), d([0.3, -1.2])),
    "uniform": Case(
        CategoricalDiffusion(2, Uniform(4), Cosine()), StateBlock(torch.zeros(2, 4)), d([0, 2]), grid(4, 4), grid(4, 4)
    ),
    "discretised gaussian": Case(
        CategoricalDiffusion(2, DiscreteGaussian(4), Cosine()),
        StateBlock(torch.zeros(2, 4)),
        d([0, 2]),
        grid(4, 4),
        grid(4, 4),
    ),
}
JUMPS = [name for name, case in CASES.items() if isinstance(case.process, Jump)]
FINITE = [name for name, case in CASES.items() if case.support is not None]
STEPS = [(0.2, 0.5), (0.0, 0.9), (0.5, 1.0)]
NO_LIKELIHOOD = {"poisson": "belief='mixture'", "poisson, geometric": "belief='mixture'", "gaussian": "Compare samples"}
"""The cases that have none, and what they tell one to do."""


def times(t: float, rows: int) -> Tensor:
    return torch.full((rows, 1), t, dtype=torch.float64)


def many(x: Any, rows: int) -> Any:
    return x[torch.zeros(rows, dtype=torch.long)]


def corrupt(process: Process, x: Any, t: float, seed: int = 0) -> Any:
    return process.marginal(x, times(t, len(x))).sample(generator(seed))


def denoiser(case: Case) -> Denoiser:
    """An untrained network that says something all the same."""
    torch.manual_seed(1)
    network = MLP(case.block.inputs, case.block.outputs, 16)
    nn.init.normal_(network.output.weight, std=0.1)
    return Denoiser(network, case.block, case.process.schedule, case.process.discrete).eval()


def kinds(base: type) -> set[type]:
    return {base}.union(*(kinds(each) for each in base.__subclasses__()))


def test_every_process_is_held_to_the_contract():
    held = {type(case.process) for case in CASES.values()}
    assert held == {kind for kind in kinds(Process) if not inspect.isabstract(kind)}, "a new process needs a case"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("s", "t"), STEPS)
def test_to_t_and_back_to_s_has_the_law_of_corrupting_to_s(name: str, s: float, t: float):
    process, x, rows = CASES[name].process, many(CASES[name].x, 4000), 4000
    z_t = corrupt(process, x, t)
    back = process.posterior(z_t, x, times(s, rows), times(t, rows)).sample(generator(1))
    assert same(back, corrupt(process, x, s, 2)) > LEVEL


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize(("s", "t"), STEPS)
def test_marginal_and_posterior_agree_exactly(name: str, s: float, t: float):
    """Σ over z_t of q(z_t given x_0) q(z_s given z_t, x_0) = q(z_s given x_0)."""
    process, x, support = CASES[name].process, CASES[name].x, CASES[name].support
    size = len(support)
    at_t, at_s = (process.marginal(many(x, size), times(time, size)).log_prob(support) for time in (t, s))
    assert float(at_s.exp().sum()) == pytest.approx(1, abs=1e-8)
    reached = (at_t > -torch.inf).nonzero().squeeze(1)
    z_t = support[reached.repeat_interleave(size)]
    pairs = len(z_t)
    posterior = process.posterior(z_t, many(x, pairs), times(s, pairs), times(t, pairs))
    back = posterior.log_prob(support[torch.arange(size).repeat(len(reached))]).reshape(-1, size)
    torch.testing.assert_close((at_t[reached, None] + back).exp().sum(0), at_s.exp(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", FINITE)
def test_draws_fit_the_marginal(name: str):
    case = CASES[name]
    law = case.process.marginal(many(case.x, len(case.support)), times(0.4, len(case.support)))
    drawn = corrupt(case.process, many(case.x, 4000), 0.4)
    assert pearson(drawn, case.support, law.log_prob(case.support)) > LEVEL


@pytest.mark.parametrize("name", CASES)
def test_the_prior_is_the_marginal_at_the_end(name: str):
    process, x = CASES[name].process, many(CASES[name].x, 4000)
    prior = process.prior(4000, Streams([generator(i) for i in range(4)], 1000), "cpu")
    end = process.marginal(x, times(1.0, 4000))
    if isinstance(process, Jump):
        assert (flat(prior) == 0).all()
        assert torch.equal(flat(end.sample(generator())), flat(prior))
        assert (end.log_prob(prior) == 0).all()
    else:
        assert same(prior, end.sample(generator(9))) > LEVEL


@pytest.mark.parametrize("name", CASES)
def test_same_generator_same_sample(name: str):
    process, x, t, s = CASES[name].process, many(CASES[name].x, 100), times(0.5, 100), times(0.2, 100)
    first, again = (corrupt(process, x, 0.5, 5) for _ in range(2))
    assert torch.equal(flat(first), flat(again))
    assert not torch.equal(flat(first), flat(corrupt(process, x, 0.5, 6)))
    back = [flat(process.posterior(first, x, s, t).sample(generator(7))) for _ in range(2)]
    assert torch.equal(*back)


def knowing(case: Case, x: Any, z: Any, t: Tensor) -> Any:
    """The prediction of one who knows x_0."""
    if isinstance(case.process, Jump):
        return Belief(case.block.missing(x, z, case.process.schedule.alpha(t)))
    if isinstance(case.process, CategoricalDiffusion):
        return Categorical(nn.functional.one_hot(x.long(), 4).double().log())
    return x


@pytest.mark.parametrize("name", CASES)
def test_a_step_that_knows_the_data_is_the_posterior(name: str):
    case = CASES[name]
    x, t, s = many(case.x, 500), times(0.5, 500), times(0.2, 500)
    z = corrupt(case.process, x, 0.5)
    reverse = case.process.reverse(z, knowing(case, x, z, t), s, t)
    posterior = case.process.posterior(z, x, s, t)
    drawn = posterior.sample(generator(1))
    assert torch.equal(flat(reverse.sample(generator(1))), flat(drawn))
    torch.testing.assert_close(reverse.log_prob(drawn), posterior.log_prob(drawn))


@pytest.mark.parametrize("name", CASES)
def test_a_chain_that_knows_the_data_ends_there(name: str):
    """From the prior, in any number of steps."""
    case = CASES[name]
    streams = Streams([generator(3), generator(4)], 100)
    x = many(case.x, 200)

    def denoise(z: Any, t: Tensor, condition: Tensor | None = None) -> Any:
        return knowing(case, many(case.x, len(z)), z, t[:, None])

    z = case.process.prior(200, streams, "cpu")
    for steps in (1, 3):
        *_, end = chain(case.process, denoise, z, case.process.grid(steps), streams)
        assert same(end.z, corrupt(case.process, x, 0.0)) > LEVEL


@pytest.mark.parametrize("name", CASES)
def test_a_chain_of_any_network_ends_in_finite_rows(name: str):
    """Not negative, or in the range of the data (Gaussian); and a row depends on its own stream alone."""
    case = CASES[name]
    denoise, grid_ = denoiser(case), case.process.grid(4)
    rows, fewer = (
        sample_rows(case.process, denoise, grid_, Streams([generator(10 + i) for i in range(n)], 20)) for n in (3, 1)
    )
    assert len(rows) == 60
    assert flat(rows).isfinite().all()
    if isinstance(case.process, GaussianDiffusion):
        assert (flat(rows).abs() <= 9).all()
    else:
        assert (flat(rows) >= 0).all()
    torch.testing.assert_close(flat(rows[torch.arange(20)]), flat(fewer))


@pytest.mark.parametrize("name", CASES)
def test_the_loss_and_its_gradients_are_finite(name: str):
    case = CASES[name]
    x, t = many(case.x, 64), case.process.draw_times(64, generator())[:, None]
    z = case.process.marginal(x, t).sample(generator(1))
    network = denoiser(case).train()
    loss = case.process.loss(x, z, t, network(z, t[:, 0]), generator(2))
    assert loss.shape == (64,)
    assert loss.isfinite().all()
    loss.mean().backward()
    gradients = [weight.grad for weight in network.network.parameters() if weight.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)
    case.block.zero_grad(set_to_none=True)


@pytest.mark.parametrize("name", CASES)
def test_times_go_from_one_to_zero(name: str):
    process = CASES[name].process
    drawn = process.draw_times(64, generator())
    assert drawn.shape == (64,)
    assert (drawn >= 0).all()
    assert (drawn <= 1).all()
    for steps in (1, 2, 7):
        times_down = process.grid(steps)
        assert len(times_down) == steps + 1
        assert times_down[0] == 1
        assert times_down[-1] == 0
        assert (times_down.diff() < 0).all()


# Likelihoods.


def bound(case: Case, x: Any, draws: int, steps: int = 3) -> Tensor:
    """Draws of the bound (len(x), draws)."""
    rows = torch.arange(len(x)).repeat_interleave(draws)
    keys = [int(place) for place in range(len(rows))]
    return lower_bound(case.process, denoiser(case), x[rows], case.process.grid(steps), keys).reshape(-1, draws)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.data is not None])
def test_the_bound_is_a_bound(name: str):
    """Σ exp(E[bound]) ≤ 1 over all rows; and where no divergence is in closed form, E[exp(bound)] are the probabilities."""
    case = CASES[name]
    draws = 100 if len(case.data) < 100 else 10
    drawn = bound(case, case.data, draws)
    assert drawn.isfinite().all()
    error = float((drawn.mean(1).exp() ** 2 * drawn.var(1) / draws).sum().sqrt())
    assert 0.3 < float(drawn.mean(1).exp().sum()) <= 1 + 4 * error
    if isinstance(case.process, Jump):
        masses = drawn.exp()
        error = float((masses.var(1) / draws).sum().sqrt())
        assert float(masses.mean(1).sum()) == pytest.approx(1, abs=4 * error + 0.02)


@pytest.mark.parametrize("name", ["reals", "interval"])
def test_the_bound_on_a_density_is_one(name: str):
    """∫ exp(bound) = 1 over one column, with the mass at an exact zero; the other columns are the same block's, left out."""
    one = torch.ones(1, dtype=torch.float64)
    if name == "reals":
        block: Block = Reals(
            NonNegative(), one, one, 3 * one, torch.stack([one, 2 * one, one])[..., None], *zero_atom(0.2 * one)
        )
        points = np.linspace(0, 12, 301)
    else:
        block = units(Bounded(2.0), d(3), 2, d(2.0))
        points = np.linspace(0, 2, 203)[1:-1]
    case = Case(Jump(block, Cosine()), block, None)
    drawn = bound(case, block.read(points[:, None]), 30)
    atom = float(drawn[0].exp().mean()) if name == "reals" else 0.0
    inside = points[1:] if name == "reals" else points
    masses = [each[-len(inside) :].numpy() for each in (drawn.exp().mean(1), drawn.mean(1).exp())]
    first = inside[1] - inside[0]
    exact, lower = (atom + np.trapezoid(mass, inside) + mass[0] * first for mass in masses)
    assert exact == pytest.approx(1, abs=0.05)
    assert 0.3 < lower <= exact + 1e-9


def test_the_bound_on_sparse_reals_has_the_masses_of_the_sets():
    """The empty set, and each single column, by a density."""
    case = CASES["sparse reals"]
    points = np.exp(np.linspace(-7, 4, 120))
    rows = np.zeros((361, 3))
    for column in range(3):
        rows[1 + 120 * column : 121 + 120 * column, column] = points
    drawn = bound(case, case.block.read(rows), 20)
    assert drawn.isfinite().all()
    masses = drawn.exp().mean(1).numpy()
    singles = [np.trapezoid(masses[1 + 120 * column : 121 + 120 * column], points) for column in range(3)]
    sampled = sample_rows(case.process, denoiser(case), case.process.grid(3), Streams([generator()], 4000))
    present = sampled.dense() > 0
    expected = [float((present.sum(1) == 0).double().mean())]
    expected += [float((present[:, column] & (present.sum(1) == 1)).double().mean()) for column in range(3)]
    assert [masses[0], *singles] == pytest.approx(expected, abs=0.03)


def test_the_bound_of_a_joint_is_the_sum_of_its_parts_where_the_network_is():
    """A network that answers zero says nothing of the other parts."""
    case = CASES["joint"]
    network = MLP(case.block.inputs, case.block.outputs, 8)
    nn.init.zeros_(network.output.weight)
    denoise = Denoiser(network, case.block, case.process.schedule).eval()
    grid_, keys = case.process.grid(1), [3]  # with one step, all is drawn at once
    whole = float(lower_bound(case.process, denoise, case.x, grid_, keys))
    parts = 0.0
    for part, x in zip(case.block.parts[1:], case.x.parts[1:], strict=True):
        own = MLP(part.inputs, part.outputs, 8)
        nn.init.zeros_(own.output.weight)
        alone = Denoiser(own, part, case.process.schedule).eval()
        parts += float(lower_bound(Jump(part, case.process.schedule), alone, x, grid_, keys))
    assert whole == pytest.approx(parts)


@pytest.mark.parametrize("name", CASES)
def test_a_process_without_a_likelihood_says_why(name: str):
    why = CASES[name].process.why_no_likelihood()
    if name in NO_LIKELIHOOD:
        assert NO_LIKELIHOOD[name] in why
    else:
        assert why is None
        scores = bound(CASES[name], CASES[name].x, 2)
        assert scores.isfinite().all()


def test_gaussian_diffusion_has_no_path_to_score():
    case = CASES["gaussian"]
    with pytest.raises(TypeError, match="no likelihood"):
        bound(case, case.x, 1)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.process.why_no_likelihood() is None])
def test_a_path_is_drawn_from_its_key_alone_and_ends_in_the_marginals(name: str):
    case = CASES[name]
    x, times_down = many(case.x, 2000), case.process.grid(2)
    states = list(case.process.path(x, times_down, list(range(2000))))
    assert len(states) == 3
    assert same(states[1], corrupt(case.process, x, float(times_down[1]))) > LEVEL
    assert same(states[2], corrupt(case.process, x, 0.0)) > LEVEL
    few = list(case.process.path(x[torch.arange(3)], times_down, [7, 1999, 7]))
    for whole, some in zip(states, few, strict=True):
        assert torch.equal(flat(whole)[[7, 1999, 7]], flat(some))


# JUMP.


@pytest.mark.parametrize("name", ["counts", "poisson", "one-hot", "simplex", "interval"])
def test_jump_chains_never_decrease(name: str):
    case = CASES[name]
    oracle = EmpiricalOracle(case.block, case.process.schedule, torch.from_numpy(case.block.write(case.x)))
    streams = Streams([generator()], 200)
    empty = case.process.prior(200, streams, "cpu")
    states = [step.z for step in chain(case.process, oracle, empty, case.process.grid(6), streams)]
    assert all((after >= before).all() for before, after in itertools.pairwise(states))
    assert (states[-1] > 0).any()


@pytest.mark.parametrize("name", JUMPS)
def test_at_time_zero_nothing_is_missing(name: str):
    case = CASES[name]
    x = many(case.x, 50)
    z_0 = case.block.encode(x).sample(generator())
    missing = case.block.missing(x, z_0, case.process.schedule.alpha(times(0.0, 50)))
    assert (flat(missing.mean) == 0).all()
    assert (flat(missing.sample(generator())) == 0).all()


def test_the_first_interior_time_is_placed():
    process = Jump(counts(1), Cosine(), t_max=0.8)
    assert process.grid(3).tolist() == pytest.approx([1.0, 0.8, 0.4, 0.0])
    drawn = process.draw_times(1000, generator())
    assert drawn[0] == 1
    assert 0.79 < drawn[1:].max() <= 0.8


def test_one_time_in_four_is_zero_where_a_sparse_block_draws_its_data():
    drawn = CASES["sparse reals"].process.draw_times(1000, generator())
    assert (drawn[1::4] == 0).all()
    assert float((drawn == 0).double().mean()) == pytest.approx(0.25, abs=0.01)
