"""The paper's Figure 5: what randomising the data alone costs, FID of CIFAR-10 against its Poisson-randomised version. No training.

    python benchmarks/randomising.py --data DIR --cache DIR [--images 1000] [--encodings poisson] [--out docs/results/images]

An image x of 0 … 255 becomes z_0 ~ Pois(λ x), or z_0 ~ Bin(255 λ, x/255), and comes back as z_0/λ, rounded. λ is in units of a
grey level; that of an image scaled to [0, 1] is 255 times as large. The bounded encoding of whole numbers is z_0 = x: nothing is
lost. Features of the Inception network are kept in the cache: a run that is stopped goes on. Records are written as they come.

The images are also compared with as many others. Where there are not as many, as of all 5,000, the first half is with the second.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from countjump.atomic import write_atomically
from countjump.data import load_images
from countjump.experiments.runner import markdown
from countjump.metrics.features import Inception, cached
from countjump.metrics.images import frechet_distance, kernel_distance
from countjump.report.figures import png
from countjump.report.images import randomisation

ENCODINGS = {"poisson": (1, 4, 16, 64, 256, 1024), "units": (1, 16, 256)}
"""And the λ of each; "units" is the bounded one."""
LEVELS = 255


def randomised(x: np.ndarray, encoding: str, lam: int) -> np.ndarray:
    rng = np.random.default_rng([lam, len(encoding)])
    z = rng.poisson(lam * x.astype(float)) if encoding == "poisson" else rng.binomial(LEVELS * lam, x / LEVELS)
    return np.rint(z / lam).clip(0, LEVELS).astype(np.uint8)


def measured(first: np.ndarray, second: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Against the images themselves, and of so many as there are others against these."""
    some = found[: len(second)]
    return {
        "fid": frechet_distance(first, found),  # KID is unbiased for independent images alone
        "others": len(second),
        "fid_others": frechet_distance(second, some),
        "kid_others": kernel_distance(second, some),
    }


def table(records: list[dict]) -> str:
    real = records[0]
    others = real.get("others", real["images"])
    head = ["encoding", "λ", "noise at grey 128", "FID to the same images", "FID to others", "KID × 1,000 to others"]
    rows = []
    for r in records:
        if r["encoding"] == "none":
            name, noise = "none: z_0 = x, the bounded encoding of whole numbers", 0.0
        else:
            name = "Poisson" if r["encoding"] == "poisson" else "bounded, as reals: Bin(255 λ, x/255)"
            share = 1 if r["encoding"] == "poisson" else 1 - 128 / LEVELS
            noise = math.sqrt(128 * share / r["lam"])
        shown = [f"{r['fid']:.2f}", f"{r['fid_others']:.2f}", f"{1000 * r['kid_others']:.3f}"]
        rows.append([name, str(r.get("lam", "–")), f"{noise:.2f}", *shown])
    lines = [
        f"FID and KID of {real['images']:,} images of CIFAR-10 after randomising, by `python benchmarks/randomising.py --images "
        f"{real['images']}`. No model is trained.",
        "",
        *markdown(head, rows),
        "",
        f"The floor, {real['fid_others']:.1f} here, is the FID of two groups of {others:,} real images. It falls as groups "
        "grow: distances compare at equal numbers only. KID is unbiased: its floor is about zero. To the same images the FID's "
        "floor is zero.",
    ]
    if chosen := [r["lam"] for r in records if r["encoding"] == "poisson" and r["fid"] < 1]:
        lines += [
            "",
            f"λ of `jump-paper` on CIFAR-10 is {min(chosen)}: the smallest whose FID to the same images is below 1.",
        ]
    return "\n".join([*lines, ""])


def chosen(records: list[dict]) -> int | None:
    """The smallest λ that hardly changes the images."""
    return min((r["lam"] for r in records if r["encoding"] == "poisson" and r["fid"] < 1), default=None)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--cache", required=True)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--encodings", nargs="+", default=list(ENCODINGS), choices=ENCODINGS)
    parser.add_argument("--out", default="docs/results/images")
    parser.add_argument("--weights", help="a TorchScript file in place of the package's")
    options = parser.parse_args(words)
    x = load_images("cifar10", options.data).x
    order = np.random.default_rng(0).permutation(len(x))
    first, second = x[order[: options.images]], x[order[options.images : 2 * options.images]]
    extract, out = Inception(options.weights), Path(options.out)

    def features(images: np.ndarray, name: str) -> np.ndarray:
        return cached(options.cache, images, extract, progress=lambda done: print(name, done, flush=True))

    a, half = features(first, "images"), len(first) // 2
    b = a[half : 2 * half] if len(second) < len(first) else features(second, "other images")
    records = [{"encoding": "none", "images": len(first), **measured(a, b, a)}]
    for encoding in options.encodings:
        for lam in ENCODINGS[encoding]:
            found = features(randomised(first, encoding, lam), f"{encoding} λ = {lam}")
            records.append({"encoding": encoding, "lam": lam, "images": len(first), **measured(a, b, found)})
            write(out, records)


def write(out: Path, records: list[dict]) -> None:
    mine = [r for r in records if r["encoding"] == "poisson"]
    curves = {
        name: ([r["lam"] for r in mine], [r[field] for r in mine])
        for name, field in (("to the same images", "fid"), ("to other images", "fid_others"))
    }
    figure = randomisation(curves, records[0]["fid_others"], records[0]["others"])
    content = "[\n" + ",\n".join(json.dumps(record, allow_nan=False) for record in records) + "\n]\n"
    write_atomically(out / "figure5.json", content.encode())
    write_atomically(out / "figure5.md", table(records).encode())
    write_atomically(out / "figure5.png", png(figure))


if __name__ == "__main__":
    main()
