"""Rows of matrices: what is one, what is read of it, and what is refused."""

import pickle
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from countjump import JumpModel, Simplex
from countjump.data import Rows, as_matrix, fingerprint
from countjump.data.rows import INDEX_ARRAYS, csr_of_arrays
from countjump.domains import check_values


@pytest.fixture
def matrix():
    generator = np.random.default_rng(0)
    X = generator.poisson(2.0, size=(50, 6)) * (generator.random((50, 6)) < 0.4)
    X[:, 2], X[:, 3] = 0, 4
    return X


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_statistics_are_those_of_the_columns(matrix, kind):
    stats = Rows(as_matrix(kind(matrix))).statistics()
    np.testing.assert_allclose(stats.mean, matrix.mean(0))
    np.testing.assert_allclose(stats.variance, matrix.var(0))
    np.testing.assert_array_equal(stats.smallest, matrix.min(0))
    np.testing.assert_array_equal(stats.largest, matrix.max(0))
    np.testing.assert_allclose(stats.zero_share, (matrix == 0).mean(0))
    top = (matrix == matrix.max(0)).mean(0)
    np.testing.assert_allclose(stats.full_share[matrix.max(0) > 0], top[matrix.max(0) > 0])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_rows_are_taken_as_they_are_or_dense(matrix, kind):
    rows = Rows(as_matrix(kind(matrix)))
    taken = rows.take(np.array([4, 1]))
    assert type(taken) is type(rows.matrix)
    np.testing.assert_array_equal(taken.toarray() if sp.issparse(taken) else taken, matrix[[4, 1]])
    dense = rows.dense(np.array([4, 1]))
    assert dense.dtype == np.float64
    np.testing.assert_array_equal(dense, matrix[[4, 1]])
    np.testing.assert_array_equal(rows.select(np.array([0, 5])).dense(np.array([3])), matrix[[3]][:, [0, 5]])
    np.testing.assert_array_equal(rows.totals(), matrix.sum(1))


def test_the_smallest_scale_loses_one_percent_per_column_or_pooled():
    X = np.random.default_rng(0).gamma(1.0, [1.0, 100.0], size=(2000, 2))
    lam = Rows(X).smallest_scale()
    np.testing.assert_allclose(np.exp(-lam * X).mean(0), 0.01, rtol=1e-4)
    pooled = Rows(X).smallest_scale(pooled=True)
    assert np.exp(-pooled * X).mean() == pytest.approx(0.01, rel=1e-4)


