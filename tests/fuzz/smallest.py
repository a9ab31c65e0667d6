"""The same cases, drawn by hypothesis: it steers every draw, and makes a failing case as small as it can."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from .case import Case, family_of, run_case
from .runner import failure_of

DRAWS = st.randoms(use_true_random=False)
"""A strategy of cases: what a case draws from."""


def smallest(name: str, examples: int, number: int, family: Callable[[Case], None] | None = None) -> int:
    """Print the smallest failing case that is found in so many; 1 if there is one. A crash or hang ends this process, too."""
    found = family or family_of(name)
    warnings.simplefilter("ignore")
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as place:

        @seed(number)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=False,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(DRAWS)
        def check(draws) -> None:
            notes.clear()
            run_case(found, draws, Path(place), notes.append)

        try:
            check()
        except Exception as error:
            failure = failure_of(error, name, 0)
            print(f"{name}: {failure.kind} at {failure.place}\n    {failure.text[:300]}\n    in: {'; '.join(notes)}")
            return 1
    return 0
