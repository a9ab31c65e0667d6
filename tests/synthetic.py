"""Tables with known faults: copies, near copies, and columns that were drawn one by one."""

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine


def mixed(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Strings, dates, flags, counts and amounts that hang together, values missing together, and an identifier."""
    group = rng.integers(0, 3, rows)
    frame = pd.DataFrame(
        {
            "id": [f"c{number}" for number in rng.integers(10**12, size=rows)],
            "age": np.round(rng.normal(30 + 10 * group, 6)).clip(18),
            "spend": np.where(rng.random(rows) < 0.3, 0, np.exp(rng.normal(2 + 0.5 * group, 1))).round(2),
            "city": np.array(["Oslo", "Paris", "Rome"], dtype=object)[
                np.where(rng.random(rows) < 0.8, group, rng.integers(0, 3, rows))
            ],
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, rows) + 300 * group, unit="D"),
            "member": rng.random(rows) < 0.2 + 0.3 * group,
            "visits": rng.poisson(1 + 2 * group),
        }
    )
    gone = rng.random(rows) < 0.1 + 0.1 * group
    frame.loc[gone, "age"] = np.nan
    frame.loc[gone & (rng.random(rows) < 0.7), "city"] = None
    return frame


def wide(rows: int, rng: np.random.Generator, columns: int = 400) -> sp.csr_matrix:
    """Counts of words by topics."""
    topics = np.random.default_rng(5).dirichlet(np.full(columns, 0.05), 6)
    weights, totals = rng.dirichlet(np.full(6, 0.2), rows), rng.negative_binomial(3, 3 / 63, rows)
    drawn = [rng.multinomial(total, weight @ topics) for total, weight in zip(totals, weights, strict=True)]
    return sp.csr_matrix(np.stack(drawn))


def table(name: str, rng: np.random.Generator) -> Any:
    """A data set in random order."""
    if name in ("mixed", "wide"):
        return mixed(900, rng) if name == "mixed" else wide(600, rng)
    loader = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}[name]
    frame = loader(as_frame=True).frame
    return frame.iloc[rng.permutation(len(frame))[:600]].reset_index(drop=True)


def part(x: Any, which: int, of: int) -> Any:
    """One of several equal parts."""
    rows = np.arange(which * (x.shape[0] // of), (which + 1) * (x.shape[0] // of))
    return x.iloc[rows].reset_index(drop=True) if hasattr(x, "iloc") else x[rows]


def with_copies(fresh: Any, train: Any, rng: np.random.Generator, noise: float = 0.0) -> Any:
    """Fresh rows, a tenth of them replaced by training rows with noise of so many standard deviations."""
    count = train.shape[0] // 10
    rows = rng.permutation(train.shape[0])[:count]
    if sp.issparse(train):
        return sp.csr_matrix(sp.vstack([fresh[count:], train[rows]]))
    copies = train.iloc[rows].copy()
    for column in train.select_dtypes("number") if noise else []:
        copies[column] = copies[column] + noise * train[column].std() * rng.normal(size=count)
    return pd.concat([fresh.iloc[count:], copies], ignore_index=True)


def by_column(x: Any, rng: np.random.Generator) -> Any:
    """Every column in an order of its own."""
    if sp.issparse(x):
        return sp.csr_matrix(np.column_stack([column[rng.permutation(len(column))] for column in x.toarray().T]))
    return pd.DataFrame({name: x[name].to_numpy()[rng.permutation(len(x))] for name in x})
