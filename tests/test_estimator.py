"""The scikit-learn face: conventions, promises about samples, files, networks of one's own, and bad input."""

import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from tables import DATA, check_domains, counts, one_hots, quick, shares, wide_counts, wide_reals
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from countjump import Binary, Bounded, Count, JumpModel, LinearBeta, NonNegative, OneHot, Simplex, persistence
from countjump.blocks.sparse_counts import CALIBRATED
from countjump.data import read_matrix, write_matrix
from countjump.parameters import default_batch_size, default_dropout, default_updates
from countjump.priors import directions
from countjump.training.batches import Batches


@parametrize_with_checks([JumpModel(max_updates=2, width=8, random_state=0, progress=False)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_clone_and_params_keep_objects():
    model = JumpModel(domain=Bounded(16), schedule=LinearBeta(timesteps=100), lam=[1.0, 2.0])
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(components=2).components == 2


def test_grid_search_and_pipeline():
    X = counts()
    search = GridSearchCV(quick(), {"components": [1, 2]}, cv=2).fit(X)
    assert np.isfinite(search.best_score_)
    line = make_pipeline(FunctionTransformer(), quick()).fit(X)
    assert np.isfinite(line.score(X))


# Domains, processes and beliefs.


@pytest.mark.parametrize("name", DATA)
def test_every_domain_fits_samples_and_scores(name):
    X = DATA[name]
    model = quick().fit(X)
    assert model.domain_.name == name.replace("bounded-count", "count")
    Y = model.sample(50, steps=5, random_state=1)
    assert Y.shape == (50, X.shape[1])
    assert Y.dtype == X.dtype
    model.domain_.check(Y)
    scores = model.score_samples(X[:20], steps=5)
    assert scores.shape == (20,)
    assert np.isfinite(scores).all()
    assert model.score(X[:20]) == pytest.approx(model.score_samples(X[:20]).mean())


def test_the_paper_s_belief_runs_on_binomial_one_hot_rows():
    Y = quick(belief="poisson").fit(one_hots()).sample(50, steps=10, random_state=0)
    assert (Y.sum(1) == 1).all()


@pytest.mark.parametrize("name", DATA)
def test_the_paper_s_poisson_jump_runs_on_every_domain(name):
    X = DATA[name]
    model = quick(process="poisson", belief="poisson", lam=10.0).fit(X)
    Y = model.sample(50, steps=10, random_state=1)
    model.domain_.check(Y)
    assert (model.lam_ == 10).all()
    with pytest.raises(ValueError, match="no law of x_0"):
        model.score_samples(X)


def test_auto_says_what_it_chose(capsys):
    model = quick(progress=True).fit(counts())
    assert "whole numbers" in model.choices_["domain"]
    assert "countjump: domain = Count" in capsys.readouterr().out


def test_auto_belief_follows_domain_and_width():
    wide = sp.random(60, 300, density=0.05, random_state=0, data_rvs=lambda n: np.arange(1, n + 1), format="csr")
    assert quick(max_updates=2).fit(wide).belief_ == "composition"
    assert quick(max_updates=2).fit((wide > 0).astype(int)).belief_ == "mixture"
    assert quick(max_updates=2).fit(counts()).belief_ == "mixture"


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"process": "binomial", "domain": "non-negative"}, "use process='poisson'"),
        ({"belief": "composition", "domain": "binary"}, "use belief='mixture'"),
        ({"objective": "elbo", "belief": "mixture"}, "use objective='nll'"),
        ({"decode": "draw", "domain": "count"}, "use decode='latent'"),
        ({"process": "binomial", "lam": 10.0, "domain": "count"}, "use process='poisson'"),
        ({"process": "binomial", "belief": "poisson", "domain": Bounded(2)}, "needs process='poisson'"),
    ],
)
def test_combinations_without_sense_say_what_to_choose(params, word):
    with pytest.raises(ValueError, match=word):
        quick(**params).fit(DATA["binary"])


@pytest.mark.parametrize("objective", ["nll", "reweighted", "elbo"])
@pytest.mark.parametrize("process", ["poisson", "binomial"])
def test_every_objective_of_the_poisson_belief_learns(objective, process):
    X = np.random.default_rng(0).poisson(np.where(np.arange(2000) % 2, 2.0, 20.0))[:, None]
    lam = 5.0 if process == "poisson" else "auto"
    model = JumpModel(belief="poisson", process=process, lam=lam, objective=objective, max_updates=400, batch_size=256,
                      width=32, learning_rate=3e-3, random_state=0, progress=False).fit(X)  # fmt: skip
    Y = model.sample(2000, steps=50, random_state=0)
    assert Y.mean() == pytest.approx(X.mean(), rel=0.15)
    assert Y.std() == pytest.approx(X.std(), rel=0.25)


@pytest.mark.parametrize("decode", ["latent", "mean", "draw"])
def test_every_decoding_of_reals(decode):
    X = np.random.default_rng(0).gamma(3.0, 1.0, size=(1000, 1))
    model = quick(decode=decode, max_updates=200, lam=100.0, learning_rate=3e-3).fit(X)
    Y = model.sample(1000, steps=10, random_state=0)
    assert Y.mean() == pytest.approx(3.0, rel=0.15)
    on_grid = np.abs(Y * 100 - np.round(Y * 100)) < 1e-9
    assert on_grid.all() == (decode == "latent")


def test_a_mean_is_narrower_than_a_draw():
    X = np.random.default_rng(0).gamma(3.0, 1.0, size=(1000, 1))
    spread = {}
    for decode in ("mean", "draw"):
        model = quick(decode=decode, max_updates=200, lam=0.5, learning_rate=3e-3).fit(X)
        spread[decode] = model.sample(2000, steps=10, random_state=0).std()
    assert spread["draw"] == pytest.approx(X.std(), rel=0.2)
    assert spread["mean"] < 0.8 * spread["draw"]


