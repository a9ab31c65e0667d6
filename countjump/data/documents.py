"""Wide sparse data sets: words in documents (the paper's section 4.2) and genes in single blood cells.

They are read from the files of a directory; 20 Newsgroups can also be had through scikit-learn, which downloads it once.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from countjump.data.places import ADVICE, data_directory
from countjump.data.rows import as_matrix

NAMES = ("20news-bow", "20news-tfidf", "nips-bow", "nips-tfidf", "pbmc")
FILES = {
    "20news": ("20news_bow.npz", "20news_vocab.txt", "20news_labels.npz"),
    "nips": ("nips1-17_bow.npz", "nips1-17_vocab.txt"),
    "pbmc": ("pbmc_facs_counts.npz", "pbmc_facs_meta.npz"),
}


@dataclass(frozen=True, eq=False)
class Wide:
    """Rows of counts or weights, the columns' names, and the rows' labels where there are any."""

    x: sp.csr_matrix
    """int32 for counts, float64 for TF-IDF."""
    columns: list[str] = field(repr=False)
    """Words or gene symbols."""
    labels: np.ndarray | None
    """Topics or cell types, as places in ``label_names``."""
    label_names: list[str]


def load(name: str, directory: str | Path | None = None) -> Wide:
    """The data set of that name: ``-bow`` are counts of words, ``-tfidf`` their weights, ``pbmc`` counts of genes in cells.

    The directory is one that holds the files, or that of ``COUNTJUMP_DATA``. Without either, 20 Newsgroups comes from
    scikit-learn: the same documents and the same words, the documents in another order.

    >>> load("wikipedia")
    Traceback (most recent call last):
    ...
    ValueError: no data set 'wikipedia': choose one of 20news-bow, 20news-tfidf, nips-bow, nips-tfidf, pbmc
    """
    files = _files(name, directory)
    wide = _download(name) if files is None else _read(files)
    if wide.x.shape[1] != len(wide.columns):
        place = data_directory(directory)
        raise ValueError(f"{name} in {place} has {wide.x.shape[1]} columns and {len(wide.columns)} names for them")
    return replace(wide, x=tfidf(wide.x)) if name.endswith("tfidf") else wide


def require(names: Iterable[str], directory: str | Path | None = None) -> None:
    """Raise FileNotFoundError where :func:`load` would, before anything is read."""
    for name in names:
        _files(name, directory)


def tfidf(counts: sp.csr_matrix) -> sp.csr_matrix:
    """Count / document length × ln(documents / documents with the word); a document without words stays empty.

    >>> tfidf(sp.csr_matrix([[3, 1], [0, 2]])).toarray().round(4)  # ln(2/1) · 3/4; a word of every document weighs 0
    array([[0.5199, 0.    ],
           [0.    , 0.    ]])
    """
    length = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
    documents = np.bincount(counts.indices[counts.data != 0], minlength=counts.shape[1])
    weight = np.log(counts.shape[0] / np.maximum(documents, 1))
    weights = sp.csr_matrix(sp.diags(1 / np.maximum(length, 1)) @ counts @ sp.diags(weight))
    weights.eliminate_zeros()
    return weights


def bag_of_words(texts: Iterable[str]) -> tuple[sp.csr_matrix, list[str]]:
    """Counts of words, and the words in alphabetical order, by the paper's preprocessing.

    English stop words go, and words in less than one text of a thousand or in more than four of five.

    >>> counts, words = bag_of_words(["A naïve jump", "Jump, jump over it", "Counts"])
    >>> words, counts.toarray().tolist()
    (['counts', 'jump', 'naive'], [[0, 1, 1], [0, 2, 0], [1, 0, 0]])
    """
    from sklearn.feature_extraction.text import CountVectorizer  # here, as few who import countjump need it

    vectorizer = CountVectorizer(stop_words="english", strip_accents="ascii", min_df=0.001, max_df=0.8, dtype=np.int32)
    return sp.csr_matrix(vectorizer.fit_transform(texts)), vectorizer.get_feature_names_out().tolist()


def _files(name: str, directory: str | Path | None) -> list[Path] | None:
    """Those of a data set; None where it comes from scikit-learn."""
    if name not in NAMES:
        raise ValueError(f"no data set {name!r}: choose one of {', '.join(NAMES)}")
    corpus, place = name.partition("-")[0], data_directory(directory)
    files = FILES[corpus]
    if place is None and corpus == "20news":
        return None
    if place is None:
        raise FileNotFoundError(f"{name} is read from {' and '.join(files)}, and no directory was given: {ADVICE}")
    for file in files:
        if not (place / file).is_file():
            raise FileNotFoundError(f"{name} needs {file}, and {place} does not hold it: {ADVICE}")
    return [place / file for file in files]


def _download(name: str) -> Wide:
    from sklearn.datasets import fetch_20newsgroups

    try:
        posts = fetch_20newsgroups(subset="all", remove=("headers", "footers", "quotes"))
    except OSError as error:
        raise OSError(f"{name} cannot be downloaded ({error}): {ADVICE}") from error
    return Wide(*bag_of_words(posts.data), posts.target.astype(np.int64), list(posts.target_names))


def _read(files: list[Path]) -> Wide:
    """What the files hold: counts at places of the matrix, and a label for every row, if any has one."""
    try:
        wide = _parse(*files)
        values = wide.x.data
        wide.x.check_format(full_check=True)
        wrong = values[~((values >= 0) & (values == np.floor(values)) & np.isfinite(values))]
        if len(wrong):
            raise ValueError(f"{wrong[0]} is not a count")
        if wide.labels is not None and len(wide.labels) != wide.x.shape[0]:
            raise ValueError(f"{wide.x.shape[0]} rows have {len(wide.labels)} labels")
        return wide
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError) as error:
        names = " or ".join(file.name for file in files)
        raise ValueError(f"{names} in {files[0].parent} is damaged ({error}): copy it again") from error


def _parse(matrix: Path, names: Path, labels: Path | None = None) -> Wide:
    counts = as_matrix(sp.load_npz(matrix))
    if names.suffix == ".npz":
        with np.load(names) as cells:
            types, places = np.unique(cells["celltype"], return_inverse=True)
            return Wide(counts, cells["gene_symbol"].tolist(), places, types.tolist())
    words = names.read_text(encoding="utf-8").splitlines()
    if labels is None:
        return Wide(counts, words, None, [])
    with np.load(labels) as posts:
        return Wide(counts, words, posts["target"].astype(np.int64), posts["target_names"].tolist())
