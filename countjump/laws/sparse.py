"""Laws of rows that are almost all zero. :class:`TotalComposition` is a total whose units fall on columns; :class:`SparseSet` a set
of columns; :class:`Amounts` the positive reals at the places of a set. ``docs/models/sparse-counts.md`` states the model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.special import gammaln

from countjump.laws.base import CountLaw, Indexable, Law, Streams, category_at, draw_category
from countjump.laws.composition import draw_multinomial
from countjump.laws.scalar import Binomial, Gamma, Poisson
from countjump.sparse import SparseRows

WEIGHTS = 2**22  # held at once, if that is 64 to 512 rows
TILE = 64  # columns: a unit is drawn on a tile first, then on a column of it
UNITS_AT_ONCE = 2**15
COUNT_CLASSES = (0.5, 1.5, 2.5, 4.5, 9.5, 19.5, 39.5)  # part columns that are seen 0, 1, 2, 3 to 4, … times
LARGE_SHARE = 0.03  # of a seen column, from which on it is shrunk
TINY = 1e-30  # the least share whose logarithm is taken
NEVER = -1e9  # the logit of a column that cannot come
FEW = 8  # rows: a product of fewer is worked out another way, and rounded otherwise
MANY = 2**13  # units of a row from which on its shares are drawn at once, if that is more than the columns
STIRLING = 1e6  # from here on two terms of Stirling's series give ln Γ to all digits
GUARD = 22.0  # totals are cut where their law has less than 2 exp(−22) < 1e-9 of its mass


def rows_at_once(columns: int) -> int:
    """Rows whose D weights are held at once.

    >>> rows_at_once(1000), rows_at_once(10_000), rows_at_once(1_000_000)
    (512, 419, 64)
    """
    return min(max(WEIGHTS // columns, 64), 512)


def filled(rows: Tensor) -> Tensor:
    """Rows (B, K) of which a product with a matrix is to be the same whatever rows they are among: few are filled up with zeros.

    >>> filled(torch.ones(1, 2)).shape
    torch.Size([8, 2])
    """
    return pad(rows, (0, 0, 0, FEW - len(rows))) if 0 < len(rows) < FEW else rows


def column_logits(bias: Tensor, query: Tensor, table: Tensor) -> Tensor:
    """bias + query · table, (B, D)."""
    return torch.addmm(bias, filled(query), table.t())[: len(query)]


@dataclass(frozen=True, eq=False)
class ThinnedRows(CountLaw):
    """What is left of ``units`` when each is kept with probability p (B, 1): binomials at the places of ``units``.

    >>> ThinnedRows(SparseRows.from_dense(torch.tensor([[3.0, 0.0]])), torch.ones(1, 1)).sample().dense()
    tensor([[3., 0.]])
    """

    units: SparseRows
    p: Tensor

    def _entries(self) -> Binomial:
        return Binomial(self.units.value, self.p.to(self.units.value).expand(len(self.units), 1)[self.units.row, 0])

    def sample(self, generator: torch.Generator | None = None) -> SparseRows:
        return self.units.with_values(self._entries().sample(generator))

    def log_prob(self, value: SparseRows) -> Tensor:
        """Minus infinity where there is more than ``units``, or something elsewhere."""
        inside = self.units.per_row(self._entries().log_prob(value.at(self.units)))
        if value.same_places(self.units):
            return inside
        elsewhere = value.per_row((value.value != 0) & (self.units.at(value) == 0)) > 0
        return torch.where(elsewhere, -torch.inf, inside)

    @property
    def mean(self) -> SparseRows:
        return self.units.with_values(self._entries().mean)

    def thin(self, p: Tensor | float) -> ThinnedRows:
        return ThinnedRows(self.units, self.p * p)


# The mean composition of what is missing.


@dataclass(frozen=True, eq=False)
class Shares(Indexable):
    """The expected shares μ (B, D) of the columns in what is missing of rows of which z is ``given``:

        μ_d ∝ exp(bias of d) [ (1 − π) softmax(b_d + table_d · query + f · F_d) + π (z_d − δ_d) exp(g c_d)/Σ ].

    A unit falls on a column by a softmax, or, with probability π, where units are already ("reused"), as in Pitman and Yor's
    urn; π = 0 where nothing is seen. ``query`` (B, H) and ``reuse`` (B, 3), the log-odds of π, what is added to the log-odds of
    the discounts δ, and g, are the network's; ``burstiness`` (D, 2) holds the log-odds of δ, and c.

    The calibration: ``frequency_bias`` (B, L) is f, times the columns' ``frequency`` (D, L); ``reuse_bias`` (B, L) times the same
    is added to g c_d; ``class_bias`` (B, 8) is the bias of
    columns that are seen 0, 1, 2, ... times; ``shrinkage`` (B,) times ln(1 + μ_d/0.03) is added for seen columns, and moves units
    between these alone.
    """

    query: Tensor
    reuse: Tensor
    given: SparseRows
    table: Tensor
    bias: Tensor
    burstiness: Tensor
    class_bias: Tensor | None = None
    shrinkage: Tensor | None = None
    frequency_bias: Tensor | None = None
    reuse_bias: Tensor | None = None
    frequency: Any = None
    shared = ("table", "bias", "burstiness", "frequency")

    def __len__(self) -> int:
        return len(self.query)

    @property
    def columns(self) -> int:
        """D."""
        return len(self.bias)

    def at(self, places: SparseRows) -> tuple[Tensor, Tensor]:
        """ln μ (N,) at some places, and the share (B,) of what is seen."""
        query, table = self.query, self.table
        if self.frequency_bias is not None:
            query, table = torch.cat([query, self.frequency_bias], 1), torch.cat([table, self.frequency], 1)
        z = self.given

        def mixed(where: SparseRows) -> Tensor:
            new = _LogSoftmax.apply(query, table, self.bias, where)
            return _LogMixed.apply(new, self.reuse[:, 0], self._reuse_weights(), where, z)

        log_share = mixed(places)
        raw = (log_share if z.same_places(places) else mixed(z)).exp()
        # In float64: a sum of many shares is near one, and what is left of it may be raised by much.
        raw = torch.where(z.value > 0, raw.double(), 0.0)
        if self.class_bias is None:
            return log_share, z.per_row(raw)
        shift = self._shrinkage_shift(raw)
        seen = z.per_row(raw * self._bias(z, z.value, raw, shift).exp())
        whole = seen + self.class_bias[:, 0].exp() * (1 - z.per_row(raw)).clamp(min=0)
        bias = self._bias(places, z.at(places), log_share.exp(), shift)
        return log_share + bias - whole.log().index_select(0, places.row), seen / whole

    def cross_entropy(self, value: SparseRows) -> Tensor:
        """−Σ_d value_d ln μ_d, one number per row."""
        return -value.per_row(value.value * self.at(value)[0])

    def dense(self) -> Tensor:
        """μ (B, D)."""
        weights, seen, k = self.weights()
        z = self.given
        new = weights[:, : self.columns] * ((1 - k) / weights.sum(-1).clamp(min=TINY))[:, None]
        return new.double().index_put((z.row, z.column), seen, accumulate=True)

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of the new columns μ times some number, (B, D) filled up to whole tiles with zeros; of z's entries μ itself (N,); and
        the share k (B,) of what is seen."""
        columns = self.columns
        query = filled(self.query)
        weights = query.new_empty(len(query), columns + -columns % TILE)
        weights[:, columns:] = -torch.inf
        bias, frequency_bias = self.bias, self.frequency_bias
        if frequency_bias is not None and bool((frequency_bias == frequency_bias[:1]).all()):
            # As in a chain, whose rows are at one time.
            bias, frequency_bias = torch.addmv(bias, self.frequency, frequency_bias[0]), None
        torch.addmm(bias, query, self.table.t(), out=weights[:, :columns])
        if frequency_bias is not None:
            weights[:, :columns].addmm_(filled(frequency_bias), self.frequency.t())
        weights = weights[: len(self)]
        torch.softmax(weights, -1, out=weights)
        z = self.given
        reused, share = _reused(self.reuse[:, 0], self._reuse_weights(), z)
        drawn_new = weights[z.row, z.column]
        raw = torch.where(z.value > 0, ((1 - reused)[z.row] * drawn_new + reused[z.row] * share).double(), 0.0)
        new = (1 - reused) * (1 - z.per_row(torch.where(z.value > 0, drawn_new, 0.0).double())).clamp(min=0)
        seen = raw
        if self.class_bias is not None:
            seen = raw * self._bias(z, z.value, raw, self._shrinkage_shift(raw)).exp()
            new = new * self.class_bias[:, 0].exp()
        occupied = (z.value > 0).nonzero().squeeze(1)
        weights[z.row[occupied], z.column[occupied]] = 0.0
        new = torch.where(weights.sum(-1) > 0, new, 0.0)  # where every column is seen, none is new
        whole = z.per_row(seen) + new
        return weights, seen / whole[z.row], z.per_row(seen) / whole

    def _reuse_weights(self) -> Tensor:
        """ln(z_d − δ_d) + g c_d, of what is given (N,)."""
        z, (discount, c) = self.given, self.burstiness.unbind(1)
        discount = (discount.index_select(0, z.column) + self.reuse[:, 1].index_select(0, z.row)).sigmoid()
        gain = self.reuse[:, 2].index_select(0, z.row) * c.index_select(0, z.column)
        if self.reuse_bias is not None:
            gain = gain + (self.reuse_bias.index_select(0, z.row) * self.frequency.index_select(0, z.column)).sum(1)
        return (z.value.to(discount.dtype) - discount).clamp(min=TINY).log() + gain

    def _bias(self, places: SparseRows, count: Tensor, share: Tensor, shift: Tensor | None) -> Tensor:
        """What is added to the logarithms of the shares (N,) at some places, whose columns are seen ``count`` times (N,)."""
        assert self.class_bias is not None
        bias = self.class_bias[places.row, _count_class(count)]
        if self.shrinkage is None or shift is None:
            return bias
        large = self.shrinkage[places.row] * torch.log1p(share / LARGE_SHARE) - shift[places.row]
        return bias + torch.where(count > 0, large, 0.0)

    def _shrinkage_shift(self, share: Tensor) -> Tensor | None:
        """ln of the factor (B,) by which shrinkage changes the sum of the seen shares (N,): it is taken back."""
        z = self.given
        if self.class_bias is None or self.shrinkage is None:
            return None
        biased = share * self.class_bias[z.row, _count_class(z.value)].exp()
        shrunk = biased * (1 + share / LARGE_SHARE) ** self.shrinkage[z.row]
        return (z.per_row(shrunk).clamp(min=TINY) / z.per_row(biased).clamp(min=TINY)).log()


