"""A trainer that knows nothing of diffusion: it minimises ``loss(rows, generator)`` over the rows of a data set.

It owns what every trainer owns: the order of the rows, AdamW (of tables, by the row), warm-up and decay of the rate, clipping,
the exponential moving average (EMA) of the weights, held-out validation with early stopping, progress, atomic checkpoints and
exact resume.

Randomness is a function of (seed, update), never of history, so that a resumed run repeats an uninterrupted one bit for bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from tqdm import tqdm

from countjump.atomic import write_atomically
from countjump.optimiser import RowAdam

AVERAGE_EVERY = 16
"""Updates from one addition to the moving average to the next, at most: each passes over all weights."""

CHECKPOINT = 2
"""The number of the checkpoints' format."""

Loss = Callable[[np.ndarray, torch.Generator], Tensor]


@dataclass(frozen=True)
class Settings:
    """How to train."""

    updates: int
    batch_size: int
    learning_rate: float = 1e-3
    lr_schedule: str = "cosine"
    warmup: int = 100
    weight_decay: float = 0.0
    clip: float = 1.0
    ema: float = 0.999
    seed: int = 0
    validations: int = 20
    patience: int = 8
    tolerance: float = 1e-3
    checkpoint: Path | None = None
    checkpoint_every: int = 500
    progress: bool = True
    title: str = "fit"

    def decisive(self) -> str:
        """What the outcome depends on."""
        silent = ("checkpoint", "checkpoint_every", "progress", "title")
        return json.dumps({name: value for name, value in vars(self).items() if name not in silent})

    def rate(self, update: int) -> float:
        """The learning rate of an update, counted from zero.

        >>> [Settings(updates=100, batch_size=1, warmup=2, learning_rate=1.0).rate(u) for u in (0, 2, 51, 100)]
        [0.5, 1.0, 0.5, 0.0]
        """
        warm = min(1.0, (update + 1) / max(self.warmup, 1))
        if self.lr_schedule == "constant":
            return self.learning_rate * warm
        done = max(update - self.warmup, 0) / max(self.updates - self.warmup, 1)
        return self.learning_rate * warm * (1 + math.cos(math.pi * min(done, 1.0))) / 2

    def decay(self, update: int) -> float:
        """Of the moving average: at first it looks back on a ninth of the updates that are made."""
        return min(self.ema, (1 + update) / (10 + update))

    def average_every(self, update: int) -> int:
        """Updates from one addition to the moving average to the next: a sixtieth of those that it looks back on, within bounds.

        >>> [Settings(updates=1, batch_size=1).average_every(u) for u in (0, 2000, 20_000)]
        [1, 3, 16]
        """
        return int(np.clip(1 / max(1 - self.decay(update), 1e-9) / 60, 1, AVERAGE_EVERY))


class CheckpointError(ValueError):
    """A checkpoint that does not belong to this fit, or is damaged."""


@dataclass
class _State:
    """Everything that changes while training; what a checkpoint holds."""

    update: int = 0
    averaged: int = 0
    best: float = math.inf
    since_best: int = 0
    stopped: bool = False
    history: list[dict[str, float]] = field(default_factory=list)
    running: float = 0.0


