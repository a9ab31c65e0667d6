"""Families that go wrong on purpose, to test the runner with."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from countjump.data import check_suffix

from .case import Case
from .oracle import attempt, check, granted


def hangs(case: Case) -> None:
    case.note("sleeps")
    time.sleep(600)


def crashes(case: Case) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def eats(case: Case) -> None:
    held = np.ones(2**28)
    time.sleep(600)
    check(len(held), "", "")


def raises(case: Case) -> None:
    """Right, or wrong in one of two ways."""
    number = case.whole(0, 2)
    if number == 1:
        attempt(lambda: {}["nothing"])
    elif number == 2:
        granted(lambda: check_suffix("a.xlsx"), "a suffix")


def fails_from_seven_on(case: Case) -> None:
    number = case.whole(0, 1000)
    case.note(number)
    check(number < 7, "wrong result", "seven", number)
