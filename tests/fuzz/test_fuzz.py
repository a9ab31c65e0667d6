"""A few hundred hostile cases of all families; ``make fuzz`` runs as many as are asked for."""

import pytest

from .case import SHARES
from .runner import Run, shared_out

CASES = 120
"""A quarter of a minute of an idle machine."""


def test_hostile_cases_end_well():
    run = Run(seed=0).over(shared_out(CASES, SHARES, SHARES))
    if run.failures:
        pytest.fail(run.report(), pytrace=False)
