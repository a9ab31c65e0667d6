"""The sampler's loop: a generator of steps, equal states evaluated once, rows in fixed blocks with one seed each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from countjump.bags import Bags
from countjump.processes.base import Denoise, Prediction, Process, State, Step, distinct_rows


def seeded(device: torch.device | str, *entropy: int) -> torch.Generator:
    """A generator that depends on the given integers alone.

    >>> torch.rand(1, generator=seeded("cpu", 1, 2)) == torch.rand(1, generator=seeded("cpu", 1, 2))
    tensor([True])
    """
    # Without the length, trailing zeros would not count: (1,) and (1, 0) would be one stream.
    state = np.random.SeedSequence((len(entropy), *entropy)).generate_state(1, np.uint64)[0]
    return torch.Generator(device=device).manual_seed(int(state >> np.uint64(1)))


def once(denoise: Denoise) -> Denoise:
    """A denoiser for one common time that evaluates equal states once."""

    def evaluate(z: State, times: Tensor, index: Tensor) -> Prediction:
        first, kind = distinct_rows(z)
        if len(first) > 0.9 * len(z):
            return denoise(z, times, index)
        some = z.rows(first) if isinstance(z, Bags) else z[first]
        return denoise(some, times, index[first]).rows(kind)

    return evaluate


@torch.no_grad()
def chain(process: Process, denoise: Denoise, rows: int, times: Tensor, generator: torch.Generator) -> Iterator[Step]:
    """The steps of a chain down the given times; the last one is at time 0, with the step before it as prediction."""
    evaluate = once(denoise) if process.discrete else denoise
    z = process.prior(rows, generator)
    times = times.to(z.device)
    index = torch.zeros(rows, dtype=torch.long, device=z.device)
    step = None
    for t, s in itertools.pairwise(times):
        step = Step(z, evaluate(z, t[None], index), t[None, None])
        yield step
        z = process.step(z, step.prediction, step.t, s[None, None], generator)
    yield Step(z, step, times[-1:, None])


@torch.no_grad()
def sample_block(process: Process, denoise: Denoise, rows: int, times: Tensor, generator: torch.Generator) -> State:
    """One block of data rows (rows, D), before the domain projects them."""
    for step in chain(process, denoise, rows, times, generator):
        last = step
    evaluate = once(denoise) if process.discrete else denoise
    return process.finish(last.z, last.prediction, evaluate, generator)
