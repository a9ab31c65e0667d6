"""The contract of every law: what is sampled is what is scored, masses add up to one, a row's draw is its stream's alone, and a
thinned law is the law of what is left when units are lost one by one."""

import dataclasses
import inspect
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from goodness import LEVEL, flat, generator, grid, pearson
from torch import Tensor

from countjump.laws import (
    MAX_COUNT,
    Alternatives,
    Binomial,
    CountFamily,
    CountLaw,
    DirichletMixture,
    DiscretisedLogistic,
    Family,
    Gamma,
    Indexed,
    JointLaw,
    Known,
    Law,
    Mixture,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Product,
    Shifted,
    Streams,
    TotalTimesComposition,
    Zero,
    composition,
)
from countjump.laws.base import draw_category
from countjump.laws.composition import draw_multinomial
from countjump.laws.sparse import COUNT_CLASSES, Amounts, Shares, SparseSet, ThinnedRows, TotalComposition
from countjump.oracles import RowMixture
from countjump.processes.categorical import Categorical, States
from countjump.processes.gaussian import Normal
from countjump.sparse import SparseRows
from countjump.states import Joint


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def zero(*shape: int) -> Zero:
    return Zero(torch.zeros(shape, dtype=torch.float64))


def mixture(*shape: int) -> Mixture:
    """Two rows of shape (2, *shape)."""
    logits = d([0.3, -0.2, 0.5, 0.0], [-torch.inf, 0.1, 0.0, 1.0])
    parameters = d([0.5, 20.0], [1.0, 2.0]), d([0.7, 4.0], [2.0, 1.0]), d([6], [3]), d([0.9], [0.2])
    shapes, means, count, probs = (each.reshape(2, *shape, -1) for each in parameters)
    parts = (zero(2, *shape, 1), NegativeBinomial(shapes, means), Binomial(count, probs))
    return Mixture(logits.reshape(2, *shape, -1), parts)


def dirichlets(vertices: bool) -> DirichletMixture:
    logits = d([0.0, 0.5, -0.5, 0.2, 0.1], [1.0, -torch.inf, 0.0, 0.0, 2.0])
    concentration = d([[0.5, 1.0, 2.0], [4.0, 4.0, 1.0]], [[1.0, 1.0, 1.0], [0.3, 6.0, 2.0]])
    return DirichletMixture(logits if vertices else logits[:, 3:], concentration, vertices)


def rows_apart(joint: bool) -> RowMixture:
    """Two states with three rows each."""
    rows = d([4, 0], [0, 4], [1, 2], [3, 3], [0, 0], [2, 0])
    return RowMixture(d([0.0, 1.0, 0.5], [0.2, 0.3, -1.0]), Product(Binomial(rows, torch.ones_like(rows))), joint)


def units_apart(joint: bool) -> RowMixture:
    """Two states with two rows each, of two wholes with two parts each."""
    count = d([2, 1], [2, 1], [1, 1], [1, 1])
    shares = d([[0.5, 0.5], [1, 0]], [[0.1, 0.9], [0, 1]], [[0.3, 0.7], [0.6, 0.4]], [[1, 0], [0, 1]])
    units = TotalTimesComposition(Binomial(count, torch.ones_like(count)), Multinomial(shares.log()))
    return RowMixture(d([0.0, 0.4], [0.3, 0.0]), Product(units), joint)


def thinned_rows(*rows: list[float], p: Tensor) -> ThinnedRows:
    return ThinnedRows(SparseRows.from_dense(d(*rows)), p)


def shares(given: Tensor, calibrated: bool = False) -> Shares:
    """Two rows of three columns."""
    g = generator(3)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=g)

    law = Shares(draw(2, 4), draw(2, 3), SparseRows.from_dense(given), draw(3, 4), draw(3), draw(3, 2))
    if not calibrated:
        return law
    classes = len(COUNT_CLASSES) + 1
    bias = {"class_bias": draw(2, classes), "shrinkage": draw(2)}
    bias |= {"frequency_bias": draw(2, 2), "reuse_bias": draw(2, 2)}
    return replace(law, **bias, frequency=draw(3, 2))


