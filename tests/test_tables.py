"""Ordinary tables: what every column is, exact margins, offsets and steps, levels and dummies, frames and strings."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import scipy.stats
import torch
from goodness import LEVEL, generator, grid, pearson
from sklearn.model_selection import cross_val_score
from tables import check_domains, quick
from torch import Tensor, nn

from countjump import Binary, Bounded, Categorical, Count, JumpModel, NonNegative, Offset, OneHot, Step
from countjump.blocks import Categories, Counts, Reals
from countjump.data import Layout
from countjump.denoiser import Denoiser
from countjump.laws import Binomial, Mixture, Poisson, Streams
from countjump.planning import make_plan
from countjump.planning.atoms import basis, find_margin, free_levels, smooth_law
from countjump.planning.plan import build_block
from countjump.processes import Jump
from countjump.sampling import sample_rows
from countjump.schedules import Cosine
from countjump.transforms import Coding
from countjump.transforms.columns import decimals_of, find_offset, find_step


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def short(**params) -> JumpModel:
    """A model that has learned next to nothing."""
    return quick(**({"max_updates": 3, "width": 8} | params))


def plan_of(X, **options):
    return make_plan(X, JumpModel(**options).get_params())


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Atoms in the beliefs. A network that answers zero gives the posterior of the prior: atoms and a smooth law.

ATOMS, SHARES, ALPHA = [0.0, 4.0, 11.0], [0.2, 0.1, 0.3], 0.35
GAMMAS = d([[0.3, 0.7]], [[1.5, 6.0]], [[4.0, 9.0]])  # weights, shapes, means of one column


class Silent(nn.Module):
    """A network that answers zero."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, features: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        return torch.zeros(len(features), self.outputs)


def silent_rows(block, rows: int, steps: int = 8) -> np.ndarray:
    """What a chain makes of a block whose network answers zero."""
    process = Jump(block, Cosine())
    denoiser = Denoiser(Silent(block.outputs), block, Cosine()).eval()
    return block.write(sample_rows(process, denoiser, process.grid(steps), Streams([generator()], rows)))


def atoms(values: list[float], shares: list[float]) -> dict[str, Tensor]:
    free = torch.from_numpy(basis(np.array(values), np.array(shares), 1000))
    return {"atoms": d(values), "atom_shares": d(shares), "basis": free[None]}


def smooth_counts(x: np.ndarray) -> Tensor:
    return torch.from_numpy(smooth_law(x, GAMMAS[:, 0].numpy(), True))


def counts_with_atoms() -> Counts:
    one = torch.ones(1).double()
    return Counts(Count(), 6 * one, one, 30 * one, math.inf * one, 2, GAMMAS, **atoms(ATOMS, SHARES))


def test_counts_with_atoms_are_the_posterior_of_atoms_and_negative_binomials():
    """P(x) Binomial(z; x, α) over all x, where P is atoms and negative binomials. The other components only help learning."""
    block = counts_with_atoms()
    x = np.arange(400.0)
    prior = (1 - sum(SHARES)) * smooth_counts(x)
    prior[[int(atom) for atom in ATOMS]] += d(*SHARES)
    for seen in (0.0, 3.0, 4.0, 11.0, 25.0):
        law = block.law(torch.zeros(1, block.outputs), d([seen]), d([ALPHA]))
        others = 1 + block.binomials
        exact = Mixture(law.logits[..., others:], law.parts[2:])
        joint = prior * Binomial(torch.from_numpy(x), d(ALPHA)).log_prob(d(seen)).exp()
        expected = (joint / joint.sum())[int(seen) :]
        found = exact.log_prob(torch.arange(len(expected)).double()[:, None]).exp()[:, 0]
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-12)


def test_the_other_components_have_little_weight_before_training():
    block = counts_with_atoms()
    law = block.law(torch.zeros(1, block.outputs), d([0.0]), d([0.0]))
    assert float(law.logits.softmax(-1)[..., : 1 + block.binomials].sum()) < 0.15


def test_reals_with_atoms_are_the_posterior_of_atoms_and_gammas():
    """P(x) Pois(z; λ α x), normalised by quadrature: masses at the atoms, a density elsewhere."""
    one, values, shares = torch.ones(1).double(), [0.0, 2.5], [0.15, 0.25]
    block = Reals(NonNegative(), 6 * one, one, 3 * one, GAMMAS, **atoms(values, shares))
    x = torch.linspace(0, 120, 240_001).double()[1:]
    density = 0.6 * torch.from_numpy(smooth_law(x.numpy(), GAMMAS[:, 0].numpy(), False))
    for seen in (0.0, 2.0, 9.0):
        belief = block.belief(torch.zeros(1, block.outputs), d([seen]), d([ALPHA]))
        given = Poisson(3 * ALPHA * x).log_prob(d(seen)).exp()
        masses = d(*shares) * Poisson(3 * ALPHA * d(*values)).log_prob(d(seen)).exp()
        total = torch.trapezoid(density * given, x) + masses.sum()
        found = belief.data.entries.log_prob(d(*([value] for value in values))).exp()[:, 0]
        torch.testing.assert_close(found, masses / total, rtol=1e-4, atol=1e-12)
        some = torch.tensor([300, 3000, 30_000])
        found = belief.data.entries.log_prob(x[some][:, None]).exp()[:, 0]
        torch.testing.assert_close(found, (density * given / total)[some], rtol=1e-4, atol=1e-12)


