"""Beliefs about the pixels of a picture, and samplers, at equal network, updates and seed.

    python benchmarks/beliefs.py --out docs/results/benchmarks/beliefs.md [--data DIR] [--sets digits,mnist14] [--updates 600]

Of every belief: bits a pixel of held-out pictures given their label (the bound, 20 steps), and the Fréchet distance of generated
pictures to as many held-out ones in the hidden layer of a classifier, beside that of two groups of real ones. Ink is the mean of
the generated pixels over the mean of the data, "read" how often the classifier reads the label asked for. Of the belief with the
lowest bits, the samplers at equal numbers of evaluations of the network. Then the same of the belief that is chosen by itself, with
other schedules and other numbers of alternatives of the whole picture. Models are kept in ``--models``, so that it can be run
again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.linalg import sqrtm
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from countjump import JumpModel
from countjump.networks import UNetSizes
from countjump.planning import images as planning
from countjump.samplers import Churn, LowNoise, Plain, SecondOrder

METHODS = {
    "categorical": {"belief": "categorical"},
    "logistic": {"belief": "logistic"},
    "mixture": {"belief": "mixture"},
    "poisson (appendix C)": {"belief": "poisson"},
    "poisson, λ = 1 a level (the paper)": {"process": "poisson", "lam": 1.0},
}
SAMPLERS = {
    "plain": Plain(),
    "low-noise, by the mean": LowNoise(0.0),
    "low-noise, half": LowNoise(0.5),
    "low-noise, drawn": LowNoise(1.0),
    "churn 0.25": Churn(0.25),
    "churn 1": Churn(1.0),
    "second-order": SecondOrder(),
}
CHOICES: dict[str, tuple[dict[str, str], int]] = {
    "geometric steps, 8 alternatives": ({}, 8),
    "geometric steps, 4 alternatives": ({}, 4),
    "geometric steps, no alternatives": ({}, 1),
    "β-linear steps, 8 alternatives": ({"schedule": "linear-beta"}, 8),
    "cosine steps, 8 alternatives": ({"schedule": "cosine"}, 8),
}
"""Options, and alternatives, of however few pictures."""
SIZES = UNetSizes(multipliers=(1, 2), blocks=1, dropout=0.1)
FEW_LEVELS = 32


def load(name: str, data: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pictures and labels to train on, and held out."""
    if name == "digits":
        found = load_digits()
        x, y = found.images.astype(np.uint8), found.target
        held_out = np.arange(len(x)) % 3 == 0
        return x[~held_out], y[~held_out], x[held_out], y[held_out]
    if data is None:
        sys.exit("mnist14 needs --data DIR with mnist_uint8.npz")
    with np.load(data / "mnist_uint8.npz") as file:
        arrays = [file[key] for key in file.files]
    images = [each for each in arrays if each.ndim == 3]
    labels = [each for each in arrays if each.ndim == 1]
    pooled = [np.rint(x.reshape(len(x), 14, 2, 14, 2).mean((2, 4))).astype(np.uint8) for x in images]
    return pooled[0][:20_000], labels[0][:20_000], pooled[1], labels[1]


