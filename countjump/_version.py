"""The version, in a file that packaging can read without importing torch."""

__version__ = "0.2.0"
