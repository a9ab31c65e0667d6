"""The table of data that models are given: what it is, how it is made, and what must come of it.

``fits``: a fit that ends with a right model. ``refused``: an error on purpose. ``either``: one of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch

Draw = np.random.Generator


@dataclass(frozen=True)
class Input:
    """Some data."""

    name: str
    make: Callable[[Draw], Any]
    verdict: str = "fits"


class Annotated:
    """What single cells come in: a matrix among other things."""

    def __init__(self, r: Draw) -> None:
        self.X, self.obs, self.var = counts(r), None, None
        self.shape = self.X.shape


def shape(r: Draw) -> tuple[int, int]:
    return int(r.integers(1, 13)), int(r.integers(1, 6))


def counts(r: Draw) -> np.ndarray:
    return r.poisson(r.choice([0.3, 3.0, 40.0]), shape(r))


def reals(r: Draw) -> np.ndarray:
    return r.gamma(0.7, r.choice([1e-3, 1.0, 1e4]), shape(r)) * (r.random() < 0.5 or r.random(1) < 0.7)


def proportions(r: Draw) -> np.ndarray:
    return r.dirichlet(np.ones(int(r.integers(2, 6))), size=int(r.integers(1, 13)))


def softmax(r: Draw) -> np.ndarray:
    logits = r.normal(size=(8, 3)) * r.choice([1, 10, 50, 300])
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


def wide(r: Draw, real: bool = False, huge: bool = False) -> sp.csr_matrix:
    x = r.poisson(0.05, (20, 260)).astype(float) * (r.gamma(1.0, 1.0, (20, 260)) if real else 1)
    if huge:
        x[:, 3] = r.choice([2.0**53, 1e12, 1e15])
    return sp.csr_matrix(x if real else x.astype(np.int64))


def weighted(r: Draw) -> sp.csr_matrix:
    x = (r.poisson(0.08, (30, 260)) + 1e-12).round() * r.gamma(4.0, 1.0, 260)
    return sp.csr_matrix(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300))


def sparse(r: Draw, form: str, array: bool) -> Any:
    x = counts(r) * (r.random((1, 1)) < 0.9)
    return getattr(sp, f"{form}_{'array' if array else 'matrix'}")(x)


def unsorted(r: Draw) -> sp.csr_matrix:
    """Entries twice, out of order, and zeros among them."""
    return sp.csr_matrix((np.array([1, 2, 0, 4, 5]), np.array([2, 0, 1, 1, 1]), np.array([0, 3, 5])), shape=(2, 3))


def frame(r: Draw, change: Callable[[pd.DataFrame], Any] = lambda f: f) -> Any:
    x = counts(r)
    return change(pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])]))


def with_value(value: Any, make: Callable[[Draw], Any] = reals) -> Callable[[Draw], Any]:
    """One entry replaced."""

    def made(r: Draw) -> Any:
        x = make(r)
        x = x.tolil() if sp.issparse(x) else x.astype(np.result_type(x, np.asarray(value)))
        x[int(r.integers(x.shape[0])), int(r.integers(x.shape[1]))] = value
        return sp.csr_matrix(x) if sp.issparse(x) else x

    return made


def tampered(r: Draw, size: Callable[[Draw], Any] = counts) -> Any:
    """A sparse matrix whose arrays contradict each other."""
    m = getattr(sp, r.choice(["csr_matrix", "csc_matrix", "csr_array", "bsr_matrix", "coo_matrix"]))(size(r) + 1)
    if m.format == "coo":
        m.coords[int(r.integers(2))][0] = r.choice([2**30, -1, -(2**30), max(m.shape)])
        return m
    kind = r.choice(["index", "pointer", "order", "length"])
    if kind == "index":
        m.indices[int(r.integers(len(m.indices)))] = r.choice([2**30, -1, -(2**30), max(m.shape)])
    elif kind == "pointer":
        m.indptr[-1 if r.random() < 0.5 else 0] = r.choice([2**30, -1, m.nnz + 1])
    elif kind == "order":
        m.indptr[0], m.indptr[-1] = m.indptr[-1], m.indptr[0]
    else:
        m.data = m.data[: len(m.data) // 2]
    return m


def masked(r: Draw, some: bool) -> np.ma.MaskedArray:
    x = np.ma.masked_array(counts(r))
    if some:
        x[0, 0] = np.ma.masked
    return x


def whole_dtypes() -> list[Input]:
    kinds = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool"]
    return [Input(f"counts as {kind}", lambda r, kind=kind: (counts(r) % 100).astype(kind)) for kind in kinds]


def sparse_formats() -> list[Input]:
    forms = [(form, array) for form in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok") for array in (False, True)]
    return [
        Input(f"sparse {f} {'array' if a else 'matrix'}", lambda r, f=f, a=a: sparse(r, f, a), "fits") for f, a in forms
    ]


INPUTS = [
    Input("counts", counts),
    *whole_dtypes(),
    *sparse_formats(),
    # layouts
    Input("column-major", lambda r: np.asfortranarray(counts(r))),
    Input("every second", lambda r: r.poisson(3, (12, 8))[::2, ::2]),
    Input("reversed", lambda r: reals(r)[::-1, ::-1]),
    Input("broadcast", lambda r: np.broadcast_to(r.poisson(3, (1, 3)), (6, 3))),
    Input("read-only", lambda r: np.frombuffer(r.bytes(15), np.uint8).reshape(5, 3)),
    Input("unsorted sparse", unsorted),
    Input("int64 indices", lambda r: sp.csr_array((np.ones(2), np.arange(2), np.arange(3)), shape=(2, 4))),
    # shapes
    Input("one row", lambda r: r.poisson(3, (1, 4))),
    Input("one column", lambda r: r.poisson(3, (9, 1))),
    Input("one value", lambda r: r.gamma(2, 1, (1, 1))),
    Input("constant columns", lambda r: np.c_[r.poisson(3, (9, 1)), np.full((9, 1), 7)]),
    Input("zeros", lambda r: np.zeros(shape(r))),
    Input("ones", lambda r: np.ones(shape(r), dtype=int)),
    Input("empty sparse", lambda r: sp.csr_matrix(shape(r))),
    # values
    Input("binary", lambda r: (r.random(shape(r)) < 0.4).astype(int)),
    Input("one-hot", lambda r: np.eye(4)[r.integers(4, size=9)]),
    Input("ratings", lambda r: r.integers(1, 6, (30, 3))),
    Input("reals", reals),
    Input("reals as float32", lambda r: reals(r).astype(np.float32)),
    Input("heavy tails", lambda r: np.minimum(r.pareto(0.4, shape(r)), 1e15)),
    Input("seven orders", lambda r: np.exp(r.normal(0, 4, shape(r)))),
    Input("proportions", proportions),
    Input("proportions as float32", lambda r: proportions(r).astype(np.float32)),
    Input("proportions with zeros", lambda r: np.array([[0.5, 0.5, 0], [0, 0.25, 0.75], [1, 0, 0], [0.1, 0.2, 0.7]])),
    Input("softmax outputs", softmax),
    Input("p-values", lambda r: r.beta(0.1, 1.0, shape(r)) ** r.choice([1, 4, 20])),
    Input("small proportions", lambda r: np.array([[0.5, 0.5, 1e-9], [0.5, 0.5, 2e-9]]) * r.choice([1, 1], (1, 1))),
    Input("bounded", lambda r: np.clip(r.normal(0.5, 0.5, shape(r)), 0, 1)),
    Input("large counts", lambda r: r.integers(0, 2 ** int(r.integers(20, 51)), shape(r))),
    Input("largest counts", lambda r: r.choice([0, 1, 2**53 - 1, 2**53], shape(r))),
    # wide
    Input("wide counts", wide),
    Input("wide counts, dense", lambda r: wide(r).toarray()),
    Input("wide reals", lambda r: wide(r, real=True)),
    Input("wide reals as float32", lambda r: wide(r, real=True).astype(np.float32)),
    Input("wide weighted counts", weighted),
    Input("wide zeros and ones", lambda r: (wide(r) > 0).astype(np.int8)),
    Input("wide beside a huge constant", lambda r: wide(r, huge=True)),
    # containers
    Input("list", lambda r: counts(r).tolist()),
    Input("tuples", lambda r: tuple(map(tuple, reals(r).tolist()))),
    Input("objects", lambda r: counts(r).astype(object)),
    Input("frame", frame),
    Input("frame of two dtypes", lambda r: frame(r, lambda f: f.assign(real=0.5))),
    Input("frame, rows picked", lambda r: frame(r, lambda f: f.iloc[::-1])),
    Input("tensor", lambda r: torch.from_numpy(counts(r))),
    # what may be refused
    Input("float16", lambda r: reals(r).clip(0, 6e4).astype(np.float16), "either"),
    Input("float16, large", lambda r: r.uniform(1e4, 6.5e4, shape(r)).astype(np.float16), "either"),
    Input("float16, wide", lambda r: wide(r).toarray().astype(np.float16), "either"),
    Input("longdouble", lambda r: reals(r).astype(np.longdouble), "either"),
    Input("big-endian", lambda r: counts(r).astype(r.choice([">i4", ">f8", ">u2"])), "either"),
    Input("big-endian, wide", lambda r: wide(r).toarray().astype(">i4"), "either"),
    Input("numpy matrix", lambda r: np.asmatrix(counts(r)), "either"),
    Input("masked, nothing masked", lambda r: masked(r, False), "either"),
    Input("tensor with a gradient", lambda r: torch.from_numpy(reals(r)).requires_grad_(), "either"),
    Input("sparse tensor", lambda r: torch.from_numpy(counts(r)).to_sparse(), "either"),
    Input("frame of nullable integers", lambda r: frame(r, lambda f: f.astype("Int64")), "either"),
    Input("frame with equal names", lambda r: frame(r, lambda f: f.set_axis(["c"] * f.shape[1], axis=1)), "either"),
    Input("frame with numbers as names", lambda r: frame(r, lambda f: f.set_axis(range(f.shape[1]), axis=1)), "either"),
    Input("tiny beside one", lambda r: np.array([[10.0 ** -r.integers(20, 320)], [1.5], [2.5]]), "either"),
    Input("denormal", lambda r: r.random(shape(r)) * 10.0 ** -r.integers(290, 320), "either"),
    Input("every scale", lambda r: 10.0 ** r.uniform(-300, 15, shape(r)), "either"),
    Input("large reals", lambda r: r.uniform(1e15, 2**53, shape(r)), "either"),
    # what must be refused
    Input("five dimensions", lambda r: r.poisson(3, (4, 3, 2, 2, 2)), "refused"),
    Input("one dimension", lambda r: r.poisson(3, 4), "refused"),
    Input("one dimension, sparse", lambda r: sp.coo_array(r.poisson(3, 4)), "refused"),
    Input("a number", lambda r: np.array(3), "refused"),
    Input("no rows", lambda r: np.zeros((0, 3)), "refused"),
    Input("no columns", lambda r: np.zeros((3, 0)), "refused"),
    Input("ragged", lambda r: [[1, 2], [3]], "refused"),
    Input("NaN", with_value(np.nan), "refused"),
    Input("infinity", with_value(np.inf), "refused"),
    Input("negative", with_value(-1.0), "either"),
    Input("negative, sparse", with_value(-1, wide), "either"),
    Input("above 2^53", with_value(2**53 + 1, counts), "refused"),
    Input("above 2^53, uint64", with_value(2**63 + 1, lambda r: counts(r).astype(np.uint64)), "refused"),
    Input("above 2^53, sparse", with_value(2**53 + 1, wide), "refused"),
    Input("1e300", with_value(1e300), "refused"),
    Input("complex", lambda r: counts(r) + 1j, "refused"),
    Input("text", lambda r: counts(r).astype(str), "either"),
    Input("bytes", lambda r: counts(r).astype("S"), "refused"),
    Input("dates", lambda r: counts(r).astype("datetime64[D]"), "refused"),
    Input("spans of time", lambda r: counts(r).astype("timedelta64[s]"), "refused"),
    Input("records", lambda r: np.zeros(4, dtype=[("a", int), ("b", float)]), "refused"),
    Input("objects with None", with_value(None, lambda r: counts(r).astype(object)), "refused"),
    Input("objects with text", with_value("1", lambda r: counts(r).astype(object)), "refused"),
    Input("masked", lambda r: masked(r, True), "refused"),
    Input("tampered", tampered, "refused"),
    Input("tampered, wide", lambda r: tampered(r, lambda r: wide(r).toarray()), "refused"),
    Input("frame with NaN", lambda r: frame(r, lambda f: f.assign(gap=np.nan)), "either"),
    Input("frame with NA", lambda r: frame(r, lambda f: f.assign(gap=pd.array([pd.NA] * len(f), "Int64"))), "either"),
    Input("frame with text", lambda r: frame(r, lambda f: f.assign(name="a")), "either"),
    Input("frame with dates", lambda r: frame(r, lambda f: f.assign(day=pd.Timestamp(0))), "either"),
    Input("None", lambda r: None, "refused"),
    Input("a word", lambda r: "counts.npz", "refused"),
    Input("a mapping", lambda r: {"a": [1, 2]}, "refused"),
    Input("a set", lambda r: {1, 2}, "refused"),
    Input("annotated data", Annotated, "refused"),
]
"""Every kind of data that is tried."""

TAMPERED = [each for each in INPUTS if "tampered" in each.name]
"""Those that could spoil the memory of the process that reads them."""

VALID = [each for each in INPUTS if each.verdict == "fits"]
HOSTILE = [each for each in INPUTS if each not in VALID + TAMPERED]
MATRICES = [
    each for each in VALID if each.name not in ("list", "tuples", "objects", "tensor") and "frame" not in each.name
]
"""Those that are arrays or sparse matrices already, and so can be written to files."""
