"""The laws of wide rows against their formulas, written out densely, and against scipy where it has them."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from goodness import LEVEL, generator, grid, pearson, same
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from countjump.laws import Binomial, Mixture, NegativeBinomial, Poisson, Product, Streams, Zero, sparse
from countjump.laws.sparse import (
    COUNT_CLASSES,
    GUARD,
    LARGE_SHARE,
    Amounts,
    Shares,
    SparseSet,
    ThinnedRows,
    TotalComposition,
    draw_columns,
)
from countjump.sparse import SparseRows

CLASSES = len(COUNT_CLASSES) + 1


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def rows(*values: list[float]) -> SparseRows:
    return SparseRows.from_dense(d(*values))


def known(*count: float) -> Binomial:
    """Totals that are certain, (B, 1)."""
    return Binomial(d(*count)[:, None], torch.ones(len(count), 1, dtype=torch.float64))


SEEN = d([1, 0, 2, 0, 25], [0, 0, 0, 0, 0], [0, 3, 0, 0, 0])


def shares(given: Tensor = SEEN, calibrated: bool = False, seed: int = 3) -> Shares:
    """Of any parameters."""
    g, (b, columns) = generator(seed), given.shape

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=g)

    law = Shares(
        draw(b, 4), draw(b, 3), SparseRows.from_dense(given), draw(columns, 4), draw(columns), draw(columns, 2)
    )
    if not calibrated:
        return law
    bias = {"class_bias": draw(b, CLASSES), "shrinkage": draw(b)}
    bias |= {"frequency_bias": draw(b, 2), "reuse_bias": draw(b, 2)}
    return replace(law, **bias, frequency=draw(columns, 2))


def formula(law: Shares) -> Tensor:
    """μ (B, D) as the documentation states it."""
    z = law.given.dense()
    logits = law.bias + law.query @ law.table.t()
    if law.frequency_bias is not None:
        logits = logits + law.frequency_bias @ law.frequency.t()
    discount = torch.sigmoid(law.burstiness[:, 0] + law.reuse[:, 1:2])
    gain = law.reuse[:, 2:] @ law.burstiness[:, 1:].t()
    if law.reuse_bias is not None:
        gain = gain + law.reuse_bias @ law.frequency.t()
    weight = torch.where(z > 0, (z - discount) * gain.exp(), 0.0)
    reused = torch.sigmoid(law.reuse[:, :1]) * (z > 0).any(1, keepdim=True)
    share = weight / weight.sum(1, keepdim=True).clamp(min=1e-300)
    mu = (1 - reused) * logits.softmax(-1) + reused * share
    if law.class_bias is None:
        return mu
    classes = torch.bucketize(z, d(*COUNT_CLASSES))
    biased, seen = mu * law.class_bias.gather(1, classes).exp(), z > 0
    if law.shrinkage is not None:
        shrunk = biased * (1 + mu / LARGE_SHARE) ** law.shrinkage[:, None]
        whole = (biased * seen).sum(1, keepdim=True) / (shrunk * seen).sum(1, keepdim=True).clamp(min=1e-300)
        biased = torch.where(seen, shrunk * whole, biased)
    return biased / biased.sum(1, keepdim=True)


# The mean composition.


@pytest.mark.parametrize("calibrated", [False, True])
def test_shares_are_those_of_the_formula(calibrated: bool):
    law = shares(calibrated=calibrated)
    mu = formula(law)
    torch.testing.assert_close(mu.sum(1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(law.dense(), mu)
    everywhere = SparseRows.from_dense(torch.ones_like(SEEN))
    log_share, k = law.at(everywhere)
    torch.testing.assert_close(log_share.reshape(SEEN.shape).exp(), mu)
    torch.testing.assert_close(k, (mu * (SEEN > 0)).sum(1))


@pytest.mark.parametrize("calibrated", [False, True])
def test_weights_by_which_units_are_drawn_are_the_shares(calibrated: bool):
    law = shares(calibrated=calibrated)
    mu = formula(law)
    weights, of_seen, k = law.weights()
    assert weights.shape[1] == sparse.TILE
    torch.testing.assert_close(of_seen, mu[law.given.row, law.given.column])
    torch.testing.assert_close(k, (mu * (SEEN > 0)).sum(1))
    new = mu * (SEEN == 0)
    torch.testing.assert_close(weights[:, :5] / weights.sum(1, keepdim=True), new / new.sum(1, keepdim=True))
    assert float(weights[:, 5:].abs().sum()) == 0


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_rows_have_the_weights_that_they_have_among_many(size: int):
    """By as many as these, matrices are multiplied another way, which rounds otherwise."""
    g = generator(0)
    query, table, bias = (torch.randn(shape, generator=g) for shape in ((40, 256), (2000, 256), (2000,)))
    given, burstiness = SparseRows.from_dense((torch.rand(40, 2000, generator=g) > 0.9).double()), torch.zeros(2000, 2)
    law = Shares(query / 16, torch.zeros(40, 3), given, table, bias, burstiness)
    some = torch.arange(size)
    alone, among = law[some].at(given[some])[0], law.at(given)[0]
    torch.testing.assert_close(alone, among[given.row < size], rtol=0, atol=0)
    for one, many in zip(law[some].weights()[::2], law.weights()[::2], strict=True):
        torch.testing.assert_close(one, many[:size], rtol=0, atol=0)


def test_rows_at_one_time_have_one_frequency_bias():
    """As in a chain: its product with the columns' frequencies is worked out once."""
    law = shares(calibrated=True)
    law = replace(law, frequency_bias=law.frequency_bias[:1].expand(3, -1))
    torch.testing.assert_close(law.dense(), formula(law))


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_cross_entropy_and_its_gradient_are_those_of_the_formula(own: bool, calibrated: bool):
    """At any places, and at those of z_t, of which some may be empty, as in training."""
    law = shares(calibrated=calibrated)
    value = rows([1, 2, 1, 0, 0], [1, 0, 4, 0, 0], [0, 2, 0, 0, 1])
    if own:
        places = value + law.given.with_values(torch.zeros_like(law.given.value))
        value = places
        law = replace(law, given=places.with_values(law.given.at(places)))
        assert law.given.same_places(value)
    names = ["query", "reuse", "table", "bias", "burstiness"]
    names += ["class_bias", "shrinkage", "frequency_bias", "reuse_bias", "frequency"] if calibrated else []
    inputs = [getattr(law, name).requires_grad_() for name in names]
    row_weights = d(0.3, 2.0, 1.0)
    plain = -(value.dense() * formula(law).log()).sum(1)
    torch.testing.assert_close(law.cross_entropy(value), plain)
    ours, theirs = (
        torch.autograd.grad((row_weights * loss).sum(), inputs) for loss in (law.cross_entropy(value), plain)
    )
    for name, mine, other in zip(names, ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-8, msg=lambda text, name=name: f"{name}: {text}")


