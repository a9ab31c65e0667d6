"""Table 2 of the paper, and single cells: wide sparse rows by five methods, every metric beside what fresh real rows score."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import LatentDirichletAllocation

from countjump import JumpModel, metrics, report
from countjump.atomic import write_atomically
from countjump.baselines import DDPM
from countjump.data import Wide, data_directory, load, require, tfidf
from countjump.experiments import runner
from countjump.experiments.runner import Cell, Experiment, Record, markdown, mean_of, pick, plus_minus
from countjump.metrics import row_totals, w1

METHODS = ("jump", "jump-paper", "ddpm", "lda", "columns")
NETWORKS = ("jump", "jump-paper", "ddpm")
"""The methods that are trained update by update, can be resumed, and are sampled in steps; the others have 0 steps."""

BATCH, LAM = 128, 10.0
"""Of the paper's experiments: rows per update, λ."""

UNITS = {"%": 100.0, "‰": 1000.0}
BINS = 100
EXAMPLES, WORDS = 5, 12

DENSE = ("jump-paper", "ddpm")
"""Methods that fill every entry of a block of rows at every step: fewer of their rows are drawn, and compared with as many."""

LEAST_ROWS = 20
"""Rows of a set, so that halves of it can be compared."""

AUC_ROWS = 2048
"""Rows a side of the two-sample classifier, at most: the more, the better it tells them apart."""


