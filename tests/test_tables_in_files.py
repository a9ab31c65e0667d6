"""Tables in files: every format comes back as it was, dialects are found, and damage is named."""

import gzip
import io
import string
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from countjump.data import Dialect, dialect_for, format_of, libraries, read_table, read_with_dialect, write_table
from countjump.data.text import ROWS

FRAMES = [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".feather"]
MATRICES = [".npz", ".npy", ".csr", ".mtx", ".mtx.gz", ".h5ad"]


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name of it": ["José", 'say "x"', "a,b;c\t|", "two\nlines", None, "NA"],
            "n": pd.array([1, None, 3, 4, 5, 2**53], dtype="Int64"),
            "whole": [1, -2, 3, 4, 5, 6],
            "real": [1.5, np.nan, 1e-7, 1e20, -0.1, 3.0],
            "flag": [True, False, True, True, False, False],
            "unsure": pd.array([True, None, False, True, True, False], dtype="boolean"),
            "día": pd.to_datetime(["2024-01-02", None, "1999-12-31", "2024-02-29", "2024-01-02", "2024-01-03"]),
            "at": pd.to_datetime(["2024-01-02 10:00:00", "2024-01-02 10:00:30"] * 3),
            "zip": ["02139", "10001", "00501", "94103", "60601", "02139"],
        }
    )


def text(tmp_path: Path, content: str | bytes, name: str = "data.csv") -> Path:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / name


def require_anndata() -> ModuleType:
    if pd.__version__.startswith("3."):
        pytest.skip("anndata 0.12 wants pandas 2")
    return pytest.importorskip("anndata")


# What goes in comes out.


@pytest.mark.parametrize("suffix", FRAMES)
def test_a_frame_comes_back_from_every_format(suffix, tmp_path):
    write_table(tmp_path / f"a{suffix}", frame())
    pd.testing.assert_frame_equal(read_table(tmp_path / f"a{suffix}"), frame())
    assert [path.name for path in tmp_path.iterdir()] == [f"a{suffix}"], "nothing is left beside it"


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_categories_and_small_dtypes_come_back(suffix, tmp_path):
    table = pd.DataFrame({"c": pd.Categorical(["b", "a", None], categories=["c", "b", "a"], ordered=True)})
    table["small"] = np.array([1, 2, 3], dtype="int8")
    table["single"] = np.array([1, 2, 3.5], dtype="float32")
    write_table(tmp_path / f"a{suffix}", table)
    pd.testing.assert_frame_equal(read_table(tmp_path / f"a{suffix}"), table)


@pytest.mark.parametrize("suffix", MATRICES)
@pytest.mark.parametrize("sparse", [True, False])
def test_a_matrix_comes_back_from_every_format(suffix, sparse, tmp_path):
    X = sp.random(20, 7, density=0.3, random_state=0, format="csr", data_rvs=lambda n: np.arange(n) + 1).astype(
        np.int64
    )
    if suffix == ".h5ad":
        require_anndata()
    given = X if sparse else X.toarray()
    write_table(tmp_path / f"a{suffix}", given)
    back = read_table(tmp_path / f"a{suffix}")
    back = back.X if suffix == ".h5ad" else back
    assert sp.issparse(back) == {".csr": True, ".npy": False}.get(suffix, sparse)
    assert back.dtype == np.int64
    np.testing.assert_array_equal(back.toarray() if sp.issparse(back) else back, X.toarray())


def test_anndata_comes_back(tmp_path):
    anndata = require_anndata()
    table = anndata.AnnData(
        sp.csr_matrix(np.eye(3, dtype=np.float32)), obs=pd.DataFrame({"kind": ["a", "b", "a"]}, index=list("xyz"))
    )
    table.layers["counts"] = table.X * 2
    write_table(tmp_path / "a.h5ad", table)
    back = read_table(tmp_path / "a.h5ad")
    assert list(back.obs["kind"]) == ["a", "b", "a"]
    assert list(back.obs_names) == ["x", "y", "z"]
    assert read_table(tmp_path / "a.h5ad", key="counts").X.max() == 2
    with pytest.raises(ValueError, match="holds no layer 'none': it has 'counts'"):
        read_table(tmp_path / "a.h5ad", key="none")


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5).filter(
    lambda name: not name.strip()[:1].isdigit() and name.strip() and "\ufeff" not in name
)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4).map(
    lambda word: "w" + word
)
KINDS = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False).filter(lambda x: not np.isinf(x)),
    "flag": st.booleans(),
    "day": st.datetimes().map(lambda day: pd.Timestamp(day.replace(microsecond=0))),
    "word": WORDS,
}


