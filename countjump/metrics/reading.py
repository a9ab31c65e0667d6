"""Tables of any kind as matrices of numbers, columns coded alike in all of them.

A table is a DataFrame, an array, a scipy sparse matrix or an AnnData object (its X). The first table, the real one, decides what
kind each column is. A missing value stays missing (NaN). Wide rows, sparse or mostly of many columns, stay sparse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

WIDE = 300
"""A table of non-negative numbers with more columns than that is kept as sparse rows."""

FEWEST = 20
"""The fewest rows that can be compared."""

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")


@dataclass(frozen=True)
class Column:
    """What is known of a column before its values are compared."""

    name: str
    kind: str
    """"number", "date" (days since 1970) or "category" (numbers of levels)."""
    levels: list[str] = field(default_factory=list)
    whole: bool = False
    """Whether all its numbers are whole."""


@dataclass(frozen=True)
class Table:
    """Rows of numbers: dense with NaN for what is missing, or CSR of non-negative numbers."""

    columns: list[Column]
    values: Any
    labels: np.ndarray | None = None
    """Of every row, where they lie outside of the columns."""

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def wide(self) -> bool:
        """Whether the rows are sparse."""
        return sp.issparse(self.values)

    @property
    def categorical(self) -> np.ndarray:
        """Which columns hold categories."""
        return np.array([column.kind == "category" for column in self.columns], dtype=bool)

    def take(self, rows: np.ndarray) -> Table:
        """Some rows, in this order."""
        return Table(self.columns, self.values[rows], None if self.labels is None else self.labels[rows])

    def select(self, places: np.ndarray) -> Table:
        """Some columns."""
        return Table([self.columns[j] for j in places], self.values[:, places], self.labels)


@dataclass(frozen=True)
class Tables:
    """The real, the synthetic and the held-out rows, and what was left out of them."""

    real: Table
    synthetic: Table
    holdout: Table | None
    notes: list[str]


def read(real: Any, synthetic: Any, holdout: Any = None, label: Any = None) -> Tables:
    """The tables with equal columns; ``notes`` says in sentences what was left out, and why.

    >>> found = read(np.arange(40.0).reshape(20, 2) % 7, np.ones((30, 2)))
    >>> len(found.synthetic), found.real.columns[1].kind, found.notes
    (30, 'number', [])
    """
    given = {"real": real, "synthetic": synthetic} | ({} if holdout is None else {"holdout": holdout})
    plain = {name: _plain(table, name, label) for name, table in given.items()}
    notes: list[str] = []
    if label is not None and any(labels is None and str(label) not in names for names, _, labels in plain.values()):
        first = plain["real"][0][:8]
        raise ValueError(f"label names the column {str(label)!r}, which not all tables have: the real one has {first}")
    if any(sp.issparse(values) for _, values, _ in plain.values()):
        tables = _sparse_tables(plain, notes)
    else:
        tables = _dense_tables(plain, label, notes)
    return Tables(tables["real"], tables["synthetic"], tables.get("holdout"), notes)


def _plain(table: Any, which: str, label: Any) -> tuple[list[str], Any, np.ndarray | None]:
    """(names, a DataFrame or CSR, labels beside them)."""
    import pandas as pd  # type: ignore[import-untyped]

    labels = None
    if hasattr(table, "var_names") and hasattr(table, "X"):  # AnnData
        if label is not None and label in table.obs:
            labels = np.asarray(table.obs[label].astype(str))
        names, values = [str(name) for name in table.var_names], table.X
        values = values[:] if type(values).__module__.startswith(("h5py", "anndata")) else values
    elif hasattr(table, "to_pandas") and not hasattr(table, "iloc"):  # polars, pyarrow
        table = table.to_pandas()
        names, values = [str(name) for name in table.columns], table
    elif hasattr(table, "iloc"):
        names, values = [str(name) for name in table.columns], table
    elif sp.issparse(table):
        names, values = [str(j) for j in range(table.shape[1])], table
    else:
        values = np.asarray(table, dtype=None if hasattr(table, "dtype") else object)
        if values.ndim != 2:
            raise ValueError(f"the {which} table has the shape {values.shape}: give one with rows and columns")
        names = [str(j) for j in range(values.shape[1])]
    if values.shape[0] < FEWEST or values.shape[1] < 1:
        there = f"{values.shape[0]} rows and {values.shape[1]} columns"
        raise ValueError(f"the {which} table has {there}: at least {FEWEST} rows and a column are compared")
    if sp.issparse(values):
        return _different(names), sp.csr_matrix(values), labels
    frame = pd.DataFrame(values)
    frame = frame.set_axis(_different(names), axis=1).reset_index(drop=True)
    return list(frame.columns), frame, labels


def _different(names: list[str]) -> list[str]:
    """The names, equal ones numbered: x, x (2)."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _shared(names: dict[str, list[str]], notes: list[str]) -> list[str]:
    """The columns that all tables have, in the real table's order."""
    everywhere = set.intersection(*(set(each) for each in names.values()))
    kept = [name for name in names["real"] if name in everywhere]
    if not kept:
        first = {which: each[:5] for which, each in names.items()}
        raise ValueError(f"the tables have no column in common, they begin with {first}: compare tables of one kind")
    known = set(names["real"])
    for which, each in names.items():
        there = set(each)
        if lost := [name for name in names["real"] if name not in there]:
            notes.append(f"{_listed(lost)} not in the {which} table: left out.")
        if more := [name for name in each if name not in known]:
            notes.append(f"{_listed(more)} in the {which} table only: left out.")
    return kept


