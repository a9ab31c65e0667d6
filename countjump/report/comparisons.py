"""Figures of experiments: distributions side by side, and error against the number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, NullLocator

from countjump.report.figures import FAINT, GENERATED, INK, REAL

COLOURS = {"jump": GENERATED, "ddpm": "#7a5ea8", "jump-paper": "#3c8d6e"}
LABELS = {"jump": "countjump", "ddpm": "DDPM", "jump-paper": "Poisson belief (the paper's)"}
ACROSS = 3


def distributions(panels: dict[str, dict[str, Any]]) -> Figure:
    """One panel per set: the true histogram filled, the generated ones as steps.

    >>> len(distributions({"set": {"edges": [0, 1, 2], "true": [0.5, 0.5], "jump": [0.4, 0.6]}}).axes)
    1
    """
    figure, axes = _grid(len(panels), "share of the values in a bin")
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        edges = np.asarray(panel["edges"])
        ax.stairs(panel["true"], edges, fill=True, color=REAL, alpha=0.35, label="true")
        for method in ("ddpm", "jump-paper", "jump"):
            if method in panel:
                ax.stairs(panel[method], edges, color=COLOURS[method], linewidth=1.2, label=LABELS[method])
        true = np.asarray(panel["true"])
        seen = true[true > 0]
        margin = 0.01 * (edges[-1] - edges[0])
        ax.set_xlim(edges[0] - margin, edges[-1] + margin)
        if len(seen) and seen.max() > 20 * np.median(seen):
            ax.set_yscale("log")
            # What is rarer than the rarest true bin is not worth the room.
            highest = max(np.max(shares) for key, shares in panel.items() if key != "edges")
            ax.set_ylim(max(seen.min(), seen.max() / 1e5) / 2, 2 * highest)
        else:
            ax.set_ylim(bottom=0)
            ax.yaxis.set_major_formatter("{x:g}")
        ax.set_title(name, fontsize=11, color=INK)
    _legend(figure, axes)
    return figure


def steps_against_error(curves: dict[str, dict[str, Any]]) -> Figure:
    """One panel per set: W1 against the number of steps, the floor as a line.

    >>> len(steps_against_error({"set": {"floor": 0.1, "jump": ([5, 10], [0.3, 0.2])}}).axes)
    1
    """
    figure, axes = _grid(len(curves), "W1")
    for ax, (name, curve) in zip(axes, curves.items(), strict=True):
        ticks = set()
        for method in ("jump-paper", "jump"):
            steps, errors = curve.get(method, ([], []))
            if len(steps):
                ax.plot(steps, errors, "o-", color=COLOURS[method], markersize=4, linewidth=1.4, label=LABELS[method])
                ticks |= set(steps)
        ax.axhline(curve["floor"], color=REAL, linestyle="--", linewidth=1.2, label="floor: two true samples")
        ax.set(xscale="log", yscale="log")
        ax.margins(y=0.12)
        ax.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
        ax.yaxis.set_major_formatter("{x:g}")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_locator(NullLocator())
        ax.set_title(name, fontsize=11, color=INK)
    for ax in axes[-ACROSS:]:
        ax.set_xlabel("steps", fontsize=9, color=INK)
    _legend(figure, axes)
    return figure


def _grid(panels: int, label: str) -> tuple[Figure, list[Axes]]:
    """Empty panels, with what the vertical axis means at the left."""
    across = min(panels, ACROSS)
    down = -(-panels // across)
    layout = ConstrainedLayoutEngine(hspace=0.06, wspace=0.03)
    figure = Figure(figsize=(3.6 * max(across, 2), 2.6 * down + 0.4), layout=layout)
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for ax in axes:
        ax.tick_params(labelsize=8, colors=INK)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("#8995a3")
        ax.grid(color=FAINT, linewidth=0.6)
        ax.set_axisbelow(True)
    for ax in axes[::across]:
        ax.set_ylabel(label, fontsize=9, color=INK)
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes[:panels]


def _legend(figure: Figure, axes: list[Axes]) -> None:
    """One for all panels, above them."""
    figure.align_ylabels(axes)
    entries = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper center",
        ncols=len(entries),
        fontsize=9,
        frameon=False,
        labelcolor=INK,
    )
