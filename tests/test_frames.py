"""Frames of every kind of column: what goes in comes out, missing values too."""

import json
from datetime import date, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from countjump import JumpModel
from countjump.data import Layout, read_table, write_table

ROWS = 60


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def short(**options) -> JumpModel:
    return JumpModel(**{"max_updates": 2, "width": 8, "random_state": 0, "progress": False, **options})


def customers(rows: int = ROWS) -> pd.DataFrame:
    """A table with a column of every kind; euros and items are missing together."""
    g = rng(1)
    keen = g.random(rows) < 0.4
    table = pd.DataFrame(
        {
            "customer": [f"C{place:04d}" for place in range(rows)],
            "city": g.choice(["Porto", "Lyon", "Köln"], rows),
            "first visit": pd.Timestamp("2023-01-01") + pd.to_timedelta(g.integers(0, 90, rows), unit="D"),
            "last order": pd.Timestamp("2024-01-01 08:00", tz="Europe/Lisbon")
            + pd.to_timedelta(g.integers(0, 500, rows), unit="m"),
            "stay": pd.to_timedelta(g.integers(0, 50, rows) * 30, unit="s"),
            "birthday": [date(1980 + int(year), 3, 1) for year in g.integers(0, 30, rows)],
            "quarter": pd.PeriodIndex.from_ordinals(g.integers(200, 220, rows), freq="Q"),
            "visits": g.poisson(2 + 8 * keen),
            "items": g.poisson(3, rows).astype(float),
            "euros": g.gamma(2, 10, rows).round(2),
            "rating": pd.array(np.where(g.random(rows) < 0.3, None, g.integers(1, 6, rows)), dtype="Int64"),
            "member": pd.array(np.where(g.random(rows) < 0.2, None, g.random(rows) < 0.5), dtype="boolean"),
            "active": g.random(rows) < 0.5,
            "size": pd.Categorical(g.choice(["S", "M", "L"], rows), categories=["S", "M", "L", "XL"], ordered=True),
            "empty": np.full(rows, np.nan),
            "kind": pd.Categorical(np.where(keen, "keen", "casual")),
            "delivery": (pd.Timestamp("2023-01-01") + pd.to_timedelta(g.integers(0, 400, rows), unit="D")).tz_localize(
                "America/New_York"
            ),
            "opens": [time(int(hour), 30) for hour in g.integers(6, 22, rows)],
            "price": [Decimal(int(cents)) / 100 for cents in g.integers(100, 9000, rows)],
        }
    )
    table.loc[g.random(rows) < 0.2, ["items", "euros"]] = np.nan
    table.loc[g.random(rows) < 0.2, "city"] = None
    table.loc[g.random(rows) < 0.2, ["opens", "price"]] = None
    table.loc[g.random(rows) < 0.2, "first visit"] = pd.NaT
    table.loc[g.random(rows) < 0.2, "size"] = np.nan
    return table


@pytest.fixture(scope="module")
def model() -> JumpModel:
    return short(max_updates=60, width=32).fit(customers())


# What goes in comes out.


def test_every_kind_of_column_comes_back_in_its_dtype(model):
    table = customers()
    new = model.sample(ROWS, steps=5, random_state=0)
    pd.testing.assert_series_equal(new.dtypes, table.dtypes)
    assert isinstance(new.index, pd.RangeIndex)
    assert set(new["city"].dropna()) <= {"Porto", "Lyon", "Köln"}
    assert new["city"].isna().any()
    assert list(new["size"].cat.categories) == ["S", "M", "L", "XL"]
    assert new["empty"].isna().all()
    assert (new["delivery"] == new["delivery"].dt.normalize()).all(), "local midnights, in summer and in winter"
    for name, kind in (("opens", time), ("price", Decimal)):
        assert {type(value) for value in new[name]} == {kind, type(None)}
    assert {value.minute for value in new["opens"].dropna()} == {30}
    assert {value.as_tuple().exponent for value in new["price"].dropna()} == {-2}
    assert (new["first visit"].dropna() == new["first visit"].dropna().dt.normalize()).all(), "whole days"
    assert (new["last order"].dt.second == 0).all()
    assert (new["stay"] % pd.Timedelta(seconds=30) == pd.Timedelta(0)).all()
    assert all(type(day) is date for day in new["birthday"])
    assert (new["items"].dropna() % 1 == 0).all()
    assert new["rating"].dropna().between(1, 5).all()


