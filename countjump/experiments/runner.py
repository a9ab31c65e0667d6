"""Runs the cells of an experiment: resumable, one record per result in ``results.json``, tables and figures from records alone."""

from __future__ import annotations

import json
import tomllib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from countjump.atomic import write_atomically

Record = dict[str, Any]
RESULTS = "results.json"


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

    def __init__(self, preset: str) -> None:
        self.recipe = recipe(self.name)
        presets = self.recipe["presets"]
        if preset not in presets:
            raise ValueError(f"preset {preset!r} is unknown: use one of {', '.join(presets)}")
        self.settings: dict[str, Any] = presets[preset]

    @abstractmethod
    def cells(self, only: list[str], methods: list[str], runs: int | None) -> list[Cell]:
        """What there is to run."""

    @abstractmethod
    def run(self, cell: Cell, checkpoint: Path) -> list[Record]:
        """Run a cell; one record per number of steps."""

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
    return chosen or known


def read_records(out: Path) -> list[Record]:
    """The records of a run so far."""
    path = out / RESULTS
    if not path.exists():
        return []
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, or choose another directory") from error
    if not isinstance(records, list):
        raise ValueError(f"{path} is not a list of records: choose another directory")
    return records


def run(
    experiment: Experiment, out: Path, only: list[str], methods: list[str], runs: int | None, progress: bool = True
) -> None:
    """Run what is missing in ``out``, then write tables and figures."""
    records = read_records(out)
    cells = experiment.cells(only, methods, runs)
    todo = [cell for cell in cells if cell.missing(records)]
    for cell in tqdm(todo, desc=experiment.name, unit="fit", disable=not progress):
        checkpoint = out / "checkpoints" / f"{cell.dataset}-{cell.method}-{cell.run}"
        new = experiment.run(Cell(cell.dataset, cell.method, cell.run, cell.missing(records)), checkpoint)
        records = [*read_records(out), *new]
        content = "[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n"
        write_atomically(out / RESULTS, content.encode())
        for leftover in checkpoint.glob("*"):
            leftover.unlink()
        experiment.report(records, out)
    experiment.report(records, out)