@st.composite
def frames(draw):
    """A few rows of columns of every kind, some with missing values, and names of every kind, also twice."""
    rows = draw(st.integers(1, 5))
    columns = []
    for kind in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4)):
        values = [draw(KINDS[kind]) for _ in range(rows)]
        gone = [draw(st.booleans()) and place > 0 for place in range(rows)]
        some = [None if missing else value for value, missing in zip(values, gone, strict=True)]
        if kind == "whole":
            columns.append(pd.Series(pd.array(some, dtype="Int64")) if any(gone) else pd.Series(values, dtype="int64"))
        elif kind == "flag":
            columns.append(pd.Series(pd.array(some, dtype="boolean")) if any(gone) else pd.Series(values))
        elif kind == "real":
            columns.append(pd.Series(some, dtype="float64"))
        elif kind == "day":
            array = np.array(
                [np.datetime64("NaT") if v is None else v.to_datetime64() for v in some], dtype="datetime64[us]"
            )
            known = array[~np.isnat(array)]
            near = known.min() >= np.datetime64("1678") and known.max() < np.datetime64("2262")
            columns.append(pd.Series(array.astype(pd.to_datetime(["2000-01-01"]).dtype) if near else array))
        else:
            columns.append(pd.Series(some))
    made = pd.DataFrame(dict(enumerate(columns)))
    made.columns = pd.Index([draw(NAMES) for _ in columns])
    return made


