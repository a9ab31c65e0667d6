"""What may import what inside countjump, and who may name what (docs/architecture.md). A new module is one more line in ROOMS."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import countjump
from countjump import blocks, sparse, states
from countjump.domains import DOMAINS

ROOT = Path(countjump.__file__).parent

ROOMS: dict[str, set[str]] = {
    "_version": set(),
    "atomic": set(),
    "progress": set(),
    "states": set(),
    "sparse": {"states"},
    "laws": {"states", "sparse"},
    "schedules": set(),
    "divergences": set(),
    "domains": set(),
    "priors": set(),
    "transforms": set(),
    "conditions": set(),
    "clusters": set(),
    "networks": set(),
    "data": {"atomic"},
    "blocks": {"states", "sparse", "laws", "divergences", "domains", "priors", "transforms"},
    "processes": {"states", "laws", "schedules", "blocks"},
    "denoiser": {"states", "schedules"},
    "samplers": {"laws", "blocks", "processes"},
    "sampling": {"states", "laws", "blocks", "processes", "denoiser", "samplers"},
    "likelihood": {"states", "processes", "denoiser"},
    "oracles": {"laws", "schedules", "blocks"},
    "training": {"_version", "atomic", "progress"},
    "planning": {
        *("states", "laws", "schedules", "domains", "priors", "transforms", "networks", "data", "blocks", "processes"),
        *("denoiser",),
    },
    "persistence": {"_version", "atomic", "domains", "schedules", "transforms", "networks"},
    "parameters": {"atomic", "planning"},
    "fitted": {"transforms", "conditions", "clusters", "data", "persistence", "parameters"},
    "fitting": {
        *("progress", "states", "laws", "data", "blocks", "sampling", "training", "planning", "parameters", "fitted"),
    },
    "scoring": {"data", "likelihood", "parameters", "fitted"},
    "estimator": {
        *("_version", "progress", "laws", "domains", "transforms", "conditions", "clusters", "data", "processes"),
        "denoiser",
        *("samplers", "sampling", "persistence", "parameters", "fitted", "fitting", "scoring"),
    },
    "starts": {"progress", "states", "laws", "domains", "data", "sampling", "parameters", "estimator"},
    "model": {
        *("schedules", "domains", "transforms", "data", "networks", "processes", "denoiser", "planning"),
        *("persistence", "parameters", "starts"),
    },
    "baselines": {
        *("schedules", "domains", "networks", "data", "blocks", "processes", "denoiser", "planning", "estimator"),
    },
    "metrics": {"atomic"},
    "report": set(),
    "evaluation": {"_version", "atomic", "metrics", "report"},
    "__init__": {"_version", "domains", "schedules", "transforms", "model", "evaluation"},
    "countjump": set(),
    "experiments": {"atomic", "data", "baselines", "metrics", "report", "countjump"},
    "demo": {"atomic", "laws", "data", "sampling", "model", "report"},  # one chain, filmed
    "cli": {"atomic", "progress", "domains", "data", "persistence", "baselines", "experiments", "demo", "countjump"},
    "__main__": {"cli"},
}
"""The rooms from the ground up, and what each may import; "countjump" stands for the public names."""

SHARED = {
    "laws": ("base", "scalar", "composition", "logistic"),
    "blocks": ("base", "columns", "sparse", "counts"),
    "processes": ("base",),
    "networks": ("time", "mlp", "unet"),
    "data": (
        *("rows", "libraries", "columns", "tables", "annotated", "places", "pictures"),
        *("dialects", "moments", "cells", "matrices", "matrixmarket", "text"),
    ),
    "training": ("batches", "checkpoints", "optimisers"),
    "planning": ("decisions", "atoms", "groups", "parts", "plan"),
    "transforms": ("weights",),
    "metrics": ("values", "wide", "tables", "reading", "safety"),
    "report": ("figures",),
    "evaluation": ("measures", "columns", "joint", "usefulness", "safety", "verdict"),
    "experiments": ("runner",),
    "cli": ("asking", "tables", "inspecting", "models"),
}
"""The members of a folder that the others may import, each also by those that come after it."""

ONLY_BASE = {"processes", "samplers", "sampling", "oracles", "fitting"}
"""What may know of blocks in general, and of none in particular."""

PRIVATE = {"states", "sparse", "laws", "blocks"}
"""The rooms that may ask what kind of state, block or law they have."""

CONCRETE = {"SparseRows", "ColumnSample", "Joint", *(kind.__name__ for kind in blocks.BLOCKS.values())}

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


def test_the_rooms_are_in_order():
    for place, (room, allowed) in enumerate(ROOMS.items()):
        above = allowed - set(list(ROOMS)[:place])
        assert not above, f"{room} may import {sorted(above)}, which come after it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: ".".join(dotted(path)))
def test_imports_go_down(path: Path):
    module = dotted(path)
    assert module[0] in ROOMS, f"{'.'.join(module)} is new: say in ROOMS and docs/architecture.md what it may import"
    allowed = ROOMS[module[0]]
    for target in imported(path):
        if target[:1] == (module[0],) and target:
            continue  # its own folder: see below
        top = target[0] if target else "countjump"
        assert top in allowed, (
            f"{'.'.join(module)} imports {top}; it may import {sorted(allowed) or 'nothing of countjump'}"
        )
        if module[0] in ONLY_BASE and top == "blocks":
            assert target[1:2] == ("base",), f"{'.'.join(module)} imports {'.'.join(target)}; it may import blocks.base"


def test_what_is_allowed_is_used():
    for room, allowed in ROOMS.items():
        used = {
            target[0] if target else "countjump"
            for path in FILES
            if dotted(path)[0] == room
            for target in imported(path)
        }
        assert allowed <= used | {room}, f"{room} no longer imports {sorted(allowed - used)}: take it out of ROOMS"


@pytest.mark.parametrize(
    "path", [path for path in FILES if len(dotted(path)) > 1], ids=lambda path: ".".join(dotted(path))
)
def test_members_of_a_folder_import_what_is_shared_and_never_each_other(path: Path):
    folder, member = dotted(path)[0], dotted(path)[-1]
    shared = SHARED.get(folder, ())
    before = shared[: shared.index(member)] if member in shared else shared
    for target in imported(path):
        if target[:1] == (folder,):
            assert set(target[1:2]) & set(before), (
                f"{folder}.{member} imports {'.'.join(target)}; it may import {before}"
            )


def named(path: Path) -> set[str]:
    """Every name, attribute and keyword in the code of a file; what its docstrings say does not count."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.alias(name=name):
                found.add(name.split(".")[-1])
    return found


