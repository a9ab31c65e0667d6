"""Figures of real and generated rows; each takes arrays and returns a matplotlib figure."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

REAL, GENERATED, INK, FAINT = "#2f5d8c", "#d9722e", "#24303d", "#d7dde4"
STYLE_SIZE = 9.5


def png(figure: Figure, dpi: int = 150) -> bytes:
    """The figure as a PNG file."""
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_figure(buffer, dpi=dpi, format="png", facecolor="white")
    return buffer.getvalue()


def side_by_side(real: np.ndarray, generated: np.ndarray, shape: tuple[int, int], across: int = 10) -> Figure:
    """Rows as pictures of the given shape (height, width): real ones on the left, generated ones on the right."""
    figure = Figure(figsize=(9.6, 4.9), layout="constrained")
    top = max(float(real.max()), 1e-300)
    sides = ((real, "real", REAL), (generated, "generated", GENERATED))
    for ax, (rows, name, colour) in zip(figure.subplots(1, 2), sides, strict=True):
        _picture(ax, mosaic(rows, shape, across), top)
        ax.set_title(name, color=colour, fontsize=12, fontweight="bold")
    return figure


def film(strips: dict[str, np.ndarray], titles: list[str], shape: tuple[int, int]) -> Figure:
    """Named strips of pictures, one below the other; a strip is one row of data per title."""
    figure = Figure(figsize=(9.6, 0.3 + 8.4 / (len(titles) + 1) * len(strips)), layout="constrained")
    axes = figure.subplots(len(strips), len(titles), squeeze=False)
    top = max(max(float(rows.max()) for rows in strips.values()), 1e-300)
    for line, (name, rows) in zip(axes, strips.items(), strict=True):
        for ax, row in zip(line, rows, strict=True):
            _picture(ax, row.reshape(shape), top)
        line[0].set_ylabel(name, fontsize=STYLE_SIZE, color=INK, rotation=0, ha="right", va="center", labelpad=8)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=8.5, color=INK)
    return figure


def value_shares(real: np.ndarray, generated: np.ndarray) -> Figure:
    """How often each whole value occurs, real beside generated."""
    figure, ax = _axes()
    top = int(max(real.max(), generated.max()))
    values = np.arange(top + 1)
    for rows, name, colour, side in ((real, "real", REAL, -0.2), (generated, "generated", GENERATED, 0.2)):
        shares = np.bincount(rows.astype(np.int64).ravel(), minlength=top + 1) / rows.size
        ax.bar(values + side, 100 * shares, width=0.4, color=colour, label=name)
    ax.set(xlabel="value of a pixel", ylabel="share of all pixels (%)", yscale="log", xticks=values)
    plain_logarithms(ax)
    ax.legend(frameon=False, fontsize=STYLE_SIZE)
    return figure


def training_curve(updates: list[float], losses: list[float], validation: list[float] | None = None) -> Figure:
    """The running loss, and that of the held-out rows where there are any."""
    figure, ax = _axes()
    ax.plot(updates, losses, color=REAL, label="training rows (running mean)")
    if validation:
        label = "held-out rows, averaged weights"
        ax.plot(updates, validation, color=GENERATED, marker="o", markersize=3.5, label=label)
    ax.set(xlabel="update", ylabel="loss per pixel (nats)")
    ax.legend(frameon=False, fontsize=STYLE_SIZE)
    return figure


def mosaic(rows: np.ndarray, shape: tuple[int, int], across: int) -> np.ndarray:
    """Rows as pictures laid out in lines of ``across``, one pixel of NaN between them.

    >>> mosaic(np.ones((3, 4)), (2, 2), across=2).shape
    (5, 5)
    """
    blank = np.full((-len(rows) % across, rows.shape[1]), np.nan)
    pictures = np.concatenate([rows, blank]).reshape(-1, across, *shape)
    framed = np.pad(pictures, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    return np.block([[*line] for line in framed])[:-1, :-1]


def dress(ax: Axes, size: float) -> None:
    """The frame and the ticks of a panel."""
    ax.tick_params(labelsize=size, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#8995a3")


def plain_logarithms(ax: Axes, digits: tuple[int, ...] = (1, 2, 5)) -> None:
    """Plain numbers with these first digits along a logarithmic vertical axis."""
    ax.yaxis.set_major_locator(LogLocator(subs=digits))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_locator(NullLocator())


def _picture(ax: Axes, sheet: np.ndarray, top: float) -> None:
    ax.imshow(sheet, cmap="gray_r", vmin=0, vmax=top, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_color(FAINT)


def _axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9.6, 3.1), layout="constrained")
    ax = figure.subplots()
    dress(ax, 8.5)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(color=INK, fontsize=STYLE_SIZE)
    return figure, ax
