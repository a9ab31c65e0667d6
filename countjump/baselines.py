"""The paper's baselines with the face of :class:`countjump.JumpModel`: fit · sample · score · save · load."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from countjump import domains
from countjump.choices import default_width, one_of
from countjump.data import Rows
from countjump.estimator import Estimator
from countjump.likelihood import categorical_bound
from countjump.networks import MLP
from countjump.processes.base import Denoiser, Process
from countjump.processes.categorical import TRANSITIONS, CategoricalDiffusion, StateHead
from countjump.processes.gaussian import AMPLITUDES, GaussianDiffusion, MeanHead
from countjump.sampling import once
from countjump.schedules import Cosine

MAX_OUTPUTS = 2**18
"""The most columns × states that D3PM takes: it answers with one number for each."""

NOT_WHOLE = "is not a whole number, and D3PM's states are: round it"


class Baseline(Estimator, ABC):
    """What the baselines share: a plan of plain values and arrays, and the network."""

    plan_type: ClassVar[type]
    width: int | None

    def _describe(self, plan: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        arrays = {name: value for name, value in vars(plan).items() if isinstance(value, np.ndarray)}
        return {name: value for name, value in vars(plan).items() if name not in arrays}, arrays

    def _recall(self, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        return self.plan_type(**described, **arrays)

    def _denoiser(self, head: MeanHead | StateHead, process: Process, width: int) -> Denoiser:
        network = MLP(head.inputs, head.outputs, width, sparse=head.sparse)
        return Denoiser(network, head, process.schedule, process.discrete)

    def _choose_width(self, columns: int) -> int:
        return self.width or default_width(columns)


@dataclass
class GaussianPlan:
    """What decides a DDPM, of the columns that vary."""

    schedule: str
    width: int
    whole: bool
    mean: np.ndarray
    scale: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray

    def lift(self, x: torch.Tensor) -> torch.Tensor:
        """Data with zero mean and unit variance."""
        return (x - torch.from_numpy(self.mean).to(x.device)) / torch.from_numpy(self.scale).to(x.device)

    def lower(self, x: torch.Tensor) -> torch.Tensor:
        """Back to the data's units; what was clipped at the smallest value is that value to the last bit: a zero is a zero."""
        mean, scale, smallest = (torch.from_numpy(a).to(x.device) for a in (self.mean, self.scale, self.smallest))
        return torch.where(x <= self.lift(smallest), smallest, x * scale + mean)


