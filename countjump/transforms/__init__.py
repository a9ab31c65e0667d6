"""Transforms: reversible, found in the data or declared, and said in ``choices_``."""

from countjump.transforms.columns import Coding, Offset, Step
from countjump.transforms.weights import Scaling, find

__all__ = ["Coding", "Offset", "Scaling", "Step", "find"]
