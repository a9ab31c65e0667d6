"""Every command of the command line, and every way to get one wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from countjump import JumpModel, __version__, domains, experiments, persistence
from countjump.cli import main, models, paper
from countjump.data import read_matrix, write_matrix

QUICK = ["--max-updates", "5", "--width", "8", "--seed", "0", "--quiet"]


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    return np.random.default_rng(0).poisson(2.0, size=(60, 3))


@pytest.fixture(scope="module")
def model(counts: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model of dense counts."""
    path = tmp_path_factory.mktemp("dense") / "model"
    JumpModel(max_updates=5, width=8, random_state=0, progress=False).fit(counts).save(path)
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    code = main([str(word) for word in argv])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def mistake(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 1) -> str:
    """The one line that is printed where something is wrong: with data, files or models, or (2) with the words themselves."""
    found, _, err = run(capsys, *argv)
    lines = [line for line in err.splitlines() if line.strip()]
    assert found == code
    assert len(lines) == 1
    assert lines[0].startswith("countjump: error: ")
    assert "Traceback" not in err
    return lines[0]


# Fit and sample.


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".tsv"])
def test_dense_rows_go_in_and_come_out(suffix, counts, tmp_path, capsys):
    data, saved, out = tmp_path / f"data{suffix}", tmp_path / "model", tmp_path / f"rows{suffix}"
    if suffix == ".npz":
        np.savez(data, counts)
    elif suffix == ".npy":
        np.save(data, counts)
    else:
        separator = "," if suffix == ".csv" else "\t"
        np.savetxt(data, counts, fmt="%d", delimiter=separator, header=separator.join("abc"), comments="")
    assert run(capsys, "fit", data, "--out", saved, *QUICK)[0] == 0
    assert run(capsys, "sample", saved, "--rows", 7, "--out", out, "--steps", 3, "--seed", 1, "--quiet")[0] == 0
    expected = JumpModel.load(saved).sample(7, steps=3, random_state=1)
    if suffix == ".npz":
        rows = np.load(out, allow_pickle=False)["X"]
    elif suffix == ".npy":
        rows = np.load(out, allow_pickle=False)
    else:
        assert out.read_text().splitlines()[0].split(separator) == ["a", "b", "c"]
        rows = np.loadtxt(out, delimiter=separator, skiprows=1, dtype=np.int64)
    np.testing.assert_array_equal(rows, expected)


def test_sparse_rows_go_in_and_come_out(tmp_path, capsys):
    X = sp.random(80, 20, density=0.1, random_state=0, format="csr", data_rvs=lambda n: np.ones(n) * 3).astype(np.int32)
    data, saved, out = tmp_path / "data.npz", tmp_path / "model", tmp_path / "rows.npz"
    sp.save_npz(data, X)
    assert run(capsys, "fit", data, "--out", saved, *QUICK)[0] == 0
    assert run(capsys, "sample", saved, "--rows", 5, "--out", out, "--steps", 2, "--seed", 1)[0] == 0
    rows = sp.load_npz(out)
    assert (rows.format, rows.shape, rows.dtype) == ("csr", (5, 20), np.int32)
    assert run(capsys, "sample", saved, "--rows", 5, "--out", tmp_path / "rows.csv", "--steps", 2, "--seed", 1)[0] == 0
    dense = np.loadtxt(tmp_path / "rows.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(dense, rows.toarray())


def test_a_matrix_on_disk_is_read_where_it_lies(tmp_path, capsys):
    X = sp.random(300, 20, density=0.3, random_state=0, data_rvs=lambda n: np.arange(n) % 4 + 1.0, format="csr").astype(
        int
    )
    write_matrix(tmp_path / "data.csr", X)
    write_matrix(tmp_path / "data.csr", X)
    again = read_matrix(tmp_path / "data.csr")
    assert not again.data.flags.writeable, "a memory map, not a copy"
    assert (again != X).nnz == 0
    assert run(capsys, "fit", tmp_path / "data.csr", "--out", tmp_path / "model", *QUICK)[0] == 0
    assert run(capsys, "sample", tmp_path / "model", "--rows", 5, "--out", tmp_path / "new.csr", "--seed", 1)[0] == 0
    assert read_matrix(tmp_path / "new.csr").shape == (5, 20)


def test_data_is_not_ignored_by_a_preset_that_makes_its_own(capsys, tmp_path):
    words = ("reproduce", "documents", "--preset", "smoke", "--data", tmp_path, "--out", tmp_path / "out")
    assert "makes its own data: leave one of them out" in mistake(capsys, *words, code=2)


def test_fractions_survive_a_csv_file(tmp_path, capsys):
    X = np.random.default_rng(0).gamma(1.0, size=(50, 2))
    np.savetxt(tmp_path / "data.csv", X, delimiter=",", header="a,b", comments="")
    assert run(capsys, "fit", tmp_path / "data.csv", "--out", tmp_path / "model", *QUICK)[0] == 0
    sampled = run(capsys, "sample", tmp_path / "model", "--rows", 4, "--out", tmp_path / "rows.csv", "--seed", 0)
    assert sampled[0] == 0
    expected = JumpModel.load(tmp_path / "model").sample(4, random_state=0)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "rows.csv", delimiter=",", skiprows=1), expected)


