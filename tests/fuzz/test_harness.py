"""The fuzz harness finds what is planted: hangs, crashes, memory, wrong errors and wrong results."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from countjump import JumpModel

from . import planted
from .case import SHARES, draws_of
from .inputs import INPUTS
from .oracle import Wrong, attempt, check_files, check_unchanged, contents, objection_to, tree
from .runner import Run, shared_out
from .smallest import smallest

PLANTED = {name: getattr(planted, name) for name in ("hangs", "crashes", "eats", "raises")}


def found_in(run):
    return {(failure.family, failure.kind, failure.place) for failure in run.failures}


def test_a_hang_is_a_result():
    run = Run(seed=1, limit=1, own=PLANTED).over({"hangs": range(1)})
    assert found_in(run) == {("hangs", "hang", "outside countjump")}
    assert "in: sleeps\n    repeat: python -m tests.fuzz hangs --seed 1 --case 0" in run.report()


def test_crashes_memory_and_wrong_errors_are_results():
    run = Run(seed=1, memory=1.2 * 2**30, own=PLANTED)
    run.over({"eats": range(1), "crashes": range(2), "raises": range(12)})
    assert found_in(run) == {
        ("crashes", "crash (SIGSEGV)", "outside countjump"),
        ("eats", "memory", "outside countjump"),
        ("raises", "exception KeyError", "outside countjump"),
        ("raises", "refused", "a suffix"),
    }
    assert sum(failure.family == "crashes" for failure in run.failures) == 2, "it goes on behind a crash"
    assert run.report().endswith("15 cases, 4 distinct failures")


def test_a_case_is_a_function_of_its_family_seed_and_number():
    first, again, *others = (
        draws_of(*key).random() for key in (*2 * [("a", 1, 2)], ("b", 1, 2), ("a", 2, 2), ("a", 1, 3))
    )
    assert first == again
    assert first not in others


def test_hypothesis_makes_a_failing_case_small(capsys):
    assert smallest("planted", 200, 1, planted.fails_from_seven_on) == 1
    assert "wrong result at seven\n    7\n" in capsys.readouterr().out


def error_of(call):
    with pytest.raises(Exception) as raised:  # noqa: PT011
        call()
    return raised.value


def test_an_error_on_purpose_is_told_from_one_by_chance():
    assert objection_to(error_of(lambda: JumpModel(max_updates=0).fit([[1]]))) is None
    assert "not on purpose" in objection_to(error_of(lambda: int("x")))[0]
    assert objection_to(error_of(lambda: [][0]))[0] == "exception IndexError"
    assert objection_to(error_of(Path("/nowhere/at/all").read_bytes))[0].startswith("exception FileNotFoundError")
    with pytest.raises(Wrong):
        attempt(lambda: 1 / 0)


def test_changed_inputs_and_files_are_seen(tmp_path):
    X = sp.csr_matrix(np.eye(3))
    before = contents(X)
    check_unchanged(X, before, "nothing")
    X.indices[0] = 2
    with pytest.raises(Wrong, match="changed input"):
        check_unchanged(X, before, "an index")
    (tmp_path / "mine").write_bytes(b"1")
    files = tree(tmp_path)
    (tmp_path / "left.part").write_bytes(b"")
    with pytest.raises(Wrong, match="left behind"):
        check_files(tmp_path, files, lambda name: name == "new", "a write")


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_every_input_can_be_made_and_copied_and_cases_are_shared_out():
    for given in INPUTS:
        X = given.make(np.random.default_rng(0))
        check_unchanged(X, contents(X), given.name)
    numbers = shared_out(10_000, SHARES, SHARES)
    assert sum(SHARES.values()) == 100
    assert sum(map(len, numbers.values())) == 10_000
