"""Make the pictures of the documentation: ``python docs/images/make.py`` (a few minutes)."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import poisson
from sklearn.datasets import load_digits

from countjump import JumpModel, demo
from countjump.report.figures import GENERATED, INK, REAL, mosaic, png

HERE = Path(__file__).parent


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


if __name__ == "__main__":
    (HERE / "overview.png").write_bytes(png(overview(), dpi=110))
