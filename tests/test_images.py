"""Pictures through the whole model: shapes and dtypes, bounds, labels, inpainting, options of training."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from block_examples import pictured

from countjump import Bounded, Count, JumpModel, NonNegative
from countjump.data import Pictures
from countjump.laws import Binomial
from countjump.networks import UNetSizes
from countjump.samplers import Churn
from countjump.training import CheckpointError

TINY = UNetSizes(multipliers=(1, 2), blocks=1, dropout=0.1)
SHAPES = [(5, 6), (5, 6, 1), (4, 5, 3)]


def pictures(shape: tuple[int, ...] = (5, 6), rows: int = 40, largest: int = 9) -> np.ndarray:
    """A bright left half or a bright right one."""
    g = np.random.default_rng(0)
    left = g.random((rows, *[1] * len(shape))) < 0.5
    side = (np.arange(shape[1]) < shape[1] / 2).reshape(1, 1, -1, *[1] * (len(shape) - 2))
    rate = np.where(left == side, 0.8, 0.05) * np.ones((rows, *shape))
    found = g.binomial(largest, rate)
    found[0].flat[0] = largest
    return found.astype(np.uint8)


def fitted(X: np.ndarray, y: object = None, **options: object) -> JumpModel:
    given = {"network": TINY, "width": 4, "max_updates": 3, "batch_size": 16, "random_state": 0, "progress": False}
    return JumpModel(**(given | options)).fit(X, y)


def weights(model: JumpModel) -> list[torch.Tensor]:
    return list(model.denoiser_.state_dict().values())


def same(one: JumpModel, other: JumpModel) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_pictures_come_back_as_they_went_in(shape: tuple[int, ...], tmp_path: Path):
    X = pictures(shape)
    model = fitted(X)
    drawn = model.sample(3, steps=3, random_state=0)
    assert (drawn.shape, drawn.dtype) == ((3, *shape), np.uint8)
    assert drawn.max() <= 9
    assert model.n_features_in_ == math.prod(shape)
    model.save(tmp_path / "model")
    again = JumpModel.load(tmp_path / "model")
    np.testing.assert_array_equal(again.sample(3, steps=3, random_state=0), drawn)
    np.testing.assert_array_equal(again.score_samples(X[:2], steps=3), model.score_samples(X[:2], steps=3))
    assert again.network == TINY


@pytest.mark.parametrize("belief", ["poisson", "mixture", "logistic", "categorical"])
def test_every_belief_has_a_likelihood_and_keeps_its_bound(belief: str):
    X = pictures()
    model = fitted(X, belief=belief)
    assert model.belief_ == belief
    scores = model.score_samples(X[:3], steps=4)
    assert np.isfinite(scores).all()
    assert (scores < 0).all()
    assert model.sample(20, steps=3, random_state=0).max() <= 9
    impossible = X[:1].copy()
    impossible[0, 0, 0] = 10
    assert (
        model.score_samples(impossible, steps=4)[0] < scores[0] - 2
    )  # it has the escape mass of the one that it mirrors


def test_reals_come_back_as_reals_of_256_levels():
    X = (pictures() / 9).astype(np.float32)
    model = fitted(X)
    drawn = model.sample(5, steps=3, random_state=0)
    assert drawn.dtype == np.float32
    assert 0 <= drawn.min() <= drawn.max() <= 1
    np.testing.assert_allclose(drawn * 255, np.rint(drawn * 255), atol=1e-3)
    assert "rounded" in model.choices_["domain"]
    assert "rounded" not in fitted((pictures() * 20 / 255).astype(np.float32)).choices_["domain"]


def test_a_list_of_pictures_is_their_array():
    X = pictures((4, 5, 3))
    assert same(fitted(X), fitted(list(X)))
    model = fitted(list(X))
    np.testing.assert_array_equal(model.score_samples(list(X[:2]), steps=3), model.score_samples(X[:2], steps=3))
    known = np.zeros((2, 4, 5, 3), dtype=bool)
    known[:, 0] = True
    assert model.complete(list(X[:2]), list(known), steps=2).shape == (2, 4, 5, 3)
    with pytest.raises(ValueError, match=r"X\[1\] is of shape \(3, 5, 3\), and X\[0\] of shape \(4, 5, 3\)"):
        fitted([X[0], X[1][1:]])


def test_many_pictures_have_alternatives_where_these_are_light():
    few, many = pictures((2, 2), rows=200), pictures((2, 2), rows=5000)
    many[0, 0, 0] = few[0, 0, 0] = 40
    found = {}
    for belief in ("logistic", "categorical", "mixture", "poisson"):
        for name, X in (("few", few), ("many", many), ("many of few levels", np.minimum(many, 9))):
            model = fitted(X, belief=belief, max_updates=1, validation_fraction=0.0)
            found[belief, name] = model.block_.alternatives
            assert np.isfinite(model.score_samples(X[1:3], steps=2)).all()
    light = {("logistic", "many"), ("logistic", "many of few levels"), ("categorical", "many of few levels")}
    assert {key for key, number in found.items() if number == 8} == light
    assert set(found.values()) == {1, 8}


def test_reals_that_are_all_nought_or_one_are_two_levels():
    X = (pictures() > 4).astype(np.float32)
    model = fitted(X)
    drawn = model.sample(5, steps=3, random_state=0)
    assert (model.plan_.domain, model.belief_, drawn.dtype) == (Count(1), "categorical", np.float32)
    assert set(np.unique(drawn)) <= {0, 1}


def test_pictures_of_reals_are_on_their_levels_wherever_they_are_read():
    """They are rounded as by the fit: so scored, and the same pictures in bytes are deepened and completed to the same."""
    levels = np.random.default_rng(0).integers(0, 256, (40, 5, 6)).astype(np.uint8)
    X = levels / 255
    reals, whole = fitted(X), fitted(levels, domain=Count(255))
    off = (X + np.where(levels == 255, 0, 0.4 / 255)).astype(
        np.float32
    )  # to their nearest levels as far as 0.4 of a step
    np.testing.assert_allclose(reals.score_samples(off[:3], steps=3), reals.score_samples(X[:3], steps=3))
    dim = np.random.default_rng(1).binomial(levels[:3], 0.4).astype(np.uint8)
    expected = whole.deepen(dim, 0.4, steps=4, random_state=0) / 255
    np.testing.assert_allclose(reals.deepen(dim / 255, 0.4, steps=4, random_state=0), expected)
    np.testing.assert_allclose(reals.denoise(dim / 255, 0.4), whole.denoise(dim, 0.4) / 255, rtol=1e-6)
    known = np.zeros(off[:3].shape, dtype=bool)
    known[:, :, :3] = True
    completed = reals.complete(off[:3], known, steps=4, random_state=0)
    np.testing.assert_allclose(completed[known], off[:3][known], rtol=1e-7)
    in_bytes = whole.complete(levels[:3], known, steps=4, random_state=0)
    np.testing.assert_allclose(completed[~known], in_bytes[~known] / 255)
    with pytest.raises(ValueError, match=r"is above the column's bound 1"):
        reals.complete(off[:3] + 1, known)


def test_the_papers_process_randomises_and_has_no_likelihood():
    X = pictures()
    for given, lam in ((X, 4.0), (X / 255, 4.0 * 255)):
        model = fitted(given, process="poisson", lam=lam)
        assert (model.belief_, model.process_name_) == ("poisson", "poisson")
        np.testing.assert_allclose(model.lam_, 4.0)
        assert model.sample(4, steps=3, random_state=0).max() <= (9 if given is X else 1)
        with pytest.raises(ValueError, match="no likelihood"):
            model.score_samples(given[:1])
    with pytest.raises(ValueError, match="knows the bound of a picture"):
        fitted(X, process="poisson", belief="mixture")
    with pytest.raises(ValueError, match="lam scales data"):
        fitted(X, process="binomial", lam=3.0)


@pytest.mark.parametrize("network", ["auto", "unet", "mlp"])
def test_auto_takes_the_unet_for_pictures(network: str):
    model = fitted(pictures(), network=network)
    assert model.plan_.network == ("mlp" if network == "mlp" else "unet")
    assert model.sample(2, steps=2).shape == (2, 5, 6)


def test_a_step_of_a_chain_thins_as_every_other_and_the_first_lays_two_units():
    X = pictures()
    process = fitted(X).process_
    alpha = process.schedule.alpha(process.grid(8))
    assert alpha[0] == 0
    assert float(alpha[1] * X.sum((1, 2)).mean()) == pytest.approx(2)
    torch.testing.assert_close(alpha[2:] / alpha[1:-1], (alpha[2] / alpha[1]).expand(7))


def test_tables_have_the_mlp_and_cannot_have_the_unet():
    X = pictures().reshape(40, -1)
    assert fitted(X, network="auto").plan_.network == "mlp"
    for network in ("unet", TINY):
        with pytest.raises(ValueError, match="needs pictures"):
            fitted(X, network=network)


def test_a_network_of_ones_own_sees_pictures_channels_first():
    seen = []

    class Own(torch.nn.Module):
        def __init__(self, inputs: int, outputs: int, width: int) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(inputs, outputs)

        def forward(self, features, t, condition=None):
            seen.append(features)
            return self.layer(features)

    model = fitted(pictures((4, 5, 3)), network=Own)
    assert seen[0].shape[1] == 4 * 3 * 4 * 5
    assert model.sample(2, steps=2).shape == (2, 4, 5, 3)


def test_channels_are_not_mixed_up():
    block = pictured(5).block
    z = torch.arange(12, dtype=torch.float64)[None] % 5
    alpha = torch.full((1, 1), 0.5).double()
    views = block.features(z, alpha).reshape(4, 2, 3, 2)  # view, channel, height, width
    rows = z.reshape(3, 2, 2)  # height, width, channel
    order = views[0].permute(1, 2, 0).double()
    assert torch.equal(order.flatten().argsort(stable=True), rows.flatten().argsort(stable=True))
    output = torch.arange(block.outputs, dtype=torch.float32)[None]
    first_of_number_two = block.by_column(output)[0, :, 2].reshape(3, 2, 2)
    assert torch.equal(first_of_number_two.permute(2, 0, 1).flatten(), output[0, 24:36].double())


def test_a_zero_answer_of_the_categorical_belief_is_the_histograms_posterior():
    example = pictured(5)
    block, z = example.block, torch.full((1, 12), 2.0).double()
    alpha = torch.full((1, 1), 0.3).double()
    belief = block.belief(torch.zeros(1, block.outputs), z, alpha)
    levels = torch.arange(5).double()
    posterior = block.log_histogram + Binomial(levels, alpha[0]).log_prob(z[0, 0])
    for missing in range(3):
        value = torch.zeros(1, 12).double()
        value[0, 0] = missing
        other = torch.zeros(1, 12).double()
        change = belief.missing.log_prob(value) - belief.missing.log_prob(other)
        torch.testing.assert_close(change[0], posterior[2 + missing] - posterior[2])


def test_labels_guidance_and_samplers():
    X = pictures()
    model = fitted(X, np.where(X[:, 0, 0] > 4, "left", "right"))
    drawn, own = model.sample(4, steps=3, y="left", guidance=2.0, random_state=0, return_y=True, sampler="churn")
    assert drawn.shape == (4, 5, 6)
    assert set(own) == {"left"}
    for sampler in ("low-noise", "second-order", Churn(0.1)):
        assert model.sample(2, steps=3, y="right", random_state=0, sampler=sampler).max() <= 9
    np.testing.assert_array_equal(
        model.sample(3, steps=3, random_state=0, sampler="low-noise")[1:2],
        model.sample(2, steps=3, random_state=0, sampler="low-noise")[1:],
    )
    assert np.isfinite(model.score_samples(X[:2], "left", steps=3)).all()


def test_a_dim_picture_is_deepened_and_a_part_of_one_completed():
    X = pictures()
    model = fitted(X)
    dim = np.random.default_rng(1).binomial(X[:3], 0.4).astype(np.uint8)
    deep = model.deepen(dim, 0.4, steps=4, random_state=0)
    assert deep.shape == dim.shape
    assert ((deep >= dim) & (deep <= 9)).all()
    expected = model.denoise(dim, 0.4)
    assert expected.shape == dim.shape
    assert (expected >= dim).all()
    known = np.zeros(X[:3].shape, dtype=bool)
    known[:, :, :3] = True
    whole = model.complete(X[:3], known, steps=4, random_state=0)
    np.testing.assert_array_equal(whole[known], X[:3][known])
    assert whole.shape == X[:3].shape


def test_a_trained_model_knows_left_from_right():
    """The halves of a picture exclude each other, which no law of pixels apart can say; inpainting follows what is known."""
    X = pictures((4, 4), rows=200)
    model = fitted(
        X, max_updates=150, width=8, learning_rate=3e-3, batch_size=32, network=UNetSizes((1,), 1, dropout=0.0)
    )
    drawn = model.sample(60, steps=15, random_state=0)
    left, right = drawn[:, :, :2].mean((1, 2)), drawn[:, :, 2:].mean((1, 2))
    assert (np.abs(left - right) > 3).mean() > 0.85
    assert 0.2 < (left > right).mean() < 0.8
    known = np.zeros(X.shape, dtype=bool)
    known[:, :, 0] = True
    given = model.complete(X[:60], known[:60], steps=15, random_state=0)
    assert ((given[:, :, :2].mean((1, 2)) > 4) == (X[:60, :, :2].mean((1, 2)) > 4)).mean() > 0.9


# Options of training.


def test_callbacks_see_the_model_and_change_nothing():
    seen = []

    def look(update: int, losses: dict[str, float], model: JumpModel) -> None:
        seen.append((update, set(losses), model.sample(2, steps=2, random_state=update).shape))

    plain, watched = fitted(pictures()), fitted(pictures(), callbacks=[look])
    assert same(plain, watched)
    assert [update for update, *_ in seen] == [1, 2, 3]
    assert seen[0][1:] == ({"loss", "validation_loss"}, (2, 5, 6))
    with pytest.raises(TypeError, match="callbacks must be a list of functions"):
        fitted(pictures(), callbacks=[3])


def test_parts_of_a_batch_add_up_to_its_gradient():
    """Of a loss without random numbers: then the parts' gradients are those of the whole."""
    from countjump.blocks.base import Stage
    from countjump.training import Settings, run

    rows = torch.arange(10, dtype=torch.float64)
    found = []
    for accumulate in (1, 3):
        module = torch.nn.Linear(1, 1, bias=False).double()
        torch.nn.init.ones_(module.weight)

        def loss(index: np.ndarray, _: torch.Generator, module=module) -> torch.Tensor:
            return (module(rows[torch.from_numpy(index)][:, None]) - 3).square().mean()

        stage = Stage("network", list(module.parameters()), loss, np.arange(10), 5, 7, 0.1, accumulate=accumulate)
        run(module, [stage], Settings(progress=False))
        found.append(module.weight.detach().clone())
    torch.testing.assert_close(*found)