def test_single_precision_is_as_good_as_it_can_be():
    law = shares(calibrated=True)
    names = (
        "query",
        "reuse",
        "table",
        "bias",
        "burstiness",
        "class_bias",
        "shrinkage",
        "frequency_bias",
        "reuse_bias",
        "frequency",
    )
    single = replace(law, **{name: getattr(law, name).float() for name in names})
    torch.testing.assert_close(single.dense(), formula(law), rtol=1e-4, atol=1e-6)
    places = SparseRows.from_dense(torch.ones_like(SEEN))
    torch.testing.assert_close(single.at(places)[0].double(), law.at(places)[0], rtol=1e-4, atol=1e-4)


def test_where_nothing_is_seen_units_are_new():
    """As at t = 1, where every place of a row may be kept, with nothing there."""
    law = shares()
    nothing = law.given.with_values(torch.zeros_like(law.given.value))
    new = (law.bias + law.query @ law.table.t()).softmax(-1)
    for empty in (nothing, SparseRows.empty(*SEEN.shape)):
        torch.testing.assert_close(replace(law, given=empty).dense(), new)
        torch.testing.assert_close(replace(law, given=empty).at(nothing)[1], torch.zeros(3, dtype=torch.float64))


def test_places_with_nothing_at_them_change_nothing():
    law = shares(calibrated=True)
    everywhere = SparseRows.from_dense(torch.ones_like(SEEN))
    full = replace(law, given=law.given + everywhere.with_values(torch.zeros_like(everywhere.value)))
    assert len(full.given.value) == SEEN.numel()
    torch.testing.assert_close(full.dense(), law.dense())
    torch.testing.assert_close(full.cross_entropy(everywhere), law.cross_entropy(everywhere))
    strength = torch.full((3, 3), 4.0, dtype=torch.float64)
    drawn = [TotalComposition(known(9, 9, 9), each, strength).sample(generator(1)) for each in (law, full)]
    assert torch.equal(drawn[0].dense(), drawn[1].dense())


