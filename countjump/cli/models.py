"""``fit``, ``sample`` and ``info``: a model out of a file, rows out of a model, and what a model is."""

from __future__ import annotations

import argparse
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import countjump
from countjump.atomic import check_writable
from countjump.cli import tables
from countjump.cli.asking import Answer, UsageError, command, import_torch, printable

if TYPE_CHECKING:
    from countjump.domains import Domain

DOMAINS = ("non-negative", "count", "binary", "one-hot", "simplex", "bounded", "categorical")
"""The names of what is there, known without importing it."""

PARAMETERS: dict[str, tuple[str | tuple[str, ...], str]] = {
    "process": (("auto", "poisson", "binomial"), "how data becomes counts"),
    "belief": (("auto", "poisson", "mixture", "composition"), "what the network answers with; the paper's is poisson"),
    "components": ("N", "components of a mixture, of each family"),
    "objective": (("auto", "nll", "reweighted", "elbo"), "what is minimised"),
    "decode": (("auto", "latent", "mean", "draw"), "how counts become data"),
    "schedule": (("auto", "linear-beta", "cosine", "geometric"), "how fast units are removed"),
    "width": ("N", "hidden units of the network"),
    "batch_size": ("N", "rows per update"),
    "learning_rate": ("NUMBER", "the largest learning rate"),
    "lr_schedule": (("cosine", "constant"), "how the learning rate changes"),
    "ema": ("SHARE", "decay of the moving average of the weights"),
    "validation_fraction": ("SHARE", "share of the rows held out, at most 10,000; 0 for none"),
    "max_updates": ("N", "the length of training"),
    "missing": (("model", "error"), "what missing values are: a part of the rows, or an error"),
    "identifiers": (("fresh", "drop"), "columns that only name their rows: new ones, or none"),
    "checkpoint_dir": ("DIR", "a directory where a killed fit finds its way back"),
    "checkpoint_every": ("N", "updates between checkpoints"),
    "device": ("NAME", "auto, cpu or cuda"),
}
"""Parameters of JumpModel that are options of ``fit`` as they are; what is not given keeps the model's default."""


def add_commands(commands: Any) -> None:
    """Add these commands to the parser."""
    add = command(commands, "fit", "fit a model to the rows of a file", fit, "countjump fit purchases.csv --out model")
    add("data", "FILE", tables.READ)
    add("--out", "MODEL", "the directory to save the model in", required=True)
    add("--label", "COLUMN", "the column (of an .h5ad: of obs) that samples can be asked for by")
    tables.add_reading(add)
    add_parameters(add)

    example = "countjump sample model --rows 1000 --out synthetic.csv"
    add = command(commands, "sample", "draw rows from a saved model", sample, example)
    add("model", "MODEL", "the directory of a saved model")
    add("--rows", "N", "how many rows to draw", required=True, least=0)
    add("--out", "FILE", f"where to write them: {tables.READ}", required=True)
    add("--label", "VALUE", "rows of this label alone, of a model that was fitted with --label")
    add("--guidance", "WEIGHT", "above 1: rows more typical of their label than the data's are", default=1.0)
    add("--steps", "N", "steps of the chain (default: 20, or 50 for 2 to 255 columns)")
    tables.add_reading(add, key=False)
    add("--seed", "N", "the same seed gives the same rows", least=0)

    add = command(commands, "info", "say what a saved model is", info, "countjump info model")
    add("model", "MODEL", "the directory of a saved model")


def add_parameters(add: Any) -> None:
    """The options of a fit."""
    add("--domain", ("auto", *DOMAINS), "what the values are", default="auto")
    add("--bound", "NUMBER", "the largest possible value, for count or bounded")
    add("--lam", "NUMBER|auto", "the paper's λ", default="auto")
    for name, (kind, text) in PARAMETERS.items():
        add("--" + name.replace("_", "-"), kind, text, default=argparse.SUPPRESS)
    add("--seed", "N", "the same seed gives the same model", least=0)


def fit(arguments: Namespace) -> Answer:
    """Fit a model to the rows of a file."""
    check_writable(arguments.out, directory=True)
    model = new_model(arguments)
    table, dialect = tables.read(arguments, arguments.data)
    tables.check_label(table, arguments.label, arguments.data)
    started = time.perf_counter()
    model.fit(table, **labels(arguments.label))
    seconds = time.perf_counter() - started
    save(model, arguments.out, dialect)
    facts = {
        "model": arguments.out,
        "rows": table.shape[0],
        "columns": model.n_features_in_,
        "label": arguments.label,
        "seconds": round(seconds, 3),
        "choices": model.choices_,
        "last": model.history_[-1] if model.history_ else None,
    }
    return Answer("" if arguments.quiet else arguments.out, facts)


def new_model(arguments: Namespace) -> Any:
    """An unfitted model by the options of ``fit``; one that cannot be is a matter of usage."""
    given = {name: value for name, value in vars(arguments).items() if name in PARAMETERS}
    given |= {"domain": _domain(arguments.domain, arguments.bound), "lam": arguments.lam}
    import_torch()
    model = countjump.JumpModel(random_state=arguments.seed, progress=not arguments.quiet, **given)
    try:
        model.check_params()
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    return model


def labels(label: str | None) -> dict[str, str]:
    """How ``fit`` is told of the column of labels."""
    return {} if label is None else {"y": label}


