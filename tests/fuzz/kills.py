"""Fits and saves that are killed, interrupted, or find the disk full: the old or the new, whole.

When a signal comes depends on the machine, so that a case that failed may pass when it is repeated; try it some times.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from countjump import JumpModel
from countjump.data import read_matrix, write_matrix

from . import bases
from .case import Case
from .children import Child
from .files import SUFFIXES
from .oracle import check, check_files, dense, equal, granted, tree

TURNS = 200
"""How often something is written: more than there is time for."""


def case(case: Case) -> None:
    case.scenario({_save: 3, _write: 3, _fit: 4, _full: 4})


def _stop(case: Case, task: Callable[[], Any], longest: float, place: str) -> str:
    """Run a task in a child that is killed or interrupted within so many seconds; how it ended."""
    child = Child(task)
    number = case.one_of([signal.SIGKILL, signal.SIGINT])
    moment = case.random.uniform(0, longest)
    case.note(f"{number.name} after {moment * 1000:.0f} ms")
    time.sleep(moment)
    child.signal(number)
    return child.end(place, may_be_killed=True)[0]


def _left(case: Case, before: dict[str, bytes | None], ended: str, own: Callable[[str], bool], place: str) -> None:
    """No temporary file stays, but for one who is killed and cannot help it."""
    if ended != "killed":
        check_files(case.place, before, lambda name: name in before or own(name), place)


def _save(case: Case) -> None:
    directory = bases.saved("counts", case.place / "m")
    before = tree(case.place)
    first, second = bases.model("counts"), bases.model("other counts")

    def task() -> None:
        for _ in range(TURNS):
            second.save(directory)
            first.save(directory)

    ended = _stop(case, task, 0.05, "save")
    rows = bases.draw(granted(lambda: bases.load("counts", directory), "load after a killed save"))
    check(any(equal(rows, bases.drawn(n)) for n in ("counts", "other counts")), "half written", "save", rows)
    _left(case, before, ended, lambda name: Path(name).suffix in (".json", ".safetensors"), "save")
    granted(lambda: second.save(directory), "save after a killed save")
    check(equal(bases.draw(bases.load("counts", directory)), bases.drawn("other counts")), "wrong result", "load")


def _write(case: Case) -> None:
    path = case.place / f"a{case.one_of(SUFFIXES)}"
    old, new = bases.matrices()
    write_matrix(path, old)
    before = tree(case.place)

    def task() -> None:
        for _ in range(TURNS):
            write_matrix(path, new)
            write_matrix(path, old)

    ended = _stop(case, task, 0.03, f"write_matrix {path.suffix}")
    X = dense(granted(lambda: read_matrix(path), f"read_matrix {path.suffix} after a killed write"))
    check(any(np.array_equal(X, dense(each)) for each in (old, new)), "half written", f"write_matrix {path.suffix}", X)
    _left(case, before, ended, lambda name: Path(name).parts[0] == path.name, f"write_matrix {path.suffix}")
    granted(lambda: write_matrix(path, new), f"write_matrix {path.suffix} after a killed write")


def fitted(name: str, directory: Path | None, updates: int = 30) -> JumpModel:
    options = {"max_updates": updates, "width": 4, "batch_size": 4, "random_state": 1, "progress": False}
    return JumpModel(checkpoint_dir=directory, checkpoint_every=2, **options).fit(bases.DATA[name])


def _fit(case: Case) -> None:
    name, directory = case.one_of(["counts", "reals", "wide"]), case.place / "c"
    case.note(name)
    ends = []
    for _ in range(case.whole(1, 3)):
        ends.append(_stop(case, lambda: fitted(name, directory) and None, 0.6 if name == "wide" else 0.15, "fit"))
        ended = "killed" if "killed" in ends else ends[-1]
        _left(case, {}, ended, lambda file: file in ("c", "c/checkpoint.safetensors"), "fit")
    resumed = granted(lambda: fitted(name, directory), "resuming a killed fit")
    check(equal(bases.draw(resumed), bases.draw(fitted(name, None))), "wrong result", "resuming: other weights")


def _full(case: Case) -> None:
    """Files can only grow so far: an error that names the file, the old one as it was, and nothing else left."""
    kind = case.one_of(["save", "fit", *SUFFIXES])
    target = case.place / ("m" if kind in ("save", "fit") else f"a{kind}")
    old, new = bases.matrices()
    tasks = {"save": lambda: bases.model("reals").save(target), "fit": lambda: fitted("counts", target, 4) and None}
    if kind == "save":
        bases.saved("counts", target)
    elif kind in SUFFIXES and case.chance(0.7):
        write_matrix(target, old)
    before = tree(case.place)
    size = case.one_of([0, 1, 100, 1000, 4000])
    case.note(f"{kind}, {size} bytes")
    word, _ = Child(tasks.get(kind, lambda: write_matrix(target, new)), size).end(f"{kind} on a full disk")
    if word == "refused":
        check_files(case.place, before, lambda name: name == "m", f"{kind} on a full disk")
