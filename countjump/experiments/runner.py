"""Runs the cells of an experiment: resumable, one record per result in ``results.json``, tables and figures from records alone."""

from __future__ import annotations

import json
import shutil
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from countjump import JumpModel, LinearBeta, NonNegative
from countjump.atomic import write_atomically

Record = dict[str, Any]
RESULTS = "results.json"
KEY = ("dataset", "method", "run", "steps")
"""What tells records apart."""

REPORT_EVERY = 60.0
"""Seconds between two drawings of tables and figures while cells are run."""

WIDTH, PAPER_STEPS = 128, 100
PAPER = {"width": WIDTH, "learning_rate": 1e-3}
"""Of the paper's experiments: hidden units, steps, Adam's rate."""


@dataclass(frozen=True)
class Cell:
    """One fit of one method to one data set, and the numbers of steps that it is sampled with."""

    dataset: str
    method: str
    run: int
    steps: tuple[int, ...]

    def key(self, seed: int, steps: int) -> Record:
        """What a record begins with."""
        return {"dataset": self.dataset, "method": self.method, "run": self.run, "seed": seed, "steps": steps}

    def missing(self, records: list[Record]) -> tuple[int, ...]:
        """The numbers of steps that have no record yet."""
        mine = (self.dataset, self.method, self.run)
        done = {r["steps"] for r in records if (r["dataset"], r["method"], r["run"]) == mine}
        return tuple(step for step in self.steps if step not in done)


class Experiment(ABC):
    """A recipe of cells, how to run one, and what to make of the records."""

    name: str
    reads_data = False
    """Whether its data sets are files that a person has."""

    def __init__(self, preset: str, overrides: Mapping[str, Any] | None = None) -> None:
        self.recipe = recipe(self.name)
        presets = self.recipe["presets"]
        if preset not in presets:
            raise ValueError(f"preset {preset!r} is unknown: use one of {', '.join(presets)}")
        self.settings: dict[str, Any] = presets[preset] | dict(overrides or {})

    @abstractmethod
    def cells(self, only: list[str], methods: list[str], runs: int | None) -> list[Cell]:
        """What there is to run."""

    @abstractmethod
    def check(self, records: list[Record]) -> None:
        """Raise ValueError if records were made with settings that cannot stand beside these."""

    @abstractmethod
    def look(self, cells: list[Cell]) -> None:
        """Raise where something that these cells need is not there: before the first of them is run."""

    @abstractmethod
    def run(self, cell: Cell, checkpoint: Path) -> list[Record]:
        """Run a cell; one record per number of steps."""

    def refresh(self, records: list[Record]) -> list[Record]:
        """Earlier records with what is the same for all methods, such as a floor, as this preset measures it."""
        return records

    @abstractmethod
    def report(self, records: list[Record], out: Path) -> None:
        """Write tables and figures, from the records and only from them."""


def recipe(name: str) -> dict[str, Any]:
    """The TOML recipe of an experiment, found by path."""
    return tomllib.loads((Path(__file__).parent / "recipes" / f"{name}.toml").read_text(encoding="utf-8"))


def pick(what: str, chosen: list[str], known: list[str]) -> list[str]:
    """The chosen names, or all of them; an unknown one is an error."""
    for name in chosen:
        if name not in known:
            raise ValueError(f"{what} {name!r} is unknown: use some of {', '.join(known)}")
    return list(dict.fromkeys(chosen)) or known


def paper_jump(whole: bool, lam: float, mean: float, training: dict[str, Any]) -> JumpModel:
    """Poisson JUMP as in the paper, for entries of that mean: its belief, schedule and bound, a fixed rate, samples g(z_0/λ)."""
    faithful = {"lr_schedule": "constant", "ema": 0.0, "validation_fraction": 0.0, "objective": "elbo"}
    faithful |= {"schedule": LinearBeta.solve(lam * mean, timesteps=PAPER_STEPS), "decode": "latent"}
    return JumpModel("count" if whole else NonNegative(), "poisson", "poisson", lam, **(training | faithful))


