"""The tables of ``benchmarks/tables.py``: three of scikit-learn, three from files, and made ones. Strings are categories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import nbinom
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_circles, make_moons

from countjump.data import read_table

GONE = 0.05
"""The share of the rows that lose some values in a set that is made so."""


@dataclass(frozen=True)
class TableSet:
    """A table, and what is drawn of it."""

    what: str
    make: Callable[[], pd.DataFrame] | None = None
    file: str = ""
    """Where it is read from, instead of being made."""
    codes: tuple[str, ...] = ()
    """Columns of a file whose whole numbers are names."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Columns of 0 and 1 that sum to one in every row."""
    margins: tuple[str, ...] = ()
    """Columns, or groups by the first letter of their columns."""
    pair: tuple[str, ...] = ()
    image: tuple[int, int] | None = None

    def path(self, data: Path | None) -> Path | None:
        """Its file; None if it has none."""
        return (data or Path()) / "tables" / self.file if self.file else None

    gone: tuple[str, ...] = ()
    """Columns of which :data:`GONE` of the rows lose their values, all together."""

    def read(self, data: Path | None) -> pd.DataFrame:
        """All of its rows, as :func:`countjump.data.read_table` reads them."""
        if self.make is not None:
            return self.make()
        path = self.path(data)
        assert path is not None
        frame = read_table(path)
        if self.gone:
            frame = frame.astype(dict.fromkeys(self.gone, float))
            frame.loc[np.random.default_rng(8).random(len(frame)) < GONE, list(self.gone)] = np.nan
        return frame

    def judged(self, frame: pd.DataFrame) -> pd.DataFrame:
        """As the judge and the rivals see it: an empty cell is a level, "", a code and a boolean one of several."""
        found = {}
        for name in frame:
            column = frame[name]
            if column.dtype == bool or name in self.codes:
                found[name] = column.astype(str)
            elif pd.api.types.is_numeric_dtype(column.dtype):
                found[name] = (
                    column if column.dtype.kind in "iuf" and str(column.dtype)[0].islower() else column.astype(float)
                )
            else:
                found[name] = column.astype(object).where(column.notna(), "")
        return pd.DataFrame(found)


def with_levels(frame: pd.DataFrame, groups: tuple[tuple[str, ...], ...]) -> pd.DataFrame:
    """The table with a column for each group, named by a letter: which of its columns is 1, or "broken"."""
    found = {}
    for group in groups:
        part = frame[list(group)]
        whole = (part.sum(axis=1) == 1) & part.isin([0, 1]).all(axis=1)
        found[group[0][0]] = part.idxmax(axis=1).where(whole, "broken")
    return frame.assign(**found)


def digits() -> pd.DataFrame:
    x = load_digits().data.astype(int)
    return pd.DataFrame(x, columns=[f"pixel {line},{place}" for line in range(8) for place in range(8)])


def breast_cancer() -> pd.DataFrame:
    found = load_breast_cancer(as_frame=True)
    return found.data.assign(label=found.target_names[found.target])


def diabetes() -> pd.DataFrame:
    found = load_diabetes(as_frame=True, scaled=False)
    return found.data.assign(target=found.target)


def negative_binomials(rows: int = 5000, columns: int = 20, correlation: float = 0.8) -> pd.DataFrame:
    """Columns of different means and shapes, whose normal scores have correlations of ±0.8."""
    rng = np.random.default_rng(1)
    sign = np.where(np.arange(columns) % 2, -1, 1)
    common, own = rng.standard_normal((rows, 1)), rng.standard_normal((rows, columns))
    score = np.sqrt(correlation) * sign * common + np.sqrt(1 - correlation) * own
    mean, shape = np.geomspace(3, 60, columns), rng.permutation(np.geomspace(1, 5, columns))
    x = nbinom.ppf(ndtr(score), shape, shape / (shape + mean))
    return pd.DataFrame(x.astype(int), columns=[f"count {j}" for j in range(columns)])


