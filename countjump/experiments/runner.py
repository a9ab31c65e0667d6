"""Runs the cells of an experiment: resumable, one record per result in ``results.json``, tables and figures from records alone."""

from __future__ import annotations

import json
import shutil
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

from countjump import JumpModel, LinearBeta, NonNegative
from countjump.atomic import write_atomically
from countjump.baselines import D3PM, DDPM
from countjump.data import require
from countjump.report.figures import png

Record = dict[str, Any]
RESULTS, FITTED = "results.json", "fitted.json"
KEY = {"dataset", "method", "run", "steps"}
"""What tells records apart."""

REPORT_EVERY = 60.0
"""Seconds between two drawings of tables and figures while cells are run."""

PAPER = ("jump-paper", "ddpm", "d3pm-uniform", "d3pm-gauss")
"""The methods that are trained as in the paper; ``jump`` has our own defaults."""

WIDTH, LEARNING_RATE, PAPER_STEPS = 128, 1e-3, 100
"""Of the paper's experiments: hidden units, Adam's rate, steps."""


@dataclass(frozen=True)
class Cell:
    """One fit of one method to one data set, and the numbers of steps that it is sampled with."""

    dataset: str
    method: str
    run: int
    steps: tuple[int, ...]

    def missing(self, records: list[Record]) -> tuple[int, ...]:
        """The numbers of steps that have no record yet."""
        mine = (self.dataset, self.method, self.run)
        done = {r["steps"] for r in records if (r["dataset"], r["method"], r["run"]) == mine}
        return tuple(step for step in self.steps if step not in done)