def test_columns_that_are_missing_together_stay_so(model):
    new = model.sample(400, steps=5, random_state=0)
    assert (new["items"].isna() == new["euros"].isna()).all()
    for name in ("items", "rating", "first visit", "city", "member", "size"):
        share, n = customers()[name].isna().mean(), 400
        assert abs(new[name].isna().mean() - share) < 5 * np.sqrt(share * (1 - share) / n), name


def test_a_model_of_a_frame_is_the_same_after_saving(model, tmp_path):
    model.save(tmp_path / "m")
    again = JumpModel.load(tmp_path / "m")
    pd.testing.assert_frame_equal(again.sample(20, steps=3, random_state=0), model.sample(20, steps=3, random_state=0))
    np.testing.assert_array_equal(
        again.score_samples(customers()[:5], steps=3), model.score_samples(customers()[:5], steps=3)
    )
    layout = model.layout_
    assert Layout.recall(json.loads(json.dumps(layout.described()))) == layout


def test_what_was_found_is_said(model):
    said = model.choices_
    assert "rating (" in said["missing"]
    days = Layout.of(pd.DataFrame({"day": pd.to_datetime(["2024-02-29", "2024-01-01"]), "n": 1}))
    assert [days.written(0, 59.0), days.written(1, 59.0)] == ["2024-02-29", "59"]
    assert said["identifiers"].startswith("customer: all different")
    assert said["empty"].startswith("empty: missing everywhere")
    assert "first visit from 2023-01-0" in said["times"]
    assert "customer" not in said["domain"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet", ".feather"])
def test_a_sample_is_read_back_from_a_file_with_the_schema_of_the_input(suffix, tmp_path):
    table = customers().drop(columns=["last order", "stay", "quarter", "birthday", "empty"])
    write_table(tmp_path / f"real{suffix}", table)
    real = read_table(tmp_path / f"real{suffix}")
    new = short().fit(real).sample(ROWS, steps=2, random_state=0)
    write_table(tmp_path / f"new{suffix}", new)
    back = read_table(tmp_path / f"new{suffix}")
    pd.testing.assert_series_equal(back.dtypes, real.dtypes)
    pd.testing.assert_frame_equal(back, new)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
COLUMNS = {
    "whole": lambda g, n: g.integers(-3, 9, n),
    "small": lambda g, n: g.integers(0, 4, n).astype("int8"),
    "nullable": lambda g, n: pd.array(np.where(g.random(n) < 0.4, None, g.integers(0, 4, n)), dtype="Int32"),
    "real": lambda g, n: np.where(g.random(n) < 0.3, np.nan, g.normal(0, 5, n)),
    "single": lambda g, n: g.gamma(1, 1, n).astype("float32"),
    "word": lambda g, n: pd.Series(g.choice(np.array(["a", "b c", "é", None], dtype=object), n)),
    "level": lambda g, n: pd.Categorical(g.choice(["x", "y", None], n), categories=["y", "x"]),
    "truth": lambda g, n: g.random(n) < 0.5,
    "unsure": lambda g, n: pd.array(np.where(g.random(n) < 0.4, None, g.random(n) < 0.5), dtype="boolean"),
    "day": lambda g, n: pd.to_datetime(np.where(g.random(n) < 0.3, "NaT", "2024-02-29")),
    "constant": lambda g, n: np.full(n, 7),
    "nothing": lambda g, n: np.full(n, np.nan),
}


@st.composite
def frames(draw):
    """Some columns of every kind, and names of every kind, also twice."""
    rows, g = draw(st.integers(2, 30)), rng(draw(st.integers(0, 99)))
    kinds = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4))
    table = pd.DataFrame(dict(enumerate(COLUMNS[kind](g, rows) for kind in kinds)))
    table.columns = pd.Index([draw(NAMES) for _ in kinds])
    return table