def test_count_classes_part_columns_by_how_often_they_are_seen():
    given = d([1, 2, 3, 4, 500, 0])
    plain = replace(shares(given), table=torch.zeros(6, 4).double(), burstiness=torch.zeros(6, 2).double())
    classes = replace(plain, class_bias=d([*range(CLASSES)]))
    gain = (classes.dense() / plain.dense())[0].log()
    torch.testing.assert_close(gain - gain[-1], d(1, 2, 3, 3, 7, 0))


def test_what_is_new_is_not_a_rounding_error_where_all_is_seen():
    """In single precision and with a large bias: a sum of many shares is nearly one, and what is left of it is raised by much."""
    columns, count = 20_000, 10
    g = generator(0)
    law = Shares(
        torch.randn(count, 1, generator=g),
        torch.tensor([[12.0, 0.0, 0.0]]).expand(count, -1),
        SparseRows.from_dense(torch.ones(count, columns).double()),
        torch.randn(columns, 1, generator=g),
        torch.randn(columns, generator=g),
        torch.zeros(columns, 2),
        class_bias=torch.tensor([[6.0, *[-1.0] * (CLASSES - 1)]]).expand(count, -1),
    )
    one = SparseRows(torch.arange(count), torch.arange(count), torch.ones(count).double(), (count, columns))
    expected = -law.dense()[torch.arange(count), torch.arange(count)].log()
    torch.testing.assert_close(law.cross_entropy(one), expected, rtol=1e-3, atol=0.0)


def test_very_large_gains_are_finite():
    law = replace(shares(), given=rows([2, 0, 2, 0, 0], [0, 0, 0, 0, 0], [0, 2, 0, 0, 0]))
    burstiness = torch.stack([d(*[-40.0] * 5), d(300.0, 0, 299, 0, 0)], 1)
    law = replace(law, burstiness=burstiness, reuse=d([0.5, 0.0, 1.0]).expand(3, -1))
    new = (law.bias + law.query @ law.table.t()).softmax(-1)[0]
    pi = 1 / (1 + math.exp(-0.5))
    reused = (law.dense()[0] - (1 - pi) * new) / pi
    torch.testing.assert_close(reused, d(math.e, 0, 1, 0, 0) / (math.e + 1))


def test_a_share_that_is_very_small_has_a_logarithm_and_a_gradient():
    law = shares()
    law = replace(law, bias=d(0.0, 0.0, 0.0, -200.0, 0.0).requires_grad_())
    surprise = law.cross_entropy(rows([0, 0, 0, 1, 0], [0] * 5, [0] * 5))
    assert float(surprise[0].detach()) > 150
    assert float(torch.autograd.grad(surprise[0], law.bias)[0][3]) == pytest.approx(-1, abs=1e-6)


# The law of what is missing.


STRENGTH = d([3.0, 0.4, 20.0], [0.5, 6.0, 1.5], [2.0, 2.0, 2.0])


def test_the_composition_is_a_beta_binomial_and_two_dirichlet_multinomials():
    law = TotalComposition(known(9, 7, 5), shares(calibrated=True), STRENGTH)
    mu = formula(law.shares)
    value = d([4, 1, 0, 2, 2], [2, 1, 0, 0, 4], [1, 3, 0, 1, 0])
    expected = []
    for each, z, n, (s, new, seen) in zip(mu, SEEN, value, STRENGTH.tolist(), strict=True):
        there = z > 0
        k, n_seen = float(each[there].sum()), int(n[there].sum())
        log_prob = dirichlet_multinomial(n[~there], new * each[~there] / (1 - k))
        if there.any():
            log_prob += scipy.stats.betabinom.logpmf(n_seen, int(n.sum()), s * k, s * (1 - k))
            log_prob += dirichlet_multinomial(n[there], seen * each[there] / k)
        expected.append(log_prob)
    torch.testing.assert_close(law.log_composition(SparseRows.from_dense(value)), d(*expected))
    torch.testing.assert_close(law.log_prob(SparseRows.from_dense(value)), d(*expected))  # these totals are certain


