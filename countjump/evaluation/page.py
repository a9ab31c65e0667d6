"""The page of an evaluation: what the template needs, ready to be shown."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from countjump._version import __version__
from countjump.evaluation.columns import ColumnFit
from countjump.evaluation.joint import AUC_DRAWS, PAIR_DRAWS, JointFit
from countjump.evaluation.measures import ORDER, Measure, sample
from countjump.evaluation.verdict import ROW_NAMES
from countjump.metrics.reading import Table
from countjump.metrics.rows import row_numbers
from countjump.report.charts import bars, heat_map, histogram, scatter
from countjump.report.page import render

CHARTS = 48
"""The columns, worst first, that have a chart."""

CHART_ROWS = 20_000
MAP_COLUMNS = 22
STATIC_ROWS = 40
"""Lines of the table of columns that are there without JavaScript, as on paper."""

NAMES = {
    "pair_error": "Pairs of columns: mean error",
    "dependence_kept": "Dependence that is kept",
    "two_sample_auc": "Two-sample AUC",
    "accuracy": "Accuracy, trained on synthetic rows",
    "r_squared": "R², trained on synthetic rows",
    "guess": "The same answer for all",
    "exact_copies": "Exact copies",
    "near_copies": "Near copies",
    "closest_record": "Distance to the closest record",
    "membership_auc": "Membership-inference AUC",
    "members_found": "Training rows that are found",
}

WORRY = {
    "pair_error": "when it is several times its floor.",
    "dependence_kept": "below 80 %; below 50 % the joint structure is lost.",
    "two_sample_auc": "above 0.6, and do not rely on the rows above 0.8.",
    "accuracy": "when less than 90 % of what real rows gain over a guess is left.",
    "r_squared": "when less than 90 % of what real rows explain is left.",
    "exact_copies": "when it is above its floor: each is a real person's row.",
    "near_copies": "when it is above its floor: real rows with a little noise are still real rows.",
    "closest_record": "below 0.75; below 0.5 the rows shadow the real ones.",
    "membership_auc": "above 0.52 and more than 3.5 standard errors from 0.5.",
    "members_found": "when it is above its floor, even where the AUC is near 0.5.",
}

_SHARES = {"dependence_kept", "accuracy", "exact_copies", "near_copies", "members_found", "guess"}


def page(found: Any) -> str:
    """One HTML file, from an ``Evaluation``."""
    tables, fit = found.tables, found.columns
    return render(
        "evaluation.html",
        verdict=found.verdict,
        notes=tables.notes,
        facts=_facts(found),
        columns=_column_rows(fit),
        data=_json(_column_rows(fit)),
        static_rows=STATIC_ROWS,
        cards=_cards(tables.real, tables.synthetic, fit),
        column_rows=fit.rows,
        column_draws=fit.draws,
        wide_floor=_is_wide(fit),
        rows=_row_charts(found),
        joint=[_shown(measure) for measure in found.joint.measures if measure.metric != "gives_away"],
        joint_fit=found.joint,
        maps=_maps(found.joint),
        away=_away(found.joint),
        away_wide=tables.real.wide,
        cloud=scatter(*found.joint.points[:2]) if found.joint.points else "",
        useful=found.useful,
        useful_lines=[_shown(measure) for measure in found.useful.measures] if found.useful else [],
        safety=[_shown(measure) for measure in found.safety.measures],
        safety_fit=found.safety,
        safety_chart=histogram(found.safety.usual, found.safety.synthetic),
        limits=_limits(found),
    )


def _facts(found: Any) -> list[tuple[str, str]]:
    tables = found.tables
    sizes = f"{len(tables.real):,} real, {len(tables.synthetic):,} synthetic"
    sizes += f", {len(tables.holdout):,} held-out" if tables.holdout is not None else ", no held-out"
    kinds = [column.kind for column in tables.real.columns]
    plural = {"number": "numbers", "category": "categories", "date": "dates"}
    shape = ", ".join(f"{kinds.count(kind):,} of {plural[kind]}" for kind in plural if kind in kinds)
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn", "pandas"))
    return [
        ("Rows", sizes),
        ("Columns", f"{len(kinds):,}: {shape}" + (" (sparse)" if tables.real.wide else "")),
        ("Label", found.label or "none named"),
        ("Seed", str(found.seed)),
        ("Versions", f"countjump {__version__}, {packages}, Python {platform.python_version()}"),
    ]


def _limits(found: Any) -> list[tuple[str, str]]:
    """How much of the data each part saw."""
    joint, safety, fit = found.joint, found.safety, found.columns
    lines = [
        ("Columns and rows", f"{fit.rows:,} rows of each side, {fit.draws} random draws"),
        ("Pairs of columns", f"{joint.pair_rows:,} rows, {PAIR_DRAWS} draws, {len(joint.names):,} columns"),
        ("Two-sample AUC", f"{joint.auc_rows:,} rows of each side, {AUC_DRAWS} draws"),
        ("Copies and distances", f"{safety.queries:,} synthetic rows against {safety.reference:,} real ones"),
    ]
    if found.useful:
        lines.append(("Usefulness", f"trained on {found.useful.rows:,} rows, tested on {found.useful.tested_on}"))
    return lines


def _is_wide(fit: ColumnFit) -> bool:
    floor, sd = fit.floor["distance"], fit.floor_sd["distance"]
    there = floor > 0
    return bool(there.any() and np.median(sd[there] / floor[there]) > 0.3) and fit.rows < 1000


def _column_rows(fit: ColumnFit) -> list[list[Any]]:
    """A line per column, the worst first: what the table shows, in its order; the excess and the judgement come last."""
    effect = fit.effect
    found = []
    for j in fit.order:
        pairs = [
            each[name][j]
            for name in ("zero_share", "missing_share", "q99", "q999")
            for each in (fit.real, fit.synthetic)
        ]
        value, floor = fit.value["distance"][j], fit.floor["distance"][j]
        ratio = value / floor if floor > 0 else np.nan
        numbers = [value, floor, fit.floor_sd["distance"][j], ratio, effect[j], *pairs]
        column = fit.columns[j]
        last = [min(float(np.nan_to_num(fit.excess[j], posinf=1e9)), 1e9), ORDER.index(fit.judgement[j])]
        found.append([column.name, column.kind, *(_digits(number) for number in [*numbers, *last])])
    return found


def _digits(number: float) -> float | None:
    return float(f"{number:.4g}") if np.isfinite(number) else None


def _json(value: Any) -> str:
    """Inside of a script element: no end tag, no line separator."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _cards(real: Table, synthetic: Table, fit: ColumnFit) -> list[dict[str, Any]]:
    chosen = fit.order[:CHARTS]
    sides = [sample(table, CHART_ROWS, 0).select(chosen) for table in (real, synthetic)]
    dense = [side.values.toarray() if side.wide else side.values for side in sides]
    lines = _column_rows(fit)[: len(chosen)]
    found = []
    for place, (j, line) in enumerate(zip(chosen, lines, strict=True)):
        column = fit.columns[j]
        a, b = (values[:, place] for values in dense)
        a, b = (values[~np.isnan(values)] for values in (a, b))
        if column.kind == "category":
            count = len(column.levels)
            parts = [np.bincount(x.astype(int), minlength=count) / max(len(x), 1) for x in (a, b)]
            chart = bars(column.levels, *parts)
        else:
            chart = histogram(a.astype(np.float64), b.astype(np.float64), column.whole, column.kind == "date")
        found.append({"name": column.name, "kind": column.kind, "chart": chart, "line": line, "word": fit.judgement[j]})
    return found


