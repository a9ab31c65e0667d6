"""Looking for the weights and units behind which a matrix of reals is made of counts: x_id = w_d u_i g(n_id).

ln x_id is a sum of a column's, a row's and a count's part, and the commonest count is nearly always the same (one). So ln w_d is
the mode of ln x_id − ln u_i over the column, and ln u_i that of ln x_id − ln w_d over the row. Where the form holds, the modes are
exact: that reals agree in all their digits is no chance. They spread from one column to the rows that have it, to the columns of
these, and so on. What is then still a fraction tells which weights and units are multiples of the true ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from countjump.transforms.weights import (
    LOG_STEPS,
    MOST_UNITS,
    STEPS,
    Weights,
    exact,
    least,
    mode,
    most_units,
    multiple,
    nearest,
    plain,
    rows_of,
    runs,
    term,
    whole,
)

LEAST = 2
"""Entries for every weight and unit that is looked for, at least: fewer could be counts by chance."""

MOST_ENTRIES, FIRST_ENTRIES = 2**26, 2**17
"""Entries of a matrix that is looked at, at most, and of those of its rows that are looked at first."""

_VOTES = (3, 2, 1)
"""Entries that must agree on a weight or unit: at first, where that tells no more, and at last."""

_ROUNDS, _STARTS = 12, 3
_HALF, _NEARLY = 0.5, 0.95
_FEW_UNITS = 16
"""The smallest count of a column, and the median of all counts, at most."""

_SMALL, _FRACTION = 8, -8.0
"""Small counts, at most, and ln of how likely a fraction is."""

_LARGEST_LOG = 40.0
"""What ln(1 + x) is, at most."""


def find(X: sp.csr_matrix) -> tuple[Weights | None, str]:
    """The weights by which a matrix of non-negative reals is made of counts, or None; and what was found, in words.

    >>> rng = np.random.default_rng(0)
    >>> counts = sp.csr_matrix(rng.poisson(0.3, size=(200, 30)))
    >>> find(Weights(rng.lognormal(size=30), norm="l2").apply(counts))[1]
    "every value is its column's weight times a whole number, the row then over its Euclidean length"
    >>> find(sp.csr_matrix(rng.lognormal(size=(200, 30))))[1]
    'looked for counts behind weights, and found none: 96 % of the entries are not whole multiples'
    """
    absent = "looked for counts behind weights, and found none: "
    tolerance, X = exact(X.dtype), plain(X)
    if not 0 < X.nnz <= MOST_ENTRIES:
        return None, f"{absent}a matrix of {X.nnz:,} entries is not looked at"
    least_wrong, reason = 2.0, "there are too few entries for its rows and columns"
    for fit in _fits(X, tolerance):
        wrong = fit.wrong()
        if wrong == 0 and np.median(fit.plain()) > _FEW_UNITS:
            reason = "the entries are whole multiples, but most of them large: reals with few digits"
            break
        found = _settled(X, fit, tolerance) if wrong == 0 else None
        if found is not None:
            return found, f"{found}{fit.meaning}"
        if wrong < least_wrong:
            least_wrong = wrong
            reason = f"{max(100 * wrong, 0.01):.2g} % of the entries are not whole multiples"
        if wrong == 0:
            reason = "the entries are whole multiples, but what the rows were divided by does not follow from them"
            break
    return None, absent + reason


@dataclass(eq=False)
class _Fit:
    """ln w_d and ln u_i for which x_id/(w_d u_i) are some g(n), as far as they are found."""

    row: np.ndarray
    """Of every entry; all 0 where there is one unit for all rows."""
    column: np.ndarray
    log_x: np.ndarray
    shape: tuple[int, int]
    tolerance: float
    norm: str | None
    log1p: bool
    sublinear: bool = False
    weight: np.ndarray = field(default_factory=lambda: np.zeros(0))
    unit: np.ndarray = field(default_factory=lambda: np.zeros(0))
    known: bool = False
    """Whether the weights are given."""
    meaning: str = ""
    """Of the weights, in words."""

    def plain(self) -> np.ndarray:
        """x_id/(w_d u_i); not a number where one is unknown."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_x - self.weight[self.column] - self.unit[self.row])

    def whole(self) -> np.ndarray:
        """Which of these are some g(n)."""
        return whole(self.plain(), self.tolerance, self.sublinear)

    def wrong(self) -> float:
        """The share of those that are not."""
        return float(1 - self.whole().mean())

    def determined(self) -> bool:
        """Whether there is more to see than weights and units. A column of one entry tells nothing."""
        has = np.bincount(self.column, minlength=self.shape[1])
        alone = 0 if self.known else np.count_nonzero(has == 1)
        looked_for = len(np.unique(self.row)) + (0 if self.known else np.count_nonzero(has) - alone)
        return bool(len(self.log_x) - alone >= LEAST * looked_for)

    def part(self, entries: np.ndarray) -> _Fit:
        """Of some entries alone."""
        return replace(self, row=self.row[entries], column=self.column[entries], log_x=self.log_x[entries])

    def with_units(self, most: int) -> _Fit:
        """With units by which the rows are whole, given the weights."""
        value = np.exp(self.log_x - self.weight[self.column])
        return replace(self, unit=self._divisor(self.row, value, self.shape[0], most))

    def _divisor(self, group: np.ndarray, value: np.ndarray, groups: int, most: int) -> np.ndarray:
        """ln of what makes the values of every group some g(n)."""
        smallest = least(group, value, groups)
        with np.errstate(over="ignore"):  # what is as large is no count
            value = value / smallest[group]
        factor = multiple(group, value, groups, self.tolerance, most, self.sublinear)
        return np.log(smallest / factor)

    def searched(self, first: np.ndarray) -> _Fit:
        """With weights and units from the commonest columns, by some of the entries at first and then by all."""
        part, fits = self.part(first), []
        for place in range(_STARTS):
            fit = replace(part, weight=np.full(self.shape[1], np.nan), unit=np.full(self.shape[0], np.nan))
            fit.start(place)
            fit.spread()
            fits += [fit, replace(fit, sublinear=True)]
            best = min(fits, key=_Fit.wrong)
            if best.wrong() < _HALF:
                break
        else:
            return best
        best.refine()
        if not first.all() and best.wrong() < 1 - _NEARLY:
            best = replace(best, row=self.row, column=self.column, log_x=self.log_x)
            best.start(0)
            best.spread()
            best.refine()
        return best

    def start(self, place: int) -> None:
        """Where a component of the graph of rows and columns has no weights yet, its commonest column weighs one.

        Or the one after that, and so on, as ``place`` says.
        """
        from scipy.sparse.csgraph import connected_components  # here, as few need it

        rows, columns = self.shape
        edges = sp.coo_matrix((np.ones(len(self.row)), (self.row, rows + self.column)), shape=(rows + columns,) * 2)
        component = connected_components(edges, directed=False)[1][rows:]
        there = np.isfinite(self.weight)
        order = np.lexsort((-np.bincount(self.column, minlength=columns), ~there, component))
        _, first, size = np.unique(component[order], return_index=True, return_counts=True)
        start = order[first + np.minimum(place, size - 1)]
        self.weight[start[~there[order[first]]]] = 0.0

    def spread(self) -> None:
        """Weights and units as modes, from the weights that are there already."""
        votes = 1
        for needed in _VOTES:
            for _ in range(_ROUNDS):
                before = self.weight
                self.unit = self._modes(self.row, self.unit, self.weight[self.column], votes)
                self.weight = self._modes(self.column, self.weight, self.unit[self.row], needed)
                votes = needed
                if np.allclose(before, self.weight, rtol=0, atol=STEPS * self.tolerance, equal_nan=True):
                    break

    def _modes(self, group: np.ndarray, part: np.ndarray, other: np.ndarray, votes: int) -> np.ndarray:
        """Of ln x less the other part, by group; what was there already where fewer agree."""
        there = np.isfinite(other)
        commonest, agreeing = mode(group[there], (self.log_x - other)[there], len(part), STEPS * self.tolerance)
        return np.where(agreeing >= votes, commonest, part)

    def refine(self) -> None:
        """Make whole what is still a fraction, and take common factors out of the columns.

        A fraction is the fault of its row or of its column: of the one that has more of them.
        """
        wrong = self.wrong()
        for _ in range(_ROUNDS):
            if wrong == 0:
                break
            most = most_units(self.tolerance) if wrong < 1 - _NEARLY else _FEW_UNITS
            self.weight = self._likeliest(self.column, self.row, self.weight, self.unit)
            self.unit = self._likeliest(self.row, self.column, self.unit, self.weight)
            self.weight = self._corrected(self.column, self.row, self.weight, self.unit, most)
            self.unit = self._corrected(self.row, self.column, self.unit, self.weight, most)
            self._set_alone()
            wrong, before = self.wrong(), wrong
            if wrong >= max(before, 1 - _NEARLY):
                break
        if 0 < wrong < 1 - _NEARLY:  # no side is more at fault
            self.weight = self._corrected(self.column, self.row, self.weight, self.unit, most, fault=False)
        if self.wrong() == 0:
            if not self.sublinear:
                self._take_out_common_factors()
                self._set_alone()
            self._share_weights()

    def _tells(self, other: np.ndarray) -> np.ndarray:
        """How much an entry tells of its group: nothing if it is the only one of the other, and more if that has more."""
        return 1 - 1 / np.bincount(other)[other]

    def _set_alone(self) -> None:
        """The only entry of a column or row is a count of one."""
        alone = self._tells(self.row) == 0
        self.unit[self.row[alone]] = (self.log_x - self.weight[self.column])[alone]
        alone = self._tells(self.column) == 0
        self.weight[self.column[alone]] = (self.log_x - self.unit[self.row])[alone]

    def _likeliest(self, group: np.ndarray, other: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Where there are fractions: the part, times a ratio of small counts, by which the counts are likeliest.

        A count of n is taken for as likely as 1/(n (n + 1)), and a fraction for as likely as a large count.
        """
        use = (np.bincount(group, ~self.whole(), len(mine)) > 0)[group]
        group, value, tells = group[use], (self.log_x - theirs[other] - mine[group])[use], self._tells(other)[use]
        shift, best = np.zeros(len(mine)), np.full(len(mine), -np.inf)
        for ratio in _ratios(self.sublinear):
            points = tells * _points(np.exp(value - ratio), self.tolerance, self.sublinear)
            points = np.bincount(group, points, len(mine))
            better = points > best + 1e-9
            shift, best = np.where(better, ratio, shift), np.where(better, points, best)
        return mine + shift

    def _corrected(
        self, group: np.ndarray, other: np.ndarray, mine: np.ndarray, theirs: np.ndarray, most: int, fault: bool = True
    ) -> np.ndarray:
        """The parts of groups with fractions, by those entries whose other part is right no less often, or by all."""
        right = self.whole()
        mine_right = _share(group, right, len(mine), self._tells(other))
        theirs_right = _share(other, right, len(theirs), self._tells(group))
        use = (mine_right < 1)[group] & (self._tells(other) > 0)
        if fault:
            use &= theirs_right[other] >= mine_right[group]
        group, value = group[use], np.exp((self.log_x - theirs[other])[use])
        mine = mine.copy()
        mine[group] = self._divisor(group, value, len(mine), most)[group]
        return mine

    def _take_out_common_factors(self) -> None:
        """Of columns all of whose counts have a common factor, the smallest counts. A row of one entry fits any weight."""
        several = np.flatnonzero((np.bincount(self.row, minlength=self.shape[0]) > 1)[self.row])
        several = several[np.argsort(self.column[several], kind="stable")]
        if len(several):
            filled, start = np.unique(self.column[several], return_index=True)
            self.weight[filled] += np.log(np.gcd.reduceat(np.rint(self.plain()).astype(np.int64)[several], start))

    def _share_weights(self) -> None:
        """Where a fraction of a column's weight is that of several columns with more entries, it is taken.

        Words that are in as many documents weigh the same. So one that comes twice in the only document that has it here is not
        taken for another that comes once.
        """
        width, has = STEPS * self.tolerance, np.bincount(self.column, minlength=self.shape[1])
        certain = np.sort(self.weight[has >= _VOTES[0]])
        run = runs(certain, width)[: len(certain)]
        times = np.bincount(run)
        shared = (np.bincount(run, certain) / np.maximum(times, 1))[times >= _VOTES[0]]
        left = (has > 0) & ~_among(self.weight, shared, width)
        for m in range(2, _FEW_UNITS + 1):
            less = self.weight - np.log(term(np.asarray(float(m)), self.sublinear))
            attempt = replace(self, weight=np.where(left & _among(less, shared, width), less, self.weight))
            moved = (attempt.weight < self.weight) & (_share(self.column, attempt.whole(), self.shape[1]) == 1)
            self.weight, left = np.where(moved, less, self.weight), left & ~moved


def _fits(X: sp.csr_matrix, tolerance: float) -> Iterator[_Fit]:
    """What a matrix could be, the simplest first."""
    rows, columns = X.shape
    row, largest = rows_of(X), X.data.max()
    order = np.random.default_rng(0).permutation(rows)
    first = np.zeros(rows, dtype=bool)
    first[order[np.cumsum(np.diff(X.indptr)[order]) <= max(FIRST_ENTRIES, np.diff(X.indptr)[order[0]])]] = True
    entries, searches = first[row], []
    for log1p in (False, True)[: 1 + (largest < _LARGEST_LOG)]:
        value, bound = (np.expm1(X.data), tolerance * LOG_STEPS) if log1p else (X.data, tolerance)
        norm = _norm(row, value, bound, rows)
        for own in (True,) if norm else (False, True):
            unit, units = (row, rows) if own else (np.zeros_like(row), 1)
            fit = _Fit(unit, X.indices, np.log(value), (units, columns), bound, norm, log1p)
            for meaning, weight in _usual_weights(X)[: 1 if log1p else None]:
                for sublinear in (False, True):
                    guess = replace(fit, weight=weight, known=True, meaning=meaning, sublinear=sublinear)
                    if guess.determined() and guess.part(entries).with_units(_FEW_UNITS).wrong() < 1 - _NEARLY:
                        yield guess.with_units(most_units(bound))
            searches += [fit] if fit.determined() and not log1p else []
    for fit in searches:
        yield fit.searched(entries)


def _norm(row: np.ndarray, value: np.ndarray, tolerance: float, rows: int) -> str | None:
    """Which norm of the rows is always the same."""
    filled = np.bincount(row, minlength=rows) > 0
    for norm, power in (("l1", 1), ("l2", 2)):
        sums = np.bincount(row, (value / value.max()) ** power, rows)[filled]
        if np.ptp(sums) <= STEPS * tolerance * sums.max():
            return norm
    return None


def _usual_weights(X: sp.csr_matrix) -> list[tuple[str, np.ndarray]]:
    """ln of weights, and what they are: equal ones, and those by the number of rows that have the column."""
    rows, columns = X.shape
    has = np.bincount(X.indices, minlength=columns)
    ratio = rows / np.maximum(has, 1)
    usual = {
        "": np.ones(columns),
        "; a weight is ln((1 + rows)/(1 + rows with the column)) + 1": np.log((1 + rows) / (1 + has)) + 1,
        "; a weight is ln(rows/rows with the column) + 1": np.log(ratio) + 1,
        "; a weight is ln(rows/rows with the column)": np.log(ratio),
    }
    return [(meaning, np.log(weight)) for meaning, weight in usual.items() if (weight > 0).all()]


def _settled(X: sp.csr_matrix, fit: _Fit, tolerance: float) -> Weights | None:
    """The weights of a fit that is whole everywhere, where what the rows were divided by follows from the counts."""
    for weights, norm, gain in _forms(X, fit):
        found = Weights(weights, norm, fit.sublinear, fit.log1p, gain, tolerance, X.shape[0])
        if found.counts(X)[1].all():
            return found
    return None


def _forms(X: sp.csr_matrix, fit: _Fit) -> Iterator[tuple[np.ndarray | float, str | None, float]]:
    """Weights, norm and gain that a fit could be."""
    has, row, value = np.bincount(X.indices, minlength=X.shape[1]), rows_of(X), np.exp(fit.log_x)
    filled, weights, equal = np.diff(X.indptr) > 0, np.exp(fit.weight), fit.known and not fit.meaning
    if not fit.known:
        weights[has == 0] = np.median(weights[has > 0])
    if len(fit.unit) == 1:
        yield (weights[0] if equal else weights) * np.exp(fit.unit[0]), None, 1.0
    elif fit.norm is not None and not (equal and fit.norm == "l1" and not fit.sublinear):
        size = (
            np.bincount(row, value, X.shape[0]) if fit.norm == "l1" else np.sqrt(np.bincount(row, value**2, X.shape[0]))
        )
        gain = float(np.median(size[filled]))
        yield weights[0] if equal else weights, fit.norm, 1.0 if abs(gain - 1) <= STEPS * fit.tolerance else gain
    elif not fit.sublinear:
        length = np.bincount(row, np.rint(fit.plain()), X.shape[0])
        total = float(np.median((length * np.exp(fit.unit))[filled]))
        yield total if equal else weights * total, "length", 1.0
        if not fit.known:
            yield _with_multiples(X, weights * total, fit.tolerance), "length", 1.0
        if (has == 0).any():  # a column that weighs nothing may be counted
            weights = weights * _total(length[filled], fit.unit[filled], fit.tolerance)
            weights[np.argmin(has)] = 0.0
            yield weights, "length", 1.0


def _total(length: np.ndarray, unit: np.ndarray, tolerance: float) -> float:
    """The smallest number that is, in nearly every row, a whole multiple of the unit and no less than the units seen."""
    largest = np.exp(unit.max())
    for m in range(1, most_units(tolerance) + 1):
        sums = m * largest / np.exp(unit)
        if np.mean(whole(sums, tolerance, False) & (sums > length - 0.5)) >= _NEARLY:
            return float(m * largest)
    return float(largest)


def _with_multiples(X: sp.csr_matrix, weights: np.ndarray, tolerance: float) -> np.ndarray:
    """Weights by which every row of x/w adds up to one, where some are off by a whole factor: such a column lacks something, or has
    too much, in all of its rows; where it is the only such one in a row, what is lacking tells the factor."""
    row, column = rows_of(X), X.indices
    for _ in range(_ROUNDS):
        share = X.data / weights[column]
        lacking = (1 - np.bincount(row, share, X.shape[0]))[row]
        suspect = (least(column, np.abs(lacking), X.shape[1]) > STEPS * tolerance)[column]
        alone = suspect & (np.bincount(row, suspect, X.shape[0]) == 1)[row]
        if not alone.any():
            break
        factor, ratio = np.ones(X.shape[1]), np.maximum(1 + lacking[alone] / share[alone], 1 / MOST_UNITS)
        factor[column[alone]] = np.where(ratio > 1, np.rint(ratio), 1 / np.rint(1 / np.minimum(ratio, 1)))
        weights = weights / factor
    return weights


def _ratios(sublinear: bool) -> np.ndarray:
    """ln g(p)/g(q) for small p and q; 0 is the first."""
    parts = np.log(term(np.arange(1.0, _SMALL + 1), sublinear))
    ratios = np.unique((parts[:, None] - parts).round(12))
    return ratios[np.argsort(np.abs(ratios), kind="stable")]


def _points(value: np.ndarray, tolerance: float, sublinear: bool) -> np.ndarray:
    """ln of how likely counts are."""
    number = nearest(value, sublinear)
    return np.where(whole(value, tolerance, sublinear), -np.log(number * (number + 1)), _FRACTION)


def _share(group: np.ndarray, holds: np.ndarray, groups: int, mass: np.ndarray | None = None) -> np.ndarray:
    """Of the mass of every group, that for which something holds; 1 where there is none."""
    mass = np.ones(len(group)) if mass is None else mass
    total = np.bincount(group, mass, groups)
    return np.where(total > 0, np.bincount(group, mass * holds, groups) / np.where(total > 0, total, 1), 1.0)


def _among(value: np.ndarray, those: np.ndarray, width: float) -> np.ndarray:
    """Which values are among some that are sorted."""
    if not len(those):
        return np.zeros(len(value), dtype=bool)
    place = (
        np.clip(np.searchsorted(those, value), 1, len(those) - 1) if len(those) > 1 else np.zeros(len(value), dtype=int)
    )
    return np.minimum(np.abs(value - those[place]), np.abs(value - those[place - 1])) <= width
