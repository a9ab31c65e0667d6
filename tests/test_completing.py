"""Rows of which a part is known: with an exact belief the rest has the conditional law, of columns that depend on each other."""

import pytest
import torch
from goodness import LEVEL, generator, pearson
from torch import Tensor

from countjump.blocks import Block, Blocks, PoissonBlock, Units
from countjump.domains import Bounded, Count, NonNegative, Simplex
from countjump.laws import Streams
from countjump.oracles import EmpiricalOracle
from countjump.processes import Jump
from countjump.sampling import complete_rows
from countjump.schedules import Cosine

WEIGHTS = (0.3, 0.1, 0.2, 0.15, 0.25)


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def exact(columns: int) -> Block:
    """z_0 = x_0."""
    return PoissonBlock(Count(), torch.ones(columns).double(), torch.ones(columns).double())


def randomised(*lam: float) -> Block:
    """z_0 ~ Pois(λ x_0)."""
    one = torch.ones(len(lam)).double()
    return PoissonBlock(NonNegative(), one, one, d(*lam), decoding="draw")


def interval(total: Tensor, bounds: Tensor) -> Units:
    share = torch.full((len(total), 2), 0.5, dtype=torch.float64)
    return Units(
        Bounded(tuple(bounds.tolist())), share, torch.ones(len(total)), torch.zeros(len(total), 2), total, 1, bounds
    )


ROWS = {
    "exact": (exact(3), d([0, 1, 4], [0, 5, 0], [7, 1, 2], [7, 1, 9], [0, 1, 0])),
    "randomised": (randomised(3, 1, 2), d([0, 1, 4.5], [0, 5, 0], [7.25, 1, 2], [7.25, 1, 9], [0, 1, 0.5])),
    "interval": (interval(d(4, 6, 5), d(8.0, 8.0, 9.0)), d([0, 1, 4.5], [0, 5, 0], [7, 1, 2], [7, 1, 9], [0, 1, 0.5])),
}


