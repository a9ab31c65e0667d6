"""The trainer by itself, on losses that have nothing to do with diffusion."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from countjump.atomic import write_atomically
from countjump.trainer import CheckpointError, Settings, _Order, train


class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.zeros(2))


def settings(**changes):
    return Settings(**({"updates": 300, "batch_size": 8, "learning_rate": 0.05, "progress": False} | changes))


def quadratic(point, target=3.0):
    return lambda rows, generator: ((point.place - target) ** 2).sum()


@pytest.mark.parametrize("lr_schedule", ["cosine", "constant"])
def test_it_minimises(lr_schedule):
    point = Point()
    history = train(point, quadratic(point), 80, settings(lr_schedule=lr_schedule, ema=0.9))
    torch.testing.assert_close(point.place.detach(), torch.full((2,), 3.0), atol=0.05, rtol=0)
    assert history[-1]["update"] == 300
    assert history[-1]["loss"] < history[0]["loss"]


def test_matrices_decay_and_vectors_do_not():
    layer = torch.nn.Linear(3, 2)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.ones_(layer.bias)

    def nothing(rows, generator):
        return 0 * (layer.weight.sum() + layer.bias.sum())

    train(layer, nothing, 80, settings(updates=50, learning_rate=0.1, weight_decay=0.5, ema=0.0, warmup=0))
    assert 0.1 < float(layer.weight.detach().max()) < 0.5
    assert (layer.bias == 1).all()


def test_weights_held_together_move_as_by_adamw_on_each_and_are_given_back_apart():
    module, plain = (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(2))
    plain.load_state_dict(module.state_dict())
    x = torch.arange(6.0).reshape(2, 3)
    train(
        module,
        lambda rows, generator: module(x).square().sum(),
        8,
        settings(updates=7, lr_schedule="constant", warmup=0, ema=0.0, weight_decay=0.3, clip=math.inf),
    )
    groups = [
        {
            "params": [weight for weight in plain.parameters() if (weight.ndim > 1) == decays],
            "weight_decay": 0.3 * decays,
        }
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
        assert mine.untyped_storage().nbytes() == mine.nbytes


def test_weights_of_two_dtypes_are_refused():
    module = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2).double()])
    with pytest.raises(ValueError, match="dtypes"):
        train(module, lambda rows, generator: module[0].weight.sum(), 8, settings())


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    point, where = Point(), {"checkpoint": tmp_path / "checkpoint", "updates": 20}
    train(point, quadratic(point), 80, settings(**where))
    train(point, quadratic(point), 80, settings(**where, checkpoint_every=3))
    with pytest.raises(CheckpointError, match="another fit"):
        train(point, quadratic(point), 80, settings(**where | {"batch_size": 4}))


def test_every_row_is_visited_once_an_epoch_and_batches_are_stratified():
    key = np.random.default_rng(0).random(100)
    order = _Order(100, 10, seed=0, strata=key)
    first = np.concatenate([order.batch(update) for update in range(10)])
    assert sorted(first) == list(range(100))
    strata = np.argsort(np.argsort(key)) // 10
    for update in range(20):
        assert sorted(strata[order.batch(update)]) == list(range(10))
    assert (np.concatenate([order.batch(update) for update in range(10, 20)]) != first).any()
    np.testing.assert_array_equal(_Order(100, 10, seed=0, strata=key).batch(13), order.batch(13))


def test_a_batch_larger_than_the_data_is_the_data():
    assert sorted(_Order(3, 10, seed=0).batch(5)) == [0, 1, 2]


def test_the_best_validated_weights_are_kept_and_patience_stops():
    point = Point()
    seen = []

    def validation():
        seen.append(point.place.detach().clone())
        return float((point.place.detach() - 1.0).abs().sum())  # best half way to 3

    history = train(point, quadratic(point), 80, settings(ema=0.0, validations=60, patience=3), validation)
    assert len(history) < 60, "stopped early"
    best = min(record["validation_loss"] for record in history)
    assert float((point.place.detach() - 1.0).abs().sum()) == pytest.approx(best, abs=1e-3)


def test_the_average_is_an_average():
    point = Point()
    train(
        point,
        lambda rows, generator: point.place.sum(),
        8,
        settings(updates=40, lr_schedule="constant", warmup=0, ema=0.99),
    )
    assert -40 * 0.05 < float(point.place.detach()[0]) < -0.3, "lags behind the last weights"


def test_warm_up_then_decay():
    plan = settings(warmup=10, updates=100, learning_rate=1.0)
    rates = [plan.rate(update) for update in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == 1.0
    assert rates[-1] < 0.01
    assert settings(lr_schedule="constant", warmup=1, learning_rate=1.0).rate(299) == 1.0


def test_gradients_are_clipped():
    point = Point()
    optimiser_step = []
    train(
        point,
        lambda rows, generator: 1e6 * point.place.sum(),
        8,
        settings(updates=1, clip=0.5),
        lambda: optimiser_step.append(point.place.grad.norm().item()) or 0.0,
    )
    assert optimiser_step[0] == pytest.approx(0.5, rel=1e-3)


def test_a_loss_that_is_not_a_number_stops_with_advice():
    point = Point()
    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        train(point, lambda rows, generator: point.place.sum() * math.nan, 8, settings())


def test_randomness_is_a_function_of_seed_and_update():
    draws = {}
    for run in range(2):
        point = Point()
        draws[run] = []

        def loss(rows, generator, point=point, run=run):
            draws[run].append((rows.tolist(), float(torch.rand(1, generator=generator))))
            return point.place.square().sum()

        train(point, loss, 40, settings(updates=12, seed=5))
    assert draws[0] == draws[1]
    assert len({number for _, number in draws[0]}) == 12


def test_a_progress_bar_shows_loss(capsys):
    point = Point()
    train(point, quadratic(point), 8, settings(progress=True, updates=20), lambda: 0.0)
    shown = capsys.readouterr().err
    assert "fit" in shown
    assert "loss=" in shown


def test_writing_is_atomic(tmp_path):
    write_atomically(tmp_path / "deep" / "file", b"one")
    write_atomically(tmp_path / "deep" / "file", b"two")
    assert (tmp_path / "deep" / "file").read_bytes() == b"two"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["file"]


def test_a_loss_within_a_thousandth_of_the_best_is_as_good():
    point, values = Point(), iter([500.0, 499.0, 499.4, 499.4, 499.4])
    train(point, quadratic(point), 80, settings(updates=5, validations=5, ema=0.0, warmup=0), lambda: next(values))
    other, values = Point(), iter([500.0, 499.0, 500.4, 500.4, 500.4])
    train(other, quadratic(other), 80, settings(updates=5, validations=5, ema=0.0, warmup=0), lambda: next(values))
    assert (point.place > other.place).all(), "the last weights are nearer to 3 than the second"


def test_what_is_held_is_not_trained():
    layer = torch.nn.Linear(3, 2)
    layer.bias.requires_grad_(False)
    before = layer.bias.clone()
    train(layer, lambda rows, generator: layer(torch.ones(1, 3)).square().sum(), 80, settings(weight_decay=0.5))
    assert torch.equal(layer.bias, before)


def test_what_is_validated_is_averaged_up_to_now(monkeypatch):
    """Also between two additions to the average; and each update has its share of it."""
    monkeypatch.setattr(Settings, "average_every", lambda self, update: 4)
    module, seen = torch.nn.Linear(1, 1, bias=False), []

    def validation() -> float:
        seen.append(float(module.weight.detach()))
        return -len(seen)

    def loss(rows, generator):
        return (module.weight - 50).abs().sum()

    torch.nn.init.zeros_(module.weight)
    how = {"batch_size": 1, "warmup": 0, "lr_schedule": "constant", "learning_rate": 0.1, "progress": False}
    train(module, loss, 4, Settings(updates=100, ema=0.5, validations=10, **how), validation)
    # Validated after 10, 20, ... updates; added after 4, 8, 10, 14, 18, 20, ...
    added = [base + offset for base in range(0, 100, 10) for offset in (4, 8, 10)]
    average, before, expected = 0.0, 0, []
    for update in added:
        decay = 0.5 ** (update - before)
        average, before = decay * average + (1 - decay) * 0.1 * update, update
        expected += [average] if update % 10 == 0 else []
    assert seen == pytest.approx(expected, abs=1e-3)
