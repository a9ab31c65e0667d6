"""Gaussian diffusion: DDPM (Ho, Jain and Abbeel 2020), the paper's baseline, on columns of zero mean and unit variance.

z_t = α_t x_0 + σ_t ε, with α_t² + σ_t² = 1 and ε ~ N(0, 1), and x̂(z_t, t) is the network's mean of x_0 given z_t. α_t is DDPM's
√ᾱ_t: the schedule's α is the signal's share of the amplitude.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from countjump.laws import Family, Product, Streams
from countjump.processes.base import Process
from countjump.schedules import LinearBeta, Schedule

FIRST = 0.001  # the smallest time to train on: DDPM's first step of a thousand


@dataclass(frozen=True, eq=False)
class Normal(Family):
    """p(z) = exp(−(z − loc)²/2 scale²) / √(2π) scale; an atom at ``loc`` where the scale is zero.

    >>> Normal(torch.zeros(1), torch.ones(1)).log_prob(torch.zeros(1))
    tensor([-0.9189])
    """

    loc: Tensor
    scale: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        loc, scale = torch.broadcast_tensors(self.loc, self.scale)
        return loc + scale * torch.randn(loc.shape, dtype=loc.dtype, device=loc.device, generator=generator)

    def log_prob(self, value: Tensor) -> Tensor:
        atom = self.scale == 0
        scale = torch.where(atom, 1.0, self.scale)
        density = -(((value - self.loc) / scale) ** 2) / 2 - scale.log() - math.log(2 * math.pi) / 2
        return torch.where(atom, torch.where(value == self.loc, 0.0, -torch.inf).to(density), density)

    @property
    def mean(self) -> Tensor:
        return self.loc


@dataclass(frozen=True)
class CosineAmplitude(Schedule):
    """α(t) = cos(πt/2), σ(t) = sin(πt/2): the cosine schedule ᾱ = cos²(πt/2) of Nichol and Dhariwal (2021).

    >>> CosineAmplitude().alpha(torch.tensor([0.0, 0.5, 1.0])) ** 2
    tensor([1.0000, 0.5000, 0.0000], dtype=torch.float64)
    """

    def interior(self, t: Tensor) -> Tensor:
        return torch.cos(t.double() * (math.pi / 2))

    def time(self, alpha: float) -> float:
        return 2 / math.pi * math.acos(alpha)


AMPLITUDES: dict[str, Schedule] = {"linear-beta": LinearBeta(1e-4, 0.02, 1000), "cosine": CosineAmplitude()}
"""DDPM's schedule (β from 10⁻⁴ to 0.02 in a thousand steps) and its best-known successor."""


class MeanBlock(nn.Module):
    """x̂ = α z − σ v̂, so that ε̂ = σ z + α v̂, where v̂ is the network's (Salimans and Ho 2022).

    A network that answers zero is the best linear denoiser, and x̂ is finite at t = 1 too, where ε̂ says nothing of x_0.
    """

    sparse_inputs = False

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.inputs = self.outputs = columns

    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        return z.float()

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Tensor:
        return alpha * z - (1 - alpha**2).sqrt() * output.double()


class GaussianDiffusion(Process):
    """q(z_t given x_0) = N(α_t x_0, 1 − α_t²), reversed by q(z_s given z_t, x_0 = x̂), the prediction x̂ being clipped to
    [low, high], the range of each column's data.

    ``noise`` is the η of DDIM (Song, Meng and Ermon 2021): a step keeps its marginals for any η, with 1 it is DDPM's ancestral
    step, and with 0 it draws nothing.

    >>> process = GaussianDiffusion(torch.tensor([-2.0]), torch.tensor([2.0]), CosineAmplitude())
    >>> process.marginal(torch.tensor([[1.0]]), torch.tensor([[0.5]])).mean
    tensor([[0.7071]], dtype=torch.float64)
    """

    discrete = False

    def __init__(self, low: Tensor, high: Tensor, schedule: Schedule, noise: float = 1.0) -> None:
        self.low, self.high, self.schedule, self.noise = low.double(), high.double(), schedule, noise

    def prior(self, rows: int, streams: Streams, device: torch.device | str) -> Tensor:
        """N(0, 1): exactly the law at t = 1, where α = 0."""
        zero = torch.zeros(rows, len(self.low), dtype=torch.float64, device=device)
        return Product(Normal(zero, torch.ones_like(zero))).draw(streams)

    def marginal(self, x: Tensor, t: Tensor) -> Product:
        alpha = self.schedule.alpha(t)
        return Product(Normal(alpha * x, (1 - alpha**2).sqrt()))

    def posterior(self, z: Tensor, x: Tensor, s: Tensor, t: Tensor) -> Product:
        """Normal, an atom at x_0 for s = 0 (DDPM's equations 6 and 7, for any s < t; DDIM's equation 12 for any η).

        α_s x_0 + √(σ_s² − v) ε, where ε = (z_t − α_t x_0)/σ_t, and v = η² σ_s² (1 − α_t²/α_s²)/σ_t² is its variance.
        """
        alpha_s, alpha_t = self.schedule.alpha(s), self.schedule.alpha(t)
        variance_s, variance_t, added = 1 - alpha_s**2, 1 - alpha_t**2, 1 - (alpha_t / alpha_s) ** 2
        variance = self.noise**2 * variance_s * added / variance_t
        kept = ((variance_s - variance).clamp(min=0) / variance_t).sqrt()
        return Product(Normal(alpha_s * x + kept * (z - alpha_t * x), variance.sqrt()))

    def loss(self, x: Tensor, z: Tensor, t: Tensor, prediction: Tensor, generator: torch.Generator) -> Tensor:
        """DDPM's simple loss ‖ε − ε̂‖² = (α_t/σ_t)² ‖x_0 − x̂‖² (equation 14), per column."""
        alpha = self.schedule.alpha(t)
        return (alpha**2 / (1 - alpha**2) * (x - prediction) ** 2).mean(-1)

    def reverse(self, z: Tensor, prediction: Tensor, s: Tensor, t: Tensor) -> Product:
        return self.posterior(z, prediction.clamp(self.low.to(z.device), self.high.to(z.device)), s, t)

    def draw_times(self, count: int, generator: torch.Generator) -> Tensor:
        return FIRST + (1 - FIRST) * super().draw_times(count, generator)

    no_likelihood = (
        "DDPM has no score: its last step is a point mass, so that its bound on ln p(x) is minus infinity on real data. "
        "Compare samples instead (W1), or score with JumpModel or D3PM"
    )

    def why_no_likelihood(self) -> str | None:
        return self.no_likelihood
