"""Atoms: values of an ordered column that are more frequent than its smooth law says, such as a zero, a price or a cap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from countjump.priors import gamma_mixture

MOST_ATOMS = 256
"""Of a column."""

LEAST_ROWS = 3
"""In which an atom is seen: a real that the data holds only once or twice is none."""

MOST_COUNT = 10**6
"""Up to which the frequencies of counts are looked at one by one."""

ROWS_FOR_LEVEL = 100
"""Of a bounded column of more than eight levels, from which on it has a free law over them."""

NARROW = 1e-6
"""The cell of reals that are written with any number of digits, as a part of their range."""

FREE, MOST_FREE, ROWS_FOR_FREE, DEGREE = 8, 64, 200, 4
"""Atoms of a column that have a log-odds of their own, at least and at most; rows for each of them; and the degree of the
polynomials in their ranks and in their values that all have."""


@dataclass(frozen=True)
class Margin:
    """The law of a column: ``atoms`` with their ``shares``, and for the rest a mixture of Gammas (3, K)."""

    atoms: np.ndarray
    shares: np.ndarray
    mixture: np.ndarray

    def log_prob(self, x: np.ndarray, cell: float, counts: bool) -> np.ndarray:
        """ln P of the values, each with the cell around it."""
        smooth = (1 - self.shares.sum()) * cell * smooth_law(x, self.mixture, counts)
        place = np.minimum(np.searchsorted(self.atoms, x), max(len(self.atoms) - 1, 0))
        mass = np.where(self.atoms[place] == x, self.shares[place], 0.0) if len(self.atoms) else 0.0
        return np.log(np.maximum(mass + smooth, 1e-300))


def find_margin(
    values: np.ndarray, components: int, counts: bool, cell: float | None = None, lumps: bool = True
) -> Margin:
    """The law of a column, with the atoms by which rows that are held out become likelier.

    ``cell`` is the distance of neighbouring reals as they are written, and None for any. Without atoms, with those values that
    stick out, or with all that are repeated: what is fitted to one half of the rows and likelier on the other one, both ways, is
    taken. Without ``lumps`` only values that stick out can be atoms. Zero among reals, which have no density there, always is one.

    >>> rng = np.random.default_rng(0)
    >>> lumpy = np.where(rng.random(2000) < 0.3, 40, rng.poisson(40, 2000))
    >>> find_margin(lumpy.astype(float), 2, counts=True).atoms
    array([40.])
    """
    width = 1.0 if counts else cell or max(float(values.max() - values.min()), 1e-290) * NARROW
    half = np.random.default_rng(0).permutation(len(values)) % 2
    best, chosen, alike = -np.inf, _no_atoms, dict[int, float]()
    known: dict[tuple[int, bytes], Margin] = {}  # most columns have no atoms, by any choice: fitted once
    for choose in (_no_atoms, _sticking_out, _repeated)[: 3 if lumps else 2]:
        gain = 0.0
        for each in (0, 1):
            some = values[half == each]
            atoms = _atoms(some, components, width, counts, choose)
            key = each, atoms.tobytes()
            fitted = known[key] = known.get(key) or _fit(some, atoms, components, counts)
            gain += fitted.log_prob(values[half != each], width, counts).sum()
            if counts and choose is _repeated:  # where neighbours are alike, it is no lump
                alike[each] = _by_neighbours(some, values[half != each], fitted.mixture)
        if choose is _repeated and sum(alike.values()) > gain:
            break
        # More atoms must be worth it: two numbers more, as an information criterion asks.
        if gain > best + 2:
            best, chosen = gain, choose
    return _fit(values, _atoms(values, components, width, counts, chosen), components, counts)


def _by_neighbours(values: np.ndarray, others: np.ndarray, mixture: np.ndarray) -> float:
    """The log-likelihood of counts by the mean frequency of the five counts around each, as other counts have them."""
    most = int(max(values.max(), others.max())) + 3
    if most > MOST_COUNT:
        return -np.inf
    total = np.convolve(np.bincount(values.astype(np.int64), minlength=most), np.ones(5) / 5, "same")
    seldom = 1 / (len(values) + 1)
    law = (1 - seldom) * total[others.astype(np.int64)] / len(values) + seldom * smooth_law(others, mixture, True)
    return float(np.log(np.maximum(law, 1e-300)).sum())


Choice = Callable[[np.ndarray, np.ndarray, int, float, bool], np.ndarray]
"""(distinct values, how often each is seen, components, cell, counts) → which are atoms."""


def _atoms(values: np.ndarray, components: int, cell: float, counts: bool, choose: Choice) -> np.ndarray:
    """The atoms by a choice, the most frequent of them, in order."""
    distinct, total = np.unique(values, return_counts=True)
    atom = choose(distinct, total, components, cell, counts)
    if not counts:
        atom = atom | (distinct == 0)
    kept = np.flatnonzero(atom)
    return distinct[np.sort(kept[np.argsort(-total[kept], kind="stable")[:MOST_ATOMS]])]


def _fit(values: np.ndarray, atoms: np.ndarray, components: int, counts: bool) -> Margin:
    """The shares of the atoms, and a smooth law for the others."""
    is_atom = np.isin(values, atoms)
    others = values[~is_atom]
    mixture = fit_smooth(others, values, components, counts)
    share = np.bincount(np.searchsorted(atoms, values[is_atom]), minlength=len(atoms)) / len(values)
    if counts and len(atoms):
        share = np.maximum(share - len(others) / len(values) * smooth_law(atoms, mixture, True), share / 10)
    # The smooth law keeps at least what Laplace's rule gives what was never seen.
    share = share * min(1.0, (1 - 1 / (len(values) + 1)) / max(share.sum(), 1e-300))
    return Margin(atoms, share, mixture)


def fit_smooth(others: np.ndarray, values: np.ndarray, components: int, counts: bool) -> np.ndarray:
    """A mixture of Gammas for what is no atom; around all values where that is too little."""
    some = others if counts else others[others > 0]
    if np.count_nonzero(some) >= 10:
        return gamma_mixture(some, components, counts)
    mean = max(float(values.mean()), 1e-12)
    around = mean * (4.0 ** np.linspace(-1, 1, components) if components > 1 else np.ones(1))
    return np.stack([np.full(components, 1 / components), np.ones(components), around])


def _no_atoms(distinct: np.ndarray, total: np.ndarray, components: int, cell: float, counts: bool) -> np.ndarray:
    return np.zeros(len(distinct), dtype=bool)


def _repeated(distinct: np.ndarray, total: np.ndarray, components: int, cell: float, counts: bool) -> np.ndarray:
    return total >= LEAST_ROWS


def _sticking_out(distinct: np.ndarray, total: np.ndarray, components: int, cell: float, counts: bool) -> np.ndarray:
    """Those that are much more frequent than a smooth law fitted to the others says."""
    atom, rows = np.zeros(len(distinct), dtype=bool), total.sum()
    for _ in range(4):
        left = np.repeat(distinct[~atom], total[~atom])
        some = left if counts else left[left > 0]
        if np.count_nonzero(some) < 10:
            break
        expected = len(left) * cell * smooth_law(distinct, gamma_mixture(some, components, counts, rounds=60), counts)
        new = ~atom & (total >= max(LEAST_ROWS, rows / 1000)) & (total > 1.5 * expected + 4 * np.sqrt(expected))
        if not new.any():
            break
        atom |= new
    return atom


def smooth_law(x: np.ndarray, mixture: np.ndarray, counts: bool) -> np.ndarray:
    """The mass of counts, or the density of positive reals, by a mixture of Gammas."""
    weights, shapes, means = mixture[:, None, :]
    x = x[:, None]
    rate = shapes / means
    if counts:
        log_p = gammaln(x + shapes) - gammaln(shapes) - gammaln(x + 1) + shapes * np.log(rate)
        log_p = log_p - (x + shapes) * np.log1p(rate)
    else:
        safe = np.maximum(x, 1e-300)
        log_p = shapes * np.log(rate) - gammaln(shapes) + (shapes - 1) * np.log(safe) - rate * safe
    return np.exp(log_p + np.log(np.maximum(weights, 1e-300))).sum(1)


def count_margin(values: np.ndarray, bound: float, components: int, rows: int) -> Margin:
    """The law of a column of counts. A bounded one has a free law over its levels if these are few, or have many rows each; else
    its neighbouring levels tell of each other."""
    if bound < FREE or (bound < MOST_FREE and rows >= ROWS_FOR_LEVEL * (bound + 1)):
        return free_levels(values, int(bound))
    return find_margin(values, components, counts=True, lumps=not np.isfinite(bound))


def free_levels(values: np.ndarray, largest: int) -> Margin:
    """All levels 0 … ``largest`` with their shares; those never seen share the mass that Laplace's rule gives them."""
    total = np.bincount(values.astype(np.int64), minlength=largest + 1).astype(float)
    unseen = total == 0
    share = total / len(values)
    if unseen.any():
        share = np.where(unseen, 1 / (unseen.sum() * (len(values) + 1)), share * len(values) / (len(values) + 1))
    return Margin(np.arange(largest + 1, dtype=float), share, np.zeros((3, 0)))


def basis(atoms: np.ndarray, shares: np.ndarray, rows: int) -> np.ndarray:
    """How an atom's log-odds follow from a few numbers (A, J): polynomials in its rank and its value, and one of its own.

    So columns of many levels change smoothly with what the others say, and a value that sticks out can go its own way.
    """
    free = int(np.clip(rows // ROWS_FOR_FREE, FREE, MOST_FREE))
    if len(atoms) <= FREE:
        return np.eye(len(atoms))
    rank = (np.cumsum(shares) - shares / 2) / max(shares.sum(), 1e-300)
    value = (atoms - atoms[0]) / (atoms[-1] - atoms[0])
    by_rank, by_value = (np.polynomial.legendre.legvander(2 * each - 1, DEGREE) for each in (rank, value))
    own = np.argsort(-shares, kind="stable")[:free]
    return np.hstack([by_rank, by_value[:, 1:], np.eye(len(atoms))[:, own]])
