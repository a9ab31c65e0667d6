"""Bags and their laws: the same numbers as dense rows, and as the laws of dense rows."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from goodness import LEVEL, generator, grid, pearson
from scipy.stats import chisquare

from countjump import compositions
from countjump.bags import Bags, Sample, Thinned
from countjump.beliefs import AmountHead, BagHead, Conjugate, CountHead, Gammas
from countjump.compositions import TILTS, Amounts, BagLaw, drop
from countjump.laws import Binomial, Gamma, Mixture, Multinomial, Poisson, Product, Split
from countjump.likelihood import bag_bound
from countjump.networks import MLP
from countjump.processes.bags import BagJump
from countjump.processes.base import Denoiser, distinct_rows
from countjump.schedules import Cosine

DENSE = torch.tensor([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 5]], dtype=torch.float64)


def bags() -> Bags:
    return Bags.from_dense(DENSE)


def bag_law(rows=2, columns=3, sets=False, tilted=False) -> BagLaw:
    g = generator(3)
    given = torch.tensor([[1, 0, 2], [0, 0, 0]], dtype=torch.float64)[:rows, :columns]
    return BagLaw(
        Poisson(torch.tensor([[2.5], [1.0]]).double()[:rows]),
        torch.randn(rows, 4, generator=g),
        torch.randn(rows, 4, generator=g),
        Bags.from_dense(given.clamp(max=1) if sets else given),
        torch.randn(columns, 4, generator=g),
        torch.randn(columns, generator=g),
        None if sets else torch.tensor([[-1.0, 0.7, 0.2], [0.0, 0.0, 1.0], [0.5, -0.5, 0.0]])[:columns],
        torch.full((rows,), 1000.0, dtype=torch.float64),
        torch.randn(rows, TILTS, generator=g) if tilted and not sets else None,
        torch.randn(rows, 2, generator=g) if tilted else None,
        torch.randn(columns, 2, generator=g) if tilted else None,
    )


def dense_law(law: BagLaw) -> Split:
    return Split(Poisson(law.total.rate.squeeze(1)), Multinomial(law.shares().double().log()))


def agrees(drawn: torch.Tensor, law) -> bool:
    """Whether draws (N,) follow the law of one number."""
    support = grid(60)
    return pearson(drawn, support, law.log_prob(support)) > LEVEL


def proportional(observed: torch.Tensor, weights: torch.Tensor) -> bool:
    expected = weights.double() / weights.double().sum() * observed.sum()
    return chisquare(observed.double().numpy(), expected.numpy(), sum_check=False).pvalue > LEVEL


def test_there_and_back():
    assert torch.equal(bags().dense(), DENSE)
    assert torch.equal(Bags.from_csr(sp.csr_matrix(DENSE.numpy())).dense(), DENSE)
    np.testing.assert_array_equal(bags().csr().toarray(), DENSE.numpy())
    assert torch.equal(bags().totals(), DENSE.sum(1))


@pytest.mark.parametrize("index", [[2, 0, 0, 1], [], [1], [2, 2]])
def test_rows_are_the_rows(index):
    index = torch.tensor(index, dtype=torch.long)
    assert torch.equal(bags().rows(index).dense(), DENSE[index])
    assert torch.equal(bags().rows(index).row, bags().rows(index).row.sort().values)


def test_sum_merges_places():
    other = torch.tensor([[1, 2, 0, 0], [0, 4, 0, 0], [0, 0, 0, 5]], dtype=torch.float64)
    whole = bags() + Bags.from_dense(other)
    assert torch.equal(whole.dense(), DENSE + other)
    assert len(whole.value) == (DENSE + other).count_nonzero()


def test_distinct_rows_of_bags_are_those_of_dense_rows():
    z = torch.tensor([[0, 0], [1, 0], [0, 1], [0, 0], [1, 0]], dtype=torch.float64)
    first, kind = distinct_rows(Bags.from_dense(z))
    assert len(first) == 3
    assert torch.equal(z[first][kind], z)


def test_thinned_is_a_product_of_binomials():
    p = torch.tensor([[0.3], [0.5], [0.9]], dtype=torch.float64)
    law, dense = Thinned(bags(), p), Product(Binomial(DENSE, p.expand_as(DENSE)))
    left = law.sample(generator(0))
    torch.testing.assert_close(law.log_prob(left), dense.log_prob(left.dense()))
    many = bags().rows(torch.full((20_000,), 2))
    drawn = Thinned(many, torch.full((1, 1), 0.9).double()).sample(generator(1)).dense()
    assert agrees(drawn[:, 3], Binomial(torch.tensor(5.0).double(), torch.tensor(0.9).double()))


def test_probabilities_are_those_of_the_dense_law():
    law = bag_law()
    value = Bags.from_dense(torch.tensor([[0, 2, 1], [0, 0, 0]], dtype=torch.float64))
    torch.testing.assert_close(law.log_prob(value), dense_law(law).log_prob(value.dense()), rtol=1e-5, atol=1e-5)
    thinned = law.thin(0.3).log_prob(value)
    torch.testing.assert_close(thinned, dense_law(law).thin(0.3).log_prob(value.dense()), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(law.mean, dense_law(law).mean, rtol=1e-5, atol=1e-5)


def test_units_fall_anew_or_where_some_lie_already():
    """(1 − π) softmax(b + table · q) + π (z − δ) exp(g · c) / Σ; where nothing lies yet, π = 0."""
    law = bag_law()
    anew = (law.bias + law.query @ law.table.t()).softmax(-1)
    odds, shift, *gain = law.echo[0]
    units = torch.tensor([1.0, 0.0, 2.0]) - (law.calling[:, 0] + shift).sigmoid() * torch.tensor([1.0, 0.0, 1.0])
    weight = units * (gain[0] * law.calling[:, 1] + gain[1] * law.calling[:, 2]).exp()
    share = odds.sigmoid()
    torch.testing.assert_close(law.shares()[0], (1 - share) * anew[0] + share * weight / weight.sum())
    torch.testing.assert_close(law.shares()[1], anew[1])
    torch.testing.assert_close(law.shares().sum(1), torch.ones(2))


def test_shares_are_tilted_by_how_often_a_column_is_there():
    law = bag_law(tilted=True)
    law.tilt[:, -1] = 0.0
    factor = law.tilt.exp()[torch.arange(2)[:, None], torch.tensor([[1, 0, 2], [0, 0, 0]])]
    plain = replace(law, tilt=None).shares() * factor
    torch.testing.assert_close(law.shares(), plain / plain.sum(1, keepdim=True))
    given = Bags.from_dense(torch.tensor([[3, 4, 5, 9, 10, 19, 20, 39, 40]], dtype=torch.float64))
    law = replace(bag_law(rows=1), given=given, bias=torch.zeros(9), table=torch.zeros(9, 4), calling=torch.zeros(9, 3))
    alike = replace(law, tilt=torch.tensor([[*range(TILTS - 1), 0.0]]))
    gain = (alike.shares() / law.shares())[0].log()
    torch.testing.assert_close(gain - gain[0], torch.tensor([0.0, 0, 1, 1, 2, 2, 3, 3, 4]), rtol=0, atol=1e-5)


def narrowed(head, x: Bags, columns: list[int]) -> Bags:
    """x on some columns."""
    some = torch.tensor(columns)
    place = torch.searchsorted(some, x.column)
    sample = Sample(some, torch.ones(len(some)), head.table(some))
    return Bags(x.row, place, x.value, (len(x), len(some)), sample)


@pytest.mark.parametrize("amounts", [False, True])
def test_a_sample_of_all_columns_is_all_of_them(amounts):
    process, denoise = model(columns=4, amounts=amounts)
    torch.nn.init.normal_(denoise.network.output.weight)
    x = Bags.from_dense(DENSE)
    times, index = torch.tensor([0.0, 0.3]).double(), torch.tensor([0, 1, 1])
    t = times[index][:, None]

    def loss(x: Bags) -> torch.Tensor:
        z = process.corrupt(x, t, generator(0))
        return process.loss(x, z, t, denoise(z, times, index), generator(0))

    torch.testing.assert_close(loss(narrowed(process.head, x, [0, 1, 2, 3])), loss(x))
    # The second column is nobody's, and only its share is missed.
    few = x.where(x.column != 1)
    assert (loss(narrowed(process.head, few, [0, 2, 3])) < loss(few)).any()
    assert narrowed(process.head, few, [0, 2, 3]).names.tolist() == few.column.tolist()


def test_a_column_of_a_sample_stands_for_those_like_it():
    """With the inverse of its probability: the sum under the softmax keeps its mean."""
    head = model(columns=40)[0].head
    query = torch.randn(1, head.width, generator=generator(0))
    table, bias, *_ = head._columns(None)
    whole = (bias + query @ table.t()).exp().sum().detach()
    x = Bags.from_dense(torch.nn.functional.pad(torch.tensor([[1.0, 2.0]]).double(), (0, 38)))
    head.inclusion = torch.full((40,), 0.25)
    sums = []
    for draw in range(2000):
        sample = head.narrow(x, generator(draw)).sample
        assert sample.columns[:2].tolist() == [0, 1]
        assert sample.inclusion.tolist() == [1.0, 1.0] + [0.25] * (len(sample.columns) - 2)
        table, bias, *_ = head._columns(sample)
        sums.append((bias + query @ table.t()).exp().sum().detach())
    mean, spread = torch.stack(sums).mean(), torch.stack(sums).std()
    assert abs(float(mean - whole)) < 4 * float(spread) / 2000**0.5


def test_all_columns_are_looked_at_without_a_gradient_or_if_a_sample_would_be_most_of_them(monkeypatch):
    head = model(columns=40)[0].head
    x = Bags.from_dense(torch.nn.functional.pad(torch.tensor([[1.0, 2.0]]).double(), (0, 38)))
    assert head.narrow(x, generator(0)) is x, "a thousand are wanted"
    head.inclusion = torch.full((40,), 0.25)
    with torch.no_grad():
        assert head.narrow(x, generator(0)) is x
    assert head.narrow(x, generator(0)) is not x
    monkeypatch.setattr("countjump.beliefs.WHOLE", 39)
    with torch.no_grad():
        assert head.narrow(x, generator(0)) is not x, "so many that even to look at all is dear"


def test_one_time_in_four_is_zero_where_there_are_amounts_to_learn():
    times = {amounts: model(amounts=amounts)[0].draw_times(32, generator(0)) for amounts in (False, True)}
    assert (times[True] == 0).sum() == 8
    assert (times[False] == 0).sum() == 0


def test_totals_are_cut_at_twice_the_largest():
    _, denoise = model(columns=3)
    z = Bags.from_dense(torch.tensor([[0, 0, 0], [5, 0, 0], [6, 7, 0]], dtype=torch.float64))
    law = denoise(z, torch.tensor([0.5]).double(), torch.zeros(3, dtype=torch.long)).missing
    assert law.limit.tolist() == [12, 7, 0]
    many = replace(law, total=Poisson(torch.full((3, 1), 1e4).double()))
    assert many.sample(generator(0)).totals().tolist() == [12, 7, 0]


def test_the_gradient_of_a_sample_names_its_columns_alone():
    process, denoise = model(columns=40)
    x = Bags.from_dense(torch.nn.functional.pad(torch.tensor([[1.0, 2.0]]).double(), (0, 38)))
    process.head.inclusion = torch.full((40,), 0.25)
    narrow = process.narrow(x, generator(0))
    t = torch.tensor([[0.5]]).double()
    z = process.corrupt(narrow, t, generator(0))
    process.loss(narrow, z, t, denoise(z, t[0], torch.zeros(1, dtype=torch.long)), generator(0)).sum().backward()
    gradient = process.head.table.weight.grad
    assert gradient.is_sparse
    assert torch.equal(gradient._indices()[0], narrow.sample.columns)


def test_values_are_found_at_the_places_of_others():
    others = Bags.from_dense(torch.tensor([[1, 1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1]], dtype=torch.float64))
    assert bags().at(others).tolist() == [0, 2, 1, 0, 0, 5]
    assert Bags.empty(3, 4).at(others).tolist() == [0] * 6
    assert bags().at(Bags.empty(3, 4)).tolist() == []
    assert torch.equal(bags().at(bags()), bags().value)


def test_draws_follow_the_law():
    law, rows = bag_law(columns=3), 30_000
    for row in (0, 1):
        drawn = law.draw(torch.full((rows,), row), generator(row)).dense()
        share = law.rows(torch.tensor([row])).shares()[0].double()
        assert proportional(drawn.sum(0), share)
        total = law.total.rate[row, 0]
        assert agrees(drawn.sum(1), Poisson(total))
        # Poisson totals that fall independently are independent Poisson counts.
        assert agrees(drawn[:, 0], Poisson(total * share[0]))


def test_every_row_draws_by_its_own_law():
    law = bag_law()
    index = torch.tensor([0, 1]).repeat(20_000)
    drawn = law.draw(index, generator(5)).dense()
    for row in (0, 1):
        torch.testing.assert_close(drawn[index == row].mean(0), law.mean[row].double(), rtol=0.1, atol=0.02)


def test_a_total_is_cut_at_its_limit():
    law = bag_law()
    cut = BagLaw(**{**vars(law), "limit": torch.tensor([2.0, 0.0]).double()})
    totals = cut.draw(torch.tensor([0, 1]).repeat(200), generator(0)).totals()
    assert totals[0::2].max() == 2
    assert totals[1::2].max() == 0


def test_a_set_takes_no_column_twice_and_none_that_is_there():
    law = bag_law(columns=3, sets=True)
    law = BagLaw(**{**vars(law), "limit": torch.tensor([1.0, 3.0]).double()})
    drawn = law.draw(torch.tensor([0, 1]).repeat(500), generator(0)).dense()
    assert drawn.max() == 1
    assert (drawn[0::2][:, [0, 2]] == 0).all()
    assert (drawn[1::2].sum(1) == 3).any()


def test_many_units_fall_like_few():
    law = bag_law().rows(torch.tensor([0]))
    sure = BagLaw(**{**vars(law), "total": Binomial(torch.full((1, 1), 1e6).double(), torch.ones(1, 1).double()),
                     "limit": torch.full((1,), 1e7).double()})  # fmt: skip
    drawn = sure.draw(torch.zeros(3, dtype=torch.long), generator(0)).dense()
    assert (drawn.sum(1) == 1e6).all()
    assert proportional(drawn[0], law.shares()[0])


def test_a_set_is_full_though_one_column_has_nearly_all_weight():
    law = bag_law(columns=3, sets=True).rows(torch.tensor([1]))
    sure = BagLaw(**{**vars(law), "bias": torch.tensor([30.0, 0.0, 0.0]),
                     "total": Binomial(torch.full((1, 1), 3.0).double(), torch.ones(1, 1).double())})  # fmt: skip
    assert (sure.draw(torch.zeros(50, dtype=torch.long), generator(0)).dense() == 1).all()


def test_a_place_that_is_kept_with_nothing_there_can_come():
    """Thinned bags keep the places of what was lost."""
    law = bag_law(columns=3, sets=True)
    lost = law.given.valued(torch.zeros_like(law.given.value))
    torch.testing.assert_close(
        BagLaw(**{**vars(law), "given": lost}).shares(),
        BagLaw(**{**vars(law), "given": Bags.empty(2, 3)}).shares(),
    )


def test_a_set_of_two_is_drawn_one_after_the_other():
    """P({a, b}) = p_a p_b/(1 − p_a) + p_b p_a/(1 − p_b)."""
    law = bag_law(columns=3, sets=True).rows(torch.tensor([1]))
    law = BagLaw(**{**vars(law), "total": Binomial(torch.full((1, 1), 2.0).double(), torch.ones(1, 1).double())})
    drawn = law.draw(torch.zeros(20_000, dtype=torch.long), generator(0)).dense()
    p = law.shares()[0].double()
    left_out = 1 - drawn
    expected = [p[a] * p[b] / (1 - p[a]) + p[a] * p[b] / (1 - p[b]) for a, b in ((1, 2), (0, 2), (0, 1))]
    assert proportional(left_out.sum(0), torch.stack(expected))


def test_units_fall_by_their_weights_over_many_blocks():
    weights = torch.rand(2, 256, generator=generator(0)) * (torch.arange(256) % 3 > 0)
    row = torch.tensor([0, 1]).repeat(40_000)
    column = drop(weights, row, generator(1))
    for each in (0, 1):
        observed = torch.bincount(column[row == each], minlength=256)
        some = weights[each] > 0
        assert (observed[~some] == 0).all()
        assert proportional(observed[some], weights[each][some])


def model(columns=3, amounts=False) -> tuple[BagJump, Denoiser]:
    torch.manual_seed(0)
    prior = Conjugate(*(torch.tensor([value], dtype=torch.float64) for value in (2.0, 2.0, 1.0)))
    gammas = Gammas(torch.tensor([[[1.0]], [[2.0]], [[2.0]]]))
    total = CountHead(prior, torch.tensor([6.0]).double(), torch.tensor([False]), 2, gammas)
    shares = torch.full((columns,), 1 / columns).double()
    head = BagHead(shares, total, 8, AmountHead(shares.log(), 1.0, 2) if amounts else None)
    network = MLP(head.inputs, head.outputs, 8)
    torch.nn.init.normal_(network.output.weight, std=0.5)
    return BagJump(head, Cosine(), 0.9), Denoiser(network, head, Cosine()).eval()


def test_the_bound_is_a_bound():
    """The sum over x of exp(bound), averaged over draws, is at most one, and not small for a model that is not absurd."""
    process, denoise = model(columns=2)
    support = torch.cartesian_prod(torch.arange(14.0), torch.arange(14.0)).double()
    draws = [bag_bound(process, denoise, Bags.from_dense(support), process.grid(4), generator(i)) for i in range(20)]
    mass = float(torch.stack(draws).mean(0).exp().sum())
    assert 0.5 < mass < 1.01


def test_corrupting_and_going_back_by_the_posterior_is_corrupting_less():
    process, _ = model(columns=4)
    x = bags().rows(torch.full((20_000,), 2))
    t, s = torch.full((1, 1), 0.7).double(), torch.full((1, 1), 0.3).double()
    z = process.corrupt(x, t, generator(0))
    back = process.posterior(z, x, s, t).sample(generator(1)).dense()
    assert agrees(back[:, 3], Binomial(torch.tensor(5.0).double(), process.schedule.alpha(s)[0, 0]))


def test_loss_of_reals_is_of_places_and_of_amounts():
    process, denoise = model(columns=4, amounts=True)
    x = Bags.from_dense(DENSE * 0.3)
    times = torch.tensor([0.0, 0.5]).double()
    index = torch.tensor([1, 1, 0])
    t = times[index][:, None]
    z = process.corrupt(x, t, generator(0))
    belief = denoise(z, times, index)
    loss = process.loss(x, z, t, belief, generator(0))
    assert z.value.max() == 1
    assert 0 < z.totals()[0] < x.row.bincount()[0]
    whole = x.valued(torch.ones_like(x.value))
    places = process.head.negative_log_likelihood(belief, whole.valued(whole.value - z.value))
    amounts = belief.data.negative_log_likelihood(x)
    per = process.head.divisor(z, process.schedule.alpha(t))
    torch.testing.assert_close(loss, (places + torch.tensor([0.0, 0.0, 1.0]).double() * amounts) / per)
    drawn = denoise(process.units(x), torch.zeros(1), torch.zeros(3, dtype=torch.long)).data.sample(generator(0))
    assert torch.equal(drawn.dense() > 0, DENSE > 0)


def amounts(rows: int) -> Amounts:
    """One level, one factor: the share of column d is Gamma(shape, mean m_d) over the sum of them."""
    places = Bags.from_dense(torch.ones(rows, 2, dtype=torch.float64))
    total = Mixture(
        torch.zeros(rows, 1, 1).double(), (Gamma(*(torch.full((rows, 1, 1), v).double() for v in (9.0, 4.0))),)
    )
    nothing = torch.zeros(rows, 1)
    return Amounts(
        places, total, nothing, nothing, nothing, nothing, torch.zeros(2, 1), torch.tensor([0.2, 0.6]).log(),
        torch.zeros(1), torch.full((1,), 3.0), torch.zeros(2, 1),
    )  # fmt: skip


def test_amounts_are_a_total_times_shares():
    law = amounts(50_000)
    drawn = law.sample(generator(0)).dense()
    assert float(drawn.sum(1).mean()) == pytest.approx(4, rel=0.02)
    # g_0/(g_0 + g_1) with equal shapes: odds of the first are (0.2/0.6) times an F(6, 6) variable.
    odds = drawn[:, 0] / drawn[:, 1] * 3
    assert float((odds < 1).double().mean()) == pytest.approx(0.5, abs=0.01)
    assert float((odds < scipy_f().ppf(0.9)).double().mean()) == pytest.approx(0.9, abs=0.01)


def scipy_f():
    from scipy.stats import f

    return f(6, 6)


def test_likelihood_of_amounts_is_of_the_total_and_of_the_numbers():
    law = amounts(1)
    x = Bags.from_dense(torch.tensor([[1.0, 3.0]], dtype=torch.float64))
    total = Gamma(torch.tensor(9.0).double(), torch.tensor(4.0).double()).log_prob(torch.tensor(4.0).double())
    numbers = Gamma(torch.tensor(3.0), torch.tensor([0.2, 0.6])).log_prob(torch.tensor([0.25, 0.75])).sum()
    assert float(law.negative_log_likelihood(x)) == pytest.approx(-float(total + numbers), rel=1e-5)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("sets", "tilted"), [(False, False), (False, True), (True, False), (True, True)])
def test_cross_entropy_and_its_gradient_are_those_of_the_shares(sets, tilted, own):
    """At any places, and at those of z_t, of which some may be empty, as in training."""
    law = bag_law(sets=sets, tilted=tilted)
    value = Bags.from_dense(torch.tensor([[0, 2, 0] if sets else [1, 2, 1], [1, 0, 4]], dtype=torch.float64))
    if own:
        law = BagLaw(**{**vars(law), "given": value.valued(law.given.at(value))})
    inputs = [
        law.query,
        law.table,
        law.bias,
        *([] if sets else [law.echo, law.calling]),
        *([law.lean] if tilted else []),
        *([law.tilt] if tilted and not sets else []),
    ]
    for each in inputs:
        each.requires_grad_()
    weights = torch.tensor([0.3, 2.0]).double()
    plain = -value.per_row(value.value * law.shares().double()[value.row, value.column].log())
    torch.testing.assert_close(law.cross_entropy(value), plain, rtol=1e-5, atol=1e-5)
    ours, theirs = (
        torch.autograd.grad((weights * loss).sum(), inputs, allow_unused=True, retain_graph=True)
        for loss in (law.cross_entropy(value), plain)
    )
    for mine, other in zip(ours, theirs, strict=True):
        if other is not None:
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_the_loss_of_totals_teaches_the_small_network_alone():
    process, _ = model(columns=4)
    weights = {name: weight for name, weight in process.head.named_parameters() if weight.requires_grad}
    loss = process.loss_of_totals(bags().totals()[:, None], generator(0)).mean()
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    learned = {name for name, grad in zip(weights, found, strict=True) if grad is not None}
    assert learned == {name for name in weights if name.startswith("pace")}


def test_the_belief_about_the_total_sees_the_total_alone():
    """A thinned total is a JUMP of one column: its law is the same wherever the units lie."""
    process, denoise = model(columns=3)
    torch.nn.init.normal_(process.head.pace[-1].weight)
    z = Bags.from_dense(torch.tensor([[2, 1, 0], [0, 0, 3]], dtype=torch.float64))
    mean = denoise(z, torch.tensor([0.5]), torch.zeros(2, dtype=torch.long)).missing.total.mean.detach()
    assert float(mean[0, 0]) == pytest.approx(float(mean[1, 0]), rel=1e-6)


def test_a_head_begins_with_known_directions():
    process, _ = model(columns=3)
    rise = torch.randn(3, 5, generator=generator(1))
    process.head.start(rise, torch.arange(1.0, 6))
    assert torch.equal(process.head.table.weight[:, :5], rise)
    x = Bags.from_dense(torch.tensor([[1, 0, 3]], dtype=torch.float64))
    seen = process.head.features(x, torch.full((1, 1), 0.5).double())[0, :5]
    torch.testing.assert_close(seen, (rise[0] * np.log(2) + rise[2] * np.log(4)) / torch.arange(1.0, 6))
    process.head.start(rise, torch.zeros(5))
    assert process.head.features(x, torch.full((1, 1), 0.5).double()).isfinite().all()


def test_where_nothing_lies_units_come_anew():
    """As at t = 1, when every place of a row is empty."""
    law = bag_law()
    value = Bags.from_dense(torch.tensor([[1, 2, 1], [1, 0, 4]], dtype=torch.float64))
    law = BagLaw(**{**vars(law), "given": value.valued(torch.zeros_like(value.value))})
    anew = (law.bias + law.query @ law.table.t()).double().log_softmax(-1)
    torch.testing.assert_close(law.cross_entropy(value), -(value.dense() * anew).sum(1), rtol=1e-5, atol=1e-5)


def test_an_urn_with_very_large_calls_is_finite():
    law = bag_law()
    law = BagLaw(**{**vars(law), "calling": torch.tensor([[40.0, 0.0, 300.0], [0.0, 0.0, 0.0], [40.0, 0.0, 299.0]])})
    law.echo[:, 2:] = torch.tensor([0.0, 1.0])
    shares = law.shares()[0]
    repeated = float(law.echo[0, 0].sigmoid())
    anew = (law.bias + law.query @ law.table.t())[0].softmax(-1)
    assert shares.isfinite().all()
    assert float(shares.sum()) == pytest.approx(1)
    # The two weights are proportional to (z − δ) e^call, with δ = 1 to twenty digits: 1e-30, the least, and 1.
    least = 1e-30 * np.e
    urn = [least / (least + 1), 0.0, 1 / (least + 1)]
    assert ((shares - (1 - repeated) * anew) / repeated).tolist() == pytest.approx(urn, abs=1e-5)


def test_equal_units_with_very_large_calls_fall_by_their_difference():
    law = bag_law()
    calling = torch.tensor([[-40.0, 0.0, 300.0], [0.0, 0.0, 0.0], [-40.0, 0.0, 299.0]])
    given = Bags.from_dense(torch.tensor([[2, 0, 2], [0, 0, 0]], dtype=torch.float64))
    law = replace(law, calling=calling, given=given)
    law.echo[:, 2:] = torch.tensor([0.0, 1.0])
    _, share = law._repeats()
    assert share.tolist() == pytest.approx([np.e / (np.e + 1), 1 / (np.e + 1)], abs=1e-5)


def test_a_share_that_is_very_small_has_a_logarithm_and_a_gradient():
    law = bag_law()
    law = BagLaw(**{**vars(law), "bias": torch.tensor([0.0, -200.0, 0.0], requires_grad=True)})
    surprise = law.cross_entropy(Bags.from_dense(torch.tensor([[0, 1, 0], [0, 0, 0]], dtype=torch.float64)))
    assert float(surprise[0].detach()) > 150
    assert float(torch.autograd.grad(surprise[0], law.bias)[0][1]) == pytest.approx(-1, abs=1e-3)


@pytest.mark.parametrize(("sets", "tilted"), [(False, False), (False, True), (True, False), (True, True)])
def test_weights_by_which_units_are_drawn_are_the_shares(sets, tilted):
    law = bag_law(sets=sets, tilted=tilted)
    weights, _ = law._weights()
    assert weights.shape[1] == 64
    assert float(weights[:, 3:].sum()) == 0
    torch.testing.assert_close(weights[:, :3] / weights.sum(1, keepdim=True), law.shares(), rtol=1e-5, atol=1e-6)


def test_a_tilt_of_large_shares_moves_units_between_the_columns_that_are_there():
    law, tilt = bag_law(), torch.randn(2, TILTS, generator=generator(1))
    shares = law.shares()[0]
    plain, bent = (replace(law, tilt=torch.cat([tilt[:, :-1], torch.full((2, 1), b)], 1)).shares() for b in (0.0, -0.5))
    there = torch.tensor([0, 2])
    assert float(bent[0, 1]) == pytest.approx(float(plain[0, 1]))
    assert float(bent[0, there].sum()) == pytest.approx(float(plain[0, there].sum()))
    factor = (1 + shares / 0.03) ** -0.5
    ratio = float(plain[0, 0] / plain[0, 2] * factor[0] / factor[2])
    assert float(bent[0, 0] / bent[0, 2]) == pytest.approx(ratio, rel=1e-5)
    torch.testing.assert_close(bent[1], plain[1])


def urn(
    discount: float, strength: float, units: int, rows: int = 1000, columns: int = 20_000, new: float | None = None
) -> BagLaw:
    """Pitman and Yor's, with 24 units at 12 columns: more come, anew at any column, or with that probability at a new one."""
    new = 1 - 12 / columns if new is None else new
    bias = torch.zeros(columns)
    bias[:12] = np.log((1 - new) / new * (columns - 12) / 12)
    given = torch.zeros(1, columns, dtype=torch.float64)
    given[0, :12] = 2
    odds = np.log((24 - discount * 12) / (strength + discount * 12))
    calling = torch.zeros(columns, 2)
    calling[:, 0] = np.log(discount / (1 - discount))
    return BagLaw(
        Binomial(torch.full((rows, 1), float(units)).double(), torch.ones(rows, 1).double()),
        torch.zeros(rows, 1),
        torch.tensor([[odds, 0.0, 0.0]]).float().expand(rows, -1),
        Bags.from_dense(given).rows(torch.zeros(rows, dtype=torch.long)),
        torch.zeros(columns, 1),
        bias,
        calling,
        torch.full((rows,), 1000.0, dtype=torch.float64),
    )


