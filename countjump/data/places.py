"""Where the files of known data sets are."""

from __future__ import annotations

import os
from pathlib import Path

ADVICE = "pass the directory that holds it (--data DIR), or set COUNTJUMP_DATA"


def data_directory(given: str | Path | None = None) -> Path | None:
    """The given directory, else that of the environment variable ``COUNTJUMP_DATA``, else none."""
    place = given or os.environ.get("COUNTJUMP_DATA")
    return Path(place) if place else None
