"""Metrics of tables: each has a known answer on tables that differ in one known way."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp, spearmanr

from countjump.metrics.labels import label_usefulness
from countjump.metrics.tables import (
    coded,
    column_shapes,
    nearer_copies,
    pair_trends,
    rank_correlation_error,
    two_sample_auc,
)


def people(rows: int, seed: int) -> pd.DataFrame:
    """An age, an amount that rises with it, and a town that follows from it."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    town = np.where(rng.random(rows) < 0.9, np.array(["east", "north", "west"])[age // 30], "south")
    return pd.DataFrame({"age": age, "amount": age * rng.gamma(5, 0.2, rows), "town": town})


def shuffled(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Every column in a random order: the same margins, and nothing joint."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.permutation(frame[name].to_numpy()) for name in frame})


# What a table is.


@pytest.mark.parametrize(
    ("column", "category"),
    [
        ([1, 2, 2], False),
        ([1.5, -2.0, 2.0], False),
        (pd.Series([1, 2.5, 2], dtype=object), False),
        (["a", "b", "b"], True),
        ([True, False, False], True),
        (pd.Categorical([1, 2, 2]), True),
        (pd.Series(["a", None, None], dtype=object), True),
    ],
)
def test_which_columns_are_categories(column, category):
    found = coded(pd.DataFrame({"x": column}))
    assert found.categorical.tolist() == [category]
    if category:
        assert found.tables[0][:, 0].tolist() == [1, 0, 0]  # the more frequent level is the first


def test_an_array_is_a_table_as_a_frame_is():
    frame = people(50, 0)
    ours, theirs = coded(frame), coded(frame.to_numpy())
    np.testing.assert_array_equal(ours.tables[0], theirs.tables[0])
    np.testing.assert_array_equal(ours.categorical, theirs.categorical)


def test_columns_are_found_by_name_and_levels_are_numbered_alike():
    frame = people(50, 0)
    both = coded(frame, frame[["town", "amount", "age"]].iloc[::-1])
    np.testing.assert_array_equal(both.tables[0], both.tables[1][::-1])


def test_numbers_can_be_declared_categories():
    assert coded([[1, 2]], categorical=[1]).categorical.tolist() == [False, True]
    assert coded(people(9, 0), categorical=["age"]).categorical.tolist() == [True, False, True]


def test_one_hot_columns_come_after_the_numbers():
    first, second = coded([["a", 5], ["b", 6], ["a", 7]], [["c", 8]]).one_hot()
    assert first.tolist() == [[5, 1, 0, 0], [6, 0, 1, 0], [7, 1, 0, 0]]
    assert second.tolist() == [[8, 0, 0, 1]]


@pytest.mark.parametrize(
    ("tables", "settings", "words"),
    [
        (([[1, 2]], [[1]]), {}, "different columns"),
        (([[1, np.nan]],), {}, "column 1 holds nan in row 0"),
        ((pd.DataFrame({"x": pd.Series([1, None], dtype="Int64")}),), {}, "column 'x' holds nan in row 1"),
        (([[1.0]], [["a"]]), {}, "column 0 holds numbers in the first table, and not in another"),
        (([[1, 2]],), {"categorical": ["x"]}, "column 'x', which the tables do not have"),
        (([1, 2],), {}, "rows and columns"),
        ((np.empty((0, 2)),), {}, "empty"),
        ((pd.DataFrame([[1, 2]], columns=["a", "a"]),), {}, "one name"),
    ],
)
def test_what_cannot_be_compared_is_said(tables, settings, words):
    with pytest.raises(ValueError, match=words):
        coded(*tables, **settings)


# The two-sample classifier.


def test_the_auc_of_fresh_rows_is_a_half_and_of_shuffled_columns_is_not():
    real = people(1000, 0)
    assert two_sample_auc(real, people(1000, 1)) == pytest.approx(0.5, abs=0.06)
    assert two_sample_auc(real, shuffled(people(1000, 1))) > 0.8


def test_the_auc_is_that_of_the_best_test():
    """A flag that is 1 in a share p of one table, and q of the other: AUC = ½ + ½ |p − q|."""
    rng = np.random.default_rng(0)
    p, q = (rng.permutation(np.arange(2000) < share * 2000).astype(int) for share in (0.3, 0.6))
    real, synthetic = (np.column_stack([flag, np.zeros(2000)]) for flag in (p, q))
    assert two_sample_auc(real, synthetic) == pytest.approx(0.65, abs=0.01)


def test_categories_are_declared():
    """Levels in no order, each second of which is of one table alone: one split finds that, if they are categories."""
    rng = np.random.default_rng(0)
    real, synthetic = (2 * rng.permutation(np.arange(2400) % 100)[:, None] + side for side in (0, 1))
    names = np.array([f"{name:x}" for name in rng.permutation(1000)[:200]])
    assert two_sample_auc(names[real], names[synthetic]) > 0.999


def test_more_levels_than_the_judge_can_take_are_joined():
    rng = np.random.default_rng(0)
    real, synthetic = (np.array([f"{value}" for value in rng.integers(0, 2000, 3000)])[:, None] for _ in range(2))
    assert len(np.unique(real)) > 1000
    assert two_sample_auc(real, synthetic) == pytest.approx(0.5, abs=0.06)
    common = np.where(rng.random((3000, 1)) < 0.5, "often", synthetic)
    assert two_sample_auc(real, common) == pytest.approx(0.75, abs=0.04)


def test_as_many_rows_are_compared_and_the_auc_can_be_had_again():
    real, synthetic = people(200, 0), people(200, 1)
    assert two_sample_auc(real, synthetic, seed=3) == two_sample_auc(real, synthetic, seed=3)
    assert two_sample_auc(real, synthetic, seed=3) != two_sample_auc(real, synthetic, seed=4)
    with pytest.raises(ValueError, match="200 real and 199 generated rows"):
        two_sample_auc(real, synthetic[:-1])


# SDMetrics' two.


def test_column_shapes_are_kolmogorovs_and_the_total_variation():
    real, synthetic = people(300, 0), people(200, 1).assign(age=lambda f: f["age"] + 5)
    shares = [frame["town"].value_counts(normalize=True) for frame in (real, synthetic)]
    variation = 0.5 * (shares[0] - shares[1]).abs().sum()
    numbers = [ks_2samp(real[name], synthetic[name]).statistic for name in ("age", "amount")]
    assert column_shapes(real, synthetic) == pytest.approx(1 - (sum(numbers) + variation) / 3)
    assert column_shapes(real, real.sample(frac=1, random_state=0)) == 1.0
    assert column_shapes(real[["town"]], real[["town"]].replace("east", "mars")) == pytest.approx(1 - shares[0]["east"])


def test_pair_trends_of_numbers_are_correlations():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    real, synthetic = x @ rng.normal(size=(3, 3)), x
    errors = np.abs(np.corrcoef(real.T) - np.corrcoef(synthetic.T))[np.triu_indices(3, 1)]
    assert pair_trends(real, synthetic) == pytest.approx(1 - errors.mean() / 2)
    assert pair_trends(real, 7 * real - 2) == pytest.approx(1)


def test_pair_trends_with_categories_are_contingencies():
    real, synthetic = people(500, 0), shuffled(people(300, 1)).assign(age=lambda frame: 2 * frame["age"] - 40)

    def binned(name):
        edges = np.linspace(real[name].min(), real[name].max(), 11)
        edges[0], edges[-1] = -np.inf, np.inf
        return [pd.cut(frame[name], edges, right=False, labels=range(10)) for frame in (real, synthetic)]

    scores = []
    for name in ("age", "amount"):
        bins = zip(binned(name), (real, synthetic), strict=True)
        p, q = (pd.crosstab(bin_, frame["town"], normalize=True, dropna=False) for bin_, frame in bins)
        p, q = p.align(q, fill_value=0)
        scores.append(1 - 0.5 * np.abs(p.fillna(0) - q.fillna(0)).to_numpy().sum())
    correlations = [frame["age"].corr(frame["amount"]) for frame in (real, synthetic)]
    scores.append(1 - 0.5 * abs(correlations[0] - correlations[1]))
    assert pair_trends(real, synthetic) == pytest.approx(np.mean(scores))


def test_two_categories_that_always_agree_or_never():
    same, other = [["a", "x"], ["b", "y"]], [["a", "y"], ["b", "x"]]
    assert pair_trends(same, same) == 1.0
    assert pair_trends(same, other) == 0.0
    assert pair_trends(same, same + other) == 0.5


def test_a_column_of_one_value_has_no_correlation():
    x = np.random.default_rng(0).normal(size=(50, 3))
    x[:, 1] = x[:, 0]
    constant = x * [1, 1, 0]
    assert pair_trends(constant, x) == pytest.approx(1)  # only the first pair is compared
    dull = x * [1, 0, 1]
    rest = abs(np.corrcoef(x[:, 1], x[:, 2])[0, 1])
    assert pair_trends(x, dull) == pytest.approx(1 - (0.5 * 1 + 0 + 0.5 * rest) / 3)  # it is not left out
    with pytest.raises(ValueError, match="no pair of columns that vary"):
        pair_trends(np.zeros((5, 2)), x[:5, :2])
    with pytest.raises(ValueError, match="no two columns of numbers"):
        rank_correlation_error([["a", 1], ["b", 2]], [["a", 1], ["b", 2]])


# Rank correlations, copies and labels.


def test_rank_correlation_errors_are_spearmans():
    rng = np.random.default_rng(0)
    real, synthetic = rng.poisson(2, size=(300, 4)), rng.poisson(2, size=(300, 4)).cumsum(axis=1)
    found = [spearmanr(x).statistic[np.triu_indices(4, 1)] for x in (real, synthetic)]
    assert rank_correlation_error(real, synthetic) == pytest.approx(np.abs(found[0] - found[1]).mean())
    assert rank_correlation_error(real, np.exp(real)) == pytest.approx(0)  # only the order counts


def test_copies_are_seen_and_fresh_rows_are_at_the_floor():
    train, held_out, fresh = (people(2000, seed) for seed in range(3))
    share, floor = nearer_copies(train, fresh, held_out)
    assert floor == pytest.approx(0.01, abs=0.002)
    assert share == pytest.approx(0.01, abs=0.01)
    half = pd.concat([train[:1000], fresh[:1000]])
    assert nearer_copies(train, half, held_out)[0] == pytest.approx(0.5, abs=0.01)
    far = fresh.assign(amount=fresh["amount"] + 1e4)
    assert nearer_copies(train, far, held_out)[0] == 0


def test_distances_are_standard_deviations_and_categories_that_differ():
    """Held-out rows are at distance 1 of a training row, by one category; a number must differ by less than its sd to be nearer."""
    train = pd.DataFrame({"x": np.repeat([0.0, 10.0], 50), "constant": 3, "town": "a"})  # sd = 5
    held_out = train.assign(town="b")
    for move, share in ((4.9, 1.0), (5.1, 0.0)):
        apart = train.assign(x=train["x"] + np.where(train["x"] > 5, move, -move))
        assert nearer_copies(train, apart, held_out)[0] == share
    assert nearer_copies(train, train.assign(town="c"), held_out)[0] == 1.0
    assert nearer_copies(train, train.assign(constant=4.1), held_out)[0] == 0.0


def test_labels_are_as_useful_as_they_are_right():
    """Two blobs; with a share of the generated labels at random, more than that of the test rows cannot be lost."""

    def blobs(seed):
        rng = np.random.default_rng(seed)
        label = rng.integers(0, 2, 400)
        return rng.normal(size=(400, 3)) + 4 * label[:, None], np.array(["no", "yes"])[label]

    (x, y), (fresh, theirs), (test, truth) = (blobs(seed) for seed in range(3))
    found = label_usefulness(x, y, fresh, theirs, test, truth)
    assert found["real"] > 0.97
    assert found["ratio"] == pytest.approx(1, abs=0.01)
    assert found["ratio"] == found["synthetic"] / found["real"]
    useless = label_usefulness(x, y, fresh, np.full(400, "yes"), test, truth)
    assert useless["synthetic"] == (truth == "yes").mean()
    frames = [pd.DataFrame(rows).assign(town=np.where(rows[:, 0] > 2, "a", "b")) for rows in (x, fresh, test)]
    assert label_usefulness(frames[0], y, frames[1], theirs, frames[2], truth)["ratio"] == pytest.approx(1, abs=0.01)


def test_labels_of_wide_rows_are_judged_by_a_linear_classifier():
    def documents(seed):
        rng = np.random.default_rng(seed)
        topic = rng.integers(0, 2, 300)
        return sp.csr_matrix(rng.poisson(np.where(np.arange(100) // 50 == topic[:, None], 0.4, 0.1))), topic

    (x, y), (fresh, theirs), (test, truth) = (documents(seed) for seed in range(3))
    found = label_usefulness(x, y, fresh, theirs, test, truth)
    assert found["real"] > 0.95
    assert found["ratio"] == pytest.approx(1, abs=0.02)
    assert label_usefulness(x, y, fresh, 1 - theirs, test, truth)["synthetic"] == pytest.approx(
        1 - found["synthetic"], abs=0.01
    )


def test_every_row_has_a_label_and_as_many_rows_are_compared():
    x, y = np.zeros((4, 1)), np.zeros(4)
    with pytest.raises(ValueError, match="4 rows and 3 labels in synthetic"):
        label_usefulness(x, y, x, y[:3], x, y)
    with pytest.raises(ValueError, match="4 real and 3 generated rows"):
        label_usefulness(x, y, x[:3], y[:3], x, y)
