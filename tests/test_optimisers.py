"""The optimiser of tables: the numbers of AdamW with one second moment per row, at the cost of the rows that are touched."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from countjump.blocks.base import Stage
from countjump.training import Settings, loop, run
from countjump.training.optimisers import DECAY_EVERY, RowAdam

ROWS, WIDTH = 20, 3


def touched(update: int, count: int = 4) -> torch.Tensor:
    return torch.randperm(ROWS, generator=torch.Generator().manual_seed(update))[:count].sort().values


def table(seed: int = 0) -> nn.Embedding:
    torch.manual_seed(seed)
    return nn.Embedding(ROWS, WIDTH, sparse=True)


@pytest.mark.parametrize("sparse", [True, False])
def test_updates_are_those_of_the_formula(sparse):
    module, target = table(), torch.randn(ROWS, WIDTH)
    module.sparse = sparse
    expected, square = module.weight.detach().clone(), torch.zeros(ROWS)
    optimiser = RowAdam(module.parameters(), lr=0.1, weight_decay=0.5, beta=0.9)
    for update in range(1, 2 * DECAY_EVERY + 3):
        rows = touched(update)
        module.weight.grad = None
        ((module(rows) - target[rows]) ** 2).sum().backward()
        optimiser.step()
        gradient = torch.zeros(ROWS, WIDTH)
        gradient[rows] = 2 * (expected[rows] - target[rows])
        if update % DECAY_EVERY == 0:
            expected *= math.exp(-DECAY_EVERY * 0.1 * 0.5)
        square = 0.9 * square + 0.1 * gradient.square().mean(1)
        expected -= 0.1 * gradient / ((square / (1 - 0.9**update)).sqrt() + 1e-8)[:, None]
    torch.testing.assert_close(module.weight.detach(), expected)


def test_rows_that_are_seldom_touched_move_as_far_as_by_adamw():
    """And far less by PyTorch's SparseAdam, whose moments do not fade while a row rests."""

    def moved(module: nn.Embedding, optimiser: torch.optim.Optimizer) -> float:
        before = module.weight.detach().clone()
        for update in range(2000):
            module.weight.grad = None
            rows = torch.tensor([0, 1]) if update % 100 == 50 else torch.tensor([0])
            module(rows).sum().backward()
            optimiser.step()
        return float((before - module.weight.detach())[1].mean())

    dense = table()
    dense.sparse = False
    by_adamw = moved(dense, torch.optim.AdamW(dense.parameters(), lr=1e-3, weight_decay=0.0))
    ours, lazy = table(), table()
    assert moved(ours, RowAdam(ours.parameters(), lr=1e-3)) == pytest.approx(by_adamw, rel=0.2)
    assert moved(lazy, torch.optim.SparseAdam(list(lazy.parameters()), lr=1e-3)) < 0.6 * by_adamw


def fit(module: nn.Module, updates: int, until: int = 10**9, dense: bool = False, **changes) -> None:
    """Gradients of the table are sparse, or with ``dense`` so in about half the updates."""
    target = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))

    left = iter(range(until))

    def loss(rows, generator):
        next(left)
        some = torch.tensor(sorted(rows))
        found = module[0].weight[some] if dense and some.sum() % 2 else module[0](some)
        return ((found - target[some]) ** 2).mean() + (module[1].weight ** 2).mean()

    settings = Settings(progress=False, **changes)
    weights = list(module.parameters())
    run(module, [Stage("table", weights, loss, np.arange(ROWS), updates, 4, 0.1, weight_decay=0.1, ema=0.5)], settings)


def modules() -> nn.Sequential:
    return nn.Sequential(table(), nn.Linear(2, 2))


@pytest.mark.parametrize("dense", [False, True])
def test_the_loop_gives_tables_to_it_and_resumes_it(tmp_path, monkeypatch, dense):
    monkeypatch.setattr(loop, "CLIP", 0.05)
    whole, halves = modules(), modules()
    halves.load_state_dict(whole.state_dict())
    fit(whole, 40, dense=dense)
    changes = {"checkpoint": tmp_path / "checkpoint", "checkpoint_every": 10, "dense": dense}
    with pytest.raises(StopIteration):
        fit(halves, 40, until=33, **changes)
    nn.init.zeros_(halves[0].weight)
    fit(halves, 40, **changes)
    for one, other in zip(whole.parameters(), halves.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_dense_gradient_is_forgotten():
    module, kinds = modules(), []
    step = RowAdam.step

    def spy(self):
        kinds.append(module[0].weight.grad.is_sparse)
        return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowAdam, "step", spy)
        fit(module, 30, dense=True)
    since = kinds[kinds.index(False) :]
    assert any(since), "sparse again after it was dense"


def test_the_loop_clips_all_gradients_together(monkeypatch):
    monkeypatch.setattr(loop, "CLIP", 0.01)
    module = modules()
    seen = []
    step = RowAdam.step

    def spy(self):
        gradients = [module[0].weight.grad._values(), module[1].weight.grad]
        seen.append(float(sum(each.square().sum() for each in gradients) ** 0.5))
        return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowAdam, "step", spy)
        fit(module, 10)
    torch.testing.assert_close(torch.tensor(seen), torch.full((10,), 0.01))
