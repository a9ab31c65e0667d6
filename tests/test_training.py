"""The loop of training by itself, on losses that have nothing to do with diffusion."""

import io
import math
import re
import sys

import numpy as np
import pytest
import torch
from tables import counts, quick, wide_counts
from torch import nn

from countjump import progress
from countjump.atomic import write_atomically
from countjump.blocks.base import Stage
from countjump.training import CheckpointError, Settings, loop, run
from countjump.training.batches import Batches


class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.zeros(2))
        self.other = nn.Parameter(torch.zeros(2))


def stage(module, loss, rows=80, **changes):
    given = {
        "name": "point",
        "parameters": list(module.parameters()),
        "updates": 300,
        "batch_size": 8,
        "learning_rate": 0.05,
    }
    return Stage(**(given | {"loss": loss, "rows": np.arange(rows)} | changes))


def train(module, loss, rows=80, checkpoint=None, checkpoint_every=None, seed=0, shown=False, **changes):
    """One stage by itself; its history."""
    settings = Settings(seed, checkpoint, checkpoint_every, "test", shown)
    return run(module, [stage(module, loss, rows, **changes)], settings)["point"]


def quadratic(point, target=3.0):
    return lambda rows, generator: ((point.place - target) ** 2).sum()


@pytest.mark.parametrize("lr_schedule", ["cosine", "constant"])
def test_it_minimises(lr_schedule):
    point = Point()
    history = train(point, quadratic(point), lr_schedule=lr_schedule, ema=0.9)
    torch.testing.assert_close(point.place.detach(), torch.full((2,), 3.0), atol=0.05, rtol=0)
    assert history[-1]["update"] == 300
    assert history[-1]["loss"] < history[0]["loss"]


def test_matrices_decay_and_vectors_do_not():
    layer = nn.Linear(3, 2)
    nn.init.ones_(layer.weight)
    nn.init.ones_(layer.bias)

    def nothing(rows, generator):
        return 0 * (layer.weight.sum() + layer.bias.sum())

    train(layer, nothing, updates=50, learning_rate=0.1, weight_decay=0.5, ema=0.0)
    assert 0.1 < float(layer.weight.detach().max()) < 0.5
    assert (layer.bias == 1).all()


