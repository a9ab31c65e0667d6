"""Steps of a chain from t to s: the plain one, which is a draw of ``Process.reverse``, and some for few steps.

A sampler is called as (process, denoise, step, s, condition, streams), where ``step`` holds z_t, t and what was predicted there,
and returns z_s. All keep counts; what each of them is exact for is said where it is defined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from countjump.blocks.base import ChainStep
from countjump.laws import Binomial, Indexed, Product, Streams
from countjump.processes.base import Denoise

MOST = 4096
"""The largest count of which a low-noise chain keeps the binomial laws."""


class Sampler(Protocol):
    """A step of a chain."""

    def __call__(
        self, process: Any, denoise: Denoise, step: ChainStep, s: Tensor, condition: Tensor | None, streams: Streams
    ) -> Any:
        """z_s, the times t of the ``step`` and s being (1,)."""


@dataclass(frozen=True)
class Plain:
    """A draw of p(z_s given z_t) = z_t + belief.thin(p)."""

    def __call__(
        self, process: Any, denoise: Denoise, step: ChainStep, s: Tensor, condition: Tensor | None, streams: Streams
    ) -> Any:
        """z_s; the states were evaluated apart if the step has groups."""
        first = step.z if step.group is None else step.z[first_of(step.group)]
        law = process.reverse(first, step.prediction, s[:, None], step.t[:, None])
        return (law if step.group is None else Indexed(law, step.group)).draw(streams)


@dataclass(frozen=True)
class LowNoise:
    """z_s is at the same quantile of Bin(x̂, α_s) as z_t is of Bin(x̂, α_t): for thinning what DDIM is for Gaussian noise, which
    keeps the noise that it has and moves the mean. Of the mass at z_t the quantile is drawn at random.

    x̂ is E[x_0 given z_t] and so much (``spread``) of a draw's distance from it, rounded at random. If z_t ~ Bin(x_0, α_t) and
    x̂ = x_0 then z_s ~ Bin(x_0, α_s), exactly. With ``spread`` = 1 that makes chains of one column exact at any number of steps,
    as the plain one is. With the mean (``spread`` = 0) it is an approximation. As steps shrink, units come at the rate
    (x̂ − z_t)/(1 − α_t), which is the plain chain's. In large steps there is less noise, and the spread of x_0 around x̂ is lost.
    The last step draws x_0.
    """

    spread: float = 1.0

    def __call__(
        self, process: Any, denoise: Denoise, step: ChainStep, s: Tensor, condition: Tensor | None, streams: Streams
    ) -> Tensor:
        """z_s, which may have fewer units of a column than z_t."""
        z, block = step.z, process.block
        if not (block.exact and block.flat):
            raise ValueError(
                "sampler='low-noise' needs columns of counts that are thinned themselves: use sampler='plain'"
            )
        alpha_t, alpha_s = process.schedule.alpha(step.t), process.schedule.alpha(s)
        if float(alpha_s) == 1:
            return Plain()(process, denoise, step, s, condition, streams)
        missing = step.prediction.missing
        expected = torch.zeros_like(z)
        if self.spread < 1:  # the mean of some laws is much work
            expected = (1 - self.spread) * (missing.mean if step.group is None else missing.mean[step.group])
        if self.spread:
            drawn = (missing if step.group is None else Indexed(missing, step.group)).draw(streams)
            expected = expected + self.spread * drawn
        row = torch.arange(len(z), device=z.device).repeat_interleave(z.shape[1])
        heights = [streams.uniform(row).reshape(z.shape) for _ in range(2)]
        x = z + (expected + heights[0]).floor().clamp(min=0)
        most = int(x.max())
        if most > MOST:
            raise ValueError(
                f"sampler='low-noise' takes counts up to {MOST}, and one may be {most}: use sampler='plain'"
            )
        return at_quantile(x.long(), z.long(), alpha_t, alpha_s, heights[1]).to(z)


def at_quantile(x: Tensor, z: Tensor, alpha: Tensor, other: Tensor, height: Tensor) -> Tensor:
    """The quantile of Bin(x, ``other``) at which z is one of Bin(x, ``alpha``), the ``height`` saying where in its mass.

    >>> x = torch.tensor([8, 8])
    >>> alpha, other, height = (torch.tensor([each]).double() for each in (0.5, 1.0, 0.5))
    >>> at_quantile(x, torch.tensor([0, 8]), alpha, other, height)
    tensor([8, 8])
    """
    # Of the mass above the median the quantile is counted from the other end, where it has its digits: x − z ~ Bin(x, 1 − α).
    low, end, upto = _lower(x, z, alpha, other)
    upper_low, upper_end, upper_upto = _lower(x, x - z, 1 - alpha, 1 - other)
    level = low + height * (end - low)
    from_above = _place(x, upper_low + (1 - height) * (upper_end - upper_low), upper_upto)
    return torch.where(level <= 0.5, _place(x, level, upto), x - from_above)


def _lower(x: Tensor, z: Tensor, alpha: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P(below z) and P(at most z) by Bin(x, ``alpha``), and the cumulative masses of Bin(n, ``other``), n up to the largest x."""
    counts = torch.arange(int(x.max()) + 1, dtype=torch.float64, device=x.device)
    one, two = (Binomial(counts[:, None], p).log_prob(counts).exp().cumsum(1) for p in (alpha, other))
    return torch.where(z > 0, one[x, (z - 1).clamp(min=0)], 0.0), one[x, z], two


