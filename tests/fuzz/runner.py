"""Runs cases in worker processes and takes what goes wrong there, crashes, hangs and memory included, as results.

Two workers take one case after another and report its start and its end over a pipe. The parent ends a worker that has said nothing
for ``limit`` seconds or holds more than ``memory`` bytes, notes the case, and goes on with the next one in a new worker.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import signal
import tempfile
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .case import Case, draws_of, family_of, run_case
from .oracle import MEMORY, PACKAGE, Wrong, objection_to, place_of, resident

SPAWN = multiprocessing.get_context("spawn")
Family = Callable[[Case], None]
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


def work(pipe: Connection, own: dict[str, Family], seed: int, place: Path) -> None:
    """In a worker: run the cases that it is told to, and report each."""
    os.setsid()  # its children end with it
    dump = open(place / "stacks", "w")  # noqa: SIM115
    faulthandler.enable(dump)
    faulthandler.register(signal.SIGUSR1, dump)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    warnings.simplefilter("ignore")
    tempfile.tempdir = str(place)  # the parent removes it, however this process ends
    if not own:
        import_module(f"{__package__}.bases").warm()
    pipe.send(("ready", None))
    for name, number in iter(pipe.recv, None):
        family, failure = own.get(name) or family_of(name), None
        dump.seek(0)
        dump.truncate()
        pipe.send(("start", None))
        try:
            run_case(family, draws_of(name, seed, number), place, lambda text: pipe.send(("note", text)))
        except Exception as error:
            failure = failure_of(error, name, number)
        pipe.send(("end", failure))


class Worker:
    """A process that runs one case after another, and is replaced when it is lost."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.directory = tempfile.TemporaryDirectory(prefix="countjump-fuzz-", ignore_cleanup_errors=True)
        self.job, self.busy = ("no case yet", 0), True
        self.start()

    def start(self) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        arguments = (theirs, self.run.own, self.run.seed, Path(self.directory.name))
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

    def give(self) -> None:
        """The next case, or none if none is left."""
        self.busy = bool(self.run.jobs)
        if not self.busy:
            self.pipe.send(None)
            self.process.join(timeout=10)
        else:
            self.job, self.notes = self.run.jobs.popleft(), []
            self.pipe.send(self.job)
            self.heard, self.patience = time.monotonic(), float(STARTING)  # a family may have to be imported

    def finish(self, failure: Failure | None) -> None:
        """The case has ended, and how."""
        self.run.cases += 1
        if failure is not None:
            self.run.failures.append(replace(failure, notes=tuple(self.notes)))

    def listen(self) -> None:
        """Take what the worker says; where it has ended or has to be ended, go on behind the case in a new process."""
        try:
            while self.busy and self.pipe.poll():
                word, what = self.pipe.recv()
                self.heard, self.patience = time.monotonic(), self.run.limit
                if word == "note":
                    self.notes.append(what)
                elif word == "end":
                    self.finish(what)
                if word in ("ready", "end"):
                    self.give()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0
            self.lose(f"crash ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})")
            return
        if not self.busy:
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
        self.finish(Failure(*self.job, kind, place, text, details=stacks))
        self.busy = bool(self.run.jobs)
        if self.busy:
            self.start()


class Run:
    """A run over some cases of some families."""

    def __init__(
        self,
        seed: int,
        limit: float = 60,
        memory: float = MEMORY,
        own: dict[str, Family] | None = None,
    ) -> None:
        """``own`` are families besides those of the harness."""
        self.seed, self.limit, self.memory, self.own = seed, limit, memory, own or {}
        self.cases, self.failures, self.jobs = 0, list[Failure](), deque[tuple[str, int]]()

    def over(self, numbers: dict[str, range], together: int = 2) -> Run:
        """Run the cases of these numbers, in two processes."""
        os.environ["OMP_NUM_THREADS"] = "1"
        self.jobs = deque((name, number) for name, each in numbers.items() for number in each)
        workers = [Worker(self) for _ in range(min(together, len(self.jobs)))]
        try:
            while busy := [worker for worker in workers if worker.busy]:
                wait([worker.pipe for worker in busy], timeout=0.05)
                for worker in busy:
                    worker.listen()
        finally:
            for worker in workers:
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
