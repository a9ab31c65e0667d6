"""Checkpoints: a fit that was interrupted goes on to the same weights, or says that its checkpoint is damaged."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn

from countjump import JumpModel

from . import bases
from .case import Case, mutate
from .files import NEIGHBOURS
from .oracle import attempt, check, check_files, equal, granted, tree

UPDATES = 5
FILE = "checkpoint.safetensors"


class Stopping(nn.Module):
    """A network that is interrupted at a chosen evaluation."""

    evaluations_left = 10**9

    def __init__(self, inputs: int, outputs: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, features: torch.Tensor, t: torch.Tensor, condition: Any = None) -> torch.Tensor:
        Stopping.evaluations_left -= 1
        if Stopping.evaluations_left < 0:
            raise KeyboardInterrupt
        return self.linear(features)


def fit(name: str, evaluations: int = 10**9, **given: Any) -> JumpModel:
    Stopping.evaluations_left = evaluations
    options = {"max_updates": UPDATES, "checkpoint_every": 1, "batch_size": 4, "network": Stopping, "random_state": 3}
    return JumpModel(progress=False, **options | given).fit(bases.DATA[name])


@cache
def uninterrupted(name: str) -> Any:
    return weights(fit(name))


def weights(model: JumpModel) -> dict[str, Any]:
    return {name: tensor.numpy().copy() for name, tensor in model.denoiser_.state_dict().items()}


def case(case: Case) -> None:
    name = case.one_of(["counts", "counts", "reals", "proportions", "wide"])
    directory = case.place / "c"
    whole = uninterrupted(name)
    evaluations = case.whole(1, 2 * UPDATES)
    case.note(f"{name}, interrupted at evaluation {evaluations}")
    planted = [pattern.format(FILE) for pattern in case.random.sample(NEIGHBOURS, case.whole(0, 2))]
    directory.mkdir()
    for neighbour in planted:
        (directory / neighbour).write_bytes(b"mine")
    before = tree(directory)
    try:
        fit(name, evaluations, checkpoint_dir=directory)
    except KeyboardInterrupt:
        case.note("interrupted")
    check_files(directory, before, lambda file: file == FILE, "fit with checkpoints")
    changed = _change(case, directory, name)
    model, error = attempt(lambda: fit(name, checkpoint_dir=directory))
    check(error is None or changed, "refused", "resuming", error)
    if error is None:
        right = all(equal(whole[key], array) for key, array in weights(model).items())
        check(right, "wrong result", f"resuming after {changed or 'nothing'} was changed: other weights")
        granted(lambda: model.sample(2, steps=2, random_state=0), "sample")
    check_files(directory, before, lambda file: file == FILE, "resuming")


def _change(case: Case, directory: Any, name: str) -> str:
    """Change the checkpoint, or leave it; what was changed."""
    path = directory / FILE
    if not path.exists() or case.chance(0.15):
        return ""
    kind = case.one_of(["bytes", "bytes", "bytes", "bytes", "empty", "another fit's", "directory"])
    case.note(kind)
    if kind == "bytes":
        content = path.read_bytes()
        path.write_bytes(mutate(case, content))
        return "" if path.read_bytes() == content else kind
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        fit(name, checkpoint_dir=directory, random_state=4)
    return kind
