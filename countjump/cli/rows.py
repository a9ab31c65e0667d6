"""``score``, ``deepen``, ``denoise`` and ``complete``: what a model says of the rows of a file."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from countjump.cli import tables
from countjump.cli.asking import Answer, UsageError, aligned, command
from countjump.cli.models import given_label, load

AT_ONCE = 2048
"""Rows that are scored from one step of the progress bar to the next."""
SHOWN = 5
"""Of the most unusual rows, in words."""


def add_commands(commands: Any) -> None:
    """Add these commands to the parser."""
    text = "score the rows of a file by how likely the model finds them, most unusual first"
    add = command(commands, "score", text, score, "countjump score model purchases.csv --out scores.csv")
    _add_shared(add)
    add("--steps", "N", "steps of the bound (default: 100)")

    text = "draw the whole rows of which a file holds a known fraction of every count"
    add = command(commands, "deepen", text, deepen, "countjump deepen model shallow.npz --fraction 0.2 --out deep.npz")
    _add_shared(add)
    add("--fraction", "NUMBER", "the probability with which each unit was counted, up to 1", required=True)
    add("--steps", "N", "steps of the chain (default: 20)", default=20)

    text = "give the expectation of the whole rows of which a file holds a known fraction of every count"
    example = "countjump denoise model shallow.npz --fraction 0.2 --out expected.npy"
    add = command(commands, "denoise", text, denoise, example)
    _add_shared(add, seed=False)
    add("--fraction", "NUMBER", "the probability with which each unit was counted, up to 1", required=True)
    add("--columns", "NAMES", "some of the columns, by name or number, with commas between (default: all)")

    text = "draw what is not known of the rows of a file, given what is"
    add = command(commands, "complete", text, complete, "countjump complete model holes.csv --out whole.csv")
    _add_shared(add)
    add("--known", "NAMES", "the known columns, by name or number, with commas between (default: what is not missing)")
    add("--steps", "N", "steps of the chain (default: 50)", default=50)


def _add_shared(add: Any, seed: bool = True) -> None:
    add("model", "MODEL", "the directory of a saved model")
    add("data", "FILE", tables.READ)
    add("--out", "FILE", f"where to write: {tables.READ}", required=True)
    add("--label", "VALUE", "the label of all rows (default: that in the file, if it has the column)")
    tables.add_reading(add)
    if seed:
        add("--seed", "N", "the same seed gives the same numbers", least=0)


def _begin(arguments: Namespace) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The model, the table, its dialect, and y where it is given."""
    tables.check_out(arguments.out)
    model = load(arguments.model)
    model.progress = not arguments.quiet
    table, dialect = tables.read(arguments, arguments.data)
    y = given_label(model, arguments.label)
    return model, table, dialect, {} if y is None else {"y": y}


def score(arguments: Namespace) -> Answer:
    """Write the log-likelihood of every row, the most unusual first."""
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]

    from countjump.progress import Progress

    model, table, dialect, given = _begin(arguments)
    starts = range(0, table.shape[0], AT_ONCE)
    scores = np.empty(table.shape[0])
    shown = not arguments.quiet and len(starts) > 1
    with Progress("scoring", len(starts), "pieces", shown) as progress:
        for start in starts:
            some = slice(start, start + AT_ONCE)
            part = table.iloc[some] if hasattr(table, "iloc") else table[some]
            scores[some] = model.score_samples(part, steps=arguments.steps, random_state=arguments.seed, **given)
            progress.advance()
    units, unit = _units(model, table)
    found = pd.DataFrame({"row": np.arange(len(scores)), "log_likelihood": scores, f"per_{unit}": scores / units})
    found = found.sort_values(f"per_{unit}", kind="stable").reset_index(drop=True)
    tables.write(arguments, arguments.out, found, dialect)
    head = [list(found.columns), *([str(r), f"{a:.4g}", f"{b:.4g}"] for r, a, b in found.head(SHOWN).to_numpy())]
    head[1:] = [[str(int(float(row[0]))), *row[1:]] for row in head[1:]]
    mean = float(np.mean(scores))
    said = f"{aligned(head, right=(0, 1, 2))}\n\nmean {mean:.6g} nats of {len(scores):,} rows: {arguments.out}"
    facts = {"out": arguments.out, "rows": len(scores), "mean": mean, "unit": unit}
    facts["most_unusual"] = found.head(SHOWN).to_dict("records")
    return Answer("" if arguments.quiet else said, facts)


def _units(model: Any, table: Any) -> tuple[Any, str]:
    """What a score is divided by: the number of columns, or of wide counts the row's total."""
    import numpy as np
    import scipy.sparse as sp

    wide = getattr(model, "belief_", "") == "composition"
    if not wide or not all(part.domain.whole for part in model.plan_.parts):
        return float(model.n_features_in_), "column"
    matrix = sp.csr_matrix(getattr(table, "X", table))
    if model.scaling_ is not None:
        matrix, _ = model.scaling_.admit(matrix)
    return np.maximum(np.asarray(matrix.sum(1)).ravel(), 1.0), "count"


def deepen(arguments: Namespace) -> Answer:
    """Draw whole rows, and write them."""
    fraction = _fraction(arguments)
    model, table, dialect, given = _begin(arguments)
    _check_has(model, "deepen")
    rows = model.deepen(table, fraction, steps=arguments.steps, random_state=arguments.seed, **given)
    return _written(arguments, rows, dialect)


def denoise(arguments: Namespace) -> Answer:
    """Write the expectation of whole rows."""
    fraction = _fraction(arguments)
    model, table, dialect, given = _begin(arguments)
    _check_has(model, "denoise")
    columns = _columns(arguments.columns)
    expected = model.denoise(table, fraction, columns=columns, **given)
    return _written(arguments, _as_table(model, table, expected, columns), dialect)


def _as_table(model: Any, table: Any, expected: Any, columns: list[Any] | None) -> Any:
    """Numbers with the names that the columns of the table have."""
    if not hasattr(table, "columns") and not hasattr(table, "obs"):
        return expected
    import pandas as pd

    names = list(model.feature_names_in_)
    if columns is not None:
        names = [names[column] if isinstance(column, int) else column for column in columns]
    frame = pd.DataFrame(expected, columns=names)
    if not hasattr(table, "obs"):
        return frame
    whole = table[:, names].copy()
    whole.X = expected
    return whole


def complete(arguments: Namespace) -> Answer:
    """Draw what is not known, and write whole rows."""
    model, table, dialect, given = _begin(arguments)
    _check_has(model, "complete")
    known = _columns(arguments.known)
    rows = model.complete(table, known, steps=arguments.steps, random_state=arguments.seed, **given)
    return _written(arguments, rows, dialect)


def _written(arguments: Namespace, rows: Any, dialect: Any) -> Answer:
    tables.write(arguments, arguments.out, rows, dialect)
    facts = {"out": arguments.out, "rows": rows.shape[0], "columns": rows.shape[1]}
    return Answer("" if arguments.quiet else arguments.out, facts)


def _check_has(model: Any, name: str) -> None:
    if not hasattr(model, name):
        raise ValueError(f"a {type(model).__name__} cannot {name}: use a model that countjump fit made")


def _fraction(arguments: Namespace) -> float:
    if arguments.fraction > 1:
        raise UsageError(f"--fraction must be above 0 and at most 1, got {arguments.fraction:g}")
    return arguments.fraction


def _columns(text: str | None) -> list[Any] | None:
    """Names and numbers of columns."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    return [int(word) if word.isdecimal() else word for word in words]
