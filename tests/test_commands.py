"""The commands that work on people's tables, called as people call them."""

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from test_cli import QUICK, mistake, run

from countjump import JumpModel
from countjump.cli import inspecting
from countjump.data import read_table, read_with_dialect, write_table

COMMANDS = (
    *("inspect", "synthesize", "evaluate", "fit", "sample", "info", "score", "deepen", "denoise", "complete"),
    *("demo", "reproduce"),
)
FEW = [word for word in QUICK if word != "--quiet"]


def purchases(rows: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    kind = rng.choice(["casual", "keen"], rows)
    return pd.DataFrame(
        {
            "kind": kind,
            "visits to us": rng.poisson(np.where(kind == "keen", 9, 2)),
            "spent": np.round(rng.gamma(2.0, 10.0, rows) * (rng.random(rows) < 0.7), 2),
            "member": rng.random(rows) < 0.3,
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of purchases and of counts, and models of both."""
    place = tmp_path_factory.mktemp("commands")
    write_table(place / "purchases.csv", purchases())
    write_table(place / "counts.csv", pd.DataFrame(np.random.default_rng(0).poisson(3.0, (60, 3)), columns=list("abc")))
    for name in ("purchases", "counts"):
        model = JumpModel(max_updates=5, width=8, random_state=0, progress=False)
        model.fit(read_table(place / f"{name}.csv")).save(place / name)
    return place


def answer(capsys: pytest.CaptureFixture[str], *argv: object) -> dict:
    """The one JSON object of a command."""
    code, out, _ = run(capsys, *argv, "--json")
    assert code == 0
    assert out.count("\n") == 1
    return json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


# Help.


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_that_is_one(name, capsys):
    from countjump.cli import _parser

    with pytest.raises(SystemExit) as stop:
        run(capsys, name, "--help")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    example = re.search(r"^example:\n  countjump (.*)$", text, re.MULTILINE)
    assert example is not None
    assert _parser().parse_args(example[1].split()).run is not None
    assert "--json" in text


def test_the_commands_are_all_of_them():
    from countjump.cli import _parser

    (commands,) = (each for each in _parser()._actions if isinstance(each.choices, dict))
    assert set(commands.choices) == set(COMMANDS)


# Fit and sample.


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet", ".feather"])
def test_a_table_goes_in_and_a_table_of_its_schema_comes_out(suffix, tmp_path, capsys):
    data, out = tmp_path / f"data{suffix}", tmp_path / f"new{suffix}"
    write_table(data, purchases())
    facts = answer(capsys, "fit", data, "--out", tmp_path / "model", *FEW)
    assert (facts["rows"], facts["columns"], facts["label"]) == (80, 4, None)
    assert facts["choices"]
    assert facts["last"]["update"] == 5
    assert answer(capsys, "sample", tmp_path / "model", "--rows", 30, "--steps", 3, "--out", out) == {
        **{"out": str(out), "rows": 30, "columns": 4, "label": None}
    }
    new = read_table(out)
    assert list(new.columns) == list(purchases().columns)
    assert new.dtypes.tolist() == purchases().dtypes.tolist()
    assert len(new) == 30
    assert set(new["kind"]) <= {"casual", "keen"}


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csr", ".mtx", ".mtx.gz"])
def test_a_matrix_goes_in_and_one_of_its_kind_comes_out(suffix, tmp_path, capsys):
    X = sp.random(60, 8, density=0.4, random_state=0, format="csr", data_rvs=lambda n: np.arange(n) % 5 + 1).astype(int)
    write_table(tmp_path / f"data{suffix}", X)
    assert run(capsys, "fit", tmp_path / f"data{suffix}", "--out", tmp_path / "model", *QUICK)[0] == 0
    out = tmp_path / f"new{suffix}"
    assert run(capsys, "sample", tmp_path / "model", "--rows", 9, "--steps", 2, "--out", out, "--quiet")[0] == 0
    before, new = read_table(tmp_path / f"data{suffix}"), read_table(out)
    assert (type(new), new.dtype, new.shape) == (type(before), before.dtype, (9, 8))


def test_rows_are_written_in_the_dialect_that_was_read(tmp_path, capsys):
    text = purchases().to_csv(index=False, sep=";", decimal=",", lineterminator="\r\n").replace("casual", "flüchtig")
    (tmp_path / "data.csv").write_bytes(text.encode("cp1252"))
    assert run(capsys, "fit", tmp_path / "data.csv", "--out", tmp_path / "model", *QUICK)[0] == 0
    words = ["sample", tmp_path / "model", "--rows", 40, "--steps", 2, "--seed", 0, "--quiet"]
    assert run(capsys, *words, "--out", tmp_path / "new.csv")[0] == 0
    content = (tmp_path / "new.csv").read_bytes().decode("cp1252")
    assert content.startswith("kind;visits to us;spent;member\r\n")
    assert re.search(r"^(flüchtig|keen);\d+;\d+,\d+;(True|False)\r\n", content, re.MULTILINE)
    assert answer(capsys, "info", tmp_path / "model")["source"]["separator"] == ";"
    given = ["--separator", "tab", "--decimal", "point", "--encoding", "utf-8"]
    assert run(capsys, *words, "--out", tmp_path / "other.csv", *given)[0] == 0
    table, dialect = read_with_dialect(tmp_path / "other.csv")
    assert (dialect.separator, dialect.decimal, dialect.encoding) == ("\t", ".", "utf-8")
    pd.testing.assert_frame_equal(table, read_table(tmp_path / "new.csv"))
    assert run(capsys, *words, "--out", tmp_path / "new.tsv")[0] == 0
    assert read_with_dialect(tmp_path / "new.tsv")[1].separator == "\t"
    JumpModel.load(tmp_path / "model").fit(np.arange(40)[:, None] % 3).save(tmp_path / "model")
    assert answer(capsys, "info", tmp_path / "model")["source"] is None, "of another model, which is no longer there"


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"of": 1, "dialect": 2}', b"[" * 100_000])
def test_a_damaged_note_of_the_source_does_no_harm(content, place, tmp_path, capsys):
    import shutil

    shutil.copytree(place / "counts", tmp_path / "model")
    (tmp_path / "model" / "source.json").write_bytes(content)
    out = tmp_path / "new.csv"
    assert run(capsys, "sample", tmp_path / "model", "--rows", 2, "--steps", 2, "--out", out, "--quiet")[0] == 0
    assert out.read_text().startswith("a,b,c\n")


# Inspect.


def test_inspect_says_what_is_in_every_column(place, tmp_path, capsys):
    table = purchases()
    table["year"] = np.arange(80) % 20 * 5 + 1900
    table["same"] = "x"
    table["far"] = [1] * 40 + [2] * 39 + [10_000_000]
    table["mostly"] = [str(n % 7) for n in range(79)] + ["seven"]
    table["remark"] = ["none"] * 30 + [f"remark {n}" for n in range(50)]
    table["asked"] = ["?" if n % 3 else str(n) for n in range(80)]
    table["town"] = ["Oslo"] * 40 + ["Rome"] * 36 + list("abcd")
    table["day"] = [f"{n % 28 + 1:02}.{n % 12 + 1:02}.2024" for n in range(80)]
    table["opens"] = [f"{n % 20}:30" for n in range(80)]
    table["share"] = [f"{n % 20}%" for n in range(80)]
    table["worth"] = [f"{n + 1},{n:03}.50" for n in range(80)]
    table["when"] = [f"{n % 9 + 1:02}/{n % 8 + 1:02}/2024" for n in range(80)]
    table["key"] = np.random.default_rng(0).integers(2**60, 2**62, 80)
    write_table(tmp_path / "data.csv", table)
    code, out, _ = run(capsys, "inspect", tmp_path / "data.csv")
    assert code == 0
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert out.splitlines()[0].endswith("80 rows × 17 columns, separator ',', decimal mark '.', utf-8")
    assert re.search(r"visits to us +whole +count +0 +\d+\.\d\d%", lines["visits to us"])
    assert "categorical, 2 levels" in lines["kind"]
    assert "from 1900, steps of 5" in lines["year"]
    assert "never changes" in lines["same"]
    assert "the largest value stands alone" in lines["far"]
    assert "numbers but for 'seven'" in lines["mostly"]
    assert "numbers but for '?'" in lines["asked"]
    assert "most of its values occur once: drop it, or declare what it is" in lines["remark"]
    assert "4 levels occur once" in lines["town"]
    assert re.search(r"^day +date +count", lines["day"])
    assert re.search(r"^opens +time +count.* from 00:30:00, steps of 1 h", lines["opens"])
    assert "numbers with marks, read as text: write '0%' as a plain number" in lines["share"]
    assert "read as text: write '1,000.50' as a plain number; only names its row" in lines["worth"]
    assert "day or month first? write 2024-12-31" in lines["when"]
    assert lines["key"].endswith("  only names its row: left out of the model")
    assert "yes/no" in lines["member"]
    assert "what a model would do, and why" in out
    facts = answer(capsys, "inspect", tmp_path / "data.csv")
    found = {each["name"]: each for each in facts["found"]}
    spent = table["spent"]
    assert found["spent"]["zeros"] == pytest.approx((spent == 0).mean())
    assert found["spent"]["mean"] == pytest.approx(spent.mean())
    assert found["spent"]["distinct"] == spent.nunique()
    assert found["spent"]["largest"] == spent.max()
    assert facts["dialect"]["separator"] == ","


def test_inspect_groups_the_columns_of_wide_matrices(tmp_path, capsys):
    X = sp.random(40, 300, density=0.1, random_state=0, format="csr", data_rvs=lambda n: np.arange(n) % 3 + 1).astype(
        int
    )
    write_table(tmp_path / "data.npz", X)
    code, out, _ = run(capsys, "inspect", tmp_path / "data.npz")
    assert code == 0
    assert re.search(r"^x0 … x299 \(\d+\) +whole", out, re.MULTILINE)
    assert len(out.splitlines()) < 30
    assert len(answer(capsys, "inspect", tmp_path / "data.npz")["found"]) == 300


def test_sparse_and_dense_columns_are_the_same_columns():
    X = sp.random(500, 5, density=0.3, random_state=0, format="csr", data_rvs=lambda n: np.arange(n) % 50 + 1.0)
    dense, frame = X.toarray(), pd.DataFrame(X.toarray(), columns=[f"x{place}" for place in range(5)])
    assert inspecting.find_columns(X) == inspecting.find_columns(dense) == inspecting.find_columns(frame)


def test_inspect_names_times_of_every_kind(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    hours = pd.to_timedelta(np.arange(60) % 20, unit="h")
    days = pd.Timestamp("2024-03-20") + pd.to_timedelta(np.arange(60) % 20, unit="D")
    clocks = (pd.Timestamp("2024-01-01") + hours).time
    cents = [Decimal(n % 9) / 100 for n in range(60)]
    table = pd.DataFrame(
        {"stay": hours, "day": days.date, "opens": clocks, "price": cents, "local": days.tz_localize("Europe/Rome")}
    )
    write_table(tmp_path / "data.parquet", table)
    found = {each["name"]: each for each in answer(capsys, "inspect", tmp_path / "data.parquet")["found"]}
    assert {name: each["kind"] for name, each in found.items()} == {
        "stay": "duration",
        "day": "date",
        "opens": "time",
        "price": "real",
        "local": "date",
    }
    assert (found["stay"]["largest"], found["opens"]["largest"]) == ("19:00:00", "19:00:00")
    assert (found["day"]["largest"], found["price"]["largest"]) == ("2024-04-08", 0.08)
    assert found["local"]["transform"] == "from 2024-03-20, steps of 1 D"


def test_inspect_shows_what_it_can_of_what_no_model_takes(tmp_path, capsys):
    np.save(tmp_path / "data.npy", np.array([[1.0, np.inf], [2.0, 3.0]]))
    code, out, err = run(capsys, "inspect", tmp_path / "data.npy")
    assert code == 1
    assert "infinite: drop such rows" in out
    assert err.count("\n") == 1
    assert err.startswith("countjump: error: ")


# Scores.


def test_scores_are_those_of_the_model_and_the_most_unusual_come_first(place, tmp_path, capsys):
    out = tmp_path / "scores.csv"
    words = ["score", place / "purchases", place / "purchases.csv", "--out", out, "--steps", 5, "--seed", 1]
    facts = answer(capsys, *words)
    table = read_table(out)
    assert list(table.columns) == ["row", "log_likelihood", "per_column"]
    expected = JumpModel.load(place / "purchases").score_samples(purchases(), steps=5, random_state=1)
    np.testing.assert_allclose(table.sort_values("row")["log_likelihood"], expected)
    np.testing.assert_allclose(table["per_column"], table["log_likelihood"] / 4)
    assert table["per_column"].is_monotonic_increasing
    assert facts["mean"] == pytest.approx(expected.mean())
    assert facts["most_unusual"][0]["row"] == expected.argmin()
    code, said, _ = run(capsys, *words)
    assert code == 0
    assert said.splitlines()[1].split()[0] == str(expected.argmin())


def test_scores_of_wide_counts_are_per_unit(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.poisson(rng.gamma(0.1, 2.0, size=(80, 300))))
    write_table(tmp_path / "data.npz", X)
    assert run(capsys, "fit", tmp_path / "data.npz", "--out", tmp_path / "model", *QUICK)[0] == 0
    out = tmp_path / "scores.csv"
    facts = answer(capsys, "score", tmp_path / "model", tmp_path / "data.npz", "--out", out, "--steps", 3)
    assert facts["unit"] == "count"
    table = read_table(out)
    totals = np.asarray(X.sum(1)).ravel()[table["row"]]
    np.testing.assert_allclose(table["per_count"], table["log_likelihood"] / np.maximum(totals, 1))


# Rows of which something was observed.


def test_deepen_and_denoise(place, tmp_path, capsys):
    shallow = pd.DataFrame([[1, 0, 2], [0, 3, 1]], columns=list("abc"))
    write_table(tmp_path / "shallow.csv", shallow)
    words = [place / "counts", tmp_path / "shallow.csv", "--fraction", 0.5]
    facts = answer(capsys, "deepen", *words, "--out", tmp_path / "deep.csv", "--steps", 3, "--seed", 0)
    assert facts == {"out": str(tmp_path / "deep.csv"), "rows": 2, "columns": 3}
    deep = read_table(tmp_path / "deep.csv")
    assert list(deep.columns) == list("abc")
    assert (deep >= shallow).all().all()
    answer(capsys, "denoise", *words, "--out", tmp_path / "expected.csv", "--columns", "c, 0")
    expected = read_table(tmp_path / "expected.csv")
    assert list(expected.columns) == ["c", "a"]
    assert (expected["a"] >= shallow["a"]).all()
    said = mistake(capsys, "deepen", *words[:2], "--fraction", 2, "--out", tmp_path / "x.csv", code=2)
    assert "--fraction must be above 0 and at most 1" in said
    said = mistake(
        capsys, "deepen", place / "purchases", place / "purchases.csv", "--fraction", 0.5, "--out", tmp_path / "x.csv"
    )
    assert "only" in said
    assert not (tmp_path / "x.csv").exists()


def test_complete_keeps_what_is_known(place, tmp_path, capsys):
    table = purchases(5)
    words = ["complete", place / "purchases", tmp_path / "holes.csv", "--steps", 3, "--seed", 0]
    write_table(tmp_path / "holes.csv", table)
    answer(capsys, *words, "--out", tmp_path / "whole.csv", "--known", "kind,1")
    whole = read_table(tmp_path / "whole.csv")
    assert list(whole.columns) == list(table.columns)
    pd.testing.assert_frame_equal(whole[["kind", "visits to us"]], table[["kind", "visits to us"]])


def with_gaps(rows: int = 80) -> pd.DataFrame:
    g = np.random.default_rng(1)
    table = purchases(rows).assign(
        number=[f"N-{place:04d}" for place in range(rows)],
        first=pd.Timestamp("2024-02-28") + pd.to_timedelta(g.integers(0, 9, rows), unit="D"),
    )
    table.loc[g.random(rows) < 0.3, ["spent", "first"]] = None
    return table


def test_missing_values_dates_and_labels_go_through_every_command(tmp_path, capsys):
    data, model, new, whole = (tmp_path / name for name in ("data.csv", "model", "new.csv", "whole.csv"))
    write_table(data, with_gaps())
    code, out, _ = run(capsys, "inspect", data, "--label", "kind")
    assert code == 0
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "only names its row: left out of the model" in lines["number"]
    assert "from 2024-02-28, steps of 1 D" in lines["first"]
    assert re.search(r"first +date +count .*\d\d\.\d\d%", lines["first"])
    assert run(capsys, "fit", data, "--label", "kind", "--out", model, *QUICK)[0] == 0
    there = read_table(data).shape[1]
    said = f"{there}, {there - 2} of them modelled, 1 the label, 1 left out"
    assert answer(capsys, "info", model)["columns"] == said
    words = ["sample", model, "--rows", 40, "--steps", 2, "--seed", 0, "--quiet", "--out", new]
    assert run(capsys, *words, "--label", "keen")[0] == 0
    table = read_table(new)
    pd.testing.assert_series_equal(table.dtypes, read_table(data).dtypes)
    assert (table["kind"] == "keen").all()
    assert (table["spent"].isna() == table["first"].isna()).all()
    assert table["number"][0] == "N-0080"
    assert answer(capsys, "score", model, data, "--out", tmp_path / "scores.csv", "--steps", 2)["rows"] == 80
    assert run(capsys, "complete", model, data, "--steps", 2, "--quiet", "--out", whole)[0] == 0
    filled, there = read_table(whole), read_table(data).notna()
    assert filled.notna().all().all()
    pd.testing.assert_frame_equal(filled.where(there), read_table(data))
    said = mistake(capsys, "fit", data, "--missing", "error", "--out", tmp_path / "m", *QUICK)
    assert re.search("column 'spent', row [0-9]+: a value is missing", said)


def test_anndata_goes_through_every_command(tmp_path, capsys):
    anndata = pytest.importorskip("anndata")
    g = np.random.default_rng(0)
    obs = pd.DataFrame(
        {"type": pd.Categorical(g.choice(["B", "T"], 60))}, index=[f"cell{place}" for place in range(60)]
    )
    var = pd.DataFrame(index=[f"GENE{place}" for place in range(300)])
    data, model, new = tmp_path / "data.h5ad", tmp_path / "model", tmp_path / "new.h5ad"
    write_table(data, anndata.AnnData(sp.csr_matrix(g.poisson(0.2, (60, 300)), dtype=np.float32), obs, var))
    code, out, _ = run(capsys, "inspect", data)
    assert code == 0
    assert "obs, for --label: type (2 values)" in out
    assert run(capsys, "fit", data, "--label", "type", "--out", model, *QUICK)[0] == 0
    words = ["sample", model, "--rows", 50, "--label", "B", "--steps", 2, "--quiet", "--out", new]
    assert run(capsys, *words)[0] == 0
    made = read_table(new)
    assert (made.obs["type"] == "B").all()
    assert list(made.var_names) == list(var.index)
    assert made.X.dtype == np.float32
    assert (
        run(capsys, "deepen", model, data, "--fraction", 0.5, "--steps", 2, "--quiet", "--out", tmp_path / "d.h5ad")[0]
        == 0
    )
    assert list(read_table(tmp_path / "d.h5ad").obs_names) == list(obs.index)
    scores = answer(capsys, "score", model, data, "--out", tmp_path / "s.csv", "--steps", 2)
    assert (scores["rows"], scores["unit"]) == (60, "count")
    words = ["evaluate", data, new, "--label", "type", "--out", tmp_path / "r.html", "--quiet"]
    assert run(capsys, *words)[0] == 0


# Evaluating.


def test_evaluate_writes_a_page_and_says_what_it_found(place, tmp_path, capsys):
    write_table(tmp_path / "other.csv", purchases(160)[80:])
    page = tmp_path / "report.html"
    words = ["evaluate", place / "purchases.csv", tmp_path / "other.csv", "--out", page, "--label", "kind"]
    facts = answer(capsys, *words, "--holdout", tmp_path / "other.csv")
    assert facts["page"] == str(page)
    assert {"part", "metric", "value", "floor"} <= set(facts["measures"][0])
    assert "<html" in page.read_text(encoding="utf-8")
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert out.splitlines()[0].startswith("overall")
    assert out.splitlines()[-1] == str(page)


def test_synthesize_does_it_all(place, tmp_path, capsys):
    data, out = tmp_path / "data.csv", tmp_path / "new.csv"
    write_table(data, purchases(120))
    facts = answer(capsys, "synthesize", data, "--out", out, "--rows", 50, "--model", tmp_path / "model", *FEW)
    assert (facts["rows"], facts["fitted"], facts["held_out"]) == (50, 96, 24)
    assert facts["page"] == str(tmp_path / "new.report.html")
    assert Path(facts["page"]).exists()
    assert facts["verdict"][0]["metric"] == "overall"
    new = read_table(out)
    assert new.dtypes.tolist() == purchases().dtypes.tolist()
    assert len(new) == 50
    assert run(capsys, "info", tmp_path / "model")[0] == 0
    page = tmp_path / "page.html"
    code, said, err = run(capsys, "synthesize", data, "--out", out, "--report", page, "--holdout", 0, *FEW)
    assert code == 0
    assert "0 of 120 rows are held out" in err
    assert said.splitlines()[-2:] == [str(out), str(page)]
    assert "categorical, 2 levels" in said
    assert len(read_table(out)) == 120


# Mistakes.


def test_a_mistake_is_json_where_json_is_asked_for(tmp_path, capsys):
    code, out, err = run(capsys, "inspect", tmp_path / "absent.csv", "--json")
    assert code == 1
    assert json.loads(out) == {"error": err.strip().removeprefix("countjump: error: "), "code": 1}
    code, out, _ = run(capsys, "fit", "--json", "--bogus")
    assert (code, json.loads(out)["code"]) == (2, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--separator", "xx"], "--separator must be one character"),
        (["--separator", "5"], "separator '5' cannot be"),
        (["--decimal", ";"], "decimal mark ';' cannot be"),
        (["--encoding", "klingon"], "encoding 'klingon' is unknown"),
    ],
)
def test_dialects_that_cannot_be(words, said, place, capsys):
    assert said in mistake(capsys, "inspect", place / "purchases.csv", *words, code=2)


def test_lines_and_columns_are_named(place, tmp_path, capsys):
    (tmp_path / "torn.csv").write_text("a,b\n1,2\n3\n")
    assert "line 3 of" in mistake(capsys, "inspect", tmp_path / "torn.csv")
    said = mistake(capsys, "fit", place / "purchases.csv", "--label", "kin", "--out", tmp_path / "m", *QUICK)
    assert said.endswith("has no column 'kin': it has 'kind'")
    np.save(tmp_path / "a.npy", np.eye(3))
    assert "no names of columns" in mistake(
        capsys, "fit", tmp_path / "a.npy", "--label", "x", "--out", tmp_path / "m", *QUICK
    )
    said = mistake(capsys, "sample", place / "counts", "--rows", 1, "--label", "x", "--out", tmp_path / "a.csv")
    assert "fitted without" in said
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["score", "absent", "absent.csv"],
        ["deepen", "absent", "absent.csv", "--fraction", "0.5"],
        ["denoise", "absent", "absent.csv", "--fraction", "0.5"],
        ["complete", "absent", "absent.csv"],
        ["synthesize", "absent.csv"],
    ],
)
def test_a_place_that_cannot_be_written_is_noticed_before_the_work(words, tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    assert "is a file and no directory" in mistake(capsys, *words, "--out", tmp_path / "taken" / "a.csv", "--quiet")
    assert "ends in '.xlsx'" in mistake(capsys, *words, "--out", tmp_path / "a.xlsx", code=2)


def test_a_page_is_called_html(place, tmp_path, capsys):
    data = place / "purchases.csv"
    assert "let its name end in .html" in mistake(capsys, "evaluate", data, data, "--out", tmp_path / "a.csv", code=2)
    words = ["synthesize", data, "--out", tmp_path / "a.csv", "--report", tmp_path / "a.pdf"]
    assert "let its name end in .html" in mistake(capsys, *words, code=2)


# As a program.


def test_the_program_answers_in_json_alone(place, tmp_path):
    words = [
        sys.executable,
        "-m",
        "countjump",
        "fit",
        str(place / "counts.csv"),
        "--out",
        str(tmp_path / "m"),
        *FEW,
        "--json",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rows"] == 60
    assert "domain = " in done.stderr, "what was chosen is said beside the answer"


def test_images_go_where_they_can(tmp_path, capsys):
    path = tmp_path / "images.npy"
    np.save(path, np.random.default_rng(0).integers(0, 5, (20, 7, 7), dtype=np.uint8))
    for words in (
        ("inspect", path),
        ("evaluate", path, path, "--out", tmp_path / "page.html"),
        ("synthesize", path, "--rows", 20, "--out", tmp_path / "new.npy"),
    ):
        assert run(capsys, *words)[0] == 1
        assert "holds an array of shape (20, 7, 7): this command is for rows and columns" in mistake(capsys, *words)
    model = JumpModel(max_updates=1, width=4, random_state=0, progress=False).fit(np.load(path))
    model.save(tmp_path / "model")
    words = ("sample", tmp_path / "model", "--rows", 2, "--steps", 2, "--out", tmp_path / "new.csv")
    assert "images, an array of shape (2, 7, 7), go to .npy or .npz" in mistake(capsys, *words)
    assert not (tmp_path / "new.csv").exists()
