"""Categorical diffusion: D3PM (Austin et al. 2021), the paper's other baseline, over the states 0 … K − 1 of every column.

z_t            x_0 carried by Q_t|0
p̃(z_t, t)      the network's weights of the states x_0
z_s, s < t     drawn from p(z_s given z_t) ∝ Σ_x p̃(x) q(z_s given x) q(z_t given z_s) (D3PM's equation 4)

Both transitions share the cosines c_k(x) = cos(πk(2x + 1)/2K) as eigenvectors, so that products of transitions are in closed
form: Q_t|s has the eigenvalues (α_t/α_s)^rate_k with rate_0 = 0, rate_1 = 1. Time is continuous, any grid of steps is exact, and
no K × K matrix is made per time or per entry.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from countjump.laws import Law, Product, draw_category
from countjump.processes.base import Denoise, Process, Step
from countjump.schedules import Schedule

ENTRIES = 2**22
"""Probabilities held at once while sampling and scoring."""

_TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Categorical(Law):
    """P(k) = softmax(logits)_k for the states k = 0 … K − 1 along the last axis.

    Tables over K states are large, so that :meth:`rows` copies none: row i has the logits of ``kind`` i.

    >>> law = Categorical(torch.tensor([[0.0, -torch.inf, 0.0]]))
    >>> law.log_prob(torch.tensor([2.0])), law.mean
    (tensor([-0.6931]), tensor([1.]))
    """

    logits: Tensor
    kind: Tensor | None = None

    @property
    def each(self) -> Tensor:
        """The logits of every row."""
        return self.logits if self.kind is None else self.logits[self.kind]

    def rows(self, index: Tensor) -> Categorical:
        """See :meth:`Law.rows`."""
        if self.kind is not None:
            return Categorical(self.logits, self.kind[index])
        return Categorical(self.logits, index if len(self.logits) > 1 else torch.zeros_like(index))

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw states."""
        return draw_category(self.each, generator).double()

    def log_prob(self, value: Tensor) -> Tensor:
        """Minus infinity for a state that cannot be."""
        return self.each.log_softmax(-1).take_along_dim(value.long()[..., None], -1).squeeze(-1)

    @property
    def mean(self) -> Tensor:
        """Σ_k k P(k)."""
        states = torch.arange(self.logits.shape[-1], dtype=self.logits.dtype, device=self.logits.device)
        mean = self.logits.softmax(-1) @ states
        return mean if self.kind is None else mean[self.kind]


class Transition(ABC):
    """Symmetric transitions between K states that leave the share α of the slowest mode, and at α = 0 the uniform law."""

    def __init__(self, states: int) -> None:
        self.states = states

    @abstractmethod
    def carry(self, p: Tensor, alpha: Tensor) -> Tensor:
        """The law p (…, K) of the state, carried on until α (…, 1) is left: p Q; exactly p where α = 1."""

    def reach(self, z: Tensor, alpha: Tensor) -> Tensor:
        """The probability of every state after ``z`` (…,), or before it, Q being symmetric."""
        return self.carry(functional.one_hot(z.long(), self.states).double(), alpha)


class Uniform(Transition):
    """Q = α I + (1 − α) 11ᵀ/K: the state is kept, or drawn anew from all (D3PM's appendix A.2.1).

    >>> Uniform(4).reach(torch.tensor([0]), torch.tensor([[0.6]]))
    tensor([[0.7000, 0.1000, 0.1000, 0.1000]], dtype=torch.float64)
    """

    def carry(self, p: Tensor, alpha: Tensor) -> Tensor:
        """α p + (1 − α) |p|/K."""
        return alpha * p + (1 - alpha) * p.sum(-1, keepdim=True) / self.states

    def reach(self, z: Tensor, alpha: Tensor) -> Tensor:
        """α at z, and (1 − α)/K everywhere."""
        alpha = alpha.double()
        everywhere = ((1 - alpha) / self.states).expand(*z.shape, self.states).clone()
        return everywhere.scatter_add_(-1, z.long()[..., None], alpha.expand(*z.shape, 1))


