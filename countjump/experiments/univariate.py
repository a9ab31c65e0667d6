"""Table 1 and Figure 2 of the paper: nine univariate sets, five methods, W1 beside the floor."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from countjump.experiments import runner
from countjump.experiments.runner import Cell, Experiment, Record, markdown, mean_of, plus_minus
from countjump.metrics import floor, w1
from countjump.report import comparisons

Draw = Callable[[np.random.Generator, int], np.ndarray]

SETS: dict[str, Draw] = {
    "PoisMix": lambda g, n: np.where(g.random(n) < 0.9, g.poisson(1, n), g.poisson(100, n)),
    "NbinomMix": lambda g, n: np.where(
        g.random(n) < 0.75, g.negative_binomial(1, 0.9, n), g.negative_binomial(10, 0.1, n)
    ),
    "BNB": lambda g, n: g.negative_binomial(1, g.beta(1.5, 1.5, n)),
    "Gamma": lambda g, n: g.gamma(0.5, 1 / 0.05, n),
    "HalfCauchy": lambda g, n: np.abs(g.standard_cauchy(n)),
    "HalfT": lambda g, n: np.abs(g.standard_t(2, n)),
    "Uniform": lambda g, n: g.random(n),
    "Beta05": lambda g, n: g.beta(0.5, 0.5, n),
    "Beta2": lambda g, n: g.beta(2, 2, n),
}
"""The paper's sets: Nbinom(r, p) counts failures at success probability p; Gamma(shape, rate)."""

METHODS = ("jump", "jump-paper", "ddpm", "d3pm-uniform", "d3pm-gauss")
QUANTILES = (0.99, 0.999)
BINS = 60
SHOWN = (0.95, 0.999)
"""Figure 2 shows a set up to three times its first quantile, no further than the second; all of a set without tail."""


class Univariate(Experiment):
    """Section 4.1."""

    name = "univariate"
    methods = METHODS

    def steps(self, method: str) -> list[int]:
        steps = super().steps(method)
        return sorted({*steps, *self.settings["steps"]}) if method == "jump-paper" else steps

    def rows(self, cell: Cell, seed: int) -> np.ndarray:
        return SETS[cell.dataset](np.random.default_rng([seed, 0]), self.settings["rows"])[:, None]

    def training_rows(self, cell: Cell, x: np.ndarray) -> np.ndarray:
        return x[x <= np.quantile(x, 0.999)][:, None] if cell.method.startswith("d3pm") else x

    def size(self, cell: Cell) -> int:
        return self.settings["rows"]

    def fixed(self, record: Record) -> Record:
        return {"rows": self.settings["rows"]}  # others have another floor

    def measure(self, cell: Cell, x: np.ndarray, y: np.ndarray, seed: int) -> Record:
        x, y = x.ravel(), y.ravel()
        edges = _edges(x, self.recipe["sets"][cell.dataset]["counts"])
        return {
            "w1": w1(x, y),
            "w1_log1p": w1(np.log1p(x), np.log1p(y)),
            **self._floor(cell.dataset),
            "rows": len(x),
            "quantiles": {str(q): [float(np.quantile(values, q)) for values in (x, y)] for q in QUANTILES},
            "histogram": runner.histogram(edges, x, y),
        }

    def _floor(self, dataset: str) -> Record:
        values, logs = _floors(dataset, self.settings["rows"], self.settings["pairs"])
        found: Record = {"pairs": self.settings["pairs"]}
        for name, each in {"floor": values, "floor_log1p": logs}.items():
            found |= {name: float(each.mean()), f"{name}_sd": float(each.std())}
        return found

    def refresh(self, records: list[Record]) -> list[Record]:
        return [r if r.get("pairs") == self.settings["pairs"] else r | self._floor(r["dataset"]) for r in records]

    def pages(self, records: list[Record]) -> dict[str, str | Figure]:
        return {
            "table.md": table(records, self.recipe["sets"]),
            "figure2.png": comparisons.distributions(_panels(records)),
            "steps.png": comparisons.steps_against_error(_curves(records)),
        }


