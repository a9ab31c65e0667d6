"""The code in the pages runs, the examples run, links lead somewhere, and tables hold what was measured."""

import gc
import importlib
import pkgutil
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_architecture import ROOMS

from countjump import persistence
from countjump.blocks import BLOCKS, sparse_counts
from countjump.blocks import sparse as sparse_blocks
from countjump.blocks.images import SHARPEST
from countjump.estimator import PICTURES_AT_ONCE
from countjump.experiments import Documents
from countjump.experiments.documents import examples, table
from countjump.laws import sparse
from countjump.planning import PLANNERS
from countjump.planning import images as planning

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))
"""What makes the README's tables."""

NEEDS = {"docs/walkthroughs/cells.md": ["anndata"]}
"""Libraries that a page asks for, and that not every environment has."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: Path) -> list[tuple[int, str]]:
    """(line, code) of every python block."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [(text[: match.start(1)].count("\n"), match[1]) for match in found]


def tables(text: str) -> list[list[list[str]]]:
    """Every table as its rows of cells, the head first, without the line below it; bold and italic marks are taken off."""
    found = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    lines = [[line for line in each.splitlines() if not re.fullmatch(r"[|:\- ]+", line)] for each in found]
    return [[[cell.strip().strip("*") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in each] for each in lines]


@pytest.fixture
def registries() -> Iterator[None]:
    """What a page registers is gone after it, classes included."""
    known: list[dict[str, Any]] = [BLOCKS, PLANNERS, persistence.OBJECTS]
    before = [dict(each) for each in known]
    yield
    for registry, entries in zip(known, before, strict=True):
        registry.clear()
        registry.update(entries)
    gc.collect()


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_code_runs(page, tmp_path, monkeypatch):
    for library in NEEDS.get(name_of(page), ()):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "documentation"}
    for line, code in blocks(page):  # one after the other: later blocks use what earlier ones made
        exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_runs(example, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(example), "10"])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, place in re.findall(r"\]\(([^)#\s]*)(#[^)\s]+)?[^)]*\)", text):
        if target.startswith("http"):
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} links to {target}, which is not there"
        if place:
            assert place[1:] in headings(there.read_text(encoding="utf-8")), f"{page.name} links to {target}{place}"


def headings(text: str) -> set[str]:
    """As GitHub names them."""
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_paper_map_names_what_there_is():
    text = read("docs/paper-map.md")
    tests = set(re.findall(r"^def (test_\w+)", read("tests/test_paper.py"), re.MULTILINE))
    mapped = set(re.findall(r"`(test_\w+)`", text))
    assert mapped == tests
    for name in set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", text)):
        pkgutil.resolve_name(f"countjump.{name}")


def test_the_paper_map_has_every_section_table_and_figure():
    """Of the paper: six sections, three appendices, three tables, five figures, two algorithms."""
    text = read("docs/paper-map.md").lower()
    parts = [f"section {n}" for n in range(1, 7)] + [f"section 4.{n}" for n in range(1, 4)]
    parts += [f"appendix {letter}" for letter in "abc"] + [f"table {n}" for n in range(1, 4)]
    parts += [f"figure {n}" for n in range(1, 6)] + ["algorithm 1", "algorithm 2"]
    assert [part for part in parts if not re.search(rf"\b{re.escape(part)}\b", text)] == []


NAMED = re.compile(
    r"`(?:countjump\.)?((?:blocks|laws|planning|processes|training|sampling|likelihood|states|sparse)(?:\.\w+)+)`"
)


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/extending.md", "docs/domains.md"])
def test_pages_name_what_there_is(page):
    for name in set(NAMED.findall(read(page))):
        if not name.endswith(".py"):
            pkgutil.resolve_name(f"countjump.{name}")
    for file in set(re.findall(r"`((?:\w+/)*\w+\.py)`", read(page))):
        places = [ROOT / file, ROOT / "countjump" / file]
        assert any(place.exists() for place in places), f"{page} names {file}, which is not there"


