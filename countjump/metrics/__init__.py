"""Metrics: (real, synthetic) → numbers. They know nothing of models."""

from countjump.metrics.wasserstein import floor, w1
from countjump.metrics.wide import (
    copies,
    half_splits,
    marginals,
    most_frequent,
    nearest,
    pmi,
    pmi_correlation,
    row_sparsity,
    row_totals,
    synthetic_accuracy,
    two_sample_auc,
)

__all__ = [
    "copies",
    "floor",
    "half_splits",
    "marginals",
    "most_frequent",
    "nearest",
    "pmi",
    "pmi_correlation",
    "row_sparsity",
    "row_totals",
    "synthetic_accuracy",
    "two_sample_auc",
    "w1",
]
