import numpy as np
import pytest
import scipy.sparse as sp

from countjump.data import Rows, as_matrix, fingerprint


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