@cache
def _floors(dataset: str, rows: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the values, and of log1p of them: the same for every method and run."""
    draw = SETS[dataset]
    return floor(lambda g: draw(g, rows), pairs), floor(lambda g: np.log1p(draw(g, rows)), pairs)


def _edges(x: np.ndarray, counts: bool) -> np.ndarray:
    """Bins of one width up to where the tail begins; each holds as many whole numbers as the others."""
    bulk, top = np.quantile(x, SHOWN)
    top = float(x.max() if x.max() < 1.05 * top else min(top, 3 * bulk))
    if not counts:
        return np.linspace(0, top, BINS + 1)
    width = max(math.ceil((top + 1) / BINS), 1)
    return np.arange(-0.5, top + width, width)


def table(records: list[Record], sets: dict[str, Any]) -> str:
    """Our numbers beside the paper's, as Markdown; W1, its floor, and their ratio."""
    shown = _shown(records)
    columns = list(shown)
    # The paper's number stands after the last column of its method.
    for key, place in {method.removesuffix("-paper"): (method, steps) for method, steps in shown}.items():
        columns.insert(columns.index(place) + 1, (f"paper: {key}", 0))
    note = "W1 to the training values: mean ± standard deviation over the runs; in brackets, its ratio to the floor."
    lines = [*_distances(records, columns, sets), "", note, "", *runner.lengths(records, METHODS), ""]
    lines += ["On log1p values:", "", *_distances(records, shown, sets, "_log1p"), *_tails(records, shown), ""]
    return "\n".join(lines)


Columns = list[tuple[str, int]]
"""Methods and their steps; no steps are the paper's own number."""


def _shown(records: list[Record]) -> Columns:
    """``jump`` with 10 and 20 steps where there are such records, the others with their most."""
    shown = []
    for method in METHODS:
        steps = sorted({r["steps"] for r in records if r["method"] == method})
        few = [s for s in steps if s in (10, 20)] if method == "jump" else []
        shown += [(method, s) for s in few or steps[-1:]]
    return shown


def _titles(columns: Columns) -> list[str]:
    return [f"{method}, {steps} steps" if steps else method for method, steps in columns]


def _distances(records: list[Record], columns: Columns, sets: dict[str, Any], end: str = "") -> list[str]:
    """A line for every set; on log1p values (``end``) without spreads, and in the values' own unit."""
    rows = []
    for name, known in sets.items():
        floor, floor_sd = (mean_of(records, f"floor{end}{sd}", dataset=name) for sd in ("", "_sd"))
        if floor is None:
            continue
        unit = 1 if end else known.get("unit", 1)
        cells = [f"{name} (×{unit})" if unit > 1 else name]
        cells.append(plus_minus(unit, floor[0], floor_sd[0] if floor_sd and not end else 0.0))
        for method, steps in columns:
            got = mean_of(records, f"w1{end}", dataset=name, method=method, steps=steps)
            paper = known["paper"].get(method.removeprefix("paper: "))
            if not steps:
                cells.append(plus_minus(unit, *paper) if paper else "")
            else:
                cells.append(f"{plus_minus(unit, *got[: 1 if end else 2])} ({got[0] / floor[0]:.2f}×)" if got else "")
        rows.append(cells)
    return markdown(["set", "floor", *_titles(columns)], rows)


def _tails(records: list[Record], shown: Columns) -> list[str]:
    """The tails of the half-Cauchy, which has no mean."""
    tails, rows = [r for r in records if r["dataset"] == "HalfCauchy"], []
    for quantile in map(str, QUANTILES):
        rows.append([f"its {quantile} quantile"])
        for column in shown:
            pairs = [r["quantiles"][quantile] for r in tails if (r["method"], r["steps"]) == column]
            rows[-1].append(f"{np.mean([100 * (y / x - 1) for x, y in pairs]):+.1f} %" if pairs else "")
    return ["", *markdown(["HalfCauchy, error of", *_titles(shown)], rows)] if tails else []


def _panels(records: list[Record]) -> dict[str, dict[str, Any]]:
    """For every set: the true histogram, and those of JUMP and DDPM with the most steps of the table, of the first run."""
    panels: dict[str, dict[str, Any]] = {}
    most = dict(_shown(records))
    for name in SETS:
        if not (mine := sorted((r for r in records if r["dataset"] == name), key=lambda r: r["run"])):
            continue
        histograms = {r["method"]: r["histogram"] for r in reversed(mine) if r["steps"] == most[r["method"]]}
        panels[name] = {key: mine[0]["histogram"][key] for key in ("edges", "true")}
        jump = "jump" if "jump" in histograms else "jump-paper"
        panels[name] |= {m: histograms[m]["generated"] for m in (jump, "ddpm") if m in histograms}
    return panels


def _curves(records: list[Record]) -> dict[str, dict[str, Any]]:
    """For every set: the floor, and W1 against the number of steps of our belief and of the paper's."""
    curves: dict[str, dict[str, Any]] = {}
    for name in SETS:
        if not (base := mean_of(records, "floor", dataset=name)):
            continue
        curves[name] = {"floor": base[0]}
        for method in ("jump", "jump-paper"):
            steps = sorted({r["steps"] for r in records if (r["dataset"], r["method"]) == (name, method)})
            found = [mean_of(records, "w1", dataset=name, method=method, steps=s) for s in steps]
            curves[name][method] = (steps, [value[0] for value in found if value is not None])
    return curves
