"""What "auto" decides about a group of columns: process, belief, λ, decoding and schedule, each with its reason."""

from __future__ import annotations

import math

import numpy as np

from countjump.data import Columns, Rows
from countjump.domains import Bounded, Count, Domain, NonNegative, OneHot, Simplex
from countjump.laws import MAX_COUNT
from countjump.processes.jump import DECODINGS, OBJECTIVES
from countjump.schedules import Cosine, Geometric, LinearBeta, Schedule

PROCESSES = ("poisson", "binomial")
BELIEFS = ("poisson", "mixture", "composition")
SCHEDULES = ("auto", "linear-beta", "cosine", "geometric")

WIDE = 256  # columns, from which on unbounded counts and sparse reals are modelled as wide sparse rows
SPARSE = 0.5  # the share of zeros from which on reals are sparse
LOG_SNR = -12.0  # the paper's mean log-SNR at the end of the chain
FIRST_UNITS = 0.25  # the expected count of a row at t_max: with at most about one unit, a step has no joint error
RESOLUTION = 50.0  # the variance of a column's signal over that of its randomisation, where there are several columns
MOST_LOST = 0.0101  # the share of a column's non-zeros that may come out as zeros without a word


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """``value``, if it is one of the allowed names."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(map(repr, allowed))}")
    return str(value)


def choose_process(process: str, domain: Domain, lam: object, reasons: dict[str, str]) -> str:
    """ "poisson" or "binomial"."""
    process = one_of("process", process, (*PROCESSES, "auto"))
    if process == "auto":
        scaled = domain.whole and not isinstance(lam, str) and bool(np.any(np.asarray(lam) != 1))
        process = "poisson" if isinstance(domain, NonNegative) or scaled else "binomial"
        why = "lam was given for whole numbers" if scaled else f"the choice for {domain.name} data"
        reasons["process"] = f"{process}: {why}"
    if process == "binomial" and isinstance(domain, NonNegative):
        raise ValueError(
            "process='binomial' thins the data itself, which must be counts or have an upper bound: "
            "use process='poisson', or domain=Bounded(max)"
        )
    return process


def choose_objective(objective: str, belief: str) -> str:
    """The paper's for its own belief, else the likelihood."""
    objective = one_of("objective", objective, (*OBJECTIVES, "auto"))
    if objective == "auto":
        return "reweighted" if belief == "poisson" else "nll"
    if objective != "nll" and belief != "poisson":
        raise ValueError(
            f"objective={objective!r} is the paper's, for belief='poisson': use objective='nll' with {belief!r}"
        )
    return objective


def choose_decoding(decode: str, belief: str, domain: Domain, has_law: bool) -> str:
    """ "draw" where there is a belief about x_0, else "latent"."""
    decode = one_of("decode", decode, (*DECODINGS, "auto"))
    sets = belief == "composition" and isinstance(domain, NonNegative)
    drawable = sets or (belief == "mixture" and not domain.whole and has_law)
    if belief == "composition" and decode not in ("auto", "draw" if sets else "latent"):
        raise ValueError(f"decode={decode!r} does not go with belief='composition': leave it 'auto'")
    if decode == "auto":
        return "draw" if drawable else "latent"
    if decode == "draw" and not drawable:
        raise ValueError(
            "decode='draw' needs a belief about x_0, which belief='mixture' has on real data: use decode='latent'"
        )
    return decode


def choose_belief(
    belief: str, domain: Domain, process: str, columns: int, zeros: float, scaled: bool, reasons: dict[str, str]
) -> str:
    """ "poisson", "mixture" or "composition"; ``scaled`` is whether Poisson JUMP or its λ was asked for."""
    belief = one_of("belief", belief, (*BELIEFS, "auto"))
    counts = isinstance(domain, Count) and process == "binomial" and bool(np.isinf(domain.bounds(columns)).all())
    reals = isinstance(domain, NonNegative) and not scaled
    if belief == "auto":
        wide = (counts or (reals and zeros >= SPARSE)) and columns >= WIDE
        belief = "composition" if wide else "mixture"
        what = "unbounded counts" if counts else f"reals, {zeros:.1%} of them zero"
        reasons["belief"] = f"{belief}: " + (
            f"{columns} columns of {what}" if wide else f"the choice for {domain.name} data"
        )
    if belief == "composition" and not (counts or reals):
        raise ValueError(
            "belief='composition' lets the units of a row's total fall on columns, which needs counts and "
            "process='binomial', or non-negative reals with process and lam left 'auto': use belief='mixture'"
        )
    if belief == "poisson" and process == "binomial" and isinstance(domain, Simplex | Bounded):
        raise ValueError(f"belief='poisson' on {domain.name} data needs process='poisson': or use belief='mixture'")
    return belief


