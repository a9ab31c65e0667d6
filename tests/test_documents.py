"""``countjump reproduce documents``: the simple methods against their laws, the yardstick, the records, tables and figures."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from countjump import JumpModel
from countjump.cli import main
from countjump.data import documents as files
from countjump.experiments import Documents, runner
from countjump.experiments.documents import (
    METHODS,
    ColumnBootstrap,
    TopicModel,
    Yardstick,
    examples,
    make,
    table,
)
from countjump.metrics import pmi_correlation, row_totals, synthetic_accuracy, w1

SETS = files.NAMES
TINY = {"made": [60, 260], "compare": 20, "updates": 2, "paper_updates": 2}


def refuse(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


def strict(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def go(out: Path, only: list[str], methods: list[str], **settings: object) -> list[dict]:
    runner.run(Documents("smoke", TINY | settings), out, only, methods, None, progress=False)
    return strict(out / "results.json")


# The simple methods.


def test_resampled_columns_are_a_bootstrap_of_each():
    x = make("20news-bow", 400, 50).x
    y = ColumnBootstrap().fit(x).sample(20_000, random_state=1)
    real, ours = x.toarray(), y.toarray()
    assert (y.shape, y.dtype) == ((20_000, 50), x.dtype)
    for column in range(50):
        values, shares = np.unique(real[:, column], return_counts=True)
        assert set(ours[:, column]) <= set(values)
        for value, share in zip(values, shares / 400, strict=True):
            assert (ours[:, column] == value).mean() == pytest.approx(share, abs=5 * np.sqrt(share / 20_000))
    common = np.argsort(-(real > 0).sum(axis=0))[:15]
    pairs = np.corrcoef((ours[:, common] > 0).T)[np.triu_indices(15, 1)]
    assert np.abs(pairs).max() < 5 / np.sqrt(20_000)


def test_documents_of_topics_have_real_lengths_and_real_pairs():
    x = make("20news-bow", 600, 80).x
    y = TopicModel(4, seed=0).fit(x).sample(600, random_state=1)
    shuffled = ColumnBootstrap().fit(x).sample(600, random_state=1)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert set(row_totals(y)) <= set(row_totals(x))
    assert w1(row_totals(x), row_totals(y)) < w1(row_totals(x), row_totals(shuffled)) / 2
    np.testing.assert_allclose(y.mean(axis=0), x.mean(axis=0), atol=0.25)
    frequent = np.argsort(-x.getnnz(axis=0))[:30]
    assert pmi_correlation(x, y, frequent) > pmi_correlation(x, shuffled, frequent) + 0.1


def test_simple_methods_do_not_make_wide_rows_dense():
    rng = np.random.default_rng(0)
    rows, columns = 1000, 20_000
    place = rng.integers(rows, size=5000), rng.integers(columns, size=5000)
    x = sp.csr_matrix((np.ones(5000, np.int32), place), shape=(rows, columns))
    tracemalloc.start()
    for method in (ColumnBootstrap(), TopicModel(2, seed=0)):
        assert method.fit(x).sample(rows, random_state=0).shape == x.shape
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows * columns * 4 / 4  # a quarter of the dense int32 matrix


# The yardstick.


@pytest.fixture(scope="module")
def yardstick() -> Yardstick:
    return Yardstick(make("20news-bow", 600, 200), most=10_000, splits=4, slow=2, outlier=True)


def test_a_floor_is_what_fresh_real_rows_score():
    drawn = make("20news-bow", 900, 200)
    real = files.Wide(drawn.x[:600], drawn.columns, drawn.labels[:600], drawn.label_names)
    measured = Yardstick(real, 10_000, 4, 2, outlier=True).measure(drawn.x[600:])
    for name in ("sparsity_w1", "total_w1", "sparsity_w1_trimmed", "total_w1_trimmed"):
        assert measured[name] < 4 * measured[f"{name}_floor"]
    for name in ("pmi_correlation", "auc", "synthetic_accuracy", "mean_spearman", "zero_rate_log_error"):
        assert measured[name] == pytest.approx(measured[f"{name}_floor"], abs=0.15)
    assert measured["copy_ratio"] == pytest.approx(1, abs=0.15)
    assert 0.8 < measured["real_accuracy"] <= 1


def test_rows_of_another_law_are_far_above_the_floor(yardstick):
    doubled = yardstick.measure(2 * yardstick.wide.x[:300])
    assert doubled["total_w1"] > 3 * doubled["total_w1_floor"]
    assert doubled["sparsity_w1"] < 3 * doubled["sparsity_w1_floor"]
    assert doubled["copy_ratio"] < 0.3  # nine of ten are training rows, twice
    shuffled = yardstick.measure(ColumnBootstrap().fit(yardstick.wide.x).sample(300, random_state=0))
    assert shuffled["auc"] > shuffled["auc_floor"] + 0.2
    assert shuffled["pmi_correlation"] < shuffled["pmi_correlation_floor"]


def test_empty_rows_are_measured_and_have_no_copy_ratio(yardstick):
    empty = yardstick.measure(sp.csr_matrix((300, 200), dtype=np.int32))
    assert empty["copy_ratio"] is None
    assert empty["auc"] > 0.95
    assert empty["total_w1"] == pytest.approx(row_totals(yardstick.wide.x).mean(), rel=0.1)
    json.dumps(empty, allow_nan=False)


def test_without_the_one_long_row_the_distance_is_that_of_the_others():
    x = sp.lil_matrix(make("20news-bow", 600, 200).x)
    x[7, 3] = 11_151
    wide = files.Wide(sp.csr_matrix(x), [str(i) for i in range(200)], None, [])
    measured = Yardstick(wide, 10_000, 6, 0, outlier=True).measure(make("20news-bow", 600, 200).x[:300])
    # Half the splits have it in the first group, where it alone is 11,151/300 of a distance.
    assert measured["total_w1_floor"] > 30
    assert measured["total_w1_trimmed_floor"] < 10
    assert measured["total_w1_trimmed"] < 10


def test_groups_are_at_most_as_large_as_asked():
    wide = make("20news-bow", 601, 200)
    assert Yardstick(wide, 100, 2, 0, outlier=False).rows == 100
    assert Yardstick(wide, 1000, 2, 0, outlier=False).rows == 300


def test_a_metric_is_the_mean_over_different_splits(yardstick):
    first = {tuple(sorted(first)) for first, _ in yardstick.splits}
    assert len(first) == len(yardstick.splits) > 1
    generated = yardstick.wide.x[:300]
    apart = [w1(row_totals(yardstick.wide.x)[a], row_totals(generated)) for a, _ in yardstick.splits]
    assert yardstick.measure(generated)["total_w1"] == pytest.approx(np.mean(apart))
    floors = [w1(row_totals(yardstick.wide.x)[a], row_totals(yardstick.wide.x)[b]) for a, b in yardstick.splits]
    assert (yardstick.floor["total_w1"], yardstick.floor_sd["total_w1"]) == pytest.approx(
        (np.mean(floors), np.std(floors))
    )


def test_an_accuracy_is_of_halves_and_that_of_fresh_rows_of_thirds(yardstick):
    x, labels = yardstick.wide.x, yardstick.wide.labels
    generated = make("20news-bow", 300, 200).x
    measured = yardstick.measure(generated)
    ours, fresh = [], []
    for a, b in yardstick.splits[:2]:
        ours.append(synthetic_accuracy(x[a], labels[a], generated, x[b], labels[b]))
        first, second, third = np.split(np.concatenate([a, b]), 3)
        fresh.append(synthetic_accuracy(x[first], labels[first], x[third], x[second], labels[second]))
    names = ("synthetic_accuracy", "real_accuracy")
    assert [measured[name] for name in names] == pytest.approx(np.mean(ours, 0))
    assert [measured[f"{name}_floor"] for name in names] == pytest.approx(np.mean(fresh, 0))


def test_the_table_says_which_methods_were_sampled_how_often(smoke):
    records = strict(smoke / "results.json")
    sets = Documents("smoke").recipe["sets"]
    assert "in 1; samples of a fit: 2 (jump, lda, columns) and 1 (jump-paper, ddpm)." in table(records, sets)


def test_rows_that_are_not_whole_groups_are_not_measured(yardstick):
    for rows in (0, 299, 450):
        with pytest.raises(ValueError, match=f"{rows} generated rows are not one or several times 300"):
            yardstick.measure(yardstick.wide.x[:rows])


def test_splits_take_turns_with_the_samples_of_a_fit(yardstick):
    x = yardstick.wide.x
    several = sp.vstack([x[:300], 2 * x[:300], 3 * x[:300]], format="csr")
    turns = [
        w1(row_totals(yardstick.wide.x)[a], (i % 3 + 1) * row_totals(x[:300]))
        for i, (a, _) in enumerate(yardstick.splits)
    ]
    assert yardstick.measure(several)["total_w1"] == pytest.approx(np.mean(turns))
    assert yardstick.measure(several)["copy_ratio"] == yardstick.measure(x[:300])["copy_ratio"]


# The cells.


def test_the_papers_methods_are_as_in_the_paper():
    """Section 4.2: λ = 10, width 128, 100 steps, a Poisson belief."""
    x = make("20news-bow", 60, 200).x
    model = Documents("paper").model(runner.Cell("20news-bow", "jump-paper", 0, (100,)), x, 0)
    said = model.get_params()
    expected = {"process": "poisson", "belief": "poisson", "lam": 10.0, "width": 128, "batch_size": 128}
    expected |= {"learning_rate": 1e-3, "objective": "elbo", "decode": "latent", "ema": 0.0, "max_updates": 4000}
    assert {name: said[name] for name in expected} == expected
    assert model.schedule.timesteps == 100
    ddpm = Documents("paper").model(runner.Cell("20news-bow", "ddpm", 0, (100,)), x, 0).get_params()
    assert (ddpm["width"], ddpm["batch_size"], ddpm["learning_rate"]) == (128, 128, 1e-3)


def test_lda_is_for_counts():
    cells = Documents("paper").cells([], [], None)
    assert {cell.dataset for cell in cells if cell.method == "lda"} == {"20news-bow", "nips-bow", "pbmc"}
    assert len(cells) == 5 * 4 + 3
    with pytest.raises(ValueError, match="nothing to run: lda can only take counts, and nips-tfidf are not"):
        Documents("paper").cells(["nips-tfidf"], ["lda"], None)


def test_steps_of_the_methods():
    steps = {cell.method: cell.steps for cell in Documents("paper").cells(["pbmc"], [], None)}
    assert steps == {"jump": (20, 50), "jump-paper": (100,), "ddpm": (100,), "lda": (0,), "columns": (0,)}


def test_quick_is_jump_once_on_all_sets():
    cells = Documents("quick").cells([], [], None)
    assert [(cell.dataset, cell.method, cell.run) for cell in cells] == [(name, "jump", 0) for name in SETS]


# The command.


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """What the command makes of counts with labels and of weights without."""
    out = tmp_path_factory.mktemp("reproduce") / "out"
    words = ["reproduce", "documents", "--preset", "smoke", "--only", "20news-bow,nips-tfidf", "--quiet"]
    assert main([*words, "--out", str(out)]) == 0
    return out


def test_records_hold_what_was_promised(smoke):
    records = strict(smoke / "results.json")
    assert {(r["dataset"], r["method"], r["steps"]) for r in records} == {
        *((name, "jump", steps) for name in ("20news-bow", "nips-tfidf") for steps in (2, 5)),
        *((name, method, 5) for name in ("20news-bow", "nips-tfidf") for method in ("jump-paper", "ddpm")),
        *((name, "columns", 0) for name in ("20news-bow", "nips-tfidf")),
        ("20news-bow", "lda", 0),
    }
    assert len(records) == 11
    for record in records:
        metrics = ["sparsity_w1", "total_w1", "pmi_correlation", "auc", "mean_spearman", "variance_log_error"]
        if record["dataset"] == "20news-bow":
            metrics += ["sparsity_w1_trimmed", "total_w1_trimmed", "synthetic_accuracy"]
        for name in metrics:
            assert record.keys() >= {name, f"{name}_floor", f"{name}_floor_sd"}
        assert record.keys() >= {"seed", "seconds_fit", "seconds_sample", "updates", "copy_ratio", "examples_real"}
        assert ("real_accuracy" in record) == (record["dataset"] == "20news-bow")
        assert (record["rows"], record["columns"], record["splits"]) == (240, 300, 3)
        assert (record["compare"], record["draws"]) == (
            (80, 1) if record["method"] in ("jump-paper", "ddpm") else (100, 2)
        )
        assert record["made"]
        assert ("epochs" in record) == (record["method"] in ("jump-paper", "ddpm"))
        for shares in record["histograms"].values():
            assert len(shares["true"]) == len(shares["generated"]) == len(shares["edges"]) - 1
            assert sum(shares["true"]) == pytest.approx(1, abs=1e-4)
            assert sum(shares["generated"]) == pytest.approx(1, abs=1e-4)
        assert all(0 < len(words) <= 12 for words in record["examples_real"] + record["examples"])


def test_tables_and_figures_come_from_the_records_alone(smoke, monkeypatch, tmp_path):
    names = ("table.md", "examples.md", "sparsity_totals.png", "joint.png")
    before = {name: (smoke / name).read_bytes() for name in names}
    assert before["joint.png"].startswith(b"\x89PNG")
    (tmp_path / "results.json").write_bytes((smoke / "results.json").read_bytes())
    monkeypatch.setattr(Documents, "run", lambda *_: pytest.fail("nothing is missing"))
    runner.run(Documents("smoke"), tmp_path, ["20news-bow", "nips-tfidf"], [], None, progress=False)
    assert {name: (tmp_path / name).read_bytes() for name in names} == before


def test_the_table_says_what_the_records_say(smoke):
    records = strict(smoke / "results.json")
    lines = (smoke / "table.md").read_text(encoding="utf-8").splitlines()
    head = [cell.strip() for cell in next(line for line in lines if line.startswith("| method")).split("|")]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| columns | ")]
    row = dict(zip(head, rows[0], strict=True))
    record = next(r for r in records if (r["dataset"], r["method"]) == ("20news-bow", "columns"))
    ratio = record["sparsity_w1"] / record["sparsity_w1_floor"]
    assert row["sparsity W1 (‰)"] == f"{1000 * record['sparsity_w1']:.3g} ({ratio:.2f}×)"
    assert row["AUC"] == f"{record['auc']:.3f}"
    assert row["accuracy"] == f"{record['synthetic_accuracy'] / record['real_accuracy']:.3f}"
    floors = [line.split("|")[1].strip() for line in lines if line.startswith("| floor")]
    assert floors[:2] == ["floor, 100 rows a side", "floor, 80 rows a side (for jump-paper and ddpm)"]
    assert "| the paper's DDPM | 100 | 66.6 ± 1.7 | 0.2 ± 0.02 |  |  |  |  |  |  |" in lines
    assert "sparsity W1 (%)" in "".join(lines)


def test_runs_are_averaged_and_what_is_missing_is_left_blank(smoke):
    records = [r for r in strict(smoke / "results.json") if (r["dataset"], r["method"]) == ("20news-bow", "ddpm")]
    records = [
        records[0] | {"run": run, "auc": auc, "copy_ratio": None, "copy_share": None}
        for run, auc in enumerate((0.6, 0.8))
    ]
    sets = Documents("smoke").recipe["sets"]
    row = next(line for line in table(records, sets).splitlines() if line.startswith("| ddpm"))
    assert row.split(" | ")[7] == "0.700"
    assert row.split(" | ")[9] == ""
    assert "All rows are empty." in examples([records[0] | {"examples": []}], sets)


def test_a_run_that_was_stopped_while_it_sampled_has_its_fit(tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    (whole,) = go(tmp_path / "whole", ["pbmc"], ["jump"], steps=[2])
    with monkeypatch.context() as patch:
        patch.setattr(JumpModel, "sample", interrupt)
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path / "killed", ["pbmc"], ["jump"], steps=[2])
    assert list((tmp_path / "killed" / "checkpoints").glob("pbmc-jump-0/*"))
    (killed,) = go(tmp_path / "killed", ["pbmc"], ["jump"], steps=[2])
    assert "resumed" not in killed  # its time is that of one whole fit
    for record in (whole, killed):
        for name in ("seconds_fit", "seconds_sample"):
            record.pop(name)
    assert killed == whole
    assert not (tmp_path / "killed" / "checkpoints").exists()


def test_only_the_missing_steps_are_sampled(tmp_path):
    go(tmp_path, ["nips-bow"], ["jump"], steps=[2])
    assert [r["steps"] for r in go(tmp_path, ["nips-bow"], ["jump"], steps=[2, 3])] == [2, 3]


def test_epochs_of_the_papers_methods(tmp_path):
    (record,) = go(tmp_path, ["pbmc"], ["jump-paper"], paper_epochs=3, made=[300, 260], compare=50)
    assert (record["updates"], record["epochs"]) == (6, 3.0)  # 300 rows are two batches of 128


def test_records_of_another_size_stay_alone(smoke):
    with pytest.raises(ValueError, match=r"have compare = 100, and this run has compare = 120: choose another"):
        runner.run(Documents("quick"), smoke, ["pbmc"], [], None, progress=False)
    real = [
        {name: value for name, value in record.items() if name != "made"} for record in strict(smoke / "results.json")
    ]
    with pytest.raises(ValueError, match=r"have no made, and this run has made = True: choose another"):
        Documents("smoke").check(real, [])


def test_shorter_fits_do_not_stand_beside_longer_ones(tmp_path):
    go(tmp_path, ["pbmc"], ["jump"], steps=[2])
    with pytest.raises(ValueError, match="have max_updates = 2, and this run has max_updates = 3: choose another"):
        go(tmp_path, ["pbmc"], ["jump"], updates=3)


def run(capsys, *argv: object) -> tuple[int, str]:
    code = main([str(word) for word in argv])
    err = capsys.readouterr().err
    assert err.startswith("countjump: error: ")
    assert err.count("\n") == 1
    return code, err


def test_data_that_is_not_there(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    words = ["reproduce", "documents", "--methods", "columns", "--quiet", "--out", tmp_path / "out"]
    code, err = run(capsys, *words, "--only", "nips-bow")
    assert code == 1
    assert "no directory was given: pass the directory that holds it (--data DIR), or set COUNTJUMP_DATA" in err
    code, err = run(capsys, *words, "--only", "pbmc", "--data", tmp_path)
    assert code == 1
    assert f"{tmp_path} does not hold it" in err

    def offline(**_):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", offline)
    code, err = run(capsys, *words, "--only", "20news-bow")
    assert code == 1
    assert "20news-bow cannot be downloaded (no network): pass the directory that holds it (--data DIR)" in err


def nips(directory: Path, x: sp.csr_matrix) -> None:
    """Files of NeurIPS papers."""
    sp.save_npz(directory / "nips1-17_bow.npz", x)
    (directory / "nips1-17_vocab.txt").write_text("\n".join(f"word{i}" for i in range(x.shape[1])))


def test_data_is_read_from_the_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    nips(tmp_path, make("nips-bow", 80, 260).x)
    words = ["reproduce", "documents", "--only", "nips-bow", "--methods", "columns", "--quiet"]
    assert main([*words, "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    (record,) = strict(tmp_path / "out" / "results.json")
    assert (record["rows"], record["columns"], record["compare"], record["splits"]) == (80, 260, 40, 20)
    assert "made" not in record


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["documents", "--only", "wikipedia"], "set 'wikipedia' is unknown"),
        (["documents", "--methods", "gan"], "method 'gan' is unknown"),
        (["univariate", "--data", "."], "--data is for experiments that read data, and univariate makes its own"),
    ],
)
def test_settings_that_make_no_sense(options, said, tmp_path, capsys):
    code, err = run(capsys, "reproduce", *options, "--out", tmp_path / "out")
    assert code == 2
    assert said in err
    assert not (tmp_path / "out").exists()


def test_missing_data_is_noticed_before_the_first_fit(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    nips(tmp_path, make("nips-bow", 80, 260).x)
    words = ["reproduce", "documents", "--only", "nips-bow, pbmc", "--methods", "columns", "--quiet"]
    code, err = run(capsys, *words, "--data", tmp_path, "--out", tmp_path / "out")
    assert code == 1
    assert "pbmc needs pbmc_facs_counts.npz" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (sp.csr_matrix(np.eye(4, dtype=np.int32)), "4 rows are too few to compare: 20 are needed"),
        (sp.csr_matrix((0, 4), dtype=np.int32), "0 rows are too few to compare"),
    ],
)
def test_too_few_rows(x, said, tmp_path, capsys):
    nips(tmp_path, x)
    words = ["reproduce", "documents", "--only", "nips-bow", "--methods", "columns", "--quiet"]
    code, err = run(capsys, *words, "--data", tmp_path, "--out", tmp_path / "out")
    assert code == 1
    assert said in err


@pytest.mark.filterwarnings("ignore:.*encountered in divide:RuntimeWarning")
def test_rows_that_are_all_alike_have_no_ratio_to_the_floor(tmp_path):
    nips(tmp_path, sp.csr_matrix(np.tile(np.arange(300, dtype=np.int32) % 3, (40, 1))))
    words = ["reproduce", "documents", "--only", "nips-bow", "--methods", "jump,columns", "--steps", "2", "--quiet"]
    assert main([*words, "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    row = next(line for line in (tmp_path / "out" / "table.md").read_text().splitlines() if line.startswith("| jump"))
    assert row.split(" | ")[2:4] == ["0", "0"]


def test_out_is_a_directory(tmp_path, capsys):
    (tmp_path / "out").write_text("")
    code, err = run(capsys, "reproduce", "documents", "--preset", "smoke", "--out", tmp_path / "out")
    assert code == 1
    assert "out is a file: choose a directory" in err


def test_every_method_and_set_has_its_place():
    recipe = Documents("paper").recipe
    assert tuple(recipe["sets"]) == SETS
    assert tuple(recipe["presets"]["paper"]["methods"]) == METHODS
    for known in recipe["sets"].values():
        assert known["unit"] in "‰%"
        assert set(known["paper"]) in ({"jump", "ddpm"}, set())
