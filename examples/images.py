"""Pictures of digits: fit, sample by label, fill in a half, read a dim one. ``python examples/images.py [updates]``."""

import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from countjump import JumpModel

updates = int(sys.argv[1]) if len(sys.argv) > 1 else 300

digits = load_digits()
X, y = digits.images.astype(np.uint8), digits.target  # 1,797 pictures of 8 × 8 pixels, 0 … 16
model = JumpModel(width=16, batch_size=64, learning_rate=3e-3, max_updates=updates, random_state=0, progress=False).fit(
    X, y
)
print("\n".join(f"{name}: {why}" for name, why in model.choices_.items()))

wanted = np.arange(200) % 10
new = model.sample(200, y=wanted, steps=10, random_state=0)
reader = LogisticRegression(max_iter=1000).fit(X.reshape(len(X), -1), y)
print(f"ink: {new.mean():.2f} (data {X.mean():.2f}), read as the label asked for: ", end="")
print(f"{reader.score(new.reshape(200, -1), wanted):.0%} (data {reader.score(X.reshape(len(X), -1), y):.0%})")

known = np.zeros(X[:50].shape, dtype=bool)
known[:, :4] = True  # the upper half
whole = model.complete(X[:50], known, y=y[:50], steps=10, random_state=0)
print(f"upper half kept: {(whole[known] == X[:50][known]).all()}, lower half filled in: ", end="")
print(f"{reader.score(whole.reshape(50, -1), y[:50]):.0%} read as their digit")

dim = np.random.default_rng(0).binomial(X[:50], 0.1).astype(np.uint8)
deep = model.deepen(dim, fraction=0.1, steps=10, random_state=0)
print(f"read with a tenth of the light: {reader.score(10 * dim.reshape(50, -1), y[:50]):.0%}, ", end="")
print(f"deepened: {reader.score(deep.reshape(50, -1), y[:50]):.0%}")

for row in new[:10, :, :].transpose(1, 0, 2):
    print("  ".join("".join(" .:-=+*#%@"[min(int(value) * 10 // 17, 9)] for value in part) for part in row))
