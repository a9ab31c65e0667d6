"""Copies and membership, each beside what real rows show among themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from countjump.evaluation.measures import FAIR, GOOD, POOR, Measure, drawn, sample
from countjump.metrics.reading import Table
from countjump.metrics.safety import (
    Distances,
    Excess,
    copied,
    membership_auc,
    nearer,
    nearest_distances,
    nearest_other,
    repeated,
)

QUERIES, REFERENCE = 2_000, 100_000

CHANCE = 3e-4
"""What is as improbable among fresh rows is a warning."""

NOTICEABLE = 0.005
"""A smaller surplus of near rows is no warning."""


@dataclass(frozen=True)
class Safety:
    """What was found, and the distances that are drawn."""

    measures: list[Measure]
    synthetic: np.ndarray
    usual: np.ndarray
    held_out: bool
    queries: int
    reference: int


def fit_safety(real: Table, synthetic: Table, holdout: Table | None, seed: int) -> Safety:
    """Compare synthetic rows with the real ones that are nearest, as real rows with other real ones."""
    train = sample(real, REFERENCE, seed)
    asked = drawn(len(train), QUERIES, seed)
    made = sample(synthetic, QUERIES, seed)
    fresh = None if holdout is None else sample(holdout, QUERIES, seed)
    measures = [_exact(train, asked, synthetic, holdout)]
    distances = Distances(train, seed)
    near, points = distances.place(train), distances.place(made)
    ours, among = nearest_distances(points, near), nearest_other(near, asked)
    usual = among
    if fresh is not None:
        usual = np.concatenate([among, nearest_distances(distances.place(fresh), near)])
    beside = usual[len(asked) :] if fresh is not None else among
    measures += [_near(nearer(ours, usual)), _median(ours, beside)]
    if fresh is not None:
        measures += _membership(distances, near[asked], fresh, synthetic, seed)
    return Safety(measures, ours, beside, fresh is not None, len(made), len(train))


def _exact(train: Table, asked: np.ndarray, synthetic: Table, holdout: Table | None) -> Measure:
    ours = copied(train, synthetic)
    theirs = repeated(train, asked)
    if holdout is not None:
        theirs = np.concatenate([theirs, copied(train, holdout)])
    excess = nearer(1.0 - ours, 1.0 - theirs)
    spread = float(np.sqrt(max(theirs.mean() * (1 - theirs.mean()), 1 / len(theirs)) / len(theirs)))
    return Measure(
        *("safety", "exact_copies", "", float(ours.mean()), float(theirs.mean()), spread),
        judgement=_surplus(Excess(float(ours.mean()), float(theirs.mean()), excess.p_value)),
        meaning="share of synthetic rows that equal a real row; the floor is the share of real rows that equal another one",
    )


def _near(found: Excess) -> Measure:
    return Measure(
        *("safety", "near_copies", "", found.share, found.usual),
        judgement=_surplus(found),
        meaning="share of synthetic rows that are as near to a real row as few other real rows are (the floor)",
    )


def _surplus(found: Excess) -> str:
    if found.p_value > CHANCE or found.share <= found.usual:
        return GOOD
    return POOR if found.share > found.usual + NOTICEABLE else FAIR


def _median(ours: np.ndarray, usual: np.ndarray) -> Measure:
    floor = float(np.median(usual))
    ratio = float(np.median(ours) / floor) if floor > 1e-6 else np.nan
    halves = [np.median(part) for part in np.array_split(np.random.default_rng(0).permutation(usual), 2)]
    sd = float(abs(halves[0] - halves[1]) / 2 / floor) if floor > 1e-6 else np.nan
    word = "" if np.isnan(ratio) else GOOD if ratio >= 0.75 else FAIR if ratio >= 0.5 else POOR
    return Measure(
        *("safety", "closest_record", "", ratio, 1.0 if floor > 1e-6 else np.nan, sd),
        judgement=word,
        meaning="median distance to the closest real row, over that of real rows which are not themselves; far below 1 is copying",
    )


def _membership(distances: Distances, members: np.ndarray, fresh: Table, synthetic: Table, seed: int) -> list[Measure]:
    """An attack: who is near to a synthetic row was in the training rows."""
    made = distances.place(sample(synthetic, REFERENCE, seed))
    inside, outside = nearest_distances(members, made), nearest_distances(distances.place(fresh), made)
    auc, error = membership_auc(inside, outside)
    sure = auc > 0.5 + 3.5 * error
    word = GOOD if not sure or auc < 0.52 else POOR if auc > 0.55 else FAIR
    found = nearer(inside, outside)
    return [
        Measure(
            *("safety", "membership_auc", "", auc, 0.5, error),
            judgement=word,
            meaning="how well the distance to the nearest synthetic row tells training rows from held-out ones; 0.5 is not at all",
        ),
        Measure(
            *("safety", "members_found", "", found.share, found.usual),
            judgement=_surplus(found),
            meaning="share of training rows that are as near to a synthetic row as few held-out rows are (the floor)",
        ),
    ]
