"""Tables whose columns are of several kinds: frames, and arrays with strings among the numbers.

A :class:`Layout` remembers what went in. It writes every column as numbers, and gives tables of the same kind back. Where values
are missing it adds 0/1 columns that say so, one for all columns that are missing in the same rows; levels have a level for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from countjump.data.columns import (
    UNITS,
    UNKNOWN,
    Identifiers,
    Kind,
    Levels,
    Numbers,
    Times,
    is_missing,
    kind_of,
    recall,
)
from countjump.data.libraries import require_library

NAMED = 6
"""Columns that a sentence names, at most."""

MIDDLE = np.linspace(0.45, 0.55, 41)
"""Quantiles around what stands for missing values."""

SELDOM = 0.05
"""The share of present values up to which those that came out as what stands for missing ones are drawn anew."""

TABLES = ("frame", "polars", "objects")
"""What a table is: a DataFrame of pandas or of polars, or an array of objects."""


@dataclass(frozen=True)
class Layout:
    """What a table is, the names of its columns as they come back, and their kinds.

    Columns that are missing in the same rows share one of the ``gaps``: a column of the matrix behind the others. ``fills`` are
    what stands for missing values in the matrix: a value in the middle of the column. Columns that are not modelled are zero there.

    >>> table = np.array([["b", 2], ["a", 5], ["b", 1]], dtype=object)
    >>> layout = Layout.of(table)
    >>> layout.matrix(table)
    array([[1., 2.], [0., 5.], [1., 1.]])
    >>> layout.restore(np.array([[0.0, 7.0]]))
    array([['a', 7]], dtype=object)
    """

    kind: str
    labels: tuple[Any, ...]
    kinds: tuple[Kind, ...]
    gaps: tuple[tuple[int, ...], ...] = ()
    fills: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    """Of missing values, of every column."""
    middles: tuple[tuple[float, ...], ...] = ()
    """Of a column with gaps, values around its fill, for a present value that comes out as the fill itself."""
    arrow: tuple[tuple[int, str], ...] = ()
    """The types of pyarrow that columns come back in."""
    rows: int = 0
    index: Kind | None = None
    index_name: str | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        declared: Mapping[int, Sequence[Any]] | None = None,
        missing: str = "model",
        identifiers: str = "fresh",
    ) -> Layout | None:
        """That of a table; None for what is a matrix of numbers. Levels that are ``declared`` are taken as they are."""
        kind = "polars" if is_polars(X) else "frame" if is_frame(X) else "objects"
        frame = as_frame(X)
        if frame is None:
            return None
        labels = tuple(map(plain_label, frame.columns))
        names = numbered(labels)
        columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
        gone = [is_missing(column) for column in columns]
        if missing == "error" or kind == "objects":
            for name, where in zip(names, gone, strict=True):
                if where.any():
                    remedy = "fill it in" + ("" if kind == "objects" else ", or fit with missing='model'")
                    raise ValueError(f"column {name!r}, row {int(np.argmax(where))}: a value is missing: {remedy}")
        if len(frame) == 0:
            raise ValueError(
                f"X is empty: Found array with 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required."
            )
        known = declared or {}
        kinds = tuple(
            kind_of(column, name, known.get(place), identifiers)
            for place, (column, name) in enumerate(zip(columns, names, strict=True))
        )
        together: dict[bytes, list[int]] = {}
        fills, middles = [0.0] * len(kinds), [()] * len(kinds)
        for place, (each, column, where) in enumerate(zip(kinds, columns, gone, strict=True)):
            if isinstance(each, Numbers | Times):
                numbers = each.numbers(column[~where], names[place])
                fills[place] = float(np.partition(numbers, (len(numbers) - 1) // 2)[(len(numbers) - 1) // 2])
                if where.any():
                    around = np.quantile(numbers, MIDDLE, method="nearest")
                    if (numbers != np.rint(numbers)).any():
                        middles[place] = tuple(around[around != fills[place]].tolist())
                    elif (numbers == fills[place]).mean() < SELDOM:
                        middles[place] = tuple(around.tolist())
                    together.setdefault(where.tobytes(), []).append(place)
        gaps = tuple(map(tuple, together.values()))
        shares = tuple(float(where.mean()) for where in gone)
        index, index_name = (None, None) if kind != "frame" else index_of(frame.index)
        return cls(
            kind,
            labels,
            kinds,
            gaps,
            tuple(fills),
            shares,
            tuple(middles),
            arrow_types(X),
            len(frame),
            index,
            index_name,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the table's columns, as words, all different."""
        return numbered(self.labels)

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Of the matrix' columns."""
        return self.names + tuple(f"{said_columns([self.names[c] for c in gap])} missing" for gap in self.gaps)

    @property
    def levels(self) -> dict[int, tuple[Any, ...]]:
        """Of the columns that have some."""
        return {place: kind.levels for place, kind in enumerate(self.kinds) if isinstance(kind, Levels)}

    @property
    def stand_ins(self) -> dict[int, float]:
        """What stands for missing values, of the columns that have some."""
        return {column: self.fills[column] for gap in self.gaps for column in gap}

    @property
    def left_out(self) -> list[int]:
        """Columns that are not modelled."""
        return [place for place, kind in enumerate(self.kinds) if not kind.modelled]

    def reasons(self) -> dict[str, str]:
        """What was found, in words."""
        found = {}
        lost = [f"{name} ({share:.1%})" for name, share in zip(self.names, self.shares, strict=True) if 0 < share < 1]
        if lost:
            middle = ", and in the model a value in the middle stands there" if self.gaps else ""
            found["missing"] = f"{said_columns(lost)}: where values are missing is modelled with them{middle}"
        kept = [name for name, kind in zip(self.names, self.kinds, strict=True) if isinstance(kind, Identifiers)]
        if kept:
            end = (
                "dropped" if any(isinstance(kind, Identifiers) and kind.dropped for kind in self.kinds) else "made anew"
            )
            found["identifiers"] = f"{said_columns(kept)}: all different, so not part of the model, and {end}"
        times = [
            f"{name} {kind.said()}"
            for name, kind in zip(self.names, self.kinds, strict=True)
            if isinstance(kind, Times)
        ]
        if times:
            found["times"] = said_columns(times)
        empty = [name for name, kind in zip(self.names, self.kinds, strict=True) if kind.name == "empty"]
        if empty:
            found["empty"] = f"{said_columns(empty)}: missing everywhere, and so in every sample"
        return found

    def matrix(self, X: Any, known: np.ndarray | None = None, lenient: bool = False) -> np.ndarray:
        """The table as numbers (rows, columns and gaps); an unknown level is the place behind the last one.

        With ``known`` (rows, columns) the other entries are not looked at, and there is nothing missing in them. A value that is
        missing where none was in training is an error, or, where that is ``lenient``, filled in.
        """
        frame = self._frame(X)
        gone = np.zeros((len(frame), len(self.kinds)), dtype=bool)
        found = np.zeros((len(frame), len(self.kinds) + len(self.gaps)))
        with_gaps = {column for gap in self.gaps for column in gap}
        for place, (kind, name) in enumerate(zip(self.kinds, self.names, strict=True)):
            if not kind.modelled:
                continue
            rows = np.ones(len(frame), dtype=bool) if known is None else known[:, place]
            column = frame.iloc[:, place]
            if not isinstance(kind, Levels):
                where = is_missing(column)
                gone[:, place] = where & rows
                if (where & rows).any() and place not in with_gaps and not lenient:
                    row = int(np.argmax(where & rows))
                    raise ValueError(f"column {name!r}, row {row}: a value {UNKNOWN}")
                found[:, place] = self.fills[place]
                rows = rows & ~where
            if rows.any():
                found[rows, place] = kind.numbers(column[rows], name)
        for place, gap in enumerate(self.gaps, len(self.kinds)):
            found[:, place] = gone[:, list(gap)].any(1)
        return found

    def written(self, column: int, value: float) -> str:
        """A number of the matrix as the table has it, in words."""
        kind = self.kinds[column] if column < len(self.kinds) else None
        if not isinstance(kind, Times):
            return f"{value:g}"
        return (
            str(kind.restore(np.array([value]), np.zeros(1, dtype=bool))[0])
            .removesuffix(" 00:00:00")
            .removeprefix("0 days ")
        )

    def escapes(self, X: Any) -> np.ndarray:
        """ln of the escape mass of every row: of values that are missing where none was in training."""
        frame = self._frame(X)
        with_gaps = {column for gap in self.gaps for column in gap}
        count = np.zeros(len(frame))
        for place, kind in enumerate(self.kinds):
            if kind.modelled and not isinstance(kind, Levels) and place not in with_gaps:
                count += is_missing(frame.iloc[:, place])
        return -count * np.log(self.rows + 1)

    def gaps_known(self, known: np.ndarray) -> np.ndarray:
        """Which entries of the matrix are known if these (rows, columns) of the table are: whether values are missing is always."""
        return np.concatenate([known, np.ones((len(known), len(self.gaps)), dtype=bool)], 1)

    def restore(self, matrix: np.ndarray, like: Any = None, known: np.ndarray | None = None) -> Any:
        """A table of the kind that went in; names of rows are fresh, or those of a table that it is ``like``, and so are the values
        that are ``known`` (rows, columns)."""
        import pandas as pd  # type: ignore[import-untyped]

        gone = np.zeros((len(matrix), len(self.kinds)), dtype=bool)
        for place, gap in enumerate(self.gaps, len(self.kinds)):
            gone[:, list(gap)] = (matrix[:, place] > 0)[:, None]
        matrix = self._without_fills(matrix, gone)
        before = None if like is None else self._frame(like)
        columns, kept = [], []
        for place, kind in enumerate(self.kinds):
            if isinstance(kind, Identifiers) and kind.dropped:
                continue
            kept.append(place)
            if before is not None and isinstance(kind, Identifiers):
                columns.append(before.iloc[:, place].reset_index(drop=True))
            else:
                columns.append(kind.restore(matrix[:, place], gone[:, place]))
                if place in dict(self.arrow):
                    arrow = require_library("pyarrow", "parquet", "a column of a dtype of pyarrow")
                    columns[-1] = columns[-1].astype(pd.ArrowDtype(_arrow_type(arrow, dict(self.arrow)[place])))
                if before is not None and known is not None:
                    columns[-1] = overlaid(columns[-1], before.iloc[:, place], known[:, place])
        frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=range(len(matrix)))
        if self.kind == "objects":
            table = np.empty(frame.shape, dtype=object)
            for place, column in enumerate(columns):
                table[:, place] = column.tolist()
            return table
        frame.columns = pd.Index([self.labels[place] for place in kept])
        if before is not None and self.kind == "frame":
            frame.index = before.index
        elif self.index is None:
            frame.index.name = self.index_name
        else:
            fresh = self.index.restore(np.arange(1.0, len(frame) + 1), np.zeros(len(frame), dtype=bool))
            frame.index = pd.Index(fresh, name=self.index_name)
        if self.kind == "polars":
            import polars

            ordered = {
                place: kind
                for place, kind in enumerate(self.kinds)
                if isinstance(kind, Levels) and kind.dtype == "ordered"
            }
            levels = {
                self.labels[place]: [each for each in kind.levels if each is not None]
                for place, kind in ordered.items()
            }
            enums: Any = {name: polars.Enum(each) for name, each in levels.items()}
            return polars.from_pandas(frame).cast(enums)
        return frame

    def _without_fills(self, matrix: np.ndarray, gone: np.ndarray) -> np.ndarray:
        """Present values that came out as what stands for missing ones become one around it, unless it is a frequent one."""
        chosen = np.random.default_rng(0).random(len(matrix))  # of row i it depends on i alone
        matrix = matrix.copy()
        for place, (middle, fill) in enumerate(zip(self.middles, self.fills, strict=True)):
            if middle:
                wrong = ~gone[:, place] & np.isclose(matrix[:, place], fill, 1e-9, 0)
                matrix[wrong, place] = np.array(middle)[(chosen[wrong] * len(middle)).astype(int)]
        return matrix

    def _frame(self, X: Any) -> Any:
        """A table of these columns."""
        import pandas as pd

        frame = as_frame(X)
        if frame is None:
            frame = pd.DataFrame(np.asarray(X, dtype=object)).infer_objects()
        if frame.shape[1] != len(self.kinds):
            raise ValueError(
                f"X has {frame.shape[1]} features, but the model was fitted to {len(self.kinds)}: give the same columns"
            )
        return frame

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {
            **{"kind": self.kind, "labels": list(self.labels), "kinds": [kind.described() for kind in self.kinds]},
            **{"gaps": [list(gap) for gap in self.gaps], "fills": list(self.fills), "shares": list(self.shares)},
            "middles": [list(middle) for middle in self.middles],
            "arrow": [list(each) for each in self.arrow],
            **{"rows": self.rows, "index": self.index and self.index.described(), "index_name": self.index_name},
        }

    @classmethod
    def recall(cls, described: dict[str, Any]) -> Layout:
        """Back from :meth:`described`; what is no layout is an error."""
        labels, kinds = tuple(described["labels"]), tuple(map(recall, described["kinds"]))
        gaps, middles, arrow = (tuple(map(tuple, described[name])) for name in ("gaps", "middles", "arrow"))
        fills, shares = (tuple(map(float, described[name])) for name in ("fills", "shares"))
        if described["kind"] not in TABLES or not len(labels) == len(kinds) == len(fills) == len(shares) == len(
            middles
        ):
            raise ValueError(f"{described['kind']!r} is no kind of table, or its columns do not match")
        if not all(label is None or isinstance(label, str | int | float | bool) for label in labels):
            raise ValueError("a name of a column that is no string or number")
        inside = [column for gap in gaps for column in gap]
        if len(set(inside)) < len(inside) or not all(
            type(column) is int and 0 <= column < len(kinds) and isinstance(kinds[column], Numbers | Times)
            for column in inside
        ):
            raise ValueError("gaps of columns that have none")
        rows, name = described["rows"], described["index_name"]
        index = None if described["index"] is None else recall(described["index"])
        if (
            not isinstance(index, Identifiers | Times | None)
            or not np.isfinite([*fills, *shares, *sum(middles, ())]).all()
        ):
            raise ValueError("a table with a strange index, or numbers that are not finite")
        if type(rows) is not int or not 0 <= rows < 2**53 or not (name is None or isinstance(name, str)):
            raise ValueError("a table without rows, or with a strange index")
        return cls(described["kind"], labels, kinds, gaps, fills, shares, middles, arrow, rows, index, name)


