"""Clusters of pictures: a hidden label, drawn before the picture, and known to its score."""

import dataclasses
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from test_images import fitted, pictures

from countjump import Binary, JumpModel, persistence
from countjump.baselines import DDPM
from countjump.clusters import Clusters
from countjump.data import Rows
from countjump.fitting import Task
from countjump.scoring import score_rows


def rows_of(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1).astype(float)


def test_a_row_is_in_the_cluster_of_the_nearest_centre_alone_and_among_others():
    rows = np.random.default_rng(0).random((300, 4))
    clusters, found = Clusters.find(rows, 5, seed=0)
    distances = ((rows[:, None] - clusters.centres.astype(float)) ** 2).sum(2)
    numbers = clusters.numbers(rows)
    np.testing.assert_array_equal(numbers, distances.argmin(1))
    np.testing.assert_array_equal(found, numbers)
    np.testing.assert_array_equal(numbers[:7], [clusters.numbers(row[None])[0] for row in rows[:7]])
    np.testing.assert_array_equal(Clusters.find(rows, 5, seed=0)[0].centres, clusters.centres)


def test_rows_that_are_the_same_are_one_cluster():
    assert len(Clusters.find(np.repeat(np.eye(2), 5, axis=0), 4, seed=0)[0].centres) == 2


def test_the_scores_of_all_pictures_sum_to_one_at_most():
    """The cluster is the nearest: p(x) ≥ p(c(x)) p(x given c(x)), and the sum over all 2 × 2 pictures of 0 and 1 is at most one."""
    X = np.array(list(product([0, 1], repeat=4)), dtype=np.uint8).reshape(-1, 2, 2)
    likely = X[np.random.default_rng(0).integers(0, 4, 200)]
    model = fitted(likely, domain=Binary(), network="mlp", width=16, max_updates=60, clusters=3)
    scores = model.score_samples(X, steps=5, draws=64)
    assert 0.3 < np.exp(scores).sum() <= 1.02
    assert np.exp(scores[:4]).sum() > np.exp(scores[4:]).sum()


def test_scores_and_samples_know_the_cluster(tmp_path: Path):
    """The score is ln p(c) and that of the picture in its cluster c, as which the network is asked."""
    X = pictures(rows=60)
    model = fitted(X, clusters=4)
    assert "4 groups of pictures" in model.choices_["clusters"]
    model.save(tmp_path / "model")
    again = JumpModel.load(tmp_path / "model")
    scores = model.score_samples(X[:5], steps=3)
    np.testing.assert_array_equal(again.score_samples(X[:5], steps=3), scores)
    np.testing.assert_array_equal(again.sample(5, steps=3, random_state=1), model.sample(5, steps=3, random_state=1))
    alone = [model.score_samples(X[i : i + 1], steps=3)[0] for i in range(5)]
    np.testing.assert_allclose(alone, scores, rtol=1e-6)
    numbers = model.clusters_.numbers(rows_of(X))
    share = np.bincount(numbers)[numbers[:5]] / 60
    seed, rows, given = model.seed_, rows_of(X[:5]).astype(np.uint8), numbers[:5, None].astype(float)
    np.testing.assert_allclose(score_rows(model, rows, given, 3, 1, seed) + np.log(share), scores, rtol=1e-6)
    other = score_rows(model, rows, (given + 1) % 4, 3, 1, seed) + np.log(share)
    assert not np.allclose(other, scores)


def test_clusters_are_drawn_as_often_as_they_were_found():
    model = fitted(pictures(rows=60), clusters=3)
    drawn = model._given(None, 3000, 0)
    shares = np.bincount(model.clusters_.numbers(rows_of(pictures(rows=60)))) / 60
    np.testing.assert_allclose(np.bincount(drawn[:, 0].astype(int)) / 3000, shares, atol=0.03)


def test_the_network_learns_rows_of_which_some_is_known_without_their_cluster():
    X = pictures(rows=60)
    model = fitted(X, clusters=3)
    numbers = torch.from_numpy(model.clusters_.numbers(rows_of(X))[:, None].astype(float))
    task = Task(model, Rows(rows_of(X)), numbers, None)
    asked: list[torch.Tensor] = []
    denoiser = model.denoiser_

    def listen(z, t, condition, known=None):
        asked.append(condition)
        return denoiser(z, t, condition, known)

    model.denoiser_ = listen
    for update in range(20):
        task.believe(np.arange(60), torch.Generator().manual_seed(update), learning=True)
    assert all(len(each) == 75 for each in asked)
    assert all(each[60:].isnan().all() for each in asked)
    dropped = torch.stack([each[:60].isnan().double().mean() for each in asked]).mean()
    assert abs(float(dropped) - 0.1) < 0.03, "and a tenth of the others"


def test_clusters_are_no_y():
    model = fitted(pictures(), clusters=2)
    with pytest.raises(ValueError, match="fitted without y"):
        model.sample(2, y="left")
    with pytest.raises(ValueError, match="fitted without y"):
        model.sample(2, guidance=2.0)
    with pytest.raises(ValueError, match="fitted without y"):
        model.sample(2, return_y=True)
    assert math.isfinite(model.score(pictures()[:2], y=[1, 2]))  # scikit-learn's cross-validation may give one


