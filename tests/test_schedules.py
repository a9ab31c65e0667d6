import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from countjump.schedules import Cosine, Geometric, LinearBeta, Schedule

SCHEDULES = st.one_of(
    st.just(Cosine()),
    st.builds(Geometric, st.floats(1e-12, 0.5)),
    st.builds(LinearBeta, st.floats(1e-4, 0.01), st.floats(0.01, 0.3), st.integers(2, 300)),
)


@given(SCHEDULES)
def test_falls_from_one_to_zero(schedule: Schedule):
    alpha = schedule.alpha(torch.linspace(0, 1, 201))
    assert alpha.dtype == torch.float64
    assert alpha[0] == 1
    assert alpha[-1] == 0
    assert (alpha.diff() < 0).all()


@given(SCHEDULES, st.floats(0, 1), st.floats(0, 1))
def test_never_rises(schedule: Schedule, s: float, t: float):
    early, late = schedule.alpha(torch.tensor(sorted((s, t)), dtype=torch.float64))
    assert 1 >= early >= late >= 0


@given(SCHEDULES, st.floats(1e-15, 1))
def test_time_inverts_alpha(schedule: Schedule, alpha: float):
    t = schedule.time(alpha)
    assert 0 <= t <= 1
    reached = float(schedule.interior(torch.tensor(t, dtype=torch.float64)))
    lowest = float(schedule.interior(torch.tensor(1.0, dtype=torch.float64)))
    assert reached == pytest.approx(max(alpha, lowest), rel=1e-6, abs=1e-15)


@given(SCHEDULES, st.integers(1, 50), st.none() | st.floats(0.01, 0.999))
def test_grid_goes_down_from_one_to_zero(schedule: Schedule, steps: int, t_max: float | None):
    times = schedule.grid(steps, t_max)
    assert len(times) == steps + 1
    assert times[0] == 1
    assert times[-1] == 0
    assert (times.diff() < 0).all()
    if t_max is not None and steps > 1:
        assert times[1] == t_max
        np.testing.assert_allclose(times[1:].diff(), -t_max / (steps - 1))


@given(SCHEDULES, st.floats(0, 0.98), st.floats(0.001, 1), st.floats(0.001, 1))
def test_what_is_revealed_by_two_steps_is_what_is_revealed_by_one(schedule: Schedule, r: float, up: float, more: float):
    """A unit that is missing at t is still missing at r if the steps from t to s and from s to r both leave it out."""
    s = r + up * (1 - r) / 2
    t = s + more * (1 - s)
    times = [torch.tensor(each, dtype=torch.float64) for each in (r, s, t)]
    for early, late in ((0, 1), (1, 2), (0, 2)):
        assert 0 <= schedule.reveal(times[early], times[late]) <= 1
    left_out = (1 - schedule.reveal(times[1], times[2])) * (1 - schedule.reveal(times[0], times[1]))
    torch.testing.assert_close(left_out, 1 - schedule.reveal(times[0], times[2]), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(schedule.reveal(times[1], torch.ones(())), schedule.alpha(times[1]))


@given(SCHEDULES, st.integers(2, 40), st.none() | st.floats(0.01, 0.999), st.integers(0, 9))
def test_training_times_are_one_and_one_of_each_stretch(schedule: Schedule, count: int, t_max: float | None, seed: int):
    times = schedule.stratified_times(count, t_max, torch.Generator().manual_seed(seed))
    assert times[0] == 1
    stretch = times[1:] / (t_max or 1.0) * (count - 1)
    first = torch.arange(count - 1, dtype=torch.float64)
    assert (stretch >= first - 1e-9).all()
    assert (stretch <= first + 1 + 1e-9).all()


def test_grid_needs_a_step():
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        Cosine().grid(0)


def test_alpha_keeps_the_shape_and_device_of_time():
    for schedule in (Cosine(), Geometric(), LinearBeta()):
        assert schedule.alpha(torch.rand(3, 1)).shape == (3, 1)


def test_linear_beta_interpolates_ln_alpha():
    schedule = LinearBeta(0.01, 0.2, 10)
    at = schedule.alpha(torch.tensor([0.3, 0.35, 0.4], dtype=torch.float64)).log()
    assert float(at[1]) == pytest.approx(float(at[0] + at[2]) / 2)


@given(st.floats(1e-3, 1e5), st.integers(50, 1000))
def test_linear_beta_ends_at_the_log_snr(scale: float, timesteps: int):
    schedule = LinearBeta.solve(scale, timesteps=timesteps)
    assert 0.001 < schedule.beta_last < 1
    assert math.log(scale * float(schedule.interior(torch.tensor(1.0)))) == pytest.approx(-12, abs=1e-5)


@pytest.mark.parametrize("wrong", [{"scale": 0.0}, {"scale": 1.0, "beta_first": 1.5}, {"scale": 1.0, "timesteps": 1}])
def test_linear_beta_refuses_what_makes_no_schedule(wrong: dict[str, float]):
    with pytest.raises(ValueError, match="LinearBeta needs"):
        LinearBeta.solve(**wrong)
