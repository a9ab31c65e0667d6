"""Transforms between the data and what is modelled: reversible, found or declared, and never silent."""

from countjump.transforms.columns import Coding, Offset, Step
from countjump.transforms.finding import find
from countjump.transforms.weights import Weights

__all__ = ["Coding", "Offset", "Step", "Weights", "find"]