def test_a_chain_without_learning_has_the_margins_of_free_levels():
    """Whatever the law over 0 … M is, a chain whose network answers zero has it, after any number of steps."""
    X = rng().choice([0, 3, 4, 9], size=(1200, 2), p=[0.4, 0.05, 0.25, 0.3])
    (part,) = plan_of(X, domain=Count(9)).parts
    block = build_block([part])
    for steps in (2, 8):
        Y = silent_rows(block, 4000, steps)
        for column in range(2):
            law = torch.from_numpy(part.arrays["atom_shares"][column]).log()
            assert (
                pearson(torch.from_numpy(Y[:, column]), grid(10), law[part.arrays["atoms"][column].argsort()]) > LEVEL
            )


def test_free_levels_are_a_law_over_all_levels():
    margin = free_levels(np.array([0.0, 0, 3, 3, 3]), 4)
    assert margin.atoms.tolist() == [0, 1, 2, 3, 4]
    assert margin.shares.sum() == pytest.approx(1)
    assert margin.shares[3] / margin.shares[0] == pytest.approx(1.5)
    assert margin.shares[[1, 2, 4]].sum() == pytest.approx(1 / 6), "Laplace's rule"


def test_a_chain_without_learning_has_the_atoms_of_lumpy_columns():
    g = rng(1)
    counts = np.where(g.random(3000) < 0.3, 40, g.poisson(12, 3000))
    reals = np.where(g.random(3000) < 0.4, 37.5, g.gamma(2.0, 9.0, 3000)) * (g.random(3000) < 0.9)
    plan = plan_of(np.column_stack([counts, reals]))
    block = build_block(plan.parts)
    Y = silent_rows(block, 4000, 20)
    for column, value in ((0, 40), (1, 37.5), (1, 0)):
        true = float((np.column_stack([counts, reals])[:, column] == value).mean())
        found = int((Y[:, column] == value).sum())
        low, high = scipy.stats.binom.ppf([1e-4, 1 - 1e-4], 4000, true)
        assert 0.85 * low <= found <= 1.05 * high, (column, value)
    assert "40 (" in plan.reasons["atoms"]
    assert "37.5 (" in plan.reasons["atoms"]


def test_any_odds_of_many_atoms_is_finite():
    block = counts_with_atoms()
    for scale in (1.0, 1e3):
        output = scale * torch.randn(50, block.outputs, generator=generator())
        belief = block.belief(output, torch.full((50, 1), 4.0).double(), torch.full((50, 1), ALPHA).double())
        assert belief.missing.log_prob(torch.zeros(50, 1).double()).isfinite().all()


# Which values are atoms.


@pytest.mark.parametrize("rows", [400, 3000])
@pytest.mark.parametrize("law", ["poisson", "negative binomial"])
def test_plain_counts_have_no_atoms_and_keep_their_tail(law, rows):
    g = rng(2)
    x = g.poisson(7.0, rows) if law == "poisson" else g.negative_binomial(1.5, 0.1, rows)
    margin = find_margin(x.astype(float), 4, counts=True)
    assert len(margin.atoms) == 0
    beyond = 1 - smooth_law(np.arange(x.max() + 1.0), margin.mixture, True).sum()
    assert 0 < beyond < 3 / rows, "what is larger than all that was seen may come"


def test_a_real_that_is_seen_once_or_twice_is_no_atom():
    g = rng(3)
    reals = g.gamma(2.0, 3.0, 500)
    reals[:2], reals[2:40] = 77.7, 5.5
    (part,) = plan_of(np.column_stack([reals, g.gamma(2.0, 3.0, 500)])).parts
    kept = [
        row[shares > 0].tolist() for row, shares in zip(part.arrays["atoms"], part.arrays["atom_shares"], strict=True)
    ]
    assert 5.5 in kept[0]
    for column, values in enumerate(kept):
        data = part.coding.code(np.column_stack([reals, reals]))[:, column] if part.coding else reals
        for value in values:
            assert value == 0 or (data == value).sum() > 2
    assert not kept[1]


def test_values_that_stick_out_are_found_whatever_they_are():
    g = rng(4)
    for value in (0.0, 1.0, 55.0):
        x = np.where(g.random(2000) < 0.15, value, g.poisson(30, 2000))
        margin = find_margin(x, 4, counts=True)
        assert np.exp(margin.log_prob(np.array([value]), 1.0, True))[0] == pytest.approx((x == value).mean(), rel=0.1)
        assert value in margin.atoms or value == 0, "a zero may be one of the mixture's components"