def read_records(out: Path) -> list[Record]:
    """The records of a run so far."""
    path = out / RESULTS
    if not path.exists():
        return []
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, or choose another directory") from error
    if not isinstance(records, list) or not all(isinstance(r, dict) and r.keys() >= set(KEY) for r in records):
        raise ValueError(f"{path} is not a list of records: delete it, or choose another directory")
    return records


def write_records(out: Path, records: list[Record]) -> None:
    """All of them, a line each, as strict JSON: NaN is an error."""
    try:
        content = "[\n" + ",\n".join(json.dumps(record, allow_nan=False) for record in records) + "\n]\n"
    except ValueError as error:
        raise ValueError(f"a result is not a finite number ({error}): the model's samples must be looked at") from error
    write_atomically(out / RESULTS, content.encode())


def run(
    experiment: Experiment, out: Path, only: list[str], methods: list[str], runs: int | None, progress: bool = True
) -> None:
    """Run what is missing in ``out``, and write tables and figures: now and then, and at the end."""
    cells = experiment.cells(only, methods, runs)
    records = read_records(out)
    experiment.check(records)
    todo = [cell for cell in cells if cell.missing(records)]
    check_lengths(todo, records, experiment.settings)
    experiment.look(todo)
    out.mkdir(parents=True, exist_ok=True)
    drawn = time.monotonic()
    try:
        for cell in tqdm(todo, desc=experiment.name, unit="fit", disable=not progress):
            checkpoint = out / "checkpoints" / f"{cell.dataset}-{cell.method}-{cell.run}"
            new = experiment.run(Cell(cell.dataset, cell.method, cell.run, cell.missing(records)), checkpoint)
            whole = [*read_records(out), *new]
            write_records(out, whole)
            records = whole
            shutil.rmtree(checkpoint, ignore_errors=True)
            with suppress(OSError):
                checkpoint.parent.rmdir()
            if time.monotonic() - drawn > REPORT_EVERY:
                experiment.report(records, out)
                drawn = time.monotonic()
    except BaseException:
        if records:
            with suppress(Exception):  # what stopped the run is to be said, not this
                experiment.report(records, out)
        raise
    fresh = experiment.refresh(records)
    if fresh != records:
        write_records(out, fresh)
    experiment.report(fresh, out)


def check_lengths(todo: list[Cell], records: list[Record], settings: Mapping[str, Any]) -> None:
    """Raise ValueError if a cell would be another run of a method on a set whose records were asked to train for other epochs."""
    ours = settings.get("paper_epochs")
    for cell in todo:
        for record in records:
            theirs = record.get("asked_epochs", ours)
            if (record["dataset"], record["method"]) == (cell.dataset, cell.method) and theirs != ours:
                theirs, ours = ("no --epochs" if n is None else f"--epochs {n}" for n in (theirs, ours))
                made = f"the records of {cell.method} on {cell.dataset} there were made with {theirs}"
                raise ValueError(f"{made}, and this run has {ours}: choose another directory")


def mean_of(records: list[Record], field: str, **where: Any) -> tuple[float, float, int] | None:
    """Mean, standard deviation and number of a field over the records that match and have it."""
    mine = (r for r in records if all(r[name] == value for name, value in where.items()))
    values = [r[field] for r in mine if r.get(field) is not None]
    return (float(np.mean(values)), float(np.std(values)), len(values)) if values else None


def histogram(edges: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, list[float]]:
    """Shares of both samples in the same bins."""
    shares = [(np.histogram(v, edges)[0] / len(v)).round(6).tolist() for v in (x, y)]
    return {"edges": edges.round(6).tolist(), "true": shares[0], "generated": shares[1]}


def plus_minus(unit: float, mean: float, spread: float) -> str:
    """A mean and its spread, in units.

    >>> plus_minus(100, 0.0213, 0.001), plus_minus(1, 3, 0)
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
        lines.append(
            f"- {method}: {runs} {'run' if runs == '1' else 'runs'} of each set, {length}, fitted in {seconds} s"
        )
    return lines


def spread(numbers: list[float]) -> str:
    """From the smallest to the largest.

    >>> spread([3, 1]), spread([2, 2])
    ('1 to 3', '2')
    """
    return " to ".join(dict.fromkeys(f"{end(numbers):,.10g}" for end in (min, max))) if numbers else ""
