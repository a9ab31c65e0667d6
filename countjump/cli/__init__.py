"""The command line: ``countjump inspect``, ``fit``, ``sample``, ``synthesize``, ``evaluate`` and others.

What a command needs is imported where it runs, so that ``--help`` and a mistake in the options are answered at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout

import countjump
from countjump.cli import judging, models, paper, rows
from countjump.cli.asking import Answer, Parser, UsageError, plain_json, printable

__all__ = ["main"]

PROBLEMS = (UsageError, ValueError, TypeError, OSError, ArithmeticError, MemoryError)
"""What is answered with one line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 1 for a problem with data, files or models, 2 for a mistake in what was asked."""
    words = sys.argv[1:] if argv is None else list(argv)
    machine = "--json" in words
    try:
        arguments = _parser().parse_args(words)
        with redirect_stdout(sys.stderr) if machine else nullcontext():
            answer = arguments.run(arguments)
    except PROBLEMS as error:
        code = 2 if isinstance(error, UsageError) else 1
        said = _print_error(str(error))
        if machine:
            _print(Answer("", {"error": said, "code": code}), machine)
        return code
    if answer.problem:
        answer.facts |= {"error": _print_error(answer.problem), "code": 1}
    return _print(answer, machine) or int(bool(answer.problem))


def _print_error(text: str) -> str:
    said = printable(" ".join(text.split()))
    print(f"countjump: error: {said}", file=sys.stderr)
    return said


def _print(answer: Answer, machine: bool) -> int:
    if sys.stdout is None:  # nobody listens
        return 0
    text = json.dumps(plain_json(answer.facts), allow_nan=False) if machine else answer.said
    try:
        if text:
            print(text)
        sys.stdout.flush()
    except OSError as error:  # Python need not try again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # who reads it, such as head, has seen enough
            return 0
        print(f"countjump: error: the answer could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    about = "Generative models of tables, counts, sparse vectors, heavy tails, categories and proportions."
    codes = "Ends with code 0 if all is well, 1 for a problem with data, files or models, 2 for a mistake in what was asked,"
    parser = Parser(
        prog="countjump", description=about, epilog=f"{codes} and 130 if it was interrupted.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"countjump {countjump.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for family in (judging, models, rows, paper):
        family.add_commands(commands)
    return parser
