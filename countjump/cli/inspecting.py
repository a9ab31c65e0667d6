"""What is in the columns of a table: what each holds, what a model would take it for, and any trouble."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

from countjump.cli.asking import aligned, printable

MANY = 60
"""Columns above which those that are alike share a line."""
TAIL = 0.999
FAR = 20.0
"""How many times the next value the largest is, before it is said to stand alone."""
MOST_WHOLE = 2**53
NEARLY = 0.9
"""The share of numbers among words, from which on the words are perhaps mistakes."""
OFTEN = 0.25
"""The share of the rows from which on values that occur once are too many for levels, if they are most of the levels."""
MARKED = re.compile(r"[$€£¥]?\s?[+-]?\d{1,3}(?:[,.'’ ]?\d{3})*(?:[.,]\d+)?\s?[%‰$€£¥]?")
"""A number with marks that a reader of files does not take for parts of it."""
HEADS = (
    "column",
    "kind",
    "domain",
    "transform",
    "missing",
    "zeros",
    "distinct",
    "mean",
    "99.9 %",
    "largest or commonest",
    "trouble",
)
LONGEST = 32
"""Characters of a name that are shown, at most."""


@dataclass(frozen=True)
class Found:
    """What was found in a column; ``largest`` is the commonest word of one of text. ``count`` columns share a line."""

    name: str
    kind: str
    domain: str = "–"
    transform: str = ""
    missing: float = 0.0
    zeros: float | None = None
    distinct: int = 0
    mean: float | None = None
    tail: float | str | None = None
    largest: float | str | None = None
    trouble: str = ""
    count: int = 1

    def cells(self) -> list[str]:
        """A line of the table."""
        name = self.name if len(self.name) <= LONGEST else self.name[: LONGEST - 1] + "…"
        shares = [
            "" if share is None else "0" if share == 0 else f"{share:.2%}" for share in (self.missing, self.zeros)
        ]
        numbers = [
            "" if value is None else value if isinstance(value, str) else f"{value:.5g}"
            for value in (self.mean, self.tail, self.largest)
        ]
        cells = [name, self.kind, self.domain, self.transform, *shares, f"{self.distinct:,}", *numbers, self.trouble]
        return [printable(cell) for cell in cells]


def find_columns(table: Any) -> list[Found]:
    """What is in every column, whatever a model would make of it."""
    if hasattr(table, "iloc"):
        return [find_column(str(name), table.iloc[:, place]) for place, name in enumerate(table.columns)]
    if hasattr(table, "obs"):
        return list(_find_numbers(table.X, [str(name) for name in table.var_names]))
    return list(_find_numbers(table, [f"x{place}" for place in range(table.shape[1])]))


def find_column(name: str, column: Any) -> Found:
    """What is in a column of a frame.

    >>> import pandas as pd
    >>> found = find_column("n", pd.Series([0, 3, None, 5], dtype="Int64"))
    >>> f"{found.zeros:.3f} {found.missing:.3f}"
    '0.333 0.250'
    """
    import numpy as np

    from countjump.data.columns import is_times

    there = column[column.notna()]
    missing = 1 - len(there) / max(len(column), 1)
    if not len(there):
        return Found(name, "empty", missing=1.0, trouble="missing everywhere")
    if is_times(column, there):
        ordered = there.sort_values()
        tail, last = (str(ordered.iloc[place]) for place in (math.ceil(TAIL * len(there)) - 1, -1))
        times = {datetime.timedelta: "duration", datetime.time: "time"}
        word = next((word for each, word in times.items() if isinstance(there.iloc[0], each)), "date")
        tail, last = (each.removesuffix(" 00:00:00").removeprefix("0 days ") for each in (tail, last))
        return _finished(Found(name, word, missing=missing, distinct=there.nunique(), tail=tail, largest=last))
    if isinstance(there.iloc[0], Decimal):
        there = there.astype(float)
    kind = getattr(there.dtype, "kind", "O")
    if kind in "iufb" and str(column.dtype) != "category":
        values = there.to_numpy(dtype=np.float64)
        whole = "yes/no" if kind == "b" else "whole" if (values == np.floor(values)).all() else "real"
        return _finished(_numbers(Found(name, whole, missing=missing), values, len(values)))
    counts = there.astype(str).value_counts()
    word = "category" if str(column.dtype) == "category" else "text"
    common = f"{counts.index[0]!s:.12} ({counts.iloc[0] / len(there):.0%})"
    trouble = _trouble_of_words(counts)
    return _finished(Found(name, word, missing=missing, distinct=len(counts), largest=common, trouble=trouble))


def _find_numbers(matrix: Any, names: list[str]) -> Iterator[Found]:
    """Of a matrix, column by column; of a sparse one by its non-zeros."""
    import numpy as np
    import scipy.sparse as sp

    rows, sparse = matrix.shape[0], sp.issparse(matrix)
    columns: Any = sp.csc_matrix(matrix) if sparse else np.asarray(matrix)
    for place, name in enumerate(names):
        some = slice(columns.indptr[place], columns.indptr[place + 1]) if sparse else None
        values = (columns[:, place] if some is None else columns.data[some]).astype(np.float64)
        gone = np.isnan(values)
        values = values[~gone]
        whole = "whole" if (values == np.floor(values)).all() else "real"
        yield _finished(_numbers(Found(name, whole, missing=gone.sum() / rows), values, rows - int(gone.sum())))


def _numbers(found: Found, values: Any, count: int) -> Found:
    """With the statistics of some values, zeros being those that are not among them up to so many."""
    import numpy as np

    zeros = count - np.count_nonzero(values)
    hidden = count - len(values)
    distinct = len(np.unique(values)) + bool(hidden and not (values == 0).any())
    ordered = np.sort(np.append(values, np.zeros(1 if hidden else 0)))
    place = math.ceil(TAIL * count) - 1 - (hidden - 1 if hidden else 0)  # zeros are first, but for negative numbers
    tail = float(ordered[max(place, 0)])
    alone = distinct > 2 and FAR * max(abs(ordered[-2]), 1) < ordered[-1] < math.inf
    return replace(
        found,
        zeros=zeros / max(count, 1),
        distinct=distinct,
        mean=float(values.sum() / max(count, 1)),
        tail=tail,
        largest=float(ordered[-1]),
        trouble="the largest value stands alone" if alone else "",
    )


def _finished(found: Found) -> Found:
    """With the trouble that numbers show."""
    said = [found.trouble] if found.trouble else []
    if found.distinct == 1 and not found.missing:
        said.append("never changes")
    if isinstance(found.largest, float):
        if not math.isfinite(found.largest):
            said.append("infinite: drop such rows")
        elif found.kind == "whole" and abs(found.largest) > MOST_WHOLE:
            said.append("above 2^53: rescale it")
    return replace(found, trouble="; ".join(said))


def _trouble_of_words(counts: Any) -> str:
    """Numbers among words, which are perhaps mistakes, and words that name a row."""
    from countjump.data.cells import read_piece

    words = [str(word) for word in counts.index]
    odd = [word for word in words if read_piece([word], ".").kind not in ("whole", "real", "absent")]
    total = int(counts.sum())
    if read_piece(words, ".").kind == "unclear":
        return "day or month first? write 2024-12-31"
    if any(not word.isdecimal() for word in odd) and all(map(MARKED.fullmatch, odd)):
        return f"numbers with marks, read as text: write {odd[0]!r} as a plain number"
    alone = len(odd) == 1 < len(words) - 1  # perhaps it stands for what is missing
    if odd and len(odd) < len(words) and (alone or counts[odd].sum() < (1 - NEARLY) * total):
        return f"numbers but for {', '.join(map(repr, odd[:3]))}{' …' * (len(odd) > 3)}"
    once = int((counts == 1).sum())
    if not 2 < once < len(words):
        return ""
    if 2 * once > len(words) and once > OFTEN * total:
        return "most of its values occur once: drop it, or declare what it is"
    return f"{once:,} levels occur once"


# What a model makes of them.


def with_plan(columns: list[Found], model: Any, label: str | None) -> list[Found]:
    """With what a model that has planned, and not trained, takes every column for."""
    layout, place, result = model.layout_, 0, []
    kinds = getattr(layout, "kinds", ())
    parts = {int(column): (part, at) for part in model.plan_.parts for at, column in enumerate(part.columns)}
    for found in columns:
        if found.name == label:
            result.append(replace(found, domain="label"))
            continue
        kind = kinds[place] if place < len(kinds) else None
        if kind is not None and not kind.modelled:
            said = [found.trouble] if found.kind in ("empty", "text") and found.trouble else []
            said += ["only names its row: left out of the model"] if found.kind != "empty" else []
            result.append(replace(found, domain="–", trouble="; ".join(said)))
        else:
            part, at = parts[place]
            steps = kind.said() if kind is not None and hasattr(kind, "said") else ""
            result.append(
                replace(found, domain=_domain(part, at, found), transform=steps or _transform(model, part, at))
            )
        place += 1
    return result


def _domain(part: Any, at: int, found: Found) -> str:
    if part.kind == "constant":
        return "constant"
    if part.domain.name == "categorical":
        return f"categorical, {found.distinct + (found.missing > 0):,} levels"
    bound = float(part.domain.bounds(len(part.columns))[at])
    if part.coding is not None:
        bound = float(part.coding.offset[at] + part.coding.step[at] * bound)
    return part.domain.name + (f" ≤ {bound:g}" if math.isfinite(bound) and part.domain.name != "binary" else "")


def _transform(model: Any, part: Any, at: int) -> str:
    """x = offset + step · n, where it is not x = n."""
    if model.scaling_ is not None:
        return "counts behind weights"
    if part.coding is None or part.kind == "constant":
        return ""
    offset, step = float(part.coding.offset[at]), float(part.coding.step[at])
    words = [f"from {offset:g}"] * (offset != 0) + [f"steps of {step:g}"] * (step != 1)
    return ", ".join(words)


# As a table.


def table_of(columns: list[Found]) -> str:
    """The columns in lines; where there are many, those that are alike share one."""
    shown = columns if len(columns) <= MANY else _grouped(columns)
    rows = [list(HEADS), *(found.cells() for found in shown)]
    empty = [place for place in range(len(HEADS)) if not any(row[place] for row in rows[1:])]
    kept = [place for place in range(len(HEADS)) if place not in empty]
    right = tuple(i for i, place in enumerate(kept) if 4 <= place <= 9)
    return aligned([[row[place] for place in kept] for row in rows], right)


def _grouped(columns: list[Found]) -> list[Found]:
    """One for all that are of a kind and a domain (its bound apart), and have the same trouble."""
    import numpy as np

    groups: dict[tuple[str, ...], list[Found]] = {}
    for found in columns:
        key = (found.kind, found.domain.partition(" ≤")[0], found.transform and "of each its own", found.trouble)
        groups.setdefault(key, []).append(found)
    result = []
    for (kind, domain, transform, trouble), some in groups.items():
        if len(some) == 1:
            result.append(some[0])
            continue
        means = [found.mean for found in some if found.mean is not None]
        ends = [found.largest for found in some if isinstance(found.largest, float)]
        tails = [found.tail for found in some if isinstance(found.tail, float)]
        zeros = [found.zeros for found in some if found.zeros is not None]
        result.append(
            Found(
                f"{some[0].name} … {some[-1].name} ({len(some):,})",
                kind,
                domain,
                transform,
                float(np.mean([found.missing for found in some])),
                float(np.mean(zeros)) if zeros else None,
                int(np.median([found.distinct for found in some])),
                float(np.mean(means)) if means else None,
                float(np.median(tails)) if tails else None,
                max(ends) if ends else None,
                trouble,
                len(some),
            )
        )
    return result


def as_records(columns: list[Found]) -> list[dict[str, Any]]:
    """As JSON."""
    return [asdict(found) for found in columns]