def test_the_seed_decides_the_model_and_the_rows(counts, tmp_path, capsys):
    np.save(tmp_path / "data.npy", counts)
    for name in ("one", "two"):
        assert run(capsys, "fit", tmp_path / "data.npy", "--out", tmp_path / name, *QUICK)[0] == 0
        out = tmp_path / f"{name}.npy"
        assert run(capsys, "sample", tmp_path / name, "--rows", 9, "--out", out, "--seed", 4)[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy"))


def test_options_reach_the_model(counts, tmp_path, capsys):
    np.save(tmp_path / "data.npy", counts)
    options = ["--domain", "count", "--bound", "50", "--process", "poisson", "--belief", "poisson", "--lam", "10"]
    options += ["--schedule", "cosine", "--batch-size", "16", "--learning-rate", "0.01", "--components", "2"]
    options += ["--lr-schedule", "constant", "--ema", "0.9", "--validation-fraction", "0", "--device", "cpu"]
    options += ["--objective", "elbo", "--decode", "mean"]
    options += ["--checkpoint-dir", str(tmp_path / "checkpoints"), "--checkpoint-every", "2"]
    assert run(capsys, "fit", tmp_path / "data.npy", "--out", tmp_path / "model", *options, *QUICK)[0] == 0
    params = JumpModel.load(tmp_path / "model").get_params()
    assert params["domain"].max == 50
    expected = {
        "process": "poisson",
        "belief": "poisson",
        "lam": 10.0,
        "schedule": "cosine",
        "batch_size": 16,
        "components": 2,
        "learning_rate": 0.01,
        "lr_schedule": "constant",
        "ema": 0.9,
        "validation_fraction": 0.0,
        "objective": "elbo",
        "decode": "mean",
        "checkpoint_every": 2,
        "device": "cpu",
    }
    assert {name: params[name] for name in expected} == expected
    assert list((tmp_path / "checkpoints").iterdir())


def test_fit_says_what_it_does_unless_quiet(counts, tmp_path, capsys):
    np.save(tmp_path / "data.npy", counts)
    code, out, err = run(capsys, "fit", tmp_path / "data.npy", "--out", tmp_path / "model", *QUICK)
    assert (code, out, err) == (0, "", "")
    loud = [word for word in QUICK if word != "--quiet"]
    code, out, _ = run(capsys, "fit", tmp_path / "data.npy", "--out", tmp_path / "model", *loud)
    assert code == 0
    assert "domain = Count" in out
    assert str(tmp_path / "model") in out


def test_a_key_chooses_among_arrays(counts, tmp_path, capsys):
    data = tmp_path / "data.npz"
    np.savez(data, first=counts[:, :1], second=counts)
    assert "several arrays ('first', 'second')" in mistake(capsys, "fit", data, "--out", tmp_path / "model", *QUICK)
    assert "no array 'third': use one of 'first', 'second'" in mistake(
        capsys, "fit", data, "--key", "third", "--out", tmp_path / "model", *QUICK
    )
    assert run(capsys, "fit", data, "--key", "second", "--out", tmp_path / "model", *QUICK)[0] == 0
    assert JumpModel.load(tmp_path / "model").n_features_in_ == 3


# Info.


def test_info_says_what_a_model_is(model, capsys):
    code, out, _ = run(capsys, "info", model)
    assert code == 0
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in out.split("\n\n")[0].splitlines())
    assert facts["class"] == "JumpModel"
    assert facts["domain"].startswith("Count(")
    assert (facts["process"], facts["belief"], facts["lambda"]) == ("binomial", "mixture", "1")
    assert (facts["columns"], facts["dtype"], facts["sparse"], facts["updates"]) == ("3", "int64", "no", "5")
    assert float(facts["training loss"]) > 0
    assert "at best" in facts["validation loss"]
    assert int(facts["parameters"].replace(",", "")) > 100
    assert 'what "auto" chose, and why' in out
    assert "whole numbers" in out


