"""Categorical diffusion: D3PM (Austin et al. 2021), the paper's other baseline, over the states 0 … K − 1 of every column.

Both transitions share the cosines c_k(x) = cos(πk(2x + 1)/2K) as eigenvectors, so that products of transitions are in closed
form: Q_t|s has the eigenvalues (α_t/α_s)^rate_k with rate_0 = 0, rate_1 = 1. Time is continuous, any grid of steps is exact, and
no K × K matrix is made per time or per entry.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from countjump.laws import Family, Law, Product, Streams
from countjump.laws.base import draw_category
from countjump.processes.base import Process
from countjump.schedules import Schedule

ENTRIES = 2**22  # probabilities held at once while sampling and scoring

_TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Categorical(Family):
    """P(k) = softmax(logits)_k for the states k = 0 … K − 1 along the last axis.

    >>> law = Categorical(torch.tensor([[0.0, -torch.inf, 0.0]]))
    >>> law.log_prob(torch.tensor([2.0])), law.mean
    (tensor([-0.6931]), tensor([1.]))
    """

    logits: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return draw_category(self.logits, generator).double()

    def log_prob(self, value: Tensor) -> Tensor:
        return self.logits.log_softmax(-1).take_along_dim(value.long()[..., None], -1).squeeze(-1)

    @property
    def mean(self) -> Tensor:
        states = torch.arange(self.logits.shape[-1], dtype=self.logits.dtype, device=self.logits.device)
        return self.logits.softmax(-1) @ states


@dataclass(frozen=True, eq=False)
class States(Law):
    """Independent states of every column, with weights (B, D, K) that are worked out for some rows at a time: tables over K states
    are large. ``make`` has the weights of the rows ``index``."""

    make: Callable[[Tensor], Tensor]
    index: Tensor
    at_once: int

    def _pieces(self) -> Iterator[tuple[Tensor, Tensor]]:
        for some in torch.arange(len(self.index), device=self.index.device).split(self.at_once):
            yield some, self.make(self.index[some])

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.draw(Streams([generator], len(self.index)))

    def draw(self, streams: Streams, index: Tensor | None = None) -> Tensor:
        index = torch.arange(len(self.index), device=self.index.device) if index is None else index
        look: dict[str, Any] = {"dtype": torch.float64, "device": index.device}
        columns = self.make(self.index[:1]).shape[1]
        heights = [torch.rand(len(index[rows]), columns, generator=each, **look) for rows, each in streams]
        return self.at(index, torch.cat(heights))

    def at(self, index: Tensor, height: Tensor) -> Tensor:
        """The states of the rows ``index`` at the heights (B, D) in [0, 1) of their cumulative weights."""
        drawn = torch.empty_like(height)
        for some, weights in self._pieces():
            mine = ((index >= some[0]) & (index <= some[-1])).nonzero().squeeze(1)
            drawn[mine] = _inverse_cdf(weights.cumsum(-1), index[mine] - some[0], height[mine]).double()
        return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.cat([Product(Categorical(w.log())).log_prob(value[some]) for some, w in self._pieces()])

    def kl(self, other: States) -> Tensor:
        """KL(self ‖ other), one number per row."""
        found = []
        for (_, q), (_, p) in zip(self._pieces(), other._pieces(), strict=True):
            log_q, log_p = (weights.log() - weights.sum(-1, keepdim=True).log() for weights in (q, p))
            found.append(torch.where(log_q > -torch.inf, log_q.exp() * (log_q - log_p), 0.0).flatten(1).sum(1))
        return torch.cat(found)

    @property
    def mean(self) -> Tensor:
        return torch.cat([Categorical(weights.log()).mean for _, weights in self._pieces()])


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
        return alpha * p + (1 - alpha) * p.sum(-1, keepdim=True) / self.states

    def reach(self, z: Tensor, alpha: Tensor) -> Tensor:
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
        modes, rates = self.modes.to(p.device), self.rates.to(p.device)
        # The walk reaches every state, so that what rounds below zero is tiny.
        carried = (((p @ modes) * alpha**rates) @ modes.T).clamp(min=_TINY)
        return torch.where(alpha == 1, p, carried)


TRANSITIONS: dict[str, type[Transition]] = {"uniform": Uniform, "gaussian": DiscreteGaussian}


class StateBlock(nn.Module):
    """ln p̃(x) = ln P(x) + the network's answer, P the frequency of every state of every column (D, K).

    A network that answers zero is right for independent columns. The network sees each state one-hot and as a number from −1 to 1;
    with ``numbers`` as a number only, as that of pictures does.
    """

    sparse_inputs = True
    log_frequency: Tensor

    def __init__(self, log_frequency: Tensor, numbers: bool = False) -> None:
        super().__init__()
        self.register_buffer("log_frequency", log_frequency.float(), persistent=False)
        columns, self.states = log_frequency.shape
        self.numbers, self.outputs = numbers, columns * self.states
        self.inputs = columns if numbers else columns * (self.states + 1)

    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        if self.numbers:
            return (2 * z / (self.states - 1) - 1).float()
        one_hot = torch.zeros(*z.shape, self.states, device=z.device).scatter_(-1, z.long()[..., None], 1.0)
        return torch.cat([one_hot.flatten(1), (2 * z / (self.states - 1) - 1).float()], -1)

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Categorical:
        return Categorical(self.log_frequency + output.reshape(len(output), -1, self.states))


class CategoricalDiffusion(Process):
    """q(z_t given x_0) = Q_t|0(x_0, z_t), columns apart, reversed by p(z_s given z_t) ∝ Σ_x p̃(x) q(z_s given x) q(z_t given z_s)
    (D3PM's equation 4), where p̃ are the network's weights of the states x_0.

    What is believed of x_0 is p̂(x) ∝ p̃(x) q(z_t given x), with which that step is Σ_x p̂(x) q(z_s given z_t, x).

    >>> from countjump.schedules import Cosine
    >>> process = CategoricalDiffusion(1, Uniform(4), Cosine())
    >>> process.marginal(torch.tensor([[0.0]]), torch.tensor([[0.5]])).mean
    tensor([[0.7500]], dtype=torch.float64)
    """

    discrete = True

    def __init__(self, columns: int, transition: Transition, schedule: Schedule) -> None:
        self.columns, self.transition, self.schedule = columns, transition, schedule

    def prior(self, rows: int, streams: Streams, device: torch.device | str) -> Tensor:
        """Uniform: exactly the law at t = 1, where α = 0."""
        shape, states = (streams.rows, self.columns), self.transition.states
        return torch.cat([torch.randint(states, shape, device=device, generator=each) for _, each in streams]).double()

    def marginal(self, x: Tensor, t: Tensor) -> States:
        return self._law(x, lambda some: self.transition.reach(x[some], self._left(some, t)))

    def posterior(self, z: Tensor, x: Tensor, s: Tensor, t: Tensor) -> States:
        """Q_s|0(x_0, ·) Q_t|s(·, z_t), normalised (D3PM's equation 3)."""
        return self._step(z, s, t, lambda some, left: self.transition.reach(x[some], left))

    def reverse(self, z: Tensor, prediction: Categorical, s: Tensor, t: Tensor) -> States:
        """p(z_s given z_t) ∝ (p̃ Q_s|0)(·) Q_t|s(·, z_t); at s = 0, what is believed of x_0."""
        carry = self.transition.carry
        return self._step(z, s, t, lambda some, left: carry(prediction.logits[some].double().softmax(-1), left))

    def _step(self, z: Tensor, s: Tensor, t: Tensor, before: Callable[[Tensor, Tensor], Tensor]) -> States:
        """The law of z_s before z_t is known, of some rows and with α_s left, times Q_t|s(·, z_t)."""

        def weights(some: Tensor) -> Tensor:
            return before(some, self._left(some, s)) * self.transition.reach(z[some], self._left(some, t, s))

        return self._law(z, weights)

    def loss(self, x: Tensor, z: Tensor, t: Tensor, prediction: Categorical, generator: torch.Generator) -> Tensor:
        """−ln p̂(x_0), per column: it bounds the divergence of every step's law from its posterior, whatever s."""
        belief = Product(Categorical(prediction.logits + self.transition.reach(z, self._left(slice(None), t)).log()))
        return -belief.log_prob(x) / self.columns

    def path(self, x: Tensor, times: Tensor, keys: list[int]) -> Iterator[Tensor]:
        streams = (np.random.Generator(np.random.Philox(key=key)) for key in keys)
        heights = torch.from_numpy(np.stack([each.random((len(times), self.columns)) for each in streams])).to(x.device)
        every = torch.arange(len(x), device=x.device)
        z = (heights[:, 0] * self.transition.states).floor()
        yield z
        for place, (t, s) in enumerate(itertools.pairwise(times)):
            z = self.posterior(z, x, s[None, None], t[None, None]).at(every, heights[:, place + 1])
            yield z

    def _law(self, z: Tensor, weights: Callable[[Tensor], Tensor]) -> States:
        every = torch.arange(len(z), device=z.device)
        return States(weights, every, max(ENTRIES // (self.columns * self.transition.states), 1))

    def _left(self, some: Tensor | slice, t: Tensor, s: Tensor | None = None) -> Tensor:
        """α_t, or α_t/α_s, of some rows, shaped (B, 1, 1)."""
        alpha = self.schedule.alpha(t) / (1 if s is None else self.schedule.alpha(s))
        return (alpha if len(alpha) == 1 else alpha[some])[..., None]


def _inverse_cdf(cumulative: Tensor, row: Tensor, height: Tensor) -> Tensor:
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
