"""The paper's tables and figures, and what goes past them. Nothing else imports this."""

from countjump.experiments.documents import Documents
from countjump.experiments.images import Images
from countjump.experiments.runner import Experiment
from countjump.experiments.univariate import Univariate

EXPERIMENTS: dict[str, type[Experiment]] = {"univariate": Univariate, "documents": Documents, "images": Images}

__all__ = ["EXPERIMENTS", "Documents", "Images", "Univariate"]