def test_weights_move_as_by_adamw(monkeypatch):
    monkeypatch.setattr(loop, "CLIP", math.inf)
    module, plain = (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(2))
    plain.load_state_dict(module.state_dict())
    before = list(module.parameters())
    x = torch.arange(6.0).reshape(2, 3)
    train(
        module,
        lambda rows, generator: module(x).square().sum(),
        updates=7,
        lr_schedule="constant",
        ema=0.0,
        weight_decay=0.3,
    )
    groups = [
        {"params": [w for w in plain.parameters() if (w.ndim > 1) == decays], "weight_decay": 0.3 * decays}
        for decays in (True, False)
    ]
    optimiser = torch.optim.AdamW(groups, lr=0.05)
    for _ in range(7):
        optimiser.zero_grad()
        plain(x).square().sum().backward()
        optimiser.step()
    for mine, other in zip(module.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
        assert mine.grad is None
    assert all(now is then for now, then in zip(module.parameters(), before, strict=True)), "ordinary parameters"


# Stages.


def test_stages_run_one_after_another_each_on_its_own_parameters_and_rows():
    point, seen = Point(), []

    def loss_of(name, weight, target):
        def loss(rows, generator):
            seen.append((name, set(rows.tolist())))
            return ((weight - target) ** 2).sum() + 0 * point.place.sum()

        return loss

    def begin():
        seen.append(("begin", torch.equal(point.place, torch.zeros(2))))

    stages = [
        stage(point, loss_of("first", point.place, 1.0), name="first", parameters=[point.place], ema=0.5),
        stage(
            point, loss_of("second", point.other, 2.0), name="second", parameters=[point.other], ema=0.5, start=begin
        ),
        stage(point, loss_of("third", point.other, 9.0), name="third", updates=0),
    ]
    stages[1].rows[:] = np.arange(100, 180)
    histories = run(point, stages, Settings(progress=False))
    names = [name for name, _ in seen]
    assert names == ["first"] * 300 + ["begin"] + ["second"] * 300
    assert seen[300] == ("begin", False), "after the first"
    assert set().union(*(rows for name, rows in seen if name == "first")) == set(range(80))
    assert set().union(*(rows for name, rows in seen if name == "second")) == set(range(100, 180))
    torch.testing.assert_close(point.place.detach(), torch.full((2,), 1.0), atol=0.01, rtol=0)
    torch.testing.assert_close(point.other.detach(), torch.full((2,), 2.0), atol=0.01, rtol=0)
    assert [len(histories[name]) for name in ("first", "second", "third")] == [20, 20, 0]


def test_parameters_of_other_stages_get_no_gradient_and_do_not_move():
    layer = nn.Linear(3, 2)
    before = layer.bias.detach().clone()
    train(
        layer,
        lambda rows, generator: layer(torch.ones(1, 3)).square().sum(),
        parameters=[layer.weight],
        weight_decay=0.5,
    )
    assert torch.equal(layer.bias, before)
    assert layer.bias.grad is None


@pytest.mark.parametrize("moment", [5, 12, 17, 25])
def test_a_run_that_is_interrupted_in_any_stage_ends_as_one_that_is_not(moment, tmp_path):
    """What is done once before a stage is done once."""
    begun = []

    def fit(point, until=10**9, checkpoint=None):
        left = iter(range(until))

        def loss_of(weight):
            def loss(rows, generator):
                next(left)
                noise = torch.randn(2, generator=generator)
                return ((weight - rows.mean() + noise) ** 2).sum()

            return loss

        def begin():
            begun.append(checkpoint)
            with torch.no_grad():
                point.other.add_(7.0)

        stages = [
            stage(point, loss_of(point.place), name="one", parameters=[point.place], updates=10),
            stage(point, loss_of(point.other), name="two", parameters=[point.other], updates=10, start=begin),
            stage(point, loss_of(point.place), name="three", updates=10, parameters=[point.place, point.other][:1]),
        ]
        return run(point, stages, Settings(checkpoint=checkpoint, checkpoint_every=3, progress=False))

    whole, halves, resumed = Point(), Point(), Point()
    histories = fit(whole)
    with pytest.raises((StopIteration, RuntimeError)):
        fit(halves, until=moment, checkpoint=tmp_path / "checkpoint")
    assert fit(resumed, checkpoint=tmp_path / "checkpoint") == histories
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    assert begun.count(None) == 1


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    point, where = Point(), {"checkpoint": tmp_path / "checkpoint", "updates": 20}
    train(point, quadratic(point), **where)
    train(point, quadratic(point), **where, checkpoint_every=3)
    with pytest.raises(CheckpointError, match="another fit"):
        train(point, quadratic(point), **where | {"batch_size": 4})


# Batches.


def test_every_row_is_visited_once_an_epoch_and_batches_are_stratified():
    key = np.random.default_rng(0).random(100)
    order = Batches(100, 10, key=(0, 0), strata=key)
    first = np.concatenate([order.rows(update) for update in range(10)])
    assert sorted(first) == list(range(100))
    strata = np.argsort(np.argsort(key)) // 10
    for update in range(20):
        assert sorted(strata[order.rows(update)]) == list(range(10))
    assert (np.concatenate([order.rows(update) for update in range(10, 20)]) != first).any()
    np.testing.assert_array_equal(Batches(100, 10, key=(0, 0), strata=key).rows(13), order.rows(13))


def test_a_batch_larger_than_the_data_is_the_data():
    assert sorted(Batches(3, 10, key=(0, 0)).rows(5)) == [0, 1, 2]


# Averages, validation, rates.


def test_the_best_validated_weights_are_kept_and_patience_stops(monkeypatch):
    monkeypatch.setattr(loop, "VALIDATIONS", 60)
    monkeypatch.setattr(loop, "PATIENCE", 3)
    point = Point()

    def validation():
        return float((point.place.detach() - 1.0).abs().sum())  # best half way to 3

    history = train(point, quadratic(point), ema=0.0, validation=validation)
    assert len(history) < 60, "stopped early"
    best = min(record["validation_loss"] for record in history)
    assert validation() == pytest.approx(best, abs=1e-3)


def test_the_average_is_an_average():
    point = Point()
    train(point, lambda rows, generator: point.place.sum(), updates=40, lr_schedule="constant", ema=0.99)
    assert -40 * 0.05 < float(point.place.detach()[0]) < -0.3, "lags behind the last weights"


def test_warm_up_then_decay():
    plan = stage(Point(), None, updates=100, learning_rate=1.0)
    rates = [loop.learning_rate(plan, update) for update in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == 1.0
    assert rates[-1] < 0.01
    constant = stage(Point(), None, lr_schedule="constant", learning_rate=1.0)
    assert loop.learning_rate(constant, 299) == 1.0


def test_gradients_are_clipped(monkeypatch):
    monkeypatch.setattr(loop, "CLIP", 0.5)
    point, seen = Point(), []
    step = torch.optim.AdamW.step
    monkeypatch.setattr(
        torch.optim.AdamW, "step", lambda self: seen.append(point.place.grad.norm().item()) or step(self)
    )
    train(point, lambda rows, generator: 1e6 * point.place.sum(), updates=1)
    assert seen[0] == pytest.approx(0.5, rel=1e-3)


def test_a_loss_that_is_not_a_number_stops_with_advice():
    point = Point()
    with pytest.raises(FloatingPointError, match=r"point.* is nan, .*: lower learning_rate"):
        train(point, lambda rows, generator: point.place.sum() * math.nan)


def test_randomness_is_a_function_of_seed_and_update():
    draws = {}
    for each in range(2):
        point = Point()
        draws[each] = []

        def loss(rows, generator, point=point, each=each):
            draws[each].append((rows.tolist(), float(torch.rand(1, generator=generator))))
            return point.place.square().sum()

        train(point, loss, rows=40, updates=12, seed=5)
    assert draws[0] == draws[1]
    assert len({number for _, number in draws[0]}) == 12


def test_every_stage_has_rows_and_random_numbers_of_its_own():
    point, draws = Point(), []

    def loss(rows, generator):
        draws.append((tuple(rows), float(torch.rand(1, generator=generator))))
        return point.place.square().sum()

    run(point, [stage(point, loss, updates=5, name=name) for name in ("first", "second")], Settings(5, progress=False))
    assert [len(set(each)) for each in zip(*draws, strict=True)] == [10, 10]


def test_a_loss_within_a_thousandth_of_the_best_is_as_good(monkeypatch):
    monkeypatch.setattr(loop, "VALIDATIONS", 5)
    places = []
    for last in (499.4, 500.4):
        point, values = Point(), iter([500.0, 499.0, last, last, last])
        train(point, quadratic(point), updates=5, ema=0.0, validation=lambda values=values: next(values))
        places.append(point.place.detach())
    assert (places[0] > places[1]).all(), "the last weights are nearer to 3 than the second"


def test_what_is_validated_is_averaged_up_to_now(monkeypatch):
    """Also between two additions to the average; and each update has its share of it."""
    monkeypatch.setattr(loop, "average_every", lambda stage, update: 4)
    monkeypatch.setattr(loop, "VALIDATIONS", 10)
    module, seen, places = nn.Linear(1, 1, bias=False), [], [0.0]

    def validation() -> float:
        seen.append(float(module.weight.detach()))
        return -len(seen)

    def loss(rows, generator):
        places.append(float(module.weight.detach()))
        return (module.weight - 50).abs().sum()

    nn.init.zeros_(module.weight)
    train(
        module,
        loss,
        rows=4,
        updates=100,
        batch_size=1,
        lr_schedule="constant",
        learning_rate=0.1,
        ema=0.5,
        validation=validation,
    )
    # The weight after update k is what update k + 1 finds. Validated after 10, 20, ... updates; added after 4, 8, 10, 14, ...
    after = places[2:]
    average, before, expected = 0.0, 0, []
    for update in [base + offset for base in range(0, 90, 10) for offset in (4, 8, 10)]:
        share = min(0.5, (1 + update) / (10 + update)) ** (update - before)
        average, before = share * average + (1 - share) * after[update - 1], update
        expected += [average] if update % 10 == 0 else []
    assert seen[:9] == pytest.approx(expected, abs=1e-4)


# Progress.


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_a_bar_says_what_is_fitted_and_its_loss(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    point = Point()
    train(point, quadratic(point), shown=True, updates=20, validation=lambda: 0.0)
    assert "fitting the point" in screen.getvalue()
    assert "loss" in screen.getvalue()
    assert "100%" in screen.getvalue()


def test_in_a_log_file_there_is_a_line_now_and_then_and_no_bar(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    quick(progress=True, max_updates=30).fit(wide_counts())
    lines = log.getvalue().splitlines()
    for name in ("totals", "network", "calibration", "strengths"):
        mine = [line for line in lines if line.startswith(f"countjump: fitting the {name}, ")]
        done, whole = re.fullmatch(r"(\d+) of (\d+) updates", mine[-1].split(", ")[1]).groups()
        assert len(mine) == int(done) <= int(whole)
        assert ", loss " in mine[-1]
    assert all(line.startswith("countjump: ") for line in lines)
    assert "\r" not in log.getvalue()
    assert "%|" not in log.getvalue()


def test_a_short_fit_says_nothing_in_a_log_file_and_with_progress_off_nothing_anywhere(monkeypatch, capsys):
    quick(progress=True, max_updates=3).fit(counts())
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    quick(progress=False, max_updates=3).fit(counts()).sample(2, steps=2)
    assert capsys.readouterr() == ("", "")


def test_writing_is_atomic(tmp_path):
    write_atomically(tmp_path / "deep" / "file", b"one")
    write_atomically(tmp_path / "deep" / "file", b"two")
    assert (tmp_path / "deep" / "file").read_bytes() == b"two"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["file"]