def asked(path: Path) -> set[str]:
    """The classes that ``isinstance`` and ``issubclass`` ask for in a file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                found |= {each.id for each in ast.walk(kinds) if isinstance(each, ast.Name)}
                found |= {each.attr for each in ast.walk(kinds) if isinstance(each, ast.Attribute)}
    return found


def defined(room: str) -> set[str]:
    """The classes of a room."""
    files = [path for path in FILES if dotted(path)[0] == room]
    trees = (ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in files)
    return {node.name for tree in trees for node in tree if isinstance(node, ast.ClassDef)}


OUTSIDE = [path for path in FILES if dotted(path)[0] not in PRIVATE]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: ".".join(dotted(path)))
def test_no_one_else_names_a_concrete_state_or_block(path: Path):
    assert not named(path) & CONCRETE, "what holds for all states and blocks is a method of theirs"


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: ".".join(dotted(path)))
def test_no_one_else_asks_what_kind_of_state_block_or_law_it_has(path: Path):
    kinds = set.union(*(defined(room) for room in PRIVATE)) | {"Tensor"}
    assert not asked(path) & kinds


@pytest.mark.parametrize("path", FILES, ids=lambda path: ".".join(dotted(path)))
def test_no_behaviour_hangs_on_requires_grad(path: Path):
    assert not named(path) & {"requires_grad", "requires_grad_"}


def test_the_checker_knows_the_concrete_names():
    assert defined("sparse") | defined("states") == {"Joint", "SparseRows", "ColumnSample"}
    assert {"Law", "Product", "JointLaw", "TotalComposition"} <= defined("laws")
    assert {"Block", "Blocks", "Belief", "SparseCounts"} <= defined("blocks")
    assert sparse.SparseRows.__name__ in CONCRETE
    assert states.Joint.__name__ in CONCRETE


def test_the_checker_sees_names_and_questions(tmp_path: Path):
    source = '''"""SparseRows in words."""\nx.requires_grad_(True)\nif isinstance(z, sparse.SparseRows | Joint): f(kind=1)\n'''
    (tmp_path / "sample.py").write_text(source)
    assert {"requires_grad_", "SparseRows", "Joint", "kind"} <= named(tmp_path / "sample.py")
    assert asked(tmp_path / "sample.py") == {"sparse", "SparseRows", "Joint"}
    (tmp_path / "words.py").write_text('"""SparseRows in words."""\n')
    assert named(tmp_path / "words.py") == set()


def test_the_checker_sees_imports(tmp_path: Path):
    source = (
        "import countjump\nfrom countjump.laws import Poisson\ndef f():\n    from countjump.processes import jump\n"
    )
    (tmp_path / "sample.py").write_text(source)
    assert imported(tmp_path / "sample.py") == {(), ("laws",), ("processes", "jump")}


def test_no_drawer_for_odds_and_ends():
    for path in ROOT.rglob("*"):
        assert path.stem not in {"utils", "misc", "helpers", "common"}, f"{path} says nothing of what it holds"


# What importing costs: heavy packages are imported where they are used.

HEAVY = ("sklearn", "pandas", "matplotlib", "jinja2", "scipy.stats", "scipy.optimize", "scipy.linalg")


def loaded(code: str) -> set[str]:
    """The modules that are there after some code, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_command_line_begins_without_torch_and_numpy():
    found = loaded("import countjump.cli; countjump.cli._parser()")
    assert not found & {"torch", "numpy", "scipy", *HEAVY}


def test_a_model_is_imported_with_torch_and_little_else():
    found = loaded("from countjump import JumpModel, Count, LinearBeta")
    assert "torch" in found
    assert not found & set(HEAVY)


def test_a_fit_draws_nothing():
    found = loaded(
        "from countjump import JumpModel\nimport numpy as np\n"
        "JumpModel(max_updates=1, width=8, progress=False).fit(np.arange(20)[:, None]).sample(2)"
    )
    assert not found & {"matplotlib", "jinja2"}


def test_public_names_are_there_when_they_are_asked_for():
    assert set(countjump.__all__) <= set(dir(countjump))
    assert {kind.__name__ for kind in DOMAINS.values()} <= set(countjump.__all__)
    assert {"Cosine", "evaluate", "Geometric", "JumpModel", "LinearBeta", "Offset", "Step", "Weights"} <= set(
        countjump.__all__
    )
    for name in countjump.__all__:
        assert getattr(countjump, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Jump'"):
        countjump.Jump  # noqa: B018
