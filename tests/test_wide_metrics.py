"""Metrics of wide rows: each against its formula, on rows that differ in one known way, and without a dense matrix."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import spearmanr

from countjump.metrics import (
    copies,
    half_splits,
    marginals,
    most_frequent,
    nearest,
    pmi,
    pmi_correlation,
    row_sparsity,
    row_totals,
    synthetic_accuracy,
    two_sample_auc,
)

TOPICS = np.random.default_rng(7).dirichlet(np.full(120, 0.1), size=4)


def documents(rows, seed, length=30.0):
    """Rows of one of four topics, with heavy-tailed lengths; and the topics."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(4, size=rows)
    lengths = rng.gamma(2.0, length / 2, size=(rows, 1))
    return sp.csr_matrix(rng.poisson(lengths * TOPICS[topic])), topic


def shuffled_columns(x, seed=0):
    """Every column's values in a random order: the same marginals, and nothing joint."""
    return sp.csr_matrix(np.random.default_rng(seed).permuted(x.toarray(), axis=0))


def test_row_statistics_are_those_of_the_dense_rows_whatever_is_stored():
    dense = np.random.default_rng(0).poisson(0.3, size=(50, 20)) * 0.25
    x = sp.csr_matrix(dense)
    x.data[:10] = 0  # a stored zero is a zero
    np.testing.assert_allclose(row_sparsity(x), (x.toarray() == 0).mean(axis=1))
    np.testing.assert_allclose(row_totals(x), x.toarray().sum(axis=1))


def test_halves_are_disjoint_of_one_size_fresh_and_had_again():
    splits = half_splits(101, splits=20, seed=3)
    assert len(splits) == 20
    for first, second in splits:
        assert len(first) == len(second) == 50
        assert len({*first, *second}) == 100
    assert len({tuple(first) for first, _ in splits}) == 20
    np.testing.assert_array_equal(splits[2], half_splits(101, splits=3, seed=3)[2])
    assert tuple(splits[0][0]) != tuple(half_splits(101, splits=1, seed=4)[0][0])


def test_every_row_is_in_either_half_equally_often():
    firsts = np.concatenate([first for first, _ in half_splits(10, splits=4000)])
    np.testing.assert_allclose(np.bincount(firsts) / 4000, 0.5, atol=5 * 0.5 / np.sqrt(4000))
    heads = np.array([first[0] for first, _ in half_splits(10, splits=4000)])  # a part of a half is random, too
    np.testing.assert_allclose(np.bincount(heads) / 4000, 0.1, atol=5 * 0.3 / np.sqrt(4000))


def test_marginals_are_their_formulas():
    a, b = (documents(200, seed)[0] for seed in (0, 1))
    real, other = a.toarray(), b.toarray()
    value = real[real > 0].mean()
    statistics = {
        "mean": (lambda x: x.mean(axis=0), lambda x: x.mean(axis=0) + 0.5 * value / 200),
        "zero_rate": (
            lambda x: (x == 0).mean(axis=0),
            lambda x: ((x == 0).sum(axis=0) + 0.5) / ((x > 0).sum(axis=0) + 0.5),
        ),
        "variance": (lambda x: x.var(axis=0).round(9), lambda x: x.var(axis=0) + 0.5 * value**2 / 200),
    }
    found = marginals(a, b)
    assert len(found) == 6
    for name, (plain, offset) in statistics.items():
        assert found[f"{name}_spearman"] == pytest.approx(spearmanr(plain(real), plain(other)).statistic)
        assert found[f"{name}_log_error"] == pytest.approx(np.abs(np.log(offset(other) / offset(real))).mean())


def test_marginals_do_not_depend_on_the_unit_and_see_what_was_scaled():
    a, b = (documents(300, seed)[0] * 1.0 for seed in (0, 1))
    for name, value in marginals(a * 0.01, b * 0.01).items():
        assert value == pytest.approx(marginals(a, b)[name])
    doubled = marginals(a, a * 2)
    assert doubled["mean_spearman"] == pytest.approx(1)
    assert doubled["variance_spearman"] == pytest.approx(1)
    assert doubled["zero_rate_log_error"] == 0
    assert 0.5 < doubled["mean_log_error"] <= np.log(2)
    assert 1.0 < doubled["variance_log_error"] <= np.log(4)


def test_marginals_of_rows_without_anything_are_bad_and_finite():
    a, _ = documents(50, 0)
    found = marginals(a, sp.csr_matrix(a.shape))
    assert found["mean_spearman"] == 0
    assert np.isfinite(list(found.values())).all()
    assert found["mean_log_error"] > 1


