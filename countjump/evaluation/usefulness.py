"""Whether a model trained on synthetic rows predicts real ones as well as a model trained on real rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from countjump.evaluation.measures import FAIR, GOOD, POOR, Measure
from countjump.metrics.labels import accuracy, r_squared
from countjump.metrics.reading import Table
from countjump.metrics.safety import Distances

ROWS, DRAWS, TREES = 3_000, 3, 100
MOST_CLASSES = 20
"""Whole numbers with more different values are predicted as numbers."""


@dataclass(frozen=True)
class Usefulness:
    """What was found, in which way."""

    measures: list[Measure]
    task: str
    tested_on: str
    rows: int


def fit_usefulness(real: Table, synthetic: Table, holdout: Table | None, label: str, seed: int) -> Usefulness:
    """Train on synthetic rows and on as many real ones, test on held-out rows or on a quarter of the real ones set aside."""
    sides = [_apart(table, label) for table in (real, synthetic) + (() if holdout is None else (holdout,))]
    column_is_category, values = sides[0][2], sides[0][1]
    few = (
        len(np.unique(values)) <= MOST_CLASSES and (values == np.round(values)).all()
        if values.dtype.kind == "f"
        else True
    )
    task = "classification" if column_is_category or few else "regression"
    scores: list[tuple[float, float]] = []
    plain: list[float] = []
    judge = accuracy if task == "classification" else r_squared
    rows = 0
    for draw in range(DRAWS):
        rng = np.random.default_rng([seed, draw])
        order = rng.permutation(len(sides[0][0]))
        if holdout is None:
            cut = max(len(order) // 4, 5)
            test, order = (sides[0][0].take(order[:cut]), sides[0][1][order[:cut]]), order[cut:]
        else:
            there = sample_rows(len(sides[2][0]), 2 * ROWS, rng)
            test = sides[2][0].take(there), sides[2][1][there]
        rows = min(len(order), len(sides[1][0]), ROWS)
        mine, theirs = order[:rows], rng.permutation(len(sides[1][0]))[:rows]
        train = sides[0][0].take(mine)
        distances = Distances(train, seed)
        x, made, unseen = (_features(distances, t) for t in (train, sides[1][0].take(theirs), test[0]))
        y, made_y = sides[0][1][mine], sides[1][1][theirs]
        scores.append((judge(made, made_y, unseen, test[1], seed, TREES), judge(x, y, unseen, test[1], seed, TREES)))
        plain.append(_guess(y, test[1], task))
    ours, theirs_scores = np.array(scores).T
    value, floor = float(ours.mean()), float(theirs_scores.mean())
    # Few test rows do not give a score exactly, however the draws agree.
    tested = len(test[1])
    spread = max(float(theirs_scores.std(ddof=1)), float(np.sqrt(max(floor * (1 - floor), 0.01) / tested)))
    guess = float(np.mean(plain))
    what = "accuracy" if task == "classification" else "share of variance explained (R²)"
    measures = [
        Measure(
            *("usefulness", "accuracy" if task == "classification" else "r_squared", label, value, floor, spread),
            judgement=judge_gain(value, floor, guess, spread),
            meaning=f"{what} on real rows of a forest trained on synthetic rows; the floor is one trained on real rows",
        ),
        Measure("usefulness", "guess", label, guess, meaning=f"{what} of the same answer for every row"),
    ]
    return Usefulness(measures, task, "held-out rows" if holdout is not None else "real rows set aside", rows)


def sample_rows(rows: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most so many row numbers."""
    return rng.permutation(rows)[:most]


def _apart(table: Table, label: str) -> tuple[Table, np.ndarray, bool]:
    """The other columns, the labels of rows that have one, and whether these are levels."""
    names = [column.name for column in table.columns]
    if table.labels is not None:
        return table, table.labels, True
    j = names.index(label)
    values = table.values[:, [j]]
    y = np.asarray(values.toarray() if table.wide else values, dtype=np.float64).ravel()
    there = np.flatnonzero(~np.isnan(y))
    others = table.select(np.array([i for i in range(len(names)) if i != j], dtype=int)).take(there)
    return others, y[there], table.columns[j].kind == "category"


def _features(distances: Distances, table: Table) -> np.ndarray:
    from countjump.metrics.wide import normalised_logs

    return normalised_logs(table.values) if table.wide else distances.place(table)


def _guess(y: np.ndarray, test_y: np.ndarray, task: str) -> float:
    if task == "regression":
        return 0.0
    levels, counts = np.unique(y, return_counts=True)
    return float((test_y == levels[counts.argmax()]).mean())


def judge_gain(value: float, floor: float, guess: float, spread: float) -> str:
    """By the share that is kept of what real rows gain over a guess; none where they gain no more than chance does.

    >>> judge_gain(0.75, 0.75, 0.75, 0.02), judge_gain(0.79, 0.8, 0.5, 0.02)
    ('', 'good')
    >>> judge_gain(0.75, 0.8, 0.75, 0.02), judge_gain(0.77, 0.8, 0.75, 0.02)
    ('poor', 'fair')
    """
    if floor - guess <= 2 * spread:
        return ""
    gain = (value - guess) / (floor - guess)
    equal = value >= floor - 2 * spread
    if gain >= 0.9 or (equal and gain >= 0.6):
        return GOOD
    return FAIR if equal or gain >= 0.6 else POOR
