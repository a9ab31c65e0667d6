"""Figures and the HTML page, from arrays and numbers alone."""

from countjump.report.comparisons import distributions, joint_structure, row_sizes, steps_against_error
from countjump.report.figures import copies, film, png, side_by_side, training_curve, value_shares
from countjump.report.page import Picture, Section, render

__all__ = [
    "Picture",
    "Section",
    "copies",
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
