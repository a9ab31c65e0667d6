"""Figures of images: sheets of samples, distance against the number of steps, the price of randomising (the paper's Figure 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from countjump.report.figures import FAINT, GENERATED, INK, REAL, dress, plain_logarithms

LOOK: dict[str, dict[str, Any]] = {
    "jump": {"color": GENERATED, "label": "countjump"},
    "jump, low-noise": {"color": GENERATED, "label": "countjump, low-noise", "linestyle": "--"},
    "jump-no-clusters": {"color": "#2b2b2b", "label": "countjump without clusters"},
    "jump-no-clusters, low-noise": {"color": "#2b2b2b", "label": "the same, low-noise", "linestyle": "--"},
    "jump-labels": {"color": "#3a7fc2", "label": "countjump, given labels"},
    "jump-labels, guidance 1.5": {"color": "#3a7fc2", "label": "the same, guidance 1.5", "linestyle": "--"},
    "jump-labels, guidance 2": {"color": "#3a7fc2", "label": "the same, guidance 2", "linestyle": ":"},
    "jump-paper": {"color": "#3c8d6e", "label": "Poisson belief (the paper's)"},
    "jump-binomial": {"color": "#c25b8a", "label": "binomial JUMP, Poisson belief"},
    "ddpm": {"color": "#7a5ea8", "label": "DDPM, ancestral"},
    "ddpm, ddim": {"color": "#7a5ea8", "label": "DDPM, by DDIM", "linestyle": "--"},
    "ddpm-clusters": {"color": "#c9a0dc", "label": "DDPM with clusters, ancestral"},
    "ddpm-clusters, ddim": {"color": "#c9a0dc", "label": "DDPM with clusters, by DDIM", "linestyle": "--"},
    "d3pm": {"color": "#b99a2c", "label": "D3PM"},
}


def sheets(groups: dict[str, np.ndarray], top: float, across: int = 10) -> Figure:
    """Named groups of images (n, H, W) or (n, H, W, 3) as sheets side by side, uncurated: the first ones of each.

    >>> len(sheets({"real": np.zeros((4, 2, 2))}, top=1.0, across=2).axes)
    1
    """
    columns = min(len(groups), 3)
    lines = -(-len(groups) // columns)
    pictures = {name: sheet(images, top, across) for name, images in groups.items()}
    tallest = max(picture.shape[0] / picture.shape[1] for picture in pictures.values())
    figure = Figure(figsize=(3.3 * columns, (3.3 * tallest + 0.35) * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for ax, (name, picture) in zip(axes, pictures.items(), strict=False):
        _show(ax, picture)
        ax.set_title(name, fontsize=10.5, color=REAL if name == "real" else INK)
    for ax in axes[len(groups) :]:
        ax.remove()
    return figure


def sheet(images: np.ndarray, top: float, across: int) -> np.ndarray:
    """Images laid out in lines of ``across`` with a white pixel between them, as colours from 0 to 1; grey ones as ink on paper.

    >>> sheet(np.ones((3, 2, 2)), top=2.0, across=2).shape
    (5, 5, 3)
    """
    x = np.asarray(images, dtype=np.float64) / top
    x = 1 - np.repeat(x[..., None], 3, axis=-1) if x.ndim == 3 else x
    blank = np.ones((-len(x) % across, *x.shape[1:]))
    framed = np.pad(np.concatenate([x, blank]), ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=1.0)
    lines = framed.reshape(-1, across, *framed.shape[1:])
    whole = lines.transpose(0, 2, 1, 3, 4).reshape(len(lines) * framed.shape[1], across * framed.shape[2], 3)
    return whole[:-1, :-1].clip(0, 1)


def steps_against_distance(panels: dict[str, dict[str, Any]], what: str) -> Figure:
    """One panel per set: a distance against the number of steps, a line for every method, the floor as a line.

    >>> len(steps_against_distance({"digits": {"floor": 1.0, "jump": ([5, 10], [3.0, 2.0])}}, "Fréchet distance").axes)
    1
    """
    figure = Figure(figsize=(max(4.4 * len(panels), 7.2), 4.1), layout="constrained")
    axes = figure.subplots(1, max(len(panels), 1), squeeze=False)[0]
    for ax, (name, panel) in zip(axes, panels.items(), strict=False):
        dress(ax, 8.5)
        ticks: set[int] = set()
        for method, look in LOOK.items():
            steps, distances = panel.get(method, ([], []))
            if len(steps):
                ax.plot(steps, distances, marker="o", markersize=4, linewidth=1.4, **look)
                ticks |= set(steps)
        ax.axhline(panel["floor"], color=REAL, linestyle=":", linewidth=1.3, label="floor: two groups of real images")
        ax.set(xscale="log", yscale="log")
        ax.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
        ax.xaxis.set_minor_locator(NullLocator())
        low, high = ax.get_ylim()
        plain_logarithms(ax, (1, 2, 5) if high < 300 * low else (1,))
        ax.set_title(name, fontsize=11, color=INK)
        ax.set_xlabel("steps (network evaluations)", fontsize=9, color=INK)
    axes[0].set_ylabel(what, fontsize=9, color=INK)
    _legend(figure, list(axes))
    return figure


def learning(curves: dict[str, list[float]]) -> Figure:
    """The loss of every method along its training, as a share of where it began: losses of different methods are no one unit.

    >>> len(learning({"jump": [2.0, 1.0]}).axes)
    1
    """
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    ax = figure.subplots()
    dress(ax, 8.5)
    for method, losses in curves.items():
        share = np.asarray(losses) / losses[0]
        ax.plot(np.linspace(0, 100, len(share)), share, linewidth=1.4, **LOOK.get(method, {"label": method}))
    ax.set_xlabel("share of the updates (%)", fontsize=9, color=INK)
    ax.set_ylabel("loss, beginning = 1", fontsize=9, color=INK)
    ax.legend(frameon=False, fontsize=8.5)
    return figure


def randomisation(curves: dict[str, tuple[list[float], list[float]]], floor: float, images: int) -> Figure:
    """The paper's Figure 5: FID against λ, a line for each comparison, the floor of so many images as a line.

    >>> len(randomisation({"the same images": ([1, 4], [200.0, 90.0])}, floor=80.0, images=1000).axes)
    1
    """
    figure = Figure(figsize=(6.4, 3.9), layout="constrained")
    ax = figure.subplots()
    dress(ax, 8.5)
    ticks: set[float] = set()
    for (name, (lams, distances)), colour in zip(curves.items(), ("#3c8d6e", GENERATED, "#7a5ea8"), strict=False):
        ax.plot(lams, np.maximum(distances, 1e-3), "o-", markersize=4, linewidth=1.4, color=colour, label=name)
        ticks |= set(lams)
    ax.axhline(floor, color=REAL, linestyle=":", linewidth=1.3, label=f"floor: two groups of {images:,} real images")
    ax.set(xscale="log", yscale="log")
    ax.set_xlabel("λ (units of a grey level of 0 … 255)", fontsize=9, color=INK)
    ax.set_ylabel("FID", fontsize=9, color=INK)
    ax.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    ax.xaxis.set_minor_locator(NullLocator())
    plain_logarithms(ax, (1, 2, 5) if ax.get_ylim()[1] < 300 * ax.get_ylim()[0] else (1,))
    ax.legend(frameon=False, fontsize=8.5)
    return figure


def _show(ax: Axes, picture: np.ndarray) -> None:
    ax.imshow(picture, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_color(FAINT)


def _legend(figure: Figure, axes: list[Axes]) -> None:
    """Every line once, below the panels."""
    named = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    look: dict[str, Any] = {"ncols": min(len(named), 3), "frameon": False, "fontsize": 9}
    figure.legend(list(named.values()), list(named), loc="outside lower center", **look)