@pytest.mark.parametrize("schedule", ["linear-beta", "cosine", "geometric", LinearBeta(timesteps=100, beta_last=0.5)])
def test_every_schedule_fits_and_samples(schedule):
    assert quick(schedule=schedule).fit(counts()).sample(10, steps=4, random_state=0).shape == (10, 3)


def test_lam_is_the_smallest_that_loses_one_percent():
    X = DATA["non-negative"][:, :1]
    lam = quick().fit(X).lam_
    positive = X[X > 0]
    assert np.exp(-lam * positive).mean() <= 0.01
    assert np.exp(-0.999 * lam * positive).mean() > 0.01


def test_lam_is_capped_where_counts_would_no_longer_be_exact():
    X = np.array([[1e-9], [1e9], [2e9], [3e9]])
    assert (quick().fit(X).lam_ * X.max() <= 2**53).all()


def test_a_domain_by_name_or_object():
    X = DATA["bounded"]
    assert quick(domain="bounded").fit(X).domain_ == Bounded(X.max())
    assert quick(domain=NonNegative()).fit(X).process_name_ == "poisson"
    assert quick(domain=Count(max=5)).fit(DATA["bounded-count"]).sample(100, steps=2, random_state=0).max() <= 5


@pytest.mark.parametrize(
    ("rows", "columns", "sparse", "batch", "updates"),
    [
        (1000, 300, True, 128, 4000),
        (10_000, 300, True, 128, 8593),
        (10**6, 300, True, 128, 16_000),
        (10_000, 300, False, 128, 4687),
        (1000, 1, False, 2048, 1000),
        (2500, 4, False, 1024, 2000),
        (300, 5, False, 128, 500),
        (500, 20, False, 128, 1000),
        (1999, 10, False, 256, 1999),
        (2000, 10, False, 256, 3000),
        (5000, 20, False, 256, 3000),
    ],
)
def test_how_long_a_fit_is_by_default(rows, columns, sparse, batch, updates):
    assert (default_batch_size(rows, columns), default_updates(rows, columns, sparse)) == (batch, updates)


@pytest.mark.parametrize(
    ("rows", "columns", "share"),
    [(3199, 32, 0.3), (3200, 32, 0.0), (774, 31, 0.3), (775, 31, 0.0), (9, 4, 0.0), (100, 255, 0.3), (100, 256, 0.0)],
)
def test_hidden_units_are_left_out_where_a_table_has_many_columns_for_its_rows(rows, columns, share):
    assert default_dropout(rows, columns) == share


def test_hidden_units_are_left_out_while_training_alone():
    model = quick(max_updates=2).fit(np.random.default_rng(0).poisson(3.0, size=(60, 40)))
    shares = {block.dropout for block in model.denoiser_.network.blocks}
    assert shares == {0.3}
    z, t = torch.ones(5, 40, dtype=torch.float64), torch.tensor([0.5])
    once, again = (model.denoiser_.output(z, t) for _ in range(2))
    assert torch.equal(once, again)
    model.denoiser_.train()
    assert not torch.equal(*(model.denoiser_.output(z + torch.arange(5)[:, None], t) for _ in range(2)))


# Sampling.


@pytest.mark.parametrize("name", DATA)
def test_a_row_depends_on_seed_place_and_steps_alone(name, tmp_path):
    model = quick().fit(DATA[name])
    ten = model.sample(10, steps=4, random_state=3)
    np.testing.assert_array_equal(model.sample(1000, steps=4, random_state=3)[:10], ten)
    np.testing.assert_array_equal(model.sample(10, steps=4, random_state=3), ten)
    assert (model.sample(200, steps=4, random_state=4) != model.sample(200, steps=4, random_state=3)).any()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(JumpModel.load(tmp_path / "model").sample(10, steps=4, random_state=3), ten)


def test_blocks_join_without_a_seam():
    model = quick().fit(counts())
    more = model.sample(model.block_rows_ + 5, steps=2, random_state=0)
    np.testing.assert_array_equal(model.sample(3, steps=2, random_state=0), more[:3])
    assert len(more) == model.block_rows_ + 5
    assert (more[: model.block_rows_][:5] != more[model.block_rows_ :]).any()


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix])
def test_sparse_in_sparse_out(kind, tmp_path):
    X = kind(counts() * (np.random.default_rng(0).random((300, 3)) < 0.3))
    model = quick().fit(X)
    model.save(tmp_path / "m")
    for fitted in (model, JumpModel.load(tmp_path / "m")):
        Y = fitted.sample(20, steps=3, random_state=0)
        assert sp.issparse(Y)
        assert Y.format == "csr"
        assert isinstance(Y, sp.sparray) == isinstance(X, sp.sparray)
        assert Y.dtype == X.dtype
    np.testing.assert_array_equal(quick().fit(X.toarray()).sample(20, steps=3, random_state=0), Y.toarray())
    np.testing.assert_allclose(
        model.score_samples(X, steps=5), quick().fit(X.toarray()).score_samples(X.toarray(), steps=5)
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32, np.float64, bool])
def test_the_dtype_that_went_in_comes_out(dtype):
    X = (DATA["binary"] if dtype is bool else counts()).astype(dtype)
    Y = quick().fit(X).sample(20, steps=3, random_state=0)
    assert Y.dtype == dtype
    np.testing.assert_array_equal(Y, np.round(Y.astype(float)))


def test_no_rows_is_an_empty_matrix():
    assert quick().fit(counts()).sample(0).shape == (0, 3)


# Wide rows.


def wide(reals: bool = False):
    """200 sparse rows of 400 columns."""
    X = sp.random(200, 400, density=0.05, random_state=0, data_rvs=lambda n: np.arange(n) % 4 + 1.0, format="csr")
    return X.power(0.7) if reals else X.astype(int)


def test_wide_counts_are_sparse_rows_and_score():
    X = wide()
    model = quick(belief="composition", domain="count").fit(X)
    Y = model.sample(100, steps=5, random_state=0)
    assert sp.issparse(Y)
    assert Y.dtype == X.dtype
    assert Y.sum(1).mean() == pytest.approx(X.sum(1).mean(), rel=0.5)
    assert np.isfinite(model.score_samples(X[:10], steps=5)).all()


