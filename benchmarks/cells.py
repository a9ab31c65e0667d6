"""Blood cells drawn for their type: how near they are to cells that were not trained on, and how large their libraries are.

    python benchmarks/cells.py --data DIR [--scvi] [--splits N] [--out docs/results/cells]

One half of the cells is to fit, the other to judge by, each type in both. Cells are compared as is usual in the field: counts per
10,000, ln(1 + x), the 2,000 most variable genes, 50 principal components, all of it found on the half to fit. There W2 is the root
of the mean squared distance under the best matching of the two groups (an exact assignment), and MMD² that of Gaussian kernels
around the median distance. The floor is the same between two groups of real cells that share none. The means of 20,000 generated
library sizes are compared with those of the cells to fit, in their standard errors. ``--scvi`` measures scVI too (needs
scvi-tools; it is no dependency). What was measured before is not measured again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.utils.sparsefuncs import mean_variance_axis

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from countjump import JumpModel
from countjump.atomic import write_atomically
from countjump.data import load
from countjump.metrics import row_totals
from countjump.report.figures import FAINT, GENERATED, INK, REAL, dress, png

if TYPE_CHECKING:
    from anndata import AnnData

OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "cells"
TYPE = "cell_type"
SPLITS, FLOORS = 2, 20
"""Fits; and pairs of real groups that a floor is the mean of."""
GENES, COMPONENTS, BINS = 2000, 50, 20
"""Of the space in which cells are compared; bins of genes by their mean."""
BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of the kernels: times the median squared distance of real cells."""
DRAWN = 20_000
"""Library sizes."""
EPOCHS = 60
"""Of scVI, so that it takes about as long as the default model; its own choice, 400, takes 25 minutes of one thread."""
SHOWN = 800
"""Cells of a kind in the picture."""
COUNTJUMP, APART, SCVI = "countjump", "genes apart", ("scVI, prior", "scVI, posterior")
ORDER = ("floor", COUNTJUMP, APART, *SCVI)

Record = dict[str, Any]
Draw = Callable[[np.ndarray, int], sp.csr_matrix]
"""Types of cells and a seed → cells of these types."""


# The space.


@dataclass(frozen=True, eq=False)
class Space:
    """Where cells are compared: variable genes of log-normalised counts, and their principal components."""

    genes: np.ndarray
    components: PCA
    scale: float
    """The median squared distance of two cells."""

    @classmethod
    def of(cls, x: sp.csr_matrix) -> Space:
        logs = log_normalised(x)
        genes = variable_genes(logs)
        dense = logs[:, genes].toarray()
        components = PCA(min(COMPONENTS, *dense.shape), random_state=0).fit(dense)
        seen = components.transform(dense)[:2000]
        return cls(genes, components, float(np.median(cdist(seen, seen, "sqeuclidean")[np.triu_indices(len(seen), 1)])))

    def __call__(self, x: sp.csr_matrix) -> np.ndarray:
        return self.components.transform(log_normalised(x)[:, self.genes].toarray())

    def mmd(self, a: np.ndarray, b: np.ndarray) -> float:
        """MMD², the mean over the kernels exp(−d²/2c), never negative (the V-statistic)."""
        return float(np.mean([mmd(a, b, self.scale * each) for each in BANDWIDTHS]))


def log_normalised(x: sp.csr_matrix) -> sp.csr_matrix:
    """ln(1 + counts per 10,000); an empty cell stays empty."""
    return sp.csr_matrix(sp.diags(1e4 / np.maximum(row_totals(x), 1)) @ x).log1p()


def variable_genes(logs: sp.csr_matrix, count: int = GENES) -> np.ndarray:
    """The places of the most variable genes: those whose ln(variance / mean) is highest among genes of about their mean (Satija
    et al., 2015; what scanpy calls "seurat")."""
    mean, variance = mean_variance_axis(logs.expm1(), axis=0)
    variance = variance * logs.shape[0] / (logs.shape[0] - 1)
    there = mean > 0
    dispersion = pd.Series(np.log(variance[there] / mean[there]))
    group = dispersion.groupby(pd.cut(np.log1p(mean[there]), BINS), observed=True)
    spread = group.transform("std")
    alone = spread.isna()  # of a gene that is alone in its bin the score is one
    score = ((dispersion - group.transform("mean")) / spread).where(~alone, 1.0)
    return np.sort(np.flatnonzero(there)[np.argsort(-score.to_numpy(), kind="stable")[:count]])


def w2(a: np.ndarray, b: np.ndarray) -> float:
    """The 2-Wasserstein distance of two groups of points of equal size, exactly."""
    cost = cdist(a, b, "sqeuclidean")
    return float(np.sqrt(cost[linear_sum_assignment(cost)].mean()))