@given(frames())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_small_frame_is_fitted_and_comes_back(table):
    model = short(validation_fraction=0).fit(table)
    new = model.sample(7, steps=2, random_state=0)
    pd.testing.assert_index_equal(new.columns, table.columns)
    assert [str(dtype) for dtype in new.dtypes] == [str(dtype) for dtype in table.dtypes]
    assert np.isfinite(model.score_samples(table.iloc[:2], steps=2, draws=1)).all()


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(rng(0).random(60), dtype="float32").mask(rng(1).random(60) < 0.3),
        pd.Series([True, False] * 30, dtype=object),
        pd.Series([1, 7, 3] * 20, dtype=object),
        pd.Series([1, None, 3] * 20, dtype=object),
        pd.Series(pd.to_datetime(1.5e9 + rng(0).random(60) * 3e7, unit="s")),
    ],
    ids=["single", "truth", "whole", "whole and none", "long and fine times"],
)
def test_values_keep_their_types(column):
    new = short().fit(pd.DataFrame({"a": column, "b": rng(0).poisson(3, 60)})).sample(40, steps=2, random_state=0)["a"]
    assert new.dtype == column.dtype
    assert {type(v) for v in new.dropna()} == {type(v) for v in column.dropna()}
    if column.dtype == object:
        assert set(new.dropna()) <= set(range(-9, 99))


def test_dtypes_of_pyarrow_come_back():
    pyarrow = pytest.importorskip("pyarrow")
    columns = ["city", "visits", "euros", "active", "first visit", "delivery", "opens", "price"]
    table = customers()[columns].convert_dtypes(dtype_backend="pyarrow")
    table["delivery"] = table["delivery"].astype("timestamp[us, tz=America/New_York][pyarrow]")
    table["opens"] = table["opens"].astype("time64[us][pyarrow]")
    table["price"] = table["price"].astype(pd.ArrowDtype(pyarrow.decimal128(10, 2)))
    new = short().fit(table).sample(30, steps=2, random_state=0)
    assert [str(dtype) for dtype in new.dtypes] == [str(dtype) for dtype in table.dtypes]


# Missing values.


def test_a_missing_value_is_an_error_where_that_is_asked_for():
    with pytest.raises(
        ValueError, match="column 'n', row 1: a value is missing: fill it in, or fit with missing='model'"
    ):
        short(missing="error").fit(pd.DataFrame({"n": [1, None, 2]}))
    with pytest.raises(ValueError, match="missing='guess'"):
        short(missing="guess").fit(pd.DataFrame({"n": [1, None, 2]}))


def test_values_are_missing_where_the_data_says():
    """Where the other column is large, nothing is missing; where it is small, all is."""
    g = rng(3)
    other = g.integers(0, 2, 600) * 20
    value = np.where(other > 0, g.poisson(5.0, 600), np.nan)
    model = short(max_updates=300, width=32).fit(pd.DataFrame({"other": other, "value": value}))
    new = model.sample(500, steps=20, random_state=0)
    assert (new["value"].isna() == (new["other"] < 10)).mean() > 0.93
    assert abs(new["value"].mean() - 5) < 0.5