# Offsets and steps.


def test_steps_are_found_by_decimals_and_divisors():
    tenths = np.round(0.1 * rng().integers(3, 90, 200), 1)
    assert find_step(tenths) == 0.1
    assert find_step(0.005 * rng().integers(0, 300, 400)) == 0.005
    assert find_step(5.0 * rng().integers(0, 30, 100)) == 5
    assert find_step(rng().random(100)) is None
    assert find_step(np.array([0.0, 4.0, 4.0])) == 1, "two values of three say nothing of a divisor"
    assert find_step(np.array([7.0, 7.0])) is None
    assert decimals_of(tenths.astype(np.float32)) == 1
    assert decimals_of(np.array([1e-200, 0.5])) == -1, "what is not zero is not rounded to it"


def test_offsets_are_found_where_values_spread_too_little_or_end_at_a_wall_or_are_negative():
    assert find_offset(np.arange(1990.0, 2024).repeat(9), 1.0) == 1990
    assert find_offset(rng().integers(-5, 9, 100).astype(float), 1.0) == -5
    assert find_offset(np.repeat([1.0, 2, 3, 4, 5], [40, 30, 30, 20, 10]), 1.0) == 1, "ratings begin at one"
    assert find_offset(np.array([5.0, 6, 5, 6]), 1.0) == 0, "four values say nothing of a spread"
    below = find_offset(rng().normal(-3.0, 1.0, 100), None)
    assert below < rng().normal(-3.0, 1.0, 100).min()
    assert find_offset(rng().gamma(2.0, 1.0, 100), None) == 0


def test_one_sample_of_poisson_counts_in_hundreds_has_an_offset():
    found = [find_offset(rng(seed).poisson(rate, 300).astype(float), 1.0) for seed in range(100) for rate in (2, 5, 40)]
    assert np.count_nonzero(found) <= 3


def code_sums(coding: Coding, x: np.ndarray, density: np.ndarray) -> tuple[dict[float, float], float]:
    """How much of every n becomes one of some values: masses of those on the grid, and the integral of those beside it."""
    n, mass = coding.admit(x[:, None])
    sums: dict[float, float] = {}
    for each, log_mass, width in zip(n[:, 0], mass, density, strict=True):
        sums[float(each)] = sums.get(float(each), 0.0) + math.exp(log_mass) * width
    return sums


def test_the_escape_masses_of_an_inferred_coding_add_up_to_one():
    """Of every n, what stays, what lies beside the grid, what lies below the offset and what does both."""
    coding = Coding.of([10.0], [0.5], [True], escape=0.02)
    on = 10 + 0.5 * np.arange(-20, 20)
    width = 0.5 / 50
    beside = np.concatenate([point + width * (np.arange(50) - 24.5) for point in on])
    masses, integrals = code_sums(coding, on, np.ones(len(on))), code_sums(coding, beside, np.full(len(beside), width))
    for n in range(19):
        assert masses[n] + integrals[n] == pytest.approx(1, abs=1e-9)
        assert integrals[n] == pytest.approx(0.01, abs=1e-9)
    assert coding.admit(np.array([[9.5]]))[0].item() == 0, "what lies below mirrors"


def test_the_escape_of_reals_from_an_offset_is_a_density():
    coding = Coding.of([-2.0], [1.0], [False], escape=0.02)
    x = np.linspace(-42, 38, 80_001)
    n, mass = coding.admit(x[:, None])
    density = np.exp(-n[:, 0]) * np.exp(mass)  # of an exponential law of n
    assert np.trapezoid(density[x > -2], x[x > -2]) == pytest.approx(0.99, abs=1e-3)
    assert np.trapezoid(density[x < -2], x[x < -2]) == pytest.approx(0.01, abs=1e-3)


