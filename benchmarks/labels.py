"""How much rows that are generated for a label are worth: a classifier is trained on them, with the labels that were asked for.

    python benchmarks/labels.py --data DIR [--only digits,pbmc,20news-bow] [--splits N] [--out docs/results/labels]

The rows of a set are split into four: 40 % to fit the model to, 40 % fresh ones, 8 % for validation and 12 % to test. A classifier
(logistic regression) is trained on as many generated rows as there are fresh ones, with the same labels, and on the fresh rows
themselves. The weight of guidance is the one whose rows train the best classifier on the validation rows; the test rows are
looked at once, with that weight. What was measured before is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from countjump import JumpModel
from countjump.atomic import write_atomically
from countjump.data import load
from countjump.metrics import w1
from countjump.report import figures

SPLITS = {"digits": 5, "pbmc": 2, "20news-bow": 1}
WEIGHTS = (1.0, 1.25, 1.5, 2.0, 3.0)
SCORED = 200
"""Test rows whose bounds are averaged."""
OUT = Path(__file__).parents[1] / "docs" / "results" / "labels"
TITLES = {"digits": "digits, pixels as counts", "pbmc": "blood cells, types", "20news-bow": "20 Newsgroups, topics"}


def rows_of(name: str, data: Path) -> tuple[Any, np.ndarray]:
    """The rows of a set, and their labels."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X.astype(np.int64), y.astype(str)
    wide = load(name, data)
    return wide.x, np.array(wide.label_names)[wide.labels]


