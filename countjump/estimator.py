"""What every model here shares, the scikit-learn face: fit · sample · score_samples · score · save · load."""

from __future__ import annotations

import hashlib
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
import torch

from countjump import domains, persistence
from countjump._version import __version__
from countjump.atomic import check_writable
from countjump.blocks.base import Stage, Training
from countjump.conditions import Conditions
from countjump.data import Annotated, Labelled, Layout, Pictures, Rows, as_matrix, fingerprint
from countjump.data.rows import memory
from countjump.data.tables import numbered
from countjump.denoiser import Denoiser, Guided
from countjump.laws import Streams
from countjump.likelihood import lower_bound
from countjump.planning import WIDE, one_of
from countjump.processes.base import Denoise, Process
from countjump.progress import Progress
from countjump.samplers import Plain, Sampler, find_sampler
from countjump.sampling import sample_rows, seeded
from countjump.training import Settings, run
from countjump.transforms import Weights

if TYPE_CHECKING:
    from sklearn.utils import Tags

TIMES_PER_BATCH = 32
"""Distinct times in a training batch: the time embedding is computed once for each."""

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Of the network's work. Counts are drawn, thinned and scored in float64 all the same."""

PICTURES_AT_ONCE = 16
"""Pictures that are evaluated together on a CPU: the more, the more of a small request is in vain."""

LARGE_PICTURE, PICTURE_RATES, PICTURE_DECAY = 32, (2e-3, 2e-4), 1e-3
"""Pixels a side from which on pictures are trained as in the paper's appendix A, with batches of 128; the learning rates below and
from there on; and the decay of the weights."""

SPARSE_DECAY = 1.0
"""The decay of the weights of wide sparse models: they have more of them than rows have taught."""

SPARSE_ROWS, MOST_STREAMS = 32, 1024
"""Wide sparse rows that share one stream of random numbers, and streams that are drawn together at most."""

FEW_KINDS = 200
"""Distinct y times columns up to which a stream with several y is drawn for each of them; else every row has a stream of its own,
which costs half a millisecond, about."""

Y_ROWS = 1024
"""Rows whose y is drawn from one stream of random numbers."""

MOST_HELD_OUT = 10_000
"""Rows that are held out at most."""

SCORE_STEPS = 100
"""Steps of ``score_samples`` by default."""

SCORE_EVALUATIONS = 2048
"""Draws of a score, by default, times the rows that a model can make at all."""

LEAST_REAL = 1e-290
"""Smaller reals are taken for zeros."""

DROPPED = 0.1
"""The share of the rows whose condition is dropped in training, so that rows without one are learned too."""

MOST_GUIDANCE = 10.0
"""The largest weight of guidance: up to it, everything is finite."""

MOST_STEPS = 10**6
"""Steps of a chain, at most."""

OPEN_ARRAYS = ("bounds", "constants")
"""Arrays of a saved model that may hold infinity (no bound) or NaN (no constant)."""

WHOLE_PARAMETERS = {
    **{"max_updates": None, "batch_size": None, "checkpoint_every": None, "states": None},
    **{"components": 256, "width": 2**14, "accumulate": 2**14},
}
"""Parameters that are None or a whole number above zero, and the largest that memory is good for."""

WITHOUT_Y = "the model was fitted without y: fit(X, y) to have one of X given y"
"""Why there is no condition."""

SCORE_ROWS, SCORE_ENTRIES = 1024, 2**24
"""Draws that are scored together, and entries of their rows times steps, at most, but for a single row."""