def train(
    module: nn.Module,
    loss: Loss,
    rows: int,
    settings: Settings,
    validation: Callable[[], float] | None = None,
    fingerprint: str = "",
    strata: np.ndarray | None = None,
) -> list[dict[str, float]]:
    """Train ``module`` in place, leave it with the best (or last) averaged weights, and return the history."""
    fingerprint = f"{CHECKPOINT} {fingerprint} {settings.decisive()}"
    held = _hold(module, settings)
    weights = [each.weight for each in held.values()]
    average = [weight.detach().clone() for weight in weights]
    best = [weight.clone() for weight in average]
    state = _State()
    if settings.checkpoint is not None and settings.checkpoint.exists():
        state = _resume(settings.checkpoint, fingerprint, held, average, best)
    device = weights[0].device
    validate_every = max(settings.updates // settings.validations, 1)
    order = _Order(rows, settings.batch_size, settings.seed, strata)

    bar = tqdm(
        total=settings.updates, initial=state.update, desc=settings.title, unit="update", disable=not settings.progress
    )
    with bar:
        while state.update < settings.updates and not state.stopped:
            generator = torch.Generator(device=device)
            generator.manual_seed(int(np.random.SeedSequence([settings.seed, state.update]).generate_state(1)[0]))
            value = loss(order.batch(state.update), generator)
            for each in held.values():
                each.forget()
            value.backward()
            given = [weight.grad for weight in weights if weight.grad is not None]
            gradients = [gradient._values() if gradient.is_sparse else gradient for gradient in given]
            norm = nn.utils.get_total_norm(gradients)
            number = float(value.detach())
            if not (math.isfinite(number) and math.isfinite(float(norm))):
                raise FloatingPointError(
                    f"the loss of update {state.update} is {number}: lower learning_rate, or report this with the data"
                )
            if norm > settings.clip:
                torch._foreach_mul_(gradients, settings.clip / norm)
            for each in held.values():
                each.optimiser.param_groups[0]["lr"] = settings.rate(state.update)
                each.optimiser.step()
            state.update += 1
            validates = state.update % validate_every == 0 or state.update == settings.updates
            if validates or state.update - state.averaged >= settings.average_every(state.update):
                decay = settings.decay(state.update) ** (state.update - state.averaged)
                torch._foreach_lerp_(average, [weight.detach() for weight in weights], 1 - decay)
                state.averaged = state.update
            state.running = number if state.update == 1 else state.running + 0.02 * (number - state.running)
            bar.update()
            if validates:
                _validate(state, settings, validation, weights, average, best)
                bar.set_postfix(loss=f"{state.running:.4g}", best=f"{state.best:.4g}")
            if settings.checkpoint is not None and (
                state.update % settings.checkpoint_every == 0 or state.update == settings.updates or state.stopped
            ):
                _save(settings.checkpoint, fingerprint, state, held, average, best)
    _assign(weights, average if validation is None else best)
    for each in held.values():
        each.release()
    return state.history


@dataclass(frozen=True)
class _Held:
    """A weight that an optimiser moves: a table, or a vector of which the ``parts`` are views, and their gradients of its own."""

    weight: nn.Parameter
    parts: list[nn.Parameter]
    optimiser: torch.optim.Optimizer

    def forget(self) -> None:
        """No gradient; one that has views stays where it is."""
        if self.parts and self.weight.grad is not None:
            self.weight.grad.zero_()
        else:
            self.weight.grad = None

    def release(self) -> None:
        """Parts that are views of nothing."""
        for part in self.parts:
            part.data, part.grad = part.data.clone(), None
        self.weight.grad = None


def _hold(module: nn.Module, settings: Settings) -> dict[str, _Held]:
    """The weights that are trained, as few tensors: an operation on each would cost more than its arithmetic.

    Tables with sparse gradients are held by their names and moved by :class:`countjump.optimiser.RowAdam`; all other matrices are
    held as one vector, and all vectors as one, which does not decay: a bias has nothing to be small for. To these a weight
    without a gradient is one whose gradient is zero. While they are held a loss must leave the gradients alone.
    """
    learned = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    by_row = {part.weight for part in module.modules() if isinstance(part, nn.Embedding) and part.sparse}
    held = {}
    rate, decay = settings.learning_rate, settings.weight_decay
    for name, weight in learned.items():
        if weight in by_row:
            held[name] = _Held(weight, [], RowAdam([weight], lr=rate, weight_decay=decay))
    others = [weight for name, weight in learned.items() if name not in held]
    for kind, parts, decays in (
        ("matrices", [weight for weight in others if weight.ndim > 1], decay),
        ("vectors", [weight for weight in others if weight.ndim <= 1], 0.0),
    ):
        if parts:
            whole = _flatten(parts)
            held[kind] = _Held(whole, parts, torch.optim.AdamW([whole], lr=rate, weight_decay=decays, fused=True))
    return held


def _flatten(parts: list[nn.Parameter]) -> nn.Parameter:
    """One vector; the weights become views of it, and their gradients views of its gradient."""
    if len({(part.dtype, part.device) for part in parts}) > 1:
        raise ValueError("weights of several dtypes or devices cannot be trained together")
    whole = nn.Parameter(torch.cat([part.detach().flatten() for part in parts]))
    whole.grad = torch.zeros_like(whole)
    sizes = [part.numel() for part in parts]
    for part, values, gradient in zip(parts, whole.detach().split(sizes), whole.grad.split(sizes), strict=True):
        part.data, part.grad = values.view_as(part), gradient.view_as(part)
    return whole


class _Order:
    """The rows of every update, a function of (seed, update): each epoch visits every row once, in a fresh order.

    With ``strata`` (one number per row) every batch holds one row of each of ``batch_size`` strata of that number: batches look
    like the data, and the gradient has less noise.
    """

    def __init__(self, rows: int, batch_size: int, seed: int, strata: np.ndarray | None = None) -> None:
        self.rows, self.size, self.seed = rows, min(batch_size, rows), seed
        self.per_epoch = rows // self.size
        self.sorted = np.arange(rows) if strata is None else np.argsort(strata, kind="stable")
        self.epoch, self.batches = -1, np.empty((0, 0), dtype=np.int64)

    def batch(self, update: int) -> np.ndarray:
        epoch, place = divmod(update, self.per_epoch)
        if epoch != self.epoch:
            generator = np.random.default_rng([self.seed, epoch])
            kept = np.sort(generator.permutation(self.rows)[: self.size * self.per_epoch])
            self.batches = generator.permuted(self.sorted[kept].reshape(self.size, self.per_epoch), axis=1)
            self.epoch = epoch
        return self.batches[:, place]


def _validate(
    state: _State,
    settings: Settings,
    validation: Callable[[], float] | None,
    weights: list[nn.Parameter],
    average: list[Tensor],
    best: list[Tensor],
) -> None:
    record = {"update": state.update, "loss": state.running}
    if validation is not None:
        current = [weight.detach().clone() for weight in weights]
        _assign(weights, average)
        record["validation_loss"] = value = validation()
        _assign(weights, current)
        if value < state.best + settings.tolerance * max(abs(state.best), 1.0):
            # Later weights are averaged over more updates: as good, to a thousandth, is better.
            state.since_best = 0 if value < state.best else state.since_best
            state.best = min(value, state.best)
            torch._foreach_copy_(best, average)
        else:
            state.since_best += 1
            state.stopped = state.since_best >= settings.patience
    state.history.append(record)


@torch.no_grad()
def _assign(weights: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    torch._foreach_copy_(list(weights), list(values))


def _save(
    path: Path,
    fingerprint: str,
    state: _State,
    held: dict[str, _Held],
    average: list[Tensor],
    best: list[Tensor],
) -> None:
    tensors: dict[str, Tensor] = {}
    for (name, each), mean, good in zip(held.items(), average, best, strict=True):
        moments = each.optimiser.state[each.weight]
        parts = {"weight": each.weight.detach(), "average": mean, "best": good} | moments
        tensors |= {f"{part}/{name}": tensor.cpu().contiguous() for part, tensor in parts.items()}
    described = {"fingerprint": fingerprint, "state": json.dumps(vars(state))}
    write_atomically(path, save(tensors, metadata=described))


def _resume(
    path: Path,
    fingerprint: str,
    held: dict[str, _Held],
    average: list[Tensor],
    best: list[Tensor],
) -> _State:
    advice = f"delete {path} or choose another checkpoint_dir"
    try:
        with safe_open(path, framework="pt") as file:
            described: dict[str, Any] = file.metadata() or {}
            if described.get("fingerprint") != fingerprint:
                raise CheckpointError(f"the checkpoint {path} is of another fit (data or settings differ): {advice}")
            parts: dict[str, dict[str, Tensor]] = {name: {} for name in held}
            for key in file.keys():  # noqa: SIM118
                part, _, name = key.partition("/")
                parts[name][part] = file.get_tensor(key)
            for (name, each), mean, good in zip(held.items(), average, best, strict=True):
                _assign((each.weight, mean, good), [parts[name].pop(part) for part in ("weight", "average", "best")])
                moments = {part: tensor.to(each.weight.device) for part, tensor in parts[name].items()}
                each.optimiser.state[each.weight] = moments
            return _State(**json.loads(described["state"]))
    except (SafetensorError, KeyError) as error:
        raise CheckpointError(f"the checkpoint {path} is damaged ({error}): {advice}") from error
