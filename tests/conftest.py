"""One thread, fastest for what is small; and property tests draw the same examples every time, however slow the machine."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for the processes that tests start

import pandas as pd
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a job in the background, and then of all that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


def pytest_terminal_summary(terminalreporter):
    """The environment that the development extra makes has pandas 2; ``make test-pandas3`` puts another one in front."""
    terminalreporter.write_line(f"pandas {pd.__version__}")