def said_columns(names: Sequence[str]) -> str:
    """Some names in words, not too many of them."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def overlaid(column: Any, before: Any, known: np.ndarray) -> Any:
    """A column with the values that were there before where these are known, exactly as they were, new levels included."""

    if str(column.dtype) == "category":
        old = before.astype(object)[known].dropna()
        column = column.cat.add_categories([v for v in old.unique() if v not in column.cat.categories])
    values = column.astype(object).where(~known, before.astype(object).reset_index(drop=True))
    return values.astype(column.dtype)


def numbered(labels: Sequence[Any]) -> tuple[str, ...]:
    """Labels as words, equal ones with numbers.

    >>> numbered(["x", 3, "x"])
    ('x', '3', 'x (2)')
    """
    seen: dict[str, int] = {}
    found = []
    for name in map(str, labels):
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(found)


def plain_label(label: Any) -> Any:
    """The label of a column as JSON holds it."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float) and not np.isfinite(label):
        return str(label)
    return label if label is None or isinstance(label, str | int | float | bool) else str(label)


def is_frame(X: Any) -> bool:
    """Whether it is a DataFrame of pandas whose columns are not all sparse."""
    return hasattr(X, "iloc") and hasattr(X, "dtypes") and getattr(X, "ndim", 0) == 2 and not hasattr(X, "sparse")


