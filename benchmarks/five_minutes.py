"""From an empty environment to a report on a CSV file of 10,000 × 12: how long it takes.

    python benchmarks/five_minutes.py > docs/results/benchmarks/five-minutes.md

A fresh virtual environment, `pip install` of this tree (what pip has in its cache is not downloaded again), then one
command. Wall time, with all the cores there are.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = 10_000


def write_purchases(path: Path) -> None:
    """Customers with counts, amounts, categories, flags, a date and some empty cells."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    keen = rng.beta(1, 3, ROWS)
    age = np.clip(rng.normal(32 + 25 * keen, 9), 18, 90).astype(int)
    visits = rng.negative_binomial(1 + 4 * keen, 0.2)
    orders = rng.binomial(visits, 0.1 + 0.5 * keen)
    first = np.datetime64("2023-01-01") + (rng.random(ROWS) * 700 * (1 - 0.6 * keen)).astype(int)
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Porto", "Lyon", "Kraków", "Gent"], ROWS, p=[0.4, 0.3, 0.2, 0.1]),
            "first visit": first,
            "age": age,
            "visits": visits,
            "orders": orders,
            "items": orders + rng.poisson(1.5 * orders),
            "euros": (rng.gamma(2 + 3 * keen, 12) * orders).round(2),
            "returns": rng.binomial(orders, 0.08),
            "newsletter": rng.random(ROWS) < 0.2 + 0.6 * keen,
            "device": rng.choice(["phone", "laptop", "tablet"], ROWS, p=[0.6, 0.3, 0.1]),
            "minutes": rng.lognormal(1 + keen, 0.8).round(1),
            "rating": np.where(rng.random(ROWS) < 0.3, np.nan, rng.binomial(4, 0.5 + 0.4 * keen) + 1),
        }
    )
    frame.to_csv(path, index=False)


def timed(name: str, command: list[str]) -> tuple[str, float]:
    """How long a command takes that must succeed."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return name, time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        write_purchases(here / "purchases.csv")
        start = time.perf_counter()
        venv.create(here / "venv", with_pip=True)
        times = [("an empty environment", time.perf_counter() - start)]
        python, countjump = (str(here / "venv" / "bin" / name) for name in ("python", "countjump"))
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        times.append(timed("pip install", [*pip, "-c", str(ROOT / "constraints.txt"), str(ROOT)]))
        out = ["--rows", str(ROWS), "--out", str(here / "synthetic.csv"), "--report", str(here / "report.html")]
        times.append(
            timed("countjump synthesize", [countjump, "synthesize", str(here / "purchases.csv"), *out, "--quiet"])
        )
        size = (here / "report.html").stat().st_size
    print("`python benchmarks/five_minutes.py`: a CSV file of 10,000 × 12, wall time.\n")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.\n")
    print("| | seconds |\n|---|---|")
    for name, seconds in times:
        print(f"| {name} | {seconds:.0f} |")
    print(f"| together | {sum(seconds for _, seconds in times):.0f} |\n")
    print(f"The report is one file of {size / 2**20:.1f} MiB.")


if __name__ == "__main__":
    main()
