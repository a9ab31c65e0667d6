"""Processes: what corrupts rows, scores a prediction and goes back."""

from countjump.processes.base import Denoise, Process
from countjump.processes.categorical import Categorical, CategoricalDiffusion, DiscreteGaussian, Uniform
from countjump.processes.gaussian import GaussianDiffusion, Normal
from countjump.processes.jump import Jump

__all__ = [
    "Categorical",
    "CategoricalDiffusion",
    "Denoise",
    "DiscreteGaussian",
    "GaussianDiffusion",
    "Jump",
    "Normal",
    "Process",
    "Uniform",
]
