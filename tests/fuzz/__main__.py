"""``python -m tests.fuzz [FAMILY ...] --cases N --seed S``, and ``--case K`` to repeat one."""

import argparse
import sys

from .case import SHARES
from .runner import Run, shared_out
from .smallest import smallest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hostile cases for all that users touch.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"some of {', '.join(SHARES)} (default: all)")
    parser.add_argument("--cases", type=int, default=5000, help="how many, shared out among the families")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run the case of this number alone, with all details")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a silent worker hangs")
    parser.add_argument("--smallest", action="store_true", help="a smallest failing case by hypothesis, unwatched")
    given = parser.parse_args()
    names = given.families or list(SHARES)
    if unknown := set(names) - set(SHARES):
        parser.error(f"no family {', '.join(sorted(unknown))}: use some of {', '.join(SHARES)}")
    if given.smallest:
        return max(smallest(name, given.cases, given.seed) for name in names)
    one = given.case is not None
    numbers = shared_out(given.cases, SHARES, names)
    if one:
        numbers = {name: range(given.case, given.case + 1) for name in names}
    run = Run(given.seed, given.limit).over(numbers)
    print(run.report(details=one))
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
