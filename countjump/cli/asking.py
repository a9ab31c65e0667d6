"""What every command shares: options and their mistakes, answers in words and in JSON."""

from __future__ import annotations

import argparse
import math
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn


class UsageError(Exception):
    """A mistake in what was asked, and not in data, files or models."""


@dataclass
class Answer:
    """What a command has to say: in words, and as JSON; and what is wrong with the data nevertheless."""

    said: str
    facts: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


class Parser(argparse.ArgumentParser):
    """One that raises, so that every mistake is answered in one place."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def import_torch() -> None:
    """Import it; Ctrl-C waits meanwhile, as it would crash the start of torch."""
    if threading.current_thread() is not threading.main_thread():
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        import torch  # noqa: F401
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def printable(text: str) -> str:
    """Control characters and the like as escapes: a terminal obeys them, and a file may hold any."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain_json(value: Any) -> Any:
    """The same as JSON has it: numbers of numpy as Python's, and null for what is no number.

    >>> plain_json({"a": (1.5, float("nan")), 2: None})
    {'a': [1.5, None], '2': None}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(each) for each in value]
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def aligned(rows: list[list[str]], right: tuple[int, ...] = ()) -> str:
    """Rows of cells in columns of equal width, some of them to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def command(commands: Any, name: str, text: str, run: Callable[[Any], Answer], example: str) -> Callable[..., None]:
    """A new command; returns what adds an option to it."""
    about = text[0].upper() + text[1:] + "."
    epilog = "example:\n" + "\n".join(f"  {line}" for line in example.strip().splitlines())
    raw = argparse.RawDescriptionHelpFormatter
    made = commands.add_parser(
        name, help=text, description=about, epilog=epilog, formatter_class=raw, allow_abbrev=False
    )
    made.set_defaults(run=run)
    made.add_argument("--quiet", action="store_true", help="no progress bars")
    made.add_argument("--json", action="store_true", help="the answer as one JSON object")

    def add(option: str, kind: str | tuple[str, ...], text: str, least: int = 1, **more: Any) -> None:
        metavar, text = (kind, text) if isinstance(kind, str) else ("NAME", f"{text}: {', '.join(kind)}")
        made.add_argument(option, metavar=metavar, help=text, type=_reader(option, kind, least), **more)

    return add


MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "point": "."}
"""Words for separators and decimal marks that a shell makes hard to type."""


def _reader(option: str, kind: str | tuple[str, ...], least: int) -> Callable[[str], Any]:
    """What makes a value of the text of an option, by the names it knows or by the word for it in ``--help``."""
    numbers: dict[Any, tuple[type, Callable[[float], bool], str]] = {
        "N": (int, lambda value: value >= least, f"at least {least}, and a whole number"),
        "SHARE": (float, lambda value: 0 <= value < 1, "in [0, 1)"),
        "NUMBER": (float, lambda value: 0 < value < math.inf, "a positive number"),
        "WEIGHT": (float, lambda value: 0 <= value < math.inf, "a number from 0 on"),
        "NUMBER|auto": (float, lambda value: 0 < value < math.inf, "a positive number, or auto"),
    }

    def read(text: str) -> Any:
        if isinstance(kind, tuple) and text not in kind:
            raise UsageError(f"{option} {text!r} is unknown: use one of {', '.join(kind)}")
        if kind == "MARK":
            mark = MARKS.get(text.lower(), text)
            if len(mark) != 1:
                raise UsageError(f"{option} must be one character, or one of {', '.join(MARKS)}, got {text!r}")
            return mark
        if kind == "LIST":
            words = [word.strip() for word in text.split(",")]
            if not all(word.isdecimal() and int(word) > 0 for word in words):
                raise UsageError(f"{option} must be whole numbers above 0 with commas between, got {text!r}")
            return sorted({int(word) for word in words})
        if kind not in numbers or (kind == "NUMBER|auto" and text == "auto"):
            return text
        number, good, must = numbers[kind]
        with suppress(ValueError):
            if good(number(text)):
                return number(text)
        raise UsageError(f"{option} must be {must}, got {text!r}")

    return read
