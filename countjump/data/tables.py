"""Tables whose columns are of several kinds: frames, and arrays with strings among the numbers.

A :class:`Layout` remembers what went in. It writes every column as numbers, strings as the places of their levels, and gives
tables of the same kind back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

DTYPES = {
    *("object", "str", "string", "category", "ordered", "bool", "boolean"),
    *(f"{kind}{bits}" for kind in ("int", "uint", "Int", "UInt") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "Float32", "Float64"),
}
"""Of columns that come back as they were; those of other dtypes come back as the nearest of these."""

MOST_LEVELS = 4096
"""Of one column of strings."""


@dataclass(frozen=True)
class Layout:
    """What a table is: a "frame" or an array of "objects", the names and dtypes of its columns, and the levels of those of strings.

    >>> table = np.array([["b", 2], ["a", 5], ["b", 1]], dtype=object)
    >>> layout = Layout.of(table)
    >>> layout.matrix(table)
    array([[1., 2.], [0., 5.], [1., 1.]])
    >>> layout.restore(np.array([[0.0, 7.0]]))
    array([['a', 7]], dtype=object)
    """

    kind: str
    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    levels: dict[int, tuple[Any, ...]]

    @classmethod
    def of(cls, X: Any, declared: Mapping[int, Sequence[Any]] | None = None) -> Layout | None:
        """That of a table; None for what is a matrix of numbers. Levels that are ``declared`` are taken as they are."""
        if is_frame(X):
            names = tuple(str(name) for name in X.columns)
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"X has several columns of the name {twice!r}: give each a name of its own")
            dtypes = tuple(_described(X.dtypes.iloc[i]) for i in range(X.shape[1]))
            columns = [X.iloc[:, i] for i in range(X.shape[1])]
            strings = [i for i, column in enumerate(columns) if is_strings(column)]
            return cls("frame", names, dtypes, _all_levels(columns, strings, names, declared or {}))
        table = as_objects(X)
        if table is None:
            return None
        columns = [table[:, i] for i in range(table.shape[1])]
        strings = [i for i, column in enumerate(columns) if any(isinstance(v, str) for v in column)]
        dtypes = tuple("object" if i in strings else _numbers_dtype(column) for i, column in enumerate(columns))
        names = tuple(str(i) for i in range(len(columns)))
        return cls("objects", names, dtypes, _all_levels(columns, strings, names, declared or {}))

    def matrix(self, X: Any, known: np.ndarray | None = None) -> np.ndarray:
        """The table as numbers (rows, columns); an unknown level is the place behind the last one.

        With ``known`` (rows, columns) the other entries are not looked at, and zero.
        """
        frame = is_frame(X)
        table: Any = X if frame else as_objects(X)
        if table is None:
            table = np.asarray(X, dtype=object)
        if table.shape[1] != len(self.names):
            raise ValueError(f"X has {table.shape[1]} features, but the model was fitted to {len(self.names)}")
        found = []
        for i, name in enumerate(self.names):
            column = table.iloc[:, i] if frame else table[:, i]
            rows = slice(None) if known is None else known[:, i]
            column = column[rows]
            if i in self.levels:
                place = {level: at for at, level in enumerate(self.levels[i])}
                values = _checked_strings(column, name)
                numbers = np.array([place.get(value, len(place)) for value in values], dtype=np.float64)
            else:
                numbers = _as_numbers(column, name)
            found.append(np.zeros(len(table)))
            found[-1][rows] = numbers
        return np.stack(found, 1) if found else np.zeros((len(table), 0))

    def restore(self, matrix: np.ndarray) -> Any:
        """A table of the kind that went in."""
        columns: list[Any] = []
        for i, dtype in enumerate(self.dtypes):
            values = matrix[:, i]
            if i in self.levels:
                levels = np.empty(len(self.levels[i]), dtype=object)
                levels[:] = self.levels[i]
                columns.append(levels[values.astype(int)])
            else:
                columns.append(_of_dtype(values, dtype))
        if self.kind == "objects":
            table = np.empty(matrix.shape, dtype=object)
            for i, column in enumerate(columns):
                table[:, i] = column.tolist() if i not in self.levels else column
            return table
        import pandas as pd  # type: ignore[import-untyped]

        series = [
            pd.Series(pd.Categorical(column, categories=list(self.levels[i]), ordered=dtype == "ordered"))
            if dtype in ("category", "ordered")
            else pd.Series(column, dtype=dtype)
            for i, (column, dtype) in enumerate(zip(columns, self.dtypes, strict=True))
        ]
        frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=range(len(matrix)))
        frame.columns = list(self.names)
        return frame

    def described(self) -> dict[str, Any]:
        """As JSON."""
        levels = {str(i): list(each) for i, each in self.levels.items()}
        return {"kind": self.kind, "names": list(self.names), "dtypes": list(self.dtypes), "levels": levels}

    @classmethod
    def recall(cls, described: dict[str, Any]) -> Layout:
        """Back from :meth:`described`; what is no layout is an error."""
        names, dtypes, levels = (described[name] for name in ("names", "dtypes", "levels"))
        if described["kind"] not in ("frame", "objects") or len(names) != len(dtypes):
            raise ValueError(f"{described['kind']!r} is no kind of table, or its columns do not match")
        if not all(isinstance(name, str) for name in names) or not set(dtypes) <= DTYPES:
            raise ValueError("a name of a column that is no string, or an unknown dtype")
        for each in levels.values():
            if not all(isinstance(level, str | int | float | bool) for level in each):
                raise ValueError("levels are strings or numbers")
        kept = {int(i): tuple(each) for i, each in levels.items()}
        if not set(kept) <= set(range(len(names))):
            raise ValueError("levels of columns that are not there")
        return cls(described["kind"], tuple(names), tuple(dtypes), kept)


def is_frame(X: Any) -> bool:
    """Whether it is a DataFrame whose columns are not all sparse."""
    return hasattr(X, "iloc") and hasattr(X, "dtypes") and getattr(X, "ndim", 0) == 2 and not hasattr(X, "sparse")


def is_strings(column: Any) -> bool:
    """Whether a column of a frame holds strings or categories."""
    kind = str(column.dtype)
    if kind == "category" or kind.startswith(("string", "str")):
        return True
    return kind == "object" and any(isinstance(value, str) for value in column)


def as_objects(X: Any) -> np.ndarray | None:
    """A two-dimensional array of objects if there are strings in it; else None."""
    if sp.issparse(X) or is_frame(X) or hasattr(X, "detach") or hasattr(X, "sparse"):
        return None
    if isinstance(X, np.ndarray) and X.dtype.kind not in "OUS":
        return None
    try:
        table = np.asarray(X, dtype=object)
    except ValueError:
        return None
    if table.ndim != 2 or not any(isinstance(value, str) for value in table.flat):
        return None
    return table


def _all_levels(
    columns: Sequence[Any], strings: Sequence[int], names: Sequence[str], declared: Mapping[int, Sequence[Any]]
) -> dict[int, tuple[Any, ...]]:
    found = {}
    for i in strings:
        values = _checked_strings(columns[i], names[i])
        if i in declared:
            known = tuple(declared[i])
            if unknown := sorted({str(value) for value in values} - {str(level) for level in known}):
                raise ValueError(f"column {names[i]!r} holds {unknown[0]!r}, which is none of its levels: {known}")
        elif str(getattr(columns[i], "dtype", "")) == "category":
            known = tuple(columns[i].cat.categories.tolist())
        else:
            known = tuple(sorted(set(values), key=lambda value: (str(type(value)), value)))
        if len(known) > MOST_LEVELS:
            raise ValueError(
                f"column {names[i]!r} has {len(known)} different strings, more than {MOST_LEVELS}: is it an identifier? drop it"
            )
        found[i] = known
    return found


def _checked_strings(column: Any, name: str) -> list[Any]:
    values = column.tolist()
    texts = [isinstance(value, str) for value in values]
    if any(texts) and not all(texts):
        row = texts.index(sum(texts) * 2 < len(texts))
        other = "a string among numbers" if texts[row] else "no string among strings, or missing"
        raise ValueError(
            f"column {name!r}, row {row}: {values[row]!r} is {other}: give a column one kind of values (and '' for what is missing)"
        )
    for row, value in enumerate(values):
        if not isinstance(value, str | int | float | bool) or value != value:
            raise ValueError(
                f"column {name!r}, row {row}: {value!r} is missing or no string: fill it in (with '' for a level of its own)"
            )
    return values


def _as_numbers(column: Any, name: str) -> np.ndarray:
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    if values.dtype.kind in "mM":
        raise TypeError(f"column {name!r} holds dates or times ({values.dtype}): turn them into numbers, such as days")
    if values.dtype.kind in "iu" and (np.abs(values.astype(object)) > 2**53).any():
        raise ValueError(
            f"column {name!r} has values above 2^53, where float64 no longer holds every count: rescale it"
        )
    if values.dtype == object:
        for row, value in enumerate(values):
            if not isinstance(value, int | float | np.number | np.bool_):
                remedy = "fill it in, or encode or drop the column"
                raise TypeError(f"column {name!r}, row {row}: {value!r} is not a number: {remedy}")
    if values.dtype.kind == "f" and values.dtype.itemsize < 8:
        values = values.astype(str)  # 0.1 as it is written, not as the nearest number of fewer digits
    return values.astype(np.float64)


def _described(dtype: Any) -> str:
    if str(dtype) == "category" and dtype.ordered:
        return "ordered"
    near = {"i": "int64", "u": "uint64", "f": "float64", "b": "bool"}.get(getattr(dtype, "kind", "O"), "object")
    return str(dtype) if str(dtype) in DTYPES else near


def _numbers_dtype(column: np.ndarray) -> str:
    """Of the numbers of an array of objects: "bool", "int64" or "float64"."""
    if all(isinstance(value, bool | np.bool_) for value in column):
        return "bool"
    return "int64" if all(isinstance(value, int | np.integer) for value in column) else "float64"


def _of_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers on their way to a dtype of numpy or pandas: whole ones within its limits."""
    kind = dtype.lower().rstrip("0123456789")
    if kind in ("int", "uint"):
        limits = np.iinfo(dtype.lower())
        return np.clip(np.rint(values), max(limits.min, -(2**53)), min(limits.max, 2**53)).astype(dtype.lower())
    if kind in ("bool", "boolean"):
        return values > 0
    return values if kind == "object" else values.astype(dtype.lower())
