"""Heads: a network that answers zero is a sensible, conjugate model; any answer is finite and inside the support."""

import pytest
import torch

from countjump.bags import Bags
from countjump.beliefs import (
    AmountHead,
    BagHead,
    Conjugate,
    CountHead,
    GammaHead,
    Gammas,
    PoissonHead,
    UnitsHead,
    _powers,
)
from countjump.laws import Binomial, Mixture, NegativeBinomial

D = 3


def prior(lam=2.0):
    return Conjugate(*(torch.full((D,), value, dtype=torch.float64) for value in (4.0, 1.5, lam)))


def gammas(components, columns=D):
    """Weights, shapes and means: one is the conjugate prior of :func:`prior`."""
    means = 4.0 * 3.0 ** torch.arange(components).double()
    parts = (torch.full((components,), 1 / components).double(), torch.full((components,), 1.5).double(), means)
    return Gammas(torch.stack([part.expand(columns, components) for part in parts]))


def heads():
    infinite = torch.full((D,), 9.0, dtype=torch.float64)
    total = Conjugate(*(torch.tensor([value], dtype=torch.float64) for value in (12.0, 2.0, 1.0)))
    total_head = CountHead(total, torch.tensor([40.0]).double(), torch.tensor([False]), 4, gammas(4, 1))
    alike = torch.full((D,), 1 / D, dtype=torch.float64)
    shares = torch.full((1, D), 1 / D, dtype=torch.float64)
    return {
        "poisson": PoissonHead(prior()),
        "gamma": GammaHead(prior(), torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64), gammas(4)),
        "count": CountHead(prior(1.0), infinite, torch.zeros(D, dtype=torch.bool), 4, gammas(4)),
        "bounded": CountHead(prior(1.0), infinite, torch.ones(D, dtype=torch.bool), 4),
        "some-bounded": CountHead(prior(1.0), infinite, torch.tensor([True, False, True]), 4, gammas(4)),
        "binary": CountHead(prior(1.0), torch.ones(D, dtype=torch.float64), torch.ones(D, dtype=torch.bool), 4),
        "one-hot": UnitsHead(shares, torch.ones(1, dtype=torch.float64), shares, torch.ones(1, dtype=torch.float64), 0),
        "simplex": UnitsHead(
            shares, torch.full((1,), 3.0).double(), torch.zeros(1, D).double(), torch.full((1,), 50.0).double(), 4
        ),
        "bag": BagHead(alike, total_head, 8),
        "set": BagHead(alike, total_head, 8, AmountHead(alike.log(), 1.0, 4)),
    }


def state(name, rows=6):
    z = torch.arange(rows * D, dtype=torch.float64).reshape(rows, D) % 5
    if name == "binary":
        z = (z > 2).double()
    if name == "one-hot":
        z = torch.zeros(rows, 1, D, dtype=torch.float64)
        z[::2, 0, 1] = 1
    if name in ("bag", "set"):
        return Bags.from_dense(z if name == "bag" else (z > 1).double())
    return z[:, None] if name == "simplex" else z


@pytest.mark.parametrize("name", heads())
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
def test_any_output_gives_a_finite_law_and_gradient(name, scale):
    head, z = heads()[name].eval(), state(name)
    for alpha in (0.0, 1e-6, 0.5, 1 - 1e-9, 1.0):
        a = torch.full((len(z), 1), alpha, dtype=torch.float64)
        features = head.features(z, a)
        assert features.shape == (len(z), head.inputs)
        assert features.isfinite().all()
        output = (
            scale * torch.randn(len(z), head.outputs, generator=torch.Generator().manual_seed(0))
        ).requires_grad_()
        belief = head(output, z, a)
        with torch.no_grad():
            drawn = belief.missing.sample(torch.Generator().manual_seed(0))
        assert drawn.shape == z.shape
        assert ((drawn.value if isinstance(drawn, Bags) else drawn) >= 0).all()
        likely = belief.missing.log_prob(drawn).sum()
        if name == "set":
            amounts = belief.data.sample(torch.Generator().manual_seed(0))
            assert (amounts.value > 0).all()
            likely = likely - belief.data.negative_log_likelihood(amounts.valued(amounts.value.detach())).sum()
        assert likely.isfinite()
        likely.backward()
        assert output.grad.isfinite().all()


