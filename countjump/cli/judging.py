"""``inspect``, ``evaluate`` and ``synthesize``: what is in a file, whether to believe synthetic rows, and all in one go."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import countjump
from countjump.atomic import check_writable
from countjump.cli import inspecting, tables
from countjump.cli.asking import Answer, aligned, command, import_torch, plain_json, printable
from countjump.cli.models import add_parameters, labels, new_model, save

HELD_OUT, MOST_HELD_OUT = 0.2, 10_000
"""The share of the rows that ``synthesize`` holds out, and how many at most."""
LEAST_ROWS = 20
"""Of a table that is compared with another; fewer are not held out."""


def add_commands(commands: Any) -> None:
    """Add these commands to the parser."""
    text = "say what is in every column of a file, and what a model would take it for"
    add = command(commands, "inspect", text, inspect, "countjump inspect purchases.csv")
    add("data", "FILE", tables.READ)
    add("--label", "COLUMN", "the column of labels, which is not modelled")
    tables.add_reading(add)

    text = "make synthetic rows of a file in one go: inspect, fit, sample and evaluate"
    example = "countjump synthesize purchases.csv --rows 10000 --out synthetic.csv --report report.html"
    add = command(commands, "synthesize", text, synthesize, example)
    add("data", "FILE", tables.READ)
    add("--rows", "N", "how many rows to draw (default: as many as FILE has)", least=LEAST_ROWS)
    add("--out", "FILE", "where to write them, in any of these formats", required=True)
    add(
        "--report", "FILE", "where to write the page that compares them with FILE (default: beside --out, .report.html)"
    )
    add("--model", "DIR", "a directory to save the model in (default: it is not kept)")
    add("--label", "COLUMN", "the column of labels: rows are drawn given it, and the page predicts it")
    add(
        "--holdout",
        "SHARE",
        f"rows held out for the page, at most {MOST_HELD_OUT:,} (default: {HELD_OUT})",
        default=HELD_OUT,
    )
    tables.add_reading(add)
    add_parameters(add)

    text = "compare synthetic rows with real ones, and write a page about it"
    example = "countjump evaluate real.csv synthetic.csv --holdout unseen.csv --label kind --out report.html"
    add = command(commands, "evaluate", text, evaluate, example)
    add("real", "REAL", "the rows that the model was fitted to: " + tables.READ)
    add("synthetic", "SYNTHETIC", "the rows that it made")
    add("--out", "FILE", "where to write the page: .html", required=True)
    add(
        "--holdout",
        "FILE",
        "real rows that the model has not seen: without them nobody can say whether rows were copied",
    )
    add("--label", "COLUMN", "the column that is predicted from the others, on real and synthetic rows")
    tables.add_reading(add)


def inspect(arguments: Namespace) -> Answer:
    """Say what is in every column, and what a model would do with it."""
    table, dialect = tables.read_table(arguments, arguments.data)
    tables.check_label(table, arguments.label, arguments.data)
    import_torch()
    model = countjump.JumpModel(progress=False, random_state=0)
    columns, problem = look(model, table, arguments.label)
    about = ", ".join(each for each in (tables.shape(table), tables.said_of(dialect)) if each)
    lines = [f"{printable(arguments.data)}: {about}", "", inspecting.table_of(columns)]
    choices = {} if problem else model.choices_
    if choices:
        width = max(map(len, choices))
        lines += ["", "what a model would do, and why"]
        lines += [f"  {printable(name):<{width}}  {printable(reason)}" for name, reason in choices.items()]
    facts = {
        "file": arguments.data,
        "rows": table.shape[0],
        "columns": table.shape[1],
        "dialect": None if dialect is None else dialect.described(),
        "label": arguments.label,
        "found": inspecting.as_records(columns),
        "choices": choices,
    }
    if hasattr(table, "obs"):
        facts["obs"] = {str(name): int(table.obs[name].nunique()) for name in table.obs.columns}
        kinds = [f"{printable(str(name))} ({count:,} values)" for name, count in facts["obs"].items()]
        lines[1:1] = [f"obs, for --label: {', '.join(kinds) or 'none'}"]
    return Answer("\n".join(lines), facts, problem)


def look(model: Any, table: Any, label: str | None) -> tuple[list[inspecting.Found], str]:
    """The columns as the model takes them, without training it; and what keeps it from doing so, if anything does."""
    columns = inspecting.find_columns(table)
    try:
        model.decide(table, **labels(label))
    except (ValueError, TypeError) as error:
        return columns, str(error)
    return inspecting.with_plan(columns, model, label), ""


def evaluate(arguments: Namespace) -> Answer:
    """Compare synthetic rows with real ones."""
    tables.check_page(arguments.out)
    paths = {"real": arguments.real, "synthetic": arguments.synthetic, "holdout": arguments.holdout}
    read = {name: None if path is None else tables.read_table(arguments, path)[0] for name, path in paths.items()}
    for name, table in read.items():
        if table is not None:
            tables.check_label(table, arguments.label, paths[name])
    found = countjump.evaluate(
        read["real"], read["synthetic"], holdout=read["holdout"], label=arguments.label, out=arguments.out
    )
    said = "" if arguments.quiet else f"{verdict(found)}\n\n{arguments.out}"
    return Answer(said, {"page": arguments.out, "measures": found.to_dict("records")})


def verdict(found: Any) -> str:
    """The conclusions of an evaluation, a line each."""
    lines = found[found["part"] == "verdict"]
    rows = [[str(line.metric), str(line.judgement or "–"), str(line.meaning)] for line in lines.itertuples()]
    return aligned([[printable(cell) for cell in row] for row in rows]) if rows else ""


def synthesize(arguments: Namespace) -> Answer:
    """Inspect, fit, sample and evaluate."""
    import numpy as np

    tables.check_out(arguments.out)
    report = arguments.report or str(_beside(arguments.out))
    tables.check_page(report)
    if arguments.model is not None:
        check_writable(arguments.model, directory=True)
    model = new_model(arguments)
    table, dialect = tables.read_table(arguments, arguments.data)
    tables.check_label(table, arguments.label, arguments.data)
    count = table.shape[0]
    if count < LEAST_ROWS:
        raise ValueError(
            f"{arguments.data} has {count} rows, and at least {LEAST_ROWS} are compared: use fit and sample"
        )
    rows = count if arguments.rows is None else arguments.rows
    held = min(round(arguments.holdout * count), MOST_HELD_OUT, count - LEAST_ROWS)
    held = held if held >= LEAST_ROWS else 0
    shuffled = np.random.default_rng(arguments.seed).permutation(count)
    holdout, training = (np.sort(places) for places in (shuffled[:held], shuffled[held:]))
    real = tables.rows_of(table, training) if held else table
    about = ", ".join(each for each in (tables.shape(table), tables.said_of(dialect)) if each)
    _say(arguments, f"{arguments.data}: {about}")
    _say(arguments, f"{held:,} of {count:,} rows are held out for the evaluation, and {len(training):,} are fitted")
    model.fit(real, **labels(arguments.label))
    if not arguments.quiet:
        columns = inspecting.with_plan(inspecting.find_columns(real), model, arguments.label)
        print(inspecting.table_of(columns), end="\n\n", flush=True)
    if arguments.model is not None:
        save(model, arguments.model, dialect)
    synthetic = model.sample(rows, random_state=arguments.seed)
    tables.write(arguments, arguments.out, synthetic, dialect)
    _say(arguments, f"{rows:,} rows are in {arguments.out}; comparing them with the real ones")
    unseen = tables.rows_of(table, holdout) if held else None
    found = countjump.evaluate(real, synthetic, holdout=unseen, label=arguments.label, out=report)
    said = "" if arguments.quiet else f"{verdict(found)}\n\n{arguments.out}\n{report}"
    facts = {
        "out": arguments.out,
        "page": report,
        "model": arguments.model,
        "rows": rows,
        "fitted": len(training),
        "held_out": held,
        "choices": model.choices_,
        "verdict": plain_json(found[found["part"] == "verdict"].to_dict("records")),
    }
    return Answer(said, facts)


def _beside(out: str) -> Path:
    """Where the page goes if nobody says: synthetic.csv.gz → synthetic.report.html."""
    from countjump.data import format_of

    path = Path(out)
    return path.with_name(path.name[: -len(format_of(out))] + ".report.html")


def _say(arguments: Namespace, text: str) -> None:
    if not arguments.quiet:
        print(f"countjump: {printable(text)}", file=sys.stderr, flush=True)