def test_most_frequent_counts_rows_and_not_units():
    x = sp.csr_matrix([[9, 1, 0, 0], [0, 1, 0, 1], [0, 1, 0, 1]])
    assert most_frequent(x).tolist() == [1, 3, 0, 2]
    assert len(most_frequent(sp.csr_matrix((2, 1000)))) == 300


def test_pmi_of_independent_columns_is_zero_and_of_twins_is_minus_log_p():
    rng = np.random.default_rng(0)
    x = rng.random((20_000, 5)) < 0.3
    x[:, 4] = x[:, 3]
    found = pmi(sp.csr_matrix(x * rng.gamma(1.0, size=x.shape)), np.arange(5))
    pairs = list(zip(*np.triu_indices(5, 1), strict=True))
    for pair, value in zip(pairs, found, strict=True):
        assert value == pytest.approx(-np.log(0.3) if pair == (3, 4) else 0, abs=0.05)


def test_a_pair_that_never_meets_has_a_finite_pmi_below_zero():
    [value] = pmi(sp.csr_matrix([[1, 0], [0, 1]] * 50), np.arange(2))
    assert value == pytest.approx(np.log(0.5 * 100.5 / 50.5**2))


def test_pmi_correlation_is_one_with_itself_high_with_more_of_it_and_zero_without_structure():
    (a, _), (b, _) = documents(2000, 0), documents(2000, 1)
    columns = most_frequent(a, 60)
    assert pmi_correlation(a, a, columns) == pytest.approx(1)
    assert pmi_correlation(a, b, columns) > 0.9
    assert abs(pmi_correlation(a, shuffled_columns(a), columns)) < 0.15
    assert pmi_correlation(a, sp.csr_matrix(a.shape), columns) == 0


def test_shuffled_columns_pass_the_marginals_and_fail_the_joint_metrics():
    a, _ = documents(1000, 0)
    b = shuffled_columns(a)
    found = marginals(a, b)
    assert max(value for name, value in found.items() if "error" in name) < 1e-9
    assert min(value for name, value in found.items() if "spearman" in name) == pytest.approx(1)
    assert two_sample_auc(a, b) > 0.95


def test_the_auc_of_two_halves_is_a_half_within_its_noise():
    """Under equality the AUC of n + m rows has variance (n + m + 1)/(12 n m)."""
    x, _ = documents(2000, 0)
    aucs = [two_sample_auc(x[a], x[b], seed) for seed, (a, b) in enumerate(half_splits(2000, splits=3))]
    assert np.mean(aucs) == pytest.approx(0.5, abs=4 * np.sqrt(2001 / (12 * 1000**2)))


@pytest.mark.parametrize("scale", [1, 0.01])
def test_the_auc_of_longer_rows_is_above_a_half_and_of_other_rows_near_one(scale):
    (a, _), (longer, _) = documents(800, 0), documents(800, 1, length=60.0)
    assert 0.65 < two_sample_auc(a * scale, longer * scale) < 0.95
    assert two_sample_auc(a * scale, a[:, ::-1] * scale) > 0.95


@pytest.mark.parametrize("kind", ["non-zeros", "total", "largest"])
def test_the_classifier_sees_how_large_rows_are(kind):
    """Of rows that are nothing else: one of many columns is there, or one of two different numbers."""
    rng = np.random.default_rng(0)

    def rows(units: np.ndarray, times: int) -> sp.csr_matrix:
        place = rng.permuted(np.tile(np.arange(2000), (len(units), 1)), axis=1)[:, : units.max() * times]
        filled = np.repeat(np.arange(len(units)), units * times)
        column = np.concatenate([p[: u * times] for p, u in zip(place, units, strict=True)])
        return sp.csr_matrix((np.ones(len(column)), (filled, column)), shape=(len(units), 2000))

    units = rng.integers(1, 3, 300)
    a = rows(units, 4)
    if kind == "non-zeros":
        b = rows(units, 8) / 2
    elif kind == "total":
        b = a * 2
    else:
        b = rows(units, 4)
        b.data = np.where(np.arange(b.nnz) % 4 == 0, 3.7, 0.1)
    assert two_sample_auc(a, b) > 0.95


def test_rows_may_be_held_by_columns():
    (a, _), (b, _) = documents(60, 0), documents(60, 1)
    np.testing.assert_array_equal(row_sparsity(a.tocsc()), row_sparsity(a))
    np.testing.assert_array_equal(most_frequent(a.tocsc()), most_frequent(a))
    assert marginals(a.tocsc(), b.tocsc()) == pytest.approx(marginals(a, b))


