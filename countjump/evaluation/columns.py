"""The columns one by one, each beside its floor; and numbers of whole rows, which are judged alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from countjump.evaluation.measures import FAIR, GOOD, POOR, Measure, part_size, sample, split, worst
from countjump.metrics.columns import METRICS, compare, describe
from countjump.metrics.reading import Column, Table
from countjump.metrics.rows import row_numbers

ROWS, DRAWS = 10_000, 10
WIDE_ROWS, WIDE_DRAWS = 5_000, 4
DESCRIBED = 50_000
"""Rows that shares and quantiles are taken from."""

SURE = 4.0
"""So many standard deviations above its floor a number is not by chance."""

SMALL = {"number": 0.1, "category": 0.05, "share": 0.05}
"""A difference up to that is small even where it is sure: W1 in standard deviations, total variation, shares."""

MEANING = {
    "w1": "distance of the two distributions, in the column's own units (W1); 0 is equal",
    "w1_sd": "W1 in standard deviations of the real column",
    "total_variation": "share of the rows that would have to change their level; 0 is equal, 1 has no level in common",
    "zero_share": "difference of the shares of zeros",
    "missing_share": "difference of the shares of missing values",
    "q99": "difference of the 99 % quantiles",
    "q999": "difference of the 99.9 % quantiles",
}


@dataclass(frozen=True)
class ColumnFit:
    """All numbers of the columns; arrays have one entry per column."""

    columns: list[Column]
    rows: int
    draws: int
    value: dict[str, np.ndarray]
    floor: dict[str, np.ndarray]
    floor_sd: dict[str, np.ndarray]
    real: dict[str, np.ndarray]
    synthetic: dict[str, np.ndarray]
    excess: np.ndarray
    """How many standard deviations above its floor the worst number of a column is."""
    judgement: list[str]

    @property
    def order(self) -> np.ndarray:
        """The columns, the worst first."""
        return np.argsort(-np.nan_to_num(self.excess, posinf=1e300), kind="stable")

    @property
    def effect(self) -> np.ndarray:
        """W1 in standard deviations, or total variation."""
        return _per_sd(self.value["distance"], _scale(self.real, self.synthetic), self._categorical)

    @property
    def floor_effect(self) -> np.ndarray:
        """The same of the floor."""
        return _per_sd(self.floor["distance"], _scale(self.real, self.synthetic), self._categorical)

    @property
    def _categorical(self) -> np.ndarray:
        return np.array([column.kind == "category" for column in self.columns])

    @property
    def ratio(self) -> float:
        """How far the columns are, over how far two real samples are."""
        ours, theirs = self.effect, self.floor_effect
        kept = np.isfinite(ours) & np.isfinite(theirs)
        return float(ours[kept].sum() / max(theirs[kept].sum(), 1e-12)) if kept.any() else float("nan")

    def measures(self, part: str = "column") -> list[Measure]:
        """A line for every metric of every column."""
        found = []
        effect, floor_effect = self.effect, self.floor_effect
        for j, column in enumerate(self.columns):
            category = column.kind == "category"
            lines = {("total_variation" if category else "w1"): "distance"}
            lines |= {name: name for name in METRICS if name != "distance" and not np.isnan(self.value[name][j])}
            for name, key in lines.items():
                value, floor, sd = (float(each[key][j]) for each in (self.value, self.floor, self.floor_sd))
                real, made = (float(each[key][j]) if key in each else np.nan for each in (self.real, self.synthetic))
                judged = self.judgement[j] if key == "distance" else ""
                found.append(Measure(part, name, column.name, value, floor, sd, real, made, judged, MEANING[name]))
            if not category and np.isfinite(effect[j]):
                scale = float(floor_effect[j] / self.floor["distance"][j]) if self.floor["distance"][j] else np.nan
                numbers = float(effect[j]), float(floor_effect[j]), float(self.floor_sd["distance"][j]) * scale
                found.append(Measure(part, "w1_sd", column.name, *numbers, meaning=MEANING["w1_sd"]))
        return found


def fit_columns(real: Table, synthetic: Table, seed: int) -> ColumnFit:
    """Compare all columns on random parts."""
    most, draws = (WIDE_ROWS, WIDE_DRAWS) if real.wide else (ROWS, DRAWS)
    ours, theirs = [], []
    for parts in split(real, synthetic, most, draws, seed):
        ours.append(compare(parts.real, parts.synthetic))
        theirs.append(compare(parts.real, parts.other))
    value, floor = (
        {name: np.mean([each[name] for each in sides], axis=0) for name in METRICS} for sides in (ours, theirs)
    )
    floor_sd = {name: np.std([each[name] for each in theirs], axis=0, ddof=1) for name in METRICS}
    rows = part_size(real, synthetic, most)
    sides = describe(sample(real, DESCRIBED, seed)), describe(sample(synthetic, DESCRIBED, seed))
    excess, judgement = _judge(real.columns, rows, value, floor, floor_sd, *sides)
    return ColumnFit(real.columns, rows, draws, value, floor, floor_sd, *sides, excess, judgement)


def fit_rows(real: Table, synthetic: Table, seed: int) -> ColumnFit | None:
    """The same of numbers of whole rows, where the table has any."""
    both = [row_numbers(sample(table, 2 * ROWS, seed)) for table in (real, synthetic)]
    names = [name for name in both[0] if name in both[1]]
    if not names:
        return None
    columns = [Column(name, "number") for name in names]
    first, second = (Table(columns, np.column_stack([numbers[name] for name in names])) for numbers in both)
    return fit_columns(first, second, seed)


def _judge(
    columns: list[Column],
    rows: int,
    value: dict[str, np.ndarray],
    floor: dict[str, np.ndarray],
    floor_sd: dict[str, np.ndarray],
    real: dict[str, np.ndarray],
    synthetic: dict[str, np.ndarray],
) -> tuple[np.ndarray, list[str]]:
    """How far above its floor each column is, and what that is called."""
    category = np.array([column.kind == "category" for column in columns])
    levels = np.array([max(len(column.levels), 2) for column in columns])
    wide = np.maximum.reduce([real["range"], synthetic["range"], np.abs(real["mean"] - synthetic["mean"])])
    wide = np.where(np.nan_to_num(wide) > 0, wide, value["distance"] * rows)  # in rows too rare for the description
    grain = np.where(category, 1.0, np.nan_to_num(wide)) / rows  # what a single row can change
    # W1 between samples varies by 0.43 of its mean (∫ of a Brownian bridge), and by 0.75 where nearly all is zero and it is the
    # difference of two means (half a normal); total variation the less the more levels there are.
    usual = 0.43 + 0.32 * np.nan_to_num(real["zero_share"])
    least = np.where(category, 0.5 / np.sqrt(levels), usual) * floor["distance"]
    checks = [
        (
            _excess(value["distance"], floor["distance"], np.maximum.reduce([floor_sd["distance"], least, grain])),
            _per_sd(value["distance"], _scale(real, synthetic), category),
            np.where(category, SMALL["category"], SMALL["number"]),
        )
    ]
    for name in ("zero_share", "missing_share"):
        share = np.nan_to_num(real[name])
        chance = 0.6 * np.sqrt(2 * share * (1 - share) / rows)
        spread = np.maximum.reduce([np.nan_to_num(floor_sd[name]), chance, np.full(len(columns), 1 / rows)])
        checks.append((_excess(value[name], floor[name], spread), value[name], np.full(len(columns), SMALL["share"])))
    excess = np.nanmax([each for each, _, _ in checks], axis=0)
    judgement = [worst([_word(z[j], effect[j], small[j]) for z, effect, small in checks]) for j in range(len(columns))]
    return excess, judgement


def _excess(value: np.ndarray, floor: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """In standard deviations; a number that real rows never differ in, and synthetic ones do, is infinitely far."""
    above = value - floor
    far = np.where(above > 0, np.inf, 0.0)
    return np.where(np.isnan(above), np.nan, np.where(spread > 0, above / np.where(spread > 0, spread, 1), far))


def _word(excess: float, effect: float, small: float) -> str:
    if np.isnan(excess) or excess <= SURE:
        return GOOD
    return FAIR if effect <= small else POOR


def _scale(real: dict[str, np.ndarray], synthetic: dict[str, np.ndarray]) -> np.ndarray:
    """The real standard deviation, or the synthetic one where the real column has one value."""
    return np.where(np.nan_to_num(real["sd"]) > 0, real["sd"], synthetic["sd"])


def _per_sd(distance: np.ndarray, sd: np.ndarray, category: np.ndarray) -> np.ndarray:
    plain = np.where(category | (np.nan_to_num(sd) <= 0), 1.0, np.nan_to_num(sd))
    scaled = distance / plain
    return np.where(~category & (np.nan_to_num(sd) <= 0), np.where(distance > 0, np.inf, 0.0), scaled)