def dirichlet_multinomial(n: Tensor, concentration: Tensor) -> float:
    return float(scipy.stats.dirichlet_multinomial.logpmf(n.int().numpy(), concentration.numpy(), int(n.sum())))


@given(st.lists(st.integers(0, 6), min_size=4, max_size=4), st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_polya_urns_of_their_own_strengths_are_one(z: list[int], n: list[int]):
    """A Dirichlet-multinomial of c + z splits, into seen and new, into a beta-binomial and two of the same kind."""
    c = d(0.3, 2.0, 1.0, 0.5)
    z = d(*z)
    whole = float((c + z).sum())
    seen = float((c + z)[z > 0].sum())
    odds = math.log(float(z.sum() / c.sum())) if z.any() else 0.0
    mean = Shares(
        query=torch.zeros(1, 1, dtype=torch.float64),
        reuse=d([odds, 0.0, 0.0]),
        given=SparseRows.from_dense(z[None]),
        table=torch.zeros(4, 1, dtype=torch.float64),
        bias=c.log(),
        burstiness=d([-1e4, 0.0]).expand(4, 2),
    )
    torch.testing.assert_close(mean.dense()[0], (c + z) / whole, rtol=1e-9, atol=1e-11)
    law = TotalComposition(known(sum(n)), mean, d([whole, whole - seen, seen]))
    log_prob = float(law.log_composition(SparseRows.from_dense(d(n))))
    assert log_prob == pytest.approx(dirichlet_multinomial(d(*n), c + z), rel=1e-8, abs=1e-8)


def test_strong_polya_urns_are_a_multinomial_and_weak_ones_put_all_on_one_column():
    mean = shares(torch.zeros(1, 3, dtype=torch.float64))
    mu = formula(mean)[0]
    support = grid(6, 6, 6)
    support = support[support.sum(1) == 5]
    strong = log_masses(TotalComposition(known(5), mean, d([1e9, 1e9, 1e9])), support)
    expected = [float(scipy.stats.multinomial.logpmf(n, 5, mu.numpy())) for n in support.numpy()]
    torch.testing.assert_close(strong, d(*expected), rtol=1e-6, atol=1e-6)
    weak = log_masses(TotalComposition(known(5), mean, d([1.0, 1e-9, 1.0])), support)
    torch.testing.assert_close(weak.exp(), (support == 5).double() @ mu, rtol=1e-6, atol=1e-6)


def log_masses(law: TotalComposition, support: Tensor) -> Tensor:
    return law[torch.zeros(len(support), dtype=torch.long)].log_prob(SparseRows.from_dense(support))


def test_two_units_of_a_polya_urn_are_alike_more_often_by_its_strength():
    """P(alike) = (1 + A Σ μ²)/(1 + A) in a Pólya urn of strength A."""
    mean = shares(torch.zeros(1, 40, dtype=torch.float64))
    mu = formula(mean)[0]
    for strength in (0.5, 10.0):
        law = TotalComposition(known(2), mean, d([1.0, strength, 1.0]))
        drawn = law.draw(Streams([generator(1)], 20_000), torch.zeros(20_000, dtype=torch.long))
        alike = float((drawn.value == 2).sum())
        expected = float((1 + strength * (mu**2).sum()) / (1 + strength))
        assert scipy.stats.binomtest(int(alike), 20_000, expected).pvalue > LEVEL


def test_dozens_of_units_of_one_step_are_beta_binomial():
    """What is seen of 40 units, and what falls on one of the columns of a Pólya urn."""
    strength = d([1.5, 4.0, 2.5], [3.0, 1.2, 3.0], [2.0, 2.0, 2.0])
    law, support = TotalComposition(known(40, 40, 40), shares(), strength), grid(41)
    mu = formula(law.shares)
    k = float(mu[0][SEEN[0] > 0].sum())

    def fits(drawn: Tensor, a: float, b: float) -> bool:
        return pearson(drawn, support, torch.from_numpy(scipy.stats.betabinom.logpmf(support, 40, a, b))) > LEVEL

    drawn = law.draw(Streams([generator(2)], 20_000), torch.arange(2).repeat_interleave(10_000)).dense()
    some_seen, nothing_seen = drawn.split(10_000)
    assert fits(some_seen[:, SEEN[0] > 0].sum(1), 1.5 * k, 1.5 * (1 - k))
    for column, share in enumerate(mu[1].tolist()):
        assert fits(nothing_seen[:, column], 1.2 * share, 1.2 * (1 - share))


def test_a_total_may_be_worked_out_when_it_is_needed():
    plain = TotalComposition(known(4, 2, 3), shares(), STRENGTH)
    lazy = replace(plain, total=lambda: plain.total)
    value = plain.sample(generator(0))
    assert torch.equal(lazy.sample(generator(0)).dense(), value.dense())
    assert torch.equal(lazy.log_prob(value), plain.log_prob(value))
    assert torch.equal(lazy.thin(0.5).mean, plain.thin(0.5).mean)
    assert torch.equal(lazy[torch.tensor([1])].mean, plain.mean[1:2])


def test_rows_are_worked_out_some_at_a_time(monkeypatch: pytest.MonkeyPatch):
    law = TotalComposition(known(4, 2, 3), shares(calibrated=True), STRENGTH)[torch.tensor([0, 1, 2] * 5)]
    members = sparse_set(0.7)[torch.tensor([0, 1] * 5)]
    drawn, scores = law.sample(generator(0)), law.log_prob(law.sample(generator(0)))
    columns, of_columns = members.sample(generator(0)), members.log_prob(members.sample(generator(0)))
    monkeypatch.setattr(sparse, "rows_at_once", lambda columns: 2)
    assert torch.equal(law.sample(generator(0)).dense(), drawn.dense())
    torch.testing.assert_close(law.log_prob(drawn), scores)
    assert torch.equal(members.sample(generator(0)).dense(), columns.dense())
    torch.testing.assert_close(members.log_prob(columns), of_columns)


@pytest.mark.parametrize("row", [0, 1])
def test_very_many_units_are_drawn_by_the_same_law(monkeypatch: pytest.MonkeyPatch, row: int):
    """Not one by one, but from shares that are drawn once."""
    monkeypatch.setattr(sparse, "MANY", 0)
    given = d([1, 0, 2], [0, 0, 0])
    law = TotalComposition(known(5, 5), shares(given, calibrated=True), STRENGTH[:2])[torch.tensor([row])]
    support = grid(6, 6, 6)
    support = support[support.sum(1) == 5]
    drawn = law.draw(Streams([generator(row)], 1200), torch.zeros(1200, dtype=torch.long))
    assert pearson(drawn, support, log_masses(law, support)) > LEVEL


def test_very_many_units_agree_with_units_one_by_one(monkeypatch: pytest.MonkeyPatch):
    """Column by column, and in how many columns they fall on."""
    law = TotalComposition(known(300), shares(d([4, 1, 0, 2] + [0] * 16)), d([6.0, 2.0, 5.0]))
    index, drawn = torch.zeros(800, dtype=torch.long), []
    for many in (2**13, 100):
        monkeypatch.setattr(sparse, "MANY", many)
        drawn.append(law.draw(Streams([generator(many)], 800), index).dense())
        assert (drawn[-1].sum(1) == 300).all()
    assert same(*drawn) > LEVEL
    assert same(*((each > 0).sum(1) for each in drawn)) > LEVEL
    assert same(*(each.amax(1) for each in drawn)) > LEVEL


def test_a_million_units_are_all_there():
    law = TotalComposition(known(1e6, 1e6, 3), shares(), STRENGTH)
    drawn = law.sample(generator(0))
    assert drawn.totals.tolist() == [1e6, 1e6, 3]
    assert (drawn.value == drawn.value.round()).all()


def test_a_weak_polya_urn_of_very_many_units_is_finite_and_has_one_column():
    law = TotalComposition(known(*[1e5] * 30), shares(torch.zeros(30, 5).double()), d([1.0, 1e-4, 1.0]).expand(30, -1))
    drawn = law.sample(generator(0)).dense()
    assert float((drawn.amax(1) / 1e5).mean()) > 0.99
    assert len(drawn.argmax(1).unique()) > 1


# The guard on totals, which is no part of the law.


TOTALS = {
    "Poisson": lambda a, b: (Poisson(d([a])), scipy.stats.poisson(a).sf),
    "NegativeBinomial": lambda a, b: (NegativeBinomial(d([b]), d([a])), scipy.stats.nbinom(b, b / (a + b)).sf),
    "Binomial": lambda a, b: (Binomial(d([math.ceil(a)]), d([0.3])), scipy.stats.binom(math.ceil(a), 0.3).sf),
}


@pytest.mark.parametrize("name", TOTALS)
@given(a=st.floats(1e-3, 1e5), b=st.floats(1e-2, 1e4))
def test_beyond_the_guard_a_total_has_less_than_a_billionth_of_its_mass(name: str, a: float, b: float):
    law, survival = TOTALS[name](a, b)
    limit = float(law.upper_quantile(GUARD).ceil())
    assert limit == round(limit)
    assert survival(limit) < 1e-9


def test_the_guard_of_a_mixture_is_that_of_its_widest_part_that_can_come():
    parts = (Zero(torch.zeros(1, 1, 1).double()), NegativeBinomial(d([[2.0, 0.1]]), d([[5.0, 1000.0]])))
    widest, other = (
        float(NegativeBinomial(d([a]), d([b])).upper_quantile(GUARD)) for a, b in ((0.1, 1000.0), (2.0, 5.0))
    )
    assert float(Mixture(d([[0.0, 0.0, 0.0]]), parts).upper_quantile(GUARD)) == widest
    assert float(Mixture(d([[0.0, 0.0, -100.0]]), parts).upper_quantile(GUARD)) == other
    assert float(Mixture(d([[0.0, -torch.inf, -torch.inf]]), parts).upper_quantile(GUARD)) == 0


def test_the_guard_acts_with_a_warning_beyond_it_alone(monkeypatch: pytest.MonkeyPatch):
    law = TotalComposition(NegativeBinomial(d([0.5]), d([8.0])), shares(SEEN[:1]), STRENGTH[:1])
    index = torch.zeros(3000, dtype=torch.long)

    def draw() -> SparseRows:
        return law.draw(Streams([generator(0)], 3000), index)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free = draw()
    support = grid(250)
    assert (
        pearson(free.totals, support, law.total[torch.zeros(250, dtype=torch.long)].log_prob(support[:, None])[:, 0])
        > LEVEL
    )
    monkeypatch.setattr(sparse, "GUARD", 0.1)
    limit = float(law.total.upper_quantile(0.1).ceil())
    assert 0 < float((free.totals > limit).double().mean()) < 0.2
    with pytest.warns(RuntimeWarning, match=f"was drawn and cut at {limit:.3g}, beyond which"):
        cut = draw()
    assert torch.equal(cut.totals, free.totals.clamp(max=limit))  # below the guard nothing has changed


# Columns by their weights.


def test_units_fall_by_their_weights_over_many_tiles():
    weights = torch.rand(2, 256, generator=generator(0)) * (torch.arange(256) % 3 > 0)
    row = torch.tensor([0, 1]).repeat(40_000)
    height = torch.rand(80_000, dtype=torch.float64, generator=generator(1))
    column = draw_columns(weights, row, height)
    for each in (0, 1):
        observed = torch.bincount(column[row == each], minlength=256)
        expected = weights[each].double() / weights[each].double().sum() * 40_000
        assert (observed[expected == 0] == 0).all()
        there = expected > 0
        assert scipy.stats.chisquare(observed[there], expected[there], sum_check=False).pvalue > LEVEL


def test_heights_at_the_ends_lead_to_columns_with_weight():
    weights = torch.zeros(1, 128)
    weights[0, 70], weights[0, 3] = 1e-20, 1.0
    ends = d(0.0, 1 - 2**-53)
    assert weights[0, draw_columns(weights, torch.zeros(2, dtype=torch.long), ends)].min() > 0


# Thinned rows, sets, and amounts.


@given(st.lists(st.integers(0, 4), min_size=6, max_size=6), st.floats(0.01, 0.99))
def test_thinned_rows_are_a_product_of_binomials(units: list[int], p: float):
    dense = d(*units).reshape(2, 3)
    each = d([p], [p / 2])
    law, plain = ThinnedRows(SparseRows.from_dense(dense), each), Product(Binomial(dense, each.expand(2, 3)))
    left = law.sample(generator(0))
    assert left.same_places(law.units)
    for value in (left, SparseRows.from_dense(left.dense())):
        torch.testing.assert_close(law.log_prob(value), plain.log_prob(left.dense()))
    torch.testing.assert_close(law.mean.dense(), plain.mean)


def sparse_set(kept: float, rates: Tensor | None = None) -> SparseSet:
    g = generator(5)
    query, table = (torch.randn(n, 3, dtype=torch.float64, generator=g) for n in (2, 4))
    log_rate = d([-1.0, 1.0], [0.0, 2.0]) if rates is None else rates
    logits, bias = d([0.0, 1.0], [0.5, 0.0]), d(0.0, 1.0, 0.0, -1.0)
    return SparseSet(logits, log_rate, query, rows([0, 1, 0, 0], [0, 0, 0, 0]), table, bias, d([kept]))


def set_formula(law: SparseSet, value: Tensor) -> Tensor:
    """ln Σ_k w_k Π_d Bernoulli(p (1 − exp(−R_k s_d)))."""
    logits = law.bias + law.query @ law.table.t()
    share = logits.masked_fill(law.given.dense() > 0, -torch.inf).softmax(-1)
    chance = law.kept[:, :, None] * (1 - torch.exp(-law.log_rate.exp()[:, :, None] * share[:, None]))
    present = torch.where(value[:, None] > 0, torch.where(value[:, None] > 0, chance, 1.0).log(), 0.0)
    absent = torch.where(value[:, None] > 0, 0.0, torch.log1p(-chance))
    return torch.logsumexp(law.logits.log_softmax(-1) + (present + absent).sum(-1), -1)


@pytest.mark.parametrize("kept", [1.0, 0.4])
def test_a_set_is_a_mixture_of_bernoullis_and_has_their_gradient(kept: float):
    law = sparse_set(kept)
    value = d([1, 0, 0, 1], [1, 1, 0, 1])
    inputs = [getattr(law, name).requires_grad_() for name in ("logits", "log_rate", "query", "table", "bias")]
    scores = law.log_prob(SparseRows.from_dense(value)), set_formula(law, value)
    torch.testing.assert_close(*scores)
    ours, theirs = (torch.autograd.grad((d(1.0, 0.3) * score).sum(), inputs) for score in scores)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-8)