class DDPM(Baseline):
    """Gaussian diffusion of standardised columns (Ho, Jain and Abbeel 2020): z_t = α_t x_0 + √(1 − α_t²) ε.

    Samples lie in the range of each column's data, and so are never negative; where all data are whole numbers, samples are
    rounded. A column that is constant in the data is constant in the samples.

    Parameters
    ----------
    schedule : "linear-beta" (DDPM's own) or "cosine"
    width, batch_size, learning_rate, max_updates : number or None
        None chooses from the data's size.
    lr_schedule, ema, validation_fraction, checkpoint_dir, checkpoint_every, device, random_state, progress
        As in :class:`countjump.JumpModel`.

    Examples
    --------
    >>> X = np.random.default_rng(0).poisson(3.0, size=(200, 2))
    >>> model = DDPM(max_updates=20, random_state=0, progress=False).fit(X)
    >>> model.sample(3, steps=5, random_state=0).dtype
    dtype('int64')
    """

    plan_type = GaussianPlan

    def __init__(
        self,
        schedule: str = "linear-beta",
        width: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        lr_schedule: str = "cosine",
        ema: float = 0.999,
        validation_fraction: float = 0.1,
        max_updates: int | None = None,
        checkpoint_dir: str | Path | None = None,
        checkpoint_every: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        progress: bool = True,
    ) -> None:
        self.schedule = schedule
        self.width = width
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.ema = ema
        self.validation_fraction = validation_fraction
        self.max_updates = max_updates
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def _plan(self, X: domains.Matrix) -> tuple[GaussianPlan, np.ndarray]:
        schedule = one_of("schedule", self.schedule, tuple(AMPLITUDES))
        stats = Rows(X).statistics()
        constant = stats.smallest == stats.largest
        varying = stats[~constant]
        values = X.data if sp.issparse(X) else X
        plan = GaussianPlan(
            schedule=schedule,
            width=self._choose_width(len(varying.mean)),
            whole=bool((values == np.floor(values)).all()),
            mean=varying.mean,
            scale=np.sqrt(varying.variance),
            smallest=varying.smallest,
            largest=varying.largest,
        )
        return plan, np.where(constant, stats.largest, np.nan)

    def _build(self, plan: GaussianPlan) -> tuple[Process, Denoiser]:
        low, high = (plan.lift(torch.from_numpy(end)) for end in (plan.smallest, plan.largest))
        process = GaussianDiffusion(low, high, AMPLITUDES[plan.schedule])
        return process, self._denoiser(MeanHead(len(plan.mean)), process, plan.width)

    def _batch(self, rows: Rows, index: np.ndarray) -> Any:
        return self.plan_.lift(super()._batch(rows, index))

    def _project(self, x: torch.Tensor) -> torch.Tensor:
        domain = domains.Count() if self.plan_.whole else domains.NonNegative()
        return domain.project(self.plan_.lower(x))

    def _check_scorable(self, X: domains.Matrix) -> None:
        """DDPM has no scores: its last step gives one point, and all other data a density of zero."""
        raise ValueError(
            "DDPM has no score: its last step is a point mass, so that its bound on ln p(x) is minus infinity on real data. "
            "Compare samples instead (W1), or score with JumpModel or D3PM"
        )

    def _possible(self, free: np.ndarray) -> np.ndarray:
        return np.zeros(len(free), dtype=bool)

    def _bound(self, free: torch.Tensor, times: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return free.new_full((len(free),), -torch.inf)


@dataclass
class CategoricalPlan:
    """What decides a D3PM, of the columns that vary."""

    transition: str
    states: int
    width: int
    log_frequency: np.ndarray


class D3PM(Baseline):
    """Categorical diffusion of counts as states 0 … K − 1 (Austin et al. 2021): every column's state moves until it is uniform.

    A column that is constant in the data is constant in the samples. There is one output for each of the columns × states.

    Parameters
    ----------
    transition : "uniform" or "gaussian"
        A state is drawn anew from all, or walks to its neighbours (the discretised Gaussian).
    states : int or None
        K; None takes the largest value of the data plus one.
    width, batch_size, learning_rate, max_updates : number or None
        None chooses from the data's size.
    lr_schedule, ema, validation_fraction, checkpoint_dir, checkpoint_every, device, random_state, progress
        As in :class:`countjump.JumpModel`.

    Examples
    --------
    >>> X = np.random.default_rng(0).integers(0, 5, size=(200, 2))
    >>> model = D3PM(max_updates=20, random_state=0, progress=False).fit(X)
    >>> int(model.sample(100, steps=5, random_state=0).max())
    4
    """

    plan_type = CategoricalPlan

    def __init__(
        self,
        transition: str = "uniform",
        states: int | None = None,
        width: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        lr_schedule: str = "cosine",
        ema: float = 0.999,
        validation_fraction: float = 0.1,
        max_updates: int | None = None,
        checkpoint_dir: str | Path | None = None,
        checkpoint_every: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        progress: bool = True,
    ) -> None:
        self.transition = transition
        self.states = states
        self.width = width
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.ema = ema
        self.validation_fraction = validation_fraction
        self.max_updates = max_updates
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def _plan(self, X: domains.Matrix) -> tuple[CategoricalPlan, np.ndarray]:
        transition = one_of("transition", self.transition, tuple(TRANSITIONS))
        domains.bad_value(X, lambda v: v != np.floor(v), NOT_WHOLE)
        stats = Rows(X).statistics()
        states = self._count_states(X, int(stats.largest.max()))
        constant = stats.smallest == stats.largest
        columns = int((~constant).sum())
        if columns * states > MAX_OUTPUTS:
            raise ValueError(
                f"{columns} columns × {states} states need {columns * states} outputs, and at most {MAX_OUTPUTS} are taken: "
                "truncate the largest values, or take another model"
            )
        log_frequency = _log_frequency(Rows(X).select(np.flatnonzero(~constant)), states)
        plan = CategoricalPlan(transition, states, self._choose_width(columns), log_frequency)
        return plan, np.where(constant, stats.largest, np.nan)

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

    def _build(self, plan: CategoricalPlan) -> tuple[Process, Denoiser]:
        head = StateHead(torch.from_numpy(plan.log_frequency))
        transition = TRANSITIONS[plan.transition](plan.states)
        process = CategoricalDiffusion(len(plan.log_frequency), transition, Cosine())
        return process, self._denoiser(head, process, plan.width)

    def _project(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def _check_scorable(self, X: domains.Matrix) -> None:
        domains.bad_value(X, lambda v: v != np.floor(v), NOT_WHOLE)

    def _possible(self, free: np.ndarray) -> np.ndarray:
        return (free < self.plan_.states).all(1)

    def _bound(self, free: torch.Tensor, times: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return categorical_bound(self.process_, once(self.denoiser_), free, times, generator)


def _log_frequency(rows: Rows, states: int) -> np.ndarray:
    """ln of how often every column is in every state (D, K), as if one more row had been spread over all of them."""
    counts = np.zeros(rows.columns * states)
    for column, value in rows.nonzeros():
        counts += np.bincount(column.astype(np.int64) * states + value.astype(np.int64), minlength=len(counts))
    counts = counts.reshape(rows.columns, states)
    counts[:, 0] = rows.count - counts.sum(axis=1)
    return np.log((counts + 1 / states) / (rows.count + 1))
