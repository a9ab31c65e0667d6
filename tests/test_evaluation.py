"""The report is right where the answer is known, names what is wrong, and its numbers are those of their definitions."""

import json
import re
from datetime import time
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from synthetic import by_column, mixed, part, table, wide, with_copies

from countjump import evaluate
from countjump.metrics import w1
from countjump.metrics.columns import compare, describe
from countjump.metrics.pairs import dependence
from countjump.metrics.reading import read
from countjump.metrics.safety import Distances, membership_auc, nearer, nearest_distances, nearest_other
from countjump.report.charts import bars

SETS = ["wine", "cancer", "mixed", "wide"]


def verdict(found: pd.DataFrame) -> dict[str, str]:
    lines = found[found.part == "verdict"]
    return dict(zip(lines.metric, lines.judgement, strict=True))


def line(found: pd.DataFrame) -> str:
    return found[(found.part == "verdict") & (found.metric == "overall")].meaning.item()


def value(found: pd.DataFrame, metric: str, column: str = "") -> float:
    return found[(found.metric == metric) & (found.column == column)].value.item()


# The verdict.


@pytest.mark.parametrize(("name", "seed"), [*((name, 1) for name in [*SETS, "digits"]), ("wine", 2), ("mixed", 2)])
def test_an_independent_sample_is_no_reason_to_worry(name, seed):
    x = table(name, np.random.default_rng(seed))
    found = evaluate(part(x, 0, 3), part(x, 1, 3), part(x, 2, 3), random_state=seed)
    assert "poor" not in verdict(found).values(), line(found)
    assert "Do not share" not in line(found)


@pytest.mark.parametrize("name", SETS)
def test_copies_are_found(name):
    rng = np.random.default_rng(3)
    x = table(name, rng)
    train = part(x, 0, 2)
    found = evaluate(train, with_copies(part(x, 1, 2), train, rng))
    assert verdict(found)["copies"] == "poor"
    assert "copies" in line(found)
    rows = train.shape[0]
    assert value(found, "exact_copies") >= rows // 10 / rows  # those that were planted


@pytest.mark.parametrize("name", ["wine", "cancer", "mixed"])
def test_copies_with_a_little_noise_are_found(name):
    rng = np.random.default_rng(4)
    x = table(name, rng)
    train = part(x, 0, 3)
    found = evaluate(train, with_copies(part(x, 1, 3), train, rng, noise=0.01), part(x, 2, 3))
    assert verdict(found)["copies"] == "poor"
    assert verdict(found)["membership"] == "poor"
    assert line(found).startswith("Do not share")


@pytest.mark.parametrize("name", SETS)
def test_columns_drawn_one_by_one_have_lost_the_joint_structure(name):
    rng = np.random.default_rng(5)
    x = table(name, rng)
    found = evaluate(x, by_column(x, rng))
    assert line(found) == "The columns look right one by one, but the joint structure is lost."
    assert value(found, "dependence_kept") < 0.2
    assert verdict(found)["copies"] == "good"


def test_a_wrong_column_is_named_and_gives_rows_away():
    rng = np.random.default_rng(6)
    real, synthetic = mixed(600, rng), mixed(600, rng)
    synthetic["visits"] += 4
    found = evaluate(real, synthetic)
    assert verdict(found)["columns"] == "poor"
    assert found[found.metric == "columns"].meaning.item().startswith("Clearly off: 1 of 6 columns (“visits”)")
    assert line(found) == "These rows are easily told from real ones: do not rely on them."
    assert found[found.metric == "gives_away"].column.iloc[0] == "visits"
    assert value(found, "w1", "visits") == pytest.approx(4, abs=0.4)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("column", "Some columns are clearly off: look closer"),
        ("both", "Some columns .* and the dependence .* is lost:"),
    ],
)
def test_the_line_says_what_is_wrong_where_rows_are_not_easily_told(fault, said):
    rng = np.random.default_rng(20)
    real, synthetic = (pd.DataFrame(rng.normal(size=(1200, 8)) + 0.5 * rng.normal(size=(1200, 1))) for _ in range(2))
    synthetic[0] *= 1.5
    if fault == "both":
        synthetic = by_column(synthetic, rng)
    found = evaluate(real.add_prefix("x"), synthetic.add_prefix("x"))
    assert found[found.metric == "two_sample_auc"].judgement.item() != "poor"
    assert verdict(found)["overall"] == "poor"
    assert re.match(said, line(found))
    assert "(“x0”" in found[found.metric == "columns"].meaning.item()


def test_what_is_missing_is_compared_too():
    rng = np.random.default_rng(7)
    real, synthetic = mixed(600, rng), mixed(600, rng)
    synthetic["age"] = synthetic["age"].fillna(40)
    found = evaluate(real, synthetic).query("column == 'age'").set_index("metric")
    assert found.loc["missing_share"].real == pytest.approx(real.age.isna().mean())
    assert found.loc["missing_share"].synthetic == 0
    assert found.loc["w1"].judgement == "poor"


# Usefulness.


