"""Progress: a bar on a terminal, a line now and then in a log file."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from tqdm import tqdm

EVERY = 30.0
"""Seconds from one line in a log file to the next."""


class Progress:
    """How far some work has come, said in words.

    >>> with Progress("fitting the network", 2, "updates", shown=False) as progress:
    ...     progress.advance()
    """

    def __init__(self, title: str, total: int, unit: str, shown: bool = True, done: int = 0) -> None:
        self.title, self.total, self.unit, self.done, self.note = title, total, unit, done, ""
        self.said, self.file = time.monotonic(), sys.stderr
        drawn = shown and self.file.isatty()
        self.logged = shown and not drawn
        self.bar: Any = tqdm(None, title, total, initial=done, unit=unit[:-1], file=self.file, disable=not drawn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def advance(self, note: str = "") -> None:
        """One more is done."""
        self.done += 1
        self.note = note or self.note
        self.bar.update()
        if note:
            self.bar.set_postfix_str(note)
        if self.logged and time.monotonic() - self.said > EVERY:
            self.said = time.monotonic()
            far = f"{self.done:,} of {self.total:,} {self.unit}" + (f", {self.note}" if self.note else "")
            print(f"countjump: {self.title}, {far}", file=self.file, flush=True)
