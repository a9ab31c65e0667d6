"""Metrics: (real, synthetic) → numbers. They know nothing of models.

Here are those of single columns and of wide sparse rows. Those of ordinary tables, with numbers and categories, are in
``metrics.tables``, and the usefulness of generated labels is in ``metrics.labels``.
"""

from countjump.metrics.values import floor, w1
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