def lognormals(rows: int = 5000, columns: int = 10) -> pd.DataFrame:
    """Amounts of neighbouring columns depend on each other; so do the zeros of a row, on the same hidden activity."""
    rng = np.random.default_rng(2)
    activity, score = rng.standard_normal((rows, 1)), np.empty((rows, columns))
    for j in range(columns):
        own = rng.standard_normal(rows)
        score[:, j] = own if j == 0 else 0.7 * score[:, j - 1] + np.sqrt(1 - 0.7**2) * own
    zero = 0.7 * activity + 0.7 * rng.standard_normal((rows, columns)) < np.linspace(-1, 0.5, columns)
    amount = np.exp(np.linspace(0, 3, columns) + 0.3 * activity + np.linspace(0.4, 1.2, columns) * score)
    return pd.DataFrame(np.where(zero, 0.0, amount), columns=[f"amount {j}" for j in range(columns)])


def rings(rows: int = 5000) -> pd.DataFrame:
    x, _ = make_circles(rows, noise=0.05, factor=0.5, random_state=3)
    return pd.DataFrame(np.maximum((40 * (x + 1.3)).round(), 0).astype(int), columns=["x", "y"])


def moons(rows: int = 5000) -> pd.DataFrame:
    x, _ = make_moons(rows, noise=0.06, random_state=4)
    return pd.DataFrame(np.maximum((30 * (x + np.array([1.3, 0.8]))).round(), 0).astype(int), columns=["x", "y"])


ONE_HOT = tuple(tuple(f"{group}{level}" for level in range(10)) for group in "abc")


def one_hot(rows: int = 5000) -> pd.DataFrame:
    """The level of a by Zipf's law; b's is a's plus 0, 1 or 2, c's the sum of both plus 0 or 1, modulo ten; each is any in 15 %."""
    rng = np.random.default_rng(5)
    zipf = 1 / np.arange(1, 11)
    a = rng.choice(10, rows, p=zipf / zipf.sum())
    b = (a + rng.choice(3, rows, p=(0.6, 0.3, 0.1))) % 10
    b = np.where(rng.random(rows) < 0.15, rng.integers(10, size=rows), b)
    c = (a + b + rng.choice(2, rows, p=(0.7, 0.3))) % 10
    c = np.where(rng.random(rows) < 0.15, rng.integers(10, size=rows), c)
    group = np.eye(10, dtype=int)
    return pd.DataFrame(np.hstack([group[level] for level in (a, b, c)]), columns=[name for g in ONE_HOT for name in g])


