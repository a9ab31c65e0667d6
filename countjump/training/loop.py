"""One loop for every stage of training: it minimises a loss over the rows of a data set, and knows nothing of diffusion.

It owns what every trainer owns: the order of the rows, the optimisers, warm-up and decay of the rate, clipping, the exponential
moving average (EMA) of the weights, held-out validation with early stopping, progress, atomic checkpoints and exact resume.

Randomness is a function of (seed, update, stage), never of history, so that a resumed run repeats an uninterrupted one bit for bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from countjump.progress import Progress
from countjump.training.batches import Batches
from countjump.training.checkpoints import Checkpoint, CheckpointError
from countjump.training.optimisers import RowAdam, make_optimisers

AVERAGE_EVERY = 16  # updates from one addition to the moving average to the next, at most: each passes over all weights

VALIDATIONS, PATIENCE = 20, 8  # of a stage, and how many may bring nothing better before it stops
TOLERANCE = 1e-3  # by how much of itself a loss may be worse than the best: later weights are averaged over more
CLIP = 1.0  # the largest norm of a gradient


class DivergenceError(FloatingPointError, ValueError):
    """A loss or a gradient that is no finite number."""


@dataclass(frozen=True)
class Settings:
    """What is common to all stages of a fit."""

    seed: int = 0
    checkpoint: Path | None = None
    checkpoint_every: int | None = None
    """Updates from one checkpoint to the next; None for a twentieth of the longest stage."""
    fingerprint: str = ""
    """What decides a fit besides its stages."""
    progress: bool = True
    report: Callable[[dict[str, float]], None] | None = None
    """Told of every record of a history, while the averaged weights are in place."""


@dataclass
class Run:
    """Everything that changes while training, but for the tensors."""

    stage: int = 0
    started: bool = False
    update: int = 0
    averaged: int = 0
    best: float = math.inf
    since_best: int = 0
    stopped: bool = False
    running: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    finished: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def learning_rate(stage: Any, update: int) -> float:
    """That of an update, counted from zero: warm-up, then a cosine, or constant."""
    warmup = min(100, stage.updates // 10)
    warm = min(1.0, (update + 1) / max(warmup, 1))
    if stage.lr_schedule == "constant":
        return stage.learning_rate * warm
    done = max(update - warmup, 0) / max(stage.updates - warmup, 1)
    return stage.learning_rate * warm * (1 + math.cos(math.pi * min(done, 1.0))) / 2


def decay(stage: Any, update: int) -> float:
    """Of the moving average: at first it looks back on a ninth of the updates that are made."""
    return min(stage.ema, (1 + update) / (10 + update))


def average_every(stage: Any, update: int) -> int:
    """Updates from one addition to the moving average to the next: a sixtieth of those that it looks back on, within bounds."""
    return int(np.clip(1 / max(1 - decay(stage, update), 1e-9) / 60, 1, AVERAGE_EVERY))


def run(module: nn.Module, stages: Sequence[Any], settings: Settings) -> dict[str, list[dict[str, float]]]:
    """Train ``module`` in place, stage after stage, each left with its best (or last) averaged weights; the histories by stage."""
    checkpoint = Checkpoint(settings.checkpoint, _fingerprint(stages, settings))
    with checkpoint.held(), torch.random.fork_rng():
        return _run(module, stages, settings, checkpoint)


def _run(
    module: nn.Module, stages: Sequence[Any], settings: Settings, checkpoint: Checkpoint
) -> dict[str, list[dict[str, float]]]:
    found = checkpoint.read()
    state, tensors = Run(), {}
    if found is not None:
        try:
            state, tensors = Run(**found[0]), found[1]
            weights = {name.partition("/")[2]: t for name, t in tensors.items() if name.startswith("module/")}
            module.load_state_dict(weights)
        except (TypeError, RuntimeError) as error:
            raise CheckpointError(f"the checkpoint {checkpoint.path} is damaged ({error}): delete it") from error
    every = settings.checkpoint_every or max(max((stage.updates for stage in stages), default=0) // 20, 1)
    try:
        while state.stage < len(stages):
            stage = stages[state.stage]
            if not state.started and stage.start is not None:
                stage.start()
            state.started = True
            _Stage(module, stage, state, settings, tensors).run(checkpoint, every)
            state = Run(stage=state.stage + 1, finished=state.finished | {stage.name: state.history})
            tensors = {}
            checkpoint.write(asdict(state), _module_tensors(module))
    except KeyboardInterrupt:
        if checkpoint.path is not None and checkpoint.path.exists() and settings.progress:
            tqdm.write(f"countjump: interrupted; the same fit with this checkpoint_dir goes on from {checkpoint.path}")
        raise
    return state.finished


def _fingerprint(stages: Sequence[Any], settings: Settings) -> str:
    """What the outcome depends on."""
    plain = ("name", "updates", "batch_size", "learning_rate", "weight_decay", "lr_schedule", "ema")
    described = [{name: getattr(stage, name) for name in plain} | {"rows": len(stage.rows)} for stage in stages]
    return json.dumps([settings.fingerprint, settings.seed, described])


def _module_tensors(module: nn.Module) -> dict[str, Tensor]:
    return {f"module/{name}": tensor for name, tensor in module.state_dict().items()}


def generator_of(device: torch.device) -> torch.Generator:
    """Torch's own of a device: ``torch.manual_seed`` seeds all, and works out a stack trace for those that are not there."""
    if device.type == "cuda":
        return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    return torch.default_generator


