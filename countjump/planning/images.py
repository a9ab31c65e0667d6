"""The plan of pictures: their bound, their levels, the belief, and the sizes of a U-Net."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from countjump.blocks.images import BELIEFS
from countjump.data import Rows
from countjump.domains import Binary, Bounded, Count, Domain
from countjump.networks.unet import UNetSizes, width_of
from countjump.planning import decisions
from countjump.planning.decisions import one_of
from countjump.planning.parts import Part
from countjump.planning.plan import Plan, network_name
from countjump.processes.jump import DECODINGS
from countjump.transforms import Coding

EIGHT_BITS = 255
"""The largest level of reals in [0, 1], and of pictures of bytes of which one is above the half of it."""

FEW_LEVELS = 32
"""Up to which a free law over the levels costs little."""

FIRST_UNITS = 2.0
"""Of a picture, on average, after the first step of a chain: see docs/models/images.md."""

ALTERNATIVES, MANY = 8, 5000
"""Of the whole picture, and from how many pictures on: fewer learn them by heart. With a free law over more than FEW_LEVELS levels
their weights would fill the memory. See docs/models/images.md."""


def plan_images(X: np.ndarray, shape: tuple[int, ...], asked: Mapping[str, Any]) -> Plan:
    """Resolve every "auto" for pictures of a ``shape``, (height, width) or with channels, which X holds as rows."""
    reasons: dict[str, str] = {}
    height, width, channels = (*shape, 1)[:3]
    domain, bound, coding = _levels(X, asked, reasons)
    process = one_of("process", asked["process"], (*decisions.PROCESSES, "auto"))
    if process == "auto":
        scaled = not isinstance(asked["lam"], str)
        process = "poisson" if scaled else "binomial"
        reasons["process"] = f"{process}: {'lam was given' if scaled else 'the levels are thinned themselves'}"
    belief = _belief(asked["belief"], process, bound, reasons)
    decode = one_of("decode", asked["decode"], (*DECODINGS, "auto"))
    if decode == "draw":
        raise ValueError("decode='draw' needs a belief about reals, and pictures have levels: use decode='latent'")
    lam = _lam(asked["lam"], process, 1.0 if coding is None else float(coding.step[0]), reasons)
    center, variance, histogram, usual = _statistics(X, bound, coding)
    units = max(center * X.shape[1] * lam, 1e-6)
    name = network_name(
        "unet" if isinstance(asked["network"], str) and asked["network"] == "auto" else asked["network"]
    )
    sizes = (
        asked["network"]
        if isinstance(asked["network"], UNetSizes)
        else UNetSizes.of((height, width))
        if name == "unet"
        else None
    )
    auto = isinstance(asked["schedule"], str) and asked["schedule"] == "auto"
    schedule, t_max = decisions.choose_schedule("geometric" if auto else asked["schedule"], units, X.shape[1], 2.0)
    if auto:
        t_max = schedule.time(min(FIRST_UNITS / units, 0.5))
    light = belief == "logistic" or (belief == "categorical" and bound < FEW_LEVELS)
    alternatives = ALTERNATIVES if X.shape[0] >= MANY and light else 1
    if alternatives > 1:
        reasons["belief"] = f"{reasons.get('belief', belief)}; {alternatives} alternatives of the whole picture"
    options = {
        "domain": domain,
        "picture": (height, width, channels),
        "largest": bound,
        "center": center,
        "variance": variance,
        "believes": belief,
        "components": asked["components"] or 4,
        "alternatives": alternatives,
        "decoding": "latent" if decode == "auto" else decode,
        "escape": 0.0 if asked["domain"] != "auto" else 1 / ((X.shape[0] + 1) * X.shape[1]),
    }
    arrays = {"histogram": histogram, "usual": usual}
    if process == "poisson":
        arrays["lam"] = np.array([lam])
    part = Part("images", np.arange(X.shape[1]), domain, options, arrays, coding)
    return Plan(
        process=process,
        belief=belief,
        objective=decisions.choose_objective(asked["objective"], belief),
        schedule=schedule,
        t_max=t_max,
        lam=np.full(X.shape[1], lam),
        network=name,
        width=asked["width"] or (width_of((height, width)) if name == "unet" else 256),
        parts=[part],
        reasons=reasons,
        picture=(height, width),
        sizes=sizes,
    )


def _levels(X: np.ndarray, asked: Mapping[str, Any], reasons: dict[str, str]) -> tuple[Domain, float, Coding | None]:
    """The domain of the levels, the largest of these, and how X becomes levels."""
    declared = asked["domain"]
    if isinstance(declared, str):
        declared = {"auto": None, "count": Count(), "binary": Binary(), "bounded": Bounded(1.0)}.get(declared, declared)
    if declared is not None and not isinstance(declared, Count | Binary | Bounded):
        raise ValueError(f"domain={asked['domain']!r} is none of pictures: use 'auto', Count(max) or Bounded(max)")
    smallest, largest = float(X.min()), float(X.max())
    if smallest < 0:
        raise ValueError(
            f"a pixel of X is {smallest:g}: pictures are whole numbers from 0 on, or reals in [0, 1]: shift them"
        )
    given = None if declared is None or declared.max is None else declared.max
    if isinstance(given, tuple):
        raise ValueError("pictures have one bound for all pixels: give one number")
    if declared is not None:
        declared.check(X)
    whole = bool((np.floor(X) == X).all()) and not isinstance(declared, Bounded)
    if whole and (X.dtype.kind != "f" or largest > 0):
        bytes_ = X.dtype == np.uint8 and largest > EIGHT_BITS / 2
        found = float(EIGHT_BITS) if bytes_ else max(largest, 1.0)
        bound = found if given is None else float(given)
        if bound > 2**16 - 1:
            raise ValueError(f"a pixel of X is {bound:g}, and pictures have up to {2**16 - 1} levels: divide them")
        reasons["domain"] = f"Count(max={bound:g}): whole numbers" + (", as bytes hold them" if bytes_ else "")
        return Count(bound), bound, None
    top = 1.0 if given is None else float(given)
    if largest > top:
        raise ValueError(
            f"a pixel of X is {largest:g}: pictures are whole numbers, or reals from 0 to {top:g}: divide them by the largest value"
        )
    step, size = top / EIGHT_BITS, X.shape[1]
    off = float(np.abs(X / step - np.rint(X / step)).max())
    near = "" if off < 1e-3 else ", to which they are rounded"
    reasons["domain"] = f"reals from 0 to {top:g} at {EIGHT_BITS + 1} levels{near}"
    coding = Coding(
        np.zeros(size),
        np.full(size, step),
        np.ones(size, bool),
        np.full(size, -1),
        np.full(size, 1 / ((X.shape[0] + 1) * size)),
    )
    return Count(EIGHT_BITS), float(EIGHT_BITS), coding


def _belief(belief: Any, process: str, bound: float, reasons: dict[str, str]) -> str:
    belief = one_of("belief", belief, (*BELIEFS, "auto"))
    if process == "poisson":
        if belief not in ("poisson", "auto"):
            raise ValueError(
                f"belief={belief!r} knows the bound of a picture, which z_0 ~ Pois(λ x_0) does not have: use process='binomial'"
            )
        return "poisson"
    if belief == "auto":
        belief = "categorical" if bound < FEW_LEVELS else "logistic"
        reasons["belief"] = f"{belief}: the choice for {bound + 1:g} levels"
    if belief == "categorical" and bound > EIGHT_BITS:
        raise ValueError(
            f"belief='categorical' has an output for each of {bound + 1:g} levels of every pixel: use 'logistic'"
        )
    return belief


def _lam(lam: Any, process: str, step: float, reasons: dict[str, str]) -> float:
    """Counts per level."""
    if process == "binomial":
        if not isinstance(lam, str) and lam != 1:
            raise ValueError(
                "lam scales data for process='poisson'; binomial JUMP takes levels as they are: leave lam='auto'"
            )
        return 1.0
    if isinstance(lam, str):
        reasons["lam"] = "1: one count for each level"
        return 1.0
    if not isinstance(lam, int | float) or isinstance(lam, bool) or not 0 < lam < 1e6:
        raise ValueError(f"lam must be 'auto' or a positive number for pictures, got {lam!r}")
    return float(lam) * step


def _statistics(X: np.ndarray, bound: float, coding: Coding | None) -> tuple[float, float, np.ndarray, np.ndarray]:
    """The mean and variance of all pixels, the shares of the levels, and the mean of every pixel; of at most 10,000 pictures."""
    rows = Rows(X).dense(np.linspace(0, X.shape[0] - 1, min(X.shape[0], 10_000)).astype(int))
    levels = rows if coding is None else coding.code(rows)
    histogram = np.bincount(np.minimum(levels, bound).astype(np.int64).ravel(), minlength=int(bound) + 1) + 1 / (
        bound + 1
    )
    return (
        max(float(levels.mean()), 1e-3 * bound),
        max(float(levels.var()), 1e-4 * bound**2),
        histogram / histogram.sum(),
        levels.mean(0),
    )