@pytest.mark.parametrize(("discount", "strength", "units"), [(0.4, 10.0, 30), (0.5, 20.0, 100), (0.05, 3.0, 60)])
def test_units_of_one_step_are_as_in_the_urn_where_they_come_one_by_one(discount, strength, units):
    """E K_{n+1} = E K_n + (θ + δ E K_n)/(θ + n); and each falls on what lay there with one probability, (n − δ K)/(n + θ)."""
    expected = 12.0
    for n in range(24, 24 + units):
        expected += (strength + discount * expected) / (strength + n)
    law = urn(discount, strength, units)
    drawn = replace(law, gather=True).sample(generator(0))
    old = drawn.column < 12
    assert 12 + float((~old).sum()) / len(drawn) == pytest.approx(expected, rel=0.03)
    assert float(drawn.value[old].sum()) / len(drawn) == pytest.approx(
        units * (24 - discount * 12) / (24 + strength), rel=0.03
    )
    apart = law.sample(generator(0))
    assert 12 + float((apart.column >= 12).sum()) / len(drawn) > 1.1 * expected
    assert float(drawn.totals().mean()) == float(drawn.totals().max()) == units


def test_units_gather_in_their_own_row():
    law = replace(urn(0.1, 0.1, 50, rows=200, columns=2000), gather=True)
    drawn = law.draw(torch.arange(200).repeat_interleave(2), generator(0)).dense()
    assert torch.equal(drawn.sum(1), torch.full((400,), 50.0).double())
    new = drawn[:, 12:]
    assert float((new.amax(1) / new.sum(1).clamp(min=1)).mean()) > 0.5  # nearly all that come anew are of one column,
    assert len(new.argmax(1).unique()) > 300  # which is another one in every row
    nothing = replace(law, given=Bags.empty(200, 2000)).sample(generator(0))
    assert float(nothing.value.max()) <= 4  # where nothing lies the strength is not known