def test_a_declared_coding_forbids_what_it_cannot_make():
    coding = Coding.of([10.0], [0.5], [True])
    _, mass = coding.admit(np.array([[10.5], [10.3], [9.5]]))
    assert mass.tolist() == [0, -np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_are_undone_exactly(dtype):
    """What comes out are the same floats as went in, not their neighbours."""
    g = rng(5)
    X = np.column_stack([np.round(0.1 * g.integers(0, 40, 300), 1), 0.005 * g.integers(0, 90, 300)]).astype(dtype)
    X = np.round(X.astype(np.float64), 3).astype(dtype)
    model = short().fit(X)
    assert "0 in steps of 0.1" in model.choices_["transform"]
    assert "1 in steps of 0.005" in model.choices_["transform"]
    Y = model.sample(400, steps=3, random_state=0)
    assert Y.dtype == dtype
    written = [np.round(0.1 * np.arange(1000), 1).astype(dtype), np.round(0.005 * np.arange(1000), 3).astype(dtype)]
    for column in range(2):
        assert np.isin(Y[:, column], written[column]).all()
        assert np.isin(Y[:, column], X[:, column]).mean() > 0.8
    assert np.isfinite(model.score_samples(X[:20], steps=3)).all()


def test_negative_numbers_come_back_negative():
    g = rng(6)
    X = np.column_stack([g.integers(-20, 15, 300), np.round(g.normal(0.0, 4.0, 300), 1), g.normal(-5.0, 2.0, 300)])
    model = short().fit(X)
    Y = model.sample(300, steps=5, random_state=0)
    assert (Y.min(0) >= X.min(0) - 0.2).all()
    assert (Y.min(0) < -3).all()
    assert (Y[:, 0] == np.rint(Y[:, 0])).all()
    assert "from -20" in model.choices_["transform"]
    check_domains(model, Y)
    assert np.isfinite(model.score_samples(X[:10], steps=3)).all()


def test_years_stay_within_their_bounds_before_much_is_learned():
    X = rng(7).integers(1990, 2024, size=(1500, 1))
    Y = short().fit(X).sample(2000, steps=5, random_state=0)
    assert Y.dtype == X.dtype
    assert (Y.min(), Y.max()) == (1990, 2023)
    assert Y.std() == pytest.approx(X.std(), rel=0.1)


def test_offsets_and_steps_can_be_declared_and_switched_off():
    X = np.column_stack([rng(8).integers(1990, 2024, 300), 0.5 * rng(9).integers(0, 20, 300)])
    frame = pd.DataFrame(X, columns=["year", "price"]).astype({"year": int})
    declared = short(transform={"year": Offset(1900), "price": (Offset(-1.0), Step(0.25))}).fit(frame)
    assert "year from 1900" in declared.choices_["transform"]
    assert "price in steps of 0.25" in declared.choices_["transform"]
    (part,) = declared.plan_.parts
    assert part.coding.offset.tolist() == [1900, -1]
    assert part.coding.step.tolist() == [1, 0.25]
    Y = declared.sample(50, steps=3, random_state=0)
    assert (Y["price"] * 4 == np.rint(Y["price"] * 4)).all()
    below = frame.iloc[:1].assign(year=1899)
    assert declared.score_samples(below, steps=3).item() == -np.inf, "a declared offset forbids what lies below"
    as_they_are = short(transform=None).fit(frame)
    assert "transform" not in as_they_are.choices_
    one = short(transform={"year": None}).fit(frame)
    assert "year" not in one.choices_["transform"]
    assert "price in steps of 0.5" in one.choices_["transform"]


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"transform": {"year": Offset(2000)}}, ValueError, "row 0 of the column year is 1990, .* begins at 2000"),
        ({"transform": {"price": Step(0.3)}}, ValueError, "column price is .*, which its transform does not make"),
        ({"transform": {"cost": Step(0.3)}}, ValueError, "transform names the column 'cost', which is not there"),
        ({"transform": {"year": 1990}}, TypeError, "transform has 1990 for 'year': use Offset"),
        ({"transform": "some"}, ValueError, "transform='some' is unknown"),
        ({"transform": None, "domain": "auto"}, None, ""),
        (
            {"domain": {"cost": Count()}},
            ValueError,
            "domain names the column 'cost', which is not there: X has year, price",
        ),
        ({"domain": {"year": Count(), 0: Count()}}, ValueError, "domain names the column year twice"),
        ({"domain": {(0, "year"): Count(), "price": "auto"}}, ValueError, "names a column twice"),
        ({"domain": {7: Count()}}, ValueError, "names the column 7, and X has 3 columns"),
        ({"domain": {2.5: Count()}}, TypeError, "domain has the key 2.5: use a column's name"),
        ({"domain": {"city": Count()}}, ValueError, "column city holds strings, and is to be count: use Categorical"),
        ({"domain": {"price": Count()}}, ValueError, "is not a whole number"),
        (
            {"domain": {"city": Categorical(("a", "b"))}},
            ValueError,
            "column 'city' holds 'c', which is none of its levels",
        ),
        ({"domain": {"year": Categorical((1, 2))}}, ValueError, "= 1990 is none of the levels"),
        ({"domain": {"year": "years"}}, ValueError, "domain='years' is unknown"),
        ({"domain": {"year": Count}}, TypeError, r"write Count\(\)"),
    ],
)
def test_requests_that_do_not_fit_name_the_column(params, error, words):
    g = rng(10)
    frame = pd.DataFrame(
        {"year": 1990 + np.arange(60) % 30, "price": 0.5 + 0.5 * g.integers(0, 9, 60), "city": ["a", "b", "c"] * 20}
    )
    if error is None:
        short(**params).fit(frame)
        return
    with pytest.raises(error, match=words):
        short(**params).fit(frame)


def test_without_transforms_a_negative_column_is_named():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.5, -0.5]})
    with pytest.raises(ValueError, match=r"column b has -0\.5, which is negative, and transform=None"):
        short(transform=None).fit(frame)