def test_a_set_whose_rates_are_large_is_whole():
    law = sparse_set(1.0, torch.full((2, 2), 7.0, dtype=torch.float64))
    drawn = law.draw(Streams([generator(0)], 40), torch.tensor([0, 1]).repeat(20)).dense()
    assert torch.equal(drawn[:2], d([1, 0, 1, 1], [1, 1, 1, 1]))
    assert torch.equal(drawn, drawn[:2].repeat(20, 1))


def test_a_place_that_is_kept_with_nothing_there_can_come():
    """Thinned rows keep the places of what was lost."""
    law = sparse_set(1.0)
    lost = replace(law, given=law.given.with_values(torch.zeros_like(law.given.value)))
    empty = replace(law, given=SparseRows.empty(2, 4))
    torch.testing.assert_close(lost.shares(), empty.shares())
    value = rows([0, 1, 0, 0], [1, 0, 0, 0])
    torch.testing.assert_close(lost.log_prob(value), empty.log_prob(value))


def amounts(count: int = 1) -> Amounts:
    """Two entries; the row's factor is one of two, that of an entry's Gamma one of two."""
    one = torch.ones(count, 1, dtype=torch.float64)
    return Amounts(
        places=SparseRows.from_dense(one * d(1.0, 0.0, 1.0)),
        query=one * 0.4,
        factor_logits=one * d(0.0, 0.7),
        offsets=one * d(-1.0, 1.0),
        level_logits=one * d(0.2, 0.0),
        table=d([0.5], [9.0], [-1.0]),
        size=d(0.1, 5.0, 0.8),
        levels=d(-0.4, 0.3),
        shapes=d(4.0, 12.0),
        column_logits=d([0.0, 0.5], [0.0, 0.0], [-0.3, 0.2]),
    )


