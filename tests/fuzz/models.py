"""Model directories: damaged bytes, hostile JSON and weights, foreign files beside, and places that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from countjump import persistence
from countjump.persistence import ModelFileError

from . import bases
from .case import Case, mutate
from .oracle import attempt, check, check_files, dense, equal, granted, tree

VALUES: list[Any] = [None, True, "", "bogus", 0, -1, 1.5, 2**31, 2**64, 10**9, 10**7, 20_000, 10**400, 1e300]
VALUES += [float("inf"), float("nan")]
VALUES += ["inf", [], [1], [[[[]]]], {}, {"type": "Count"}, {"type": "Count", "max": -1}, {"type": "bogus"}]
VALUES += [{"type": "LinearBeta", "timesteps": 10**9}, "xpu", "cuda:9", "meta", "\x1b[31mred", "a" * 10_000]
VALUES += [{"type": ["Count"]}, "<f16", "|O", "../../x"]
PLACES = [("params", "width", 20_000), ("fitted", "block_rows", 10**7), ("fitted", "seed", -1)]
PLACES += [("fitted", "dtype", "|O"), ("params", "device", "xpu"), ("fitted", "plan", "width", 20_000)]
PLACES += [("fitted", "plan", "schedule", {"type": "LinearBeta", "timesteps": 10**9})]
OWN = ("class", "params", "fitted")
"""What a model says of itself; the rest of the file says what kind of file it is."""


def case(case: Case) -> None:
    case.scenario({_damaged: 5, _edited: 7, _weights: 3, _text: 2, _elsewhere: 1, _foreign: 3, _places: 1})


def _facts(model: Any) -> str:
    choices = sorted(getattr(model, "choices_", {}).items())
    return repr((model.get_params(), choices, model.history_, model.seed_, model.dtype_))


def _load(name: str, path: Path) -> Any:
    """Load what may be hostile: refused as a model file, or a model that draws rows."""
    model, error = attempt(lambda: bases.load(name, path))
    if error is not None:
        check(isinstance(error, ModelFileError | OSError), f"refused with {type(error).__name__}", "load", error)
        return None
    rows, error = attempt(lambda: bases.draw(model))
    if error is None:
        check(rows.shape[0] == 4, "wrong result", "sample", rows.shape)
        check(np.isfinite(dense(rows).astype(float)).all(), "wrong result", "sample after load: not finite", rows)
    return model


def _damaged(case: Case) -> None:
    """Changed bytes: refused, or the very model."""
    name = case.one_of(bases.NAMES)
    directory = bases.saved(name, case.place / "m")
    target = case.one_of(sorted(p for p in directory.iterdir() if p.is_file()))
    case.note(f"{name}, {target.suffix}")
    target.write_bytes(mutate(case, target.read_bytes()))
    model = _load(name, directory)
    if model is not None:
        place = f"load of a damaged {target.suffix}"
        check(equal(bases.draw(model), bases.drawn(name)), "wrong result", f"{place}: other rows")
        check(_facts(model) == _facts(bases.model(name)), "wrong result", f"{place}: other facts")


def _spots(value: Any, path: tuple = ()) -> list[tuple]:
    """The paths to all values inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(spot for key, item in inner for spot in _spots(item, (*path, key)))]


def _put(described: Any, path: tuple, value: Any, delete: bool = False) -> None:
    for key in path[:-1]:
        described = described[key]
    if delete:
        del described[path[-1]]
    else:
        described[path[-1]] = value


def _edited(case: Case) -> None:
    """Values replaced in the JSON file, half of them by one who knows how such files are written."""
    name = case.one_of(bases.NAMES)
    directory = bases.saved(name, case.place / "m")
    described, _ = persistence.read(directory)
    described = json.loads(json.dumps(described))
    if case.chance(0.3):
        *path, value = case.one_of([place for place in PLACES if name != "baseline" or "plan" not in place])
        delete = False
    else:
        path, value = case.one_of(_spots(described)[1:]), case.one_of(VALUES)
        delete = case.chance(0.15)
    case.note(f"{name}: {'.'.join(map(str, path))} {'deleted' if delete else ascii(value)[:60]}")
    _put(described, tuple(path), value, delete)
    if case.chance(0.8):
        described["digest"] = persistence._digest_of(described)
    (directory / persistence.FILE).write_text(json.dumps(described))
    _load(name, directory)


