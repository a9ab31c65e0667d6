"""The command line: ``countjump fit``, ``sample``, ``info``, ``demo`` and ``reproduce``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import countjump
from countjump import baselines, demo, storage
from countjump.data import check_suffix, read_matrix, read_names, write_matrix
from countjump.domains import DOMAINS, Domain
from countjump.experiments import EXPERIMENTS, runner

PARAMETERS: dict[str, tuple[Any, str]] = {
    "process": (str, "how data becomes counts: auto, poisson or binomial"),
    "belief": (str, "auto, poisson (the paper's), mixture or composition"),
    "components": (int, "components of a mixture, of each family"),
    "objective": (str, "auto, nll, reweighted or elbo"),
    "decode": (str, "auto, latent, mean or draw"),
    "schedule": (str, "linear-beta, cosine or geometric"),
    "width": (int, "hidden units of the network"),
    "batch_size": (int, "rows per update"),
    "learning_rate": (float, "the largest learning rate"),
    "lr_schedule": (str, "cosine or constant"),
    "ema": (float, "decay of the moving average of the weights"),
    "validation_fraction": (float, "share of the rows held out, at most 10,000; 0 for none"),
    "max_updates": (int, "the length of training"),
    "checkpoint_dir": (str, "a directory where a killed fit finds its way back"),
    "checkpoint_every": (int, "updates between checkpoints"),
    "device": (str, "auto, cpu or cuda"),
}
"""Parameters of JumpModel that are options of ``fit`` as they are; what is not given keeps the model's default."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 2 for a mistake in what was asked."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        print(f"countjump: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("countjump: interrupted", file=sys.stderr)
        return 130
    return 0


def fit(arguments: argparse.Namespace) -> None:
    """Fit a model to the rows of a file."""
    if Path(arguments.out).is_file():
        raise ValueError(f"{arguments.out} is a file: choose a directory for the model")
    X = read_matrix(arguments.data, arguments.key)
    names = read_names(arguments.data)
    given = {name: value for name, value in vars(arguments).items() if name in PARAMETERS}
    model = countjump.JumpModel(
        domain=_domain(arguments.domain, arguments.bound),
        lam=_lam(arguments.lam),
        random_state=arguments.seed,
        progress=not arguments.quiet,
        **given,
    ).fit(X)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.save(arguments.out)
    if not arguments.quiet:
        print(arguments.out)


def sample(arguments: argparse.Namespace) -> None:
    """Draw rows from a saved model and write them to a file."""
    check_suffix(arguments.out)
    model = load(arguments.model)
    model.progress = not arguments.quiet
    names = getattr(model, "feature_names_in_", None)
    rows = model.sample(arguments.rows, steps=arguments.steps, random_state=arguments.seed)
    write_matrix(arguments.out, rows, None if names is None else list(names))
    if not arguments.quiet:
        print(arguments.out)


def info(arguments: argparse.Namespace) -> None:
    """Say what a saved model is."""
    model = load(arguments.model)
    facts = describe(model)
    width = max(map(len, facts))
    for name, fact in facts.items():
        print(f"{name:<{width}}  {fact}")
    choices = getattr(model, "choices_", {})
    if choices:
        print('\nwhat "auto" chose, and why')
        for name, reason in choices.items():
            print(f"  {name:<{width - 2}}  {reason}")


def run_demo(arguments: argparse.Namespace) -> None:
    """Fit the bundled digits and write a page about it."""
    page = demo.make(arguments.out, arguments.updates, arguments.seed, progress=not arguments.quiet)
    print(page)


def reproduce(arguments: argparse.Namespace) -> None:
    """Run an experiment of the paper, or what is missing of it."""
    for option in ("runs", "epochs"):
        given = getattr(arguments, option)
        if given is not None and given < 1:
            raise ValueError(f"--{option} must be at least 1, got {given}")
    overrides: dict[str, Any] = {}
    if arguments.epochs is not None:
        overrides["paper_epochs"] = arguments.epochs
    if arguments.steps is not None:
        overrides["steps"] = _whole_numbers("--steps", arguments.steps)
    kind = EXPERIMENTS[arguments.experiment]
    if arguments.data is not None:
        if not kind.reads_data:
            raise ValueError(f"--data is for experiments that read data, and {arguments.experiment} makes its own")
        overrides["data"] = arguments.data
    experiment = kind(arguments.preset, overrides)
    if arguments.data is not None and "made" in experiment.settings:
        raise ValueError(f"--data is given, and --preset {arguments.preset} makes its own data: leave one of them out")
    only, methods = (
        [name.strip() for name in text.split(",") if name.strip()] for text in (arguments.only, arguments.methods)
    )
    if Path(arguments.out).is_file():
        raise ValueError(f"--out {arguments.out} is a file: name a directory")
    runner.run(experiment, Path(arguments.out), only, methods, arguments.runs, progress=not arguments.quiet)
    print(Path(arguments.out) / "table.md")


def load(path: str) -> Any:
    """The saved model, whichever of the public classes it is of."""
    name = storage.read(path)[0].get("class")
    kinds = {kind.__name__: kind for kind in (countjump.JumpModel, baselines.DDPM, baselines.D3PM)}
    return kinds.get(str(name), countjump.JumpModel).load(path)