def test_wide_sparse_reals_are_sets_with_amounts():
    X = wide(reals=True)
    model = quick().fit(X)
    assert (model.belief_, model.process_name_) == ("composition", "binomial")
    Y = model.sample(100, steps=5, random_state=0)
    assert (Y.data > 0).all()
    assert np.diff(Y.indptr).mean() == pytest.approx(np.diff(X.indptr).mean(), rel=0.5)
    assert Y.sum(1).mean() == pytest.approx(X.sum(1).mean(), rel=0.5)
    assert np.isfinite(model.score_samples(X[:10], steps=5)).all()
    dense = quick().fit(X.toarray()).sample(100, steps=5, random_state=0)
    assert isinstance(dense, np.ndarray)
    assert (dense == 0).mean() == pytest.approx((X.toarray() == 0).mean(), abs=0.05)
    assert quick(lam=2.0, max_updates=2).fit(X).belief_ == "mixture"


def test_a_row_of_a_wide_sample_is_the_same_in_a_sample_of_any_size():
    """Streams have 32 rows, and 32 of them are drawn together."""
    for X in (wide_counts(), wide_reals()):
        model = quick(max_updates=5).fit(X)
        many = model.sample(1100, steps=3, random_state=0)
        assert model.block_rows_ == 32
        for size in (1, 40, 1024):
            few = model.sample(size, steps=3, random_state=0)
            assert few.shape == (size, 256)
            assert (few != many[:size]).nnz == 0
        assert (many[:32] != many[32:64]).nnz > 0


def test_one_wide_row_asks_the_network_for_at_most_a_tenth_of_what_a_thousand_do():
    asked: list[int] = []
    model = quick(max_updates=5).fit(wide_counts())
    model.denoiser_.network.register_forward_hook(lambda network, given, answer: asked.append(len(given[0])))
    model.sample(1, random_state=0)
    one, asked[:] = sum(asked), []
    model.sample(1024, random_state=0)
    assert 0 < one <= sum(asked) / 10


def test_a_constant_column_of_wide_rows_is_in_every_sample():
    X = wide().tolil()
    X[:, 3] = 7
    X = X.tocsr()
    model = quick(belief="composition", domain="count", max_updates=5).fit(X)
    assert (model.sample(50, steps=3, random_state=0)[:, [3]].toarray() == 7).all()
    np.testing.assert_allclose(model.score_samples(X[:6].toarray(), steps=5), model.score_samples(X[:6], steps=5))


def test_columns_that_were_never_seen_come_in_wide_samples_about_once_in_as_many_rows_as_were_seen():
    """Thirty columns were never seen in 20 rows: one row in 21 holds a unit of one of them, about."""
    X = np.random.default_rng(0).poisson(0.3, size=(20, 300))
    X[:, :30] = 0
    model = quick(max_updates=1, learning_rate=1e-9, validation_fraction=0.0).fit(sp.csr_matrix(X))
    assert model.belief_ == "composition"
    units = model.sample(2000, steps=20, random_state=0)[:, :30].sum(1)
    assert float(units.mean()) == pytest.approx(1 / 21, rel=0.35)


