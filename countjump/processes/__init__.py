"""Processes: what corrupts rows, scores a prediction and steps back."""

from countjump.processes.base import Denoiser, Process, Step
from countjump.processes.categorical import Categorical, CategoricalDiffusion, DiscreteGaussian, Uniform
from countjump.processes.gaussian import GaussianDiffusion, Normal
from countjump.processes.jump import Exact, Jump, Randomised, Units

__all__ = [
    "Categorical",
    "CategoricalDiffusion",
    "Denoiser",
    "DiscreteGaussian",
    "Exact",
    "GaussianDiffusion",
    "Jump",
    "Normal",
    "Process",
    "Randomised",
    "Step",
    "Uniform",
    "Units",
]