def test_labels_that_mean_nothing_are_useless_and_numbers_are_regressed():
    rng = np.random.default_rng(8)
    real, synthetic = mixed(600, rng), mixed(600, rng)
    synthetic["city"] = rng.permutation(synthetic["city"])
    found = evaluate(real, synthetic, label="city").query("part == 'usefulness'").set_index("metric")
    assert found.loc["accuracy"].judgement == "poor"
    assert found.loc["accuracy"].floor > found.loc["accuracy"].value + 0.2
    useful = evaluate(real, mixed(600, rng), holdout=mixed(300, rng), label="since")
    assert useful.query("metric == 'r_squared'").judgement.item() == "good"
    assert "held-out" in useful.query("part == 'verdict' and metric == 'usefulness'").meaning.item()


def test_usefulness_is_not_judged_where_real_rows_gain_nothing():
    rng = np.random.default_rng(17)
    real, synthetic, holdout = (mixed(400, rng).assign(luck=rng.random(400) < 0.25) for _ in range(3))
    found = evaluate(real, synthetic, holdout=holdout, label="luck")
    assert found[(found.part == "usefulness") & (found.metric == "accuracy")].judgement.item() == ""
    assert verdict(found)["usefulness"] == ""
    assert "cannot be judged: even real rows" in found[found.metric == "usefulness"].meaning.item()
    assert line(found).startswith("These rows are hard to tell")


# Input.


def test_arrays_sparse_and_anndata_agree():
    rng = np.random.default_rng(9)
    x, y = wide(60, rng, 30), wide(60, rng, 30)
    found = [evaluate(*pair) for pair in ((x, y), (x.tocoo(), y.tocsc()))]
    anndata = pytest.importorskip("anndata")
    cells = []
    for each in (x, y):
        labels = np.where(each.toarray()[:, 0] > 0, "a", "b")
        obs = pd.DataFrame({"kind": labels}, index=[str(i) for i in range(60)])
        cells.append(anndata.AnnData(sp.csr_matrix(each, dtype=np.float32), obs=obs))
    labelled = evaluate(*cells, label="kind")
    assert (labelled.part == "usefulness").sum() == 2
    found.append(labelled)
    found = [each[~each.part.isin(["verdict", "usefulness"])].reset_index(drop=True) for each in found]
    for other in found[1:]:
        pd.testing.assert_frame_equal(found[0], other, rtol=1e-4)
    dense = evaluate(x.toarray(), y.toarray())
    for name in ("zero_share", "w1"):
        mine, theirs = (each[(each.part == "column") & (each.metric == name)].value for each in (found[0], dense))
        assert mine.mean() == pytest.approx(theirs.mean(), rel=0.2)


def test_kinds_of_columns_and_identifiers():
    frame = mixed(200, np.random.default_rng(10))
    frame["day"] = frame["since"].dt.strftime("%Y-%m-%d")
    frame["number"] = pd.array([1, None] * 100, dtype="Int64")
    frame["row"] = np.arange(200)
    found = read(frame, frame.drop(columns="member"))
    kinds = {column.name: column.kind for column in found.real.columns}
    numbers = dict.fromkeys(["age", "spend", "visits", "number"], "number")
    assert kinds == {**numbers, "city": "category", "since": "date", "day": "date"}
    assert [re.findall("“(.*?)”", note) for note in found.notes] == [["member"], ["id"], ["row"]]
    assert found.real.values[:, 3].tolist() == found.real.values[:, 5].tolist()  # a date is one, however it is written


def test_errors_say_what_to_do():
    x = mixed(100, np.random.default_rng(11))
    with pytest.raises(ValueError, match="at least 20 rows"):
        evaluate(x, x.head(3))
    with pytest.raises(ValueError, match="no column in common"):
        evaluate(x, x.add_suffix("!"))
    with pytest.raises(ValueError, match="label names the column 'town'"):
        evaluate(x, x, label="town")
    with pytest.raises(ValueError, match="'age' holds numbers, and not in the synthetic"):
        evaluate(x, x.assign(age="old"))
    with pytest.raises(ValueError, match="'age' holds inf in row 3 of the synthetic"):
        evaluate(x, x.assign(age=np.where(np.arange(100) == 3, np.inf, 1)))
    broken = sp.csr_matrix(np.where(np.eye(30) > 0, np.nan, 0))
    with pytest.raises(ValueError, match="row 0, column '0'"):
        evaluate(broken, broken)


# The numbers.


def test_sparse_columns_are_measured_as_dense_ones():
    rng = np.random.default_rng(12)
    x, y = wide(150, rng, 40), wide(150, rng, 40)
    sparse, dense = read(x, y), read(x.toarray(), y.toarray())
    for a, b in ((compare(t.real, t.synthetic), describe(t.real)) for t in (dense,)):
        mine, described = compare(sparse.real, sparse.synthetic), describe(sparse.real)
        assert set(mine) == set(a)
        for name in a:
            np.testing.assert_allclose(mine[name], a[name], atol=1e-9, err_msg=name)
        for name in ("mean", "sd", "range", "q99"):
            np.testing.assert_allclose(described[name], b[name], atol=1e-9, err_msg=name)
    assert compare(dense.real, dense.synthetic)["distance"][3] == w1(x[:, [3]].toarray(), y[:, [3]].toarray())


