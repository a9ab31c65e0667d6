"""Transforms between the data and what is modelled: reversible, found or declared, and never silent."""

from countjump.transforms.finding import find
from countjump.transforms.weights import Weights

__all__ = ["Weights", "find"]