class DiscreteGaussian(Transition):
    """Q = Σ_k c_k c_kᵀ α^rate_k, rate_k = (1 − cos(πk/K))/(1 − cos(π/K)): a random walk between neighbours, reflected at the ends.

    Its kernel is the discrete analogue of the Gaussian that is closed under composition, and what D3PM's discretised Gaussian
    (appendix A.2.3) becomes as its steps shrink; with few states that one hardly moves, and this one does.

    >>> DiscreteGaussian(4).reach(torch.tensor([0]), torch.tensor([[0.5]]))
    tensor([[0.4881, 0.3118, 0.1413, 0.0588]], dtype=torch.float64)
    """

    def __init__(self, states: int) -> None:
        super().__init__(states)
        k = torch.arange(states, dtype=torch.float64)
        cosines = torch.cos(math.pi / states * torch.outer(k + 0.5, k))
        self.modes = cosines / cosines.norm(dim=0)
        self.rates = (1 - torch.cos(math.pi / states * k)) / (1 - math.cos(math.pi / states))

    def carry(self, p: Tensor, alpha: Tensor) -> Tensor:
        """To the modes and back; the walk reaches every state, so that what rounds below zero is tiny."""
        modes, rates = self.modes.to(p.device), self.rates.to(p.device)
        carried = (((p @ modes) * alpha**rates) @ modes.T).clamp(min=_TINY)
        return torch.where(alpha == 1, p, carried)


TRANSITIONS: dict[str, type[Transition]] = {"uniform": Uniform, "gaussian": DiscreteGaussian}


