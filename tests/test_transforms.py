"""Counts behind weights: found where they are, and nowhere else."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import cross_val_score

from countjump import JumpModel, persistence
from countjump.blocks import SparseReals
from countjump.data.documents import tfidf
from countjump.transforms import Weights, find, finding

NORMS = (None, "length", "l1", "l2")
DATA = Path(os.environ.get("COUNTJUMP_DATA", Path(__file__).parents[2] / "shared" / "data"))


def documents(rows=300, columns=300, seed=0) -> sp.csr_matrix:
    """Documents of one of three topics, most counts of which are one."""
    generator = np.random.default_rng(seed)
    topics = 0.7 * generator.dirichlet(np.full(columns, 0.3), size=3) + 0.3 / columns
    lengths = generator.negative_binomial(2, 0.05, size=rows)
    topic = topics[generator.integers(3, size=rows)]
    return sp.csr_matrix([generator.multinomial(n, p) for n, p in zip(lengths, topic, strict=True)])


def weights(columns=300, norm="length", sublinear=False) -> Weights:
    return Weights(np.random.default_rng(1).lognormal(0, 2, columns), norm, sublinear)


def halves(counts, **options) -> sp.csr_matrix:
    """The second half, weighted by the document frequencies of the first."""
    half = counts.shape[0] // 2
    return TfidfTransformer(**options).fit(counts[:half]).transform(counts[half:])


def per(total, counts) -> sp.csr_matrix:
    """Counts per so many."""
    return sp.csr_matrix(sp.diags(total / np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)) @ counts)


TFIDF = {
    f"{norm} sublinear={sublinear} {'smooth' if smooth else 'not smooth'}": (
        lambda counts, o={"norm": norm, "sublinear_tf": sublinear, "smooth_idf": smooth}: TfidfTransformer(
            **o
        ).fit_transform(counts),
        norm,
        sublinear,
    )
    for norm in ("l2", "l1", None)
    for sublinear in (False, True)
    for smooth in (True, False)
}
OTHER_ROWS = {
    f"{norm} sublinear={sublinear} of other rows": (
        lambda counts, o={"norm": norm, "sublinear_tf": sublinear}: halves(counts, **o),
        norm,
        sublinear,
    )
    for norm in ("l2", "l1", None)
    for sublinear in (False, True)
}
PER = {
    "per million": (lambda counts: per(1e6, counts), "length", False),
    "per ten thousand": (lambda counts: per(1e4, counts), "length", False),
    "log1p per ten thousand": (lambda counts: per(1e4, counts).log1p(), "length", False),
    "over the length": (tfidf, "length", False),
}
FORMS = TFIDF | OTHER_ROWS | PER


def reduced(counts: sp.csr_matrix) -> sp.csr_matrix:
    """Rows without common factors."""
    counts = sp.csr_matrix(counts)
    common = [np.gcd.reduce(row.data.astype(int), initial=0) for row in counts]
    return sp.csr_matrix(sp.diags(1 / np.maximum(common, 1)) @ counts)


def rows_alike(one: sp.csr_matrix, other: sp.csr_matrix) -> float:
    """The share of rows that are the same."""
    return 1 - len(np.unique((sp.csr_matrix(one) != sp.csr_matrix(other)).nonzero()[0])) / one.shape[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("norm", "sublinear"), [(norm, s) for norm in NORMS for s in (False, True) if not (s and norm == "length")]
)
def test_weights_and_counts_are_found(norm, sublinear, dtype):
    """Weights that nobody knows."""
    counts = documents()
    x = weights(norm=norm, sublinear=sublinear).apply(counts).astype(dtype)
    found, said = find(x)
    again, known = found.counts(x)
    assert (found.norm, found.sublinear) == (norm, sublinear)
    assert said == str(found)
    assert known.all()
    np.testing.assert_allclose(found.apply(again).toarray(), x.toarray(), rtol=1e-6 if dtype == np.float32 else 1e-12)
    # Of counts with the same reals, the smallest: where those of a row have no common factor, they are the counts.
    rows = [i for i in range(counts.shape[0]) if np.gcd.reduce(counts[i].data, initial=0) == 1]
    assert len(rows) > 200
    columns = np.gcd.reduce(counts.toarray(), axis=0) == 1
    assert rows_alike(again[rows][:, columns], counts[rows][:, columns]) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", FORMS)
def test_usual_forms_are_found_and_undone(form, dtype):
    make, norm, sublinear = FORMS[form]
    counts = documents()
    x = sp.csr_matrix(make(counts)).astype(dtype)
    found, said = find(x)
    assert found is not None, said
    assert (found.norm, found.sublinear, found.log1p) == (norm, sublinear, "log1p" in form)
    again, known = found.counts(x)
    assert known.all()
    np.testing.assert_allclose(found.apply(again).toarray(), x.toarray(), rtol=2e-6 if dtype == np.float32 else 1e-12)
    counts = counts[counts.shape[0] - x.shape[0] :]
    whole = counts if sublinear or norm is None else reduced(counts)
    assert rows_alike(again, whole) > (0.9 if "other rows" in form else 0.99)
    if "other rows" not in form:
        assert "a weight is ln(" in said or "is a weight times" in said


def news() -> list[sp.csr_matrix]:
    """Eight subsets of 20 Newsgroups: of four sizes, and four groups; words that come three times at least."""
    if not (DATA / "20news_bow.npz").exists():
        pytest.skip(f"no {DATA / '20news_bow.npz'}: set COUNTJUMP_DATA to the directory that holds it")
    counts, group = sp.csr_matrix(sp.load_npz(DATA / "20news_bow.npz")), np.load(DATA / "20news_labels.npz")["target"]
    generator = np.random.default_rng(0)
    rows = [generator.choice(counts.shape[0], size, replace=False) for size in (500, 1000, 2000, 4000)]
    rows += [np.flatnonzero(group == each) for each in (0, 5, 10, 15)]
    return [sp.csr_matrix(counts[each][:, np.asarray(counts[each].sum(axis=0)).ravel() >= 3]) for each in rows]


@pytest.mark.parametrize("form", FORMS)
def test_usual_forms_of_real_documents_are_found_and_undone(form):
    make, norm, sublinear = FORMS[form]
    for k, counts in enumerate(news()):
        x = sp.csr_matrix(make(counts)).astype(np.float32 if k % 2 else np.float64)
        found, said = find(x)
        assert found is not None, said
        assert (found.norm, found.sublinear, found.log1p) == (norm, sublinear, "log1p" in form)
        again, known = found.counts(x)
        assert known.all()
        np.testing.assert_allclose(found.apply(again).data, x.data, rtol=2e-6 if k % 2 else 1e-12)
        counts = counts[counts.shape[0] - x.shape[0] :]
        whole = counts if sublinear or norm is None else reduced(counts)
        assert rows_alike(again, whole) > (0.88 if "other rows" in form else 0.998)


def test_a_column_that_weighs_nothing_is_counted():
    """count/length · ln(N/document frequency), with a column whose counts are all even and one that is in every document."""
    counts = documents().toarray()
    counts[:, 7] *= 2
    counts[:, 9] += 1
    x = tfidf(sp.csr_matrix(counts))
    assert x[:, [9]].nnz == 0
    found, _ = find(x)
    again, known = found.counts(x)
    assert known.all()
    weightless = np.flatnonzero(found.weights == 0)
    assert weightless.tolist() == [9]
    # A row of this word alone is a row of zeros.
    seen = counts.copy()
    seen[np.delete(counts, 9, axis=1).sum(axis=1) == 0] = 0
    np.testing.assert_array_equal(again.toarray(), reduced(sp.csr_matrix(seen)).toarray())
    np.testing.assert_allclose(found.apply(again).toarray(), x.toarray(), rtol=1e-12)


def test_reals_are_not_counts():
    counts, rng = documents(), np.random.default_rng(0)

    def at_the_same_places(values):
        return sp.csr_matrix((values, counts.indices, counts.indptr), counts.shape)

    embeddings = np.maximum(rng.normal(size=(400, 300)), 0)
    for reals in (
        at_the_same_places(rng.random(counts.nnz)),
        at_the_same_places(rng.lognormal(size=counts.nnz)),
        at_the_same_places(rng.gamma(0.5, size=counts.nnz) + 1e-9),
        sp.csr_matrix(embeddings),
        sp.csr_matrix(embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)),
        sp.random(2000, 300, 0.01, random_state=0, format="csr"),
    ):
        for dtype in (np.float64, np.float32):
            found, said = find(reals.astype(dtype))
            assert found is None
            assert "found none: " in said
            assert "% of the entries are not whole multiples" in said


def test_what_is_absent_is_said():
    assert "a matrix of 0 entries" in find(sp.csr_matrix((5, 5)))[1]
    assert "a matrix of 0 entries" in find(sp.csr_matrix((np.zeros(2), ([0, 1], [2, 3])), (5, 5)))[1]
    assert "too few entries" in find(sp.eye(50, format="csr") * 0.3)[1]  # one entry a row is whatever one likes
    x = weights().apply(documents()).tolil()
    x[3, 5] = 0.123456
    found, said = find(sp.csr_matrix(x))
    assert found is None
    assert "% of the entries are not whole multiples" in said
    extreme = sp.csr_matrix(np.random.default_rng(0).choice([0.0, 1.1e-300, 3e-300, 1.7e300], size=(50, 20)))
    assert find(extreme)[0] is None
    chosen = per(1e4, documents())[:, :150]  # the lengths are of words that are no longer there
    found, said = find(sp.csr_matrix(chosen))
    assert found is None
    assert "what the rows were divided by does not follow" in said
    rounded = sp.random(400, 300, 0.05, random_state=0, format="csr")
    rounded.data = rounded.data.round(4) + 1e-4
    found, said = find(rounded)
    assert found is None
    assert "reals with few digits" in said


@pytest.mark.parametrize("ones", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("norm", NORMS)
def test_counts_of_which_few_are_one_are_found(norm, ones):
    rng = np.random.default_rng(3)
    x = sp.random(400, 300, 0.05, random_state=0, format="csr")
    x.data = np.where(rng.random(x.nnz) < ones, 1.0, rng.integers(2, 5, x.nnz))
    true, x = x, weights(norm=norm).apply(x)
    found, said = find(x)
    assert found is not None or (ones < 0.5 and norm == "length"), said
    if found is not None:
        counts, known = found.counts(x)
        assert known.all()
        np.testing.assert_allclose(found.apply(counts).data, x.data)
        assert ones < 0.5 or rows_alike(counts, true if norm is None else reduced(true)) > 0.99


def test_the_same_numbers_with_fewer_digits_have_the_same_counts():
    scaling, counts = weights(norm="l2"), documents()
    found, known = scaling.counts(scaling.apply(counts).astype(np.float32))
    assert known.all()
    np.testing.assert_array_equal(found.toarray(), counts.toarray())


def test_weights_of_columns_that_come_once_are_amounts():
    """Counts that are all one tell nothing that the places do not."""
    there = (documents() > 0).astype(float)
    weighted = sp.csr_matrix(there @ sp.diags(np.random.default_rng(0).lognormal(size=there.shape[1])))
    assert find(weighted)[0] is not None
    model = JumpModel(max_updates=2, width=16, batch_size=16, random_state=0, progress=False).fit(weighted)
    assert model.scaling_ is None
    assert "every count is one" in model.choices_["scaling"]
    assert any(isinstance(part, SparseReals) for part in (model.block_, *getattr(model.block_, "parts", ())))


def test_a_row_whose_smallest_count_is_large_is_found():
    counts = documents().toarray()
    counts[5] = 0
    counts[5, :4] = 67, 71, 73, 79
    x = weights().apply(sp.csr_matrix(counts))
    assert find(x)[0].counts(x)[0][[5]].data.tolist() == [67, 71, 73, 79]


def test_a_large_matrix_of_reals_is_refused_by_some_of_its_rows(monkeypatch):
    monkeypatch.setattr(finding, "FIRST_ENTRIES", 4000)
    seen, spread = [], finding._Fit.spread
    monkeypatch.setattr(finding._Fit, "spread", lambda self: seen.append(len(self.row)) or spread(self))
    counts = documents()
    assert counts.nnz > 8000
    reals = sp.csr_matrix((np.random.default_rng(0).random(counts.nnz), counts.indices, counts.indptr))
    assert find(reals)[0] is None
    assert max(seen) <= 4000
    assert find(weights().apply(counts))[0].norm == "length"
    assert seen[-1] == counts.nnz


def test_a_row_that_is_not_of_counts_is_known():
    x = weights().apply(documents())
    x.data[:3] *= 1.01
    _, known = weights().counts(x)
    assert not known[0]
    assert known[1:].all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": np.ones(2), "norm": "l7"}, "norm='l7' is unknown"),
        ({"weights": np.ones((2, 2))}, "one for each column"),
        ({"weights": [1.0, -1.0]}, "not negative"),
        ({"weights": [0.0, 0.0]}, "one of them positive"),
        ({"weights": [1.0, np.nan]}, "finite"),
        ({"weights": 1.0, "gain": 0.0}, "gain=0.0 must be a positive number"),
        ({"weights": 1.0, "norm": "length", "sublinear": True}, "a length is a sum of counts"),
    ],
)
def test_wrong_weights_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Weights(**options)


def test_declared_weights():
    """Those of a vectoriser, that saw other rows."""
    counts = documents()
    for sublinear in (False, True):
        transformer = TfidfTransformer(sublinear_tf=sublinear).fit(counts[:150])
        declared = Weights(transformer.idf_, norm="l2", sublinear=sublinear)
        x = transformer.transform(counts[150:])
        again = declared.exact_counts(x)
        assert rows_alike(again, counts[150:] if sublinear else reduced(counts[150:])) > 0.98
        np.testing.assert_allclose(declared.apply(again).data, x.data, rtol=1e-12)
        np.testing.assert_array_equal(declared.admit(x)[1], 0)
        x.data[: x.indptr[1]] *= np.linspace(1, 1.2, x.indptr[1])
        with pytest.raises(ValueError, match="row 0 is not of the declared form: every value is its column's weight"):
            declared.exact_counts(x)
        mass = declared.admit(x)[1]
        assert mass[0] == -np.inf
        assert not mass[1:].any()
    with pytest.raises(ValueError, match="300 weights for 299 columns"):
        declared.counts(x[:, 1:])


def test_weights_are_described_by_plain_values():
    declared = weights(norm="l2", sublinear=True)
    described = {name: persistence.decode(persistence.encode(value)) for name, value in declared.described().items()}
    again, x = Weights(declared.weights, **described), declared.apply(documents())
    assert (again.apply(documents()) != x).nnz == 0
    assert again.described() == declared.described()


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


def test_one_weight_for_all_is_saved(tmp_path):
    x = per(1e4, documents()).log1p()
    model = JumpModel(max_updates=2, width=8, random_state=0, progress=False).fit(x)
    assert model.scaling_.weights.shape == ()
    model.save(tmp_path)
    again = JumpModel.load(tmp_path)
    assert (again.sample(20, random_state=1) != model.sample(20, random_state=1)).nnz == 0
    assert again.choices_["scaling"] == model.choices_["scaling"]
    np.testing.assert_allclose(np.expm1(again.sample(20, random_state=1).toarray()).sum(axis=1), 1e4)


def test_what_is_not_found_is_among_the_choices():
    reals = sp.random(200, 300, 0.05, random_state=0, format="csr")
    model = JumpModel(max_updates=2, width=8, random_state=0, progress=False).fit(reals)
    assert model.scaling_ is None
    assert "looked for counts behind weights, and found none" in model.choices_["scaling"]


def test_a_sparse_matrix_of_few_columns_is_looked_at_too():
    x = TfidfTransformer().fit_transform(documents(columns=80))
    narrow = JumpModel(max_updates=2, width=8, random_state=0, progress=False)
    model = narrow.fit(x[x.sum(axis=1).A1 > 0])
    assert model.scaling_.norm == "l2"
    drawn = model.sample(50, steps=5, random_state=0)
    lengths = np.sqrt(drawn.multiply(drawn).sum(axis=1).A1)
    assert (np.isclose(lengths, 1) | (lengths == 0)).all()
    assert narrow.fit(x.toarray()).scaling_ is None, "a dense table is looked at column by column"


def test_a_value_where_nothing_weighs_escapes():
    found = Weights([1.0, 2.0, 0.0], norm="length", rows=9)
    counts, mass = found.admit(sp.csr_matrix([[0.5, 0.5, 0.0], [0.5, 0.0, 0.3]]))
    np.testing.assert_array_equal(counts.toarray()[0], [2, 1, 1])  # 1/2 and 1/4 of the row: 1/4 is not seen
    assert np.isfinite(mass).all()
    assert mass[0] == pytest.approx(np.log(0.9))
    declared = Weights([1.0, 2.0, 0.0], norm="length")
    np.testing.assert_array_equal(declared.admit(sp.csr_matrix([[0.5, 0.5, 0.0], [0.5, 0.0, 0.3]]))[1], [0, -np.inf])


def test_a_row_is_read_without_regard_to_the_others(fitted):
    x, _ = fitted
    found, _ = find(x)
    strange = sp.vstack([x[:3], 1e6 * x[3:5] + x[5:7]], format="csr")
    together, mass = found.admit(strange)
    for i in range(5):
        alone, own = found.admit(strange[i])
        assert (alone != together[i]).nnz == 0
        assert own[0] == mass[i]


def test_rows_that_are_not_of_the_form_escape_to_counts_that_are_near(fitted):
    x, _ = fitted
    scaling, _ = find(x)
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
    model = JumpModel(max_updates=2, width=8, random_state=0, progress=False)
    for x in (weights().apply(documents()), TfidfTransformer(sublinear_tf=True).fit_transform(documents())):
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