def test_duplicate_entries_of_a_sparse_matrix_are_summed():
    X = sp.csr_matrix((np.array([1, 2]), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    assert as_matrix(X).toarray().tolist() == [[3, 0]]
    assert X.nnz == 2, "the caller's matrix is left alone"


def test_a_fingerprint_knows_data_and_words(matrix):
    assert fingerprint(matrix, "a") == fingerprint(matrix.copy(), "a")
    changed = matrix.copy()
    changed[0, 0] += 1
    assert fingerprint(sp.csr_matrix((1, 2))) != fingerprint(sp.csr_matrix((1, 9)))
    assert len({fingerprint(matrix, "a"), fingerprint(changed, "a"), fingerprint(matrix, "b")}) == 3


def test_a_selection_of_sparse_columns_is_not_a_copy_and_answers_like_one():
    matrix = np.random.default_rng(0).poisson(0.7, (40, 9))
    X, kept = sp.csr_matrix(matrix), np.array([0, 3, 4, 7])
    X.data[5] = 0  # a zero that is stored
    some, plain = Rows(X).select(kept), Rows(X.toarray()[:, kept])
    assert some.matrix is X
    again, index = some.select(np.array([1, 2])), np.array([3, 1])
    np.testing.assert_array_equal(again.take(index).toarray(), X.toarray()[index][:, [3, 4]])
    np.testing.assert_array_equal(some.totals(), plain.totals())
    np.testing.assert_array_equal(some.filled(), plain.filled())
    np.testing.assert_array_equal(some.dense(index), plain.take(index))
    for name, values in vars(some.statistics()).items():
        np.testing.assert_allclose(values, getattr(plain.statistics(), name), err_msg=name)


def test_totals_beside_a_huge_column_are_those_of_the_others():
    matrix = np.full((4, 5), 0.1)
    matrix[:, 0], matrix[2] = 1e15, 0
    rows = Rows(sp.csr_matrix(matrix)).select(np.arange(1, 5))
    np.testing.assert_array_equal(rows.totals(), Rows(matrix[:, 1:]).totals())
    np.testing.assert_array_equal(rows.filled(), [4, 4, 0, 4])


# What is not a matrix, or not a whole one.


def broken(kind: str, harm: str) -> sp.spmatrix:
    """A sparse matrix whose arrays were tampered with."""
    X = sp.random(20, 30, 0.2, random_state=0, data_rvs=np.ones).asformat(kind)
    value = {"large": 2**30, "negative": -(2**20)}.get(harm)
    if kind in ("csr", "csc", "bsr"):
        if value is not None:
            X.indices[3] = value
        elif harm == "falling":
            X.indptr[2:4] = X.indptr[3], X.indptr[2] - 1
        elif harm == "end":
            X.indptr[-1] = 0
        else:
            X.indptr = X.indptr[:-2]
    elif kind == "coo":
        X.row[3] = value
    elif kind == "dia":
        X.offsets[3] = value
    elif harm == "lengths":
        X.data[0] = [1.0] * 1000
    elif kind == "lil":
        X.rows[0][0] = value
    return X


COMPRESSED = [
    (kind, harm) for kind in ("csr", "csc", "bsr") for harm in ("large", "negative", "falling", "end", "short")
]
OTHERS = [(kind, harm) for kind in ("coo", "dia", "lil") for harm in ("large", "negative")]


@pytest.mark.parametrize(("kind", "harm"), [*COMPRESSED, *OTHERS, ("lil", "lengths")])
def test_a_broken_sparse_matrix_is_refused_before_scipy_reads_beyond_its_arrays(kind, harm):
    with pytest.raises(ValueError, match=r"broken|axis"):
        as_matrix(broken(kind, harm))


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
@pytest.mark.parametrize("make", [sp.coo_matrix, sp.coo_array])
def test_every_kind_of_sparse_matrix_is_read_and_left_alone(kind, make, matrix):
    X = make(matrix).asformat(kind)
    before = pickle.dumps(X)
    read = as_matrix(X)
    assert (read.format, read.has_canonical_format, read.dtype) == ("csr", True, matrix.dtype)
    np.testing.assert_array_equal(read.toarray(), matrix)
    assert pickle.dumps(X) == before


def test_flags_that_are_no_longer_true_are_not_believed():
    X = sp.csr_matrix((np.array([1, 2]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    assert X.has_canonical_format
    X.indices[:] = 0
    assert as_matrix(X).data.tolist() == [3]


def test_entries_of_one_place_do_not_wrap_around():
    X = sp.coo_matrix((np.array([200, 100], dtype=np.uint8), ([0, 0], [1, 1])), shape=(1, 2))
    with pytest.raises(ValueError, match="take int64"):
        as_matrix(X)


def test_a_shape_beyond_all_memory_is_refused_before_it_is_allocated():
    with pytest.raises(ValueError, match="drop the empty ones"):
        as_matrix(sp.coo_matrix(([1.0], ([0], [0])), shape=(2**44, 2)))
    with pytest.raises(ValueError, match="drop the empty ones"):
        as_matrix(sp.coo_matrix(([1.0], ([0], [0])), shape=(2, 2**60)))


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">u2", "f2", ">f2", "g", "?", "i1"])
def test_numbers_come_in_native_types(dtype, matrix):
    X = (matrix > 0).astype(dtype)
    read = as_matrix(X)
    assert read.dtype == (np.float64 if dtype == "g" else np.dtype(dtype).newbyteorder("="))
    np.testing.assert_array_equal(read, X)
    sparse = sp.csr_matrix(X.astype(float))
    sparse.data = sparse.data.astype(dtype)  # scipy makes no such matrix by itself, but old ones and files may be
    sparse.indices = sparse.indices.astype(">i4")
    read = as_matrix(sparse)
    assert read.dtype.isnative
    assert read.indices.dtype.isnative
    np.testing.assert_array_equal(read.toarray(), X)


@pytest.mark.parametrize("dtype", ["f2", ">i4"])
@pytest.mark.parametrize("columns", [3, 300])
def test_such_types_can_be_fitted(dtype, columns):
    X = np.random.default_rng(0).poisson(0.1, (40, columns)).astype(dtype)
    model = JumpModel(max_updates=2, width=8, progress=False, random_state=0).fit(X)
    assert model.sample(2, steps=2).dtype == np.dtype(dtype).newbyteorder("=")


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.longdouble, object])
@pytest.mark.parametrize("sparse", [False, True])
def test_whole_numbers_above_those_of_float64_are_refused(dtype, sparse):
    if sparse and dtype is object:
        dtype = np.uint64
    for value, good in ((2**53, True), (2**53 + 1, False)):
        X = np.array([[0, value]], dtype=dtype)
        X = sp.csr_matrix(X) if sparse else X
        with nullcontext() if good else pytest.raises(ValueError, match=r"above 2\^53"):
            check_values(as_matrix(X))


def test_totals_are_summed_in_float64():
    X = np.full((2, 2000), 2**53 - 1)
    X[1] = 0
    for matrix in (X, sp.csr_matrix(X), np.full((2, 2000), 100, dtype=np.float16)):
        with pytest.raises(ValueError, match=r"row 0 of X adds up to (1.80144e\+19|200000)"):
            Simplex().check(matrix)


def test_masked_values_are_not_taken_for_data():
    X = np.ma.masked_array(np.ones((2, 3)), mask=np.zeros((2, 3)))
    assert as_matrix(X).shape == (2, 3)
    X[1, 2] = np.ma.masked
    with pytest.raises(ValueError, match=r"X\[1, 2\] is masked"):
        as_matrix(X)


def test_tensors():
    X = torch.ones(2, 3, requires_grad=True)
    np.testing.assert_array_equal(as_matrix(X), np.ones((2, 3)))
    with pytest.raises(TypeError, match="to_dense"):
        as_matrix(X.detach().to_sparse())


def test_frames():
    names = ["a", "b"]
    plain = pd.DataFrame([[1, 2], [3, 0]], columns=names)
    np.testing.assert_array_equal(as_matrix(plain), plain)
    sparse = as_matrix(plain.astype(pd.SparseDtype("int64", 0)))
    assert sp.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), plain)
    np.testing.assert_array_equal(as_matrix(plain.astype("Int64")), plain)
    for value in (pd.NA, "x", pd.Timestamp("2020-01-01")):
        with pytest.raises(TypeError, match=r"X\[1, 1\] \(column 'b'\) = .* is not a number"):
            as_matrix(pd.DataFrame({"a": [1, 2], "b": pd.Series([1, value], dtype=object)}))
    with pytest.raises((TypeError, ValueError), match=r"X\[1, 0\].* = (<NA> is not a number|nan is NaN)"):
        check_values(as_matrix(pd.DataFrame({"a": pd.array([1, None], dtype="Int64")})))


