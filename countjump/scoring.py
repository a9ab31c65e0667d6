"""Scores: lower bounds on ln p(x) of rows. The random numbers of a row are named by its content, and not by its place."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import scipy.sparse as sp
import torch

from countjump.data import Rows
from countjump.data.rows import Matrix
from countjump.fitted import Fitted
from countjump.likelihood import lower_bound
from countjump.parameters import threads_for

STEPS = 100  # of a score, by default
EVALUATIONS = 2048  # draws of a score, by default, times the rows that a model can make at all

ROWS, ENTRIES = 1024, 2**24
"""Draws that are scored together, and entries of their rows times steps, at most, but for a single row."""


def default_draws(possible: float) -> int:
    """Draws of a score, of a model that can make so many different rows."""
    return int(np.clip(EVALUATIONS / possible, 1, 1024))


def score_rows(
    model: Fitted, matrix: Matrix, given: np.ndarray | None, steps: int, draws: int, seed: int
) -> np.ndarray:
    """The mean of so many draws of the bound, for every row of a matrix, under its row of y where these are ``given``."""
    block, device, conditions = model.block_, model.device_, model.conditions_
    names = row_names(matrix)
    _, first, group = np.unique(with_y(names, given), return_index=True, return_inverse=True)
    scores = np.empty(len(first))
    rows, at_once = Rows(matrix), max(ROWS // draws, 1)
    entries = matrix.nnz / matrix.shape[0] if sp.issparse(matrix) else matrix.shape[1]
    at_once = int(np.clip(ENTRIES / (max(entries, 1) * steps * draws), 1, at_once))
    with threads_for(block.varying):
        for start in range(0, len(first), at_once):
            some = first[start : start + at_once]
            x, mass = (each.to(device) for each in block.read_to_score(rows.take(some)))
            found = mass.cpu().numpy()
            possible = np.flatnonzero(np.isfinite(found))
            if model.denoiser_ is not None and len(possible):
                y = None if given is None or conditions is None else conditions.encode(given[some]).to(device)
                times = model.process_.grid(steps).to(device)
                place, draw = np.repeat(possible, draws), np.tile(np.arange(draws), len(possible))
                for begin in range(0, len(place), ROWS):
                    part = slice(begin, begin + ROWS)
                    keys = [
                        stream_key(seed, names[some[row]], n) for row, n in zip(place[part], draw[part], strict=True)
                    ]
                    at = torch.from_numpy(place[part]).to(device)
                    own = None if y is None else y[at]
                    bound = lower_bound(model.process_, model.denoiser_, x[at], times, keys, own)
                    np.add.at(found, place[part], bound.cpu().numpy() / draws)
            scores[start : start + at_once] = found
    return scores[group]


def row_names(matrix: Matrix) -> np.ndarray:
    """16 bytes for every row, equal for equal rows, dense or sparse: a digest of its non-zeros and their places.

    >>> bool((row_names(np.array([[0, 2.5]])) == row_names(sp.csr_matrix([[0, 2.5]]))).all())
    True
    """
    rows = sp.csr_matrix(matrix, dtype=np.float64)
    if not rows.data.all():
        rows = rows.copy()
        rows.eliminate_zeros()
    place, value, ends = rows.indices.astype(np.int64), rows.data, rows.indptr
    names = [
        hashlib.blake2b(place[a:b].tobytes() + value[a:b].tobytes(), digest_size=16).digest()
        for a, b in itertools.pairwise(ends)
    ]
    return np.array(names, dtype="V16")


def with_y(names: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """The names of rows (n,) together with their rows of y (n, C): equal where both are."""
    if given is None:
        return names
    both = [np.ascontiguousarray(each).view(np.uint8).reshape(len(names), -1) for each in (names, given)]
    joined = np.ascontiguousarray(np.concatenate(both, 1))
    return joined.view(f"V{joined.shape[1]}").ravel()


def stream_key(seed: int, name: bytes, draw: int) -> int:
    """What names the random numbers of one draw of a row's score."""
    words = int(seed).to_bytes(16, "little") + bytes(name) + int(draw).to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(words, digest_size=16).digest(), "little")
