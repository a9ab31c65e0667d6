"""Rows that are almost all zero, kept as their non-zeros: what is done with them costs what the non-zeros cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import pad

from countjump.states import fill_up, odd_numbers


@dataclass(frozen=True, eq=False)
class ColumnSample:
    """Some ``columns`` (C,) of many, each included with probability ``inclusion`` (C,)."""

    columns: Tensor
    inclusion: Tensor


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A batch of sparse rows (B, D): ``value`` i is at (``row`` i, ``column`` i), the rows ascending. A value may be zero.

    In training the columns may be a ``sample``, and are numbered as they stand there.

    >>> rows = SparseRows.from_dense(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
    >>> rows.value, rows.totals, rows[torch.tensor([1, 1])].dense()
    (tensor([2., 1.]), tensor([2., 1.]), tensor([[1., 0.], [1., 0.]]))
    """

    row: Tensor
    column: Tensor
    value: Tensor
    shape: tuple[int, int]
    sample: ColumnSample | None = None

    @classmethod
    def empty(cls, rows: int, columns: int, device: torch.device | str = "cpu") -> SparseRows:
        """Rows of zeros."""
        none = torch.zeros(0, dtype=torch.long, device=device)
        return cls(none, none, torch.zeros(0, dtype=torch.float64, device=device), (rows, columns))

    @classmethod
    def from_dense(cls, x: Tensor) -> SparseRows:
        """The non-zeros of (B, D)."""
        row, column = x.nonzero(as_tuple=True)
        return cls(row, column, x[row, column], (len(x), x.shape[1]))

    @classmethod
    def from_csr(cls, matrix: sp.csr_matrix) -> SparseRows:
        """The non-zeros of a CSR matrix, in float64."""
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        column, value = matrix.indices.astype(np.int64), matrix.data.astype(np.float64)
        return cls(torch.from_numpy(row), torch.from_numpy(column), torch.from_numpy(value), matrix.shape).nonzero()

    def csr(self) -> sp.csr_matrix:
        """As CSR, sorted and without zeros."""
        whole = self.nonzero()
        entries = (whole.value.cpu().numpy(), (whole.row.cpu().numpy(), whole.column.cpu().numpy()))
        return sp.csr_matrix(entries, shape=self.shape)

    def dense(self) -> Tensor:
        """(B, D)."""
        return self.value.new_zeros(self.shape).index_put((self.row, self.column), self.value, accumulate=True)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the entries are."""
        return self.value.device

    def to(self, device: torch.device | str) -> SparseRows:
        """On another device."""
        return replace(self, row=self.row.to(device), column=self.column.to(device), value=self.value.to(device))

    @property
    def original_column(self) -> Tensor:
        """The number of every entry's column among all (N,)."""
        return self.column if self.sample is None else self.sample.columns[self.column]

    def with_values(self, value: Tensor) -> SparseRows:
        """Other values at the same places."""
        return replace(self, value=value)

    def same_places(self, other: SparseRows) -> bool:
        """Whether the other's entries are known to be at the same places."""
        return other.column is self.column and other.row is self.row

    def per_row(self, value: Tensor) -> Tensor:
        """The sums over every row of what is given for every entry (N, …)."""
        return value.new_zeros(len(self), *value.shape[1:]).index_add(0, self.row, value)

    @cached_property
    def totals(self) -> Tensor:
        """The sum of every row (B,)."""
        return self.per_row(self.value)

    @cached_property
    def starts(self) -> Tensor:
        """The place of every row's first entry (B,)."""
        return torch.searchsorted(self.row, torch.arange(len(self), device=self.device))

    def nonzero(self) -> SparseRows:
        """Without the zeros."""
        if self.value.all():
            return self
        place = self.value.nonzero().squeeze(1)
        return replace(self, row=self.row[place], column=self.column[place], value=self.value[place])

    def __getitem__(self, rows: Tensor | slice) -> SparseRows:
        if isinstance(rows, slice):
            rows = torch.arange(len(self), device=self.device)[rows]
        elif rows.dtype == torch.bool:
            rows = rows.nonzero().squeeze(1)
        lengths = torch.diff(self.starts, append=self.starts.new_tensor([len(self.row)]))[rows]
        row = torch.repeat_interleave(torch.arange(len(rows), device=self.device), lengths)
        before = self.starts[rows] - (lengths.cumsum(0) - lengths)
        place = torch.arange(len(row), device=self.device) + before[row]
        return SparseRows(row, self.column[place], self.value[place], (len(rows), self.shape[1]), self.sample)

    @classmethod
    def concatenate(cls, pieces: Sequence[SparseRows]) -> SparseRows:
        """Rows one after another."""
        first = np.cumsum([0, *(len(piece) for piece in pieces)]).tolist()
        row = torch.cat([piece.row + start for piece, start in zip(pieces, first, strict=False)])
        column, value = (torch.cat([getattr(piece, name) for piece in pieces]) for name in ("column", "value"))
        return replace(pieces[0], row=row, column=column, value=value, shape=(first[-1], pieces[0].shape[1]))

    def find(self, places: SparseRows) -> Tensor | None:
        """Which entry is at each of the places of another, one past the last where none is; None if they are its own."""
        if self.same_places(places):
            return None
        key, order = (self.row * self.shape[1] + self.column).sort()
        wanted = places.row * self.shape[1] + places.column
        found = torch.searchsorted(key, wanted)
        here = pad(key, (0, 1), value=-1)[found] == wanted
        return torch.where(here, pad(order, (0, 1))[found], len(key))

    def at(self, places: SparseRows) -> Tensor:
        """The values at the places of another, zero where there is none."""
        found = self.find(places)
        return self.value if found is None else pad(self.value, (0, 1))[found]

    def __add__(self, other: SparseRows) -> SparseRows:
        """Entry by entry; places that both have are merged."""
        if self.same_places(other):
            return self.with_values(self.value + other.value)
        row, column = torch.cat([self.row, other.row]), torch.cat([self.column, other.column])
        key, place = torch.unique(row * self.shape[1] + column, return_inverse=True)
        value = self.value.new_zeros(len(key)).index_add(0, place, torch.cat([self.value, other.value]))
        return replace(self, row=key // self.shape[1], column=key % self.shape[1], value=value)

    def __sub__(self, other: SparseRows) -> SparseRows:
        return self + other.with_values(-other.value)

    def arrivals(self, shares: np.ndarray, generators: Sequence[np.random.Generator]) -> Iterator[SparseRows]:
        """See :func:`countjump.states.arrivals`; all states have the same places."""
        for z in fill_up(self.value, self.starts.cpu().numpy(), shares, generators):
            yield self.with_values(z)

    def row_hash(self) -> Tensor:
        """See :func:`countjump.states.row_hash`."""
        return self.per_row(self.value.long() * odd_numbers(self.shape[1]).to(self.device)[self.column])
