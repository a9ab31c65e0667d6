"""Blocks to be held to the contracts, made as a model makes them: from rows and options."""

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from countjump import Bounded, Count, JumpModel, NonNegative
from countjump.blocks import Block, Blocks
from countjump.domains import Domain
from countjump.planning import make_plan
from countjump.planning.plan import build_block

ROWS = 60


@dataclass(frozen=True)
class Example:
    """A block and rows that it was made for."""

    block: Block
    rows: Any
    domain: Domain | None
    """What all its columns are in, where it is one thing."""

    @property
    def x(self) -> Any:
        """The rows as the block reads them."""
        return self.block.read(self.rows)


def counts() -> np.ndarray:
    """Three columns, of which one has a heavy tail."""
    g = np.random.default_rng(0)
    return np.stack([g.poisson(3.0, ROWS), g.poisson(1.0, ROWS), g.poisson(g.gamma(0.5, 8.0, ROWS))], 1)


def reals() -> np.ndarray:
    """Two columns, of which one is often zero."""
    g = np.random.default_rng(1)
    return np.stack([g.gamma(2.0, 1.5, ROWS), g.gamma(1.0, 1.0, ROWS) * (g.random(ROWS) < 0.6)], 1)


def shares() -> np.ndarray:
    return np.random.default_rng(2).dirichlet([2.0, 1.0, 0.5], ROWS)


def labels() -> np.ndarray:
    return np.eye(3)[np.random.default_rng(3).choice(3, ROWS, p=[0.5, 0.3, 0.2])]


def sparse_counts(columns: int = 12) -> sp.csr_matrix:
    g = np.random.default_rng(4)
    rate = g.gamma(0.3, 1.0, (ROWS, columns)) * np.linspace(2.0, 0.2, columns)
    return sp.csr_matrix(g.poisson(rate).astype(float))


def sparse_reals(columns: int = 12) -> sp.csr_matrix:
    g = np.random.default_rng(5)
    return sp.csr_matrix(
        (g.random((ROWS, columns)) < np.linspace(0.5, 0.1, columns)) * g.gamma(2.0, 1.0, (ROWS, columns))
    )


def zero_atom(shares: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The atoms of columns of reals that are zero with these shares (D,), and their basis."""
    return torch.zeros(len(shares), 1).double(), shares[:, None].double(), torch.ones(len(shares), 1, 1).double()


def planned(rows: Any, **options: Any) -> Example:
    plan = make_plan(rows, JumpModel(width=8, **options).get_params())
    torch.manual_seed(0)
    return Example(build_block(plan.parts), rows, plan.domain)


def side_by_side(*parts: Example) -> Example:
    """Of different kinds; the columns of the first are last."""
    ends = np.cumsum([0, *(part.block.size for part in parts[::-1])])
    places = [torch.arange(int(a), int(b)) for a, b in itertools.pairwise(ends)][::-1]
    rows = [sp.csr_matrix(part.rows) for part in parts[::-1]]
    joined = sp.hstack(rows, format="csr")
    block = Blocks([part.block for part in parts], places)
    return Example(block, joined if block.sparse else joined.toarray(), None)


@cache
def examples() -> dict[str, Example]:
    """Every kind of block, in each of its ways."""
    never, halves = np.full((ROWS, 2), 7), np.full((ROWS, 1), 0.5)
    found = {
        "poisson": planned(reals(), belief="poisson", lam=5.0),
        "poisson, exact": planned(counts(), belief="poisson"),
        "counts": planned(counts(), domain="count"),
        "counts, some bounded": planned(counts(), domain=Count((20, np.inf, np.inf))),
        "counts, all bounded": planned(counts() % 6, domain=Count(5)),
        "counts, a bound inferred": planned(counts() % 6 + (np.arange(ROWS) == 3)[:, None]),
        "counts, randomised": planned(counts(), lam=3.0),
        "binary": planned((counts() > 2).astype(int)),
        "reals": planned(reals()),
        "reals, by their mean": planned(reals(), decode="mean"),
        "bounded reals": planned(np.minimum(reals(), 4.0), domain=Bounded(4.0)),
        "one-hot": planned(labels(), domain="one-hot"),
        "simplex": planned(shares(), domain="simplex"),
        "simplex, of what a constant leaves": planned(
            np.hstack([0.75 * shares(), np.full((ROWS, 1), 0.25)]), domain="simplex"
        ),
        "sparse counts": planned(sparse_counts(), belief="composition", domain="count"),
        "sparse reals": planned(sparse_reals(), belief="composition", domain=NonNegative()),
        "constant": planned(np.hstack([never, halves])),
        "constant, sparse": planned(sp.csr_matrix(np.hstack([never, 0 * never]))),
        "joint, with constants": planned(np.hstack([never, counts()])),
    }
    dense = [found[name] for name in ("reals", "one-hot", "constant", "counts, all bounded")]
    wide = [found[name] for name in ("sparse counts", "constant, sparse", "sparse reals", "reals")]
    return found | {"joint": side_by_side(*dense), "joint, sparse": side_by_side(*wide)}
