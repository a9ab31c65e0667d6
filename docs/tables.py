"""Make the README's tables from the records of the experiments: ``python docs/tables.py`` writes them where they stand."""

import json
import re
from pathlib import Path
from typing import Any

from countjump.experiments import Documents, Univariate
from countjump.experiments.runner import markdown, mean_of, plus_minus

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
README = ROOT / "README.md"

STEPS, PAPER_STEPS = 20, 100
UNIVARIATE = ["set", "floor", f"jump, {STEPS} steps", f"jump-paper, {PAPER_STEPS} steps", "paper's JUMP"]
WIDE = ["set", "rows × columns", "AUC", "sparsity", "totals"]
NAMES = {
    "20news-bow": "20 Newsgroups, counts",
    "20news-tfidf": "20 Newsgroups, TF-IDF",
    "nips-bow": "NeurIPS papers, counts",
    "nips-tfidf": "NeurIPS papers, TF-IDF",
    "pbmc": "blood cells, counts",
}


def records(experiment: str) -> list[dict[str, Any]]:
    """What was measured."""
    return json.loads((RESULTS / experiment / "results.json").read_text(encoding="utf-8"))


def mean(found: list[dict[str, Any]], field: str, **where: Any) -> float:
    """The mean over the runs."""
    got = mean_of(found, field, **where)
    assert got is not None, f"no record of {field} where {where}"
    return got[0]


def times_floor(found: list[dict[str, Any]], field: str, **where: Any) -> float:
    """A distance over that between real rows, both as means over the runs."""
    return mean(found, field, **where) / mean(found, f"{field}_floor", **where)


def univariate() -> str:
    """W1, its floor and their ratio; the paper's numbers beside those of its method as it is implemented here."""
    found, rows = records("univariate"), []
    for name, known in Univariate("paper").recipe["sets"].items():
        unit = 100 if name in ("Uniform", "Beta05", "Beta2") else 1
        floor, spread = (mean(found, field, dataset=name) for field in ("floor", "floor_sd"))
        cells = [f"{name} (×100)" if unit == 100 else name, plus_minus(unit, floor, spread)]
        for method, steps in (("jump", STEPS), ("jump-paper", PAPER_STEPS)):
            got = mean_of(found, "w1", dataset=name, method=method, steps=steps)
            cells.append("" if got is None else f"{plus_minus(unit, *got[:2])} ({got[0] / floor:.2f}×)")
        rows.append([*cells, plus_minus(unit, *known["paper"]["jump"])])
    return "\n".join(markdown(UNIVARIATE, rows))


def wide() -> str:
    """A two-sample classifier's AUC, and W1 of sparsity and totals over that of fresh real rows."""
    found, rows = records("documents"), []
    for dataset in Documents("paper").recipe["sets"]:
        mine = [r for r in found if (r["dataset"], r["method"], r["steps"]) == (dataset, "jump", STEPS)]
        ratios = (f"{times_floor(mine, field):.2f}×" for field in ("sparsity_w1", "total_w1"))
        size = f"{mine[0]['rows']:,} × {mine[0]['columns']:,}"
        rows.append([NAMES[dataset], size, f"{mean(mine, 'auc'):.3f}", *ratios])
    return "\n".join(markdown(WIDE, rows))


def replace(page: str, table: str) -> str:
    """The page with the table that has the same head replaced."""
    head = re.escape(table.split("\n")[0])
    changed, count = re.subn(rf"^{head}\n(\|.*\n)+", lambda _: f"{table}\n", page, flags=re.MULTILINE)
    assert count == 1, f"{count} tables begin with {table.splitlines()[0]}"
    return changed


if __name__ == "__main__":
    page = README.read_text(encoding="utf-8")
    for table in (univariate(), wide()):
        page = replace(page, table)
    README.write_text(page, encoding="utf-8")
