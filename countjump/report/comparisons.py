"""Figures of experiments: distributions side by side, error against the number of steps, and how rows hang together."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullLocator

from countjump.report.figures import FAINT, GENERATED, INK, REAL, dress, plain_logarithms

LOOK: dict[str, dict[str, Any]] = {
    "jump": {"color": GENERATED, "label": "countjump"},
    "jump-paper": {"color": "#3c8d6e", "label": "Poisson belief (the paper's)"},
    "ddpm": {"color": "#7a5ea8", "label": "DDPM"},
    "lda": {"color": "#b99a2c", "label": "LDA"},
    "columns": {"color": "#8995a3", "label": "columns resampled"},
}
ACROSS = 3


def distributions(panels: dict[str, dict[str, Any]]) -> Figure:
    """One panel per set: the true histogram filled, the generated ones as steps.

    >>> len(distributions({"set": {"edges": [0, 1, 2], "true": [0.5, 0.5], "jump": [0.4, 0.6]}}).axes)
    1
    """
    figure, axes = _grid(len(panels), "share of the values in a bin")
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        edges = np.asarray(panel["edges"])
        _stairs(ax, edges, panel, "true", (1.2, 1.2))
        seen = np.array([share for share in panel["true"] if share > 0])
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
                ax.plot(steps, errors, "o-", markersize=4, linewidth=1.4, **LOOK[method])
                ticks |= set(steps)
        ax.axhline(curve["floor"], color=REAL, linestyle="--", linewidth=1.2, label="floor: two true samples")
        ax.set(xscale="log", yscale="log")
        ax.margins(y=0.12)
        ax.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
        low, high = ax.get_ylim()
        plain_logarithms(ax, (1, 2, 5) if high < 300 * low else (1,))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_title(name, fontsize=11, color=INK)
    for ax in axes[-ACROSS:]:
        ax.set_xlabel("steps", fontsize=9, color=INK)
    _legend(figure, axes)
    return figure


def row_sizes(sets: dict[str, dict[str, dict[str, Any]]]) -> Figure:
    """Two panels per set, on a scale of log1p: the non-zero columns of a row ("filled") and its total, real and by every method.

    >>> shares = {"edges": [-0.5, 0.5, 1.5], "true": [0.5, 0.5], "generated": [0.4, 0.6]}
    >>> len(row_sizes({"set": {"jump": {"histograms": {"filled": shares, "total": shares}}}}).axes)
    2
    """
    figure, axes = _grid(2 * len(sets), "density", across=2)
    for place, (name, methods) in enumerate(sets.items()):
        for ax, what in zip(axes[2 * place :], ("filled", "total"), strict=False):
            histograms = {method: record["histograms"][what] for method, record in methods.items()}
            panel = {method: each["generated"] for method, each in histograms.items()}
            first = next(iter(histograms.values()))
            panel["true"], edges = first["true"], np.log1p(first["edges"])
            drawn = {label: np.asarray(shares) / np.diff(edges) for label, shares in panel.items()}
            _stairs(ax, edges, drawn, "real", (1.6, 1.1))
            seen = np.flatnonzero(np.max(list(panel.values()), axis=0) > 0.001)
            if len(seen):
                ax.set_xlim(edges[seen[0]], edges[seen[-1] + 1])
            # A method that puts all rows in one place may leave the panel.
            ax.set_ylim(0, min(max(d.max() for d in drawn.values()), 2 * drawn["true"].max()) * 1.05 or 1)
            ax.set_xticks(*_plain_ticks(*ax.get_xlim()))
            titles = {"filled": "columns of a row that are not zero", "total": "total of a row"}
            ax.set_title(f"{name}: {titles[what]}", fontsize=10, color=INK)
    _legend(figure, axes)
    return figure


def joint_structure(sets: dict[str, dict[str, dict[str, float]]]) -> Figure:
    """The AUC and the PMI correlation of every set by every method, the floors as lines.

    >>> record = {"auc": 0.6, "auc_floor": 0.5, "pmi_correlation": 0.8, "pmi_correlation_floor": 0.9}
    >>> len(joint_structure({"set": {"jump": record}}).axes)
    2
    """
    figure, axes = _grid(2, "", across=1)
    titles = {
        "auc": ("AUC of a classifier of real and generated rows (0.5: it cannot tell)", 0.5),
        "pmi_correlation": ("do the same columns meet? Correlation of PMI (higher is better)", 0.0),
    }
    number: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 7.5, "color": INK, "zorder": 5}
    number["bbox"] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.2}
    methods = [method for method in LOOK if any(method in records for records in sets.values())]
    width = 0.8 / max(len(methods), 1)
    for ax, (what, (title, base)) in zip(axes, titles.items(), strict=True):
        for place, records in enumerate(sets.values()):
            for k, method in enumerate(methods):
                if method in records:
                    left, value = place - 0.4 + k * width, records[method][what]
                    ax.bar(left, value - base, 0.9 * width, base, align="edge", **LOOK[method])
                    top = (left + 0.45 * width, max(value, base))
                    ax.annotate(f"{round(value, 2) + 0.0:.2f}", top, (0, 2), **number)
            floor = next(iter(records.values()))[f"{what}_floor"]
            ax.hlines(floor, place - 0.44, place + 0.44, color=REAL, linestyle="--", label="fresh real rows")
        ax.set_xticks(range(len(sets)), list(sets))
        ax.set_ylim(min(base, ax.get_ylim()[0]), 1.06)
        ax.grid(axis="x", visible=False)
        ax.set_title(title, fontsize=10, color=INK)
    _legend(figure, axes)
    return figure


def _stairs(ax: Axes, edges: np.ndarray, shares: dict[str, Any], truth: str, widths: tuple[float, float]) -> None:
    """The true histogram filled, the others as lines; ``widths`` of our line and of the rest."""
    ax.stairs(shares["true"], edges, fill=True, color=REAL, alpha=0.35, label=truth)
    for method in reversed(LOOK):
        if method in shares:
            ax.stairs(shares[method], edges, linewidth=widths[method != "jump"], **LOOK[method])


def _plain_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Where round numbers are on a scale of log1p, and the numbers.

    >>> _plain_ticks(0, np.log1p(20))[1]
    ['0', '1', '2', '5', '10', '20']
    """
    for digits in ((1, 1.2, 1.5, 1.7, 2, 2.5, 3, 4, 5, 6, 7, 8), (1, 2, 5), (1,)):
        numbers = [0.0, *(digit * 10.0**power for power in range(-2, 9) for digit in digits)]
        shown = [n for n in numbers if low - 1e-9 <= np.log1p(n) <= high + 1e-9 and (n == 0 or n >= 1 or high < 1)]
        if len(shown) <= 8:
            break
    return [float(np.log1p(n)) for n in shown], [f"{n:,g}" for n in shown]


def _grid(panels: int, label: str, across: int = ACROSS) -> tuple[Figure, list[Axes]]:
    """Empty panels, with what the vertical axis means at the left."""
    width = 10.8 / across if across < ACROSS else 3.6
    across = min(panels, across)
    down = -(-panels // across)
    size = max(width * across, 7.2), 2.6 * down + 0.4
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(hspace=0.06, wspace=0.03))
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for ax in axes:
        dress(ax, 8)
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
    look = {"ncols": len(entries), "fontsize": 9, "frameon": False, "labelcolor": INK}
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", **look)
