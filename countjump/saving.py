"""What a saved model says besides its plan: of the data that went in, of labels, and of its training; checked on the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from countjump.conditions import Conditions
from countjump.data import Annotated, Labelled, Layout, Pictures
from countjump.persistence import encode, under
from countjump.transforms import Weights

OPEN_ARRAYS = ("bounds", "constants")
"""Arrays of a saved model that may hold infinity (no bound) or NaN (no constant)."""


def describe(
    model: Any, plan: dict[str, Any], of_plan: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The fitted attributes of a model as JSON and arrays, where its plan is so already."""
    arrays = {f"plan/{name}": array for name, array in of_plan.items()}
    if model.denoiser_ is not None:
        learned = model.denoiser_.state_dict()
        arrays |= {f"weights/{name}": tensor.cpu().numpy() for name, tensor in learned.items()}
    if model.scaling_ is not None:
        arrays["scaling"] = model.scaling_.weights
    condition = None
    if model.conditions_ is not None:
        condition, own = model.conditions_.described()
        arrays |= {f"condition/{name}": array for name, array in own.items()}
    fitted = {
        "condition": condition,
        "scaling": None if model.scaling_ is None else model.scaling_.described(),
        "plan": plan,
        "dtype": model.dtype_.str,
        "sparse": model.sparse_,
        "layout": None if model.layout_ is None else model.layout_.described(),
        "labelled": None if model.labelled_ is None else model.labelled_.described(),
        "seed": model.seed_,
        "block_rows": model.block_rows_,
        "history": [{k: encode(v) for k, v in record.items()} for record in model.history_],
        "feature_names": getattr(model, "feature_names_in_", np.array([])).tolist(),
    }
    return fitted, arrays


def check(fitted: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Raise where rows are of no kind that is written, or numbers are not finite."""
    if fitted["sparse"] not in ("", "array", "matrix") or np.dtype(fitted["dtype"]).kind not in "buif":
        raise ValueError(f"rows of kind {fitted['sparse']!r} and dtype {fitted['dtype']!r} are not written here")
    for name, array in arrays.items():
        if not name.endswith(OPEN_ARRAYS) and not np.isfinite(array).all():
            raise ValueError(f"{name} holds numbers that are not finite")


def recall_weights_and_labels(
    fitted: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[Weights | None, Conditions | None, Layout | Annotated | Pictures | None, Labelled | None]:
    """The weights of counts, the conditions, how a table becomes a matrix, and which columns are labels."""
    scaling, condition, layout, labels = (fitted[name] for name in ("scaling", "condition", "layout", "labelled"))
    weights = None if scaling is None else Weights(arrays["scaling"], **scaling)
    conditions = None if condition is None else Conditions.recalled(condition, under(arrays, "condition/"))
    kinds: dict[str, Any] = {"pictures": Pictures, "anndata": Annotated, "sparse": Annotated}
    table = None if layout is None else kinds.get(layout["kind"], Layout).recall(layout)
    labelled = None if labels is None else Labelled.recall(labels)
    if labelled is not None and (conditions is None or len(conditions.columns) != len(labelled.labels)):
        raise ValueError("columns of labels, and no such labels")
    return weights, conditions, table, labelled


def recall_history(records: list[dict[str, Any]]) -> list[dict[str, float]]:
    """The losses of training."""
    history = [{str(k): v if isinstance(v, int) else float(v) for k, v in record.items()} for record in records]
    if len({tuple(record) for record in history}) > 1 or any("loss" not in record for record in history):
        raise ValueError("its history is not one of training")
    return history


def recall_columns(names: list[Any], layout: Any, columns: int) -> tuple[int, np.ndarray | None]:
    """How many columns went in, and their names, if they have some; the matrix has so many ``columns``."""
    if layout is not None:
        if len(layout.matrix_names) != columns:
            raise ValueError(f"a table of {len(layout.names)} columns, and a model of {columns}")
        columns = len(layout.names)
    if not names:
        return columns, None
    if len(names) != columns or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{len(names)} names for {columns} columns")
    return columns, np.array(names, dtype=object)