def total_composition(given: Tensor, calibrated: bool = False, total: object = None) -> TotalComposition:
    """Up to five units at once, in Pólya urns that are strong and weak."""
    total = Binomial(d([5], [4]), d([0.7], [1.0])) if total is None else total
    return TotalComposition(total, shares(given, calibrated), d([3.0, 0.4, 20.0], [0.5, 6.0, 1.5]))


SEEN, NOTHING = d([1, 0, 2], [0, 4, 0]), torch.zeros(2, 3, dtype=torch.float64)


def sparse_set(kept: Tensor) -> SparseSet:
    """Four columns, of which the first row has the second."""
    g = generator(5)
    query, table = (torch.randn(rows, 3, dtype=torch.float64, generator=g) for rows in (2, 4))
    given = SparseRows.from_dense(d([0, 1, 0, 0], [0, 0, 0, 0]))
    return SparseSet(d([0.0, 1.0], [0.5, 0.0]), d([-1.0, 1.0], [0.0, 2.0]), query, given, table, d(0.0, 1, 0, -1), kept)


def states() -> States:
    weights = d([[1, 2, 0], [3, 1, 1]], [[0, 0, 5], [1, 1, 2]])
    return States(lambda index: weights[index], torch.tensor([1, 0]), at_once=1)


def sparse_grid(*sizes: int) -> SparseRows:
    return SparseRows.from_dense(grid(*sizes))


def joint() -> JointLaw:
    """At most four units in a row."""
    wide = total_composition(SEEN, total=Binomial(d([3], [2]), d([0.6], [0.5])))
    return JointLaw((Product(Binomial(d([1], [1]), d([0.5], [0.3]))), wide))


def joint_support() -> Joint:
    whole = grid(2, 4, 4, 4)
    return Joint((whole[:, :1], SparseRows.from_dense(whole[:, 1:])))


def alternatives() -> Alternatives:
    """Three alternatives for two columns of two components each."""
    logits = 2 * torch.randn(2, 3, 2, 2, dtype=torch.float64, generator=generator(7))
    counts = Binomial(d([[3, 2], [2, 4]], [[1, 3], [4, 0]]), d([[0.2, 0.9], [0.5, 0.7]], [[0.3, 0.6], [0.8, 0.1]]))
    return Alternatives(
        d([0.0, 1.0, -1.0], [0.5, 0.0, -torch.inf]), logits[:, 0], logits[:, 1:] - logits[:, :1], (counts,)
    )


UNITS = TotalTimesComposition(
    Binomial(d([2, 1], [3, 2]), d([0.5, 1], [1, 1])), Multinomial(d([[0, 1], [1, 1]], [[0, 2], [3, 0]]))
)

LOGISTIC = DiscretisedLogistic(d(3.2, 12.0), d(1.3, 0.2), d(0, 4), d(9, 9))

