"""DDPM and D3PM as estimators: what comes out, what is refused, and what is saved."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from countjump.baselines import D3PM, DDPM, MAX_OUTPUTS, Baseline
from countjump.persistence import ModelFileError

QUICK = {"width": 64, "batch_size": 256, "learning_rate": 3e-3, "ema": 0.99, "random_state": 0, "progress": False}
MODELS = {
    "ddpm": DDPM(**QUICK, max_updates=300),
    "uniform": D3PM("uniform", **QUICK, max_updates=300),
    "gaussian": D3PM("gaussian", **QUICK, max_updates=300),
}


def pairs(rows: int = 2000) -> np.ndarray:
    """Counts in two groups, the second column telling them, and a constant one between."""
    rng = np.random.default_rng(0)
    group = rng.random(rows) < 0.3
    first = np.where(group, rng.poisson(9, rows), rng.poisson(1, rows))
    return np.stack([first, np.full(rows, 7), np.where(group, 2, 0)], 1)


def _correlation(rows: np.ndarray) -> float:
    return float(np.corrcoef(rows[:, 0], rows[:, 2])[0, 1])


X = pairs()


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Baseline:
    return clone(MODELS[request.param]).fit(X)


def test_samples_look_like_the_data(model: Baseline) -> None:
    sampled = model.sample(4000, steps=50, random_state=1)
    assert sampled.dtype == X.dtype
    assert (sampled[:, 1] == 7).all()
    assert sampled[:, [0, 2]].mean(0) == pytest.approx(X[:, [0, 2]].mean(0), rel=0.15)
    assert sampled[:, 0].std() == pytest.approx(X[:, 0].std(), rel=0.15)
    assert _correlation(sampled) == pytest.approx(_correlation(X), abs=0.08)
    assert (sampled >= X.min(0)).all()
    assert (sampled <= X.max(0)).all()


def test_training_helps(model: Baseline) -> None:
    assert model.history_[-1]["validation_loss"] < model.history_[0]["validation_loss"]


def test_a_row_depends_on_its_place_and_seed_alone(model: Baseline) -> None:
    many = model.sample(1000, steps=5, random_state=3)
    assert np.array_equal(model.sample(10, steps=5, random_state=3), many[:10])
    assert not np.array_equal(model.sample(1000, steps=5, random_state=4), many)
    assert model.sample(0).shape == (0, 3)


def test_save_and_load(model: Baseline, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.sample(50, steps=4, random_state=5), model.sample(50, steps=4, random_state=5))
    if isinstance(model, D3PM):
        assert np.array_equal(loaded.score_samples(X[:20], steps=4), model.score_samples(X[:20], steps=4))
    other = D3PM if isinstance(model, DDPM) else DDPM
    with pytest.raises(ModelFileError, match=f"holds a '{type(model).__name__}'"):
        other.load(tmp_path / "model")


@pytest.mark.parametrize("name", MODELS)
def test_same_seed_same_fit(name: str) -> None:
    first, second = (clone(MODELS[name]).set_params(max_updates=5).fit(X).sample(20, 3, 0) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("name", MODELS)
def test_sparse_in_sparse_out(name: str) -> None:
    sampled = clone(MODELS[name]).set_params(max_updates=5).fit(sp.csr_matrix(X)).sample(20, 3, 0)
    assert sp.issparse(sampled)
    dense = clone(MODELS[name]).set_params(max_updates=5).fit(X).sample(20, 3, 0)
    assert np.array_equal(sampled.toarray(), dense)


@pytest.mark.parametrize("name", MODELS)
def test_all_constant(name: str, tmp_path: Path) -> None:
    model = clone(MODELS[name]).fit(np.full((10, 2), 3))
    model.save(tmp_path / "model")
    assert (type(model).load(tmp_path / "model").sample(4) == 3).all()


@pytest.mark.parametrize("name", MODELS)
def test_bad_values_are_named(name: str) -> None:
    model = clone(MODELS[name])
    with pytest.raises(ValueError, match=r"X\[1, 0\] = -1 is negative"):
        model.fit(np.array([[1, 2], [-1, 2]]))
    with pytest.raises(ValueError, match=r"X\[0, 1\] = nan"):
        model.fit(np.array([[1, np.nan], [1, 2]]))
    with pytest.raises(NotFittedError):
        model.sample(1)
    with pytest.raises(ValueError, match="width must be at least 1"):
        model.set_params(width=0).fit(X)


def test_ddpm_keeps_reals_real_and_zeros_zero() -> None:
    rng = np.random.default_rng(0)
    reals = np.where(rng.random((500, 2)) < 0.8, 0.0, rng.gamma(2.0, size=(500, 2))).astype(np.float32)
    sampled = DDPM(**QUICK, max_updates=100).fit(reals).sample(500, steps=10, random_state=0)
    assert sampled.dtype == np.float32
    assert (sampled != np.round(sampled)).any()
    assert (sampled == 0).mean() > 0.1
    assert sampled.min() == 0
    assert (sampled <= reals.max(0) * 1.0001).all()


def test_ddpm_sees_fractions() -> None:
    """A column whose states all lie between the same whole numbers once standardised."""
    points = np.array([[0.2], [0.8]])[np.arange(2000) % 2]
    sampled = DDPM(**QUICK, max_updates=300).fit(points).sample(1000, steps=50, random_state=0)
    assert (np.minimum(abs(sampled - 0.2), abs(sampled - 0.8)) < 0.05).mean() > 0.9
    assert (sampled > 0.5).mean() == pytest.approx(0.5, abs=0.1)


def test_ddpm_rounds_whole_numbers_in_float() -> None:
    sampled = DDPM(**QUICK, max_updates=5).fit(X.astype(float)).sample(50, steps=5, random_state=0)
    assert sampled.dtype == float
    assert np.array_equal(sampled, np.round(sampled))


@pytest.mark.parametrize("schedule", ["cosine", "linear-beta"])
def test_ddpm_schedules(schedule: str) -> None:
    model = DDPM(schedule, **QUICK, max_updates=5).fit(X)
    assert np.isfinite(model.sample(20, steps=5)).all()


def test_ddpm_refuses_unknown_schedules() -> None:
    with pytest.raises(ValueError, match="schedule='linear' is unknown: use one of 'linear-beta', 'cosine'"):
        DDPM("linear").fit(X)


def test_d3pm_refuses_unknown_transitions() -> None:
    with pytest.raises(ValueError, match="transition='absorbing' is unknown: use one of 'uniform', 'gaussian'"):
        D3PM("absorbing").fit(X)


def test_d3pm_refuses_fractions() -> None:
    with pytest.raises(ValueError, match=r"X\[1, 0\] = 0.5 is not a whole number"):
        D3PM().fit(np.array([[1.0], [0.5]]))


def test_d3pm_states() -> None:
    assert D3PM(**QUICK, max_updates=1).fit(X).plan_.states == X.max() + 1
    assert D3PM(states=40, **QUICK, max_updates=1).fit(X).plan_.states == 40
    row, column = np.argwhere(X >= 7)[0]
    with pytest.raises(
        ValueError, match=rf"X\[{row}, {column}\] = {X[row, column]} is not below states=7: raise states"
    ):
        D3PM(states=7).fit(X)
    with pytest.raises(ValueError, match="states must be at least 1, got 0"):
        D3PM(states=0).fit(X)
    with pytest.raises(TypeError, match=r"states must be a whole number"):
        D3PM(states=7.5).fit(X)


@pytest.mark.parametrize("transition", ["uniform", "gaussian"])
def test_d3pm_probabilities_by_the_bound_add_up_to_almost_one(transition: str) -> None:
    rng = np.random.default_rng(0)
    first = rng.choice(3, 3000, p=[0.5, 0.2, 0.3])
    rows = np.stack([first, np.full(3000, 2), np.where(rng.random(3000) < 0.7, first, 0)], 1)
    model = D3PM(transition, **QUICK, max_updates=400).fit(rows)
    support = np.array([[a, 2, b] for a in range(3) for b in range(3)])
    bound = model.score_samples(support, steps=20, draws=1000)
    assert 0.85 < np.exp(bound).sum() <= 1.01
    frequency = (rows[:, None] == support).all(2).mean(0)
    seen = frequency > 0
    assert 0 < (frequency * (np.log(np.where(seen, frequency, 1)) - bound)).sum() < 0.1
    assert bound[~seen].max() < -3


def test_d3pm_scores_repeat_and_average() -> None:
    model = D3PM(**QUICK, max_updates=20).fit(X)
    scores = model.score_samples(X[:50])
    assert scores.shape == (50,)
    assert np.isfinite(scores).all()
    assert np.array_equal(scores, model.score_samples(X[:50]))
    assert np.array_equal(scores, model.score_samples(sp.csr_matrix(X[:50])))
    assert model.score(X[:50]) == scores.mean()
    seeded = [model.score_samples(X[:50], steps=5, random_state=seed) for seed in (1, 1, 2)]
    assert np.array_equal(seeded[0], seeded[1])
    assert not np.array_equal(seeded[0], seeded[2])
    spread = [
        np.std([model.score_samples(X[:50], steps=5, draws=n, random_state=seed) for seed in range(6)], 0).mean()
        for n in (1, 9)
    ]
    assert spread[1] < 0.5 * spread[0]


def test_d3pm_states_that_were_inferred_have_an_escape_mass() -> None:
    model = D3PM(**QUICK, max_updates=5).fit(X)
    top = X.max()
    rows = np.array([[top - 1, 7, 0], [top, 7, 0], [top + 1, 7, 0], [top + 2, 7, 0], [top + 1, 7, top + 1]])
    scores = model.score_samples(rows, steps=3, draws=400)
    assert np.isfinite(scores).all()
    assert scores[2] == pytest.approx(scores[1] + np.log(1 / (2 * (len(X) + 1)) / 2), abs=0.2), "it mirrors the largest"
    assert scores[3] == pytest.approx(scores[0] + np.log(1 / (2 * (len(X) + 1)) / 2), abs=0.2)
    assert scores[4] < scores[2]
    assert (model.sample(200, steps=3, random_state=0) <= top).all()


def test_d3pm_rows_that_declared_states_forbid_score_minus_infinity() -> None:
    model = D3PM(states=int(X.max()) + 1, **QUICK, max_updates=5).fit(X)
    rows = np.array([[1, 7, 0], [1, 8, 0], [X.max() + 1, 7, 0], [2, 7, X.max()], [2**53, 7, 2]])
    scores = model.score_samples(rows, steps=3)
    assert np.isfinite(scores).tolist() == [True, True, False, True, False]
    assert scores[1] < scores[0] + np.log(1 / len(X)), "a constant that was only inferred has an escape mass"
    assert (model.score_samples(rows[[2, 4]], steps=3) == -np.inf).all()
    assert model.score(rows) == -np.inf
    constant = D3PM(**QUICK).fit(np.full((10, 2), 3))
    # Eleven rows with one that escapes, in one of two columns; by one, up or down, in a half: 1/(1 · 2)/2.
    stays, escapes = np.log(1 - 1 / 22), np.log(1 / 22 / 4)
    assert constant.score_samples([[3, 3], [3, 4]]).tolist() == pytest.approx([2 * stays, stays + escapes])


def test_d3pm_scores_refuse_what_jump_model_refuses() -> None:
    with pytest.raises(NotFittedError):
        D3PM().score_samples(X)
    model = D3PM(**QUICK, max_updates=1).fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but D3PM is expecting 3"):
        model.score_samples(X[:, :2])
    with pytest.raises(ValueError, match=r"X\[0, 1\] = nan"):
        model.score_samples([[1, np.nan, 0]])
    with pytest.raises(ValueError, match="is not a whole number"):
        model.score_samples([[0.5, 7, 0]])
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        model.score_samples(X, steps=0)
    with pytest.raises(ValueError, match="draws must be at least 1, got 0"):
        model.score_samples(X, draws=0)


def test_ddpm_says_why_it_has_no_score() -> None:
    model = DDPM(**QUICK, max_updates=1).fit(X)
    for score in (model.score, model.score_samples):
        with pytest.raises(ValueError, match="its last step is a point mass"):
            score(X)


def test_d3pm_starts_at_the_frequencies() -> None:
    frequency = np.exp(D3PM(**QUICK, max_updates=1).fit(X).plan_.log_frequency)
    assert frequency.sum(1) == pytest.approx(1)
    assert frequency[0] == pytest.approx(np.bincount(X[:, 0]) / len(X), abs=1e-3)
    assert frequency[1, :3] == pytest.approx(np.bincount(X[:, 2]) / len(X), abs=1e-3)


def test_d3pm_refuses_what_would_not_fit() -> None:
    with pytest.raises(ValueError, match=f"outputs, and at most {MAX_OUTPUTS} are taken: truncate"):
        D3PM().fit(np.array([[0], [MAX_OUTPUTS]]))


# Pictures.


def crosses(rows: int = 60) -> np.ndarray:
    """Bright lines at random places of 8 × 8 pixels, in two colours."""
    rng = np.random.default_rng(1)
    x = np.zeros((rows, 8, 8, 2), dtype=np.uint8)
    for image, (i, j) in zip(x, rng.integers(0, 8, (rows, 2)), strict=True):
        image[i, :, 0] = image[:, j, 1] = 7
    return x


SMALL = {"width": 8, "batch_size": 16, "max_updates": 3, "random_state": 0, "progress": False}
PICTURED = {"ddpm": DDPM(**SMALL), "d3pm": D3PM(**SMALL)}


@pytest.mark.parametrize("name", PICTURED)
def test_pictures_keep_their_shape_and_kind(name: str, tmp_path: Path) -> None:
    x = crosses()
    model = clone(PICTURED[name]).fit(x)
    drawn = model.sample(5, steps=3, random_state=1)
    assert (drawn.shape, drawn.dtype) == ((5, 8, 8, 2), np.uint8)
    assert drawn.max() <= 7
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert np.array_equal(loaded.sample(5, steps=3, random_state=1), drawn)
    grey = clone(PICTURED[name]).fit(x[..., 0]).sample(2, steps=2)
    assert grey.shape == (2, 8, 8)


def test_all_models_of_pictures_have_one_network() -> None:
    """Layers of the same sizes, but for the first and the last, whose channels are what each process sees and says."""
    from countjump import JumpModel

    x = crosses()
    shapes = []
    for model in (DDPM(**SMALL), D3PM(**SMALL), JumpModel(network="unet", **SMALL)):
        weights = clone(model).fit(x).denoiser_.network.state_dict()
        names = [name for name in weights if not name.removeprefix("network.").startswith(("input.", "output."))]
        shapes.append({name.removeprefix("network."): weights[name].shape for name in names})
    assert shapes[0] == shapes[1] == shapes[2]


@pytest.mark.parametrize("name", PICTURED)
def test_the_network_sees_pictures_as_they_are(name: str) -> None:
    """Convolutions know no order: pictures that are moved round are answered moved round, away from the border."""
    model = clone(PICTURED[name]).set_params(max_updates=1).fit(crosses())
    network = model.denoiser_.network
    z = torch.rand(1, 8, 8, 2)
    moved = z.roll(2, dims=2)
    with torch.no_grad():
        kernel = network.network.input
        seen = [kernel(each.movedim(-1, 1)) for each in (z, moved)]
        whole = [network(each.flatten(1), torch.tensor([0.5])).unflatten(1, (8, 8, 2, -1)) for each in (z, z)]
    assert torch.allclose(seen[0][..., 1:-3], seen[1][..., 3:-1], atol=1e-6)
    assert torch.equal(whole[0], whole[1])
    assert whole[0].shape[-1] == (1 if name == "ddpm" else 8)


def test_one_fit_of_ddpm_is_sampled_in_two_ways() -> None:
    model = clone(PICTURED["ddpm"]).fit(crosses())
    by_ddim = model.sampled_by("ddim")
    assert by_ddim.denoiser_ is model.denoiser_
    assert (by_ddim.process_.noise, model.process_.noise) == (0, 1)
    assert not np.array_equal(by_ddim.sample(4, 5, 0), model.sample(4, 5, 0))
    assert np.array_equal(by_ddim.sampled_by("ancestral").sample(4, 5, 0), model.sample(4, 5, 0))
    fitted_so = clone(PICTURED["ddpm"]).set_params(sampler="ddim").fit(crosses())
    assert np.array_equal(fitted_so.sample(4, 5, 0), by_ddim.sample(4, 5, 0))
    with pytest.raises(ValueError, match="sampler"):
        model.sampled_by("euler")


def test_a_u_net_needs_pictures() -> None:
    with pytest.raises(ValueError, match="network='unet' needs pictures"):
        DDPM(network="unet", **SMALL).fit(X)
    assert DDPM(network="mlp", **SMALL).fit(crosses()).sample(2, 2).shape == (2, 8, 8, 2)
