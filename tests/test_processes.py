"""The contract of every process: its exact laws agree with each other and with what it draws.

A new process is one more line in CASES; with a ``support`` its laws are also compared exactly.
"""

import itertools
from dataclasses import dataclass

import pytest
import torch
from goodness import LEVEL, generator, grid, pearson, same
from torch import Tensor

from countjump.beliefs import Belief
from countjump.oracles import EmpiricalOracle
from countjump.processes import Exact, Jump, Process, Randomised, Units
from countjump.processes.categorical import CategoricalDiffusion, DiscreteGaussian, Uniform
from countjump.processes.gaussian import CosineAmplitude, GaussianDiffusion
from countjump.sampling import chain
from countjump.schedules import Cosine, Geometric, LinearBeta


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass
class Case:
    process: Process
    x: Tensor
    """One row in the state's shape."""
    support: Tensor | None = None
    """All states that it can lead to, but for a negligible mass."""


def jump(encoding: object, *x: float, support: Tensor, schedule: object = None) -> Case:
    return Case(Jump(encoding, None, schedule or Cosine()), encoding.lift(d(x))[0], support)


SIMPLEX = grid(5, 5, 5)
CASES = {
    "exact": jump(Exact(2), 3, 5, support=grid(4, 6)),
    "exact, linear beta": jump(Exact(2), 3, 5, support=grid(4, 6), schedule=LinearBeta(0.001, 0.2, 50)),
    "randomised": jump(Randomised(d(2, 1)), 0.8, 1.5, support=grid(20, 20)),
    "randomised, geometric": jump(Randomised(d(2, 1)), 0.8, 0.0, support=grid(20, 2), schedule=Geometric(1e-3)),
    "one-hot": jump(Units(d(1), 3), 0, 1, 0, support=grid(2, 2, 2)[:, None]),
    "simplex": jump(Units(d(4), 3), 0.2, 0.5, 0.3, support=SIMPLEX[SIMPLEX.sum(-1) <= 4][:, None]),
    "interval": jump(Units(d(3, 2), 2, d(2.0, 1.0)), 0.5, 0.3, support=grid(4, 4, 3, 3).reshape(-1, 2, 2)),
    "gaussian": Case(GaussianDiffusion(d(-9, -9), d(9, 9), CosineAmplitude()), d(0.3, -1.2)),
    "uniform": Case(CategoricalDiffusion(2, Uniform(4), Cosine()), d(0, 2), grid(4, 4)),
    "discretised gaussian": Case(CategoricalDiffusion(2, DiscreteGaussian(4), Cosine()), d(0, 2), grid(4, 4)),
}
JUMPS = [name for name, case in CASES.items() if isinstance(case.process, Jump)]
FINITE = [name for name, case in CASES.items() if case.support is not None]
STEPS = [(0.2, 0.5), (0.0, 0.9), (0.5, 1.0)]


def times(t: float, rows: int) -> Tensor:
    return torch.full((rows, 1), t, dtype=torch.float64)


def many(x: Tensor, rows: int) -> Tensor:
    return x.expand(rows, *x.shape)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("s", "t"), STEPS)
