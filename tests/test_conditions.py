"""Reading y: what is a label and what a number, what is missing or unknown, and what comes back."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from countjump import conditions as module
from countjump.conditions import Conditions, Labels, Numbers


def fit(y, rows=None):
    return Conditions.fit(y, len(y) if rows is None else rows)


def kinds(y):
    found, _ = fit(y)
    return found.form, [type(column).__name__ for column in found.columns]


FRAME = pd.DataFrame(
    {
        "kind": ["a", "b", "a", "c"],
        "age": [30, 41, 29, 35],
        "income": [1.5, 2.25, 0.0, 9.0],
        "member": [True, False, True, True],
        "grade": pd.Categorical([3, 1, 2, 1]),
    }
)


@pytest.mark.parametrize(
    ("y", "form", "found"),
    [
        (["a", "b", "a"], "labels", ["Labels"]),
        (np.array(["a", "b"], dtype=object), "labels", ["Labels"]),
        ([3, 1, 3], "labels", ["Labels"]),
        (np.array([True, False]), "labels", ["Labels"]),
        (np.array([1.0, 2.0, 1.0]), "labels", ["Labels"]),
        (np.array([1.0, 2.5]), "numbers", ["Numbers"]),
        (pd.Series(["a", "b"]), "labels", ["Labels"]),
        (pd.Series([1, 2], dtype="category"), "labels", ["Labels"]),
        (pd.Series([1.5, 2.5]), "numbers", ["Numbers"]),
        (torch.tensor([0, 1]), "labels", ["Labels"]),
        ([[1], [2]], "matrix", ["Numbers"]),
        (np.ones((3, 2)), "matrix", ["Numbers", "Numbers"]),
        ([["a", 1.5], ["b", 2]], "matrix", ["Labels", "Numbers"]),
        (np.array([[True], [False]]), "matrix", ["Labels"]),
        (FRAME, "frame", ["Labels", "Numbers", "Numbers", "Labels", "Labels"]),
        (FRAME.convert_dtypes(), "frame", ["Labels", "Numbers", "Numbers", "Labels", "Labels"]),
    ],
)
def test_what_is_a_label_and_what_a_number(y, form, found):
    assert kinds(y) == (form, found)


@pytest.mark.parametrize(
    "y",
    [
        np.array(["b", "a", "b"]),
        np.array(["bb", "a"], dtype=object),
        np.array([3, 1, 2], dtype=np.int8),
        np.array([True, False]),
        np.array([2.0, 1.0]),
        np.array([2.5, 1.0], dtype=np.float32),
        np.array([[1, 2], [3, 4]]),
        np.array([[0.5, 2], [3, 4]]),
        np.array([["x", "y"], ["z", "y"]]),
    ],
)
def test_what_went_in_comes_back(y):
    found, raw = fit(y)
    back = found.write(raw)
    np.testing.assert_array_equal(back, y)
    assert back.dtype == y.dtype


def test_a_frame_comes_back():
    found, raw = fit(FRAME)
    back = found.write(raw)
    pd.testing.assert_frame_equal(back, FRAME, check_categorical=False)
    assert back["grade"].dtype == "category"


MISSING_LABELS = [
    (["a", None], r"y\[1\] is missing: drop such rows"),
    (["a", float("nan")], r"y\[1\] is missing"),
    (["a", ""], r"y\[1\] = '' is missing"),
    (["a", "  "], r"y\[1\] = '  ' is missing"),
    (["a", pd.NA], r"y\[1\] is missing"),
    ([pd.NaT, "a"], r"y\[0\] is missing"),
    (np.array([1.0, 2.0, np.nan]), r"y\[2\] is missing"),
    (pd.Series(["a", None, "b"]), r"y\[1\] is missing"),
    (pd.Series([1, None], dtype="Int64"), r"y\[1\] is missing"),
    (np.ma.masked_equal([1, 2], 2), r"y\[1\] is missing"),
    ([[1.0, 2.0], [np.nan, 1.0]], r"y\[1, 0\] is missing"),
    (FRAME.assign(age=[30, None, 29, 35]), r"row 1 of column 'age' of y is missing"),
    (FRAME.assign(kind=["a", "b", "", "c"]), r"row 2 of column 'kind' of y = '' is missing"),
]


@pytest.mark.parametrize(("y", "words"), MISSING_LABELS, ids=[words for _, words in MISSING_LABELS])
def test_a_missing_label_is_named_by_row_and_column(y, words):
    with pytest.raises(ValueError, match=words):
        fit(y)


@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        (["a"] * 3, ValueError, "y has 3 rows, and X has 4"),
        ("a", ValueError, "is no list"),
        (3, ValueError, "is no list"),
        ([[1, 2], [3], [4], [5]], TypeError, r"y\[0\] = \[1, 2\] is of type list"),
        (np.zeros((4, 2, 2)), ValueError, "one or two dimensions"),
        (np.zeros((4, 0)), ValueError, "at least one column"),
        (sp.eye(4), TypeError, "sparse"),
        (np.array(["2020-01-01"] * 4, dtype="datetime64[D]"), TypeError, "datetime64"),
        (np.array([b"a"] * 4), TypeError, r"\|S1"),
        (np.array([1j] * 4), TypeError, "complex"),
        ([1.0, np.inf, 2.0, 3.0], ValueError, r"y\[1\] = inf is above 1e\+100"),
        (["x" * 2000] * 4, ValueError, "has 2000 characters"),
        (object(), TypeError, "is of type object"),
        (pd.DataFrame([[1, 2]] * 4, columns=["a", "a"]), ValueError, "one name"),
        (pd.DataFrame([[1]] * 4, columns=[("a", "b")]), TypeError, "name it by a string"),
    ],
)
def test_what_is_no_y_is_refused(y, error, words):
    with pytest.raises(error, match=words):
        fit(y, 4)


def test_too_many_labels_are_advised_to_be_numbers():
    with pytest.raises(ValueError, match=r"10001 different labels.*y\[:, None\]"):
        fit(np.arange(10_001))
    assert kinds(np.arange(10_001)[:, None]) == ("matrix", ["Numbers"])


# Afterwards.


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ("b", [1, 1, 1]),
        (np.str_("b"), [1, 1, 1]),
        (["a", "b", "a"], [0, 1, 0]),
        (["b"], [1, 1, 1]),
        ([["a"]] * 3, [0, 0, 0]),
    ],
)
def test_one_label_for_all_or_one_for_each(y, expected):
    found, _ = fit(["b", "a"])
    assert found.read(y, 3).ravel().tolist() == expected


@pytest.mark.parametrize("y", [3, 3.0, np.int8(3), np.array(3), [3, 3]])
def test_equal_numbers_are_one_label_whatever_their_type(y):
    assert fit([1, 3])[0].read(y, 2).tolist() == [[1], [1]]


ROW = {"kind": "b", "age": 41, "income": 2.25, "member": False, "grade": 1}


@pytest.mark.parametrize(
    "y", [ROW, pd.Series(ROW), FRAME.iloc[1], FRAME[1:2], FRAME[1:2][FRAME.columns[::-1]], list(ROW.values())]
)
def test_one_row_of_covariates_for_all(y):
    found, raw = fit(FRAME)
    np.testing.assert_array_equal(found.read(y, 3), np.tile(raw[1], (3, 1)))


def test_rows_of_covariates():
    found, raw = fit(FRAME)
    np.testing.assert_array_equal(found.read(FRAME, 4), raw)
    np.testing.assert_array_equal(found.read(FRAME.to_numpy(), 4), raw)
    matrix, raw = fit(np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(matrix.read([4.0, 5.0], 2), [[4, 5], [4, 5]])
    number, _ = fit([1.5, 2.5])
    assert number.read(1.75, 2).tolist() == [[1.75], [1.75]]


@pytest.mark.parametrize(
    ("fitted", "y", "words"),
    [
        (["a", "b"], ["a"] * 2, "y has 2 rows for 3 rows of X"),
        (["a", "b"], "c", "^y = 'c' was not in training: the known ones are 'a', 'b'$"),
        (["a", "b"], ["a", "c", "b"], r"y\[1\] = 'c' was not in training"),
        ([1, 2, 30], 29, "y = 29 was not in training: the known ones are 30, 2, 1"),
        ([1, 2], "1", "y = '1' was not in training: the known ones are 1, 2"),
        (["a", "b"], {"a": 1}, "a mapping"),
        (["a", "b"], [None] * 3, r"y\[0\] is missing"),
        (FRAME, {"kind": "a"}, "y has no column 'age'"),
        (FRAME, ROW | {"more": 1}, "the column 'more', which that of training had not"),
        (FRAME, FRAME.drop(columns="age")[:3], "no column 'age'"),
        (FRAME, ROW | {"kind": "z"}, "y of column 'kind' = 'z' was not in training: the known ones are 'a', 'b', 'c'"),
        (FRAME, ROW | {"age": "old"}, "y of column 'age' = 'old' is not a number"),
        (FRAME, ROW | {"age": np.inf}, "y of column 'age' = inf is not a number of at most"),
        (FRAME, "a", "one value, and a row of y has 5"),
        (np.ones((3, 2)), np.ones((3, 3)), "y has 3 columns, and that of training had 2"),
    ],
)
def test_what_does_not_fit_the_y_of_training_is_refused(fitted, y, words):
    with pytest.raises(ValueError, match=words):
        fit(fitted)[0].read(y, 3)


def test_an_unknown_label_is_answered_by_those_most_like_it():
    topics = [f"{a}.{b}" for a in ("sci", "rec", "comp") for b in ("space", "med", "autos", "graphics")]
    with pytest.raises(ValueError, match=r"known ones are 'sci.space', .*, … \(12 in all\)") as caught:
        fit(topics)[0].read("sci.spaec", 1)
    assert str(caught.value).count("'") == 12


def test_labels_are_drawn_as_often_as_they_were():
    found, _ = fit(["a"] * 7 + ["b"] * 2 + ["c"])
    heights = (np.arange(1000) + 0.5) / 1000
    assert np.bincount(found.draw(heights)[:, 0].astype(int)).tolist() == [700, 200, 100]
    assert found.draw(np.array([0.0, np.nextafter(1.0, 0.0)])).ravel().tolist() == [0, 2]


def test_covariates_are_drawn_from_the_rows_of_training(monkeypatch):
    y = np.random.default_rng(0).normal(size=(300, 2))
    found, _ = fit(y)
    drawn = found.draw(np.random.default_rng(1).random(50))
    assert {tuple(row) for row in drawn} <= {tuple(row) for row in y}
    monkeypatch.setattr(module, "MOST_KEPT", 100)
    assert len(fit(y)[0].kept) == 100


def test_what_a_number_is_seen_by():
    """Standardised, squashed beyond ten deviations; and its rank."""
    values = np.random.default_rng(0).lognormal(size=1000)
    column = fit(np.append(values, 0.5))[0].columns[0]
    assert isinstance(column, Numbers)
    features = column.features(values)
    standard = (values - values.mean()) / values.std()
    np.testing.assert_allclose(features[:, 0][standard < 1], standard[standard < 1], atol=0.05)
    ranks = np.argsort(np.argsort(values)) / 500 - 1
    np.testing.assert_allclose(features[:, 1], ranks, atol=0.05)
    assert np.abs(column.features(np.array([1e100, -1e100]))).max() <= 10
    for extreme in ([1e100, -1e100], [1e-310, 2e-310], [1e100, 1e-310]):
        assert np.isfinite(Numbers.of(None, "<f8", np.array(extreme)).features(np.array([*extreme, 1e100]))).all()


def test_a_covariate_that_never_changes_is_one():
    found, raw = fit(np.ones((5, 1)))
    assert np.isfinite(found.encode(raw).numpy()).all()


# On disk.


@pytest.mark.parametrize("y", [["b", "a"], [3, 1], [True, False], [0.5, 1.25], FRAME, [["a", 1.5], ["b", 2]]])
def test_a_description_is_json_and_arrays(y):
    found, raw = fit(y)
    described, arrays = found.described()
    again = Conditions.recalled(json.loads(json.dumps(described)), arrays)
    assert torch.equal(again.encode(raw), found.encode(raw))
    assert np.array_equal(again.draw(np.linspace(0, 0.99, 7)), found.draw(np.linspace(0, 0.99, 7)))
    assert np.array_equal(np.asarray(again.write(raw)), np.asarray(found.write(raw)))


def damaged(described, arrays, change):
    described, arrays = json.loads(json.dumps(described)), {name: array.copy() for name, array in arrays.items()}
    change(described, arrays)
    return described, arrays


@pytest.mark.parametrize(
    "change",
    [
        lambda d, a: d.update(form="os.system"),
        lambda d, a: d.update(form="labels"),
        lambda d, a: d.update(columns=[]),
        lambda d, a: d["columns"][0].update(levels=["a", "a", "b"]),
        lambda d, a: d["columns"][0].update(levels=["a"]),
        lambda d, a: d["columns"][0].update(levels=[["a"], "b", "c"]),
        lambda d, a: d["columns"][0].update(levels=["a" * 5000, "b", "c"]),
        lambda d, a: d["columns"][0].update(levels=list(range(20_000))),
        lambda d, a: d["columns"][0].update(dtype="<U1000000000"),
        lambda d, a: d["columns"][0].update(dtype="<i8"),
        lambda d, a: d["columns"][0].update(dtype=5),
        lambda d, a: d["columns"][1].update(dtype="O"),
        lambda d, a: d["columns"][0].update(name=["a"]),
        lambda d, a: d["columns"].pop(),
        lambda d, a: a.pop("1"),
        lambda d, a: a.update({"1": a["1"][:5]}),
        lambda d, a: a.update({"1": 0 * a["1"]}),
        lambda d, a: a.update(counts=a["counts"] - 1),
        lambda d, a: a.update(counts=a["counts"] * 2**50),
        lambda d, a: a.update(counts=a["counts"][:1]),
        lambda d, a: a.update(counts=a["counts"].astype(float)),
        lambda d, a: a.update(kept=a["kept"] + 7),
        lambda d, a: a.update(kept=a["kept"] - 0.5),
        lambda d, a: a.update(kept=a["kept"][:, :2]),
        lambda d, a: a.update(kept=a["kept"][:0]),
    ],
)
def test_a_description_that_cannot_be_is_refused(change):
    described, arrays = fit(FRAME)[0].described()
    with pytest.raises((ValueError, TypeError, LookupError)):
        Conditions.recalled(*damaged(described, arrays, change))


def test_the_identity_tells_labels_and_their_order_apart():
    names = {fit(y)[0].identity(fit(y)[1]) for y in (["a", "b"], ["b", "a"], ["a", "c"], [1, 2], [[1], [2]])}
    assert len(names) == 5


def test_levels_are_in_order():
    assert isinstance(column := fit(["b", 10, "a", 2])[0].columns[0], Labels)
    assert column.levels == (2, 10, "a", "b")


def test_large_numbers_stay_apart():
    """Beyond 2^53 float64 no longer holds every whole number."""
    y = np.array([2**60, 2**60 + 1, 2**60])
    found, raw = fit(y)
    assert raw.ravel().tolist() == [0, 1, 0]
    np.testing.assert_array_equal(found.write(raw), y)
    with pytest.raises(ValueError, match=r"y\[0\] = 1000.* is above"):
        fit([10**400, 1])