def test_amounts_are_gammas_given_a_factor_that_the_row_has_in_common():
    law, value = amounts(), rows([0.7, 0.0, 1.9])
    of_factor = []
    for offset in (-1.0, 1.0):
        log_density = 0.0
        for column, x in ((0, 0.7), (2, 1.9)):
            mean = law.size[column] + 8 * torch.tanh(0.4 * law.table[column, 0] / 8) + law.levels + offset
            weights = (law.level_logits[0] + law.column_logits[column]).log_softmax(-1)
            density = [
                scipy.stats.gamma(float(a), scale=float(m.exp() / a)).logpdf(x)
                for a, m in zip(law.shapes, mean, strict=True)
            ]
            log_density = log_density + torch.logsumexp(weights + d(*density), 0)
        of_factor.append(log_density)
    expected = torch.logsumexp(d(0.0, 0.7).log_softmax(-1) + torch.stack(of_factor), 0)
    assert float(law.log_prob(value)) == pytest.approx(float(expected), rel=1e-9)


def test_amounts_of_a_row_go_together_and_stay_in_their_places():
    drawn = amounts(20_000).sample(generator(0))
    assert torch.equal(drawn.dense() > 0, amounts(20_000).places.dense() > 0)
    logs = drawn.dense()[:, [0, 2]].log()
    # Var of the factor is 4 w (1 − w); what is left of an entry is independent of the other's.
    w = 1 / (1 + math.exp(-0.7))
    covariance = float(torch.cov(logs.t())[0, 1])
    assert covariance == pytest.approx(4 * w * (1 - w), rel=0.05)


