"""Libraries that some formats need, and that may not be installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingLibraryError(ImportError, ValueError):
    """A library that a format needs, and that is not installed."""


def require_library(name: str, extra: str, need: str) -> Any:
    """A library, or an error that says how it is installed.

    >>> require_library("no_such_library", "magic", "a.magic")
    Traceback (most recent call last):
    ...
    countjump.data.libraries.MissingLibraryError: a.magic needs no_such_library: pip install 'countjump[magic]'
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingLibraryError(f"{need} needs {name.partition('.')[0]}: pip install 'countjump[{extra}]'") from error