# Every example has two different rows. Counts: (law, a support that holds all but a negligible mass).
COUNTS: dict[str, tuple[Family | Law, object]] = {
    "Zero": (zero(2), grid(3)),
    "Poisson": (Poisson(d(2.5, 0.0)), grid(40)),
    "Binomial": (Binomial(d(9, 4), d(0.3, 1.0)), grid(10)),
    "NegativeBinomial": (NegativeBinomial(d(1.5, 0.1), d(2.0, 0.5)), grid(200)),
    "Mixture": (mixture(), grid(60)),
    "Mixture with atoms": (
        Mixture(
            d([0.3, 0.5, -0.4], [0.0, -torch.inf, 0.7]),
            (Known(d([2, 7], [0, 5])), NegativeBinomial(d([2], [0.7]), d([3], [1]))),
        ),
        grid(120),
    ),
    "DiscretisedLogistic": (LOGISTIC, grid(10)),
    "DiscretisedLogistic, all seen": (replace(LOGISTIC, seen=d(9, 7)), grid(3)),
    "Thinned": (LOGISTIC.thin(d(0.4, 0.9)), grid(10)),
    "Mixture of logistics": (
        Mixture(
            d([0.5, -0.4], [-torch.inf, 0.7]),
            (DiscretisedLogistic(d([2, 7], [0, 5]), d([0.4, 2], [1, 0.2]), d([1], [3]), d([9], [9])),),
        ),
        grid(10),
    ),
    "Product of thinned logistics": (
        Product(
            DiscretisedLogistic(d([2, 3], [0, 4]), d([1, 0.5], [1, 2]), d([0, 1], [2, 0]), d([4, 4], [4, 4])).thin(
                d([0.7], [0.2])
            )
        ),
        grid(5, 5),
    ),
    "Alternatives": (alternatives(), grid(5, 5)),
    "Multinomial": (Multinomial(d([0.0, 1.0, -1.0], [0.0, -torch.inf, 0.0])), torch.eye(3, dtype=torch.float64)),
    "TotalTimesComposition of units": (
        TotalTimesComposition(Poisson(d(3.0, 1.0)), Multinomial(d([0.0, 1.0], [2.0, 0.0]))), grid(24, 24),
    ),
    "TotalTimesComposition of shares": (
        TotalTimesComposition(Binomial(d(5, 4), d(0.7, 1.0)), dirichlets(True)), grid(6, 6, 6),
    ),
    "Categorical": (Categorical(d([0.0, 1.0, -torch.inf], [0.0, 0.0, 2.0])), grid(3)),
    "Known": (Known(d(2.0, 1.0)), grid(4)),
    "States": (states(), grid(3, 3)),
    "Product": (Product(Poisson(d([1.0, 0.5], [0.2, 1.5]))), grid(18, 18)),
    "Product of mixtures": (Product(mixture(1)), grid(60)[:, None]),
    "Product of units": (Product(UNITS), grid(4, 4, 3, 3).reshape(-1, 2, 2)),
    "Indexed": (Indexed(Product(mixture(1)), torch.tensor([1, 0])), grid(60)[:, None]),
    "Indexed sparse rows": (Indexed(total_composition(SEEN), torch.tensor([1, 0])), sparse_grid(6, 6, 6)),
    "Shifted": (Shifted(d([1, 0], [0, 2]), Product(Binomial(d([2, 3], [1, 1]), d([0.5, 0.2], [0.1, 1])))), grid(6, 6)),
    "Shifted sparse rows": (Shifted(SparseRows.from_dense(SEEN), total_composition(SEEN)), sparse_grid(7, 10, 8)),
    "JointLaw": (joint(), joint_support()),
    "ThinnedRows": (thinned_rows([2, 0, 1], [0, 3, 1], p=d([0.3], [1.0])), sparse_grid(3, 4, 2)),
    "ThinnedRows with one p": (thinned_rows([2, 0, 1], [0, 3, 1], p=d([0.3])), sparse_grid(3, 4, 2)),
    "TotalComposition": (total_composition(SEEN), sparse_grid(6, 6, 6)),
    "TotalComposition, calibrated": (total_composition(SEEN, calibrated=True), sparse_grid(6, 6, 6)),
    "TotalComposition, nothing seen": (total_composition(NOTHING), sparse_grid(6, 6, 6)),
    "TotalComposition, all seen": (total_composition(SEEN + 1), sparse_grid(6, 6, 6)),
    "TotalComposition of a mixture": (
        total_composition(
            SEEN, total=Mixture(d([[0, 1]], [[2, 0]]), (zero(2, 1, 1), Binomial(d([[5]], [[3]]), d([[0.5]], [[0.9]]))))
        ),
        sparse_grid(6, 6, 6),
    ),
    "SparseSet": (sparse_set(d([1.0])), sparse_grid(2, 2, 2, 2)),
    "SparseSet, thinned": (sparse_set(d([0.4], [0.9])), sparse_grid(2, 2, 2, 2)),
    "RowMixture": (rows_apart(True), grid(5, 5)),
    "RowMixture of columns": (rows_apart(False), grid(5, 5)),
    "RowMixture of units": (units_apart(True), grid(3, 3, 3, 3).reshape(-1, 2, 2)),
    "RowMixture of units apart": (units_apart(False), grid(3, 3, 3, 3).reshape(-1, 2, 2)),
}  # fmt: skip
THINNABLE = [name for name, (law, _) in COUNTS.items() if isinstance(law, CountLaw | CountFamily)]

