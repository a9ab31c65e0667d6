"""Metrics: (real, synthetic) → numbers. They know nothing of models."""

from countjump.metrics.wasserstein import floor, w1

__all__ = ["floor", "w1"]