@pytest.mark.parametrize("steps", [1, 3, 12])
@pytest.mark.parametrize("columns", [[0], [0, 1], [2]], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_what_is_not_known_has_the_conditional_law(name: str, columns: list[int], steps: int):
    """p(x given x_known), at any number of steps: known columns are at their own time 0 from the beginning."""
    block, rows = ROWS[name]
    weights = d(*WEIGHTS)
    oracle = EmpiricalOracle(block, Cosine(), rows, weights)
    process = Jump(block, Cosine())
    for row in range(len(rows)):
        known = torch.zeros(2000, 3, dtype=torch.bool)
        known[:, columns] = True
        x = block.read(torch.where(known, rows[row], 0.0).numpy())
        drawn = complete_rows(process, oracle, process.grid(steps), Streams([generator(row)], 2000), x, known)
        drawn = block.from_shares(drawn) if isinstance(block, Units) else drawn
        agree = (rows[:, columns] == rows[row, columns]).all(1)
        others = [column for column in range(3) if column not in columns]
        conditional = (weights * agree / weights[agree].sum()).log()
        support = rows[agree][:, others]
        assert pearson(drawn[:, others], support, conditional[agree]) > LEVEL


def test_every_row_may_have_its_own_columns_known():
    block, rows = ROWS["exact"]
    oracle, process = EmpiricalOracle(block, Cosine(), rows, d(*WEIGHTS)), Jump(block, Cosine())
    known = d([1, 0, 0], [0, 1, 0], [0, 0, 0]).bool().repeat_interleave(2000, 0)
    x = d([7, 0, 0], [0, 5, 0], [0, 0, 0]).repeat_interleave(2000, 0)
    drawn = complete_rows(process, oracle, process.grid(4), Streams([generator()], 6000), x, known).split(2000)
    assert pearson(drawn[0][:, 2], d(2, 9), (d(0.2, 0.15) / 0.35).log()) > LEVEL
    assert (drawn[1][:, [0, 2]] == 0).all()
    assert pearson(drawn[2], rows, d(*WEIGHTS).log()) > LEVEL


def test_thinning_what_is_known_along_the_chain_is_biased():
    """The usual shortcut, with the same exact belief: what was drawn before the known column came back contradicts it."""
    block, rows = ROWS["exact"]
    oracle, process = EmpiricalOracle(block, Cosine(), rows, d(*WEIGHTS)), Jump(block, Cosine())
    x, times, g = d([7, 0, 0]).repeat(4000, 1), process.grid(8), generator()
    z = process.prior(4000, Streams([g], 4000), "cpu")
    for t, s in zip(times[:-1, None], times[1:, None], strict=True):
        drawn = process.reverse(z, oracle(z, t), s[None], t[None]).sample(g)
        bridged = process.posterior(z, x, s[None], t[None]).sample(g)
        z = torch.cat([bridged[:, :1], drawn[:, 1:]], 1)
    assert pearson(z[:, 2], d(2, 9), (d(0.2, 0.15) / 0.35).log()) < LEVEL


def test_a_group_is_known_as_a_whole():
    """Two dependent wholes, one of three parts and one of two: the parts of a simplex are known together."""
    share = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    whole = Units(Simplex(), share, torch.ones(1), torch.zeros(1, 3), d(5), components=1)
    block = Blocks([exact(2), whole], [torch.tensor([0, 4]), torch.tensor([1, 2, 3])])
    assert block.knowables == 3
    known = torch.tensor([[True, True, True, True, False], [False, False, False, False, True]])
    assert block.knowable(known).tolist() == [[True, False, True], [False, True, False]]
    with pytest.raises(ValueError, match="row 1 has some columns of a simplex group known"):
        block.knowable(torch.tensor([[True] * 5, [True, True, False, False, True]]))


@pytest.mark.parametrize("name", ROWS)
def test_the_network_sees_what_is_known_whole_and_that_it_is(name: str):
    block, rows = ROWS[name]
    x = block.read(rows.numpy())
    known = torch.zeros(5, 3, dtype=torch.bool)
    known[:, 1] = True
    alphas = [torch.full((5, 1), alpha, dtype=torch.float64) for alpha in (0.2, 0.6)]
    z = Jump(block, Cosine()).marginal(x, d([0.7])).sample(generator())
    held = block.hold(z, block.shown(x), known)
    assert torch.equal(block.hold(held, block.shown(x), known), held)
    views = 4 if isinstance(block, Units) else len(block.features(held, alphas[0], known)[0]) // 3
    seen = [
        block.features(held, alpha, known).reshape(5, *((3, views) if isinstance(block, Units) else (views, 3)))
        for alpha in alphas
    ]
    column = [each[:, 1] if isinstance(block, Units) else each[:, :, 1] for each in seen]
    torch.testing.assert_close(*column)  # whatever the time is
    assert (column[0][:, -1] == 1).all()
    assert len(torch.unique(column[0], dim=0)) == len(torch.unique(rows[:, 1]))
    plain = block.features(z, alphas[0])
    torch.testing.assert_close(block.features(z, alphas[0], torch.zeros_like(known)), plain)


def test_loss_leaves_out_what_is_known():
    block, rows = ROWS["randomised"]
    x, z, alpha = rows, d([0, 1, 1]).repeat(5, 1), d([0.5]).repeat(5, 1)
    belief = block.belief(torch.zeros(5, block.outputs), z, alpha)
    every = [torch.zeros(5, 3, dtype=torch.bool) for _ in range(4)]
    for column in range(3):
        every[column][:, :] = True
        every[column][:, column] = False
    apart = sum(block.loss(belief, x, z, alpha, generator(1), known) for known in every[:3])
    torch.testing.assert_close(apart, block.loss(belief, x, z, alpha, generator(1)))
    assert (block.loss(belief, x, z, alpha, generator(1), ~every[3]) == 0).all()
