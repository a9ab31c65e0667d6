"""Make the pictures of the documentation: ``python docs/images/make.py [overview] [animation] [--data DIR]`` (some minutes).

The animation reads 20 Newsgroups from the directory; without one, scikit-learn downloads it.
"""

import argparse
import io
import itertools
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import poisson
from sklearn.datasets import load_digits

from countjump import JumpModel, demo
from countjump.data import load
from countjump.laws import Streams
from countjump.report.figures import FAINT, GENERATED, INK, REAL, mosaic, png
from countjump.sampling import chain, seeded

HERE = Path(__file__).parent

TOPICS, WORDS = ("sci.space", "rec.sport.hockey", "sci.med"), 800
"""Of the documents in the animation: their topics, and how many of the most frequent words are looked at."""

STEPS, HOLD = 40, 12
"""Frames of each way, and of the pause between them."""


def overview() -> Figure:
    """One digit thinned and one thickened; digits, real and generated; a mixture of two Poissons, true and generated."""
    digits = load_digits().data.astype(np.int64)
    model = JumpModel(max_updates=3000, random_state=0).fit(digits)
    strips, titles = demo.back_and_forth(model, digits[9], seed=1)
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.05, 1])
    axes = top.subplots(len(strips), len(titles))
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=9, color=INK)
    for line, (name, rows) in zip(axes, strips.items(), strict=True):
        for ax, row in zip(line, rows, strict=True):
            _picture(ax, row.reshape(demo.SHAPE))
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8, fontsize=10, color=INK)
    real, generated, counts = bottom.subplots(1, 3, width_ratios=[1, 1, 1.6])
    for ax, rows, name, colour in (
        (real, digits, "real digits", REAL),
        (generated, model.sample(48, steps=demo.STEPS, random_state=0), "generated digits", GENERATED),
    ):
        _picture(ax, mosaic(rows[:48], demo.SHAPE, across=8))
        ax.set_title(name, fontsize=10.5, color=colour, fontweight="bold")
    _mixture(counts)
    return figure


def _mixture(ax) -> None:
    """0.9 Pois(1) + 0.1 Pois(100): the paper's PoisMix."""
    rng = np.random.default_rng(0)
    X = rng.poisson(np.where(rng.random((100_000, 1)) < 0.9, 1, 100))
    rows = JumpModel(max_updates=3000, random_state=0).fit(X).sample(100_000, steps=20, random_state=0)
    values = np.arange(151)
    ax.fill_between(
        values,
        0.9 * poisson.pmf(values, 1) + 0.1 * poisson.pmf(values, 100),
        1e-9,
        color=REAL,
        alpha=0.35,
        step="mid",
        linewidth=0,
        label="true probability",
    )
    shares = np.bincount(rows.ravel(), minlength=len(values))[: len(values)] / len(rows)
    ax.plot(
        values[shares > 0], shares[shares > 0], ".", color=GENERATED, markersize=4, label="100,000 generated counts"
    )
    ax.set(yscale="log", ylim=(5e-6, 1), xlim=(-3, 150), xlabel="count", title="0.9 · Pois(1) + 0.1 · Pois(100)")
    ax.title.set(fontsize=10.5, color=INK)
    ax.legend(frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)


