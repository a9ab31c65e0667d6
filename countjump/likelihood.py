"""A lower bound on ln p(x) for the data itself, per row and in nats, the same for every process that has one:

    ln p(x_0) ≥ E_q [ ln p(x_0 given z_0) + Σ over the steps of ln p(z_s given z_t) − ln q(z_s given z_t, x_0) ],

with the states drawn from q given x_0, or, where the laws say their divergence, −KL(q(z_s given z_t, x_0) ‖ p(z_s given z_t)) in
the place of the difference. Chains begin at t = 1, where p and q are one law.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from countjump.denoiser import condition_key
from countjump.processes.base import Denoise, Process
from countjump.states import distinct

ALIKE = 0.5  # the share of distinct states from which on all are evaluated


@torch.no_grad()
def lower_bound(
    process: Process, denoise: Denoise, x: Any, times: Tensor, keys: list[int], condition: Tensor | None = None
) -> Tensor:
    """One Monte Carlo draw of the bound for data rows x, down the given times; its expectation is the bound.

    With a ``condition`` (B, …) it is one on ln p(x given the condition).
    """
    bound = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    z = None
    for place, z_s in enumerate(process.path(x, times, keys)):
        if z is not None:
            s, t = times[place : place + 1, None], times[place - 1 : place, None]
            p = _reverse(process, denoise, z, s, t, condition)
            q = process.posterior(z, x, s, t)
            bound += -q.kl(p) if hasattr(q, "kl") else p.log_prob(z_s) - q.log_prob(z_s)
        z = z_s
    return bound + process.data_log_prob(z, x, partial(denoise, condition=condition))


def _reverse(process: Process, denoise: Denoise, z: Any, s: Tensor, t: Tensor, condition: Tensor | None) -> Any:
    """p(z_s given z_t), equal states under equal conditions evaluated once."""
    first, group = distinct(condition_key(z, condition)) if process.discrete else (z, z)
    if not process.discrete or len(first) > ALIKE * len(z):
        return process.reverse(z, denoise(z, t[0], condition), s, t)
    some = z[first]
    return process.reverse(some, denoise(some, t[0], None if condition is None else condition[first]), s, t)[group]