def mmd(a: np.ndarray, b: np.ndarray, scale: float) -> float:
    """MMD² under exp(−d²/(2 scale))."""

    def similar(u: np.ndarray, v: np.ndarray) -> float:
        return float(np.exp(cdist(u, v, "sqeuclidean") / (-2 * scale)).mean())

    return similar(a, a) + similar(b, b) - 2 * similar(a, b)


def distances(space: Space, a: np.ndarray, of: np.ndarray, b: np.ndarray, and_of: np.ndarray) -> Record:
    """Between two groups, and between those of one type: {"W2": …, "MMD2": …, "types": {type: [W2, MMD²]}}."""

    def both(u: np.ndarray, v: np.ndarray) -> list[float]:
        size = min(len(u), len(v))
        return [w2(u[:size], v[:size]), space.mmd(u[:size], v[:size])]

    whole = both(a, b)
    types = {str(each): both(a[of == each], b[and_of == each]) for each in np.unique(of)}
    return {"W2": whole[0], "MMD2": whole[1], "types": types}


def floors(space: Space, points: np.ndarray, of: np.ndarray, seed: int) -> Record:
    """The mean distances between random halves of real cells."""
    found = []
    for turn in range(FLOORS):
        one, other = train_test_split(
            np.arange(len(of)), test_size=0.5, random_state=1000 * (seed + 1) + turn, stratify=of
        )
        found.append(distances(space, points[one], of[one], points[other], of[other]))
    types = {each: np.mean([record["types"][each] for record in found], axis=0).tolist() for each in found[0]["types"]}
    spread = {f"{name}_sd": float(np.std([record[name] for record in found])) for name in ("W2", "MMD2")}
    return (
        {name: float(np.mean([record[name] for record in found])) for name in ("W2", "MMD2")}
        | spread
        | {"types": types}
    )


# Library sizes.


def libraries(real: np.ndarray, of: np.ndarray, drawn: np.ndarray, drawn_of: np.ndarray) -> Record:
    """The mean of drawn library sizes over that of real ones; by type the means, and their difference in standard errors of the
    real mean."""
    types = {}
    for each in np.unique(of):
        mine, theirs = real[of == each], drawn[drawn_of == each]
        error = mine.std(ddof=1) / np.sqrt(len(mine))
        difference = float((theirs.mean() - mine.mean()) / error)
        types[str(each)] = {
            "cells": len(mine),
            "real": float(mine.mean()),
            "drawn": float(theirs.mean()),
            "errors": difference,
        }
    return {"ratio": float(drawn.mean() / real.mean()), "library_types": types}


# Methods: what is fitted to cells, and draws cells of the types that are asked for.


def by_countjump(cells: AnnData, seed: int, updates: int | None, place: Path | None) -> Draw:
    """The default model, given the types; it is kept in that place, if there is one."""
    model = JumpModel(random_state=seed, max_updates=updates, progress=False).fit(cells, y=TYPE)
    if place is not None:
        model.save(place / f"split-{seed}")
    return lambda types, draw: model.sample(len(types), random_state=draw, y=types).X


def by_genes_apart(cells: AnnData, seed: int) -> Draw:
    """Every gene by itself from a random cell of the type: the right means, and nothing joint."""
    of = cells.obs[TYPE].to_numpy()
    by_type = {each: sp.csc_matrix(cells.X[of == each]) for each in np.unique(of)}

    def draw(types: np.ndarray, number: int) -> sp.csr_matrix:
        rng = np.random.default_rng([seed, number])
        pieces, places = [], []
        for each, x in by_type.items():
            wanted = np.flatnonzero(types == each)
            share = np.diff(x.indptr) / x.shape[0]
            filled = rng.binomial(len(wanted), share)
            column = np.repeat(np.arange(x.shape[1]), filled)
            row = np.concatenate([rng.choice(len(wanted), some, replace=False) for some in filled] or [[]])
            value = x.data[x.indptr[column] + rng.integers(np.diff(x.indptr)[column])]
            pieces.append(sp.csr_matrix((value, (row, column)), (len(wanted), x.shape[1])))
            places.append(wanted)
        return sp.vstack(pieces, format="csr")[np.argsort(np.concatenate(places))]

    return draw