def test_the_architecture_shows_every_room():
    rooms = re.search(r"^## The rooms\n(.*?)^## ", read("docs/architecture.md"), re.MULTILINE | re.DOTALL)
    assert rooms is not None
    for path in (ROOT / "countjump").iterdir():
        if (path.suffix == ".py" and not path.stem.startswith("_")) or (path / "__init__.py").exists():
            shown = path.name if path.is_file() else f"{path.name}/"
            assert shown in rooms[1], f"docs/architecture.md does not show {shown}"


def test_the_architecture_says_what_may_import_what():
    listed: dict[str, set[str]] = {}
    section = re.search(r"^## What may import what\n(.*?)^## ", read("docs/architecture.md"), re.MULTILINE | re.DOTALL)
    assert section is not None
    for rooms, names in re.findall(r"^    (\S.*?) +→ (.*(?:\n {20,}.*)*)", section[1], re.MULTILINE):
        listed |= {room: set(names.split()) - {"–"} for room in rooms.split()}
    hidden = ("_version", "__init__", "__main__", "countjump")
    assert listed == {room: names - {"_version"} for room, names in ROOMS.items() if room not in hidden}


PRIVATE = (
    "bag-law",
    "baglaw",
    "baghead",
    "pace network",
    "echo",
    "strew",
    "gauge",
    "anew",
    "its like",
    "tilt",
    "tilted",
)
"""Words of an earlier version that nobody outside it used."""


@pytest.mark.parametrize(
    "page",
    ["README.md", *(f"docs/{n}.md" for n in ("architecture", "extending", "domains")), "docs/models/sparse-counts.md"],
)
def test_pages_use_the_words_of_the_field(page):
    text = read(page).lower()
    assert [word for word in PRIVATE if re.search(rf"\b{word}\b", text)] == []


def test_the_pictures_are_small():
    for name in ("overview.png", "thinning.gif"):
        assert (ROOT / "docs" / "images" / name).stat().st_size < 200_000


# The page of a model.


def test_the_constants_of_sparse_counts_are_those_of_the_code():
    (listed,) = [each for each in tables(read("docs/models/sparse-counts.md")) if each[0][0] == "constant"]
    assert len(listed) > 1
    for name, value, reason in listed[1:]:
        home = next(each for each in (sparse_blocks, sparse_counts, sparse) if hasattr(each, name.strip("`")))
        assert getattr(home, name.strip("`")) == eval(value), name
        assert reason


def test_the_constants_of_images_are_those_of_the_code():
    (found,) = [table for table in tables(read("docs/models/images.md")) if table[0] == ["what", "value", "reason"]]
    values = {what: value for what, value, _ in found[1:]}
    assert values["alternatives"] == f"{planning.ALTERNATIVES}, from {planning.MANY:,} images on"
    assert values["`FEW_LEVELS`"] == str(planning.FEW_LEVELS)
    assert values["levels of reals"] == str(planning.EIGHT_BITS + 1)
    assert values["`t_max`"] == f"α = {planning.FIRST_UNITS:g}/units"
    assert values["scale of a logistic"] == f"{SHARPEST:g} levels at least"
    assert values["images evaluated together on a CPU"] == str(PICTURES_AT_ONCE)


def test_what_is_calibrated_is_listed():
    text = read("docs/models/sparse-counts.md")
    block = BLOCKS["sparse-counts"](torch.ones(3) / 3, 1, 1.0, 1.0, 1.0, torch.ones(3, 1, 1))
    (listed,) = [each for each in tables(text) if each[0][0] == "calibrated"]
    in_time, _ = block.calibration.shape
    assert [eval(row[1].replace("×", "*")) for row in listed[1:]] == [in_time * n for n in sparse_counts.CALIBRATED]
    assert f"| calibration | {block.calibration.numel()} numbers" in text
    assert f"| strengths | {block.strength.numel()} numbers" in text


# Tables.


def test_tables_of_the_readme_have_at_most_five_columns():
    found = tables(read("README.md"))
    assert found
    assert max(len(each[0]) for each in found) <= 5