def _listed(names: list[str]) -> str:
    if len(names) == 1:
        return f"Column “{names[0]}” is"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return "Columns " + ", ".join(f"“{name}”" for name in names[:5]) + more + " are"


def _sparse_tables(plain: dict[str, Any], notes: list[str]) -> dict[str, Table]:
    kept = _shared({which: names for which, (names, _, _) in plain.items()}, notes)
    tables = {}
    for which, (names, values, labels) in plain.items():
        if not sp.issparse(values):
            try:
                values = sp.csr_matrix(values.to_numpy(dtype=np.float64))
            except (TypeError, ValueError) as error:
                there = f"the {which} table is not one of numbers, and another is sparse ({error})"
                raise ValueError(f"{there}: give them all in one form") from error
        if names != kept:
            place = {name: j for j, name in enumerate(names)}
            values = values[:, [place[name] for name in kept]]
        if not np.isfinite(values.data).all():
            row, column = (int(part[0]) for part in np.nonzero(_marked(values)))
            raise ValueError(f"the {which} table has no finite number in row {row}, column {kept[column]!r}: fill it")
        tables[which] = (values, labels)
    least = min(values.data.min(initial=0) for values, _ in tables.values())
    whole = all(bool((values.data == np.floor(values.data)).all()) for values, _ in tables.values())
    columns = [Column(name, "number", whole=whole) for name in kept]
    if least < 0 or len(kept) <= 2:
        if len(kept) > 20 * WIDE:
            raise ValueError(
                f"sparse rows of {len(kept)} columns have negative numbers, down to {least}: take them out"
            )
        return {which: Table(columns, values.toarray().astype(np.float64), y) for which, (values, y) in tables.items()}
    return {which: Table(columns, values, labels) for which, (values, labels) in tables.items()}


def _marked(values: sp.csr_matrix) -> sp.csr_matrix:
    return sp.csr_matrix((~np.isfinite(values.data), values.indices, values.indptr), values.shape)


def _dense_tables(plain: dict[str, Any], label: Any, notes: list[str]) -> dict[str, Table]:
    kept = _shared({which: names for which, (names, _, _) in plain.items()}, notes)
    columns: list[Column] = []
    parts: dict[str, list[np.ndarray]] = {which: [] for which in plain}
    for name in kept:
        series = {which: frame[name] for which, (_, frame, _) in plain.items()}
        if name != str(label) and _is_identifier(series["real"]):
            notes.append(f"Column “{name}” looks like an identifier, all its values are different: left out.")
            continue
        column, values = _code(name, series)
        columns.append(column)
        for which, each in values.items():
            parts[which].append(each)
    if not columns:
        raise ValueError(f"all columns look like identifiers, {kept[:5]}: there is nothing to compare")
    matrices = {which: np.column_stack(each) for which, each in parts.items()}
    plain_numbers = all(column.kind == "number" for column in columns) and label is None
    if len(columns) > WIDE and plain_numbers and all(bool((each >= 0).all()) for each in matrices.values()):
        return {which: Table(columns, sp.csr_matrix(each), plain[which][2]) for which, each in matrices.items()}
    return {which: Table(columns, each, plain[which][2]) for which, each in matrices.items()}


