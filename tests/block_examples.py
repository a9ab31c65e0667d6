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
from countjump.domains import Categorical, Domain
from countjump.planning import make_plan, plan_images
from countjump.planning.plan import build_block
from countjump.transforms import Coding

ROWS = 60


@dataclass(frozen=True)
class Example:
    """A block and rows that it was made for."""

    block: Block
    rows: Any
    domains: list[tuple[Domain, np.ndarray, Coding | None]]
    """What its columns are in, and how they become that."""

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


def lumps() -> np.ndarray:
    """Counts of which every third is 40, and counts that are nothing else."""
    g = np.random.default_rng(6)
    return np.stack([np.where(np.arange(ROWS) % 3, g.poisson(12.0, ROWS), 40), g.poisson(3.0, ROWS)], 1)


def real_lumps() -> np.ndarray:
    """Reals of which many are 2.5, and some 0; and reals that are nothing else."""
    g = np.random.default_rng(7)
    lumpy = np.where(g.random(ROWS) < 0.4, 2.5, g.gamma(2.0, 3.0, ROWS)) * (g.random(ROWS) < 0.8)
    return np.stack([lumpy, g.gamma(2.0, 1.5, ROWS)], 1)


def levels() -> np.ndarray:
    """One of three numbers, and one of two."""
    g = np.random.default_rng(8)
    return np.stack([g.choice([4.0, 7.0, 30.0], ROWS, p=[0.5, 0.3, 0.2]), g.choice([1.0, 2.0], ROWS)], 1)


def years() -> np.ndarray:
    """Years, temperatures below zero in steps of a half, and reals of both signs."""
    g = np.random.default_rng(9)
    return np.stack([g.integers(1990, 2024, ROWS), g.integers(-9, 40, ROWS) / 2, g.normal(0.0, 3.0, ROWS)], 1)


def mixed() -> np.ndarray:
    """Counts, a flag, a constant, reals, three dummies apart from each other, years and reals from 0 to 1."""
    g = np.random.default_rng(10)
    flag, never, share = (g.random(ROWS) < 0.3), np.full(ROWS, 1.5), g.random(ROWS)
    one, two, three = labels().T
    return np.column_stack([one, counts()[:, 0], flag, never, two, reals()[:, 0], years(), three, share])


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


def pictures(levels: int) -> np.ndarray:
    """Flat pictures of 3 × 2 pixels with two channels, bright on one side."""
    g = np.random.default_rng(11)
    return g.binomial(levels - 1, np.linspace(0.05, 0.9, 12) ** 2, (ROWS, 12)).astype(np.uint8)


def pictured(levels: int, alternatives: int = 1, **options: Any) -> Example:
    rows = pictures(levels)
    plan = plan_images(rows, (3, 2, 2), JumpModel(width=8, **options).get_params())
    plan.parts[0].options["alternatives"] = alternatives
    return Example(build_block(plan.parts), rows, [(plan.domain, np.arange(12), None)])


def planned(rows: Any, **options: Any) -> Example:
    plan = make_plan(rows, JumpModel(width=8, **options).get_params())
    torch.manual_seed(0)
    found = [(part.domain, part.columns, part.coding) for part in plan.parts]
    if isinstance(plan.domain, Domain) and not any(part.coding for part in plan.parts):
        found = [(plan.domain, np.arange(rows.shape[1]), None)]
    return Example(build_block(plan.parts), rows, found)


def side_by_side(*parts: Example) -> Example:
    """Of different kinds; the columns of the first are last."""
    ends = np.cumsum([0, *(part.block.size for part in parts[::-1])])
    places = [torch.arange(int(a), int(b)) for a, b in itertools.pairwise(ends)][::-1]
    rows = [sp.csr_matrix(part.rows) for part in parts[::-1]]
    joined = sp.hstack(rows, format="csr")
    block = Blocks([part.block for part in parts], places)
    domains = [
        (domain, place.numpy()[columns], coding)
        for part, place in zip(parts, places, strict=True)
        for domain, columns, coding in part.domains
    ]
    return Example(block, joined if block.sparse else joined.toarray(), domains)


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
        "categories": planned(levels(), domain="categorical"),
        "categories, declared": planned(levels()[:, :1], domain=Categorical((4, 7, 12, 30))),
        "counts with atoms": planned(lumps(), domain="count"),
        "reals with atoms": planned(real_lumps(), domain="non-negative"),
        "coded": planned(years()),
        "images": pictured(5),
        "images, by binomials": pictured(200, belief="mixture"),
        "images, by logistics": pictured(40, belief="logistic"),
        "images, by alternatives of logistics": pictured(40, alternatives=3, belief="logistic"),
        "images, by alternatives of levels": pictured(5, alternatives=2, belief="categorical"),
        "images, appendix C": pictured(200, belief="poisson"),
        "images, the paper": pictured(200, process="poisson", lam=2.0),
        "mixed": planned(mixed()),
    }
    dense = [found[name] for name in ("reals", "one-hot", "constant", "counts, all bounded")]
    wide = [found[name] for name in ("sparse counts", "constant, sparse", "sparse reals", "reals")]
    return found | {"joint": side_by_side(*dense), "joint, sparse": side_by_side(*wide)}