def _place(x: Tensor, level: Tensor, upto: Tensor) -> Tensor:
    """The count at which the cumulative masses of its x pass the level; one search for all, the laws lying one after another."""
    counts = torch.arange(len(upto), dtype=torch.float64, device=x.device)
    flat = (upto.clamp(max=1) + 2 * counts[:, None]).reshape(-1)
    place = torch.searchsorted(flat, level + 2 * x.double(), right=True) - x * len(counts)
    return torch.minimum(place.clamp(min=0), x)


@dataclass(frozen=True)
class Churn:
    """A little is thinned before more is added: Bin(z_t, 1 − σ) + belief.thin(β), β = (α_s − (1 − σ) α_t)/(1 − α_t).

    Given x_0 every unit is there with probability α_s, whatever σ is: it is as exact as the plain chain, which has σ = 0, and takes
    back what was laid wrongly. σ is the ``strength`` times 1 − α_t/α_s, what the step thins forward.
    """

    strength: float = 0.5

    def __call__(
        self, process: Any, denoise: Denoise, step: ChainStep, s: Tensor, condition: Tensor | None, streams: Streams
    ) -> Any:
        """z_s, which may have fewer units of a column than z_t."""
        alpha_t, alpha_s = process.schedule.alpha(step.t)[:, None], process.schedule.alpha(s)[:, None]
        sigma = (self.strength * (1 - alpha_t / alpha_s)).minimum((1 - alpha_s) / alpha_t.clamp(min=1e-300))
        reveal = (alpha_s - (1 - sigma) * alpha_t) / (1 - alpha_t)
        # What is thinned like data is a state: of counts that are thinned themselves the block knows how, whatever their kind.
        whole = (
            process.block.encode(step.z) if process.block.exact else Product(Binomial(step.z, torch.ones_like(step.z)))
        )
        missing = step.prediction.missing.thin(reveal)
        jump = (missing if step.group is None else Indexed(missing, step.group)).draw(streams)
        return whole.thin(1 - sigma).draw(streams) + jump


@dataclass(frozen=True)
class SecondOrder:
    """Two evaluations a step, after the θ-trapezoidal rule (Anderson and Mattingly 2011): a plain step to α* = α_t + θ (α_s −
    α_t), and from there one that expects x̂* + c (x̂* − x̂), c = ((1 − θ)² + θ²)/(2 θ (1 − θ)), in the place of x̂*.

    An approximation: the draw of what is missing is moved by c (x̂* − x̂), rounded at random, and stays from 0 up to the column's
    bound. So what the first part of the step has told is felt by all of it. The last step draws x_0 plainly.
    """

    theta: float = 0.5

    def __call__(
        self, process: Any, denoise: Denoise, step: ChainStep, s: Tensor, condition: Tensor | None, streams: Streams
    ) -> Tensor:
        """z_s."""
        plain, schedule = Plain(), process.schedule
        alpha_t, alpha_s = schedule.alpha(step.t), schedule.alpha(s)
        if float(alpha_s) == 1:
            return plain(process, denoise, step, s, condition, streams)
        if not (process.block.exact and process.block.flat):
            raise ValueError(
                "sampler='second-order' needs columns of counts that are thinned themselves: use sampler='plain'"
            )
        middle = step.t.new_tensor([schedule.time(float(alpha_t + self.theta * (alpha_s - alpha_t)))])
        z = plain(process, denoise, step, middle, condition, streams)
        after = denoise(z, middle, condition).missing
        before = step.prediction.missing.mean if step.group is None else step.prediction.missing.mean[step.group]
        weight = ((1 - self.theta) ** 2 + self.theta**2) / (2 * self.theta * (1 - self.theta))
        moved = after.draw(streams) + weight * (z + after.mean - step.z - before)
        row = torch.arange(len(z), device=z.device).repeat_interleave(z.shape[1])
        left = torch.from_numpy(process.block.upper_bounds()).to(z) - z
        missing = (moved + streams.uniform(row).reshape(z.shape)).floor().clamp(min=0).minimum(left.clamp(min=0))
        return z + Product(Binomial(missing, schedule.reveal(s, middle)[:, None])).draw(streams)


def first_of(group: Tensor) -> Tensor:
    """The number of the first row of every group."""
    order = torch.argsort(group, stable=True)
    changes = torch.cat([group.new_ones(1, dtype=torch.bool), group[order][1:] != group[order][:-1]])
    return order[changes]


SAMPLERS: dict[str, Sampler] = {
    "plain": Plain(),
    "low-noise": LowNoise(),
    "second-order": SecondOrder(),
    "churn": Churn(),
}
"""By name."""


def find_sampler(sampler: Any) -> Sampler:
    """By its name, or one with other numbers.

    >>> find_sampler("churn")
    Churn(strength=0.5)
    """
    if isinstance(sampler, str) and sampler in SAMPLERS:
        return SAMPLERS[sampler]
    if isinstance(sampler, Plain | LowNoise | SecondOrder | Churn):
        return sampler
    raise ValueError(
        f"sampler={sampler!r} is unknown: use one of {', '.join(map(repr, SAMPLERS))}, or an object of countjump.samplers"
    )
