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
        self.file = sys.stderr
        self.bar: Any = None
        self.shown = shown
        self.said = time.monotonic()

    def __enter__(self) -> Self:
        if self.shown and self.file.isatty():
            self.bar = tqdm(total=self.total, initial=self.done, desc=self.title, unit=self.unit[:-1], file=self.file)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def advance(self, note: str = "") -> None:
        """One more is done."""
        self.done += 1
        self.note = note or self.note
        if self.bar is not None:
            self.bar.update()
            if note:
                self.bar.set_postfix_str(note)
        elif self.shown and time.monotonic() - self.said > EVERY:
            self.said = time.monotonic()
            note = f", {self.note}" if self.note else ""
            print(
                f"countjump: {self.title}, {self.done:,} of {self.total:,} {self.unit}{note}",
                file=self.file,
                flush=True,
            )
