"""What a JUMP model is made of: every "auto" resolved, with its reason, and the parts put together.

:func:`choose` looks at the data once and returns a :class:`Plan` of plain values; :func:`build` makes the process and the
denoiser from a plan alone, which is also how a saved model comes back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from countjump.beliefs import AmountHead, BagHead, Conjugate, CountHead, GammaHead, Gammas, Head, PoissonHead, UnitsHead
from countjump.data import Columns, Rows
from countjump.domains import Binary, Bounded, Count, Domain, NonNegative, OneHot, Simplex
from countjump.laws import MAX_COUNT
from countjump.networks import MLP
from countjump.priors import directions, gamma_mixture
from countjump.processes.bags import BagJump
from countjump.processes.base import Denoiser, Process
from countjump.processes.jump import DECODINGS, OBJECTIVES, Encoding, Exact, Jump, Randomised, Units
from countjump.schedules import Cosine, Geometric, LinearBeta, Schedule

PROCESSES = ("poisson", "binomial")
BELIEFS = ("poisson", "mixture", "composition")
SCHEDULES = ("linear-beta", "cosine", "geometric")
NETWORKS = {"mlp": MLP}

WIDE = 256
"""From this many columns on, unbounded counts and sparse reals are modelled as total × composition."""

FEW = 4
"""Up to so many columns have twice as many components: their tails are worth it."""

LEAST = 10
"""Non-zeros of a column that a prior is fitted to, at least."""

BINOMIALS = 4
"""Binomials beside the negative binomials of a count."""

DIRECTION_ROWS, DIRECTION_ENTRIES = 20_000, 2**24
"""Rows whose principal directions a bag's network begins with, and entries of their table, at most."""

SPARSE = 0.5
"""The share of zeros from which on reals are sparse."""

FIRST_TOKENS = 0.25
"""The expected count of a whole row at the last time before 1: with at most about one unit, a step has no joint error. One row in
a thousand may expect more than one."""

LOG_SNR = -12.0
"""The paper's mean log-SNR at the end of the chain."""

RESOLUTION = 50.0
"""How many times the variance of a column's signal exceeds that of its randomisation, where several columns are modelled."""


@dataclass
class Plan:
    """Everything that decides a model's parts, resolved; plain values and arrays."""

    whole_domain: Domain
    """Of all columns."""
    domain: Domain
    """Of those that vary."""
    process: str
    belief: str
    objective: str
    decode: str
    schedule: Schedule
    last: float | None
    lam: np.ndarray
    components: int
    network: str
    width: int
    columns: Columns
    total_mean: float
    total_variance: float
    total_largest: float
    gammas: np.ndarray
    """Weights, shapes and means (3, D, K) of the Gammas behind every column (of the row's total, for a composition)."""
    has_law: bool = True
    remainder: float = 1.0
    """What the constant columns of a simplex leave."""
    reasons: dict[str, str] = field(default_factory=dict)