def _is_identifier(series: Any) -> bool:
    """Texts that are nearly all different; whole numbers that are all different though there is little room for that, or are so
    large that float64 does not tell them apart."""
    import pandas as pd

    present = series.dropna()
    if len(present) < 50:
        return False
    if pd.api.types.is_integer_dtype(present.dtype):
        # n values of r possible ones, drawn by chance, are all different with probability exp(-n²/2r).
        room = int(present.max()) - int(present.min()) + 1
        return bool(present.is_unique) and (room < len(present) ** 2 / 40 or int(present.max()) > 2**53)
    if pd.api.types.is_string_dtype(present.dtype) or present.dtype == object:
        if not all(isinstance(value, str) for value in present.iloc[:100]) or _are_dates(present):
            return False
        return present.nunique() > 0.95 * len(present)
    return False


def _are_dates(present: Any) -> bool:
    return all(isinstance(value, str) and _ISO_DATE.fullmatch(value) for value in present.iloc[:200])


def _code(name: str, series: dict[str, Any]) -> tuple[Column, dict[str, np.ndarray]]:
    """A column of all tables as numbers."""
    kind = _kind(series["real"])
    if kind == "category":
        texts = {which: _texts(each) for which, each in series.items()}
        levels = list(dict.fromkeys(text for each in texts.values() for text in _by_frequency(each)))
        number: dict[str | None, float] = {level: float(j) for j, level in enumerate(levels)}
        number[None] = np.nan
        return Column(name, kind, levels), {w: np.array([number[text] for text in each]) for w, each in texts.items()}
    values = {which: (_days if kind == "date" else _numbers)(each, name, which) for which, each in series.items()}
    present = values["real"][~np.isnan(values["real"])]
    return Column(name, kind, whole=bool((present == np.floor(present)).all())), values


def _kind(series: Any) -> str:
    import pandas as pd

    dtype, present = series.dtype, series.dropna()
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return "category"
    if pd.api.types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "date"
    if pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        return "number"
    kind = pd.api.types.infer_dtype(present, skipna=True)
    if kind in ("datetime", "datetime64", "date") or (kind == "string" and len(present) and _are_dates(present)):
        return "date"
    return (
        "number" if kind in ("integer", "floating", "mixed-integer-float", "decimal", "time", "empty") else "category"
    )


def _texts(series: Any) -> list[str | None]:
    """Every value as a text, whole numbers alike whether they are 1 or 1.0; None where it is missing."""
    import pandas as pd

    missing = pd.isna(series).to_numpy()
    values = np.asarray(series, dtype=object)
    return [None if gone else _text(value) for value, gone in zip(values, missing, strict=True)]


def _text(value: Any) -> str:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
    return f"{value:.15g}" if is_number else str(value)


def _by_frequency(texts: list[str | None]) -> Iterator[str]:
    levels, counts = np.unique(np.array([text for text in texts if text is not None], dtype=object), return_counts=True)
    return iter(levels[np.argsort(-counts, kind="stable")].tolist())


def _days(series: Any, name: str, which: str) -> np.ndarray:
    import pandas as pd

    values = series.dt.to_timestamp() if isinstance(series.dtype, pd.PeriodDtype) else series
    try:
        times = pd.to_datetime(values, utc=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} holds dates, and not in the {which} table ({error})") from error
    return ((times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)


def _numbers(series: Any, name: str, which: str) -> np.ndarray:
    import pandas as pd

    if pd.api.types.is_timedelta64_dtype(series.dtype):
        series = series / pd.Timedelta(days=1)
    if pd.api.types.infer_dtype(series, skipna=True) == "time":  # of day, in hours
        series = pd.to_timedelta(series.astype("string")) / pd.Timedelta(hours=1)
    try:
        values = pd.to_numeric(series).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} holds numbers, and not in the {which} table ({error})") from error
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise ValueError(f"column {name!r} holds {values[row]} in row {row} of the {which} table: take it out")
    return values
