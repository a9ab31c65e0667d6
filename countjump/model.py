"""JumpModel: the whole of JUMP behind the scikit-learn face."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from torch import nn
from tqdm import tqdm

from countjump import domains, persistence, planning, transforms
from countjump.data import Annotated, Layout, Pictures
from countjump.denoiser import Denoiser
from countjump.domains import Domain
from countjump.networks import UNetSizes
from countjump.parameters import WHOLE_PARAMETERS, whole
from countjump.planning import Part, Plan
from countjump.planning.decisions import BELIEFS, PROCESSES, SPARSE, one_of
from countjump.planning.images import BELIEFS as IMAGE_BELIEFS
from countjump.planning.plan import network_name
from countjump.processes.base import Process
from countjump.processes.jump import OBJECTIVES
from countjump.schedules import Schedule
from countjump.starts import Starts
from countjump.transforms import Coding, Weights


class HiddenParameter:
    """A parameter that is not an attribute: scikit-learn takes whatever has an attribute ``transform`` for a transformer.

    ``get_params()`` has it.
    """

    def __init__(self, default: Any) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self.default
        raise AttributeError(f"{self.name} is a parameter: get_params()[{self.name!r}]")

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value


@dataclass(eq=False, repr=False)
class JumpModel(Starts):
    """A generative model of tables, counts and sparse rows by thinning and thickening counts (Chen and Zhou, ICML 2023).

    Parameters
    ----------
    domain : "auto", a name, a Domain or a mapping from columns to these
        What the values are. The names are "non-negative", "count", "binary", "one-hot", "simplex", "bounded" and "categorical";
        "auto" looks at every column (at wide sparse rows as a whole). A mapping's keys are a column's name, its index, a range, a
        slice (from Python 3.12 on) or a tuple of these; columns that it leaves out are "auto". See ``docs/tables.md``.
    transform : "auto", None, an Offset, a Step, a tuple of both, or a mapping from columns to these; or Weights
        What is taken off a column before it is a count, or the weights that wide counts have; "auto" looks, None takes values as
        they are.
    process : "auto", "poisson" or "binomial"
        How data becomes counts: z_0 ~ Pois(λ x_0), or the counts themselves.
    belief : "auto", "poisson" (the paper's), "mixture" or "composition" (wide counts, sparse reals)
        Of pictures also "logistic" or "categorical".
    lam : "auto", a number or one per column
        The paper's λ; for proportions, the number of units.
    components : int or None
        Components of a mixture, of each family; None for 8 with few columns, else 4.
    objective : "auto", "nll", "reweighted" or "elbo"
    decode : "auto", "latent" g(z_0/λ), "mean" g(E[x_0]) or "draw"
    schedule : "auto", "linear-beta", "cosine", "geometric" or a Schedule
    network : "auto", "mlp", "unet", a ``UNetSizes``, or a class or factory of one's own, called as (inputs, outputs, width)
        "auto" takes the U-Net for pictures, X of three or four dimensions. See ``docs/models/images.md`` and ``docs/extending.md``.
    missing : "model" or "error"
        What missing values of a frame are: part of the model, so that samples have some too, or an error. Those of arrays are one.
    identifiers : "fresh" or "drop"
        Columns of a frame that only name their rows are not modelled: samples have fresh ones, or none.
    layer : str or None
        The layer of an AnnData that is modelled; None for its X.
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
    clusters : "auto", None or a number
        Of pictures: groups that are alike, found by k-means. The model is given a picture's group as it is given a label, and draws
        one for each that it samples: with few steps pictures are then more coherent. "auto" finds up to 30 from 1,000 pictures on.
    augment : None or "flip"
        Of pictures: half of those of an update are seen from right to left.
    accumulate : int
        Parts of a batch that are worked out one after another, for want of memory.
    precision : "float32" or "bfloat16"
        Of the network's work; counts are drawn and scored in float64 all the same.
    compile : bool
        Whether torch compiles the network, which takes a minute and needs a compiler.
    callbacks : list of functions or None
        Called with (update, losses, model) at every validation, the model having its averaged weights: it can draw samples.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).poisson(3.0, size=(200, 2))
    >>> model = JumpModel(max_updates=20, random_state=0, progress=False).fit(X)
    >>> model.sample(3, steps=5, random_state=0).shape
    (3, 2)
    """

    domain: str | Domain | Mapping[Any, Any] = "auto"
    process: str = "auto"
    belief: str = "auto"
    lam: Any = "auto"
    components: int | None = None
    objective: str = "auto"
    decode: str = "auto"
    schedule: str | Schedule = "auto"
    transform: Any = HiddenParameter("auto")
    network: str | UNetSizes | Callable[[int, int, int], nn.Module] = "auto"
    clusters: int | str | None = field(default="auto", kw_only=True)
    missing: str = "model"
    identifiers: str = "fresh"
    layer: str | None = None

    @property
    def domain_(self) -> Domain | dict[int, Domain]:
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
        return self.plan_.reasons | ({"y": str(self.conditions_)} if self.knows_y else {})

    def decide(self, X: Any, y: Any = None) -> Self:
        """Decide all that ``fit`` does, and train nothing: ``plan_``, ``domain_`` and ``choices_`` say what the model would be.

        >>> JumpModel(progress=False, random_state=0).decide(np.arange(100)[:, None] % 7).domain_
        Count(max=6.0)
        """
        vars(self)["_train"] = lambda *_: None
        try:
            return self.fit(X, y)
        finally:
            vars(self).pop("_train", None)

    @classmethod
    def load(cls, path: str | Path, network: Callable[[int, int, int], nn.Module] | None = None) -> Self:
        """Read a model that :meth:`save` wrote; one with a network of one's own needs that ``network`` again."""
        return cls._load(path, {} if network is None else {"network": network})

    _takes_negatives = True

    def _find_layout(self, X: Any) -> Layout | Annotated | Pictures | None:
        parameters = self.get_params()
        one_of("missing", parameters["missing"], ("model", "error"))
        one_of("identifiers", parameters["identifiers"], ("fresh", "drop"))
        found = Annotated.of(X, parameters["layer"]) or Pictures.of(X)
        if found is not None:
            return found
        declared: dict[int, tuple[Any, ...]] = {}
        if isinstance(self.domain, Mapping):
            names = planning.Names(X.shape[1], getattr(X, "columns", None)) if hasattr(X, "shape") else None
            for key, domain in self.domain.items():
                if isinstance(domain, domains.Categorical) and domain.levels is not None and names is not None:
                    declared |= dict.fromkeys(names.find(key, "domain"), domain.levels)
        elif isinstance(self.domain, domains.Categorical) and self.domain.levels is not None and hasattr(X, "shape"):
            declared = dict.fromkeys(range(X.shape[1]), self.domain.levels)
        return Layout.of(X, declared, parameters["missing"], parameters["identifiers"])

    def _find_scaling(self, X: domains.Matrix) -> Weights | None:
        """Looked for in reals that are wide or kept sparse, and mostly zero, and of which nothing is said."""
        self._weights_said: dict[str, str] = {}
        asked = self.get_params()["transform"]
        if isinstance(asked, Weights):
            asked.exact_counts(sp.csr_matrix(X))
            self._weights_said = {"scaling": f"{asked}, as declared"}
            return asked
        if asked is None:
            return None
        said = (self.domain, self.process, self.belief, self.lam)
        if isinstance(self.layout_, Pictures):
            return None
        if any(not isinstance(each, str) or each != "auto" for each in said):
            return None
        if X.shape[1] < planning.WIDE and not sp.issparse(X):
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
        layout = self.layout_
        strings = {} if layout is None else {i: len(levels) for i, levels in layout.levels.items()}
        if isinstance(layout, Pictures):
            plan = planning.plan_images(X, layout.shape, params)
        else:
            names = planning.Names(X.shape[1], self._column_names())
            if layout is not None:
                names = planning.Names(
                    len(layout.names), self._column_names(), layout.left_out, layout.stand_ins, layout.written
                )
            plan = planning.make_plan(X, params, names, strings)
        plan.reasons.update(self._weights_said | ({} if layout is None else layout.reasons()))
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
            {
                "kind": part.kind,
                "domain": persistence.encode(part.domain),
                "options": {k: persistence.encode(v) for k, v in part.options.items()},
            }
            for part in plan.parts
        ]
        arrays = {"lam": plan.lam}
        for i, part in enumerate(plan.parts):
            arrays[f"{i}/columns"] = part.columns
            arrays |= {f"{i}/array/{name}": array for name, array in part.arrays.items()}
            if part.coding is not None:
                arrays |= {f"{i}/coding/{name}": array for name, array in part.coding.described().items()}
        return described, arrays

    def _recall(self, described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Plan:
        plain = {k: v if k == "reasons" else persistence.decode(v) for k, v in described.items() if k != "parts"}
        if not plain["network"].startswith("own: "):
            name = network_name(plain["network"])
            if not isinstance(self.network, str | UNetSizes):
                raise persistence.OwnNetworkError(
                    f"this model was fitted with a network of countjump's, {name!r}, and not with one of one's own: "
                    "JumpModel.load(path), without network"
                )
        elif isinstance(self.network, str | UNetSizes):
            name = plain["network"].removeprefix("own: ")
            raise persistence.OwnNetworkError(
                f"this model was fitted with a network of one's own, {name}, of which only the name is stored: pass it, "
                f"JumpModel.load(path, network={name})"
            )
        parts = []
        for i, part in enumerate(described["parts"]):
            own = persistence.under(arrays, f"{i}/array/")
            coding = persistence.under(arrays, f"{i}/coding/")
            options = {k: persistence.decode(v) for k, v in part["options"].items()}
            domain = persistence.decode(part["domain"])
            if not isinstance(domain, Domain):
                raise ValueError(f"{domain!r} is no domain")
            columns = arrays[f"{i}/columns"]
            made = Coding.recall(coding, len(columns)) if coding else None
            parts.append(Part(part["kind"], columns, domain, options, own, made))
        if not isinstance(plain["schedule"], Schedule):
            raise ValueError(f"{plain['schedule']!r} is no schedule")
        for name, value in itertools.chain(plain.items(), *(part.options.items() for part in parts)):
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is {value}")
        for name in ("process", "belief", "objective"):
            known = {
                "process": (*PROCESSES, "mixed"),
                "belief": (*BELIEFS, *IMAGE_BELIEFS, "mixed"),
                "objective": OBJECTIVES,
            }[name]
            one_of(name, plain[name], known)
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

    @classmethod
    def _revive(cls, described: dict[str, Any], arrays: dict[str, np.ndarray], given: dict[str, Any]) -> Self:
        model = super()._revive(described, arrays, given)
        levels = {} if model.layout_ is None else model.layout_.levels
        for part in model.plan_.parts:
            for place, column in enumerate(part.columns.tolist()):
                if column not in levels:
                    continue
                held = part.arrays["levels" if part.kind == "categories" else "values"][place]
                if not np.isin(held, np.arange(len(levels[column]))).all():
                    raise ValueError(f"column {column} has levels that its table does not have")
        return model

    def _params_to_save(self) -> dict[str, Any]:
        params = super()._params_to_save()
        return params | ({} if isinstance(self.network, str | UNetSizes) else {"network": "auto"})

    def _check_scorable(self, X: domains.Matrix) -> None:
        why = None if self.process_ is None else self.process_.why_no_likelihood()
        if why is not None:
            raise ValueError(why)
        for part in self.plan_.parts:
            if part.coding is None and part.kind not in ("constant", "categories"):
                columns = part.columns
                if part.domain.name in ("simplex", "one-hot"):  # of which some columns may never change
                    columns = np.concatenate([p.columns for p in self.plan_.parts if p.domain.name == part.domain.name])
                domains.check_not_negative(X[:, columns])
                part.domain.unbounded().check(X[:, columns])

    def _possible_rows(self) -> float:
        return math.exp(min(sum(self._log_values(part) for part in self.plan_.parts), 700.0))

    @staticmethod
    def _log_values(part: Part) -> float:
        """ln of how many different values a part of a row can have."""
        if part.kind == "constant":
            return 0.0
        if part.kind == "categories":
            return float(np.log(part.arrays["sizes"]).sum())
        if part.domain.name == "one-hot":
            return math.log(len(part.columns))
        return float(np.log1p(part.domain.bounds(len(part.columns))).sum()) if part.domain.whole else math.inf
