"""A demonstration: fit scikit-learn's bundled digits, sample, and put what happened on one page."""

from __future__ import annotations

import itertools
import shlex
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from countjump import report
from countjump.atomic import write_atomically
from countjump.data import write_matrix
from countjump.laws import Binomial
from countjump.model import JumpModel
from countjump.processes.jump import Jump
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
    page = out / "index.html"
    write_atomically(page, report.render("countjump: thinning and thickening digits", lead, sections).encode())
    return page


def _beside(real: np.ndarray, generated: np.ndarray) -> Section:
    picture = report.png(report.side_by_side(real[:100], generated[:100], SHAPE))
    return Section(
        "Real and generated",
        "The first hundred rows of each, not selected.",
        Picture(picture, "Two sheets of one hundred digits: real ones on the left, generated ones on the right."),
    )


def _back_and_forth(model: JumpModel, row: np.ndarray, seed: int) -> Section:
    strips, titles = back_and_forth(model, row, seed)
    return Section(
        "Thinning and thickening",
        "First strip, from right to left: every unit of ink of a real digit is kept with probability α until none is left. The "
        "other two, from left to right: a chain starts from exactly zero and only ever adds counts; at each of its steps the "
        "network looks at the counts so far and says what is still missing.",
        Picture(
            report.png(report.film(strips, titles, SHAPE)),
            "Three strips of pictures: a digit losing its ink, a blank page gaining ink, and the network's expectation meanwhile.",
        ),
    )


def back_and_forth(model: JumpModel, row: np.ndarray, seed: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """One row of counts as it is thinned, one chain as it is thickened, and what the network expects: strips and titles."""
    process, denoiser = model.process_, model.denoiser_
    assert isinstance(process, Jump)
    assert denoiser is not None
    generator = seeded(model.device_, seed, 1)
    times = _frame_times(process.schedule)
    x = torch.as_tensor(row[None, np.isnan(model.constants_)], dtype=torch.float64, device=model.device_)
    thinned = _thin(x, process.schedule.alpha(times), generator)
    *steps, end = chain(process, denoiser, 1, process.grid(STEPS), generator)
    expected = [process.expectation(step) for step in steps]
    # The chain's own times nearest to the frames; at the end, what was expected one step before it.
    at = np.array([float(step.t[0, 0]) for step in (*steps, end)])
    places = [int(np.abs(at - t).argmin()) for t in times.tolist()]
    strips = {
        "a real digit\nis thinned": thinned[::-1],
        "counts are\nthickened": [(*steps, end)[place].z for place in places],
        "what the network\nexpects": [expected[min(place, len(expected) - 1)] for place in places],
    }
    return {name: _rows(model, states) for name, states in strips.items()}, [f"α = {alpha:g}" for alpha in FRAMES]


def _frame_times(schedule: Schedule) -> Tensor:
    inner = [schedule.time(alpha) for alpha in FRAMES if 0 < alpha < 1]
    return torch.tensor([1.0, *inner, 0.0], dtype=torch.float64)


def _thin(x: Tensor, alphas: Tensor, generator: torch.Generator) -> list[Tensor]:
    """One row losing its units, from α = 1 down to the first of ``alphas``."""
    states = [x]
    for before, after in itertools.pairwise(alphas.flip(0).tolist()):
        states.append(Binomial(states[-1], torch.full_like(x, after / before)).sample(generator))
    return states


def _rows(model: JumpModel, states: list[Tensor]) -> np.ndarray:
    """States of the columns that vary as rows of all columns."""
    rows = np.tile(model.constants_, (len(states), 1))
    rows[:, np.isnan(model.constants_)] = torch.cat(states).cpu().numpy()
    return rows


def _numbers(real: np.ndarray, generated: np.ndarray) -> Section:
    def line(name: str, statistic: object, form: str) -> list[str]:
        return [name, *(form.format(statistic(rows)) for rows in (real, generated))]  # type: ignore[operator]

    table = [
        ["", "real", "generated"],
        line("pixels that are exactly 0", lambda rows: (rows == 0).mean(), "{:.1%}"),
        line("pixels above 16", lambda rows: (rows > 16).mean(), "{:.1%}"),
        line("ink of a digit, mean", lambda rows: rows.sum(1).mean(), "{:.1f}"),
        line("ink of a digit, standard deviation", lambda rows: rows.sum(1).std(), "{:.1f}"),
    ]
    return Section(
        "The values",
        "How often each value occurs over all pixels, on a logarithmic scale.",
        Picture(
            report.png(report.value_shares(real, generated)),
            "Bars of the share of each value from 0 to 16, real beside generated.",
        ),
        table,
    )


def _nearest(real: np.ndarray, generated: np.ndarray, shown: int = 12) -> Section:
    squares = (real.astype(float) ** 2).sum(1)
    closest = np.argmin(squares[None] - 2 * generated.astype(float) @ real.T.astype(float), axis=1)
    same = (generated == real[closest]).all(1).mean()
    return Section(
        "Are they copies?",
        f"The first {shown} generated digits, and below each the training digit nearest to it in Euclidean distance. Of all "
        f"{len(generated):,} generated rows, {same:.1%} equal a training row.",
        Picture(
            report.png(report.copies(generated[:shown], real[closest[:shown]], SHAPE)),
            "A strip of generated digits above a strip of the training digits nearest to them.",
        ),
    )


def _training(model: JumpModel, fit_seconds: float, sample_seconds: float) -> Section:
    history = model.history_
    validation = [record["validation_loss"] for record in history if "validation_loss" in record]
    curve = report.training_curve(
        [record["update"] for record in history], [record["loss"] for record in history], validation
    )
    return Section(
        "Training, and what “auto” chose",
        f"{history[-1]['update']:,.0f} updates took {fit_seconds:.0f} s on this machine, and {STEPS} steps for every row of "
        f"the sample {sample_seconds:.1f} s.",
        Picture(report.png(curve), "The loss on training rows and on held-out rows against the number of updates."),
        [["", "chosen, and why"], *([name, reason] for name, reason in model.choices_.items())],
    )


def _again(out: Path, updates: int, seed: int) -> Section:
    model = shlex.quote(str(out / "model"))
    more = shlex.quote(str(out / "more.npz"))
    return Section(
        "Again, and further",
        "The model and the sample lie beside this page.",
        code=f"countjump demo --out {shlex.quote(str(out))} --updates {updates} --seed {seed}\n"
        f"countjump info {model}\n"
        f"countjump sample {model} --rows 1000 --steps {STEPS} --out {more}",
    )