def has_inner_zeros(rows: Rows) -> bool:
    """Whether simplex rows have zeros other than those of a whole that lies on one part."""
    filled = rows.filled()
    return bool(((filled > 1) & (filled < rows.columns)).any())


def choose_lam(
    lam: object,
    rows: Rows,
    all_columns: int,
    varying: np.ndarray,
    domain: Domain,
    process: str,
    columns: Columns,
    reasons: dict[str, str],
) -> np.ndarray:
    """λ per column; for proportions, the number of units (per column where each is a whole)."""
    pooled = process == "binomial" and isinstance(domain, Simplex | OneHot)
    size = 1 if pooled else rows.columns
    if not isinstance(lam, str):
        given = np.asarray(lam)
        if given.dtype.kind not in "uif" or given.ndim > 1 or not (np.isfinite(given).all() and (given > 0).all()):
            raise ValueError(f"lam must be 'auto', a positive number or one per column, got {lam!r}")
        if given.ndim == 1 and len(given) != (size if pooled else all_columns):
            raise ValueError(f"lam has {len(given)} values for {all_columns} columns: give one, or one per column")
        given = given[varying] if given.ndim == 1 and not pooled else given
        if process == "binomial" and domain.whole and (given != 1).any():
            raise ValueError(
                "lam scales data for process='poisson'; binomial JUMP takes counts as they are: "
                "leave lam='auto', or use process='poisson'"
            )
        chosen = np.broadcast_to(given, (size,)).astype(np.float64)
    elif process == "binomial" and (domain.whole or isinstance(domain, NonNegative)):
        return np.ones(size)  # counts, and the places of non-zeros, are taken as they are
    else:
        chosen = _automatic_lam(rows, domain, pooled, process == "binomial", columns)
        comparable = " and keeps columns comparable" if rows.columns > 1 else ""
        reasons["lam"] = f"the smallest that loses at most 1 % of the non-zeros{comparable}"
        if not pooled and process == "poisson" and (lost := rows.lost(chosen)).max(initial=0.0) > MOST_LOST:
            worst = f"{lost.max():.1%} of column {varying[lost.argmax()]}'s are lost"
            reasons["lam"] += f"; cut so that counts stay exact: {worst}"
    if pooled or (process == "binomial" and isinstance(domain, Bounded)):
        return np.ceil(chosen)
    if (chosen * columns.largest > MAX_COUNT).any():
        raise ValueError("lam times the largest value is above 2^53, where counts are no longer exact: lower lam")
    return chosen


def _automatic_lam(rows: Rows, domain: Domain, pooled: bool, units: bool, columns: Columns) -> np.ndarray:
    chosen = rows.smallest_scale(pooled=pooled)
    if pooled:
        return np.minimum(chosen, MAX_COUNT)
    bound = domain.bounds(rows.columns) if units else None
    noise = columns.mean if bound is None else columns.mean * (1 - columns.mean / bound)
    if rows.columns > 1:
        chosen = np.maximum(chosen, RESOLUTION * noise / columns.variance)
    chosen = chosen if bound is None else chosen * bound
    return np.minimum(chosen, MAX_COUNT / np.maximum(columns.largest, 1.0) / 2)


def expected_units(lam: np.ndarray, columns: Columns, domain: Domain, process: str) -> float:
    """The expected count of a whole row at t = 0."""
    if process == "binomial" and isinstance(domain, Simplex | OneHot | Bounded):
        return float(lam.sum())
    return float((lam * columns.mean).sum())


def choose_schedule(schedule: str | Schedule, units: float, columns: int, tail: float) -> tuple[Schedule, float | None]:
    """A schedule object is taken as it is, on its even grid; a name is solved for the data, with a grid that starts late."""
    if isinstance(schedule, Schedule):
        return schedule, None
    one_of("schedule", schedule, SCHEDULES)
    if not columns:
        return Cosine(), None
    per_entry = units / columns
    chosen: Schedule
    if schedule in ("auto", "linear-beta"):
        # Almost empty data is below the paper's final log-SNR before it is thinned at all.
        chosen = LinearBeta.solve(per_entry, log_snr=min(LOG_SNR, math.log(per_entry) - 6))
    elif schedule == "geometric":
        chosen = Geometric(min(math.exp(LOG_SNR) / per_entry, 0.1))
    else:
        chosen = Cosine()
    return chosen, chosen.time(min(FIRST_UNITS / units, 1 / max(tail * units, 1e-300), 0.5))
