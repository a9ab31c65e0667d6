"""Models and checkpoints on disk: what a damaged or hostile file, a crash or a second process can and cannot do."""

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from countjump import Categorical, JumpModel, Offset, Step, persistence
from countjump.persistence import FILE, ModelFileError
from countjump.training import CheckpointError
from countjump.training.checkpoints import Checkpoint


def small_model(seed=0, X=None, **params):
    X = np.random.default_rng(0).poisson(2.0, size=(40, 2)) if X is None else X
    return JumpModel(max_updates=2, width=8, random_state=seed, progress=False, **params).fit(X)


@pytest.fixture(scope="module")
def model():
    return small_model()


def test_a_mapping_with_keys_of_several_kinds_is_saved(tmp_path):
    domain, transform = {(0, -1): Categorical(), 1: "count"}, {2: (Offset(-10), Step(0.5))}
    X = np.random.default_rng(0).integers(0, 3, size=(60, 4)) * [1, 1, 0.5, 1]
    model = JumpModel(domain=domain, transform=transform, max_updates=2, width=8, random_state=0, progress=False).fit(X)
    model.save(tmp_path / "model")
    again = JumpModel.load(tmp_path / "model")
    assert again.get_params()["domain"] == domain
    assert again.get_params()["transform"] == transform
    np.testing.assert_array_equal(again.sample(20, steps=3, random_state=1), model.sample(20, steps=3, random_state=1))


def weights_in(directory):
    return sorted(path.name for path in directory.glob("weights-*.safetensors"))


def rewrite(directory, change):
    """Let somebody who knows the format change a model, digest included."""
    described = json.loads((directory / FILE).read_text())
    described.pop("digest")
    change(described)
    described["digest"] = persistence._digest_of(described)
    (directory / FILE).write_text(json.dumps(described))


# What is left alone, and what is replaced.


def test_a_save_replaces_its_own_weights_and_leaves_other_files_alone(model, tmp_path):
    foreign = [tmp_path / "weights-mine.safetensors", tmp_path / f"weights-{'0' * 32}.safetensors", tmp_path / "notes"]
    for path in foreign:
        path.write_bytes(b"precious")
    model.save(tmp_path)
    first = set(weights_in(tmp_path))
    small_model(seed=1).save(tmp_path)
    assert all(path.read_bytes() == b"precious" for path in foreign)
    assert len(first) == len(weights_in(tmp_path)) == 3
    assert first != set(weights_in(tmp_path))


