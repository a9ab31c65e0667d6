"""Table 1 and Figure 2 of the paper: nine univariate sets, five methods, W1 beside the floor."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from countjump import JumpModel, LinearBeta, NonNegative
from countjump.atomic import write_atomically
from countjump.baselines import D3PM, DDPM
from countjump.experiments.runner import Cell, Experiment, Record, pick
from countjump.metrics import floor, w1
from countjump.report import distributions, png, steps_against_error

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
PAPER_STEPS = 100
WIDTH, BATCH, RATE = 128, 1000, 1e-3
"""Of the paper's experiments: hidden units, rows per update, Adam's rate."""

QUANTILES = (0.99, 0.999)
BINS = 60


class Univariate(Experiment):
    """Section 4.1."""

    name = "univariate"

    def cells(self, only: list[str], methods: list[str], runs: int | None) -> list[Cell]:
        """Every set by every method; D3PM on the discrete sets only, one number of steps for the paper's methods."""
        cells = []
        for dataset in pick("set", only, list(SETS)):
            for method in pick("method", methods, list(METHODS)) if methods else self.settings["methods"]:
                if method.startswith("d3pm") and not self.recipe["sets"][dataset]["discrete"]:
                    continue
                steps = self.settings["steps"] if method in ("jump", "jump-paper") else [PAPER_STEPS]
                if method == "jump-paper" and PAPER_STEPS not in steps:
                    steps = [*steps, PAPER_STEPS]
                cells += [Cell(dataset, method, run, tuple(steps)) for run in range(runs or self.settings["runs"])]
        return cells

    def run(self, cell: Cell, checkpoint: Path) -> list[Record]:
        """Fit once, sample with every number of steps."""
        rows, pairs = self.settings["rows"], self.settings["pairs"]
        seed = 1000 * list(SETS).index(cell.dataset) + cell.run
        x = SETS[cell.dataset](np.random.default_rng([seed, 0]), rows)
        floors = floor(lambda g: SETS[cell.dataset](g, rows), pairs)
        floors_log1p = floor(lambda g: np.log1p(SETS[cell.dataset](g, rows)), pairs)
        model, data = self._model(cell, x, seed)
        model.set_params(checkpoint_dir=checkpoint)
        start = time.perf_counter()
        model.fit(data[:, None])
        seconds_fit = time.perf_counter() - start
        edges = np.linspace(0, float(np.quantile(x, 0.995)), BINS + 1)
        records = []
        for steps in cell.steps:
            start = time.perf_counter()
            y = model.sample(rows, steps=steps, random_state=seed).ravel()
            records.append(
                {
                    "dataset": cell.dataset,
                    "method": cell.method,
                    "run": cell.run,
                    "seed": seed,
                    "steps": steps,
                    "w1": w1(x, y),
                    "floor": floors.mean(),
                    "w1_log1p": w1(np.log1p(x), np.log1p(y)),
                    "floor_log1p": floors_log1p.mean(),
                    "seconds_fit": round(seconds_fit, 2),
                    "seconds_sample": round(time.perf_counter() - start, 3),
                    "updates": model.history_[-1]["update"],
                    "floor_sd": floors.std(),
                    "floor_log1p_sd": floors_log1p.std(),
                    "rows": rows,
                    "quantiles": {str(q): [float(np.quantile(x, q)), float(np.quantile(y, q))] for q in QUANTILES},
                    "histogram": _histogram(edges, x, y),
                    "learning_curve": [round(record["loss"], 5) for record in model.history_],
                }
            )
        return records

    def _model(self, cell: Cell, x: np.ndarray, seed: int) -> tuple[Any, np.ndarray]:
        """The method's model, and the data that it is given."""
        updates = self.settings.get("updates")
        common: dict[str, Any] = {"width": WIDTH, "random_state": seed, "progress": False}
        if cell.method == "jump":
            return JumpModel(max_updates=updates, **common), x
        epochs = self.settings["paper_epochs"] * max(len(x) // BATCH, 1)
        paper = common | {"batch_size": BATCH, "learning_rate": RATE, "max_updates": updates or epochs}
        if cell.method == "jump-paper":
            lam = float(self.recipe["sets"][cell.dataset]["lam"])
            domain = "count" if self.recipe["sets"][cell.dataset]["discrete"] else NonNegative()
            schedule = LinearBeta.solve(lam * float(x.mean()), timesteps=PAPER_STEPS)
            faithful = {"lr_schedule": "constant", "ema": 0.0, "validation_fraction": 0.0, "objective": "elbo"}
            return (
                JumpModel(domain, "poisson", "poisson", lam, decode="latent", schedule=schedule, **(paper | faithful)),
                x,
            )
        if cell.method == "ddpm":
            return DDPM(**paper), x
        kept = x[x <= np.quantile(x, 0.999)]
        return D3PM(transition="uniform" if cell.method == "d3pm-uniform" else "gaussian", **paper), kept

    def report(self, records: list[Record], out: Path) -> None:
        """``table.md``, ``figure2.png`` and ``steps.png``."""
        if not records:
            return
        write_atomically(out / "table.md", table(records, self.recipe["sets"]).encode())
        write_atomically(out / "figure2.png", png(distributions(_panels(records))))
        write_atomically(out / "steps.png", png(steps_against_error(_curves(records))))


def _histogram(edges: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, list[float]]:
    """Shares of both samples in the same bins."""
    shares = [(np.histogram(v, edges)[0] / len(v)).round(6).tolist() for v in (x, y)]
    return {"edges": edges.round(6).tolist(), "true": shares[0], "generated": shares[1]}


def mean_of(records: list[Record], field: str, **where: Any) -> tuple[float, float, int] | None:
    """Mean, standard deviation and number of a field over the records that match."""
    values = [r[field] for r in records if all(r[name] == value for name, value in where.items())]
    return (float(np.mean(values)), float(np.std(values)), len(values)) if values else None


def table(records: list[Record], sets: dict[str, Any]) -> str:
    """Our numbers beside the paper's, as Markdown; W1, its floor, and their ratio."""
    methods = [("jump", 10), ("jump", 20), *((m, PAPER_STEPS) for m in METHODS[1:])]
    shown = [(m, s) for m, s in methods if any(r["method"] == m and r["steps"] == s for r in records)]
    head = ["set", "floor", *(f"{m} ({s} steps)" for m, s in shown), "paper's JUMP", "paper's DDPM"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in SETS:
        base = mean_of(records, "floor", dataset=name)
        if base is None:
            continue
        unit = 100 if name in ("Uniform", "Beta05", "Beta2") else 1
        cells = [f"{name}{' (×100)' if unit == 100 else ''}", f"{unit * base[0]:.3g}"]
        for method, steps in shown:
            got = mean_of(records, "w1", dataset=name, method=method, steps=steps)
            cells.append(
                ""
                if got is None
                else f"{unit * got[0]:.3g} ± {unit * got[1]:.2g} ({got[0] / base[0]:.2f} ×, n = {got[2]})"
            )
        paper = sets[name]["paper"]
        cells += [f"{unit * paper[m][0]:.3g} ± {unit * paper[m][1]:.2g}" for m in ("jump", "ddpm")]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "W1 to the training values, mean ± standard deviation over n runs, and its ratio to the floor.", ""]
    return "\n".join([*lines, *_log_table(records, shown)])


def _log_table(records: list[Record], shown: list[tuple[str, int]]) -> list[str]:
    """The ratios on log1p values, and the tails of the half-Cauchy, which has no mean."""
    lines = ["On log1p values, the ratio to the floor:", ""]
    head = ["set", *(f"{m} ({s} steps)" for m, s in shown)]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in SETS:
        base = mean_of(records, "floor_log1p", dataset=name)
        if base is None:
            continue
        got = [mean_of(records, "w1_log1p", dataset=name, method=m, steps=s) for m, s in shown]
        lines.append(f"| {name} | " + " | ".join("" if g is None else f"{g[0] / base[0]:.2f}" for g in got) + " |")
    tails = [r for r in records if r["dataset"] == "HalfCauchy"]
    for quantile in map(str, QUANTILES):
        for method, steps in shown:
            errors = [r["quantiles"][quantile][1] / r["quantiles"][quantile][0] - 1 for r in tails
                      if (r["method"], r["steps"]) == (method, steps)]  # fmt: skip
            if errors:
                lines += [
                    "",
                    f"HalfCauchy, quantile {quantile}, {method} ({steps} steps): {100 * np.mean(errors):+.1f} %",
                ]
    return [*lines, ""]


def _panels(records: list[Record]) -> dict[str, dict[str, Any]]:
    """For every set: the true histogram, and those of JUMP and DDPM (the first run of each)."""
    panels: dict[str, dict[str, Any]] = {}
    for name in SETS:
        for method, steps in (("jump", 20), ("jump", 10), ("ddpm", PAPER_STEPS)):
            found = [r for r in records if (r["dataset"], r["method"], r["steps"]) == (name, method, steps)]
            if found and method not in panels.get(name, {}):
                histogram = found[0]["histogram"]
                panel = panels.setdefault(name, {"edges": histogram["edges"], "true": histogram["true"]})
                panel[method] = histogram["generated"]
    return panels


def _curves(records: list[Record]) -> dict[str, dict[str, Any]]:
    """For every set: the floor, and W1 against the number of steps of our belief and of the paper's."""
    curves: dict[str, dict[str, Any]] = {}
    for name in SETS:
        base = mean_of(records, "floor", dataset=name)
        if base is None:
            continue
        curves[name] = {"floor": base[0]}
        for method in ("jump", "jump-paper"):
            steps = sorted({r["steps"] for r in records if (r["dataset"], r["method"]) == (name, method)})
            found = [mean_of(records, "w1", dataset=name, method=method, steps=s) for s in steps]
            curves[name][method] = (steps, [value[0] for value in found if value is not None])
    return curves
