"""Two processes in one place: whole models and files, the same fit, or a clear word.

Who comes first depends on the machine, so that a case that failed may pass when it is repeated; try it some times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from countjump.data import read_matrix, write_matrix

from . import bases
from .case import Case
from .children import Child
from .files import SUFFIXES
from .kills import fitted
from .oracle import check, dense, equal, granted

TIMES = 8


def case(case: Case) -> None:
    case.scenario({_saves: 3, _load: 3, _fits: 3, _files: 3})


def _both(first: Callable[[], Any], second: Callable[[], Any], place: str) -> list[tuple[str, Any]]:
    children = [Child(first), Child(second)]
    try:
        return [child.end(place) for child in children]
    finally:
        for child in children:
            child.process.kill()
            child.process.join()


def _one_of_both(directory: Any) -> None:
    rows = bases.draw(granted(lambda: bases.load("counts", directory), "load beside a save"))
    check(any(equal(rows, bases.drawn(n)) for n in ("counts", "other counts")), "half written", "save", rows)


def _save(directory: Any, names: list[str]) -> Callable[[], None]:
    def task() -> None:
        for turn in range(TIMES):
            bases.model(names[turn % len(names)]).save(directory)

    return task


def _saves(case: Case) -> None:
    directory = case.place / "m"
    ends = _both(_save(directory, ["counts"]), _save(directory, ["other counts"]), "two saves")
    check(any(word == "done" for word, _ in ends), "refused", "two saves", ends)
    _one_of_both(directory)


def _load(case: Case) -> None:
    directory = bases.saved("counts", case.place / "m")

    def load() -> None:
        for _ in range(TIMES):
            _one_of_both(directory)

    _both(_save(directory, ["other counts", "counts"]), load, "a load beside a save")


def _fits(case: Case) -> None:
    name = case.one_of(["counts", "reals"])
    directory, updates = case.place / "c", case.whole(4, 20)
    case.note(f"{name}, {updates} updates")

    def task() -> Any:
        return bases.draw(fitted(name, directory, updates)).tolist()

    ends = _both(task, task, "two fits")
    right = bases.draw(fitted(name, None, updates)).tolist()
    check(any(word == "done" for word, _ in ends), "refused", "two fits", ends)
    check(all(rows == right for word, rows in ends if word == "done"), "wrong result", "two fits: other weights", ends)


def _files(case: Case) -> None:
    path = case.place / f"a{case.one_of(SUFFIXES)}"
    case.note(path.suffix)
    matrices = bases.matrices()
    write_matrix(path, matrices[0])

    def write() -> None:
        for turn in range(TIMES):
            write_matrix(path, matrices[turn % 2])

    def read() -> None:
        for _ in range(TIMES):
            X = dense(read_matrix(path))
            right = any(np.array_equal(X, dense(each)) for each in matrices)
            check(right, "half written", f"a read beside a write of {path.suffix}", X)

    ends = _both(write, case.one_of([write, read]), f"two at one {path.suffix}")
    check(any(word == "done" for word, _ in ends), "refused", f"two at one {path.suffix}", ends)
    X = dense(granted(lambda: read_matrix(path), f"read_matrix {path.suffix} after two writes"))
    check(any(np.array_equal(X, dense(each)) for each in matrices), "half written", f"two writes of {path.suffix}", X)