def test_wide_rows_that_are_all_alike_are_not_drawn_in_large_blocks():
    """A block of one column has 25,600 rows: of these, 100 GB; 64 rows are 256 MB."""
    X = sp.csr_matrix((np.ones(20), (np.arange(20), np.zeros(20, dtype=int))), shape=(20, 500_000))
    model = quick().fit(X)
    tracemalloc.start()
    try:
        drawn = model.sample(3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (drawn != X[:3]).nnz == 0
    assert peak < 5e7


def test_a_wide_fit_from_disk_is_that_from_memory(tmp_path):
    X = wide()
    write_matrix(tmp_path / "wide.csr", X)
    ours, theirs = (quick(belief="composition", domain="count").fit(x) for x in (X, read_matrix(tmp_path / "wide.csr")))
    assert theirs.block_.size == 400
    for name, weight in ours.denoiser_.state_dict().items():
        assert torch.equal(theirs.denoiser_.state_dict()[name], weight), name


def test_wide_rows_are_scored_and_drawn_without_a_dense_block():
    """What is held at once are the weights of some rows, 16 MiB in float32: less than a fifth of what 600 dense rows are."""
    rng = np.random.default_rng(0)
    column = rng.integers(60_000, size=600 * 100)
    X = sp.csr_matrix((np.ones(60_000, dtype=int), (np.repeat(np.arange(600), 100), column)), shape=(600, 60_000))
    X.sum_duplicates()
    model = quick(width=16, max_updates=2).fit(X)
    shapes = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            for each in out if isinstance(out, tuple) else (out,):
                if isinstance(each, torch.Tensor):
                    shapes.append((each.numel() * each.element_size(), tuple(each.shape)))
            return out

    with Watch():
        model.sample(600, steps=2, random_state=0)
        model.score_samples(X, steps=2)
    most, shape = max(shapes)
    assert most <= 1.01 * 2**24 < 600 * model.block_.size * 4 / 5, shape


def test_a_wide_fit_knows_totals_and_directions_before_its_network_is_trained():
    X = wide_counts()
    model = quick(max_updates=1, validation_fraction=0.0, learning_rate=1e-9).fit(X)
    assert model.belief_ == "composition"
    assert (model.block_.total_network[-1].bias != 0).any()
    rise, _ = directions(X, 16)
    np.testing.assert_allclose(model.block_.table.weight[:, : rise.shape[1]].detach(), rise, rtol=1e-4, atol=1e-5)


def half_seen(model, X, rows, seed=0):
    """Rows, half of whose units are seen, what is missing, and what is believed of it."""
    x = model.block_.read(X[rows])
    t = torch.tensor([[model.process_.schedule.time(0.5)]], dtype=torch.float64)
    z = model.process_.marginal(x, t).sample(torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return z, x - z, model.denoiser_(z, t[0]).missing.shares


@pytest.fixture(scope="module")
def calibrated():
    X = wide_counts(rows=600)
    return quick(max_updates=300, width=64, learning_rate=3e-3, validation_fraction=0.3).fit(X), X


def test_the_calibration_is_found_on_rows_held_out(calibrated, tmp_path):
    model, X = calibrated
    calibration = model.block_.calibration
    model.save(tmp_path / "model")
    assert torch.equal(JumpModel.load(tmp_path / "model").block_.calibration, calibration)
    held_out = np.random.default_rng([0, 1]).permutation(610)[:183]

    def surprise() -> float:
        _, missing, shares = half_seen(model, X, held_out)
        return float(shares.cross_entropy(missing).sum().detach())

    ours, before = surprise(), calibration.detach().clone()
    odds_of_reuse = CALIBRATED[0]
    new_columns = sum(CALIBRATED[:2])
    with torch.no_grad():
        for place in (0, odds_of_reuse, new_columns):
            for shift in (-1, 2):
                calibration[0, place] += shift
                assert ours < surprise()
                calibration.copy_(before)


def test_columns_that_are_not_seen_yet_come_as_often_as_expected(calibrated):
    """On the rows of the calibration, by how frequent the columns are, and a tenth off at most."""
    model, X = calibrated
    held_out = np.random.default_rng([0, 1]).permutation(610)[:183]
    often = model.block_.frequency[:, 0] > 0
    ratios = []
    for seed in range(10):
        z, missing, shares = half_seen(model, X, held_out, seed)
        with torch.no_grad():
            expected = shares.dense() * missing.totals[:, None]
        new = z.dense() == 0
        ratios.append([float((expected * w).sum() / (missing.dense() * w).sum()) for w in (new & often, new & ~often)])
    assert np.mean(ratios, axis=0) == pytest.approx([1, 1], abs=0.1)


def test_wide_rows_that_are_all_alike_but_one_that_is_held_out():
    X = np.zeros((20, 300), dtype=int)
    X[np.random.default_rng([0, 1]).permutation(20)[0], :40] = 3
    model = quick(belief="composition", domain="count").fit(sp.csr_matrix(X))
    assert model.sample(5, steps=2, random_state=0).shape == (5, 300)


def test_stored_zeros_of_sparse_reals_are_zeros():
    X = wide(reals=True)
    X.data[::3] = 0
    assert np.isfinite(quick(max_updates=3).fit(X).history_[-1]["loss"])


def test_a_bounded_column_has_no_composition():
    X = np.random.default_rng(0).poisson(1.0, (60, 300)).clip(max=2)
    bounds = Count(max=(2.0,) * 150 + (np.inf,) * 150)
    assert quick(domain=bounds, max_updates=2).fit(X).belief_ == "mixture"
    with pytest.raises(ValueError, match="use belief='mixture'"):
        quick(domain=Count(max=2), belief="composition").fit(X)


def test_sparse_rows_of_which_nothing_varies():
    for X in (np.full((20, 3), 2.5), np.full((20, 300), 2.5), np.zeros((20, 300))):
        Y = quick(domain="non-negative").fit(sp.csr_matrix(X)).sample(4)
        np.testing.assert_array_equal(Y.toarray(), X[:4])


def test_arrays_of_a_sparse_matrix_need_not_be_contiguous():
    X = wide()
    strided = sp.csr_matrix((np.repeat(X.data, 2)[::2], X.indices, X.indptr), shape=X.shape)
    assert quick(max_updates=2).fit(strided).sample(1).shape == (1, 400)


def test_a_lambda_that_is_no_number_is_refused_for_wide_reals_too():
    with pytest.raises(ValueError, match="lam='typo' is unknown"):
        quick(lam="typo").fit(wide(reals=True))


# Networks of one's own.


class Pictures(nn.Module):
    """A convolution on 8 × 8 pixels: features are laid out as (3, 64) and outputs as (per column, 64)."""

    seen: tuple[int, ...] = ()

    def __init__(self, inputs, outputs, width):
        super().__init__()
        self.first = nn.Conv2d(inputs // 64, width, 3, padding=1)
        self.time = nn.Linear(1, width)
        self.last = nn.Conv2d(width, outputs // 64, 3, padding=1)

    def forward(self, features, t, condition=None):
        pictures = features.reshape(len(features), -1, 8, 8)
        self.seen = tuple(pictures.shape[1:])
        hidden = self.first(pictures) + self.time(t.float()[:, None])[..., None, None]
        return self.last(torch.relu(hidden)).flatten(1)


def test_a_network_of_one_s_own_sees_all_pixels_of_a_picture_constant_ones_too(tmp_path):
    X = load_digits().data
    constant = (X[:1] == X).all(0)
    assert constant.any()
    model = quick(network=Pictures, width=8, max_updates=100, learning_rate=1e-2).fit(X)
    assert model.denoiser_.network.seen == (4, 8, 8)
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]
    Y = model.sample(30, steps=4, random_state=0)
    np.testing.assert_array_equal(Y[:, constant], np.tile(X[0, constant], (30, 1)))
    model.domain_.check(Y)
    scores = model.score_samples(X[:3], steps=4)
    model.save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"(?s)network given to load is not the one in .*size mismatch"):
        JumpModel.load(tmp_path / "m", network=lambda inputs, outputs, width: Pictures(inputs, outputs, width + 1))
    with pytest.raises(ValueError, match=r"(?s)network given to load is not the one in .*Missing key"):
        JumpModel.load(tmp_path / "m", network=lambda inputs, outputs, width: nn.Linear(inputs, outputs))
    with pytest.raises(ValueError, match=r"or the network given to load does not fit it \(TypeError"):
        JumpModel.load(tmp_path / "m", network=lambda inputs: Pictures(inputs, inputs, 8))
    again = JumpModel.load(tmp_path / "m", network=Pictures)
    np.testing.assert_array_equal(again.sample(30, steps=4, random_state=0), Y)
    np.testing.assert_array_equal(again.score_samples(X[:3], steps=4), scores)
    assert again.network is Pictures
    with pytest.raises(ValueError, match=r"only the name is stored: pass it, JumpModel.load\(path, network=Pictures\)"):
        JumpModel.load(tmp_path / "m")


def test_a_pixel_of_the_features_is_where_it_is_in_the_row():
    """Of the views of z_t only a pixel's own change with it, and a constant pixel's are zero."""
    X = load_digits().data
    model = quick(network=Pictures, width=8, max_updates=1).fit(X)
    constant = (X[:1] == X).all(0)
    x = model.block_.read(X[:1])
    z, more = model.block_.encode(x).sample(), X[:1].copy()
    more[0, 20] += 1
    alpha = torch.full((1, 1), 0.5, dtype=torch.float64)
    views, others = (
        model.block_.features(each, alpha).reshape(4, 64)
        for each in (z, model.block_.encode(model.block_.read(more)).sample())
    )
    assert (views[:, constant] == 0).all()
    assert (views != others).any(0).nonzero().tolist() == [[20]]
    assert model.denoiser_.network.last.out_channels == model.block_.parts[-1].per_column


def test_a_network_by_a_factory_and_one_that_is_none(tmp_path):
    model = quick(network=lambda inputs, outputs, width: nn.Bilinear(inputs, 1, outputs), width=8)
    with pytest.raises(TypeError, match="forward"):
        model.fit(counts())
    with pytest.raises(TypeError, match="called as"):
        quick(network=3).fit(counts())
    quick(max_updates=1).fit(counts()).save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"a network of countjump's, 'mlp', .* without network"):
        JumpModel.load(tmp_path / "m", network=Pictures)


# Legal extremes.


@pytest.mark.parametrize("value", [0, 7, 3.25])
def test_constant_data_comes_back_constant(value, tmp_path):
    X = np.full((20, 3), value)
    model = quick().fit(X)
    np.testing.assert_array_equal(model.sample(9, random_state=0), np.full((9, 3), value))
    np.testing.assert_allclose(model.score_samples(X), 3 * np.log1p(-1 / 63))  # an escape mass of 1/21 in all
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(JumpModel.load(tmp_path / "m").sample(9), np.full((9, 3), value))


def test_constant_and_all_zero_columns_come_back_so():
    X = np.column_stack([counts(columns=1), np.full(300, 7), np.zeros(300, dtype=int)])
    Y = quick().fit(X).sample(500, steps=5, random_state=0)
    assert (Y[:, 1] == 7).all()
    assert (Y[:, 2] == 0).all()
    assert len(np.unique(Y[:, 0])) > 1


def test_one_row_one_column_and_all_zero_rows():
    np.testing.assert_array_equal(quick().fit([[3, 0, 5]]).sample(2), [[3, 0, 5]] * 2)
    assert quick().fit(counts(columns=1)).sample(4, steps=2).shape == (4, 1)
    assert quick().fit(np.vstack([counts(), np.zeros((50, 3), dtype=int)])).sample(4, steps=2).shape == (4, 3)
    assert quick(batch_size=1, max_updates=5).fit(counts()).sample(4, steps=2).shape == (4, 3)
    assert quick().fit([[1, 2], [3, 4]]).sample(4, steps=2).shape == (4, 2)


def test_counts_of_a_billion_stay_exact():
    """Odd numbers stay odd: float32 and bfloat16 hold no odd number of this size."""
    odd = 10**9 + 1
    X = np.column_stack([np.full(400, odd), counts(400, 1)])
    assert (quick().fit(X).sample(50, steps=4)[:, 0] == odd).all()
    two = np.where(np.arange(400) % 2, odd, 0)[:, None]
    Y = quick(domain=Count(max=odd), max_updates=500, learning_rate=1e-2).fit(two).sample(500, steps=4, random_state=0)
    assert (odd == Y).mean() > 0.2
    assert Y.max() == odd
    model = quick(domain="count").fit(odd + 2 * np.arange(40)[:, None])
    again = model.process_.marginal(torch.tensor([[odd]]).double(), torch.zeros(1, 1).double()).sample(
        torch.Generator()
    )
    assert int(again) == odd


@pytest.mark.parametrize("schedule", ["linear-beta", "cosine", "geometric"])
def test_almost_empty_data_is_legal(schedule):
    X = np.zeros((200_000, 1), dtype=int)
    X[7] = 1
    model = quick(schedule=schedule, max_updates=5).fit(X)
    assert model.sample(10, steps=3, random_state=0).sum() <= 1


def test_a_constant_share_of_a_simplex_comes_back_constant():
    X = np.column_stack([np.full(300, 0.5), shares(300) / 2])
    model = quick().fit(X)
    Y = model.sample(200, steps=5, random_state=0)
    assert (Y[:, 0] == 0.5).all()
    np.testing.assert_allclose(Y.sum(1), 1)
    whole = quick().fit(shares(300))
    difference = model.score_samples(X, steps=5, draws=30) - whole.score_samples(shares(300), steps=5, draws=30)
    assert difference.mean() == pytest.approx(2 * np.log(2) + np.log1p(-1 / 301), abs=0.01)


def test_whole_numbers_of_a_real_domain_are_rounded_not_cut():
    X = np.random.default_rng(0).integers(0, 21, size=(2000, 1))
    whole, real = (quick(domain=Bounded(20)).fit(x).sample(300, steps=5, random_state=0) for x in (X, X.astype(float)))
    assert whole.dtype == X.dtype
    assert (real % 1 > 0).any()
    np.testing.assert_array_equal(whole, np.rint(real))


def test_a_column_that_the_priors_sample_misses_is_fitted():
    X = np.random.default_rng(0).poisson(1.0, (101_000, 10))
    X[:, 7] = 0
    X[1, 7] = 3
    for data in (X, X * np.pi):
        assert quick(max_updates=2).fit(data).sample(2, steps=2).shape == (2, 10)


SETS = {
    "PoisMix": lambda g, n: g.poisson(np.where(g.random(n) < 0.9, 1, 100)),
    "Uniform": lambda g, n: g.random(n),
    "integers": lambda g, n: g.integers(0, 21, size=n),
}


@pytest.mark.parametrize("name", SETS)
def test_a_short_default_fit_comes_near_the_floor(name):
    """The full-size check, 100,000 values and default length, is ``benchmarks/foundation.py``."""
    generator = np.random.default_rng(1)
    draw = lambda: np.sort(SETS[name](generator, 10_000))  # noqa: E731
    floor = np.mean([np.abs(draw() - draw()).mean() for _ in range(10)])
    x = draw()
    model = JumpModel(max_updates=200, batch_size=512, random_state=0, progress=False).fit(x[:, None])
    Y = model.sample(10_000, steps=20, random_state=0)
    assert np.abs(np.sort(Y.ravel()) - x).mean() < 5 * floor


def test_the_same_seed_gives_the_same_model_whatever_torch_s_global_seed():
    torch.manual_seed(1)
    first = quick().fit(counts())
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = quick().fit(counts())
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_array_equal(first.sample(20, 3, 0), second.sample(20, 3, 0))


def test_rows_of_few_columns_take_one_thread_and_leave_torch_s_setting_alone(monkeypatch):
    seen = []
    real = Batches.rows
    monkeypatch.setattr(
        Batches, "rows", lambda self, update: seen.append(torch.get_num_threads()) or real(self, update)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        quick(max_updates=2).fit(counts()).sample(2, steps=1)
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# Bad input.


BAD = {
    "nan": (np.array([[1.0, 2.0], [np.nan, 0.0]]), ValueError, r"X\[1, 0\] = nan is NaN"),
    "inf": (np.array([[1.0, np.inf]]), ValueError, r"X\[0, 1\] = inf is infinity"),
    "huge": (np.array([[2.0**60]]), ValueError, r"above 2\^53"),
    "object": (np.array([[1, None]], dtype=object), TypeError, r"X\[0, 1\] = None"),
    "empty": (np.zeros((0, 3)), ValueError, "empty"),
    "no columns": (np.zeros((3, 0)), ValueError, "no columns"),
    "huge object": (
        np.array([[2**53 + 1, 0.5]], dtype=object),
        ValueError,
        r"X\[0, 0\] = 9007199254740993 is above 2\^53",
    ),
    "one dimension": (np.arange(4), ValueError, "Reshape your data"),
    "sparse nan": (sp.csr_matrix(np.array([[0.0, 0.0], [0.0, np.nan]])), ValueError, r"X\[1, 1\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused_with_its_place_and_changes_nothing(case):
    X, error, message = BAD[case]
    model = quick().fit(counts())
    before = model.sample(5, steps=2, random_state=0)
    with pytest.raises(error, match=message):
        model.fit(X)
    np.testing.assert_array_equal(model.sample(5, steps=2, random_state=0), before)
    with pytest.raises(error, match=message):
        model.score_samples(X)


@pytest.mark.parametrize(
    ("domain", "X", "message"),
    [
        (Count(), [[1, 2], [3, 4.5]], r"X\[1, 1\] = 4.5 is not a whole number"),
        (Count(max=3), [[1, 2], [3, 4]], r"X\[1, 1\] = 4 is above the bound 3"),
        (Count(max=(9, 3)), [[1, 2], [8, 4]], r"X\[1, 1\] = 4 is above the bound 3"),
        (Count(max=(9, 3, 4)), [[1, 2], [8, 4]], "3 bounds for 2 columns"),
        (Count(max=np.array([9, 3])), [[1, 2], [8, 4]], r"X\[1, 1\] = 4 is above the bound 3"),
        (Bounded(2.5), [[1, 2], [3, 1]], r"X\[1, 0\] = 3 is above the bound 2.5"),
        (Count(), [[1, 2], [3, -4]], r"X\[1, 1\] = -4 is negative"),
        (NonNegative(), [[1, 2], [3, -4.5]], r"X\[1, 1\] = -4.5 is negative"),
        (Binary(), [[1, 0], [1, 2]], r"X\[1, 1\] = 2 is neither 0 nor 1"),
        (OneHot(), [[1, 0], [1, 1]], "row 1 of X adds up to 2"),
        (Simplex(), [[0.5, 0.5], [0.5, 0.4]], "row 1 of X adds up to 0.9"),
    ],
)
def test_data_outside_its_domain_is_refused(domain, X, message):
    with pytest.raises(ValueError, match=message):
        quick(domain=domain).fit(X)


@pytest.mark.parametrize(
    "name",
    ["domain", "process", "belief", "objective", "decode", "schedule", "network", "lr_schedule", "lam", "device"],
)
def test_unknown_option_names_are_refused(name):
    with pytest.raises(ValueError, match="nonsense"):
        quick(**{name: "nonsense"}).fit(counts())
    with pytest.raises(TypeError):
        JumpModel(nonsense=1)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"lam": -1.0}, ValueError),
        ({"lam": [1.0, 2.0]}, ValueError),
        ({"components": 0}, ValueError),
        ({"components": 2.5}, TypeError),
        ({"max_updates": 0}, ValueError),
        ({"batch_size": "many"}, TypeError),
        ({"validation_fraction": 1.0}, ValueError),
        ({"learning_rate": -1.0}, ValueError),
        ({"ema": 1.0}, ValueError),
        ({"ema": None}, TypeError),
        ({"validation_fraction": "a"}, TypeError),
        ({"learning_rate": "a"}, TypeError),
        ({"device": "cuda:99"}, ValueError),
        ({"checkpoint_dir": __file__}, ValueError),
        ({"lam": [1.0, 2.0, 3.0, 4.0]}, ValueError),
        ({"lam": ["a"]}, ValueError),
        ({"lam": None}, ValueError),
        ({"random_state": -1}, ValueError),
        ({"random_state": "seed"}, ValueError),
        ({"domain": 3}, TypeError),
    ],
)
def test_bad_parameters_are_refused(params, error):
    with pytest.raises(error):
        quick(process="poisson" if "lam" in params else "auto", **params).fit(
            counts()
        ) if "random_state" not in params else JumpModel(**params, progress=False).fit(counts())


