"""The command line: ``countjump fit``, ``sample``, ``info``, ``demo`` and ``reproduce``.

What a command needs is imported where it runs, so that ``--help`` and a mistake in the options are answered at once.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import countjump
from countjump.atomic import check_writable

if TYPE_CHECKING:
    from countjump.domains import Domain

DOMAINS = ("non-negative", "count", "binary", "one-hot", "simplex", "bounded", "categorical")
EXPERIMENTS = ("documents", "univariate")
"""The names of what is there, known without importing it."""

PARAMETERS: dict[str, tuple[str | tuple[str, ...], str]] = {
    "process": (("auto", "poisson", "binomial"), "how data becomes counts"),
    "belief": (("auto", "poisson", "mixture", "composition"), "what the network answers with; the paper's is poisson"),
    "components": ("N", "components of a mixture, of each family"),
    "objective": (("auto", "nll", "reweighted", "elbo"), "what is minimised"),
    "decode": (("auto", "latent", "mean", "draw"), "how counts become data"),
    "schedule": (("linear-beta", "cosine", "geometric"), "how fast units are removed"),
    "width": ("N", "hidden units of the network"),
    "batch_size": ("N", "rows per update"),
    "learning_rate": ("NUMBER", "the largest learning rate"),
    "lr_schedule": (("cosine", "constant"), "how the learning rate changes"),
    "ema": ("SHARE", "decay of the moving average of the weights"),
    "validation_fraction": ("SHARE", "share of the rows held out, at most 10,000; 0 for none"),
    "max_updates": ("N", "the length of training"),
    "checkpoint_dir": ("DIR", "a directory where a killed fit finds its way back"),
    "checkpoint_every": ("N", "updates between checkpoints"),
    "device": ("NAME", "auto, cpu or cuda"),
}
"""Parameters of JumpModel that are options of ``fit`` as they are; what is not given keeps the model's default."""


def import_torch() -> None:
    """Import it; Ctrl-C waits meanwhile, as it would crash the start of torch."""
    if threading.current_thread() is not threading.main_thread():
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        import torch  # noqa: F401
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


class UsageError(Exception):
    """A mistake in what was asked, and not in data, files or models."""