def test_the_auc_takes_so_many_random_rows_and_can_be_had_again():
    a, _ = documents(600, 0)
    late = sp.vstack([a[:200], a[:400] * 0], format="csr")  # its first 200 rows alone look like those of a
    once = two_sample_auc(a, late, most=200)
    assert once == two_sample_auc(a, late, most=200) != two_sample_auc(a, late, seed=1, most=200)
    assert once > 0.7


def test_accuracy_from_real_rows_is_that_of_real_rows():
    (train, topics), (fresh, _), (test, test_topics) = (documents(1500, seed, length=6.0) for seed in (0, 1, 2))
    same, real = synthetic_accuracy(train, topics, train, test, test_topics)
    assert 0.6 < real < 1
    assert same / real == pytest.approx(1, abs=0.04)
    assert synthetic_accuracy(train, topics, fresh, test, test_topics)[0] / real > 0.93


def test_synthetic_rows_teach_the_topics_that_they_have():
    (train, topics), (test, test_topics) = documents(800, 0), documents(800, 1)
    for known in range(1, 5):
        got, _ = synthetic_accuracy(train, topics, train[topics < known], test, test_topics)
        assert got == pytest.approx(known / 4, abs=0.07)
    nothing, _ = synthetic_accuracy(train, topics, sp.csr_matrix(train.shape), test, test_topics)
    assert nothing == pytest.approx(1 / 4, abs=0.07)


def test_nearest_is_the_slow_minimum():
    (train, _), (rows, _) = documents(60, 0), documents(40, 1)
    u, v = np.log1p(rows.toarray()), np.log1p(train.toarray())
    slow = 1 - u @ v.T / np.outer(np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1))
    np.testing.assert_allclose(nearest(train, rows), slow.min(axis=1), atol=1e-9)


def test_empty_rows_are_near_nothing():
    (train, _), (rows, _) = documents(60, 0), documents(40, 1)
    some = sp.vstack([rows, sp.csr_matrix((5, rows.shape[1]))], format="csr")
    assert len(nearest(train, some)) == 40
    np.testing.assert_array_equal(nearest(sp.vstack([train, some[-5:]], format="csr"), rows), nearest(train, rows))
    assert np.isnan(copies(train, rows, some[-5:])["copy_ratio"])
    assert np.isnan(copies(some[-5:], rows, rows)["copy_ratio"])


def test_a_few_copies_are_seen():
    (train, _), (held_out, _), (fresh, _) = (documents(1500, seed) for seed in (0, 1, 2))
    assert copies(train, held_out, fresh)["copy_share"] == pytest.approx(0.01, abs=0.01)
    tenth = sp.vstack([fresh[:1350], train[:150]], format="csr")
    assert copies(train, held_out, tenth)["copy_share"] == pytest.approx(0.11, abs=0.01)
    assert copies(train, held_out, tenth)["copy_ratio"] > 0.9


def test_copies_have_a_ratio_of_zero_near_copies_little_and_fresh_rows_one():
    (train, _), (held_out, _), (fresh, _) = (documents(1500, seed) for seed in (0, 1, 2))
    assert copies(train, held_out, fresh)["copy_ratio"] == pytest.approx(1, abs=0.05)
    assert copies(train, held_out, train)["copy_ratio"] == pytest.approx(0, abs=1e-9)
    near = train.copy()
    near.data[::20] += 1
    assert copies(train, held_out, near)["copy_ratio"] < 0.2
    half = sp.vstack([fresh[:500], train[:1000]], format="csr")
    assert copies(train, held_out, half)["copy_ratio"] < 0.5


def test_nothing_is_made_dense():
    """20,000 × 1,000,000 would be 160 GB."""
    rng = np.random.default_rng(0)
    rows, columns, filled = 20_000, 1_000_000, 20
    place = np.minimum(rng.zipf(1.3, size=rows * filled), columns) - 1
    x = sp.csr_matrix((np.ones(rows * filled), (np.repeat(np.arange(rows), filled), place)), shape=(rows, columns))
    [(first, second)] = half_splits(rows, splits=1)
    label = x[:, 1].toarray().ravel().astype(int) > 0
    tracemalloc.start()
    try:
        a, b = x[first], x[second]
        found = [*marginals(a, b).values(), pmi_correlation(a, b, most_frequent(x)), two_sample_auc(a, b, most=1000)]
        found += [row_sparsity(a).mean(), row_totals(a).mean(), copies(a, b[:2000], b[2000:4000])["copy_ratio"]]
        found += synthetic_accuracy(a, label[first], a, b, label[second])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite(found).all()
    assert peak < 2**30


def test_the_classifier_sees_rows_of_one_column():
    few, many = (sp.csr_matrix(np.random.default_rng(0).poisson(rate, (200, 1))) for rate in (1.0, 6.0))
    assert two_sample_auc(few, many) > 0.9