@given(
    frames(),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(".,"),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_small_frame_comes_back(table, separator, decimal, encoding):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a.csv"
        write_table(path, table, Dialect(separator, decimal, encoding))
        back = read_table(path, separator=separator, decimal=decimal)
    pd.testing.assert_frame_equal(back, table)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_a_frame_replaces_another_whole_or_not_at_all(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"a{suffix}"
    write_table(path, frame())
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("countjump.data.text.write_cells", fail)
    monkeypatch.setattr(pd.DataFrame, "to_parquet", fail)
    monkeypatch.setattr(pd.DataFrame, "to_feather", fail)
    with pytest.raises(KeyboardInterrupt):
        write_table(path, frame().head(2))
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


# Dialects.


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be"])
def test_dialects_are_found_and_kept(separator, encoding, tmp_path):
    decimal = "." if separator == "," else ","
    lines = [["Straße", "price", "n"], ["é", f"1{decimal}5", "3"], ["ü, ö", f"22{decimal}25", "4"]]
    content = "\r\n".join(separator.join(f'"{c}"' if separator in c else c for c in row) for row in lines) + "\r\n"
    path = text(tmp_path, content.encode(encoding))
    table, dialect = read_with_dialect(path)
    assert (dialect.separator, dialect.decimal, dialect.encoding, dialect.line_end) == (
        separator,
        decimal,
        encoding,
        "\r\n",
    )
    assert list(table.columns) == ["Straße", "price", "n"]
    assert table["price"].tolist() == [1.5, 22.25]
    assert table["Straße"].tolist() == ["é", "ü, ö"]
    write_table(tmp_path / "again.csv", table, dialect)
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes(), "written as it was read"


@pytest.mark.parametrize(
    ("lines", "separator", "decimal"),
    [
        (["a;b", "pen, red;1,5", "ink;2,5"], ";", ","),
        (["a\tb", "1,5\t2"], "\t", ","),
        (["a,b", "1.5,2"], ",", "."),
        (["a", "1.5", "2"], ",", "."),
        (["a|b", "1|x;y", "2|z;w"], "|", "."),
        (["a;b", "1.5;2,5"], ";", "."),
        (["name, first;age", "x;1", "y;2"], ";", "."),
        (["a,b", "1;2;3,4", "1,2", "3,4"], ",", "."),
    ],
)
def test_separators_and_decimal_marks_are_found(lines, separator, decimal, tmp_path):
    _, dialect = read_with_dialect(text(tmp_path, "\n".join(lines)))
    assert (dialect.separator, dialect.decimal) == (separator, decimal)


def test_what_is_given_is_taken(tmp_path):
    path = text(tmp_path, "a;b\n1,5;2\n".encode("utf-16"))
    table = read_table(path, separator=";", decimal=",", encoding="utf-16")
    assert table.iloc[0].tolist() == [1.5, 2]
    assert read_table(path, decimal=".")["a"].tolist() == ["1,5"]
    with pytest.raises(ValueError, match="encoding 'klingon' is unknown"):
        read_table(path, encoding="klingon")
    with pytest.raises(ValueError, match="separator 'xx' cannot be"):
        read_table(path, separator="xx")
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(ValueError, match="no text file, and has no separator"):
        read_table(tmp_path / "a.npy", separator=",")


def test_a_dialect_goes_to_files_of_another_suffix():
    source = Dialect(";", ",", "cp1252", "\r\n")
    assert dialect_for("a.csv", source) == source
    assert dialect_for("a.tsv.gz", source).separator == "\t"
    assert dialect_for("a.csv", Dialect("\t")).separator == ","
    assert dialect_for("a.csv", None) == Dialect()
    assert dialect_for("a.csv", source, separator="|", decimal=".", encoding="utf-8").described() == (
        Dialect("|", ".", "utf-8", "\r\n").described()
    )
    assert dialect_for("a.parquet", source) is None
    assert Dialect.recall(source.described()) == source


def test_a_character_that_an_encoding_lacks(tmp_path):
    with pytest.raises(ValueError, match=r"cannot hold 'ł' in cp1252: give the encoding utf-8"):
        write_table(tmp_path / "a.csv", pd.DataFrame({"a": ["ł"]}), Dialect(encoding="cp1252"))
    assert not list(tmp_path.iterdir())


# What cells are.


@pytest.mark.parametrize(
    ("cells", "dtype", "values"),
    [
        (["1", "2"], "int64", [1, 2]),
        (["1", "", "NA"], "Int64", [1, None, None]),
        (["1", "NaN", "2.5"], "float64", [1, None, 2.5]),
        ([" 1 ", "+2"], "int64", [1, 2]),
        (["1.0", "2.0"], "float64", [1, 2]),
        (["1e3", "inf"], "float64", [1000, np.inf]),
        (["true", "false"], "bool", [True, False]),
        (["TRUE", "", "FALSE"], "boolean", [True, None, False]),
        (["2024-01-02", "2024-02-30"], "text", ["2024-01-02", "2024-02-30"]),
        (["01/02/2024", "03/02/2024"], "text", ["01/02/2024", "03/02/2024"]),
        (["13/02/2024", "01/13/2024"], "text", ["13/02/2024", "01/13/2024"]),
        (["13/13/2024"], "text", ["13/13/2024"]),
        (["00/02/2024"], "text", ["00/02/2024"]),
        (["13/02/2024", "01.02.2024"], "text", ["13/02/2024", "01.02.2024"]),
        (["01.02.2024", "2024-02-01"], "text", ["01.02.2024", "2024-02-01"]),
        (["31.01.2024", "31.02.2024"], "text", ["31.01.2024", "31.02.2024"]),
        (["1.5.24", "2.5.24"], "text", ["1.5.24", "2.5.24"]),
        (["1/5/2024", "2/5/2024"], "text", ["1/5/2024", "2/5/2024"]),
        (["2024-01-02T10:00Z", "2024-01-02T10:00"], "text", ["2024-01-02T10:00Z", "2024-01-02T10:00"]),
        (["45:10", "12:00"], "text", ["45:10", "12:00"]),
        (["01.05.24"], "text", ["01.05.24"]),
        (["01.05.2024 24:00"], "text", ["01.05.2024 24:00"]),
        (["x", "NA", "None", "null", ""], "text", ["x", "NA", "None", "null", None]),
        (["NA", "NA"], "text", ["NA", "NA"]),
        (["", '""'], "float64", [None, None]),
        (["1_000", "2"], "text", ["1_000", "2"]),
        (["１", "2"], "text", ["１", "2"]),
        (["1e400", "2"], "text", ["1e400", "2"]),
        (["9223372036854775807"], "int64", [2**63 - 1]),
        (["9223372036854775808"], "text", ["9223372036854775808"]),
        (["007", "8"], "text", ["007", "8"]),
        (["true", "1"], "text", ["true", "1"]),
        (["1", "2024-01-01"], "text", ["1", "2024-01-01"]),
    ],
)
def test_what_cells_are(cells, dtype, values, tmp_path):
    column = read_table(text(tmp_path, "\n".join(["a,b", *(f"{cell},x" for cell in cells)])))["a"]
    assert str(column.dtype) in (("object", "str") if dtype == "text" else (dtype,))
    assert [None if pd.isna(v) else v for v in column] == values


def test_words_after_many_numbers_make_text_of_them_all(tmp_path):
    lines = [str(n) for n in range(ROWS + 5)]
    table = read_table(text(tmp_path, "\n".join(["a,b", *(f"{n},{n}" for n in lines), "x,7"])))
    assert table["a"].tolist() == [*lines, "x"]
    assert table["b"].dtype == np.int64
    table = read_table(text(tmp_path, "\n".join(["a,b", *("NA,NA" for _ in range(ROWS)), "1,x"])))
    assert table["a"].isna().sum() == ROWS
    assert table["b"].isna().sum() == 0


def test_duplicate_names_are_kept(tmp_path):
    table = read_table(text(tmp_path, "a,a, a,\n1,2,3,4\n"))
    assert list(table.columns) == ["a", "a", " a", ""]
    write_table(tmp_path / "b.csv", table)
    assert (tmp_path / "b.csv").read_text() == "a,a, a,\n1,2,3,4\n"


def test_dates_are_written_as_they_were_or_as_they_must_be(tmp_path):
    path = text(tmp_path, "d,t\n2024-01-02,2024-01-02T10:30\n,2024-01-02T11:00\n")
    table, dialect = read_with_dialect(path)
    write_table(tmp_path / "b.csv", table, dialect)
    assert (tmp_path / "b.csv").read_bytes() == path.read_bytes()
    table.loc[0, "d"] += pd.Timedelta(hours=1)
    table.loc[0, "t"] += pd.Timedelta(milliseconds=1)
    write_table(tmp_path / "b.csv", table, dialect)
    assert (tmp_path / "b.csv").read_text().splitlines()[1] == "2024-01-02 01:00:00,2024-01-02T10:30:00.001"


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["01.02.2024", "31.12.1999"], ["2024-02-01", "1999-12-31"]),
        (["01.02.2024 10:30", "", "31.12.1999 23:59"], ["2024-02-01T10:30", None, "1999-12-31T23:59"]),
        (["01.02.2024 10:30:05", "31.12.1500 23:59:59"], ["2024-02-01T10:30:05", "1500-12-31T23:59:59"]),
        (["01/02/2024", "13/02/2024", ""], ["2024-02-01", "2024-02-13", None]),
        (["01/02/2024", "02/13/2024", ""], ["2024-01-02", "2024-02-13", None]),
        (["02/29/2024 00:00", "12/31/2023 10:00"], ["2024-02-29T00:00", "2023-12-31T10:00"]),
        (["1.5.2024", "31.12.1999"], ["2024-05-01", "1999-12-31"]),
        (["12/1/2010 8:26", "12/31/2010 18:05"], ["2010-12-01T08:26", "2010-12-31T18:05"]),
        (["2024/01/31", "2023/12/01"], ["2024-01-31", "2023-12-01"]),
        (["31-01-2024 10:00:00.500", ""], ["2024-01-31T10:00:00.5", None]),
    ],
)
def test_days_in_other_orders_are_dates_and_are_written_so(cells, values, tmp_path):
    path = text(tmp_path, "\n".join(["when;price", *(f"{cell};1,5" for cell in cells), ""]))
    table, dialect = read_with_dialect(path)
    expected = np.array([value or "NaT" for value in values], dtype="datetime64[us]")
    np.testing.assert_array_equal(table["when"].to_numpy(dtype="datetime64[us]"), expected)
    near = min(value for value in values if value) > "1678"
    assert table["when"].dtype == (pd.to_datetime(["2000-01-01"]).dtype if near else "datetime64[us]")
    assert table["price"].tolist() == [1.5] * len(cells), "the points of dates are no decimal marks"
    write_table(tmp_path / "b.csv", table, dialect)
    assert (tmp_path / "b.csv").read_bytes() == path.read_bytes()
    table.loc[0, "when"] += pd.Timedelta(seconds=7)
    write_table(tmp_path / "c.csv", table, dialect)
    pd.testing.assert_frame_equal(read_table(tmp_path / "c.csv"), table)


