"""JumpModel: the whole of JUMP behind the scikit-learn face."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from torch import nn
from tqdm import tqdm

from countjump import domains, persistence, planning, transforms
from countjump.denoiser import Denoiser
from countjump.domains import Domain
from countjump.estimator import WHOLE_PARAMETERS, Estimator, whole
from countjump.planning import Part, Plan
from countjump.planning.decisions import BELIEFS, PROCESSES, SPARSE, one_of
from countjump.planning.plan import network_name
from countjump.processes.base import Process
from countjump.processes.jump import OBJECTIVES
from countjump.schedules import Schedule
from countjump.transforms import Weights


@dataclass(eq=False, repr=False)
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
    network : "mlp", or a class or factory of one's own, called as (inputs, outputs, width)
        See ``docs/extending.md``.
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

    domain: str | Domain = "auto"
    process: str = "auto"
    belief: str = "auto"
    lam: Any = "auto"
    components: int | None = None
    objective: str = "auto"
    decode: str = "auto"
    schedule: str | Schedule = "linear-beta"
    network: str | Callable[[int, int, int], nn.Module] = "mlp"

    @property
    def domain_(self) -> Domain:
        """The domain of the data."""
        return self.plan_.domain

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
        return self.plan_.lam

    @property
    def choices_(self) -> dict[str, str]:
        """What "auto" chose, and why."""
        return self.plan_.reasons

    @classmethod
    def load(cls, path: str | Path, network: Callable[[int, int, int], nn.Module] | None = None) -> Self:
        """Read a model that :meth:`save` wrote; one with a network of one's own needs that ``network`` again."""
        return cls._load(path, {} if network is None else {"network": network})

    def _find_scaling(self, X: domains.Matrix) -> Weights | None:
        """Looked for in wide sparse reals of which nothing is said."""
        self._weights_said: dict[str, str] = {}
        said = (self.domain, self.process, self.belief, self.lam)
        if X.shape[1] < planning.WIDE or any(not isinstance(each, str) or each != "auto" for each in said):
            return None
        values = X.data if sp.issparse(X) else X
        if np.count_nonzero(values) > (1 - SPARSE) * X.shape[0] * X.shape[1] or (values == np.floor(values)).all():
            return None
        found, reason = transforms.find(sp.csr_matrix(X))
        if found is not None and found.counts(sp.csr_matrix(X))[0].max() == 1:
            found, reason = None, f"none: {reason}, and every count is one"  # the columns that are there say it all
        self._weights_said = {"scaling": reason}
        return found

    def _plan(self, X: domains.Matrix, params: dict[str, Any]) -> Plan:
        plan = planning.make_plan(X, params)
        plan.reasons.update(self._weights_said)
        if self.progress:
            for name, reason in plan.reasons.items():
                tqdm.write(f"countjump: {name} = {reason}")
        return plan

    def _build(self, plan: Plan) -> tuple[Any, Process | None, Denoiser | None]:
        return planning.build(plan, self.network)

    def _describe(self, plan: Plan) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        plain = {name: value for name, value in vars(plan).items() if name not in ("lam", "parts")}
        described = {name: value if name == "reasons" else persistence.encode(value) for name, value in plain.items()}
        described["parts"] = [
            {"kind": part.kind, "options": {k: persistence.encode(v) for k, v in part.options.items()}}
            for part in plan.parts
        ]
        arrays = {"lam": plan.lam}
        for i, part in enumerate(plan.parts):
            arrays[f"{i}/columns"] = part.columns
            arrays |= {f"{i}/array/{name}": array for name, array in part.arrays.items()}
        return described, arrays

    def _recall(self, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Plan:
        plain = {k: v if k == "reasons" else persistence.decode(v) for k, v in described.items() if k != "parts"}
        if not plain["network"].startswith("own: "):
            network_name(plain["network"])
        elif isinstance(self.network, str):
            name = plain["network"].removeprefix("own: ")
            raise persistence.OwnNetworkError(
                f"this model was fitted with a network of one's own, {name}, of which only the name is stored: pass it, "
                f"JumpModel.load(path, network={name})"
            )
        parts = []
        for i, part in enumerate(described["parts"]):
            own = {k.removeprefix(f"{i}/array/"): v for k, v in arrays.items() if k.startswith(f"{i}/array/")}
            options = {k: persistence.decode(v) for k, v in part["options"].items()}
            parts.append(Part(part["kind"], arrays[f"{i}/columns"], options, own))
        if not (isinstance(plain["domain"], Domain) and isinstance(plain["schedule"], Schedule)):
            raise ValueError(f"{plain['domain']!r} is no domain, or {plain['schedule']!r} no schedule")
        for name, value in itertools.chain(plain.items(), *(part.options.items() for part in parts)):
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is {value}")
        for name in ("process", "belief", "objective"):
            one_of(name, plain[name], {"process": PROCESSES, "belief": BELIEFS, "objective": OBJECTIVES}[name])
        if not all(isinstance(each, str) for pair in plain["reasons"].items() for each in pair):
            raise ValueError("its reasons are no sentences")
        if plain["t_max"] is not None and not 0 < plain["t_max"] <= 1:
            raise ValueError(f"t_max is {plain['t_max']!r}")
        for part in parts:
            for name in WHOLE_PARAMETERS.keys() & part.options.keys():
                whole(name, part.options[name], 0, WHOLE_PARAMETERS[name])
            if not 0 <= part.options.get("escape", 0) < 1:
                raise ValueError(f"escape is {part.options['escape']!r}")
        columns = np.sort(np.concatenate([part.columns for part in parts]))
        if not np.array_equal(columns, np.arange(len(columns))):
            raise ValueError(f"its parts do not have every one of {len(columns)} columns once")
        return Plan(lam=arrays["lam"], parts=parts, **plain)

    def _params_to_save(self) -> dict[str, Any]:
        params = super()._params_to_save()
        return params | ({} if isinstance(self.network, str) else {"network": "mlp"})

    def _check_scorable(self, X: domains.Matrix) -> None:
        why = None if self.process_ is None else self.process_.why_no_likelihood()
        if why is not None:
            raise ValueError(why)
        self.plan_.domain.unbounded().check(X)

    def _possible_rows(self) -> float:
        if self.plan_.domain.name == "one-hot":
            return max(self.block_.varying, 1)
        if not self.plan_.domain.whole:
            return math.inf
        bounds = self.plan_.domain.bounds(self.block_.columns)[self.plan_.parts[-1].columns]
        log_rows = np.log1p(bounds).sum() if self.block_.varying else 0.0
        return math.exp(min(log_rows, 700.0))