def test_saves_and_loads_at_once_leave_and_see_whole_models(model, tmp_path):
    other, failures = small_model(seed=1), []
    samples = {model.sample(4, random_state=0).tobytes(), other.sample(4, random_state=0).tobytes()}
    model.save(tmp_path)

    def repeat(action, times):
        try:
            for _ in range(times):
                action()
        except Exception as error:
            failures.append(error)

    def load():
        assert JumpModel.load(tmp_path).sample(4, random_state=0).tobytes() in samples

    actions = [(lambda: model.save(tmp_path), 15), (lambda: other.save(tmp_path), 15), (load, 20)]
    threads = [threading.Thread(target=repeat, args=each) for each in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(os.listdir(tmp_path)) == [FILE, *weights_in(tmp_path)]
    assert len(weights_in(tmp_path)) == 1


# Damage.


def test_no_flipped_byte_of_a_model_goes_unnoticed(model, tmp_path):
    model.save(tmp_path)
    expected = model.sample(4, random_state=0)
    for path in (tmp_path / FILE, tmp_path / weights_in(tmp_path)[0]):
        whole = path.read_bytes()
        for place in range(0, len(whole), len(whole) // 120):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
            with suppress(ModelFileError):  # a space that became another is the same JSON
                assert np.array_equal(JumpModel.load(tmp_path).sample(4, random_state=0), expected)
                assert path.name == FILE
        path.write_bytes(whole)


def test_no_flipped_byte_of_a_checkpoint_goes_unnoticed(tmp_path):
    X = np.random.default_rng(0).integers(0, 2, size=(40, 2))  # which are planned in no time
    small_model(X=X, checkpoint_dir=tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 150):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match="delete"):
            small_model(X=X, checkpoint_dir=tmp_path)


def test_of_two_fits_with_one_checkpoint_directory_the_second_is_told(tmp_path):
    with (
        Checkpoint(tmp_path / "checkpoint.safetensors", "").held(),
        pytest.raises(
            CheckpointError, match=r"another fit is writing its checkpoints to .*: wait until it ends, or choose"
        ),
    ):
        small_model(checkpoint_dir=tmp_path)
    assert small_model(checkpoint_dir=tmp_path).history_


# Malice.


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["fitted"]["plan"].update(width=20_000),
        lambda d: d["fitted"]["plan"]["schedule"].update(timesteps=10**9),
        lambda d: d["fitted"]["plan"]["parts"][0]["options"].update(components=10**9),
        lambda d: d["fitted"]["plan"]["parts"][0].update(kind="os.system"),
        lambda d: d["fitted"]["plan"].update(t_max="inf"),
        lambda d: d["fitted"]["plan"].update(network="torch.nn.Linear"),
        lambda d: d["fitted"]["plan"].pop("parts"),
        lambda d: d["fitted"].update(block_rows=10**7),
        lambda d: d["fitted"].update(block_rows=-1),
        lambda d: d["fitted"].update(seed="0"),
        lambda d: d["fitted"].update(seed=2**70),
        lambda d: d["fitted"].update(dtype="O"),
        lambda d: d["fitted"].update(sparse="dense"),
        lambda d: d["fitted"].update(history=[{"loss": "x"}]),
        lambda d: d["fitted"].update(feature_names=["a"]),
        lambda d: d["params"].update(device=5),
        lambda d: d["params"].update(unknown=1),
        lambda d: d.update(weights="../weights-" + "0" * 32 + ".safetensors"),
        lambda d: d.update(weights=None),
        lambda d: d.update(bytes=10**12),
        lambda d: d.pop("fitted"),
    ],
)
def test_a_model_that_asks_for_what_it_does_not_bring_is_refused(model, tmp_path, change):
    model.save(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(ModelFileError, match="save the model again"):
        JumpModel.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": Infinity}', '{"a": NaN}', "null", "", "\xff", '{"a": 1', "1e999999"]
)
def test_json_that_is_no_model_is_refused(tmp_path, text):
    (tmp_path / FILE).write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelFileError, match=str(tmp_path)):
        JumpModel.load(tmp_path)


def test_a_network_is_refused_before_it_takes_memory(model, tmp_path):
    model.save(tmp_path)
    rewrite(tmp_path, lambda d: d["fitted"]["plan"].update(width=200_000))  # 300 GB
    with pytest.raises(ModelFileError, match="its network is larger than its weights"):
        JumpModel.load(tmp_path)


def test_a_huge_description_is_not_read(model, tmp_path):
    model.save(tmp_path)
    with open(tmp_path / FILE, "r+b") as file:
        file.truncate(2**33)
    with pytest.raises(ModelFileError, match="bytes, and a model has fewer"):
        JumpModel.load(tmp_path)


def test_a_model_fitted_on_a_device_that_is_not_here_is_loaded_on_another(model, tmp_path):
    JumpModel(**model.get_params() | {"device": "cpu"}).fit(np.ones((5, 2))).save(tmp_path)
    assert JumpModel.load(tmp_path).device == "cpu"
    rewrite(tmp_path, lambda d: d["params"].update(device="cuda:99"))
    assert JumpModel.load(tmp_path).device == "auto"


@pytest.mark.parametrize("change", [{"max_updates": np.int64(2)}, {"width": np.int8(8)}, {"ema": np.float32(0.999)}])
def test_a_model_fitted_with_numbers_of_numpy_is_saved(model, tmp_path, change):
    params = model.get_params() | change | {"checkpoint_dir": str(tmp_path / "checkpoints")}
    JumpModel(**params).fit(np.random.default_rng(0).poisson(2.0, size=(40, 2))).save(tmp_path / "model")
    loaded = JumpModel.load(Path(tmp_path / "model"))
    assert loaded.sample(np.uint16(4), random_state=np.int8(0)).shape == (4, 2)


# What each kind of model may ask for.

