"""Processes: what corrupts rows, scores a prediction and goes back."""

from countjump.processes.base import Process
from countjump.processes.jump import Jump

__all__ = ["Jump", "Process"]