class Annotated:
    X = np.ones((2, 2))
    obs = var = None


@pytest.mark.parametrize(
    ("X", "kind", "said"),
    [
        (Annotated(), TypeError, r"pass adata\.X"),
        (None, TypeError, "of type NoneType"),
        ({"a": 1}, TypeError, "of type dict"),
        ((i for i in range(3)), TypeError, "of type generator"),
        ("words", TypeError, "of type str"),
        ([["a", "b"]], TypeError, "strings or objects"),
        ([[1, 2], [3]], ValueError, "rows of equal lengths"),
        ([[1, 2 + 1j]], ValueError, "Complex data not supported"),
        ([[1, None]], TypeError, r"X\[0, 1\] = None is not a number"),
        (sp.csr_matrix([[1j]]), ValueError, "Complex data not supported"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_matrix(X, kind, said):
    with pytest.raises(kind, match=said):
        as_matrix(X)


def test_other_dimensions_are_for_the_model_to_refuse():
    assert [as_matrix(X).ndim for X in (5, [], np.ones((2, 2, 2)))] == [0, 1, 3]


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "dia", "bsr"])
def test_a_shape_that_a_few_entries_do_not_need_is_refused(kind):
    matrix = getattr(sp, f"{kind}_matrix")(np.eye(3))
    arrays = {name: getattr(matrix, name) for name in ("data", *INDEX_ARRAYS[kind])}
    with pytest.raises(ValueError, match="drop the empty ones"):
        csr_of_arrays(kind, (2**30, 2**30), arrays)


def test_whole_numbers_beside_fractions_are_not_rounded():
    with pytest.raises(ValueError, match="column 'a' of X has 9007199254740993, which is above"):
        as_matrix(pd.DataFrame({"a": [2**53 + 1, 3], "b": [0.5, 1.0]}))
    with pytest.raises(ValueError, match=r"X\[0, 0\] = 9007199254740993 is above 2\^53"):
        as_matrix([[2**53 + 1], [3.5]])
    assert np.isnan(as_matrix([[float("nan")]])).all()  # and no warning
    with pytest.raises(TypeError, match="column 'a'"):
        as_matrix(pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [0.5, 1.0]}))
