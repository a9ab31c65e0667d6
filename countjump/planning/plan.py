"""The plan of a model, and the model from its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from countjump import domains
from countjump.blocks import BLOCKS, Block, Blocks
from countjump.data import Rows
from countjump.denoiser import Denoiser
from countjump.domains import Domain, NonNegative, Simplex
from countjump.networks import NETWORKS
from countjump.planning import decisions
from countjump.planning.decisions import one_of
from countjump.planning.parts import PLANNERS, Decided, Part, default_components, kind_of, plan_constants
from countjump.processes import Jump
from countjump.schedules import Schedule


@dataclass
class Plan:
    """Everything that decides a model's parts, resolved; plain values and arrays."""

    domain: Domain
    declared: bool
    """Whether the domain was declared, rather than inferred from the rows."""
    process: str
    belief: str
    objective: str
    schedule: Schedule
    t_max: float | None
    lam: np.ndarray
    """Of every column (1 for a constant one); for rows of proportions the number of units, once."""
    network: str
    width: int
    parts: list[Part]
    reasons: dict[str, str] = field(default_factory=dict)


def default_width(columns: int) -> int:
    """Hidden units of the network."""
    return 256 if columns >= 16 else 128


def make_plan(X: Any, asked: Mapping[str, Any]) -> Plan:
    """Resolve every "auto" of the options that were ``asked`` for, for these rows."""
    reasons: dict[str, str] = {}
    lam = asked["lam"]
    if isinstance(lam, str) and lam != "auto":
        raise ValueError(f"lam={lam!r} is unknown: use 'auto', a positive number, or one per column")
    domain = resolve_domain(asked["domain"], X, reasons)
    declared = isinstance(asked["domain"], Domain) or asked["domain"] not in ("auto", "bounded")
    process = decisions.choose_process(asked["process"], domain, lam, reasons)
    rows = Rows(X)
    stats = rows.statistics()
    scaled = asked["process"] == "poisson" or not isinstance(lam, str)
    zeros = float(stats.zero_share.mean())
    belief = decisions.choose_belief(asked["belief"], domain, process, X.shape[1], zeros, scaled, reasons)
    constant = stats.smallest == stats.largest
    if belief == "composition" and not constant.all():
        constant &= stats.largest > 0  # a wide column that was never seen may come all the same
    parts, varying = [], np.flatnonzero(~constant)
    if constant.any():
        sparse = belief == "composition" or Rows.is_sparse(X)
        parts.append(plan_constants(stats, np.flatnonzero(constant), domain, rows.count, sparse, declared))
    # What varies of a simplex is a simplex again, of what the constant shares leave.
    remainder = float(1 - stats.largest[constant].sum()) if isinstance(domain, Simplex) and len(varying) else 1.0
    if remainder <= 1e-6:
        raise ValueError(
            "the columns that never change add up to 1 and leave no share to the others: use domain='auto'"
        )
    mine = domain.select(varying)
    some = rows.select(varying).scaled(1 / remainder)
    stats = some.statistics()
    units = process == "binomial" and isinstance(mine, Simplex)
    if isinstance(mine, NonNegative) and (tiny := np.flatnonzero((stats.largest > 0) & (stats.largest < 1e-100))).size:
        column = varying[tiny[0]]
        raise ValueError(
            f"column {column} of X has no value above 1e-100, which no counts can tell from zero: multiply it"
        )
    has_law = not (units and decisions.has_inner_zeros(some))
    objective = decisions.choose_objective(asked["objective"], belief)
    decoding = decisions.choose_decoding(asked["decode"], belief, mine, has_law)
    sets = belief == "composition" and isinstance(mine, NonNegative)
    if sets:
        process = "binomial"
        reasons["process"] = "binomial: the places of the non-zeros are thinned"
    chosen_lam = decisions.choose_lam(lam, some, X.shape[1], varying, mine, process, stats, reasons)
    totals = some.filled() if sets else some.totals()
    expected = float(totals.mean()) if sets else decisions.expected_units(chosen_lam, stats, mine, process)
    tail = float(np.quantile(totals, 0.999) / max(totals.mean(), 1e-300)) if len(totals) else 1.0
    schedule, t_max = decisions.choose_schedule(asked["schedule"], expected, some.columns, tail)
    width, network = asked["width"] or default_width(some.columns), network_name(asked["network"])
    if len(varying):
        bounded = int(np.isfinite(mine.bounds(len(varying))).sum())
        decided = Decided(
            domain=mine,
            process=process,
            belief=belief,
            decoding=decoding,
            lam=chosen_lam,
            components=asked["components"] or default_components(some.columns, mine, belief),
            width=width,
            escape=1 / ((rows.count + 1) * bounded) if bounded and not declared else 0.0,
            remainder=remainder,
            layout=(X.shape[1], varying) if network not in NETWORKS and constant.any() else None,
        )
        kind = kind_of(decided)
        parts.append(Part(kind, varying, *PLANNERS[kind](some, stats, decided)))
    whole_lam = chosen_lam
    if len(chosen_lam) == len(varying) and len(varying) < X.shape[1]:
        whole_lam = np.ones(X.shape[1])
        whole_lam[varying] = chosen_lam
    return Plan(
        domain=domain,
        declared=declared,
        process=process,
        belief=belief,
        objective=objective,
        schedule=schedule,
        t_max=t_max,
        lam=whole_lam,
        network=network,
        width=width,
        parts=parts,
        reasons=reasons,
    )


