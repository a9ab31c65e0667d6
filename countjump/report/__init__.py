"""Figures and pages, from arrays and numbers alone."""
