"""Table 2 of the paper, and single cells: wide sparse rows by five methods, every metric beside what fresh real rows score."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.decomposition import LatentDirichletAllocation

from countjump import metrics
from countjump.data import Wide, data_directory, load, tfidf
from countjump.experiments import runner
from countjump.experiments.runner import PAPER, Cell, Experiment, Record, markdown, mean_of, plus_minus
from countjump.metrics import row_sparsity, row_totals, w1
from countjump.report import comparisons
from countjump.report.page import render

METHODS = ("jump", "jump-paper", "ddpm", "lda", "columns")
UNITS = {"%": 100.0, "‰": 1000.0}
BINS = 100
EXAMPLES, WORDS = 5, 12

LEAST_ROWS = 20
"""Rows of a set, so that halves of it can be compared."""

AUC_ROWS = 2048
"""Rows a side of the two-sample classifier, at most: the more, the better it tells them apart."""


class Documents(Experiment):
    """Section 4.2.

    The paper's methods fill every entry of a block of rows at every step: fewer of their rows are drawn, and compared with as many.
    """

    name = "documents"
    methods = METHODS
    reads_data = True

    def fixed(self, record: Record) -> Record:
        # Groups of another size, and other data, have another floor; shorter fits are other models.
        compare = min(record.get("rows", 0) // 2, self._compare(record["method"]))
        return {"compare": compare, "splits": self.settings["splits"], **self._said(record["method"])}

    def _said(self, method: str) -> Record:
        """What records of some presets and methods hold; None of the others."""
        updates = self.settings.get("updates") if method == "jump" else None
        return {"made": "made" in self.settings or None, "max_updates": updates}

    def _compare(self, method: str) -> int:
        """The most rows a side."""
        return self.settings["compare_dense" if method in PAPER else "compare"]

    def rows(self, cell: Cell, seed: int) -> sp.csr_matrix:
        return self._yardstick(cell).wide.x

    def size(self, cell: Cell) -> int:
        return self._yardstick(cell).rows

    def _yardstick(self, cell: Cell) -> Yardstick:
        made, place = tuple(self.settings.get("made", ())), data_directory(self.settings.get("data"))
        splits = (self.settings[name] for name in ("splits", "slow_splits"))
        outlier = self.recipe["sets"][cell.dataset].get("outlier", False)
        return _yardstick(cell.dataset, made, place, self._compare(cell.method), *splits, outlier)

    def measure(self, cell: Cell, x: sp.csr_matrix, y: sp.csr_matrix, seed: int) -> Record:
        real = self._yardstick(cell)
        return {
            **{"rows": x.shape[0], "columns": x.shape[1], "compare": real.rows, "draws": y.shape[0] // real.rows},
            **{name: self.settings[name] for name in ("splits", "slow_splits")},
            **{name: value for name, value in self._said(cell.method).items() if value is not None},
            **real.measure(y),
            "histograms": real.histograms(y),
            "examples": top_words(y, real.wide.columns, seed),
            "examples_real": top_words(x, real.wide.columns, 0),
        }

    def model(self, cell: Cell, x: sp.csr_matrix, seed: int, checkpoint: Path | None = None) -> Any:
        if cell.method == "lda":
            return TopicModel(self.settings["topics"], seed)
        return ColumnBootstrap() if cell.method == "columns" else super().model(cell, x, seed, checkpoint)

    def pages(self, records: list[Record]) -> dict[str, str | Figure]:
        sets = self.recipe["sets"]
        shown = _with_most_steps(records, sets)
        return {
            "table.md": table(records, sets),
            "examples.md": examples(records, sets),
            "sparsity_totals.png": comparisons.row_sizes(shown),
            "joint.png": comparisons.joint_structure(shown),
        }


# The simple methods.


class TopicModel:
    """Documents of latent Dirichlet allocation (scikit-learn's), with random real documents' lengths and topic mixtures.

    >>> x = sp.csr_matrix([[2, 1, 0], [0, 0, 3]])
    >>> row_totals(TopicModel(2, seed=0).fit(x).sample(4, random_state=0)).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """

    def __init__(self, topics: int, seed: int) -> None:
        self.law = LatentDirichletAllocation(topics, learning_method="online", random_state=seed)

    def fit(self, x: sp.csr_matrix) -> Self:
        self.x, self.history_ = x, [{"update": self.law.fit(x).n_batch_iter_ - 1}]
        return self

    def sample(self, rows: int, steps: int = 0, random_state: int = 0) -> sp.csr_matrix:
        """So many documents: the tokens of a document fall on topics, those of a topic on words."""
        rng = np.random.default_rng(random_state)
        like = self.x[rng.integers(self.x.shape[0], size=rows)]
        tokens = rng.multinomial(row_totals(like).astype(np.int64), self.law.transform(like))
        words = self.law.components_ / self.law.components_.sum(axis=1, keepdims=True)
        row = [np.repeat(np.arange(rows), count) for count in tokens.T]
        column = [rng.choice(len(law), len(r), p=law) for law, r in zip(words, row, strict=True)]
        place = np.concatenate(row), np.concatenate(column)
        return sp.csr_matrix((np.ones(len(place[0]), self.x.dtype), place), shape=(rows, self.x.shape[1]))


class ColumnBootstrap:
    """Every column drawn from its own values, with replacement: the right marginals, and no word knows of another.

    >>> x = sp.csr_matrix([[2, 5], [2, 0]])
    >>> ColumnBootstrap().fit(x).sample(3, random_state=0).toarray()[:, 0].tolist()
    [2, 2, 2]
    """

    history_ = ()

    def fit(self, x: sp.csr_matrix) -> Self:
        self.x = sp.csc_matrix(x)
        self.x.eliminate_zeros()
        return self

    def sample(self, rows: int, steps: int = 0, random_state: int = 0) -> sp.csr_matrix:
        """So many rows: a binomial number of non-zeros in every column, at random places."""
        rng = np.random.default_rng(random_state)
        filled = np.diff(self.x.indptr)
        counts = rng.binomial(rows, filled / self.x.shape[0])
        row = np.concatenate([rng.choice(rows, count, replace=False) for count in counts])
        column = np.repeat(np.arange(len(filled)), counts)
        values = self.x.data[self.x.indptr[column] + rng.integers(filled[column])]
        return sp.csr_matrix((values, (row, column)), shape=(rows, len(filled)))


# The data and its yardstick.


class Yardstick:
    """A set's real rows in random groups of one size: what generated rows score against them, and what fresh real ones do.

    A split is two disjoint groups of rows. A metric is the mean over the splits of its value between the first group and as many
    generated rows, each split's another part of them where there are several times as many; its floor that between the two groups
    (of an accuracy, a ceiling). The AUC and the accuracies are of the first ``slow`` splits. An accuracy is that on the second
    group, of a classifier trained on the first or on as many generated rows; its floor has three groups, each a third of the rows.
    """

    def __init__(self, wide: Wide, most: int, splits: int, slow: int, outlier: bool) -> None:
        if wide.x.shape[0] < LEAST_ROWS:
            raise ValueError(f"{wide.x.shape[0]} rows are too few to compare: {LEAST_ROWS} are needed")
        self.wide, self.slow = wide, slow
        self.rows = min(wide.x.shape[0] // 2, most)
        self.splits = metrics.half_splits(wide.x.shape[0], splits)
        self.frequent = metrics.most_frequent(wide.x)
        self.outlier = int(wide.x.max(axis=1).toarray().argmax()) if outlier else -1
        """The row with the largest value, which the ``…_trimmed`` distances leave out; none is −1."""
        found = self._score(None)
        self.floor, self.floor_sd = (_over_splits(found, what) for what in (np.mean, np.std))

    def measure(self, y: sp.csr_matrix) -> Record:
        """Every metric of generated rows, one or several times as many as a group has, beside its floor."""
        if not y.shape[0] or y.shape[0] % self.rows:
            raise ValueError(f"{y.shape[0]} generated rows are not one or several times {self.rows}")
        parts = [y[start : start + self.rows] for start in range(0, y.shape[0], self.rows)]
        record: Record = {}
        for name, value in _over_splits(self._score(parts), np.mean).items():
            record |= {name: value, f"{name}_floor": self.floor[name], f"{name}_floor_sd": self.floor_sd[name]}
        order = np.concatenate(self.splits[0])
        tenth = len(order) // 10
        near = metrics.copies(self.wide.x[order[tenth:]], self.wide.x[order[:tenth]], parts[0])
        return record | {name: value if math.isfinite(value) else None for name, value in near.items()}

    def _score(self, parts: list[sp.csr_matrix] | None) -> list[dict[str, float]]:
        """The metrics of every split, against one part of the generated rows after another; without them, of fresh real ones."""
        x, scores = self.wide.x, []
        for split, halves in enumerate(self.splits):
            first, second = (half[: self.rows] for half in halves)
            generated = parts[split % len(parts)] if parts else None
            real, other = x[first], x[second] if generated is None else generated
            score = _sizes(real, other) | metrics.marginals(real, other)
            score["pmi_correlation"] = metrics.pmi_correlation(real, other, self.frequent)
            if self.outlier >= 0:
                kept = [x[half[half != self.outlier]] for half in (first, second)]
                trimmed = _sizes(kept[0], kept[1] if generated is None else generated)
                score |= {f"{name}_trimmed": value for name, value in trimmed.items()}
            if split < self.slow:
                score["auc"] = metrics.two_sample_auc(real, other, seed=split, most=AUC_ROWS)
                score |= self._accuracies(halves, generated)
            scores.append(score)
        return scores

    def _accuracies(self, halves: tuple[np.ndarray, np.ndarray], generated: sp.csr_matrix | None) -> dict[str, float]:
        x, labels = self.wide.x, self.wide.labels
        if labels is None:
            return {}
        parts = np.array_split(np.concatenate(halves), 3 if generated is None else 2)
        train, test, *fresh = (part[: self.rows] for part in parts)
        synthetic = x[fresh[0]] if generated is None else generated
        found = metrics.synthetic_accuracy(x[train], labels[train], synthetic, x[test], labels[test])
        return dict(zip(("synthetic_accuracy", "real_accuracy"), found, strict=True))

    def histograms(self, y: sp.csr_matrix) -> dict[str, dict[str, list[float]]]:
        """Of the number of non-zero columns of a row, and of its total, in bins that are even on a scale of log1p."""
        both, columns, whole = (self.wide.x, y), y.shape[1], self.wide.x.dtype.kind in "iu"
        filled = [np.rint(columns * (1 - row_sparsity(rows))) for rows in both]
        totals = [row_totals(rows) for rows in both]
        return {
            "filled": _histogram(filled, columns, whole=True),
            "total": _histogram(totals, 1.5 * totals[0].max(), whole),
        }


def _sizes(a: sp.csr_matrix, b: sp.csr_matrix) -> dict[str, float]:
    """The paper's distances: W1 of the shares of zeros, and of the totals."""
    return {"sparsity_w1": w1(row_sparsity(a), row_sparsity(b)), "total_w1": w1(row_totals(a), row_totals(b))}


def _over_splits(scores: list[dict[str, float]], what: Any) -> dict[str, float]:
    return {name: float(what([score[name] for score in scores if name in score])) for name in scores[0]}


def _histogram(both: list[np.ndarray], top: float, whole: bool) -> dict[str, list[float]]:
    """What is above the top is in the last bin."""
    edges = np.expm1(np.linspace(0, np.log1p(math.ceil(top) + whole), BINS + 1))
    edges = np.unique(np.rint(edges)) - 0.5 if whole else edges
    return runner.histogram(edges, *(np.clip(values, edges[0], edges[-1]) for values in both))


@cache
def _yardstick(
    dataset: str, made: tuple[int, ...], place: Path | None, most: int, splits: int, slow: int, outlier: bool
) -> Yardstick:
    """The same for every method and run."""
    wide = make(dataset, *made) if made else load(dataset, place)
    return Yardstick(wide, most, splits, slow, outlier)


def make(dataset: str, rows: int, columns: int) -> Wide:
    """Rows of four topics with uneven lengths, in place of a data set: to try the program without data."""
    corpus, _, weights = dataset.partition("-")
    rng = np.random.default_rng(list(corpus.encode()))
    topic = rng.integers(4, size=rows)
    words = rng.dirichlet(np.full(columns, 0.1), size=4)
    counts = sp.csr_matrix(rng.poisson(rng.gamma(2.0, 15.0, size=(rows, 1)) * words[topic]).astype(np.int32))
    x = tfidf(counts) if weights == "tfidf" else counts
    labels = None if corpus == "nips" else topic
    return Wide(x, [f"word{i}" for i in range(columns)], labels, [] if labels is None else list("abcd"))


def top_words(x: sp.csr_matrix, words: list[str], seed: int) -> list[list[str]]:
    """The words with the largest values of a few random rows that are not empty; of equal ones, any.

    >>> top_words(sp.csr_matrix([[0, 0, 0], [1, 0, 3]]), ["a", "b", "c"], seed=0)
    [['c', 'a']]
    """
    rng = np.random.default_rng(seed)
    found = []
    for row in rng.permutation(np.flatnonzero(np.diff((x != 0).indptr)))[:EXAMPLES]:
        part = slice(x.indptr[row], x.indptr[row + 1])
        largest = np.lexsort((rng.random(part.stop - part.start), -x.data[part].astype(float)))[:WORDS]
        found.append([words[column] for column in x.indices[part][largest]])
    return found


# Tables and figures.

Lines = dict[tuple[str, int], list[Record]]
"""The runs of every method and number of steps that there are of a set, in order."""


def _lines(records: list[Record], sets: dict[str, Any]) -> dict[str, Lines]:
    """Of every set that there are records of."""
    known = list(sets)
    found: dict[str, Lines] = {}
    mine = [r for r in records if r["dataset"] in sets]
    mine.sort(key=lambda r: (known.index(r["dataset"]), METHODS.index(r["method"]), r["steps"], r["run"]))
    for record in mine:
        lines = found.setdefault(record["dataset"], {})
        lines.setdefault((record["method"], record["steps"]), []).append(record)
    return found


def table(records: list[Record], sets: dict[str, Any]) -> str:
    """A table per set: a line per method and number of steps, between the floor and the paper's numbers."""
    shown = {}
    for name, lines in _lines(records, sets).items():
        shown[name] = {
            field: _of_methods(lines, field) for field in ("rows", "columns", "splits", "slow_splits", "draws")
        }
        shown[name] |= {"distances": _distances(lines, sets[name]), "marginals": _marginals(lines)}
    lengths = "\n".join(runner.lengths(records, METHODS))
    return render("documents.md", sets=shown, auc_rows=AUC_ROWS, lengths=lengths)


def _of_methods(lines: Lines, field: str) -> str:
    """A number of records, and of which methods', where it differs."""
    methods: dict[int, dict[str, None]] = {}
    for (method, _), runs in lines.items():
        for record in runs:
            methods.setdefault(record[field], {})[method] = None
    if len(methods) == 1:
        return f"{next(iter(methods)):,}"
    return " and ".join(f"{number} ({', '.join(names)})" for number, names in methods.items())


def _with_floors(lines: Lines) -> list[tuple[list[str], list[Record], str]]:
    """What a line begins with, its records, and how its fields end: a floor for every number of rows a side, then the methods."""
    sizes = {runs[0]["compare"]: (method, runs) for (method, _), runs in reversed(lines.items())}
    dense = " and ".join(m for m in PAPER if any(m == method for method, _ in lines))
    found = []
    for rows, (method, runs) in sorted(sizes.items(), reverse=True):
        whose = f" (for {dense})" if method in PAPER else ""
        found.append(([f"floor, {rows:,} rows a side{whose}", ""], runs, "_floor"))
    return found + [([method, str(steps or "")], runs, "") for (method, steps), runs in lines.items()]


def _distances(lines: Lines, known: dict[str, Any]) -> str:
    sparsity = (f"sparsity W1 ({known['unit']})", UNITS[known["unit"]])
    distances = {"sparsity_w1": sparsity, "total_w1": ("total W1", 1.0)}
    if known.get("outlier"):
        distances |= {f"{name}_trimmed": (f"{title}, trimmed", u) for name, (title, u) in distances.items()}
    head = ["method", "steps", *(title for title, _ in distances.values())]
    head += ["PMI", "AUC", "accuracy", "copies", "fit (s)", "sample (s)"]
    rows = []
    for start, runs, end in _with_floors(lines):
        cells = [_distance(runs, name, unit, end) for name, (_, unit) in distances.items()]
        for name in ("pmi_correlation", "auc"):
            cells.append(_number(runs, name + end) + (f" ± {_number(runs, f'{name}{end}_sd')}" if end else ""))
        ours, theirs = (mean_of(runs, f"{name}_accuracy{end}") for name in ("synthetic", "real"))
        cells.append(f"{ours[0] / theirs[0]:.3f}" if ours and theirs else "")
        copied = _number(runs, "copy_ratio"), _number(runs, "copy_share", ".1%").replace("%", " %")
        cells.append("1 · 1 %" if end else " · ".join(filter(None, copied)))
        cells += ["" if end else _number(runs, name, ".0f") for name in ("seconds_fit", "seconds_sample")]
        rows.append(start + cells)
    for method, numbers in known["paper"].items():
        cells = [plus_minus(1, *numbers["sparsity"]), plus_minus(1, *numbers["total"])]
        rows.append([f"the paper's {method.upper()}", "100", *cells, *[""] * (len(head) - 4)])
    return "\n".join(markdown(head, rows))


def _distance(runs: list[Record], name: str, unit: float, end: str) -> str:
    """A floor with its spread over the splits, or a distance with its spread over the runs and its ratio to the floor."""
    floor, spread = (runs[0][f"{name}_floor{sd}"] for sd in ("", "_sd"))
    if end:
        return plus_minus(unit, floor, spread)
    mean, spread = mean_of(runs, name) or (0.0, 0.0)
    return plus_minus(unit, mean, spread) + (f" ({mean / floor:.2f}×)" if floor else "")


def _marginals(lines: Lines) -> str:
    """Of every column's mean, zero rate and variance: Spearman's correlation and the log-error."""
    names = ("mean", "zero_rate", "variance")
    head = ["columns' …", "steps", *(f"{name.replace('_', ' ')}: ρ · log-error" for name in names)]
    rows = []
    for start, runs, end in _with_floors(lines):
        pairs = ([_number(runs, f"{name}_{what}{end}") for what in ("spearman", "log_error")] for name in names)
        rows.append([*start, *map(" · ".join, pairs)])
    return "\n".join(markdown(head, rows))


def _number(runs: list[Record], field: str, form: str = ".3f") -> str:
    got = mean_of(runs, field)
    return "" if got is None else f"{got[0]:{form}}"


def _with_most_steps(records: list[Record], sets: dict[str, Any]) -> dict[str, dict[str, Record]]:
    """Of every set and method, the first run with the most steps."""
    found = _lines(records, sets)
    return {name: {method: runs[0] for (method, _), runs in lines.items()} for name, lines in found.items()}


def examples(records: list[Record], sets: dict[str, Any]) -> str:
    """Generated rows as their top words, beside real ones."""
    return render("examples.md", sets=_with_most_steps(records, sets))