def test_a_silent_poisson_head_is_the_conjugate_posterior_mean():
    z, alpha = state("poisson"), torch.full((6, 1), 0.3, dtype=torch.float64)
    belief = heads()["poisson"](torch.zeros(6, D), z, alpha)
    expected = 2.0 * 0.7 * (z + 1.5) / (2.0 * 0.3 + 1.5 / 4.0)
    torch.testing.assert_close(belief.missing.mean, expected, rtol=1e-6, atol=0)


def test_a_silent_gamma_head_with_one_component_is_the_conjugate_posterior():
    head = GammaHead(prior(), torch.zeros(D, dtype=torch.float64), gammas(1))
    z, alpha = state("gamma"), torch.full((6, 1), 0.3, dtype=torch.float64)
    belief = head(torch.zeros(6, head.outputs), z, alpha)
    rate = 2.0 * 0.3 + 1.5 / 4.0
    x = torch.full((6, D), 2.5, dtype=torch.float64)
    expected = torch.distributions.Gamma(z + 1.5, torch.full_like(z, rate)).log_prob(x).sum(1)
    torch.testing.assert_close(belief.data.log_prob(x), expected)


def test_a_silent_gamma_head_is_the_posterior_of_a_mixture_of_gammas():
    """P(x) P(z given x), normalised by quadrature."""
    head = GammaHead(prior(), torch.full((D,), 0.2).double(), gammas(3))
    z, alpha = torch.tensor([[0.0, 2.0, 30.0]]).double(), torch.full((1, 1), 0.3).double()
    data = head(torch.zeros(1, head.outputs), z, alpha).data.entries
    x = torch.linspace(0, 400, 400_001).double()[1:]
    prior_mixture = gammas(3)
    weights, shapes, means = prior_mixture.log_weights[0].exp(), prior_mixture.shapes[0], prior_mixture.means[0]
    density = (weights * torch.distributions.Gamma(shapes, shapes / means).log_prob(x[:, None]).exp()).sum(-1) * 0.8
    step = float(x[1] - x[0])
    for column in range(D):
        joint = density * torch.distributions.Poisson(2.0 * 0.3 * x).log_prob(z[0, column]).exp()
        at_zero = 0.2 * float(z[0, column] == 0)
        expected = joint / (joint.sum() * step + at_zero)
        got = data.rows(torch.zeros(3, dtype=torch.long)).log_prob(x[[500, 5000, 50_000], None].expand(3, D)).exp()
        torch.testing.assert_close(got[:, column], expected[[500, 5000, 50_000]], rtol=1e-3, atol=1e-12)


def test_the_negative_binomials_of_a_silent_count_head_are_the_posterior_of_thinned_counts():
    """P(x) Binomial(z; x, α), normalised over x."""
    head = heads()["count"]
    z, alpha = torch.tensor([[0.0, 2.0, 30.0]]).double(), torch.full((1, 1), 0.3).double()
    law = head.law(torch.zeros(1, head.outputs), z, alpha)
    negative = law.logits.shape[-1] - 4
    only = Mixture(law.logits[..., negative:], (law.parts[2],))
    mixture = gammas(4)
    x = torch.arange(3000.0).double()
    counts = Mixture(mixture.log_weights[0].expand(3000, 4), (NegativeBinomial(mixture.shapes[:1], mixture.means[:1]),))
    for column in range(D):
        joint = counts.log_prob(x) + Binomial(x, alpha[0]).log_prob(z[0, column])
        posterior = (joint - joint.logsumexp(0)).exp()
        for missing in (0, 3, 40):
            got = float(only.log_prob(torch.full((1, D), float(missing)).double())[0, column].exp())
            assert got == pytest.approx(float(posterior[int(z[0, column]) + missing]), rel=1e-4)


def test_a_silent_units_head_with_one_component_is_the_dirichlet_posterior():
    share = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    head = UnitsHead(share, torch.tensor([6.0]).double(), torch.zeros(1, 3).double(), torch.tensor([9.0]).double(), 1)
    z = torch.tensor([[[1.0, 0.0, 2.0]]], dtype=torch.float64)
    belief = head(torch.zeros(1, head.outputs), z, torch.full((1, 1), 0.3).double())
    x = torch.tensor([[[0.3, 0.3, 0.4]]], dtype=torch.float64)
    expected = torch.distributions.Dirichlet(z + 6 * share).log_prob(x).sum(1)
    torch.testing.assert_close(belief.data.log_prob(x), expected)
    assert (belief.missing.sample().sum(-1) == 6).all()


