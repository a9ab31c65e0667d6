"""The memory that a file of 200,000 × 50 takes: read, fitted, sampled and written, each command a process of its own.

    python benchmarks/large_file.py > docs/results/benchmarks/large-file.md

Memory does not grow with the updates and the steps, so both are few here.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROWS, COLUMNS = 200_000, 50
UPDATES, STEPS = 200, 5


def table(rows: int = ROWS, columns: int = COLUMNS) -> pd.DataFrame:
    """Columns of every kind in turn, dependent by a hidden activity; a fifth of them with empty cells."""
    rng = np.random.default_rng(0)
    activity = rng.gamma(2.0, 1.0, rows)
    kinds = [
        lambda: rng.poisson(activity * rng.uniform(1, 9)),
        lambda: (activity * rng.gamma(1.0, 20.0, rows) * (rng.random(rows) < 0.6)).round(2),
        lambda: rng.choice(["a", "b", "c", "d", "e"], rows, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
        lambda: rng.random(rows) < 0.1 + 0.08 * np.minimum(activity, 10),
        lambda: np.datetime64("2020-01-01") + rng.integers(0, 1500, rows),
        lambda: rng.normal(100 + 5 * activity, 9).round(1),
        lambda: np.where(rng.random(rows) < 0.2, np.nan, rng.binomial(9, 0.5, rows)),
    ]
    return pd.DataFrame({f"column {place}": kinds[place % len(kinds)]() for place in range(columns)})


def measured(command: list[str]) -> tuple[float, float]:
    """Wall seconds, and the GiB that the largest of all processes so far has taken."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "countjump", *command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        data, model, new = (str(Path(scratch) / name) for name in ("data.csv", "model", "new.csv"))
        table().to_csv(data, index=False)
        size = Path(data).stat().st_size / 2**20
        fit = measured(["fit", data, "--out", model, "--max-updates", str(UPDATES), "--seed", "0", "--quiet"])
        sample = measured(
            ["sample", model, "--rows", str(ROWS), "--steps", str(STEPS), "--seed", "0", "--out", new, "--quiet"]
        )
    print(f"`python benchmarks/large_file.py`: a CSV file of {ROWS:,} × {COLUMNS}, {size:.0f} MiB.\n")
    print("| | wall seconds | most memory so far (GiB) |\n|---|---|---|")
    for name, (seconds, memory) in (
        (f"read, and fit with {UPDATES} updates", fit),
        (f"draw {ROWS:,} rows in {STEPS} steps, and write", sample),
    ):
        print(f"| {name} | {seconds:.0f} | {memory:.2f} |")


if __name__ == "__main__":
    main()
