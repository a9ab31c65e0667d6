"""The contract of every block; and a network that answers zero is a sensible, conjugate model.

A new block is one more line in ``block_examples.examples``: without it the first test fails.
"""

import inspect
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from block_examples import examples, planned, zero_atom
from goodness import LEVEL, flat, generator, same
from torch import Tensor

from countjump import Bounded, Count
from countjump.blocks import BLOCKS, Belief, Block, Blocks, Constant, Counts, Reals, Units
from countjump.blocks.base import ChainStep
from countjump.blocks.columns import Gammas
from countjump.blocks.sparse_counts import _powers
from countjump.domains import NonNegative, Simplex
from countjump.laws import Binomial, Mixture, NegativeBinomial, Streams
from countjump.schedules import Cosine
from countjump.sparse import SparseRows

NAMES = list(examples())
LEARNING = [name for name in NAMES if examples()[name].block.outputs]
"""Those that have something to learn."""

ALPHAS = (0.0, 1e-6, 0.5, 1 - 1e-9, 1.0)


def at(alpha: float, rows: int) -> Tensor:
    return torch.full((rows, 1), alpha, dtype=torch.float64)


def answer(block: Block, rows: int, scale: float = 1.0) -> Tensor:
    """What a network might say."""
    return scale * torch.randn(rows, block.outputs, generator=generator(9))


def seen(block: Block, x: object, alpha: float, seed: int = 0) -> object:
    """z_t given x_0."""
    return block.encode(x).thin(alpha).sample(generator(seed))


def kinds(base: type) -> set[type]:
    return {base}.union(*(kinds(each) for each in base.__subclasses__()))


def test_every_block_is_held_to_the_contract():
    held = {type(example.block) for example in examples().values()}
    final = {kind for kind in kinds(Block) if not inspect.isabstract(kind)}
    assert held >= final | set(BLOCKS.values()), "a new block needs an example"


# Its counts.


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize(("after", "before"), [(0.8, 0.3), (1.0, 0.1), (0.4, 0.0)])
def test_what_is_missing_thinned_leads_to_the_law_of_what_was_there(name, after, before):
    """Thinned to α_t, and filled up with what is missing to α_s, a row has the law of thinning to α_s."""
    block, x = examples()[name].block, examples()[name].x
    many = x[torch.zeros(4000, dtype=torch.long) + 7]
    z = seen(block, many, before)
    reveal = (after - before) / (1 - before)
    back = z + block.missing(many, z, at(before, 4000)).thin(reveal).sample(generator(1))
    assert same(back, seen(block, many, after, 2)) > LEVEL


