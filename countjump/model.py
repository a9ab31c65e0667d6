"""JumpModel: the whole of JUMP behind the scikit-learn face."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from tqdm import tqdm

from countjump import choices, domains, scaling, storage
from countjump.bags import Bags
from countjump.choices import Plan, one_of
from countjump.compositions import rows_at_once
from countjump.data import Columns, Rows
from countjump.domains import Domain
from countjump.estimator import Estimator
from countjump.likelihood import bag_bound, lower_bound
from countjump.processes.bags import BagJump
from countjump.processes.base import Denoiser, Process
from countjump.sampling import seeded
from countjump.scaling import Scaling
from countjump.schedules import Schedule
from countjump.trainer import Loss, Settings, train

BALANCE_ROWS, BALANCE_UPDATES, BALANCE_UP_TO = 128, 500, 0.99
"""Of the search for the balance of a bag's composition: rows of an update, updates at most (and two for every row: a few
rows tell little), and the quantile of the totals from which on rows are left out, since a few huge ones would decide alone."""

TOTAL_ROWS, TOTAL_UPDATES, TOTAL_CHECKS = 512, 2500, 10_000
"""Of the training of the belief about a bag's total: rows of an update, updates at most, draws of a validation at least."""


class JumpModel(Estimator):
    """A generative model of non-negative data by thinning and thickening counts (Chen and Zhou, ICML 2023).

    Parameters
    ----------
    domain : "auto", a name ("non-negative", "count", "binary", "one-hot", "simplex", "bounded") or a Domain
        What the values are; "auto" looks.
    process : "auto", "poisson" or "binomial"
        How data becomes counts: z_0 ~ Pois(λ x_0), or the counts themselves.
    belief : "auto", "poisson" (the paper's), "mixture" or "composition" (wide counts, sparse reals)
    lam : "auto", a number or one per column
        The paper's λ; for proportions, the number of units.
    components : int or None
        Components of a mixture, of each family; None for 8 with few columns, else 4.
    objective : "auto", "nll", "reweighted" or "elbo"
    decode : "auto", "latent" g(z_0/λ), "mean" g(E[x_0]) or "draw"
    schedule : "linear-beta", "cosine", "geometric" or a Schedule
    network : "mlp"
    width, batch_size, learning_rate, max_updates : number or None
        None chooses from the data's size.
        The belief about the totals of wide rows is learned beforehand, at a rate of its own and in at most ``max_updates``.
    lr_schedule : "cosine" or "constant"
    ema : float
        Decay of the moving average of the weights.
    validation_fraction : float
        Share of the rows held out to choose the best weights, at most 10,000; 0 for none.
    checkpoint_dir, checkpoint_every : path and number of updates, or None
        Where a killed fit finds its way back.
    device : "auto", "cpu", "cuda", ...
    random_state : int, RandomState or None
    progress : bool
        Progress bars and a word on what "auto" chose.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).poisson(3.0, size=(200, 2))
    >>> model = JumpModel(max_updates=20, random_state=0, progress=False).fit(X)
    >>> model.sample(3, steps=5, random_state=0).shape
    (3, 2)
    """

    def __init__(
        self,
        domain: str | Domain = "auto",
        process: str = "auto",
        belief: str = "auto",
        lam: Any = "auto",
        components: int | None = None,
        objective: str = "auto",
        decode: str = "auto",
        schedule: str | Schedule = "linear-beta",
        network: str = "mlp",
        width: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        lr_schedule: str = "cosine",
        ema: float = 0.999,
        validation_fraction: float = 0.1,
        max_updates: int | None = None,
        checkpoint_dir: str | Path | None = None,
        checkpoint_every: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        progress: bool = True,
    ) -> None:
        self.domain = domain
        self.process = process
        self.belief = belief
        self.lam = lam
        self.components = components
        self.objective = objective
        self.decode = decode
        self.schedule = schedule
        self.network = network
        self.width = width
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.ema = ema
        self.validation_fraction = validation_fraction
        self.max_updates = max_updates
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.device = device
        self.random_state = random_state
        self.progress = progress

    @property
    def domain_(self) -> Domain:
        """The domain of the data."""
        return self.plan_.whole_domain

    @property
    def belief_(self) -> str:
        """The belief in use."""
        return self.plan_.belief

    @property
    def process_name_(self) -> str:
        """The process in use."""
        return self.plan_.process

    @property
    def lam_(self) -> np.ndarray:
        """λ of every column (1 for a constant one); for rows of proportions the number of units, once."""
        if len(self.plan_.lam) != np.isnan(self.constants_).sum():
            return self.plan_.lam
        lam = np.ones(len(self.constants_))
        lam[np.isnan(self.constants_)] = self.plan_.lam
        return lam

    @property
    def choices_(self) -> dict[str, str]:
        """What "auto" chose, and why."""
        return self.plan_.reasons | ({} if self.scaling_ is None else {"scaling": str(self.scaling_)})

    def _uncover(self, X: domains.Matrix) -> Scaling | None:
        """Looked for in wide sparse reals of which nothing is said."""
        said = (self.domain, self.process, self.belief, self.lam)
        if X.shape[1] < choices.WIDE or any(not isinstance(each, str) or each != "auto" for each in said):
            return None
        values = X.data if sp.issparse(X) else X
        if (
            np.count_nonzero(values) > (1 - choices.SPARSE) * X.shape[0] * X.shape[1]
            or (values == np.floor(values)).all()
        ):
            return None
        found = scaling.find(sp.csr_matrix(X))
        if found is not None and found.counts(sp.csr_matrix(X))[0].max() == 1:
            return None  # the columns that are there say it all
        if found is not None and self.progress:
            tqdm.write(f"countjump: scaling = {found}")
        return found

    def _plan(self, X: domains.Matrix) -> tuple[Plan, np.ndarray]:
        reasons: dict[str, str] = {}
        domain = self._resolve_domain(X, reasons)
        process = choices.choose_process(self.process, domain, self.lam, reasons)
        rows = Rows(X)
        stats = rows.statistics()
        scaled = self.process == "poisson" or not isinstance(self.lam, str)
        zeros = float(stats.zero_share.mean())
        belief = choices.choose_belief(self.belief, domain, process, X.shape[1], zeros, scaled, reasons)
        constant = stats.smallest == stats.largest
        # What varies of a simplex is a simplex again, of what the constant shares leave.
        remainder = float(1 - stats.largest[constant].sum()) if isinstance(domain, domains.Simplex) else 1.0
        if constant.all():
            remainder = 1.0
        varying = np.flatnonzero(~constant)
        plan = choices.choose(
            rows.select(varying).scaled(1 / remainder),
            domain,
            X.shape[1],
            varying,
            process=process,
            belief=belief,
            lam=self.lam,
            components=self.components,
            objective=self.objective,
            decode=self.decode,
            schedule=self.schedule,
            network=self.network,
            width=self.width,
            reasons=reasons,
        )
        plan.remainder = remainder
        if self.progress:
            for name, reason in reasons.items():
                tqdm.write(f"countjump: {name} = {reason}")
        return plan, np.where(constant, stats.largest, np.nan)

    def _resolve_domain(self, X: domains.Matrix, reasons: dict[str, str]) -> Domain:
        if isinstance(self.domain, Domain):
            domain = self.domain
        elif not isinstance(self.domain, str):
            raise TypeError(f"domain must be a name or a Domain, got {self.domain!r}")
        elif one_of("domain", self.domain, ("auto", *domains.DOMAINS)) == "auto":
            domain, why = domains.infer(X)
            reasons["domain"] = f"{domain}: {why}"
        elif self.domain == "bounded":
            domain = domains.Bounded(float(X.max()) or 1.0)
        else:
            domain = domains.DOMAINS[self.domain]()
        domain.check(X)
        return domain

    def _build(self, plan: Plan) -> tuple[Process, Denoiser]:
        return choices.build(plan)

    def _describe(self, plan: Plan) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        described = {name: value for name, value in vars(plan).items() if name not in ("lam", "columns", "gammas")}
        arrays = {"lam": plan.lam, "gammas": plan.gammas} | {
            f"columns/{name}": array for name, array in asdict(plan.columns).items()
        }
        return {k: v if k == "reasons" else storage.encode(v) for k, v in described.items()}, arrays

    def _recall(self, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Plan:
        columns = {k.removeprefix("columns/"): v for k, v in arrays.items() if k.startswith("columns/")}
        plain = {k: v if k == "reasons" else storage.decode(v) for k, v in described.items()}
        return Plan(lam=arrays["lam"], gammas=arrays["gammas"], columns=Columns(**columns), **plain)

    def _prepare(self, rows: Rows, training: np.ndarray, kept: np.ndarray, updates: int) -> None:
        if not isinstance(self.process_, BagJump):
            return
        process, pace = self.process_, self.process_.head.pace
        choices.point(process, rows, np.sort(training[: choices.DIRECTION_ROWS]))
        totals = rows.filled() if process.amounts else rows.totals()
        on_device = torch.from_numpy(totals).to(self.device_)[:, None]

        def loss(index: np.ndarray, generator: torch.Generator) -> torch.Tensor:
            return process.loss_of_totals(on_device[torch.from_numpy(index)], generator).mean()

        @torch.no_grad()
        def validation() -> float:
            return float(loss(np.tile(kept, -(-TOTAL_CHECKS // len(kept))), seeded(self.device_, self.seed_, 3)))

        train(
            pace,
            lambda index, generator: loss(training[index], generator),
            len(training),
            self._settings("totals", min(updates, TOTAL_UPDATES), TOTAL_ROWS, 2e-3),
            validation if len(kept) else None,
            strata=totals[training],
        )
        pace.requires_grad_(False)

    def _settle(self, loss: Loss, rows: Rows, kept: np.ndarray, updates: int) -> None:
        """A network knows better which columns of its own rows come anew, and expects too few new ones elsewhere."""
        if not isinstance(self.process_, BagJump):
            return
        totals = (rows.filled() if self.process_.amounts else rows.totals())[kept]
        kept = kept[totals <= np.quantile(totals, BALANCE_UP_TO)]
        self.denoiser_.requires_grad_(False)
        self.process_.head.balance.requires_grad_(True)
        train(
            self.denoiser_,
            lambda index, generator: loss(kept[index], generator),
            len(kept),
            self._settings("balance", min(updates, BALANCE_UPDATES, 2 * len(kept)), BALANCE_ROWS, 0.03),
        )
        self.denoiser_.requires_grad_(False)

    def _settings(self, title: str, updates: int, rows: int, rate: float) -> Settings:
        """Of what is learned beside the network."""
        return Settings(
            updates=updates,
            batch_size=rows,
            learning_rate=rate,
            warmup=min(100, updates // 10),
            seed=self.seed_,
            progress=self.progress,
            title=title,
        )

    def _batch(self, rows: Rows, index: np.ndarray) -> Any:
        if isinstance(self.process_, BagJump):
            return rows.bags(index).to(self.device_)
        return self.process_.encoding.lift(super()._batch(rows, index))

    def _project(self, x: torch.Tensor) -> torch.Tensor:
        return self.plan_.domain.project(x) * self.plan_.remainder

    def _check_scorable(self, X: domains.Matrix) -> None:
        choices.check_scorable(self.plan_)
        choices.family(self.plan_.whole_domain).check(X)

    def _possible(self, free: np.ndarray) -> np.ndarray:
        bound = np.asarray(getattr(self.plan_.domain, "max", None) or np.inf, dtype=float)
        return (free / self.plan_.remainder <= bound).all(1)

    def _to_score(self, rows: Rows, index: np.ndarray) -> tuple[Any, np.ndarray]:
        if not isinstance(self.process_, BagJump):
            return super()._to_score(rows, index)
        x, constants = rows.bags(index), torch.from_numpy(self.constants_)
        fixed = ~constants.isnan()
        agrees = torch.where(x.value == constants[x.column], 1.0, -1.0) * fixed[x.column]
        possible = x.valued(agrees).totals() == constants[fixed].count_nonzero()
        x = x.rows(possible.nonzero().squeeze(1))
        x = x.where(~fixed[x.column])
        place = (~fixed).cumsum(0) - 1
        return Bags(x.row, place[x.column], x.value, (len(x), self._columns())), possible.numpy()

    def _bound(self, free: Any, times: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        if isinstance(self.process_, BagJump):
            pieces = torch.arange(len(free), device=free.device).split(rows_at_once(self._columns()))
            bounds = [bag_bound(self.process_, self.denoiser_, free.rows(p), times, generator) for p in pieces]
            return torch.cat(bounds)
        remainder = self.plan_.remainder
        bound = lower_bound(self.process_, self.denoiser_, free / remainder, times, generator)
        if remainder == 1:
            return bound
        # A density of shares of the remainder is one of shares of the whole, divided by its volume.
        inside = free.max(1).values < remainder
        return bound - inside * ((free.shape[1] - 1) * np.log(remainder))
