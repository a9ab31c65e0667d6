"""The code in README.md and docs/*.md runs, the examples run, and links within the documentation lead somewhere."""

import json
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

from countjump.experiments import Documents
from countjump.experiments.documents import examples, table

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[tuple[int, str]]:
    """(line, code) of every python block."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [(text[: match.start(1)].count("\n"), match[1]) for match in found]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "documentation"}
    for line, code in blocks(page):  # one after the other: later blocks use what earlier ones made
        exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_runs(example, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(example), "10"])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_the_paper_map_names_what_there_is():
    text = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
    tests = set(
        re.findall(r"^def (test_\w+)", (ROOT / "tests" / "test_paper.py").read_text(encoding="utf-8"), re.MULTILINE)
    )
    mapped = set(re.findall(r"`(test_\w+)`", text))
    assert mapped == tests
    for name in set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", text)):
        pkgutil.resolve_name(f"countjump.{name}")


def test_the_picture_is_small():
    assert (ROOT / "docs" / "images" / "overview.png").stat().st_size < 200_000


def test_the_readme_shows_the_table_that_was_measured():
    table = (ROOT / "docs" / "results" / "univariate" / "table.md").read_text(encoding="utf-8").split("\n\n")[0]
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")


WIDE = {
    "20news-bow": ("20 Newsgroups, counts", "20 Newsgroups, bag of words"),
    "20news-tfidf": ("20 Newsgroups, TF-IDF", "20 Newsgroups, TF-IDF"),
    "nips-bow": ("NeurIPS papers, counts", "NeurIPS, bag of words"),
    "nips-tfidf": ("NeurIPS papers, TF-IDF", "NeurIPS, TF-IDF"),
    "pbmc": ("blood cells, counts", "blood cells"),
}


def test_the_pages_of_wide_data_are_what_the_program_makes_of_the_records():
    place, sets = ROOT / "docs" / "results" / "documents", Documents("paper").recipe["sets"]
    records = json.loads((place / "results.json").read_text(encoding="utf-8"))
    Documents("paper").check(records)
    for file, page in {"table.md": table, "examples.md": examples}.items():
        assert (place / file).read_text(encoding="utf-8") == page(records, sets), file


@pytest.mark.parametrize("dataset", WIDE)
def test_the_tables_of_wide_data_are_those_of_the_records(dataset):
    records = json.loads((ROOT / "docs" / "results" / "documents" / "results.json").read_text(encoding="utf-8"))
    mine = {(r["method"], r["steps"]): r for r in records if r["dataset"] == dataset}
    jump = [mine["jump", steps] for steps in (20, 50)]
    in_readme, in_results = WIDE[dataset]

    def line(page: str, start: str) -> list[str]:
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        (found,) = [each for each in lines if each.startswith(f"| {start} |")]
        return [cell.strip().replace("*", "") for cell in found.split("|")[2:-1]]

    def times(record: dict, name: str) -> float:
        return record[f"{name}_w1"] / record[f"{name}_w1_floor"]

    first = jump[0]
    assert line("README.md", in_readme) == [
        f"{first['rows']:,} × {first['columns']:,}",
        f"{first['auc']:.2f}",
        f"{mine['lda', 0]['auc']:.2f}" if ("lda", 0) in mine else "",
        f"{mine['columns', 0]['auc']:.2f}",
        f"{times(first, 'sparsity'):.2f}×",
        f"{times(first, 'total'):.2f}×",
    ]
    *cells, rival = line("docs/results.md", in_results)
    accuracy = "–"
    if "synthetic_accuracy" in first:
        accuracy = " / ".join(f"{r['synthetic_accuracy'] / r['real_accuracy']:.3f}" for r in jump)
    assert cells == [
        " / ".join(f"{times(r, 'sparsity'):.2f}" for r in jump),
        " / ".join(f"{times(r, 'total'):.2f}" for r in jump),
        " / ".join(f"{r['auc']:.3f}" for r in jump),
        " / ".join(f"{r['pmi_correlation']:.2f}" for r in jump),
        accuracy,
    ]
    auc, method = min((r["auc"], method) for (method, _), r in mine.items() if method != "jump")
    assert rival.lower() == f"{auc:.3f} ({method})"
