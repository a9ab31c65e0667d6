"""Parameters of every type and size: of the constructor, of ``sample`` and of ``score_samples``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from countjump import Binary, Bounded, Cosine, Count, Geometric, JumpModel, LinearBeta, NonNegative, OneHot, Simplex
from countjump.baselines import D3PM, DDPM

from .case import Case
from .oracle import attempt, check, check_model, check_rows, equal, granted

WHOLE = [int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
REAL = [float, np.float16, np.float32, np.float64]
JUNK = [None, True, "", "bogus", "1", b"1", 0, -1, 0.5, -0.5, 1.5, float("nan"), float("inf"), -float("inf"), 1e300]
JUNK += [1e-300, 2**63]
JUNK += [-(2**63), 2**64, 10**400, [], [1, 2], (1,), {}, {"a": 1}, object(), Count, print, 1j, np.array(2)]
JUNK += [np.array([1, 2])]
JUNK += [np.nan, np.float16(0.5), np.uint8(0), np.bool_(True), np.str_("auto"), Path("x"), torch.tensor(2), "\x1b[31m"]
JUNK += ["\0"]

LENGTHS = {
    "max_updates": (1, 3),
    "batch_size": (1, 9),
    "width": (1, 8),
    "components": (1, 4),
    "checkpoint_every": (1, 3),
}
SHARES = {"ema": (0, 0.999), "validation_fraction": (0, 0.9), "learning_rate": (1e-5, 1e-2), "lam": (1.0, 20.0)}
NAMES = {
    "domain": ["auto", "count", "non-negative", Count(), Count(max=200), NonNegative(), Bounded(200.0)],
    "schedule": ["linear-beta", "cosine", "geometric", LinearBeta(), Cosine(), Geometric()],
    "lr_schedule": ["cosine", "constant"],
    "process": ["auto", "poisson"],
    "device": ["auto", "cpu"],
    "objective": ["auto", "nll"],
}
"""Values that must be taken."""

STRANGE = {
    "domain": [Binary(), OneHot(), Simplex(), Bounded, Count, Count(max=1), Count(max=(1, 2)), "Count", Count(max=0)],
    "device": [
        "xpu",
        None,
        torch.device("cpu"),
        "cuda",
        "cuda:99",
        "meta",
        "mps",
        "cpu:7",
        "hpu",
        "lazy",
        torch.device("meta"),
        0,
    ],
    "random_state": [2**32, 2**63, 2**64 - 1, 2**64, 2**65, np.uint64(2**64 - 1), np.random.RandomState(0), np.random],
    "width": [2**31, 2**20],
    "batch_size": [2**31, 2**62],
    "checkpoint_every": [2**62],
    "checkpoint_dir": [2, True, b"x", "a" * 300, "/dev/null/x"],
    "lam": [[1.0, 2.0], np.array([1.0, 2.0, 3.0]), (1, 2, 3, 4), 1e-30, 1e30, [1, -1], [np.nan, 1.0], [[1.0]], 10**30],
    "learning_rate": [1e30, 1e-300, 100.0],
    "ema": [1.0, 0.9999999999, np.float16(0.9999), np.nextafter(1, 0)],
    "network": ["transformer", 5, ["mlp"]],
    "process": ["binomial", "Poisson"],
    "belief": ["poisson", "mixture", "composition"],
    "decode": ["latent", "mean", "draw"],
    "objective": ["reweighted", "elbo"],
    "progress": [0, 1],
}
REFUSED = {("checkpoint_dir", 2), ("domain", Count), ("device", "xpu")}
"""What must be refused at once."""


def case(case: Case) -> None:
    case.scenario({_valid: 4, _strange: 5, _calls: 4, _domains: 1, _baselines: 1})


def _data(case: Case) -> np.ndarray:
    return case.numbers().poisson(3.0, (case.whole(1, 9), 2))


def _number(case: Case, bounds: tuple[float, float]) -> Any:
    """A number in one of the ways that Python and numpy write it."""
    if isinstance(bounds[0], int) and isinstance(bounds[1], int):
        return case.one_of(WHOLE)(case.whole(*bounds))
    return case.one_of(REAL)(case.random.uniform(*bounds))


def _valid(case: Case) -> None:
    """What must be taken, in all of its types; saved, loaded and resumed."""
    given: dict[str, Any] = {"max_updates": 2, "width": 4, "random_state": case.one_of(WHOLE)(case.whole(0, 99))}
    for name in case.random.sample(sorted(LENGTHS | SHARES | NAMES), case.whole(1, 4)):
        bounds = (LENGTHS | SHARES).get(name)
        given[name] = case.one_of(NAMES[name]) if bounds is None else _number(case, bounds)
    if case.chance(0.3):
        given["checkpoint_dir"] = case.one_of([str, Path])(case.place / "checkpoints")
    case.note({k: f"{type(v).__name__} {v}" for k, v in given.items()})
    X = _data(case)
    model = granted(lambda: JumpModel(progress=False, **given).fit(X), "fit")
    rows = check_model(model, X)
    granted(lambda: model.save(case.place / "model"), "save")
    back = granted(lambda: JumpModel.load(case.place / "model"), "load")
    check(equal(rows, back.sample(4, steps=3, random_state=7)), "wrong result", "load: other rows than before saving")
    again = granted(lambda: JumpModel(progress=False, **given).fit(X), "fit")
    check(equal(rows, check_model(again, X)), "wrong result", "fit: another model by the same seed")


def _strange(case: Case) -> None:
    """Anything: a right model, or a word at once."""
    names = sorted({*STRANGE, *LENGTHS, *SHARES, *NAMES})
    given: dict[str, Any] = {"max_updates": 2, "width": 4, "random_state": 0}
    name = case.one_of(names)
    value = case.one_of(STRANGE[name] if name in STRANGE and case.chance(0.6) else JUNK)
    if name == "max_updates" and (value is None or (isinstance(value, int) and value > 9)):
        value = -3  # a long fit is no fault
    if name == "network" and callable(value):
        value = "bogus"  # what is called like a network and is none is the caller's
    if name == "checkpoint_dir" and isinstance(value, str | Path) and not str(value).startswith("/"):
        value = type(value)(f"{case.place}/{value}")
    given[name] = value
    case.note(f"{name}={value!r}")
    X = _data(case)
    model, error = attempt(lambda: JumpModel(**{"progress": False} | given).fit(X))
    must = isinstance(value, type | str | int) and not isinstance(value, bool) and (name, value) in REFUSED
    check(error is not None or not must, "accepted", f"{name}={value!r}")
    if error is None:
        check_model(model, X)
        _, error = attempt(lambda: model.save(case.place / "model"))
        check(error is None or name == "network", "refused", f"save with {name}", error)


def _fitted(case: Case) -> JumpModel:
    return JumpModel(max_updates=1, width=4, random_state=0, progress=False).fit(_data(case))


def _calls(case: Case) -> None:
    model = _fitted(case)
    if case.chance(0.5):
        count, steps, seed = (case.one_of(WHOLE)(case.whole(*b)) for b in ((0, 9), (1, 5), (0, 99)))
        case.note(f"sample({count!r}, steps={steps!r}, random_state={seed!r})")
        rows = granted(lambda: model.sample(count, steps=steps, random_state=seed), "sample")
        check_rows(model, rows, int(count))
        plain = model.sample(int(count), steps=int(steps), random_state=int(seed))
        check(equal(rows, plain), "wrong result", "sample: numpy's numbers draw other rows")
        X = model.sample(3, random_state=0)
        scores = granted(lambda: model.score_samples(X, steps=steps, draws=steps, random_state=seed), "score_samples")
        plain = model.score_samples(X, steps=int(steps), draws=int(steps), random_state=int(seed))
        check(np.array_equal(scores, plain), "wrong result", "score_samples: numpy's numbers")
        return
    junk = [value for value in JUNK if not (isinstance(value, int) and value > 2**40)]  # to ask for much is no fault
    name = case.one_of(["n_samples", "steps", "random_state", "draws"])
    value = case.one_of(STRANGE["random_state"] + JUNK if name == "random_state" else junk)
    case.note(f"{name}={value!r}")
    if name == "draws" or (name != "n_samples" and case.chance(0.5)):
        scores, error = attempt(lambda: model.score_samples([[1, 2]], **{"steps": 3, name: value}))
        check(error is not None or scores.shape == (1,), "wrong result", "score_samples")
        return
    rows, error = attempt(lambda: model.sample(**{"n_samples": 2, "steps": 2} | {name: value}))
    if error is None:
        check_rows(model, rows, int(value) if name == "n_samples" else 2)


def _domains(case: Case) -> None:
    kind = case.one_of([Count, Bounded])
    value = case.one_of([*JUNK, [1, "a"], (3, float("inf")), [[1]], np.int8(5), 2**53 + 1])
    case.note(f"{kind.__name__}(max={value!r})")
    domain, error = attempt(lambda: kind(max=value))
    if error is None:
        model = JumpModel(domain=domain, max_updates=1, width=4, progress=False)
        _, error = attempt(lambda: model.fit(_data(case)))
        if error is None:
            check_model(model)
            granted(lambda: model.save(case.place / "model"), f"save with {kind.__name__}")
            check(JumpModel.load(case.place / "model").domain_ == model.domain_, "wrong result", "load: another domain")


def _baselines(case: Case) -> None:
    kind, X = case.one_of([DDPM, D3PM]), _data(case)
    given = {name: _number(case, LENGTHS[name]) for name in ("max_updates", "batch_size", "width")}
    case.note((kind.__name__, given))
    model, error = attempt(lambda: kind(random_state=0, progress=False, **given).fit(X))
    if error is None:
        rows = check_model(model, X)
        granted(lambda: model.save(case.place / "model"), "save")
        check(equal(rows, kind.load(case.place / "model").sample(4, steps=3, random_state=7)), "wrong result", "load")
