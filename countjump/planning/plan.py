"""The plan of a model, and the model from its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from countjump.blocks import BLOCKS, Block, Blocks
from countjump.data import Columns, Rows
from countjump.denoiser import Denoiser
from countjump.domains import Categorical, Count, Domain, NonNegative, OneHot, Simplex
from countjump.networks import MLP, NETWORKS, LinearPosterior, UNet, UNetSizes
from countjump.planning import decisions
from countjump.planning.decisions import WIDE, one_of
from countjump.planning.groups import NAMED, Group, Names, find_groups
from countjump.planning.parts import (
    PLANNERS,
    Decided,
    Part,
    default_components,
    kind_of,
    plan_categories,
    plan_constants,
)
from countjump.processes import Jump
from countjump.schedules import Schedule
from countjump.states import as_matrix

MOST_COUNTS = 256
"""Of a row, a level of a category being one: where some of them are known, as many equations are solved for every row."""

FEW_ROWS = 50
"""For each column, up to which the linear posterior tells a network more than it learns from them: see docs/design-notes.md."""


@dataclass
class Plan:
    """Everything that decides a model's parts, resolved; plain values and arrays."""

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
    picture: tuple[int, int] | None = None
    """Height and width, where rows are pictures."""
    sizes: UNetSizes | None = None
    """Of a U-Net."""
    linear: bool = False
    """Whether the network sees the linear posterior mean of the whole row, too, if that has at most :data:`MOST_COUNTS` counts."""

    @property
    def domain(self) -> Domain | dict[int, Domain]:
        """Of all columns, or of each if they differ. A constant column goes with the others."""
        varying = [part for part in self.parts if part.kind != "constant"] or self.parts
        found = {part.domain for part in varying}
        each = {
            int(column): part.domain.select(np.array([place]))
            for part in self.parts
            for place, column in enumerate(part.columns)
        }
        each = dict(sorted(each.items()))
        if len(found) > 1 or (len(varying) > 1 and isinstance(varying[0].domain, OneHot)):
            return each
        domain = found.pop()
        if not isinstance(domain.max, tuple) or len(domain.max) == len(each):
            return domain
        bounds = [each[column].bounds(1)[0] for column in range(len(each))]
        return replace(domain, max=tuple(bounds)) if isinstance(domain, Count) else each


def default_width(rows: int, columns: int) -> int:
    """Hidden units of the network: fewer for few columns, and for few rows of not many."""
    return 256 if columns > 4 and (rows >= 1000 or columns >= 32) else 128


@dataclass(frozen=True)
class Planned:
    """What is planned of a group of columns."""

    parts: list[Part]
    process: str
    belief: str
    lam: np.ndarray
    """Of every column of the group, or once."""
    units: float
    """The expected count of its part of a row."""
    totals: np.ndarray
    """In proportion to the count of every row."""
    entries: int


def make_plan(
    X: Any, asked: Mapping[str, Any], names: Names | None = None, strings: Mapping[int, int] | None = None
) -> Plan:
    """Resolve every "auto" of the options that were ``asked`` for, for these rows; columns of ``strings`` have so many levels.

    Columns behind those that have names say where values of others are missing.
    """
    reasons: dict[str, str] = {}
    lam = asked["lam"]
    if isinstance(lam, str) and lam != "auto":
        raise ValueError(f"lam={lam!r} is unknown: use 'auto', a positive number, or one per column")
    called = names or Names(X.shape[1])
    gaps = X.shape[1] - called.count
    scaled = asked["process"] == "poisson" or not isinstance(lam, str) or asked["belief"] not in ("auto", "mixture")
    table = X[:, : X.shape[1] - gaps] if gaps else X
    groups = find_groups(table, asked["domain"], asked.get("transform", "auto"), called, strings or {}, scaled, reasons)
    if gaps:
        groups.append(Group(Categorical(), np.arange(table.shape[1], X.shape[1]), False))
    network = network_name(asked["network"])
    if network == "unet":
        raise ValueError(
            "network='unet' needs pictures, X of shape (N, height, width) or with channels: reshape X, or use 'mlp'"
        )
    network = "mlp" if network == "auto" else network
    planned = []
    for group in groups:
        own: dict[str, str] = {}
        planned.append(_plan_group(X, group, asked, network, called, own))
        for name, sentence in own.items():
            said = sentence if name == "atoms" or len(groups) == 1 else f"{group.domain.name} columns: {sentence}"
            reasons[name] = f"{reasons[name]}; {said}" if name in reasons else said
    units = sum(each.units for each in planned)
    totals = sum(each.totals * (each.units / max(each.totals.mean(), 1e-300)) for each in planned if len(each.totals))
    tail = float(np.quantile(totals, 0.999) / max(np.mean(totals), 1e-300)) if units else 1.0
    entries = sum(each.entries for each in planned)
    schedule, t_max = decisions.choose_schedule(asked["schedule"], units, entries, tail)
    if len(planned) == 1:
        whole_lam = planned[0].lam
    else:
        whole_lam = np.ones(X.shape[1])
        for group, each in zip(groups, planned, strict=True):
            whole_lam[group.columns] = each.lam
    return Plan(
        process=_one_name(each.process for each in planned),
        belief=_one_name(each.belief for each in planned),
        objective=decisions.choose_objective(asked["objective"], _one_name(each.belief for each in planned)),
        schedule=schedule,
        t_max=t_max,
        lam=whole_lam,
        network=network,
        width=asked["width"] or default_width(X.shape[0], entries),
        parts=[part for each in planned for part in each.parts],
        reasons=reasons,
        linear=network == "mlp"
        and 1 < entries < WIDE
        and X.shape[0] < FEW_ROWS * entries
        and asked["belief"] != "poisson",
    )


