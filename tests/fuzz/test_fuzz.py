"""A few hundred hostile cases of all families; ``make fuzz`` runs as many as are asked for."""

from .case import SHARES
from .runner import Run, shared_out

CASES = 240


def test_hostile_cases_end_well():
    run = Run(seed=0).over(shared_out(CASES, SHARES, SHARES))
    assert not run.failures, "\n" + run.report()