def split(y: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The places of the four kinds of rows, each with every label in its share."""
    from sklearn.model_selection import train_test_split

    def parted(some: np.ndarray, share: float) -> list[np.ndarray]:
        return train_test_split(some, test_size=share, random_state=seed, stratify=y[some])

    rest, few = parted(np.arange(len(y)), 0.2)
    (fit, fresh), (validation, test) = parted(rest, 0.5), parted(few, 0.6)
    return {"fit": fit, "fresh": fresh, "validation": validation, "test": test}


def classifier(name: str) -> Any:
    """Logistic regression on what is usual for such rows: pixels, log-counts of a fixed depth, or TF-IDF."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer

    if name == "digits":
        return make_pipeline(FunctionTransformer(lambda X: X / 16), LogisticRegression(max_iter=1000))
    if name == "pbmc":
        logarithms = FunctionTransformer(lambda X: sp.csr_matrix(X).multiply(1e4).log1p().tocsr(), accept_sparse=True)
        return make_pipeline(Normalizer("l1"), logarithms, LogisticRegression(C=0.1, max_iter=1000))
    return make_pipeline(TfidfTransformer(sublinear_tf=True), LogisticRegression(C=10.0, max_iter=1000))


def naive_bayes() -> Any:
    """A second opinion, on the counts themselves."""
    from sklearn.naive_bayes import MultinomialNB

    return MultinomialNB(alpha=0.1)


def by_label(X: Any, y: np.ndarray, Z: Any, of: np.ndarray) -> float:
    """W1 between the totals of two samples' rows of the same label, the mean over labels by their frequency."""
    total, other = (np.asarray(rows.sum(axis=1), dtype=np.float64).ravel() for rows in (X, Z))
    labels, often = np.unique(y, return_counts=True)
    return float(np.average([w1(total[y == label], other[of == label]) for label in labels], weights=often))


def measure(
    name: str, seed: int, data: Path, updates: int | None, steps: int | None
) -> tuple[dict[str, Any], JumpModel]:
    """One fit, and everything about it."""
    X, y = rows_of(name, data)
    parts = split(y, seed)
    fit, fresh, validation, test = (parts[part] for part in ("fit", "fresh", "validation", "test"))
    start = time.process_time()
    model = JumpModel(random_state=seed, progress=False, max_updates=updates).fit(X[fit], y[fit])
    seconds = time.process_time() - start

    def accuracy(rows: Any, labels: np.ndarray, where: np.ndarray, kind: Any = None) -> float:
        learned = (kind or classifier(name)).fit(rows, labels)
        return float(learned.score(X[where], y[where]))

    generated, record = {}, {"set": name, "split": seed, "rows": len(fit), "fit_seconds": round(seconds)}
    for weight in WEIGHTS:
        start = time.process_time()
        generated[weight] = model.sample(len(fresh), steps, seed, y=y[fresh], guidance=weight)
        record[f"sample_seconds, {weight}"] = round(time.process_time() - start, 1)
        record[f"validation, {weight}"] = accuracy(generated[weight], y[fresh], validation)
    chosen = max(WEIGHTS, key=lambda weight: record[f"validation, {weight}"])
    record |= {
        "guidance": chosen,
        "fresh": accuracy(X[fresh], y[fresh], test),
        "training": accuracy(X[fit], y[fit], test),
        "generated": accuracy(generated[chosen], y[fresh], test),
        "unguided": accuracy(generated[1.0], y[fresh], test),
        "fresh, naive Bayes": accuracy(X[fresh], y[fresh], test, naive_bayes()),
        "generated, naive Bayes": accuracy(generated[chosen], y[fresh], test, naive_bayes()),
        "unguided, naive Bayes": accuracy(generated[1.0], y[fresh], test, naive_bayes()),
    }
    any_label = np.random.default_rng(0).permutation(y[fresh])
    record |= {
        "totals": by_label(X[fresh], y[fresh], generated[1.0], y[fresh]),
        "totals, floor": by_label(X[fresh], y[fresh], X[fit], y[fit]),
        "totals, of any label": by_label(X[fresh], y[fresh], generated[1.0], any_label),
    }
    some = test[:SCORED]
    for title, labels in {"bound given y": y[some], "bound without y": None}.items():
        record[title] = float(model.score_samples(X[some], labels, steps=20).mean())
    return record, model


def pictures(model: JumpModel, out: Path, weight: float, steps: int | None) -> None:
    """Digits by their label: real ones, and generated ones without and with guidance."""
    X, y = rows_of("digits", Path())
    names, each = [str(digit) for digit in range(10)], 3
    kinds = {"real": np.stack([X[y == name][:each] for name in names], 1)}
    for title, w in {"w = 1": 1.0, f"w = {weight:g}": weight, "w = 5": 5.0}.items():
        kinds[title] = model.sample(10 * each, steps, 0, y=names * each, guidance=w).reshape(each, 10, -1)
    strips = {}
    for title, rows in kinds.items():
        for number, strip in enumerate(rows):
            strips[" " * len(strips) if number else title] = strip  # a name for the first of a kind alone
    write_atomically(out / "digits.png", figures.png(figures.film(strips, names, (8, 8)), dpi=80))


def table(records: list[dict[str, Any]]) -> str:
    """What was measured, the mean over the splits."""
    head = "set | rows to fit | splits | fresh real rows | generated | ratio | ratio, w = 1 | guidance | ratio, naive Bayes"
    lines = [f"| {head} |", "|" + "---|" * 9]
    more = [
        "| set | W1 of totals by label | floor | if totals knew no label | bound given y | without y | fit (s) |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, title in TITLES.items():
        mine = [record for record in records if record["set"] == name]
        if not mine:
            continue

        def mean(field: str, mine: list[dict[str, Any]] = mine) -> float:
            return float(np.mean([record[field] for record in mine]))

        def ratio(kind: str, beside: str = "", mine: list[dict[str, Any]] = mine) -> str:
            each = [record[f"{kind}{beside}"] / record[f"fresh{beside}"] for record in mine]
            return f"{np.mean(each):.3f}" + (f" ± {np.std(each, ddof=1):.3f}" if len(each) > 1 else "")

        weights = ", ".join(f"{record['guidance']:g}" for record in mine)
        cells = [title, f"{mine[0]['rows']:,}", len(mine), f"{mean('fresh'):.3f}", f"{mean('generated'):.3f}"]
        cells += [ratio("generated"), ratio("unguided"), weights, ratio("generated", ", naive Bayes")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
        numbers = [mean(field) for field in ("totals", "totals, floor", "totals, of any label")]
        numbers += [mean("bound given y"), mean("bound without y")]
        more.append(f"| {title} | " + " | ".join(f"{n:.1f}" for n in numbers) + f" | {mean('fit_seconds'):.0f} |")
    return "\n".join(
        [
            "Accuracy on test rows of logistic regression that was trained on fresh real rows, and on as many generated ones with "
            "the labels that were asked for. Guidance was chosen on validation rows, out of "
            f"{', '.join(f'{weight:g}' for weight in WEIGHTS)}.",
            "",
            *lines,
            "",
            *more,
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("COUNTJUMP_DATA", ""), help="where the wide sets are")
    parser.add_argument("--only", default=",".join(SPLITS), help="some of the sets")
    parser.add_argument("--splits", type=int, help="instead of each set's own number")
    parser.add_argument("--updates", type=int, help="instead of the model's own length")
    parser.add_argument("--steps", type=int, help="of the samples, instead of the model's own")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    file = arguments.out / "results.json"
    records = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    for name in arguments.only.split(","):
        if name != "digits" and not arguments.data:
            print(f"{name} is read from files: say where they are with --data (see --help)")
            continue
        for seed in range(arguments.splits or SPLITS[name]):
            if any((record["set"], record["split"]) == (name, seed) for record in records):
                continue
            record, model = measure(name, seed, Path(arguments.data), arguments.updates, arguments.steps)
            records = sorted([*records, record], key=lambda each: (list(SPLITS).index(each["set"]), each["split"]))
            arguments.out.mkdir(parents=True, exist_ok=True)
            write_atomically(file, (json.dumps(records, indent=1) + "\n").encode())
            write_atomically(arguments.out / "table.md", table(records).encode())
            if name == "digits" and seed == 0:
                pictures(model, arguments.out, max(record["guidance"], 2.0), arguments.steps)
            print(json.dumps(record), flush=True)
    print(table(records))


if __name__ == "__main__":
    main()