@pytest.mark.parametrize("make", ["univariate", "wide"])
def test_tables_of_the_readme_are_those_of_the_records(make):
    assert TABLES[make]() in read("README.md"), "python docs/tables.py writes them"


def test_the_pages_of_wide_data_are_what_the_program_makes_of_the_records():
    place, sets = ROOT / "docs" / "results" / "documents", Documents("paper").recipe["sets"]
    records = TABLES["records"]("documents")
    Documents("paper").check(records, [])
    for file, page in {"table.md": table, "examples.md": examples}.items():
        assert (place / file).read_text(encoding="utf-8") == page(records, sets), file


def test_the_page_of_univariate_data_is_what_the_program_makes_of_the_records():
    module = importlib.import_module("countjump.experiments.univariate")
    sets = module.Univariate("paper").recipe["sets"]
    made = module.table(TABLES["records"]("univariate"), sets)
    assert read("docs/results/univariate/table.md") == made


RESULTS = {
    "20news-bow": "20 Newsgroups, bag of words",
    "20news-tfidf": "20 Newsgroups, TF-IDF",
    "nips-bow": "NeurIPS, bag of words",
    "nips-tfidf": "NeurIPS, TF-IDF",
    "pbmc": "blood cells",
}
"""How docs/results.md calls the sets of wide data."""

DISTANCES = {"sparsity": "sparsity_w1", "total": "total_w1", "totals": "total_w1"}
STEPS = (20, 50)
"""Of the two numbers in a cell, where its column does not say."""


def jump_says(dataset: str, title: str, steps: int) -> str | None:
    """What a column of docs/results.md says of the default model, the mean over its runs; None of what it does not know."""
    mean, records = TABLES["mean"], TABLES["records"]("documents")
    mine = [r for r in records if (r["dataset"], r["method"], r["steps"]) == (dataset, "jump", steps)]
    if title in DISTANCES:
        return f"{TABLES['times_floor'](mine, DISTANCES[title]):.2f}"
    if title == "AUC":
        return f"{mean(mine, 'auc'):.3f}"
    if title == "PMI":
        return f"{mean(mine, 'pmi_correlation'):.2f}"
    if title == "accuracy" and "synthetic_accuracy" in mine[0]:
        return f"{mean(mine, 'synthetic_accuracy') / mean(mine, 'real_accuracy'):.3f}"
    return "–" if title == "accuracy" else None


def best_rival(dataset: str) -> str:
    rivals = [r for r in TABLES["records"]("documents") if r["dataset"] == dataset and r["method"] != "jump"]
    lines = {(r["method"], r["steps"]) for r in rivals}
    auc, method = min((TABLES["mean"](rivals, "auc", method=m, steps=s), m) for m, s in lines)
    return f"{auc:.3f} ({method})"


def expected(dataset: str, title: str) -> str | None:
    """The cell of a column; "AUC, 50 steps" is of 50 steps alone, "AUC" of 20 / 50."""
    if title == "best rival's AUC":
        return best_rival(dataset)
    name, _, steps = title.partition(", ")
    said = [jump_says(dataset, name, each) for each in ([int(steps.split()[0])] if steps.endswith("steps") else STEPS)]
    return said[0] if said[0] in (None, "–") else " / ".join(map(str, said))


@pytest.mark.parametrize("dataset", RESULTS)
def test_the_tables_of_results_are_those_of_the_records(dataset):
    rows = [
        (head, row) for head, *rows in tables(read("docs/results.md")) for row in rows if row[0] == RESULTS[dataset]
    ]
    cells = [(title, cell) for head, row in rows for title, cell in zip(head[1:], row[1:], strict=True)]
    held = {title: (cell, said) for title, cell in cells if (said := expected(dataset, title)) is not None}
    assert held, f"docs/results.md says nothing of {dataset}"
    for title, (cell, said) in held.items():
        assert cell.replace("×", "") == said, f"{dataset}: {title}"