def test_units_of_a_chain_gather():
    _, denoise = model(columns=4)
    assert denoise(bags(), torch.tensor([0.5]), torch.zeros(3, dtype=torch.long)).missing.gather


def spread_in_urn(units: float, strength: float, share: float = 1 / 12) -> float:
    """The variance of a column's count of so many units in an urn of Pólya: Dirichlet-multinomial."""
    return units * share * (1 - share) * (units + strength) / (1 + strength)


@pytest.mark.parametrize("one_by_one", [1000, 10])
def test_units_on_columns_that_are_there_gather_as_in_an_urn_of_polya(monkeypatch, one_by_one):
    """Of 24 units at 12 columns and ten times as many that come, all of which join; also where very many come."""
    monkeypatch.setattr(compositions, "_ONE_BY_ONE", one_by_one)
    law = urn(1e-6, 1e-4, 240, rows=4000, columns=20)
    apart, drawn = (replace(law, gather=gather).sample(generator(0)).dense()[:, :12] for gather in (False, True))
    assert float(drawn.mean()) == pytest.approx(20, rel=0.01)
    assert float(apart.var(0).mean()) == pytest.approx(240 * 1 / 12 * 11 / 12, rel=0.05)
    assert float(drawn.var(0).mean()) == pytest.approx(spread_in_urn(240, 24), rel=0.05)