# Levels.


def categories() -> Categories:
    """A column of the levels 4, 7 and 30, and one of two dummies."""
    levels, shares = d([4, 7, 30], [0, 1, 0]), d([0.5, 0.3, 0.2], [0.9, 0.1, 0])
    return Categories(Categorical(), levels, torch.tensor([3, 2]), shares, torch.tensor([False, True]), escape=0.01)


def test_categories_are_written_as_they_were_read_and_what_is_unknown_is_nothing():
    block, rows = categories(), np.array([[7, 1, 0], [30, 0, 1], [5, 1, 0], [4, 1, 1], [4, 0, 0]])
    x = block.read(rows)
    assert x.shape == (5, 2, 3)
    assert x.sum(-1).tolist() == [[1, 1], [1, 1], [0, 1], [1, 0], [1, 0]]
    np.testing.assert_array_equal(block.write(x[:2]), rows[:2])


def test_an_unknown_level_comes_by_the_escape_mass_in_the_place_of_the_likeliest():
    block = categories()
    x, mass = block.read_to_score(np.array([[7, 1, 0], [5, 1, 0], [5, 1, 1]]))
    assert (x.sum(-1) == 1).all()
    assert x[1, 0].tolist() == [1, 0, 0]
    stays, escapes = math.log(0.99), math.log(0.01)
    assert mass.tolist() == pytest.approx([2 * stays, escapes + stays, 2 * escapes])


def test_silent_categories_are_the_shares_of_the_rows():
    block = categories()
    Y = silent_rows(block, 4000)
    assert (Y[:, 1:].sum(1) == 1).all()
    support = np.array([[level, *dummy] for level in (4, 7, 30) for dummy in ([1, 0], [0, 1])])
    law = d(*(a * b for a in (0.5, 0.3, 0.2) for b in (0.9, 0.1))).log()
    assert pearson(torch.from_numpy(Y), torch.from_numpy(support).double(), law) > LEVEL


def test_declared_levels_may_come_though_never_seen_and_others_may_not():
    X = np.array([["red"], ["green"]] * 50, dtype=object)
    model = short(domain=Categorical(("red", "green", "blue"))).fit(X)
    scores = model.score_samples(np.array([["red"], ["blue"], ["pink"]], dtype=object), steps=3)
    assert np.isfinite(scores[:2]).all()
    assert scores[1] < scores[0]
    assert scores[2] == -np.inf
    assert (
        np.exp(model.score_samples(np.array([["red"], ["green"], ["blue"]], dtype=object), steps=3)).sum() <= 1 + 1e-3
    )
    assert set(model.sample(500, steps=3, random_state=0)[:, 0]) <= {"red", "green", "blue"}
    with pytest.raises(ValueError, match="holds 'green', which is none of its levels"):
        short(domain=Categorical(("red", "blue"))).fit(X)
    constant = short(domain=Categorical(("red", "blue"))).fit(X[::2])
    assert np.isfinite(constant.score_samples(np.array([["blue"]], dtype=object), steps=3)).all()
    numbers = short(domain=Categorical((3, 5, 9))).fit(np.array([[3], [5]] * 20))
    assert np.isfinite(numbers.score_samples(np.array([[9]]), steps=3)).all()
    assert numbers.score_samples(np.array([[4]]), steps=3).item() == -np.inf


def test_inferred_levels_have_an_escape_mass():
    X = np.array([["red"], ["green"]] * 50, dtype=object)
    model = short().fit(X)
    known = np.exp(model.score_samples(np.array([["red"], ["green"]], dtype=object), steps=3))
    assert known.sum() <= 1 - 1 / 101 + 1e-3
    assert known.sum() > 0.9
    foreign = model.score_samples(np.array([["pink"]], dtype=object), steps=3)
    assert -30 < foreign.item() < math.log(1 / 101) + 1e-9


# Dummies.


def with_dummies(scattered: bool, rows: int = 400) -> tuple[np.ndarray, list[list[int]]]:
    g = rng(11)
    first, second = np.eye(4)[g.integers(4, size=rows)], np.eye(3)[g.choice(3, rows, p=[0.6, 0.3, 0.1])]
    counts, flag = g.poisson(3.0, rows)[:, None], (g.random(rows) < 0.4).astype(float)[:, None]
    if not scattered:
        return np.hstack([counts, first, second, flag]), [[1, 2, 3, 4], [5, 6, 7]]
    X = np.hstack([first[:, :1], counts, second[:, :2], first[:, 1:3], flag, second[:, 2:], first[:, 3:]])
    return X, [[0, 4, 5, 8], [2, 3, 7]]


