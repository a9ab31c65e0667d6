"""What a fit makes: the attributes of a fitted model, what a file says of them, and how they are checked on the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from countjump.clusters import Clusters
from countjump.conditions import Conditions
from countjump.data import Annotated, Labelled, Layout, Pictures
from countjump.parameters import as_seed
from countjump.persistence import encode, under
from countjump.transforms import Weights

OPEN_ARRAYS = ("bounds", "constants")
"""Arrays of a saved model that may hold infinity (no bound) or NaN (no constant)."""


class Fitted:
    """The attributes of a fitted model. Where no column varies it has no process and no denoiser."""

    plan_: Any
    block_: Any
    process_: Any
    denoiser_: Any
    scaling_: Weights | None
    layout_: Layout | Annotated | Pictures | None
    labelled_: Labelled | None
    conditions_: Conditions | None
    """Those of y, or of the clusters."""
    clusters_: Clusters | None
    dtype_: np.dtype
    sparse_: str
    seed_: int
    device_: torch.device
    block_rows_: int
    history_: list[dict[str, float]]
    n_features_in_: int
    feature_names_in_: np.ndarray


def describe(
    model: Fitted, plan: dict[str, Any], of_plan: dict[str, np.ndarray]
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
    if model.clusters_ is not None:
        arrays["centres"] = model.clusters_.centres
    said = {
        "condition": condition,
        "clusters": None if model.clusters_ is None else len(model.clusters_.centres),
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
    return said, arrays


def check(said: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Raise where rows are of no kind that is written, or numbers are not finite."""
    if said["sparse"] not in ("", "array", "matrix") or np.dtype(said["dtype"]).kind not in "buif":
        raise ValueError(f"rows of kind {said['sparse']!r} and dtype {said['dtype']!r} are not written here")
    for name, array in arrays.items():
        if not name.endswith(OPEN_ARRAYS) and not np.isfinite(array).all():
            raise ValueError(f"{name} holds numbers that are not finite")


def recall_data(model: Fitted, said: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Give a model what a file says of the data that it was fitted to."""
    model.dtype_, model.sparse_, model.seed_ = np.dtype(said["dtype"]), said["sparse"], as_seed(said["seed"])
    scaling, condition, layout, labelled = (said[name] for name in ("scaling", "condition", "layout", "labelled"))
    model.scaling_ = None if scaling is None else Weights(arrays["scaling"], **scaling)
    model.conditions_ = None if condition is None else Conditions.recalled(condition, under(arrays, "condition/"))
    model.clusters_ = None if said.get("clusters") is None else Clusters(arrays["centres"])
    kinds: dict[str, Any] = {"pictures": Pictures, "anndata": Annotated, "sparse": Annotated}
    model.layout_ = None if layout is None else kinds.get(layout["kind"], Layout).recall(layout)
    model.labelled_ = None if labelled is None else Labelled.recall(labelled)
    labels = None if model.conditions_ is None else len(model.conditions_.columns)
    if model.labelled_ is not None and labels != len(model.labelled_.labels):
        raise ValueError("columns of labels, and no such labels")


def recall_training(model: Fitted, said: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Give a model that has its parts what training made of them, and the columns of X; raise where these do not fit the parts."""
    if model.denoiser_ is not None:
        model.denoiser_.load_state_dict({k: torch.from_numpy(v) for k, v in under(arrays, "weights/").items()})
    if said["block_rows"] != model.block_rows_:
        raise ValueError(f"blocks of {said['block_rows']!r} rows, and not of {model.block_rows_}")
    model.history_ = [
        {str(k): v if isinstance(v, int) else float(v) for k, v in record.items()} for record in said["history"]
    ]
    if len({tuple(record) for record in model.history_}) > 1 or any("loss" not in r for r in model.history_):
        raise ValueError("its history is not one of training")
    columns, names = model.block_.columns, said["feature_names"]
    if model.clusters_ is not None:
        check_clusters(model, columns)
    elif "centres" in arrays:
        raise ValueError("centres, and no clusters")
    if model.layout_ is not None:
        if len(model.layout_.matrix_names) != columns:
            raise ValueError(f"a table of {len(model.layout_.names)} columns, and a model of {columns}")
        columns = len(model.layout_.names)
    model.n_features_in_ = columns
    if names:
        if len(names) != columns or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{len(names)} names for {columns} columns")
        model.feature_names_in_ = np.array(names, dtype=object)


def check_clusters(model: Fitted, columns: int) -> None:
    """Raise where a model's clusters are not what one finds: the labels 0, 1, … of pictures, of which each was seen."""
    centres, conditions = model.clusters_.centres, model.conditions_  # type: ignore[union-attr]
    labels = tuple(range(len(centres)))
    if centres.shape != (len(labels), columns) or centres.dtype != np.float32:
        raise ValueError("clusters that have no centres, or none of these columns")
    if conditions is None or conditions.form != "labels" or getattr(conditions.columns[0], "levels", ()) != labels:
        raise ValueError("clusters by other names than their numbers")
    if not np.array_equal(conditions.kept, np.arange(len(labels))[:, None]):
        raise ValueError("clusters that come not at all, or twice")
    if not isinstance(model.layout_, Pictures) or model.labelled_ is not None:
        raise ValueError("clusters of rows that are no pictures without labels")
