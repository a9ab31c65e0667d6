"""What may come of a case: a right result, or an error that was raised on purpose and helps.

What is checked of an error: it is a ValueError, TypeError or OSError (ModelFileError and CheckpointError are ValueErrors); it comes
from a ``raise`` of countjump's or of scikit-learn's validation (the innermost frame of the traceback is at a raise instruction
there), or from the operating system with the name of a file; and its message has 20 to 2,000 characters, no control characters, and
a word that tells what is wanted. Whether the message is true, and the remedy a good one, nobody checks.

What is checked of a result: the kind and dtype of the data, finite and non-negative values in the domain, the same rows by the
same seed, more rows beginning with fewer, and finite scores of the training rows. And always: inputs and foreign files as they
were, and no temporary file left.
"""

from __future__ import annotations

import copy
import dis
import errno
import os
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import countjump

MEMORY = 3 * 2**30
"""Bytes that no case may need."""

PACKAGE = str(Path(countjump.__file__).parent)
WORDS = "use|give|choose|must|should|needs?|pass|drop|write|save|delete|reshape|minimum|expect(s|ed|ing)|not supported|instead"
REMEDY = re.compile(rf": |\b({WORDS})\b", re.IGNORECASE)


class Wrong(Exception):
    """What may not be: a kind, a place (of the code, or of the check) and what was seen."""

    def __init__(self, kind: str, place: str, text: object = "") -> None:
        super().__init__(kind, place, str(text)[:1000])
        self.kind, self.place, self.text = kind, place, str(text)[:1000]


def check(right: object, kind: str, place: str, text: object = "") -> None:
    if not right:
        raise Wrong(kind, place, text)


