"""Rows that are not drawn from nothing: whole rows given what is left of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from countjump import domains
from countjump.data import Pictures, as_matrix, is_anndata
from countjump.data.kinds import as_kind, kind_of, without_denormals, without_float16
from countjump.data.rows import memory
from countjump.data.tables import as_frame
from countjump.estimator import Estimator, validation
from countjump.laws import Streams
from countjump.parameters import MOST_STEPS, as_seed, threads_for, whole
from countjump.progress import Progress
from countjump.sampling import chain, complete_by_particles, complete_rows, seeded
from countjump.states import concatenate

ROWS, ENTRIES = 1024, 2**24
"""Rows of a block, and entries of their dense form, at most, but for a single row."""


PARTICLES = 16
"""Of a wide row that is completed."""


class Starts(Estimator):
    """What a model of counts says of rows of which a part was observed."""

    def deepen(self, X: Any, fraction: Any, steps: int = 20, random_state: Any = None, y: Any = None) -> Any:
        """Draw the whole rows of which X is left: every unit was kept with probability ``fraction``, a number or one per row.

        X is the state of the chain at the time t at which α_t is the fraction; from there it goes down as in :meth:`sample`. No
        observed unit is removed. Counts, also those behind the weights of a model of reals, of the kind of X and the model's
        dtype; of pictures of reals the units are their levels. Row i depends on (random_state, i, row i of X, its fraction, steps,
        its y) alone. ``y`` is that of :meth:`sample`, or None for no label.

        >>> from countjump import JumpModel
        >>> counts = np.random.default_rng(0).poisson([1.0, 5.0], size=(200, 2))
        >>> model = JumpModel(max_updates=20, random_state=0, progress=False).fit(counts)
        >>> whole = model.deepen([[0, 2], [3, 1]], fraction=0.5, steps=5, random_state=0)
        >>> whole.shape, bool((whole >= [[0, 2], [3, 1]]).all())
        ((2, 2), True)
        """
        steps, seed = whole("steps", steps, 1, MOST_STEPS), as_seed(random_state)
        X, y = self._split(X, y)
        matrix, fraction = self._observed(X, fraction)
        read = self._read_y(y, matrix.shape[0])
        given = self._encode(read)
        down = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
        pieces, times = [], self._times(fraction)
        for rows in self._in_blocks("deepening", matrix):
            own = [seeded(self.device_, seed, 0, row) for row in rows]
            z = self._state(matrix[rows])
            z = self._down(z, times[rows], down, own, None if given is None else given[rows])
            pieces.append(as_kind(self.block_.write(self.block_.latent(z)), kind_of(X, matrix), self.dtype_))
        return self._joined(pieces, read, like=X)

    def denoise(self, X: Any, fraction: Any, columns: Any = None, y: Any = None) -> np.ndarray:
        """The expectation of the whole rows of which X is left, float32: X itself and what is believed to be missing.

        ``fraction`` is that of :meth:`deepen`. ``columns``, by number or name, are those that are wanted, in this order; None for
        all. Rows are made in blocks, and of each only these columns are kept. ``y`` is that of :meth:`sample`, None for no label.

        >>> from countjump import JumpModel
        >>> counts = np.random.default_rng(0).poisson([1.0, 5.0], size=(200, 2))
        >>> model = JumpModel(max_updates=20, random_state=0, progress=False).fit(counts)
        >>> model.denoise([[0, 2], [3, 1]], fraction=0.5, columns=[1]).shape
        (2, 1)
        """
        X, y = self._split(X, y)
        matrix, fraction = self._observed(X, fraction)
        given = self._encode(self._read_y(y, matrix.shape[0]))
        places = np.arange(matrix.shape[1]) if columns is None else self._places(columns)
        if matrix.shape[0] * len(places) * 4 > memory():
            raise ValueError(
                f"{matrix.shape[0]} rows of {len(places)} columns are more than there is memory for: give columns="
            )
        expected, times = np.empty((matrix.shape[0], len(places)), dtype=np.float32), self._times(fraction)
        for rows in self._in_blocks("denoising", matrix):
            own, z = None if given is None else given[rows], self._state(matrix[rows])
            expected[rows] = self._expected(z, times[rows], own)[:, places]
        return self._restore(expected) if columns is None and isinstance(self.layout_, Pictures) else expected

    def complete(
        self,
        X: Any,
        known: Any = None,
        steps: int = 50,
        random_state: Any = None,
        particles: int = PARTICLES,
        y: Any = None,
    ) -> Any:
        """Draw what is not known of the rows X, given what is; that stays exactly as it is.

        ``known`` says which columns are known, by number or name, or by one True or False for each, or which entries, by a mask
        of the shape of X; None says that all values are that are not missing. The other values of X are not looked at, and may be
        NaN; what is drawn for them is never missing. The columns of a one-hot or simplex group are known together or not at all.
        Counts behind weights are given, and come, as counts. Rows are of the kind of X and of the model's dtype, and the same for
        the same rows and random_state.

        Where some columns of wide sparse rows are known and others not, a row is one of so many ``particles``: the more, the nearer
        to the conditional law, and the slower. ``y`` is that of :meth:`sample`, or None for no label.

        >>> from countjump import JumpModel
        >>> counts = np.random.default_rng(0).poisson([1.0, 5.0], size=(200, 2))
        >>> model = JumpModel(max_updates=20, random_state=0, progress=False).fit(counts)
        >>> model.complete([[0, np.nan], [3, np.nan]], known=[0], steps=5, random_state=0)[:, 0]
        array([0, 3])
        """
        validation().check_is_fitted(self, "plan_")
        steps, seed = whole("steps", steps, 1, MOST_STEPS), as_seed(random_state)
        particles = whole("particles", particles, 1, ROWS)
        X, y = self._split(X, y)
        matrix, mask = self._partly_known(X, known)
        read = self._read_y(y, matrix.shape[0])
        given = self._encode(read)
        model = self._without_missing_levels()
        pieces = []
        for number, rows in enumerate(self._in_blocks("completing", matrix, particles if self.block_.sparse else 1)):
            own = None if given is None else given[rows]
            generator = seeded(self.device_, seed, 1, number)
            made = model._complete(matrix[rows], mask[rows], steps, particles, generator, own)
            pieces.append(as_kind(made, kind_of(X, matrix), self.dtype_))
        return self._joined(pieces, read, like=X, known=mask)

    def _without_missing_levels(self) -> Starts:
        """The same model, but that it draws no level that stands for a missing value."""
        levels = {} if self.layout_ is None else self.layout_.levels
        gone = {column: float(each.index(None)) for column, each in levels.items() if None in each}
        if not gone:
            return self
        model = copy.copy(self)
        model.block_, model.process_, model.denoiser_ = copy.deepcopy((self.block_, self.process_, self.denoiser_))
        model.block_.exclude(gone)
        return model

    def _on_levels(self, matrix: domains.Matrix) -> domains.Matrix:
        """Pictures of reals have levels; anything else stays as it is."""
        coding = self.block_.coding if isinstance(self.layout_, Pictures) else None
        return matrix if coding is None else coding.decode(coding.code(matrix))

    # What is known.

    def _partly_known(self, X: Any, known: Any) -> tuple[domains.Matrix, np.ndarray]:
        """Rows with zeros where they are not known, and where they are (rows, columns)."""
        if isinstance(self.layout_, Pictures):
            shape, known = np.shape(X), None if known is None else np.asarray(known)
            X = self.layout_.flat(X)
            if known is not None:
                if known.dtype != bool or known.shape not in (shape, shape[1:]):
                    raise ValueError(
                        f"known is of shape {known.shape} and dtype {known.dtype}: give True or False for every pixel, of the "
                        f"shape of X, {shape}, or {shape[1:]} for all pictures alike"
                    )
                known = self.layout_.flat(np.broadcast_to(known, shape))
        shape = X.shape if hasattr(X, "shape") else np.shape(X)
        if len(shape) != 2 or 0 in shape:
            self._read(X)  # which says what is wrong
        self._check_columns(X)
        mask = np.asarray(not_missing(X, shape) if known is None else known)
        if mask.dtype == bool and mask.ndim == 2:
            if mask.shape != shape:
                raise ValueError(
                    f"known is a mask of shape {mask.shape}, and X is of shape {shape}: they must be equal"
                )
        else:
            columns = np.zeros(shape[1], dtype=bool)
            columns[self._places(known)] = True
            mask = np.broadcast_to(columns, shape)
        matrix: domains.Matrix = as_matrix(X) if self.layout_ is None else self.layout_.matrix(X, mask)
        mask = mask if self.layout_ is None else self.layout_.gaps_known(mask)
        if sp.issparse(matrix):
            row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
            matrix.data = np.where(mask[row, matrix.indices], matrix.data, 0)
        else:
            matrix = np.where(mask, matrix, self._least())
        matrix = without_denormals(without_float16(matrix))
        domains.check_values(matrix)
        if self.denoiser_ is None or self.block_.sparse or isinstance(self.layout_, Pictures):
            self._check(self._on_levels(matrix))
        else:
            self._check(np.where(self._uncertain(matrix), self._least(), matrix))
            self._check_written(matrix, mask)
        return matrix, mask

    def _uncertain(self, matrix: np.ndarray) -> np.ndarray:
        """Where a value is beyond what "auto" alone found: below an offset, beside a grid or above a bound that nobody declared."""
        found = np.zeros(matrix.shape, dtype=bool)
        for part in self.plan_.parts:
            if part.kind in ("constant", "categories"):
                continue
            bounds, n = part.domain.bounds(len(part.columns)), matrix[:, part.columns]
            beyond = np.zeros(n.shape, dtype=bool)
            if part.coding is not None:
                n = (n - part.coding.offset) / part.coding.step
                beside = part.domain.whole & (np.abs(n - np.rint(n)) > 1e-6 * np.maximum(np.abs(n), 1))
                beyond |= (part.coding.escape > 0) & ((n < 0) | beside & (part.coding.decimals != 0))
            flag = 1 if part.domain.whole else 0  # that is 0 or 1 and nothing else, found or declared
            found[:, part.columns] = beyond | ((n > bounds) & (bounds > flag) & (part.options.get("escape", 0.0) > 0))
        return found

    def _check_written(self, matrix: np.ndarray, mask: np.ndarray) -> None:
        """What is known stays as it is: what is given back has to be able to hold it."""
        if self.layout_ is None and self.dtype_.kind in "iu":
            limits = np.iinfo(self.dtype_)
            changed = mask & ((matrix != np.rint(matrix)) | (matrix < limits.min) | (matrix > limits.max))
            if changed.any():
                row, column = (int(each[0]) for each in changed.nonzero())
                raise ValueError(
                    f"X[{row}, {column}] = {matrix[row, column]:g}, in column {self._name(column)}, is no {self.dtype_}, as the "
                    "rows of the fit were: fit to rows of floats to keep it"
                )

    def _least(self) -> np.ndarray:
        """A value that every column can have: where it begins."""
        least = np.zeros(self.block_.columns)
        for part in self.plan_.parts:
            if part.coding is not None:
                least[part.columns] = part.coding.offset
        return least

    def _complete(
        self,
        matrix: domains.Matrix,
        mask: np.ndarray,
        steps: int,
        particles: int,
        generator: torch.Generator,
        given: Tensor | None,
    ) -> Any:
        """What is known, and draws in the other places."""
        block, columns = self.block_, torch.from_numpy(mask).to(self.device_)
        known, partly = block.knowable(columns), block.partly(columns)
        if self.denoiser_ is None:
            x = block.latent(block.empty(len(mask), self.device_))
        else:
            grid = self.process_.grid(steps)
            # A value beyond what was found in the rows of the fit is seen as one that the block can have made.
            certain = block.sparse or isinstance(self.layout_, Pictures)
            x = block.read(matrix) if certain else block.read_to_score(matrix)[0]
            x = x.to(self.device_)
            block.check_known(block.read(matrix).to(self.device_), known)
            if partly is None:
                x = complete_rows(self.process_, self.denoiser_, grid, Streams([generator], len(mask)), x, known, given)
            else:
                x = complete_by_particles(
                    self.process_, self.denoiser_, grid, generator, x, known, partly, particles, given
                )
        drawn, dense = (each.toarray() if sp.issparse(each) else each for each in (block.write(x), matrix))
        return np.where(mask, dense, drawn)

    # What was observed.

    def _observed(self, X: Any, fraction: Any) -> tuple[domains.Matrix, np.ndarray]:
        """Counts that the model can have lost units of, and a fraction for every row; anything else is an error."""
        validation().check_is_fitted(self, "plan_")
        wrong = self.block_.uncounted()
        if wrong is not None:
            raise ValueError(
                f"column {self._name(wrong[0])} {wrong[1]}, and only counts lose units: use a model all of whose columns are "
                "counts, or complete(X, known) for rows of which some columns are known"
            )
        for part in self.plan_.parts:
            if part.coding is not None and not part.coding.is_trivial and not isinstance(self.layout_, Pictures):
                place = np.flatnonzero((part.coding.offset != 0) | (part.coding.step != 1))[0]
                raise ValueError(
                    f"column {self._name(part.columns[place])} begins at {part.coding.offset[place]:g} and goes by steps of "
                    f"{part.coding.step[place]:g}, and only plain counts lose units: fit with transform=None to take it as counts"
                )
        if hasattr(X, "columns"):
            self._check_columns(X)
        matrix = self._on_levels(without_float16(self._read(X)))
        self._check_columns(X)
        self._check(matrix)
        return matrix, self._fractions(fraction, matrix.shape[0])

    def _check(self, matrix: domains.Matrix) -> None:
        """Values that the columns can have; a constant column may hold anything."""
        for part in self.plan_.parts:
            if part.kind not in ("constant", "categories"):
                self._check_part(matrix[:, part.columns], part)

    def _check_part(self, mine: domains.Matrix, part: Any) -> None:
        whole, bounds, coding = part.domain.whole, part.domain.bounds(len(part.columns)), part.coding
        least, step = (0.0, 1.0) if coding is None else (coding.offset, coding.step)
        if coding is not None and not coding.is_trivial:
            mine = np.asarray(mine.toarray() if sp.issparse(mine) else mine, dtype=np.float64)
        n = mine if coding is None or coding.is_trivial else (mine - least) / step
        wrong = {
            "is negative, which counts are not: drop the row": lambda v, c: v < 0,
            "is not a whole number of its steps, as the column holds: round it": lambda v, c: (
                whole & (np.abs(v - np.rint(v)) > 1e-6 * np.maximum(np.abs(v), 1))
            ),
            "is above the column's bound: drop the row, or raise max": lambda v, c: v > bounds[c] * (1 + 1e-12),
        }
        for why, is_wrong in wrong.items():
            found = domains.find_value(n, is_wrong)
            if found is not None:
                row, place, _ = found
                value = mine[row, place]
                if self.scaling_ is not None and "whole" in why:
                    why = "is not a whole number: the model has counts behind weights, and X must be these counts"
                if "bound" in why:
                    bound = (
                        np.broadcast_to(least, bounds.shape)[place]
                        + np.broadcast_to(step, bounds.shape)[place] * bounds[place]
                    )
                    why = f"is above the column's bound {bound:g}: drop the row, or raise max"
                if "negative" in why and coding is not None and not coding.is_trivial:
                    why = f"is below {coding.offset[place]:g}, where the column begins: drop the row"
                column = int(part.columns[place])
                raise ValueError(f"X[{row}, {column}] = {value:g}, in column {self._name(column)}, {why}")

    def _fractions(self, fraction: Any, rows: int) -> np.ndarray:
        """One per row, each within what the model's chains visit."""
        array = np.asarray(fraction)
        if array.dtype.kind not in "iuf" or array.shape not in ((), (rows,)):
            kind = f"of shape {array.shape}" if array.dtype.kind in "iuf" else repr(fraction)
            raise ValueError(f"fraction must be a number or one per row, of {rows} rows, got {kind}")
        least = 0.0
        if self.process_ is not None:
            last = torch.tensor([self.process_.t_max or 1.0], dtype=torch.float64)
            least = float(self.process_.schedule.interior(last))
        wrong = np.flatnonzero(~((array > 0) & (array >= least) & (array <= 1)).ravel())
        if len(wrong):
            where = "fraction" if array.ndim == 0 else f"fraction[{wrong[0]}]"
            raise ValueError(
                f"{where} must be above 0, at least {least:.2g}, where the model's chains begin, and at most 1, got "
                f"{array.flat[wrong[0]]:g}: of less there is nothing to learn, use sample()"
            )
        return np.broadcast_to(array.astype(np.float64), (rows,))

    def _times(self, fraction: np.ndarray) -> Tensor:
        """The times (B,) at which α is the fraction of each row."""
        kinds, group = np.unique(fraction, return_inverse=True)
        found = kinds if self.process_ is None else np.array([self.process_.schedule.time(each) for each in kinds])
        return torch.from_numpy(found[group.ravel()]).to(self.device_)

    def _in_blocks(self, what: str, matrix: domains.Matrix, copies: int = 1) -> Iterator[np.ndarray]:
        """The numbers of rows, block by block, where there are so many copies of each."""
        rows, size = matrix.shape[0], max(int(np.clip(ENTRIES // matrix.shape[1], 1, ROWS)) // copies, 1)
        starts = range(0, rows, size)
        shown = self.progress and len(starts) > 1
        with threads_for(self.block_.varying), Progress(what, len(starts), "blocks", shown) as progress:
            for start in starts:
                yield np.arange(start, min(start + size, rows))
                progress.advance()

    def _state(self, matrix: domains.Matrix) -> Any:
        """Counts as a state of the chain; columns that never change have none."""
        return self.block_.encode(self.block_.read(matrix).to(self.device_)).mean

    def _down(
        self, z: Any, times: Tensor, down: Tensor, generators: list[torch.Generator], given: Tensor | None
    ) -> Any:
        """z_0 from states at the given times (B,), down the shares of these; at time 0 nothing is missing."""
        moving, still = ((times > 0) == either for either in (True, False))
        if self.denoiser_ is None or still.all():
            return z
        streams = Streams([generators[row] for row in moving.nonzero().squeeze(1).tolist()], 1)
        first = times[moving]
        grid = down.to(first) * first[0] if bool((first == first[0]).all()) else down.to(first)[:, None] * first
        some = None if given is None else given[moving]
        for step in chain(self.process_, self.denoiser_, z[moving], grid, streams, some):
            last = step
        order = torch.cat([moving.nonzero(), still.nonzero()]).squeeze(1).argsort()
        return concatenate([last.z, z[still]])[order]

    @torch.no_grad()
    def _expected(self, z: Any, times: Tensor, given: Tensor | None) -> np.ndarray:
        """(B, columns): z, and what is believed to be missing; at time 0 that is nothing."""
        written = self.block_.write(self.block_.latent(z))
        rows = written.toarray() if sp.issparse(written) else written
        moving = times > 0
        if self.denoiser_ is not None and moving.any():
            z, times = z[moving], times[moving]
            some = None if given is None else given[moving]
            belief = self.denoiser_(z, times if bool((times != times[0]).any()) else times[:1], some)
            expected = self.block_.expected(z, belief, self.process_.schedule.alpha(times)[:, None])
            rows[moving.cpu().numpy()] = expected
        return rows

    # Columns.

    def _name(self, column: int) -> str:
        """By its name where it has one."""
        names = self._column_names()
        return str(column) if names is None else repr(names[column])

    def _places(self, columns: Any) -> np.ndarray:
        """The numbers of columns that are given by number or name, or by one True or False for every column."""
        count, names = self.n_features_in_, list(getattr(self, "feature_names_in_", []))
        several = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
        if self.labelled_ is not None:  # labels are known in any case
            several = [each for each in several if each not in self.labelled_.names]
        if len(several) == count and all(isinstance(each, bool | np.bool_) for each in several):
            return np.flatnonzero(np.array(several, dtype=bool))
        places = []
        for each in several:
            if isinstance(each, str):
                if each not in names:
                    known = (
                        f"the names are {', '.join(map(repr, names[:10]))}"
                        if names
                        else "the model was fitted without names"
                    )
                    raise ValueError(f"there is no column {each!r}: {known}")
                places.append(names.index(each))
            elif isinstance(each, int | np.integer) and not isinstance(each, bool) and -count <= each < count:
                places.append(int(each) % count)
            else:
                raise ValueError(
                    f"{each!r} is no column: give numbers below {count}, names, or one True or False for each"
                )
        return np.array(places, dtype=np.int64)


def not_missing(X: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Where a table has values."""
    frame = as_frame(X)
    if frame is not None:
        return frame.notna().to_numpy()
    if sp.issparse(X) or is_anndata(X):
        return np.ones(shape, dtype=bool)
    values = np.asarray(X)
    return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(shape, dtype=bool)
