"""A case: what it draws from, a directory of its own, and notes about what was drawn."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

SHARES = {
    "arrays": 27,
    "options": 20,
    "files": 20,
    "models": 14,
    "commands": 8,
    "checkpoints": 6,
    "kills": 3,
    "races": 2,
}
"""The families, and how many of a hundred cases each gets."""


class Case:
    """What a case draws comes from ``random``: a seeded one, or one that hypothesis steers and makes smaller."""

    def __init__(self, random: random.Random, place: Path, tell: Callable[[str], None] = lambda text: None) -> None:
        """``tell`` is called with every note as it is made, since a case may not live to show them."""
        self.random, self.place, self.tell = random, place, tell

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() >= 1 - share  # so that smaller draws are the plainer case

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def numbers(self) -> np.random.Generator:
        return np.random.default_rng(self.random.getrandbits(32))

    def note(self, text: object) -> None:
        self.tell(str(text)[:300])

    def scenario(self, scenarios: dict[Callable[[Case], None], int]) -> None:
        """Run one of the scenarios, which have weights."""
        chosen = self.random.choices(list(scenarios), list(scenarios.values()))[0]
        self.note(chosen.__name__.strip("_"))
        chosen(self)


def mutate(case: Case, content: bytes) -> bytes:
    """A few bytes changed, cut off, doubled or put in."""
    changed = bytearray(content)
    for _ in range(case.one_of([1, 1, 2, 8])):
        at = case.whole(0, max(len(changed) - 1, 0))
        kind = case.one_of(["flip", "flip", "flip", "set", "cut", "drop", "double", "insert"])
        if kind == "flip" and changed:
            changed[at] ^= 1 << case.whole(0, 7)
        elif kind == "set" and changed:
            changed[at] = case.one_of([0, 255, 32, 49])
        elif kind == "cut":
            del changed[at:]
        elif kind == "drop":
            del changed[at : at + case.whole(1, 16)]
        elif kind == "double":
            changed[at:at] = changed[at : at + case.whole(1, 64)]
        else:
            changed[at:at] = case.random.randbytes(case.whole(1, 8)) if hasattr(case.random, "randbytes") else b"\0"
    case.note("unchanged" if bytes(changed) == content else "mutated")
    return bytes(changed)


def family_of(name: str) -> Callable[[Case], None]:
    return import_module(f"{__package__}.{name}").case


def run_case(
    family: Callable[[Case], None], draws: random.Random, place: Path, tell: Callable[[str], None] = lambda text: None
) -> None:
    """Run one case in a fresh directory in ``place``; it raises what went wrong."""
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as directory:
        family(Case(draws, Path(directory), tell))


def draws_of(family: str, seed: int, number: int) -> random.Random:
    """What the case of that number draws from."""
    return random.Random(f"{family} {seed} {number}")
