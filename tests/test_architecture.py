"""What may import what inside countjump (docs/architecture.md). A new module is one more line in MAY_IMPORT."""

import ast
from pathlib import Path

import pytest

import countjump

ROOT = Path(countjump.__file__).parent

CORE = {
    "schedules",
    "laws",
    "bags",
    "compositions",
    "divergences",
    "beliefs",
    "processes",
    "domains",
    "networks",
    "optimiser",
    "trainer",
}
FACE = CORE | {"oracles", "sampling", "likelihood", "choices", "storage", "data", "scaling", "_version"}
PUBLIC = {"countjump"}
"""The public names, imported from the package itself."""

MAY_IMPORT: dict[str, set[str]] = {
    "_version": set(),
    "atomic": set(),
    "schedules": set(),
    "laws": set(),
    "divergences": set(),
    "domains": set(),
    "networks": set(),
    "scaling": set(),
    "bags": {"laws"},
    "priors": set(),
    "optimiser": set(),
    "trainer": {"atomic", "optimiser"},
    "data": {"atomic", "bags"},
    "compositions": {"laws", "bags"},
    "beliefs": {"laws", "bags", "compositions"},
    "processes": {"schedules", "laws", "bags", "divergences", "beliefs"},
    "oracles": {"schedules", "laws", "divergences", "beliefs"},
    "sampling": {"processes", "bags"},
    "likelihood": {"processes", "laws", "bags"},
    "choices": {"schedules", "priors", "laws", "domains", "networks", "beliefs", "processes", "data"},
    "storage": {"domains", "schedules", "atomic", "_version"},
    "estimator": FACE,
    "model": FACE | {"estimator"},
    "baselines": FACE | {"estimator"},
    "metrics": set(),
    "report": {"metrics"},
    "experiments": PUBLIC | {"baselines", "data", "metrics", "report", "atomic", "_version"},
    "cli": PUBLIC | {"baselines", "experiments", "data", "metrics", "report", "_version"},
    "demo": PUBLIC,
    "__main__": PUBLIC | {"cli"},
    "__init__": {"model", "baselines", "domains", "schedules", "_version"},
}
GRANTED: dict[str, set[str]] = {
    "cli": {"demo", "domains", "storage"},  # the domains' names, and what is wrong with a model's file
    "demo": {
        "data",
        "model",
        "laws",
        "processes",
        "report",
        "sampling",
        "schedules",
        "atomic",
    },  # one chain, filmed
}
"""What is allowed beyond that, each with its reason."""

BASES = {"networks": "time", "data": "rows", "report": "figures", "experiments": "runner"}
"""The member of a folder that the others may import, where it is not ``base``."""

FILES = sorted(ROOT.rglob("*.py"))


def dotted(path: Path) -> list[str]:
    """countjump/processes/jump.py → ["processes", "jump"]; a folder's __init__ is the folder."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


def imported(path: Path) -> set[tuple[str, ...]]:
    """Every module of countjump that a file imports, wherever in the file; () is the package itself."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports inside countjump are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {resolve(name.split(".")[1:]) for name in names if name.split(".")[0] == "countjump"}
    return found


def resolve(parts: list[str]) -> tuple[str, ...]:
    """Without the names that are not modules: ["laws", "Poisson"] → ("laws",)."""
    place, kept = ROOT, []
    for part in parts:
        place = place / part
        if not (place.is_dir() or place.with_suffix(".py").is_file()):
            break
        kept.append(part)
    return tuple(kept)


@pytest.mark.parametrize("path", FILES, ids=lambda path: ".".join(dotted(path)))
def test_imports_go_down(path: Path):
    module = dotted(path)
    assert module[0] in MAY_IMPORT, (
        f"{'.'.join(module)} is new: say in MAY_IMPORT and docs/architecture.md what it may import"
    )
    allowed = MAY_IMPORT[module[0]] | GRANTED.get(module[0], set())
    for target in imported(path):
        if target[:1] == (module[0],) and target:
            continue  # its own folder: see below
        top = target[0] if target else "countjump"
        assert top in allowed, (
            f"{'.'.join(module)} imports {top}; it may import {sorted(allowed) or 'nothing of countjump'}"
        )


@pytest.mark.parametrize(
    "path", [path for path in FILES if len(dotted(path)) > 1], ids=lambda path: ".".join(dotted(path))
)
def test_members_of_a_folder_import_its_base_and_never_each_other(path: Path):
    folder, member = dotted(path)[0], dotted(path)[-1]
    base = BASES.get(folder, "base")
    for target in imported(path):
        if target[:1] == (folder,):
            assert target[1:2] == (base,), (
                f"{folder}.{member} imports {'.'.join(target)}; only {folder}.{base} is shared"
            )


def test_what_is_granted_is_used():
    for module, granted in GRANTED.items():
        used = {target[0] for path in FILES if dotted(path)[0] == module for target in imported(path) if target}
        assert granted <= used, f"{module} no longer imports {sorted(granted - used)}: take it out of GRANTED"


def test_the_checker_sees_imports(tmp_path: Path):
    source = (
        "import countjump\nfrom countjump.laws import Poisson\ndef f():\n    from countjump.processes import jump\n"
    )
    (tmp_path / "sample.py").write_text(source)
    assert imported(tmp_path / "sample.py") == {(), ("laws",), ("processes", "jump")}


def test_no_drawer_for_odds_and_ends():
    for path in ROOT.rglob("*"):
        assert path.stem not in {"utils", "misc", "helpers", "common"}, f"{path} says nothing of what it holds"