def is_polars(X: Any) -> bool:
    """Whether it is a DataFrame of polars."""
    return type(X).__module__.partition(".")[0] == "polars" and hasattr(X, "to_pandas") and hasattr(X, "columns")


def as_frame(X: Any) -> Any:
    """A table as a DataFrame of pandas, with dtypes of numpy's and pandas' own; None for a matrix of numbers."""
    if is_frame(X):
        return _without_arrow(X)
    if is_polars(X):
        return _from_polars(X)
    table = as_objects(X)
    if table is None:
        return None
    import pandas as pd

    return pd.DataFrame(table).infer_objects()


def as_objects(X: Any) -> np.ndarray | None:
    """A two-dimensional array of objects if there are strings in it; else None."""
    if sp.issparse(X) or is_frame(X) or hasattr(X, "detach") or hasattr(X, "sparse") or hasattr(X, "obs"):
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


def arrow_types(X: Any) -> tuple[tuple[int, str], ...]:
    """Of the columns of a frame whose dtype is one of pyarrow's; of polars, of decimal numbers."""
    import pandas as pd

    if is_polars(X):
        types = ((place, str(kind)) for place, kind in enumerate(X.to_arrow().schema.types))
        return tuple((place, name) for place, name in types if name.startswith("decimal128"))
    dtypes = enumerate(X.dtypes) if is_frame(X) else ()
    found = [(place, str(dtype.pyarrow_dtype)) for place, dtype in dtypes if isinstance(dtype, pd.ArrowDtype)]
    known = (
        "int",
        "uint",
        "float",
        "double",
        "bool",
        "string",
        "large_string",
        "date32",
        "time",
        "duration",
        "decimal128",
    )
    return tuple((place, name) for place, name in found if name.startswith(known))


