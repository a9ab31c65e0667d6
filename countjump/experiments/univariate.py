"""Table 1 and Figure 2 of the paper: nine univariate sets, five methods, W1 beside the floor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from countjump import JumpModel, report
from countjump.atomic import write_atomically
from countjump.baselines import D3PM, DDPM
from countjump.experiments import runner
from countjump.experiments.runner import Cell, Experiment, Record, markdown, mean_of, pick, plus_minus
from countjump.metrics import floor, w1

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
BATCH = 1000
"""Rows per update in the paper's experiments."""

QUANTILES = (0.99, 0.999)
BINS = 60
SHOWN = (0.95, 0.999)
"""Figure 2 shows a set up to three times its first quantile, no further than the second; all of a set without tail."""


class Univariate(Experiment):
    """Section 4.1."""

    name = "univariate"

    def cells(self, only: list[str], methods: list[str], runs: int | None) -> list[Cell]:
        paper_steps: int = self.settings.get("paper_steps", runner.PAPER_STEPS)
        steps = {"jump": self.settings["steps"], "jump-paper": sorted({*self.settings["steps"], paper_steps})}
        chosen = pick("method", methods, list(METHODS)) if methods else self.settings["methods"]
        cells = [
            Cell(dataset, method, run, tuple(steps.get(method, [paper_steps])))
            for dataset in pick("set", only, list(SETS))
            for method in chosen
            if self.recipe["sets"][dataset]["discrete"] or not method.startswith("d3pm")
            for run in range(runs or self.settings["runs"])
        ]
        if not cells:
            raise ValueError(f"nothing to run: {', '.join(chosen)} need discrete sets, and {', '.join(only)} are not")
        return cells

    def check(self, records: list[Record]) -> None:
        sizes = {record.get("rows", 0) for record in records} - {self.settings["rows"]}  # they have another floor
        if sizes:
            ours = f"this preset's of {self.settings['rows']}"
            raise ValueError(f"the records there are of {min(sizes)} rows, and {ours}: choose another directory")

    def look(self, cells: list[Cell]) -> None:
        """For nothing: the data is made."""

    def run(self, cell: Cell, checkpoint: Path) -> list[Record]:
        rows, known = self.settings["rows"], self.recipe["sets"][cell.dataset]
        seed = 1000 * list(SETS).index(cell.dataset) + cell.run
        x = SETS[cell.dataset](np.random.default_rng([seed, 0]), rows)
        model, data = self._model(cell, x, seed)
        # What was resumed took longer than was measured.
        said: Record = {"resumed": True} if checkpoint.exists() else {}
        start = time.perf_counter()
        model.set_params(checkpoint_dir=checkpoint).fit(data[:, None])
        seconds_fit = time.perf_counter() - start
        updates = model.history_[-1]["update"]
        if cell.method != "jump":
            asked = self.settings.get("paper_epochs")
            said |= {"epochs": round(updates / max(rows // BATCH, 1), 2), "asked_epochs": asked}
        records = []
        for steps in cell.steps:
            start = time.perf_counter()
            y = model.sample(rows, steps=steps, random_state=seed).ravel()
            seconds_sample = time.perf_counter() - start
            record = cell.key(seed, steps) | {"w1": w1(x, y), "w1_log1p": w1(np.log1p(x), np.log1p(y))}
            record |= {"seconds_fit": round(seconds_fit, 2), "seconds_sample": round(seconds_sample, 3)}
            record |= {"updates": updates, **said, **self._floor(cell.dataset)}
            quantiles = {str(q): [float(np.quantile(values, q)) for values in (x, y)] for q in QUANTILES}
            record |= {"rows": rows, "quantiles": quantiles}
            record["histogram"] = runner.histogram(_edges(x, known["discrete"]), x, y)
            record["learning_curve"] = [round(each["loss"], 5) for each in model.history_]
            records.append(record)
        return records

    def _floor(self, dataset: str) -> Record:
        values, logs = _floors(dataset, self.settings["rows"], self.settings["pairs"])
        found = {
            "floor": values.mean(),
            "floor_sd": values.std(),
            "floor_log1p": logs.mean(),
            "floor_log1p_sd": logs.std(),
        }
        return {name: float(value) for name, value in found.items()} | {"pairs": self.settings["pairs"]}

    def refresh(self, records: list[Record]) -> list[Record]:
        return [r if r.get("pairs") == self.settings["pairs"] else r | self._floor(r["dataset"]) for r in records]

    def _model(self, cell: Cell, x: np.ndarray, seed: int) -> tuple[Any, np.ndarray]:
        """The method's model, and the data that it is given."""
        updates = self.settings.get("updates")
        common: dict[str, Any] = {"width": runner.WIDTH, "random_state": seed, "progress": False}
        if cell.method == "jump":
            return JumpModel(max_updates=updates, **common), x
        if "paper_epochs" in self.settings:
            updates = self.settings["paper_epochs"] * max(len(x) // BATCH, 1)
        paper = common | runner.PAPER | {"batch_size": BATCH, "max_updates": updates}
        if cell.method == "jump-paper":
            known = self.recipe["sets"][cell.dataset]
            return runner.paper_jump(known["discrete"], float(known["lam"]), float(x.mean()), paper), x
        if cell.method == "ddpm":
            return DDPM(**paper), x
        kept = x[x <= np.quantile(x, 0.999)]
        return D3PM(transition="uniform" if cell.method == "d3pm-uniform" else "gaussian", **paper), kept

    def report(self, records: list[Record], out: Path) -> None:
        if not records:
            return
        write_atomically(out / "table.md", table(records, self.recipe["sets"]).encode())
        write_atomically(out / "figure2.png", report.png(report.distributions(_panels(records))))
        write_atomically(out / "steps.png", report.png(report.steps_against_error(_curves(records))))


@cache
def _floors(dataset: str, rows: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the values, and of log1p of them: the same for every method and run."""
    draw = SETS[dataset]
    return floor(lambda g: draw(g, rows), pairs), floor(lambda g: np.log1p(draw(g, rows)), pairs)


def _edges(x: np.ndarray, discrete: bool) -> np.ndarray:
    """Bins of one width up to where the tail begins; each holds as many whole numbers as the others."""
    bulk, top = np.quantile(x, SHOWN)
    top = float(x.max() if x.max() < 1.05 * top else min(top, 3 * bulk))
    if not discrete:
        return np.linspace(0, top, BINS + 1)
    width = max(math.ceil((top + 1) / BINS), 1)
    return np.arange(-0.5, top + width, width)


def table(records: list[Record], sets: dict[str, Any]) -> str:
    """Our numbers beside the paper's, as Markdown; W1, its floor, and their ratio."""
    shown = _shown(records)
    # The paper's number stands after the last column of its method.
    last = {method.removesuffix("-paper"): (method, steps) for method, steps in shown}
    after = {column: [key for key, place in last.items() if place == column] for column in shown}
    head, rows = ["set", "floor"], []
    for method, steps in shown:
        head += [f"{method}, {steps} steps", *(f"paper: {key}" for key in after[method, steps])]
    for name in SETS:
        base, spread = (mean_of(records, field, dataset=name) for field in ("floor", "floor_sd"))
        if base is None or spread is None:
            continue
        unit = 100 if name in ("Uniform", "Beta05", "Beta2") else 1
        cells = [f"{name}{' (×100)' if unit == 100 else ''}", plus_minus(unit, base[0], spread[0])]
        for method, steps in shown:
            got = mean_of(records, "w1", dataset=name, method=method, steps=steps)
            cells.append("" if got is None else f"{plus_minus(unit, *got[:2])} ({got[0] / base[0]:.2f}×)")
            paper = sets[name]["paper"]
            cells += [plus_minus(unit, *paper[key]) if key in paper else "" for key in after[method, steps]]
        rows.append(cells)
    note = "W1 to the training values: mean ± standard deviation over the runs; in brackets, its ratio to the floor."
    lines = [*markdown(head, rows), "", note, "", *runner.lengths(records, METHODS), ""]
    return "\n".join([*lines, *_log_table(records, shown), *_tails(records, shown), ""])


def _shown(records: list[Record]) -> list[tuple[str, int]]:
    """The columns of the table: ``jump`` with 10 and 20 steps where there are such records, the others with their most."""
    shown = []
    for method in METHODS:
        steps = sorted({r["steps"] for r in records if r["method"] == method})
        few = [s for s in steps if s in (10, 20)] if method == "jump" else []
        shown += [(method, s) for s in few or steps[-1:]]
    return shown


def _log_table(records: list[Record], shown: list[tuple[str, int]]) -> list[str]:
    """The same on log1p values."""
    head = ["set", "floor", *(f"{m}, {s} steps" for m, s in shown)]
    rows = []
    for name in SETS:
        if not (base := mean_of(records, "floor_log1p", dataset=name)):
            continue
        cells = [name, f"{base[0]:.3g}"]
        for method, steps in shown:
            got = mean_of(records, "w1_log1p", dataset=name, method=method, steps=steps)
            cells.append("" if got is None else f"{got[0]:.3g} ({got[0] / base[0]:.2f}×)")
        rows.append(cells)
    return ["On log1p values:", "", *markdown(head, rows)]


def _tails(records: list[Record], shown: list[tuple[str, int]]) -> list[str]:
    """The tails of the half-Cauchy, which has no mean."""
    tails, rows = [r for r in records if r["dataset"] == "HalfCauchy"], []
    for quantile in map(str, QUANTILES):
        rows.append([f"its {quantile} quantile"])
        for column in shown:
            pairs = [r["quantiles"][quantile] for r in tails if (r["method"], r["steps"]) == column]
            rows[-1].append(f"{np.mean([100 * (y / x - 1) for x, y in pairs]):+.1f} %" if pairs else "")
    head = ["HalfCauchy, error of", *(f"{m}, {s} steps" for m, s in shown)]
    return ["", *markdown(head, rows)] if tails else []


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
