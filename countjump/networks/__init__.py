"""Networks: (features, time) → outputs. They know nothing of laws or processes."""

from countjump.networks.mlp import MLP

__all__ = ["MLP"]