def test_info_of_constant_columns(tmp_path, capsys):
    JumpModel(progress=False, random_state=0).fit(np.full((5, 2), 7)).save(tmp_path / "model")
    code, out, _ = run(capsys, "info", tmp_path / "model")
    assert code == 0
    assert "2 of them constant" in out
    assert "every column is constant" in out


def test_info_of_one_lambda_per_column(tmp_path, capsys):
    X = np.random.default_rng(0).gamma(1.0, size=(50, 2)) * [1, 100]
    JumpModel(max_updates=2, width=8, progress=False, random_state=0).fit(X).save(tmp_path / "model")
    assert re.search(r"lambda +\S+ to \S+, median", run(capsys, "info", tmp_path / "model")[1])


# Demo.


def test_demo_writes_a_page_a_model_and_a_sample(tmp_path, capsys):
    code, out, _ = run(capsys, "demo", "--out", tmp_path / "demo", "--updates", 3, "--quiet")
    assert code == 0
    page = Path(out.strip())
    assert page == tmp_path / "demo" / "index.html"
    html = page.read_text(encoding="utf-8")
    pictures = re.findall(r"<img ([^>]*)>", html)
    assert len(pictures) == 5
    assert all(re.search(r'alt="[^"]{20,}"', picture) for picture in pictures)
    assert not re.search(r'(src|href)="(?!data:)', html)
    rows = np.load(tmp_path / "demo" / "samples.npz", allow_pickle=False)["X"]
    assert rows.shape == (1797, 64)
    assert rows.max() <= 16
    assert JumpModel.load(tmp_path / "demo" / "model").n_features_in_ == 64


# Mistakes.


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.strip() == f"countjump {__version__}"


FIT = ["fit", "data.npz", "--out", "m"]


@pytest.mark.parametrize(
    "argv", [[], ["fly"], ["--vers"], FIT[:2], [*FIT, "--depth", "3"], [*FIT, "--max-update", "10"]]
)
def test_words_that_are_no_command_or_option(argv, capsys):
    assert "--help" in mistake(capsys, *argv, code=2)


def test_the_program_itself_prints_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "countjump", "info", "nowhere"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("countjump: error: no model at nowhere")
    assert done.stderr.count("\n") == 1


def test_data_that_is_not_there_or_no_matrix(tmp_path, capsys):
    def fit(name: str, *options: str) -> str:
        return mistake(capsys, "fit", tmp_path / name, "--out", tmp_path / "model", *options, *QUICK)

    assert "no file at" in fit("absent.npz")
    (tmp_path / "folder.npy").mkdir()
    assert "is a directory" in fit("folder.npy")
    (tmp_path / "data.xlsx").write_bytes(b"")
    assert "ends in '.xlsx': use .csv, .tsv" in fit("data.xlsx")
    for name in ("text.npz", "text.npy"):
        (tmp_path / name).write_text("hello")
        assert f"is not an {name[-4:]} file" in fit(name)
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    assert "holds values of dtype <U1, and needs numbers" in fit("words.npy")
    np.savez(tmp_path / "words.npz", np.array([["a", "b"]]))
    assert "needs numbers" in fit("words.npz")
    np.save(tmp_path / "objects.npy", np.array([[1, None]], dtype=object), allow_pickle=True)
    assert "never unpickled" in fit("objects.npy")
    np.savez(tmp_path / "objects.npz", np.array([[1, None]], dtype=object))
    assert "never unpickled" in fit("objects.npz")
    np.savez(tmp_path / "empty.npz")
    assert "holds no array" in fit("empty.npz")
    whole = tmp_path / "whole.npy"
    np.save(whole, np.ones((100, 3)))
    (tmp_path / "half.npy").write_bytes(whole.read_bytes()[:300])
    assert "is damaged" in fit("half.npy")
    np.savez(tmp_path / "whole.npz", np.ones((100, 3)))
    content = bytearray((tmp_path / "whole.npz").read_bytes())
    content[200:210] = b"0123456789"
    (tmp_path / "bad.npz").write_bytes(content)
    assert "is damaged" in fit("bad.npz")
    np.save(tmp_path / "line.npy", np.arange(5))
    assert "two-dimensional" in fit("line.npy")
    np.save(tmp_path / "negative.npy", np.array([[1.0, -2.0]]))
    assert "X[0, 1] = -2 is negative" in fit("negative.npy", "--domain", "count")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3\n", "line 3 of"),
        ("5,2\n1,2\n", "line 1 of"),
    ],
)
def test_text_that_is_no_matrix(text, said, tmp_path, capsys):
    (tmp_path / "data.csv").write_text(text)
    assert said in mistake(capsys, "fit", tmp_path / "data.csv", "--out", tmp_path / "model", *QUICK)