def test_dependence_of_kinds():
    rng = np.random.default_rng(13)
    a = rng.normal(size=400)
    frame = pd.DataFrame(
        {"a": a, "up": np.exp(a), "side": np.where(a > 0, "x", "y"), "other": rng.choice(list("pqr"), 400)}
    )
    found = dependence(read(frame.assign(same=frame.side), frame.assign(same=frame.side)).real)
    assert found[0, 1] == pytest.approx(1)
    assert found[2, 4] == pytest.approx(1)
    assert found[0, 2] == pytest.approx(np.sqrt(0.75), abs=0.02)  # the ranks of two halves
    assert max(found[3, :3]) < 0.15


def test_distances_and_who_is_found():
    rng = np.random.default_rng(14)
    points = rng.normal(size=(50, 3)).astype(np.float32)
    brute = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1)) + np.diag(np.full(50, np.inf))
    np.testing.assert_allclose(nearest_other(points, np.arange(50)), brute.min(1), rtol=1e-4)
    assert nearest_distances(points[:5], points).tolist() == [0] * 5
    auc, error = membership_auc(rng.random(500), rng.random(500))
    assert abs(auc - 0.5) < 4 * error
    assert nearer(rng.random(300) + 0.1, rng.random(300) + 0.1).p_value > 1e-3
    frame = pd.DataFrame({"a": [0.0, 2.0] * 10, "b": ["x", "y"] * 10, "c": [1.0, np.nan] * 10})
    place = Distances(tables := read(frame, frame).real).place(tables)
    assert ((place[0] - place[1]) ** 2).sum() == pytest.approx(4 + 1 + 1)  # two sd of 1, a level, a missing value


def test_the_same_seed_gives_the_same_numbers():
    x = mixed(120, np.random.default_rng(15))
    first, again = (evaluate(x.head(60), x.tail(60), random_state=4) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(evaluate(x.head(60), x.tail(60), random_state=5))


# The page.


def test_the_page_holds_all_it_needs_and_escapes_names(tmp_path):
    rng = np.random.default_rng(16)
    hostile = "</script><script>alert(1)</script>"
    x = mixed(200, rng).rename(columns={"age": hostile})
    frame = evaluate(x.head(100), x.tail(100), out=tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert line(frame) in page
    assert not re.search(r"""(src|href)=["'](?!data:)|@import|url\(""", page)
    assert hostile not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert hostile in [row[0] for row in json.loads(data[1])]
    assert "cannot be said whether training rows" in page
    assert page.count("<article") >= 6
    assert page.count("floor") > 10


def test_bars_say_both_shares():
    drawn = bars(["yes", "no"], np.array([0.76, 0.24]), np.array([0.74, 0.26]))
    assert re.findall(r">([^<>]+)</text>", drawn) == ["yes", "76% → 74%", "no", "24% → 26%"]


def test_nothing_is_computed_for_a_page_that_cannot_be_written(tmp_path):
    (tmp_path / "report.html").write_text("a file")
    with pytest.raises(ValueError, match="is a file and no directory"):
        evaluate(None, None, out=tmp_path / "report.html" / "inside.html")


def test_times_of_day_decimals_and_large_identifiers_are_compared_as_what_they_are():
    def table(seed):
        g = np.random.default_rng(seed)
        opens = [None if g.random() < 0.1 else time(int(hour), 30) for hour in g.integers(6, 20, 200)]
        price = [Decimal(int(cents)) / 100 for cents in g.integers(1, 999, 200)]
        return pd.DataFrame({"opens": opens, "price": price, "key": g.integers(2**60, 2**62, 200)})

    found = read(table(0), table(1).assign(key=np.arange(200) + 2**62))
    assert [(column.name, column.kind) for column in found.real.columns] == [("opens", "number"), ("price", "number")]
    assert set(np.unique(found.real.values[:, 0] % 1)[:1]) == {0.5}
    assert "“key” looks like an identifier" in found.notes[0]


@pytest.mark.parametrize("present", [0, 1, 5])
def test_columns_with_hardly_a_value_are_compared(present, tmp_path):
    def table(seed, present):
        rows = mixed(200, np.random.default_rng(seed))
        rare = np.arange(200) < present
        return rows.assign(empty=np.where(rare, 7.0, np.nan), word=np.where(rare, "seldom", None), nobody=np.nan)

    found = evaluate(
        table(0, present), table(1, present), holdout=table(2, present), label="city", out=tmp_path / "a.html"
    )
    assert set(found[found["part"] == "verdict"]["judgement"]) <= {"good", "fair"}
    filled = evaluate(table(0, present), table(1, present).assign(empty=1.0))
    assert (filled[filled["metric"] == "two_sample_auc"]["judgement"] == "poor").all()
