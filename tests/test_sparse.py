"""Sparse rows: every operation gives the same numbers as on dense rows; and what training looks at of them."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from goodness import LEVEL, flat, generator, pearson
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from countjump.blocks import SparseCounts, SparseReals
from countjump.data import Rows
from countjump.denoiser import Denoiser
from countjump.laws import Binomial
from countjump.networks import MLP
from countjump.priors import directions
from countjump.processes import Jump
from countjump.schedules import Cosine
from countjump.sparse import ColumnSample, SparseRows
from countjump.states import Joint, arrivals, concatenate, distinct, row_hash

DENSE = torch.tensor([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 5]], dtype=torch.float64)


@st.composite
def dense(draw: st.DrawFn, rows: int | None = None, columns: int = 4) -> Tensor:
    """One to five rows, most of whose counts are zero."""
    rows = draw(st.integers(1, 5)) if rows is None else rows
    counts = st.sampled_from([0, 0, 0, 1, 2, 7])
    entries = draw(st.lists(counts, min_size=rows * columns, max_size=rows * columns))
    return torch.tensor(entries, dtype=torch.float64).reshape(rows, columns)


def sparse(x: Tensor) -> SparseRows:
    return SparseRows.from_dense(x)


@given(dense())
def test_there_and_back(x: Tensor):
    assert torch.equal(sparse(x).dense(), x)
    assert torch.equal(SparseRows.from_csr(sp.csr_matrix(x.numpy())).dense(), x)
    np.testing.assert_array_equal(sparse(x).csr().toarray(), x.numpy())
    assert torch.equal(sparse(x).to("cpu").dense(), x)
    assert torch.equal(SparseRows.empty(*x.shape).dense(), torch.zeros_like(x))


def test_a_csr_matrix_may_hold_zeros_and_comes_back_without():
    matrix = sp.csr_matrix((np.array([1.0, 0.0, 2.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    rows = SparseRows.from_csr(matrix)
    assert rows.value.tolist() == [1, 2]
    rows = rows.with_values(torch.tensor([0.0, 2.0], dtype=torch.float64))
    assert rows.csr().nnz == 1


@given(dense())
def test_totals_starts_and_sums_per_row(x: Tensor):
    rows = sparse(x)
    assert len(rows) == len(x)
    assert torch.equal(rows.totals, x.sum(1))
    assert torch.equal(rows.per_row((rows.value > 1).double()), (x > 1).sum(1).double())
    filled = (x > 0).sum(1)
    assert torch.equal(rows.starts, filled.cumsum(0) - filled)


@given(dense(), st.lists(st.integers(0, 4), max_size=6))
def test_rows_are_the_rows(x: Tensor, index: list[int]):
    some = torch.tensor([i % len(x) for i in index], dtype=torch.long)
    taken = sparse(x)[some]
    assert torch.equal(taken.dense(), x[some])
    assert (taken.row.diff() >= 0).all()
    odd = torch.arange(len(x)) % 2 == 1
    assert torch.equal(sparse(x)[odd].dense(), x[odd])
    for part in (slice(1, 3), slice(0, 0), slice(None, None, 2)):
        assert torch.equal(sparse(x)[part].dense(), x[part])
    assert torch.equal(concatenate([taken, sparse(x), taken]).dense(), torch.cat([x[some], x, x[some]]))


@given(dense(rows=3), dense(rows=3))
def test_sums_and_differences_merge_places(x: Tensor, y: Tensor):
    assert torch.equal((sparse(x) + sparse(y)).dense(), x + y)
    assert torch.equal((sparse(x) - sparse(y)).dense(), x - y)
    assert len((sparse(x) + sparse(y)).value) == (x + y).count_nonzero()
    rows = sparse(x)
    more = rows.with_values(rows.value * 2)
    assert rows.same_places(more)
    assert torch.equal((rows + more).dense(), 3 * x)


@given(dense(rows=3), dense(rows=3))
def test_values_are_found_at_the_places_of_others(x: Tensor, y: Tensor):
    rows, places = sparse(x), sparse(y)
    assert torch.equal(rows.at(places), x[places.row, places.column])
    assert torch.equal(rows.at(rows), rows.value)
    found = rows.find(places)
    assert torch.equal(found == len(rows.value), x[places.row, places.column] == 0)
    assert rows.find(rows.with_values(rows.value + 1)) is None


def test_entries_can_be_left_out():
    rows = sparse(DENSE)
    lost = rows.with_values(rows.value * (rows.value > 1))
    assert len(lost.value) == 4
    assert len(lost.nonzero().value) == 3
    assert torch.equal(lost.nonzero().dense(), torch.where(DENSE > 1, DENSE, 0.0))
    assert rows.nonzero() is rows


def test_a_sample_of_columns_knows_their_original_numbers():
    sample = ColumnSample(torch.tensor([1, 3, 8]), torch.ones(3))
    rows = SparseRows(torch.tensor([0, 1]), torch.tensor([2, 0]), torch.ones(2), (2, 3), sample)
    assert rows.original_column.tolist() == [8, 1]
    assert rows[torch.tensor([1])].original_column.tolist() == [1]
    assert sparse(DENSE).original_column.tolist() == [1, 3, 0, 3]


# States of any kind: their hashes, and how they fill up.


@given(dense())
def test_equal_rows_have_equal_hashes_and_others_have_not(x: Tensor):
    x = torch.cat([x, x.flip(0)])
    for z in (sparse(x), x, Joint((x[:, :1], sparse(x[:, 1:])))):
        first, group = distinct(row_hash(z))
        assert torch.equal(x[first][group], x)
        assert len(first) == len(torch.unique(x, dim=0))


def test_stored_zeros_do_not_change_a_hash():
    rows = sparse(DENSE) + sparse(torch.ones_like(DENSE)).with_values(torch.zeros(12, dtype=torch.float64))
    assert len(rows.value) == 12
    assert torch.equal(row_hash(rows), row_hash(sparse(DENSE)))
    assert torch.equal(row_hash(rows), row_hash(DENSE))


SHARES = np.array([0.1, 0.0, 0.6, 0.3])


def keys(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


@pytest.mark.parametrize("kind", [sparse, lambda x: x, lambda x: Joint((x[:, :2], sparse(x[:, 2:])))])
def test_a_state_fills_up_from_nothing_to_all(kind):
    states = list(arrivals(kind(DENSE), SHARES, keys(1, 2, 3)))
    assert len(states) == len(SHARES) + 1
    filled = [flat(z) for z in states]
    assert torch.equal(filled[0], torch.zeros_like(DENSE))
    assert torch.equal(filled[-1], DENSE)
    for before, after in itertools.pairwise(filled):
        assert (after >= before).all()
    assert torch.equal(filled[1], filled[2])  # the second step has no share


@pytest.mark.parametrize("kind", [sparse, lambda x: x])
def test_what_has_arrived_is_binomial(kind):
    rows = DENSE[[2] * 4000]
    for place, z in enumerate(arrivals(kind(rows), SHARES, keys(*range(4000)))):
        support = torch.arange(6, dtype=torch.float64)
        law = Binomial(torch.tensor(5.0).double(), torch.tensor(SHARES[:place].sum()))
        assert pearson(flat(z)[:, 3], support, law.log_prob(support)) > LEVEL


@pytest.mark.parametrize("kind", [sparse, lambda x: x, lambda x: Joint((x[:, :2], sparse(x[:, 2:])))])
def test_a_row_fills_up_by_its_own_generator(kind):
    together = [flat(z) for z in arrivals(kind(DENSE), SHARES, keys(1, 2, 3))]
    alone = [flat(z) for z in arrivals(kind(DENSE[2:]), SHARES, keys(3))]
    for all_rows, one in zip(together, alone, strict=True):
        assert torch.equal(all_rows[2:], one)


# What training looks at of wide rows.


def wide_block(columns: int = 4, reals: bool = False) -> SparseCounts | SparseReals:
    torch.manual_seed(0)
    shares = torch.full((columns,), 1 / columns).double()
    if reals:
        return SparseReals(shares, 8, 2.0, torch.zeros(columns), components=2)
    return SparseCounts(shares, 8, 2.0, 2.0, 6.0, torch.tensor([[[1.0]], [[2.0]], [[2.0]]]))


def denoiser(block: SparseCounts | SparseReals) -> Denoiser:
    network = MLP(block.inputs, block.outputs, 8)
    torch.nn.init.normal_(network.output.weight, std=0.5)
    return Denoiser(network, block, Cosine())


def loss(process: Jump, denoise: Denoiser, x: SparseRows) -> Tensor:
    t = torch.tensor([[0.2], [0.3], [0.5]]).double()[: len(x)]
    z = process.marginal(x, t).sample(generator(0))
    return process.loss(x, z, t, denoise(z, t[:, 0]), generator(0))


def on_columns(x: SparseRows, *columns: int) -> SparseRows:
    some = torch.tensor(columns)
    sample = ColumnSample(some, torch.ones(len(some)))
    return SparseRows(x.row, torch.searchsorted(some, x.column), x.value, (len(x), len(some)), sample)


def test_a_sample_of_all_columns_is_all_of_them():
    block = wide_block()
    process, denoise, x = Jump(block, Cosine(), 0.9), denoiser(block), sparse(DENSE)
    torch.testing.assert_close(loss(process, denoise, on_columns(x, 0, 1, 2, 3)), loss(process, denoise, x))
    few = on_columns(x, 0, 1, 3)  # the third column is nobody's, and only its share is missed
    assert torch.equal(few.original_column, x.column)
    assert (loss(process, denoise, few) <= loss(process, denoise, x)).all()
    assert (loss(process, denoise, few) < loss(process, denoise, x)).any()


def test_the_gradient_of_a_sample_names_its_columns_alone():
    block = wide_block(columns=40)
    block.inclusion.fill_(0.25)
    x = block.subsample(sparse(torch.nn.functional.pad(DENSE, (0, 36))), True, generator(0))
    assert 3 <= len(x.sample.columns) < 40
    loss(Jump(block, Cosine(), 0.9), denoiser(block), x).sum().backward()
    gradient = block.table.weight.grad
    assert gradient.is_sparse
    assert torch.equal(gradient._indices()[0], x.sample.columns)


def test_all_columns_are_looked_at_where_none_is_learned_or_a_sample_would_be_most_of_them(
    monkeypatch: pytest.MonkeyPatch,
):
    block = wide_block(columns=40)
    x = sparse(torch.nn.functional.pad(DENSE, (0, 36)))
    assert block.subsample(x, True, generator(0)) is x, "a thousand are wanted"
    block.inclusion.fill_(0.25)
    assert block.subsample(x, False, generator(0)) is x
    some = block.subsample(x, True, generator(0))
    assert {0, 1, 3} <= set(some.sample.columns.tolist()), "those of the rows are always there"
    assert some.sample.inclusion.tolist().count(1.0) == 3
    monkeypatch.setattr("countjump.blocks.sparse_counts.WHOLE", 39)
    assert block.subsample(x, False, generator(0)) is not x, "so many that even to look at all is dear"


def test_the_belief_about_a_total_sees_the_total_alone():
    """A thinned total is a JUMP of one column: its law is the same wherever the units are."""
    block = wide_block(columns=3)
    torch.nn.init.normal_(block.total_network[-1].weight)
    z = sparse(torch.tensor([[2, 1, 0], [0, 0, 3]], dtype=torch.float64))
    mean = denoiser(block).eval()(z, torch.tensor([0.5])).missing.law_of_total.mean.detach()
    assert float(mean[0]) == pytest.approx(float(mean[1]), rel=1e-6)


def test_embeddings_begin_with_the_principal_components():
    """A row is then seen by its place along each of them, of about unit variance."""
    rng = np.random.default_rng(0)
    matrix = sp.csr_matrix(rng.poisson(rng.gamma(0.5, 1.0, (200, 1)) * np.array([3.0, 1, 1, 1]) + [0, 0, 1, 0]))
    block = wide_block()
    block.initialise(Rows(matrix), np.arange(200))
    rise, _ = directions(matrix, 3)
    torch.testing.assert_close(block.table.weight[:, :3].detach(), torch.from_numpy(rise).float())
    seen = block.features(block.read(matrix), torch.ones(200, 1).double())[:, :3].detach()
    torch.testing.assert_close(seen.std(0), torch.ones(3), rtol=0.01, atol=0.0)


def test_the_loss_of_reals_is_of_their_places_and_at_time_zero_of_the_amounts():
    block = wide_block(reals=True)
    process, denoise, x = Jump(block, Cosine(), 0.9), denoiser(block), sparse(0.3 * DENSE)
    t = torch.tensor([[0.5], [0.5], [0.0]]).double()
    z = process.marginal(x, t).sample(generator(0))
    assert z.value.max() == 1
    belief = denoise(z, t[:, 0])
    places = -belief.missing.log_prob(x.with_values(torch.ones_like(x.value)) - z)
    last = torch.tensor([2])
    amounts = -belief.data[last].log_prob(x[last])
    expected = places + torch.cat([torch.zeros(2).double(), amounts])
    torch.testing.assert_close(process.loss(x, z, t, belief, generator(0)) * 2.0, expected)
    whole = denoise(block.encode(x).sample(generator(0)), torch.zeros(1)).data.sample(generator(0))
    assert torch.equal(whole.dense() > 0, DENSE > 0)


def test_one_time_in_four_is_zero_where_there_are_amounts_to_learn():
    times = {
        reals: Jump(wide_block(reals=reals), Cosine(), 0.9).draw_times(32, generator(0)) for reals in (False, True)
    }
    assert (times[True] == 0).sum() == 8
    assert (times[False] == 0).sum() == 0


def test_states_of_several_parts_have_hashes_of_their_own():
    counts = torch.cartesian_prod(torch.arange(12.0), torch.arange(12.0)).double()
    both = Joint((counts[:, :1], counts[:, 1:]))
    assert len(row_hash(both).unique()) == 144  # parts that change places are other rows
    assert len(row_hash(both[torch.zeros(5, dtype=torch.long)]).unique()) == 1