@dataclass(frozen=True, eq=False)
class SharesWithout(Indexable):
    """Those of ``shares`` that are not ``known`` (B, D), with a sum of one: what a row's other units fall by."""

    shares: Shares
    known: Tensor

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def columns(self) -> int:
        """D."""
        return self.shares.columns

    @property
    def given(self) -> SparseRows:
        """Of what is seen, what is not known."""
        z = self.shares.given
        return z.with_values(torch.where(self.known[z.row, z.column], 0.0, z.value))

    def left(self) -> tuple[Tensor, Tensor]:
        """The shares (B,) of the new and of the seen columns that are not known."""
        weights, seen, k = self.shares.weights()
        z, columns = self.shares.given, self.columns
        new = (weights[:, :columns] * ~self.known).sum(-1).double() / weights.sum(-1).double().clamp(min=TINY)
        return (1 - k) * new, z.per_row(torch.where(self.known[z.row, z.column], 0.0, seen))

    def at(self, places: SparseRows) -> tuple[Tensor, Tensor]:
        """See :meth:`Shares.at`; the places are not known."""
        new, seen = self.left()
        whole = (new + seen).clamp(min=TINY)
        return self.shares.at(places)[0].double() - whole.log()[places.row], seen / whole

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """See :meth:`Shares.weights`."""
        weights, seen, _ = self.shares.weights()
        z, columns = self.shares.given, self.columns
        new, on_seen = self.left()
        weights[:, :columns] *= ~self.known
        whole = (new + on_seen).clamp(min=TINY)
        mine = torch.where(self.known[z.row, z.column], 0.0, seen)
        return weights, mine / whole[z.row], on_seen / whole

    def dense(self) -> Tensor:
        """(B, D)."""
        dense = self.shares.dense() * ~self.known
        return dense / dense.sum(-1, keepdim=True).clamp(min=TINY)


