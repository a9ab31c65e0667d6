"""Rows that are not drawn from nothing: cells of which 30 % of the units are left, and tables of which a tenth is hidden.

    python benchmarks/starts.py --data DIR                    # all sets; what has a record is not done again
    python benchmarks/starts.py --only breast-cancer,digits   # these need no DIR

The records are in ``results.json``, from which the tables and the picture are made.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from countjump import JumpModel
from countjump.atomic import write_atomically
from countjump.data import load
from countjump.metrics import most_frequent, pmi, pmi_correlation, row_sparsity, row_totals, two_sample_auc, w1
from countjump.report.figures import FAINT, GENERATED, REAL, png

OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "starts"
FRACTION, GENES, PAIRS = 0.3, 1000, 300
FLOORS = (1e-4, 1e-3, 1e-2, 0.03, 0.1)
"""Of the rescaled observation: units that are added to every entry, of which training cells choose."""

HIDDEN, DRAWS, ROUNDS, LEAF = 0.1, 10, 3, 5
MOST_ROWS = 1000
"""Completed rows of a table, at most."""

Record = dict[str, Any]


# Cells.


def deviance(removed: np.ndarray, expected: np.ndarray) -> float:
    """The mean Poisson deviance of counts under expectations, over all entries."""
    log_ratio = np.where(removed > 0, np.log(np.maximum(removed, 1) / np.maximum(expected, 1e-12)), 0.0)
    return float(2 * (removed * log_ratio - (removed - expected)).mean())


def correlation(removed: np.ndarray, expected: np.ndarray) -> float:
    """The mean over the columns of the correlation over the rows; a column that is constant on either side has none."""
    r, e = removed - removed.mean(0), expected - expected.mean(0)
    length = np.sqrt((r**2).sum(0) * (e**2).sum(0))
    return float(((r * e).sum(0)[length > 0] / length[length > 0]).mean())


def thin(x: sp.csr_matrix, seed: int) -> sp.csr_matrix:
    """What is left when every unit is kept with probability ``FRACTION``."""
    kept = sp.csr_matrix(x, copy=True)
    kept.data = np.random.default_rng(seed).binomial(kept.data.astype(np.int64), FRACTION).astype(kept.data.dtype)
    kept.eliminate_zeros()
    return kept


def rescaled(seen: np.ndarray, floor: float) -> np.ndarray:
    """What was seen, times (1 − f)/f, and a little everywhere."""
    return seen * (1 - FRACTION) / FRACTION + floor


def type_profiles(x: sp.csr_matrix, labels: np.ndarray, types: int) -> np.ndarray:
    """The shares of the genes in each type, with one unit more that falls as in all cells."""
    whole = np.asarray(x.sum(0)).ravel() + 1e-3
    sums = np.stack([np.asarray(x[labels == each].sum(0)).ravel() for each in range(types)]) + whole / whole.sum()
    return sums / sums.sum(1, keepdims=True)


def cells(data: Path | None, seed: int, models: Path | None) -> list[Record]:
    """A fifth of the cells is held out, thinned, denoised and deepened."""
    found = load("pbmc", data)
    x, labels = sp.csr_matrix(found.x), np.asarray(found.labels)
    order = np.random.default_rng(seed).permutation(x.shape[0])
    test, train = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
    start = time.process_time()
    place = None if models is None else models / f"cells-{seed}"
    if place is not None and place.exists():
        model = JumpModel.load(place)
    else:
        model = JumpModel(random_state=seed).fit(x[train])
        if place is not None:
            model.save(place)
    fitted = time.process_time() - start
    whole, left = x[test], thin(x[test], seed + 1)
    removed, seen = (whole - left).toarray().astype(float), left.toarray().astype(float)
    start = time.process_time()
    expected = model.denoise(left, FRACTION) - seen
    denoised = time.process_time() - start
    # The floor of the rescaled observation is that which is best for training cells.
    some = train[:: max(len(train) // 500, 1)]
    its_left = thin(x[some], seed + 2)
    its_removed = (x[some] - its_left).toarray().astype(float)
    floor = min(FLOORS, key=lambda each: deviance(its_removed, rescaled(its_left.toarray(), each)))
    profile = type_profiles(x[train], labels[train], len(found.label_names))[labels[test]]
    scaled = profile * seen.sum(1, keepdims=True) * (1 - FRACTION) / FRACTION
    frequent = most_frequent(x, GENES)
    records = []
    for method, each in {
        "denoise(X) − X": expected,
        f"rescaled observation, {floor:g} added": rescaled(seen, floor),
        "mean of the cell's type, scaled to its total": scaled,
        "half of each of the last two": (rescaled(seen, floor) + scaled) / 2,
    }.items():
        records += [
            {"measure": "deviance", "method": method, "value": deviance(removed, each)},
            {
                "measure": "correlation",
                "method": method,
                "value": correlation(removed[:, frequent], each[:, frequent]),
            },
        ]
    start = time.process_time()
    deepened = sp.csr_matrix(model.deepen(left, FRACTION, random_state=seed))
    seconds = time.process_time() - start
    assert (deepened - left).min() >= 0
    # The floor is other real cells, as many; of these the pairs, too.
    others = x[np.sort(np.random.default_rng(seed + 3).choice(train, len(test), replace=False))]
    pairs = most_frequent(x, PAIRS)
    by_hand = sp.csr_matrix(left / FRACTION).rint()
    for method, rows in {"deepen": deepened, "other real cells (floor)": others, "rescaled": by_hand}.items():
        for measure, value in {
            "W1 of the totals": w1(row_totals(whole), row_totals(rows)),
            "W1 of the sparsity (‰)": 1000 * w1(row_sparsity(whole), row_sparsity(rows)),
            f"correlation of the PMI of {PAIRS} genes": pmi_correlation(whole, rows, pairs),
            "two-sample AUC": two_sample_auc(whole, rows),
        }.items():
            records.append({"measure": measure, "method": method, "value": float(value)})
    kept = {
        "totals": [row_totals(each).tolist() for each in (whole, deepened)],
        "pairs": [pmi(each, pairs[:60]).round(3).tolist() for each in (whole, deepened)],
    }
    numbers = {"fit (s)": fitted, "denoise (s)": denoised, "deepen (s)": seconds, "cells": len(test)}
    records += [{"measure": name, "method": "cost", "value": float(value)} for name, value in numbers.items()]
    return [{"set": "cells", "seed": seed} | each for each in records] + [
        {"set": "cells", "seed": seed, "measure": "kept", "method": "picture", "value": kept}
    ]


# Tables.


def breast_cancer() -> np.ndarray:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    return np.column_stack([found.data, found.target])


def digits() -> np.ndarray:
    from sklearn.datasets import load_digits

    return load_digits().data


def negative_binomials() -> np.ndarray:
    """Twenty columns whose Gaussian copula has correlations of up to about ±0.8."""
    from scipy.stats import nbinom, norm

    g = np.random.default_rng(5)
    factors = g.normal(size=(20, 3))
    covariance = factors @ factors.T + 0.4 * np.eye(20)
    scale = np.sqrt(np.diag(covariance))
    normal = g.multivariate_normal(np.zeros(20), covariance / np.outer(scale, scale), 3000)
    return nbinom.ppf(norm.cdf(normal), 2.0, 2 / (2 + g.uniform(2, 20, 20)))


TABLES: dict[str, Callable[[], np.ndarray]] = {
    "breast-cancer": breast_cancer,
    "digits": digits,
    "negative-binomials": negative_binomials,
}


def crps(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The continuous ranked probability score of draws (K, N) for numbers (N,), without the bias of few draws."""
    k = len(draws)
    apart = np.abs(draws[:, None] - draws[None]).sum((0, 1)) / (k * (k - 1))
    return np.abs(draws - truth).mean(0) - apart / 2