@pytest.mark.parametrize("scattered", [False, True])
def test_dummies_are_found_and_never_broken(scattered):
    X, groups = with_dummies(scattered)
    model = short().fit(X)
    found = [part.columns.tolist() for part in model.plan_.parts if isinstance(part.domain, OneHot)]
    assert sorted(found) == sorted(groups)
    assert "sum to one" in model.choices_["domain"]
    Y = model.sample(1000, steps=3, random_state=0)
    for group in groups:
        assert ((Y[:, group] == 0) | (Y[:, group] == 1)).all()
        assert (Y[:, group].sum(1) == 1).all()
    broken = X[:2].copy()
    broken[0, groups[0]] = 1
    scores = model.score_samples(broken, steps=3)
    assert np.isfinite(scores).all()
    assert scores[0] < scores[1], "a group that was inferred may be broken, by its escape mass"


def test_declared_one_hot_columns_forbid_broken_rows():
    X, groups = with_dummies(False)
    model = short(domain={tuple(groups[0]): "one-hot"}).fit(X)
    broken = X[:1].copy()
    broken[0, groups[0]] = 1
    assert model.score_samples(broken, steps=3).item() == -np.inf
    with pytest.raises(ValueError, match=r"row \d+ of X adds up to"):
        short(domain={(1, 2): OneHot()}).fit(X)


# What columns are.


def mixed_frame(rows: int = 300, seed: int = 12) -> pd.DataFrame:
    g = rng(seed)
    group = g.integers(3, size=rows)
    return pd.DataFrame(
        {
            "visits": g.poisson(2.0 + 2 * group),
            "spend": g.gamma(2.0, 5.0 + 10 * group, rows),
            "flag": (g.random(rows) < 0.3).astype(int),
            "year": g.integers(1990, 2024, rows),
            "price": np.round(0.05 * g.integers(10, 60, rows), 2),
            "city": np.array(["", "Graz", "Linz"])[group],
            "share": g.random(rows),
        }
    )


def test_every_column_keeps_its_kind():
    frame = mixed_frame()
    model = short().fit(frame)
    Y = model.sample(500, steps=5, random_state=0)
    pd.testing.assert_series_equal(Y.dtypes, frame.dtypes)
    assert set(Y["flag"]) <= {0, 1}
    assert set(Y["city"]) <= {"", "Graz", "Linz"}
    assert (Y["visits"] >= 0).all()
    assert Y["spend"].min() > 0
    assert Y["share"].between(0, 1).all()
    assert np.isin(Y["price"], np.round(0.05 * np.arange(2000), 2)).all()
    said = model.choices_["domain"]
    for words in (
        "whole numbers (visits, flag, year, price)",
        "reals (spend)",
        "reals from 0 to 1 (share)",
        "categories (city)",
    ):
        assert words in said
    assert isinstance(model.domain_, dict)
    assert model.domain_[1] == NonNegative()
    assert model.domain_[2] == Count(max=1)
    assert model.domain_[5] == Categorical()


def test_domains_are_mapped_by_name_index_slice_and_tuple():
    frame = mixed_frame()
    model = short(
        domain={
            "visits": Categorical(),
            1: NonNegative(),
            ("flag",): "count",
            range(6, frame.shape[1]): Bounded(2.0),
        }
    ).fit(frame)
    domains = model.domain_
    assert domains[0] == Categorical()
    assert domains[1] == NonNegative()
    assert domains[2] == Count()
    assert domains[4].name == "non-negative" or domains[4].whole, "left to itself"
    assert domains[6] == Bounded(2.0)
    assert set(model.sample(300, steps=3, random_state=0)["visits"]) <= set(frame["visits"])


def test_homogeneous_tables_say_their_domain_as_ever():
    g = rng(13)
    assert short().fit(g.integers(0, 2, (100, 3))).choices_["domain"] == f"{Binary()}: every value is 0 or 1"
    assert short().fit(g.poisson(3.0, (100, 3))).choices_["domain"] == f"{Count()}: whole numbers"
    assert short().fit(g.gamma(2.0, 9.0, (100, 3))).choices_["domain"] == f"{NonNegative()}: there are fractions"


def test_choices_of_many_columns_are_few_lines():
    g = rng(14)
    X = np.column_stack([g.poisson(3.0, (40, 15)), g.gamma(2.0, 1.0, (40, 15)), g.integers(1990, 2024, (40, 20))])
    plan = plan_of(X)
    assert "and 29 more" in plan.reasons["domain"]
    assert "more" in plan.reasons["transform"]
    assert max(map(len, plan.reasons.values())) < 700
    assert len(plan.parts) == 2


def test_what_is_not_named_is_counted_and_ends_of_intervals_are_atoms():
    g = rng(20)
    dummies = [np.eye(3)[g.integers(3, size=60)] for _ in range(8)]
    plan = plan_of(np.column_stack([*dummies, g.poisson(5.0, 60), np.where(g.random(60) < 0.8, 1.0, g.random(60))]))
    assert "2 more of these groups" in plan.reasons["domain"]
    assert plan.reasons["atoms"].startswith("25: 1 (")