def test_flips_are_those_of_pictures():
    layout = Pictures((2, 3))
    rows = np.arange(12).reshape(2, 6)
    np.testing.assert_array_equal(layout.flipped(rows, np.array([True, False])), [[2, 1, 0, 5, 4, 3], rows[1]])
    colours = Pictures((1, 2, 2))
    np.testing.assert_array_equal(colours.flipped(np.arange(4)[None], np.array([True])), [[2, 3, 0, 1]])
    with pytest.raises(ValueError, match="turns pictures round"):
        fitted(pictures().reshape(40, -1), network="mlp", augment="flip")
    assert not same(fitted(pictures()), fitted(pictures(), augment="flip"))


def test_bfloat16_is_the_networks_alone():
    model = fitted(pictures(), precision="bfloat16")
    plain = fitted(pictures())
    assert not same(model, plain)
    block, x = model.block_, model.block_.read(pictures()[:4].reshape(4, -1))
    belief = model.denoiser_(x, torch.zeros(1).double())
    assert belief.missing.entries.logits.dtype == torch.float64
    assert all(weight.dtype == torch.float32 for weight in model.denoiser_.parameters())
    assert block.size == 30
    for wrong in ({"precision": "float16"}, {"augment": "turn"}):
        with pytest.raises(ValueError, match="is unknown"):
            fitted(pictures(), **wrong)
    with pytest.raises(TypeError, match="compile must be True or False"):
        fitted(pictures(), compile="yes")


