"""The paper's baselines with the face of :class:`countjump.JumpModel`: fit · sample · score · save · load."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from countjump import domains
from countjump.blocks import BLOCKS
from countjump.blocks.columns import mirror
from countjump.data import Columns, Layout, Pictures, Rows
from countjump.denoiser import Denoiser
from countjump.estimator import Estimator
from countjump.networks import MLP, UNet, UNetSizes
from countjump.networks.unet import width_of
from countjump.planning import one_of
from countjump.planning.plan import default_width
from countjump.processes.base import Process
from countjump.processes.categorical import TRANSITIONS, CategoricalDiffusion, StateBlock
from countjump.processes.gaussian import AMPLITUDES, GaussianDiffusion, MeanBlock
from countjump.schedules import Cosine

MAX_OUTPUTS, MOST_OF_PICTURES = 2**18, 2**20
"""The most columns × states that D3PM takes, of rows and of pictures: it answers with one number for each."""

SAMPLERS = {"ancestral": 1.0, "ddim": 0.0}
"""Of DDPM: the η of DDIM."""

Change = Callable[[Tensor], Tensor]
NOT_WHOLE = "is not a whole number, and D3PM's states are: round it"


class Table(nn.Module):
    """Rows of a matrix as a baseline takes them: the columns that vary; the constants are put back, exactly."""

    sparse = matches_margins = False

    def __init__(
        self, plan: Any, whole: bool, to_state: Change, from_state: Change, most: float = np.inf, escape: float = 0.0
    ) -> None:
        """``to_state`` and ``from_state`` go to the process's units and back. No state is above ``most``: what is comes by the
        ``escape`` mass in the score, or, where the states were declared, not at all."""
        super().__init__()
        self.constants, self.to_state, self.from_state = plan.constants, to_state, from_state
        self.most, self.escape = torch.tensor(most, dtype=torch.float64), escape
        self.places, self.fixed = (np.flatnonzero(np.isnan(plan.constants) == varies) for varies in (True, False))
        self.size = self.columns = len(plan.constants)
        self.varying = len(self.places)
        values = torch.from_numpy(plan.constants[self.fixed])
        bounds = torch.full_like(values, np.inf if escape else most)
        self.constant = BLOCKS["constant"](values, torch.full(values.shape, whole), plan.rows, bounds=bounds)

    def read(self, matrix: domains.Matrix) -> Tensor:
        return self.to_state(torch.from_numpy(Rows(matrix).select(self.places).dense(np.arange(matrix.shape[0]))))

    def read_to_score(self, matrix: domains.Matrix) -> tuple[Tensor, Tensor]:
        x, mass = mirror(self.read(matrix), self.most, self.escape)
        return x, mass + self.constant.admit(self.constant.read(matrix[:, self.fixed]))[1]

    def write(self, x: Tensor) -> np.ndarray:
        rows = np.tile(self.constants, (len(x), 1))
        rows[:, self.places] = self.from_state(x).cpu().numpy()
        return rows

    def empty(self, rows: int, device: torch.device | str) -> Tensor:
        return torch.zeros(rows, 0, dtype=torch.float64, device=device)

    def latent(self, z: Tensor) -> Tensor:
        return z

    def stages(self, *arguments: Any) -> list[Any]:
        return []  # nothing is learned apart from the network


class Pictured(nn.Module):
    """A U-Net for rows that are pictures, channels last: (B, H W C) → (B, H W C outputs)."""

    def __init__(self, picture: tuple[int, int, int], outputs: int, width: int, sizes: UNetSizes) -> None:
        super().__init__()
        height, across, channels = self.picture = picture
        self.network = UNet(height * across * channels, outputs, width, (height, across), sizes)

    def forward(self, features: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        """Features (B, inputs), times (B,) or (1,), and vectors (B, width) of what is given besides → (B, outputs)."""
        height, across, channels = self.picture
        answer = self.network(features.unflatten(1, self.picture).movedim(-1, 1).flatten(1), t, condition)
        return answer.unflatten(1, (-1, channels, height, across)).permute(0, 3, 4, 2, 1).flatten(1)


@dataclass(eq=False, repr=False, kw_only=True)
class Baseline(Estimator, ABC):
    """What the baselines share: a plan of plain values and arrays, and the network.

    The plan's ``constants`` (D,) are the values of the columns that never change, and NaN where a column varies. Pictures, X of
    three or four dimensions, have no constants: the U-Net sees and makes all of them. Theirs is the network of ``JumpModel``.
    """

    network: str | UNetSizes = "auto"

    def _find_layout(self, X: Any) -> Layout | Pictures | None:
        return Pictures.of(X)

    def _sizes(self, params: dict[str, Any], rows: int, columns: int) -> dict[str, Any]:
        """The network's, as plain values of a plan."""
        asked = params["network"]
        name = "unet" if isinstance(asked, UNetSizes) else one_of("network", asked, ("auto", "mlp", "unet"))
        pictures = isinstance(self.layout_, Pictures)
        if name == "unet" and not pictures:
            raise ValueError("network='unet' needs pictures, X of shape (N, height, width) or with channels: reshape X")
        if not isinstance(self.layout_, Pictures) or name == "mlp":
            return {"picture": [], "sizes": {}, "width": params["width"] or default_width(rows, columns)}
        height, across, channels = (*self.layout_.shape, 1)[:3]
        sizes = asked if isinstance(asked, UNetSizes) else UNetSizes.of((height, across))
        width = params["width"] or width_of((height, across))
        return {"picture": [height, across, channels], "sizes": asdict(sizes), "width": width}

    def _describe(self, plan: SimpleNamespace) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        arrays = {name: value for name, value in vars(plan).items() if isinstance(value, np.ndarray)}
        return {name: value for name, value in vars(plan).items() if name not in arrays}, arrays

    def _recall(self, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> SimpleNamespace:
        return SimpleNamespace(**described, **arrays)

    @abstractmethod
    def _parts(self, plan: SimpleNamespace) -> tuple[Table, Process, MeanBlock | StateBlock]:
        """How rows are read, the process, and what the network sees and means."""

    def _build(self, plan: SimpleNamespace) -> tuple[Table, Process | None, Denoiser | None]:
        table, process, block = self._parts(plan)
        if not table.varying:
            return table, None, None
        network: nn.Module
        if plan.picture:
            height, across, channels = plan.picture
            network = Pictured((height, across, channels), block.outputs, plan.width, UNetSizes(**plan.sizes))
        else:
            network = MLP(block.inputs, block.outputs, plan.width, sparse=block.sparse_inputs)
        return table, process, Denoiser(network, block, process.schedule, process.discrete)


def constants_of(stats: Columns, pictures: bool) -> np.ndarray:
    """The value of every column that never changes, NaN of the others; and of all pixels of pictures."""
    return np.where((stats.smallest == stats.largest) & (not pictures), stats.largest, np.nan)


@dataclass(eq=False, repr=False)
class DDPM(Baseline):
    """Gaussian diffusion of standardised columns (Ho, Jain and Abbeel 2020): z_t = α_t x_0 + √(1 − α_t²) ε.

    Samples lie in the range of each column's data, and so are never negative; where all data are whole numbers, samples are
    rounded. A column that is constant in the data is constant in the samples.

    Parameters
    ----------
    schedule : "linear-beta" (DDPM's own) or "cosine"
    sampler : "ancestral" or "ddim"
        DDPM's own steps, or those of DDIM with η = 0, which draw nothing. ``sampled_by`` has the fitted model with another.
    network : "auto", "mlp", "unet" or a ``UNetSizes``
        "auto" takes the U-Net for pictures: they go from −1 to 1 together, where columns of a table are standardised each.
    others : as the parameters of :class:`countjump.JumpModel` with the same names

    Examples
    --------
    >>> X = np.random.default_rng(0).poisson(3.0, size=(200, 2))
    >>> model = DDPM(max_updates=20, random_state=0, progress=False).fit(X)
    >>> model.sample(3, steps=5, random_state=0).dtype
    dtype('int64')
    """

    schedule: str = "linear-beta"
    sampler: str = "ancestral"

    def sampled_by(self, sampler: str) -> DDPM:
        """The same fitted model with another sampler."""
        other = copy.copy(self)
        other.sampler = one_of("sampler", sampler, tuple(SAMPLERS))
        other.plan_ = SimpleNamespace(**(vars(self.plan_) | {"sampler": sampler}))
        other.process_ = None if self.process_ is None else self._parts(other.plan_)[1]
        return other

    def _plan(self, X: domains.Matrix, params: dict[str, Any]) -> SimpleNamespace:
        schedule = one_of("schedule", params["schedule"], tuple(AMPLITUDES))
        stats = Rows(X).statistics()
        pictures = isinstance(self.layout_, Pictures)
        constants = constants_of(stats, pictures)
        varying = stats[np.isnan(constants)]
        values = X.data if sp.issparse(X) else X
        mean, scale, smallest, largest = varying.mean, np.sqrt(varying.variance), varying.smallest, varying.largest
        if pictures:  # from −1 to 1, and all pixels alike
            smallest, largest = np.zeros_like(mean), np.full_like(mean, max(float(largest.max()), 1e-12))
            mean = scale = largest / 2
        return SimpleNamespace(
            **self._sizes(params, X.shape[0], len(mean)),
            schedule=schedule,
            sampler=one_of("sampler", params["sampler"], tuple(SAMPLERS)),
            whole=bool((values == np.floor(values)).all()),
            rows=X.shape[0],
            constants=constants,
            mean=mean,
            scale=scale,
            smallest=smallest,
            largest=largest,
        )

    def _parts(self, plan: SimpleNamespace) -> tuple[Table, Process, MeanBlock | StateBlock]:
        domain = domains.Count() if plan.whole else domains.NonNegative()
        arrays = [torch.from_numpy(each) for each in (plan.mean, plan.scale, plan.smallest, plan.largest)]

        def to_state(x: Tensor) -> Tensor:
            """To zero mean and unit variance."""
            mean, scale, *_ = (each.to(x.device) for each in arrays)
            return (x - mean) / scale

        def from_state(x: Tensor) -> Tensor:
            """What was clipped at the smallest value is that value to the last bit: a zero is a zero."""
            mean, scale, smallest, _ = (each.to(x.device) for each in arrays)
            return domain.project(torch.where(x <= to_state(smallest), smallest, x * scale + mean))

        ends = to_state(arrays[2]), to_state(arrays[3])
        process = GaussianDiffusion(*ends, AMPLITUDES[plan.schedule], SAMPLERS[plan.sampler])
        return Table(plan, plan.whole, to_state, from_state), process, MeanBlock(len(plan.mean))

    def _check_scorable(self, X: domains.Matrix) -> None:
        raise ValueError(GaussianDiffusion.no_likelihood)

    def _possible_rows(self) -> float:
        return np.inf


@dataclass(eq=False, repr=False)
class D3PM(Baseline):
    """Categorical diffusion of counts as states 0 … K − 1 (Austin et al. 2021): every column's state moves until it is uniform.

    A column that is constant in the data is constant in the samples. There is one output for each of the columns × states.

    Parameters
    ----------
    transition : "uniform" or "gaussian"
        A state is drawn anew from all, or walks to its neighbours (the discretised Gaussian).
    states : int or None
        K; None takes the largest value of the data plus one. A larger value then has an escape mass in the score, where it has
        none if K was given.
    network : "auto", "mlp", "unet" or a ``UNetSizes``
        "auto" takes the U-Net for pictures.
    others : as the parameters of :class:`countjump.JumpModel` with the same names

    Examples
    --------
    >>> X = np.random.default_rng(0).integers(0, 5, size=(200, 2))
    >>> model = D3PM(max_updates=20, random_state=0, progress=False).fit(X)
    >>> int(model.sample(100, steps=5, random_state=0).max())
    4
    """

    transition: str = "uniform"
    states: int | None = None

    def _plan(self, X: domains.Matrix, params: dict[str, Any]) -> SimpleNamespace:
        transition = one_of("transition", params["transition"], tuple(TRANSITIONS))
        self._check_scorable(X)
        stats = Rows(X).statistics()
        states = int(stats.largest.max()) + 1
        if params["states"] is not None:
            states, advice = params["states"], "raise states, or truncate the data"
            domains.bad_value(X, lambda v: v >= states, f"is not below states={states}: {advice}")
        pictures = isinstance(self.layout_, Pictures)
        constants = constants_of(stats, pictures)
        varying = np.flatnonzero(np.isnan(constants))
        outputs, most = len(varying) * states, MOST_OF_PICTURES if pictures else MAX_OUTPUTS
        if outputs > most:
            need = f"{len(varying)} columns × {states} states need {outputs} outputs, and at most {most} are taken"
            raise ValueError(f"{need}: truncate the largest values, or take another model")
        return SimpleNamespace(
            **self._sizes(params, X.shape[0], len(varying)),
            transition=transition,
            states=states,
            escape=0.0 if params["states"] is not None else 1 / ((X.shape[0] + 1) * max(len(varying), 1)),
            rows=X.shape[0],
            constants=constants,
            log_frequency=_log_frequency(Rows(X).select(varying), states),
        )

    def _parts(self, plan: SimpleNamespace) -> tuple[Table, Process, MeanBlock | StateBlock]:
        table = Table(plan, True, lambda x: x, lambda x: x, plan.states - 1, plan.escape)
        process = CategoricalDiffusion(table.varying, TRANSITIONS[plan.transition](plan.states), Cosine())
        return table, process, StateBlock(torch.from_numpy(plan.log_frequency), numbers=bool(plan.picture))

    def _check_scorable(self, X: domains.Matrix) -> None:
        domains.bad_value(X, lambda v: v != np.floor(v), NOT_WHOLE)

    def _possible_rows(self) -> float:
        return float(np.exp(min(self.block_.varying * np.log(self.plan_.states), 700.0)))


def _log_frequency(rows: Rows, states: int) -> np.ndarray:
    """ln of how often every column is in every state (D, K), as if one more row had been spread over all of them."""
    counts = np.zeros(rows.columns * states)
    for column, value in rows.nonzeros():
        counts += np.bincount(column.astype(np.int64) * states + value.astype(np.int64), minlength=len(counts))
    counts = counts.reshape(rows.columns, states)
    counts[:, 0] = rows.count - counts.sum(axis=1)
    return np.log((counts + 1 / states) / (rows.count + 1))