def test_a_wide_sparse_block_stands_beside_others():
    g = rng(15)
    wide = sp.random(120, 300, 0.05, "csr", random_state=0, data_rvs=lambda n: 1 + g.geometric(0.3, n))
    X = sp.csr_matrix(
        sp.hstack([sp.csr_matrix(g.gamma(2.0, 3.0, (120, 2))), sp.csr_matrix(g.choice([3, 8], (120, 1))), wide])
    )
    model = short(domain={range(2): NonNegative(), 2: Categorical()}).fit(X)
    assert {part.kind for part in model.plan_.parts} >= {"categories", "reals", "sparse-counts"}
    Y = model.sample(40, steps=3, random_state=0)
    assert sp.issparse(Y)
    dense = Y.toarray()
    assert set(dense[:, 2]) <= {3, 8}
    assert (dense[:, :2] > 0).all()
    assert (dense[:, 3:] == np.rint(dense[:, 3:])).all()
    assert np.isfinite(model.score_samples(X[:10], steps=3)).all()


def test_a_wide_table_of_dummies_and_other_kinds_keeps_them():
    """256 columns or more, mostly zero, are one thing only if they are of one kind."""
    g = rng(16)
    groups = [np.eye(90)[g.permutation(np.arange(300) % 90)] for _ in range(3)]
    counts = g.poisson(3.0, 300)
    assert "groups of 0/1 columns" in plan_of(np.column_stack([*groups, counts])).reasons["domain"]
    X = np.column_stack([*groups, counts, g.gamma(2.0, 2.0, 300)])
    Y = short(max_updates=3).fit(X).sample(20, steps=2, random_state=0)
    for group in np.split(Y[:, :270], 3, axis=1):
        assert (np.sort(group, 1) == np.eye(90)[-1]).all()
    assert (Y[:, 270] == np.rint(Y[:, 270])).all()
    words = g.poisson(0.1, (40, 300))
    assert plan_of(words).reasons["domain"].startswith("Count(max=None)")


def test_wide_sparse_rows_with_negative_numbers_say_so():
    X = sp.random(30, 300, 0.05, "csr", random_state=0)
    X.data[0] = -1
    with pytest.raises(ValueError, match="negative"):
        short(domain="non-negative").fit(X)


# Frames and strings in, the same out.


def of_all_dtypes(rows: int = 200) -> pd.DataFrame:
    g = rng(16)
    return pd.DataFrame(
        {
            "int64": g.poisson(3.0, rows),
            "Int64": pd.array(g.poisson(3.0, rows), dtype="Int64"),
            "uint8": g.integers(0, 250, rows).astype(np.uint8),
            "float32": np.round(g.integers(0, 30, rows) * 0.1, 1).astype(np.float32),
            "bool": g.random(rows) < 0.4,
            "boolean": pd.array(g.random(rows) < 0.4, dtype="boolean"),
            "object": g.choice(np.array(["a", "b"], dtype=object), rows),
            "string": pd.array(g.choice(["a", "b"], rows), dtype="string"),
            "category": pd.Categorical(g.choice(["x", "y"], rows), categories=["y", "z", "x"]),
            "ordered": pd.Categorical(g.choice([10, 20], rows), categories=[10, 20], ordered=True),
        }
    )


def test_frames_come_back_with_their_dtypes(tmp_path):
    frame = of_all_dtypes()
    model = short().fit(frame)
    Y = model.sample(300, steps=3, random_state=0)
    pd.testing.assert_series_equal(Y.dtypes, frame.dtypes)
    assert Y.index.equals(pd.RangeIndex(300))
    assert np.isin(Y["float32"], np.round(0.1 * np.arange(999), 1).astype(np.float32)).all(), "in steps of 0.1, exactly"
    assert "float32 in steps of 0.1" in model.choices_["transform"]
    assert set(Y["category"]) == {"x", "y"}
    assert np.isfinite(model.score_samples(frame.iloc[:10], steps=3)).all()
    model.save(tmp_path / "m")
    again = JumpModel.load(tmp_path / "m")
    pd.testing.assert_frame_equal(again.sample(300, steps=3, random_state=0), Y)
    np.testing.assert_array_equal(
        again.score_samples(frame.iloc[:5], steps=3), model.score_samples(frame.iloc[:5], steps=3)
    )
    assert again.choices_ == model.choices_
    assert again.domain_ == model.domain_


def test_arrays_of_objects_come_back_as_such():
    g = rng(17)
    rows = [
        [int(g.poisson(3)), str(g.choice(["a", "b"])), float(g.gamma(2.0)), bool(g.random() < 0.5)] for _ in range(80)
    ]
    for X in (np.array(rows, dtype=object), rows):
        Y = short().fit(X).sample(20, steps=3, random_state=0)
        assert Y.dtype == object
        assert [type(value) for value in Y[0]] == [int, str, float, bool]


