"""Training: stages, run one after another by one loop that knows nothing of diffusion."""

from countjump.training.checkpoints import CheckpointError
from countjump.training.loop import Settings, run

__all__ = ["CheckpointError", "Settings", "run"]