def _one_name(names: Iterable[str]) -> str:
    """The name that all have, or "mixed"."""
    distinct = set(names)
    return distinct.pop() if len(distinct) == 1 else "mixed"


def _plan_group(
    X: Any, group: Group, asked: Mapping[str, Any], network: str, names: Names, reasons: dict[str, str]
) -> Planned:
    """Process, belief, λ and decoding of a group, and the parts that it becomes."""
    domain, lam = group.domain, asked["lam"]
    every = len(group.columns) == X.shape[1]
    rows = Rows(X) if every else Rows(X).select(group.columns)
    raw = rows.statistics()
    constant = raw.smallest == raw.largest
    if isinstance(domain, Categorical) or (isinstance(domain, OneHot) and not every):
        return _plan_categories(rows, group, domain, raw, constant)
    process = decisions.choose_process(asked["process"], domain, lam, reasons)
    scaled = asked["process"] == "poisson" or not isinstance(lam, str)
    zeros = float(raw.zero_share.mean())
    # A wide composition takes counts as they are.
    coded = group.coding is not None and not group.coding.is_trivial
    wanted = "mixture" if coded and asked["belief"] == "auto" else asked["belief"]
    belief = decisions.choose_belief(wanted, domain, process, len(group.columns), zeros, scaled, reasons)
    if belief == "composition" and not constant.all():
        constant &= raw.largest > 0  # a wide column that was never seen may come all the same
    parts, varying = [], np.flatnonzero(~constant)
    if constant.any():
        sparse = belief == "composition" or Rows.is_sparse(X)
        parts.append(plan_constants(raw, group, np.flatnonzero(constant), rows.count, sparse))
    # What varies of a simplex is a simplex again, of what the constant shares leave.
    remainder = float(1 - raw.largest[constant].sum()) if isinstance(domain, Simplex) and len(varying) else 1.0
    if remainder <= 1e-6:
        raise ValueError(
            "the columns that never change add up to 1 and leave no share to the others: use domain='auto'"
        )
    mine = domain.select(varying)
    some = rows.select(varying).scaled(1 / remainder)
    coding = None if group.coding is None else group.coding[varying]
    if coding is not None and not coding.is_trivial:
        some = Rows(coding.code(some.dense(np.arange(some.count))))
    stats = some.statistics()
    units = process == "binomial" and isinstance(mine, Simplex)
    if isinstance(mine, NonNegative) and (tiny := np.flatnonzero((stats.largest > 0) & (stats.largest < 1e-100))).size:
        column = names[group.columns[varying[tiny[0]]]]
        raise ValueError(
            f"column {column} of X has no value above 1e-100, which no counts can tell from zero: multiply it"
        )
    has_law = not (units and decisions.has_inner_zeros(some))
    decoding = decisions.choose_decoding(asked["decode"], belief, mine, has_law)
    sets = belief == "composition" and isinstance(mine, NonNegative)
    if sets:
        process = "binomial"
        reasons["process"] = "binomial: the places of the non-zeros are thinned"
    columns = group.columns[varying]
    chosen_lam = decisions.choose_lam(lam, some, X.shape[1], columns, mine, process, stats, reasons)
    totals = some.filled() if sets else some.totals()
    expected = float(totals.mean()) if sets else decisions.expected_units(chosen_lam, stats, mine, process)
    width = asked["width"] or default_width(rows.count, some.columns)
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
            escape=1 / ((rows.count + 1) * bounded) if bounded and not group.declared else 0.0,
            remainder=remainder,
            layout=(X.shape[1], columns) if network not in NETWORKS and not (every and not constant.any()) else None,
            atoms=not group.declared or isinstance(mine, NonNegative | Count),
            cells=None if group.decimals is None else group.decimals[varying],
        )
        kind = kind_of(decided)
        parts.append(Part(kind, columns, mine, *PLANNERS[kind](some, stats, decided), coding=coding))
        _say_atoms(parts[-1], names, reasons)
    whole_lam = chosen_lam
    if len(chosen_lam) == len(varying) and len(varying) < len(group.columns):
        whole_lam = np.ones(len(group.columns))
        whole_lam[varying] = chosen_lam
    return Planned(parts, process, belief, whole_lam, expected, totals, some.columns)


