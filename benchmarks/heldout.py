"""How well a wide model predicts rows that it has not seen: a tenth of the rows is held out.

    python benchmarks/heldout.py --only nips-bow,pbmc --data DIR [--tree OTHER_SOURCE_TREE]

Two figures: the bound of ``score_samples`` with 20 and with 100 steps, in nats a row; and −ln law(missing) per missing unit at
α = 0.05, 0.2 and 0.5, without the number of orders of the units, beside a multinomial of the same means (not with ``--tree``: other
versions have other laws).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.special import gammaln

SETS = "20news-bow,20news-tfidf,nips-bow,nips-tfidf,pbmc"
ALPHAS = (0.05, 0.2, 0.5)
SCORED = 64
"""Held-out rows whose bounds are averaged: the first that have no column which is new to the model."""


@torch.no_grad()
def per_unit(model: Any, counts: Any) -> list[tuple[float, float]]:
    """For every α, −ln law(n given its total) per missing unit, of the model's law and of a multinomial with its means."""
    process, found = model.process_, []
    generator = torch.Generator().manual_seed(0)
    for alpha in ALPHAS:
        sums = np.zeros(3)
        for start in range(0, counts.shape[0], 64):
            x = model.block_.read(counts[start : start + 64])
            t = torch.full((len(x), 1), process.schedule.time(alpha), dtype=torch.float64)
            z = process.marginal(x, t).sample(generator)
            law, n = model.denoiser_(z, t[:, 0]).missing, x - z
            law, n = (law.parts[-1], n.parts[-1]) if hasattr(law, "parts") else (law, n)
            orders = gammaln(n.totals + 1) - n.per_row(gammaln(n.value.clamp(min=0) + 1))
            sums += [
                float((orders - law.log_composition(n)).sum()),
                float(law.shares.cross_entropy(n).sum()),
                n.totals.sum(),
            ]
        found.append((sums[0] / sums[2], sums[1] / sums[2]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("COUNTJUMP_DATA", ""), help="where the sets are")
    parser.add_argument("--only", default=SETS)
    parser.add_argument("--updates", type=int, help="instead of the model's own length")
    parser.add_argument("--tree", help="the source tree of another version")
    arguments = parser.parse_args()
    if not arguments.data:
        print("benchmarks/heldout.py reads wide data sets: say where they are with --data (see --help)")
        return
    sys.path.insert(0, str(Path(arguments.tree or Path(__file__).parents[1]).resolve()))
    from countjump import JumpModel, __version__
    from countjump.data import load

    print(
        f"countjump {__version__}\n\n| set | bound, 20 steps | bound, 100 steps | per missing unit at α = 0.05, 0.2, 0.5 |"
    )
    print("|---|---|---|---|")
    for name in arguments.only.split(","):
        x = load(name, Path(arguments.data)).x
        order = np.random.default_rng(0).permutation(x.shape[0])
        held_out, rest = np.sort(order[: x.shape[0] // 10]), np.sort(order[x.shape[0] // 10 :])
        model = JumpModel(max_updates=arguments.updates, random_state=0, progress=False).fit(x[rest])
        new = (x[rest] > 0).sum(axis=0).A1 == 0  # of which some versions say that they cannot come
        scored = held_out[np.flatnonzero(x[held_out] @ new == 0)[:SCORED]]
        scores = [model.score_samples(x[scored], steps=steps, random_state=0) for steps in (20, 100)]
        bounds = [f"{score.mean():.1f}" for score in scores]
        laws = "–"
        if not arguments.tree:
            counts = x[held_out] if model.scaling_ is None else model.scaling_.admit(x[held_out])[0]
            laws = ", ".join(f"{law:.3f} (multinomial {plain:.3f})" for law, plain in per_unit(model, counts))
        print(f"| {name}, {len(scored)} rows | {bounds[0]} | {bounds[1]} | {laws} |", flush=True)


if __name__ == "__main__":
    main()
