"""Ordinary tables: the model beside per-column resampling, a Gaussian copula and CART, by ``countjump.metrics.tables``.

    python benchmarks/tables.py --data DIR                                        # everything that has no record yet
    python benchmarks/tables.py --only digits,mixed --methods cart --again        # these once more

Each set is cut into random halves. A method is fitted to one half, makes as many rows as the other half has, and these are
compared with it. The records are in ``results.json`` in the directory ``--out``, a line each; the page and the pictures there are
made from the records alone. Several processes may run at once, each on other sets or methods.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rivals import RIVALS
from benchmarks.table_sets import SETS, TableSet, with_levels
from countjump import JumpModel
from countjump.atomic import locked
from countjump.data import read_table, write_table
from countjump.experiments.runner import (
    KEY,
    Record,
    markdown,
    mean_of,
    pick,
    read_records,
    write_pages,
    write_records,
)
from countjump.metrics import half_splits
from countjump.metrics.tables import (
    column_shapes,
    nearer_copies,
    pair_trends,
    rank_correlation_error,
    two_sample_auc,
)
from countjump.report.figures import FAINT, GENERATED, INK, REAL, dress, mosaic

FLOOR = "floor"
"""The method that gives back the training rows."""

METHODS = (FLOOR, *RIVALS, "countjump")

OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "tables"
COLOURS = {"countjump": GENERATED, "cart": "#5b8c5a"}
BARS, LEVELS, DOTS, IMAGES = 50, 12, 300, 25
"""Of a picture: bars and levels of a margin at most, rows of a pair, rows as images."""

MEASURES = {
    "auc": (
        "Two-sample AUC",
        "How well gradient boosting tells generated from held-out rows: 0.5 is perfect. Mean and standard deviation of the splits.",
    ),
    "column_shapes": ("Column shapes", "SDMetrics' definition: 1 is perfect."),
    "pair_trends": ("Pair trends", "SDMetrics' definition: 1 is perfect."),
    "rank_error": (
        "Error of rank correlations",
        "The mean difference of Spearman correlations over pairs of columns of numbers. In brackets: over that of the floor.",
    ),
    "copies": (
        "Copies",
        "The share of generated rows as near to a training row as the nearest 1 % of held-out rows. The floor is the share of "
        "held-out rows: more than 0.01 where rows are often equal.",
    ),
    "gaps": (
        "Missing values",
        "The mean difference of the shares of missing values, of columns and of pairs of them that are missing together, where "
        "there are any. In brackets: over that of the floor.",
    ),
    "broken": ("Broken groups", "The share of rows in which a group of 0/1 columns does not sum to one."),
    "seconds": ("Seconds of CPU time", "To fit to one half / to make as many rows; one thread."),
}


def measure(
    train: pd.DataFrame, held_out: pd.DataFrame, made: pd.DataFrame, about: TableSet, seed: int
) -> dict[str, float]:
    """What is recorded of rows that were made, beside those of the held-out half."""
    first, last, ours_ = (about.judged(frame) for frame in (train, held_out, made))
    missing = bool(first.isna().any().any())
    whole = [frame.dropna() for frame in (first, last, ours_)]
    ours, theirs = nearer_copies(whole[0], whole[2], whole[1])
    groups = with_levels(made, about.groups).drop(columns=made.columns)
    found = {
        "auc": two_sample_auc(last, ours_, seed=seed, missing=missing),
        "column_shapes": column_shapes(whole[1], whole[2]),
        "pair_trends": pair_trends(whole[1], whole[2]),
        "rank_error": rank_correlation_error(whole[1], whole[2]),
        "copies": theirs if made is train else ours,
    }
    if held_out.isna().any().any():
        found["gaps"] = gaps_error(held_out, made)
    if about.groups:
        found["broken"] = float((groups == "broken").any(axis=1).mean())
    return {name: round(value, 5) for name, value in found.items()}


def gaps_error(real: pd.DataFrame, made: pd.DataFrame) -> float:
    """How far the shares of missing values are apart, of columns and of pairs of them."""
    names = [name for name in real if real[name].isna().any()]
    shares = [
        np.asarray(frame[names].isna(), dtype=float).T @ frame[names].isna() / len(frame) for frame in (real, made)
    ]
    upper = np.triu_indices(len(names))
    return float(np.abs(np.asarray(shares[0]) - np.asarray(shares[1]))[upper].mean())


def through_files(frame: pd.DataFrame) -> pd.DataFrame:
    """The table as it is read from a file that it was written to."""
    with tempfile.TemporaryDirectory() as scratch:
        write_table(Path(scratch) / "table.csv.gz", frame)
        return read_table(Path(scratch) / "table.csv.gz")


def run(
    dataset: str, frame: pd.DataFrame, method: str, split: int, steps: Sequence[int], asked: Record
) -> list[Record]:
    """Fit a method to one half and measure it by the other; one record for every number of steps."""
    about = SETS[dataset]
    first, second = half_splits(len(frame), split + 1)[split]
    train, held_out = (frame.iloc[half].reset_index(drop=True) for half in (first, second))
    start = time.process_time()
    if method == "countjump":
        domain = dict.fromkeys(about.codes, "categorical") or "auto"
        given = through_files(train) if about.file else train
        model = JumpModel(domain, max_updates=asked["asked_updates"], random_state=split, progress=False).fit(given)
    elif method != FLOOR:
        model = RIVALS[method](split).fit(about.judged(train))
    seconds_fit = round(time.process_time() - start, 3)
    records = []
    for step in steps:
        start = time.process_time()
        if method == FLOOR:
            made = train
        elif method == "countjump":
            made = model.sample(len(held_out), steps=step, random_state=split)
            made = through_files(made) if about.file else made
        else:
            made = model.sample(len(held_out))
        seconds = {"seconds_fit": seconds_fit, "seconds_sample": round(time.process_time() - start, 3)}
        key = {"dataset": dataset, "method": method, "run": split, "steps": step}
        sizes = {"rows": len(train), "columns": frame.shape[1]} | asked
        record = key | sizes | measure(train, held_out, made, about, split) | (seconds if method != FLOOR else {})
        if split == 0:
            real, ours = (about.judged(each).dropna() for each in (held_out, held_out if method == FLOOR else made))
            record["shown"] = shown(about, real, ours)
        records.append(record)
    return records


def shown(about: TableSet, held_out: pd.DataFrame, made: pd.DataFrame) -> dict[str, Any]:
    """What the pictures need: shares of values or of bins, which the held-out rows give, and some rows."""
    margins = {}
    wide = [with_levels(frame, about.groups) for frame in (held_out, made)]
    for name in about.margins:
        real, ours = (frame[name] for frame in wide)
        if real.dtype.kind not in "iuf":
            places: list[Any] = [*real.value_counts().index[:LEVELS], *(["broken"] if about.groups else [])]
            shares = [(ours == place).mean() for place in places]
        else:
            low, high = np.quantile(real, [0.005, 0.995])
            width = int(high - low) // BARS + 1
            whole = bool((real == np.rint(real)).all())
            edges = np.arange(int(low) - 0.5, high + width, width) if whole else np.linspace(low, high, BARS + 1)
            places = [float(f"{edge:.6g}") for edge in edges]
            shares = np.histogram(np.clip(ours, edges[0], edges[-1]), edges)[0] / len(ours)
        margins[name] = {"places": places, "shares": [round(float(share), 4) for share in shares]}
    pair = [[float(f"{value:.4g}") for value in made[name][:DOTS]] for name in about.pair]
    images = made[:IMAGES].to_numpy().round().astype(int).tolist() if about.image else []
    return {"margins": margins, "pair": pair, "images": images}


# The page and the pictures, from the records alone.


def page(records: list[Record]) -> str:
    """All the tables, as Markdown."""
    names = [name for name in SETS if any(record["dataset"] == name for record in records)]
    ways = list(dict.fromkeys((r["method"], r["steps"]) for r in sorted(records, key=_order) if r["method"] != FLOOR))
    splits = len({record["run"] for record in records})
    steps = ",".join(f"{step}" for step in sorted({step for _, step in ways if step})) or "20"
    command = f"python benchmarks/tables.py --data DIR --splits {splits} --steps {steps}"
    for name in ("rows", "updates"):
        command += "".join(f" --{name} {value}" for value in sorted({r[f"asked_{name}"] or 0 for r in records} - {0}))
    lines = ["# Ordinary tables", "", f"`{command}`", ""]
    lines += [
        "Each set is cut into random halves. A method is fitted once to one half, makes as many rows as the other half has, and "
        "these are compared with that half. The floor is the training half as if it had been generated. Sets that are read "
        "from files go to the model, and come from it, through files.",
        "",
    ]
    of_set = {name: next(record for record in records if record["dataset"] == name) for name in names}
    sizes = [f"{of_set[name]['rows']:,} × {of_set[name]['columns']}" for name in names]
    rows = [[name, size, SETS[name].what] for name, size in zip(names, sizes, strict=True)]
    lines += markdown(["set", "training rows × columns", "what"], rows)
    titles = {"copula": "Gaussian copula", "cart": "CART"}
    head = ["set", "floor", *(titles.get(way, way) + (f", {step} steps" if step else "") for way, step in ways)]
    for field, (title, words) in MEASURES.items():
        table = []
        for name in names:
            mine = [record for record in records if record["dataset"] == name]
            cells = [cell(mine, field, method, step) for method, step in ((FLOOR, 0), *ways)]
            if any(cells):
                table.append([name, *(each or "–" for each in cells)])
        if table:
            lines += ["", f"## {title}", "", words, "", *markdown(head, table)]
    pictures = [f"![{name}]({name}.png)" for name in names if _pictured(records, name)]
    colours = (
        "Margins: held-out rows (filled), countjump (orange), CART (green); what is further out is in the outer bars."
    )
    if pictures:
        lines += ["", "## Pictures", "", f"{colours} Below: {DOTS} rows, or {IMAGES} images, of each.", "", *pictures]
    return "\n".join(lines) + "\n"


def cell(records: list[Record], field: str, method: str, steps: int) -> str:
    """What a table says of a method on a set; nothing if there is no record."""
    where = {"method": method, "steps": steps}
    if field == "seconds":
        both = [mean_of(records, f"seconds_{what}", **where) for what in ("fit", "sample")]
        return " / ".join(f"{each[0]:.2f}" for each in both if each)
    if (found := mean_of(records, field, **where)) is None:
        return ""
    floor = mean_of(records, field, method=FLOOR)
    if field in ("rank_error", "gaps"):
        ratio = f" ({found[0] / floor[0]:.1f})" if floor and floor[0] and method != FLOOR else ""
        return f"{found[0]:.4f}{ratio}"
    return f"{found[0]:.3f}" + (f" ± {found[1]:.3f}" if field == "auc" else "")


def picture(name: str, records: list[Record]) -> Figure:
    """The margins of some columns, and below them pairs or images of real rows and of each method."""
    about = SETS[name]
    mine = sorted(_pictured(records, name), key=_order)
    real = next(record for record in mine if record["method"] == FLOOR)["shown"]
    ways = {_title(record): record["shown"] for record in mine if record["method"] != FLOOR}
    below = bool(about.pair or about.image)
    figure = Figure(figsize=(11, 5.2 if below else 2.6), layout="constrained")
    parts = figure.subfigures(1 + below, 1, squeeze=False)[:, 0]
    for ax, column in zip(np.ravel(parts[0].subplots(1, len(about.margins))), about.margins, strict=True):
        lines = {r["method"]: r["shown"]["margins"][column]["shares"] for r in mine if r["method"] in COLOURS}
        draw_margin(ax, real["margins"][column], lines)
        ax.set_title(column, fontsize=9, color=INK)
    if below:
        panels = {"held-out rows": real, **ways}
        axes = np.ravel(parts[1].subplots(1, len(panels), sharex=True, sharey=True))
        for ax, (title, each) in zip(axes, panels.items(), strict=True):
            if about.image:
                ax.imshow(mosaic(np.array(each["images"]), about.image, 5), cmap="gray_r", vmin=0)
                ax.set(xticks=[], yticks=[])
            else:
                ax.plot(*each["pair"], ".", markersize=2, color=REAL if each is real else GENERATED)
                ax.set_xlabel(about.pair[0], fontsize=8, color=INK)
            dress(ax, 7.5)
            ax.set_title(title, fontsize=9, color=INK)
        if about.pair:
            axes[0].set_ylabel(about.pair[1], fontsize=8, color=INK)
            axes[0].set(**_limits(real["pair"]))
    return figure


def draw_margin(ax: Axes, real: dict[str, list[Any]], lines: dict[str, list[float]]) -> None:
    """Shares of values or of bins: those of the held-out rows as bars, others as lines."""
    places, shares = real["places"], np.array(real["shares"])
    named = len(places) == len(shares)
    x = np.arange(len(places)) if named else (np.array(places[1:]) + np.array(places[:-1])) / 2
    ax.bar(x, 100 * shares, width=0.9 if named else 0.95 * (places[1] - places[0]), color=REAL, alpha=0.45)
    for method, ours in lines.items():
        ax.plot(x, 100 * np.array(ours), ".-", color=COLOURS[method], linewidth=1, markersize=3)
    if named:
        ax.set_xticks(x, [place[:14] or "(empty)" for place in places], rotation=35, ha="right")
    ax.set_ylabel("%", fontsize=8, color=INK)
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    dress(ax, 7.5)


def _limits(pair: list[list[float]]) -> dict[str, tuple[float, float]]:
    """Those of the real rows and a little more, so that a value far out does not press the others together."""
    found = {}
    for side, values in zip(("xlim", "ylim"), pair, strict=True):
        low, high = min(values), max(values)
        found[side] = (low - 0.1 * (high - low or 1), high + 0.1 * (high - low or 1))
    return found


def _pictured(records: list[Record], name: str) -> list[Record]:
    mine = [record for record in records if record["dataset"] == name and "shown" in record]
    return mine if any(record["method"] == FLOOR for record in mine) else []


def _title(record: Record) -> str:
    return record["method"] + (f", {record['steps']} steps" if record["steps"] else "")


def _order(record: Record) -> tuple[int, int]:
    """Rivals first."""
    return METHODS.index(record["method"]), record["steps"]


# What is run.


def settings(method: str, rows: int | None, updates: int | None) -> Record:
    """What a record must say to stand beside others."""
    return {"asked_rows": rows, "asked_updates": updates if method == "countjump" else None}


def check(records: list[Record], asked: Record) -> None:
    """Raise where records were made with other settings."""
    for record in records:
        for name, value in asked.items():
            if record[name] != value:
                there = f"the records of {record['method']} on {record['dataset']} there have {name} = {record[name]}"
                raise ValueError(f"{there}, and this run has {value}: choose another --out, or --again")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: [word for word in text.split(",") if word]  # noqa: E731
    parser.add_argument("--only", type=words, default=[], help=f"some of {','.join(SETS)}")
    parser.add_argument(
        "--methods", type=words, default=[], help=f"some of {','.join(METHODS)}; the floor is always there"
    )
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--steps", type=lambda text: [int(word) for word in words(text)], default=[20])
    parser.add_argument("--updates", type=int, help="of countjump, instead of the model's own length")
    parser.add_argument("--rows", type=int, help="at most so many random rows of each set, for a quick look")
    parser.add_argument("--data", type=Path, default=os.environ.get("COUNTJUMP_DATA"), help="where tables/*.csv.gz are")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--again", action="store_true", help="also what has a record")
    given = parser.parse_args(argv)
    try:
        sets, methods = pick("set", given.only, list(SETS)), pick("method", given.methods, list(METHODS))
    except ValueError as error:
        parser.error(str(error))
    data = Path(given.data) if given.data else None
    for name in list(sets):
        path = SETS[name].path(data)
        if path is not None and not path.exists():
            if given.only:
                parser.error(f"{name} is read from {path}, which is not there: say where the data is with --data")
            print(f"{name} is left out: there is no {path} (--data)", file=sys.stderr)
            sets.remove(name)
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        for name in sets:
            frame = SETS[name].read(data)
            frame = frame.sample(given.rows, random_state=0) if given.rows and given.rows < len(frame) else frame
            for split, method in product(range(given.splits), dict.fromkeys([FLOOR, *methods])):
                there = [r for r in read_records(given.out) if (r["dataset"], r["method"]) == (name, method)]
                again = given.again and method in methods
                asked = settings(method, given.rows, given.updates)
                if not again:
                    check(there, asked)
                done = {record["steps"] for record in there if record["run"] == split}
                steps = given.steps if method == "countjump" else [0]
                if todo := [step for step in steps if again or step not in done]:
                    new = run(name, frame, method, split, todo, asked)
                    store(given.out, new)
                    for record in new:
                        print(json.dumps({key: value for key, value in record.items() if key != "shown"}), flush=True)
    records = read_records(given.out)
    write_pages(given.out, {"table.md": page(records)})
    for name in SETS:
        if _pictured(records, name):
            write_pages(given.out, {f"{name}.png": picture(name, records)})
    return 0


def store(out: Path, new: list[Record]) -> None:
    """Put records in the place of those of the same fit, or to the others, ordered; one process at a time."""
    with locked(out, 60):
        theirs = {tuple(record[name] for name in sorted(KEY)): record for record in [*read_records(out), *new]}
        order = list(SETS)
        whole = sorted(
            theirs.values(), key=lambda record: (order.index(record["dataset"]), _order(record), record["run"])
        )
        write_records(out, whole)


if __name__ == "__main__":
    sys.exit(main())
