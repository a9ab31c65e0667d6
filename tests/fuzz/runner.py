"""Runs cases in worker processes and takes what goes wrong there, crashes, hangs and memory included, as results.

A worker runs the cases of one family and reports the start and the end of each over a pipe. The parent ends a worker that has said
nothing for ``limit`` seconds or holds more than ``memory`` bytes, notes the case, and goes on with the next one in a new worker.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .case import Case, draws_of, family_of, run_case
from .oracle import PACKAGE, Wrong, objection_to, place_of

SPAWN = multiprocessing.get_context("spawn")
STARTING = 600
"""Seconds in which a worker has to start."""


@dataclass(frozen=True)
class Failure:
    """What went wrong in a case."""

    family: str
    number: int
    kind: str
    place: str
    text: str
    notes: tuple[str, ...] = ()
    details: str = ""

    @property
    def group(self) -> tuple[str, str, str]:
        return self.family, self.kind, self.place


def failure_of(error: Exception, family: str, number: int) -> Failure:
    """What an error means that came out of a case."""
    kind, place, text = "harness", place_of(error), f"{type(error).__name__}: {error}"
    if isinstance(error, Wrong):
        kind, place, text = error.kind, error.place, error.text
    elif place != "outside countjump":  # not attempted, since it has to succeed
        kind, place, text = objection_to(error) or (f"refused with {type(error).__name__}", place, str(error))
    details = "".join(traceback.format_exception(error))
    return Failure(family, number, kind, place, text, details=details)


def work(
    pipe: Connection, name: str, family: Callable[[Case], None] | None, seed: int, numbers: range, place: str
) -> None:
    """In the worker: run the cases, and report each."""
    os.setsid()  # its children end with it
    dump = open(Path(place) / "stacks", "w")  # noqa: SIM115
    faulthandler.enable(dump)
    faulthandler.register(signal.SIGUSR1, dump)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    warnings.simplefilter("ignore")
    family = family or family_of(name)
    pipe.send(("ready", 0, None))
    for number in numbers:
        dump.seek(0)
        dump.truncate()
        pipe.send(("start", number, None))
        failure = None
        try:
            run_case(family, draws_of(name, seed, number), Path(place), lambda text: pipe.send(("note", 0, text)))
        except Exception as error:
            failure = failure_of(error, name, number)
        pipe.send(("end", number, failure))


class Worker:
    """The cases of one family, in one process after another."""

    def __init__(self, name: str, numbers: range, run: Run) -> None:
        self.name, self.run, self.left = name, run, numbers
        self.directory = tempfile.TemporaryDirectory(prefix="countjump-fuzz-", ignore_cleanup_errors=True)
        self.start()

    def start(self) -> None:
        self.pipe, theirs = SPAWN.Pipe(duplex=False)
        arguments = (theirs, self.name, self.run.own.get(self.name), self.run.seed, self.left, self.directory.name)
        self.process = SPAWN.Process(target=work, args=arguments)
        self.process.start()
        theirs.close()
        self.heard, self.patience, self.notes = time.monotonic(), float(STARTING), list[str]()

    def stop(self) -> None:
        if self.process.is_alive() and self.patience == STARTING:
            self.process.kill()
        elif self.process.is_alive():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()
        self.pipe.close()

    def listen(self) -> None:
        """Take what the worker says; where it has ended or has to be ended, go on behind the case."""
        try:
            while self.pipe.poll():
                word, number, what = self.pipe.recv()
                self.heard, self.patience = time.monotonic(), self.run.limit
                if word == "start":
                    self.notes = []
                elif word == "note":
                    self.notes.append(what)
                elif word == "end":
                    self.left = range(number + 1, self.left.stop)
                    self.run.cases += 1
                    if what is not None:
                        self.run.failures.append(replace(what, notes=tuple(self.notes)))
        except EOFError:
            self.process.join()
            if self.left:
                code = self.process.exitcode or 0
                self.lose(f"crash ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})")
            return
        if time.monotonic() - self.heard > self.patience:
            self.lose("hang", f"nothing for {self.patience:g} s")
        elif (held := resident(self.process.pid)) > self.run.memory:
            self.lose("memory", f"{held / 2**30:.1f} GB")

    def lose(self, kind: str, text: str = "") -> None:
        if self.process.is_alive() and self.patience != STARTING:
            os.killpg(self.process.pid, signal.SIGUSR1)  # it says where it is
            time.sleep(0.3)
        self.stop()
        stacks = (Path(self.directory.name) / "stacks").read_text(errors="replace")
        found = re.search(rf'File "{re.escape(PACKAGE)}/(\S+)", line \d+ in (\w+)', stacks)
        place = f"{found[1]}:{found[2]}" if found else "outside countjump"
        self.run.failures.append(Failure(self.name, self.left.start, kind, place, text, tuple(self.notes), stacks))
        self.run.cases += 1
        self.left = range(self.left.start + 1, self.left.stop)
        if self.left:
            self.start()


def resident(pid: int | None) -> int:
    """The bytes that a process holds; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


class Run:
    """A run over some cases of some families."""

    def __init__(
        self,
        seed: int,
        limit: float = 60,
        memory: float = 3 * 2**30,
        own: dict[str, Callable[[Case], None]] | None = None,
    ) -> None:
        """``own`` are families besides those of the harness."""
        self.seed, self.limit, self.memory, self.own = seed, limit, memory, own or {}
        self.cases, self.failures = 0, list[Failure]()

    def over(self, numbers: dict[str, range], together: int = 2) -> Run:
        """Run the cases of these numbers, of two families at a time."""
        os.environ["OMP_NUM_THREADS"] = "1"
        waiting, active = [item for item in numbers.items() if len(item[1])], list[Worker]()
        try:
            while waiting or active:
                while waiting and len(active) < together:
                    active.append(Worker(*waiting.pop(0), self))
                wait([worker.pipe for worker in active], timeout=0.05)
                for worker in list(active):
                    worker.listen()
                    if not worker.left:
                        active.remove(worker)
                        worker.stop()
        finally:
            for worker in active:
                worker.stop()
        return self

    def report(self, details: bool = False) -> str:
        """Each distinct failure once, with the command that repeats it."""
        groups: dict[Any, list[Failure]] = {}
        for failure in self.failures:
            groups.setdefault(failure.group, []).append(failure)
        lines = []
        for (family, kind, place), found in sorted(groups.items()):
            first = min(found, key=lambda failure: failure.number)
            lines += [f"{family}: {kind} at {place} ({len(found)} times)", f"    {' '.join(first.text.split())[:300]}"]
            lines += [f"    in: {'; '.join(first.notes)}"] if first.notes else []
            lines += [f"    repeat: python -m tests.fuzz {family} --seed {self.seed} --case {first.number}"]
            lines += [first.details] if details else []
        return "\n".join([*lines, f"{self.cases} cases, {len(groups)} distinct failures"])


def shared_out(cases: int, shares: dict[str, int], names: Iterable[str]) -> dict[str, range]:
    """The numbers of the cases of each of the families, together about ``cases``."""
    chosen = {name: shares[name] for name in names}
    return {name: range(max(round(cases * share / sum(chosen.values())), 1)) for name, share in chosen.items()}