def test_to_t_and_back_to_s_has_the_law_of_corrupting_to_s(name: str, s: float, t: float):
    process, x, rows = CASES[name].process, many(CASES[name].x, 4000), 4000
    z_t = process.corrupt(x, times(t, rows), generator(0))
    back = process.posterior(z_t, x, times(s, rows), times(t, rows)).sample(generator(1))
    assert same(back, process.corrupt(x, times(s, rows), generator(2))) > LEVEL


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize(("s", "t"), STEPS)
def test_marginal_and_posterior_agree_exactly(name: str, s: float, t: float):
    """Σ over z_t of q(z_t given x_0) q(z_s given z_t, x_0) = q(z_s given x_0)."""
    process, x, support = CASES[name].process, CASES[name].x, CASES[name].support
    size = len(support)
    at_t, at_s = (process.marginal(many(x, size), times(time, size)).log_prob(support) for time in (t, s))
    assert float(at_s.exp().sum()) == pytest.approx(1, abs=1e-8)
    reached = support[at_t > -torch.inf]
    z_t = reached.repeat_interleave(size, 0)
    pairs = len(z_t)
    posterior = process.posterior(z_t, many(x, pairs), times(s, pairs), times(t, pairs))
    back = posterior.log_prob(support.repeat(len(reached), *[1] * (support.dim() - 1))).reshape(-1, size)
    torch.testing.assert_close((at_t[at_t > -torch.inf, None] + back).exp().sum(0), at_s.exp(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", FINITE)
def test_draws_fit_the_marginal(name: str):
    case = CASES[name]
    drawn = case.process.corrupt(many(case.x, 4000), times(0.4, 4000), generator())
    log_prob = case.process.marginal(many(case.x, len(case.support)), times(0.4, len(case.support)))
    assert pearson(drawn, case.support, log_prob.log_prob(case.support)) > LEVEL


@pytest.mark.parametrize("name", CASES)
def test_same_generator_same_sample(name: str):
    process, x, t, s = CASES[name].process, many(CASES[name].x, 100), times(0.5, 100), times(0.2, 100)
    first, again = (process.corrupt(x, t, generator(5)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, process.corrupt(x, t, generator(6))) or name == "one-hot"
    assert torch.equal(
        *(process.posterior(first, x, s, t).sample(generator(7)) for _ in range(2)),
    )


@pytest.mark.parametrize("name", JUMPS)
def test_a_step_that_knows_the_data_is_the_posterior(name: str):
    case = CASES[name]
    x, t, s = many(case.x, 4000), times(0.5, 4000), times(0.2, 4000)
    z = case.process.corrupt(x, t, generator(0))
    known = Belief(case.process.encoding.missing(x, z, case.process.schedule.alpha(t)))
    stepped = case.process.step(z, known, t, s, generator(1))
    assert torch.equal(stepped, case.process.posterior(z, x, s, t).sample(generator(1)))


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


@pytest.mark.parametrize("name", JUMPS)
def test_jump_ends_at_exactly_zero_and_starts_there(name: str):
    process, x = CASES[name].process, many(CASES[name].x, 50)
    assert process.schedule.alpha(d(1.0)) == 0
    end = process.corrupt(x, times(1.0, 50), generator())
    assert torch.equal(end, process.prior(50, generator()))
    assert (end == 0).all()
    assert (process.marginal(x, times(1.0, 50)).log_prob(end) == 0).all()


@pytest.mark.parametrize("name", JUMPS)
def test_jump_chains_never_decrease(name: str):
    process, x = CASES[name].process, CASES[name].x
    rows = process.encoding.lower(torch.stack([x, x.flip(-1)]))
    oracle = EmpiricalOracle(process.encoding, process.schedule, rows)
    states = [step.z for step in chain(process, oracle, 200, process.grid(6), generator())]
    assert all((after >= before).all() for before, after in itertools.pairwise(states))
    assert (states[-1] > 0).any()


@pytest.mark.parametrize("name", JUMPS)
def test_at_time_zero_nothing_is_missing(name: str):
    process, x = CASES[name].process, many(CASES[name].x, 50)
    z_0 = process.encoding.law(x).sample(generator())
    missing = process.encoding.missing(x, z_0, process.schedule.alpha(times(0.0, 50)))
    assert (missing.mean == 0).all()
    assert (missing.sample(generator()) == 0).all()


@pytest.mark.parametrize("name", JUMPS)
def test_lifted_data_comes_back_and_latent_is_unbiased(name: str):
    encoding, x = CASES[name].process.encoding, CASES[name].x[None]
    lowered = encoding.lower(x)
    torch.testing.assert_close(encoding.lift(lowered), x)
    z_0 = encoding.law(many(x[0], 20_000)).sample(generator())
    torch.testing.assert_close(encoding.latent(z_0).mean(0), lowered[0], rtol=0.05, atol=0.01)


def test_the_first_interior_time_is_placed():
    process = Jump(Exact(1), None, Cosine(), last=0.8)
    assert process.grid(3).tolist() == pytest.approx([1.0, 0.8, 0.4, 0.0])
    drawn = process.draw_times(1000, generator())
    assert drawn[0] == 1
    assert 0.79 < drawn[1:].max() <= 0.8
