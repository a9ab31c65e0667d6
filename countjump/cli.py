"""The command line: ``countjump fit``, ``sample``, ``info``, ``demo`` and ``reproduce``.

What a command needs is imported where it runs, so that ``--help`` and a mistake in the options are answered at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import countjump

if TYPE_CHECKING:
    from countjump.domains import Domain

DOMAINS = ("non-negative", "count", "binary", "one-hot", "simplex", "bounded")
EXPERIMENTS = ("documents", "univariate")
"""The names of what is there, known without importing it."""

PARAMETERS: dict[str, tuple[str, str]] = {
    "process": ("NAME", "how data becomes counts: auto, poisson or binomial"),
    "belief": ("NAME", "auto, poisson (the paper's), mixture or composition"),
    "components": ("N", "components of a mixture, of each family"),
    "objective": ("NAME", "auto, nll, reweighted or elbo"),
    "decode": ("NAME", "auto, latent, mean or draw"),
    "schedule": ("NAME", "linear-beta, cosine or geometric"),
    "width": ("N", "hidden units of the network"),
    "batch_size": ("N", "rows per update"),
    "learning_rate": ("NUMBER", "the largest learning rate"),
    "lr_schedule": ("NAME", "cosine or constant"),
    "ema": ("NUMBER", "decay of the moving average of the weights"),
    "validation_fraction": ("NUMBER", "share of the rows held out, at most 10,000; 0 for none"),
    "max_updates": ("N", "the length of training"),
    "checkpoint_dir": ("DIR", "a directory where a killed fit finds its way back"),
    "checkpoint_every": ("N", "updates between checkpoints"),
    "device": ("NAME", "auto, cpu or cuda"),
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
    import numpy as np

    from countjump.data import read_matrix, read_names

    X = read_matrix(arguments.data, arguments.key)
    names = read_names(arguments.data)
    given = {name: value for name, value in vars(arguments).items() if name in PARAMETERS}
    given |= {"domain": _domain(arguments.domain, arguments.bound), "lam": _lam(arguments.lam)}
    model = countjump.JumpModel(random_state=arguments.seed, progress=not arguments.quiet, **given).fit(X)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.save(arguments.out)
    if not arguments.quiet:
        print(arguments.out)


def sample(arguments: argparse.Namespace) -> None:
    """Draw rows from a saved model and write them to a file."""
    from countjump.data import check_suffix, write_matrix

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
    if choices := getattr(model, "choices_", {}):
        print('\nwhat "auto" chose, and why')
        for name, reason in choices.items():
            print(f"  {name:<{width - 2}}  {reason}")


def run_demo(arguments: argparse.Namespace) -> None:
    """Fit the bundled digits and write a page about it."""
    from countjump import demo

    print(demo.make(arguments.out, arguments.updates, arguments.seed, progress=not arguments.quiet))


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
    from countjump import experiments
    from countjump.experiments import runner

    kind = experiments.EXPERIMENTS[arguments.experiment]
    if arguments.data is not None:
        if not kind.reads_data:
            raise ValueError(f"--data is for experiments that read data, and {arguments.experiment} makes its own")
        overrides["data"] = arguments.data
    experiment = kind(arguments.preset, overrides)
    if arguments.data is not None and "made" in experiment.settings:
        raise ValueError(f"--data is given, and --preset {arguments.preset} makes its own data: leave one of them out")
    texts = arguments.only, arguments.methods
    only, methods = ([name.strip() for name in text.split(",") if name.strip()] for text in texts)
    if Path(arguments.out).is_file():
        raise ValueError(f"--out {arguments.out} is a file: name a directory")
    runner.run(experiment, Path(arguments.out), only, methods, arguments.runs, progress=not arguments.quiet)
    print(Path(arguments.out) / "table.md")


def load(path: str) -> Any:
    """The saved model, whichever of the public classes it is of."""
    from countjump import baselines, persistence

    name = persistence.read(path)[0].get("class")
    kinds = {kind.__name__: kind for kind in (countjump.JumpModel, baselines.DDPM, baselines.D3PM)}
    return kinds.get(str(name), countjump.JumpModel).load(path)


def describe(model: Any) -> dict[str, str]:
    """What there is to say about a fitted model, a line each."""
    columns, constant = model.block_.columns, model.block_.columns - model.block_.varying
    facts = {"class": type(model).__name__}
    for name, attribute in {"domain": "domain_", "process": "process_name_", "belief": "belief_"}.items():
        if hasattr(model, attribute):
            text = str(getattr(model, attribute))
            facts[name] = text if len(text) <= 100 else text[:99] + "…"
    if hasattr(model, "lam_"):
        import numpy as np

        low, middle, high = np.quantile(model.lam_, [0, 0.5, 1])
        facts["lambda"] = f"{low:.6g}" if low == high else f"{low:.4g} to {high:.4g}, median {middle:.4g}"
    facts["columns"] = f"{columns}" + (f", {constant} of them constant" if constant else "")
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


def _domain(name: str, bound: float | None) -> str | Domain:
    if bound is None:
        return name
    if name not in ("count", "bounded"):
        raise ValueError(f"--bound is for --domain count or bounded, not {name}")
    from countjump import domains

    return domains.DOMAINS[name](bound)  # type: ignore[call-arg]


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


def _parser() -> argparse.ArgumentParser:
    about = "Generative models of counts, sparse vectors, heavy tails, categories and proportions."
    parser = argparse.ArgumentParser(prog="countjump", description=about)
    parser.add_argument("--version", action="version", version=f"countjump {countjump.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    add = _command(commands, "fit", "fit a model to the rows of a file", fit)
    add("data", "DATA", ".npz (scipy sparse or numpy), .npy, .csr, or .csv or .tsv with a line of names")
    add("--out", "MODEL", "the directory to save the model in", required=True)
    add("--key", "NAME", "which array of an .npz that holds several")
    add("--domain", "NAME", f"what the values are: auto, {', '.join(DOMAINS)}", default="auto")
    add("--bound", "NUMBER", "the largest possible value, for count or bounded")
    add("--lam", "NUMBER", "the paper's λ, or auto", default="auto", type=str)
    for name, (metavar, text) in PARAMETERS.items():
        add("--" + name.replace("_", "-"), metavar, text, default=argparse.SUPPRESS)
    add("--seed", "N", "the same seed gives the same model")

    add = _command(commands, "sample", "draw rows from a saved model", sample)
    add("model", "MODEL", "the directory of a saved model")
    add("--rows", "N", "how many rows to draw", required=True)
    add("--out", "FILE", "where to write them: .npz, .npy, .csr, .csv or .tsv", required=True)
    add("--steps", "S", "steps of the chain (default: 20)", default=20)
    add("--seed", "N", "the same seed gives the same rows")

    add = _command(commands, "info", "say what a saved model is", info)
    add("model", "MODEL", "the directory of a saved model")

    add = _command(commands, "demo", "fit bundled digits and write a page about it", run_demo)
    add("--out", "DIR", "the directory for the page, the model and a sample", required=True)
    add("--updates", "N", "the length of training (default: 2000)", default=2000)
    add("--seed", "N", "(default: 0)", default=0)

    add = _command(commands, "reproduce", "run an experiment of the paper", reproduce)
    add("experiment", None, "which one", choices=EXPERIMENTS)
    add("--preset", "NAME", "smoke, quick (default) or paper", default="quick")
    add("--only", "SETS", "some of the data sets, with commas between", default="")
    add("--methods", "NAMES", "some of the methods, with commas between", default="")
    add("--runs", "N", "fits of each cell, with different seeds")
    add("--epochs", "N", "the length of training of the paper's methods, instead of the preset's")
    add("--steps", "LIST", "steps to sample JUMP with, such as 10,20, instead of the preset's")
    add("--data", "DIR", "where the files of the documents are (default: that of COUNTJUMP_DATA)")
    add("--out", "DIR", "for records, tables and figures; what is there stays", required=True)
    return parser


def _command(commands: Any, name: str, text: str, run: Any) -> Callable[..., None]:
    """A new command; returns what adds an option to it."""
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=run)
    if name != "info":
        command.add_argument("--quiet", action="store_true", help="no progress bars")

    def add(option: str, metavar: str | None, text: str, **more: Any) -> None:
        kind = {"N": int, "S": int, "NUMBER": float}.get(str(metavar), str)
        command.add_argument(option, **{"metavar": metavar, "help": text, "type": kind, **more})

    return add
