"""A demonstration: fit scikit-learn's bundled digits, sample, and put what happened on one page."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from countjump.atomic import write_atomically
from countjump.data import write_matrix
from countjump.laws import Binomial, Streams
from countjump.model import JumpModel
from countjump.report import figures
from countjump.report.page import render
from countjump.sampling import chain, seeded

SHAPE = (8, 8)
STEPS = 50
SHOWN = 12
"""Generated digits that are shown beside the training digits nearest to them."""

FRAMES = (0.0, 0.01, 0.03, 0.08, 0.16, 0.3, 0.5, 0.75, 1.0)
"""The shares of the counts that are still there (the paper's α) in the pictures of thinning and thickening."""


def make(out: str | Path, updates: int = 2000, seed: int = 0, progress: bool = True) -> Path:
    """Fit, sample and write ``index.html``, ``model`` and ``samples.npz`` into a directory; return the page's path."""
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: choose a directory for the demonstration")
    from sklearn.datasets import load_digits
    from sklearn.metrics import pairwise_distances_argmin

    real = load_digits().data.astype(np.int64)
    started = time.perf_counter()
    model = JumpModel(max_updates=updates, random_state=seed, progress=progress).fit(real)
    fitted = time.perf_counter()
    generated = model.sample(len(real), steps=STEPS, random_state=seed)
    sampled = time.perf_counter()
    model.save(out / "model")
    write_matrix(out / "samples.npz", generated)
    nearest = real[pairwise_distances_argmin(generated, real)]
    pairs = {"generated": generated[:SHOWN], "nearest\ntraining row": nearest[:SHOWN]}
    history, names = model.history_, ("update", "loss", "validation_loss")
    curves = ([record[name] for record in history if name in record] for name in names)
    page = render(
        "demo.html",
        real=real,
        generated=generated,
        beside=figures.side_by_side(real[:100], generated[:100], SHAPE),
        chain=figures.film(*back_and_forth(model, real[seed % len(real)], seed), SHAPE),
        shares=figures.value_shares(real, generated),
        shown=SHOWN,
        nearest=nearest,
        copies=figures.film(pairs, [""] * SHOWN, SHAPE),
        curve=figures.training_curve(*curves),
        updates=history[-1]["update"],
        seconds_fit=fitted - started,
        seconds_sample=sampled - fitted,
        choices=model.choices_,
        **{"out": out, "asked": updates, "seed": seed, "steps": STEPS},
    )
    write_atomically(out / "index.html", page.encode())
    return out / "index.html"


def back_and_forth(model: JumpModel, row: np.ndarray, seed: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """One row of counts as it is thinned, one chain as it is thickened, and what the network expects: strips and titles."""
    process, denoiser, block = model.process_, model.denoiser_, model.block_
    generator = seeded(model.device_, seed, 1)
    inner = [process.schedule.time(alpha) for alpha in FRAMES if 0 < alpha < 1]
    times = torch.tensor([1.0, *inner, 0.0], dtype=torch.float64)
    thinned = [torch.as_tensor(row[None], dtype=torch.float64)]
    for before, after in itertools.pairwise(process.schedule.alpha(times).flip(0).tolist()):
        thinned.append(Binomial(thinned[-1], torch.full_like(thinned[0], after / before)).sample(generator))
    streams = Streams([generator], 1)
    *steps, end = chain(process, denoiser, process.prior(1, streams, model.device_), process.grid(STEPS), streams)
    counts = [block.write(block.latent(step.z)) for step in (*steps, end)]
    expected = [_whole(model, block.latent(step.z + step.prediction.missing.mean)) for step in steps]
    # The chain's own times nearest to the frames; at the end, what was expected one step before it.
    at = np.array([float(step.t) for step in (*steps, end)])
    places = [int(np.abs(at - t).argmin()) for t in times.tolist()]
    strips = {
        "a real digit\nis thinned": [state.numpy() for state in thinned[::-1]],
        "counts are\nthickened": [counts[place] for place in places],
        "what the network\nexpects": [expected[min(place, len(expected) - 1)] for place in places],
    }
    return {name: np.concatenate(states) for name, states in strips.items()}, [f"α = {alpha:g}" for alpha in FRAMES]


def _whole(model: JumpModel, x: Any) -> np.ndarray:
    """Rows of all columns, the constant ones of a digit's margin among them, not rounded as a model's samples are."""
    rows = np.empty((len(x), model.block_.columns))
    for part, values in zip(model.plan_.parts, x.parts, strict=True):
        rows[:, part.columns] = values.cpu().numpy()
    return rows