def test_complete_and_deepen_do_not_ask_for_a_cluster():
    X = pictures()
    model = fitted(X, clusters=2)
    known = np.zeros(X[:3].shape, dtype=bool)
    known[:, :, :2] = True
    whole = model.complete(X[:3], known, steps=2, random_state=0)
    assert (whole[known] == X[:3][known]).all()
    assert (model.deepen(X[:3] // 2, 0.5, steps=2, random_state=0) >= X[:3] // 2).all()


@pytest.mark.parametrize(
    ("clusters", "words"), [(0, "at least 1"), (41, "of 40 pictures"), (2.5, "whole number"), ("many", "auto")]
)
def test_impossible_numbers_of_clusters(clusters: object, words: str):
    with pytest.raises((TypeError, ValueError), match=words):
        fitted(pictures(), clusters=clusters)


def test_clusters_are_for_pictures_without_labels():
    with pytest.raises(ValueError, match="only pictures"):
        JumpModel(clusters=2, max_updates=1, progress=False).fit(rows_of(pictures()))
    with pytest.raises(ValueError, match="stand in for labels"):
        fitted(pictures(), np.arange(40) % 2, clusters=2)
    assert fitted(pictures(rows=1000), np.arange(1000) % 2, clusters="auto", max_updates=1).clusters_ is None


def test_ddpm_takes_clusters_where_it_is_asked_to():
    X = pictures()
    options = {"width": 8, "max_updates": 2, "random_state": 0, "progress": False, "network": "mlp"}
    assert DDPM(**options).fit(X).conditions_ is None
    model = DDPM(clusters=3, **options).fit(X)
    assert model.conditions_ is not None
    assert model.conditions_.levels == [3]
    assert model.sample(2, steps=2, random_state=0).shape == (2, 5, 6)


def test_a_picture_that_is_turned_round_is_in_the_cluster_of_what_is_shown():
    """Bright left halves and bright right ones: by the clusters of the pictures as they lie, half of the rows would be misnamed."""
    X = pictures(rows=60)
    model = fitted(X, clusters=2, augment="flip")
    task = Task(model, Rows(rows_of(X)), None, model.layout_)
    both = np.concatenate([X, X[:, :, ::-1]])
    task = dataclasses.replace(task, conditions=torch.from_numpy(model.clusters_.numbers(rows_of(both))[:, None] * 1.0))
    asked = []
    denoiser = model.denoiser_
    model.denoiser_ = lambda z, t, condition, known=None: asked.append(condition) or denoiser(z, t, condition, known)
    _, x, *_ = task.believe(np.arange(60), torch.Generator().manual_seed(0), learning=True)
    model.denoiser_ = denoiser
    shown = model.clusters_.numbers(model.block_.write(x))[:60]
    given = asked[0][:60, 0].numpy()
    known = ~np.isnan(given)
    np.testing.assert_array_equal(given[known], shown[known])
    assert (shown != model.clusters_.numbers(rows_of(X))).any()
    assert model.conditions_.counts.sum() == 120


def change(what: str, said: dict, arrays: dict) -> None:
    fitted_, condition = said["fitted"], "condition/"
    if what == "no centres":
        del arrays["centres"]
    elif what == "no word of clusters":
        fitted_["clusters"] = None
    elif what == "a cluster that never came":
        arrays[f"{condition}kept"], arrays[f"{condition}counts"] = (
            arrays[f"{condition}{each}"][:1] for each in ("kept", "counts")
        )
    elif what == "names":
        fitted_["condition"]["columns"][0]["levels"] = [5, 6, 7]


@pytest.mark.parametrize("what", ["no centres", "no word of clusters", "a cluster that never came", "names"])
def test_files_with_other_clusters_are_refused(what: str, tmp_path: Path):
    fitted(pictures(), clusters=3).save(tmp_path / "model")
    said, arrays = persistence.read(tmp_path / "model")
    change(what, said, arrays)
    persistence.write(tmp_path / "model", {k: said[k] for k in ("class", "params", "fitted")}, arrays)
    with pytest.raises(persistence.ModelFileError, match="damaged"):
        JumpModel.load(tmp_path / "model")


def test_a_mask_of_pictures_is_for_each_or_for_all():
    X = pictures()
    model = fitted(X, clusters=2)
    left = np.arange(6) < 3
    for_all = model.complete(X[:2], np.broadcast_to(left, (5, 6)), steps=2, random_state=0)
    np.testing.assert_array_equal(
        model.complete(X[:2], np.broadcast_to(left, (2, 5, 6)), steps=2, random_state=0), for_all
    )
    with pytest.raises(ValueError, match=r"known is of shape \(2, 5, 3\)"):
        model.complete(X[:2], np.ones((2, 5, 3), dtype=bool))
