"""Models on disk: one JSON file and one safetensors file that it names; no pickle anywhere.

The JSON file is replaced last. It names its weights by their digest and holds a digest of itself, so that a crash leaves the old
model whole and a damaged file is told from a whole one. A model file may come from anybody: nothing in it is run, and what is
built from it cannot be much larger than the arrays that it brings.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from torch.utils._python_dispatch import TorchDispatchMode

from countjump._version import __version__
from countjump.atomic import check_writable, locked, plain_path, write_atomically
from countjump.domains import DOMAINS
from countjump.networks import UNetSizes
from countjump.schedules import Cosine, Geometric, LinearBeta, Polynomial
from countjump.transforms import Offset, Step, Weights

FORMAT = "countjump-model"
VERSION = 10
FILE = "model.json"
PATIENCE = 30.0
"""Seconds that a save, or a load beside one, waits for its turn."""
MOST_BYTES = 2**28
"""Of the JSON file, which names the columns and says what was chosen."""

OBJECTS: dict[str, Any] = {
    **{kind.__name__: kind for kind in DOMAINS.values()},
    **{
        "LinearBeta": LinearBeta,
        "Cosine": Cosine,
        "Geometric": Geometric,
        "Polynomial": Polynomial,
        "UNetSizes": UNetSizes,
        "Offset": Offset,
        "Step": Step,
        "Weights": Weights,
    },
}


class ModelFileError(ValueError):
    """A model directory that is damaged, or of another version."""


class NotAModelError(ModelFileError, FileNotFoundError):
    """A directory that holds no countjump model."""


class OwnNetworkError(ModelFileError):
    """A model with a network of one's own, which is not in the file."""


