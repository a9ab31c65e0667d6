"""Checkpoints: everything that changes while a model is trained, in one file that is replaced whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from countjump._version import __version__
from countjump.atomic import locked, write_atomically

FORMAT = 6
"""The number of the checkpoints' format."""


class CheckpointError(ValueError):
    """A checkpoint that does not belong to this fit, is of another version, or is damaged."""


@dataclass(frozen=True)
class Checkpoint:
    """A file, or none, for the fit that the ``fingerprint`` names."""

    path: Path | None
    fingerprint: str

    @contextmanager
    def held(self) -> Iterator[None]:
        """While it is entered, no other fit has the directory."""
        if self.path is None:
            yield
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path.parent, seconds=0))
            except BlockingIOError as error:
                there = f"another fit is writing its checkpoints to {self.path.parent}"
                raise CheckpointError(f"{there}: wait until it ends, or choose another checkpoint_dir") from error
            yield

    def write(self, progress: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Replace the file."""
        if self.path is None:
            return
        described = {
            "format": str(FORMAT),
            "countjump": __version__,
            "fingerprint": self.fingerprint,
            "progress": json.dumps(progress),
        }
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        described["digest"] = _digest(described, whole)
        write_atomically(self.path, save(whole, metadata=described))

    def read(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """What was written, or None where nothing is."""
        if self.path is None or not self.path.exists():
            return None
        advice = f"delete {self.path} or choose another checkpoint_dir"
        try:
            with safe_open(self.path, framework="pt") as file:
                described: dict[str, Any] = file.metadata() or {}
                if (described.get("format"), described.get("countjump")) != (str(FORMAT), __version__):
                    raise CheckpointError(
                        f"the checkpoint {self.path} was written by countjump {described.get('countjump', 'before 0.2')} (format "
                        f"{described.get('format', 'unknown')}), and this is countjump {__version__} (format {FORMAT}): {advice}"
                    )
                if described.get("fingerprint") != self.fingerprint:
                    raise CheckpointError(
                        f"the checkpoint {self.path} is of another fit (data or settings differ): {advice}"
                    )
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                if described.pop("digest", None) != _digest(described, tensors):
                    raise CheckpointError(f"the checkpoint {self.path} is damaged (its digest differs): {advice}")
                return json.loads(described["progress"]), tensors
        except (SafetensorError, KeyError, OSError, ValueError, RuntimeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"the checkpoint {self.path} is damaged ({error}): {advice}") from error


def _digest(described: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Of all that a checkpoint says and holds."""
    digest = hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