def test_before_fit_and_bad_calls():
    for call in (lambda m: m.sample(3), lambda m: m.score_samples(counts()), lambda m: m.save("nowhere")):
        with pytest.raises(NotFittedError):
            call(JumpModel())
    assert not Path("nowhere").exists()
    model = quick().fit(counts())
    with pytest.raises(ValueError, match="n_samples must be at least 0"):
        model.sample(-1)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        model.sample(1, steps=0)
    with pytest.raises(TypeError):
        model.sample(2.5)
    for name in ("steps", "draws"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            model.score_samples(counts(), **{name: 0})
        with pytest.raises(TypeError, match=f"{name} must be a whole number"):
            model.score_samples(counts(), **{name: 2.5})
    with pytest.raises(ValueError, match="X has 2 features, but JumpModel is expecting 3"):
        model.score_samples(counts(columns=2))
    with pytest.raises(TypeError, match="strings"):
        model.score_samples([[1, 2, "b"]])
    declared = quick(domain="count").fit(counts())
    with pytest.raises(ValueError, match="not a whole number"):
        declared.score_samples([[0.5, 1, 1]])
    with pytest.raises(ValueError, match="is negative"):
        declared.score_samples([[-1, 1, 1]])


# Files.


@pytest.mark.parametrize("name", DATA)
def test_save_and_load_keep_everything(name, tmp_path):
    model = quick(domain="auto" if name != "count" else Count()).fit(DATA[name])
    model.save(tmp_path / "m")
    assert sorted(p.suffix for p in (tmp_path / "m").iterdir()) == [".json", ".safetensors"]
    again = JumpModel.load(tmp_path / "m")
    np.testing.assert_array_equal(again.score_samples(DATA[name][:20]), model.score_samples(DATA[name][:20]))
    assert again.get_params() == model.get_params()
    assert again.history_ == model.history_
    assert again.domain_ == model.domain_
    assert again.choices_ == model.choices_
    assert again.n_features_in_ == model.n_features_in_
    np.testing.assert_array_equal(again.lam_, model.lam_)
    again.save(tmp_path / "m")
    np.testing.assert_array_equal(JumpModel.load(tmp_path / "m").sample(3, 2, 0), model.sample(3, 2, 0))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    X=hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=st.integers(0, 9)),
    seed=st.integers(0, 2**31),
)
def test_any_small_table_survives_the_round_trip(X, seed, tmp_path):
    model = quick(max_updates=2, random_state=seed).fit(X)
    model.save(tmp_path / "m")
    Y = model.sample(7, steps=2, random_state=seed)
    np.testing.assert_array_equal(JumpModel.load(tmp_path / "m").sample(7, steps=2, random_state=seed), Y)
    check_domains(model, Y)
    fixed = (X[0] == X).all(0)
    np.testing.assert_array_equal(Y[:, fixed], np.tile(X[0, fixed], (7, 1)))