def attempt(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The result, or the error that says on purpose why there is none; any other error is Wrong."""
    try:
        return call(), None
    except Wrong:
        raise
    except Exception as error:
        if objection := objection_to(error):
            raise Wrong(*objection) from error
        return None, error


def objection_to(error: BaseException) -> tuple[str, str, str] | None:
    """The kind, place and text of what is wrong with an error; None where it is fine."""
    name, place = type(error).__name__, place_of(error)
    if not isinstance(error, ValueError | TypeError | OSError):
        return f"exception {name}", place, str(error)
    if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT) and error.filename is not None:
        return None
    if not on_purpose(error):
        return f"exception {name} (not on purpose)", place, str(error)
    message = str(error)
    if not 20 <= len(message) <= 2000 or not REMEDY.search(message):
        return f"message of {name}", place, message
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", message):
        return "control characters in a message", place, ascii(message)
    return None


def on_purpose(error: BaseException) -> bool:
    """Whether the error comes from a raise instruction of countjump or of scikit-learn's validation."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None:
        return False
    code = at.tb_frame.f_code
    ours = code.co_filename.startswith(PACKAGE) or "sklearn" in Path(code.co_filename).parts
    return ours and code.co_code[at.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def place_of(error: BaseException) -> str:
    """The innermost place in countjump."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(PACKAGE)]
    return f"{Path(frames[-1].filename).relative_to(PACKAGE)}:{frames[-1].name}" if frames else "outside countjump"


# Inputs and files as they were.


def contents(X: Any) -> Any:
    """A copy of what an input holds, to compare it by :func:`same`."""
    if sp.issparse(X):
        names = ("data", "indices", "indptr", "offsets", "rows", "coords", "_dict")
        return [type(X), X.shape, *(copy.deepcopy(getattr(X, n)) for n in names if hasattr(X, n))]
    if isinstance(X, np.ma.MaskedArray):
        return [type(X), X.data.copy(), np.ma.getmaskarray(X).copy()]
    if isinstance(X, np.ndarray):
        return [type(X), X.flags.writeable, X.copy()]
    return X.detach().clone() if hasattr(X, "detach") else copy.deepcopy(X)


def same(a: Any, b: Any) -> bool:
    """Whether two copies are equal; NaN equals itself, and an opaque object anything."""
    if isinstance(a, np.ndarray) and a.dtype != object:
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple) or (isinstance(a, np.ndarray) and a.ndim):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "equals"):
        return a.equals(b)
    if hasattr(a, "to_dense"):
        return same(a.to_dense().numpy(), b.to_dense().numpy())
    return type(a).__eq__ is object.__eq__ or bool(a == b or a != a)


def check_unchanged(X: Any, before: Any, place: str) -> None:
    check(same(contents(X), before), "changed input", place, f"{before!r} became {contents(X)!r}")


def tree(directory: Path) -> dict[str, bytes | None]:
    """Every file in a directory with its content, and every directory."""
    return {str(p.relative_to(directory)): None if p.is_dir() else p.read_bytes() for p in sorted(directory.rglob("*"))}


def check_files(directory: Path, before: dict[str, bytes | None], written: Callable[[str], bool], place: str) -> None:
    """What was there before is as it was, and what is new is what was to be ``written``, or a lock."""
    now = tree(directory)
    lost = [name for name, content in before.items() if not written(name) and (name not in now or now[name] != content)]
    check(not lost, "foreign file lost or changed", place, lost)
    left = [name for name in now if name not in before and not written(name) and not name.endswith(".lock")]
    check(not left, "file left behind", place, left)


# Results.


def dense(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def equal(a: Any, b: Any) -> bool:
    """Whether two matrices or tables are of one kind and equal."""
    if hasattr(a, "dtypes"):
        return bool(a.equals(b.iloc[: len(a)]))
    return sp.issparse(a) == sp.issparse(b) and a.dtype == b.dtype and np.array_equal(dense(a), dense(b))


def check_rows(model: Any, rows: Any, count: int, X: Any = None) -> None:
    """Rows that were drawn: as many as asked for, of the data's kind, finite and in the domain."""
    place = "sample"
    columns = model.n_features_in_
    check(rows.shape == (count, columns), "wrong result", place, f"shape {rows.shape}, asked for {(count, columns)}")
    if X is not None and sp.issparse(X):
        right = sp.issparse(rows) and isinstance(rows, sp.sparray) == isinstance(X, sp.sparray)
        check(right, "wrong result", place, f"{type(rows).__name__} from {type(X).__name__}")
    elif X is not None:
        frame = hasattr(X, "iloc") and not hasattr(X, "sparse")
        right = type(rows) is type(X) if frame else isinstance(rows, np.ndarray)
        check(right, "wrong result", place, f"{type(rows).__name__} from {type(X).__name__}")
    if (isinstance(X, np.ndarray) and X.dtype.kind not in "OU") or sp.issparse(X):
        known = {np.dtype(np.longdouble): np.dtype(np.float64)}  # which no model keeps
        known |= {np.dtype(np.float16): np.dtype(np.float32)} if sp.issparse(X) else {}
        dtype = X.dtype.newbyteorder("=")
        check(rows.dtype.newbyteorder("=") == known.get(dtype, dtype), "wrong result", place, f"dtype {rows.dtype}")
    if getattr(model, "layout_", None) is not None:
        unknown = [rows for i, each in model.layout_.levels.items() if not np.isin(dense(rows)[:, i], each).all()]
        check(not unknown, "wrong result", f"{place}: a level that is none", rows)
        rows = model.layout_.matrix(rows)
    values = dense(rows).astype(np.float64)
    check(np.isfinite(values).all(), "wrong result", f"{place}: not finite", values)
    if getattr(model, "scaling_", None) is not None or not hasattr(model, "domain_"):
        check((values >= 0).all(), "wrong result", f"{place}: negative", values)
        return
    slack = np.finfo(rows.dtype).eps * 4 if rows.dtype.kind == "f" else 0.0
    for part in model.plan_.parts:
        mine = values[:, part.columns]
        mine = mine if part.coding is None else part.coding.code(mine)
        if part.kind != "constant" and part.domain.name not in ("categorical", "simplex", "one-hot"):
            check((mine >= -1e-9).all(), "wrong result", f"{place}: negative", mine)
            check(in_domain(part.domain, mine, slack), "wrong result", f"{place}: not in the domain", part.domain)
    if not isinstance(model.domain_, dict) and model.domain_.name in ("simplex", "one-hot"):
        check(in_domain(model.domain_, values, slack), "wrong result", f"{place}: not in the domain", model.domain_)


def in_domain(domain: Any, x: np.ndarray, slack: float) -> bool:
    bound = np.asarray(getattr(domain, "max", None) or np.inf, dtype=float)
    whole, totals = (x == np.floor(x)).all(), x.sum(1)
    return {
        "non-negative": lambda: True,
        "count": lambda: whole and (x <= bound).all(),
        "binary": lambda: np.isin(x, (0, 1)).all(),
        "one-hot": lambda: np.isin(x, (0, 1)).all() and (totals == 1).all(),
        "simplex": lambda: (abs(totals - 1) <= 1e-6 + slack * x.shape[1]).all(),
        "bounded": lambda: (x <= bound * (1 + slack)).all(),
    }[domain.name]()


def check_model(model: Any, X: Any = None, count: int = 4, steps: int = 3) -> Any:
    """A fitted model draws rows that are right and repeatable; they come back."""
    rows = granted(lambda: model.sample(count, steps=steps, random_state=7), "sample")
    check_rows(model, rows, count, X)
    again = model.sample(count + 2, steps=steps, random_state=7)
    check(equal(rows, again[:count]), "wrong result", "sample: other rows by the same seed")
    return rows


def check_scores(model: Any, X: Any, steps: int = 3) -> None:
    """The training rows score finitely, or the model says why it has no likelihood."""
    scores, error = attempt(lambda: model.score_samples(X, steps=steps, draws=1))
    if error is None:
        check(np.isfinite(scores).all(), "wrong result", "score_samples: not finite", scores)


def granted(call: Callable[[], Any], place: str) -> Any:
    """A result where an error would be wrong, however well it is put."""
    result, error = attempt(call)
    if error is not None:
        raise Wrong("refused", place, error) from error
    return result


def resident(pid: int | None) -> int:
    """The bytes that a process holds; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
