"""How columns hang together, whether rows are told apart and by what, each beside its floor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from countjump.evaluation.columns import SURE
from countjump.evaluation.measures import FAIR, GOOD, POOR, Measure, part_size, sample, split
from countjump.metrics.joint import detection_auc, given_away, projection
from countjump.metrics.pairs import densely, dependence, varying, with_missing
from countjump.metrics.reading import Table

PAIR_ROWS, PAIR_DRAWS = 4_000, 5
AUC_ROWS, AUC_DRAWS = 2_000, 3
AUC_COLUMNS = 200
POINTS = 1_000

CLOSE, APART = 0.6, 0.8
"""Two-sample AUCs: below the first rows are hardly told apart, above the second they easily are."""

LOST, WEAK = 0.5, 0.8
"""Shares of the dependence between columns that are kept."""


class Pair(NamedTuple):
    """Two columns and how they hang together."""

    first: str
    second: str
    real: float
    synthetic: float


@dataclass(frozen=True)
class JointFit:
    """What was found, and what is drawn."""

    measures: list[Measure]
    names: list[str] = field(default_factory=list)
    real: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    synthetic: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    """Dependence matrices, by random parts."""
    pairs: list[Pair] = field(default_factory=list)
    """Those that differ the most."""
    away: list[tuple[str, float]] = field(default_factory=list)
    """The columns by which rows are told apart, and how much each helps."""
    points: tuple[np.ndarray, np.ndarray, float] | None = None
    pair_rows: int = 0
    auc_rows: int = 0


def fit_joint(real: Table, synthetic: Table, seed: int) -> JointFit:
    """Compare rows as a whole."""
    pairs = _pairs(real, synthetic, seed)
    auc, away = _told_apart(real, synthetic, seed)
    points = projection(sample(real, POINTS, seed), sample(synthetic, POINTS, seed), seed)
    measures = [*pairs.measures, auc] + [Measure("joint", "gives_away", n, v, meaning=_AWAY) for n, v in away]
    return JointFit(
        measures,
        pairs.names,
        pairs.real,
        pairs.synthetic,
        pairs.pairs,
        away,
        points,
        part_size(real, synthetic, PAIR_ROWS),
        part_size(real, synthetic, AUC_ROWS),
    )


_AWAY = "how much the column helps a classifier to tell synthetic rows from real ones"


def _pairs(real: Table, synthetic: Table, seed: int) -> JointFit:
    """Dependence of pairs: its error, and the share of it that is kept."""
    places = varying(sample(real, PAIR_ROWS, seed))
    if len(places) < 2:
        return JointFit([])
    real, synthetic = real.select(places), synthetic.select(places)
    shown = np.empty(0, dtype=int)
    if not real.wide:
        shown = np.flatnonzero(((gone := np.isnan(real.values).mean(axis=0)) > 0.01) & (gone < 0.99))
    rows = part_size(real, synthetic, PAIR_ROWS)
    found: list[np.ndarray] = []
    for parts in split(real, synthetic, PAIR_ROWS, PAIR_DRAWS, seed):
        found.append(np.stack([dependence(with_missing(_dense(part), shown)) for part in parts]))
    names = [column.name for column in with_missing(_dense(real.take(np.arange(1))), shown).columns]
    above = _pairs_of_two(len(real.columns), shown)
    own = np.array([[each[above] for each in draw] for draw in found])  # draws × (real, other, synthetic) × pairs
    errors, floors = (np.abs(own[:, 0] - own[:, other]).mean(axis=1) for other in (2, 1))
    kept, alike = ((own[:, 0] * own[:, other]).sum(axis=1) for other in (2, 1))
    # Of independent columns the products of two correlations have a mean of 0 and a sd of 1/rows.
    signal = alike.mean() > 6 * np.sqrt(len(above[0])) / rows and alike.mean() > 0.3 * (own[:, 0] ** 2).sum(1).mean()
    unit = alike.mean() if signal else np.nan
    share, share_sd = float(kept.mean() / unit), float(alike.std(ddof=1) / unit)
    error, floor, sd = float(errors.mean()), float(floors.mean()), float(floors.std(ddof=1))
    measures = [
        Measure(
            *("joint", "pair_error", "", error, floor, sd),
            judgement=_error_word(error, floor, sd),
            meaning="mean difference of the dependence of pairs of columns (rank correlation, Cramér's V, correlation ratio)",
        ),
        Measure(
            *("joint", "dependence_kept", "", share, 1.0 if signal else np.nan, share_sd),
            judgement=_kept_word(share, max(share_sd, 0.5 / np.sqrt(rows))) if signal else "",
            meaning="share of the dependence between columns that the synthetic rows have; 1 is all of it"
            if signal
            else "the real columns hardly depend on each other at this size: what is kept of it cannot be judged",
        ),
    ]
    means = np.mean(found, axis=0)
    return JointFit(measures, names, means[0], means[2], _furthest(names, means, above))


def _dense(table: Table) -> Table:
    return densely(table, np.arange(len(table.columns))) if table.wide else table


def _pairs_of_two(columns: int, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs but those of a column and where it is itself missing, which go together in any table."""
    first, second = np.triu_indices(columns + len(shown), 1)
    source = np.concatenate([np.arange(columns), shown])
    apart = source[first] != source[second]
    return first[apart], second[apart]


