"""The sampler's loop: a generator of steps from the prior or from a given state, equal states evaluated once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from countjump.blocks.base import ChainStep
from countjump.denoiser import condition_key, time_key
from countjump.laws import Indexed, Streams
from countjump.processes.base import Denoise, Process
from countjump.states import distinct, mixed

ALIKE = 0.9  # the share of distinct states from which on all are evaluated


def seeded(device: torch.device | str, *entropy: int) -> torch.Generator:
    """A generator that depends on the given integers alone.

    >>> torch.rand(1, generator=seeded("cpu", 1, 2)) == torch.rand(1, generator=seeded("cpu", 1, 2))
    tensor([True])
    """
    # Without the length, trailing zeros would not count: (1,) and (1, 0) would be one stream.
    state = np.random.SeedSequence((len(entropy), *entropy)).generate_state(1, np.uint64)[0]
    return torch.Generator(device=device).manual_seed(int(state >> np.uint64(1)))


@torch.no_grad()
def chain(
    process: Process,
    denoise: Denoise,
    z: Any,
    times: Tensor,
    streams: Streams,
    condition: Tensor | None = None,
) -> Iterator[ChainStep]:
    """The steps of a chain from the state z at the first of the ``times`` down to the last: (steps + 1,), or (steps + 1, B) where
    every row has times of its own.

    A step holds what was predicted there; the last one holds the step before it.
    """
    times = (times if times.dim() > 1 else times[:, None]).to(z.device)
    step = None
    for t, s in itertools.pairwise(times):
        states, some, group, here, there = z, condition, None, t, s
        if process.discrete and len(z):
            key = condition_key(z, condition)
            first, alike = distinct(mixed(key, time_key(t)) if len(t) > 1 else key)
            if len(first) <= ALIKE * len(z):
                states, some, group = z[first], None if condition is None else condition[first], alike
                here, there = (each[first] if len(each) > 1 else each for each in (t, s))
        prediction = denoise(states, here, some)
        step = ChainStep(z, prediction, t, group)
        yield step
        law = process.reverse(states, prediction, there[:, None], here[:, None])
        z = (law if group is None else Indexed(law, group)).draw(streams)
    yield ChainStep(z, step, times[-1])


@torch.no_grad()
def sample_rows(
    process: Process,
    denoise: Denoise,
    times: Tensor,
    streams: Streams,
    device: torch.device | str = "cpu",
    condition: Tensor | None = None,
) -> Any:
    """Data rows from the prior, as many as the streams have, before they are written as a matrix."""
    z = process.prior(len(streams) * streams.rows, streams, device)
    for step in chain(process, denoise, z, times, streams, condition):
        last = step
    return process.finish(last.z, last.prediction, partial(denoise, condition=condition), streams)


@torch.no_grad()
def complete_rows(
    process: Any,
    denoise: Denoise,
    times: Tensor,
    streams: Streams,
    x: Any,
    known: Tensor,
    condition: Tensor | None = None,
) -> Any:
    """Data rows given what is ``known`` (B, knowables) of x: it is at its own time 0 all along, and the rest comes from the prior.

    Where x is not known it is not looked at, but must be finite; what comes out where it is known is not x, and not to be used.
    """
    whole = process.block.shown(x)
    z = process.block.hold(process.prior(len(known), streams, known.device), whole, known)
    for t, s in itertools.pairwise(times.to(known.device)[:, None]):
        step = ChainStep(z, denoise(z, t, condition, known), t)
        z = process.reverse(z, step.prediction, s[None], t[None]).draw(streams)
        z = process.block.hold(z, whole, known)
    return process.finish(z, step, partial(denoise, condition=condition, known=known), streams)
