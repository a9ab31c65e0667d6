"""Fitting: a block's own stages of training, and the network's, which is to believe in what is missing at random times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from countjump.blocks.base import Stage, Training
from countjump.data import Pictures, Rows
from countjump.fitted import Fitted
from countjump.laws import Streams
from countjump.parameters import default_batch_size, default_dropout, default_steps, default_updates
from countjump.planning import WIDE
from countjump.progress import Progress
from countjump.sampling import sample_rows, seeded
from countjump.states import as_matrix
from countjump.training import Settings, run

TIMES_PER_BATCH = 32  # distinct times in a training batch: the time embedding is computed once for each

LARGE_PICTURE, PICTURE_RATES, PICTURE_DECAY = 32, (2e-3, 2e-4), 1e-3
"""Pixels a side from which on pictures are trained as in the paper's appendix A, with batches of 128; the learning rates below and
from there on; and the decay of the weights."""

SPARSE_DECAY = 1.0  # of the weights of wide sparse models: they have more of them than rows have taught
MATCHES, MATCHED_ROWS, MOST_COMPARED = 4, 1000, 10_000
"""Times that chains are drawn to match margins, the rows of each, and rows of the data that these are compared with at most."""

MOST_HELD_OUT = 10_000  # rows that are held out at most
DROPPED = 0.1  # the share of the rows whose condition is dropped, so that rows without one are learned too


@dataclass(frozen=True)
class Task:
    """What the denoiser of a model learns, on rows that are named by their numbers; all that is random comes from the generator."""

    model: Fitted
    rows: Rows
    conditions: Tensor | None
    flipped: Pictures | None
    """Pictures of which half are seen from right to left."""

    def condition(self, index: np.ndarray, generator: torch.Generator, learning: bool) -> Tensor | None:
        """The conditions of the rows, of which some are dropped to learn without."""
        if self.conditions is None:
            return None
        device = self.model.device_
        dropped = torch.rand(len(index), 1, device=device, generator=generator) < DROPPED * learning
        return self.conditions[torch.from_numpy(index).to(device)].masked_fill(dropped, torch.nan)

    def believe(self, index: np.ndarray, generator: torch.Generator, learning: bool = False) -> tuple[Any, ...]:
        """The prediction at random times, x_0, z_t, t (B, 1), and what was known of x_0, if some of it was."""
        model, device = self.model, self.model.device_
        process, denoiser, block = model.process_, model.denoiser_, model.block_
        taken, shown = self.rows.take(index), index
        if learning and self.flipped is not None:
            which = (torch.rand(len(index), device=device, generator=generator) < 0.5).cpu().numpy()
            taken = self.flipped.flipped(taken, which)
            if model.clusters_ is not None:  # those of pictures that are turned round come after the others
                shown = index + self.rows.count * which
        x = process.subsample(block.read(taken).to(device), learning, generator)
        condition = self.condition(shown, generator, learning)
        some = process.draw_known(len(x), generator) if learning else None
        if some is not None:  # these come again, with a part of their columns known
            again = torch.randperm(len(x), device=device, generator=generator)[: len(some)]
            again = torch.cat([torch.arange(len(x), device=device), again])
            some = torch.cat([some.new_zeros(len(x), some.shape[1]), some])
            x, condition = x[again], None if condition is None else condition[again]
            if condition is not None and model.clusters_ is not None:
                condition[len(index) :] = torch.nan  # where something is known, the cluster is not
        times = process.draw_times(min(TIMES_PER_BATCH, max(len(x), 2)), generator)
        # Rows arrive in strata: a random start gives every time a fair share of each.
        start = torch.randint(len(times), (1,), device=device, generator=generator)
        t = times[(torch.arange(len(x), device=device) + start) % len(times)]
        z = process.marginal(x, t[:, None]).sample(generator)
        if some is None:
            return denoiser(z, t, condition), x, z, t[:, None]
        z = block.hold(z, block.shown(x), some)
        return denoiser(z, t, condition, known=some), x, z, t[:, None], some

    def loss(self, index: np.ndarray, generator: torch.Generator, learning: bool = True) -> Tensor:
        """The mean over the rows."""
        prediction, x, z, t, *known = self.believe(index, generator, learning)
        return self.model.process_.loss(x, z, t, prediction, generator, *known).mean()

    @torch.no_grad()
    def validation(self, kept: np.ndarray, at_once: int) -> float:
        """The loss of rows that are held out, so many at a time."""
        parts, seed = np.array_split(kept, -(-len(kept) // at_once)), self.model.seed_
        generators = [seeded(self.model.device_, seed, 2, i) for i in range(len(parts))]
        losses = [float(self.loss(*each, learning=False)) for each in zip(parts, generators, strict=True)]
        return float(np.average(losses, weights=[len(part) for part in parts]))


def train(
    model: Fitted, rows: Rows, conditions: Tensor | None, params: dict[str, Any], identity: str
) -> list[dict[str, float]]:
    """Train a model's denoiser and what its block learns apart, and return the history of the network's losses.

    ``params`` are the estimator's as plain values, and ``identity`` says what decides the fit. Callbacks are called with the model.
    """
    process, denoiser, block, seed = model.process_, model.denoiser_, model.block_, model.seed_
    pictures = model.layout_ if isinstance(model.layout_, Pictures) else None
    shuffled = np.random.default_rng([seed, 1]).permutation(rows.count)
    held_out = min(int(rows.count * params["validation_fraction"]), MOST_HELD_OUT)
    kept, training = shuffled[:held_out], shuffled[held_out:]
    batch_size, rate, decay = default_batch_size(rows.count, block.varying), 1e-3, 0.0
    if pictures is not None:
        large = max(pictures.shape[:2]) >= LARGE_PICTURE
        batch_size, rate, decay = 128 if large else 64, PICTURE_RATES[large], PICTURE_DECAY
    elif block.sparse:
        decay = SPARSE_DECAY
    elif block.varying >= WIDE:
        rate = 3e-3
    batch_size = params["batch_size"] or batch_size
    updates = params["max_updates"] or default_updates(rows.count, block.varying, block.sparse)
    if hasattr(denoiser.network, "drop"):
        denoiser.network.drop(default_dropout(rows.count, block.varying))
    if denoiser.linear is not None:
        counts = block.encode(block.read(rows.take(training)).to(model.device_)).sample(seeded(model.device_, seed, 3))
        denoiser.linear.learn(as_matrix(counts))

    def report(record: dict[str, float]) -> None:
        """A callback may draw samples; what it draws has no part in training, whose random numbers are those of the update."""
        denoiser.eval()
        for callback in params["callbacks"]:
            callback(record["update"], {k: v for k, v in record.items() if k != "update"}, model)
        denoiser.train()

    task = Task(model, rows, conditions, pictures if params["augment"] else None)
    t_max = getattr(process, "t_max", None)
    context = Training(rows, model.device_, process.schedule, t_max, task.believe, task.condition)
    stages = block.stages(context, training, kept, updates)
    apart = {parameter for stage in stages for parameter in stage.parameters}
    network = Stage(
        name="network",
        parameters=[weight for weight in denoiser.parameters() if weight not in apart],
        loss=task.loss,
        rows=training,
        updates=updates,
        batch_size=batch_size,
        learning_rate=params["learning_rate"] or rate,
        weight_decay=decay,
        lr_schedule=params["lr_schedule"],
        ema=params["ema"],
        validation=(lambda: task.validation(kept, 4 * batch_size)) if held_out else None,
        strata=rows.totals()[training],
        accumulate=params["accumulate"],
    )
    before, after = ([stage for stage in stages if stage.after == late] for late in (False, True))
    directory = None if params["checkpoint_dir"] is None else Path(params["checkpoint_dir"])
    settings = Settings(
        seed=seed,
        checkpoint=None if directory is None else directory / "checkpoint.safetensors",
        checkpoint_every=params["checkpoint_every"],
        fingerprint=identity,
        progress=bool(params["progress"]),
        report=report if params["callbacks"] else None,
    )
    denoiser.train()
    history = run(denoiser, [*before, network, *after], settings)["network"]
    denoiser.eval()
    if block.matches_margins and block.varying > 1:  # the chain of one column does not go astray
        match_margins(model, rows, conditions, bool(params["progress"]))
    return history


@torch.no_grad()
def match_margins(model: Fitted, rows: Rows, conditions: Tensor | None, progress: bool) -> None:
    """Draw chains, and let the block learn from what their margins lack, a few times.

    A chain errs a little in every step, and where a network has learned from few rows the errors add up.
    """
    process, block, device, seed = model.process_, model.block_, model.device_, model.seed_
    some = np.random.default_rng([seed, 2]).permutation(rows.count)[:MOST_COMPARED]
    held, times = block.read(rows.take(np.sort(some))).to(device), process.grid(default_steps(block.varying))
    with Progress("matching margins", MATCHES, "turns", progress) as shown:
        for turn in range(MATCHES):
            generator = seeded(device, seed, 4, turn)
            of_rows = torch.randint(rows.count, (MATCHED_ROWS,), generator=generator, device=device)
            condition = None if conditions is None else conditions[of_rows]
            streams = Streams([generator], MATCHED_ROWS)
            block.match_margins(sample_rows(process, model.denoiser_, times, streams, device, condition), held)
            shown.advance()
