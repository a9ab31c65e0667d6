"""The default model against the floor: W1 in 20 steps, as a ratio to that of two fresh true samples, mean of three seeds.

python benchmarks/foundation.py [--rows 100000] [--seeds 3] [--updates N]
"""

import argparse
import time

import numpy as np

from countjump import JumpModel
from countjump.metrics import floor, w1

SETS = {
    "PoisMix": lambda g, n: g.poisson(np.where(g.random(n) < 0.9, 1, 100)),
    "Uniform(0, 1)": lambda g, n: g.random(n),
    "integers 0-20": lambda g, n: g.integers(0, 21, size=n),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=None)
    options = parser.parse_args()
    print("| set | floor | W1 | ratio | seconds of fitting |\n|---|---|---|---|---|")
    for name, draw in SETS.items():
        lowest = floor(lambda g, draw=draw: draw(g, options.rows), pairs=20).mean()
        distances, seconds = [], []
        for seed in range(options.seeds):
            x = draw(np.random.default_rng([seed, 1]), options.rows)
            start = time.perf_counter()
            model = JumpModel(max_updates=options.updates, random_state=seed, progress=False).fit(x[:, None])
            seconds.append(time.perf_counter() - start)
            distances.append(w1(x, model.sample(options.rows, steps=20, random_state=seed)))
        mean = np.mean(distances)
        print(f"| {name} | {lowest:.4f} | {mean:.4f} | {mean / lowest:.2f} | {np.mean(seconds):.0f} |", flush=True)


if __name__ == "__main__":
    main()