def test_zero_is_believed_only_while_nothing_has_been_seen_and_the_column_has_zeros():
    head = heads()["gamma"]
    z = torch.tensor([[0.0, 0.0, 3.0]], dtype=torch.float64)
    weights = head(torch.zeros(1, head.outputs), z, torch.zeros(1, 1).double()).data.entries.logits.softmax(-1)
    assert weights[0, 0, 0] == 0, "a column without zeros"
    assert weights[0, 1, 0] == pytest.approx(0.3)
    assert weights[0, 2, 0] == 0, "a count has been seen"


def test_a_bounded_count_never_exceeds_its_bound_and_a_one_hot_row_has_one_unit():
    for name, most in (("bounded", 9), ("binary", 1)):
        head, z = heads()[name], state(name, 600)
        output = 3 * torch.randn(600, head.outputs)
        assert (z + head(output, z, torch.zeros(600, 1).double()).missing.sample()).max() <= most
    head, z = heads()["one-hot"], state("one-hot", 600)
    belief = head(torch.randn(600, head.outputs), z, torch.zeros(600, 1).double())
    assert ((z + belief.missing.sample()).sum(-1) == 1).all()


def test_what_is_there_calls_for_its_like():
    head = heads()["bag"]
    z = Bags.from_dense(torch.tensor([[5.0, 0.0, 0.0]], dtype=torch.float64))
    head.table.weight.data.zero_()
    shares = head(torch.zeros(1, head.outputs), z, torch.full((1, 1), 0.5).double()).missing.shares()
    again = (12 * torch.tensor(-1 / 12).tanh()).sigmoid()
    torch.testing.assert_close(shares[0], (1 - again) * head.bias.softmax(0) + again * torch.tensor([1.0, 0.0, 0.0]))


def test_powers_are_free_of_each_other():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25]).double()
    found = _powers(weights.log(), weights, 3)
    products = (found * weights[:, None]).t() @ found
    torch.testing.assert_close(products, torch.eye(3).double())
    torch.testing.assert_close(weights @ found, torch.zeros(3).double())
    assert _powers(torch.zeros(4).double(), torch.full((4,), 0.25).double(), 3).isfinite().all()


def test_the_loss_of_a_bag_is_its_compositions():
    head, z, alpha = heads()["bag"].eval(), state("bag"), torch.full((6, 1), 0.5).double()
    belief = head(torch.randn(6, head.outputs), z, alpha)
    missing = belief.missing.sample()
    dense = missing.dense()
    coefficient = torch.lgamma(dense.sum(1) + 1) - torch.lgamma(dense + 1).sum(1)
    total = belief.missing.total.log_prob(missing.totals()[:, None]).squeeze(1)
    expected = total + coefficient - belief.missing.log_prob(missing)
    torch.testing.assert_close(head.negative_log_likelihood(belief, missing), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [-50.0, 50.0])
@pytest.mark.parametrize("name", ["bag", "set"])
def test_any_balance_gives_finite_shares_and_gradients(name, size):
    """A search on few rows may go far."""
    head, z = heads()[name].eval(), state(name)
    head.balance.data.fill_(size)
    head.balance.requires_grad_(True)
    for alpha in (1e-6, 0.5, 1.0):
        belief = head(torch.randn(len(z), head.outputs), z, torch.full((len(z), 1), alpha).double())
        missing = z.valued(1 - z.value) if name == "set" else z
        loss = belief.missing.cross_entropy(missing).sum()
        assert loss.isfinite()
        assert torch.autograd.grad(loss, head.balance)[0].isfinite().all()
        with torch.no_grad():
            assert belief.missing._weights()[0].isfinite().all()


def test_a_rows_weight_is_known_at_z_and_grows_with_the_root_of_its_size():
    """So the composition that is learned is that of all units, of large rows too: here at t = 1, where nothing is left."""
    head = heads()["bag"]
    alpha = torch.tensor([[0.0], [0.5], [0.5], [0.5]]).double()
    z = Bags.from_dense(torch.tensor([[0, 0, 0], [0, 0, 0], [1e6, 0, 0], [0, 3e6, 1e6]], dtype=torch.float64))
    per = head.divisor(z, alpha)
    assert float(per[0]) == pytest.approx(head.tokens), "nothing is known"
    assert float(per[1]) == pytest.approx(head.tokens), "a small row is an ordinary one"
    assert float(per[3] / per[2]) == pytest.approx(2, rel=1e-3)
    size = head.total.prior.posterior_mean(torch.tensor(1e6), alpha[2])
    assert float(per[2]) == pytest.approx(float(head.tokens * size) ** 0.5)