def test_damaged_model_directories_say_so(tmp_path):
    model = quick().fit(counts())
    with pytest.raises(FileNotFoundError):
        JumpModel.load(tmp_path / "missing")
    (tmp_path / "foreign").mkdir()
    with pytest.raises(ValueError, match="no countjump model"):
        JumpModel.load(tmp_path / "foreign")
    (tmp_path / "foreign" / "model.json").write_text('{"some": "thing"}')
    with pytest.raises(ValueError, match="not a countjump model"):
        JumpModel.load(tmp_path / "foreign")
    model.save(tmp_path / "m")
    weights = next((tmp_path / "m").glob("*.safetensors"))
    whole, described = weights.read_bytes(), (tmp_path / "m" / "model.json").read_text()
    weights.write_bytes(whole[:-10])
    with pytest.raises(ValueError, match="is damaged"):
        JumpModel.load(tmp_path / "m")
    weights.unlink()
    with pytest.raises(ValueError, match="is incomplete"):
        JumpModel.load(tmp_path / "m")
    weights.write_bytes(whole)
    (tmp_path / "m" / "model.json").write_text(described[:50])
    with pytest.raises(ValueError, match="is damaged"):
        JumpModel.load(tmp_path / "m")
    later = json.loads(described) | {"version": 99}
    (tmp_path / "m" / "model.json").write_text(json.dumps(later))
    with pytest.raises(ValueError, match="version 99"):
        JumpModel.load(tmp_path / "m")
    unknown = later["fitted"] | {"plan": later["fitted"]["plan"] | {"parts": [{"kind": "nonsense", "options": {}}]}}
    for change in ({"params": [1]}, {"fitted": later["fitted"] | {"block_rows": 0}}, {"fitted": unknown}):
        (tmp_path / "m" / "model.json").write_text(json.dumps(later | {"version": persistence.VERSION} | change))
        with pytest.raises(ValueError, match="is damaged"):
            JumpModel.load(tmp_path / "m")
    del later["fitted"]
    (tmp_path / "m" / "model.json").write_text(json.dumps(later | {"version": persistence.VERSION}))
    with pytest.raises(ValueError, match="is damaged"):
        JumpModel.load(tmp_path / "m")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        model.save(tmp_path / "file")


