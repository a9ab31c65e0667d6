"""The parameters of every model: what they may be, and what is chosen for them by the size of the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from countjump.atomic import check_writable
from countjump.planning import WIDE, one_of

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Of the network's work. Counts are drawn, thinned and scored in float64 all the same."""

MOST_GUIDANCE = 10.0  # the largest weight of guidance: up to it, everything is finite
MOST_STEPS = 10**6  # steps of a chain, at most

WHOLE_PARAMETERS = {
    **{"max_updates": None, "batch_size": None, "checkpoint_every": None, "states": None},
    **{"components": 256, "width": 2**14, "accumulate": 2**14, "clusters": 10_000},
}
"""Parameters that are None or a whole number above zero, and the largest that memory is good for."""


def checked(params: dict[str, Any], directory: bool = True) -> dict[str, Any]:
    """The parameters as plain values, numpy's numbers as Python's; a wrong one is an error."""
    params = {name: plain(value) for name, value in params.items()}
    one_of("lr_schedule", params["lr_schedule"], ("cosine", "constant"))
    one_of("precision", params["precision"], tuple(PRECISIONS))
    if params["augment"] is not None:
        one_of("augment", params["augment"], ("flip",))
    if not isinstance(params["compile"], bool):
        raise TypeError(f"compile must be True or False, got {params['compile']!r}")
    callbacks = params["callbacks"]
    if callbacks is not None and not (isinstance(callbacks, list | tuple) and all(map(callable, callbacks))):
        raise TypeError(f"callbacks must be a list of functions of (update, losses, model), got {callbacks!r}")
    if not isinstance(params["progress"], bool):
        raise TypeError(f"progress must be True or False, got {params['progress']!r}")
    for name in WHOLE_PARAMETERS.keys() & params.keys():
        if name == "clusters" and isinstance(params[name], str):
            one_of("clusters", params[name], ("auto",))
        elif params[name] is not None:
            params[name] = whole(name, params[name], 1, WHOLE_PARAMETERS[name])
    for name in ("validation_fraction", "ema", "learning_rate"):
        if name == "learning_rate" and params[name] is None:
            continue
        value = number(name, params[name])
        if name == "learning_rate" and not 0 < value < 1e300:
            raise ValueError(f"learning_rate must be positive and finite, got {value}")
        if name != "learning_rate" and not 0 <= value < 1:
            raise ValueError(f"{name} must be in [0, 1), got {value}")
        params[name] = float(value)
    place = params["checkpoint_dir"]
    if place is not None and not isinstance(place, str | Path):
        raise TypeError(f"checkpoint_dir must be a path or None, got {place!r}")
    if place is not None and directory:
        check_writable(place, directory=True)
    return params


def checked_guidance(guidance: Any) -> float:
    """The weight of guidance."""
    weight = number("guidance", guidance)
    if not 0 <= weight <= MOST_GUIDANCE:
        raise ValueError(f"guidance must be from 0 (no condition) to {MOST_GUIDANCE:g}, got {weight}")
    return weight


def find_device(name: Any) -> torch.device:
    """The device of that name, or an error where it is not there."""
    if isinstance(name, str) and name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not isinstance(name, str | torch.device):
        raise TypeError(f"device must be a name, got {name!r}: use 'auto', 'cpu' or 'cuda'")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        raise ValueError(f"device={str(name)!r} is unknown or not there: use 'auto' or 'cpu'") from error
    return device


def plain(value: Any) -> Any:
    """A number of numpy as one of Python; anything else as it is."""
    if isinstance(value, np.floating):
        return float(value)  # a long double is no item
    return value.item() if isinstance(value, np.generic) else value


def number(name: str, value: Any) -> Any:
    """A number, or an error that names it."""
    found = plain(value)
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return found


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number within its bounds, or an error that names it."""
    value = plain(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")
    return value


def as_seed(random_state: Any) -> int:
    """An integer seed from whatever scikit-learn calls a random state."""
    random_state = plain(random_state)
    if isinstance(random_state, int):
        return whole("random_state", random_state, 0, 2**64 - 1)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    kinds = "None, a whole number, a RandomState or a Generator"
    raise ValueError(f"random_state={random_state!r} cannot be used as a seed: use {kinds}")


def default_batch_size(rows: int, columns: int) -> int:
    """Rows per update: the more, the narrower they are; of a small table a fifth, about."""
    most = 2048 if columns == 1 else 1024 if columns <= 4 else 512 if columns < 16 else 256 if columns < WIDE else 128
    return most if columns <= 4 else min(most, max(128, 2 ** int(np.log2(max(rows / 5, 1)))))


def default_steps(columns: int) -> int:
    """Steps of a chain."""
    return 50 if 1 < columns < WIDE else 20


def default_dropout(rows: int, columns: int) -> float:
    """The share of hidden units that are left out while training, where a table has many columns for its rows."""
    fewest = 100 if columns >= 32 else 25
    return 0.3 if 4 < columns < WIDE and rows < fewest * columns else 0.0


FEW_ENTRIES = 20_000
"""Rows times columns below which a table is learned by heart in long training."""


def default_updates(rows: int, columns: int, sparse: bool) -> int:
    """The length of training: a fifth of the entries (where there are few, a tenth), of wide rows 60 epochs, of sparse ones 110;
    within bounds, that of tables growing with them."""
    if columns >= WIDE:
        epochs, most = (110, 16_000) if sparse else (60, 8000)
        return int(np.clip(epochs * rows / default_batch_size(rows, columns), 4000, most))
    if columns == 1:
        return int(np.clip(rows / 10, 1000, 2000))
    share, least = (1 / 10, 500) if columns > 4 and rows * columns < FEW_ENTRIES else (1 / 5, 1000)
    return int(np.clip(rows * columns * share, least, np.clip(1000 + rows * columns / 50, 3000, 6000)))


def rows_at_once(block: Any) -> int:
    """Rows that are drawn together: the more, the fewer operations, and the more memory."""
    if block.sparse:
        return 1024
    return 25_600 if block.size <= 1 else 2 ** int(np.log2(np.clip(2**21 // block.size, 64, 1024)))


@contextmanager
def threads_for(columns: int) -> Iterator[None]:
    """One thread where rows are narrow: more gain nothing there, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if columns >= WIDE else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
