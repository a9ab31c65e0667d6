"""Small fitted models and files that other families start from, made once in a worker."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from countjump import JumpModel
from countjump.baselines import DDPM

from .inputs import proportions, wide


def _data() -> dict[str, Any]:
    r = np.random.default_rng(5)
    return {
        "counts": r.poisson(3.0, (12, 2)),
        "other counts": r.poisson(9.0, (12, 2)),
        "frame": pd.DataFrame(r.poisson(3.0, (12, 2)), columns=["a", "b"]),
        "reals": r.gamma(1.0, 1.0, (12, 3)),
        "proportions": proportions(r),
        "wide": wide(r),
        "wide reals": wide(r, real=True),
        "constant": np.full((3, 2), 4),
        "baseline": r.poisson(3.0, (12, 2)),
    }


DATA = _data()
NAMES = sorted(DATA)


@cache
def model(name: str) -> Any:
    kind = DDPM if name == "baseline" else JumpModel
    return kind(max_updates=3, width=4, random_state=0, progress=False).fit(DATA[name])


@cache
def drawn(name: str) -> Any:
    return draw(model(name))


def draw(fitted: Any) -> Any:
    return fitted.sample(4, steps=3, random_state=0)


@cache
def _saved(name: str) -> tempfile.TemporaryDirectory:
    directory = tempfile.TemporaryDirectory(prefix="countjump-fuzz-")
    model(name).save(directory.name)
    return directory


def saved(name: str, to: Path) -> Path:
    """A copy of a saved model."""
    shutil.copytree(_saved(name).name, to)
    return to


def load(name: str, path: Path) -> Any:
    return type(model(name)).load(path)


def warm() -> None:
    """Use everything once: what is imported on first use takes seconds."""
    for name in NAMES:
        drawn(name)
        with tempfile.TemporaryDirectory() as place:
            load(name, saved(name, Path(place) / "m"))
    model("counts").score(DATA["counts"])


def matrices() -> tuple[Any, Any]:
    """Two that differ everywhere, for files that are replaced."""
    return sp.csr_matrix(np.full((40, 30), 1)), sp.csr_matrix(np.full((40, 30), 2))