def test_a_crash_while_saving_leaves_the_old_model(tmp_path, monkeypatch):
    old, new = quick(random_state=0).fit(counts()), quick(random_state=1).fit(counts(seed=1))
    old.save(tmp_path / "m")
    real = os.replace
    for failing in (1, 2):
        calls = []

        def crash(source, target, calls=calls, failing=failing):
            calls.append(target)
            if len(calls) == failing:
                raise OSError("the machine went away")
            real(source, target)

        monkeypatch.setattr(os, "replace", crash)
        with pytest.raises(OSError, match="went away"):
            new.save(tmp_path / "m")
        np.testing.assert_array_equal(JumpModel.load(tmp_path / "m").sample(5, 2, 0), old.sample(5, 2, 0))
    monkeypatch.setattr(os, "replace", real)
    new.save(tmp_path / "m")
    np.testing.assert_array_equal(JumpModel.load(tmp_path / "m").sample(5, 2, 0), new.sample(5, 2, 0))
    assert len(list((tmp_path / "m").iterdir())) == 2


# Numbers at the ends, and words for what cannot be.


def fit_quickly(X, **params):
    return JumpModel(**{"max_updates": 2, "width": 8, "random_state": 0, "progress": False} | params).fit(X)


def test_values_too_small_for_counts_are_fitted_and_their_loss_is_said():
    model = fit_quickly(np.array([[1e-200], [1.5], [2.5]]))
    assert "33.3% of column 0's are lost" in model.choices_["lam"]
    assert model.lam_[0] * 2.5 <= 2**53
    assert np.isfinite(model.sample(20, steps=3, random_state=0)).all()


