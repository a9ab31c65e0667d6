"""countjump: generative models of counts, sparse vectors, heavy tails, categories and proportions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from countjump._version import __version__

if TYPE_CHECKING:
    from countjump.domains import Binary, Bounded, Categorical, Count, NonNegative, OneHot, Simplex
    from countjump.evaluation import evaluate
    from countjump.model import JumpModel
    from countjump.schedules import Cosine, Geometric, LinearBeta, Polynomial
    from countjump.transforms import Offset, Step, Weights

__all__ = [
    "Binary",
    "Bounded",
    "Categorical",
    "Cosine",
    "Count",
    "Geometric",
    "JumpModel",
    "LinearBeta",
    "NonNegative",
    "Offset",
    "OneHot",
    "Polynomial",
    "Simplex",
    "Step",
    "Weights",
    "__version__",
    "evaluate",
]

_HOME = {
    "JumpModel": "model",
    "evaluate": "evaluation",
    **dict.fromkeys(("Cosine", "Geometric", "LinearBeta", "Polynomial"), "schedules"),
    **dict.fromkeys(("Offset", "Step", "Weights"), "transforms"),
}
"""Where the public names live; the others are domains."""


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first asked for: the command line answers ``--help`` without torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"countjump.{_HOME.get(name, 'domains')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