def encode(value: Any) -> Any:
    """A parameter as JSON: plain values, and domains and schedules by name."""
    if type(value).__name__ in OBJECTS:
        return {"type": type(value).__name__, **{k: encode(v) for k, v in dataclasses.asdict(value).items()}}
    if isinstance(value, np.floating):  # a long double is no item
        value = float(value)
    if hasattr(value, "tolist"):  # arrays, their numbers and tensors
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list | range):
        return [encode(item) for item in value]
    if isinstance(value, slice):
        return {"type": "slice", "of": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {"type": "mapping", "items": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"cannot write {value!r} to a model file: register its class in countjump.persistence.OBJECTS")


def decode(value: Any) -> Any:
    """Back from :func:`encode`."""
    if isinstance(value, dict) and value.get("type") in OBJECTS:
        return OBJECTS[value["type"]](**{k: decode(v) for k, v in value.items() if k != "type"})
    if isinstance(value, dict) and value.get("type") == "slice":
        return slice(*value["of"])
    if isinstance(value, dict) and value.get("type") == "mapping":
        return {decode(key): decode(item) for key, item in value["items"]}
    if isinstance(value, dict):
        raise ModelFileError(
            f"an object of the unknown type {value.get('type')!r}: register its class in countjump.persistence.OBJECTS"
        )
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    return math.inf if value == "inf" else value


def under(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def write(path: str | Path, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a model directory; one that is there already is replaced, atomically. Other files there are left alone."""
    directory = plain_path(path)
    check_writable(directory, directory=True)
    content = save_tensors({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    name = f"weights-{_digest(content)}.safetensors"
    header = {"format": FORMAT, "version": VERSION, "countjump": __version__, "weights": name, "bytes": len(content)}
    whole = header | described
    text = json.dumps(whole | {"digest": _digest_of(whole)}, indent=1, allow_nan=False)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with locked(directory, PATIENCE):
            _replace(directory, name, content, f"{text}\n".encode())
    except BlockingIOError as error:
        raise OSError(
            f"{directory} is in use by another fit or save: wait for it, or choose another directory"
        ) from error


def _replace(directory: Path, name: str, content: bytes, text: bytes) -> None:
    before, there = _named_weights(directory), (directory / name).exists()
    write_atomically(directory / name, content)
    try:
        write_atomically(directory / FILE, text)
    except BaseException:
        if not there and _named_weights(directory) != name:  # Ctrl-C may come when all is done
            (directory / name).unlink(missing_ok=True)
        raise
    if before is not None and before != name:
        (directory / before).unlink(missing_ok=True)


def _named_weights(directory: Path) -> str | None:
    """The weights of the model that is there, if one is."""
    try:
        return _weights_name(directory, _read_description(directory))
    except (ModelFileError, OSError):
        return None


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model directory, or say what is wrong with it. One that is being replaced is read again."""
    directory = plain_path(path)
    if not directory.exists():
        raise FileNotFoundError(f"no model at {directory}: give the directory that save() wrote")
    if directory.is_file():
        raise NotAModelError(f"{directory} is a file: give the directory that holds {FILE}")
    if not (directory / FILE).is_file():
        raise NotAModelError(
            f"{directory} holds no countjump model ({FILE} is missing): give the directory that save() wrote"
        )
    try:
        return _read(directory)
    except (ModelFileError, FileNotFoundError):
        with suppress(BlockingIOError), locked(directory, PATIENCE):  # perhaps it was being replaced
            return _read(directory)
        raise


def _read(directory: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    described = _read_description(directory)
    return described, _read_weights(directory, described)


def _read_description(directory: Path) -> dict[str, Any]:
    file = directory / FILE
    if file.stat().st_size > MOST_BYTES:
        raise ModelFileError(
            f"{file} has {file.stat().st_size} bytes, and a model has fewer than {MOST_BYTES}: save it again"
        )
    try:
        described = json.loads(file.read_bytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{file} is damaged ({error}): save the model again") from error
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise ModelFileError(f"{file} is not a countjump model: give the directory that save() wrote")
    if described.get("version") != VERSION:
        theirs = [repr(described.get(name))[:40] for name in ("version", "countjump")]
        raise ModelFileError(
            f"{directory} is of model version {theirs[0]}, and this is version {VERSION} ({__version__}): "
            f"load it with the countjump that saved it ({theirs[1]}), or fit and save it again"
        )
    if described.pop("digest", None) != _digest_of(described):
        raise ModelFileError(f"{file} is damaged (its digest differs): save the model again")
    return described


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of a model")


def _weights_name(directory: Path, described: dict[str, Any]) -> str:
    name = described.get("weights")
    if not isinstance(name, str) or not re.fullmatch(r"weights-[0-9a-f]{32}\.safetensors", name):
        raise ModelFileError(f"{directory / FILE} is damaged (it names no weights): save the model again")
    return name


def _read_weights(directory: Path, described: dict[str, Any]) -> dict[str, np.ndarray]:
    weights = directory / _weights_name(directory, described)
    if not weights.is_file():
        raise ModelFileError(f"{directory} is incomplete ({weights.name} is missing): save the model again")
    if weights.stat().st_size != described.get("bytes"):
        raise ModelFileError(f"{weights} is damaged (its size differs): save the model again")
    content = weights.read_bytes()
    if weights.name != f"weights-{_digest(content)}.safetensors":
        raise ModelFileError(f"{weights} is damaged (its digest differs): save the model again")
    try:
        return load_tensors(content)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelFileError(f"{weights} is damaged ({error}): save the model again") from error


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _digest_of(described: dict[str, Any]) -> str:
    """Of everything that a description says, however it is laid out."""
    return _digest(json.dumps(described, sort_keys=True).encode())


class SizedBy(TorchDispatchMode):
    """While it is entered, torch makes no more new numbers than a few times those of the ``arrays`` that a file brings.

    So a file that asks for a huge network is refused before any memory is taken.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.left = 16 * sum(array.size for array in arrays.values()) + 2**22

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and not hasattr(args[0], "shape"):  # made out of a shape or of numbers, not out of other tensors
            numbers = [n for each in args for n in (each if isinstance(each, list | tuple) else [each])]
            self.left -= math.prod(max(n, 1) for n in numbers if isinstance(n, int) and not isinstance(n, bool))
            if self.left < 0:
                raise ModelFileError(f"its network is larger than its weights ({numbers}): save the model again")
        return function(*args, **(kwargs or {}))
