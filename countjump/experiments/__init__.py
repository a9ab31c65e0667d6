"""The paper's tables and figures, and what goes past them. Nothing else imports this."""

from countjump.experiments.documents import Documents
from countjump.experiments.images import NaturalImages
from countjump.experiments.runner import Experiment
from countjump.experiments.univariate import Univariate

EXPERIMENTS: dict[str, type[Experiment]] = {"univariate": Univariate, "documents": Documents, "images": NaturalImages}

__all__ = ["EXPERIMENTS", "Documents", "NaturalImages", "Univariate"]
