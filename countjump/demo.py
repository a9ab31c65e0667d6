"""A demonstration: fit scikit-learn's bundled digits, sample, and put what happened on one page."""

from __future__ import annotations

import itertools
import shlex
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from countjump import report
from countjump.atomic import write_atomically
from countjump.data import write_matrix
from countjump.laws import Binomial, Streams
from countjump.model import JumpModel
from countjump.report import Picture, Section
from countjump.sampling import chain, seeded
from countjump.schedules import Schedule

SHAPE = (8, 8)
STEPS = 50
FRAMES = (0.0, 0.01, 0.03, 0.08, 0.16, 0.3, 0.5, 0.75, 1.0)
"""The shares of the counts that are still there (the paper's α) in the pictures of thinning and thickening."""


def make(out: str | Path, updates: int = 2000, seed: int = 0, progress: bool = True) -> Path:
    """Fit, sample and write ``index.html``, ``model`` and ``samples.npz`` into a directory; return the page's path."""
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: choose a directory for the demonstration")
    from sklearn.datasets import load_digits

    real = load_digits().data.astype(np.int64)
    started = time.perf_counter()
    model = JumpModel(max_updates=updates, random_state=seed, progress=progress).fit(real)
    fitted = time.perf_counter()
    generated = model.sample(len(real), steps=STEPS, random_state=seed)
    sampled = time.perf_counter()
    model.save(out / "model")
    write_matrix(out / "samples.npz", generated)
    sections = [
        _beside(real, generated),
        _back_and_forth(model, real[seed % len(real)], seed),
        _numbers(real, generated),
        _nearest(real, generated),
        _training(model, fitted - started, sampled - fitted),
        _again(out, updates, seed),
    ]
    lead = (
        f"A model of {len(real):,} handwritten digits, each a row of {real.shape[1]} whole numbers from 0 to {real.max()}. "
        "It learned by losing ink at random, and draws new digits by adding ink to an empty page."
    )
    page = report.render("countjump: thinning and thickening digits", lead, sections)
    write_atomically(out / "index.html", page.encode())
    return out / "index.html"


def _beside(real: np.ndarray, generated: np.ndarray) -> Section:
    alt = "Two sheets of one hundred digits: real ones on the left, generated ones on the right."
    picture = Picture(report.png(report.side_by_side(real[:100], generated[:100], SHAPE)), alt)
    return Section("Real and generated", "The first hundred rows of each, not selected.", picture)


def _back_and_forth(model: JumpModel, row: np.ndarray, seed: int) -> Section:
    alt = "Three strips of pictures: a digit losing its ink, a blank page gaining ink, and the network's expectation meanwhile."
    return Section(
        "Thinning and thickening",
        "First strip, from right to left: every unit of ink of a real digit is kept with probability α until none is left. The "
        "other two, from left to right: a chain starts from exactly zero and only ever adds counts; at each of its steps the "
        "network looks at the counts so far and says what is still missing.",
        Picture(report.png(report.film(*back_and_forth(model, row, seed), SHAPE)), alt),
    )


def back_and_forth(model: JumpModel, row: np.ndarray, seed: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """One row of counts as it is thinned, one chain as it is thickened, and what the network expects: strips and titles."""
    process, denoiser, block = model.process_, model.denoiser_, model.block_
    generator = seeded(model.device_, seed, 1)
    times = _frame_times(process.schedule)
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


def _frame_times(schedule: Schedule) -> torch.Tensor:
    inner = [schedule.time(alpha) for alpha in FRAMES if 0 < alpha < 1]
    return torch.tensor([1.0, *inner, 0.0], dtype=torch.float64)


def _whole(model: JumpModel, x: Any) -> np.ndarray:
    """Rows of all columns, the constant ones of a digit's margin among them, not rounded as a model's samples are."""
    rows = np.empty((len(x), model.block_.columns))
    for part, values in zip(model.plan_.parts, x.parts, strict=True):
        rows[:, part.columns] = values.cpu().numpy()
    return rows


def _numbers(real: np.ndarray, generated: np.ndarray) -> Section:
    def line(name: str, statistic: Any, form: str) -> list[str]:
        return [name, *(form.format(statistic(rows)) for rows in (real, generated))]

    table = [
        ["", "real", "generated"],
        line("pixels that are exactly 0", lambda rows: (rows == 0).mean(), "{:.1%}"),
        line("pixels above 16", lambda rows: (rows > 16).mean(), "{:.1%}"),
        line("ink of a digit, mean", lambda rows: rows.sum(1).mean(), "{:.1f}"),
        line("ink of a digit, standard deviation", lambda rows: rows.sum(1).std(), "{:.1f}"),
    ]
    alt = "Bars of the share of each value from 0 to 16, real beside generated."
    picture = Picture(report.png(report.value_shares(real, generated)), alt)
    return Section("The values", "How often each value occurs over all pixels, on a logarithmic scale.", picture, table)


def _nearest(real: np.ndarray, generated: np.ndarray, shown: int = 12) -> Section:
    squares = (real.astype(float) ** 2).sum(1)
    closest = np.argmin(squares[None] - 2 * generated.astype(float) @ real.T.astype(float), axis=1)
    same = (generated == real[closest]).all(1).mean()
    alt = "A strip of generated digits above a strip of the training digits nearest to them."
    return Section(
        "Are they copies?",
        f"The first {shown} generated digits, and below each the training digit nearest to it in Euclidean distance. Of all "
        f"{len(generated):,} generated rows, {same:.1%} equal a training row.",
        Picture(report.png(report.copies(generated[:shown], real[closest[:shown]], SHAPE)), alt),
    )


def _training(model: JumpModel, fit_seconds: float, sample_seconds: float) -> Section:
    history, names = model.history_, ("update", "loss", "validation_loss")
    curve = report.training_curve(*([record[name] for record in history if name in record] for name in names))
    return Section(
        "Training, and what “auto” chose",
        f"{history[-1]['update']:,.0f} updates took {fit_seconds:.0f} s on this machine, and {STEPS} steps for every row of "
        f"the sample {sample_seconds:.1f} s.",
        Picture(report.png(curve), "The loss on training rows and on held-out rows against the number of updates."),
        [["", "chosen, and why"], *([name, reason] for name, reason in model.choices_.items())],
    )


def _again(out: Path, updates: int, seed: int) -> Section:
    page, model, more = (shlex.quote(str(place)) for place in (out, out / "model", out / "more.npz"))
    code = f"countjump demo --out {page} --updates {updates} --seed {seed}\ncountjump info {model}\n"
    code += f"countjump sample {model} --rows 1000 --steps {STEPS} --out {more}"
    return Section("Again, and further", "The model and the sample lie beside this page.", code=code)
