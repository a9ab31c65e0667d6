"""Models on disk: one JSON file and one safetensors file that it names; no pickle anywhere.

The JSON file is replaced last and names its weights by their digest, so that a crash leaves the old model whole.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from countjump._version import __version__
from countjump.atomic import write_atomically
from countjump.domains import DOMAINS
from countjump.schedules import Cosine, Geometric, LinearBeta

FORMAT = "countjump-model"
VERSION = 5
FILE = "model.json"
OBJECTS: dict[str, Any] = {
    **{kind.__name__: kind for kind in DOMAINS.values()},
    **{"LinearBeta": LinearBeta, "Cosine": Cosine, "Geometric": Geometric},
}


class ModelFileError(ValueError):
    """A model directory that is damaged, or of another version."""


class NotAModelError(ModelFileError, FileNotFoundError):
    """A directory that holds no countjump model."""


def encode(value: Any) -> Any:
    """A parameter as JSON: plain values, and domains and schedules by name."""
    if type(value).__name__ in OBJECTS:
        return {"type": type(value).__name__, **{k: encode(v) for k, v in dataclasses.asdict(value).items()}}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"cannot write {value!r} to a model file: register its class in countjump.persistence.OBJECTS")


def decode(value: Any) -> Any:
    """Back from :func:`encode`."""
    if isinstance(value, dict) and value.get("type") in OBJECTS:
        return OBJECTS[value["type"]](**{k: decode(v) for k, v in value.items() if k != "type"})
    if isinstance(value, dict):
        raise ModelFileError(
            f"an object of the unknown type {value.get('type')!r}: register its class in countjump.persistence.OBJECTS"
        )
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    return math.inf if value == "inf" else value


def write(path: str | Path, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a model directory; one that is there already is replaced, atomically."""
    directory = Path(path)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file: choose a directory for the model")
    content = save_tensors({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    weights = f"weights-{hashlib.blake2b(content, digest_size=8).hexdigest()}.safetensors"
    header = {"format": FORMAT, "version": VERSION, "countjump": __version__, "weights": weights}
    write_atomically(directory / weights, content)
    write_atomically(directory / FILE, (json.dumps(header | described, indent=1) + "\n").encode())
    for old in directory.glob("weights-*.safetensors"):
        if old.name != weights:
            old.unlink()


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model directory, or say what is wrong with it."""
    directory = Path(path)
    if not directory.exists():
        raise FileNotFoundError(f"no model at {directory}: give the directory that save() wrote")
    if not (directory / FILE).is_file():
        raise NotAModelError(
            f"{directory} holds no countjump model ({FILE} is missing): give the directory that save() wrote"
        )
    try:
        described = json.loads((directory / FILE).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{directory / FILE} is damaged ({error}): save the model again") from error
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise ModelFileError(f"{directory / FILE} is not a countjump model: give the directory that save() wrote")
    if described.get("version") != VERSION:
        raise ModelFileError(
            f"{directory} is of model version {described.get('version')}, and this is version {VERSION} ({__version__}): "
            f"load it with the countjump that saved it ({described.get('countjump')}), or fit and save it again"
        )
    weights = directory / str(described.get("weights"))
    if not weights.is_file():
        raise ModelFileError(f"{directory} is incomplete ({weights.name} is missing): save the model again")
    content = weights.read_bytes()
    if weights.name != f"weights-{hashlib.blake2b(content, digest_size=8).hexdigest()}.safetensors":
        raise ModelFileError(f"{weights} is damaged (its digest differs): save the model again")
    try:
        return described, load_tensors(content)
    except SafetensorError as error:
        raise ModelFileError(f"{weights} is damaged ({error}): save the model again") from error
