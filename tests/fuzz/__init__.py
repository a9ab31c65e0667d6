"""Hostile input for everything a user can touch, and what must come of it: ``python -m tests.fuzz --help``.

A case is a function of a family, a seed and a number. ``oracle`` says what may come of it, ``inputs`` holds the table of data,
``runner`` runs cases in worker processes and groups what went wrong; every other module but the tests is a family.
"""