def _row_charts(found: Any) -> list[dict[str, Any]]:
    if found.rows is None:
        return []
    both = [row_numbers(sample(table, CHART_ROWS, 0)) for table in (found.tables.real, found.tables.synthetic)]
    lines = []
    fit = found.rows
    for j, column in enumerate(fit.columns):
        a, b = (numbers.get(column.name, np.zeros(0)) for numbers in both)
        whole = bool((a == np.floor(a)).all() and (b == np.floor(b)).all())
        value, floor, sd = (float(each["distance"][j]) for each in (fit.value, fit.floor, fit.floor_sd))
        line = {"name": ROW_NAMES[column.name].capitalize(), "chart": histogram(a, b, whole), "word": fit.judgement[j]}
        lines.append({**line, "value": value, "floor": floor, "sd": sd})
    return lines


def _shown(measure: Measure) -> dict[str, Any]:
    share = measure.metric in _SHARES
    return {
        "name": NAMES[measure.metric],
        "value": _text(measure.value, share),
        "floor": _text(measure.floor, share),
        "sd": _text(measure.floor_sd, share),
        "word": measure.judgement,
        "meaning": measure.meaning,
        "worry": WORRY.get(measure.metric, ""),
    }


def _text(number: float, share: bool) -> str:
    if np.isnan(number):
        return ""
    return f"{100 * number:.1f} %" if share else f"{number:.3f}"


def _maps(joint: JointFit) -> dict[str, Any] | None:
    """The columns that hang together the most, beside those of pairs that went wrong; alike ones side by side."""
    if len(joint.names) < 3:
        return None
    strength = np.abs(joint.real).sum(axis=0)
    place = {name: j for j, name in enumerate(joint.names)}
    first = [place[name] for pair in joint.pairs[:4] for name in pair[:2]]
    chosen = np.array(list(dict.fromkeys([*first, *np.argsort(-strength, kind="stable").tolist()]))[:MAP_COLUMNS])
    block = np.abs(joint.real[np.ix_(chosen, chosen)])
    apart = 1 - np.clip(block, 0, 1)[np.triu_indices(len(chosen), 1)]
    chosen = chosen[leaves_list(linkage(apart, "average"))]
    names = [joint.names[j] for j in chosen]
    maps = [heat_map(names, matrix[np.ix_(chosen, chosen)]) for matrix in (joint.real, joint.synthetic)]
    return {"real": maps[0], "synthetic": maps[1], "count": len(chosen), "of": len(joint.names)}


def _away(joint: JointFit) -> list[tuple[str, float, float]]:
    """Columns, how much they help, and how long their bars are."""
    top = max((value for _, value in joint.away), default=1.0)
    return [(name, value, 100 * value / top) for name, value in joint.away]