def _picture(ax, sheet: np.ndarray) -> None:
    ax.imshow(sheet, cmap="gray_r", vmin=0, vmax=16, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_color("#d7dde4")


# Figure 1 of the paper, moving: an image and a document are thinned, and others are thickened.


def animation(data: str | None) -> bytes:
    """A GIF: each frame has the image on the left and the document on the right."""
    digits = load_digits().data.astype(np.int64)
    image = JumpModel(max_updates=1500, random_state=0).fit(digits)
    posts, words = _posts(data)
    document = JumpModel(max_updates=1000, random_state=0).fit(posts)
    real = posts[_typical(posts)].toarray().ravel().astype(np.int64)
    down = list(zip(*(_thinned(row, seed) for row, seed in ((digits[9], 0), (real, 1))), _said(), strict=True))
    long = next(
        seed for seed in itertools.count() if real.sum() - 10 <= _thickened(document, seed)[-1].sum() <= real.sum()
    )
    up = list(zip(_thickened(image, 5), _thickened(document, long), _stepped(), strict=True))
    frames = [_frame(*each, words, (digits[9], real), "data is thinned", REAL) for each in down]
    last = up[-1][:2]
    frames += [_frame(*each, words, last, "a network thickens counts", GENERATED) for each in up]
    pauses = {0: HOLD, len(down) - 1: 3, len(frames) - 1: 2 * HOLD}
    length = [80 * (1 + pauses.get(place, 0)) for place in range(len(frames))]
    return _gif(frames, length)


def _posts(data: str | None) -> tuple[sp.csr_matrix, list[str]]:
    """Posts on a few topics, by their most frequent words."""
    wide = load("20news-bow", data)
    chosen = np.isin(wide.labels, [wide.label_names.index(topic) for topic in TOPICS])
    posts = wide.x[chosen]
    kept = np.argsort(-np.diff((posts > 0).tocsc().indptr))[:WORDS]
    posts = sp.csr_matrix(posts[:, kept])
    sizes = np.asarray(posts.sum(1)).ravel()
    return posts[(sizes > 5) & (sizes < 200)], [wide.columns[column] for column in kept]


def _typical(posts: sp.csr_matrix) -> int:
    """One whose words fit the panel."""
    sizes = np.asarray(posts.sum(1)).ravel()
    return int(np.flatnonzero((sizes >= 45) & (sizes <= 60))[7])


def _shares() -> list[float]:
    return (np.linspace(1, 0, STEPS) ** 2).tolist()


def _thinned(row: np.ndarray, seed: int) -> list[np.ndarray]:
    """Each unit of the row leaves at its own time: what is left at one share after the other."""
    rng = np.random.default_rng(seed)
    states = [row]
    for before, after in itertools.pairwise(_shares()):
        states.append(rng.binomial(states[-1], after / before))
    return states


def _said() -> list[str]:
    return [f"α = {share:.2f}" for share in _shares()]


def _stepped() -> list[str]:
    """Each model has a schedule of its own: what both have in common is the step."""
    return [f"step {step} of {STEPS}" for step in range(STEPS + 1)]


def _thickened(model: JumpModel, seed: int) -> list[np.ndarray]:
    """The states of one chain, as rows of the data."""
    process, block = model.process_, model.block_
    streams = Streams([seeded(model.device_, seed)], 1)
    start = process.prior(1, streams, model.device_)
    with torch.no_grad():
        steps = list(chain(process, model.denoiser_, start, process.grid(STEPS), streams))
    rows = [block.write(block.latent(step.z)) for step in steps]
    return [(row.toarray() if sp.issparse(row) else row).ravel() for row in rows]


def _frame(image, counts, said, words, whole, title, colour) -> Image.Image:
    figure = Figure(figsize=(7.2, 3.3), facecolor="white")
    left, right = figure.add_axes((0.02, 0.04, 0.36, 0.8)), figure.add_axes((0.42, 0.04, 0.56, 0.8))
    _picture(left, image.reshape(demo.SHAPE))
    right.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    for side in right.spines.values():
        side.set_color(FAINT)
    _write(right, counts, words, whole[1], colour)
    figure.text(0.02, 0.91, title, fontsize=12, color=colour, fontweight="bold")
    figure.text(0.98, 0.91, said, fontsize=11, color=INK, ha="right")
    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(100)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])


def _write(ax, counts, words, whole, colour) -> None:
    """The words of the whole document, each at its place, as soon as one of its units is there."""
    columns = np.random.default_rng(0).permutation(np.flatnonzero(whole))[:40]
    for place, column in enumerate(columns):
        line, across = divmod(place, 4)
        if counts[column]:
            times = f" ×{int(counts[column])}" if counts[column] > 1 else ""
            x, y = 0.02 + 0.246 * across, 0.96 - 0.095 * line
            ax.text(x, y, words[column][:11] + times, fontsize=9.5, color=colour, va="top")


def _gif(frames: list[Image.Image], length: list[int]) -> bytes:
    some = frames[:: len(frames) // 8]
    sheet = Image.new("RGB", (frames[0].width, frames[0].height * len(some)))
    for place, frame in enumerate(some):
        sheet.paste(frame, (0, place * frame.height))
    palette = sheet.quantize(64)
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    buffer = io.BytesIO()
    drawn[0].save(buffer, "GIF", save_all=True, append_images=drawn[1:], duration=length, loop=0, optimize=True)
    return buffer.getvalue()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["overview", "animation"], help="overview, animation")
    parser.add_argument("--data")
    asked = parser.parse_args()
    if "overview" in asked.what:
        (HERE / "overview.png").write_bytes(png(overview(), dpi=110))
    if "animation" in asked.what:
        (HERE / "thinning.gif").write_bytes(animation(asked.data))
