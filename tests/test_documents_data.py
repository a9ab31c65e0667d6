"""Wide data sets: what the files hold, TF-IDF against its formula, and the paper's preprocessing."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.utils import Bunch

from countjump.data import bag_of_words, data_directory, load, require, tfidf
from countjump.data.documents import FILES, NAMES

DATA = Path(os.environ.get("COUNTJUMP_DATA", Path(__file__).parents[2] / "shared" / "data"))


def at_hand(name):
    for file in FILES[name.partition("-")[0]]:
        if not (DATA / file).exists():
            pytest.skip(f"no {DATA / file}: set COUNTJUMP_DATA to the directory that holds it")
    return load(name, DATA)


@pytest.mark.parametrize(
    ("name", "shape", "nonzeros", "labels"),
    [
        ("20news-bow", (18_846, 8_934), 938_947, 20),
        ("nips-bow", (2_483, 14_036), 1_304_438, 0),
        ("pbmc", (3_774, 16_791), 2_702_861, 10),
    ],
)
def test_the_counts_are_those_of_the_readme(name, shape, nonzeros, labels):
    wide = at_hand(name)
    assert wide.x.shape == shape
    assert wide.x.nnz == wide.x.count_nonzero() == nonzeros
    assert (sp.isspmatrix_csr(wide.x), wide.x.dtype, len(wide.columns)) == (True, np.int32, shape[1])
    assert len(wide.label_names) == labels
    if labels:
        assert wide.labels.shape == (shape[0],)
        assert sorted(set(wide.labels)) == list(range(labels))
    else:
        assert wide.labels is None


@pytest.mark.parametrize(("corpus", "l1"), [("20news", 4.1622), ("nips", 1.9452)])
def test_tfidf_of_the_corpora_has_the_known_size_and_the_same_zeros(corpus, l1):
    """FINDINGS section 5: with λ = 10,000 a row has 41,622 or 19,452 tokens."""
    counts, weights = at_hand(f"{corpus}-bow"), at_hand(f"{corpus}-tfidf")
    assert weights.x.dtype == np.float64
    assert weights.columns == counts.columns
    assert weights.x.sum(axis=1).mean() == pytest.approx(l1, rel=1e-4)
    np.testing.assert_array_equal(weights.x.indices, counts.x.indices)
    np.testing.assert_array_equal(weights.x.indptr, counts.x.indptr)
    assert (weights.x.data > 0).all()


def test_a_cell_type_is_told_by_its_marker_gene():
    """Rows, labels and gene symbols are in one order: each gene is most expressed in its cells."""
    wide = at_hand("pbmc")
    for gene, cell_type in [("CD79A", "CD19+ B"), ("NKG7", "CD56+ NK"), ("CD14", "CD14+ Monocyte")]:
        counts = wide.x[:, wide.columns.index(gene)].toarray().ravel()
        means = [counts[wide.labels == label].mean() for label in range(len(wide.label_names))]
        assert wide.label_names[np.argmax(means)] == cell_type


def test_a_topic_is_told_by_its_word():
    wide = at_hand("20news-bow")
    for word, topic in [("hockey", "rec.sport.hockey"), ("encryption", "sci.crypt"), ("bike", "rec.motorcycles")]:
        counts = wide.x[:, wide.columns.index(word)].toarray().ravel()
        totals = np.bincount(wide.labels, counts)
        assert wide.label_names[np.argmax(totals)] == topic


def test_the_words_of_20news_are_what_bag_of_words_would_keep_in_its_order():
    wide = at_hand("20news-bow")
    assert wide.columns == sorted(set(wide.columns))
    assert all(re.fullmatch(r"\w\w+", word, re.ASCII) and word == word.lower() for word in wide.columns)
    assert not set(wide.columns) & ENGLISH_STOP_WORDS
    documents = wide.x.getnnz(axis=0)
    assert documents.min() == np.ceil(0.001 * wide.x.shape[0])
    assert documents.max() <= 0.8 * wide.x.shape[0]


def test_tfidf_is_its_formula():
    counts = np.random.default_rng(0).poisson(0.4, size=(30, 12))
    counts[4] = 0
    counts[:, 0] = np.arange(30) != 4
    expected = np.zeros(counts.shape)
    for row, column in zip(*np.nonzero(counts), strict=True):
        documents = (counts[:, column] > 0).sum()
        expected[row, column] = counts[row, column] / counts[row].sum() * np.log(30 / documents)
    weights = tfidf(sp.csr_matrix(counts))
    np.testing.assert_allclose(weights.toarray(), expected, rtol=1e-12)
    assert weights[4].nnz == 0


def test_bag_of_words_keeps_what_the_paper_keeps():
    rows = np.arange(1001)
    there = {
        "Café": rows % 2 == 1,
        "42": rows % 2 == 0,
        "the x": rows >= 500,  # a stop word, and too short
        "common": rows <= 800,  # in more than four texts of five
        "usual": rows < 800,
        "zebra Zebra": (rows == 5) | (rows == 9),
        "unique": rows == 5,  # in less than one of a thousand
    }
    assert not {"usual", "common", "unique", "zebra"} & ENGLISH_STOP_WORDS
    counts, words = bag_of_words(" ".join(word for word in there if there[word][row]) for row in rows)
    assert words == ["42", "cafe", "usual", "zebra"]
    assert counts.dtype == np.int32
    assert counts[9].toarray().tolist() == [[0, 1, 1, 2]]
    assert counts[1000].toarray().tolist() == [[1, 0, 0, 0]]


def test_without_a_directory_20news_comes_from_scikit_learn_without_headers_footers_and_quotes(monkeypatch):
    asked = {}

    def fetch(**options):
        asked.update(options)
        texts = ["counts jump", "jump", "", "zeros", "zeros stay"]
        return Bunch(data=texts, target=np.array([0, 0, 1, 1, 1]), target_names=["a", "b"])

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", fetch)
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    wide = load("20news-bow")
    assert asked == {"subset": "all", "remove": ("headers", "footers", "quotes")}
    assert wide.columns == ["counts", "jump", "stay", "zeros"]
    assert wide.x.sum(axis=1).ravel().tolist() == [[2, 1, 0, 1, 2]]
    assert (wide.labels.tolist(), wide.label_names) == ([0, 0, 1, 1, 1], ["a", "b"])
    np.testing.assert_array_equal(load("20news-tfidf").x.toarray(), tfidf(wide.x).toarray())


def test_the_directory_is_the_given_one_before_that_of_the_environment(monkeypatch):
    monkeypatch.setenv("COUNTJUMP_DATA", "/there")
    assert data_directory(Path("/here")) == Path("/here")
    assert data_directory() == Path("/there")
    monkeypatch.setenv("COUNTJUMP_DATA", "")
    assert data_directory() is None


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named_and_nothing_is_fetched_instead(name, tmp_path):
    with pytest.raises(
        FileNotFoundError, match=rf"{name} needs .*\.npz, and {tmp_path} does not.*--data DIR.*COUNTJUMP"
    ):
        load(name, tmp_path)


def test_without_a_directory_the_others_say_which_files_they_need(monkeypatch):
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"pbmc_facs_counts.npz and pbmc_facs_meta.npz.*--data DIR"):
        load("pbmc")


def test_words_that_do_not_fit_the_counts_are_refused(tmp_path):
    sp.save_npz(tmp_path / "nips1-17_bow.npz", sp.csr_matrix(np.eye(3, dtype=np.int32)))
    (tmp_path / "nips1-17_vocab.txt").write_text("one\ntwo\n")
    with pytest.raises(ValueError, match="3 columns and 2 names"):
        load("nips-bow", tmp_path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda x: x.data.__setitem__(2, -1), "-1.0 is not a count"),
        (lambda x: x.data.__setitem__(2, np.nan), "nan is not a count"),
        (lambda x: x.data.__setitem__(2, 0.5), "0.5 is not a count"),
        (lambda x: x.indices.__setitem__(2, 7), "indices"),
    ],
)
def test_what_no_counts_can_be_is_refused(damage, said, tmp_path):
    x = sp.csr_matrix(np.eye(3))
    damage(x)
    sp.save_npz(tmp_path / "nips1-17_bow.npz", x)
    (tmp_path / "nips1-17_vocab.txt").write_text("one\ntwo\nthree\n")
    with pytest.raises(ValueError, match=rf"nips1-17_bow.npz .* is damaged \(.*{said}.*: copy it again"):
        load("nips-bow", tmp_path)


def test_rows_without_labels_are_refused(tmp_path):
    sp.save_npz(tmp_path / "20news_bow.npz", sp.csr_matrix(np.eye(3, dtype=np.int32)))
    (tmp_path / "20news_vocab.txt").write_text("one\ntwo\nthree\n")
    np.savez(tmp_path / "20news_labels.npz", target=np.zeros(2), target_names=np.array(["a"]))
    with pytest.raises(ValueError, match="3 rows have 2 labels"):
        load("20news-tfidf", tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_looked_for_before_they_are_read(name, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=rf"{name} needs .*\.npz, and {tmp_path} does not"):
        require([name], tmp_path)
    for file in FILES[name.partition("-")[0]]:
        (tmp_path / file).write_text("anything")
    require([name], tmp_path)
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    require(["20news-bow"])  # scikit-learn has it


def test_a_damaged_file_is_named(tmp_path):
    for file in FILES["nips"]:
        (tmp_path / file).write_text("no such thing")
    with pytest.raises(ValueError, match=r"nips1-17_bow.npz .* is damaged .*: copy it again"):
        load("nips-bow", tmp_path)
