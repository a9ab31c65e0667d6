"""What every model here shares, the scikit-learn face: fit · sample · score_samples · score · save · load."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm import tqdm

from countjump import choices, domains, storage
from countjump._version import __version__
from countjump.bags import Bags
from countjump.choices import one_of
from countjump.data import Rows, as_matrix, fingerprint
from countjump.processes.bags import BagJump
from countjump.processes.base import Denoiser, Process
from countjump.sampling import sample_block, seeded
from countjump.scaling import Scaling
from countjump.trainer import Loss, Settings, train

TIMES_PER_BATCH = 32
"""Distinct times in a training batch: the time embedding is computed once for each."""

BAG_DECAY = 1.0
"""The decay of the weights of wide models: they have more of them than rows have taught."""

BAG_ROWS = 1024
"""Rows of a block of wide rows that are drawn together: the more, the fewer operations."""

MOST_HELD_OUT = 10_000
"""Rows that are held out at most."""

SCORE_STEPS = 100
"""Steps of ``score_samples`` by default."""


class Estimator(BaseEstimator, ABC):
    """What every model here shares: reading data, training, sampling in fixed blocks, saving and loading."""

    validation_fraction: float
    max_updates: int | None
    batch_size: int | None
    learning_rate: float | None
    lr_schedule: str
    ema: float
    checkpoint_dir: str | Path | None
    checkpoint_every: int | None
    device: str
    random_state: Any
    progress: bool

    plan_: Any
    process_: Any
    denoiser_: Any
    scaling_: Scaling | None

    # What a kind of model says of itself.

    @abstractmethod
    def _plan(self, X: domains.Matrix) -> tuple[Any, np.ndarray]:
        """Check the data, decide everything, and say which columns vary; nothing is changed on self."""

    @abstractmethod
    def _build(self, plan: Any) -> tuple[Process, Denoiser]:
        """The process and an untrained denoiser."""

    @abstractmethod
    def _describe(self, plan: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The plan as JSON and arrays."""

    @abstractmethod
    def _recall(self, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        """The plan back from :meth:`_describe`."""

    def _uncover(self, X: domains.Matrix) -> Scaling | None:
        """How the data is made out of counts, if it is, and if the counts are to be modelled in its place."""
        return None

    def _batch(self, rows: Rows, index: np.ndarray) -> Any:
        """Data rows as the process takes them."""
        return rows.take(index).to(self.device_)

    def _prepare(self, rows: Rows, training: np.ndarray, kept: np.ndarray, updates: int) -> None:
        """Whatever can be learned before the network is trained, in at most so many updates; ``kept`` rows are to check."""

    def _settle(self, loss: Loss, rows: Rows, kept: np.ndarray, updates: int) -> None:
        """Whatever is learned from the rows that were ``kept`` out, after the network, in at most so many updates."""

    # Fitting.

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to the rows of X (ndarray or scipy sparse); ``y`` is ignored. A fit that fails changes nothing."""
        before = self.__dict__.copy()
        try:
            self._fit(X)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any) -> None:
        matrix = self._read(X)
        device = self._device()
        self._check_training()
        identity, dtype = fingerprint(matrix, self._identity()), matrix.dtype
        scaling = self._uncover(matrix)
        if scaling is not None:
            matrix, _ = scaling.counts(matrix)
        plan, constants = self._plan(matrix)
        # With a checkpoint to come back to, even an unseeded fit must know its seed again.
        unseeded = self.random_state is None and self.checkpoint_dir is not None
        seed = int(identity[:8], 16) if unseeded else as_seed(self.random_state)
        validate_data(self, X, skip_check_array=True)
        kind = "" if not sp.issparse(X) else "array" if isinstance(X, sp.sparray) else "matrix"
        self._adopt(plan, constants, dtype, kind, seed, device, scaling)
        varying = Rows(matrix).select(np.flatnonzero(np.isnan(constants)))
        with threads_for(varying.columns):
            self._train(varying.scaled(1 / getattr(plan, "remainder", 1.0)), f"{identity}-{seed}")

    def _read(self, X: Any) -> domains.Matrix:
        matrix = as_matrix(X)
        if matrix.ndim != 2:
            raise ValueError(
                f"X must be two-dimensional (rows × columns), got {matrix.ndim} dimension(s). Reshape your data: "
                "X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row"
            )
        if matrix.shape[0] == 0:
            raise ValueError(
                f"X is empty: Found array with 0 sample(s) (shape={matrix.shape}) while a minimum of 1 is required."
            )
        if matrix.shape[1] == 0:
            raise ValueError(f"X has no columns: 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")
        domains.check_values(matrix)
        return matrix

    def _device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(self.device)
        except RuntimeError as error:
            raise ValueError(f"device={self.device!r} is unknown: use 'auto', 'cpu' or 'cuda'") from error
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device={self.device!r} is not there: use device='auto' or 'cpu'")
        return device

    def _check_training(self) -> None:
        one_of("lr_schedule", self.lr_schedule, ("cosine", "constant"))
        for name in ("max_updates", "batch_size", "checkpoint_every", "components", "width"):
            value = getattr(self, name, None)
            if value is not None:
                at_least(name, value, 1)
        for name in ("validation_fraction", "ema", "learning_rate"):
            value = getattr(self, name)
            if name == "learning_rate" and value is None:
                continue
            if not isinstance(value, int | float | np.number) or isinstance(value, bool):
                raise TypeError(f"{name} must be a number, got {value!r}")
            if name == "learning_rate" and not 0 < value < np.inf:
                raise ValueError(f"learning_rate must be positive, got {value}")
            if name != "learning_rate" and not 0 <= value < 1:
                raise ValueError(f"{name} must be in [0, 1), got {value}")
        if self.checkpoint_dir is not None and Path(self.checkpoint_dir).is_file():
            raise ValueError(f"checkpoint_dir={str(self.checkpoint_dir)!r} is a file: choose a directory")

    def _identity(self) -> str:
        """What decides a fit besides the data."""
        silent = ("progress", "checkpoint_dir", "checkpoint_every", "device", "random_state")
        params = {name: value for name, value in self.get_params().items() if name not in silent}
        whole = [type(self).__name__, __version__, params]
        return json.dumps(whole, sort_keys=True, default=lambda value: getattr(value, "tolist", value.__repr__)())

    def _adopt(
        self,
        plan: Any,
        constants: np.ndarray,
        dtype: np.dtype,
        sparse: str,
        seed: int,
        device: torch.device,
        scaling: Scaling | None,
    ) -> None:
        """Take on a plan: every fitted attribute but the network's training."""
        self.plan_, self.constants_, self.dtype_, self.sparse_, self.seed_ = (
            plan,
            constants,
            np.dtype(dtype),
            sparse,
            seed,
        )
        self.device_, self.scaling_ = device, scaling
        self.history_: list[dict[str, float]] = []
        self.process_, self.denoiser_ = None, None
        if np.isnan(constants).any():
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                self.process_, denoiser = self._build(plan)
            self.denoiser_ = denoiser.to(device).eval()
        columns = len(constants)
        dense = 25_600 if columns <= 1 else 2 ** int(np.log2(np.clip(2**21 // columns, 64, 1024)))
        self.block_rows_ = BAG_ROWS if isinstance(self.process_, BagJump) else dense

    def _columns(self) -> int:
        """How many columns vary."""
        return int(np.isnan(self.constants_).sum())

    def _train(self, rows: Rows, identity: str) -> None:
        if self.denoiser_ is None:
            return
        process, denoiser, device = self.process_, self.denoiser_, self.device_
        shuffled = np.random.default_rng([self.seed_, 1]).permutation(rows.count)
        bags = isinstance(process, BagJump)
        held_out = min(int(rows.count * self.validation_fraction), MOST_HELD_OUT)
        kept, training = shuffled[:held_out], shuffled[held_out:]
        batch_size = self.batch_size or default_batch_size(rows)
        updates = self.max_updates or default_updates(rows, bags)
        self._prepare(rows, training, kept, updates)

        def loss(index: np.ndarray, generator: torch.Generator) -> torch.Tensor:
            x = process.narrow(self._batch(rows, index), generator)
            times = process.draw_times(min(TIMES_PER_BATCH, max(len(x), 2)), generator)
            # Rows arrive in strata: a random start gives every time a fair share of each.
            start = torch.randint(len(times), (1,), device=device, generator=generator)
            place = (torch.arange(len(x), device=device) + start) % len(times)
            t = times[place][:, None]
            z = process.corrupt(x, t, generator)
            return process.loss(x, z, t, denoiser(z, times, place), generator).mean()

        @torch.no_grad()
        def validation() -> float:
            parts = np.array_split(kept, -(-len(kept) // (4 * batch_size)))
            losses = [float(loss(part, seeded(device, self.seed_, 2, i))) for i, part in enumerate(parts)]
            return float(np.average(losses, weights=[len(part) for part in parts]))

        directory = None if self.checkpoint_dir is None else Path(self.checkpoint_dir)
        settings = Settings(
            updates=updates,
            batch_size=batch_size,
            learning_rate=self.learning_rate or (3e-3 if rows.columns >= choices.WIDE and not bags else 1e-3),
            weight_decay=BAG_DECAY if bags else 0.0,
            lr_schedule=self.lr_schedule,
            warmup=min(100, updates // 10),
            ema=self.ema,
            seed=self.seed_,
            checkpoint=None if directory is None else directory / "checkpoint.safetensors",
            checkpoint_every=self.checkpoint_every or max(updates // 20, 1),
            progress=self.progress,
        )
        denoiser.train()
        self.history_ = train(
            denoiser,
            lambda index, generator: loss(training[index], generator),
            len(training),
            settings,
            validation if held_out else None,
            identity,
            rows.totals()[training],
        )
        if held_out:
            self._settle(loss, rows, kept, updates)
        denoiser.eval()

    # Sampling.

    def sample(self, n_samples: int = 1, steps: int = 20, random_state: Any = None) -> Any:
        """Draw rows: the kind and dtype that went in. Row i depends on (random_state, i, steps) alone."""
        check_is_fitted(self, "plan_")
        at_least("n_samples", n_samples, 0)
        at_least("steps", steps, 1)
        seed = as_seed(random_state)
        blocks = range(-(-n_samples // self.block_rows_))
        bar = tqdm(blocks, desc="sample", unit="block", disable=not self.progress or len(blocks) < 2)
        with threads_for(self._columns()):
            pieces = [self._finish(self._sample_block(seed, block, steps)) for block in bar]
        if not pieces:
            return self._finish(np.zeros((0, len(self.constants_))))
        whole = sp.vstack(pieces, format="csr") if self.sparse_ else np.concatenate(pieces)
        return whole[:n_samples]

    def _sample_block(self, seed: int, block: int, steps: int) -> np.ndarray | sp.csr_matrix:
        """A whole block of rows in float64; CSR where they are sampled as bags."""
        varying = np.isnan(self.constants_)
        if self.denoiser_ is None:
            kind = sp.csr_matrix if self.sparse_ else np.asarray
            return kind(np.ones((self.block_rows_, 1))) @ kind(self.constants_[None])
        times = self.process_.grid(steps)
        x = sample_block(self.process_, self.denoiser_, self.block_rows_, times, seeded(self.device_, seed, block))
        if isinstance(x, Bags):
            place = sp.csr_matrix(
                (np.ones(varying.sum()), (range(varying.sum()), varying.nonzero()[0])),
                shape=(varying.sum(), len(varying)),
            )
            fixed = sp.csr_matrix(np.where(varying, 0, self.constants_))
            return x.csr() @ place + sp.csr_matrix(np.ones((self.block_rows_, 1))) @ fixed
        rows = np.tile(self.constants_, (self.block_rows_, 1))
        rows[:, varying] = self._project(x).cpu().numpy()
        return rows

    @abstractmethod
    def _project(self, x: torch.Tensor) -> torch.Tensor:
        """Sampled rows into the data's domain."""

    def _finish(self, rows: np.ndarray | sp.csr_matrix) -> Any:
        """The reals, dtype and kind that went in."""
        if self.scaling_ is not None:
            rows = self.scaling_.apply(sp.csr_matrix(rows))
        kind = {"array": sp.csr_array, "matrix": sp.csr_matrix, "": np.asarray}[self.sparse_]
        whole = kind(rows if self.sparse_ or isinstance(rows, np.ndarray) else rows.toarray())
        values = whole.data if self.sparse_ else whole
        if self.dtype_.kind in "ui":
            limits = np.iinfo(self.dtype_)
            np.clip(np.rint(values, out=values), limits.min, limits.max, out=values)
        return whole.astype(self.dtype_)

    # Likelihood.

    @abstractmethod
    def _check_scorable(self, X: domains.Matrix) -> None:
        """Raise where the model gives such data no likelihood."""

    @abstractmethod
    def _possible(self, free: np.ndarray) -> np.ndarray:
        """Which rows of the columns that vary have a probability at all."""

    def _to_score(self, rows: Rows, index: np.ndarray) -> tuple[Any, np.ndarray]:
        """Of some rows, which are possible, and of those the columns that vary."""
        x, fixed = rows.take(index), ~np.isnan(self.constants_)
        possible = (x.numpy()[:, fixed] == self.constants_[fixed]).all(1) & self._possible(x.numpy()[:, ~fixed])
        return x[torch.from_numpy(possible)][:, torch.from_numpy(~fixed)], possible

    @abstractmethod
    def _bound(self, free: Any, times: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """One draw of a lower bound on the log-probability of the columns that vary."""

    def score_samples(self, X: Any, steps: int | None = None, draws: int = 1, random_state: Any = None) -> np.ndarray:
        """A lower bound on ln p(x) of every row, in nats: the mean of ``draws`` Monte Carlo draws of a true bound.

        Counts have a probability, also behind weights, reals a density (and a mass at exact zeros). A row that the model holds
        impossible, such as one that differs from a column constant in training, scores minus infinity. With
        ``random_state=None`` the model's own seed is used, so that the answer is the same every time. Of wide counts, the chain
        that is bounded is one whose units of one step are independent; those of ``sample`` call for their like.
        """
        check_is_fitted(self, "plan_")
        steps = SCORE_STEPS if steps is None else steps
        at_least("steps", steps, 1)
        at_least("draws", draws, 1)
        matrix = self._read(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        known = np.ones(matrix.shape[0], dtype=bool)
        if self.scaling_ is not None:
            matrix, known = self.scaling_.counts(sp.csr_matrix(matrix))
        self._check_scorable(matrix)
        seed = self.seed_ if random_state is None else as_seed(random_state)
        rows = Rows(matrix)
        scores = np.full(rows.count, -np.inf)
        for block, start in enumerate(range(0, rows.count, self.block_rows_)):
            index = start + np.flatnonzero(known[start : start + self.block_rows_])
            free, possible = self._to_score(rows, index)
            if not possible.any():
                continue
            free = free.to(self.device_)
            total = torch.zeros(len(free), dtype=torch.float64, device=self.device_)
            for draw in range(draws if self.denoiser_ is not None else 0):
                times = self.process_.grid(steps).to(self.device_)
                with threads_for(self._columns()):
                    total += self._bound(free, times, seeded(self.device_, seed, block, draw)) / draws
            scores[index[possible]] = total.cpu().numpy()
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of :meth:`score_samples`."""
        return float(self.score_samples(X).mean())

    # Saving and loading.

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a directory, as safetensors and JSON."""
        check_is_fitted(self, "plan_")
        described, arrays = self._describe(self.plan_)
        arrays = {f"plan/{name}": array for name, array in arrays.items()} | {"constants": self.constants_}
        if self.denoiser_ is not None:
            learned = self.denoiser_.state_dict()
            arrays |= {f"weights/{name}": tensor.cpu().numpy() for name, tensor in learned.items()}
        if self.scaling_ is not None:
            arrays["scaling"] = self.scaling_.weights
        fitted = {
            "scaling": None if self.scaling_ is None else self.scaling_.described(),
            "plan": described,
            "dtype": self.dtype_.str,
            "sparse": self.sparse_,
            "seed": self.seed_,
            "block_rows": self.block_rows_,
            "history": self.history_,
            "feature_names": getattr(self, "feature_names_in_", np.array([])).tolist(),
        }
        params = {name: storage.encode(value) for name, value in self.get_params().items() if name != "random_state"}
        params["random_state"] = self.random_state if isinstance(self.random_state, int) else None
        storage.write(path, {"class": type(self).__name__, "params": params, "fitted": fitted}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that :meth:`save` wrote."""
        described, arrays = storage.read(path)
        if described.get("class") != cls.__name__:
            raise storage.ModelFileError(
                f"{path} holds a {described.get('class')}, not a {cls.__name__}: load it with that class"
            )
        try:
            return cls._revive(described, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise storage.ModelFileError(f"{path} is damaged ({error!r}): save the model again") from error

    @classmethod
    def _revive(cls, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model = cls(**{name: storage.decode(value) for name, value in described["params"].items()})
        fitted = described["fitted"]
        inner = {name.removeprefix("plan/"): array for name, array in arrays.items() if name.startswith("plan/")}
        plan = model._recall(fitted["plan"], inner)
        constants, scaling = arrays["constants"], fitted["scaling"]
        if scaling is not None:
            scaling = Scaling(arrays["scaling"], **scaling)
        model._adopt(plan, constants, fitted["dtype"], fitted["sparse"], fitted["seed"], model._device(), scaling)
        if model.denoiser_ is not None:
            learned = {
                k.removeprefix("weights/"): torch.from_numpy(v) for k, v in arrays.items() if k.startswith("weights/")
            }
            model.denoiser_.load_state_dict(learned)
        at_least("block_rows", fitted["block_rows"], 1)
        model.block_rows_, model.history_ = fitted["block_rows"], fitted["history"]
        model.n_features_in_ = len(constants)
        if fitted["feature_names"]:
            model.feature_names_in_ = np.array(fitted["feature_names"], dtype=object)
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


@contextmanager
def threads_for(columns: int) -> Iterator[None]:
    """One thread where rows are narrow: more gain nothing there, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if columns >= choices.WIDE else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def at_least(name: str, value: Any, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def default_batch_size(rows: Rows) -> int:
    """Rows per update: the more, the narrower they are."""
    return 2048 if rows.columns == 1 else 1024 if rows.columns < 16 else 256 if rows.columns < choices.WIDE else 128


def default_updates(rows: Rows, bags: bool) -> int:
    """The length of training from the data's size: a tenth of the entries, of wide rows 60 epochs, of bags 110; within bounds."""
    if rows.columns >= choices.WIDE:
        epochs, most = (110, 16_000) if bags else (60, 8000)
        return int(np.clip(epochs * rows.count / default_batch_size(rows), 4000, most))
    return int(np.clip(rows.count * rows.columns / 10, 1000, 2000 if rows.columns == 1 else 3000))


def as_seed(random_state: Any) -> int:
    """An integer seed from whatever scikit-learn calls a random state."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state}")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return int(check_random_state(random_state).randint(2**31 - 1))
