"""Fits that are interrupted or killed, and files of other versions."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tables import counts, quick, wide_counts

from countjump import JumpModel, __version__, persistence
from countjump.blocks import sparse_counts
from countjump.networks import UNetSizes
from countjump.training import CheckpointError
from countjump.training.batches import Batches
from countjump.training.checkpoints import FORMAT

FIT = "import sys; sys.path.insert(0, sys.argv[1]); from test_resuming import fit; fit(*sys.argv[2:])"


def fit(data: str, out: str | Path, checkpoints: str | Path | None = None) -> None:
    X = wide_counts() if data == "wide" else counts(columns=2)
    model = quick(max_updates=60, batch_size=32, validation_fraction=0.3)
    if data == "pictures":
        X = np.random.default_rng(0).integers(0, 9, (60, 5, 6), dtype=np.uint8)
        model.set_params(
            network=UNetSizes(multipliers=(1, 2), blocks=1), width=4, augment="flip", accumulate=2, clusters=3
        )
    model.set_params(checkpoint_dir=checkpoints, checkpoint_every=3).fit(X).save(out)


def progress(checkpoint: Path) -> tuple[int, int]:
    """The stage and the update of a checkpoint; (-1, 0) where there is none."""
    if not checkpoint.exists():
        return -1, 0
    content = checkpoint.read_bytes()  # at once: the file may be replaced at any moment
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    found = json.loads(header["__metadata__"]["progress"])
    return found["stage"], found["update"]


def weights(directory: Path) -> bytes:
    return next(directory.glob("*.safetensors")).read_bytes()


@pytest.mark.parametrize(("data", "stages"), [("few columns", 1), ("wide", 4), ("pictures", 1)])
def test_a_fit_killed_in_each_of_its_stages_ends_with_the_same_weights(data, stages, tmp_path):
    """Of wide counts: the row totals, the network, the calibration and the strengths."""
    killed_fit = data, str(tmp_path / "killed"), str(tmp_path / "checkpoints")
    command = [sys.executable, "-c", FIT, str(Path(__file__).parent), *killed_fit]
    checkpoint = tmp_path / "checkpoints" / "checkpoint.safetensors"
    killed = set()
    for stage in range(stages):
        process = subprocess.Popen(command)
        while process.poll() is None and not (progress(checkpoint)[0] == stage and progress(checkpoint)[1] > 0):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            killed.add(progress(checkpoint)[0])
    assert killed == set(range(stages)), "killed in every stage"
    fit(*killed_fit)
    fit(data, tmp_path / "whole")
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


INTERRUPTED = """
import sys
sys.path.insert(0, sys.argv[1])
from tables import counts, quick
quick(max_updates=10**6, checkpoint_dir=sys.argv[2], checkpoint_every=5, progress=True).fit(counts())
"""


def test_ctrl_c_keeps_the_checkpoint_and_says_so(tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    command = [sys.executable, "-c", INTERRUPTED, str(Path(__file__).parent), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    said, error = process.communicate()
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert f"interrupted; the same fit with this checkpoint_dir goes on from {checkpoint}" in said
    assert progress(checkpoint)[1] >= 5
    assert os.listdir(tmp_path) == ["checkpoint.safetensors"]


class Interrupted(Exception):
    pass


def interrupt(monkeypatch, at: int) -> list[int]:
    """Raise at the given update of all stages, counted from 1; the updates that are made."""
    updates: list[int] = []
    real = Batches.rows

    def rows(self, update):
        updates.append(update)
        if len(updates) == at:
            raise Interrupted
        return real(self, update)

    monkeypatch.setattr(Batches, "rows", rows)
    return updates


def same_weights(one: JumpModel, other: JumpModel) -> bool:
    pairs = zip(one.denoiser_.state_dict().values(), other.denoiser_.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_resuming_redoes_only_the_work_since_the_last_checkpoint(tmp_path, monkeypatch):
    whole = quick(max_updates=50).fit(counts())
    updates = interrupt(monkeypatch, 33)
    model = quick(max_updates=50, checkpoint_dir=tmp_path, checkpoint_every=10)
    with pytest.raises(Interrupted):
        model.fit(counts())
    assert not hasattr(model, "plan_")
    model.fit(counts())
    assert updates[33] == 30
    assert same_weights(model, whole)
    assert model.history_ == whole.history_
    done = len(updates)
    model.fit(counts())
    assert len(updates) == done, "a finished fit is not trained again"


def test_a_wide_fit_on_samples_of_its_columns_that_is_interrupted_ends_with_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(sparse_counts, "SAMPLED", 32)
    monkeypatch.setattr(sparse_counts, "MOST_SAMPLED", 1.0)
    settings = {"max_updates": 20, "validation_fraction": 0.2}
    whole = quick(**settings).fit(wide_counts())
    interrupt(monkeypatch, 31)
    model = quick(**settings, checkpoint_dir=tmp_path, checkpoint_every=4)
    with pytest.raises(Interrupted):
        model.fit(wide_counts())
    assert progress(tmp_path / "checkpoint.safetensors") == (1, 8)
    model.fit(wide_counts())
    assert same_weights(model, whole)
    assert model.history_ == whole.history_


def test_a_checkpoint_of_another_fit_or_a_damaged_one_is_refused(tmp_path):
    model = quick(checkpoint_dir=tmp_path, checkpoint_every=10).fit(counts())
    with pytest.raises(CheckpointError, match="another fit"):
        quick(checkpoint_dir=tmp_path).fit(counts(seed=1))
    with pytest.raises(CheckpointError, match="another fit"):
        quick(checkpoint_dir=tmp_path, components=2).fit(counts())
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged"):
        model.fit(counts())


def test_a_checkpoint_of_another_version_is_refused_by_both_versions(tmp_path):
    model = quick(checkpoint_dir=tmp_path, checkpoint_every=10).fit(counts())
    path = tmp_path / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as file:
        described = file.metadata()
    tensors = load_file(path)
    save_file(tensors, path, metadata=described | {"format": "99", "countjump": "9.8.7"})
    with pytest.raises(
        CheckpointError,
        match=rf"by countjump 9\.8\.7 \(format 99\), and this is countjump .* \(format {FORMAT}\): delete",
    ):
        model.fit(counts())
    save_file(tensors, path, metadata=described | {"countjump": "0.1.9"})
    with pytest.raises(
        CheckpointError,
        match=rf"by countjump 0\.1\.9 \(format {FORMAT}\), and this is countjump .* \(format {FORMAT}\): delete",
    ):
        model.fit(counts())
    earlier = {"fingerprint": described["fingerprint"], "state": json.dumps({"update": 10, "history": []})}
    save_file(tensors, path, metadata=earlier)
    with pytest.raises(
        CheckpointError,
        match=rf"countjump before 0\.2 \(format unknown\), and this is countjump .* \(format {FORMAT}\): delete",
    ):
        model.fit(counts())


@pytest.mark.parametrize(("version", "countjump"), [(4, "0.4.0"), (99, "9.8.7")])
def test_a_model_of_another_version_is_refused_by_both_versions(tmp_path, version, countjump):
    quick().fit(counts()).save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": version, "countjump": countjump}))
    both = rf"model version {version}, and this is version {persistence.VERSION} \({__version__}\): .*\('{countjump}'\), or fit"
    with pytest.raises(ValueError, match=both):
        JumpModel.load(tmp_path / "m")


def test_an_unseeded_fit_resumes_too(tmp_path):
    first = quick(random_state=None, checkpoint_dir=tmp_path).fit(counts())
    again = quick(random_state=None, checkpoint_dir=tmp_path).fit(counts())
    np.testing.assert_array_equal(first.sample(5, 2, 0), again.sample(5, 2, 0))


def test_an_object_of_an_unknown_type_in_a_model_file_is_refused(tmp_path):
    """Such as a schedule of one's own that was not registered again."""
    quick().fit(counts()).save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    described = json.loads(file.read_text())
    del described["digest"]
    described["fitted"]["plan"]["schedule"]["type"] = "Power"
    file.write_text(json.dumps(described | {"digest": persistence._digest_of(described)}))
    with pytest.raises(
        ValueError, match=r"unknown type 'Power': register its class in countjump\.persistence\.OBJECTS"
    ):
        JumpModel.load(tmp_path / "m")
