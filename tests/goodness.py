"""How well draws fit a law: p-values, to be compared with LEVEL under a fixed seed."""

import numpy as np
import scipy.stats
import torch
from torch import Tensor

from countjump.sparse import SparseRows
from countjump.states import Joint

LEVEL = 1e-3


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def flat(state: object) -> Tensor:
    """Any state as one dense row of numbers after another, (B, …)."""
    if isinstance(state, Joint):
        return torch.cat([flat(part) for part in state.parts], 1)
    dense = state.dense() if isinstance(state, SparseRows) else state
    return dense[:, None] if dense.dim() == 1 else dense.flatten(1)


def grid(*sizes: int) -> Tensor:
    """Every row of counts with entry j below sizes[j], (S, len(sizes)); one size gives scalars (S,)."""
    axes = [torch.arange(size, dtype=torch.float64) for size in sizes]
    return axes[0] if len(sizes) == 1 else torch.cartesian_prod(*axes)


def pearson(drawn: object, support: object, log_prob: Tensor) -> float:
    """The chi-square p-value of draws (N, …) against the masses of a support (S, …); elsewhere is a cell of its own.

    Cells in which fewer than five draws are expected are pooled. A draw of no mass at all has p-value zero.
    """
    drawn, support = flat(drawn), flat(support)
    probs = np.append(log_prob.exp().numpy(), 0.0)
    probs[-1] = max(1 - probs.sum(), 0.0) if abs(1 - probs.sum()) > 1e-9 else 0.0
    place = {tuple(point): cell for cell, point in enumerate(support.tolist())}
    values, counts = torch.unique(drawn, dim=0, return_counts=True)
    observed = np.zeros(len(probs))
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        observed[place.get(tuple(value), -1)] += count
    if observed[probs == 0].any():
        return 0.0
    expected = probs * len(drawn) / probs.sum()
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected > 0
    if kept.sum() < 2:
        return 1.0
    return float(scipy.stats.chisquare(observed[kept], expected[kept]).pvalue)


def same(first: object, second: object) -> float:
    """The p-value of two samples (N, …) of one law: of their states where those repeat, else of every column (Bonferroni)."""
    a, b = flat(first), flat(second)
    values, group = torch.unique(torch.cat([a, b]), dim=0, return_inverse=True)
    if len(values) > len(a) / 4:
        p_values = [scipy.stats.ks_2samp(a[:, j], b[:, j], method="asymp").pvalue for j in range(a.shape[1])]
        return float(min(1.0, min(p_values) * len(p_values)))
    table = np.stack([np.bincount(part, minlength=len(values)) for part in (group[: len(a)], group[len(a) :])])
    rare = table.sum(0) < 10
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], 1)
    table = table[:, table.sum(0) > 0]
    return 1.0 if table.shape[1] < 2 else float(scipy.stats.chi2_contingency(table).pvalue)


class Counting:
    """A denoiser that notes how many rows it was asked for."""

    def __init__(self, denoise) -> None:
        self.denoise, self.asked = denoise, []

    def __call__(self, z: Tensor, t: Tensor, condition: Tensor | None = None, known: Tensor | None = None):
        self.asked.append(len(z))
        return self.denoise(z, t, condition, known)