class Experiment(ABC):
    """A recipe of cells, how to run one, and what to make of the records."""

    name: str
    methods: tuple[str, ...]
    reads_data = False
    """Whether its data sets are files that a person has."""

    sees_images = False
    """Whether it has use for the Inception network."""

    out: Path
    """Where it is run: for files of its own, beside the records."""

    def __init__(self, preset: str, overrides: Mapping[str, Any] | None = None) -> None:
        self.recipe = recipe(self.name)
        presets = self.recipe["presets"]
        if preset not in presets:
            raise ValueError(f"preset {preset!r} is unknown: use one of {', '.join(presets)}")
        self.settings: dict[str, Any] = presets[preset] | dict(overrides or {})

    # What an experiment says of itself.

    @abstractmethod
    def rows(self, cell: Cell, seed: int) -> Any:
        """The real rows."""

    @abstractmethod
    def size(self, cell: Cell) -> int:
        """The rows of a sample."""

    @abstractmethod
    def measure(self, cell: Cell, x: Any, y: Any, seed: int) -> Record:
        """What is recorded of the samples ``y`` beside the real rows ``x``."""

    @abstractmethod
    def fixed(self, record: Record) -> Record:
        """What a record must hold to stand beside those of this preset; None is what it must not hold."""

    @abstractmethod
    def pages(self, records: list[Record]) -> dict[str, str | Figure]:
        """Tables and figures by the names of their files, from the records and only from them."""

    def training_rows(self, cell: Cell, x: Any) -> Any:
        """What a method is given of the real rows."""
        return x

    def refresh(self, records: list[Record]) -> list[Record]:
        """Earlier records with what is the same for all methods, such as a floor, as this preset measures it."""
        return records

    def steps(self, method: str) -> list[int]:
        """The numbers of steps that a method is sampled with; 0 where it has none."""
        return self.settings["steps"] if method == "jump" else [self.settings["paper_steps"] if method in PAPER else 0]

    # What all of them share.

    def cells(self, only: list[str], methods: list[str], runs: int | None) -> list[Cell]:
        """What there is to run."""
        sets = self.recipe["sets"]
        chosen = pick("method", methods, list(self.methods)) if methods else self.settings["methods"]
        cells = [
            Cell(dataset, method, run, tuple(self.steps(method)))
            for dataset in pick("set", only, list(sets))
            for method in chosen
            if sets[dataset]["counts"] or method not in self.recipe["of_counts"]
            for run in range(runs or self.settings["runs"])
        ]
        if not cells:
            raise ValueError(f"nothing to run: {', '.join(chosen)} can only take counts, and {', '.join(only)} are not")
        return cells

    def check(self, records: list[Record], todo: list[Cell]) -> None:
        """Raise ValueError if records were made with settings that cannot stand beside these."""
        again = {(cell.dataset, cell.method) for cell in todo}
        for record in records:
            fixed = self.fixed(record)
            if (record["dataset"], record["method"]) in again and "asked_epochs" in record:
                fixed["asked_epochs"] = self.settings.get("paper_epochs")
            for name, value in fixed.items():
                if record.get(name) != value:
                    values = record.get(name), value
                    theirs, ours = (f"no {name}" if each is None else f"{name} = {each}" for each in values)
                    there = f"the records of {record['method']} on {record['dataset']} there have {theirs}"
                    raise ValueError(f"{there}, and this run has {ours}: choose another directory")

    def look(self, cells: list[Cell]) -> None:
        """Raise where a file that these cells need is not there: before the first of them is run."""
        if self.reads_data and "made" not in self.settings:
            require([cell.dataset for cell in cells], self.settings.get("data"))

    def run(self, cell: Cell, checkpoint: Path) -> Iterator[Record]:
        """Run a cell; one record per number of steps, as soon as it is known."""
        seed = 1000 * list(self.recipe["sets"]).index(cell.dataset) + cell.run
        x = self.rows(cell, seed)
        fitted = checkpoint / FITTED
        said: Record = {"resumed": True} if checkpoint.exists() else {}  # it took longer than is measured
        start = time.perf_counter()
        model = self.fit(self.model(cell, x, seed, checkpoint), cell, x)
        said["seconds_fit"] = round(time.perf_counter() - start, 2)
        if fitted.exists():  # what was stopped was not the fit
            said = json.loads(fitted.read_text(encoding="utf-8"))
        else:
            checkpoint.mkdir(parents=True, exist_ok=True)
            write_atomically(fitted, json.dumps(said).encode())
        said["updates"] = model.history_[-1]["update"] if model.history_ else 0
        if cell.method in PAPER:
            said["epochs"] = round(said["updates"] / self._batches(cell, x), 2)
            said["asked_epochs"] = self.settings.get("paper_epochs")
        if curve := [round(record["loss"], 5) for record in model.history_ if "loss" in record]:
            said["learning_curve"] = curve
        key = {"dataset": cell.dataset, "method": cell.method, "run": cell.run, "seed": seed}
        said |= self.fitted(model, cell, x)
        for steps in cell.steps:
            yield key | {"steps": steps} | self.sampled(model, cell, x, steps, seed) | said

    def fit(self, model: Any, cell: Cell, x: Any) -> Any:
        """The model, fitted to what the method is given of the real rows."""
        return model.fit(self.training_rows(cell, x))

    def fitted(self, model: Any, cell: Cell, x: Any) -> Record:
        """What is recorded of a fit besides its samples."""
        return {}

    def sampled(self, model: Any, cell: Cell, x: Any, steps: int, seed: int) -> Record:
        """What is recorded of the samples with so many steps."""
        draws = 1 if cell.method in PAPER else self.settings.get("draws", 1)
        start = time.perf_counter()
        y = model.sample(draws * self.size(cell), steps=steps, random_state=seed)
        seconds = round((time.perf_counter() - start) / draws, 3)
        return self.measure(cell, x, y, seed) | {"seconds_sample": seconds}

    def model(self, cell: Cell, x: Any, seed: int, checkpoint: Path | None = None) -> Any:
        """The method's: what has ``fit`` and ``sample``, and the ``history_`` of its updates."""
        known = self.recipe["sets"][cell.dataset]
        training: dict[str, Any] = {"random_state": seed, "progress": False, "checkpoint_dir": checkpoint}
        if cell.method == "jump":
            return JumpModel(max_updates=self.settings.get("updates"), width=self.recipe.get("width"), **training)
        epochs = self.settings.get("paper_epochs")
        training["max_updates"] = epochs * self._batches(cell, x) if epochs else self.settings["paper_updates"]
        training |= {"batch_size": self.recipe["batch"], "width": WIDTH, "learning_rate": LEARNING_RATE}
        if cell.method == "ddpm":
            return DDPM(**training)
        if cell.method in ("d3pm-uniform", "d3pm-gauss"):
            return D3PM(transition="uniform" if cell.method == "d3pm-uniform" else "gaussian", **training)
        # Poisson JUMP as in the paper: its belief, schedule and bound, a fixed rate, samples g(z_0/λ).
        training |= {"lr_schedule": "constant", "ema": 0.0, "validation_fraction": 0.0, "objective": "elbo"}
        training |= {"decode": "latent", "lam": float(known["lam"]), "process": "poisson", "belief": "poisson"}
        schedule = LinearBeta.solve(training["lam"] * float(x.mean()), timesteps=PAPER_STEPS)
        return JumpModel("count" if known["counts"] else NonNegative(), schedule=schedule, **training)

    def batch(self, cell: Cell) -> int:
        """Rows of an update of the paper's methods."""
        return self.recipe["batch"]

    def _batches(self, cell: Cell, x: Any) -> int:
        """Of an epoch."""
        return max(x.shape[0] // self.batch(cell), 1)


def recipe(name: str) -> dict[str, Any]:
    """The TOML recipe of an experiment, found by path."""
    return tomllib.loads((Path(__file__).parent / "recipes" / f"{name}.toml").read_text(encoding="utf-8"))


def pick(what: str, chosen: list[str], known: list[str]) -> list[str]:
    """The chosen names, or all of them; an unknown one is an error."""
    for name in chosen:
        if name not in known:
            raise ValueError(f"{what} {name!r} is unknown: use some of {', '.join(known)}")
    return list(dict.fromkeys(chosen)) or known


def read_records(out: Path) -> list[Record]:
    """The records of a run so far."""
    path = out / RESULTS
    if not path.exists():
        return []
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, or choose another directory") from error
    if not isinstance(records, list) or not all(isinstance(r, dict) and r.keys() >= KEY for r in records):
        raise ValueError(f"{path} is not a list of records: delete it, or choose another directory")
    return records


def write_records(out: Path, records: list[Record]) -> None:
    """All of them, a line each, as strict JSON: NaN is an error."""
    try:
        content = "[\n" + ",\n".join(json.dumps(record, allow_nan=False) for record in records) + "\n]\n"
    except ValueError as error:
        raise ValueError(f"a result is not a finite number ({error}): the model's samples must be looked at") from error
    write_atomically(out / RESULTS, content.encode())


def write_pages(out: Path, pages: Mapping[str, str | Figure]) -> None:
    """Tables as text, figures as PNG."""
    for name, page in pages.items():
        write_atomically(out / name, page.encode() if isinstance(page, str) else png(page))


def run(
    experiment: Experiment, out: Path, only: list[str], methods: list[str], runs: int | None, progress: bool = True
) -> None:
    """Run what is missing in ``out``, and write tables and figures: now and then, and at the end."""
    cells = experiment.cells(only, methods, runs)
    records = read_records(out)
    todo = [cell for cell in cells if cell.missing(records)]
    experiment.check(records, todo)
    experiment.look(todo)
    out.mkdir(parents=True, exist_ok=True)
    experiment.out = out
    drawn = time.monotonic()
    try:
        for cell in tqdm(todo, desc=experiment.name, unit="fit", disable=not progress):
            checkpoint = out / "checkpoints" / f"{cell.dataset}-{cell.method}-{cell.run}"
            for record in experiment.run(replace(cell, steps=cell.missing(records)), checkpoint):
                whole = [*read_records(out), record]
                write_records(out, whole)
                records = whole
            shutil.rmtree(checkpoint, ignore_errors=True)
            with suppress(OSError):
                checkpoint.parent.rmdir()
            if time.monotonic() - drawn > REPORT_EVERY:
                write_pages(out, experiment.pages(records))
                drawn = time.monotonic()
    except BaseException:
        if records:
            with suppress(Exception):  # what stopped the run is to be said, not this
                write_pages(out, experiment.pages(records))
        raise
    fresh = experiment.refresh(records)
    if fresh != records:
        write_records(out, fresh)
    write_pages(out, experiment.pages(fresh))


def mean_of(records: list[Record], field: str, **where: Any) -> tuple[float, float] | None:
    """Mean and standard deviation of a field over the records that match and have it."""
    mine = (r for r in records if all(r[name] == value for name, value in where.items()))
    values = [r[field] for r in mine if r.get(field) is not None]
    return (float(np.mean(values)), float(np.std(values))) if values else None


def histogram(edges: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, list[float]]:
    """Shares of both samples in the same bins."""
    shares = [(np.histogram(v, edges)[0] / len(v)).round(6).tolist() for v in (x, y)]
    return {"edges": edges.round(6).tolist(), "true": shares[0], "generated": shares[1]}


def plus_minus(unit: float, mean: float, spread: float = 0.0) -> str:
    """A mean and its spread, in units.

    >>> plus_minus(100, 0.0213, 0.001), plus_minus(1, 3)
    ('2.13 ± 0.1', '3')
    """
    return f"{unit * mean:.3g}" + (f" ± {unit * spread:.2g}" if spread else "")


def markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a table.

    >>> markdown(["set", "floor"], [["BNB", "0.1"]])
    ['| set | floor |', '|---|---|', '| BNB | 0.1 |']
    """
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def lengths(records: list[Record], methods: tuple[str, ...]) -> list[str]:
    """How many runs there are of each method, and how long they were trained."""
    lines = []
    for method in methods:
        if not (mine := [r for r in records if r["method"] == method]):
            continue
        runs = spread([len({r["run"] for r in mine if r["dataset"] == d}) for d in {r["dataset"] for r in mine}])
        epochs = spread([r["epochs"] for r in mine if "epochs" in r])
        updates, seconds = spread([r["updates"] for r in mine]), spread([round(r["seconds_fit"]) for r in mine])
        length = f"{updates} updates" + (f" ({epochs} epochs)" if epochs else "")
        times = "run" if runs == "1" else "runs"
        lines.append(f"- {method}: {runs} {times} of each set, {length}, fitted in {seconds} s")
    return lines


def spread(numbers: list[float]) -> str:
    """From the smallest to the largest.

    >>> spread([3, 1]), spread([2, 2])
    ('1 to 3', '2')
    """
    return " to ".join(dict.fromkeys(f"{end(numbers):,.10g}" for end in (min, max))) if numbers else ""
