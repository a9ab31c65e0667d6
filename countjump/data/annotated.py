"""Matrices with names around them: AnnData, and frames all of whose columns are sparse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from countjump.data.columns import Identifiers, recall
from countjump.data.libraries import require_library
from countjump.data.rows import as_matrix
from countjump.data.tables import plain_label

PIECE = 4096
"""Rows of a file that are read together."""


@dataclass(frozen=True)
class Annotated:
    """What is around a matrix: the ``labels`` of its columns, and of AnnData ("anndata", else "sparse") what is known of them
    (``var``), the layer that X is taken from, and names for fresh rows.

    It does the same as a :class:`~countjump.data.tables.Layout`, but the matrix is what it is.
    """

    kind: str
    labels: tuple[Any, ...]
    var: dict[str, dict[str, Any]] = field(default_factory=dict)
    layer: str | None = None
    cells: Identifiers | None = None

    gaps: ClassVar[tuple[tuple[int, ...], ...]] = ()
    left_out: ClassVar[tuple[int, ...]] = ()
    stand_ins: ClassVar[dict[int, float]] = {}

    @staticmethod
    def written(column: int, value: float) -> str:
        """A number as the table has it, in words."""
        return f"{value:g}"

    @classmethod
    def of(cls, X: Any, layer: str | None = None) -> Annotated | None:
        """That of a table; None for what is none of these."""
        if is_anndata(X):
            import pandas as pd  # type: ignore[import-untyped]

            given_layer(X, layer)
            var = {str(name): _described(X.var.iloc[:, place]) for place, name in enumerate(X.var.columns)}
            names = pd.Series(list(map(str, X.obs_names[:PIECE])), dtype=object)
            cells = Identifiers.of(names, "object", "row", False)
            return cls("anndata", tuple(map(str, X.var_names)), var, layer, cells)
        if is_sparse_frame(X):
            return cls("sparse", tuple(map(plain_label, X.columns)))
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, as words."""
        return tuple(map(str, self.labels))

    matrix_names = names

    @property
    def levels(self) -> dict[int, tuple[Any, ...]]:
        """A matrix has none."""
        return {}

    def reasons(self) -> dict[str, str]:
        """Nothing is decided here."""
        return {}

    def matrix(self, X: Any, known: np.ndarray | None = None, lenient: bool = False) -> Any:
        """The matrix inside; one of a file is read in pieces."""
        if not is_anndata(X):
            return as_matrix(X)
        if X.shape[1] != len(self.labels):
            raise ValueError(
                f"X has {X.shape[1]} features, but the model was fitted to {len(self.labels)}: give the same columns"
            )
        for place, (mine, name) in enumerate(zip(self.names, X.var_names, strict=True)):
            if mine != str(name):
                raise ValueError(
                    f"column {place} of X is {name!r}, and was {mine!r} when the model was fitted: reorder it"
                )
        found = given_layer(X, self.layer)
        if not sp.issparse(found) and not isinstance(found, np.ndarray):
            pieces = [found[start : start + PIECE] for start in range(0, X.shape[0], PIECE)]
            found = sp.vstack(pieces, format="csr") if sp.issparse(pieces[0]) else np.concatenate(pieces)
        return as_matrix(found)

    def escapes(self, X: Any) -> np.ndarray:
        """No value of a matrix is missing."""
        return np.zeros(X.shape[0])

    def gaps_known(self, known: np.ndarray) -> np.ndarray:
        """The columns are those of the matrix."""
        return known

    def restore(self, matrix: Any, like: Any = None, known: np.ndarray | None = None) -> Any:
        """A table of the kind that went in; rows keep the names and annotations of a table that it is ``like``."""
        import pandas as pd

        if self.kind == "sparse":
            index = None if like is None or not hasattr(like, "iloc") else like.index
            return pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(matrix), index=index, columns=list(self.labels))
        anndata = require_library("anndata", "anndata", "AnnData")
        rows = matrix.shape[0]
        if like is not None and is_anndata(like):
            obs = like.obs.copy()
        else:
            assert self.cells is not None
            obs = pd.DataFrame(
                index=pd.Index(self.cells.restore(np.zeros(rows), np.zeros(rows, dtype=bool)).astype(object))
            )
        var = pd.DataFrame({name: _recalled(each) for name, each in self.var.items()})
        var.index = pd.Index(self.names)
        return anndata.AnnData(
            matrix, obs=obs, var=var, layers={} if self.layer is None else {self.layer: matrix.copy()}
        )

    def described(self) -> dict[str, Any]:
        """As JSON."""
        cells = None if self.cells is None else self.cells.described()
        return {"kind": self.kind, "labels": list(self.labels), "var": self.var, "layer": self.layer, "cells": cells}

    @classmethod
    def recall(cls, described: dict[str, Any]) -> Annotated:
        """Back from :meth:`described`; what is none is an error."""
        cells = None if described["cells"] is None else recall(described["cells"])
        labels, layer = tuple(described["labels"]), described["layer"]
        if described["kind"] not in ("anndata", "sparse") or not isinstance(cells, Identifiers | None):
            raise ValueError(f"{described['kind']!r} is no kind of table")
        if (described["kind"] == "anndata") != (cells is not None) or not isinstance(layer, str | None):
            raise ValueError("AnnData without names of its rows, or a layer without a name")
        if not all(label is None or isinstance(label, str | int | float | bool) for label in labels):
            raise ValueError("a name of a column that is no string or number")
        if any(len(each["values"]) != len(labels) for each in described["var"].values()):
            raise ValueError("annotations of other columns")
        for each in described["var"].values():
            _recalled(each)
        return cls(described["kind"], labels, described["var"], layer, cells)


def is_anndata(X: Any) -> bool:
    """Whether it is AnnData."""
    return all(hasattr(X, name) for name in ("X", "obs", "var", "layers"))


def is_sparse_frame(X: Any) -> bool:
    """Whether it is a DataFrame all of whose columns are sparse."""
    return hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2 and hasattr(X, "sparse")


def given_layer(X: Any, layer: str | None) -> Any:
    """X of AnnData, or one of its layers."""
    if layer is not None and layer not in X.layers:
        known = ", ".join(map(repr, X.layers)) or "none"
        raise ValueError(f"X holds no layer {layer!r}: it has {known}")
    found = X.X if layer is None else X.layers[layer]
    if found is None:
        raise ValueError("the AnnData holds no X: name a layer, JumpModel(layer=…)")
    return found


def _described(column: Any) -> dict[str, Any]:
    """A column of annotations as JSON: numbers, truth values and strings, and else the words for them."""
    kind = getattr(column.dtype, "kind", "O")
    gone = column.isna().to_numpy()
    if kind in "iub" and not gone.any():
        return {"dtype": str(column.dtype), "values": column.tolist()}
    if kind == "f":
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return {"dtype": "float64", "values": [float(v) if np.isfinite(v) else None for v in numbers]}
    words = [None if lost else str(value) for value, lost in zip(column.tolist(), gone, strict=True)]
    return {"dtype": "category" if str(column.dtype) == "category" else "object", "values": words}


def _recalled(described: dict[str, Any]) -> Any:
    import pandas as pd

    dtype, values = described["dtype"], described["values"]
    if not isinstance(dtype, str) or len(dtype) > 20:
        raise ValueError("annotations of a strange dtype")
    return pd.Series(values, dtype=dtype).array
