"""Parts of a plan: a block's kind, its columns, and the plain values and arrays from which it is built. One planner per kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from countjump.data import Columns, Rows
from countjump.domains import Bounded, Categorical, Count, Domain, NonNegative, OneHot, Simplex
from countjump.planning.atoms import MOST_FREE, Margin, basis, count_margin, find_margin
from countjump.planning.decisions import WIDE, has_inner_zeros
from countjump.priors import gamma_mixture
from countjump.transforms import Coding

FEW = 4  # columns, up to which there are twice as many components: their tails are worth it
LEAST = 10  # non-zeros of a column that a prior is fitted to, at least
BINOMIALS = 4  # beside the negative binomials of a count


@dataclass
class Part:
    """A block's recipe: its ``kind``, the ``columns`` that it has, their ``domain``, its constructor's arguments and its coding."""

    kind: str
    columns: np.ndarray
    domain: Domain
    options: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    coding: Coding | None = None


@dataclass(frozen=True)
class Decided:
    """What is decided about a group of columns before its part is planned."""

    domain: Domain
    process: str
    belief: str
    decoding: str
    lam: np.ndarray
    components: int
    width: int
    escape: float
    remainder: float
    layout: tuple[int, np.ndarray] | None
    atoms: bool = False
    """Whether atoms are looked for."""
    cells: np.ndarray | None = None
    """Digits behind the point of every column, −1 for any number; None where that is not known."""


Recipe = tuple[dict[str, Any], dict[str, np.ndarray]]
"""The arguments of a block's constructor: plain values, and arrays."""

Planner = Callable[[Rows, Columns, Decided], Recipe]


def kind_of(decided: Decided) -> str:
    """The kind of block for a group of columns."""
    if decided.belief == "composition":
        return "sparse-counts" if isinstance(decided.domain, Count) else "sparse-reals"
    proportions = isinstance(decided.domain, OneHot | Simplex | Bounded)
    if decided.process == "binomial" and proportions and decided.belief == "mixture":
        return "units"
    if decided.belief == "poisson":
        return "poisson"
    return "reals" if isinstance(decided.domain, NonNegative | Bounded | Simplex) else "counts"


def default_components(columns: int, domain: Domain, belief: str) -> int:
    """Components of each family of a mixture."""
    few = columns <= FEW or belief == "composition"
    return 8 if few and isinstance(domain, NonNegative | Count) else 4


def plan_columns(rows: Rows, stats: Columns, decided: Decided) -> Recipe:
    """What all blocks of columns apart have, and all that the paper's has."""
    noise = stats.mean if decided.process == "binomial" else 0.0
    options = {"domain": decided.domain, "decoding": decided.decoding, "escape": decided.escape}
    arrays = {
        "mean": stats.mean,
        "shape": gamma_shape(stats.mean, stats.variance - noise),
        "bounds": decided.domain.bounds(rows.columns),
    }
    if decided.process == "poisson":
        arrays["lam"] = decided.lam
    if decided.layout is not None:
        options["all_columns"], arrays["places"] = decided.layout
    return options, arrays


def plan_counts(rows: Rows, stats: Columns, decided: Decided) -> Recipe:
    """Counts: the rates' mixture of Gammas, unless every column is bounded."""
    options, arrays = plan_columns(rows, stats, decided)
    components = decided.components
    if decided.process == "poisson":
        arrays["bounds"] = np.full(rows.columns, np.inf)
    bounded = np.isfinite(arrays["bounds"])
    arrays["largest"] = np.where(bounded, arrays["bounds"], stats.largest)
    if decided.atoms and decided.process == "binomial" and rows.columns < WIDE:
        found = [
            count_margin(column, bound, components, rows.count)
            for column, bound in zip(_some(rows).T, arrays["bounds"], strict=True)
        ]
        arrays |= _atoms(found, rows.count)
        smooth = np.array([margin.shares.sum() < 1 - 1e-9 for margin in found])
        arrays["leveled"] = smooth & (arrays["bounds"] < MOST_FREE)
        if smooth.any():
            gammas = fit_gammas(rows, stats, components, counts=True, but=smooth)
            for place in np.flatnonzero(smooth):
                gammas[:, place] = found[place].mixture
            arrays["gammas"] = gammas
    elif not bounded.all():
        arrays["gammas"] = fit_gammas(rows, stats, components, counts=True)
    if "gammas" in arrays:
        components = min(components, BINOMIALS) if decided.process == "binomial" else components
    return options | {"components": components}, arrays


