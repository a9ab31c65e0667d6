"""Divergences of the paper."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.special import xlogy


def relative_entropy(p: Tensor, q: Tensor) -> Tensor:
    """D_φ(p, q) = p (ln p − ln q) − (p − q), the Bregman divergence of φ(x) = x ln x (the paper's equation 11).

    Domain: p ≥ 0, q ≥ 0; D_φ(0, q) = q. The logarithm's argument is floored, so that the gradient at p = q = 0 is finite.

    >>> relative_entropy(torch.tensor([0.0, 2.0]), torch.tensor([3.0, 2.0]))
    tensor([3., 0.])
    """
    return xlogy(p, p) - p * q.clamp(min=torch.finfo(q.dtype).tiny).log() - (p - q)