@pytest.mark.parametrize(
    ("cells", "dtype", "first"),
    [
        (["2024-01-31T10:00:00Z", ""], "UTC", "2024-01-31T10:00:00+00:00"),
        (
            ["2024-01-31 10:00:00.500+02:00", "2024-07-31 00:00:00.000+02:00"],
            "UTC+02:00",
            "2024-01-31T08:00:00.500+00:00",
        ),
        (["2024-01-31 10:00-03", "2024-07-31 10:00-03"], "UTC-03:00", "2024-01-31T13:00:00+00:00"),
    ],
)
def test_times_of_a_zone_are_read_and_written(cells, dtype, first, tmp_path):
    path = text(tmp_path, "\n".join(["when,n", *(f"{cell},1" for cell in cells), ""]))
    table, dialect = read_with_dialect(path)
    assert str(table["when"].dtype).endswith(f", {dtype}]")
    assert table["when"][0] == pd.Timestamp(first)
    write_table(tmp_path / "b.csv", table, dialect)
    assert (tmp_path / "b.csv").read_bytes() == path.read_bytes()


def test_a_packed_file_needs_no_name_that_says_so(tmp_path):
    packed = gzip.compress(b"a,b\n1,x\n2,y\n")
    (tmp_path / "a.csv").write_bytes(packed)
    (tmp_path / "a.csv.gz").write_bytes(packed)
    pd.testing.assert_frame_equal(read_table(tmp_path / "a.csv"), read_table(tmp_path / "a.csv.gz"))