def by_trees(train: np.ndarray, rows: np.ndarray, hidden: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Every column by a CART of all others, for some rounds, beginning with the means: the leaves' means, and draws from them."""
    from sklearn.tree import DecisionTreeRegressor

    g = np.random.default_rng(seed)
    filled = np.where(hidden, train.mean(0), rows)
    columns = [column for column in range(rows.shape[1]) if hidden[:, column].any()]
    trees = {}
    for column in columns:
        tree = DecisionTreeRegressor(min_samples_leaf=LEAF, random_state=seed)
        others = np.delete(train, column, 1)
        trees[column] = tree.fit(others, train[:, column])
    draws = np.repeat(filled[None], DRAWS, 0)
    for _ in range(ROUNDS):
        for column in columns:
            place = np.flatnonzero(hidden[:, column])
            filled[place, column] = trees[column].predict(np.delete(filled[place], column, 1))
    for column in columns:
        place = np.flatnonzero(hidden[:, column])
        leaf = trees[column].apply(np.delete(train, column, 1))
        mine = trees[column].apply(np.delete(filled[place], column, 1))
        for row, each in zip(place, mine, strict=True):
            draws[:, row, column] = g.choice(train[leaf == each, column], DRAWS)
    return filled, draws


def table(name: str, seed: int, updates: int | None, most: int) -> list[Record]:
    """A tenth of the entries of the half that was not trained on is hidden."""
    X = TABLES[name]()
    g = np.random.default_rng(seed)
    order = g.permutation(len(X))
    train, rows = X[order[: len(X) // 2]], X[order[len(X) // 2 :]][:most]
    hidden = g.random(rows.shape) < HIDDEN
    scale = train.std(0)
    hidden &= scale > 0
    start = time.process_time()
    model = JumpModel(random_state=seed, progress=False, max_updates=updates).fit(train)
    fitted = time.process_time() - start
    start = time.process_time()
    given = np.where(hidden, np.nan, rows)
    draws = np.stack([model.complete(given, ~hidden, random_state=draw) for draw in range(DRAWS)])
    seconds = time.process_time() - start
    assert (draws[:, ~hidden] == rows[~hidden]).all()
    predicted, trees = by_trees(train, rows, hidden, seed)
    means = np.broadcast_to(train.mean(0), rows.shape)
    resampled = np.stack([train[g.integers(len(train), size=rows.shape), np.arange(X.shape[1])] for _ in range(DRAWS)])
    unit = np.broadcast_to(np.where(scale > 0, scale, 1), rows.shape)[hidden]
    records = []
    for method, (mean, several) in {
        "complete": (draws.mean(0), draws),
        "CART": (predicted, trees),
        "column means": (means, resampled),
    }.items():
        error = np.sqrt((((mean - rows)[hidden] / unit) ** 2).mean())
        score = (crps(several[:, hidden], rows[hidden]) / unit).mean()
        records += [
            {"measure": "RMSE (sd)", "method": method, "value": float(error)},
            {"measure": "CRPS (sd)", "method": method, "value": float(score)},
        ]
    costs = {"fit (s)": fitted, f"{DRAWS} × complete (s)": seconds, "rows": len(rows), "columns": X.shape[1]}
    records += [{"measure": name, "method": "cost", "value": float(value)} for name, value in costs.items()]
    return [{"set": name, "seed": seed} | each for each in records]


# What comes out.


def lines(records: list[Record]) -> list[str]:
    """The tables, from the records alone."""

    def value(where: dict[str, Any]) -> str:
        numbers = [r["value"] for r in records if all(r[key] == each for key, each in where.items())]
        if not numbers:
            return ""
        spread = f" ± {np.std(numbers):.2g}" if len(numbers) > 1 else ""
        return f"{np.mean(numbers):.4g}{spread}"

    def grid(names: list[str], measures: list[str], where: Callable[[str, str], dict[str, Any]]) -> list[str]:
        head = [f"| | {' | '.join(measures)} |", f"|---|{'---|' * len(measures)}"]
        return [*head, *(f"| {n} | {' | '.join(value(where(n, m)) for m in measures)} |" for n in names)]

    out = []
    of_cells = [r for r in records if r["set"] == "cells"]
    if of_cells:
        methods = list(dict.fromkeys(r["method"] for r in of_cells if r["measure"] == "deviance"))
        out += [
            f"Held-out blood cells of which {FRACTION:.0%} of the units are left. The removed units: their mean Poisson deviance",
            f"(lower is better) and their correlation, gene by gene, over the {GENES:,} most frequent genes.",
            "",
            *grid(methods, ["deviance", "correlation"], lambda n, m: {"set": "cells", "method": n, "measure": m}),
            "",
            "The whole cells, beside the true ones:",
            "",
        ]
        methods = list(dict.fromkeys(r["method"] for r in of_cells if r["measure"] == "two-sample AUC"))
        measures = list(dict.fromkeys(r["measure"] for r in of_cells if r["method"] == "deepen"))
        out += grid(measures, methods, lambda n, m: {"set": "cells", "method": m, "measure": n})
        costs = [r for r in of_cells if r["method"] == "cost"]
        out += ["", ", ".join(f"{r['measure']} {r['value']:.0f}" for r in costs) + ".", ""]
    names = [name for name in TABLES if any(r["set"] == name for r in records)]
    if names:
        out += [
            f"Tables of whose held-out half {HIDDEN:.0%} of the entries are hidden, in units of a column's standard deviation.",
            f"RMSE of the mean of {DRAWS} draws (of CART, of the leaf's mean); CRPS of the draws.",
            "",
            "| set | measure | complete | CART | column means |",
            "|---|---|---|---|---|",
        ]
        for name in names:
            for measure in ("RMSE (sd)", "CRPS (sd)"):
                each = [
                    value({"set": name, "method": m, "measure": measure}) for m in ("complete", "CART", "column means")
                ]
                out.append(f"| {name} | {measure} | {' | '.join(each)} |")
    return out


def picture(records: list[Record]) -> Figure:
    """Totals and pairs of deepened cells against the true ones."""
    kept = next(r["value"] for r in records if r["measure"] == "kept")
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    true, deepened = kept["totals"]
    left.scatter(true, deepened, s=5, color=GENERATED, alpha=0.6)
    ends = [min(true), max(true)]
    left.plot(ends, ends, color=REAL, linewidth=1)
    left.set(xlabel="units of the true cell", ylabel="units of the deepened cell", xscale="log", yscale="log")
    right.scatter(*kept["pairs"], s=4, color=GENERATED, alpha=0.4)
    ends = [min(kept["pairs"][0]), max(kept["pairs"][0])]
    right.plot(ends, ends, color=REAL, linewidth=1)
    right.set(xlabel="PMI of two genes, true cells", ylabel="deepened cells")
    for ax in (left, right):
        ax.grid(color=FAINT, linewidth=0.5)
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("COUNTJUMP_DATA"), help="where the cells are")
    parser.add_argument("--only", default=",".join(["cells", *TABLES]))
    parser.add_argument("--seeds", type=int, default=1, help="fits of each set")
    parser.add_argument("--updates", type=int, help="of a table's fit, instead of the model's own length")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="completed rows of a table, at most")
    parser.add_argument("--models", type=Path, help="where fitted models of cells are kept, and found again")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    path = arguments.out / "results.json"
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    for seed in range(arguments.seeds):
        for name in arguments.only.split(","):
            if name not in ("cells", *TABLES):
                parser.error(f"no set {name!r}: choose some of cells, {', '.join(TABLES)}")
            if any((r["set"], r["seed"]) == (name, seed) for r in records):
                continue
            if name == "cells":
                new = cells(arguments.data, seed, arguments.models)
            else:
                new = table(name, seed, arguments.updates, arguments.rows)
            records += new
            arguments.out.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(records, indent=0, ensure_ascii=False).encode())
            write_atomically(arguments.out / "table.md", ("\n".join(lines(records)) + "\n").encode())
            if any(r["measure"] == "kept" for r in records):
                write_atomically(arguments.out / "cells.png", png(picture(records)))
            print("\n".join(lines(new)), flush=True)


if __name__ == "__main__":
    main()