def default_width(columns: int) -> int:
    """Hidden units of the network."""
    return 256 if columns >= 16 else 128


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """``value``, if it is one of the allowed names."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(map(repr, allowed))}")
    return str(value)


def choose_process(process: str, domain: Domain, lam: object, reasons: dict[str, str]) -> str:
    """ "poisson" or "binomial"."""
    process = one_of("process", process, (*PROCESSES, "auto"))
    if process == "auto":
        scaled = (
            isinstance(domain, Count | Binary | OneHot)
            and not isinstance(lam, str)
            and bool(np.any(np.asarray(lam) != 1))
        )
        process = "poisson" if isinstance(domain, NonNegative) or scaled else "binomial"
        reasons["process"] = f"{process}: " + (
            "lam was given for whole numbers" if scaled else f"the choice for {domain.name} data"
        )
    if process == "binomial" and isinstance(domain, NonNegative):
        raise ValueError(
            "process='binomial' thins the data itself, which must be counts or have an upper bound: "
            "use process='poisson', or domain=Bounded(max)"
        )
    return process


def choose(
    rows: Rows,
    whole_domain: Domain,
    all_columns: int,
    varying: np.ndarray,
    *,
    process: str,
    belief: str,
    lam: object,
    components: int | None,
    objective: str,
    decode: str,
    schedule: str | Schedule,
    network: str,
    width: int | None,
    reasons: dict[str, str],
) -> Plan:
    """Resolve every other "auto" for these rows, of which only the columns that vary are left."""
    if isinstance(lam, str) and lam != "auto":
        raise ValueError(f"lam={lam!r} is unknown: use 'auto', a positive number, or one per column")
    domain = whole_domain.select(varying)
    columns = rows.statistics()
    whole = isinstance(domain, Count | Binary | OneHot)
    units = process == "binomial" and isinstance(domain, Simplex | Bounded)
    has_law = not (units and isinstance(domain, Simplex) and _has_inner_zeros(columns))
    objective = one_of("objective", objective, (*OBJECTIVES, "auto"))
    if objective == "auto":
        objective = "reweighted" if belief == "poisson" else "nll"
    elif objective != "nll" and belief != "poisson":
        raise ValueError(
            f"objective={objective!r} is the paper's, for belief='poisson': use objective='nll' with {belief!r}"
        )
    decode = one_of("decode", decode, (*DECODINGS, "auto"))
    sets = belief == "composition" and isinstance(domain, NonNegative)
    drawable = sets or (belief == "mixture" and not whole and has_law)
    if belief == "composition" and decode not in ("auto", "draw" if sets else "latent"):
        raise ValueError(f"decode={decode!r} does not go with belief='composition': leave it 'auto'")
    if decode == "auto":
        decode = "draw" if drawable else "latent"
    elif decode == "draw" and not drawable:
        raise ValueError(
            "decode='draw' needs a belief about x_0, which belief='mixture' has on real data: use decode='latent'"
        )
    if sets:
        process, lam_array = "binomial", np.ones(rows.columns)
        reasons["process"] = "binomial: the places of the non-zeros are thinned"
    else:
        lam_array = _choose_lam(lam, rows, all_columns, varying, domain, process, columns, reasons)
    totals = rows.filled() if sets else rows.totals()
    units_mean = float(totals.mean()) if sets else _tokens(lam_array, columns, domain, process)
    tail = float(np.quantile(totals, 0.999) / max(totals.mean(), 1e-300)) if len(totals) else 1.0
    chosen, last = _choose_schedule(schedule, units_mean, rows.columns, tail)
    one_of("network", network, tuple(NETWORKS))
    narrow = rows.columns <= FEW or belief == "composition"
    components = components or (8 if narrow and isinstance(domain, NonNegative | Count) else 4)
    gammas = np.zeros((3, 0, components))
    if belief == "composition" and rows.columns:
        gammas = _gammas(Rows(totals[:, None]), components, counts=True)
    elif belief == "mixture" and (isinstance(domain, Count) or process == "poisson"):
        gammas = _gammas(rows, components, counts=whole)
    return Plan(
        whole_domain=whole_domain,
        domain=domain,
        process=process,
        belief=belief,
        objective=objective,
        decode=decode,
        schedule=chosen,
        last=last,
        lam=lam_array,
        components=components,
        network=network,
        width=width or default_width(rows.columns),
        columns=columns,
        gammas=gammas,
        total_mean=float(totals.mean()),
        total_variance=float(totals.var()),
        total_largest=float(totals.max()),
        has_law=has_law,
        reasons=reasons,
    )


def _gammas(rows: Rows, components: int, counts: bool) -> np.ndarray:
    """The prior of every column: a mixture of Gammas; of at most about a million values."""
    stats = rows.statistics()
    means = stats.mean if counts else stats.mean / (1 - stats.zero_share)
    # Where little is seen of a column, exponentials around its mean.
    around = 4.0 ** np.linspace(-1, 1, components) if components > 1 else np.ones(1)
    alike = np.broadcast_to([[1 / components], [1.0]], (2, components))
    prior = (
        np.stack([np.vstack([alike, mean * around]) for mean in means], 1)
        if len(means)
        else np.zeros((3, 0, components))
    )
    if 0 < rows.columns < WIDE:
        some = rows.take(np.arange(0, rows.count, -(-rows.count * rows.columns // 10**6))).numpy().T
        for place, column in enumerate(some):
            if np.count_nonzero(column) >= LEAST:
                prior[:, place] = gamma_mixture(column if counts else column[column > 0], components, counts)
    return prior


def choose_belief(
    belief: str, domain: Domain, process: str, columns: int, zeros: float, scaled: bool, reasons: dict[str, str]
) -> str:
    """ "poisson", "mixture" or "composition"; ``scaled`` is whether Poisson JUMP or its λ was asked for."""
    belief = one_of("belief", belief, (*BELIEFS, "auto"))
    bounded = getattr(domain, "max", None) is not None and np.isfinite(np.asarray(domain.max)).any()  # type: ignore[attr-defined]
    counts = isinstance(domain, Count) and process == "binomial" and not bounded
    reals = isinstance(domain, NonNegative) and not scaled
    if belief == "auto":
        sparse = reals and zeros >= SPARSE
        belief = "composition" if (counts or sparse) and columns >= WIDE else "mixture"
        reasons["belief"] = f"{belief}: " + (
            f"{columns} columns of {'unbounded counts' if counts else f'reals, {zeros:.1%} of them zero'}"
            if belief == "composition"
            else f"the choice for {domain.name} data"
        )
    if belief == "composition" and not (counts or reals):
        raise ValueError(
            "belief='composition' lets the units of a row's total fall on columns, which needs counts and "
            "process='binomial', or non-negative reals with process and lam left 'auto': use belief='mixture'"
        )
    if belief == "poisson" and process == "binomial" and isinstance(domain, Simplex | Bounded):
        raise ValueError(f"belief='poisson' on {domain.name} data needs process='poisson': or use belief='mixture'")
    return belief


def _has_inner_zeros(columns: Columns) -> bool:
    """Whether simplex rows have zeros other than those of a whole that lies on one part."""
    at_vertex = np.where(columns.largest == 1, columns.full_share, 0).sum()
    return bool(columns.zero_share.sum() > at_vertex * (len(columns.mean) - 1) + 1e-12)


def _choose_lam(
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
    whole = isinstance(domain, Count | Binary | OneHot)
    pooled = process == "binomial" and isinstance(domain, Simplex | OneHot)
    size = 1 if pooled else rows.columns
    if not isinstance(lam, str):
        given = np.asarray(lam)
        if given.dtype.kind not in "uif" or given.ndim > 1 or not (np.isfinite(given).all() and (given > 0).all()):
            raise ValueError(f"lam must be 'auto', a positive number or one per column, got {lam!r}")
        if given.ndim == 1 and len(given) != (size if pooled else all_columns):
            raise ValueError(f"lam has {len(given)} values for {all_columns} columns: give one, or one per column")
        given = given[varying] if given.ndim == 1 and not pooled else given
        if process == "binomial" and whole and (given != 1).any():
            raise ValueError(
                "lam scales data for process='poisson'; binomial JUMP takes counts as they are: "
                "leave lam='auto', or use process='poisson'"
            )
        chosen = np.broadcast_to(given, (size,)).astype(np.float64)
    elif process == "binomial" and whole:
        return np.ones(size)
    else:
        chosen = _automatic_lam(rows, domain, pooled, process == "binomial", columns)
        reasons["lam"] = "the smallest that loses at most 1 % of the non-zeros" + (
            " and keeps columns comparable" if rows.columns > 1 else ""
        )
    if pooled or (process == "binomial" and isinstance(domain, Bounded)):
        return np.ceil(chosen)
    if (chosen * columns.largest > MAX_COUNT).any():
        raise ValueError("lam times the largest value is above 2^53, where counts are no longer exact: lower lam")
    return chosen


def _automatic_lam(rows: Rows, domain: Domain, pooled: bool, units: bool, columns: Columns) -> np.ndarray:
    chosen = rows.smallest_scale(pooled=pooled)
    if pooled:
        return np.minimum(chosen, MAX_COUNT)
    bound = np.broadcast_to(np.asarray(getattr(domain, "max", 1.0), dtype=float), columns.mean.shape) if units else None
    noise = columns.mean if bound is None else columns.mean * (1 - columns.mean / bound)
    if rows.columns > 1:
        chosen = np.maximum(chosen, RESOLUTION * noise / columns.variance)
    chosen = chosen if bound is None else chosen * bound
    return np.minimum(chosen, MAX_COUNT / np.maximum(columns.largest, 1.0) / 2)


def _tokens(lam: np.ndarray, columns: Columns, domain: Domain, process: str) -> float:
    """The expected count of a whole row at t = 0."""
    if process == "binomial" and isinstance(domain, Simplex | OneHot | Bounded):
        return float(lam.sum())
    return float((lam * columns.mean).sum())


def _choose_schedule(
    schedule: str | Schedule, tokens: float, columns: int, tail: float
) -> tuple[Schedule, float | None]:
    """A schedule object is taken as it is, on its even grid; a name is solved for the data, with a grid that starts late."""
    if isinstance(schedule, Schedule):
        return schedule, None
    one_of("schedule", schedule, SCHEDULES)
    if not columns:
        return Cosine(), None
    per_entry = tokens / columns
    chosen: Schedule
    if schedule == "linear-beta":
        # Almost empty data is below the paper's final log-SNR before it is thinned at all.
        chosen = LinearBeta.solve(per_entry, log_snr=min(LOG_SNR, math.log(per_entry) - 6))
    elif schedule == "geometric":
        chosen = Geometric(min(math.exp(LOG_SNR) / per_entry, 0.1))
    else:
        chosen = Cosine()
    return chosen, chosen.time(min(FIRST_TOKENS / tokens, 1 / max(tail * tokens, 1e-300), 0.5))


def build(plan: Plan) -> tuple[Process, Denoiser]:
    """The process and an untrained denoiser."""
    one_of("process", plan.process, PROCESSES)
    one_of("belief", plan.belief, BELIEFS)
    head = _bag_head(plan) if plan.belief == "composition" else _head(plan)
    network: nn.Module = NETWORKS[plan.network](head.inputs, head.outputs, plan.width)
    denoiser = Denoiser(network, head, plan.schedule)
    if isinstance(head, BagHead):
        return BagJump(head, plan.schedule, plan.last), denoiser
    return Jump(_encoding(plan), head, plan.schedule, plan.objective, plan.decode, plan.last), denoiser


def _bag_head(plan: Plan) -> BagHead:
    stats, mean = plan.columns, plan.total_mean
    prior = _prior(np.array([mean]), np.array([plan.total_variance - mean]), torch.ones(1))
    largest = torch.tensor([plan.total_largest], dtype=torch.float64)
    gammas = Gammas(torch.from_numpy(plan.gammas))
    total = CountHead(prior, largest, torch.tensor([False]), BINOMIALS, gammas)
    if isinstance(plan.domain, Count):
        return BagHead(torch.from_numpy(stats.mean / mean), total, plan.width)
    filled = 1 - stats.zero_share
    size = np.log(stats.mean / filled)
    row = float(np.average(stats.mean / filled, weights=filled) * mean)
    amounts = AmountHead(torch.from_numpy(size - math.log(row)), math.log(stats.mean.sum()), plan.components)
    return BagHead(torch.from_numpy(filled / mean), total, plan.width, amounts)


def point(process: BagJump, rows: Rows, some: np.ndarray) -> None:
    """Let the network of bags begin with the directions in which some of the rows differ most."""
    units = process.units(rows.bags(some)).csr()
    count = min(process.head.width, DIRECTION_ENTRIES // rows.columns, min(units.shape) - 1)
    if count > 0:
        process.head.start(*(torch.from_numpy(each).float() for each in directions(units, count)))


def _encoding(plan: Plan) -> Encoding:
    lam = torch.from_numpy(plan.lam)
    columns = len(plan.columns.mean)
    if plan.process == "poisson":
        return Randomised(lam)
    if isinstance(plan.domain, Simplex) or (isinstance(plan.domain, OneHot) and plan.belief == "mixture"):
        return Units(lam, columns)
    if isinstance(plan.domain, Bounded):
        return Units(lam, columns, _bounds(plan))
    return Exact(columns)


def _bounds(plan: Plan) -> Tensor:
    bound = np.broadcast_to(
        np.asarray(getattr(plan.domain, "max", None) or np.inf, dtype=float), plan.columns.mean.shape
    )
    return torch.from_numpy(bound.copy())


def _head(plan: Plan) -> Head:
    if plan.process == "binomial" and isinstance(plan.domain, OneHot | Simplex | Bounded) and plan.belief == "mixture":
        return _units_head(plan)
    stats = plan.columns
    lam = torch.from_numpy(plan.lam if plan.process == "poisson" else np.ones_like(stats.mean))
    count_noise = stats.mean if plan.process == "binomial" else 0.0
    prior = _prior(stats.mean, stats.variance - count_noise, lam)
    if plan.belief == "poisson":
        return PoissonHead(prior)
    if isinstance(plan.domain, NonNegative | Bounded | Simplex):
        return GammaHead(prior, torch.from_numpy(stats.zero_share), Gammas(torch.from_numpy(plan.gammas)))
    if plan.process == "poisson":
        unbounded = torch.zeros(len(stats.mean), dtype=torch.bool)
        gammas = Gammas(torch.from_numpy(plan.gammas))
        return CountHead(prior, torch.from_numpy(stats.largest), unbounded, plan.components, gammas, mixed=True)
    bound = _bounds(plan) if isinstance(plan.domain, Count) else torch.ones(len(stats.mean), dtype=torch.float64)
    bounded = bound.isfinite()
    largest = torch.where(bounded, bound, torch.from_numpy(stats.largest))
    if bool(bounded.all()):
        return CountHead(prior, largest, bounded, plan.components)
    gammas = Gammas(torch.from_numpy(plan.gammas))
    return CountHead(prior, largest, bounded, min(plan.components, BINOMIALS), gammas)


def _prior(mean: np.ndarray, variance: np.ndarray, lam: Tensor) -> Conjugate:
    """The Gamma prior by moments, its shape kept within reason."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = np.where(variance > 0, mean**2 / variance, np.inf)
    return Conjugate(torch.from_numpy(mean), torch.from_numpy(np.clip(shape, 0.1, 20.0)), lam.double())