def test_offsets_that_differ_become_those_of_utc(tmp_path):
    """As pandas writes the times of a zone with a summer time."""
    times = pd.Series(pd.to_datetime(["2024-01-31", "2024-07-31"])).dt.tz_localize("Europe/Berlin")
    write_table(tmp_path / "a.csv", pd.DataFrame({"when": times, "n": 1}))
    table, dialect = read_with_dialect(tmp_path / "a.csv")
    assert (table["when"] == times).all()
    write_table(tmp_path / "b.csv", table, dialect)
    assert (tmp_path / "b.csv").read_text().splitlines()[1:] == [
        "2024-01-30 23:00:00+00:00,1",
        "2024-07-30 22:00:00+00:00,1",
    ]


@pytest.mark.parametrize("cells", [["07:30", "", "23:59"], ["7:30", "12:05"], ["07:30:15", "00:00:00"]])
def test_times_of_day_are_read_and_written(cells, tmp_path):
    path = text(tmp_path, "\n".join(["when,n", *(f"{cell},1" for cell in cells), ""]))
    table, dialect = read_with_dialect(path)
    assert table["when"][0].isoformat() in ("07:30:00", "07:30:15")
    write_table(tmp_path / "b.csv", table, dialect)
    assert (tmp_path / "b.csv").read_bytes() == path.read_bytes()
    write_table(tmp_path / "c.csv", table)
    pd.testing.assert_frame_equal(read_table(tmp_path / "c.csv"), table)


def test_clear_days_say_what_unclear_ones_of_other_pieces_are(tmp_path):
    days = {"first": "13/02/2024", "second": "02/13/2024", "neither": "02/03/2024", "dots": "13.02.2024", "gone": ""}
    head, rows = ",".join(days), ["04/03/2024,04/03/2024,04/03/2024,04/03/2024,04/03/2024"] * ROWS
    path = text(tmp_path, "\n".join([head, *rows, ",".join(days.values()), ""]))
    table, dialect = read_with_dialect(path)
    assert table["first"][[0, ROWS]].tolist() == [pd.Timestamp("2024-03-04"), pd.Timestamp("2024-02-13")]
    assert table["second"][[0, ROWS]].tolist() == [pd.Timestamp("2024-04-03"), pd.Timestamp("2024-02-13")]
    for name in ("neither", "dots"):
        assert table[name][[0, ROWS]].tolist() == ["04/03/2024", days[name]]
    assert table["gone"].isna().tolist() == [False] * ROWS + [True]
    assert dialect.forms == {"first": "DD/MM/YYYY", "second": "MM/DD/YYYY"}
    write_table(tmp_path / "b.csv", table, dialect)
    assert (tmp_path / "b.csv").read_bytes() == path.read_bytes()


def test_pieces_with_days_of_two_kinds_are_text(tmp_path):
    cells = ["13/02/2024"] * ROWS + ["02/13/2024"]
    table = read_table(text(tmp_path, "\n".join(["a", *cells])))
    assert table["a"].tolist() == cells
    cells = ["13.02.2024"] * ROWS + ["2024-02-13"]
    assert read_table(text(tmp_path, "\n".join(["a", *cells])))["a"].tolist() == cells


