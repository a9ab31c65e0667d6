import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from countjump.domains import (
    DOMAINS,
    Binary,
    Bounded,
    Categorical,
    Count,
    Domain,
    NonNegative,
    OneHot,
    Simplex,
    check_not_negative,
    check_values,
    infer,
)

DOMAIN = st.sampled_from(
    [
        *(NonNegative(), Binary(), OneHot(), Simplex()),
        *(Count(), Count(max=5), Count(max=(2, 7, np.inf)), Bounded(0.5), Bounded((0.1, 3.0, 100.0))),
    ]
)
ROWS = hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(0, 1e6))


@given(DOMAIN, ROWS)
@example(Simplex(), np.array([[1e-305, 0.0, 3e-305]]))
def test_projected_data_passes_the_check_and_stays(domain: Domain, y: np.ndarray):
    projected = domain.project(torch.from_numpy(y))
    X = projected.numpy()
    for matrix in (X, sp.csr_matrix(X)):
        check_values(matrix)
        domain.check(matrix)
    torch.testing.assert_close(domain.project(projected), projected, rtol=1e-15, atol=0)


@given(DOMAIN, ROWS)
def test_projection_leaves_its_argument_and_dtype_alone(domain: Domain, y: np.ndarray):
    before = torch.from_numpy(y.copy())
    for dtype in (torch.float32, torch.float64):
        assert domain.project(before.to(dtype)).dtype == dtype
    assert torch.equal(before, torch.from_numpy(y))


def test_every_domain_has_a_name():
    assert set(DOMAINS) == {"non-negative", "count", "binary", "one-hot", "simplex", "bounded", "categorical"}


def test_selected_columns_keep_their_bounds():
    assert Count(max=(2, 7, 9)).select(np.array([0, 2])) == Count(max=(2, 9))
    assert Count(max=(2, 7, 2, np.inf)).select(np.array([0, 2])) == Count(max=2)
    assert Count(max=(2, 7, np.inf)).select(np.array([2])) == Count()
    assert Count(max=5).select(np.array([0])) == Count(max=5)
    assert Simplex().select(np.array([0, 1])) == Simplex()


RULES = [
    (np.zeros((4, 2)), Count(), "every value is 0"),
    (np.array([[1, 0, 0], [0, 0, 1]]), OneHot(), "every row holds a single 1"),
    (np.array([[1], [1]]), Binary(), "0 or 1"),
    (np.array([[1, 1, 0], [0, 0, 1]]), Binary(), "0 or 1"),
    (np.array([[0, 12], [3, 1]]), Count(), "whole numbers"),
    (np.repeat(np.arange(6), 20)[:, None], Count(max=5.0), "end at a wall"),
    (np.stack([np.repeat(np.arange(6), 20), np.arange(120) ** 2], 1), Count(max=(5.0, np.inf)), "1 of 2 columns"),
    (np.tile([[0], [16], [3]], (1, 10)), Count(max=16.0), "10 columns share the largest"),
    (np.arange(65)[None] + np.zeros((2, 1)), Count(), "whole numbers"),
    (np.array([[0.25, 0.75], [1.0, 0.0]]), Simplex(), "adds up to 1"),
    (np.linspace(0.01, 0.99, 50)[:, None], Bounded(1.0), "no value is above 1"),
    (np.array([[0.1, 0.2], [0.3, 0.4]]), NonNegative(), "fractions"),
    (np.array([[0.0, 2.5], [1.0, 0.0]]), NonNegative(), "fractions"),
]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(("X", "domain", "why"), RULES, ids=[f"{i}-{rule[1].name}" for i, rule in enumerate(RULES)])
def test_inference(X: np.ndarray, domain: Domain, why: str, sparse: bool):
    inferred, reason = infer(sp.csr_matrix(X) if sparse else X)
    assert inferred == domain
    assert why in reason
    inferred.check(X)


def with_value(value: float) -> np.ndarray:
    X = np.zeros((4, 3))
    X[0, 1], X[2, 1] = 1.0, value
    return X


WRONG = [
    (None, np.nan, r"X\[2, 1\] = nan is NaN"),
    (None, np.inf, r"X\[2, 1\] = inf is infinity"),
    (None, 2.0**54, r"X\[2, 1\] = 1.80144e\+16 is above 2\^53"),
    (None, -(2.0**54), r"X\[2, 1\] = -1.80144e\+16 is below -2\^53"),
    ("counts", -2.0, r"X\[2, 1\] = -2 is negative"),
    (Categorical((0, 1)), 7.0, r"X\[2, 1\] = 7 is none of the levels \(0, 1\)"),
    (Count(), 2.5, r"X\[2, 1\] = 2.5 is not a whole number"),
    (Count(max=5), 6.0, r"X\[2, 1\] = 6 is above the bound 5 of Count"),
    (Count(max=(9, 5, 9)), 6.0, r"X\[2, 1\] = 6 is above the bound 5 of Count"),
    (Binary(), 2.0, r"X\[2, 1\] = 2 is neither 0 nor 1"),
    (OneHot(), 0.5, r"X\[2, 1\] = 0.5 is neither 0 nor 1"),
    (Bounded(2.0), 2.5, r"X\[2, 1\] = 2.5 is above the bound 2 of Bounded"),
    (OneHot(), 1.0, r"row 1 of X adds up to 0"),
    (Simplex(), 1.0, r"row 1 of X adds up to 0"),
]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(("domain", "value", "message"), WRONG)
def test_errors_name_row_column_and_value(domain: Domain | str | None, value: float, message: str, sparse: bool):
    X = with_value(value)
    checks = {None: check_values, "counts": check_not_negative}
    check = domain.check if isinstance(domain, Domain) else checks[domain]
    with pytest.raises(ValueError, match=message):
        check(sp.csr_matrix(X) if sparse else X)


def test_the_first_wrong_value_is_named():
    X = np.array([[0.0, 1.0], [0.5, 0.5]])
    for matrix in (X, sp.csr_matrix(X)):
        with pytest.raises(ValueError, match=r"X\[1, 0\] = 0.5"):
            Count().check(matrix)


def test_bounds_are_checked_themselves():
    with pytest.raises(ValueError, match="2 bounds for 3 columns"):
        Count(max=(1, 2)).check(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="positive max"):
        Bounded(0.0)
