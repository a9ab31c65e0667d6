"""Counts with two modes: fit, sample, compare. ``python examples/counts.py [updates]``."""

import sys

import numpy as np
from scipy.stats import wasserstein_distance

from countjump import JumpModel

updates = int(sys.argv[1]) if len(sys.argv) > 1 else 2000

# The paper's PoisMix: mostly small counts, and one in ten around a hundred.
rng = np.random.default_rng(0)
X = rng.poisson(np.where(rng.random((50_000, 1)) < 0.9, 1, 100))
fresh = rng.poisson(np.where(rng.random((50_000, 1)) < 0.9, 1, 100))

for belief in ("poisson", "mixture"):
    model = JumpModel(belief=belief, max_updates=updates, random_state=0, progress=False).fit(X)
    new = model.sample(50_000, steps=20, random_state=0)
    distance = wasserstein_distance(X.ravel(), new.ravel())
    print(f"{belief:8}  Wasserstein-1 to the data {distance:.3f}, share of zeros {(new == 0).mean():.3f}")
print(f"true      Wasserstein-1 to the data {wasserstein_distance(X.ravel(), fresh.ravel()):.3f}, ", end="")
print(f"share of zeros {(fresh == 0).mean():.3f}")
