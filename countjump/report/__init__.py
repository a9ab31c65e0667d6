"""Figures and pages, from arrays and numbers alone."""

from countjump.report.comparisons import distributions, joint_structure, row_sizes, steps_against_error
from countjump.report.figures import film, png, side_by_side, training_curve, value_shares
from countjump.report.page import render

__all__ = [
    "distributions",
    "film",
    "joint_structure",
    "png",
    "render",
    "row_sizes",
    "side_by_side",
    "steps_against_error",
    "training_curve",
    "value_shares",
]