def test_a_gamma_that_underflows_is_still_an_amount():
    law = replace(amounts(2000), shapes=d(1e-1, 1e-1), size=torch.full((3,), -600.0).double())
    drawn = law.sample(generator(0))
    assert (drawn.value > 0).all()
    assert law.log_prob(drawn).isfinite().all()


@pytest.mark.parametrize("a", [1e-300, 1e-12, 0.3, 999_999.0, 1_000_001.0, 1e9, 1e13])
def test_a_rising_factorial_is_a_product(a: float):
    """ln Γ(a + n) − ln Γ(a) = Σ_j ln(a + j): a sum of logarithms has no digits to lose."""
    start = d(a).requires_grad_()
    for n in (0, 1, 5, 1000):
        expected = math.fsum(math.log(max(a, 1e-290) + j) for j in range(n))
        rising = sparse._rising(start, d(n))
        assert float(rising.detach()) == pytest.approx(expected, rel=1e-9)
        slope = float(torch.autograd.grad(rising.sum(), start)[0])
        assert slope == pytest.approx(math.fsum(1 / (a + j) for j in range(n)) if a > 1e-290 else 0.0, rel=1e-6)


def test_gammas_of_amounts_have_their_means():
    """E[x] = Σ_j w_j Σ_k v_k exp(offset_j + level_k + size)."""
    law = amounts(40_000)
    w, drawn = d(0.0, 0.7).softmax(0), law.sample(generator(2)).dense()
    for column in (0, 2):
        v = (law.level_logits[0] + law.column_logits[column]).softmax(0)
        size = law.size[column] + 8 * torch.tanh(0.4 * law.table[column, 0] / 8)
        mean = (w * d(-1.0, 1.0).exp()).sum() * (v * law.levels.exp()).sum() * size.exp()
        spread = float(drawn[:, column].std()) / np.sqrt(40_000)
        assert abs(float(drawn[:, column].mean() - mean)) < 4 * spread