def _say_atoms(part: Part, names: Names, reasons: dict[str, str]) -> None:
    """Which values of which columns have a mass of their own."""
    if "vertex_share" in part.arrays and "bounds" in part.arrays:  # the ends of bounded reals
        shares, upper = part.arrays["vertex_share"], part.arrays["bounds"]
        atoms = np.stack([upper, np.zeros_like(upper)], -1)
    elif "atoms" in part.arrays:
        shares, atoms = part.arrays["atom_shares"], part.arrays["atoms"]
    else:
        return
    if part.coding is not None:
        atoms = part.coding.decode(atoms.T.copy()).T
    said = []
    for place, column in enumerate(part.columns):
        order = np.argsort(-shares[place], kind="stable")[: int((shares[place] > 0).sum())]
        order = order[~np.isclose(atoms[place, order], names.stand_ins.get(int(column), np.nan), 1e-9)]
        shown = ", ".join(
            f"{names.written(int(column), atoms[place, at])} ({shares[place, at]:.1%})" for at in order[:3]
        )
        if len(order):
            more = f" and {len(order) - 3} more" if len(order) > 3 else ""
            said.append(f"{names[column]}: {shown}{more}")
    if said:
        more = f"; and of {len(said) - NAMED} more columns" if len(said) > NAMED else ""
        reasons["atoms"] = "; ".join(said[:NAMED]) + more


def _plan_categories(
    rows: Rows, group: Group, domain: Categorical | OneHot, raw: Columns, constant: np.ndarray
) -> Planned:
    """Columns of levels, or one group of 0/1 columns."""
    dummies = isinstance(domain, OneHot)
    if isinstance(domain, Categorical) and domain.levels is not None and len(domain.levels) > 1:
        constant = np.zeros_like(constant)  # the other levels may come all the same
    varying = np.flatnonzero(~constant)
    parts = []
    if constant.any() and not dummies:
        parts.append(plan_constants(raw, group, np.flatnonzero(constant), rows.count, False))
    if dummies or len(varying):
        used = np.arange(len(group.columns)) if dummies else varying
        options, arrays = plan_categories(rows.select(used), domain, group.declared)
        parts.append(Part("categories", group.columns[used], domain, options, arrays))
    groups = 1 if dummies else len(varying)
    return Planned(
        parts,
        "binomial",
        "mixture",
        np.ones(len(group.columns)),
        float(groups),
        np.full(rows.count, float(groups)),
        groups,
    )


def network_name(network: Any) -> str:
    """The name of a network that is known, or of a class or factory of one's own."""
    if isinstance(network, UNetSizes):
        return "unet"
    if isinstance(network, str):
        return one_of("network", network, (*NETWORKS, "auto"))
    if not callable(network):
        raise TypeError(
            f"network must be a name, a class or a factory called as (inputs, outputs, width), got {network!r}"
        )
    return f"own: {getattr(network, '__name__', type(network).__name__)}"


def build(
    plan: Plan, network: Callable[[int, int, int], nn.Module] | UNetSizes | str
) -> tuple[Block, Jump | None, Denoiser | None]:
    """The block, the process and an untrained denoiser; without these two where no column varies."""
    block = build_block(plan.parts)
    if block.outputs == 0:
        return block, None, None
    counts = as_matrix(block.empty(1, "cpu")).shape[1] if plan.linear and not block.sparse else 0
    linear = LinearPosterior(counts) if 0 < counts <= MOST_COUNTS else None
    inputs = block.inputs + (0 if linear is None else linear.size)
    if isinstance(network, str | UNetSizes):
        made = make_network(plan.network, inputs, block.outputs, plan.width, plan.picture, plan.sizes)
    else:
        made = network(inputs, block.outputs, plan.width)
    denoiser = Denoiser(made, block, plan.schedule, linear=linear)
    return block, Jump(block, plan.schedule, plan.t_max, plan.objective), denoiser


def make_network(
    name: str, inputs: int, outputs: int, width: int, picture: tuple[int, int] | None, sizes: UNetSizes | None
) -> nn.Module:
    """One of those that are known by name; a U-Net is that of a picture's height and width."""
    if name != "unet":
        return MLP(inputs, outputs, width)
    if picture is None:
        raise ValueError("a U-Net of no picture")
    return UNet(inputs, outputs, width, picture, sizes)


def build_block(parts: list[Part]) -> Block:
    """One block, or several side by side."""
    blocks = []
    for part in parts:
        arrays: dict[str, Any] = {name: torch.from_numpy(array) for name, array in part.arrays.items()}
        options = dict(part.options)
        if "all_columns" in options:
            options["layout"] = (options.pop("all_columns"), arrays.pop("places"))
        kind = BLOCKS[one_of("block", part.kind, tuple(BLOCKS))]
        block = kind(**options, **arrays)
        block.coding = part.coding
        blocks.append(block)
    if len(blocks) == 1:
        return blocks[0]
    return Blocks(blocks, [torch.from_numpy(part.columns) for part in parts])
