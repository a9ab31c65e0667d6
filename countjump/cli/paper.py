"""``demo`` and ``reproduce``: a page about bundled digits, and the experiments of the paper."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from countjump.atomic import check_writable
from countjump.cli.asking import Answer, UsageError, command, import_torch

EXPERIMENTS = ("documents", "images", "univariate")
"""The names of what is there, known without importing it."""


def add_commands(commands: Any) -> None:
    """Add these commands to the parser."""
    example = "countjump demo --out demo-out"
    add = command(commands, "demo", "fit bundled digits and write a page about it", run_demo, example)
    add("--out", "DIR", "the directory for the page, the model and a sample", required=True)
    add("--updates", "N", "the length of training (default: 2000)", default=2000)
    add("--seed", "N", "(default: 0)", default=0, least=0)

    example = "countjump reproduce univariate --preset quick --out results"
    add = command(commands, "reproduce", "run an experiment of the paper", reproduce, example)
    add("experiment", EXPERIMENTS, "which one")
    add("--preset", "NAME", "smoke, quick (default) or paper", default="quick")
    add("--only", "SETS", "some of the data sets, with commas between", default="")
    add("--methods", "NAMES", "some of the methods, with commas between", default="")
    add("--runs", "N", "fits of each cell, with different seeds")
    add("--epochs", "N", "the length of training of the paper's methods, instead of the preset's")
    add("--steps", "LIST", "steps to sample JUMP with, such as 10,20, instead of the preset's")
    add("--data", "DIR", "where the files of the documents or images are (default: that of COUNTJUMP_DATA)")
    add(
        "--weights", "FILE", "of images: a TorchScript file of the Inception network, instead of that of countjump[fid]"
    )
    add(
        "--classifier",
        "FILE",
        "of images: a TorchScript file of a classifier's logits, to have the Inception score, too",
    )
    add("--out", "DIR", "for records, tables and figures; what is there stays", required=True)


def run_demo(arguments: Namespace) -> Answer:
    """Fit the bundled digits and write a page about it."""
    check_writable(arguments.out, directory=True)
    import_torch()
    from countjump import demo

    page = str(demo.make(arguments.out, arguments.updates, arguments.seed, progress=not arguments.quiet))
    return Answer(page, {"page": page})


def reproduce(arguments: Namespace) -> Answer:
    """Run an experiment of the paper, or what is missing of it."""
    overrides = {"paper_epochs": arguments.epochs, "steps": arguments.steps, "data": arguments.data}
    overrides |= {"weights": arguments.weights, "classifier": arguments.classifier}
    overrides = {name: value for name, value in overrides.items() if value is not None}
    out = Path(arguments.out)
    check_writable(out, directory=True)
    import_torch()
    from countjump import experiments
    from countjump.experiments import runner

    kind = experiments.EXPERIMENTS[arguments.experiment]
    if arguments.data is not None and not kind.reads_data:
        raise UsageError(f"--data is for experiments that read data, and {arguments.experiment} makes its own")
    for name in ("weights", "classifier"):
        if name in overrides and not kind.sees_images:
            raise UsageError(f"--{name} is for experiments with images, and {arguments.experiment} has none")
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
    return Answer(str(out / "table.md"), {"table": str(out / "table.md")})
