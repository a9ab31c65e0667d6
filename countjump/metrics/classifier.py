"""A small classifier of images: its features stand in for the Inception network's where images are small and grey."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn import functional

from countjump.atomic import write_atomically

FEATURES = 64
BATCH, LEARNING_RATE = 128, 2e-3
AT_ONCE = 1024


class _Network(nn.Module):
    """Two convolutions with halvings, and a layer of features below the one of classes."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        height, width, channels = (*shape, 1)[:3]
        self.first = nn.Conv2d(channels, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.features = nn.Linear(32 * (height // 4) * (width // 4), FEATURES)
        self.classes = nn.Linear(FEATURES, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(n, C, H, W) → features (n, 64) and logits (n, classes)."""
        h = functional.max_pool2d(functional.relu(self.first(x)), 2)
        h = functional.max_pool2d(functional.relu(self.second(h)), 2)
        found = functional.relu(self.features(h.flatten(1)))
        return found, self.classes(functional.dropout(found, 0.2, self.training))


class Classifier:
    """It is trained on real images and their labels, by Adam at a rate that falls to zero.

    >>> x, y = np.arange(64, dtype=np.uint8).repeat(16).reshape(64, 4, 4), np.arange(64) // 32
    >>> classifier = Classifier.fit(x, y, top=64, epochs=120)
    >>> classifier(x).shape, classifier.accuracy(x, y) > 0.9
    ((64, 64), True)
    """

    def __init__(self, network: _Network, top: float) -> None:
        self.network, self.top = network.eval(), float(top)

    @classmethod
    def fit(cls, x: np.ndarray, labels: np.ndarray, top: float, epochs: int, seed: int = 0) -> Classifier:
        """Of images (n, H, W) or (n, H, W, C) from 0 to ``top`` and their labels 0, 1, …"""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = _Network(x.shape[1:], int(labels.max()) + 1)
            made = cls(network, top)
            y, batches = torch.from_numpy(labels.astype(np.int64)), max(len(x) // BATCH, 1)
            optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * batches)
            network.train()
            for _ in range(epochs):
                for some in torch.randperm(len(x)).tensor_split(batches):
                    optimiser.zero_grad()
                    functional.cross_entropy(network(made._read(x[some.numpy()]))[1], y[some]).backward()
                    optimiser.step()
                    schedule.step()
            network.eval()
        return made

    def _read(self, images: np.ndarray) -> Tensor:
        x = torch.from_numpy(np.ascontiguousarray(images)).float() / self.top
        return (x[..., None] if x.ndim == 3 else x).movedim(-1, 1)

    @torch.no_grad()
    def _ask(self, images: np.ndarray, which: int) -> np.ndarray:
        parts = [images[start : start + AT_ONCE] for start in range(0, len(images), AT_ONCE)]
        return np.concatenate([self.network(self._read(part))[which].numpy() for part in parts])

    @property
    def identity(self) -> str:
        """What tells features of different networks apart."""
        return f"classifier-{hashlib.sha256(self.bytes()).hexdigest()[:16]}"

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """The features (n, 64)."""
        return self._ask(images, 0)

    def probabilities(self, images: np.ndarray) -> np.ndarray:
        """Of every class (n, classes)."""
        logits = self._ask(images, 1).astype(np.float64)
        powers = np.exp(logits - logits.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """The share of the images whose likeliest class is their label."""
        return float((self._ask(images, 1).argmax(1) == labels).mean())

    def bytes(self) -> bytes:
        """As safetensors."""
        return save({name: tensor.contiguous() for name, tensor in self.network.state_dict().items()})

    def save(self, path: str | Path) -> None:
        """Write the weights."""
        write_atomically(path, self.bytes())

    @classmethod
    def load(cls, path: str | Path, shape: tuple[int, ...], classes: int, top: float) -> Classifier:
        """Read the weights of a classifier of such images."""
        network = _Network(shape, classes)
        try:
            network.load_state_dict(load(Path(path).read_bytes()))
        except (RuntimeError, SafetensorError) as error:
            raise ValueError(
                f"{path} is no classifier of such images ({error}): delete it, and it is trained again"
            ) from error
        return cls(network, top)