def plan_reals(rows: Rows, stats: Columns, decided: Decided) -> Recipe:
    """Reals: a mixture of Gammas fitted to what is not zero."""
    options, arrays = plan_columns(rows, stats, decided)
    zeros = [np.array([share]) if share else np.zeros(0) for share in stats.zero_share]
    found = [Margin(np.zeros(len(share)), share, np.zeros((3, 0))) for share in zeros]
    fitted = np.zeros(rows.columns, dtype=bool)
    if decided.atoms and rows.columns < WIDE:
        digits = np.full(rows.columns, -1) if decided.cells is None else decided.cells
        for place, column in enumerate(_some(rows).T):
            if np.count_nonzero(column) >= LEAST:
                cell = None if digits[place] < 0 else 10.0 ** -float(digits[place])
                found[place], fitted[place] = find_margin(column, decided.components, False, cell), True
    gammas = fit_gammas(rows, stats, decided.components, counts=False, but=fitted)
    for own in np.flatnonzero(fitted):
        gammas[:, own] = found[own].mixture
    options["zero_escape"] = 1 / ((rows.count + 1) * rows.columns)
    return options, arrays | _atoms(found, rows.count) | {"gammas": gammas}


def _some(rows: Rows) -> np.ndarray:
    """At most about a million values, as dense rows."""
    return rows.dense(np.arange(0, rows.count, max(-(-rows.count * rows.columns // 10**6), 1)))


def _atoms(found: list[Margin], rows: int) -> dict[str, np.ndarray]:
    """The atoms of every column, their shares (D, A) and the basis of their log-odds (D, A, J), filled up with zeros."""
    bases = [basis(margin.atoms, margin.shares, rows) for margin in found]
    most = [max((each.shape[axis] for each in bases), default=0) for axis in (0, 1)]
    arrays = {name: np.zeros((len(found), most[0])) for name in ("atoms", "atom_shares")}
    arrays["basis"] = np.zeros((len(found), *most))
    for place, (margin, each) in enumerate(zip(found, bases, strict=True)):
        count = len(margin.atoms)
        arrays["atoms"][place, :count], arrays["atom_shares"][place, :count] = margin.atoms, margin.shares
        arrays["basis"][place, :count, : each.shape[1]] = each
    return arrays


def plan_categories(rows: Rows, domain: OneHot | Categorical, declared: bool) -> Recipe:
    """Columns of levels, or one group of 0/1 columns (a one-hot ``domain``)."""
    dense = rows.dense(np.arange(rows.count))
    if isinstance(domain, OneHot):
        levels, totals, dummies = [np.arange(rows.columns, dtype=float)], [dense.sum(0)], np.ones(1, dtype=bool)
    else:
        known = domain.places()
        levels = [np.unique(column) if known is None else known for column in dense.T]
        totals = [
            np.array([(column == level).sum() for level in each]) for column, each in zip(dense.T, levels, strict=True)
        ]
        dummies = np.zeros(rows.columns, dtype=bool)
    most = max(len(each) for each in levels)
    arrays = {"levels": np.zeros((len(levels), most)), "shares": np.zeros((len(levels), most))}
    for group, (values, total) in enumerate(zip(levels, totals, strict=True)):
        arrays["levels"][group, : len(values)] = values
        # A declared level that was never seen has half a row.
        arrays["shares"][group, : len(values)] = np.maximum(total, 0.5) / np.maximum(total, 0.5).sum()
    certain = declared and (isinstance(domain, OneHot) or domain.levels is not None)
    escape = 0.0 if certain else 1 / ((rows.count + 1) * len(levels))
    sizes = np.array([len(each) for each in levels])
    return {"domain": domain, "escape": escape}, arrays | {"sizes": sizes, "dummies": dummies}


def plan_units(rows: Rows, stats: Columns, decided: Decided) -> Recipe:
    """Proportions: a Dirichlet prior by moments, and atoms at the vertices."""
    one_hot, arrays = isinstance(decided.domain, OneHot), {}
    if isinstance(decided.domain, Bounded):
        bound = decided.domain.bounds(rows.columns)
        mean, variance = stats.mean / bound, stats.variance / bound**2
        share = np.stack([mean, 1 - mean], -1)
        full = np.where(stats.largest == bound, stats.full_share, 0.0)
        vertex = np.stack([full, stats.zero_share], -1)
        strength = mean * (1 - mean) / variance - 1
        arrays["bounds"] = bound
    else:
        share = stats.mean[None]
        vertex = np.where(stats.largest == 1, stats.full_share, 0.0)[None]
        strength = np.array([np.median(stats.mean * (1 - stats.mean) / stats.variance - 1)])
    options = {
        "domain": decided.domain,
        "components": 0 if one_hot else decided.components,
        "has_law": not (isinstance(decided.domain, Simplex) and has_inner_zeros(rows)),
        "decoding": decided.decoding,
        "remainder": decided.remainder,
        "escape": decided.escape,
        "zero_escape": 1 / ((rows.count + 1) * (rows.columns if "bounds" in arrays else 1)),
    }
    strength = np.ones(1) if one_hot else np.clip(strength, 0.5, 1e4)
    return options, arrays | {"share": share, "strength": strength, "vertex_share": vertex, "total": decided.lam}


def plan_sparse_counts(rows: Rows, stats: Columns, decided: Decided) -> Recipe:
    """Wide counts: the prior of the total, and every column's share.

    Columns that were never seen together expect 1/(rows + 1) units in a row.
    """
    totals = rows.totals()
    mean, variance = float(totals.mean()), float(totals.var())
    options = {
        "width": decided.width,
        "total_mean": mean,
        "total_shape": float(gamma_shape(np.array([mean]), np.array([variance - mean]))[0]),
        "total_largest": float(totals.max()),
    }
    total = Rows(totals[:, None])
    unseen = stats.mean == 0
    expected = np.where(unseen, 1 / ((rows.count + 1) * max(unseen.sum(), 1)), stats.mean)
    return options, {
        "shares": expected / expected.sum(),
        "unseen": unseen,
        "total_gammas": fit_gammas(total, total.statistics(), decided.components, counts=True),
    }


def plan_sparse_reals(rows: Rows, stats: Columns, decided: Decided) -> Recipe:
    """Wide reals: every column's share of the non-zeros, and its mean where it is not zero."""
    filled = 1 - stats.zero_share
    seen = filled > 0
    expected = np.where(seen, filled, 1 / ((rows.count + 1) * max(np.sum(~seen), 1)))
    size = np.log(np.where(seen, stats.mean / np.where(seen, filled, 1.0), 1.0))
    size[~seen] = size[seen].mean()
    options = {"width": decided.width, "filled": float(filled.sum()), "components": decided.components}
    return options, {"shares": expected / expected.sum(), "log_size": size}


PLANNERS: dict[str, Planner] = {
    "poisson": plan_columns,
    "counts": plan_counts,
    "reals": plan_reals,
    "units": plan_units,
    "sparse-counts": plan_sparse_counts,
    "sparse-reals": plan_sparse_reals,
}


def plan_constants(stats: Columns, group: Any, places: np.ndarray, rows: int, sparse: bool) -> Part:
    """Columns of a group that never change; a declared domain bounds what they may be all the same."""
    arrays = {"values": stats.largest[places], "whole": np.full(len(places), group.domain.whole)}
    if group.declared and group.coding is None:
        arrays["bounds"] = group.domain.bounds(len(stats.largest))[places]
    domain = group.domain.select(places)
    return Part("constant", group.columns[places], domain, {"rows": rows, "sparse": sparse}, arrays)


def gamma_shape(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Of the Gamma prior by moments, kept within reason."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = np.where(variance > 0, mean**2 / variance, np.inf)
    return np.clip(shape, 0.1, 20.0)


def fit_gammas(rows: Rows, stats: Columns, components: int, counts: bool, but: np.ndarray | None = None) -> np.ndarray:
    """The prior of every column (3, D, K), but of those in ``but``: a mixture of Gammas; of at most about a million values."""
    means = stats.mean if counts else stats.mean / (1 - stats.zero_share)
    # Where little is seen of a column, exponentials around its mean.
    around = 4.0 ** np.linspace(-1, 1, components) if components > 1 else np.ones(1)
    alike = np.broadcast_to([[1 / components], [1.0]], (2, components))
    if not len(means):
        return np.zeros((3, 0, components))
    prior = np.stack([np.vstack([alike, mean * around]) for mean in means], 1)
    if rows.columns < WIDE:
        for place, column in enumerate(_some(rows).T):
            if (but is None or not but[place]) and np.count_nonzero(column) >= LEAST:
                prior[:, place] = gamma_mixture(column if counts else column[column > 0], components, counts)
    return prior