def resolve_domain(asked: Any, X: Any, reasons: dict[str, str]) -> Domain:
    """A domain by its name, or what the data shows; the data is checked against it."""
    if isinstance(asked, Domain):
        domain = asked
    elif not isinstance(asked, str):
        made = f": write {asked.__name__}()" if isinstance(asked, type) and issubclass(asked, Domain) else ""
        raise TypeError(f"domain must be a name or a Domain, got {asked!r}{made}")
    elif one_of("domain", asked, ("auto", *domains.DOMAINS)) == "auto":
        domain, why = domains.infer(X)
        reasons["domain"] = f"{domain}: {why}"
    elif asked == "bounded":
        domain = domains.Bounded(float(X.max()) or 1.0)
    else:
        domain = domains.DOMAINS[asked]()
    domain.check(X)
    return domain


def network_name(network: Any) -> str:
    """The name of a network that is known, or of a class or factory of one's own."""
    if isinstance(network, str):
        return one_of("network", network, tuple(NETWORKS))
    if not callable(network):
        raise TypeError(
            f"network must be a name, a class or a factory called as (inputs, outputs, width), got {network!r}"
        )
    return f"own: {getattr(network, '__name__', type(network).__name__)}"


def build(
    plan: Plan, network: Callable[[int, int, int], nn.Module] | str
) -> tuple[Block, Jump | None, Denoiser | None]:
    """The block, the process and an untrained denoiser; without these two where no column varies."""
    block = build_block(plan.parts)
    if block.outputs == 0:
        return block, None, None
    make = NETWORKS[one_of("network", network, tuple(NETWORKS))] if isinstance(network, str) else network
    denoiser = Denoiser(make(block.inputs, block.outputs, plan.width), block, plan.schedule)
    return block, Jump(block, plan.schedule, plan.t_max, plan.objective), denoiser


def build_block(parts: list[Part]) -> Block:
    """One block, or several side by side."""
    blocks = []
    for part in parts:
        arrays: dict[str, Any] = {name: torch.from_numpy(array) for name, array in part.arrays.items()}
        options = dict(part.options)
        if "all_columns" in options:
            options["layout"] = (options.pop("all_columns"), arrays.pop("places"))
        kind = BLOCKS[one_of("block", part.kind, tuple(BLOCKS))]
        blocks.append(kind(**options, **arrays))
    if len(blocks) == 1:
        return blocks[0]
    return Blocks(blocks, [torch.from_numpy(part.columns) for part in parts])