def test_a_value_that_was_never_missing_has_an_escape_mass(model):
    row = customers()[customers()["items"].notna()][:1]
    gone = row.assign(visits=np.nan)
    scores = model.score_samples(pd.concat([row, gone]), steps=3)
    assert np.isfinite(scores).all()
    filled = row.assign(visits=int(np.sort(customers()["visits"])[(ROWS - 1) // 2]))
    expected = model.score_samples(filled, steps=3)[0] - np.log(ROWS + 1)
    assert scores[1] == pytest.approx(expected)
    with pytest.raises(ValueError, match="column 'visits', row 0: a value is missing, and no value of it was"):
        model.complete(gone, np.ones(row.shape, dtype=bool))


def test_missing_values_are_completed_and_never_missing_again(model):
    table = customers()
    whole = model.complete(table, steps=3, random_state=0)
    drawn = ["items", "euros", "rating", "first visit"]
    assert table[drawn].isna().any().all()
    assert not whole[drawn].isna().any().any()
    there = table.notna()
    pd.testing.assert_frame_equal(whole.where(there), table.where(there), check_dtype=False)


def test_what_is_completed_keeps_new_levels_and_is_never_missing(model):
    table = customers()
    table.loc[0, "city"] = "Faro"
    table["size"] = table["size"].cat.add_categories("XXL")
    table.loc[1, "size"] = "XXL"
    whole = model.complete(table, steps=3, random_state=0)
    assert whole.loc[0, "city"] == "Faro"
    assert whole.loc[1, "size"] == "XXL"
    names = ["city", "member", "size", "rating"]
    assert table[names].isna().any().all()
    assert not whole[names].isna().any().any()
    assert set(whole["city"]) <= {"Porto", "Lyon", "Köln", "Faro"}


def test_what_stands_for_missing_values_is_no_atom_and_no_value(model):
    g = rng(5)
    value = np.where(g.random(400) < 0.4, np.nan, g.normal(0, 1, 400))
    fitted = short(max_updates=100, width=32).fit(pd.DataFrame({"x": value, "n": g.poisson(3, 400)}))
    assert "x:" not in fitted.choices_.get("atoms", "")
    new = fitted.sample(2000, steps=5, random_state=0)["x"].dropna()
    assert not (new == fitted.layout_.fills[0]).any()
    assert new.value_counts().iloc[0] < 0.03 * len(new)


def test_what_stands_for_missing_whole_numbers_is_no_more_frequent_than_its_neighbours():
    g = rng(6)
    age = np.where(g.random(600) < 0.3, np.nan, g.integers(18, 90, 600))
    fitted = short(max_updates=60, width=32).fit(pd.DataFrame({"age": age, "n": g.poisson(3, 600)}))
    new = fitted.sample(2000, steps=5, random_state=0)["age"].dropna()
    assert (new == np.rint(new)).all()
    assert (new == fitted.layout_.fills[0]).mean() < 0.05
    often = np.where(
        g.random(600) < 0.3, np.nan, 2.0 * (g.random(600) < 0.5)
    )  # here every other value is what stands there
    share = (
        short(max_updates=60, width=32).fit(pd.DataFrame({"x": often, "n": 1})).sample(2000, steps=5)["x"] == 0
    ).mean()
    assert 0.2 < share < 0.55


def test_cross_validation_is_finite_on_frames_with_missing_values():
    from sklearn.model_selection import cross_val_score

    table = customers()[["city", "items", "euros", "rating", "size", "active"]]
    scores = cross_val_score(short(), table, cv=2)
    assert np.isfinite(scores).all()


# Identifiers and the index.


def test_identifiers_are_fresh_and_have_the_form_of_the_old_ones():
    g = rng(0)
    table = pd.DataFrame({"n": g.poisson(3, 80)})
    table["row"] = np.arange(100, 180)
    table["even"] = 2 * np.arange(80)
    table["key"] = [f"{g.integers(2**60):x}-{place}" for place in range(80)]
    table["invoice"] = [f"A-{place:05d}/x" for place in g.permutation(80)]
    new = short().fit(table).sample(3, steps=2)
    assert new["row"].tolist() == [180, 181, 182]
    assert new["even"].tolist() == [160, 162, 164]
    assert new["invoice"].tolist() == ["A-00080/x", "A-00081/x", "A-00082/x"]
    assert new["key"].is_unique
    assert not set(new["key"]) & set(table["key"])
    dropped = short(identifiers="drop").fit(table)
    assert list(dropped.sample(3, steps=2).columns) == ["n"]
    assert "dropped" in dropped.choices_["identifiers"]


@pytest.mark.parametrize(
    ("values", "fresh"),
    [
        (np.arange(200)[::-1].astype("uint8"), None),
        (np.arange(128).astype("int8"), None),
        (np.arange(100)[::-1].astype("int32"), [100, 101]),
        (np.arange(100).astype("uint64") + np.uint64(2**64 - 200), None),
        (rng(0).integers(2**60, 2**62, 100), None),
    ],
    ids=["uint8", "int8", "down", "uint64", "random"],
)
def test_counters_of_any_dtype_can_be_sampled(values, fresh):
    table = pd.DataFrame({"d": values, "z": rng(0).poisson(3, len(values))})
    if values.dtype == "uint64":
        with pytest.raises(ValueError, match="column 'd' has values above 2"):
            short().fit(table)
        return
    new = short().fit(table).sample(2, steps=2)
    assert new["d"].dtype == values.dtype
    assert fresh is None or new["d"].tolist() == fresh
    assert values.dtype.itemsize == 1 or not set(new["d"]) & set(values.tolist())


def test_counts_that_happen_to_differ_are_no_identifiers():
    table = pd.DataFrame({"n": np.unique(rng(0).integers(0, 10**6, 200)), "x": 1.5})
    assert "identifiers" not in short().fit(table).choices_


@pytest.mark.parametrize(
    ("index", "fresh"),
    [
        (pd.RangeIndex(60), pd.RangeIndex(2)),
        (pd.Index([f"r{place}" for place in range(60)], name="who"), pd.Index(["r60", "r61"], name="who")),
        (pd.Index(range(10, 70), name="n"), pd.Index([70, 71], name="n")),
        (
            pd.date_range("2024-01-01", periods=60, freq="2D"),
            pd.DatetimeIndex(["2024-04-30", "2024-05-02"]),
        ),
        (pd.MultiIndex.from_product([range(6), range(10)]), pd.RangeIndex(2)),
    ],
    ids=["rows", "texts", "numbers", "times", "several"],
)
def test_the_index_goes_on(index, fresh):
    table = pd.DataFrame({"n": rng(0).poisson(3, 60)}).set_index(index)
    model = short().fit(table)
    pd.testing.assert_index_equal(model.sample(2, steps=2).index, fresh, exact=False, check_exact=True)
    pd.testing.assert_index_equal(model.complete(table[:3], ["n"]).index, index[:3])


# Labels by name.


def test_a_column_is_the_label(tmp_path):
    table = customers()
    model = short(max_updates=20).fit(table, y="kind")
    new = model.sample(9, y="keen", steps=2, random_state=0)
    assert (new["kind"] == "keen").all()
    pd.testing.assert_series_equal(new.dtypes, table.dtypes)
    drawn, y = model.sample(9, steps=2, random_state=0, return_y=True)
    assert drawn["kind"].tolist() == list(y)
    split = short(max_updates=20).fit(table.drop(columns="kind"), table["kind"])
    np.testing.assert_array_equal(
        model.score_samples(table[:4], steps=2),
        split.score_samples(table[:4].drop(columns="kind"), table["kind"][:4], steps=2),
    )
    whole = model.complete(table[:6], steps=2)
    pd.testing.assert_series_equal(whole["kind"], table["kind"][:6])
    model.save(tmp_path / "m")
    pd.testing.assert_frame_equal(JumpModel.load(tmp_path / "m").sample(9, y="keen", steps=2, random_state=0), new)


def test_several_columns_are_the_labels():
    table = customers().dropna(subset=["city"])[["city", "visits", "active", "euros"]]
    model = short().fit(table, y=("city", "active"))
    new = model.sample(5, y={"city": "Lyon", "active": True}, steps=2)
    assert list(new.columns) == list(table.columns)
    assert (new["city"] == "Lyon").all()
    assert new["active"].dtype == bool
    again = short().fit(table, y=["city", "active"]).sample(5, y={"city": "Lyon", "active": True}, steps=2)
    pd.testing.assert_series_equal(again.dtypes, new.dtypes)
    assert (again["city"] == "Lyon").all()
    labels = ["city", "active"] * 20
    assert list(short().fit(table[:40], y=labels).sample(5, y="city", steps=2).columns) == list(table.columns)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ("sort", "y names the column 'sort', and X has the columns 'customer'"),
        ("city", "the label in column 'city', row [0-9]+, is missing"),
        (("kind", "kind "), "'kind '"),
        ("customer", "the label column 'customer' differs from row to row"),
        ("last order", "the label column 'last order' holds dates or times"),
    ],
)
def test_a_wrong_name_of_a_label_is_said(y, words):
    with pytest.raises(ValueError, match=words):
        short().fit(customers(), y=y)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"euros": np.inf}, "column 'euros', row 0: inf is infinity"),
        ({"euros": 1e300}, r"column 'euros', row 0: 1e\+300 is above 2\^53, where float64 no longer holds"),
        ({"active": [[1]] * ROWS}, "column 'active', row 0: .* is not a number"),
        ({"size": pd.Categorical([1.5, np.inf] * (ROWS // 2))}, "column 'size' has a category that is no finite"),
        ({"active": [pd.Timestamp("2024-01-01", tz="UTC"), 3] * (ROWS // 2)}, r"row 0: .* pd.to_datetime\(column"),
    ],
)
def test_errors_name_the_column_and_the_row(change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        short().fit(customers().assign(**change))


def test_the_one_text_among_numbers_is_named(model):
    texts = customers().assign(items=[str(n) for n in range(ROWS)])
    texts.loc[texts.index[7], "items"] = "n.v."
    with pytest.raises(TypeError, match=r"column 'items', row 7: 'n\.v\.' is not a number"):
        model.score_samples(texts)


def test_reordered_columns_are_said(model):
    with pytest.raises(ValueError, match="same order"):
        model.score_samples(customers()[customers().columns[::-1]])


# AnnData, polars and sparse frames.


def cells():
    if not pd.__version__.startswith("2."):
        pytest.skip("anndata 0.12 wants pandas 2")
    anndata = pytest.importorskip("anndata")
    g = rng(0)
    kind = g.choice(["B cell", "T cell"], 60)
    import scipy.sparse as sp

    X = sp.csr_matrix(g.poisson(0.3, (60, 300)).astype(np.float32))
    obs = pd.DataFrame({"kind": pd.Categorical(kind)}, index=[f"cell{place}" for place in range(60)])
    var = pd.DataFrame({"mt": g.random(300) < 0.1, "mean": g.random(300)}, index=[f"G{place}" for place in range(300)])
    adata = anndata.AnnData(X, obs=obs, var=var)
    adata.layers["twice"] = X * 2
    return adata


def test_anndata_goes_in_and_anndata_comes_out(tmp_path):
    adata = cells()
    model = short().fit(adata, y="kind")
    new = model.sample(7, y="B cell", steps=2, random_state=0)
    assert (new.obs["kind"] == "B cell").all()
    assert new.obs["kind"].dtype == "category"
    assert list(new.obs_names[:2]) == ["cell60", "cell61"]
    pd.testing.assert_frame_equal(new.var, adata.var)
    assert (new.X.dtype, new.X.format) == (np.float32, "csr")
    model.save(tmp_path / "m")
    again = JumpModel.load(tmp_path / "m").sample(7, y="B cell", steps=2, random_state=0)
    assert (again.X != new.X).nnz == 0
    whole = model.deepen(adata[:3], 0.5, steps=2)
    assert list(whole.obs_names) == ["cell0", "cell1", "cell2"]
    assert not (whole.X < adata[:3].X).toarray().any()
    assert np.isfinite(model.score_samples(adata[:3], steps=2)).all()
    with pytest.raises(ValueError, match="column 0 of X is 'G299', and was 'G0'"):
        model.score_samples(adata[:, ::-1])


def test_a_layer_and_a_backed_file_are_read(tmp_path):
    adata = cells()
    import anndata

    twice = short(layer="twice").fit(adata)
    made = twice.sample(3, steps=2)
    assert (made.layers["twice"] != made.X).nnz == 0
    with pytest.raises(ValueError, match="X holds no layer 'thrice': it has 'twice'"):
        short(layer="thrice").fit(adata)
    adata.write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    one, other = (short().fit(each, y="kind").sample(5, steps=2, random_state=0) for each in (adata, backed))
    assert (one.X != other.X).nnz == 0


def test_polars_goes_in_and_polars_comes_out():
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    g = rng(0)
    table = polars.DataFrame(
        {
            "n": [None if g.random() < 0.3 else int(g.poisson(3)) for _ in range(40)],
            "x": g.gamma(2, 1, 40),
            "city": g.choice(["a", "b"], 40).tolist(),
            "day": [date(2024, 1, int(day)) for day in g.integers(1, 28, 40)],
            "kind": g.choice(["u", "v"], 40).tolist(),
            "flag": (g.random(40) < 0.5).tolist(),
            "opens": [time(int(hour)) for hour in g.integers(6, 22, 40)],
            "price": polars.Series(g.integers(1, 99, 40)).cast(polars.Decimal(10, 2)),
            "size": polars.Series(g.choice(["S", "M"], 40), dtype=polars.Enum(["S", "M", "L"])),
        }
    )
    new = short().fit(table, y="kind").sample(30, y="u", steps=2, random_state=0)
    assert isinstance(new, polars.DataFrame)
    assert new.schema == table.schema
    assert new["kind"].unique().to_list() == ["u"]


def test_a_sparse_frame_comes_back_sparse():
    import scipy.sparse as sp

    X = sp.csr_matrix(rng(0).poisson(0.2, (40, 300)))
    table = pd.DataFrame.sparse.from_spmatrix(X, columns=[f"w{place}" for place in range(300)])
    new = short().fit(table).sample(3, steps=2)
    pd.testing.assert_series_equal(new.dtypes, table.dtypes)


def test_a_path_of_a_checkpoint_serves_frames(tmp_path: Path):
    table = customers()[["city", "euros", "first visit"]]
    whole = short().fit(table)
    short(checkpoint_dir=tmp_path, checkpoint_every=1).fit(table)
    again = short(checkpoint_dir=tmp_path, checkpoint_every=1).fit(table)
    pd.testing.assert_frame_equal(again.sample(5, steps=2, random_state=0), whole.sample(5, steps=2, random_state=0))