@pytest.mark.parametrize("one_by_one", [1000, 10])
def test_new_columns_and_others_are_urns_of_their_own(monkeypatch, one_by_one):
    """Without discount, c = 20 and S = 24: of new columns, of which the softmax has 0.4, the strength is 8, of the others 36."""
    monkeypatch.setattr(compositions, "_ONE_BY_ONE", one_by_one)
    law = replace(urn(1e-6, 20.0, 60, rows=4000, columns=50 if one_by_one == 10 else 3000, new=0.4), gather=True)
    drawn = law.sample(generator(0))
    old, new = drawn.where(drawn.column < 12).dense()[:, :12], drawn.where(drawn.column >= 12)
    into_old = Binomial(torch.tensor(60.0).double(), torch.tensor(36 / 44).double())
    chances = into_old.log_prob(torch.arange(61.0).double()).exp().tolist()
    spread = sum(p * spread_in_urn(n, 36) for n, p in enumerate(chances)) + 60 * 36 / 44 * 8 / 44 / 12**2
    assert float(old.sum(1).mean()) == pytest.approx(60 * 36 / 44, rel=0.01)
    assert float(old.var(0).mean()) == pytest.approx(spread, rel=0.05)
    if one_by_one == 1000:
        opened = sum(p * sum(8 / (8 + j) for j in range(60 - n)) for n, p in enumerate(chances))
        assert len(new.value) / 4000 == pytest.approx(opened, rel=0.02)
    else:
        spread = sum(p * spread_in_urn(60 - n, 8, 1 / 38) for n, p in enumerate(chances))
        assert float(new.dense()[:, 12:].var(0).mean()) == pytest.approx(
            spread + 60 * 36 / 44 * 8 / 44 / 38**2, rel=0.05
        )