class Reader:
    """A classifier whose hidden layer gives features."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.top = float(x.max())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.network = MLPClassifier((64,), max_iter=60, random_state=0).fit(self.flat(x), y)

    def flat(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), -1) / self.top

    def features(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(self.flat(x) @ self.network.coefs_[0] + self.network.intercepts_[0], 0)

    def distance(self, one: np.ndarray, two: np.ndarray) -> float:
        """The Fréchet distance between two sets of pictures."""
        a, b = self.features(one), self.features(two)
        first, second = np.cov(a.T), np.cov(b.T)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            root = sqrtm(first @ second).real
        return float(((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(first + second - 2 * root))


def judged(model: JumpModel, reader: Reader, x: np.ndarray, y: np.ndarray, steps: int, sampler: object) -> str:
    """Distance, ink and reading of as many pictures as are held out."""
    drawn = model.sample(len(x), steps=steps, y=y, random_state=0, sampler=sampler)
    read = reader.network.score(reader.flat(drawn), y)
    return f"{reader.distance(drawn, x):.2f} ({drawn.mean() / x.mean():.2f}, {read:.1%})"


def compare(name: str, options: argparse.Namespace) -> list[str]:
    x, y, other, other_y = load(name, options.data)
    reader = Reader(x, y)
    some = np.random.default_rng(0).permutation(len(other))[: options.rows]
    held_out, held_out_y = other[some], other_y[some]
    floor = reader.distance(x[np.random.default_rng(1).permutation(len(x))[: len(some)]], held_out)
    steps = [int(each) for each in options.steps.split(",")]
    lines = [f"## {name}: {len(x)} pictures, {options.updates} updates of 64, width {options.width}", ""]
    lines += [f"Fréchet distance (ink, read); two groups of {len(some)} real pictures: {floor:.2f}.", ""]
    best, fitted = (np.inf, ""), {}

    def line(what: str, file: str, own: dict) -> float:
        """Of a model, which is fitted where it is not there; its bits a pixel."""
        place, seconds = options.models / f"{name}-{file}", "–"
        if not place.exists():
            start = time.process_time()
            training = {"max_updates": options.updates, "width": options.width, "batch_size": 64, "learning_rate": 3e-3}
            JumpModel(network=SIZES, random_state=0, progress=False, **training, **own).fit(x, y).save(place)
            seconds = f"{time.process_time() - start:.0f}"
        model = fitted[what] = JumpModel.load(place)
        bits = np.inf
        if model.process_.why_no_likelihood() is None:
            scores = model.score_samples(held_out[:100], held_out_y[:100], steps=20)
            bits = -float(scores.mean()) / np.log(2) / x[0].size
        cells = [judged(model, reader, held_out, held_out_y, n, "plain") for n in steps]
        lines.append(f"| {what} | {bits:.3f} | {' | '.join(cells)} | {seconds} |".replace("inf", "–"))
        print(lines[-1], flush=True)
        return bits

    head = f" | bits a pixel | {' | '.join(f'{n} steps' for n in steps)} | CPU seconds of training |"
    rule = "|---" * (3 + len(steps)) + "|"
    lines += [f"| belief{head}", rule]
    for method, own in METHODS.items():
        if method == "categorical" and x.max() >= FEW_LEVELS:
            continue
        file = f"{method.split(',')[0].split(' ')[0]}{'-lam' * ('lam' in own)}"
        best = min(best, (line(method, file, own), method))
    lines += ["", f"Samplers, of the {best[1]} belief, by evaluations of the network:", ""]
    lines += [f"| sampler | {' | '.join(map(str, steps))} |", "|---" * (1 + len(steps)) + "|"]
    for sampler, made in SAMPLERS.items():
        halved = 2 if isinstance(made, SecondOrder) else 1
        cells = [judged(fitted[best[1]], reader, held_out, held_out_y, max(n // halved, 1), made) for n in steps]
        lines.append(f"| {sampler} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines += ["", "Schedules, and alternatives of the whole picture:", "", f"| choice{head}", rule]
    for number, (choice, (own, alternatives)) in enumerate(CHOICES.items()):
        before = planning.ALTERNATIVES, planning.MANY
        planning.ALTERNATIVES, planning.MANY = alternatives, 0
        try:
            line(choice, f"choice-{number}", own)
        finally:
            planning.ALTERNATIVES, planning.MANY = before
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", default="digits")
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--steps", default="6,10,20")
    parser.add_argument("--models", type=Path, default=Path("belief-models"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    words = [f"--{name} {vars(options)[name]}" for name in ("sets", "updates", "width", "rows", "steps")]
    page = ["# Beliefs about pixels, and samplers", "", f"`python benchmarks/beliefs.py {' '.join(words)}`", ""]
    for name in options.sets.split(","):
        page += compare(name, options)
    if options.out is not None:
        options.out.write_text("\n".join(page).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
