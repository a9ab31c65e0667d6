"""The paper's tables and figures, and what goes past them. Nothing else imports this."""

from countjump.experiments.univariate import Univariate

EXPERIMENTS = {"univariate": Univariate}

__all__ = ["EXPERIMENTS", "Univariate"]