def by_scvi(cells: AnnData, seed: int, updates: int | None) -> dict[str, Draw]:
    """scVI (Lopez et al., 2018) with its defaults, but for the epochs, and the types as its batches: from its prior, whose library
    sizes are log-normal for each type, and from its posterior given the cells to fit, their library sizes included."""
    import scvi
    import torch
    from anndata import AnnData

    scvi.settings.seed = seed
    scvi.settings.verbosity = 40
    own = AnnData(sp.csr_matrix(cells.X, dtype=np.float32), obs=cells.obs.copy(), var=cells.var.copy())
    scvi.model.SCVI.setup_anndata(own, batch_key=TYPE)
    model = scvi.model.SCVI(own)
    model.train(
        max_epochs=updates or EPOCHS,
        accelerator="cpu",
        devices=1,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    of = cells.obs[TYPE].to_numpy()
    known = list(model.adata_manager.get_state_registry("batch").categorical_mapping)
    log_library = np.log(row_totals(cells.X))
    mean, spread = (np.array([how(log_library[of == each]) for each in known]) for how in (np.mean, np.std))

    def prior(types: np.ndarray, number: int) -> sp.csr_matrix:
        scvi.settings.seed = number
        rng, pieces = np.random.default_rng([seed, number]), []
        place = np.array([known.index(each) for each in types])
        for some in np.array_split(place, -(-len(place) // 256)):
            library = rng.normal(mean[some], spread[some])[:, None]
            with torch.no_grad():
                made = model.module.generative(
                    z=torch.randn(len(some), model.module.n_latent),
                    library=torch.from_numpy(library).float(),
                    batch_index=torch.from_numpy(some)[:, None],
                )
            pieces.append(sp.csr_matrix(made["px"].sample().numpy().astype(np.int64)))
        return sp.vstack(pieces, format="csr")

    def posterior(types: np.ndarray, number: int) -> sp.csr_matrix:
        scvi.settings.seed = number
        rng = np.random.default_rng([seed, number])
        given = np.array([rng.choice(np.flatnonzero(of == each)) for each in types])
        pieces = []
        for some in np.array_split(given, -(-len(given) // 256)):
            drawn = model.posterior_predictive_sample(own, indices=some, n_samples=1)
            pieces.append(sp.csr_matrix(np.asarray(drawn.todense()), dtype=np.int64))
        return sp.vstack(pieces, format="csr")

    return dict(zip(SCVI, (prior, posterior), strict=True))


# One split.


def read(data: Path | None) -> AnnData:
    """The blood cells and their types."""
    from anndata import AnnData

    wide = load("pbmc", data)
    types = pd.Categorical.from_codes(wide.labels, wide.label_names)
    cells = AnnData(wide.x, obs=pd.DataFrame({TYPE: types}, index=[f"cell {i}" for i in range(wide.x.shape[0])]))
    cells.var_names = pd.Index(wide.columns)
    cells.var_names_make_unique()
    return cells


def measure(
    cells: AnnData, seed: int, methods: list[str], drawn: int, updates: int | None, models: Path | None
) -> Iterator[Record]:
    """What one split says of the methods, one after the other, and its floors."""
    of = cells.obs[TYPE].to_numpy().astype(str)
    fit, judge = (
        np.sort(part) for part in train_test_split(np.arange(len(of)), test_size=0.5, random_state=seed, stratify=of)
    )
    space = Space.of(cells.X[fit])
    real, real_of, total = space(cells.X[judge]), of[judge], row_totals(cells.X[fit])
    many = np.resize(np.random.default_rng(seed).permutation(of[fit]), drawn)
    if "floor" in methods:
        points = space(cells.X)
        beside = libraries(total, of[fit], row_totals(cells.X[judge]), real_of)
        record = floors(space, points, of, seed) | beside | {"seconds_fit": 0.0, "seconds_sample": 0.0}
        if seed == 0:
            record["shown"] = shown(real, real_of)
        yield {"method": "floor"} | record

    def judged(method: str, draw: Draw, seconds: float) -> Record:
        points = space(draw(real_of, seed))
        start = time.process_time()
        sizes = row_totals(draw(many, seed + 1000))
        record: Record = {"method": method, "seconds_fit": round(seconds)}
        record["seconds_sample"] = round(time.process_time() - start)
        record |= distances(space, points, real_of, real, real_of) | libraries(total, of[fit], sizes, many)
        return record | ({"shown": shown(points, real_of)} if seed == 0 and method == COUNTJUMP else {})

    if COUNTJUMP in methods:
        start = time.process_time()
        draw = by_countjump(cells[fit], seed, updates, models)
        yield judged(COUNTJUMP, draw, time.process_time() - start)
    if APART in methods:
        yield judged(APART, by_genes_apart(cells[fit], seed), 0.0)
    if set(SCVI) & set(methods):
        start = time.process_time()
        draws = by_scvi(cells[fit], seed, updates)
        seconds = time.process_time() - start
        yield from (judged(method, draw, seconds) for method, draw in draws.items())


def shown(points: np.ndarray, of: np.ndarray) -> Record:
    """Some cells on the first two components, for the picture."""
    return {"points": points[:SHOWN, :2].round(2).tolist(), "types": of[:SHOWN].tolist()}


# What comes out.


def table(records: list[Record], command: str) -> str:
    """The numbers of all methods, and those of every type."""
    floor = {r["split"]: r for r in records if r["method"] == "floor"}
    head = ["", "splits", "W2", "MMD² × 1,000", "W2, one type", "MMD² × 1,000, one type", "mean library, × real"]
    head += ["types within 2 standard errors", "the most, in standard errors", "fit (s)", "drawing the libraries (s)"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for method in dict.fromkeys(r["method"] for r in records):
        mine, is_floor = [r for r in records if r["method"] == method], method == "floor"
        cells = ["other real cells (floor)" if is_floor else method, str(len(mine))]
        for place in range(4):
            numbers = np.array([summary(r)[place] for r in mine])
            times = np.mean(numbers / [summary(floor[r["split"]])[place] for r in mine])
            cells.append(f"{numbers.mean():.3g}" + ("" if is_floor else f" ({times:.2f}×)"))
        errors = np.abs([one["errors"] for r in mine for one in r["library_types"].values()])
        cells.append(", ".join(f"{r['ratio']:.3f}" for r in mine))
        cells += [f"{(errors <= 2).sum()} of {errors.size}", f"{errors.max():.2f}"]
        seconds = [np.mean([r[name] for r in mine]) for name in ("seconds_fit", "seconds_sample")]
        cells += [f"{each:.0f}" if each else "" for each in seconds]
        lines.append(f"| {' | '.join(cells)} |")
    notes = NOTES + OF_SCVI * any(r["method"] in SCVI for r in records)
    return "\n".join([f"`{command}`", "", *notes, "", *lines, "", *by_type(records, floor), ""])


NOTES = (
    "Blood cells drawn for their type, by models that were fitted to one half of the cells, beside the other half. W2 and MMD² on",
    f"{COMPONENTS} principal components of the {GENES:,} most variable genes of ln(1 + counts per 10,000); in brackets, times the",
    'floor, which is the mean between two groups of real cells. "One type": the mean over the types. W2 below its floor is no',
    "merit: cells that vary too little are matched at a lower cost. The mean library is that of the drawn cells",
    f"({DRAWN:,}, unless the command says otherwise) over that of the cells to fit, for each split; by type the difference of the",
    "two means is counted in standard errors of the latter. Genes apart: every gene from a random cell of its type: right means,",
    "nothing joint.",
)
OF_SCVI = (
    f"scVI has the types as its batches, and {EPOCHS} epochs; its posterior is given the cells to fit, with their library sizes.",
)


def summary(record: Record) -> list[float]:
    """W2 and 1,000 MMD² of all cells, and their means over the types."""
    by_type = np.mean(list(record["types"].values()), axis=0)
    return [record["W2"], 1e3 * record["MMD2"], by_type[0], 1e3 * by_type[1]]


def by_type(records: list[Record], floor: dict[int, Record]) -> list[str]:
    """Every type by the default model."""
    mine = [r for r in records if r["method"] == COUNTJUMP]
    if not mine:
        return []
    head = [
        "type",
        "cells to fit",
        "their mean library",
        "drawn",
        "standard errors, by split",
        "W2 (floor)",
        "MMD² × 1,000 (floor)",
    ]
    lines = ["countjump, type by type:", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for each, first in mine[0]["library_types"].items():
        library = [r["library_types"][each] for r in mine]
        errors = ", ".join(f"{one['errors']:+.2f}".replace("-", "−") for one in library)
        pairs = [(r["types"][each], floor[r["split"]]["types"][each]) for r in mine]
        w, m = (tuple(np.mean([pair[side][place] for pair in pairs]) for side in (0, 1)) for place in (0, 1))
        cells = [
            each,
            str(first["cells"]),
            *(f"{np.mean([one[s] for one in library]):,.0f}" for s in ("real", "drawn")),
            errors,
        ]
        cells += [f"{w[0]:.2f} ({w[1]:.2f})", f"{1e3 * m[0]:.1f} ({1e3 * m[1]:.1f})"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def picture(records: list[Record]) -> Figure | None:
    """Real and drawn cells side by side, and the mean library size of every type."""
    first = {r["method"]: r for r in records if r["split"] == 0}
    if not {"floor", COUNTJUMP} <= first.keys():
        return None
    figure = Figure(figsize=(12.5, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    middle.sharex(left)
    middle.sharey(left)
    library = first[COUNTJUMP]["library_types"]
    colours = dict(zip(library, COLOURS, strict=False))
    for ax, method, title in ((left, "floor", "real cells, held out"), (middle, COUNTJUMP, "drawn for their type")):
        some = first[method]["shown"]
        points, of = np.array(some["points"]), np.array(some["types"])
        for each in library:
            ax.scatter(*points[of == each].T, s=6, color=colours.get(each, INK), alpha=0.75, linewidths=0, label=each)
        ax.set_title(title, color=REAL if method == "floor" else GENERATED, fontsize=11, fontweight="bold")
        ax.set_xlabel("first component", color=INK)
        dress(ax, 8)
    left.set_ylabel("second component", color=INK)
    names = sorted(library, key=lambda each: library[each]["cells"])
    for place, each in enumerate(names):
        one = library[each]
        error = 200 * abs(one["drawn"] - one["real"]) / max(abs(one["errors"]), 1e-9) / one["real"]
        right.errorbar(0, place, xerr=error, color=REAL, marker="o", markersize=5, capsize=3, linewidth=1.4)
        right.plot(100 * (one["drawn"] / one["real"] - 1), place, color=GENERATED, marker="D", markersize=5)
    right.plot([], [], color=REAL, marker="o", label="cells to fit, ± 2 standard errors")
    right.plot([], [], color=GENERATED, marker="D", linestyle="none", label="drawn")
    right.set_yticks(range(len(names)), names, fontsize=8)
    right.set_ylim(-1.8, len(names) - 0.5)
    right.set_xlabel("difference from the mean of the cells to fit (%)", color=INK)
    right.grid(axis="x", color=FAINT, linewidth=0.6)
    right.set_axisbelow(True)
    right.set_title("mean library size", color=INK, fontsize=11, fontweight="bold")
    dress(right, 8)
    for tick, each in zip(right.get_yticklabels(), names, strict=True):
        tick.set_color(colours.get(each, INK))
    right.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


COLOURS = ("#e15759", "#4e79a7", "#9c755f", "#f28e2b", "#edc948", "#59a14f", "#76b7b2", "#b07aa1", "#ff7fa7", "#2a9d8f")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("COUNTJUMP_DATA"), help="where the cells are")
    parser.add_argument("--scvi", action="store_true", help="scVI too; needs scvi-tools")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--drawn", type=int, default=DRAWN, help="cells whose library sizes are compared")
    parser.add_argument("--updates", type=int, help="of a fit (of scVI: epochs), instead of its own length")
    parser.add_argument("--models", type=Path, help="where fitted models are kept")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args(words)
    if arguments.data is None:
        print("the cells are read from files: say where they are with --data (see --help)")
        return 0
    for name, wanted in {"anndata": True, "scvi": arguments.scvi}.items():
        if wanted and importlib.util.find_spec(name) is None:
            parser.error(f"{name} is not installed here: pip install anndata, and scvi-tools for --scvi")
    path = arguments.out / "results.json"
    records: list[Record] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    asked = {"drawn": arguments.drawn, "updates": arguments.updates}
    if any(r["asked"] != asked for r in records):
        parser.error(f"{path} has records with other --drawn or --updates: choose another --out")
    cells = read(Path(arguments.data))
    methods = ["floor", COUNTJUMP, APART, *(SCVI if arguments.scvi else ())]
    for split in range(arguments.splits):
        known = {r["method"] for r in records if r["split"] == split}
        new = [method for method in methods if method not in known]
        for record in measure(cells, split, new, arguments.drawn, arguments.updates, arguments.models) if new else ():
            records.append(record | {"split": split, "asked": asked})
            records.sort(key=lambda r: (ORDER.index(r["method"]), r["split"]))
            arguments.out.mkdir(parents=True, exist_ok=True)
            write_atomically(path, (json.dumps(records) + "\n").encode())
    said = [f"--{name} {value}" for name, value in asked.items() if value != parser.get_default(name)]
    said += [f"--splits {arguments.splits}"] * (arguments.splits != SPLITS)
    said += ["--scvi"] * any(r["method"] in SCVI for r in records)
    page = table(records, " ".join(["python benchmarks/cells.py --data DIR", *said]))
    write_atomically(arguments.out / "table.md", page.encode())
    figure = picture(records)
    if figure is not None:
        write_atomically(arguments.out / "cells.png", png(figure, dpi=110))
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
