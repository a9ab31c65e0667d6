"""Wide sparse counts, in and out as CSR: documents of a few topics. ``python examples/sparse.py [updates]``."""

import sys

import numpy as np
import scipy.sparse as sp

from countjump import JumpModel

updates = int(sys.argv[1]) if len(sys.argv) > 1 else 1500

# 4,000 documents over 500 words: each has one of five topics and a length that varies a lot.
rng = np.random.default_rng(0)
topics = rng.dirichlet(np.full(500, 0.05), size=5)
lengths = rng.negative_binomial(2, 2 / (2 + 40), size=4000)
topic = rng.integers(5, size=4000)
X = sp.csr_matrix(np.stack([rng.multinomial(n, topics[k]) for n, k in zip(lengths, topic, strict=True)]))

model = JumpModel(max_updates=updates, random_state=0, progress=False).fit(X)
print("belief:", model.choices_["belief"])
new = model.sample(2000, steps=20, random_state=0)


def topic_share(rows: sp.csr_matrix) -> float:
    """How much of a document its likeliest topic explains: near 1 only if words of one topic come together."""
    words = (topics > 1e-3).astype(float).T
    counts = rows @ words
    kept = np.asarray(rows.sum(1)).ravel() > 0
    return float((counts.max(1) / np.asarray(rows.sum(1)).ravel().clip(1))[kept].mean())


for name, rows in (("real", X), ("generated", new)):
    lengths = np.asarray(rows.sum(1)).ravel()
    print(
        f"{name:9}  non-zeros {rows.nnz / np.prod(rows.shape):.4f}  length {lengths.mean():.1f} ± {lengths.std():.1f}"
        f"  words of one topic {topic_share(rows):.3f}"
    )
