"""The paper's baselines with the face of :class:`countjump.JumpModel`: fit · sample · score · save · load."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from countjump import domains
from countjump.blocks import BLOCKS
from countjump.data import Columns, Rows
from countjump.denoiser import Denoiser
from countjump.estimator import Estimator
from countjump.networks import MLP
from countjump.planning import one_of
from countjump.planning.plan import default_width
from countjump.processes.base import Process
from countjump.processes.categorical import TRANSITIONS, CategoricalDiffusion, StateBlock
from countjump.processes.gaussian import AMPLITUDES, GaussianDiffusion, MeanBlock
from countjump.schedules import Cosine

MAX_OUTPUTS = 2**18
"""The most columns × states that D3PM takes: it answers with one number for each."""

Change = Callable[[Tensor], Tensor]
NOT_WHOLE = "is not a whole number, and D3PM's states are: round it"


class Table(nn.Module):
    """Rows of a matrix as a baseline takes them: the columns that vary, lifted; the constants are put back, exactly."""

    sparse = False

    def __init__(self, constants: np.ndarray, whole: bool, rows: int, lift: Change, lower: Change) -> None:
        """``constants`` (D,) is NaN where a column varies; ``lift`` and ``lower`` go to the process's units and back."""
        super().__init__()
        self.constants, self.lift, self.lower = constants, lift, lower
        self.places, self.fixed = (np.flatnonzero(np.isnan(constants) == varies) for varies in (True, False))
        self.size = self.columns = len(constants)
        self.varying = len(self.places)
        values = torch.from_numpy(constants[self.fixed])
        self.constant = BLOCKS["constant"](values, torch.full(values.shape, whole), rows)

    def read(self, matrix: domains.Matrix) -> Tensor:
        return self.lift(torch.from_numpy(Rows(matrix).select(self.places).dense(np.arange(matrix.shape[0]))))

    def read_to_score(self, matrix: domains.Matrix) -> tuple[Tensor, Tensor]:
        return self.read(matrix), self.constant.admit(self.constant.read(matrix[:, self.fixed]))[1]

    def write(self, x: Tensor) -> np.ndarray:
        rows = np.tile(self.constants, (len(x), 1))
        rows[:, self.places] = self.lower(x).cpu().numpy()
        return rows

    def empty(self, rows: int, device: torch.device | str) -> Tensor:
        return torch.zeros(rows, 0, dtype=torch.float64, device=device)

    def latent(self, z: Tensor) -> Tensor:
        return z

    def stages(self, *arguments: Any) -> list[Any]:
        return []  # nothing is learned apart from the network


