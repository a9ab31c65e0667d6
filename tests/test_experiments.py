"""The runner (what is done stays done), the nine sets against their definitions, and ``countjump reproduce``."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from countjump import JumpModel
from countjump.cli import main
from countjump.experiments import Univariate, runner
from countjump.experiments.runner import Cell, Experiment
from countjump.experiments.univariate import METHODS, SETS, mean_of, table

DISCRETE = ("PoisMix", "NbinomMix", "BNB")
PROMISED = {
    "dataset", "method", "run", "seed", "steps", "w1", "floor", "w1_log1p", "floor_log1p",
    "seconds_fit", "seconds_sample", "updates",
}  # fmt: skip
BESIDES = {"floor_sd", "floor_log1p_sd", "pairs", "rows", "quantiles", "histogram", "learning_curve"}
TINY = {"rows": 100, "updates": 2, "pairs": 2}


def refuse(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


def strict(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


# The runner.


class Counting(Experiment):
    """Records of nothing: says what it ran and what it drew, and fails where it is told to."""

    name = "univariate"

    def __init__(self, fail_at: str = "", value: float = 1.0) -> None:
        super().__init__("smoke")
        self.fail_at, self.value = fail_at, value
        self.ran: list[Cell] = []
        self.reported: list[int] = []

    rows = size = measure = None  # it has cells and records of its own

    def cells(self, only, methods, runs):
        return [Cell(name, "method", 0, (5, 10)) for name in "abc"]

    def fixed(self, record):
        return {}

    def look(self, cells):
        self.looked = [cell.dataset for cell in cells]

    def run(self, cell, checkpoint):
        checkpoint.mkdir(parents=True)
        (checkpoint / "half-done").write_text("")
        if cell.dataset == self.fail_at:
            raise KeyboardInterrupt
        self.ran.append(cell)
        key = {"dataset": cell.dataset, "method": cell.method, "run": cell.run}
        return [key | {"steps": steps, "w1": self.value} for steps in cell.steps]

    def pages(self, records):
        self.reported.append(len(records))
        return {}


def go(experiment: Experiment, out: Path) -> None:
    runner.run(experiment, out, [], [], None, progress=False)


def test_what_is_there_is_not_run_again(tmp_path):
    first, second = Counting(), Counting()
    go(first, tmp_path / "out")
    assert [cell.dataset for cell in first.ran] == ["a", "b", "c"]
    before = (tmp_path / "out" / "results.json").read_bytes()
    go(second, tmp_path / "out")
    assert second.ran == []
    assert second.reported == [6]  # tables and figures are made again
    assert (tmp_path / "out" / "results.json").read_bytes() == before


def test_a_run_killed_half_way_continues_with_what_is_missing(tmp_path):
    killed = Counting(fail_at="b")
    with pytest.raises(KeyboardInterrupt):
        go(killed, tmp_path)
    assert killed.reported == [2]
    assert [r["dataset"] for r in strict(tmp_path / "results.json")] == ["a", "a"]
    assert (tmp_path / "checkpoints" / "b-method-0" / "half-done").exists()
    (tmp_path / "checkpoints" / "b-method-0" / "half-done").unlink()
    (tmp_path / "checkpoints" / "b-method-0").rmdir()
    again = Counting()
    go(again, tmp_path)
    assert [cell.dataset for cell in again.ran] == again.looked == ["b", "c"]
    assert len(strict(tmp_path / "results.json")) == 6
    assert not (tmp_path / "checkpoints").exists()


def test_only_the_missing_steps_of_a_cell_are_run(tmp_path):
    runner.write_records(tmp_path, [{"dataset": "b", "method": "method", "run": 0, "steps": 5}])
    experiment = Counting()
    go(experiment, tmp_path)
    assert [(cell.dataset, cell.steps) for cell in experiment.ran] == [("a", (5, 10)), ("b", (10,)), ("c", (5, 10))]


@pytest.mark.parametrize(("theirs", "ours"), [(2, 3), (None, 3), (2, None)])
def test_runs_of_other_lengths_are_not_averaged(theirs, ours, tmp_path):
    record = {"dataset": "b", "method": "method", "run": 1, "steps": 5, "asked_epochs": theirs}
    runner.write_records(tmp_path, [record])
    experiment = Counting()
    experiment.settings["paper_epochs"] = ours
    words = [f"asked_epochs = {n}" if n else "no asked_epochs" for n in (theirs, ours)]
    with pytest.raises(ValueError, match="method on b there have {}, and this run has {}: ".format(*words)):
        go(experiment, tmp_path)
    experiment.settings["paper_epochs"] = theirs
    go(experiment, tmp_path)


def test_what_stopped_a_run_is_said_and_only_what_is_written_is_reported(tmp_path):
    class Failing(Counting):
        def pages(self, records):
            super().pages(records)
            raise OSError("no space")

    failing = Failing(fail_at="b")
    with pytest.raises(KeyboardInterrupt):
        go(failing, tmp_path)
    assert failing.reported == [2]
    unwritten = Counting(value=math.nan)
    with pytest.raises(ValueError, match="not a finite number"):
        go(unwritten, tmp_path / "other")
    assert unwritten.reported == []


def test_long_runs_are_drawn_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "REPORT_EVERY", -1.0)
    experiment = Counting()
    go(experiment, tmp_path)
    assert experiment.reported == [2, 4, 6, 6]


@pytest.mark.parametrize("content", [b"", b"[{", b"{}", b"[1]", b'[{"dataset": "a"}]', b"\xff\xfe"])
def test_damaged_results_are_an_error_and_stay(content, tmp_path):
    (tmp_path / "results.json").write_bytes(content)
    experiment = Counting()
    with pytest.raises(ValueError, match=r"results\.json is .*choose another directory"):
        go(experiment, tmp_path)
    assert experiment.ran == []
    assert (tmp_path / "results.json").read_bytes() == content


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_a_number_is_not_recorded(value, tmp_path):
    with pytest.raises(ValueError, match="not a finite number"):
        go(Counting(value=value), tmp_path)
    assert not (tmp_path / "results.json").exists()


# The cells.


def test_d3pm_is_for_discrete_sets():
    cells = Univariate("paper").cells([], [], None)
    assert {cell.dataset for cell in cells if cell.method.startswith("d3pm")} == set(DISCRETE)
    assert len(cells) == 5 * (9 * 3 + 3 * 2)
    with pytest.raises(ValueError, match="nothing to run: d3pm-gauss"):
        Univariate("paper").cells(["Gamma", "Uniform"], ["d3pm-gauss"], None)


def test_steps_of_the_methods():
    steps = {cell.method: cell.steps for cell in Univariate("paper").cells(["BNB"], [], 1)}
    assert steps == {"jump": (5, 10, 20, 50, 100), "jump-paper": (5, 10, 20, 50, 100)} | dict.fromkeys(
        METHODS[2:], (100,)
    )
    fewer = {cell.method: cell.steps for cell in Univariate("paper", {"steps": [10, 20]}).cells(["BNB"], [], 1)}
    assert fewer == {"jump": (10, 20), "jump-paper": (10, 20, 100)} | dict.fromkeys(METHODS[2:], (100,))


def test_quick_is_jump_once_on_all_sets():
    cells = Univariate("quick").cells([], [], None)
    assert [(cell.dataset, cell.method, cell.run) for cell in cells] == [(name, "jump", 0) for name in SETS]
    assert {cell.steps for cell in cells} == {(10, 20)}


def test_names_given_twice_are_run_once():
    assert len(Univariate("quick").cells(["BNB", "BNB"], ["jump", "jump"], 1)) == 1


def test_names_that_are_none():
    with pytest.raises(ValueError, match="preset 'huge' is unknown: use one of smoke, quick, paper"):
        Univariate("huge")
    with pytest.raises(ValueError, match="set 'Poisson' is unknown: use some of PoisMix, "):
        Univariate("smoke").cells(["Poisson"], [], None)
    with pytest.raises(ValueError, match="method 'gan' is unknown: use some of jump, "):
        Univariate("smoke").cells([], ["gan"], None)


# The sets, as the paper defines them.

CDF = {
    "PoisMix": lambda x: 0.9 * stats.poisson.cdf(x, 1) + 0.1 * stats.poisson.cdf(x, 100),
    "NbinomMix": lambda x: 0.75 * stats.nbinom.cdf(x, 1, 0.9) + 0.25 * stats.nbinom.cdf(x, 10, 0.1),
    # ∫ p (1 − p)^k Beta(p; 1.5, 1.5) dp = B(2.5, k + 1.5)/B(1.5, 1.5)
    "BNB": lambda x: np.cumsum(special.beta(2.5, np.arange(x.max() + 1) + 1.5) / special.beta(1.5, 1.5))[x.astype(int)],
    "Gamma": stats.gamma(0.5, scale=1 / 0.05).cdf,
    "HalfCauchy": stats.halfcauchy.cdf,
    "HalfT": lambda x: 2 * stats.t.cdf(x, 2) - 1,
    "Uniform": stats.uniform.cdf,
    "Beta05": stats.beta(0.5, 0.5).cdf,
    "Beta2": stats.beta(2, 2).cdf,
}
MOMENTS = {
    "PoisMix": (0.9 * 1 + 0.1 * 100, 0.9 * 2 + 0.1 * (100 + 100**2)),
    "NbinomMix": (
        0.75 / 9 + 0.25 * 90,
        0.75 * (stats.nbinom.var(1, 0.9) + 1 / 81) + 0.25 * (stats.nbinom.var(10, 0.1) + 90**2),
    ),
    "Gamma": (10.0, 200.0 + 10.0**2),
    "Uniform": (0.5, 1 / 3),
    "Beta05": (0.5, 1 / 8 + 1 / 4),
    "Beta2": (0.5, 1 / 20 + 1 / 4),
}
"""E[x] and E[x²], where they are finite and settle quickly."""


def test_there_are_nine_and_each_has_a_recipe():
    assert list(SETS) == list(CDF)
    sets = Univariate("smoke").recipe["sets"]
    assert list(sets) == list(SETS)
    assert {name for name, recipe in sets.items() if recipe["counts"]} == set(DISCRETE)
    assert {name for name, recipe in sets.items() if recipe["lam"] == 100} == {"Uniform", "Beta05", "Beta2"}
    for name, recipe in sets.items():
        assert set(recipe["paper"]) == {"jump", "ddpm"} | (
            {"d3pm-uniform", "d3pm-gauss"} if name in DISCRETE else set()
        )


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_its_definition(name):
    n = 100_000
    x = SETS[name](np.random.default_rng(1), n)
    assert x.shape == (n,)
    assert x.min() >= 0
    assert (x.dtype.kind == "i") == (name in DISCRETE)
    values, counts = np.unique(x, return_counts=True)
    # By Massart's inequality, the empirical distribution function strays further once in 1,000 times.
    assert np.abs(np.cumsum(counts) / n - CDF[name](values)).max() < math.sqrt(math.log(2000) / (2 * n))
    if name in MOMENTS:
        for power, expected in enumerate(MOMENTS[name], 1):
            moment = x.astype(float) ** power
            assert moment.mean() == pytest.approx(expected, abs=4 * moment.std() / math.sqrt(n))


# The command.


def run(capsys, *argv: object) -> tuple[int, str, str]:
    code = main([str(word) for word in argv])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """What the command makes of a discrete and a continuous set."""
    out = tmp_path_factory.mktemp("reproduce") / "out"
    words = ["reproduce", "univariate", "--preset", "smoke", "--only", "PoisMix,HalfCauchy", "--quiet"]
    assert main([*words, "--out", str(out)]) == 0
    return out


def test_records_hold_what_was_promised(smoke):
    records = strict(smoke / "results.json")
    cells = {(r["dataset"], r["method"], r["steps"]) for r in records}
    jumps = {(name, "jump", s) for name in ("PoisMix", "HalfCauchy") for s in (2, 5)}
    papers = {(name, "jump-paper", s) for name, _, s in jumps}
    baselines = {(name, "ddpm", 5) for name, _, _ in jumps} | {("PoisMix", m, 5) for m in METHODS[3:]}
    assert cells == jumps | papers | baselines
    assert len(records) == len(cells)
    for record in records:
        assert set(record) == PROMISED | BESIDES | ({"epochs", "asked_epochs"} if record["method"] != "jump" else set())
        assert (record["run"], record["seed"] % 1000) == (0, 0)
        assert record["w1"] > 0
        assert record["floor"] > 0
        assert record["w1_log1p"] > 0
        assert record["floor_log1p"] > 0
        assert record["seconds_fit"] > 0
        assert 1 <= record["updates"] <= 10
        histogram = record["histogram"]
        assert len(histogram["true"]) == len(histogram["generated"]) == len(histogram["edges"]) - 1
        assert 0.9 < sum(histogram["true"]) <= 1.000001


def test_tables_and_figures_come_from_the_records_alone(smoke, monkeypatch, tmp_path):
    names = ("table.md", "figure2.png", "steps.png")
    before = {name: (smoke / name).read_bytes() for name in names}
    assert before["figure2.png"].startswith(b"\x89PNG")
    assert before["steps.png"].startswith(b"\x89PNG")
    (tmp_path / "results.json").write_bytes((smoke / "results.json").read_bytes())
    monkeypatch.setattr(Univariate, "run", lambda *_: pytest.fail("nothing is missing"))
    runner.run(Univariate("smoke"), tmp_path, ["PoisMix", "HalfCauchy"], [], None, progress=False)
    assert {name: (tmp_path / name).read_bytes() for name in names} == before


def test_the_table_says_what_the_records_say(smoke):
    records = strict(smoke / "results.json")
    lines = (smoke / "table.md").read_text(encoding="utf-8").splitlines()
    head = [cell.strip() for cell in lines[0].split("|")]
    row = dict(zip(head, (cell.strip() for cell in lines[2].split("|")), strict=True))
    assert row["set"] == "PoisMix"
    got = mean_of(records, "w1", dataset="PoisMix", method="d3pm-gauss", steps=5)
    base = mean_of(records, "floor", dataset="PoisMix")
    assert row["d3pm-gauss, 5 steps"] == f"{got[0]:.3g} ({got[0] / base[0]:.2f}×)"
    assert row["paper: jump"] == "0.85 ± 0.41"
    assert row["paper: d3pm-uniform"] == "23.5 ± 0.48"
    assert any(line.startswith("| its 0.999 quantile |") for line in lines)


def test_the_last_three_sets_are_printed_times_100():
    numbers = {"w1": 0.02, "floor": 0.01, "floor_sd": 0.001, "w1_log1p": 0.02, "floor_log1p": 0.01, "updates": 1}
    record = {"dataset": "Beta2", "method": "jump", "run": 0, "steps": 20, "seconds_fit": 1.0} | numbers
    other = record | {"run": 1, "w1": 0.03}
    row = table([record, other], Univariate("smoke").recipe["sets"]).splitlines()[2]
    assert row == "| Beta2 (×100) | 1 ± 0.1 | 2.5 ± 0.5 (2.50×) | 1.3 ± 0.34 |"


def test_records_of_another_size_stay_alone(smoke):
    with pytest.raises(ValueError, match="have rows = 500, and this run has rows = 100000: choose another directory"):
        runner.run(Univariate("quick"), smoke, ["BNB"], [], None, progress=False)


def test_epochs_and_steps_can_be_given(tmp_path, capsys):
    words = ["reproduce", "univariate", "--preset", "smoke", "--only", "Beta2", "--methods", "jump-paper", "--quiet"]
    code, out, _ = run(capsys, *words, "--epochs", 3, "--steps", "4,3", "--runs", 2, "--out", tmp_path)
    assert (code, out.strip()) == (0, str(tmp_path / "table.md"))
    records = strict(tmp_path / "results.json")
    assert [(r["run"], r["steps"]) for r in records] == [(run, steps) for run in (0, 1) for steps in (3, 4, 5)]
    assert {r["epochs"] for r in records} == {3}
    assert {r["updates"] for r in records} == {3}
    assert len({r["seed"] for r in records}) == 2
    assert "3 updates (3 epochs)" in (tmp_path / "table.md").read_text(encoding="utf-8")


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_a_run_that_was_stopped_while_it_sampled_has_its_fit(tmp_path, monkeypatch):
    def fit(out: Path) -> None:
        runner.run(Univariate("smoke", TINY | {"steps": [3]}), out, ["BNB"], ["jump"], None, progress=False)

    fit(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(JumpModel, "sample", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path / "killed")
    assert list((tmp_path / "killed" / "checkpoints").glob("BNB-jump-0/*"))
    fit(tmp_path / "killed")
    (whole,), (killed,) = (strict(tmp_path / name / "results.json") for name in ("whole", "killed"))
    assert "resumed" not in killed  # its time is that of one whole fit
    seconds = ("seconds_fit", "seconds_sample")
    assert {k: v for k, v in killed.items() if k not in seconds} == {k: v for k, v in whole.items() if k not in seconds}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--preset", "huge"], "preset 'huge' is unknown"),
        (["--only", "Poisson"], "set 'Poisson' is unknown"),
        (["--methods", "jump,gan"], "method 'gan' is unknown"),
        (["--only", "Gamma", "--methods", "d3pm-uniform"], "nothing to run"),
        (["--runs", "0"], "--runs must be at least 1"),
        (["--epochs", "0"], "--epochs must be at least 1"),
        (["--steps", "10,0"], "--steps must be whole numbers above 0"),
        (["--steps", "ten"], "--steps must be whole numbers above 0"),
        (["--steps", ""], "--steps must be whole numbers above 0"),
    ],
)
def test_settings_that_make_no_sense(options, said, tmp_path, capsys):
    code, _, err = run(capsys, "reproduce", "univariate", "--out", tmp_path / "out", *options)
    assert code == 2
    assert err.startswith("countjump: error: ")
    assert err.count("\n") == 1
    assert said in err
    assert not (tmp_path / "out").exists()


def test_a_file_where_a_directory_should_be(tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    code, _, err = run(capsys, "reproduce", "univariate", "--preset", "smoke", "--quiet", "--out", tmp_path / "taken")
    assert (code, err.count("\n")) == (1, 1)
    assert (tmp_path / "taken").read_text() == "mine"


def test_records_of_another_floor_get_the_present_one(tmp_path):
    """It is the same for every method: how many pairs it is the mean of is the preset's choice."""
    for pairs in (2, 3):
        experiment = Univariate("smoke", TINY | {"pairs": pairs})
        runner.run(experiment, tmp_path, ["Gamma"], ["jump"], 1 if pairs == 2 else 2, progress=False)
    records = runner.read_records(tmp_path)
    assert {record["run"] for record in records} == {0, 1}
    assert len({record["floor"] for record in records}) == 1
    assert {record["pairs"] for record in records} == {3}
