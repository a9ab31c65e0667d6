"""Optimisers: AdamW, and its like for large tables of which an update touches few rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

DECAY_EVERY = 16  # updates from one decay of the weights to the next: it passes over the whole table


class RowAdam(torch.optim.Optimizer):
    """AdamW with one second moment for each row of a table, and no first: an update costs what its gradient's rows cost, and a
    number for each of the others.

    A gradient is sparse, each row in it once (as of ``nn.Embedding(sparse=True)`` at distinct places), or dense. The moments of
    other rows fade with it, as in AdamW: a row that is seldom touched moves by as much as there. (In the usual lazy optimisers
    they do not fade, and such rows move far less.)

    >>> table = torch.nn.Embedding(3, 2, sparse=True)
    >>> before, optimiser = table.weight.clone(), RowAdam(table.parameters(), lr=0.1)
    >>> table(torch.tensor([1])).sum().backward()
    >>> optimiser.step()
    >>> (before - table.weight).detach().round(decimals=4)
    tensor([[0.0000, 0.0000],
            [0.1000, 0.1000],
            [0.0000, 0.0000]])
    """

    def __init__(self, params: Iterable[Any], lr: float, weight_decay: float = 0.0, beta: float = 0.999) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "beta": beta, "eps": 1e-8})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """One update of every weight that has a gradient, which is used up by it."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            zero = torch.tensor(0.0, dtype=torch.float64)
            state |= {"step": zero, "decay": zero.clone(), "square": weight.new_zeros(len(weight))}
        state["step"] += 1
        state["decay"] += group["lr"] * group["weight_decay"]
        if state["step"] % DECAY_EVERY == 0:
            weight.mul_(float((-state["decay"]).exp()))
            state["decay"].zero_()
        every = torch.arange(len(gradient), device=gradient.device)
        rows, values = (gradient._indices()[0], gradient._values()) if gradient.is_sparse else (every, gradient)
        beta, square = group["beta"], state["square"]
        mean_square = torch.linalg.vector_norm(values, dim=1).square_() / values.shape[1]
        square.mul_(beta).index_add_(0, rows, mean_square, alpha=1 - beta)
        scale = (square[rows] / (1 - beta ** float(state["step"]))).sqrt_().add_(group["eps"])
        values.div_(scale[:, None])
        weight.add_(gradient, alpha=-group["lr"])


def make_optimisers(
    module: nn.Module, weights: list[nn.Parameter], rate: float, weight_decay: float
) -> list[torch.optim.Optimizer]:
    """Tables with sparse gradients by the row; all others by AdamW, vectors without decay: a bias has nothing to be small for."""
    by_row = {part.weight for part in module.modules() if isinstance(part, nn.Embedding) and part.sparse}
    tables = [weight for weight in weights if weight in by_row]
    matrices = [weight for weight in weights if weight not in by_row and weight.ndim > 1]
    vectors = [weight for weight in weights if weight.ndim <= 1]
    groups = [
        {"params": some, "weight_decay": decay} for some, decay in ((matrices, weight_decay), (vectors, 0.0)) if some
    ]
    optimisers: list[torch.optim.Optimizer] = []
    if groups:
        optimisers.append(torch.optim.AdamW(groups, lr=rate, fused=True))
    if tables:
        optimisers.append(RowAdam(tables, lr=rate, weight_decay=weight_decay))
    return optimisers