class Baseline(Estimator, ABC):
    """What the baselines share: a plan of plain values and arrays, and the network."""

    plan_type: ClassVar[type]

    def _describe(self, plan: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        arrays = {name: value for name, value in vars(plan).items() if isinstance(value, np.ndarray)}
        return {name: value for name, value in vars(plan).items() if name not in arrays}, arrays

    def _recall(self, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        return self.plan_type(**described, **arrays)

    def _denoiser(self, block: MeanBlock | StateBlock, process: Process, width: int) -> Denoiser:
        network = MLP(block.inputs, block.outputs, width, sparse=block.sparse_inputs)
        return Denoiser(network, block, process.schedule, process.discrete)


def constants_of(stats: Columns) -> np.ndarray:
    """The value of every column that never changes, NaN of the others."""
    return np.where(stats.smallest == stats.largest, stats.largest, np.nan)


@dataclass
class GaussianPlan:
    """What decides a DDPM; the statistics are of the columns that vary."""

    schedule: str
    width: int
    whole: bool
    rows: int
    constants: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray

    def lift(self, x: Tensor) -> Tensor:
        """Data with zero mean and unit variance."""
        return (x - torch.from_numpy(self.mean).to(x.device)) / torch.from_numpy(self.scale).to(x.device)

    def lower(self, x: Tensor) -> Tensor:
        """Back to the data's units; what was clipped at the smallest value is that value to the last bit: a zero is a zero."""
        mean, scale, smallest = (torch.from_numpy(a).to(x.device) for a in (self.mean, self.scale, self.smallest))
        return torch.where(x <= self.lift(smallest), smallest, x * scale + mean)


@dataclass(eq=False, repr=False)
class DDPM(Baseline):
    """Gaussian diffusion of standardised columns (Ho, Jain and Abbeel 2020): z_t = α_t x_0 + √(1 − α_t²) ε.

    Samples lie in the range of each column's data, and so are never negative; where all data are whole numbers, samples are
    rounded. A column that is constant in the data is constant in the samples.

    Parameters
    ----------
    schedule : "linear-beta" (DDPM's own) or "cosine"
    others : as the parameters of :class:`countjump.JumpModel` with the same names

    Examples
    --------
    >>> X = np.random.default_rng(0).poisson(3.0, size=(200, 2))
    >>> model = DDPM(max_updates=20, random_state=0, progress=False).fit(X)
    >>> model.sample(3, steps=5, random_state=0).dtype
    dtype('int64')
    """

    plan_type = GaussianPlan
    schedule: str = "linear-beta"

    def _plan(self, X: domains.Matrix, params: dict[str, Any]) -> GaussianPlan:
        schedule = one_of("schedule", params["schedule"], tuple(AMPLITUDES))
        stats = Rows(X).statistics()
        constants = constants_of(stats)
        varying = stats[np.isnan(constants)]
        values = X.data if sp.issparse(X) else X
        whole = bool((values == np.floor(values)).all())
        scale, width = np.sqrt(varying.variance), params["width"] or default_width(len(varying.mean))
        ends = varying.smallest, varying.largest
        return GaussianPlan(schedule, width, whole, X.shape[0], constants, varying.mean, scale, *ends)

    def _build(self, plan: GaussianPlan) -> tuple[Any, Process | None, Denoiser | None]:
        domain = domains.Count() if plan.whole else domains.NonNegative()
        table = Table(plan.constants, plan.whole, plan.rows, plan.lift, lambda x: domain.project(plan.lower(x)))
        if not table.varying:
            return table, None, None
        low, high = (plan.lift(torch.from_numpy(end)) for end in (plan.smallest, plan.largest))
        process = GaussianDiffusion(low, high, AMPLITUDES[plan.schedule])
        return table, process, self._denoiser(MeanBlock(len(plan.mean)), process, plan.width)

    def _check_scorable(self, X: domains.Matrix) -> None:
        raise ValueError(GaussianDiffusion.no_likelihood)

    def _possible_rows(self) -> float:
        return np.inf


@dataclass
class CategoricalPlan:
    """What decides a D3PM; the frequencies are of the columns that vary."""

    transition: str
    states: int
    width: int
    rows: int
    constants: np.ndarray
    log_frequency: np.ndarray


@dataclass(eq=False, repr=False)
class D3PM(Baseline):
    """Categorical diffusion of counts as states 0 … K − 1 (Austin et al. 2021): every column's state moves until it is uniform.

    A column that is constant in the data is constant in the samples. There is one output for each of the columns × states.

    Parameters
    ----------
    transition : "uniform" or "gaussian"
        A state is drawn anew from all, or walks to its neighbours (the discretised Gaussian).
    states : int or None
        K; None takes the largest value of the data plus one.
    others : as the parameters of :class:`countjump.JumpModel` with the same names

    Examples
    --------
    >>> X = np.random.default_rng(0).integers(0, 5, size=(200, 2))
    >>> model = D3PM(max_updates=20, random_state=0, progress=False).fit(X)
    >>> int(model.sample(100, steps=5, random_state=0).max())
    4
    """

    plan_type = CategoricalPlan
    transition: str = "uniform"
    states: int | None = None

    def _plan(self, X: domains.Matrix, params: dict[str, Any]) -> CategoricalPlan:
        transition = one_of("transition", params["transition"], tuple(TRANSITIONS))
        domains.bad_value(X, lambda v: v != np.floor(v), NOT_WHOLE)
        stats = Rows(X).statistics()
        states = self._count_states(X, int(stats.largest.max()))
        constants = constants_of(stats)
        varying = np.flatnonzero(np.isnan(constants))
        columns = len(varying)
        if columns * states > MAX_OUTPUTS:
            need = f"{columns} columns × {states} states need {columns * states} outputs"
            advice = "truncate the largest values, or take another model"
            raise ValueError(f"{need}, and at most {MAX_OUTPUTS} are taken: {advice}")
        log_frequency = _log_frequency(Rows(X).select(varying), states)
        width = params["width"] or default_width(columns)
        return CategoricalPlan(transition, states, width, X.shape[0], constants, log_frequency)

    def _count_states(self, X: domains.Matrix, largest: int) -> int:
        if self.states is None:
            return largest + 1
        if not isinstance(self.states, int | np.integer) or isinstance(self.states, bool):
            raise TypeError(f"states must be a whole number or None, got {self.states!r}")
        states = int(self.states)
        if states < 1:
            raise ValueError(f"states must be at least 1, got {states}")
        domains.bad_value(X, lambda v: v >= states, f"is not below states={states}: raise states, or truncate the data")
        return states

    def _build(self, plan: CategoricalPlan) -> tuple[Any, Process | None, Denoiser | None]:
        table = Table(plan.constants, True, plan.rows, lambda x: x, lambda x: x)
        if not table.varying:
            return table, None, None
        block = StateBlock(torch.from_numpy(plan.log_frequency))
        process = CategoricalDiffusion(table.varying, TRANSITIONS[plan.transition](plan.states), Cosine())
        return table, process, self._denoiser(block, process, plan.width)

    def _check_scorable(self, X: domains.Matrix) -> None:
        domains.bad_value(X, lambda v: v != np.floor(v), NOT_WHOLE)

    def _possible_rows(self) -> float:
        return float(np.exp(min(self.block_.varying * np.log(self.plan_.states), 700.0)))

    def _score(self, matrix: domains.Matrix, *arguments: Any) -> np.ndarray:
        # A state that is not there is impossible.
        possible = (self.block_.read(matrix).numpy() < self.plan_.states).all(1)
        scores = np.full(len(possible), -np.inf)
        if possible.any():
            names, *rest = arguments
            scores[possible] = super()._score(matrix[np.flatnonzero(possible)], names[possible], *rest)
        return scores


def _log_frequency(rows: Rows, states: int) -> np.ndarray:
    """ln of how often every column is in every state (D, K), as if one more row had been spread over all of them."""
    counts = np.zeros(rows.columns * states)
    for column, value in rows.nonzeros():
        counts += np.bincount(column.astype(np.int64) * states + value.astype(np.int64), minlength=len(counts))
    counts = counts.reshape(rows.columns, states)
    counts[:, 0] = rows.count - counts.sum(axis=1)
    return np.log((counts + 1 / states) / (rows.count + 1))
