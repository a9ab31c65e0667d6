"""Tasks in forked children: to be killed, to run side by side, or to crash without harm.

A fork takes milliseconds, where a new process would import for seconds. It is safe here as nothing has started a thread.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from typing import Any

from .oracle import MEMORY, Wrong, check, objection_to, resident

FORK = multiprocessing.get_context("fork")


class Child:
    """A task in a child. It starts at once, and :meth:`end` says how it ended."""

    def __init__(self, task: Callable[[], Any], largest_file: int | None = None) -> None:
        """``largest_file`` bounds the bytes of every file that it writes, as a full disk would."""
        self.pipe, theirs = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=_serve, args=(task, theirs, largest_file))
        self.process.start()
        theirs.close()
        assert self.pipe.recv() == "ready"

    def signal(self, number: int) -> None:
        if self.process.is_alive():
            os.kill(self.process.pid, number)

    def end(self, place: str, may_be_killed: bool = False) -> tuple[str, Any]:
        """``done`` with the result, ``refused`` with the message, ``interrupted`` or ``killed``; else it is Wrong."""
        while not self.pipe.poll(0.02):
            if (held := resident(self.process.pid)) > MEMORY:
                self.process.kill()
                raise Wrong("memory", place, f"{held / 2**30:.1f} GB")
        try:
            word, what = self.pipe.recv()
        except EOFError:
            word, what = "killed", None
        self.process.join()
        code = self.process.exitcode or 0
        if word == "wrong":
            raise Wrong(*what)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        check(word != "killed" or may_be_killed, f"crash ({name})", place)
        return word, what


def _serve(task: Callable[[], Any], pipe: Any, largest_file: int | None) -> None:
    answer: tuple[str, Any] = ("killed", None)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        pipe.send("ready")
        answer = "done", task()
    except KeyboardInterrupt:
        answer = "interrupted", None
    except Wrong as error:
        answer = "wrong", error.args
    except Exception as error:
        wrong = objection_to(error)
        answer = ("refused", str(error)) if wrong is None else ("wrong", wrong)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pipe.send(answer)
        os._exit(0)


def apart(task: Callable[[], Any], place: str) -> tuple[str, Any]:
    """A task that may spoil the memory of its process."""
    return Child(task).end(place)
