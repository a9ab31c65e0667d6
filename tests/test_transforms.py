"""Counts behind weights: found where they are, and nowhere else."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.model_selection import cross_val_score

from countjump import JumpModel
from countjump.blocks import SparseReals
from countjump.data.documents import tfidf
from countjump.transforms import Scaling, find

SIZES = ("one", "length", "l1", "l2")


def documents(rows=300, columns=300, seed=0) -> sp.csr_matrix:
    """Documents of one of three topics, most counts of which are one."""
    generator = np.random.default_rng(seed)
    topics = 0.7 * generator.dirichlet(np.full(columns, 0.3), size=3) + 0.3 / columns
    lengths = generator.negative_binomial(2, 0.05, size=rows)
    topic = topics[generator.integers(3, size=rows)]
    return sp.csr_matrix([generator.multinomial(n, p) for n, p in zip(lengths, topic, strict=True)])


def weights(columns=300, size="length") -> Scaling:
    return Scaling(np.random.default_rng(1).lognormal(0, 2, columns), size)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", SIZES)
def test_scaling_and_counts_are_found(size, dtype):
    counts = documents()
    x = weights(size=size).apply(counts).astype(dtype)
    found = find(x)
    again, known = found.counts(x)
    assert found.size == size
    assert known.all()
    np.testing.assert_allclose(found.apply(again).toarray(), x.toarray(), rtol=1e-5 if dtype == np.float32 else 1e-12)
    # Of counts with the same reals, the smallest: where those of a row have no common factor, they are the counts.
    rows = [i for i in range(counts.shape[0]) if np.gcd.reduce(counts[i].data, initial=0) == 1]
    assert len(rows) > 200
    columns = np.gcd.reduce(counts.toarray(), axis=0) == 1
    assert (again[rows][:, columns] != counts[rows][:, columns]).nnz == 0


def test_tf_idf_is_counts_with_weights():
    """count/length · ln(N/document frequency), with a column whose counts are all even and one that is in every document."""
    counts = documents().toarray()
    counts[:, 7] *= 2
    counts[:, 9] += 1
    x = tfidf(sp.csr_matrix(counts))
    found = find(x)
    assert found is None  # the length counts a word that weighs nothing, and is not there
    counts[0, 9] = 0
    x = tfidf(sp.csr_matrix(counts))
    again, known = find(x).counts(x)
    assert known.all()
    np.testing.assert_array_equal(again.toarray(), counts // np.gcd.reduce(counts, axis=1, keepdims=True).clip(1))


def test_scikit_learns_tf_idf_is_counts_with_weights():
    from sklearn.feature_extraction.text import TfidfTransformer

    assert find(TfidfTransformer().fit_transform(documents())).size == "l2"
    assert find(TfidfTransformer(norm=None).fit_transform(documents())).size == "one"
    assert find(TfidfTransformer(sublinear_tf=True).fit_transform(documents())) is None


def test_reals_are_not_counts():
    counts = documents()
    assert find(sp.csr_matrix((np.random.default_rng(0).random(counts.nnz), counts.indices, counts.indptr))) is None
    assert find(sp.csr_matrix((5, 5))) is None
    assert find(sp.eye(50, format="csr") * 0.3) is None  # one entry a row is whatever one likes
    x = weights().apply(counts).tolil()
    x[3, 5] = 0.123456
    assert find(sp.csr_matrix(x)) is None


@pytest.mark.parametrize("ones", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("size", SIZES)
def test_what_is_found_is_right_and_nothing_else_happens(size, ones):
    """Also where too few counts are one for them to be found; the more are one, the more kinds of sizes are."""
    rng = np.random.default_rng(3)
    x = sp.random(400, 300, 0.05, random_state=0, format="csr")
    x.data = np.where(rng.random(x.nnz) < ones, 1.0, rng.integers(2, 5, x.nnz))
    true, x = x, weights(size=size).apply(x)
    found = find(x)
    assert (found is not None) == (ones >= {"one": 0.6, "length": 0.6, "l2": 0.8}.get(size, 1.0))
    if found is not None:
        counts, known = found.counts(x)
        assert known.all()
        np.testing.assert_allclose(found.apply(counts).data, x.data)
        np.testing.assert_array_equal(counts.data, true.data)


def test_the_same_numbers_with_fewer_digits_have_the_same_counts():
    scaling, counts = weights(size="l2"), documents()
    found, known = scaling.counts(scaling.apply(counts).astype(np.float32))
    assert known.all()
    np.testing.assert_array_equal(found.toarray(), counts.toarray())


def test_weights_of_columns_that_come_once_are_amounts():
    """Counts that are all one tell nothing that the places do not."""
    there = (documents() > 0).astype(float)
    weighted = sp.csr_matrix(there @ sp.diags(np.random.default_rng(0).lognormal(size=there.shape[1])))
    assert find(weighted) is not None
    model = JumpModel(max_updates=2, width=16, batch_size=16, random_state=0, progress=False).fit(weighted)
    assert model.scaling_ is None
    assert any(isinstance(part, SparseReals) for part in (model.block_, *getattr(model.block_, "parts", ())))


def test_a_row_whose_smallest_count_is_large_is_found():
    counts = documents().toarray()
    counts[5] = 0
    counts[5, :4] = 67, 71, 73, 79
    x = weights().apply(sp.csr_matrix(counts))
    assert find(x).counts(x)[0][[5]].data.tolist() == [67, 71, 73, 79]


def test_a_large_matrix_of_reals_is_refused_by_some_of_its_rows(monkeypatch):
    import countjump.transforms as transforms

    monkeypatch.setattr(transforms, "FIRST_ENTRIES", 4000)
    seen, guess = [], transforms._Fit.guess
    monkeypatch.setattr(transforms._Fit, "guess", lambda self: seen.append(self.shape[0]) or guess(self))
    counts = documents()
    assert counts.nnz > 8000
    reals = sp.csr_matrix((np.random.default_rng(0).random(counts.nnz), counts.indices, counts.indptr))
    assert find(reals) is None
    assert len(seen) == 1
    assert seen[0] < 150
    assert find(weights().apply(counts)).size == "length"
    assert seen[-1] == 300


def test_a_row_that_is_not_of_counts_is_known():
    x = weights().apply(documents())
    x.data[:3] *= 1.01
    _, known = weights().counts(x)
    assert not known[0]
    assert known[1:].all()


def test_an_unknown_size_is_refused():
    with pytest.raises(ValueError, match="size='l7' is unknown"):
        Scaling(np.ones(2), "l7")


@pytest.fixture(scope="module")
def fitted():
    x = weights().apply(documents())
    return x, JumpModel(max_updates=30, width=16, random_state=0, progress=False).fit(x)


def test_a_model_of_weighted_counts_draws_weighted_counts(fitted):
    x, model = fitted
    assert model.domain_.name == "count"
    assert "over the row's sum" in model.choices_["scaling"]
    drawn = model.sample(200, random_state=0)
    assert drawn.dtype == x.dtype
    assert sp.issparse(drawn)
    counts, known = weights().counts(drawn)
    assert known.all()
    assert counts.nnz > 200


def test_a_model_of_weighted_counts_is_saved_and_scores(fitted, tmp_path):
    x, model = fitted
    model.save(tmp_path)
    again = JumpModel.load(tmp_path)
    assert (again.sample(20, random_state=1) != model.sample(20, random_state=1)).nnz == 0
    other = x[:4].copy()
    other.data[: other.indptr[1]] *= np.linspace(1, 2, other.indptr[1])
    scores = again.score_samples(other, steps=5)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(again.score_samples(x[:4], steps=5), model.score_samples(x[:4], steps=5))


def test_rows_that_are_not_of_the_form_escape_to_counts_that_are_near(fitted):
    x, _ = fitted
    scaling = find(x)
    strange = x[:2].copy()
    strange.data[: strange.indptr[1]] *= np.linspace(1, 1.2, strange.indptr[1])
    counts, mass = scaling.admit(strange)
    assert (counts.data == np.rint(counts.data)).all()
    assert (counts.data > 0).all()
    first = slice(0, strange.indptr[1])
    near = scaling.apply(counts).data[first]
    law = stats.cauchy.logpdf(np.log(strange.data[first] / near)) - np.log(strange.data[first])
    rows = x.shape[0]
    np.testing.assert_allclose(mass, [law.sum() - np.log(rows + 1), np.log(rows / (rows + 1))])


def test_cross_validation_of_tf_idf_is_finite():
    x = weights().apply(documents())
    model = JumpModel(max_updates=2, width=8, random_state=0, progress=False)
    assert np.isfinite(cross_val_score(model, x, cv=3)).all()


def test_scalings_are_not_looked_for_where_the_domain_is_given(fitted):
    x, _ = fitted
    model = JumpModel(domain="non-negative", max_updates=2, width=8, random_state=0, progress=False).fit(x)
    assert model.scaling_ is None
    assert model.domain_.name == "non-negative"


def test_dense_weighted_counts_come_back_dense(fitted):
    x, _ = fitted
    model = JumpModel(max_updates=2, width=8, random_state=0, progress=False).fit(x.toarray())
    assert model.scaling_ is not None
    assert isinstance(model.sample(3, random_state=0), np.ndarray)