class _Stage:
    """One stage at work."""

    def __init__(
        self, module: nn.Module, stage: Any, state: Run, settings: Settings, tensors: dict[str, Tensor]
    ) -> None:
        self.module, self.stage, self.state, self.settings = module, stage, state, settings
        self.weights = list(stage.parameters)
        self.average = [weight.detach().clone() for weight in self.weights]
        self.best = [weight.clone() for weight in self.average]
        self.optimisers = make_optimisers(module, self.weights, stage.learning_rate, stage.weight_decay)
        if tensors and state.update:
            self._restore(tensors)

    def run(self, checkpoint: Checkpoint, every: int) -> None:
        """From where the state is to the end."""
        stage, state = self.stage, self.state
        if not stage.updates or not self.weights:
            return
        validate_every = max(stage.updates // VALIDATIONS, 1)
        batches = Batches(len(stage.rows), stage.batch_size, (self.settings.seed, state.stage), stage.strata)
        title = f"fitting the {stage.name}"
        with Progress(title, stage.updates, "updates", self.settings.progress, state.update) as progress:
            while state.update < stage.updates and not state.stopped:
                self._update(stage.rows[batches.rows(state.update)])
                validates = state.update % validate_every == 0 or state.update == stage.updates
                if validates or state.update - state.averaged >= average_every(stage, state.update):
                    share = decay(stage, state.update) ** (state.update - state.averaged)
                    torch._foreach_lerp_(self.average, [weight.detach() for weight in self.weights], 1 - share)
                    state.averaged = state.update
                if validates:
                    self._validate()
                progress.advance(f"loss {state.running:.4g}, best {state.best:.4g}" if validates else "")
                if state.update % every == 0:
                    checkpoint.write(asdict(state), self._tensors())
        _assign(self.weights, self.average if stage.validation is None else self.best)

    def _update(self, rows: np.ndarray) -> None:
        stage, state = self.stage, self.state
        generator = torch.Generator(device=self.weights[0].device)
        seed = int(np.random.SeedSequence([self.settings.seed, state.update, state.stage]).generate_state(1)[0])
        generator.manual_seed(seed)
        generator_of(generator.device).manual_seed(seed)  # of dropout, which takes no generator
        for weight in self.weights:
            weight.grad = None
        number, parts = 0.0, max(min(getattr(stage, "accumulate", 1), len(rows)), 1)
        for part in np.array_split(rows, parts):
            value = stage.loss(part, generator) * (len(part) / len(rows))
            value.backward(inputs=self.weights)
            number += float(value.detach())
        given = [weight.grad for weight in self.weights if weight.grad is not None]
        gradients = [gradient._values() if gradient.is_sparse else gradient for gradient in given]
        norm = nn.utils.get_total_norm(gradients)
        if not (math.isfinite(number) and math.isfinite(float(norm))):
            raise DivergenceError(
                f"the loss of update {state.update} ({stage.name}) is {number}, and its gradient's norm {float(norm)}: lower "
                "learning_rate, or rescale the data"
            )
        if norm > CLIP:
            torch._foreach_mul_(gradients, CLIP / norm)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(stage, state.update)
            optimiser.step()
        for weight in self.weights:
            weight.grad = None
        state.update += 1
        state.running = number if state.update == 1 else state.running + 0.02 * (number - state.running)

    def _validate(self) -> None:
        state = self.state
        record = {"update": state.update, "loss": state.running}
        report = self.settings.report if self.stage.name == "network" else None
        if self.stage.validation is not None or report is not None:
            current = [weight.detach().clone() for weight in self.weights]
            _assign(self.weights, self.average)
            if self.stage.validation is not None:
                record["validation_loss"] = self.stage.validation()
            if report is not None:
                report(record)
            _assign(self.weights, current)
        if self.stage.validation is not None:
            value = record["validation_loss"]
            if value < state.best + TOLERANCE * max(abs(state.best), 1.0):
                state.since_best = 0 if value < state.best else state.since_best
                state.best = min(value, state.best)
                torch._foreach_copy_(self.best, self.average)
            else:
                state.since_best += 1
                state.stopped = state.since_best >= PATIENCE
        state.history.append(record)

    def _tensors(self) -> dict[str, Tensor]:
        """All that a resumed run needs."""
        tensors = _module_tensors(self.module)
        for i, (weight, average, best) in enumerate(zip(self.weights, self.average, self.best, strict=True)):
            tensors |= {f"average/{i}": average, f"best/{i}": best}
            for optimiser in self.optimisers:
                moments = optimiser.state.get(weight, {})
                tensors |= {f"moment/{i}/{name}": tensor for name, tensor in moments.items()}
        return tensors

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        for i, weight in enumerate(self.weights):
            _assign([self.average[i], self.best[i]], [tensors[f"average/{i}"], tensors[f"best/{i}"]])
            moments = {name.rpartition("/")[2]: t for name, t in tensors.items() if name.startswith(f"moment/{i}/")}
            for optimiser in self.optimisers:
                if any(weight is each for group in optimiser.param_groups for each in group["params"]) and moments:
                    stay = ("step", "decay") if isinstance(optimiser, RowAdam) else ()
                    on_device = {k: v if k in stay else v.to(weight.device) for k, v in moments.items()}
                    optimiser.state[weight] = on_device


@torch.no_grad()
def _assign(weights: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    torch._foreach_copy_(list(weights), list(values))