@pytest.mark.parametrize("name", NAMES)
def test_a_row_begins_empty_and_misses_nothing_at_the_end(name):
    block, x = examples()[name].block, examples()[name].x
    assert torch.equal(flat(seen(block, x, 0.0)), flat(block.empty(len(x), "cpu")))
    z = block.encode(x).sample(generator())
    assert (flat(block.missing(x, z, at(1.0, len(x))).sample(generator())) == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_where_z_is_exact_the_data_is_the_count(name):
    block, x = examples()[name].block, examples()[name].x
    z = block.encode(x).sample(generator())
    back = block.write(block.latent(z))
    same_rows = np.array_equal(dense(back), dense(examples()[name].rows))
    assert same_rows == block.exact


@pytest.mark.parametrize("name", [name for name in NAMES if examples()[name].block.decoding == "latent"])
def test_latent_is_unbiased(name):
    block, x = examples()[name].block, examples()[name].x
    many = x[torch.zeros(20_000, dtype=torch.long) + 7]
    z = block.encode(many).sample(generator())
    torch.testing.assert_close(flat(block.latent(z)).mean(0), flat(x)[7].double(), rtol=0.05, atol=0.01)


# What a network sees and means.


@pytest.mark.parametrize("name", LEARNING)
def test_a_flat_state_has_one_number_for_each_column(name):
    block = examples()[name].block
    z = block.empty(2, "cpu")
    assert block.flat == (isinstance(z, Tensor) and z.shape == (2, block.size))


@pytest.mark.parametrize("name", NAMES)
def test_features_are_finite_and_as_many_as_the_block_says(name):
    block, x = examples()[name].block, examples()[name].x
    for alpha in ALPHAS:
        features = block.features(seen(block, x, alpha), at(alpha, len(x)))
        assert features.shape == (len(x), block.inputs)
        assert features.dtype == torch.float32
        assert features.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
def test_any_output_gives_a_finite_law_and_gradient(name, scale):
    block, x = examples()[name].block.eval(), examples()[name].x
    for alpha in ALPHAS:
        z = seen(block, x, alpha)
        output = answer(block, len(x), scale).requires_grad_()
        belief = block.belief(output, z, at(alpha, len(x)))
        with torch.no_grad():
            drawn = belief.missing.sample(generator())
        assert flat(drawn).shape == flat(z).shape
        assert (flat(drawn) >= 0).all()
        likely = belief.missing.log_prob(drawn)
        assert likely.shape == (len(x),)
        assert likely.isfinite().all()
        if block.outputs:
            likely.sum().backward()
            assert output.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_what_can_be_missing_is_not_impossible(name, scale):
    block, x = examples()[name].block, examples()[name].x
    for alpha in ALPHAS:
        z = seen(block, x, alpha)
        missing = block.missing(x, z, at(alpha, len(x))).sample(generator(1))
        belief = block.belief(answer(block, len(x), scale), z, at(alpha, len(x)))
        assert belief.missing.log_prob(missing).isfinite().all()


@pytest.mark.parametrize("name", [name for name in NAMES if examples()[name].block.why_no_likelihood() is None])
def test_data_has_a_likelihood_given_its_counts_or_the_block_says_why_not(name):
    block, x = examples()[name].block, examples()[name].x
    z = block.encode(x).sample(generator())
    belief = block.belief(answer(block, len(x)), z, at(1.0, len(x)))
    if block.exact:
        assert torch.equal(flat(block.latent(z)), flat(x))
    else:
        log_prob = block.data_log_prob(belief, x)
        assert log_prob.shape == (len(x),)
        assert log_prob.isfinite().all()


@pytest.mark.parametrize("name", LEARNING)
def test_a_rows_belief_does_not_depend_on_the_others(name):
    block, x = examples()[name].block.eval(), examples()[name].x
    z, alpha, rows = seen(block, x, 0.4), at(0.4, len(x)), torch.tensor([5, 0, 5])
    output = answer(block, len(x))
    belief = block.belief(output, z, alpha)
    missing = block.missing(x, z, alpha).sample(generator(1))
    alone = block.belief(output[rows], z[rows], alpha[rows])
    expected = belief.missing.log_prob(missing)[rows]
    torch.testing.assert_close(alone.missing.log_prob(missing[rows]), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(belief.missing[rows].log_prob(missing[rows]), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(block.features(z[rows], alpha[rows]), block.features(z, alpha)[rows])


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_a_network_that_answers_zero_is_a_sensible_model(name, alpha):
    """On average over the rows, it expects as much to be missing as is, within a factor of four."""
    block, x = examples()[name].block.eval(), examples()[name].x
    many = x[torch.arange(4000) % len(x)]
    z, a = seen(block, many, alpha), at(alpha, 4000)
    silent = block.belief(torch.zeros(4000, block.outputs), z, a)
    believed, true = (flat(law.sample(generator())).mean(0) for law in (silent.missing, block.missing(many, z, a)))
    assert 0.25 < float(believed.sum() / true.sum()) < 4


# Learning.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_loss_and_its_gradients_are_finite(name, alpha):
    block = examples()[name].block.train()
    x = block.subsample(examples()[name].x, True, generator())
    z, a = seen(block, x, alpha), at(alpha, len(x))
    output = answer(block, len(x)).requires_grad_()
    features = block.features(z, a)
    loss = block.loss(block.belief(output, z, a), x, z, a, generator(1))
    assert loss.shape == (len(x),)
    assert loss.isfinite().all()
    if not block.outputs:
        assert (loss == 0).all(), "nothing to learn"
        return
    (loss.sum() + features.sum()).backward()
    for weight in (output, *block.parameters()):
        if weight.grad is not None:
            dense_gradient = weight.grad.to_dense() if weight.grad.is_sparse else weight.grad
            assert dense_gradient.isfinite().all()
    block.zero_grad(set_to_none=True)
    block.eval()


def test_the_papers_divergence_is_that_of_the_means_and_zero_for_the_truth():
    rows = examples()["counts"].rows
    for example in (
        examples()["poisson"],
        examples()["poisson, exact"],
        planned(np.hstack([np.full((60, 2), 7), rows]), belief="poisson", lam=3.0),
    ):
        block, x = example.block, example.x
        z, a = seen(block, x, 0.3), at(0.3, len(x))
        belief = block.belief(answer(block, len(x)), z, a)
        assert (block.divergence(belief, x, z, a) > 0).all()
        known = Belief(block.missing(x, z, a))
        torch.testing.assert_close(block.divergence(known, x, z, a), torch.zeros(len(x)).double())
        lam = 5.0 if example is examples()["poisson"] else 3.0
        per_step = block.divergence(belief, x, z, a, torch.full((len(x), 1), 0.1).double())
        scale = 1.0 if block.exact else lam * 0.7
        torch.testing.assert_close(per_step, 0.1 * scale * block.divergence(belief, x, z, a))


# Matrices and data.


def dense(matrix: object) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_written(name):
    example = examples()[name]
    written = example.block.write(example.x)
    assert sp.issparse(written) == example.block.sparse
    np.testing.assert_allclose(dense(written), dense(example.rows), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_decoded_rows_are_in_their_domain(name):
    example = examples()[name]
    block, rows = example.block, 300
    schedule, streams = Cosine(), Streams([generator(i) for i in range(3)], 100)
    t, alpha = torch.full((1,), 0.4).double(), schedule.alpha(torch.full((1,), 0.4).double())[:, None]
    with torch.no_grad():
        z = seen(block, example.x[torch.arange(rows) % 60], float(alpha))
        before = ChainStep(z, block.belief(answer(block, rows, 3.0), z, alpha.expand(rows, 1)), t)
        z = z + before.prediction.missing.draw(streams)
        belief = block.belief(answer(block, rows, 3.0), z, at(1.0, rows))
        written = block.write(block.decode(z, belief, before, alpha, streams))
    assert written.shape == (rows, block.columns)
    assert np.isfinite(dense(written)).all()
    for domain, places, coding in example.domains:
        own = dense(written)[:, places]
        domain.check(own if coding is None else coding.code(own))
        np.testing.assert_array_equal(own, own if coding is None else coding.decode(coding.code(own)))
    varies = dense(example.rows).std(0) > 0
    if isinstance(block, Constant | Blocks):
        constants = dense(example.rows)[:1, ~varies]
        np.testing.assert_array_equal(dense(written)[:, ~varies], np.repeat(constants, rows, 0))


# Escape.


def escape_sums(block: Block, values: np.ndarray) -> dict[float, float]:
    """For each value that the block can have made, the mass with which it becomes any of the ``values`` of its one column."""
    admitted, mass = block.admit(block.read(values[:, None]))
    sums: dict[float, float] = {}
    for made, log_mass in zip(flat(admitted)[:, 0].tolist(), mass.tolist(), strict=True):
        sums[made] = sums.get(made, 0.0) + math.exp(log_mass)
    return sums


ONE = torch.ones(1, dtype=torch.float64)
WHOLE = {
    "an inferred bound": (Counts(Count(4), ONE, ONE, 4 * ONE, 4 * ONE, 2, escape=0.01), 4.0, 0.01),
    "a declared bound": (Counts(Count(4), ONE, ONE, 4 * ONE, 4 * ONE, 2), 4.0, 0.0),
    "no bound": (Counts(Count(), ONE, ONE, 4 * ONE, torch.inf * ONE, 2, torch.ones(3, 1, 1).double()), None, 0.0),
    "a constant": (Constant(5 * ONE, torch.tensor([True]), rows=99), 5.0, 0.01),
}


@pytest.mark.parametrize("name", WHOLE)
def test_escape_is_a_law_of_whole_numbers(name):
    """What one value becomes has a mass of one at most; and if it may escape, it escapes by its escape mass."""
    block, point, escape = WHOLE[name]
    sums = escape_sums(block, np.arange(40_000.0))
    assert max(sums.values()) <= 1 + 1e-9
    assert block.admit(block.read(np.array([[2.0]])))[1].isfinite().all()
    if point is not None:
        stays = math.exp(float(block.admit(block.read(np.array([[point]])))[1]))
        assert stays == pytest.approx(1 - escape)
        below_zero = sum(escape / (2 * k * (k + 1)) for k in range(6, 40_000)) if name == "a constant" else 0.0
        assert sums[point] == pytest.approx(1 - below_zero, abs=1e-5)
        beyond = float(block.admit(block.read(np.array([[point + 2]])))[1])
        assert math.isfinite(beyond) == (escape > 0)


def test_a_real_constant_escapes_by_a_density():
    block = Constant(0.5 * ONE, torch.tensor([False]), rows=99)
    distance = np.exp(np.linspace(-16, 16, 20_001))
    total = 0.0
    for values in (0.5 + distance, 0.5 - distance):
        _, mass = block.admit(block.read(values[:, None]))
        total += np.trapezoid(np.exp(mass.numpy()), distance)
    assert math.exp(float(block.admit(block.read(np.array([[0.5]])))[1])) == pytest.approx(0.99)
    assert total == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("density", [lambda a: np.full_like(a, 0.5), lambda a: a / 2], ids=["flat", "rising"])
def test_a_bounded_real_escapes_by_a_density(density):
    """Whatever its density up to the bound of 2, what is made of it has a mass of one, and 1 % of it above the bound."""
    share = torch.tensor([[0.5, 0.5]]).double()
    block = Units(Bounded(2.0), share, ONE, 0 * share, 9 * ONE, 1, 2 * ONE, escape=0.01)
    below, above = (np.linspace(0, 2, 20_001)[1:], 2 * np.exp(np.linspace(1e-9, 16, 20_001)))
    masses = []
    for values in (below, above):
        admitted, mass = block.admit(block.read(values[:, None]))
        masses.append(np.trapezoid(density(block.write(admitted)[:, 0]) * np.exp(mass.numpy()), values))
    assert masses == pytest.approx([0.99, 0.01], rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_a_block_was_made_for_are_admitted_as_they_are(name):
    example = examples()[name]
    x, mass = example.block.read_to_score(example.rows)
    assert torch.equal(flat(x), flat(example.x))
    assert mass.shape == (len(x),)
    assert (mass <= 0).all()
    assert (mass > -0.1).all(), "they hardly escape"


def test_a_joint_escapes_by_its_parts():
    example = examples()["joint, with constants"]
    rows = example.rows[:3].copy()
    rows[1, 0] = 9
    _, mass = example.block.read_to_score(rows)
    assert mass[0] == mass[2]
    # Two from seven: one of 61 · 2 equal chances, times 1/(2 · 2 · 3).
    constant, other = 1 / (2 * 61), math.log1p(-1 / (2 * 61))
    assert float(mass[1] - mass[0]) == pytest.approx(math.log(constant / 12) - other)


# Each kind: a network that answers zero.

D = 3


def columns(*values: float) -> Tensor:
    return torch.full((D,), values[0]).double() if len(values) == 1 else torch.tensor(values).double()


def gammas(components: int, size: int = D) -> Tensor:
    """Weights, shapes and means; the first is that of a Gamma of shape 1.5 and mean 4."""
    means = 4.0 * 3.0 ** torch.arange(components).double()
    parts = (torch.full((components,), 1 / components).double(), torch.full((components,), 1.5).double(), means)
    return torch.stack([part.expand(size, components) for part in parts])


def reals_block(zeros: Tensor, components: int) -> Reals:
    return Reals(NonNegative(), columns(4.0), columns(1.5), columns(2.0), gammas(components), *zero_atom(zeros))


def counts_block() -> Counts:
    return Counts(Count(), columns(4.0), columns(1.5), columns(9.0), columns(math.inf), 4, gammas(4))


STATE = torch.arange(6 * D, dtype=torch.float64).reshape(6, D) % 5


def test_a_silent_poisson_block_is_the_conjugate_posterior_mean():
    block = BLOCKS["poisson"](NonNegative(), columns(4.0), columns(1.5), columns(2.0))
    belief = block.belief(torch.zeros(6, D), STATE, at(0.3, 6))
    expected = 2.0 * 0.7 * (STATE + 1.5) / (2.0 * 0.3 + 1.5 / 4.0)
    torch.testing.assert_close(belief.missing.mean, expected, rtol=1e-6, atol=0)


def test_a_silent_block_of_reals_with_one_component_is_the_conjugate_posterior():
    block = reals_block(columns(0.0), 1)
    belief = block.belief(torch.zeros(6, block.outputs), STATE, at(0.3, 6))
    rate = 2.0 * 0.3 + 1.5 / 4.0
    x = torch.full((6, D), 2.5, dtype=torch.float64)
    expected = torch.distributions.Gamma(STATE + 1.5, torch.full_like(STATE, rate)).log_prob(x).sum(1)
    torch.testing.assert_close(belief.data.log_prob(x), expected)


def test_a_silent_block_of_reals_is_the_posterior_of_a_mixture_of_gammas():
    """P(x) P(z given x), normalised by quadrature."""
    block = reals_block(columns(0.2), 3)
    z = torch.tensor([[0.0, 2.0, 30.0]]).double()
    data = block.belief(torch.zeros(1, block.outputs), z, at(0.3, 1)).data.entries
    x = torch.linspace(0, 400, 400_001).double()[1:]
    prior = Gammas(gammas(3))
    weights, shapes, means = prior.log_weights[0].exp(), prior.shapes[0], prior.means[0]
    density = (weights * torch.distributions.Gamma(shapes, shapes / means).log_prob(x[:, None]).exp()).sum(-1) * 0.8
    step = float(x[1] - x[0])
    for column in range(D):
        joint = density * torch.distributions.Poisson(2.0 * 0.3 * x).log_prob(z[0, column]).exp()
        at_zero = 0.2 * float(z[0, column] == 0)
        expected = joint / (joint.sum() * step + at_zero)
        got = data[torch.zeros(3, dtype=torch.long)].log_prob(x[[500, 5000, 50_000], None].expand(3, D)).exp()
        torch.testing.assert_close(got[:, column], expected[[500, 5000, 50_000]], rtol=1e-3, atol=1e-12)


def test_the_negative_binomials_of_a_silent_block_of_counts_are_the_posterior_of_thinned_counts():
    """P(x) Binomial(z; x, α), normalised over x."""
    block = counts_block()
    z, alpha = torch.tensor([[0.0, 2.0, 30.0]]).double(), at(0.3, 1)
    law = block.law(torch.zeros(1, block.outputs), z, alpha)
    negative = law.logits.shape[-1] - 4
    only = Mixture(law.logits[..., negative:], (law.parts[2],))
    prior = Gammas(gammas(4))
    x = torch.arange(3000.0).double()
    counts = Mixture(prior.log_weights[0].expand(3000, 4), (NegativeBinomial(prior.shapes[:1], prior.means[:1]),))
    for column in range(D):
        joint = counts.log_prob(x) + Binomial(x, alpha[0]).log_prob(z[0, column])
        posterior = (joint - joint.logsumexp(0)).exp()
        for missing in (0, 3, 40):
            got = float(only.log_prob(torch.full((1, D), float(missing)).double())[0, column].exp())
            assert got == pytest.approx(float(posterior[int(z[0, column]) + missing]), rel=1e-4)


def test_silent_units_with_one_component_are_the_dirichlet_posterior():
    share, one = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64), torch.ones(1).double()
    block = Units(Simplex(), share, 6 * one, torch.zeros(1, 3).double(), 9 * one, 1)
    z = torch.tensor([[[1.0, 0.0, 2.0]]], dtype=torch.float64)
    belief = block.belief(torch.zeros(1, block.outputs), z, at(0.3, 1))
    x = torch.tensor([[[0.3, 0.3, 0.4]]], dtype=torch.float64)
    expected = torch.distributions.Dirichlet(z + 6 * share).log_prob(x).sum(1)
    torch.testing.assert_close(belief.data.log_prob(x), expected)
    assert (belief.missing.sample(generator()).sum(-1) == 6).all()


def test_zero_is_believed_only_while_nothing_has_been_seen_and_the_column_has_zeros():
    block = reals_block(columns(0.0, 0.3, 0.9), 4)
    z = torch.tensor([[0.0, 0.0, 3.0]], dtype=torch.float64)
    belief = block.belief(torch.zeros(1, block.outputs), z, at(0.0, 1))
    weights = belief.data.entries.logits.softmax(-1)
    assert weights[0, 0, 0] == 0, "a column without zeros"
    assert weights[0, 1, 0] == pytest.approx(0.3)
    assert weights[0, 2, 0] == 0, "a count has been seen"


@pytest.mark.parametrize(("name", "most"), [("counts, all bounded", 5), ("binary", 1)])
def test_a_bounded_count_never_exceeds_its_bound(name, most):
    block, x = examples()[name].block, examples()[name].x[torch.arange(600) % 60]
    z = seen(block, x, 0.3)
    drawn = z + block.belief(answer(block, 600, 3.0), z, at(0.3, 600)).missing.sample(generator())
    assert drawn.max() <= most


def test_a_one_hot_row_has_one_unit():
    block, x = examples()["one-hot"].block, examples()["one-hot"].x
    z = seen(block, x, 0.3)
    belief = block.belief(answer(block, len(x)), z, at(0.3, len(x)))
    assert ((z + belief.missing.sample(generator())).sum(-1) == 1).all()


# The layout of a network of one's own.


def test_a_layout_puts_columns_in_their_places():
    """Four views of all columns, zero where the block has none; and outputs are read from the same places."""
    arguments = (NonNegative(), columns(4.0), columns(1.5), columns(2.0))
    whole, laid = BLOCKS["poisson"](*arguments), BLOCKS["poisson"](*arguments, layout=(5, torch.tensor([0, 3, 4])))
    assert (laid.inputs, laid.outputs) == (20, 5)
    features = laid.features(STATE, at(0.5, 6)).reshape(6, 4, 5)
    assert (features[..., [1, 2]] == 0).all()
    torch.testing.assert_close(features[..., [0, 3, 4]].flatten(1), whole.features(STATE, at(0.5, 6)))
    output = answer(laid, 6)
    means = [
        block.belief(out, STATE, at(0.5, 6)).missing.mean
        for block, out in ((laid, output), (whole, output[:, [0, 3, 4]]))
    ]
    torch.testing.assert_close(*means)


# Sparse counts.


def sparse_block() -> Block:
    return examples()["sparse counts"].block.eval()


@torch.no_grad()
def test_what_is_seen_is_reused():
    """π = sigmoid(−1) of the units falls where units are, where the network says nothing."""
    block = sparse_block()
    z = SparseRows.from_dense(torch.tensor([[5.0] + [0.0] * 11], dtype=torch.float64))
    belief = block.belief(torch.zeros(1, block.outputs), z, at(0.5, 1))
    reused = (12 * torch.tensor(-1 / 12).tanh()).sigmoid()
    first = torch.zeros(12)
    first[0] = 1
    expected = (1 - reused) * block.bias.softmax(0) + reused * first
    torch.testing.assert_close(belief.missing.shares.dense()[0], expected.double(), rtol=1e-5, atol=1e-7)


def test_powers_are_free_of_each_other():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25]).double()
    found = _powers(weights.log(), weights, 3)
    products = (found * weights[:, None]).t() @ found
    torch.testing.assert_close(products, torch.eye(3).double())
    torch.testing.assert_close(weights @ found, torch.zeros(3).double())
    assert _powers(torch.zeros(4).double(), torch.full((4,), 0.25).double(), 3).isfinite().all()


@torch.no_grad()
def test_the_loss_of_sparse_counts_is_the_cross_entropy_of_the_missing_units():
    block, x = sparse_block(), examples()["sparse counts"].x
    z, alpha = seen(block, x, 0.5), at(0.5, len(x))
    belief = block.belief(answer(block, len(x)), z, alpha)
    missing = (x - z).dense()
    entropy = -(missing * belief.missing.shares.dense().log()).sum(1)
    size = block.total.posterior_mean(z.totals[:, None], alpha).squeeze(1)
    expected = entropy / (block.ordinary * size.clamp(min=block.ordinary)).sqrt()
    torch.testing.assert_close(block.loss(belief, x, z, alpha, generator()), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [-50.0, 50.0])
def test_any_calibration_gives_finite_shares_and_gradients(size):
    """A search on few rows may go far."""
    block = planned(examples()["sparse counts"].rows, belief="composition", domain="count").block
    x = block.read(examples()["sparse counts"].rows)
    block.is_calibrated.fill_(True)
    torch.nn.init.constant_(block.calibration, size)
    for alpha in (1e-6, 0.5, 1.0):
        z = seen(block, x, alpha)
        shares = block.belief(answer(block, len(x)), z, at(alpha, len(x))).missing.shares
        loss = shares.cross_entropy(x).sum()
        assert loss.isfinite()
        assert torch.autograd.grad(loss, block.calibration)[0].isfinite().all()
        with torch.no_grad():
            torch.testing.assert_close(shares.dense().sum(1), torch.ones(len(x)).double())


def test_a_calibration_of_zero_changes_hardly_anything():
    """But for the limit of the log-odds, which is set once more."""
    block = planned(examples()["sparse counts"].rows, belief="composition", domain="count").block
    x = block.read(examples()["sparse counts"].rows)
    z, alpha, output = seen(block, x, 0.3), at(0.3, len(x)), answer(block, len(x))
    with torch.no_grad():
        before = block.belief(output, z, alpha).missing.shares.dense()
        block.is_calibrated.fill_(True)
        after = block.belief(output, z, alpha).missing.shares.dense()
    torch.testing.assert_close(after, before, rtol=0.05, atol=1e-3)


def test_a_rows_weight_is_known_at_z_and_grows_with_the_root_of_its_size():
    """So the composition that is learned is that of all units, of large rows too: here at t = 1, where nothing is left."""
    block, alpha = sparse_block(), torch.tensor([[0.0], [0.5], [0.5], [0.5]]).double()
    rows = torch.zeros(4, 12).double()
    rows[2, 0], rows[3, 1], rows[3, 2] = 1e6, 3e6, 1e6
    z = SparseRows.from_dense(rows)
    per = block._divisor(z, alpha)
    size = block.total.posterior_mean(z.totals[:, None], alpha).squeeze(1)
    torch.testing.assert_close(per[:2], (block.ordinary * size[:2].clamp(min=block.ordinary)).sqrt())
    assert float(per[3] / per[2]) == pytest.approx(2, rel=1e-3)
    assert float(per[2]) == pytest.approx(float(block.ordinary * size[2]) ** 0.5)


def test_a_sample_of_columns_leaves_the_softmax_unbiased():
    """Horvitz and Thompson: the sum under the softmax has the right mean over samples."""
    columns_ = 3000
    rows = sp.random(60, columns_, 0.01, "csr", random_state=0, data_rvs=lambda n: np.ones(n))
    block = planned(rows, belief="composition", domain="count").block
    x = block.read(rows[:4])
    query = torch.randn(1, block.width, generator=generator())
    whole = torch.exp(query @ block.table.weight.T + block.bias).sum().detach()
    sums = []
    for seed in range(200):
        some = block.subsample(x, True, generator(seed))
        assert some.shape[1] < columns_
        assert torch.equal(some.original_column, x.column)
        logits = query @ block.table(some.sample.columns).T + block.bias[some.sample.columns]
        sums.append((logits - some.sample.inclusion.log()).exp().sum())
    found = torch.stack(sums).detach()
    assert abs(float(found.mean() - whole)) < 4 * float(found.std()) / 200**0.5