# Damage.


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("\na\n1\n", "line 1 of .* holds nothing"),
        ("# of 2024\na,b\n1,2\n", "line 1 of .* is a comment.*: remove the lines above the names"),
        ("a,b\n", "no rows"),
        ("5,2\n1,2\n", "line 1 of .* holds numbers"),
        ("a,b\n1,2\n3\n", r"line 3 of .* has 1 values for 2 columns"),
        ('a,b\n"x\ny",2\n3,4,5\n', "line 4 of .* has 3 values for 2 columns"),
        ("a,b\n1,2\n\n3,4\n", "line 3 of .* is empty: remove it"),
        ('a,b\n1,2\n"3,4\n5,6\n', "line 3 of .* has quotes that do not match"),
        ('a,b\n"1"2,3\n', "line 2 of .* has quotes"),
        ("a,b\n1,\0\n", "null bytes"),
        ("a,b\né,1\n".encode() + b"\xff,2\n", "line 3 of .* holds bytes that are not UTF-8"),
        (b"\xff\xfea", "is not text in utf-16|line 1 of"),
        (f"a,b\n{'9' * 140_000},1\n", "line 2 of .* a cell too long"),
    ],
)
def test_text_that_is_no_table(content, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        read_table(text(tmp_path, content))


def test_empty_lines_of_one_column_are_missing_but_for_those_at_the_end(tmp_path):
    table = read_table(text(tmp_path, "a\n1\n\n3\n\n\n"))
    assert [None if pd.isna(v) else v for v in table["a"]] == [1, None, 3]


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("countjump.data.dialects.LONGEST", 1000)
    monkeypatch.setattr("countjump.data.dialects.BLOCK", 100)
    with pytest.raises(ValueError, match="a line of more than 1,000 bytes"):
        read_table(text(tmp_path, gzip.compress(b"a" * 5000), "a.csv.gz"))
    monkeypatch.setattr("countjump.data.dialects.memory", lambda: 3000)
    with pytest.raises(ValueError, match="more than there is memory"):
        read_table(text(tmp_path, gzip.compress(b"a\n" * 5000), "a.csv.gz"))


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("hello", "is not a Matrix Market file"),
        ("%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "holds complex values"),
        ("%%MatrixMarket matrix coordinate real general\nx\n", "says no size"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 1000000\n1 1 1\n", "promises 1,000,000 entries"),
        ("%%MatrixMarket matrix coordinate real general\n900000000000000 3 1\n1 1 1\n", "more than there is memory"),
        ("%%MatrixMarket matrix array real general\n1000000 1000000\n1\n", "promises 1,000,000,000,000 entries"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n7 1 1\n", "is damaged"),
    ],
)
def test_a_market_that_promises_too_much(header, said, tmp_path):
    for name, content in {"a.mtx": header.encode(), "a.mtx.gz": gzip.compress(header.encode())}.items():
        with pytest.raises(ValueError, match=rf"{name}.*{said}"):
            read_table(text(tmp_path, content, name))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".feather", ".mtx", ".mtx.gz"])
def test_damaged_files_give_a_table_or_one_clear_error(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    write_table(path, sp.csr_matrix(np.eye(5)) if "mtx" in suffix else frame())
    content, rng, refused = path.read_bytes(), np.random.default_rng(0), []
    for _ in range(150):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(1, len(content))] if rng.random() < 0.3 else damaged)
        try:
            read_table(path)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert all(path.name in said for said in refused)


def test_files_that_cannot_be_read_or_written(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no file at"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(ValueError, match=r"ends in '.xlsx': use .csv"):
        read_table(tmp_path / "a.xlsx")
    with pytest.raises(ValueError, match="numbers alone, and column 'name of it' holds none"):
        write_table(tmp_path / "a.npz", frame())
    with pytest.raises(ValueError, match="cannot hold the missing values of column 'n'"):
        write_table(tmp_path / "a.npz", frame()[["n"]])
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(ValueError, match="is a directory, and only a"):
        read_table(tmp_path / "d.csv")
    assert format_of("A.Csv.GZ") == ".csv.gz"

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(libraries, "import_module", absent)
    for name, extra in {"a.parquet": "parquet", "a.h5ad": "anndata"}.items():
        with pytest.raises(ImportError, match=rf"pip install 'countjump\[{extra}\]'"):
            write_table(tmp_path / name, np.eye(2))


def test_strings_of_csv_agree_with_pandas(tmp_path):
    """Quoted cells of every printable character, read as pandas reads them."""
    rng = np.random.default_rng(0)
    letters = list(string.printable.replace("\r", ""))
    table = pd.DataFrame({name: ["x" + "".join(rng.choice(letters, 6)) for _ in range(200)] for name in "abc"})
    content = io.StringIO()
    table.to_csv(content, index=False)
    pd.testing.assert_frame_equal(read_table(text(tmp_path, content.getvalue())), table)