KINDS = {
    "counts": lambda rng: rng.poisson(2.0, size=(40, 2)),
    "reals": lambda rng: rng.gamma(2.0, size=(40, 2)),
    "bounded": lambda rng: np.minimum(rng.random((200, 2)) * 1.2, 1),
    "simplex": lambda rng: rng.dirichlet([1.0, 2.0, 3.0], size=40),
    "wide": lambda rng: rng.poisson(0.1, size=(40, 300)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [10**5, 10**9, 2**70, -1, 1.5, "8", [8]])
def test_no_kind_of_model_has_sizes_without_limits(kind, number, tmp_path):
    X = KINDS[kind](np.random.default_rng(0))
    JumpModel(max_updates=2, width=8, random_state=0, progress=False).fit(X).save(tmp_path)
    options = json.loads((tmp_path / FILE).read_text())["fitted"]["plan"]["parts"][-1]["options"]
    names = {"components", "width"} & options.keys()
    for name in names:
        rewrite(tmp_path, lambda d, name=name: d["fitted"]["plan"]["parts"][-1]["options"].update({name: number}))
        with pytest.raises(ModelFileError):
            JumpModel.load(tmp_path)
        rewrite(
            tmp_path, lambda d, name=name: d["fitted"]["plan"]["parts"][-1]["options"].update({name: options[name]})
        )
    rewrite(tmp_path, lambda d: d["fitted"]["plan"].update(width=number))
    with pytest.raises(ModelFileError):
        JumpModel.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["fitted"]["plan"].update(process="../../etc"),
        lambda d: d["fitted"]["plan"].update(belief=-1e308),
        lambda d: d["fitted"]["plan"].update(t_max=-1),
        lambda d: d["fitted"]["plan"].update(reasons={"a": [1]}),
        lambda d: d["fitted"]["plan"].update(reasons=0),
        lambda d: d["fitted"]["plan"]["parts"][0]["options"].update(escape=2),
        lambda d: d["fitted"]["plan"]["parts"][0]["options"].update(escape=[1]),
        lambda d: d["fitted"]["history"][0].pop("loss"),
        lambda d: d["params"].update(ema="\x1b[31m"),
        lambda d: d["params"].update(max_updates="inf"),
        lambda d: d["params"].update(checkpoint_dir=1),
    ],
)
def test_names_and_numbers_of_a_plan_are_checked(model, tmp_path, change):
    model.save(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(ModelFileError, match="save the model again"):
        JumpModel.load(tmp_path)


def test_a_save_that_fails_leaves_nothing_new(model, tmp_path):
    model.save(tmp_path)
    before = sorted(os.listdir(tmp_path))
    described = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()  # so that the second of the two files cannot be written
    with pytest.raises(ValueError, match="is a directory"):
        small_model(seed=1).save(tmp_path)
    (tmp_path / FILE).rmdir()
    (tmp_path / FILE).write_bytes(described)
    assert sorted(os.listdir(tmp_path)) == before
    assert JumpModel.load(tmp_path).history_ == model.history_


def test_ctrl_c_when_all_is_written_leaves_the_new_model(model, tmp_path, monkeypatch):
    write = persistence.write_atomically

    def interrupted(path, content):
        write(path, content)
        if path.name == FILE:
            raise KeyboardInterrupt

    small_model(seed=1).save(tmp_path)
    monkeypatch.setattr(persistence, "write_atomically", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path)
    assert np.array_equal(JumpModel.load(tmp_path).sample(4, random_state=0), model.sample(4, random_state=0))


def test_a_load_that_is_overtaken_twice_reads_again(model, tmp_path, monkeypatch):
    """Another model and then the same one are saved between the reading of the JSON file and that of the weights."""
    other, read_weights, calls = small_model(seed=1), persistence._read_weights, []
    model.save(tmp_path)

    def overtaken(directory, described):
        calls.append(1)
        if len(calls) == 1:
            other.save(tmp_path)
            try:
                return read_weights(directory, described)
            finally:
                model.save(tmp_path)
        return read_weights(directory, described)

    monkeypatch.setattr(persistence, "_read_weights", overtaken)
    assert JumpModel.load(tmp_path).history_ == model.history_
    assert len(calls) == 2


def test_a_save_into_a_directory_in_use_gives_up_with_a_word(model, tmp_path, monkeypatch):
    monkeypatch.setattr(persistence, "PATIENCE", 0.05)
    with (
        Checkpoint(tmp_path / "checkpoint.safetensors", "").held(),
        pytest.raises(OSError, match="is in use by another fit or save: wait for it, or choose another directory"),
    ):
        model.save(tmp_path)