def describe(model: Any) -> dict[str, str]:
    """What there is to say about a fitted model, a line each."""
    constant = int((~np.isnan(model.constants_)).sum())
    facts = {"class": type(model).__name__}
    for name, attribute in {"domain": "domain_", "process": "process_name_", "belief": "belief_"}.items():
        if hasattr(model, attribute):
            facts[name] = _shortened(getattr(model, attribute))
    if hasattr(model, "lam_"):
        facts["lambda"] = _spread(model.lam_)
    facts["columns"] = f"{len(model.constants_)}" + (f", {constant} of them constant" if constant else "")
    facts["dtype"] = str(model.dtype_)
    facts["sparse"] = "yes" if model.sparse_ else "no"
    weights = [] if model.denoiser_ is None else [weight.numel() for weight in model.denoiser_.parameters()]
    facts["parameters"] = f"{sum(weights):,}"
    facts["seed"] = str(model.seed_)
    if model.history_:
        last = model.history_[-1]
        facts["updates"] = f"{last['update']:,.0f}"
        facts["training loss"] = f"{last['loss']:.6g}"
        if "validation_loss" in last:
            best = min(record["validation_loss"] for record in model.history_)
            facts["validation loss"] = f"{last['validation_loss']:.6g} at the end, {best:.6g} at best"
    else:
        facts["updates"] = "0, as every column is constant"
    return facts


def _domain(name: str, bound: float | None) -> str | Domain:
    if bound is None:
        return name
    if name not in ("count", "bounded"):
        raise ValueError(f"--bound is for --domain count or bounded, not {name}")
    return DOMAINS[name](bound)  # type: ignore[call-arg]


def _lam(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _whole_numbers(option: str, text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ValueError(f"{option} must be whole numbers above 0 with commas between, got {text!r}")
    return sorted({int(word) for word in words})


def _shortened(value: object, most: int = 100) -> str:
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _spread(values: np.ndarray) -> str:
    low, middle, high = np.quantile(values, [0, 0.5, 1])
    return f"{low:.6g}" if low == high else f"{low:.4g} to {high:.4g}, median {middle:.4g}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="countjump",
        description="Generative models of counts, sparse vectors, heavy tails, categories and proportions.",
    )
    parser.add_argument("--version", action="version", version=f"countjump {countjump.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = _command(commands, "fit", "fit a model to the rows of a file", fit)
    command.add_argument(
        "data", metavar="DATA", help=".npz (scipy sparse or numpy), .npy, .csr, or .csv or .tsv with a line of names"
    )
    command.add_argument("--out", required=True, metavar="MODEL", help="the directory to save the model in")
    command.add_argument("--key", metavar="NAME", help="which array of an .npz that holds several")
    command.add_argument(
        "--domain", default="auto", metavar="NAME", help=f"what the values are: auto, {', '.join(DOMAINS)}"
    )
    command.add_argument(
        "--bound", type=float, metavar="NUMBER", help="the largest possible value, for count or bounded"
    )
    command.add_argument("--lam", default="auto", metavar="NUMBER", help="the paper's λ, or auto")
    for name, (kind, text) in PARAMETERS.items():
        metavar = {int: "N", float: "NUMBER"}.get(kind, "DIR" if name.endswith("dir") else "NAME")
        option = "--" + name.replace("_", "-")
        command.add_argument(option, type=kind, default=argparse.SUPPRESS, metavar=metavar, help=text)
    command.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same model")

    command = _command(commands, "sample", "draw rows from a saved model", sample)
    command.add_argument("model", metavar="MODEL", help="the directory of a saved model")
    command.add_argument("--rows", type=int, required=True, metavar="N", help="how many rows to draw")
    command.add_argument(
        "--out", required=True, metavar="FILE", help="where to write them: .npz, .npy, .csr, .csv or .tsv"
    )
    command.add_argument("--steps", type=int, default=20, metavar="S", help="steps of the chain (default: 20)")
    command.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same rows")

    command = _command(commands, "info", "say what a saved model is", info)
    command.add_argument("model", metavar="MODEL", help="the directory of a saved model")

    command = _command(commands, "demo", "fit bundled digits and write a page about it", run_demo)
    command.add_argument(
        "--out", required=True, metavar="DIR", help="the directory for the page, the model and a sample"
    )
    command.add_argument(
        "--updates", type=int, default=2000, metavar="N", help="the length of training (default: 2000)"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")

    command = _command(commands, "reproduce", "run an experiment of the paper", reproduce)
    command.add_argument("experiment", choices=sorted(EXPERIMENTS), help="which one")
    command.add_argument("--preset", default="quick", metavar="NAME", help="smoke, quick (default) or paper")
    command.add_argument("--only", default="", metavar="SETS", help="some of the data sets, with commas between")
    command.add_argument("--methods", default="", metavar="NAMES", help="some of the methods, with commas between")
    command.add_argument("--runs", type=int, metavar="N", help="fits of each cell, with different seeds")
    command.add_argument(
        "--epochs", type=int, metavar="N", help="the length of training of the paper's methods, instead of the preset's"
    )
    command.add_argument(
        "--steps", metavar="LIST", help="steps to sample JUMP with, such as 10,20, instead of the preset's"
    )
    command.add_argument(
        "--data", metavar="DIR", help="where the files of the documents are (default: that of COUNTJUMP_DATA)"
    )
    command.add_argument(
        "--out", required=True, metavar="DIR", help="for records, tables and figures; what is there stays"
    )
    return parser


def _command(commands: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + "."
    )
    command.set_defaults(run=run)
    if name != "info":
        command.add_argument("--quiet", action="store_true", help="no progress bars")
    return command