def save(model: Any, path: str, dialect: Any) -> None:
    """Save a model, and how the file that it was fitted to is written."""
    model.save(path)
    tables.keep_source(path, dialect)


def sample(arguments: Namespace) -> Answer:
    """Draw rows from a saved model and write them to a file."""
    tables.check_out(arguments.out)
    model = load(arguments.model)
    model.progress = not arguments.quiet
    y = given_label(model, arguments.label)
    rows = model.sample(
        arguments.rows, steps=arguments.steps, random_state=arguments.seed, y=y, guidance=arguments.guidance
    )
    tables.write(arguments, arguments.out, named(model, rows), tables.recall_source(arguments.model))
    facts = {"out": arguments.out, "rows": rows.shape[0], "columns": rows.shape[1], "label": arguments.label}
    return Answer("" if arguments.quiet else arguments.out, facts)


def named(model: Any, rows: Any) -> Any:
    """Rows with the names of the columns, where a model of a matrix knows some."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not hasattr(rows, "dtype") or hasattr(rows, "tocsr"):
        return rows
    import pandas as pd  # type: ignore[import-untyped]

    return pd.DataFrame(rows, columns=list(names))


def given_label(model: Any, text: str | None) -> Any:
    """The label that is called so in the command; None for none."""
    if text is None:
        return None
    if not model.knows_y:
        raise ValueError("--label is given, and the model was fitted without: fit with --label COLUMN")
    if len(model.conditions_.columns) > 1:
        raise ValueError(f"--label is one value, and the model has {len(model.conditions_.columns)}: sample in Python")
    (column,) = model.conditions_.columns
    if hasattr(column, "levels"):
        return {str(level): level for level in column.levels}.get(text, text)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--label {text!r} is no number, and those of the model are") from None


def load(path: str) -> Any:
    """The saved model, whichever of the public classes it is of."""
    import_torch()
    from countjump import baselines, persistence

    name = persistence.read(path)[0].get("class")
    kinds = {kind.__name__: kind for kind in (countjump.JumpModel, baselines.DDPM, baselines.D3PM)}
    return kinds.get(str(name), countjump.JumpModel).load(path)


def info(arguments: Namespace) -> Answer:
    """Say what a saved model is."""
    model = load(arguments.model)
    facts = describe(model)
    width = max(map(len, facts))
    lines = [f"{name:<{width}}  {printable(fact)}" for name, fact in facts.items()]
    choices = getattr(model, "choices_", {})
    if choices:
        lines += ["", 'what "auto" chose, and why']
        lines += [f"  {printable(name):<{width - 2}}  {printable(reason)}" for name, reason in choices.items()]
    source = tables.recall_source(arguments.model)
    described = None if source is None else source.described()
    return Answer("\n".join(lines), facts | {"choices": choices, "source": described})


def describe(model: Any) -> dict[str, str]:
    """What there is to say about a fitted model, a line each."""
    facts = {"class": type(model).__name__}
    for name, attribute in {"domain": "domain_", "process": "process_name_", "belief": "belief_"}.items():
        if hasattr(model, attribute):
            text = str(getattr(model, attribute))
            facts[name] = text if len(text) <= 100 else text[:99] + "…"
    if hasattr(model, "lam_"):
        import numpy as np

        low, middle, high = np.quantile(model.lam_, [0, 0.5, 1])
        facts["lambda"] = f"{low:.6g}" if low == high else f"{low:.4g} to {high:.4g}, median {middle:.4g}"
    facts["columns"] = _said_columns(model)
    facts |= {"dtype": str(model.dtype_), "sparse": "yes" if model.sparse_ else "no"}
    weights = [] if model.denoiser_ is None else [weight.numel() for weight in model.denoiser_.parameters()]
    facts |= {"parameters": f"{sum(weights):,}", "seed": str(model.seed_)}
    if not model.history_:
        return facts | {"updates": "0, as every column is constant"}
    last = model.history_[-1]
    facts |= {"updates": f"{last['update']:,.0f}", "training loss": f"{last['loss']:.6g}"}
    if "validation_loss" in last:
        best = min(record["validation_loss"] for record in model.history_)
        facts["validation loss"] = f"{last['validation_loss']:.6g} at the end, {best:.6g} at best"
    return facts


def _said_columns(model: Any) -> str:
    """How many columns the table has, and what became of them."""
    layout, labelled = model.layout_, model.labelled_
    left_out, gaps = (len(getattr(layout, name, ())) for name in ("left_out", "gaps"))
    labels = 0 if labelled is None or getattr(layout, "kind", "") == "anndata" else len(labelled.names)
    inside = model.block_.columns - gaps
    said = [str(inside + labels)]
    if left_out or labels:
        said.append(f"{inside - left_out} of them modelled")
    constant = model.block_.columns - model.block_.varying - left_out
    said += [f"{constant} of them constant"] * bool(constant)
    said += ["1 the label" if labels == 1 else f"{labels} the labels"] * bool(labels)
    said += [f"{left_out} left out"] * bool(left_out)
    return ", ".join(said)


def _domain(name: str, bound: float | None) -> str | Domain:
    if bound is None:
        return name
    if name not in ("count", "bounded"):
        raise UsageError(f"--bound is for --domain count or bounded, not {name}")
    from countjump import domains

    try:
        return domains.DOMAINS[name](bound)  # type: ignore[call-arg]
    except ValueError as error:
        raise UsageError(f"--bound {bound:g}: {error}") from error
