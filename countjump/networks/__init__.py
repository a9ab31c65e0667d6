"""Networks: (features, time, condition) → outputs. They know nothing of laws or processes."""

from countjump.networks.linear import LinearPosterior
from countjump.networks.mlp import MLP
from countjump.networks.time import TimeEmbedding
from countjump.networks.unet import UNet, UNetSizes

NETWORKS = {"mlp": MLP, "unet": UNet}
"""By name; each is called as (inputs, outputs, width), and one of pictures with their shape besides."""

__all__ = ["MLP", "NETWORKS", "LinearPosterior", "TimeEmbedding", "UNet", "UNetSizes"]
