"""Processes: what corrupts rows, scores a prediction and steps back."""

from countjump.processes.base import Denoiser, Process, Step
from countjump.processes.jump import Exact, Jump, Randomised, Units

__all__ = ["Denoiser", "Exact", "Jump", "Process", "Randomised", "Step", "Units"]