def _units_head(plan: Plan) -> UnitsHead:
    stats, one_hot = plan.columns, isinstance(plan.domain, OneHot)
    if isinstance(plan.domain, Bounded):
        bound = _bounds(plan).numpy()
        mean, variance = stats.mean / bound, stats.variance / bound**2
        share = np.stack([mean, 1 - mean], -1)
        full = np.where(stats.largest == bound, stats.full_share, 0.0)
        vertex = np.stack([full, stats.zero_share], -1)
        strength = mean * (1 - mean) / variance - 1
    else:
        share = stats.mean[None]
        vertex = np.where(stats.largest == 1, stats.full_share, 0.0)[None]
        strength = np.array([np.median(stats.mean * (1 - stats.mean) / stats.variance - 1)])
    strength = np.clip(strength, 0.5, 1e4) if not one_hot else np.ones(1)
    components = 0 if one_hot else plan.components
    return UnitsHead(
        torch.from_numpy(share),
        torch.from_numpy(strength),
        torch.from_numpy(vertex),
        torch.from_numpy(plan.lam),
        components,
        plan.has_law,
    )


def family(domain: Domain) -> Domain:
    """The domain without its bound: a value above an inferred bound is impossible, not wrong."""
    return Count() if isinstance(domain, Count) else NonNegative() if isinstance(domain, Bounded) else domain


def check_scorable(plan: Plan) -> None:
    """Raise where the model gives the data no likelihood, and say what does."""
    if plan.belief == "composition" and isinstance(plan.domain, NonNegative):
        raise ValueError(
            "belief='composition' on non-negative reals is a sampler without a likelihood: use belief='mixture' to score"
        )
    if plan.process == "poisson" and not (plan.belief == "mixture" and isinstance(plan.domain, NonNegative)):
        change = "belief='mixture'" if isinstance(plan.domain, NonNegative) else "process='binomial'"
        raise ValueError(
            f"process='poisson' with belief={plan.belief!r} on {plan.domain.name} data gives no law of x_0, and so no likelihood "
            f"of the data: use {change}"
        )
    if not plan.has_law:
        raise ValueError(
            "simplex rows with exact zeros have no density: replace the zeros by small shares to score them"
        )
