"""Networks: (features, time, condition) → outputs. They know nothing of laws or processes."""

from countjump.networks.mlp import MLP, TimeEmbedding

NETWORKS = {"mlp": MLP}
"""By name; each is called as (inputs, outputs, width)."""

__all__ = ["MLP", "NETWORKS", "TimeEmbedding"]
