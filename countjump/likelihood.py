"""Lower bounds on ln p(x) for the data itself, per row and in nats, comparable across settings.

For binomial JUMP  ln P(x_0) ≥ −B(x_0), and for a randomised z_0
ln p(x_0) ≥ E_q(z_0 given x_0)[ ln p(x_0 given z_0) − ln q(z_0 given x_0) − B(z_0) ], where, with n = z_0 − z_t and p the share of
it that is back by s, B(z_0) = Σ over the steps of E[ ln Bin(z_s − z_t; n, p) − ln belief.thin(p)(z_s − z_t) ].

For categorical diffusion  ln P(x_0) ≥ −Σ over the steps of E KL(q(z_s given z_t, x_0) ‖ p(z_s given z_t)), the last of which, at
s = 0, is −ln p(x_0 given z_t); at t = 1 both begin with the same uniform law.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from countjump.bags import Bags, Thinned
from countjump.laws import Binomial, Product
from countjump.processes.bags import BagJump
from countjump.processes.base import Denoise, distinct_rows
from countjump.processes.categorical import CategoricalDiffusion
from countjump.processes.jump import Jump


@torch.no_grad()
def lower_bound(process: Jump, denoise: Denoise, x: Tensor, times: Tensor, generator: torch.Generator) -> Tensor:
    """One Monte Carlo draw of the bound for data rows x (B, D), down the given times; its expectation is the bound."""
    encoding = process.encoding
    data = encoding.lift(x)
    index = torch.zeros(len(x), dtype=torch.long, device=x.device)
    z_0 = encoding.law(data).sample(generator)
    bound = x.new_zeros(len(x))
    if not encoding.exact:
        belief = denoise(z_0, times[-1:], index)
        bound = belief.data.log_prob(data) + encoding.log_volume(x) - encoding.law(data).log_prob(z_0)
    z_s = z_0
    for s, t in zip(times.flip(0)[:-1], times.flip(0)[1:], strict=True):
        # Backwards in the chain, forwards in the corruption: z_t is z_s thinned by α_t/α_s.
        ratio = (process.schedule.alpha(t) / process.schedule.alpha(s)).expand_as(z_s)
        z_t = Binomial(z_s, ratio).sample(generator)
        kept = process.kept(s.expand(len(x), 1), t.expand(len(x), 1))
        belief = denoise(z_t, t[None], index)
        entries = Binomial(z_0 - z_t, kept.reshape(-1, *[1] * (z_0.dim() - 1)))
        bound += belief.missing.thin(kept).log_prob(z_s - z_t) - Product(entries).log_prob(z_s - z_t)
        z_s = z_t
    return bound


@torch.no_grad()
def bag_bound(process: BagJump, denoise: Denoise, x: Bags, times: Tensor, generator: torch.Generator) -> Tensor:
    """The same for counts in bags: ln P(x_0) ≥ −B(x_0)."""
    index = torch.zeros(len(x), dtype=torch.long, device=x.device)
    bound = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    z_s = x
    for s, t in zip(times.flip(0)[:-1], times.flip(0)[1:], strict=True):
        ratio = process.schedule.alpha(t) / process.schedule.alpha(s)
        z_t = Thinned(z_s, ratio[None, None]).sample(generator)
        kept = process.schedule.kept(s, t)[None, None]
        added, missing = x.valued(z_s.value - z_t.value), x.valued(x.value - z_t.value)
        belief = denoise(z_t, t[None], index).missing.thin(kept)
        bound += belief.log_prob(added) - Thinned(missing, kept).log_prob(added)
        z_s = z_t
    return bound


@torch.no_grad()
def categorical_bound(
    process: CategoricalDiffusion, denoise: Denoise, x: Tensor, times: Tensor, generator: torch.Generator
) -> Tensor:
    """One Monte Carlo draw of D3PM's bound for data rows x (B, D), down the given times: of z_t, anew at every time."""

    def divergences(x: Tensor) -> Tensor:
        total = x.new_zeros(len(x))
        for t, s in itertools.pairwise(times):
            z = process.corrupt(x, t.expand(len(x), 1), generator)
            first, kind = distinct_rows(torch.cat([z, x], 1))
            prediction = denoise(z[first], t[None], torch.zeros_like(first))
            s, t = s.expand(len(first), 1), t.expand(len(first), 1)
            total += process.divergence(z[first], x[first], prediction, s, t)[kind]
        return total

    return -torch.cat([divergences(some) for some in x.split(process.rows_at_once)])