def _count_class(z: Tensor) -> Tensor:
    """Which of the classes numbers of units belong to."""
    return torch.bucketize(z, torch.tensor(COUNT_CLASSES, dtype=z.dtype, device=z.device))


class _LogSoftmax(torch.autograd.Function):
    """ln softmax(bias + table · query) at some places of (B, D), among the columns that are not ``taken``.

    One table (B, D) of weights is made, kept for the gradient, and used up by it.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, table: Tensor, bias: Tensor, places: SparseRows, taken: SparseRows | None = None
    ) -> Tensor:
        weights = column_logits(bias, query, table)
        if taken is not None:
            _without(weights, taken)
        weights.sub_(weights.amax(-1, keepdim=True))
        logit = weights[places.row, places.column]
        norm = weights.exp_().sum(-1)
        ctx.save_for_backward(query, table, weights, norm)
        ctx.places = places
        return logit - norm.log()[places.row]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        query, table, weights, norm = ctx.saved_tensors
        places = ctx.places
        weights.mul_((-places.per_row(grads[0]) / norm)[:, None])
        weights.index_put_((places.row, places.column), grads[0], accumulate=True)
        wanted = ctx.needs_input_grad
        return (
            weights @ table if wanted[0] else None,
            weights.t() @ query if wanted[1] else None,
            weights.sum(0) if wanted[2] else None,
            None,
            None,
        )


def _without(logits: Tensor, taken: SparseRows) -> Tensor:
    """In place, so low where something is that it cannot come."""
    gone = NEVER * (taken.value > 0).to(logits.dtype)
    return logits.index_put_((taken.row, taken.column), gone, accumulate=True)


def _reused(odds: Tensor, weights: Tensor, given: SparseRows) -> tuple[Tensor, Tensor]:
    """π (B,), zero where nothing is seen, and the shares (N,) of the entries by the log-weights (N,)."""
    weights = weights.masked_fill(given.value <= 0, -torch.inf)
    largest = weights.new_full((len(given),), -torch.inf).scatter_reduce(0, given.row, weights.detach(), "amax")
    seen = largest > -torch.inf
    weight = (weights - torch.where(seen, largest, 0.0).index_select(0, given.row)).exp()
    whole = torch.where(seen, given.per_row(weight), 1.0)
    return odds.sigmoid() * seen, weight / whole.index_select(0, given.row)


class _LogMixed(torch.autograd.Function):
    """ln((1 − π) exp(new) + π share) at some places: ``new`` (P,) is the softmax's logarithm there, ``share`` that of reuse.

    Written out because the derivatives are few: with r = π share over the whole, those by new, the log-odds of π and ln share are
    1 − r, r − π and r.
    """

    @staticmethod
    def forward(ctx: Any, new: Tensor, odds: Tensor, weights: Tensor, places: SparseRows, given: SparseRows) -> Tensor:
        reused, share = _reused(odds, weights, given)
        found = given.find(places)
        log_reuse = (reused.index_select(0, given.row) * share).log()
        log_reuse = log_reuse if found is None else pad(log_reuse, (0, 1), value=-torch.inf)[found]
        mixed = torch.logaddexp(new + torch.log1p(-reused).index_select(0, places.row), log_reuse)
        ctx.save_for_backward(reused, share, (log_reuse - mixed).exp_())
        ctx.places, ctx.given, ctx.found = places, given, found
        return mixed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        reused, share, blame = ctx.saved_tensors
        places, given = ctx.places, ctx.given
        by_reuse = grads[0] * blame
        by_row = places.per_row(by_reuse)
        odds = by_row - reused * places.per_row(grads[0])
        weights = (
            by_reuse if ctx.found is None else by_reuse.new_zeros(len(share) + 1).index_add(0, ctx.found, by_reuse)[:-1]
        )
        return grads[0] - by_reuse, odds, weights - share * by_row.index_select(0, given.row), None, None


# The law of what is missing.


@dataclass(frozen=True, eq=False)
class TotalComposition(CountLaw):
    """A total M by any count family (B, 1), whose units fall on the columns as in a tree of Pólya urns with the means μ:

        n_seen ~ BetaBinomial(M; s k, s (1 − k)), k the share of what is seen (z_d > 0);
        what is seen ~ DirichletMultinomial(n_seen, A_seen μ/k), what is new ~ DirichletMultinomial(M − n_seen, A_new μ/(1 − k)).

    ``strength`` (B, 3) holds s, A_new and A_seen: the smaller, the more the units of one step go together. Units are exchangeable,
    so that thinning thins the total and leaves the composition. A total may be given as a function without arguments, and is then
    worked out when it is needed.
    """

    total: Any
    shares: Shares
    strength: Tensor

    @property
    def law_of_total(self) -> Any:
        """The total's family."""
        return self.total() if callable(self.total) else self.total

    def __getitem__(self, rows: Any) -> TotalComposition:
        return TotalComposition(self.law_of_total[rows], self.shares[rows], self.strength[rows])

    def thin(self, p: Tensor | float) -> TotalComposition:
        return replace(self, total=self.law_of_total.thin(p))

    @property
    def mean(self) -> Tensor:
        return self.law_of_total.mean * self.shares.dense()

    def log_prob(self, value: SparseRows) -> Tensor:
        pieces = torch.arange(len(value), device=value.device).split(rows_at_once(self.shares.columns))
        totals = self.law_of_total.log_prob(value.totals[:, None]).squeeze(1)
        if len(pieces) == 1:
            return totals + self.log_composition(value)
        return totals + torch.cat([self[rows].log_composition(value[rows]) for rows in pieces])

    def log_composition(self, value: SparseRows) -> Tensor:
        """ln P(value given its total): the urns' sequences times the number of their orders."""
        log_share, k = self.shares.at(value)
        return _log_tree(value, self.shares.given.at(value) > 0, log_share.double(), k, self.strength)

    def without(self, value: SparseRows, known: Tensor) -> TotalComposition:
        """The law of the columns that are not ``known`` (B, D), given the ``value`` of those that are: nearly the conditional one.

        The total learns from what is known as if that were a fixed share of it. A Dirichlet's other parts are, among themselves,
        a Dirichlet of what is left of its strength.
        """
        others = SharesWithout(self.shares, known)
        new, seen = others.left()
        k = self.shares.weights()[2].double()
        s, new_strength, seen_strength = self.strength.double().unbind(1)
        strength = [
            s * (new + seen),
            new_strength * new / (1 - k).clamp(min=TINY),
            seen_strength * seen / k.clamp(min=TINY),
        ]
        total = self.law_of_total.rest(value.totals[:, None], (1 - new - seen).clamp(0, 1)[:, None])
        return TotalComposition(total, others, torch.stack(strength, 1).clamp(min=1e-10))  # type: ignore[arg-type]

    @torch.no_grad()
    def draw_given(self, value: Any, known: Any, streams: Streams) -> tuple[SparseRows, Tensor]:
        if known is None:
            return super().draw_given(value, known, streams)
        others = self.without(value, known)
        rest = others.draw(streams)
        whole = value + rest
        return whole, self.log_prob(whole) - others.log_prob(rest)

    def sample(self, generator: torch.Generator | None = None) -> SparseRows:
        return self.draw(Streams([generator], len(self.strength)))

    @torch.no_grad()
    def draw(self, streams: Streams, index: Tensor | None = None) -> SparseRows:
        """Only rows on which something falls have their weights worked out."""
        index = torch.arange(len(self.strength), device=self.strength.device) if index is None else index
        columns, total = self.shares.columns, self.law_of_total
        limit = total.upper_quantile(GUARD).ceil().squeeze(1)[index]
        units = _guard(total.draw(streams, index).squeeze(1), limit)
        many = units > max(columns, MANY)
        row = torch.repeat_interleave(torch.arange(len(index), device=index.device), torch.where(many, 0, units).long())
        chance = torch.stack([streams.uniform(row) for _ in range(5)])
        needed, group = torch.unique(index[row], return_inverse=True)
        keys, size = [row[:0]], rows_at_once(columns)
        for start in range(0, len(needed), size):
            shares, strength = self.shares[needed[start : start + size]], self.strength[needed[start : start + size]]
            mine = ((group >= start) & (group < start + size)).nonzero().squeeze(1)
            column = _polya_tree(shares, strength, row[mine], group[mine] - start, chance[:, mine])
            keys.append(row[mine] * columns + column)
        key, count = torch.unique(torch.cat(keys), return_counts=True)
        drawn = SparseRows(key // columns, key % columns, count.double(), (len(index), columns))
        return drawn + self._draw_many(index, units, many, streams) if many.any() else drawn

    def _draw_many(self, index: Tensor, units: Tensor, many: Tensor, streams: Streams) -> SparseRows:
        """Very many units of a row: shares are drawn from the Beta and the Dirichlets behind the urns, and units fall by them."""
        pieces = []
        for rows, generator in streams:
            dense = units.new_zeros(len(index[rows]), self.shares.columns) if many[rows].any() else None
            for place in many[rows].nonzero().squeeze(1).tolist():
                law = self[index[rows][place : place + 1]]
                shares = _dirichlet_tree(law.shares, law.strength, generator)
                dense[place] = draw_multinomial(units[rows][place : place + 1], shares, generator)[0]  # type: ignore[index]
            empty = SparseRows.empty(len(index[rows]), self.shares.columns, index.device)
            pieces.append(empty if dense is None else SparseRows.from_dense(dense))
        return SparseRows.concatenate(pieces)


def _guard(units: Tensor, limit: Tensor) -> Tensor:
    """Totals cut where their law has less than 1e-9 of its mass: one draw must not fill the memory."""
    if (units > limit).any():
        worst = (units - limit).argmax()
        warnings.warn(
            f"a total of {float(units[worst]):.3g} units was drawn and cut at {float(limit[worst]):.3g}, beyond which the model "
            "has less than 1e-9 of its mass",
            RuntimeWarning,
            stacklevel=2,
        )
    return torch.minimum(units, limit)


def _log_tree(value: SparseRows, seen: Tensor, log_share: Tensor, k: Tensor, strength: Tensor) -> Tensor:
    """The composition's log-probability, per row; ``seen`` and ``log_share`` are of the entries of ``value``."""
    n, total = value.value, value.totals
    s, new_strength, seen_strength = strength.double().unbind(1)
    k = k.double()
    on_seen = value.per_row(torch.where(seen, n, 0.0))
    on_new = total - on_seen
    inside = k.clamp(TINY, 1 - 1e-12)
    split = _rising(s * inside, on_seen) + _rising(s * (1 - inside), on_new) - _rising(s, total)
    split = torch.where(k > 0, split, torch.where(on_seen > 0, -torch.inf, 0.0))
    side = torch.where(seen, (seen_strength / inside)[value.row], (new_strength / (1 - inside))[value.row])
    entries = value.per_row(torch.where(n > 0, _rising(side * log_share.exp(), n.clamp(min=0)), 0.0))
    urns = entries - _rising(new_strength, on_new) - _rising(seen_strength, on_seen)
    orders = gammaln(total + 1) - value.per_row(gammaln(n.clamp(min=0) + 1))
    return torch.where(value.per_row((n < 0).double()) > 0, -torch.inf, split + urns + orders)


def _rising(a: Tensor, n: Tensor) -> Tensor:
    """ln Γ(a + n) − ln Γ(a), also for a tiny a, and for a huge one, where the two are nearly equal; 0 for n = 0."""
    a = a.clamp(min=1e-290)
    huge = a.clamp(min=STIRLING)
    series = n * huge.log() + (huge + n - 0.5) * torch.log1p(n / huge) - n + (1 / (huge + n) - 1 / huge) / 12
    rising = torch.where(a < STIRLING, a.log() + gammaln(a + n) - gammaln(a + 1), series)
    return torch.where(n > 0, rising, 0.0)


def _polya_tree(shares: Shares, strength: Tensor, row: Tensor, group: Tensor, chance: Tensor) -> Tensor:
    """The columns of units (U,), those of a ``row`` one after another, each row with the law ``group`` (U,); ``chance`` (5, U).

    The j-th of the units of an urn of strength A is like one of those before it, any of them, with probability j/(A + j).
    """
    weights, of_seen, k = shares.weights()
    seen = _like(row, strength[group, 0], chance[0], chance[1], chance[2] < k[group])
    which = torch.where(seen, strength[group, 2], strength[group, 1])
    # The third number is used a second time, as what is left of it once the side is known: it is uniform again.
    rest = torch.where(
        chance[2] < k[group], chance[2] / k[group].clamp(min=TINY), (chance[2] - k[group]) / (1 - k[group])
    )
    order = (2 * row + seen).argsort(stable=True)
    column = torch.empty_like(row)
    fresh_column = torch.empty_like(row)
    fresh_column[seen] = _draw_seen(shares.given, of_seen, group[seen], chance[3][seen])
    fresh_column[~seen] = draw_columns(weights, group[~seen], chance[3][~seen])
    sides = (2 * row + seen)[order]
    column[order] = _like(sides, which[order], chance[4][order], rest[order], fresh_column[order])
    return column


def _like(urn: Tensor, strength: Tensor, opens: Tensor, which: Tensor, fresh: Tensor) -> Tensor:
    """What each of the units (U,), sorted by their ``urn``, is: something ``fresh``, or what an earlier one of its urn is."""
    place = torch.arange(len(urn), device=urn.device)
    first = torch.searchsorted(urn, urn)
    j = place - first
    like = torch.where(opens * (strength + j) < strength, place, first + (which * j).long())
    while not torch.equal(like, like[like]):
        like = like[like]
    return fresh[like]


def _draw_seen(given: SparseRows, weight: Tensor, row: Tensor, height: Tensor) -> Tensor:
    """For every unit a column among those seen in its row of ``given``, by the ``weight`` of its entries."""
    ends = pad(weight.cumsum(0), (1, 0))
    starts = pad(given.starts, (0, 1), value=len(weight))
    low, high = ends[starts[row]], ends[starts[row + 1]]
    place = torch.searchsorted(ends, low + height * (high - low), right=True) - 1
    return given.column[place.clamp(starts[row], starts[row + 1] - 1)]


def draw_columns(weights: Tensor, row: Tensor, height: Tensor) -> Tensor:
    """For every unit the column of its row of ``weights`` (B, D), D a multiple of the tile, at its ``height`` in [0, 1).

    First a tile, then a column of it.

    >>> draw_columns(torch.eye(64)[:2], torch.tensor([0, 1, 1]), torch.tensor([0.1, 0.0, 0.9]).double())
    tensor([0, 1, 1])
    """
    tiles = weights.unflatten(-1, (-1, TILE))
    tops = tiles.sum(-1).double().cumsum(-1)
    base = pad(tops[:, -1].cumsum(0), (1, 0))[:-1]
    height = height * tops[row, -1]
    width = tops.shape[1]
    tile = torch.searchsorted((tops + base[:, None]).flatten(), height + base[row], right=True)
    tile = torch.minimum(torch.maximum(tile, row * width), row * width + width - 1) - row * width
    rest = height - torch.where(tile > 0, tops[row, (tile - 1).clamp(min=0)], 0.0)
    pieces = zip(*(each.split(UNITS_AT_ONCE) for each in (row, tile, rest)), strict=True)
    return tile * TILE + torch.cat([_inverse_cdf(tiles[r, b].double().cumsum(-1), h) for r, b, h in pieces])


def _inverse_cdf(inside: Tensor, height: Tensor) -> Tensor:
    """The place at which each of the cumulative weights (T, C) passes its height; rounding leads to none without weight."""
    place = (inside <= height[:, None]).sum(-1)
    place = torch.minimum(place, (inside < inside[:, -1:]).sum(-1)).maximum((inside <= 0).sum(-1))
    return place.clamp(max=inside.shape[1] - 1)


def _dirichlet_tree(shares: Shares, strength: Tensor, generator: torch.Generator | None) -> Tensor:
    """Shares (1, D) drawn from the Beta and the two Dirichlets behind the urns of one row."""
    mean = shares.dense()
    k = shares.weights()[2].double()[:, None]
    known = torch.zeros_like(mean, dtype=torch.bool)
    z = shares.given.nonzero()
    known[z.row, z.column] = True
    s, new_strength, seen_strength = strength.double().unbind(1)

    def dirichlet(concentration: Tensor, inside: Tensor) -> Tensor:
        # In logarithms, as a small concentration has nearly all its numbers near zero: G(a) is G(a + 1) U^(1/a).
        a = concentration.clamp(min=TINY)
        chance = torch.rand(a.shape, dtype=a.dtype, device=a.device, generator=generator)
        log_gamma = torch._standard_gamma(a + 1, generator=generator).log() + chance.log() / a
        return log_gamma.masked_fill(~inside, -torch.inf).softmax(-1).nan_to_num()

    on_seen = dirichlet(
        s[:, None] * torch.cat([k, 1 - k], 1), torch.cat([k > 0, torch.ones_like(k, dtype=torch.bool)], 1)
    )
    new = dirichlet(new_strength[:, None] * mean / (1 - k), ~known & (mean > 0))
    seen = dirichlet(seen_strength[:, None] * mean / k.clamp(min=TINY), known)
    return on_seen[:, 1:] * new + on_seen[:, :1] * seen


# Sets of columns, and reals at them.


@dataclass(frozen=True, eq=False)
class SparseSet(CountLaw):
    """What is missing of a set of columns: independent Bernoullis, mixed over the size of the row.

    With probability softmax(``logits``)_k a column d that is not ``given`` comes with probability 1 − exp(−R_k s_d), where R =
    exp(``log_rate``) (B, K) and s = softmax(bias + table · query) over those columns; it is ``kept`` with probability p (B, 1).
    A column comes if at least one of Poisson(R_k) units falls on it. Thinning multiplies p.
    """

    logits: Tensor
    log_rate: Tensor
    query: Tensor
    given: SparseRows
    table: Tensor
    bias: Tensor
    kept: Tensor
    shared = ("table", "bias")

    def thin(self, p: Tensor | float) -> SparseSet:
        return replace(self, kept=self.kept * p)

    def shares(self) -> Tensor:
        """s (B, D)."""
        return _without(column_logits(self.bias, self.query, self.table), self.given).softmax(-1)

    @property
    def mean(self) -> Tensor:
        rate, weight = self.log_rate.double().exp(), self.logits.double().softmax(-1)
        absent = torch.exp(-rate[:, :, None] * self.shares().double()[:, None])
        return self.kept * (weight[:, :, None] * (1 - absent)).sum(1)

    def log_prob(self, value: SparseRows) -> Tensor:
        """ln Σ_k w_k Π_d; where nothing is thinned, of what is there alone, as Σ_d s_d = 1."""
        if bool((self.kept == 1).all()):
            return self._mix(value, *self._all_kept(value))
        pieces = torch.arange(len(value), device=value.device).split(max(rows_at_once(len(self.bias)) // 4, 1))
        return torch.cat([self[rows]._thinned_log_prob(value[rows]) for rows in pieces])

    def _all_kept(self, value: SparseRows) -> tuple[Tensor, Tensor]:
        """ln of the probability of every entry (N, K), and of all that is absent (B, K)."""
        share = _LogSoftmax.apply(self.query, self.table, self.bias, value, self.given).exp().double()
        rate = self.log_rate.double().exp()
        present = torch.log(-torch.expm1(-rate[value.row] * share[:, None]).clamp(max=-1e-300))
        taken = value.per_row(torch.where(value.value > 0, share, 0.0))
        return present, -rate * (1 - taken).clamp(min=0)[:, None]

    def _thinned_log_prob(self, value: SparseRows) -> Tensor:
        rate, share = self.log_rate.double().exp(), self.shares().double()
        present = -torch.expm1(-rate[value.row] * share[value.row, value.column][:, None])
        absent = torch.stack(
            [torch.log1p(self.kept * torch.expm1(-r[:, None] * share)).sum(1) for r in rate.unbind(1)], 1
        )
        kept = self.kept.expand(len(self.query), 1)[value.row]
        comes = (kept * present).clamp(1e-300, 1 - 1e-16)
        entries = comes.log() - torch.log1p(-comes)
        return self._mix(value, entries, absent)

    def _mix(self, value: SparseRows, entries: Tensor, absent: Tensor) -> Tensor:
        seen = torch.where(value.value[:, None] > 0, entries, 0.0)
        mixed = torch.logsumexp(self.logits.double().log_softmax(-1) + value.per_row(seen) + absent, -1)
        wrong = ((value.value != 0) & (value.value != 1)) | ((value.value > 0) & (self.given.at(value) > 0))
        return torch.where(value.per_row(wrong.double()) > 0, -torch.inf, mixed)

    @torch.no_grad()
    def draw_given(self, value: Any, known: Any, streams: Streams) -> tuple[SparseRows, Tensor]:
        """Columns are independent given the size of the row, of which those that are known tell."""
        if known is None:
            return super().draw_given(value, known, streams)
        rate, share = self.log_rate.double().exp(), self.shares().double()
        kept = self.kept.expand(len(self.query), 1)
        seen = torch.zeros_like(known).index_put((value.row, value.column), value.value > 0)
        terms = []
        for r in rate.unbind(1):
            comes = (kept * -torch.expm1(-r[:, None] * share)).clamp(1e-300, 1 - 1e-16)
            terms.append((torch.where(seen, comes.log(), torch.log1p(-comes)) * known).sum(1))
        logits = self.logits.double().log_softmax(-1) + torch.stack(terms, 1)
        drawn = replace(self, logits=logits).draw(streams)
        rest = drawn.with_values(torch.where(known[drawn.row, drawn.column], 0.0, drawn.value))
        return value + rest, logits.logsumexp(-1)

    def sample(self, generator: torch.Generator | None = None) -> SparseRows:
        return self.draw(Streams([generator], len(self.query)))

    @torch.no_grad()
    def draw(self, streams: Streams, index: Tensor | None = None) -> SparseRows:
        """Units fall, columns that they fall on come, and some of these are kept."""
        index = torch.arange(len(self.query), device=self.query.device) if index is None else index
        columns, every = len(self.bias), torch.arange(len(index), device=index.device)
        pick = category_at(self.logits.double().softmax(-1).cumsum(-1)[index], streams.uniform(every))
        rate = self.log_rate.double()[index, pick].exp()
        many = rate > max(columns, MANY)
        units = streams.sample(every, Poisson(torch.where(many, 0.0, rate)))
        row = torch.repeat_interleave(every, units.long())
        chance = streams.uniform(row)
        needed, group = torch.unique(index[row], return_inverse=True)
        keys, size = [row[:0]], rows_at_once(columns)
        for start in range(0, len(needed), size):
            mine = ((group >= start) & (group < start + size)).nonzero().squeeze(1)
            weights = pad(self[needed[start : start + size]].shares(), (0, -columns % TILE))
            keys.append(row[mine] * columns + draw_columns(weights, group[mine] - start, chance[mine]))
        if many.any():  # of so many units, whether one falls on a column is drawn for every column
            heavy = many.nonzero().squeeze(1)
            chance = -torch.expm1(-rate[heavy][:, None] * self[index[heavy]].shares().double()).flatten()
            cell = (heavy[:, None] * columns + torch.arange(columns, device=index.device)).flatten()
            keys.append(cell[streams.uniform(cell // columns) < chance])
        key = torch.unique(torch.cat(keys))
        kept = self.kept.expand(len(self.query), 1)[index[key // columns], 0]
        key = key[streams.uniform(key // columns) < kept]
        ones = torch.ones(len(key), dtype=torch.float64, device=key.device)
        return SparseRows(key // columns, key % columns, ones, (len(index), columns))


@dataclass(frozen=True, eq=False)
class Amounts(Law):
    """Positive reals at the ``places`` of a set, independent given a factor that is common to the row, one of J.

    The real at column d is one of K Gammas with means exp(offset_j + level_k + size_d + query · table_d). ``factor_logits`` and
    ``offsets`` (B, J), ``query`` (B, R) and ``level_logits`` (B, K) are the network's.
    """

    places: SparseRows
    query: Tensor
    factor_logits: Tensor
    offsets: Tensor
    level_logits: Tensor
    table: Tensor
    size: Tensor
    levels: Tensor
    shapes: Tensor
    column_logits: Tensor
    shared = ("table", "size", "levels", "shapes", "column_logits")

    def _entries(self) -> tuple[Tensor, Tensor]:
        """Logits (N, K) of the Gammas and the log-mean (N,) of every entry, without level and factor."""
        row, column = self.places.row, self.places.original_column
        size = self.size[column] + 8 * torch.tanh((self.query[row] * self.table[column]).sum(-1) / 8)
        return (self.level_logits[row] + self.column_logits[column]).double(), size.double()

    def sample(self, generator: torch.Generator | None = None) -> SparseRows:
        logits, size = self._entries()
        factor = self.offsets.double().gather(1, draw_category(self.factor_logits.double(), generator)[:, None])
        pick = draw_category(logits, generator)
        mean = (size + self.levels[pick] + factor[self.places.row, 0]).exp()
        value = Gamma(self.shapes[pick].double(), mean).sample(generator).clamp(min=1e-300)
        return self.places.with_values(value)

    def log_prob(self, value: SparseRows) -> Tensor:
        """ln Σ_j w_j Π_d Σ_k: a density; the places must be those of the law."""
        log_factors = self.factor_logits.double().log_softmax(-1)
        return torch.logsumexp(log_factors + value.per_row(self._given_factors(value)), -1)

    def _given_factors(self, value: SparseRows) -> Tensor:
        """ln of the density of every entry given the row's factor, (N, J)."""
        logits, size = self._entries()
        means = (size[:, None, None] + self.levels[:, None] + self.offsets.double()[value.row][:, None, :]).exp()
        each = Gamma(self.shapes[:, None].double(), means).log_prob(value.value[:, None, None])  # (N, K, J)
        return torch.logsumexp(logits.log_softmax(-1)[..., None] + each, 1)

    def given(self, value: SparseRows, known: Tensor) -> tuple[Amounts, Tensor]:
        """The law given the ``value`` at places that are ``known`` (B, D), and ln of its density there (B,)."""
        mine = known[self.places.row, self.places.column]
        seen = self.places.with_values(torch.where(mine, value.at(self.places), 1.0))
        each = torch.where(mine[:, None], self._given_factors(seen), 0.0)
        logits = self.factor_logits.double().log_softmax(-1) + seen.per_row(each)
        return replace(self, factor_logits=logits), logits.logsumexp(-1)