# Reals: (law of one column, its atoms), on a quadrature of (0, ∞) or (0, 1).
REALS: dict[str, tuple[Family | Law, list[float], float]] = {
    "Normal": (Normal(d([3.0], [4.0]), d([0.4], [0.2])), [], 60.0),
    "Gamma": (Gamma(d([2.5], [1.2]), d([1.5], [3.0])), [], 60.0),
    "Mixture with an atom": (
        Mixture(d([[0.5, 0.0, 1.0]], [[-1.0, 0.0, 0.0]]), (zero(2, 1, 1), Gamma(d([[2, 30]], [[5, 1]]), d([[1, 4]], [[2, 2]])))),
        [0.0], 60.0,
    ),
    "Mixture with atoms where there is a density": (
        Mixture(
            d([[0.5, 0.0, 1.0]], [[-1.0, 0.0, 0.0]]),
            (Known(d([[0, 2.5]], [[0, 2.5]])), Gamma(d([[3]], [[5]]), d([[3]], [[2]]))),
        ),
        [0.0, 2.5], 60.0,
    ),
    "Product": (Product(Gamma(d([2.5], [1.2]), d([1.5], [3.0]))), [], 60.0),
    "Product with one scale for all rows": (Product(Normal(d([3.0], [4.0]), d([0.4]))), [], 60.0),
    "DirichletMixture": (DirichletMixture(d([0, 0.5], [1, 0]), d([[2, 3], [6, 1]], [[1, 1], [2, 2]]), False), [], 1.0),
    "DirichletMixture with vertices": (
        DirichletMixture(d([0, 0.5, 1], [1, -torch.inf, 0]), d([[2, 3]], [[1, 1.5]]), True), [0.0, 1.0], 1.0,
    ),
    "Amounts": (
        Amounts(
            places=SparseRows.from_dense(d([1], [1])),
            query=d([0.5], [-1.0]),
            factor_logits=d([0.0, 1.0], [0.5, 0.0]),
            offsets=d([-0.5, 0.5], [0.0, 1.0]),
            level_logits=d([0.0, 0.3], [1.0, 0.0]),
            table=d([0.7]),
            size=d(0.2),
            levels=d(-0.3, 0.6),
            shapes=d(3.0, 8.0),
            column_logits=d([0.1, -0.2]),
        ),
        [], 60.0,
    ),
}  # fmt: skip


def masses(law: Family | Law, row: int, support: object) -> Tensor:
    return law[torch.full((len(support),), row)].log_prob(support)


def close_in_mass(first: Tensor, second: Tensor) -> None:
    torch.testing.assert_close(first.exp(), second.exp(), rtol=1e-7, atol=1e-10)


def one_stream(seed: int, rows: int) -> Streams:
    return Streams([generator(seed)], rows)


def test_every_law_has_an_example():
    examples = {type(law) for law, *_ in (*COUNTS.values(), *REALS.values())}
    kinds: list[type] = [Family, Law]
    for kind in kinds:
        kinds += [one for one in kind.__subclasses__() if one.__module__.startswith("countjump.")]
        assert inspect.isabstract(kind) or kind in examples, f"{kind.__name__} has no example in COUNTS or REALS"


@pytest.mark.parametrize("name", COUNTS)
def test_masses_add_up_to_one(name: str):
    law, support = COUNTS[name]
    for row in (0, 1):
        total = masses(law, row, support).exp().sum()
        assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in COUNTS if name != "Shifted sparse rows"])