class Documents(Experiment):
    """Section 4.2."""

    name = "documents"
    reads_data = True

    def cells(self, only: list[str], methods: list[str], runs: int | None) -> list[Cell]:
        sets = self.recipe["sets"]
        steps = {"jump": tuple(self.settings["steps"])} | dict.fromkeys(DENSE, (self.settings["paper_steps"],))
        chosen = pick("method", methods, list(METHODS)) if methods else self.settings["methods"]
        cells = [
            Cell(dataset, method, run, steps.get(method, (0,)))
            for dataset in pick("set", only, list(sets))
            for method in chosen
            if sets[dataset]["counts"] or method != "lda"
            for run in range(runs or self.settings["runs"])
        ]
        if not cells:
            raise ValueError(f"nothing to run: lda needs counts, and {', '.join(only)} are not")
        return cells

    def check(self, records: list[Record]) -> None:
        # Records of groups of another size, or of other data, have another floor; shorter fits are other models.
        made, updates, splits = "made" in self.settings, self.settings.get("updates"), self.settings["splits"]
        for record in records:
            rows = min(record.get("rows", 0) // 2, self.settings[_compare(record["method"])])
            if (record.get("compare"), record.get("splits"), record.get("made", False)) != (rows, splits, made):
                raise ValueError(
                    f"the records there compare {record.get('compare')} rows a side in {record.get('splits')} splits of "
                    f"{'made' if record.get('made') else 'real'} data, and this preset {rows} in {splits} of "
                    f"{'made' if made else 'real'} data: choose another directory"
                )
            if record["method"] == "jump" and record.get("max_updates") != updates:
                most = record.get("max_updates"), updates
                theirs, ours = (f"at most {n} updates" if n else "the model's own length" for n in most)
                fits = f"fits of {theirs}, and this preset's of {ours}"
                raise ValueError(f"the records there are of {fits}: choose another directory")

    def look(self, cells: list[Cell]) -> None:
        if "made" not in self.settings:
            require([cell.dataset for cell in cells], self.settings.get("data"))

    def run(self, cell: Cell, checkpoint: Path) -> list[Record]:
        seed = 1000 * list(self.recipe["sets"]).index(cell.dataset) + cell.run
        real = self._yardstick(cell.dataset, cell.method)
        x, model = real.wide.x, self._model(cell, real.wide.x, seed)
        said: Record = {"resumed": True} if checkpoint.exists() else {}
        if cell.method in NETWORKS:
            model.set_params(checkpoint_dir=checkpoint)
        start = time.perf_counter()
        model.fit(x)
        seconds_fit = time.perf_counter() - start
        if cell.method in NETWORKS:
            updates = model.history_[-1]["update"] if model.history_ else 0
            said["learning_curve"] = [round(record["loss"], 5) for record in model.history_]
        else:
            updates = model.updates
        if cell.method in DENSE:
            asked = self.settings.get("paper_epochs")
            said |= {"epochs": round(updates / max(x.shape[0] // BATCH, 1), 2), "asked_epochs": asked}
        if cell.method == "jump" and "updates" in self.settings:
            said["max_updates"] = self.settings["updates"]
        if "made" in self.settings:
            said["made"] = True
        draws = 1 if cell.method in DENSE else self.settings["draws"]
        records = []
        for steps in cell.steps:
            start = time.perf_counter()
            y = model.sample(draws * real.rows, steps=steps, random_state=seed)
            sampled = time.perf_counter()
            record = cell.key(seed, steps) | {"rows": x.shape[0], "columns": x.shape[1], "compare": real.rows}
            record |= {name: self.settings[name] for name in ("splits", "slow_splits")}
            record |= {"draws": draws, **real.measure(y), "seconds_fit": round(seconds_fit, 2)}
            record["seconds_sample"] = round((sampled - start) / draws, 3)
            record["seconds_measure"] = round(time.perf_counter() - sampled, 1)
            record |= {"updates": updates, **said, "histograms": real.histograms(y)}
            record["examples"] = top_words(y, real.wide.columns, seed)
            record["examples_real"] = top_words(x, real.wide.columns, 0)
            records.append(record)
        return records

    def _yardstick(self, dataset: str, method: str) -> Yardstick:
        made, place = tuple(self.settings.get("made", ())), data_directory(self.settings.get("data"))
        settings = (self.settings[name] for name in (_compare(method), "splits", "slow_splits"))
        return _yardstick(dataset, made, place, *settings, self.recipe["sets"][dataset].get("outlier", False))

    def _model(self, cell: Cell, x: sp.csr_matrix, seed: int) -> Any:
        """What has ``fit`` and ``sample``."""
        common: dict[str, Any] = {"random_state": seed, "progress": False}
        if cell.method == "jump":
            return JumpModel(max_updates=self.settings.get("updates"), **common)
        if cell.method == "lda":
            return TopicModel(self.settings["topics"], seed)
        if cell.method == "columns":
            return ColumnBootstrap()
        updates = self.settings["paper_updates"]
        if "paper_epochs" in self.settings:
            updates = self.settings["paper_epochs"] * max(x.shape[0] // BATCH, 1)
        paper = common | runner.PAPER | {"batch_size": BATCH, "max_updates": updates}
        if cell.method == "ddpm":
            return DDPM(**paper)
        return runner.paper_jump(self.recipe["sets"][cell.dataset]["counts"], LAM, float(x.mean()), paper)

    def report(self, records: list[Record], out: Path) -> None:
        sets = self.recipe["sets"]
        write_atomically(out / "table.md", table(records, sets).encode())
        write_atomically(out / "examples.md", examples(records, sets).encode())
        write_atomically(out / "sparsity_totals.png", report.png(report.row_sizes(_panels(records, sets))))
        write_atomically(out / "joint.png", report.png(report.joint_structure(_bars(records, sets))))


def _compare(method: str) -> str:
    """The setting that says how many rows a side are compared."""
    return "compare_dense" if method in DENSE else "compare"


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
        self.x, self.updates = x, self.law.fit(x).n_batch_iter_ - 1
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

    updates = 0

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


@dataclass(frozen=True, eq=False)
class Group:
    """Rows, and their sizes."""

    x: sp.csr_matrix
    sparsity: np.ndarray
    totals: np.ndarray

    @classmethod
    def of(cls, x: sp.csr_matrix) -> Self:
        return cls(x, metrics.row_sparsity(x), row_totals(x))

    def take(self, index: np.ndarray) -> Group:
        return Group(self.x[index], self.sparsity[index], self.totals[index])

    def distances(self, other: Group) -> dict[str, float]:
        """The paper's: W1 of the shares of zeros, and of the totals."""
        return {"sparsity_w1": w1(self.sparsity, other.sparsity), "total_w1": w1(self.totals, other.totals)}


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
        self.real = Group.of(wide.x)
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
        parts = [Group.of(y[start : start + self.rows]) for start in range(0, y.shape[0], self.rows)]
        record: Record = {}
        for name, value in _over_splits(self._score(parts), np.mean).items():
            record |= {name: value, f"{name}_floor": self.floor[name], f"{name}_floor_sd": self.floor_sd[name]}
        order = np.concatenate(self.splits[0])
        tenth = len(order) // 10
        near = metrics.copies(self.wide.x[order[tenth:]], self.wide.x[order[:tenth]], parts[0].x)
        return record | {name: value if math.isfinite(value) else None for name, value in near.items()}

    def _score(self, parts: list[Group] | None) -> list[dict[str, float]]:
        """The metrics of every split, against one part of the generated rows after another; without them, of fresh real ones."""
        scores = []
        for split, (first, second) in enumerate(self.splits):
            generated = parts[split % len(parts)] if parts else None
            first, second = first[: self.rows], second[: self.rows]
            real, other = self.real.take(first), generated or self.real.take(second)
            score = real.distances(other) | metrics.marginals(real.x, other.x)
            score["pmi_correlation"] = metrics.pmi_correlation(real.x, other.x, self.frequent)
            if self.outlier >= 0:
                kept = self.real.take(first[first != self.outlier])
                trimmed = kept.distances(generated or self.real.take(second[second != self.outlier]))
                score |= {f"{name}_trimmed": value for name, value in trimmed.items()}
            if split < self.slow:
                score["auc"] = metrics.two_sample_auc(real.x, other.x, seed=split, most=AUC_ROWS)
                score |= self._accuracies(self.splits[split], generated)
            scores.append(score)
        return scores

    def _accuracies(self, split: tuple[np.ndarray, np.ndarray], generated: Group | None) -> dict[str, float]:
        x, labels = self.wide.x, self.wide.labels
        if labels is None:
            return {}
        parts = np.array_split(np.concatenate(split), 2 if generated else 3)
        train, test, *fresh = (part[: self.rows] for part in parts)
        synthetic = generated.x if generated else x[fresh[0]]
        found = metrics.synthetic_accuracy(x[train], labels[train], synthetic, x[test], labels[test])
        return dict(zip(("synthetic_accuracy", "real_accuracy"), found, strict=True))

    def histograms(self, y: sp.csr_matrix) -> dict[str, dict[str, list[float]]]:
        """Of the number of non-zero columns of a row, and of its total, in bins that are even on a scale of log1p."""
        generated, columns = Group.of(y), y.shape[1]
        filled = [np.rint(columns * (1 - group.sparsity)) for group in (self.real, generated)]
        top, whole = 1.5 * float(self.real.totals.max()), self.wide.x.dtype.kind in "iu"
        totals = _histogram(self.real.totals, generated.totals, top, whole)
        return {"filled": _histogram(filled[0], filled[1], columns, whole=True), "total": totals}


def _over_splits(scores: list[dict[str, float]], what: Any) -> dict[str, float]:
    return {name: float(what([score[name] for score in scores if name in score])) for name in scores[0]}


def _histogram(x: np.ndarray, y: np.ndarray, top: float, whole: bool) -> dict[str, list[float]]:
    """What is above the top is in the last bin."""
    edges = np.expm1(np.linspace(0, np.log1p(math.ceil(top) + whole), BINS + 1))
    edges = np.unique(np.rint(edges)) - 0.5 if whole else edges
    return runner.histogram(edges, *(np.clip(values, edges[0], edges[-1]) for values in (x, y)))


@cache
def _yardstick(
    dataset: str, made: tuple[int, ...], place: Path | None, most: int, splits: int, slow: int, outlier: bool
) -> Yardstick:
    """The same for every method and run."""
    try:
        wide = make(dataset, *made) if made else load(dataset, place)
    except FileNotFoundError:
        raise
    except OSError as error:
        advice = "pass the directory that holds it (--data DIR), or set COUNTJUMP_DATA"
        raise OSError(f"{dataset} cannot be downloaded ({error}): {advice}") from error
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


def _of_lines(records: list[Record], dataset: str) -> Lines:
    mine: Lines = {}
    of_set = (r for r in records if r["dataset"] == dataset)
    for record in sorted(of_set, key=lambda r: (METHODS.index(r["method"]), r["steps"])):
        mine.setdefault((record["method"], record["steps"]), []).append(record)
    return mine


def table(records: list[Record], sets: dict[str, Any]) -> str:
    """A table per set: a line per method and number of steps, between the floor and the paper's numbers."""
    parts: list[str] = []
    for name, known in sets.items():
        if not (mine := _of_lines(records, name)):
            continue
        size = "{rows:,} rows of {columns:,} columns; {splits} splits".format(**next(iter(mine.values()))[0])
        slow, draws = (_of_methods(mine, field) for field in ("slow_splits", "draws"))
        parts += [f"## {name}", "", f"{size}, AUC and accuracies in {slow}; samples of a fit: {draws}.", ""]
        parts += [*_main_table(mine, known), "", *_marginal_table(mine), ""]
    return "\n".join([*parts, *NOTES, "", *runner.lengths(records, METHODS), ""])


def _of_methods(mine: Lines, field: str) -> str:
    """A number of records, and of which methods', where it differs."""
    methods: dict[int, dict[str, None]] = {}
    for (method, _), records in mine.items():
        for record in records:
            methods.setdefault(record[field], {})[method] = None
    if len(methods) == 1:
        return str(*methods)
    return " and ".join(f"{number} ({', '.join(names)})" for number, names in methods.items())


NOTES = (
    "W1 of the share of zeros of a row and of its total; in brackets, the ratio to the floor, which is the same between two groups",
    "of real rows (mean ± standard deviation over the splits). Of the rest, the line of the floor says what fresh real rows score.",
    "Models are fitted to all the real rows: what they take from them, such as the lengths of LDA's documents, can be nearer to a",
    "group of them than fresh rows are, and no row that accuracies and copies are judged by is unknown to them.",
    "",
    "- PMI: correlation of the pointwise mutual information of pairs of the 300 most frequent columns.",
    f"- AUC: of a classifier of real and generated rows, at most {AUC_ROWS:,} of each; 0.5 is perfect.",
    "- Accuracy: on the other half of the real rows, of a classifier trained on generated rows over that of one trained on as many",
    "  real ones; of fresh rows, with a third of the real rows for each of the three.",
    "- Copies: the median distance of generated rows to the nearest of nine tenths of the real rows over that of the other tenth;",
    "  near 0 is copying. And the share of generated rows that are as near as the nearest 1 % of that tenth.",
    "- Trimmed: without the real row that holds the largest value.",
    "- LDA is a law of counts: there is none for TF-IDF.",
)


def _main_table(mine: Lines, known: dict[str, Any]) -> list[str]:
    sparsity = (f"sparsity W1 ({known['unit']})", UNITS[known["unit"]])
    distances = {"sparsity_w1": sparsity, "total_w1": ("total W1", 1.0)}
    if known.get("outlier"):
        distances |= {f"{name}_trimmed": (f"{title}, trimmed", u) for name, (title, u) in distances.items()}
    head = ["method", "steps", *(title for title, _ in distances.values())]
    head += ["PMI", "AUC", "accuracy", "copies", "fit (s)", "sample (s)"]
    rows = []
    for title, some in _floors(mine):
        floors = [[some[0][f"{name}_floor{end}"] for end in ("", "_sd")] for name in distances]
        cells = [plus_minus(u, *floor) for floor, (_, u) in zip(floors, distances.values(), strict=True)]
        fields = ("pmi_correlation_floor", "auc_floor")
        cells += [f"{_number(some, field)} ± {_number(some, f'{field}_sd')}" for field in fields]
        cells += [_ratio(some, "synthetic_accuracy_floor", "real_accuracy_floor"), "1 · 1 %", "", ""]
        rows.append([title, "", *cells])
    for (method, steps), runs in mine.items():
        cells = []
        for name, (_, u) in distances.items():
            mean, spread, _ = mean_of(runs, name) or (0.0, 0.0, 0)
            floor = runs[0][f"{name}_floor"]
            cells.append(plus_minus(u, mean, spread) + (f" ({mean / floor:.2f}×)" if floor else ""))
        cells += [_number(runs, "pmi_correlation"), _number(runs, "auc")]
        copied = _number(runs, "copy_ratio"), _number(runs, "copy_share", ".1%").replace("%", " %")
        cells += [_ratio(runs, "synthetic_accuracy", "real_accuracy"), " · ".join(filter(None, copied))]
        cells += [_number(runs, "seconds_fit", ".0f"), _number(runs, "seconds_sample", ".0f")]
        rows.append([method, str(steps or ""), *cells])
    for method, numbers in known["paper"].items():
        cells = [plus_minus(1, *numbers["sparsity"]), plus_minus(1, *numbers["total"])]
        rows.append([f"the paper's {method.upper()}", "100", *cells, *[""] * (len(head) - 4)])
    return markdown(head, rows)


def _floors(mine: Lines) -> list[tuple[str, list[Record]]]:
    """The title of a floor, and records that hold it, for every number of rows a side that methods are compared with."""
    sizes = {runs[0]["compare"]: (method, runs) for (method, _), runs in reversed(mine.items())}
    dense = " and ".join(m for m in DENSE if any(m == method for method, _ in mine))
    return [
        (f"floor, {rows:,} rows a side" + (f" (for {dense})" if method in DENSE else ""), runs)
        for rows, (method, runs) in sorted(sizes.items(), reverse=True)
    ]


def _marginal_table(mine: Lines) -> list[str]:
    """Of every column's mean, zero rate and variance: Spearman's correlation and the log-error."""
    names = ("mean", "zero_rate", "variance")
    head = ["columns' …", "steps", *(f"{name.replace('_', ' ')}: ρ · log-error" for name in names)]

    def cells(runs: list[Record], end: str) -> list[str]:
        return [f"{_number(runs, f'{n}_spearman{end}')} · {_number(runs, f'{n}_log_error{end}')}" for n in names]

    rows = [[title, "", *cells(runs, "_floor")] for title, runs in _floors(mine)]
    rows += [[method, str(steps or ""), *cells(runs, "")] for (method, steps), runs in mine.items()]
    return markdown(head, rows)


def _number(runs: list[Record], field: str, form: str = ".3f") -> str:
    got = mean_of(runs, field)
    return "" if got is None else f"{got[0]:{form}}"


def _ratio(runs: list[Record], above: str, below: str) -> str:
    values = mean_of(runs, above), mean_of(runs, below)
    return f"{values[0][0] / values[1][0]:.3f}" if values[0] and values[1] else ""


def _best_known(records: list[Record], dataset: str) -> dict[str, Record]:
    """Of every method, the first run with the most steps."""
    return {line[0]: min(runs, key=lambda r: r["run"]) for line, runs in _of_lines(records, dataset).items()}


def examples(records: list[Record], sets: dict[str, Any]) -> str:
    """Generated rows as their top words, beside real ones."""
    parts = ["The columns with the largest values of random rows, largest first.", ""]
    for name in sets:
        if not (shown := _best_known(records, name)):
            continue
        parts += [f"## {name}", "", "real", ""]
        parts += [f"- {', '.join(words)}" for words in next(iter(shown.values()))["examples_real"]]
        for method, record in shown.items():
            steps = f", {record['steps']} steps" if record["steps"] else ""
            parts += ["", f"{method}{steps}", ""]
            parts += [f"- {', '.join(words)}" for words in record["examples"]] or ["All rows are empty."]
        parts.append("")
    return "\n".join(parts)


def _panels(records: list[Record], sets: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """For every set, the two histograms of the real rows and of every method with its most steps."""
    panels: dict[str, dict[str, dict[str, Any]]] = {}
    for name in sets:
        for method, record in _best_known(records, name).items():
            for what, shares in record["histograms"].items():
                panel = panels.setdefault(name, {}).setdefault(what, {"edges": shares["edges"], "true": shares["true"]})
                panel[method] = shares["generated"]
    return panels


def _bars(records: list[Record], sets: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """For AUC and PMI: of every set, the floor and every method with its most steps."""
    bars: dict[str, dict[str, dict[str, float]]] = {"auc": {}, "pmi_correlation": {}}
    for field, panel in bars.items():
        for name in sets:
            if shown := _best_known(records, name):
                panel[name] = {"floor": next(iter(shown.values()))[f"{field}_floor"]}
                panel[name] |= {method: record[field] for method, record in shown.items()}
    return bars