class Parser(argparse.ArgumentParser):
    """One that raises, so that every mistake is answered in one place."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 1 for a problem with data, files or models, 2 for a mistake in what was asked."""
    try:
        arguments = _parser().parse_args(argv)
        said = arguments.run(arguments)
    except (UsageError, ValueError, TypeError, OSError, FloatingPointError, MemoryError) as error:
        print(f"countjump: error: {_printable(' '.join(str(error).split()))}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    if sys.stdout is None:  # nobody listens
        return 0
    try:
        if said:
            print(said)
        sys.stdout.flush()
    except OSError as error:  # Python need not try again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # who reads it, such as head, has seen enough
            return 0
        print(f"countjump: error: the answer could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def fit(arguments: argparse.Namespace) -> str | None:
    """Fit a model to the rows of a file."""
    given = {name: value for name, value in vars(arguments).items() if name in PARAMETERS}
    given |= {"domain": _domain(arguments.domain, arguments.bound), "lam": arguments.lam}
    check_writable(arguments.out, directory=True)
    import_torch()
    model = countjump.JumpModel(random_state=arguments.seed, progress=not arguments.quiet, **given)
    try:
        model.check_params()
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    import numpy as np

    from countjump.data import read_matrix, read_names

    X = read_matrix(arguments.data, arguments.key)
    names = read_names(arguments.data)
    model.fit(X)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.save(arguments.out)
    return None if arguments.quiet else arguments.out


def sample(arguments: argparse.Namespace) -> str | None:
    """Draw rows from a saved model and write them to a file."""
    from countjump.data import check_suffix, check_target, write_matrix

    try:
        check_suffix(arguments.out)
    except ValueError as error:
        raise UsageError(str(error)) from error
    check_target(arguments.out)
    model = load(arguments.model)
    model.progress = not arguments.quiet
    names = getattr(model, "feature_names_in_", None)
    rows = model.sample(arguments.rows, steps=arguments.steps, random_state=arguments.seed)
    write_matrix(arguments.out, rows, None if names is None else list(names))
    return None if arguments.quiet else arguments.out


def info(arguments: argparse.Namespace) -> str:
    """Say what a saved model is."""
    model = load(arguments.model)
    facts = describe(model)
    width = max(map(len, facts))
    lines = [f"{name:<{width}}  {_printable(fact)}" for name, fact in facts.items()]
    if choices := getattr(model, "choices_", {}):
        lines += ["", 'what "auto" chose, and why']
        lines += [f"  {_printable(name):<{width - 2}}  {_printable(reason)}" for name, reason in choices.items()]
    return "\n".join(lines)


def run_demo(arguments: argparse.Namespace) -> str:
    """Fit the bundled digits and write a page about it."""
    check_writable(arguments.out, directory=True)
    import_torch()
    from countjump import demo

    return str(demo.make(arguments.out, arguments.updates, arguments.seed, progress=not arguments.quiet))


def reproduce(arguments: argparse.Namespace) -> str:
    """Run an experiment of the paper, or what is missing of it."""
    overrides = {"paper_epochs": arguments.epochs, "steps": arguments.steps, "data": arguments.data}
    overrides = {name: value for name, value in overrides.items() if value is not None}
    out = Path(arguments.out)
    check_writable(out, directory=True)
    import_torch()
    from countjump import experiments
    from countjump.experiments import runner

    kind = experiments.EXPERIMENTS[arguments.experiment]
    if arguments.data is not None and not kind.reads_data:
        raise UsageError(f"--data is for experiments that read data, and {arguments.experiment} makes its own")
    texts = arguments.only, arguments.methods
    only, methods = ([name.strip() for name in text.split(",") if name.strip()] for text in texts)
    try:
        experiment = kind(arguments.preset, overrides)
        experiment.cells(only, methods, arguments.runs)
    except ValueError as error:  # unknown names
        raise UsageError(str(error)) from error
    if arguments.data is not None and "made" in experiment.settings:
        raise UsageError(f"--data is given, and --preset {arguments.preset} makes its own data: leave one of them out")
    runner.run(experiment, out, only, methods, arguments.runs, progress=not arguments.quiet)
    return str(out / "table.md")


def load(path: str) -> Any:
    """The saved model, whichever of the public classes it is of."""
    import_torch()
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


def _printable(text: str) -> str:
    """Control characters and the like as escapes: a terminal obeys them, and a file may hold any."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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


def _reader(option: str, kind: str | tuple[str, ...], least: int) -> Callable[[str], Any]:
    """What makes a value of the text of an option, by the names it knows or by the word for it in ``--help``."""
    numbers: dict[Any, tuple[type, Callable[[float], bool], str]] = {
        "N": (int, lambda value: value >= least, f"at least {least}, and a whole number"),
        "SHARE": (float, lambda value: 0 <= value < 1, "in [0, 1)"),
        "NUMBER": (float, lambda value: 0 < value < math.inf, "a positive number"),
        "NUMBER|auto": (float, lambda value: 0 < value < math.inf, "a positive number, or auto"),
    }

    def read(text: str) -> Any:
        if isinstance(kind, tuple) and text not in kind:
            raise UsageError(f"{option} {text!r} is unknown: use one of {', '.join(kind)}")
        if kind == "LIST":
            words = [word.strip() for word in text.split(",")]
            if not all(word.isdecimal() and int(word) > 0 for word in words):
                raise UsageError(f"{option} must be whole numbers above 0 with commas between, got {text!r}")
            return sorted({int(word) for word in words})
        if kind not in numbers or (kind == "NUMBER|auto" and text == "auto"):
            return text
        number, good, must = numbers[kind]
        with suppress(ValueError):
            if good(number(text)):
                return number(text)
        raise UsageError(f"{option} must be {must}, got {text!r}")

    return read


def _parser() -> argparse.ArgumentParser:
    about = "Generative models of counts, sparse vectors, heavy tails, categories and proportions."
    codes = "Ends with code 0 if all is well, 1 for a problem with data, files or models, 2 for a mistake in what was asked,"
    parser = Parser(prog="countjump", description=about, epilog=f"{codes} and 130 if it was interrupted.")
    parser.add_argument("--version", action="version", version=f"countjump {countjump.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    add = _command(commands, "fit", "fit a model to the rows of a file", fit)
    add("data", "DATA", ".npz (scipy sparse or numpy), .npy, .csr, or .csv or .tsv with a line of names")
    add("--out", "MODEL", "the directory to save the model in", required=True)
    add("--key", "NAME", "which array of an .npz that holds several")
    add("--domain", ("auto", *DOMAINS), "what the values are", default="auto")
    add("--bound", "NUMBER", "the largest possible value, for count or bounded")
    add("--lam", "NUMBER|auto", "the paper's λ", default="auto")
    for name, (kind, text) in PARAMETERS.items():
        add("--" + name.replace("_", "-"), kind, text, default=argparse.SUPPRESS)
    add("--seed", "N", "the same seed gives the same model", least=0)

    add = _command(commands, "sample", "draw rows from a saved model", sample)
    add("model", "MODEL", "the directory of a saved model")
    add("--rows", "N", "how many rows to draw", required=True, least=0)
    add("--out", "FILE", "where to write them: .npz, .npy, .csr, .csv or .tsv", required=True)
    add("--steps", "N", "steps of the chain (default: 20, or 50 for 2 to 255 columns)")
    add("--seed", "N", "the same seed gives the same rows", least=0)

    add = _command(commands, "info", "say what a saved model is", info)
    add("model", "MODEL", "the directory of a saved model")

    add = _command(commands, "demo", "fit bundled digits and write a page about it", run_demo)
    add("--out", "DIR", "the directory for the page, the model and a sample", required=True)
    add("--updates", "N", "the length of training (default: 2000)", default=2000)
    add("--seed", "N", "(default: 0)", default=0, least=0)

    add = _command(commands, "reproduce", "run an experiment of the paper", reproduce)
    add("experiment", EXPERIMENTS, "which one")
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

    def add(option: str, kind: str | tuple[str, ...], text: str, least: int = 1, **more: Any) -> None:
        metavar, text = (kind, text) if isinstance(kind, str) else ("NAME", f"{text}: {', '.join(kind)}")
        command.add_argument(option, metavar=metavar, help=text, type=_reader(option, kind, least), **more)

    return add