@pytest.mark.parametrize("power", [60, 300, 3000])
def test_p_values_are_fitted(power):
    X = np.random.default_rng(0).random((50, 2)) ** power
    assert np.isfinite(fit_quickly(X).sample(20, steps=3, random_state=0)).all()


def test_a_simplex_of_which_constants_leave_nothing_is_reals():
    X = np.array([[0.5, 0.5, 1e-9], [0.5, 0.5, 2e-9]])
    assert fit_quickly(X).domain_.name == "non-negative"
    with pytest.raises(ValueError, match="leave no share to the others: use domain='auto'"):
        fit_quickly(X, domain="simplex")


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"device": None}, TypeError, "device must be a name, got None: use 'auto'"),
        ({"device": "xpu"}, ValueError, "device='xpu' is unknown or not there: use"),
        ({"device": "hpu"}, ValueError, "device='hpu' is unknown or not there: use"),
        ({"device": "meta"}, ValueError, "device='meta' is unknown or not there: use"),
        ({"checkpoint_dir": 2}, TypeError, "checkpoint_dir must be a path or None, got 2"),
        ({"domain": Count}, TypeError, r"got <class .*>: write Count\(\)"),
        ({"random_state": 2**64}, ValueError, "random_state must be at most 18446744073709551615"),
        ({"random_state": "seed"}, ValueError, "random_state='seed' cannot be used as a seed: use"),
        ({"width": 2**31}, ValueError, "width must be at most 16384"),
        ({"components": 10**6}, ValueError, "components must be at most 256"),
        ({"learning_rate": 10**400}, ValueError, "learning_rate must be positive and finite"),
        ({"progress": 1j}, TypeError, "progress must be True or False"),
    ],
)
def test_parameters_that_cannot_be(params, error, words):
    with pytest.raises(error, match=words):
        fit_quickly(np.ones((3, 2)), **params)


def test_more_dimensions_than_a_picture_has_are_advised_to_become_rows():
    with pytest.raises(ValueError, match=r"X\.reshape\(len\(X\), -1\)"):
        fit_quickly(np.ones((3, 4, 4, 2, 2)))


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.uint64, np.int8])
def test_samples_stay_within_their_dtype(dtype):
    model = fit_quickly(np.array([[1], [2], [100]], dtype=dtype))
    top = np.finfo(dtype).max if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    drawn = model._finish(np.array([[1e300]]))
    assert drawn.dtype == dtype
    assert 0.99 * float(top) <= float(drawn[0, 0]) <= float(top)


def test_wide_float16_rows_are_fitted():
    X = (np.random.default_rng(0).random((30, 300)) * (np.random.default_rng(1).random((30, 300)) < 0.1)).astype(
        np.float16
    )
    model = fit_quickly(X)
    assert model.sample(5, steps=3, random_state=0).dtype == np.float16
    assert np.isfinite(model.score_samples(X[:3], steps=3)).all()


def test_a_constant_one_hot_row_has_a_score():
    model = fit_quickly(np.array([[1, 0]] * 4), domain="one-hot")
    assert np.isfinite(model.score_samples([[1, 0]])).all()


def test_samples_and_draws_beyond_memory_are_refused():
    model = fit_quickly(np.ones((3, 2)) * [[1], [2], [3]])
    with pytest.raises(ValueError, match="more than there is memory for: draw fewer at a time"):
        model.sample(10**14)
    with pytest.raises(ValueError, match="draws must be at most"):
        model.score_samples([[1, 2]], draws=10**9)


def test_columns_that_are_all_denormal_are_zeros_and_tiny_ones_are_named():
    model = fit_quickly(np.array([[5e-324, 1.5], [1e-310, 2.0], [2e-323, 1.0]]))
    assert (model.sample(5, steps=2, random_state=0)[:, 0] == 0).all()
    assert model.choices_["zeros"] == "reals below 1e-290 are taken for zeros"
    with pytest.raises(ValueError, match=r"column 1 of X has no value above 1e-100, .* multiply it"):
        fit_quickly(np.array([[1.5, 1e-200], [2.0, 2e-200], [1.0, 3e-200]]))


@pytest.mark.parametrize("value", [np.longdouble(0.9), np.float16(0.9)])
def test_reals_of_numpy_are_reals(value):
    assert fit_quickly(np.ones((3, 2)), ema=value).ema is value


def test_schedules_of_numpys_numbers_resume(tmp_path):
    X = np.random.default_rng(0).poisson(2.0, size=(20, 1))
    for schedule in (LinearBeta(timesteps=np.int64(100)), LinearBeta(timesteps=100)):
        fit_quickly(X, schedule=schedule, checkpoint_dir=tmp_path)