@pytest.mark.parametrize("strength", [20.0, 0.01])
def test_two_of_very_many_units_are_alike_as_often_as_in_the_urn(monkeypatch, strength):
    """(1 − δ)/(θ + 1) of new columns, and a little more, as they are not infinitely many."""
    monkeypatch.setattr(compositions, "_ONE_BY_ONE", 10)
    law = replace(urn(0.5, strength, 900, rows=1500, columns=800, new=0.5), gather=True)
    new = law.sample(generator(0)).dense()[:, 12:]
    whole = new.sum(1)
    c, lies = strength + 6, 24 - 6
    assert float(whole.mean()) == pytest.approx(900 * 0.5 * c / (lies + c), rel=0.01)
    theta = (0.5 * c + 0.5) / (1 - 0.5)
    alike = ((new**2).sum(1) - whole) / (whole * (whole - 1))
    assert float(alike.mean()) == pytest.approx((1 + theta / 788) / (1 + theta), rel=0.03)


def test_very_many_units_in_a_weak_urn_are_of_one_column():
    law = replace(urn(1e-6, 1e-5, 1, rows=50, columns=80, new=0.5), gather=True)
    weights = torch.rand(50, 80, generator=generator(1)).double()
    drawn = law._gather_many(torch.arange(50), weights, torch.full((50,), 0.5), generator(0))
    for some in (slice(0, 12), slice(12, 80)):  # what falls into each of the urns stays
        torch.testing.assert_close(drawn[:, some].sum(1), weights[:, some].sum(1))
    assert float((drawn[:, 12:].amax(1) / drawn[:, 12:].sum(1)).mean()) > 0.99