def _arrow_type(arrow: Any, name: str) -> Any:
    """A type of pyarrow by its name, as :func:`arrow_types` has it."""
    word, _, inside = name.rstrip(")]").replace("(", "[").partition("[")
    parts = inside.split(", ")
    if word == "decimal128":
        return arrow.decimal128(*map(int, parts))
    if word == "timestamp" and len(parts) > 1:
        return arrow.timestamp(parts[0], tz=parts[1].removeprefix("tz="))
    return arrow.type_for_alias(name)


def _without_arrow(frame: Any) -> Any:
    """The table with pandas' nullable dtypes in the place of pyarrow's."""
    import pandas as pd

    arrow = [place for place, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.ArrowDtype)]
    if not arrow:
        return frame
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    for place in arrow:
        dtype = frame.dtypes.iloc[place]
        kind, zone = dtype.numpy_dtype, getattr(dtype.pyarrow_dtype, "tz", None)
        if zone is not None:
            kind = pd.DatetimeTZDtype(dtype.pyarrow_dtype.unit, zone)
        alone = str(dtype.pyarrow_dtype).startswith(("time32", "time64", "decimal"))
        nullable = {"b": "boolean", "M": kind, "m": kind}.get(kind.kind, "object" if alone else "string")
        if kind.kind in "iuf":
            nullable = str(kind).capitalize().replace("Uint", "UInt")
        columns[place] = columns[place].astype(nullable)
    return pd.concat(columns, axis=1)


