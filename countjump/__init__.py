"""countjump: generative models of counts, sparse vectors, heavy tails, categories and proportions."""

from countjump._version import __version__
from countjump.domains import Binary, Bounded, Count, NonNegative, OneHot, Simplex
from countjump.model import JumpModel
from countjump.schedules import Cosine, Geometric, LinearBeta

__all__ = [
    "Binary",
    "Bounded",
    "Cosine",
    "Count",
    "Geometric",
    "JumpModel",
    "LinearBeta",
    "NonNegative",
    "OneHot",
    "Simplex",
    "__version__",
]