def test_units_fall_in_groups_of_rows(monkeypatch):
    monkeypatch.setattr(compositions, "_AT_ONCE", 100)
    drawn = urn(0.5, 20.0, 30, rows=50, columns=40).draw(torch.arange(50), generator(0))
    assert torch.equal(drawn.totals(), torch.full((50,), 30.0).double())


def test_places_with_nothing_at_them_change_nothing():
    law = bag_law(tilted=True)
    z, nothing = law.given, Bags.from_dense(torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]).double())
    full = replace(law, given=z + nothing.valued(torch.zeros_like(nothing.value)))
    assert len(full.given.value) == 6
    torch.testing.assert_close(full.shares(), law.shares())
    torch.testing.assert_close(full.cross_entropy(nothing), law.cross_entropy(nothing))
    unknown = law._weights()[1]
    torch.testing.assert_close(full._weights()[1], unknown)
    for ours, theirs in zip(full._urns(unknown), law._urns(unknown), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_tilted_cross_entropy_is_that_of_the_shares_where_all_is_known():
    """What is not known is then a rounding error, and tilted by much."""
    rows, columns = 20, 40_000
    g = generator(0)
    given = Bags.from_dense(torch.ones(rows, columns).double())
    tilt = torch.full((rows, TILTS), -1.0)
    tilt[:, 0], tilt[:, -1] = 6.0, 0.0
    law = BagLaw(
        None,
        torch.randn(rows, 1, generator=g),
        torch.tensor([[12.0, 0.0, 0.0]]).expand(rows, -1),
        given,
        torch.randn(columns, 1, generator=g),
        torch.randn(columns, generator=g),
        torch.zeros(columns, 2),
        torch.full((rows,), 1000.0).double(),
        tilt,
    )
    one = Bags(torch.arange(rows), torch.arange(rows), torch.ones(rows).double(), (rows, columns))
    expected = -law.shares()[torch.arange(rows), torch.arange(rows)].log().double()
    torch.testing.assert_close(law.cross_entropy(one), expected, rtol=1e-3, atol=0.0)


def test_one_unit_is_drawn_by_the_law():
    law = replace(urn(0.5, 20.0, 1, rows=20_000, columns=40), gather=True)
    drawn = torch.bincount(law.sample(generator(0)).column, minlength=40)
    assert proportional(drawn, law.shares()[0])


def test_weights_of_rows_at_one_time_are_the_shares():
    law = bag_law(tilted=True)
    law = replace(law, lean=law.lean[:1].expand(2, -1))
    weights, unknown = law._weights()
    torch.testing.assert_close(weights[:, :3] / weights.sum(1, keepdim=True), law.shares(), rtol=1e-5, atol=1e-6)
    anew = torch.addmm(law.bias, law.query, law.table.t()).add(law.lean @ law.levels.t()).softmax(-1)
    assert unknown.tolist() == pytest.approx([float(anew[0, 1]), 1.0])