def test_text_that_is_not_text(tmp_path, capsys):
    (tmp_path / "data.csv").write_bytes(b"a,b\n\x00\x01,2\n")
    assert "holds null bytes and is no text" in mistake(
        capsys, "fit", tmp_path / "data.csv", "--out", tmp_path / "m", *QUICK
    )


def test_names_that_pandas_gives_are_names(tmp_path, capsys):
    (tmp_path / "data.csv").write_text("0,1\n5,2\n1,2\n1,3\n")
    assert run(capsys, "fit", tmp_path / "data.csv", "--out", tmp_path / "model", *QUICK)[0] == 0
    assert JumpModel.load(tmp_path / "model").n_features_in_ == 2


def test_a_key_where_there_is_nothing_to_choose(tmp_path, capsys):
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_matrix(np.eye(3)))
    np.save(tmp_path / "data.npy", np.eye(3))
    for name in ("sparse.npz", "data.npy"):
        said = mistake(capsys, "fit", tmp_path / name, "--key", "X", "--out", tmp_path / "m", *QUICK)
        assert "leave the key out" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--domain", "happy"], "--domain 'happy' is unknown: use one of auto, non-negative"),
        (["--process", "happy"], "--process 'happy' is unknown"),
        (["--belief", "happy"], "--belief 'happy' is unknown"),
        (["--schedule", "happy"], "--schedule 'happy' is unknown"),
        (["--lam", "happy"], "--lam must be a positive number, or auto, got 'happy'"),
        (["--lam", "-1"], "--lam must be"),
        (["--learning-rate", "0"], "--learning-rate must be a positive number"),
        (["--learning-rate", "inf"], "--learning-rate must be a positive number"),
        (["--ema", "1"], "--ema must be in [0, 1)"),
        (["--width", "0"], "--width must be at least 1"),
        (["--width", "2.5"], "--width must be at least 1, and a whole number, got '2.5'"),
        (["--bound", "3"], "--bound is for"),
        (["--domain", "count", "--bound", "2.5"], "--bound 2.5: Count needs a whole max"),
        (["--seed", "-1"], "--seed must be at least 0"),
    ],
)
def test_options_that_make_no_sense(options, said, tmp_path, capsys):
    words = ["fit", tmp_path / "absent.npy", "--out", tmp_path / "model", *QUICK, *options]
    assert said in mistake(capsys, *words, code=2)


def test_settings_that_do_not_fit_the_data(counts, tmp_path, capsys):
    np.save(tmp_path / "data.npy", counts)
    words = ["fit", tmp_path / "data.npy", "--out", tmp_path / "model", *QUICK]
    assert "above the bound 1" in mistake(capsys, *words, "--domain", "count", "--bound", "1")
    assert "device='abacus' is unknown" in mistake(capsys, *words, "--device", "abacus", code=2)
    assert not (tmp_path / "model").exists()


def test_a_file_where_a_directory_should_be(counts, tmp_path, capsys):
    np.save(tmp_path / "data.npy", counts)
    (tmp_path / "taken").write_text("mine")
    assert "is a file" in mistake(capsys, "fit", tmp_path / "data.npy", "--out", tmp_path / "taken", *QUICK)
    assert "is a file" in mistake(capsys, "demo", "--out", tmp_path / "taken", "--updates", 1, "--quiet")
    assert (tmp_path / "taken").read_text() == "mine"


def test_models_that_are_none(model, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "model.json").write_text("{")
    for command in (["info"], ["sample", "--rows", "1", "--out", str(tmp_path / "rows.npz")]):
        assert "no model at" in mistake(capsys, *command, tmp_path / "absent")
        assert "holds no countjump model" in mistake(capsys, *command, tmp_path / "empty")
        assert "is damaged" in mistake(capsys, *command, tmp_path / "torn")


