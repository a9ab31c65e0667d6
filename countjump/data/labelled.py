"""Labels that are columns of the table itself: ``fit(frame, y="kind")``, or of the ``obs`` of AnnData."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from countjump.data.annotated import is_anndata
from countjump.data.columns import (
    Kind,
    Levels,
    Numbers,
    dtype_of,
    is_identifier,
    is_levels,
    is_missing,
    is_times,
    kind_of,
    recall,
    texts,
)
from countjump.data.tables import as_frame, is_polars, plain_label


@dataclass(frozen=True)
class Labelled:
    """The ``labels`` of columns that are taken for y, where they stand in the table, and their kinds.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": ["a", "b"], "n": [1, 2]})
    >>> labelled = Labelled.of(frame, "kind")
    >>> rest, y = labelled.split(frame)
    >>> labelled.put(rest, y.to_numpy()).equals(frame)
    True
    """

    labels: tuple[Any, ...]
    places: tuple[int, ...]
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, X: Any, y: Any) -> Labelled | None:
        """The columns that y names; None where y is no name, but labels, as a list of as many strings as there are rows is."""
        several = isinstance(y, tuple | list)
        if not isinstance(y, str) and not (several and y and all(isinstance(name, str) for name in y)):
            return None
        table = _table(X)
        if isinstance(y, list) and (
            table is None or len(y) == len(table) or not set(y) <= set(map(str, table.columns))
        ):
            return None
        if table is None:
            if several:
                return None
            raise ValueError(f"y = {y!r} names a column, and X is a matrix without names: give the labels themselves")
        names = [str(name) for name in table.columns]
        places = []
        for name in (y,) if isinstance(y, str) else dict.fromkeys(y):
            if names.count(name) != 1:
                where = "obs" if is_anndata(X) else "X"
                why = (
                    "several columns of that name"
                    if name in names
                    else f"the columns {', '.join(map(repr, names[:8]))}"
                )
                raise ValueError(f"y names the column {name!r}, and {where} has {why}")
            places.append(names.index(name))
        if not is_anndata(X) and len(places) == len(names):
            raise ValueError("y names all columns of X: leave some to be modelled")
        columns = [table.iloc[:, place] for place in places]
        kinds = tuple(_kind(column, names[place]) for column, place in zip(columns, places, strict=True))
        return cls(tuple(plain_label(table.columns[place]) for place in places), tuple(places), kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, as words."""
        return tuple(map(str, self.labels))

    def is_in(self, X: Any) -> bool:
        """Whether a table has these columns."""
        table = _table(X)
        return table is not None and set(self.names) <= {str(name) for name in table.columns}

    def split(self, X: Any) -> tuple[Any, Any]:
        """The table without these columns, and these columns."""
        table = _table(X)
        names = [str(name) for name in table.columns]
        places = [names.index(name) for name in self.names]
        y = table.iloc[:, places[0]] if len(places) == 1 else table.iloc[:, places]
        if is_anndata(X):
            return X, y
        rest = [place for place in range(len(names)) if place not in places]
        return (X[:, rest] if is_polars(X) else table.iloc[:, rest]), y

    def put(self, X: Any, y: Any) -> Any:
        """The table with these columns of labels in their places; y is an array of one, or a frame."""
        import pandas as pd  # type: ignore[import-untyped]

        several = hasattr(y, "columns")
        columns = []
        for place, (kind, name) in enumerate(zip(self.kinds, self.names, strict=True)):
            values = pd.Series(np.asarray(y.iloc[:, place] if several else y).tolist())
            columns.append(kind.restore(kind.numbers(values, name), np.zeros(len(values), dtype=bool)))
        if is_anndata(X):
            for label, column in zip(self.labels, columns, strict=True):
                X.obs[label] = column.to_numpy() if str(column.dtype) != "category" else column.array
            return X
        if is_polars(X):
            import polars

            for _, place, label, column in self._in_order(columns):
                X = X.insert_column(min(place, X.shape[1]), polars.from_pandas(column).alias(label))
            return X
        for _, place, label, column in self._in_order(columns):
            column.index = X.index
            X.insert(min(place, X.shape[1]), label, column, allow_duplicates=True)
        return X

    def _in_order(self, columns: list[Any]) -> list[tuple[int, int, Any, Any]]:
        numbered = zip(range(len(columns)), self.places, self.labels, columns, strict=True)
        return sorted(numbered, key=lambda each: each[1])

    def described(self) -> dict[str, Any]:
        """As JSON."""
        kinds = [kind.described() for kind in self.kinds]
        return {"labels": list(self.labels), "places": list(self.places), "kinds": kinds}

    @classmethod
    def recall(cls, described: dict[str, Any]) -> Labelled:
        """Back from :meth:`described`; what is none is an error."""
        labels, places = tuple(described["labels"]), tuple(described["places"])
        kinds = tuple(map(recall, described["kinds"]))
        if not 0 < len(labels) == len(places) == len(kinds) or len(set(places)) < len(places):
            raise ValueError("labels in no columns")
        if not all(type(place) is int and place >= 0 for place in places) or not all(
            isinstance(kind, Levels | Numbers) for kind in kinds
        ):
            raise ValueError("labels in strange columns")
        if not all(isinstance(label, str) for label in labels):
            raise ValueError("labels in columns without names")
        return cls(labels, places, kinds)


def _table(X: Any) -> Any:
    """Where columns have names."""
    if is_anndata(X):
        return X.obs
    return as_frame(X) if hasattr(X, "columns") else None


def _kind(column: Any, name: str) -> Kind:
    """Labels are never identifiers, and not missing."""
    if is_missing(column).any():
        row = int(np.argmax(is_missing(column)))
        raise ValueError(
            f"the label in column {name!r}, row {row}, is missing: drop such rows, or give them a label of their own"
        )
    if is_times(column, column):
        raise ValueError(
            f"the label column {name!r} holds dates or times: make labels of them, such as months, or numbers"
        )
    if is_levels(column):
        if is_identifier(column):
            raise ValueError(
                f"the label column {name!r} differs from row to row: it names rows, and says nothing of them"
            )
        levels = column.cat.categories.tolist() if str(column.dtype) == "category" else sorted(set(texts(column, name)))
        return Levels(dtype_of(column), tuple(levels))
    kind = kind_of(column, name)
    return kind if isinstance(kind, Numbers) else Numbers(dtype_of(column))
