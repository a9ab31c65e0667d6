"""Conditions: what is known of a row besides the row itself, a label or covariates. They are read, checked, encoded for a network,
and drawn as they were in training."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

MOST_LEVELS = 10_000
"""Labels, or levels of a covariate, at most."""

MOST_KEPT = 10_000
"""Distinct rows of covariates that a model keeps, at most, to draw from: of more, those of as many rows drawn by chance."""

KNOTS = 65
"""Quantiles of a number by which its rank is told."""

LARGEST = 1e100
"""The largest number of a covariate."""

SQUASHED = 10.0
"""Standard deviations from the mean beyond which a number is squashed."""

LONGEST = 1000
"""Characters of a label, at most."""

LISTED = 5
"""Known labels that an error names."""

FORMS = ("labels", "numbers", "matrix", "frame")
"""How y was given: one label for each row, one number for each row, several columns, or several columns with names."""

MISSING = "is missing: drop such rows, or give what is missing a label of its own, such as 'unknown'"


@dataclass(frozen=True)
class Labels:
    """A column of labels: its ``levels`` in their order; ``dtype`` is that of numpy, "str", "object" or "category"."""

    name: str | int | None
    levels: tuple[Any, ...]
    dtype: str

    def read(self, values: Any, where: Any) -> np.ndarray:
        """The places (n,) of values among the levels."""
        table = {level: float(code) for code, level in enumerate(self.levels)}
        values = plain_values(values, where)
        codes = np.array([table.get(value, -1.0) for value in values], dtype=np.float64)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            known = nearest(values[row], self.levels)
            rest = f", … ({len(self.levels)} in all)" if len(self.levels) > LISTED else ""
            raise ValueError(
                f"{where(row)} = {values[row]!r} was not in training: the known ones are "
                f"{', '.join(map(repr, known[:LISTED]))}{rest}"
            )
        return codes

    def write(self, codes: np.ndarray) -> np.ndarray:
        """Back from :meth:`read`."""
        kind: Any = {"str": None, "category": object}.get(self.dtype, self.dtype)
        return np.array(self.levels, dtype=kind)[codes.astype(np.int64)]

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {"name": self.name, "dtype": self.dtype, "levels": list(self.levels)}


@dataclass(frozen=True)
class Numbers:
    """A column of numbers: its ``mean`` and standard deviation, and its quantiles, the ``knots``."""

    name: str | int | None
    dtype: str
    mean: float
    deviation: float
    knots: np.ndarray

    @classmethod
    def of(cls, name: str | int | None, dtype: str, values: np.ndarray) -> Numbers:
        """That of some values."""
        deviation = float(values.std())
        deviation = max(deviation, 1 / LARGEST) if deviation else 1.0
        return cls(name, dtype, float(values.mean()), deviation, np.quantile(values, np.linspace(0, 1, KNOTS)))

    def read(self, values: Any, where: Any) -> np.ndarray:
        """The same numbers in float64; something else is an error."""
        for row, value in enumerate(found := plain_values(values, where)):
            if isinstance(value, str) or not abs(value) <= LARGEST:
                raise ValueError(
                    f"{where(row)} = {value!r} is not a number of at most {LARGEST:g}, as this covariate is one"
                )
        return np.array(found, dtype=np.float64)

    def features(self, values: np.ndarray) -> np.ndarray:
        """(n, 2): standardised, and squashed where it is large; and the rank among those of training, from −1 to 1."""
        standard = (values - self.mean) / self.deviation
        rank = np.interp(values / self.deviation, self.knots / self.deviation, np.linspace(-1, 1, KNOTS))
        return np.stack([SQUASHED * np.tanh(standard / SQUASHED), rank], 1)

    def write(self, values: np.ndarray) -> np.ndarray:
        """In the dtype that went in."""
        return values.astype(self.dtype)

    def described(self) -> dict[str, Any]:
        """As JSON; the rest is an array."""
        return {"name": self.name, "dtype": self.dtype}


@dataclass(frozen=True)
class Conditions:
    """The columns of y, how it was given, and its distinct rows ``kept`` (K, C), each as often as ``counts`` (K,) says.

    A row of y is C numbers: the place of a label among its levels, or a number itself.

    >>> conditions, rows = Conditions.fit(["b", "a", "b"], 3)
    >>> rows.ravel(), conditions.counts
    (array([1., 0., 1.]), array([1, 2]))
    >>> conditions.encode(conditions.read("b", 2))
    tensor([[1.],
            [1.]], dtype=torch.float64)
    >>> conditions.write(rows)
    array(['b', 'a', 'b'], dtype='<U1')
    >>> conditions.read("c", 1)
    Traceback (most recent call last):
    ...
    ValueError: y = 'c' was not in training: the known ones are 'a', 'b'
    """

    form: str
    columns: tuple[Labels | Numbers, ...]
    kept: np.ndarray
    counts: np.ndarray

    # In training.

    @classmethod
    def fit(cls, y: Any, rows: int) -> tuple[Conditions, np.ndarray]:
        """What a y of so many rows is, and its rows (n, C) as numbers."""
        form, names, given = columns_of(y)
        if (many := len(given[0])) != rows:
            raise ValueError(
                f"y has {many} rows, and X has {rows}: give one label, or one row of covariates, for each row"
            )
        columns = tuple(
            column_of(values, name, place(form, name), form) for name, values in zip(names, given, strict=True)
        )
        if form == "labels" and isinstance(columns[0], Numbers):
            form = "numbers"
        read = [c.read(v, place(form, c.name)) for c, v in zip(columns, given, strict=True)]
        raw = np.stack(read, 1)
        some = (
            raw
            if len(np.unique(raw, axis=0)) <= MOST_KEPT
            else raw[np.random.default_rng(0).permutation(rows)[:MOST_KEPT]]
        )
        kept, counts = np.unique(some, axis=0, return_counts=True)
        return cls(form, columns, kept, counts), raw

    def identity(self, raw: np.ndarray) -> str:
        """What names y among others."""
        described, _ = self.described()
        return hashlib.blake2b(json.dumps(described).encode() + raw.tobytes(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        words = []
        for column in self.columns:
            name = "" if column.name is None else f"{column.name!r}, "
            several = f"{len(column.levels)} labels" if isinstance(column, Labels) else "a number"
            words.append(f"{name}{several}")
        return "; ".join(words)

    # Afterwards.

    def read(self, y: Any, rows: int) -> np.ndarray:
        """One row of y for all ``rows``, or one for each, as numbers (rows, C)."""
        given, single = self._columns(y)
        wheres = [place(self.form, column.name, single) for column in self.columns]
        read = [column.read(v, where) for column, v, where in zip(self.columns, given, wheres, strict=True)]
        raw = np.stack(read, 1)
        if len(raw) not in (1, rows):
            raise ValueError(f"y has {len(raw)} rows for {rows} rows of X: give one for all of them, or one for each")
        return np.broadcast_to(raw, (rows, len(self.columns))) if len(raw) == 1 else raw

    def _columns(self, y: Any) -> tuple[list[Any], bool]:
        """The values of every column, and whether they are one row for all."""
        names, size = [column.name for column in self.columns], len(self.columns)
        row_of_frame = getattr(y, "ndim", 0) == 1 and hasattr(y, "index") and set(names) <= set(y.index)
        if self.form == "frame" and (isinstance(y, Mapping) or row_of_frame):
            check_names(names, list(y.keys()))
            return [[y[name]] for name in names], True
        if isinstance(y, Mapping):
            raise ValueError(
                f"y is a mapping, and the model was fitted with {self.form} without names: give values alone"
            )
        if is_scalar(y):
            if size > 1:
                raise ValueError(f"y = {y!r} is one value, and a row of y has {size}: give them all")
            return [[y.item() if hasattr(y, "item") else y]], True
        form, found, given = columns_of(y)
        if self.form == "frame" and hasattr(y, "columns"):
            check_names(names, found)
            return [given[found.index(name)] for name in names], False
        single = form == "labels" and size > 1  # one row, without its brackets
        if single:
            given = [[value] for value in plain_values(given[0], lambda row: f"y[{row}]")]
        if len(given) != size:
            raise ValueError(f"y has {len(given)} columns, and that of training had {size}")
        return given, single

    def draw(self, height: np.ndarray) -> np.ndarray:
        """Rows as in training, one for each number (n,) in [0, 1)."""
        ends = np.cumsum(self.counts)
        return self.kept[np.minimum(np.searchsorted(ends, height * ends[-1], side="right"), len(ends) - 1)]

    @property
    def levels(self) -> list[int]:
        """How many levels every column of labels has."""
        return [len(column.levels) for column in self.columns if isinstance(column, Labels)]

    @property
    def features(self) -> int:
        """How many numbers are encoded after the labels."""
        return 2 * sum(isinstance(column, Numbers) for column in self.columns)

    def encode(self, raw: np.ndarray) -> Tensor:
        """What a network is given of rows (n, C): the labels' places, and then what numbers are seen by."""
        pairs = list(zip(self.columns, raw.T, strict=True))
        codes = [values[:, None] for column, values in pairs if isinstance(column, Labels)]
        features = [column.features(values) for column, values in pairs if isinstance(column, Numbers)]
        return torch.from_numpy(np.concatenate([*codes, *features], 1))

    def write(self, raw: np.ndarray) -> Any:
        """Rows (n, C) as the y that they were: an array, or a frame."""
        values = [column.write(each) for column, each in zip(self.columns, raw.T, strict=True)]
        if self.form in ("labels", "numbers"):
            return values[0]
        if self.form == "matrix":
            return np.stack([each.astype(object) for each in values], 1) if self._mixed(values) else np.stack(values, 1)
        import pandas as pd  # type: ignore[import-untyped]

        frame = pd.DataFrame(dict(zip([column.name for column in self.columns], values, strict=True)))
        for column in self.columns:
            if isinstance(column, Labels) and column.dtype == "category":
                frame[column.name] = pd.Categorical(frame[column.name], categories=list(column.levels))
        return frame

    @staticmethod
    def _mixed(values: list[np.ndarray]) -> bool:
        return len({"number" if each.dtype.kind in "iuf" else each.dtype.kind for each in values}) > 1

    # On disk.

    def described(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As JSON, and arrays."""
        arrays = {"kept": self.kept, "counts": self.counts.astype(np.int64)}
        for place_, column in enumerate(self.columns):
            if isinstance(column, Numbers):
                arrays[f"{place_}"] = np.concatenate([[column.mean, column.deviation], column.knots])
        return {"form": self.form, "columns": [column.described() for column in self.columns]}, arrays

    @classmethod
    def recalled(cls, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Conditions:
        """Back from :meth:`described`, which may come from anybody."""
        columns: list[Labels | Numbers] = []
        for place_, each in enumerate(described["columns"]):
            name, dtype = each["name"], each["dtype"]
            if not (name is None or isinstance(name, str | int)):
                raise ValueError(f"a column of y by the name of {name!r}")
            if "levels" in each:
                labels = Labels(name, checked_levels(each["levels"]), checked_dtype(dtype, labels=True))
                labels.write(np.zeros(1))  # whether they are of that dtype
                columns.append(labels)
                continue
            numbers = arrays[f"{place_}"]
            if numbers.shape != (2 + KNOTS,) or numbers.dtype != np.float64 or not numbers[1] > 0:
                raise ValueError("a covariate without its moments")
            mean, deviation, *_ = numbers.tolist()
            columns.append(Numbers(name, checked_dtype(dtype, labels=False), mean, deviation, np.sort(numbers[2:])))
        kept, counts = arrays["kept"], arrays["counts"]
        if described["form"] not in FORMS or not columns or (described["form"] in FORMS[:2] and len(columns) > 1):
            raise ValueError(f"a y of the form {described['form']!r} with {len(columns)} columns")
        if kept.dtype != np.float64 or kept.ndim != 2 or not 0 < len(kept) <= max(MOST_KEPT, MOST_LEVELS):
            raise ValueError("no rows of y that could be drawn")
        if kept.shape[1] != len(columns) or counts.shape != kept.shape[:1] or counts.dtype != np.int64:
            raise ValueError("rows of y that do not have its columns")
        if not ((counts > 0) & (counts < 2**40)).all():
            raise ValueError("rows of y that come less than once")
        for column, values in zip(columns, kept.T, strict=True):
            places = values[(values == np.floor(values)) & (values >= 0)]
            if isinstance(column, Labels) and not (len(places) == len(values) and places.max() < len(column.levels)):
                raise ValueError("rows of y with labels that it does not have")
        return cls(described["form"], tuple(columns), kept, counts)


def columns_of(y: Any) -> tuple[str, list[Any], list[Any]]:
    """The form of a y, and the names and the values of its columns."""
    if sp.issparse(y):
        raise TypeError("y is a sparse matrix: give labels, or covariates as a dense matrix or a frame")
    if hasattr(y, "columns") and hasattr(y, "dtypes"):
        names = list(y.columns)
        if len(set(names)) < len(names):
            raise ValueError("y has several columns of one name: give each a name of its own")
        if not names:
            raise ValueError("y has no columns")
        for name in names:
            if not isinstance(name, str | int | np.integer):
                raise TypeError(f"y has a column by the name of {name!r}: name it by a string")
        plain_names = [name if isinstance(name, str) else int(name) for name in names]
        return "frame", plain_names, [y[name] for name in names]
    if is_scalar(y) or isinstance(y, Mapping):
        raise ValueError(f"y = {y!r:.60} is no list: give one label, or one row of covariates, for each row")
    listed = not (hasattr(y, "dtype") and hasattr(y, "shape"))
    array = objects(y) if listed else y.detach().cpu().numpy() if hasattr(y, "detach") else y
    if len(array.shape) == 1:
        return "labels", [None], [typed(array) if listed else array]
    if len(array.shape) != 2 or not array.shape[1]:
        raise ValueError(
            f"y must have one or two dimensions, and at least one column: its shape is {tuple(array.shape)}"
        )
    columns = [typed(array[:, each]) if listed else array[:, each] for each in range(array.shape[1])]
    return "matrix", list(range(len(columns))), columns


def objects(y: Any) -> np.ndarray:
    """A list as an array in which nothing is changed: numpy by itself makes a string of a NaN among strings."""
    try:
        return np.array(list(y), dtype=object)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"y is of type {type(y).__name__}: give labels, or covariates as a matrix or a frame"
        ) from error


def typed(values: np.ndarray) -> np.ndarray:
    """Objects of one type as what numpy makes of them."""
    kinds = {type(value) for value in values}
    return np.array(values.tolist()) if len(kinds) == 1 and kinds <= {str, bool, int, float} else values


def is_scalar(y: Any) -> bool:
    """Whether it is one value."""
    return isinstance(y, str | bytes | int | float | np.generic) or getattr(y, "ndim", None) == 0


def place(form: str, name: Any, single: bool = False) -> Any:
    """What to call the value at a row."""
    column = "" if form in ("labels", "numbers") else f" of column {name!r}" if form == "frame" else f"[:, {name}]"
    if single:
        return lambda row: f"y{column}"
    return lambda row: (
        f"y[{row}]" if not column else f"row {row}{column} of y" if form == "frame" else f"y[{row}, {name}]"
    )


def plain_values(values: Any, where: Any) -> list[Any]:
    """Labels as strings, booleans and numbers of Python; a missing one, or something else, is an error."""
    if hasattr(values, "isna") and values.isna().any():  # a column of a frame
        raise ValueError(f"{where(int(np.argmax(np.asarray(values.isna()))))} {MISSING}")
    if np.ma.is_masked(values):
        raise ValueError(f"{where(int(np.argmax(np.ma.getmaskarray(values))))} {MISSING}")
    array = values if isinstance(values, list) else np.asarray(values)
    if getattr(getattr(array, "dtype", None), "kind", "") in "mMcSV" and not isinstance(array, list):
        raise TypeError(
            f"y has the dtype {array.dtype}: labels are strings, whole numbers or booleans, covariates numbers too"
        )
    found = []
    for row, value in enumerate(array if isinstance(array, list) else array.tolist()):
        value = value.item() if isinstance(value, np.generic) and not isinstance(value, np.longdouble) else value
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            raise ValueError(f"{where(row)} {MISSING}")
        if isinstance(value, str):
            if not value.strip():
                raise ValueError(f"{where(row)} = {value!r} {MISSING}")
            if len(value) > LONGEST:
                raise ValueError(
                    f"{where(row)} = {value[:20]!r}… has {len(value)} characters: is it a label? Give it a shorter one"
                )
        elif not isinstance(value, bool | int | float | np.longdouble):
            raise TypeError(
                f"{where(row)} = {value!r:.60} is of type {type(value).__name__}: labels are strings, whole numbers or booleans, "
                "covariates numbers too"
            )
        elif not isinstance(value, int):
            value = float(value)  # a long double
            if math.isnan(value):
                raise ValueError(f"{where(row)} {MISSING}")
        found.append(value)
    return found


def column_of(values: Any, name: Any, where: Any, form: str) -> Labels | Numbers:
    """What a column of y is.

    Strings, booleans and pandas' categories are labels. Numbers are labels where y is one of them for each row and all are
    whole; else they are numbers.
    """
    kept = name if form == "frame" else None if form == "labels" else int(name)
    dtype = str(getattr(values, "dtype", "object"))
    found = plain_values(values, where)
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)
    for row, value in enumerate(found):
        if not isinstance(value, str) and not abs(value) <= LARGEST:
            raise ValueError(f"{where(row)} = {value!r:.60} is above {LARGEST:g}: drop such rows, or rescale y")
    whole = numeric and all(isinstance(value, int) or value.is_integer() for value in found)
    kind = np.asarray(values).dtype
    kind = kind if kind.kind in "biufU" else np.array(found).dtype if numeric else np.dtype(object)
    if numeric and dtype != "category" and not (form == "labels" and whole):
        return Numbers.of(kept, kind.str if kind.itemsize <= 8 else "<f8", np.array(found, dtype=float))
    levels = sorted(dict.fromkeys(found), key=lambda value: (isinstance(value, str), value))
    if len(levels) > MOST_LEVELS:
        advice = "give numbers as y[:, None], or fewer labels" if numeric else "group them into fewer"
        raise ValueError(f"y has {len(levels)} different labels, and at most {MOST_LEVELS} are taken: {advice}")
    if dtype != "category":
        dtype = "str" if kind.kind == "U" else kind.str if kind.kind in "biuf" and kind.itemsize <= 8 else "object"
    return Labels(kept, tuple(levels), dtype)


def nearest(value: Any, levels: Sequence[Any]) -> list[Any]:
    """The levels, those first that are most like a value.

    >>> nearest("sci.spcae", ["alt.atheism", "sci.med", "sci.space"])[0]
    'sci.space'
    """
    if isinstance(value, str):
        return sorted(levels, key=lambda each: -difflib.SequenceMatcher(None, value.lower(), str(each).lower()).ratio())
    return sorted(levels, key=lambda each: math.inf if isinstance(each, str) else abs(each - value))


def check_names(names: Sequence[Any], found: Sequence[Any]) -> None:
    """Raise where columns of y are absent, or unknown."""
    absent = [name for name in names if name not in found]
    if absent:
        raise ValueError(f"y has no column {absent[0]!r}: its columns are {', '.join(map(repr, names))}")
    unknown = [name for name in found if name not in names]
    if unknown:
        raise ValueError(f"y has the column {unknown[0]!r}, which that of training had not: drop it")


def checked_levels(levels: Any) -> tuple[Any, ...]:
    """Labels out of a file."""
    if not isinstance(levels, list) or not 0 < len(levels) <= MOST_LEVELS or len(set(levels)) < len(levels):
        raise ValueError("labels that are none, too many or twice there")
    if not all(isinstance(each, str | int | float) and len(str(each)) <= LONGEST for each in levels):
        raise ValueError("labels that are neither strings nor numbers, or too long")
    return tuple(levels)


def checked_dtype(dtype: Any, labels: bool) -> str:
    """The dtype of a column out of a file: a word, or a number's."""
    if labels and dtype in ("str", "object", "category"):
        return str(dtype)
    kind = np.dtype(str(dtype)) if isinstance(dtype, str) else np.dtype(object)
    if kind.kind not in ("biuf" if labels else "iuf") or kind.itemsize > 8:
        raise ValueError(f"y of the dtype {dtype!r}")
    return kind.str
