"""Rows that are almost all zero, kept as their non-zeros: what is done with them costs what the non-zeros cost.

:class:`Bags` is a batch of sparse rows (B, D), :class:`Thinned` what is left of one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from countjump.laws import Binomial


@dataclass(frozen=True, eq=False)
class Sample:
    """Some ``columns`` (C,) of many, each included with probability ``inclusion`` (C,), and their vectors ``table`` (C, H)."""

    columns: Tensor
    inclusion: Tensor
    table: Tensor


@dataclass(frozen=True, eq=False)
class Bags:
    """Sparse rows: ``value`` i lies at (``row`` i, ``column`` i), the rows ascending. A value may be zero.

    In training the columns may be a ``sample``, and are numbered as they stand there.

    >>> bags = Bags.from_dense(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
    >>> bags.value, bags.totals(), bags.rows(torch.tensor([1, 1])).dense()
    (tensor([2., 1.]), tensor([2., 1.]), tensor([[1., 0.], [1., 0.]]))
    """

    row: Tensor
    column: Tensor
    value: Tensor
    shape: tuple[int, int]
    sample: Sample | None = None

    @classmethod
    def empty(cls, rows: int, columns: int, device: torch.device | str = "cpu") -> Bags:
        """Rows of zeros."""
        none = torch.zeros(0, dtype=torch.long, device=device)
        return cls(none, none, torch.zeros(0, dtype=torch.float64, device=device), (rows, columns))

    @classmethod
    def from_dense(cls, x: Tensor) -> Bags:
        """The non-zeros of (B, D)."""
        row, column = x.nonzero(as_tuple=True)
        return cls(row, column, x[row, column], (len(x), x.shape[1]))

    @classmethod
    def from_csr(cls, matrix: sp.csr_matrix) -> Bags:
        """The entries of a CSR matrix, in float64."""
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        column, value = matrix.indices.astype(np.int64), matrix.data.astype(np.float64)
        return cls(torch.from_numpy(row), torch.from_numpy(column), torch.from_numpy(value), matrix.shape)

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

    def to(self, device: torch.device | str) -> Bags:
        """On another device."""
        return replace(self, row=self.row.to(device), column=self.column.to(device), value=self.value.to(device))

    @property
    def names(self) -> Tensor:
        """The number of every entry's column among all."""
        return self.column if self.sample is None else self.sample.columns[self.column]

    def valued(self, value: Tensor) -> Bags:
        """Other values at the same places."""
        return replace(self, value=value)

    def per_row(self, value: Tensor) -> Tensor:
        """The sums over every row of what is given for every entry (N, …)."""
        return value.new_zeros(len(self), *value.shape[1:]).index_add(0, self.row, value)

    def totals(self) -> Tensor:
        """(B,)."""
        return self._totals

    @cached_property
    def _totals(self) -> Tensor:
        return self.per_row(self.value)

    def where(self, keep: Tensor) -> Bags:
        """The entries at which ``keep`` is true."""
        if keep.all():
            return self
        place = keep.nonzero().squeeze(1)
        return replace(self, row=self.row[place], column=self.column[place], value=self.value[place])

    def nonzero(self) -> Bags:
        """Without the zeros."""
        return self.where(self.value != 0)

    def starts(self) -> Tensor:
        """The place of every row's first entry (B,)."""
        return torch.searchsorted(self.row, torch.arange(len(self), device=self.device))

    def rows(self, index: Tensor) -> Bags:
        """The rows ``index``."""
        starts = self.starts()
        lengths = torch.diff(starts, append=starts.new_tensor([len(self.row)]))[index]
        ends = lengths.cumsum(0)
        row = torch.repeat_interleave(torch.arange(len(index), device=self.device), lengths)
        place = torch.arange(len(row), device=self.device) + (starts[index] - (ends - lengths))[row]
        return Bags(row, self.column[place], self.value[place], (len(index), self.shape[1]), self.sample)

    def find(self, places: Bags) -> Tensor | None:
        """Which entry lies at each of the places of another, one past the last where none does; None if they are its own."""
        if places.column is self.column and places.row is self.row:
            return None
        key, order = (self.row * self.shape[1] + self.column).sort()
        wanted = places.row * self.shape[1] + places.column
        found = torch.searchsorted(key, wanted)
        there = torch.nn.functional.pad(key, (0, 1), value=-1)[found] == wanted
        return torch.where(there, torch.nn.functional.pad(order, (0, 1))[found], len(key))

    def at(self, places: Bags) -> Tensor:
        """The values at the places of another, zero where there is none."""
        found = self.find(places)
        return self.value if found is None else torch.nn.functional.pad(self.value, (0, 1))[found]

    def __add__(self, other: Bags) -> Bags:
        """Entry by entry; places that both have are merged."""
        row, column = torch.cat([self.row, other.row]), torch.cat([self.column, other.column])
        key, place = torch.unique(row * self.shape[1] + column, return_inverse=True)
        value = self.value.new_zeros(len(key)).index_add(0, place, torch.cat([self.value, other.value]))
        return replace(self, row=key // self.shape[1], column=key % self.shape[1], value=value)


@dataclass(frozen=True, eq=False)
class Thinned:
    """What is left of ``units`` when each is kept with probability p (B, 1), on top of what is ``given``.

    >>> Thinned(Bags.from_dense(torch.tensor([[3.0, 0.0]])), torch.ones(1, 1)).sample().dense()
    tensor([[3., 0.]])
    """

    units: Bags
    p: Tensor
    given: Bags | None = None

    def sample(self, generator: torch.Generator | None = None) -> Bags:
        """Draw; without ``given``, the places stay those of ``units``."""
        left = self.units.valued(Binomial(self.units.value, self._each()).sample(generator))
        return left if self.given is None else self.given + left

    def log_prob(self, left: Bags) -> Tensor:
        """One number per row, for values at the places of ``units``."""
        return self.units.per_row(Binomial(self.units.value, self._each()).log_prob(left.value))

    def _each(self) -> Tensor:
        return self.p.to(self.units.value).expand(len(self.units), 1)[self.units.row, 0]