def _from_polars(X: Any) -> Any:
    """With the nullable dtypes of pandas, from which polars makes its own again."""
    import pandas as pd

    arrow = require_library("pyarrow", "parquet", "a frame of polars")
    kinds = [f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)] + ["Float32", "Float64"]
    nullable = {arrow.type_for_alias(kind.lower()): pd.api.types.pandas_dtype(kind) for kind in kinds}
    nullable[arrow.bool_()] = pd.BooleanDtype()
    return X.to_arrow().to_pandas(types_mapper=nullable.get)


def index_of(index: Any) -> tuple[Kind | None, str | None]:
    """What the index of a frame is, if it is more than the numbers of the rows, and its name.

    Numbers, texts and times go on behind the last one; an index of another kind becomes the numbers of the rows.
    """
    import pandas as pd

    name = None if index.name is None else str(index.name)
    if len(index) == 0 or index.nlevels > 1 or index.equals(pd.RangeIndex(len(index))):
        return None, None if index.nlevels > 1 else name
    column = pd.Series(index)
    if column.isna().any():
        return None, name
    kind = kind_of(column, "index") if not pd.api.types.is_integer_dtype(column.dtype) else None
    if isinstance(kind, Times) and not kind.is_period:
        numbers = kind.numbers(column, "index")
        every = max(round(float(np.median(np.abs(np.diff(numbers))))) if len(numbers) > 1 else 1, 1)
        return Times(kind.dtype, kind.start + int(numbers.max()) * UNITS[kind.unit], kind.unit, every), name
    if kind is None or isinstance(kind, Levels | Identifiers):
        dtype = str(column.dtype) if kind is None else kind.dtype
        return Identifiers.of(
            column, "object" if dtype in ("category", "ordered") else dtype, name or "row", False
        ), name
    return None, name
