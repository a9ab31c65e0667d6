"""Wide sparse counts: ``docs/models/sparse-counts.md`` states the model on one page, and the reason of every constant."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from countjump.blocks.base import Belief, Stage, Training, constants, soft_clip
from countjump.blocks.counts import Counts
from countjump.blocks.sparse import ORDINARY, SparseBlock
from countjump.domains import Count
from countjump.laws import Binomial, Mixture
from countjump.laws.sparse import COUNT_CLASSES, Shares, ThinnedRows, TotalComposition, filled
from countjump.sparse import ColumnSample, SparseRows

SAMPLED = 1024  # columns on which the softmax is worked out in an update, about, beside those of the batch
MOST_SAMPLED = 0.75  # the share of all columns from which on a sample is not worth its noise
WHOLE = 2**15  # columns up to which all are looked at where their vectors are not being learned
POWERS = 3  # of the logarithm of a column's frequency, by which shares are calibrated
TOTAL_VIEWS = 3  # what is seen of a total
TOTAL_WIDTH, BINOMIALS = 128, 4  # hidden units of the total network, and binomials of its belief
TOTAL_ROWS, TOTAL_UPDATES, TOTAL_CHECKS = 512, 2500, 10_000  # of an update; at most; draws of a validation at least
CALIBRATION_ROWS, CALIBRATION_UPDATES = 128, 500  # of an update; at most
CALIBRATION_UP_TO = 0.99  # the quantile of the totals beyond which rows are left out: they would decide alone
SEEN_BEFORE = 100.0  # units that are added to what is seen, so that an empty row has strengths too
STRENGTH_UPDATES, STRENGTH_STEPS = 300, (10.0, 50.0)  # at most; steps of the chains whose single steps are scored

CALIBRATED = (POWERS, 1, POWERS, len(COUNT_CLASSES) + 1, 1)
"""Numbers of the calibration: frequency bias of new columns, log-odds of reuse, frequency bias of reused columns, bias of the
count classes, shrinkage."""


class SparseCounts(SparseBlock):
    """The missing total by a mixture of negative binomials, and its units fall on columns by
    :class:`countjump.laws.sparse.TotalComposition`.

    Columns that are ``unseen`` (D,) have ``shares`` too; ``total_*`` is the prior of a row's total.
    """

    inclusion: Tensor
    frequency: Tensor
    unseen: Tensor
    log_shares: Tensor
    is_calibrated: Tensor
    exact = True

    def __init__(
        self,
        shares: Tensor,
        width: int,
        total_mean: float,
        total_shape: float,
        total_largest: float,
        total_gammas: Tensor,
        unseen: Tensor | None = None,
    ) -> None:
        super().__init__(shares, width, sparse_gradients=True)
        one = torch.ones(1, dtype=torch.float64)
        self.total = Counts(
            Count(), total_mean * one, total_shape * one, total_largest * one, torch.inf * one, BINOMIALS, total_gammas
        )
        unseen = torch.zeros(self.size, dtype=torch.bool) if unseen is None else unseen
        self.ordinary = min(max(total_mean, 1.0), ORDINARY)
        self.burstiness = nn.Parameter(torch.zeros(self.size, 2))
        constants(
            self,
            unseen=unseen.nonzero().squeeze(1),
            log_shares=shares.log().float(),
            inclusion=(SAMPLED * (shares + 1 / self.size) / 2).clamp(max=1).float(),
            frequency=_powers(shares.log(), shares, POWERS).clamp(-5, 5).float() * ~unseen[:, None],
        )
        self.calibration = nn.Parameter(torch.zeros(4, sum(CALIBRATED)))
        self.strength = nn.Parameter(torch.zeros(2, 3, dtype=torch.float64))
        self.register_buffer("is_calibrated", torch.tensor(False))
        last = nn.Linear(TOTAL_WIDTH, self.total.outputs)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        widths = [TOTAL_VIEWS + 2, TOTAL_WIDTH, TOTAL_WIDTH, TOTAL_WIDTH]
        hidden = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.SiLU())]
        self.total_network = nn.Sequential(*hidden, last)
        self.total_condition: nn.Module | None = None
        self.inputs, self.outputs = width + TOTAL_VIEWS, width + 3
        self._gathered: tuple[ColumnSample | None, Tensor | None] = (None, None)

    # What the network sees and means.

    def subsample(self, x: SparseRows, learning: bool, generator: torch.Generator) -> SparseRows:
        """On its own columns and a sample of the others, where columns are many."""
        if not learning and self.size <= WHOLE:
            return x
        chosen = torch.rand(self.size, generator=generator, device=x.device) < self.inclusion
        chosen = chosen.index_fill_(0, x.column, True)
        columns = chosen.nonzero().squeeze(1)
        if len(columns) > MOST_SAMPLED * self.size:
            return x
        inclusion = self.inclusion.index_fill(0, x.column, 1.0)[columns]
        place = (chosen.cumsum(0) - 1)[x.column]
        return SparseRows(x.row, place, x.value, (len(x), len(columns)), ColumnSample(columns, inclusion))

    def _vectors(self, sample: ColumnSample | None) -> Tensor:
        """The rows of the table, of a sample looked up once for what is seen and for what comes: its gradient names them once."""
        if sample is None:
            return self.table.weight
        if self._gathered[0] is not sample:
            self._gathered = (sample, self.table(sample.columns))
        return self._gathered[1]  # type: ignore[return-value]

    def features(self, z: SparseRows, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        """Σ_d ln(1 + z_d) · table_d, each direction by its scale, and the total's features."""
        seen = z.nonzero()
        amount = seen.value.float().log1p()
        table = self._vectors(z.sample)
        view = nn.functional.embedding_bag(seen.column, table, seen.starts, mode="sum", per_sample_weights=amount)
        alpha = alpha if known is None else torch.where(known, 1.0, alpha)
        return torch.cat([view * self.input_scale, self._total_views(z.totals[:, None], alpha)], -1)

    def _total_views(self, seen: Tensor, alpha: Tensor) -> Tensor:
        """Of totals (B, 1): all but whether they are known."""
        return self.total.features(seen, alpha)[:, :TOTAL_VIEWS]

    def belief(self, output: Tensor, z: SparseRows, alpha: Tensor) -> Belief:
        shares = self.shares(output, z)
        if self.is_calibrated:
            shares = self.calibrate(shares, alpha)
        total = partial(self.missing_total, z.totals[:, None], alpha)
        return Belief(TotalComposition(total, shares, self.strengths(z, alpha)))

    def shares(self, output: Tensor, z: SparseRows) -> Shares:
        """The mean composition, as the network has it.

        A column of a sample stands for those like it that are not included, so that the sum under the softmax has the right mean
        (Horvitz and Thompson, 1952).
        """
        query, reuse = output.split([self.width, 3], 1)
        table: Tensor = self._vectors(z.sample)
        bias: Tensor = self.bias
        burstiness: Tensor = self.burstiness
        self._gathered = (None, None)
        if z.sample is not None:
            bias = bias.index_select(0, z.sample.columns) - z.sample.inclusion.log()
            burstiness = burstiness.index_select(0, z.sample.columns)
        burstiness = torch.cat([burstiness[:, 1:] - 1, soft_clip(burstiness[:, :1], 4)], 1)
        odds, gain, shift = reuse[:, :1] - 1, soft_clip(reuse[:, 1:2], 2).exp(), soft_clip(reuse[:, 2:], 12)
        return Shares(query, torch.cat([soft_clip(odds, 12), shift, gain], 1), z, table, bias, burstiness)

    def calibrate(self, shares: Shares, alpha: Tensor) -> Shares:
        """With what is common to all rows at a time: see :data:`CALIBRATED`."""
        frequency = self.frequency if shares.given.sample is None else self.frequency[shares.given.sample.columns]
        common = (filled(_in_time(alpha)) @ self.calibration)[: len(alpha)]
        new, odds, reused, classes, shrinkage = common.split(CALIBRATED, 1)
        return replace(
            shares,
            reuse=torch.cat([shares.reuse[:, :1] + soft_clip(odds, 6), shares.reuse[:, 1:]], 1),
            class_bias=soft_clip(classes, 6),
            shrinkage=soft_clip(shrinkage[:, 0], 6),
            frequency_bias=new,
            reuse_bias=soft_clip(reused, 2),
            frequency=frequency,
        )

    def take_condition(self, embedding: Callable[[int], nn.Module]) -> None:
        """The total network has its own: it is learned before the other's."""
        self.total_condition = embedding(TOTAL_WIDTH)

    def conditioned(self, belief: Belief, z: SparseRows, alpha: Tensor, condition: Tensor | None) -> Belief:
        """With the total of rows under such a condition."""
        total = partial(self.missing_total, z.totals[:, None], alpha, condition)
        return Belief(replace(belief.missing, total=total))

    def missing_total(self, seen: Tensor, alpha: Tensor, condition: Tensor | None = None) -> Mixture:
        """The law of what is missing of the totals of which ``seen`` (B, 1) is left.

        A thinned total is thinned, whatever falls where: totals are a JUMP of one column, and need nothing else to be right.
        """
        features = torch.cat(
            [self._total_views(seen, alpha), alpha.clamp(min=1e-6).log().float() / 4, alpha.sqrt().float()], 1
        )
        hidden = self.total_network[0](filled(features))
        if self.total_condition is not None:
            hidden = hidden + filled(self.total_condition(condition, len(seen)))
        return self.total.law(self.total_network[1:](hidden)[: len(seen)], seen, alpha)

    def strengths(self, z: SparseRows, alpha: Tensor) -> Tensor:
        """s, A_new and A_seen (B, 3): they grow with what is seen, as in an urn."""
        log_strength = torch.log(z.totals + SEEN_BEFORE)[:, None] + _in_time(alpha)[:, :2].double() @ self.strength
        return log_strength.clamp(-10, 30).exp()

    # What is observed of thinned rows.

    def uncounted(self) -> None:
        """Every column holds counts."""
        return None

    def whole_columns(self) -> np.ndarray:
        return np.ones(self.size, dtype=bool)

    def expectation(self, z: SparseRows, belief: Belief, alpha: Tensor) -> Tensor:
        """(B, D), with as much memory."""
        return z.dense() + belief.missing.mean

    # Losses and stages.

    def loss(
        self,
        belief: Belief,
        x: SparseRows,
        z: SparseRows,
        alpha: Tensor,
        generator: torch.Generator,
        known: Tensor | None = None,
    ) -> Tensor:
        """The cross-entropy of the missing units with the mean composition; the total is learned apart. z has the places of x.
        Where x is known nothing is missing."""
        return belief.missing.shares.cross_entropy(x - z) / self._divisor(z, alpha)

    def _divisor(self, z: SparseRows, alpha: Tensor) -> Tensor:
        """What a row's loss is divided by (B,): the units of an ordinary row; above, its weight grows with the root of its size.

        So a few huge rows do not teach all the others. The size is the rate that is expected given z_t: a weight that z_t does
        not tell would move the optimum.
        """
        size = self.total.posterior_mean(z.totals[:, None], alpha).squeeze(1)
        return (self.ordinary * size.clamp(min=self.ordinary)).sqrt()

    def stages(self, training: Training, rows: np.ndarray, held_out: np.ndarray, updates: int) -> list[Stage]:
        """Totals before the network; calibration and strengths after it, on rows that it has not seen."""
        totals = training.rows.totals()
        on_device = torch.from_numpy(totals).to(training.device)[:, None]

        def loss_of_totals(index: np.ndarray, generator: torch.Generator, learning: bool = True) -> Tensor:
            """−ln belief(missing total), each at one of a few times."""
            whole = on_device[torch.from_numpy(index)]
            times = training.schedule.stratified_times(32, training.t_max, generator)
            time = torch.randint(len(times), (len(whole),), device=whole.device, generator=generator)
            alpha = training.schedule.alpha(times[time][:, None])
            left = Binomial(whole, alpha).sample(generator)
            condition = training.condition(index, generator, learning)
            return -self.missing_total(left, alpha, condition).log_prob(whole - left).mean()

        @torch.no_grad()
        def validate_totals() -> float:
            some = np.tile(held_out, -(-TOTAL_CHECKS // len(held_out)))
            return float(loss_of_totals(some, torch.Generator(training.device).manual_seed(3), False))

        def calibration_loss(index: np.ndarray, generator: torch.Generator) -> Tensor:
            belief, x, z, t = training.believe(index, generator)
            return self.loss(belief, x, z, training.schedule.alpha(t), generator).mean()

        def strength_loss(index: np.ndarray, generator: torch.Generator) -> Tensor:
            """−ln law of the units of one step given their number."""
            belief, x, z, t = training.believe(index, generator)
            low, high = (math.log(steps) for steps in STRENGTH_STEPS)
            steps = torch.exp(low + (high - low) * torch.rand(t.shape, device=t.device, generator=generator))
            t_max = training.t_max or 1.0
            s = torch.where(t >= 1, t_max, (t - t_max / steps).clamp(min=0))
            step = ThinnedRows(x - z, training.schedule.reveal(s, t)).sample(generator)
            return -(belief.missing.log_composition(step) / self._divisor(z, training.schedule.alpha(t))).mean()

        embedding = [] if self.total_condition is None else self.total_condition.parameters()
        few = held_out if len(held_out) else rows
        few = few[totals[few] <= np.quantile(totals[few], CALIBRATION_UP_TO)]
        learned = Stage(
            name="totals",
            parameters=[*self.total_network.parameters(), *embedding],
            loss=loss_of_totals,
            rows=rows,
            updates=min(updates, TOTAL_UPDATES),
            batch_size=TOTAL_ROWS,
            learning_rate=2e-3,
            validation=validate_totals if len(held_out) else None,
            strata=totals[rows],
            start=lambda: self.initialise(training.rows, rows),
        )
        calibration = Stage(
            name="calibration",
            parameters=[self.calibration],
            loss=calibration_loss,
            rows=few,
            updates=min(updates, CALIBRATION_UPDATES, 2 * len(few)) if len(held_out) else 0,
            batch_size=CALIBRATION_ROWS,
            learning_rate=0.03,
            start=lambda: self._begin_calibration(training, few, bool(len(held_out))),
            after=True,
        )
        strengths = Stage(
            name="strengths",
            parameters=[self.strength],
            loss=strength_loss,
            rows=few,
            updates=min(updates, STRENGTH_UPDATES),
            batch_size=CALIBRATION_ROWS,
            learning_rate=0.1,
            after=True,
        )
        return [learned, calibration, strengths]

    @torch.no_grad()
    def _begin_calibration(self, training: Training, rows: np.ndarray, calibrated: bool) -> None:
        """Columns that were never seen get back the shares that they were given: training could only lower them."""
        self.is_calibrated.fill_(calibrated)
        if len(self.unseen):
            generator = torch.Generator(training.device).manual_seed(0)
            shares = training.believe(rows[:CALIBRATION_ROWS], generator)[0].missing.shares
            log_norm = torch.addmm(shares.bias, shares.query, shares.table.t()).logsumexp(1).mean()
            self.table.weight[self.unseen] = 0.0
            self.bias[self.unseen] = log_norm + self.log_shares[self.unseen]


def _in_time(alpha: Tensor) -> Tensor:
    """1, √α, α and ln α, (B, 4): what is calibrated changes with time; strengths with the first two."""
    return torch.cat([torch.ones_like(alpha), alpha.sqrt(), alpha, alpha.clamp(min=1e-6).log() / 4], 1).float()


def _powers(value: Tensor, weights: Tensor, count: int) -> Tensor:
    """(D, count): powers of numbers (D,), each free of the lower ones and of variance one under the weights (D,)."""
    found = [torch.ones_like(value)]
    for _ in range(count):
        power = found[-1] * value
        for lower in found * 2:
            power = power - (weights * power * lower).sum() * lower
        found.append(power / (weights * power**2).sum().sqrt().clamp(min=1e-9))
    return torch.stack(found[1:], 1)