def _weights(case: Case) -> None:
    """Arrays that are whole and make no sense."""
    name = case.one_of(bases.NAMES)
    directory = bases.saved(name, case.place / "m")
    described, arrays = persistence.read(directory)
    key = case.one_of(sorted(arrays))
    array = np.array(arrays.pop(key))
    change = case.one_of(["nan", "inf", "negative", "gone", "shorter", "flat", "dtype", "more", "empty"])
    case.note(f"{name}: {key} {change}")
    if change in ("nan", "inf", "negative") and array.size:
        real, whole = {"nan": (np.nan, 2**31 - 1), "inf": (np.inf, -(2**31)), "negative": (-7, -1)}[change]
        array.flat[case.whole(0, array.size - 1)] = real if array.dtype.kind == "f" else whole
    made = {"shorter": array[:-1] if array.ndim else array, "flat": array.ravel(), "dtype": array.astype(np.int16)}
    made |= {"empty": array[:0] if array.ndim else array, "more": np.stack([array, array])}
    if change != "gone":
        arrays[key] = made.get(change, array)
    persistence.write(directory, {k: described[k] for k in OWN}, arrays)
    _load(name, directory)


def _text(case: Case) -> None:
    """JSON that is no model, or none at all."""
    name = case.one_of(bases.NAMES)
    directory = bases.saved(name, case.place / "m")
    whole = (directory / persistence.FILE).read_text()
    deep = case.one_of(["[", '{"a":']) * case.one_of([500, 100_000])
    texts = [deep, whole.replace('"params": {', f'"params": {{"width": {deep},', 1), "null", "[]", "1", '"a"', "", " "]
    texts += ["\0", "NaN"]
    texts += [whole + whole, whole.replace("{", "[", 1), '{"format": "countjump-model"}', "1" * 5000, "\ufeff" + whole]
    texts += [whole[:-2]]
    text = case.one_of(texts)
    case.note(ascii(text[:60]))
    (directory / persistence.FILE).write_text(text)
    _load(name, directory)


def _elsewhere(case: Case) -> None:
    """Weights outside of the directory are not read, though they be whole."""
    name = "counts"
    directory, other = bases.saved(name, case.place / "m"), bases.saved(name, case.place / "other")
    described = json.loads((directory / persistence.FILE).read_text())
    path = next(other.glob("*.safetensors"))
    described["weights"] = case.one_of([f"../other/{path.name}", str(path), f"sub/../../other/{path.name}"])
    (directory / "sub").mkdir()
    (directory / persistence.FILE).write_text(json.dumps(described))
    check(_load(name, directory) is None, "accepted", "weights outside of the directory", described["weights"])


def _is_model(file: str) -> bool:
    return file == persistence.FILE or (file.startswith("weights-") and file.endswith(".safetensors"))


def _foreign(case: Case) -> None:
    """What is not the model's stays when one is saved, once and again."""
    names = ["weights-mine.safetensors", "weights-0123456789abcdef.safetensors", "model.json.part", "notes.txt"]
    names += ["model.json~"]
    names += ["weights-.safetensors", "sub/model.json", "checkpoint.safetensors", ".model.json.part", "model.json.lock"]
    names += ["model.json.tmp"]
    directory = case.place / "m"
    if case.chance(0.5):
        bases.saved("counts", directory)
    ours = tree(directory)
    for name in case.random.sample(names, case.whole(1, 4)):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"mine")
    before = {name: content for name, content in tree(directory).items() if name not in ours}
    case.note(list(before))
    for name in ("reals", "other counts"):
        granted(lambda name=name: bases.model(name).save(directory), "save")
        check_files(directory, before, lambda file: _is_model(file) and file not in before, "save")
        check(equal(bases.draw(bases.load(name, directory)), bases.drawn(name)), "wrong result", "load: other rows")


def _places(case: Case) -> None:
    (case.place / "file").write_bytes(b"mine")
    places = ["file", "file/m", "a" * 300, "a\0", "new/er/m", "é", "", "\n"]
    path = f"{case.place}/{case.one_of(places)}"
    case.note(ascii(path[-12:]))
    _, error = attempt(lambda: bases.model("counts").save(path))
    check((case.place / "file").read_bytes() == b"mine", "foreign file lost or changed", "save")
    _, refused = attempt(lambda: bases.load("counts", Path(path)))
    check((error is None) == (refused is None), "wrong result", "save and load differ", refused)