def test_where_every_column_is_seen_none_is_new():
    """Whatever rounding leaves of the softmax, and however much it is raised, every unit falls on a column of its own row."""
    columns, count = 300, 3
    g = generator(0)
    law = Shares(
        torch.randn(count, 4, generator=g),
        torch.randn(count, 3, generator=g),
        SparseRows.from_dense(torch.full((count, columns), 5.0).double()),
        torch.randn(columns, 4, generator=g),
        torch.randn(columns, generator=g),
        torch.zeros(columns, 2),
        class_bias=torch.tensor([[6.0, *[0.0] * (CLASSES - 1)]]).expand(count, -1),
    )
    assert law.weights()[2].tolist() == [1.0] * count
    strength = torch.full((count, 3), 1e6, dtype=torch.float64)
    drawn = TotalComposition(known(*[8000.0] * count), law, strength).sample(generator(0))
    assert drawn.totals.tolist() == [8000.0] * count


def test_a_place_with_nothing_there_is_no_part_of_a_set():
    law = SparseSet(
        torch.zeros(1, 1), torch.full((1, 1), 1.0), torch.randn(1, 2, generator=generator(0)), SparseRows.empty(1, 4),
        torch.randn(4, 2, generator=generator(1)), torch.zeros(4), torch.ones(1, 1).double(),
    )  # fmt: skip
    value = SparseRows(torch.tensor([0, 0]), torch.tensor([1, 3]), d(1.0, 0.0), (1, 4))
    for each in (law, law.thin(0.5)):
        torch.testing.assert_close(each.log_prob(value), each.log_prob(value.nonzero()))