class StateHead(nn.Module):
    """ln p̃(x) = ln P(x) + the network's answer, P the frequency of every state of every column (D, K).

    A network that answers zero is right for independent columns. The network sees each state one-hot and as a number.
    """

    sparse = True
    log_frequency: Tensor

    def __init__(self, log_frequency: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_frequency", log_frequency.float(), persistent=False)
        columns, self.states = log_frequency.shape
        self.inputs, self.outputs = columns * (self.states + 1), columns * self.states

    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        """One-hot, and z from −1 to 1."""
        one_hot = torch.zeros(*z.shape, self.states, device=z.device).scatter_(-1, z.long()[..., None], 1.0)
        return torch.cat([one_hot.flatten(1), (2 * z / (self.states - 1) - 1).float()], -1)

    def forward(self, output: Tensor, z: Tensor, alpha: Tensor) -> Product:
        """The weights p̃ of every column, as a law."""
        return Product(Categorical(self.log_frequency + output.reshape(len(output), -1, self.states)))


class CategoricalDiffusion(Process):
    """q(z_t given x_0) = Q_t|0(x_0, z_t), columns apart, reversed by Σ_x p̃(x) q(z_s given x) q(z_t given z_s).

    What is believed of x_0 is p̂(x) ∝ p̃(x) q(z_t given x), with which that step is Σ_x p̂(x) q(z_s given z_t, x).

    >>> from countjump.schedules import Cosine
    >>> process = CategoricalDiffusion(1, Uniform(4), Cosine())
    >>> process.marginal(torch.tensor([[0.0]]), torch.tensor([[0.5]])).mean
    tensor([[0.7500]], dtype=torch.float64)
    """

    discrete = True

    def __init__(self, columns: int, transition: Transition, schedule: Schedule) -> None:
        self.columns, self.transition, self.schedule = columns, transition, schedule

    def prior(self, rows: int, generator: torch.Generator) -> Tensor:
        """Uniform: exactly the law at t = 1, where α = 0."""
        shape, device = (rows, self.columns), generator.device
        return torch.randint(self.transition.states, shape, device=device, generator=generator).double()

    def marginal(self, x: Tensor, t: Tensor) -> Product:
        """Q_t|0(x_0, ·)."""
        return _normalised(self.transition.reach(x, self._kept(t)))

    def corrupt(self, x: Tensor, t: Tensor, generator: torch.Generator) -> Tensor:
        """Draw from :meth:`marginal`."""
        height = torch.rand(x.shape, dtype=torch.float64, device=x.device, generator=generator)
        cumulative = self.transition.reach(x, self._kept(t)).cumsum(-1)
        return _climb(cumulative, torch.arange(len(x), device=x.device), height).double()

    def posterior(self, z: Tensor, x: Tensor, s: Tensor, t: Tensor) -> Product:
        """Q_s|0(x_0, ·) Q_t|s(·, z_t), normalised (D3PM's equation 3)."""
        return _normalised(self.transition.reach(x, self._kept(s)) * self.transition.reach(z, self._kept(t, s)))

    def backward(self, z: Tensor, prediction: Product, s: Tensor, t: Tensor) -> Product:
        """p(z_s given z_t) ∝ (p̃ Q_s|0)(·) Q_t|s(·, z_t); at s = 0, what is believed of x_0."""
        return _normalised(self._weigh(z, prediction, s, t))

    def divergence(self, z: Tensor, x: Tensor, prediction: Product, s: Tensor, t: Tensor) -> Tensor:
        """KL(q(z_s given z_t, x_0) ‖ p(z_s given z_t)), one number per row; at s = 0 it is −ln p(x_0 given z_t)."""
        q, p = self.posterior(z, x, s, t), self.backward(z, prediction, s, t)
        log_q, log_p = (law.entries.logits.log_softmax(-1) for law in (q, p))  # type: ignore[attr-defined]
        return torch.where(log_q > -torch.inf, log_q.exp() * (log_q - log_p), 0.0).flatten(1).sum(1)

    def loss(self, x: Tensor, z: Tensor, t: Tensor, prediction: Product, generator: torch.Generator) -> Tensor:
        """−ln p̂(x_0), per column: it bounds the divergence of every step's law from its posterior, whatever s."""
        log_weights = prediction.entries.each  # type: ignore[attr-defined]
        belief = Product(Categorical(log_weights + self.transition.reach(z, self._kept(t)).log()))
        return -belief.log_prob(x) / self.columns

    def step(self, z: Tensor, prediction: Product, t: Tensor, s: Tensor, generator: torch.Generator) -> Tensor:
        """Draw from :meth:`backward`, with one table for all rows that are alike, and some tables at a time."""
        height = torch.rand(z.shape, dtype=torch.float64, device=z.device, generator=generator)
        t, s = t.expand(len(z), 1), s.expand(len(z), 1)
        first, kind = _alike(prediction, torch.cat([z, t, s], 1))
        drawn = torch.empty_like(height)
        size = self.rows_at_once
        for start in range(0, len(first), size):
            some = first[start : start + size]
            mine = slice(None) if len(first) <= size else (kind // size == start // size).nonzero().squeeze(1)
            cumulative = self._weigh(z[some], prediction.rows(some), s[some], t[some]).cumsum(-1)
            drawn[mine] = _climb(cumulative, kind[mine] - start, height[mine]).double()
        return drawn

    def finish(self, z: Tensor, before: Step, denoise: Denoise, generator: torch.Generator) -> Tensor:
        """z_0 is x_0."""
        return z

    def draw_times(self, count: int, generator: torch.Generator) -> Tensor:
        """Evenly strewn over [0, 1]."""
        device = generator.device
        jitter = torch.rand(count, dtype=torch.float64, device=device, generator=generator)
        return (torch.arange(count, device=device) + jitter) / count

    def grid(self, steps: int) -> Tensor:
        """Even steps of t."""
        return self.schedule.grid(steps)

    @property
    def rows_at_once(self) -> int:
        """How many rows' laws are held at once: ENTRIES probabilities."""
        return max(ENTRIES // (self.columns * self.transition.states), 1)

    def _weigh(self, z: Tensor, prediction: Product, s: Tensor, t: Tensor) -> Tensor:
        """What :meth:`backward` normalises."""
        weights = prediction.entries.each.double().softmax(-1)  # type: ignore[attr-defined]
        return self.transition.carry(weights, self._kept(s)) * self.transition.reach(z, self._kept(t, s))

    def _kept(self, t: Tensor, s: Tensor | None = None) -> Tensor:
        """α_t, or α_t/α_s, shaped (B, 1, 1)."""
        alpha = self.schedule.alpha(t)
        return (alpha if s is None else alpha / self.schedule.alpha(s))[..., None]


def _normalised(weights: Tensor) -> Product:
    return Product(Categorical(weights.log()))


def _alike(prediction: Product, given: Tensor) -> tuple[Tensor, Tensor]:
    """A row of each kind that shares one prediction, and the kind of every row; rows of a kind that differ in what is
    ``given`` besides (B, …) make every row its own kind."""
    kind = prediction.entries.kind  # type: ignore[attr-defined]
    every = torch.arange(len(given), device=given.device)
    if kind is None:
        return every, every
    first = every.new_zeros(len(prediction.entries.logits)).scatter_(0, kind, every)  # type: ignore[attr-defined]
    return (first, kind) if torch.equal(given.index_select(0, first[kind]), given) else (every, every)


def _climb(cumulative: Tensor, row: Tensor, height: Tensor) -> Tensor:
    """The state whose share of the cumulative weights (U, D, K) of its row (B,) holds the ``height`` (B, D) in [0, 1).

    A binary search: no table is made for every one of the B rows.
    """
    states = cumulative.shape[2]
    powers = (states - 1).bit_length()
    table = functional.pad(cumulative[..., :-1], (0, 2**powers - states + 1), value=torch.inf)
    start = torch.arange(0, table.numel(), 2**powers, device=row.device).reshape(table.shape[:2])[row]
    height = height * cumulative[..., -1][row]
    place = start.clone()
    for power in reversed(range(powers)):
        place += (table.take(place + (2**power - 1)) <= height).long() << power
    return place - start