def test_samples_that_cannot_be(model, tmp_path, capsys):
    out = tmp_path / "rows.npz"
    assert "ends in '.txt'" in mistake(capsys, "sample", model, "--rows", 1, "--out", tmp_path / "rows.txt", code=2)
    assert "--rows must be at least 0" in mistake(capsys, "sample", model, "--rows", -1, "--out", out, code=2)
    assert "--steps must be at least 1" in mistake(
        capsys, "sample", model, "--rows", 1, "--steps", 0, "--out", out, code=2
    )
    assert not out.exists()
    assert run(capsys, "sample", model, "--rows", 0, "--out", out)[0] == 0
    assert np.load(out)["X"].shape == (0, 3)


def test_the_names_that_help_knows_are_those_that_are_there():
    assert tuple(domains.DOMAINS) == models.DOMAINS
    assert tuple(sorted(experiments.EXPERIMENTS)) == paper.EXPERIMENTS
    assert set(models.PARAMETERS) <= set(JumpModel().get_params())
    X = np.arange(20)[:, None]
    for name, (kinds, _) in models.PARAMETERS.items():
        if isinstance(kinds, tuple):
            with pytest.raises(ValueError, match=f"{name}='none' is unknown") as caught:
                JumpModel(**{name: "none"}, max_updates=1, progress=False).fit(X)
            assert set(re.findall("'([^']*)'", str(caught.value))) == {"none", *kinds}


# What is around the commands: places, pipes, interruptions and terminals.


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "absent.npy"],
        ["sample", "absent", "--rows", "1"],
        ["demo"],
        ["reproduce", "univariate", "--preset", "smoke"],
    ],
)
def test_a_place_that_cannot_be_written_is_noticed_before_the_work(words, tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    for name in ("taken/deep.npz", "taken/deeper/still.npz"):
        assert "is a file and no directory" in mistake(capsys, *words, "--out", tmp_path / name, "--quiet")
    (tmp_path / "rows.npz").mkdir()
    (tmp_path / "rows.csr").mkdir()
    (tmp_path / "rows.csr" / "notes.txt").write_text("mine")
    if words[0] == "sample":
        assert "is a directory" in mistake(capsys, *words, "--out", tmp_path / "rows.npz")
        assert "no .csr of countjump" in mistake(capsys, *words, "--out", tmp_path / "rows.csr")
    else:
        assert "is a file: choose a directory" in mistake(capsys, *words, "--out", tmp_path / "taken")
    assert {path.name for path in tmp_path.iterdir()} == {"taken", "rows.npz", "rows.csr"}


def program(*words: object, **options: Any) -> subprocess.Popen:
    command = [sys.executable, "-m", "countjump", *map(str, words)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def test_a_reader_that_has_seen_enough_is_no_error(model):
    reading, writing = os.pipe()
    os.close(reading)
    process = program("info", model, stdout=writing)
    os.close(writing)
    assert (process.communicate()[1], process.returncode) == ("", 0)


@pytest.mark.parametrize("module", ["countjump.cli", "argparse", "numpy", "torch", "sklearn.utils"])
def test_an_interruption_while_something_is_imported_is_a_line(module, model, tmp_path):
    hook = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from countjump.__main__ import main\n"
        "sys.argv[1:] = ['sample', sys.argv[1], '--rows', '1', '--out', sys.argv[2]]\n"
        "sys.exit(main())"
    )
    command = [sys.executable, "-c", hook, str(model), str(tmp_path / "rows.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "countjump: interrupted\n")


def test_a_terminal_is_told_nothing_by_a_model_file(model, tmp_path, capsys):
    hostile = tmp_path / "model"
    shutil.copytree(model, hostile)
    described = json.loads((hostile / "model.json").read_text())
    text = json.dumps(described).replace("whole numbers", "\\u001b[2J\\n\\u202e")
    assert text != json.dumps(described)

    def sign(text):
        changed = {name: value for name, value in json.loads(text).items() if name != "digest"}
        (hostile / "model.json").write_text(json.dumps(changed | {"digest": persistence._digest_of(changed)}))

    sign(text)
    code, out, _ = run(capsys, "info", hostile)
    assert code == 0
    assert r"\x1b[2J\n\u202e" in out
    assert all(c.isprintable() or c == "\n" for c in out)
    sign(text.replace('"JumpModel"', '"\\u001b[2J"'))
    assert "\x1b" not in mistake(capsys, "info", hostile)


def test_codes_are_in_the_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "2 for a mistake in what was asked" in " ".join(capsys.readouterr().out.split())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_an_answer_that_cannot_be_written_is_one_line(model):
    words = [sys.executable, "-m", "countjump", "info", str(model)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["countjump: error: the answer could not be written: No space left on device"]
