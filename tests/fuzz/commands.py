"""The command line: exit codes 0 (fine), 1 (a problem with the data) and 2 (usage), one line for a mistake, and no traceback."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from countjump import cli, persistence
from countjump.data import read_matrix, write_matrix

from . import bases
from .case import Case, mutate
from .files import SUFFIXES, files_of, plant
from .inputs import MATRICES
from .oracle import check, check_files, objection_to, tree

START = "import runpy, sys; print('started', flush=True); runpy.run_module('countjump', run_name='__main__')"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
QUICK = ["--max-updates", "2", "--width", "4", "--seed", "0"]


def case(case: Case) -> None:
    case.scenario({_round: 4, _options: 5, _data: 4, _model: 4, _unwritable: 3, _process: 1})


def run(*arguments: object) -> tuple[int, str, str]:
    """Run a command in this process: the exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    name = f"countjump {arguments[0]}"
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except Exception as error:
            objection = objection_to(error) or ("exception out of a command", "cli.py", str(error))
            check(False, objection[0], f"{name}: {objection[1]}", objection[2])
    check_output(name, code, out.getvalue(), err.getvalue())
    return code, out.getvalue(), err.getvalue()


def check_output(name: str, code: int, out: str, err: str) -> None:
    check(code in (0, 1, 2), "exit code", name, f"{code}: {err[-500:]}")
    check("Traceback" not in err, "traceback", name, err[-500:])
    check(not CONTROL.search(out), "control characters", f"{name}: output", ascii(out))
    said = [line for line in err.splitlines() if "error: " in line]
    check(code == 0 or len(said) == 1, "exit without one line of error", name, err[-500:])
    check(not CONTROL.search("".join(said)), "control characters", f"{name}: error", ascii(said))


def _round(case: Case) -> None:
    """Fit, sample and info on what must work; what lies beside stays."""
    given = case.one_of(MATRICES)
    data, rows = (case.place / f"{name}{case.one_of(SUFFIXES)}" for name in "da")
    case.note(f"{given.name}, {data.suffix} to {rows.suffix}")
    write_matrix(data, given.make(case.numbers()))
    plant(case, rows.name)
    code, _, err = run("fit", data, "--out", case.place / "m", "--quiet", *QUICK)
    check(code == 0, "refused", "countjump fit", err)
    before = tree(case.place)
    code, _, err = run("sample", case.place / "m", "--rows", "3", "--steps", "2", "--out", rows, "--quiet")
    check(code == 0, "refused", "countjump sample", err)
    check_files(case.place, before, lambda name: Path(name).parts[0] == rows.name, f"countjump sample {rows.suffix}")
    check(read_matrix(rows).shape[0] == 3, "wrong result", "countjump sample: rows")
    check(run("info", case.place / "m")[0] == 0, "refused", "countjump info")


WRONG = """
bogus|fit|fit DATA|sample|sample MODEL|demo|reproduce bogus --out OUT|FIT --bogus 1|FIT --bound 5|FIT --domain count --bound nan
FIT --domain bogus|FIT --process bogus|FIT --belief bogus|FIT --schedule bogus|FIT --device bogus|FIT --width bogus|FIT --lam bogus
FIT --seed -1|FIT --max-updates -1|FIT --width 0|FIT --batch-size 0|FIT --learning-rate -1|FIT --ema 1|FIT --ema nan|FIT --lam -1
SAMPLE|SAMPLE --rows -1|SAMPLE --rows x|SAMPLE --rows 1.5|SAMPLE --rows \x1b[31m|SAMPLE --rows 2 --steps 0
sample MODEL --rows 2 --out OUT.xlsx|demo --out OUT --updates 0|reproduce univariate --preset bogus --out OUT
reproduce univariate --preset smoke --runs 0 --out OUT|reproduce univariate --preset smoke --only bogus --out OUT
"""
"""Commands that ask for what there is not."""


def _options(case: Case) -> None:
    """A wrong option is a matter of usage."""
    data, out, model = case.place / "d.npy", case.place / "o", bases.saved("counts", case.place / "m")
    np.save(data, bases.DATA["counts"])
    command = case.one_of(WRONG.strip().replace("\n", "|").split("|"))
    case.note(ascii(command))
    command = command.replace("FIT", "fit DATA --out OUT --max-updates 2")
    command = command.replace("SAMPLE", "sample MODEL --out OUT.npy")
    places = {"DATA": data, "OUT": out, "MODEL": model, "OUT.npy": f"{out}.npy", "OUT.xlsx": f"{out}.xlsx"}
    code, _, err = run(*(places.get(word, word) for word in command.split()))
    check(code == 2, "exit code", "usage", f"{code}: {err}")


