import torch
from hypothesis import given
from hypothesis import strategies as st

from countjump.divergences import relative_entropy

REALS = st.floats(0, 1e6)


def d(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@given(REALS, st.floats(1e-6, 1e6))
def test_is_not_negative_and_zero_only_at_equality(p: float, q: float):
    divergence = float(relative_entropy(d(p), d(q)))
    assert divergence >= -1e-9 * (p + q)
    if abs(p - q) > 1e-2 * (p + q):
        assert divergence > 0
    assert abs(float(relative_entropy(d(q), d(q)))) <= 1e-9 * q


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 100))
def test_scales(p: float, q: float, by: float):
    torch.testing.assert_close(relative_entropy(d(by * p), d(by * q)), by * relative_entropy(d(p), d(q)))


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=5), st.data())
def test_splits_into_total_and_composition(x: list[float], data: st.DataObject):
    """D_φ(x, R p) = D_φ(|x|, R) + |x| KL(x/|x| ‖ p): nothing is lost by modelling total and composition apart."""
    raw = data.draw(st.lists(st.floats(-2, 2), min_size=len(x), max_size=len(x)))
    x, p, total = d(*x), d(*raw).softmax(0), d(7.5)
    kl = ((x / x.sum()) * (x / x.sum() / p).log()).sum()
    whole = relative_entropy(x, total * p).sum()
    torch.testing.assert_close(whole, relative_entropy(x.sum(), total)[0] + x.sum() * kl)


def test_at_zero():
    assert relative_entropy(d(0.0, 0.0), d(3.0, 0.0)).tolist() == [3.0, 0.0]
    assert relative_entropy(d(2.0), d(0.0)).isfinite().all()


def test_gradient_is_finite_at_zero():
    for p in (0.0, 2.0):
        q = d(0.0, 1e-300).requires_grad_()
        relative_entropy(d(p, p), q).sum().backward()
        assert q.grad[0].isfinite()
    single = torch.zeros(1, requires_grad=True)
    relative_entropy(torch.zeros(1), single).sum().backward()
    assert single.grad.isfinite().all()