OPTIONS = {"augment": "flip", "accumulate": 2, "precision": "bfloat16", "checkpoint_every": 2, "max_updates": 6}


def test_a_killed_fit_goes_on_to_the_same_weights(tmp_path: Path):
    def stop(update: int, losses: dict[str, float], model: JumpModel) -> None:
        if update == 5:
            raise KeyboardInterrupt

    X = pictures()
    whole = fitted(X, **OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        fitted(X, **OPTIONS, checkpoint_dir=tmp_path, callbacks=[stop])
    seen = []
    resumed = fitted(X, **OPTIONS, checkpoint_dir=tmp_path, callbacks=[lambda update, *_: seen.append(update)])
    assert seen[0] > 1, "it began where it was"
    assert same(whole, resumed)
    with pytest.raises(CheckpointError, match="another fit"):
        fitted(X, **OPTIONS | {"augment": None}, checkpoint_dir=tmp_path)


def test_large_pictures_are_trained_as_in_the_paper(monkeypatch: pytest.MonkeyPatch):
    stages = []
    monkeypatch.setattr(
        "countjump.fitting.run", lambda module, found, settings: stages.extend(found) or {"network": []}
    )
    JumpModel(width=4, progress=False, random_state=0).fit(pictures((32, 4)))
    JumpModel(width=4, progress=False, random_state=0).fit(pictures((8, 8)))
    paper, small = stages
    assert (paper.learning_rate, paper.weight_decay, paper.batch_size) == (2e-4, 1e-3, 128)
    assert (small.learning_rate, small.batch_size) == (2e-3, 64)


# Mistakes.


def test_what_is_no_picture_is_said():
    X = pictures()
    model = fitted(X)
    with pytest.raises(ValueError, match=r"fitted to pictures of shape \(N, 5, 6\)"):
        model.score_samples(X[:, :4])
    for wrong, message in (
        (-1.0 * X, "a pixel of X is -"),
        (X * 1.5, "divide them by the largest value"),
        (np.where(X > 8, np.nan, X), "NaN"),
        (X * 100_000.0, "up to 65535 levels"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(wrong)
    with pytest.raises(ValueError, match="none of pictures"):
        fitted(X, domain=NonNegative())
    with pytest.raises(ValueError, match="above the bound 5"):
        fitted(X, domain=Count(5))
    with pytest.raises(ValueError, match="one bound for all pixels"):
        fitted(X, domain=Count((9,) * 30))
    with pytest.raises(ValueError, match="is unknown"):
        fitted(X, belief="composition")
    with pytest.raises(ValueError, match="pictures have levels"):
        fitted(X, decode="draw")
    assert fitted(X, domain=Count(12)).plan_.domain == Count(12)
    assert fitted(X / 9, domain=Bounded(1.0)).plan_.domain == Count(255)


def test_black_pictures_stay_dark():
    X = np.zeros((30, 4, 4), dtype=np.uint8)
    drawn = fitted(X, max_updates=30, learning_rate=1e-2).sample(10, steps=3, random_state=0)
    assert drawn.shape == (10, 4, 4)
    assert drawn.max() <= 1