def _data(case: Case) -> None:
    """Files that hold no such data, and files that hold nothing whole."""
    path = case.place / f"d{case.one_of(SUFFIXES)}"
    kind = case.one_of(["negative", "nan", "text", "mutated", "gone", "escape"])
    case.note((kind, path.suffix))
    X = np.array([[1.5, 2.0], [3.0, -1.0 if kind == "negative" else np.nan if kind == "nan" else 4.0]])
    if kind == "escape":
        path = path.with_name(f"\x1b[31m{path.name}")
    elif kind == "text" and path.suffix != ".csr":
        path.write_bytes(b"not,what\nit,says\n")
    elif kind != "gone":
        write_matrix(path, X)
    if kind == "mutated":
        target = path if path.is_file() else files_of(path)[1]
        target.write_bytes(mutate(case, target.read_bytes())[: case.one_of([10, 10**9])])
    code, _, err = run("fit", path, "--out", case.place / "m", "--quiet", *QUICK)
    if kind == "nan" or (kind == "text" and path.suffix != ".csr"):
        table = path.suffix in (".csv", ".tsv")  # where values may be missing, and words are levels
        check(code == (0 if table else 1), "exit code", f"{kind} in the data", f"{code}: {err}")
    check(code == 0 or not (case.place / "m").exists(), "file left behind", "countjump fit", err)


def _model(case: Case) -> None:
    """Models that are damaged or hostile: info and sample say so, and print nothing that moves a terminal."""
    name = case.one_of(bases.NAMES)
    directory = bases.saved(name, case.place / "m")
    file = directory / persistence.FILE
    kind = case.one_of(["mutated", "escape", "escape", "deep", "gone", "class"])
    case.note((name, kind))
    described, arrays = persistence.read(directory)
    if kind == "mutated":
        file.write_bytes(mutate(case, file.read_bytes()))
    elif kind == "escape":
        plan = described["fitted"]["plan"]
        own = case.one_of(["reasons", "seed", "class"])
        if own == "reasons" and "reasons" in plan:
            plan["reasons"] = {"domain": "\x1b[31mred\x07", "\x9b2J": "clear"}
        elif own == "seed":
            described["fitted"]["seed"] = "\x1b[2J"
        else:
            described["class"] = "\x1b[2JumpModel"
        persistence.write(directory, {k: described[k] for k in ("class", "params", "fitted")}, arrays)
    elif kind == "class":
        file.write_text(json.dumps(described | {"class": case.one_of(["DDPM", "D3PM", "Path", None, 3, ["a"]])}))
    elif kind == "deep":
        file.write_text("[" * 100_000)
    else:
        file.unlink()
    code, _, err = run("info", directory)
    check(code in (1, 2) or kind in ("mutated", "escape", "class"), "accepted", f"info of a model: {kind}", err)
    again, _, err = run("sample", directory, "--rows", "2", "--steps", "2", "--out", case.place / "a.npy", "--quiet")
    check(again == 0 or not (case.place / "a.npy").exists(), "file left behind", "countjump sample", err)


def _unwritable(case: Case) -> None:
    """A place that cannot be written is noticed before the work is done."""
    (case.place / "file").write_bytes(b"mine")
    np.save(case.place / "d.npy", bases.DATA["counts"])
    place = case.one_of(["file", "file/m", "/proc/none/m", "/dev/null/m", "a" * 300])
    out = place if place.startswith("/") else str(case.place / place)
    case.note(place[:20])
    if case.chance(0.6):
        kept = case.place / "checkpoints"
        code, _, err = run("fit", case.place / "d.npy", "--out", out, "--checkpoint-dir", kept, "--quiet", *QUICK)
        check(not list(kept.glob("*")), "noticed after the fit", "countjump fit --out", err)
    else:
        code, _, err = run("sample", bases.saved("counts", case.place / "m"), "--rows", "2", "--out", out + ".npy")
    check(code in (1, 2) or place == "file", "exit code", "a place that cannot be written", f"{code}: {err}")
    check((case.place / "file").read_bytes() == b"mine", "foreign file lost or changed", "--out")


def _process(case: Case) -> None:
    """What only a process of its own shows: Ctrl-C while it starts, and a reader that goes away."""
    directory = bases.saved("counts", case.place / "m")
    environment = os.environ | {"PYTHONPATH": str(Path(persistence.__file__).parents[1])}
    command = [sys.executable, "-c", START, "info", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "started\n"
    if case.chance(0.6):
        moment = case.random.uniform(0.2, 3.0)
        case.note(f"Ctrl-C after {moment:.2f} s")
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        right = process.returncode in (0, 130, -signal.SIGINT)
    else:
        case.note("a pipe that is closed")
        process.stdout.close()
        err = process.stderr.read()
        right = process.wait() in (0, 1, 141, -signal.SIGPIPE) and not err
    check("Traceback" not in err and "Exception" not in err, "traceback", "a process of its own", err[-700:])
    check(right, "exit code", "a process of its own", f"{process.returncode}: {err}")
