"""Laws of rows that are almost all zero: :class:`BagLaw` is total × composition over D columns, :class:`Amounts` the law of
positive reals at the places of a bag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.special import gammaln

from countjump.bags import Bags
from countjump.laws import Gamma, Mixture, draw_category, draw_multinomial

_WEIGHTS = 2**22
"""Weights that are held at once, if that is 64 to 512 rows."""

_BLOCK = 64
"""Columns per block: a unit falls on a block first, then on a column of it."""

_OFTEN = (0.5, 1.5, 2.5, 4.5, 9.5, 19.5, 39.5)
"""Columns are told apart by how often they are there already: these part 0, 1, 2, 3 and more, 5, 10, 20, 40 and more times."""

TILTS = len(_OFTEN) + 2
"""What tilts shares: a number for each of these classes, and one for large shares."""

_LARGE = 0.03
"""The share above which the last tilt bends shares."""

_NEVER = -1e4
"""The logit of a column that cannot come."""

_TINY = 1e-30
"""The least share whose logarithm is taken."""

_MOST = 8.0
"""The largest correction of a log-mean."""

_UNITS = 2**15
"""Units that fall at once."""

_ONE_BY_ONE, _AT_ONCE = 2**13, 2**18
"""Units of a row that are dropped one by one, and about how many of all rows at once."""

_PATIENCE = 3
_ROUNDS = 100
"""How often the units of a set that fell on a taken place fall again."""


@dataclass(frozen=True, eq=False)
class BagLaw:
    """A total by any count law (B, 1), whose units fall on the columns by a mixture of two compositions: anew, by
    softmax(bias_d + table_d · query), or, with probability π, where units lie already, by (z_d − δ_d) exp(g · c_d) over its sum.

    ``query`` (B, H) and ``echo`` (B, 2 + G), the log-odds of π, what is added to the log-odds of the discounts δ, and g, are
    the network's; ``calling`` (D, 1 + G) holds the log-odds of δ, and c; z_t is ``given``. That a unit calls for its like is added
    and not multiplied, as in the urns of Pólya, and of Pitman and Yor. ``lean`` (B, L) times ``levels`` (D, L) is added to the
    logits, and ``tilt`` (B, 9) to the logarithms of shares, before they add up to one again: a number for columns that are there
    0, 1, 2, ... times, and, of columns that are there, the last one times ln(1 + share/0.03), which moves units between them.
    Without ``calling`` the rows are sets, ``echo`` has no part, and a column that is there does not come again. Thinned, the total
    is thinned and the composition stays. A total is cut at ``limit`` (B,): shares cannot explode, the total can.

    Units are independent given their total; but if they ``gather``, those that are drawn together call for their like as well
    (:meth:`_gather`). Each of them has the same law as before, and they have fewer columns.
    """

    total: Any
    """A CountLaw; None where the composition alone matters, as in training."""
    query: Tensor
    echo: Tensor
    given: Bags
    table: Tensor
    bias: Tensor
    calling: Tensor | None
    limit: Tensor
    tilt: Tensor | None = None
    lean: Tensor | None = None
    levels: Tensor | None = None
    gather: bool = False

    def thin(self, p: Tensor | float) -> BagLaw:
        """The total thinned."""
        return replace(self, total=self.total.thin(p))

    def rows(self, index: Tensor) -> BagLaw:
        """The laws of the rows ``index``."""
        return replace(
            self,
            total=None if self.total is None else self.total.rows(index),
            given=self.given.rows(index),
            **{name: getattr(self, name)[index] for name in ("query", "echo", "limit")},
            **{name: each[index] for name in ("tilt", "lean") if (each := getattr(self, name)) is not None},
        )

    def shares(self) -> Tensor:
        """The composition (B, D)."""
        logits = torch.addmm(self.bias, self.query, self.table.t())
        if self.lean is not None and self.levels is not None:
            logits = torch.addmm(logits, self.lean, self.levels.t())
        if self.calling is None:
            return _without(logits, self.given).softmax(-1)
        repeated, share = self._repeats()
        z = self.given
        anew = logits.softmax(-1) * (1 - repeated)[:, None]
        shares = anew.index_put((z.row, z.column), repeated[z.row] * share, accumulate=True)
        if self.tilt is None:
            return shares
        seen = shares[z.row, z.column]
        seen = seen * self._tilts(z, z.value, seen, self._bend(seen)).exp()
        shares = (shares * self.tilt[:, :1].exp()).index_put((z.row, z.column), seen)
        return shares / shares.sum(-1, keepdim=True)

    def _tilts(self, places: Bags, count: Tensor, share: Tensor, bend: Tensor) -> Tensor:
        """What is added to the logarithms of the shares (N,) at some places, whose columns are there ``count`` times (N,)."""
        assert self.tilt is not None
        large = self.tilt[places.row, -1] * torch.log1p(share / _LARGE) - bend[places.row]
        return self.tilt[places.row, _class_of(count)] + torch.where(count > 0, large, 0.0)

    def _bend(self, share: Tensor) -> Tensor:
        """The logarithm (B,) of the factor by which the last tilt changes the sum of what is there, of the shares (N,).

        It is taken back from each of them: the tilt moves units between these columns, and none to others.
        """
        z = self.given
        assert self.tilt is not None
        share = torch.where(z.value > 0, share, 0.0)
        tilted = share * self.tilt[z.row, _class_of(z.value)].exp()
        bent = tilted * (1 + share / _LARGE) ** self.tilt[z.row, -1]
        return (z.per_row(bent).clamp(min=_TINY) / z.per_row(tilted).clamp(min=_TINY)).log()

    def _discounts(self) -> Tensor:
        """δ_d of what is given (N,)."""
        z = self.given
        assert self.calling is not None
        return (self.calling[:, 0].index_select(0, z.column) + self.echo[:, 1].index_select(0, z.row)).sigmoid()

    def _repeats(self) -> tuple[Tensor, Tensor]:
        """π (B,), zero where nothing lies yet, and of what is given every entry's share (N,) of it."""
        return _urn(self.echo[:, 0], self._calls(), self.given)

    def _calls(self) -> Tensor:
        """ln(z_d − δ_d) + g · c_d, of what is given (N,)."""
        z = self.given
        assert self.calling is not None
        gains, calling = self.echo[:, 2:].unbind(1), self.calling[:, 1:].unbind(1)
        discount = self._discounts()
        calls = (z.value.to(discount.dtype) - discount).clamp(min=_TINY).log()
        for gain, call in zip(gains, calling, strict=True):
            calls = calls + gain.index_select(0, z.row) * call.index_select(0, z.column)
        return calls

    @property
    def mean(self) -> Tensor:
        """The mean total times the shares, (B, D)."""
        return self.total.mean * self.shares()

    def log_prob(self, value: Bags) -> Tensor:
        """ln P(total) + ln P(value given its total), of bags that are not sets, whose units do not gather."""
        total = value.totals()
        coefficient = gammaln(total + 1) - value.per_row(gammaln(value.value + 1))
        return self.total.log_prob(total[:, None]).squeeze(1) + coefficient - self.cross_entropy(value)

    def cross_entropy(self, value: Bags) -> Tensor:
        """−Σ_d value_d ln share_d, one number per row."""
        log_share = self._log_shares(value)
        if self.tilt is not None:
            z = self.given
            share = (log_share if z.column is value.column else self._log_shares(z)).exp()
            bend = self._bend(share)
            # In float64: a sum of many shares is near one, and what is left of it may be tilted by much.
            unseen = self.tilt[:, 0].exp() * (1 - z.per_row(share.double())).clamp(min=0)
            whole = unseen + z.per_row(share.double() * self._tilts(z, z.value, share, bend).exp())
            log_share = log_share + self._tilts(value, z.at(value), log_share.exp(), bend) - whole.log()[value.row]
        return -value.per_row(value.value * log_share)

    def _log_shares(self, places: Bags) -> Tensor:
        """At some places, before they are tilted."""
        taken = self.given if self.calling is None else None
        query, table = self.query, self.table
        if self.lean is not None and self.levels is not None:
            query, table = torch.cat([query, self.lean], 1), torch.cat([table, self.levels], 1)
        anew = _LogSoftmax.apply(query, table, self.bias, places, taken)
        if self.calling is None:
            return anew
        return _LogMixed.apply(anew, self.echo[:, 0], self._calls(), places, self.given)

    def sample(self, generator: torch.Generator | None = None) -> Bags:
        """Draw every row."""
        return self.draw(torch.arange(len(self.query), device=self.query.device), generator)

    @torch.no_grad()
    def draw(self, index: Tensor, generator: torch.Generator | None = None) -> Bags:
        """Draw one row for each of the rows ``index``; only rows to which something falls have their weights worked out.

        Units are dropped one by one, but where they are very many.
        """
        units = torch.minimum(self.total.draw(index, generator).squeeze(1), self.limit[index])
        here = (units > 0).nonzero().squeeze(1)
        needed, kind = torch.unique(index[here], return_inverse=True)
        keys, columns = [here[:0]], self.shape[1]
        whole = Bags.empty(len(index), columns, self.query.device)
        composition = replace(self, total=None)
        size = rows_at_once(columns)
        for start in range(0, len(needed), size):
            mine = ((kind >= start) & (kind < start + size)).nonzero().squeeze(1)
            row, owed, kinds = here[mine], units[here[mine]], kind[mine] - start
            law = composition.rows(needed[start : start + size])
            weights, unknown = law._weights()
            many = owed > (max(columns, _ONE_BY_ONE) if self.calling is not None else torch.inf)
            large, small = many.nonzero().squeeze(1), (~many).nonzero().squeeze(1)
            for some in large.split(size) if len(large) else ():
                theirs = law._gather_many(kinds[some], weights[kinds[some], :columns], unknown, generator)
                fallen = Bags.from_dense(draw_multinomial(owed[some], theirs, generator))
                whole = whole + Bags(row[some][fallen.row], fallen.column, fallen.value, whole.shape)
            groups = torch.bincount((owed[small].cumsum(0) // _AT_ONCE).long())
            for some in small.split(groups[groups > 0].tolist()):
                kind_of, row_of = (torch.repeat_interleave(each[some], owed[some].long()) for each in (kinds, row))
                keys += law._fall(weights, unknown, kind_of, row_of, generator)
        key, count = torch.unique(torch.cat(keys), return_counts=True)
        return whole + Bags(key // columns, key % columns, count.double(), whole.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """(B, D)."""
        return len(self.query), len(self.bias)

    def _fall(
        self, weights: Tensor, unknown: Tensor, kind: Tensor, row: Tensor, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """The places row · D + column of units, each by the weights of its ``kind``; in sets, none falls on a taken place."""
        taken = row[:0]
        for attempt in range(_ROUNDS):
            column = drop(weights, kind, generator)
            if self.calling is not None:
                if self.gather:
                    column = self._gather(kind, row, column, unknown, generator)
                yield row * self.shape[1] + column
                return
            key = row * self.shape[1] + column
            places, first = _first_of_each(key)
            fresh = ~torch.isin(places, taken)
            yield places[fresh]
            again = torch.ones(len(row), dtype=torch.bool, device=row.device)
            again[first[fresh]] = False
            if not again.any():
                return
            taken, row, kind = torch.cat([taken, places[fresh]]), row[again], kind[again]
            if attempt >= _PATIENCE:
                # Rows that still fall on taken places get weights of their own, without those.
                owing, kind_of = _first_of_each(row)
                weights, kind = weights[kind[kind_of]], torch.searchsorted(owing, row)
                theirs = taken[torch.isin(taken // self.shape[1], owing)]
                weights[torch.searchsorted(owing, theirs // self.shape[1]), theirs % self.shape[1]] = 0.0
                left = (weights.sum(-1) > 0)[kind]
                row, kind = row[left], kind[left]

    def _urns(self, unknown: Tensor) -> tuple[Tensor, Tensor]:
        """The strengths and the discounts (B, 2) of the urns in which units gather: new columns, and those that are there.

        In the urn of Pitman and Yor π has the odds S/c, with S = Σ_d (z_d − δ_d). Units that come one after another fall on what
        lies, and on columns that are new, with the same probabilities as one; and there they are urns again: with u the share of
        the softmax that is ``unknown`` (B,), new columns are one of strength c u and discount δ, and the others one of
        strength S + c (1 − u) and no discount. The strengths are zero where nothing lies. Gains and tilts are left out of them.
        """
        z = self.given
        there = z.value > 0
        filled, discount = z.per_row(there.double()), z.per_row(there * self._discounts().double())
        lies = z.totals() - discount
        anew = lies * (-self.echo[:, 0].double()).exp()
        strength = torch.stack([anew * unknown, lies + anew * (1 - unknown)], 1)
        return strength, torch.stack([discount / filled.clamp(min=1), torch.zeros_like(filled)], 1)

    def _gather(
        self, kind: Tensor, row: Tensor, column: Tensor, unknown: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """The columns of units (U,), each of the law ``kind``, when those of a ``row`` call for their like among themselves.

        In an urn of strength θ and discount δ (:meth:`_urns`), the unit after j others is the first of its kind with probability
        Γ(θ + j + δ) Γ(θ + 1) / (Γ(θ + j + 1) Γ(θ + δ)), on average; else it goes where one of them went. How many fall into which
        of the two urns is not gathered: that number has the mean of Pitman and Yor's, and less spread.
        """
        strength, discount = self._urns(unknown)
        known = (self.given.at(Bags(kind, column, column, self.shape)) > 0).long()
        joins = (strength.sum(1) > 0)[kind].nonzero().squeeze(1)
        urn, order = (2 * row + known)[joins].sort(stable=True)
        joins = joins[order]
        place, first = torch.arange(len(urn), device=urn.device), torch.searchsorted(urn, urn)
        theta, delta = (each[kind[joins], urn % 2] for each in (strength.clamp(min=1e-6), discount))
        j = place - first
        opens = gammaln(theta + j + delta) - gammaln(theta + delta) + gammaln(theta + 1) - gammaln(theta + j + 1)
        chance, which = torch.rand(2, len(urn), dtype=torch.float64, device=urn.device, generator=generator)
        like = torch.where(chance < opens.exp(), place, first + (which * j).long())
        while not torch.equal(like, like[like]):
            like = like[like]
        return column.index_copy(0, joins, column[joins][like])

    def _gather_many(self, kind: Tensor, weights: Tensor, unknown: Tensor, generator: torch.Generator | None) -> Tensor:
        """The weights (U, D) of rows of the law ``kind`` to which very many units fall, when these call for their like.

        The shares that an urn without discount tends to are Dirichlet's; one with a discount is taken for that in which two units
        are alike as often, of strength (θ + δ)/(1 − δ).
        """
        weights = weights.double()
        if not self.gather:
            return weights
        strength, discount = self._urns(unknown)
        lies = strength.sum(1) > 0
        strength = (strength + discount) / (1 - discount).clamp(min=1e-6)
        known = torch.zeros(weights.shape, dtype=torch.bool, device=weights.device)
        there = self.given.nonzero().rows(kind)
        known[there.row, there.column] = True
        drawn = weights.clone()
        for urn, inside in enumerate((~known, known)):
            share = weights * inside
            whole = share.sum(1, keepdim=True)
            shape = (strength[kind, urn, None] * share / whole.clamp(min=_TINY)).clamp(min=_TINY)
            # In logarithms, as a small shape has nearly all its numbers near zero: G(a) is G(a + 1) U^(1/a).
            chance = torch.rand(shape.shape, dtype=shape.dtype, device=shape.device, generator=generator)
            drawn_log = torch._standard_gamma(shape + 1, generator=generator).log() + chance.log() / shape
            part = drawn_log.masked_fill(share <= 0, -torch.inf).softmax(1)
            drawn = torch.where(inside & lies[kind, None], whole * part.nan_to_num(), drawn)
        return drawn

    def _weights(self) -> tuple[Tensor, Tensor]:
        """The shares, each row times some number, and the columns filled up to whole blocks with zeros; and the share (B,) of the
        softmax that is on columns that are not there."""
        rows, columns = self.shape
        weights = self.query.new_empty(rows, columns + -columns % _BLOCK)
        weights[:, columns:] = -torch.inf
        bias, lean = self.bias, self.lean
        if lean is not None and self.levels is not None and bool((lean == lean[:1]).all()):
            # As in a chain, whose rows are at one time.
            bias, lean = torch.addmv(bias, self.levels, lean[0]), None
        torch.addmm(bias, self.query, self.table.t(), out=weights[:, :columns])
        if lean is not None and self.levels is not None:
            weights[:, :columns].addmm_(lean, self.levels.t())
        z = self.given
        if self.calling is None:
            _without(weights, z)
        torch.softmax(weights, -1, out=weights)
        anew = weights[z.row, z.column]
        unknown = 1 - z.per_row(torch.where(z.value > 0, anew, 0.0).double()).clamp(max=1)
        if self.calling is None:
            return weights, unknown
        repeated, share = self._repeats()
        seen = anew + (repeated / (1 - repeated))[z.row] * share
        if self.tilt is not None:
            share = seen * (1 - repeated)[z.row]
            seen = seen * (self._tilts(z, z.value, share, self._bend(share)) - self.tilt[z.row, 0]).exp()
        weights[z.row, z.column] = seen
        return weights, unknown


def rows_at_once(columns: int) -> int:
    """Rows whose D weights are held at once.

    >>> rows_at_once(1000), rows_at_once(10_000), rows_at_once(1_000_000)
    (512, 419, 64)
    """
    return min(max(_WEIGHTS // columns, 64), 512)


def _class_of(z: Tensor) -> Tensor:
    """Which of the classes numbers of units belong to."""
    return torch.bucketize(z, torch.tensor(_OFTEN, dtype=z.dtype, device=z.device))


def _without(logits: Tensor, taken: Bags) -> Tensor:
    """In place, so low where something is taken that it cannot come."""
    gone = _NEVER * (taken.value > 0).to(logits.dtype)
    return logits.index_put_((taken.row, taken.column), gone, accumulate=True)


class _LogSoftmax(torch.autograd.Function):
    """ln softmax(bias + table · query) at some places of (B, D), among the columns that are not taken.

    One table (B, D) of weights is made, kept for the gradient, and used up by it.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, table: Tensor, bias: Tensor, places: Bags, taken: Bags | None) -> Tensor:
        weights = torch.addmm(bias, query, table.t())
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


def _urn(odds: Tensor, calls: Tensor, given: Bags) -> tuple[Tensor, Tensor]:
    """π (B,), zero where nothing lies, and the shares (N,) of entries that call with the weights exp(calls)."""
    calls = calls.masked_fill(given.value <= 0, -torch.inf)
    largest = calls.new_full((len(given),), -torch.inf).scatter_reduce(0, given.row, calls.detach(), "amax")
    lies = largest > -torch.inf
    weight = (calls - torch.where(lies, largest, 0.0).index_select(0, given.row)).exp()
    whole = torch.where(lies, given.per_row(weight), 1.0)
    return odds.sigmoid() * lies, weight / whole.index_select(0, given.row)


class _LogMixed(torch.autograd.Function):
    """ln((1 − π) exp(anew) + π share) at some places: ``anew`` (P,) is the first composition there, the other is an urn's.

    Written out because the derivatives are few: with r = π share over the whole, those by anew, the log-odds of π and ln share are
    1 − r, r − π and r.
    """

    @staticmethod
    def forward(ctx: Any, anew: Tensor, odds: Tensor, calls: Tensor, places: Bags, given: Bags) -> Tensor:
        repeated, share = _urn(odds, calls, given)
        found = given.find(places)
        again = (repeated.index_select(0, given.row) * share).log()
        again = again if found is None else torch.nn.functional.pad(again, (0, 1), value=-torch.inf)[found]
        mixed = torch.logaddexp(anew + torch.log1p(-repeated).index_select(0, places.row), again)
        ctx.save_for_backward(repeated, share, (again - mixed).exp_())
        ctx.places, ctx.given, ctx.found = places, given, found
        return mixed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        repeated, share, blame = ctx.saved_tensors
        places, given = ctx.places, ctx.given
        again = grads[0] * blame
        by_row = places.per_row(again)
        odds = by_row - repeated * places.per_row(grads[0])
        calls = again if ctx.found is None else again.new_zeros(len(share) + 1).index_add(0, ctx.found, again)[:-1]
        return grads[0] - again, odds, calls - share * by_row.index_select(0, given.row), None, None


def drop(weights: Tensor, row: Tensor, generator: torch.Generator | None) -> Tensor:
    """For every unit a column of its row of ``weights`` (U, D), D a multiple of the block: first a block, then a column of it.

    >>> drop(torch.eye(64)[:2], torch.tensor([0, 1, 1]), None)
    tensor([0, 1, 1])
    """
    blocks = weights.unflatten(-1, (-1, _BLOCK))
    ladder = blocks.sum(-1).double().cumsum(-1)
    base = torch.nn.functional.pad(ladder[:, -1].cumsum(0), (1, 0))[:-1]
    height = torch.rand(len(row), dtype=torch.float64, device=row.device, generator=generator) * ladder[row, -1]
    width = ladder.shape[1]
    block = torch.searchsorted((ladder + base[:, None]).flatten(), height + base[row], right=True)
    block = torch.minimum(torch.maximum(block, row * width), row * width + width - 1) - row * width
    rest = height - torch.where(block > 0, ladder[row, (block - 1).clamp(min=0)], 0.0)
    pieces = zip(*(each.split(_UNITS) for each in (row, block, rest)), strict=True)
    return block * _BLOCK + torch.cat([_climb(blocks[r, b].double().cumsum(-1), height) for r, b, height in pieces])


def _climb(inside: Tensor, height: Tensor) -> Tensor:
    """The step of each ladder (T, C) on which its height lies; rounding leads to no step without weight."""
    place = (inside <= height[:, None]).sum(-1)
    place = torch.minimum(place, (inside < inside[:, -1:]).sum(-1)).maximum((inside <= 0).sum(-1))
    return place.clamp(max=inside.shape[1] - 1)


def _first_of_each(key: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct keys, and the place of one of each."""
    places, kind = torch.unique(key, return_inverse=True)
    return places, torch.empty_like(places).scatter_(0, kind, torch.arange(len(key), device=key.device))


@dataclass(frozen=True, eq=False)
class Amounts:
    """Positive reals at the places of a set: a total, by a mixture of Gammas, times shares.

    The shares are independent positive numbers over their sum. The number at column d is one of K Gammas with means
    exp(level_k + size_d + query · table_d); each row's numbers have a common factor, one of J, so that what is common to a row
    does not widen every one of them.
    """

    places: Bags
    total: Mixture
    query: Tensor
    weights: Tensor
    offsets: Tensor
    level_weights: Tensor
    table: Tensor
    size: Tensor
    levels: Tensor
    shapes: Tensor
    column_weights: Tensor

    def _entries(self) -> tuple[Tensor, Tensor]:
        """Logits (N, K) of the Gammas and the log-mean (N,) of the first of every entry, without the row's factor."""
        row, column = self.places.row, self.places.names
        correction = (self.query[row] * self.table[column]).sum(-1)
        size = self.size[column] + _MOST * torch.tanh(correction / _MOST)
        return (self.level_weights[row] + self.column_weights[column]).double(), size.double()

    def sample(self, generator: torch.Generator | None = None) -> Bags:
        """Draw the total and the shares."""
        logits, size = self._entries()
        pick = draw_category(logits, generator)
        mean = (size + self.levels[pick]).exp()
        number = Gamma(self.shapes[pick].double(), mean).sample(generator).clamp(min=1e-300)
        share = number / self.places.per_row(number)[self.places.row]
        return self.places.valued(share * self.total.sample(generator)[self.places.row, 0])

    def negative_log_likelihood(self, x: Bags) -> Tensor:
        """Of the total, and of the shares as independent numbers given the row's factor; one number per row."""
        total = x.totals()
        filled = total > 0
        share = x.value / total[x.row]
        logits, size = self._entries()
        means = (size[:, None, None] + self.levels[:, None] + self.offsets[x.row][:, None, :]).exp()  # (N, K, J)
        each = Gamma(self.shapes[:, None].double(), means).log_prob(share[:, None, None])
        each = torch.logsumexp(logits.log_softmax(-1)[..., None] + each, 1)  # (N, J)
        shares = torch.logsumexp(self.weights.log_softmax(-1) + x.per_row(each), -1)
        of_total = self.total.log_prob(torch.where(filled, total, 1.0)[:, None]).squeeze(1)
        return -torch.where(filled, of_total + shares, 0.0)

    def rows(self, index: Tensor) -> Any:
        """The laws of the rows ``index``."""
        return replace(
            self,
            places=self.places.rows(index),
            total=self.total.rows(index),
            **{name: getattr(self, name)[index] for name in ("query", "weights", "offsets", "level_weights")},
        )

    def draw(self, index: Tensor, generator: torch.Generator | None = None) -> Bags:
        """Draw one row for each of the rows ``index``."""
        return self.rows(index).sample(generator)