class Fitted:
    """What a fit makes."""

    plan_: Any
    block_: Any
    process_: Any
    denoiser_: Any
    scaling_: Weights | None
    layout_: Layout | Annotated | Pictures | None
    labelled_: Labelled | None
    conditions_: Conditions | None
    n_features_in_: int
    feature_names_in_: np.ndarray


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(Fitted, ABC):
    """What every model here shares: reading data, training, sampling in fixed blocks, saving and loading.

    It keeps scikit-learn's protocol without its base class, whose import takes longer than all of countjump's.
    """

    width: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    lr_schedule: str = "cosine"
    ema: float = 0.999
    validation_fraction: float = 0.1
    max_updates: int | None = None
    checkpoint_dir: str | Path | None = None
    checkpoint_every: int | None = None
    device: str = "auto"
    random_state: Any = None
    progress: bool = True
    augment: str | None = None
    accumulate: int = 1
    precision: str = "float32"
    compile: bool = False
    callbacks: Any = None

    # What scikit-learn asks.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters by name."""
        return {field.name: vars(self)[field.name] for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's parameters; an unknown name is an error."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for {type(self).__name__}: use some of {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = ((f.name, vars(self)[f.name]) for f in fields(self) if vars(self)[f.name] is not f.default)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed)})"

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags

        inputs = InputTags(sparse=True, positive_only=not self._takes_negatives)
        return Tags(estimator_type="density_estimator", target_tags=TargetTags(required=False), input_tags=inputs)

    # What a kind of model says of itself.

    @abstractmethod
    def _plan(self, X: domains.Matrix, params: dict[str, Any]) -> Any:
        """Check the data and decide everything by the parameters, which are plain values; nothing is changed on self."""

    @abstractmethod
    def _build(self, plan: Any) -> tuple[Any, Process | None, Denoiser | None]:
        """The block, the process and an untrained denoiser; without these two where no column varies."""

    @abstractmethod
    def _describe(self, plan: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The plan as JSON and arrays."""

    @abstractmethod
    def _recall(self, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        """The plan back from :meth:`_describe`."""

    @abstractmethod
    def _check_scorable(self, X: domains.Matrix) -> None:
        """Raise where such data have no likelihood under the model."""

    @abstractmethod
    def _possible_rows(self) -> float:
        """How many different rows the model can make; infinity if they are not finite."""

    def _find_scaling(self, X: domains.Matrix) -> Weights | None:
        """How the data is made out of counts, if it is, and if the counts are to be modelled in its place."""
        return None

    # Fitting.

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to the rows of X (ndarray or scipy sparse). A fit that fails changes nothing.

        With ``y``, one label for each row, or one row of covariates (a matrix or a frame), the model is one of X given y. A string,
        or a tuple of strings, names columns of X (of its ``obs``) that are y. ``docs/labels.md`` says what is taken for a label.
        """
        before = self.__dict__.copy()
        try:
            self._fit(X, y)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, y: Any = None) -> None:
        params = self._checked_params()
        self.labelled_ = Labelled.of(X, y)
        if self.labelled_ is not None:
            X, y = self.labelled_.split(X)
        self.layout_ = self._find_layout(X)
        matrix = self._read(X)
        conditions, read = (None, None) if y is None else Conditions.fit(y, matrix.shape[0])
        device = self._device()
        self._check_columns(X, reset=True)
        of_y = () if conditions is None or read is None else (conditions.identity(read),)
        identity, dtype = fingerprint(matrix, self._identity(), *of_y), matrix.dtype
        given = without_float16(matrix)
        matrix = without_denormals(given)
        lost = matrix is not given
        scaling = self._find_scaling(matrix)
        if scaling is not None:
            matrix, _ = scaling.counts(matrix)
        if params["augment"] is not None and not isinstance(self.layout_, Pictures):
            raise ValueError("augment='flip' turns pictures round, and X is none: leave augment=None")
        plan = self._plan(matrix, params)
        if lost and hasattr(plan, "reasons"):
            plan.reasons["zeros"] = f"reals below {LEAST_REAL:g} are taken for zeros"
        # With a checkpoint to come back to, even an unseeded fit must know its seed again.
        unseeded = self.random_state is None and self.checkpoint_dir is not None
        seed = int(identity[:8], 16) if unseeded else as_seed(self.random_state)
        self._adopt(plan, dtype, kind_of_matrix(X) or kind_of_matrix(given), seed, device, scaling, conditions)
        if self.denoiser_ is not None:
            condition = self._encode(read)
            with threads_for(self.block_.varying):
                self._train(Rows(matrix), f"{identity}-{seed}", params, condition)

    _takes_negatives = False

    def _find_layout(self, X: Any) -> Layout | Annotated | Pictures | None:
        """How a table becomes a matrix, if it is not one."""
        return None

    def _check_columns(self, X: Any, reset: bool = False) -> None:
        """That X has the columns of training, by scikit-learn's rules; with ``reset`` they are those."""
        names = getattr(X, "columns", None)
        if not reset and isinstance(self.layout_, Annotated) and not hasattr(X, "columns"):
            return  # the matrix of AnnData is checked where it is read
        if hasattr(X, "set_axis") and names is not None:
            mixed = len({isinstance(name, str) for name in names}) > 1
            if mixed or len(set(names)) < len(names):
                X = X.set_axis(list(numbered(names)), axis=1)
        rows = self.layout_.flat(X) if isinstance(self.layout_, Pictures) else X
        validation().validate_data(self, rows, reset=reset, skip_check_array=True)
        if reset and isinstance(self.layout_, Annotated) and self.layout_.kind == "anndata":
            self.feature_names_in_ = np.array(self.layout_.names, dtype=object)

    def _split(self, X: Any, y: Any) -> tuple[Any, Any]:
        """X without the columns that are y, and y, which is what these hold where it is not given."""
        validation().check_is_fitted(self, "plan_")
        if self.labelled_ is None or not self.labelled_.is_in(X):
            return X, y
        rest, own = self.labelled_.split(X)
        return rest, own if y is None else y

    def _column_names(self) -> list[str] | None:
        """Of the matrix, if it has some."""
        if isinstance(self.layout_, Layout) and self.layout_.gaps and hasattr(self, "feature_names_in_"):
            return list(self.layout_.matrix_names)
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    def _read(self, X: Any, lenient: bool = False) -> domains.Matrix:
        matrix = as_matrix(X) if self.layout_ is None else self.layout_.matrix(X, lenient=lenient)
        if matrix.ndim != 2:
            remedy = "X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row"
            if matrix.ndim > 2:
                remedy = "X.reshape(len(X), -1) makes every image or table one row"
            raise ValueError(
                f"X must be two-dimensional (rows × columns), got {matrix.ndim} dimension(s). Reshape your data: {remedy}"
            )
        if matrix.shape[0] == 0:
            raise ValueError(
                f"X is empty: Found array with 0 sample(s) (shape={matrix.shape}) while a minimum of 1 is required."
            )
        if matrix.shape[1] == 0:
            raise ValueError(f"X has no columns: 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")
        names = self.layout_.matrix_names if isinstance(self.layout_, Layout | Annotated) else None
        domains.check_values(matrix, names)
        if not self._takes_negatives:
            domains.check_not_negative(matrix, names)
        return matrix

    def _device(self) -> torch.device:
        if isinstance(self.device, str) and self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if not isinstance(self.device, str | torch.device):
            raise TypeError(f"device must be a name, got {self.device!r}: use 'auto', 'cpu' or 'cuda'")
        try:
            device = torch.device(self.device)
            torch.zeros(1, device=device).item()
        except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
            raise ValueError(f"device={str(self.device)!r} is unknown or not there: use 'auto' or 'cpu'") from error
        return device

    def check_params(self) -> None:
        """Raise where a parameter is wrong whatever the data may be."""
        self._device()
        self._checked_params()
        as_seed(self.random_state)

    def _checked_params(self, directory: bool = True) -> dict[str, Any]:
        """The parameters as plain values, numpy's numbers as Python's; a wrong one is an error."""
        params = {name: plain(value) for name, value in self.get_params().items()}
        one_of("lr_schedule", params["lr_schedule"], ("cosine", "constant"))
        one_of("precision", params["precision"], tuple(PRECISIONS))
        if params["augment"] is not None:
            one_of("augment", params["augment"], ("flip",))
        if not isinstance(params["compile"], bool):
            raise TypeError(f"compile must be True or False, got {params['compile']!r}")
        callbacks = params["callbacks"]
        if callbacks is not None and not (isinstance(callbacks, list | tuple) and all(map(callable, callbacks))):
            raise TypeError(f"callbacks must be a list of functions of (update, losses, model), got {callbacks!r}")
        if not isinstance(params["progress"], bool):
            raise TypeError(f"progress must be True or False, got {params['progress']!r}")
        for name in WHOLE_PARAMETERS.keys() & params.keys():
            if params[name] is not None:
                params[name] = whole(name, params[name], 1, WHOLE_PARAMETERS[name])
        for name in ("validation_fraction", "ema", "learning_rate"):
            value = params[name]
            if name == "learning_rate" and value is None:
                continue
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise TypeError(f"{name} must be a number, got {value!r}")
            if name == "learning_rate" and not 0 < value < 1e300:
                raise ValueError(f"learning_rate must be positive and finite, got {value}")
            if name != "learning_rate" and not 0 <= value < 1:
                raise ValueError(f"{name} must be in [0, 1), got {value}")
            params[name] = float(value)
        place = params["checkpoint_dir"]
        if place is not None and not isinstance(place, str | Path):
            raise TypeError(f"checkpoint_dir must be a path or None, got {place!r}")
        if place is not None and directory:
            check_writable(place, directory=True)
        return params

    def _identity(self) -> str:
        """What decides a fit besides the data."""
        silent = ("progress", "callbacks", "checkpoint_dir", "checkpoint_every", "device", "random_state")

        def described(value: Any) -> Any:
            try:
                return persistence.encode(value)
            except TypeError:  # a network of one's own
                return getattr(value, "__name__", repr(value))

        params = {name: described(value) for name, value in self.get_params().items() if name not in silent}
        return json.dumps([type(self).__name__, __version__, params], sort_keys=True)

    def _adopt(
        self,
        plan: Any,
        dtype: np.dtype,
        sparse: str,
        seed: int,
        device: torch.device,
        scaling: Weights | None,
        conditions: Conditions | None = None,
    ) -> None:
        """Take on a plan: every fitted attribute but the network's training."""
        self.plan_, self.dtype_, self.sparse_, self.seed_ = plan, np.dtype(dtype), sparse, seed
        self.device_, self.scaling_, self.conditions_ = device, scaling, conditions
        self.history_: list[dict[str, float]] = []
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.block_, self.process_, denoiser = self._build(plan)
            if conditions is not None and denoiser is not None:
                denoiser.take_condition(conditions.levels, conditions.features, plan.width)
        self.block_.to(device)
        self.denoiser_ = None if denoiser is None else denoiser.to(device).eval()
        if denoiser is not None:
            denoiser.precision = PRECISIONS[self.precision]
            if self.compile:
                denoiser.network.compile()  # in its place: weights keep their names
        self.block_rows_ = SPARSE_ROWS if self.block_.sparse else rows_at_once(self.block_)
        if isinstance(self.layout_, Pictures):
            self.block_rows_ = 1  # a picture costs more than a stream of its own
            if self.denoiser_ is not None and device.type == "cpu":
                self.denoiser_.chunk = PICTURES_AT_ONCE
        if conditions is not None and len(conditions.kept) * self.block_.size > FEW_KINDS:
            self.block_rows_ = 1

    def _train(self, rows: Rows, identity: str, params: dict[str, Any], conditions: torch.Tensor | None) -> None:
        process, denoiser, block, device = self.process_, self.denoiser_, self.block_, self.device_
        shuffled = np.random.default_rng([self.seed_, 1]).permutation(rows.count)
        held_out = min(int(rows.count * params["validation_fraction"]), MOST_HELD_OUT)
        kept, training = shuffled[:held_out], shuffled[held_out:]
        large = isinstance(self.layout_, Pictures) and max(self.layout_.shape[:2]) >= LARGE_PICTURE
        pictures = isinstance(self.layout_, Pictures)
        ordinary = (128 if large else 64) if pictures else default_batch_size(rows.count, block.varying)
        batch_size = params["batch_size"] or ordinary
        updates = params["max_updates"] or default_updates(rows.count, block.varying, block.sparse)
        if hasattr(denoiser.network, "drop"):
            denoiser.network.drop(default_dropout(rows.count, block.varying))

        def given(index: np.ndarray, generator: torch.Generator, learning: bool) -> torch.Tensor | None:
            if conditions is None:
                return None
            dropped = torch.rand(len(index), 1, device=device, generator=generator) < DROPPED * learning
            return conditions[torch.from_numpy(index).to(device)].masked_fill(dropped, torch.nan)

        def believe(index: np.ndarray, generator: torch.Generator, learning: bool = False) -> tuple[Any, ...]:
            taken = rows.take(index)
            if learning and isinstance(self.layout_, Pictures) and params["augment"] is not None:
                which = torch.rand(len(index), device=device, generator=generator) < 0.5
                taken = self.layout_.flipped(taken, which.cpu().numpy())
            x = process.subsample(block.read(taken).to(device), learning, generator)
            condition = given(index, generator, learning)
            some = process.draw_known(len(x), generator) if learning else None
            if some is not None:  # these come again, with a part of their columns known
                again = torch.randperm(len(x), device=device, generator=generator)[: len(some)]
                again = torch.cat([torch.arange(len(x), device=device), again])
                some = torch.cat([some.new_zeros(len(x), some.shape[1]), some])
                x, condition = x[again], None if condition is None else condition[again]
            times = process.draw_times(min(TIMES_PER_BATCH, max(len(x), 2)), generator)
            # Rows arrive in strata: a random start gives every time a fair share of each.
            start = torch.randint(len(times), (1,), device=device, generator=generator)
            t = times[(torch.arange(len(x), device=device) + start) % len(times)]
            z = process.marginal(x, t[:, None]).sample(generator)
            if some is None:
                return denoiser(z, t, condition), x, z, t[:, None], ()
            z = block.hold(z, block.shown(x), some)
            return denoiser(z, t, condition, known=some), x, z, t[:, None], (some,)

        def loss(index: np.ndarray, generator: torch.Generator, learning: bool = True) -> torch.Tensor:
            prediction, x, z, t, known = believe(index, generator, learning)
            return process.loss(x, z, t, prediction, generator, *known).mean()

        @torch.no_grad()
        def validation() -> float:
            parts = np.array_split(kept, -(-len(kept) // (4 * batch_size)))
            losses = [float(loss(part, seeded(device, self.seed_, 2, i), False)) for i, part in enumerate(parts)]
            return float(np.average(losses, weights=[len(part) for part in parts]))

        def believe_only(index: np.ndarray, generator: torch.Generator) -> tuple[Any, ...]:
            return believe(index, generator)[:4]

        def report(record: dict[str, float]) -> None:
            """A callback may draw samples; what it draws has no part in training, whose random numbers are those of the update."""
            denoiser.eval()
            for callback in params["callbacks"]:
                callback(record["update"], {k: v for k, v in record.items() if k != "update"}, self)
            denoiser.train()

        context = Training(rows, device, process.schedule, getattr(process, "t_max", None), believe_only, given)
        stages = block.stages(context, training, kept, updates)
        apart = {parameter for stage in stages for parameter in stage.parameters}
        network = Stage(
            name="network",
            parameters=[weight for weight in denoiser.parameters() if weight not in apart],
            loss=loss,
            rows=training,
            updates=updates,
            batch_size=batch_size,
            learning_rate=params["learning_rate"]
            or (PICTURE_RATES[large] if pictures else 3e-3 if block.varying >= WIDE and not block.sparse else 1e-3),
            weight_decay=PICTURE_DECAY if pictures else SPARSE_DECAY if block.sparse else 0.0,
            lr_schedule=params["lr_schedule"],
            ema=params["ema"],
            validation=validation if held_out else None,
            strata=rows.totals()[training],
            accumulate=params["accumulate"],
        )
        before, after = ([stage for stage in stages if stage.after == late] for late in (False, True))
        directory = None if params["checkpoint_dir"] is None else Path(params["checkpoint_dir"])
        settings = Settings(
            seed=self.seed_,
            checkpoint=None if directory is None else directory / "checkpoint.safetensors",
            checkpoint_every=params["checkpoint_every"],
            fingerprint=identity,
            progress=bool(params["progress"]),
            report=report if params["callbacks"] else None,
        )
        denoiser.train()
        self.history_ = run(denoiser, [*before, network, *after], settings)["network"]
        denoiser.eval()

    # Sampling.

    def sample(
        self,
        n_samples: int = 1,
        steps: int | None = None,
        random_state: Any = None,
        y: Any = None,
        guidance: float = 1.0,
        return_y: bool = False,
        sampler: Any = "plain",
    ) -> Any:
        """Draw rows: the kind and dtype that went in. Row i depends on (random_state, i, steps, its y, guidance) alone.

        ``steps`` are 20 by default for one column and for wide rows, and 50 for tables of several columns: these are drawn apart in
        a step, and lose less of their dependence in more of them.

        Of a model that was fitted with y, ``y`` is one label (or row of covariates) for all rows, one for each, or None: then they
        are drawn as they were in training. ``guidance`` = w mixes the network's outputs with y and without it, o_u + w (o_c − o_u):
        1 is plain conditioning, and more makes rows more typical of their y than the data's are. With ``return_y`` the y of
        the rows is returned too, (X, y).

        ``sampler`` is how a step is made: "plain", or "low-noise", "churn" or "second-order" (two evaluations a step), for counts
        in few steps. ``countjump.samplers`` has them as objects, with their numbers, and says what they are exact for.
        """
        validation().check_is_fitted(self, "plan_")
        steps = default_steps(self.block_.varying) if steps is None else steps
        n_samples, steps = whole("n_samples", n_samples, 0), whole("steps", steps, 1, MOST_STEPS)
        denoise, stepping = self._denoise(guidance), self._sampler(sampler)
        seed = as_seed(random_state)
        if n_samples * 8 * (1 if self.sparse_ else self.block_.columns) > memory():
            raise ValueError(f"n_samples={n_samples} rows are more than there is memory for: draw fewer at a time")
        given = self._given(y, n_samples, seed)
        if return_y and given is None:
            raise ValueError(f"return_y=True: {WITHOUT_Y}")
        # A stream is drawn under one y. If its rows have several, it is drawn once for each: a row does not feel the others' y.
        stream, place = np.divmod(np.arange(n_samples), self.block_rows_)
        drawn, which = np.unique(stream)[:, None], stream
        if given is not None:
            drawn, which = np.unique(np.column_stack([stream, given]), axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        wanted = (which.ravel() * self.block_rows_ + place)[order]
        together = max(min(rows_at_once(self.block_), MOST_STREAMS) // self.block_rows_, 1)
        groups = [drawn[start : start + together] for start in range(0, len(drawn), together)]
        pieces, size = [], together * self.block_rows_
        shown = self.progress and len(groups) > 1
        with threads_for(self.block_.varying), Progress("sampling", len(groups), "blocks", shown) as progress:
            for number, group in enumerate(groups):
                rows = self._draw(seed, group[:, 0], steps, denoise, None if given is None else group[:, 1:], stepping)
                mine = wanted[slice(*np.searchsorted(wanted, [number * size, (number + 1) * size]))] - number * size
                pieces.append(self._finish(rows if len(mine) == rows.shape[0] else rows[mine]))
                progress.advance()
        pieces = pieces or [self._finish(np.zeros((0, self.block_.columns)))]
        rows = sp.vstack(pieces, format="csr") if self.sparse_ else np.concatenate(pieces)
        if (order[1:] < order[:-1]).any():
            rows = rows[np.argsort(order)]
        rows = self._restore(rows)
        own = None if given is None or self.conditions_ is None else self.conditions_.write(given)
        if self.labelled_ is not None:
            rows = self.labelled_.put(rows, own)
        return (rows, own) if return_y else rows

    def _restore(self, rows: Any, like: Any = None, known: np.ndarray | None = None) -> Any:
        """A table of the kind that went in, where it was one; rows are called like those of a table that they are ``like``, and
        have its values where these are ``known``."""
        return rows if self.layout_ is None else self.layout_.restore(rows, like, known)

    def _draw(
        self,
        seed: int,
        group: np.ndarray,
        steps: int,
        denoise: Denoise,
        given: np.ndarray | None,
        sampler: Sampler | None = None,
    ) -> np.ndarray | sp.csr_matrix:
        """The rows of some streams in float64, each under its row of y; CSR where they are sampled as sparse rows."""
        if self.denoiser_ is None:
            return self.block_.write(self.block_.latent(self.block_.empty(len(group) * self.block_rows_, self.device_)))
        streams = Streams([seeded(self.device_, seed, int(stream)) for stream in group], self.block_rows_)
        condition = self._encode(None if given is None else given.repeat(self.block_rows_, axis=0))
        times = self.process_.grid(steps)
        return self.block_.write(sample_rows(self.process_, denoise, times, streams, self.device_, condition, sampler))

    def _sampler(self, sampler: Any) -> Sampler | None:
        """How a step is made; None for the plain way."""
        found = find_sampler(sampler)
        if isinstance(found, Plain):
            return None
        if self.denoiser_ is not None and not hasattr(self.block_, "upper_bounds"):
            raise ValueError(f"sampler={sampler!r} is one of JumpModel: use sampler='plain'")
        return found

    # Conditions.

    def _read_condition(self, y: Any, rows: int) -> torch.Tensor | None:
        """One condition for all of so many rows, or one for each, as the denoiser takes them (rows, …); None for no y."""
        return self._encode(self._read_y(y, rows))

    def _read_y(self, y: Any, rows: int) -> np.ndarray | None:
        """The same as numbers: the places of labels, and numbers themselves."""
        if y is None:
            return None
        if self.conditions_ is None:
            raise ValueError(f"y was given: {WITHOUT_Y}")
        return self.conditions_.read(y, rows)

    def _given(self, y: Any, rows: int, seed: int) -> np.ndarray | None:
        """The same for samples: where there is no y, it is drawn for every row, block by block."""
        if self.conditions_ is None or y is not None:
            return self._read_y(y, rows)
        heights = [
            torch.rand(Y_ROWS, dtype=torch.float64, generator=seeded("cpu", seed, stream, 1)).numpy()
            for stream in range(-(-rows // Y_ROWS))
        ]
        return self.conditions_.draw(np.concatenate([np.empty(0), *heights])[:rows])

    def _encode(self, given: np.ndarray | None) -> torch.Tensor | None:
        return None if given is None or self.conditions_ is None else self.conditions_.encode(given).to(self.device_)

    def _denoise(self, guidance: Any) -> Any:
        """The denoiser, guided where that is asked for."""
        weight = plain(guidance)
        if not isinstance(weight, int | float) or isinstance(weight, bool):
            raise TypeError(f"guidance must be a number, got {guidance!r}")
        if not 0 <= weight <= MOST_GUIDANCE:
            raise ValueError(f"guidance must be from 0 (no condition) to {MOST_GUIDANCE:g}, got {weight}")
        if weight == 1:
            return self.denoiser_
        if self.conditions_ is None:
            raise ValueError(f"guidance={weight}: {WITHOUT_Y}")
        return Guided(self.denoiser_, float(weight))

    def _try(self) -> None:
        """Draw a few rows, and write them as they went in, so that what does not fit together is noticed."""
        if self.denoiser_ is None:
            x = self.block_.latent(self.block_.empty(8, self.device_))
        else:
            streams = Streams([seeded(self.device_, 0)], 8)
            given = None if self.conditions_ is None else self.conditions_.draw(np.linspace(0, 1, 8))
            times, condition = self.process_.grid(2), self._encode(given)
            x = sample_rows(self.process_, self.denoiser_, times, streams, self.device_, condition)
        rows = self._finish(self.block_.write(x))
        if isinstance(self.layout_, Layout):
            rows = self._restore(rows)
            if self.labelled_ is not None and self.conditions_ is not None:
                self.labelled_.put(rows, self.conditions_.write(self.conditions_.draw(np.linspace(0, 0.9, 8))))

    def _finish(self, rows: np.ndarray | sp.csr_matrix) -> Any:
        """The reals, dtype and kind that went in."""
        if self.scaling_ is not None:
            rows = self.scaling_.apply(sp.csr_matrix(rows))
        return self._as_kind(rows, self.sparse_)

    def _as_kind(self, rows: np.ndarray | sp.csr_matrix, sparse: str) -> Any:
        """In the dtype that went in, as a "matrix" or "array" of scipy, or, for "", of numpy."""
        kind = {"array": sp.csr_array, "matrix": sp.csr_matrix, "": np.asarray}[sparse]
        finished = kind(rows if sparse or isinstance(rows, np.ndarray) else rows.toarray())
        values = finished.data if sparse else finished
        if self.dtype_.kind in "ui":
            limits = np.iinfo(self.dtype_)
            most = float(limits.max)  # which float64 may round up
            values = np.clip(np.rint(values), limits.min, most if most <= limits.max else np.nextafter(most, 0))
        elif self.dtype_.kind == "f":
            values = np.minimum(values, np.finfo(self.dtype_).max)
        if not sparse:
            return values.astype(self.dtype_)
        finished.data = values
        return finished.astype(self.dtype_)

    # Likelihood.

    def score_samples(
        self,
        X: Any,
        y: Any = None,
        steps: int | None = None,
        draws: int | None = None,
        random_state: Any = None,
    ) -> np.ndarray:
        """A lower bound on ln p(x) of every row, in nats: the mean of ``draws`` Monte Carlo draws of a true bound.

        Of a model that was fitted with y it is one on ln p(x given y), with one ``y`` for all rows or one for each; without y it is
        that of a model of X alone, learned from the rows whose y was dropped in training.

        Counts have a probability, also behind weights, reals a density (and a mass at exact zeros). A row's score depends on the
        row, its y, the seed, ``steps`` and ``draws`` alone; with ``random_state=None`` the model's own seed is used. With
        ``draws=None`` a model that can make S different rows at all takes 2,048/S draws, between 1 and 1,024. The random numbers
        are the same whatever y is, so that the scores of a row under several y compare well.

        A row that a declared domain forbids scores minus infinity. What "auto" inferred from the rows (a constant column, a bound,
        a wide column that was never seen) has an escape mass of about 1/(rows + 1).
        """
        validation().check_is_fitted(self, "plan_")
        steps = SCORE_STEPS if steps is None else steps
        if draws is None:
            draws = int(np.clip(SCORE_EVALUATIONS / self._possible_rows(), 1, 1024))
        steps, draws = whole("steps", steps, 1, MOST_STEPS), whole("draws", draws, 1, MOST_STEPS)
        if self.denoiser_ is None:  # nothing varies, and nothing is drawn
            steps = draws = 1
        X, y = self._split(X, y)
        if hasattr(X, "columns"):
            self._check_columns(X)
        matrix = without_denormals(without_float16(self._read(X, lenient=True)))
        self._check_columns(X)
        mass = np.zeros(matrix.shape[0]) if self.layout_ is None else self.layout_.escapes(X)
        if self.scaling_ is not None:
            matrix, more = self.scaling_.admit(sp.csr_matrix(matrix))
            mass = mass + more
        self._check_scorable(matrix)
        seed = self.seed_ if random_state is None else as_seed(random_state)
        names = row_names(matrix)
        given = self._read_y(y, matrix.shape[0])
        _, first, group = np.unique(with_y(names, given), return_index=True, return_inverse=True)
        scores = np.empty(len(first))
        rows, at_once = Rows(matrix), max(SCORE_ROWS // draws, 1)
        entries = matrix.nnz / matrix.shape[0] if sp.issparse(matrix) else matrix.shape[1]
        at_once = int(np.clip(SCORE_ENTRIES / (max(entries, 1) * steps * draws), 1, at_once))
        with threads_for(self.block_.varying):
            for start in range(0, len(first), at_once):
                some = np.arange(start, min(start + at_once, len(first)))
                condition = self._encode(None if given is None else given[first[some]])
                scores[some] = self._score(rows.take(first[some]), names[first[some]], steps, draws, seed, condition)
        return scores[group] + mass

    def _score(
        self,
        matrix: domains.Matrix,
        names: np.ndarray,
        steps: int,
        draws: int,
        seed: int,
        condition: torch.Tensor | None,
    ) -> np.ndarray:
        """Of some distinct rows, of which each has a name."""
        x, mass = (each.to(self.device_) for each in self.block_.read_to_score(matrix))
        scores = mass.cpu().numpy()
        possible = np.flatnonzero(np.isfinite(scores))
        if self.denoiser_ is None or not len(possible):
            return scores
        times = self.process_.grid(steps).to(self.device_)
        pairs = [(row, draw) for row in possible for draw in range(draws)]
        for start in range(0, len(pairs), SCORE_ROWS):
            some = pairs[start : start + SCORE_ROWS]
            keys = [stream_key(seed, names[row], draw) for row, draw in some]
            place = np.array([row for row, _ in some])
            at = torch.from_numpy(place).to(self.device_)
            own = None if condition is None else condition[at]
            bound = lower_bound(self.process_, self.denoiser_, x[at], times, keys, own)
            np.add.at(scores, place, bound.cpu().numpy() / draws)
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of :meth:`score_samples`; a model that was fitted without y has no use for it."""
        validation().check_is_fitted(self, "plan_")
        return float(self.score_samples(X, None if self.conditions_ is None else y).mean())

    # Saving and loading.

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a directory, as safetensors and JSON."""
        validation().check_is_fitted(self, "plan_")
        described, arrays = self._describe(self.plan_)
        arrays = {f"plan/{name}": array for name, array in arrays.items()}
        if self.denoiser_ is not None:
            learned = self.denoiser_.state_dict()
            arrays |= {f"weights/{name}": tensor.cpu().numpy() for name, tensor in learned.items()}
        if self.scaling_ is not None:
            arrays["scaling"] = self.scaling_.weights
        condition = None
        if self.conditions_ is not None:
            condition, own = self.conditions_.described()
            arrays |= {f"condition/{name}": array for name, array in own.items()}
        fitted = {
            "condition": condition,
            "scaling": None if self.scaling_ is None else self.scaling_.described(),
            "plan": described,
            "dtype": self.dtype_.str,
            "sparse": self.sparse_,
            "layout": None if self.layout_ is None else self.layout_.described(),
            "labelled": None if self.labelled_ is None else self.labelled_.described(),
            "seed": self.seed_,
            "block_rows": self.block_rows_,
            "history": [{k: persistence.encode(v) for k, v in record.items()} for record in self.history_],
            "feature_names": getattr(self, "feature_names_in_", np.array([])).tolist(),
        }
        params = {name: persistence.encode(value) for name, value in self._params_to_save().items()}
        seed = plain(self.random_state)
        params["random_state"] = seed if isinstance(seed, int) else None
        persistence.write(path, {"class": type(self).__name__, "params": params, "fitted": fitted}, arrays)

    def _params_to_save(self) -> dict[str, Any]:
        """The parameters that a file can hold."""
        params = {name: value for name, value in self.get_params().items() if name != "random_state"}
        return params | {"device": str(self.device), "callbacks": None}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that :meth:`save` wrote."""
        return cls._load(path, {})

    @classmethod
    def _load(cls, path: str | Path, given: dict[str, Any]) -> Self:
        described, arrays = persistence.read(path)
        if described.get("class") != cls.__name__:
            raise persistence.ModelFileError(
                f"{path} holds a {repr(described.get('class'))[:40]}, not a {cls.__name__}: load it with that class"
            )
        try:
            with persistence.SizedBy(arrays):
                model = cls._revive(described, arrays, given)
            model._try()
        except persistence.OwnNetworkError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            why = repr(error)[:300]
            raise persistence.ModelFileError(f"{path} is damaged ({why}): save the model again") from error
        return model

    @classmethod
    def _revive(cls, described: dict[str, Any], arrays: dict[str, np.ndarray], given: dict[str, Any]) -> Self:
        params = {name: persistence.decode(value) for name, value in described["params"].items()}
        model = cls(**(params | given))
        model._checked_params(directory=False)
        try:
            device = model._device()
        except ValueError:  # it was fitted on a device that is not here
            model.device = "auto"
            device = model._device()
        fitted = described["fitted"]
        if fitted["sparse"] not in ("", "array", "matrix") or np.dtype(fitted["dtype"]).kind not in "buif":
            raise ValueError(f"rows of kind {fitted['sparse']!r} and dtype {fitted['dtype']!r} are not written here")
        for name, array in arrays.items():
            if not name.endswith(OPEN_ARRAYS) and not np.isfinite(array).all():
                raise ValueError(f"{name} holds numbers that are not finite")
        inner = {name.removeprefix("plan/"): array for name, array in arrays.items() if name.startswith("plan/")}
        plan = model._recall(fitted["plan"], inner)
        scaling = fitted["scaling"]
        if scaling is not None:
            scaling = Weights(arrays["scaling"], **scaling)
        condition = fitted["condition"]
        if condition is not None:
            own = {k.removeprefix("condition/"): array for k, array in arrays.items() if k.startswith("condition/")}
            condition = Conditions.recalled(condition, own)
        model.layout_ = None if fitted["layout"] is None else recalled_layout(fitted["layout"])
        model.labelled_ = None if fitted["labelled"] is None else Labelled.recall(fitted["labelled"])
        if model.labelled_ is not None and (condition is None or len(condition.columns) != len(model.labelled_.labels)):
            raise ValueError("columns of labels, and no such labels")
        model._adopt(plan, fitted["dtype"], fitted["sparse"], as_seed(fitted["seed"]), device, scaling, condition)
        if model.denoiser_ is not None:
            learned = {
                k.removeprefix("weights/"): torch.from_numpy(v) for k, v in arrays.items() if k.startswith("weights/")
            }
            model.denoiser_.load_state_dict(learned)
        columns, names = model.block_.columns, fitted["feature_names"]
        if fitted["block_rows"] != model.block_rows_:
            raise ValueError(f"blocks of {fitted['block_rows']!r} rows, and not of {model.block_rows_}")
        model.history_ = [
            {str(k): v if isinstance(v, int) else float(v) for k, v in record.items()} for record in fitted["history"]
        ]
        if len({tuple(record) for record in model.history_}) > 1 or any("loss" not in r for r in model.history_):
            raise ValueError("its history is not one of training")
        if model.layout_ is not None:
            if len(model.layout_.matrix_names) != columns:
                raise ValueError(f"a table of {len(model.layout_.names)} columns, and a model of {columns}")
            columns = len(model.layout_.names)
        model.n_features_in_ = columns
        if names:
            if len(names) != columns or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{len(names)} names for {columns} columns")
            model.feature_names_in_ = np.array(names, dtype=object)
        return model


def validation() -> Any:
    """scikit-learn's, imported where it is needed: it takes a second."""
    from sklearn.utils import validation

    return validation


def recalled_layout(described: dict[str, Any]) -> Layout | Annotated | Pictures:
    """How tables or pictures become a matrix, from a model file."""
    kinds: dict[str, Any] = {"pictures": Pictures, "anndata": Annotated, "sparse": Annotated}
    return kinds.get(described["kind"], Layout).recall(described)


def kind_of_matrix(X: Any) -> str:
    """What X is: a "matrix" or an "array" of scipy, or, "", of numpy."""
    return "" if not sp.issparse(X) else "array" if isinstance(X, sp.sparray) else "matrix"


@contextmanager
def threads_for(columns: int) -> Iterator[None]:
    """One thread where rows are narrow: more gain nothing there, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if columns >= WIDE else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def row_names(matrix: domains.Matrix) -> np.ndarray:
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


def rows_at_once(block: Any) -> int:
    """Rows that are drawn together: the more, the fewer operations, and the more memory."""
    if block.sparse:
        return 1024
    return 25_600 if block.size <= 1 else 2 ** int(np.log2(np.clip(2**21 // block.size, 64, 1024)))


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


def without_denormals(matrix: domains.Matrix) -> domains.Matrix:
    """The same numbers, but zeros in the place of reals that are too small to be divided by."""
    values = matrix.data if sp.issparse(matrix) else matrix
    if matrix.dtype.kind != "f" or not ((values > 0) & (values < LEAST_REAL)).any():
        return matrix
    matrix = matrix.copy()
    (matrix.data if sp.issparse(matrix) else matrix)[values < LEAST_REAL] = 0
    return matrix


def without_float16(matrix: domains.Matrix) -> domains.Matrix:
    """The same numbers: sums of float16 end at 65,504, and scipy does not know it."""
    return matrix.astype(np.float32) if matrix.dtype == np.float16 else matrix


def plain(value: Any) -> Any:
    """A number of numpy as one of Python; anything else as it is."""
    if isinstance(value, np.floating):
        return float(value)  # a long double is no item
    return value.item() if isinstance(value, np.generic) else value


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number within its bounds, or an error that names it."""
    value = plain(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")
    return value


def default_batch_size(rows: int, columns: int) -> int:
    """Rows per update: the more, the narrower they are; of a small table a fifth, about."""
    most = 2048 if columns == 1 else 1024 if columns <= 4 else 512 if columns < 16 else 256 if columns < WIDE else 128
    return most if columns <= 4 else min(most, max(128, 2 ** int(np.log2(max(rows / 5, 1)))))


def default_steps(columns: int) -> int:
    """Steps of a chain."""
    return 50 if 1 < columns < WIDE else 20


def default_dropout(rows: int, columns: int) -> float:
    """The share of hidden units that are left out while training, where a table has many columns for its rows."""
    return 0.3 if 32 <= columns < WIDE and rows < 100 * columns else 0.0


def default_updates(rows: int, columns: int, sparse: bool) -> int:
    """The length of training: a fifth of the entries (of one column a tenth), of wide rows 60 epochs, of sparse ones 110; within
    bounds, that of tables growing with them."""
    if columns >= WIDE:
        epochs, most = (110, 16_000) if sparse else (60, 8000)
        return int(np.clip(epochs * rows / default_batch_size(rows, columns), 4000, most))
    if columns == 1:
        return int(np.clip(rows / 10, 1000, 2000))
    return int(np.clip(rows * columns / 5, 1000, np.clip(1000 + rows * columns / 50, 3000, 6000)))


def as_seed(random_state: Any) -> int:
    """An integer seed from whatever scikit-learn calls a random state."""
    random_state = plain(random_state)
    if isinstance(random_state, int):
        return whole("random_state", random_state, 0, 2**64 - 1)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    kinds = "None, a whole number, a RandomState or a Generator"
    raise ValueError(f"random_state={random_state!r} cannot be used as a seed: use {kinds}")