def _furthest(names: list[str], means: np.ndarray, above: tuple[np.ndarray, np.ndarray], most: int = 8) -> list[Pair]:
    """The pairs whose dependence differs the most, beyond what two real parts differ by."""
    gap = (np.abs(means[0] - means[2]) - np.abs(means[0] - means[1]))[above]
    best = np.argsort(-gap, kind="stable")[:most]
    cells = [(int(above[0][k]), int(above[1][k])) for k in best if gap[k] > 0]
    return [Pair(names[i], names[j], float(means[0][i, j]), float(means[2][i, j])) for i, j in cells]


def _error_word(error: float, floor: float, spread: float) -> str:
    if error <= floor + SURE * max(spread, 0.15 * floor):
        return GOOD
    return FAIR if error <= max(2.5 * floor, floor + 0.1) else POOR


def _kept_word(share: float, spread: float) -> str:
    if abs(1 - share) <= SURE * max(spread, 0.02):
        return GOOD
    if share < LOST:
        return POOR
    return FAIR if share < WEAK or share > 1 / WEAK else GOOD


def _told_apart(real: Table, synthetic: Table, seed: int) -> tuple[Measure, list[tuple[str, float]]]:
    """The two-sample AUC, and by which columns it comes about."""
    if not real.wide and len(real.columns) > AUC_COLUMNS:
        places = varying(sample(real, PAIR_ROWS, seed), AUC_COLUMNS)
        real, synthetic = real.select(places), synthetic.select(places)
    rows = part_size(real, synthetic, AUC_ROWS)
    draws = list(split(real, synthetic, AUC_ROWS, AUC_DRAWS, seed))
    ours, theirs = (
        [detection_auc(parts.real, getattr(parts, other), seed + i) for i, parts in enumerate(draws)]
        for other in ("synthetic", "other")
    )
    value, floor = float(np.mean(ours)), float(np.mean(theirs))
    spread = max(float(np.std(theirs, ddof=1)), float(np.sqrt((2 * rows + 1) / (12 * rows**2))))
    word = GOOD if value <= CLOSE or value <= 0.5 + SURE * spread else FAIR if value <= APART else POOR
    meaning = "how well a classifier tells synthetic rows from real ones; 0.5 is not at all, 1 is always"
    measure = Measure("joint", "two_sample_auc", "", value, floor, spread, judgement=word, meaning=meaning)
    if value <= 0.5 + 2 * spread:
        return measure, []
    helps = given_away(draws[0].real, draws[0].synthetic, seed)
    order = np.argsort(-helps, kind="stable")[:10]
    return measure, [(real.columns[j].name, float(helps[j])) for j in order if helps[j] > 0.003]
