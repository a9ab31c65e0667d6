"""What every model here shares, the scikit-learn face: fit · sample · score_samples · score · save · load."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from tqdm import tqdm

from countjump import domains, fitted, parameters, persistence, scoring
from countjump._version import __version__
from countjump.clusters import Clusters, how_many
from countjump.conditions import Conditions
from countjump.data import Annotated, Labelled, Layout, Pictures, Rows, as_matrix, fingerprint, kinds
from countjump.data.rows import memory
from countjump.data.tables import numbered
from countjump.denoiser import Denoiser, Guided
from countjump.fitting import train
from countjump.laws import Streams
from countjump.parameters import MOST_STEPS, as_seed, find_device, plain, rows_at_once, threads_for, whole
from countjump.processes.base import Denoise, Process
from countjump.progress import Progress
from countjump.samplers import Plain, Sampler, find_sampler
from countjump.sampling import sample_rows, seeded, stream_groups
from countjump.transforms import Weights

if TYPE_CHECKING:
    from sklearn.utils import Tags

PICTURES_AT_ONCE = 16  # evaluated together on a CPU: the more, the more of a small request is in vain

SPARSE_ROWS, MOST_STREAMS = 32, 1024
"""Wide sparse rows that share one stream of random numbers, and streams that are drawn together at most."""

FEW_KINDS = 200
"""Distinct y times columns up to which a stream with several y is drawn for each of them; else every row has a stream of its own,
which costs half a millisecond, about."""

Y_ROWS = 1024  # rows whose y is drawn from one stream of random numbers

WITHOUT_Y = "the model was fitted without y: fit(X, y) to have one of X given y"
"""Why there is no condition."""


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(fitted.Fitted, ABC):
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
    clusters: int | str | None = None
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
        or a tuple or list of them, names columns of X (of its ``obs``) that are y. ``docs/labels.md`` says what is taken for
        a label.
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
        params = parameters.checked(self.get_params())
        self.labelled_ = Labelled.of(X, y)
        if self.labelled_ is not None:
            X, y = self.labelled_.split(X)
        self.layout_ = self._find_layout(X)
        matrix = self._read(X)
        conditions, read = (None, None) if y is None else Conditions.fit(y, matrix.shape[0])
        device = find_device(self.device)
        self._check_columns(X, reset=True)
        of_y = () if conditions is None or read is None else (conditions.identity(read),)
        identity, dtype = fingerprint(matrix, self._identity(), *of_y), matrix.dtype
        given = kinds.without_float16(matrix)
        matrix = kinds.without_denormals(given)
        lost = matrix is not given
        scaling = self._find_scaling(matrix)
        if scaling is not None:
            matrix, _ = scaling.counts(matrix)
        if params["augment"] is not None and not isinstance(self.layout_, Pictures):
            raise ValueError("augment='flip' turns pictures round, and X is none: leave augment=None")
        plan = self._plan(matrix, params)
        if lost and hasattr(plan, "reasons"):
            plan.reasons["zeros"] = f"reals below {kinds.LEAST_REAL:g} are taken for zeros"
        # With a checkpoint to come back to, even an unseeded fit must know its seed again.
        unseeded = self.random_state is None and self.checkpoint_dir is not None
        seed = int(identity[:8], 16) if unseeded else as_seed(self.random_state)
        self.dtype_, self.sparse_, self.seed_ = dtype, kinds.kind_of(X, given), seed
        pictures = isinstance(self.layout_, Pictures)
        self.clusters_ = None
        if count := how_many(params["clusters"], matrix.shape[0], pictures, conditions is not None):
            conditions, read = self._cluster(np.asarray(matrix), count, seed, params, plan)
        self.scaling_, self.conditions_ = scaling, conditions
        self._adopt(plan, device)
        if self.denoiser_ is not None:
            condition = self._encode(read)
            with threads_for(self.block_.varying):
                self._train(Rows(matrix), f"{identity}-{seed}", params, condition)

    _takes_negatives = False

    def _find_layout(self, X: Any) -> Layout | Annotated | Pictures | None:
        """How a table becomes a matrix, if it is not one."""
        return None

    def _cluster(
        self, rows: np.ndarray, count: int, seed: int, params: dict[str, Any], plan: Any
    ) -> tuple[Conditions, np.ndarray]:
        """Find clusters of pictures, and these as conditions: of those that are seen from right to left, too, after the others."""
        if params["augment"] is not None and isinstance(self.layout_, Pictures):
            rows = np.concatenate([rows, self.layout_.flipped(rows, np.ones(len(rows), dtype=bool))])
        self.clusters_, numbers = Clusters.find(rows, count, seed)
        said = f"{len(self.clusters_.centres)} groups of pictures by k-means: one is drawn, and then a picture of it"
        if hasattr(plan, "reasons"):
            plan.reasons["clusters"] = said
        if self.progress:
            tqdm.write(f"countjump: clusters = {said}")
        return Conditions.fit(numbers, len(rows))

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
        kinds.check_shape(matrix)
        names = self.layout_.matrix_names if isinstance(self.layout_, Layout | Annotated) else None
        domains.check_values(matrix, names)
        if not self._takes_negatives:
            domains.check_not_negative(matrix, names)
        return matrix

    def _on_levels(self, matrix: domains.Matrix) -> domains.Matrix:
        """Rows, rounded as by the fit where that rounds them."""
        return matrix

    def check_params(self) -> None:
        """Raise where a parameter is wrong whatever the data may be."""
        find_device(self.device)
        parameters.checked(self.get_params())
        as_seed(self.random_state)

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

    def _adopt(self, plan: Any, device: torch.device) -> None:
        """Take on a plan: every fitted attribute that follows from it."""
        self.plan_, self.device_, conditions = plan, device, self.conditions_
        self.history_ = []
        with torch.random.fork_rng():
            torch.manual_seed(self.seed_)
            self.block_, self.process_, denoiser = self._build(plan)
            if conditions is not None and denoiser is not None:
                denoiser.take_condition(conditions.levels, conditions.features, plan.width)
        self.block_.to(device)
        self.denoiser_ = None if denoiser is None else denoiser.to(device).eval()
        if denoiser is not None:
            denoiser.precision = parameters.PRECISIONS[self.precision]
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
        self.history_ = train(self, rows, conditions, params, identity)

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
        steps = parameters.default_steps(self.block_.varying) if steps is None else steps
        n_samples, steps = whole("n_samples", n_samples, 0), whole("steps", steps, 1, MOST_STEPS)
        denoise, stepping = self._denoise(guidance), self._sampler(sampler)
        seed = as_seed(random_state)
        if n_samples * 8 * (1 if self.sparse_ else self.block_.columns) > memory():
            raise ValueError(f"n_samples={n_samples} rows are more than there is memory for: draw fewer at a time")
        if return_y and not self.knows_y:
            raise ValueError(f"return_y=True: {WITHOUT_Y}")
        given = self._given(y, n_samples, seed)
        together = max(min(rows_at_once(self.block_), MOST_STREAMS) // self.block_rows_, 1)
        groups, places = stream_groups(n_samples, self.block_rows_, together, given)
        pieces, shown = [], self.progress and len(groups) > 1
        with threads_for(self.block_.varying), Progress("sampling", len(groups), "blocks", shown) as progress:
            for numbers, own, wanted in groups:
                streams = Streams([seeded(self.device_, seed, int(each)) for each in numbers], self.block_rows_)
                own = None if own is None else own.repeat(self.block_rows_, axis=0)
                rows = self._draw(streams, steps, denoise, own, stepping)
                pieces.append(self._finish(rows if len(wanted) == rows.shape[0] else rows[wanted]))
                progress.advance()
        rows = self._joined(pieces or [self._finish(np.zeros((0, self.block_.columns)))], given, places)
        if not return_y or given is None or self.conditions_ is None:
            return rows
        return rows, self.conditions_.write(given)

    def _joined(
        self,
        pieces: list[Any],
        given: np.ndarray | None,
        places: np.ndarray | None = None,
        like: Any = None,
        known: np.ndarray | None = None,
    ) -> Any:
        """Pieces as one matrix, from its ``places`` on, or a table of the kind that went in, with the labels that are given."""
        rows = sp.vstack(pieces, format="csr") if sp.issparse(pieces[0]) else np.concatenate(pieces)
        rows = self._restore(rows if places is None else rows[places], like, known)
        if self.labelled_ is None or given is None or self.conditions_ is None:
            return rows
        return self.labelled_.put(rows, self.conditions_.write(given))

    def _restore(self, rows: Any, like: Any = None, known: np.ndarray | None = None) -> Any:
        """A table of the kind that went in, where it was one; rows are called like those of a table that they are ``like``, and
        have its values where these are ``known``."""
        return rows if self.layout_ is None else self.layout_.restore(rows, like, known)

    def _draw(
        self, streams: Streams, steps: int, denoise: Denoise, given: np.ndarray | None, sampler: Sampler | None = None
    ) -> np.ndarray | sp.csr_matrix:
        """The rows of some streams in float64, each under its row of y; CSR where they are sampled as sparse rows."""
        if self.denoiser_ is None:
            return self.block_.write(self.block_.latent(self.block_.empty(len(streams) * streams.rows, self.device_)))
        times, condition = self.process_.grid(steps), self._encode(given)
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

    @property
    def knows_y(self) -> bool:
        """Whether it was fitted with y."""
        return self.conditions_ is not None and self.clusters_ is None

    def _read_y(self, y: Any, rows: int) -> np.ndarray | None:
        """One row of y for all of so many rows, or one for each, as numbers: the places of labels, and numbers; None for no y."""
        if y is None:
            return None
        if self.conditions_ is None or not self.knows_y:
            raise ValueError(f"y was given: {WITHOUT_Y}")
        return self.conditions_.read(y, rows)

    def _given(self, y: Any, rows: int, seed: int) -> np.ndarray | None:
        """The same for samples: where there is no y, it is drawn for every row, block by block, and so is a cluster."""
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
        weight = parameters.checked_guidance(guidance)
        if weight == 1:
            return self.denoiser_
        if not self.knows_y:
            raise ValueError(f"guidance={weight}: {WITHOUT_Y}")
        return Guided(self.denoiser_, float(weight))

    def _try(self) -> None:
        """Draw a few rows, and write them as they went in, so that what does not fit together is noticed."""
        given = None if self.conditions_ is None else self.conditions_.draw(np.linspace(0, 1, 8))
        rows = self._finish(self._draw(Streams([seeded(self.device_, 0)], 8), 2, self.denoiser_, given))
        if isinstance(self.layout_, Layout):
            self._joined([rows], given)

    def _finish(self, rows: np.ndarray | sp.csr_matrix) -> Any:
        """The reals, dtype and kind that went in."""
        if self.scaling_ is not None:
            rows = self.scaling_.apply(sp.csr_matrix(rows))
        return kinds.as_kind(rows, self.sparse_, self.dtype_)

    # Likelihood.

    def score_samples(
        self, X: Any, y: Any = None, steps: int | None = None, draws: int | None = None, random_state: Any = None
    ) -> np.ndarray:
        """A lower bound on ln p(x) of every row, in nats: the mean of ``draws`` Monte Carlo draws of a true bound.

        Of pictures in clusters it is ln of their cluster's share and the bound given the cluster.

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
        steps = scoring.STEPS if steps is None else steps
        draws = scoring.default_draws(self._possible_rows()) if draws is None else draws
        steps, draws = whole("steps", steps, 1, MOST_STEPS), whole("draws", draws, 1, MOST_STEPS)
        if self.denoiser_ is None:  # nothing varies, and nothing is drawn
            steps = draws = 1
        X, y = self._split(X, y)
        if hasattr(X, "columns"):
            self._check_columns(X)
        matrix = self._on_levels(kinds.without_denormals(kinds.without_float16(self._read(X, lenient=True))))
        self._check_columns(X)
        mass = np.zeros(matrix.shape[0]) if self.layout_ is None else self.layout_.escapes(X)
        if self.scaling_ is not None:
            matrix, more = self.scaling_.admit(sp.csr_matrix(matrix))
            mass = mass + more
        self._check_scorable(matrix)
        seed = self.seed_ if random_state is None else as_seed(random_state)
        given = self._read_y(y, matrix.shape[0])
        if self.clusters_ is not None and self.conditions_ is not None:  # p(x) is at least that of x in its own cluster
            numbers, counts = self.clusters_.numbers(np.asarray(matrix)), self.conditions_.counts
            given = self.conditions_.read(numbers, matrix.shape[0])
            mass = mass + np.log(counts[numbers] / counts.sum())
        return scoring.score_rows(self, matrix, given, steps, draws, seed) + mass

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of :meth:`score_samples`; a model that was fitted without y has no use for it."""
        validation().check_is_fitted(self, "plan_")
        return float(self.score_samples(X, y if self.knows_y else None).mean())

    # Saving and loading.

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a directory, as safetensors and JSON."""
        validation().check_is_fitted(self, "plan_")
        said, arrays = fitted.describe(self, *self._describe(self.plan_))
        params = {name: persistence.encode(value) for name, value in self._params_to_save().items()}
        seed = plain(self.random_state)
        params["random_state"] = seed if isinstance(seed, int) else None
        persistence.write(path, {"class": type(self).__name__, "params": params, "fitted": said}, arrays)

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
            if given and "loading state_dict" in str(error):
                raise ValueError(f"the network given to load is not the one in {path}: {error}") from error
            why = repr(error)[:300]
            if given:
                raise ValueError(f"{path} is damaged, or the network given to load does not fit it ({why})") from error
            raise persistence.ModelFileError(f"{path} is damaged ({why}): save the model again") from error
        return model

    @classmethod
    def _revive(cls, described: dict[str, Any], arrays: dict[str, np.ndarray], given: dict[str, Any]) -> Self:
        params = {name: persistence.decode(value) for name, value in described["params"].items()}
        model = cls(**(params | given))
        parameters.checked(model.get_params(), directory=False)
        try:
            device = find_device(model.device)
        except ValueError:  # it was fitted on a device that is not here
            model.device = "auto"
            device = find_device(model.device)
        said = described["fitted"]
        fitted.check(said, arrays)
        plan = model._recall(said["plan"], persistence.under(arrays, "plan/"))
        fitted.recall_data(model, said, arrays)
        model._adopt(plan, device)
        fitted.recall_training(model, said, arrays)
        return model


def validation() -> Any:
    """scikit-learn's, imported where it is needed: it takes a second."""
    from sklearn.utils import validation

    return validation