def test_mean_is_the_mean_of_the_masses(name: str):
    law, support = COUNTS[name]
    for row in (0, 1):
        mean = masses(law, row, support).exp() @ flat(support).double()
        torch.testing.assert_close(flat(law[torch.tensor([row])].mean)[0], mean, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", COUNTS)
def test_draws_have_the_law_of_log_prob(name: str):
    law, support = COUNTS[name]
    for row in (0, 1):
        drawn = law[torch.full((6000,), row)].sample(generator(row))
        assert pearson(drawn, support, masses(law, row, support)) > LEVEL


@pytest.mark.parametrize("name", THINNABLE)
def test_thinned_is_the_law_of_what_is_left(name: str):
    law, support = COUNTS[name]
    p = 0.3
    points = flat(support)
    kept = torch.stack([Binomial(each[:, None], d(p)).log_prob(each) for each in points.unbind(1)]).sum(0)  # (from, to)
    for row in (0, 1):
        left = torch.logsumexp(masses(law, row, support)[:, None] + kept, 0)
        close_in_mass(masses(law.thin(p), row, support), left)


@pytest.mark.parametrize("name", THINNABLE)
def test_thinning_by_each_row_and_again(name: str):
    law, support = COUNTS[name]
    one = d([0.5], [0.25]) if isinstance(law, Law) else d(0.5, 0.25)
    empty = (flat(support) == 0).all(1).nonzero()[0]
    for row, p in enumerate((0.5, 0.25)):
        close_in_mass(masses(law.thin(1.0), row, support), masses(law, row, support))
        close_in_mass(masses(law.thin(one), row, support), masses(law.thin(p), row, support))
        close_in_mass(masses(law.thin(0.4).thin(one), row, support), masses(law.thin(0.4 * p), row, support))
        assert masses(law.thin(0.0), row, support[empty]).item() == pytest.approx(0, abs=1e-12)
        thinned = law.thin(one)[torch.tensor([row])].mean
        torch.testing.assert_close(flat(thinned), p * flat(law[torch.tensor([row])].mean), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", [*COUNTS, *REALS])
def test_a_draw_of_rows_is_a_sample_of_those_rows(name: str):
    law = (COUNTS | REALS)[name][0]
    index = torch.tensor([1, 0, 0, 1, 1])
    drawn, sampled = law.draw(one_stream(4, 5), index), law[index].sample(generator(4))
    assert torch.equal(flat(drawn), flat(sampled))


@pytest.mark.parametrize("name", [*COUNTS, *REALS])
def test_a_row_is_drawn_from_its_own_stream_whatever_goes_beside_it(name: str):
    law = (COUNTS | REALS)[name][0]
    index = torch.tensor([0, 1, 1, 0, 1, 0])
    alone = torch.cat([flat(law.draw(one_stream(i, 2), index[2 * i : 2 * i + 2])) for i in range(3)])
    for together in (1, 2, 3):
        pieces = [
            law.draw(Streams([generator(j) for j in range(i, i + together)], 2), index[2 * i : 2 * (i + together)])
            for i in range(0, 4 - together)
        ]
        for i, piece in enumerate(pieces):
            assert torch.equal(flat(piece), alone[2 * i : 2 * (i + together)])
    if isinstance(law, Law):
        many = law[index]
        drawn = [many.draw(Streams([generator(i) for i in range(3)], 2))]
        drawn += [Indexed(law, index).draw(Streams([generator(i) for i in range(3)], 2))]
        for each in drawn:
            assert torch.equal(flat(each), alone)


@pytest.mark.parametrize("name", [name for name, (law, _) in COUNTS.items() if isinstance(law, Law)])
def test_draws_of_several_streams_have_the_law_of_log_prob(name: str):
    law, support = COUNTS[name]
    drawn = law.draw(Streams([generator(i) for i in range(30)], 100), torch.ones(3000, dtype=torch.long))
    assert pearson(drawn, support, masses(law, 1, support)) > LEVEL


def test_an_indexed_law_stays_shared_while_p_is_one_for_all():
    law = Indexed(Product(mixture(1)), torch.tensor([1, 1, 0]))
    assert len(law.thin(d([0.5])).law.entries.logits) == 2
    assert len(law.thin(d([0.5], [0.5], [0.1])).entries.logits) == 3


@pytest.mark.parametrize("name", [*COUNTS, *REALS])
def test_rows_are_the_laws_of_rows(name: str):
    law = (COUNTS | REALS)[name][0]
    value = law.sample(generator(1))
    whole, has_mean = law.log_prob(value), name not in ("Shifted sparse rows", "Amounts")
    for index in (torch.tensor([1, 0, 1]), torch.tensor([False, True]), slice(1, 2), slice(0, 2)):
        torch.testing.assert_close(law[index].log_prob(value[index]), whole[index])
        assert torch.equal(flat(law[index].sample(generator())), flat(law[torch.arange(2)[index]].sample(generator())))
        if has_mean:
            torch.testing.assert_close(flat(law[index].mean), flat(law.mean)[index])
    again = law[torch.tensor([1])][torch.zeros(3, dtype=torch.long)]
    torch.testing.assert_close(again.log_prob(value[torch.tensor([1, 1, 1])]), whole[[1, 1, 1]])


@pytest.mark.parametrize("name", [*COUNTS, *REALS])
def test_same_generator_same_draw(name: str):
    law = (COUNTS | REALS)[name][0][torch.zeros(50, dtype=torch.long)]
    assert torch.equal(flat(law.sample(generator(3))), flat(law.sample(generator(3))))


@pytest.mark.parametrize("name", REALS)
def test_densities_integrate_to_one_and_fit_the_draws(name: str):
    law, atoms, end = REALS[name]
    points = (torch.linspace(0, 1, 100_001, dtype=torch.float64)[1:-1] ** 2) * end

    def as_row(value: Tensor) -> object:
        if isinstance(law, Amounts):
            return SparseRows.from_dense(value[:, None])
        return torch.stack([value, 1 - value], -1) if isinstance(law, DirichletMixture) else value[:, None]

    for row in (0, 1):
        mass = masses(law, row, as_row(d(*atoms))).exp().flatten() if atoms else d()
        density = masses(law, row, as_row(points)).exp().flatten()
        inside = torch.cat([d(0.0), torch.cumulative_trapezoid(density, points)])
        assert float(inside[-1] + mass.sum()) == pytest.approx(1, abs=1e-3)
        if not isinstance(law, Amounts):
            mean = torch.trapezoid(density * points, points) + (mass * d(*atoms)).sum()
            assert float(law.mean[row].flatten()[0]) == pytest.approx(float(mean), abs=2e-3)
        drawn = flat(law[torch.full((6000,), row)].sample(generator(row)))[:, 0]
        for atom, expected in zip(atoms, mass, strict=True):
            count = int((drawn == atom).sum())
            assert scipy.stats.binomtest(count, 6000, min(float(expected), 1.0)).pvalue > LEVEL
        continuous = drawn[~torch.isin(drawn, d(*atoms))]
        cumulative = np.interp(continuous, points, inside / inside[-1])
        assert scipy.stats.kstest(cumulative, "uniform").pvalue > LEVEL


def test_a_law_has_no_mass_outside_its_support():
    assert Gamma(d(0.5), d(1.0)).log_prob(d(0.0)).item() == -torch.inf
    inner_zero = d([0.0, 0.5, 0.5])
    assert dirichlets(True)[torch.tensor([0])].log_prob(inner_zero).item() == -torch.inf
    assert Shifted(d([3]), Product(Poisson(d([1.0])))).log_prob(d([2])).item() == -torch.inf
    assert Binomial(d(3), d(0.5)).log_prob(d(4)).item() == -torch.inf
    wide = [
        (COUNTS["ThinnedRows"][0], d([2, 1, 0], [0, 3, 2])),  # a column that has no unit, and more than there are
        (COUNTS["TotalComposition"][0], d([6, 0, 0], [0, 5, -1])),  # more than the total, and less than nothing
        (COUNTS["Shifted sparse rows"][0], d([0, 2, 2], [1, 3, 1])),  # fewer than were there
        (COUNTS["SparseSet"][0], d([1, 1, 0, 0], [2, 0, 0, 0])),  # a column that is there already, and one twice
        (COUNTS["SparseSet, thinned"][0], d([1, 1, 0, 0], [2, 0, 0, 0])),
    ]
    for law, value in wide:
        assert law.log_prob(SparseRows.from_dense(value)).tolist() == [-torch.inf] * 2, type(law).__name__


# Compositions: units that fall.


@pytest.mark.parametrize(
    "shares",
    [
        Multinomial(d([0.0, 1.0, -1.0])),
        dirichlets(False)[torch.tensor([0])],
        dirichlets(True)[torch.tensor([0])],
        DirichletMixture(d([0.0, 1.0, 0.5]), torch.zeros(1, 0, 3, dtype=torch.float64), True),
    ],
    ids=["multinomial", "dirichlets", "vertices and dirichlets", "vertices"],
)
@pytest.mark.parametrize("total", [1, 4])
def test_allocations(shares: Multinomial | DirichletMixture, total: int):
    support = grid(5, 5, 5)
    support = support[support.sum(-1) == total]
    many = shares[torch.zeros(len(support), dtype=torch.long)]
    log_prob = many.log_allocation(support)
    assert float(log_prob.exp().sum()) == pytest.approx(1, abs=1e-9)
    drawn = shares[torch.zeros(6000, dtype=torch.long)].allocate(
        torch.full((6000,), float(total), dtype=torch.float64), generator()
    )
    assert pearson(drawn, support, log_prob) > LEVEL


@pytest.mark.parametrize("branch", [composition._draw_units, composition._halve], ids=["unit by unit", "halved"])
@pytest.mark.parametrize("parts", [1, 3, 5, 8])
def test_both_ways_to_draw_a_multinomial(branch, parts: int):
    weights = d(*[0.0, 3.0, 1.0, 0.0, 2.0, 0.5, 0.5, 0.0][8 - parts :]) + (parts == 1)
    total, probs = torch.full((6000,), 4.0, dtype=torch.float64), weights.expand(6000, -1)
    drawn = branch(total, probs, generator(parts))
    assert torch.equal(drawn.sum(-1), total)
    assert (drawn[:, weights == 0] == 0).all()
    support = grid(*[5] * parts).reshape(-1, parts) if parts <= 5 else torch.unique(drawn, dim=0)
    support = support[support.sum(-1) == 4]
    log_prob = Multinomial(weights.log()).log_allocation(support)
    assert pearson(drawn, support, log_prob) > LEVEL


def test_draw_multinomial_takes_the_way_that_is_cheap(monkeypatch: pytest.MonkeyPatch):
    ways = []
    for name in ("_draw_units", "_halve"):
        way = getattr(composition, name)
        monkeypatch.setattr(composition, name, lambda *args, way=way, name=name: ways.append(name) or way(*args))
    probs = torch.full((3, 4), 0.25)
    assert draw_multinomial(torch.ones(3), probs, generator()).sum() == 3
    assert draw_multinomial(torch.full((3,), 1e6), probs, generator()).sum() == 3e6
    assert ways == ["_draw_units", "_halve"]


def test_rows_of_different_totals_fall_on_their_own_parts():
    probs = d([1, 0, 0], [0, 1, 0], [0, 0, 1])
    for total in (d(2, 0, 3), d(200, 0, 300)):
        assert torch.equal(draw_multinomial(total, probs, generator()), torch.diag(total))


def test_draw_category_never_takes_what_is_impossible():
    logits = d([-torch.inf, 0.0, 1.0, -torch.inf]).expand(6000, -1)
    drawn = draw_category(logits, generator()).double()
    assert pearson(drawn, grid(4), logits[0].log_softmax(0)) > LEVEL


# Large and extreme.


@pytest.mark.parametrize(
    ("law", "sd"),
    [
        (Poisson(d(1e9)), 1e9**0.5),
        (Binomial(d(1e9), d(0.3)), (1e9 * 0.21) ** 0.5),
        (Binomial(d(1e9), d(0.9)), (1e9 * 0.09) ** 0.5),
        (NegativeBinomial(d(1e8), d(1e9)), (1e9 * 11) ** 0.5),
    ],
    ids=["poisson", "binomial", "likely binomial", "negative binomial"],
)
def test_counts_of_a_billion(law: Family, sd: float):
    drawn = law[torch.zeros(4000, dtype=torch.long)].sample(generator())
    assert torch.equal(drawn, drawn.round())
    assert scipy.stats.kstest((drawn - law.mean) / sd, "norm").pvalue > LEVEL
    # log_prob follows the normal density, of which ±1 sd is e^(−1/2) lower.
    at = law.log_prob((law.mean + d(0.0, sd)).round())
    assert float(at[0] - at[1]) == pytest.approx(0.5, abs=1e-3)


def test_large_counts_are_kept_exactly():
    total = d(MAX_COUNT - 1, 10**9 + 7)
    assert torch.equal(Binomial(total, torch.ones(2, dtype=torch.float64)).sample(), total)
    fallen = draw_multinomial(total, torch.rand(2, 1000, dtype=torch.float64, generator=generator()), generator())
    assert [sum(map(int, row)) for row in fallen.tolist()] == [int(each) for each in total]


def test_an_infinite_rate_is_not_a_negative_count():
    assert (Poisson(d(torch.inf, 1e300)).sample(generator()) > MAX_COUNT / 2).all()


EXTREMES: dict[str, tuple[type[Family], tuple[float, ...], float]] = {
    "no rate, no count": (Poisson, (0.0,), 0.0),
    "hardly any rate": (Poisson, (1e-300,), 3.0),
    "a large rate": (Poisson, (1e12,), 1e12),
    "impossible units": (Binomial, (5.0, 0.0), 0.0),
    "certain units": (Binomial, (5.0, 1.0), 5.0),
    "nothing to draw from": (Binomial, (0.0, 0.5), 0.0),
    "almost impossible": (Binomial, (1e9, 1e-12), 3.0),
    "almost certain": (Binomial, (1e6, 1 - 1e-12), 1e6 - 2),
    "no mean, no count": (NegativeBinomial, (2.0, 0.0), 0.0),
    "all but Poisson": (NegativeBinomial, (1e6, 3.0), 4.0),
    "large shape and mean": (NegativeBinomial, (1e6, 1e9), 1e9),
    "tiny shape": (NegativeBinomial, (1e-3, 1e-9), 1.0),
    "tiny shape, large mean": (NegativeBinomial, (1e-3, 1e9), 1e9),
    "a sharp logistic": (DiscretisedLogistic, (3.0, 1e-3, 0.0, 255.0), 200.0),
    "a flat logistic": (DiscretisedLogistic, (3.0, 1e4, 5.0, 255.0), 250.0),
    "a logistic below what is seen": (DiscretisedLogistic, (-50.0, 0.05, 100.0, 255.0), 0.0),
    "a point": (Gamma, (1e6, 2.0), 2.0),
    "a spike at zero": (Gamma, (1e-2, 1e-6), 1e-30),
    "a large real": (Gamma, (1e-2, 1e6), 1e9),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_parameters_have_finite_scores_and_gradients(name: str):
    kind, values, at = EXTREMES[name]
    parameters = [d(value).requires_grad_() for value in values]
    score = kind(*parameters).log_prob(d(at))
    score.sum().backward()
    assert score.isfinite().all()
    for parameter in parameters:
        assert parameter.grad is None or parameter.grad.isfinite().all()


def test_extreme_shares_have_finite_scores_and_gradients():
    value = d([[1e-12, 1 - 1e-12], [1.0, 0.0], [0.5, 0.5]])[0][:, None]
    for strength in (1e-3, 1e6):
        concentration = torch.full((3, 1, 1, 2), strength, dtype=torch.float64, requires_grad=True)
        logits = torch.zeros(3, 1, 3, dtype=torch.float64, requires_grad=True)
        law = DirichletMixture(logits, concentration, True)
        score = law.log_prob(value).sum() + law.log_allocation(value.round() * 1e6).sum()
        score.backward()
        assert score.isfinite()
        assert concentration.grad.isfinite().all()
        assert logits.grad.isfinite().all()


def test_a_mixture_with_an_impossible_component_has_finite_gradients():
    raw = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    probs = torch.full((1, 1), 0.5, dtype=torch.float64, requires_grad=True)
    logits = raw.masked_fill(torch.tensor([[True, False, False]]), -torch.inf)
    law = Mixture(logits, (zero(1, 1), Binomial(d([2]), probs), Poisson(d([3.0]))))
    score = law.log_prob(d(4))
    score.sum().backward()
    assert score.isfinite().all()
    assert raw.grad.isfinite().all()
    assert probs.grad.isfinite().all()


def test_a_negative_binomial_of_large_shape_is_poisson():
    value = grid(20)
    torch.testing.assert_close(
        NegativeBinomial(d(1e6), d(3.0)).log_prob(value), Poisson(d(3.0)).log_prob(value), atol=1e-4, rtol=1e-4
    )


def test_laws_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Poisson(d(1.0)).rate = d(2.0)
