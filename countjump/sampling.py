"""The sampler's loop: a generator of steps from the prior or from a given state, equal states evaluated once; and the streams of
random numbers that a request takes."""

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
from countjump.laws.base import draw_category
from countjump.processes.base import Denoise, Process
from countjump.samplers import Sampler
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


def stream_groups(
    rows: int, size: int, together: int, given: np.ndarray | None
) -> tuple[list[tuple[np.ndarray, np.ndarray | None, np.ndarray]], np.ndarray | None]:
    """The streams, of ``size`` rows each, that so many rows take, in groups that are drawn ``together``; and the rows' places among
    those that are wanted of these groups, None where they are in order.

    A group is the numbers of its streams, their rows of y where these are ``given``, and which of its rows are wanted. A stream is
    drawn under one y. If its rows have several, it is drawn once for each: a row does not feel the others' y.

    >>> stream_groups(3, 2, 2, None)
    ([(array([0, 1]), None, array([0, 1, 2]))], None)
    """
    stream, place = np.divmod(np.arange(rows), size)
    drawn, which = np.unique(stream)[:, None], stream
    if given is not None:
        drawn, which = np.unique(np.column_stack([stream, given]), axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    wanted = (which.ravel() * size + place)[order]
    groups = []
    for start in range(0, len(drawn), together):
        some, first = drawn[start : start + together], start * size
        mine = wanted[slice(*np.searchsorted(wanted, [first, first + together * size]))] - first
        groups.append((some[:, 0], None if given is None else some[:, 1:], mine))
    return groups, np.argsort(order) if (order[1:] < order[:-1]).any() else None


@torch.no_grad()
def chain(
    process: Process,
    denoise: Denoise,
    z: Any,
    times: Tensor,
    streams: Streams,
    condition: Tensor | None = None,
    sampler: Sampler | None = None,
) -> Iterator[ChainStep]:
    """The steps of a chain from the state z at the first of the ``times`` down to the last: (steps + 1,), or (steps + 1, B) where
    every row has times of its own.

    A step holds what was predicted there; the last one holds the step before it. A ``sampler`` other than the plain one needs times
    that all rows have in common.
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
        if sampler is not None:
            z = sampler(process, denoise, step, s, condition, streams)
            continue
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
    sampler: Sampler | None = None,
) -> Any:
    """Data rows from the prior, as many as the streams have, before they are written as a matrix."""
    z = process.prior(len(streams) * streams.rows, streams, device)
    for step in chain(process, denoise, z, times, streams, condition, sampler):
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


@torch.no_grad()
def complete_by_particles(
    process: Any,
    denoise: Denoise,
    times: Tensor,
    generator: torch.Generator,
    x: Any,
    known: Tensor,
    partly: Any,
    particles: int,
    condition: Tensor | None = None,
) -> Any:
    """As :func:`complete_rows`, also where the network has not learned what it is like that something is known, ``partly``.

    Sequential Monte Carlo. What is partly known fills up as q says, one path for a row. Given the path, a row's particles are
    drawn step by step given what came back of it, weighted by its probability, and drawn again by their weights where these differ
    too much. One particle of each row is what comes out. With many particles that has the conditional law.
    """
    block, rows, device = process.block, len(known), known.device
    each = torch.arange(rows, device=device).repeat_interleave(particles)
    first = torch.arange(rows, device=device) * particles
    many = Streams([generator], len(each))
    whole, held, some = block.shown(x)[each], known[each], take(partly, each)
    condition = None if condition is None else condition[each]
    z = block.hold(process.prior(len(each), many, device), whole, held)
    log_weight = torch.zeros(rows, particles, dtype=torch.float64, device=device)
    for t, s in itertools.pairwise(times.to(device)[:, None]):
        step = ChainStep(z, denoise(z, t, condition, held), t)
        reveal = process.schedule.reveal(s[None], t[None])
        came = take(block.bridge(z[first], x, partly, reveal, generator), each)
        law = process.reverse(z, step.prediction, s[None], t[None])
        z, change = law.draw_given(came, some, many)
        log_weight = log_weight + change.reshape(rows, particles)
        index = _resampled(log_weight, generator)
        if index is not None:
            again = (index != torch.arange(particles, device=device)).any(1)
            log_weight = torch.where(again[:, None], 0.0, log_weight)
            place = (index + first[:, None]).flatten()
            z, step = z[place], ChainStep(step.z[place], step.prediction[place], t)
        z = block.hold(z, whole, held)
    belief = None
    if block.decoding == "draw":
        belief, change = block.belief_given(denoise(z, t.new_zeros(1), condition, held), x[each], some)
        log_weight = log_weight + change.reshape(rows, particles)
    pick = first + draw_category(log_weight, generator)
    before = ChainStep(step.z[pick], step.prediction[pick], step.t)
    alpha = process.schedule.alpha(step.t)[:, None]
    one = Streams([generator], rows)
    return block.decode(z[pick], None if belief is None else belief[pick], before, alpha, one)


def take(what: Any, rows: Tensor) -> Any:
    """Some rows of a state or a mask, or of each of several; of nothing, nothing."""
    if isinstance(what, tuple):
        return tuple(take(each, rows) for each in what)
    return None if what is None else what[rows]


def _resampled(log_weight: Tensor, generator: torch.Generator) -> Tensor | None:
    """Which particle each of a row's (B, P) continues: itself, unless the weights are worth fewer than half of the particles.

    Drawn at even heights from a random one, so that a particle is taken as often as its weight says, up to one.
    """
    weight = log_weight.softmax(-1)
    rows, particles = weight.shape
    own = torch.arange(particles, device=weight.device).expand(rows, -1)
    poor = 1 / (weight**2).sum(-1) < particles / 2
    if not poor.any():
        return None
    start = torch.rand(rows, 1, dtype=torch.float64, device=weight.device, generator=generator)
    index = torch.searchsorted(weight.cumsum(-1), (own + start) / particles).clamp(max=particles - 1)
    return torch.where(poor[:, None], index, own)