@pytest.mark.parametrize(
    ("frame", "error", "words"),
    [
        (pd.DataFrame({"a": ["x", 3, "y"]}), ValueError, "column 'a', row 1: 3 is no string among strings"),
        (pd.DataFrame({"a": np.ones(2, dtype=complex)}), TypeError, "column 'a' holds values of dtype complex128"),
        (pd.DataFrame({"a": [str(i) for i in range(5000)] * 2}), ValueError, "'a' has 5000 different strings, more"),
        (pd.DataFrame({"a": [[1], [2]]}), TypeError, r"column 'a', row 0: \[1\] is not a number"),
        (pd.DataFrame({"a": [2**53 + 1, 3]}), ValueError, "column 'a' has values above 2"),
    ],
)
def test_tables_that_cannot_be_read_name_the_column_and_the_row(frame, error, words):
    with pytest.raises(error, match=words):
        short().fit(frame)


NUMBERS, LEVELS = {"kind": "numbers", "dtype": "int64"}, {"kind": "levels", "dtype": "object", "missing": "None"}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "page"},
        {"labels": ["only one"]},
        {"labels": ["n", ["s"]]},
        {"kinds": [NUMBERS, {"kind": "numbers", "dtype": "__import__('os')"}]},
        {"kinds": [NUMBERS, {"kind": "page", "dtype": "int64"}]},
        {"kinds": [NUMBERS, {**LEVELS, "levels": [["a"], "b"]}]},
        {"kinds": [NUMBERS, {**LEVELS, "levels": ["a"]}]},
        {"kinds": [NUMBERS, {**LEVELS, "levels": "ab"}]},
        {"kinds": [NUMBERS, {"kind": "times", "dtype": "datetime64[ns]", "start": 0, "unit": "D", "every": 0}]},
        {"kinds": [NUMBERS, {"kind": "identifiers", "dtype": "object", "last": 3, "digits": 10**9}]},
        {"gaps": [[1]]},
        {"gaps": [[0]]},
        {"gaps": [[7]]},
        {"fills": [1.0]},
        {"rows": "many"},
        {"index": {"kind": "numbers"}},
        {"index": {"kind": "empty", "dtype": "object"}},
        {"kinds": [NUMBERS, {"kind": "empty", "dtype": "nonsense"}]},
        {"kinds": [NUMBERS, {**LEVELS, "levels": ["a", "a"]}]},
        {
            "kinds": [
                NUMBERS,
                {"kind": "times", "dtype": "datetime64[ns, No/Where]", "start": 0, "unit": "D", "every": 1},
            ]
        },
        {"fills": [float("nan"), 0.0]},
        {"rows": 10**400},
    ],
)
def test_a_hostile_layout_is_refused(change, tmp_path):
    frame = pd.DataFrame({"n": rng().poisson(3.0, 50), "s": ["a", "b"] * 25})
    short().fit(frame).save(tmp_path / "m")
    place = tmp_path / "m" / "model.json"
    described = json.loads(place.read_text())
    described["fitted"]["layout"] |= change
    place.write_text(json.dumps(described))
    with pytest.raises(ValueError, match="is damaged"):
        JumpModel.load(tmp_path / "m")


def test_a_layout_is_what_it_was():
    layout = Layout.of(of_all_dtypes())
    assert Layout.recall(json.loads(json.dumps(layout.described()))) == layout


def test_frames_are_fitted_with_labels():
    frame, y = mixed_frame().drop(columns="city"), mixed_frame()["city"].replace("", "none")
    model = short().fit(frame, y)
    Y, drawn = model.sample(30, steps=3, random_state=0, return_y=True)
    pd.testing.assert_series_equal(Y.dtypes, frame.dtypes)
    assert set(drawn) <= {"none", "Graz", "Linz"}
    assert np.isfinite(model.score_samples(frame.iloc[:5], y.iloc[:5], steps=3)).all()


# Scores in every fold.


def awkward_frame() -> pd.DataFrame:
    """What only one fold has: a level, a dummy's one, a number beside the grid, numbers beyond the bounds, another constant."""
    frame = mixed_frame(90)
    dummies = np.eye(3)[rng(18).integers(2, size=90)]
    frame[["one", "two", "three"]] = dummies
    frame["never"] = 1.5
    first = frame.index[0]
    frame.loc[first, ["city", "price", "year", "share"]] = ["Wien", 1.234567, 2060, 1.25]
    frame.loc[first, ["one", "two", "three"]] = [0, 0, 1]
    frame.loc[first, ["flag", "never"]] = [2, 3.0]
    frame.loc[frame.index[1], ["year", "spend"]] = [1900, -4.0]
    return frame


def test_every_fold_has_a_score():
    frame = awkward_frame()
    numbers = frame.drop(columns="city").to_numpy(dtype=float)

    def score(model: JumpModel, X: object) -> float:
        return float(model.score_samples(X, steps=5).mean())

    for X in (frame, numbers):
        assert np.isfinite(cross_val_score(short(max_updates=2), X, cv=2, scoring=score, error_score="raise")).all()