def mixed(rows: int = 20_000) -> pd.DataFrame:
    """Customers: visits in the part of a year that they were there (all of it in 78 % of the rows), and what came of them."""
    rng = np.random.default_rng(6)
    exposure = np.where(rng.random(rows) < 0.78, 1.0, rng.beta(1.2, 1.5, rows).round(2).clip(0.01, 0.99))
    age = (18 + 60 * rng.beta(1.5, 2.5, rows)).astype(int)
    lumpy = rng.random(rows) < 0.15
    age[lumpy] = 5 * (age[lumpy] // 5)  # some say their age in fives
    member = rng.binomial(1, 0.2 + 0.4 * (age > 40))
    visits = rng.poisson(exposure * (1.5 + 4 * member) * rng.gamma(1.5, 1 / 1.5, rows))
    purchases = rng.binomial(visits, 0.25 + 0.2 * member)
    euros = np.where(purchases > 0, (purchases * rng.lognormal(2.5 + age / 80, 0.6)).round(2), 0.0)
    table = {"visits": visits, "purchases": purchases, "member": member}
    return pd.DataFrame(table | {"euros": euros, "exposure": exposure, "age": age})


def years(rows: int = 5000) -> pd.DataFrame:
    """Records of a station: more in later years, and warmer; frost brings incidents."""
    rng = np.random.default_rng(7)
    year = 1990 + (34 * rng.beta(1.8, 1.0, rows)).astype(int)
    month = rng.integers(1, 13, rows)
    season = -12 * np.cos(2 * np.pi * (month - 1) / 12)
    temperature = (9 + season + 0.05 * (year - 1990) + 4 * rng.standard_normal(rows)).round(1)
    incidents = rng.poisson(np.where(temperature < 0, 4, 0.7) * np.exp(-0.03 * (year - 1990)))
    return pd.DataFrame({"year": year, "month": month, "temperature": temperature, "incidents": incidents})


SETS = {
    "digits": TableSet(
        "8 × 8 pixels of written digits, integers 0 to 16 (scikit-learn)",
        digits,
        margins=("pixel 0,4", "pixel 3,4", "pixel 6,6"),
        image=(8, 8),
    ),
    "breast-cancer": TableSet(
        "reals, and the label as a category (scikit-learn)",
        breast_cancer,
        margins=("mean radius", "worst concavity", "label"),
        pair=("mean radius", "worst concave points"),
    ),
    "diabetes": TableSet(
        "ages, sex as 1 or 2, measures and blood values with repeated fractions, and the target (scikit-learn, not scaled)",
        diabetes,
        margins=("sex", "s4", "target"),
        pair=("s4", "target"),
    ),
    "nmes": TableSet(
        "medical care: six counts beside reals and categories (nmes1988.csv.gz)",
        file="nmes1988.csv.gz",
        margins=("visits", "school", "health"),
        pair=("age", "income"),
    ),
    "nmes-missing": TableSet(
        "the same, and in 5 % of the rows income, age and the doctor's visits are missing together",
        file="nmes1988.csv.gz",
        gone=("income", "age", "visits"),
        margins=("visits", "school", "health"),
    ),
    "adult": TableSet(
        "census: numbers and categories, three of them with empty cells (adult_train.csv.gz; adult_test.csv.gz is not used)",
        file="adult_train.csv.gz",
        margins=("age", "hours-per-week", "marital-status"),
        pair=("age", "hours-per-week"),
    ),
    "shoppers": TableSet(
        "sessions: counts, durations, rates, categories; the codes of system, browser, region and traffic are categories, too "
        "(shoppers.csv.gz)",
        file="shoppers.csv.gz",
        codes=("OperatingSystems", "Browser", "Region", "TrafficType"),
        margins=("ProductRelated", "ExitRates", "Month"),
        pair=("BounceRates", "ExitRates"),
    ),
    "negative-binomials": TableSet(
        "20 columns of counts, normal scores with correlations of ±0.8 (made)",
        negative_binomials,
        margins=("count 0", "count 9", "count 19"),
        pair=("count 18", "count 19"),
    ),
    "lognormals": TableSet(
        "zero-inflated lognormals, dependent in the zeros and in the amounts (made)",
        lognormals,
        margins=("amount 0", "amount 9"),
        pair=("amount 0", "amount 1"),
    ),
    "rings": TableSet("two rings as counts (made)", rings, margins=("x", "y"), pair=("x", "y")),
    "moons": TableSet("two moons as counts (made)", moons, margins=("x", "y"), pair=("x", "y")),
    "one-hot": TableSet(
        "three dependent groups of ten 0/1 columns (made)", one_hot, groups=ONE_HOT, margins=("a", "b", "c")
    ),
    "mixed": TableSet(
        "visits, purchases, a 0/1 flag, euros, an exposure that is 1 in 78 % of the rows, lumpy ages (made)",
        mixed,
        margins=("visits", "exposure", "age"),
        pair=("visits", "euros"),
    ),
    "years": TableSet(
        "a year from 1990 to 2023, a month, a temperature in tenths, a count (made)",
        years,
        margins=("year", "month", "temperature"),
        pair=("temperature", "incidents"),
    ),
}
