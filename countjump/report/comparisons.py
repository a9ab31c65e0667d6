"""Figures of experiments: distributions side by side, and error against the number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from countjump.report.figures import FAINT, GENERATED, INK, REAL

COLOURS = {"jump": GENERATED, "ddpm": "#7a5ea8", "jump-paper": "#7a5ea8"}
LABELS = {"jump": "countjump", "ddpm": "DDPM", "jump-paper": "Poisson belief (the paper's)"}


def distributions(panels: dict[str, dict[str, Any]]) -> Figure:
    """One panel per set: the true histogram filled, the generated ones as steps.

    >>> len(distributions({"set": {"edges": [0, 1, 2], "true": [0.5, 0.5], "jump": [0.4, 0.6]}}).axes)
    1
    """
    figure, axes = _grid(len(panels))
    for ax, (name, panel) in zip(axes, panels.items(), strict=False):
        edges = np.asarray(panel["edges"])
        ax.stairs(panel["true"], edges, fill=True, color=REAL, alpha=0.35, label="true")
        for method in ("ddpm", "jump"):
            if method in panel:
                ax.stairs(panel[method], edges, color=COLOURS[method], linewidth=1.4, label=LABELS[method])
        heights = np.concatenate([np.asarray(value) for key, value in panel.items() if key != "edges"])
        if heights.max() > 20 * np.median(heights[heights > 0]):
            ax.set_yscale("log")
        ax.set_title(name, fontsize=11, color=INK)
    axes[0].legend(fontsize=8, frameon=False)
    return figure


def steps_against_error(curves: dict[str, dict[str, Any]]) -> Figure:
    """One panel per set: W1 against the number of steps, the floor as a line.

    >>> len(steps_against_error({"set": {"floor": 0.1, "jump": ([5, 10], [0.3, 0.2])}}).axes)
    1
    """
    figure, axes = _grid(len(curves))
    for ax, (name, curve) in zip(axes, curves.items(), strict=False):
        ax.axhline(curve["floor"], color=REAL, linestyle="--", linewidth=1.2, label="floor")
        for method in ("jump-paper", "jump"):
            steps, errors = curve.get(method, ([], []))
            if len(steps):
                ax.plot(steps, errors, "o-", color=COLOURS[method], markersize=4, linewidth=1.4, label=LABELS[method])
        ax.set(xscale="log", yscale="log")
        ax.set_xticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"], minor=False)
        ax.set_xticks([], minor=True)
        ax.set_title(name, fontsize=11, color=INK)
        ax.set_xlabel("steps", fontsize=9)
        ax.set_ylabel("W1", fontsize=9)
    axes[0].legend(fontsize=8, frameon=False)
    return figure


def _grid(panels: int) -> tuple[Figure, list[Any]]:
    across = min(panels, 3)
    down = -(-panels // across)
    figure = Figure(figsize=(3.6 * across, 2.7 * down), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for ax in axes:
        ax.tick_params(labelsize=8, colors=INK)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=FAINT, linewidth=0.6)
        ax.set_axisbelow(True)
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes
