"""Table 3 and Figure 4 of the paper, and few steps: images by one U-Net and four processes, every distance beside its floor."""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import softmax

from countjump import JumpModel, LinearBeta
from countjump.baselines import D3PM, DDPM
from countjump.data import ImageSet, data_directory, load_images, require_images
from countjump.experiments.runner import Cell, Experiment, Record, markdown, mean_of
from countjump.metrics.classifier import Classifier
from countjump.metrics.features import Extractor, Inception, cached
from countjump.metrics.images import frechet_distance, inception_score, kernel_distance, neighbourhoods
from countjump.metrics.tables import two_sample_auc
from countjump.report import images as figures
from countjump.report.page import render

METHODS = (
    *("jump", "jump-no-clusters", "jump-labels", "jump-paper", "jump-binomial"),
    *("ddpm", "ddpm-clusters", "d3pm"),
)
SAMPLERS = {
    "jump": ("plain", "low-noise"),
    "jump-no-clusters": ("plain", "low-noise"),
    "jump-labels": ("plain", "guidance 1.5", "guidance 2"),
    "ddpm": ("ancestral", "ddim"),
    "ddpm-clusters": ("ancestral", "ddim"),
}
"""Of methods that have several; the first is the method's own."""

LAMS = (1, 4, 16, 64, 256, 1024)
"""From which λ of ``jump-paper`` is chosen."""

PAPER_STEPS = 1000
"""Of the schedule of ``jump-paper``."""

TOGETHER = 128
"""Images that are evaluated together: more than in a model at its defaults, which may be asked for a single one."""

LABELLED_STEPS = 20
"""Of the images by which ``jump-labels`` is judged apart from their distances."""

SOMETIMES = {"agreement": "label read", "inception_score": "Inception score"}
"""Numbers that not every record has, and their columns."""

BYTES = 255
"""The largest value of images that a classifier of the user's own can see."""

NUMBERS = ("frechet", "kernel", "precision", "recall", "density", "coverage", "auc_pixels", "auc_features", "ink")


class NaturalImages(Experiment):
    """Section 4.3. All methods of a set have the same network, batches, updates, learning rate and average of the weights.

    Generated images are compared with held-out ones, as many of each.
    """

    name = "images"
    methods = METHODS
    reads_data = sees_images = True

    # What there is.

    def look(self, cells: list[Cell]) -> None:
        if "made" not in self.settings:
            require_images([cell.dataset for cell in cells], self.settings.get("data"))
        if any(not self._training(cell.dataset)["classifier_epochs"] for cell in cells):
            Inception(self.settings.get("weights"))
        if "classifier" in self.settings:
            Inception(self.settings["classifier"])

    def cells(self, only: list[str], methods: list[str], runs: int | None) -> list[Cell]:
        """Without the steps that a set leaves out, and without its methods, where they are not asked for."""
        cells = []
        for cell in super().cells(only, methods, runs):
            known = self._training(cell.dataset)
            if methods or cell.method not in known.get("without", ()):
                most = known.get("most_steps", max(cell.steps))
                cells.append(replace(cell, steps=tuple(step for step in cell.steps if step <= most)))
        return cells

    def steps(self, method: str) -> list[int]:
        return self.settings.get("steps_of", {}).get(method, self.settings["steps"])

    def fixed(self, record: Record) -> Record:
        """Distances of groups of another size or other features, and of other lengths of training, are others."""
        known = self._training(record["dataset"])
        fixed = {name: known[name] for name in ("batch", "width", "learning_rate", "ema")}
        fixed |= {"asked_precision": known.get("precision"), "asked_compare": self._asked(record["dataset"])}
        return fixed | {"asked_updates": known.get("updates"), "asked_image_epochs": self._epochs(record["dataset"])}

    def _training(self, dataset: str) -> dict[str, Any]:
        return self.settings["training"][dataset]

    def _epochs(self, dataset: str) -> int | None:
        return self.settings.get("paper_epochs") or self._training(dataset).get("epochs")

    def _set(self, dataset: str) -> ImageSet:
        return _set(dataset, self.settings.get("made"), data_directory(self.settings.get("data")))

    def rows(self, cell: Cell, seed: int) -> np.ndarray:
        return self._set(cell.dataset).x

    def size(self, cell: Cell) -> int:
        return self._compare(cell.dataset)

    def _asked(self, dataset: str) -> int:
        return self._training(dataset).get("compare") or self.settings["compare"]

    def _compare(self, dataset: str) -> int:
        known = self._set(dataset)
        return min(self._asked(dataset), len(known.test_x), len(known.x) // 2)

    # The methods.

    def batch(self, cell: Cell) -> int:
        return self._training(cell.dataset)["batch"]

    def model(self, cell: Cell, x: np.ndarray, seed: int, checkpoint: Path | None = None) -> Any:
        known = self._training(cell.dataset)
        epochs = self._epochs(cell.dataset)
        training: dict[str, Any] = {"random_state": seed, "progress": False, "checkpoint_dir": checkpoint}
        training |= {"batch_size": known["batch"], "width": known["width"], "learning_rate": known["learning_rate"]}
        training["max_updates"] = epochs * self._batches(cell, x) if epochs else known["updates"]
        training |= {"ema": known["ema"], "validation_fraction": 0.0, "network": "unet"}
        training |= {name: known[name] for name in ("lr_schedule", "augment", "precision") if name in known}
        if cell.method in ("jump", "jump-labels"):
            return JumpModel(**training)
        if cell.method == "jump-no-clusters":
            return JumpModel(clusters=None, **training)
        if cell.method in ("ddpm", "ddpm-clusters"):
            clusters = "auto" if cell.method == "ddpm-clusters" else None
            return DDPM(schedule="cosine", clusters=clusters, **training)
        if cell.method == "d3pm":
            return D3PM(transition="gaussian", states=self._set(cell.dataset).top + 1, **training)
        if cell.method == "jump-binomial":
            return JumpModel("count", process="binomial", belief="poisson", clusters=None, **training)
        lam = self._lam(cell.dataset)
        schedule = LinearBeta.solve(lam * float(x.mean()), timesteps=PAPER_STEPS)
        training |= {
            "process": "poisson",
            "belief": "poisson",
            "lam": float(lam),
            "decode": "latent",
            "objective": "elbo",
        }
        return JumpModel("count", schedule=schedule, clusters=None, **training)

    def fit(self, model: Any, cell: Cell, x: np.ndarray) -> Any:
        """With the labels, for ``jump-labels``."""
        model.fit(x, self._set(cell.dataset).labels if cell.method == "jump-labels" else None)
        model.denoiser_.chunk = TOGETHER
        return model

    def _lam(self, dataset: str) -> float:
        """The recipe's, or the smallest that hardly changes the images: as Figure 5 does, in the features of the set."""
        if lam := self.recipe["sets"][dataset].get("lam"):
            return lam
        real = self._set(dataset).test_x[: self._compare(dataset)]
        top, extract = self._set(dataset).top, self._extractor(dataset)
        floor = self._floor(dataset)["frechet"]
        for lam in LAMS:
            z = np.random.default_rng(lam).poisson(lam * real.astype(float))
            randomised = np.rint(z / lam).clip(0, top).astype(np.uint8)
            if frechet_distance(extract(real), extract(randomised)) < floor / 10:
                return lam
        return LAMS[-1]

    # What is measured.

    def fitted(self, model: Any, cell: Cell, x: np.ndarray) -> Record:
        """Its sizes, and the bits per dimension of held-out images where it has a likelihood."""
        known = self._training(cell.dataset)
        said: Record = dict(self.fixed({"dataset": cell.dataset}))
        said["weights"] = sum(each.numel() for each in model.denoiser_.network.parameters())
        said["belief"] = getattr(model, "belief_", None)
        if cell.method == "jump-paper":
            said["lam"] = self._lam(cell.dataset)
        if cell.method == "jump-labels" and known["classifier_epochs"]:
            said |= self._labelled(model, cell.dataset)
        if cell.method in ("jump", "jump-no-clusters", "jump-binomial", "d3pm"):
            held_out = self._set(cell.dataset).test_x[: known.get("scored") or self.settings["scored"]]
            scores = model.score_samples(held_out, steps=self.settings["score_steps"], draws=1, random_state=0)
            if np.isfinite(scores).all():
                bits = -scores / (math.log(2) * held_out[0].size)
                said |= {
                    "bits_per_dimension": float(bits.mean()),
                    "bits_error": float(bits.std() / math.sqrt(len(bits))),
                }
                said |= {"scored": len(held_out), "score_steps": self.settings["score_steps"]}
        return said

    def _labelled(self, model: Any, dataset: str) -> Record:
        """How often a classifier of real images reads the label that was asked for, and how well one does on real images that has
        learned from generated ones, beside one that has learned from as many real ones."""
        known, epochs = self._set(dataset), self._training(dataset)["classifier_epochs"]
        size = min(self.settings["labelled"], len(known.x))
        some = np.random.default_rng(0).permutation(len(known.x))[:size]
        labels = known.labels[some]
        y = model.sample(size, y=labels, steps=LABELLED_STEPS, random_state=0)
        made, real = (
            Classifier.fit(images, labels, known.top, epochs * len(known.x) // size) for images in (y, known.x[some])
        )
        judge = self._classifier(dataset)
        return {
            "labelled": size,
            "labelled_steps": LABELLED_STEPS,
            "labelled_agreement": judge.accuracy(y, labels),
            "labelled_real": judge.accuracy(known.test_x, known.test_labels),
            "accuracy_generated": made.accuracy(known.test_x, known.test_labels),
            "accuracy_real": real.accuracy(known.test_x, known.test_labels),
        }

    def sampled(self, model: Any, cell: Cell, x: np.ndarray, steps: int, seed: int) -> Record:
        """What is recorded of the samples of every sampler; the record's own is that of the first."""
        most = self.settings.get("most_steps", {})
        labels = self._set(cell.dataset).test_labels if cell.method == "jump-labels" else None
        record, *others = (
            super(NaturalImages, self).sampled(Sampled(model, sampler, labels), cell, x, steps, seed)
            | {"sampler": sampler}
            for sampler in SAMPLERS.get(cell.method, ("plain",))
            if steps <= most.get(sampler, steps)
        )
        record["others"] = others
        if steps == cell.steps[0]:
            record["images_real"] = packed(self._set(cell.dataset).test_x[: self.settings["shown"]])
        return record

    def measure(self, cell: Cell, x: np.ndarray, y: np.ndarray, seed: int) -> Record:
        known = self._set(cell.dataset)
        floor = self._floor(cell.dataset)
        found = self._compared(cell.dataset, known.test_x[: len(y)], y)
        return {
            "compare": len(y),
            "source": known.source,
            "rows": len(x),
            "features": self._extractor(cell.dataset).identity.partition("-")[0],
            **found,
            **{f"{name}_floor": floor[name] for name in NUMBERS},
            **{f"{name}_floor_sd": floor[f"{name}_sd"] for name in NUMBERS},
            "top": known.top,
            **self._agreement(cell, y),
            **self._inception_score(cell.dataset, known.test_x[: len(y)], y),
            "images": packed(y[self._kept(cell, len(y))]),
        }

    def _agreement(self, cell: Cell, y: np.ndarray) -> Record:
        """How often the classifier of real images reads the label that was asked for."""
        if cell.method != "jump-labels" or not self._training(cell.dataset)["classifier_epochs"]:
            return {}
        return {"agreement": self._classifier(cell.dataset).accuracy(y, self._set(cell.dataset).test_labels[: len(y)])}

    def _inception_score(self, dataset: str, real: np.ndarray, y: np.ndarray) -> Record:
        """By the classifier that was given, of generated images and of as many held-out ones; it sees images of 0 … 255."""
        if "classifier" not in self.settings or self._set(dataset).top != BYTES:
            return {}
        judge = _inception(self.settings["classifier"])
        logits = (cached(self.out / "features", images, judge).astype(float) for images in (y, real))
        found, floor = (inception_score(softmax(each, axis=1)) for each in logits)
        return {"inception_score": found, "inception_score_real": floor}

    def _kept(self, cell: Cell, rows: int) -> np.ndarray:
        """Which images are kept for the sheets: the first, or the first of each label in turn."""
        shown = self.settings["shown"]
        if cell.method != "jump-labels":
            return np.arange(rows)[:shown]
        labels = self._set(cell.dataset).test_labels[:rows]
        turn = np.array([(labels[:place] == label).sum() for place, label in enumerate(labels)])
        return np.lexsort((labels, turn))[:shown]

    def _compared(self, dataset: str, real: np.ndarray, y: np.ndarray) -> dict[str, float]:
        extract, few = self._extractor(dataset), self.settings["auc_rows"]
        of_real, of_y = (self._features(dataset, each, extract) for each in (real, y))
        pixels = [each[:few].reshape(len(each[:few]), -1).astype(float) for each in (real, y)]
        return {
            "frechet": frechet_distance(of_real, of_y),
            "kernel": kernel_distance(of_real, of_y),
            **neighbourhoods(of_real, of_y),
            "auc_pixels": two_sample_auc(pixels[0], pixels[1]),
            "auc_features": two_sample_auc(of_real[:few], of_y[:few]),
            "ink": float(y.mean() / real.mean()),
        }

    def _floor(self, dataset: str) -> dict[str, float]:
        """The mean and the standard deviation of what groups of training images score against the held-out ones."""
        known = self._set(dataset)
        size = self._compare(dataset)
        key = (dataset, str(self.out), size, self.settings["splits"])
        if key not in _FLOORS:
            rng = np.random.default_rng(0)
            groups = [known.x[rng.permutation(len(known.x))[:size]] for _ in range(self.settings["splits"])]
            scores = [self._compared(dataset, known.test_x[:size], group) for group in groups]
            means = {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}
            _FLOORS[key] = means | {f"{name}_sd": float(np.std([score[name] for score in scores])) for name in means}
        return _FLOORS[key]

    def _features(self, dataset: str, images: np.ndarray, extract: Extractor) -> np.ndarray:
        slow = not self._training(dataset)["classifier_epochs"]
        return cached(self.out / "features", images, extract) if slow else extract(images)

    def _extractor(self, dataset: str) -> Extractor:
        """The Inception network, or a classifier that is trained once and kept beside the records."""
        if not self._training(dataset)["classifier_epochs"]:
            return _inception(self.settings.get("weights"))
        return self._classifier(dataset)

    def _classifier(self, dataset: str) -> Classifier:
        known, epochs = self._set(dataset), self._training(dataset)["classifier_epochs"]
        path = self.out / f"classifier-{dataset}.safetensors"
        if not path.exists():
            Classifier.fit(known.x, known.labels, known.top, epochs).save(path)
        return Classifier.load(path, known.x.shape[1:], len(known.label_names), known.top)

    # Tables and figures.

    def pages(self, records: list[Record]) -> dict[str, str | Figure]:
        sets = [name for name in self.recipe["sets"] if any(r["dataset"] == name for r in records)]
        pages: dict[str, str | Figure] = {
            "table.md": table(records, self.recipe["sets"]),
            "steps.png": figures.steps_against_distance(_curves(records, sets), "Fréchet distance"),
        }
        for name in sets:
            mine = [r for r in records if r["dataset"] == name]
            pages[f"samples-{name}.png"] = figures.sheets(_groups(mine), mine[0]["top"], across=10)
            pages[f"learning-{name}.png"] = figures.learning(
                {r["method"]: r["learning_curve"] for r in mine if "learning_curve" in r}
            )
        return pages


class Sampled:
    """A fitted model with one of its samplers, and with labels that it is asked for."""

    def __init__(self, model: Any, sampler: str, labels: np.ndarray | None = None) -> None:
        self.model, self.labels = model, labels
        self.options: dict[str, Any] = {}
        if isinstance(model, DDPM):
            self.model = model.sampled_by(sampler)
        elif sampler.startswith("guidance"):
            self.options = {"guidance": float(sampler.split()[1])}
        elif sampler != "plain":
            self.options = {"sampler": sampler}

    def sample(self, rows: int, steps: int, random_state: int) -> np.ndarray:
        """As the model's own."""
        labels = {} if self.labels is None else {"y": self.labels[:rows]}
        return self.model.sample(rows, steps=steps, random_state=random_state, **labels, **self.options)


_FLOORS: dict[tuple[Any, ...], dict[str, float]] = {}


@cache
def _set(dataset: str, made: int | None, place: Path | None) -> ImageSet:
    """Held-out images of files are in random order: the first half of MNIST's are not like the second."""
    if made:
        return make(dataset, made)
    found = load_images(dataset, place)
    if found.source == "scikit-learn":
        return found
    order = np.random.default_rng(0).permutation(len(found.test_x))
    return replace(found, test_x=found.test_x[order], test_labels=found.test_labels[order])


@cache
def _inception(weights: str | None) -> Inception:
    return Inception(weights)


def make(dataset: str, rows: int) -> ImageSet:
    """Spots of ten sizes in place of a data set, to try the program without data.

    >>> make("mnist", 20).x.shape
    (20, 28, 28)
    """
    shape, top = {"digits": ((8, 8), 16), "mnist": ((28, 28), 255), "cifar10": ((32, 32, 3), 255)}[dataset]
    rng = np.random.default_rng(len(dataset))
    labels = rng.integers(10, size=2 * rows)
    labels[:10] = np.arange(10)
    place = np.stack(np.meshgrid(*(np.linspace(-1, 1, side) for side in shape[:2]), indexing="ij"))
    distance = ((place - rng.uniform(-0.3, 0.3, (2 * rows, 2, 1, 1))) ** 2).sum(1)
    light = np.exp(-distance * (20 / (1 + labels)[:, None, None]))
    x = np.rint(top * (light[..., None] * np.linspace(1, 0.5, 3) if len(shape) == 3 else light)).astype(np.uint8)
    return ImageSet(x[:rows], labels[:rows], x[rows:], labels[rows:], top, list("0123456789"), "made")


def packed(images: np.ndarray) -> dict[str, Any]:
    """A few images as text.

    >>> unpacked(packed(np.arange(4, dtype=np.uint8).reshape(1, 2, 2))).tolist()
    [[[0, 1], [2, 3]]]
    """
    content = zlib.compress(np.ascontiguousarray(images, dtype=np.uint8).tobytes(), 9)
    return {"shape": list(images.shape), "bytes": base64.b64encode(content).decode()}


def unpacked(held: dict[str, Any]) -> np.ndarray:
    """The images again."""
    content = zlib.decompress(base64.b64decode(held["bytes"]))
    return np.frombuffer(content, dtype=np.uint8).reshape(held["shape"])


# Tables and figures.


def _every(records: list[Record]) -> list[Record]:
    """The records of all samplers, each with what its fit has."""
    return [each for record in records for each in (record, *(record | other for other in record["others"]))]


def table(records: list[Record], sets: dict[str, Any]) -> str:
    """A table per set, as Markdown: a line per method, sampler and number of steps below the floor."""
    shown = {}
    for name, known in sets.items():
        if not (mine := [r for r in records if r["dataset"] == name]):
            continue
        by = (
            "the standard Inception network"
            if mine[0]["features"] == "inception"
            else "a small classifier, trained on them"
        )
        shown[name] = {
            "rows": f"{mine[0]['rows']:,}",
            "compare": f"{mine[0]['compare']:,}",
            "source": mine[0]["source"],
        }
        shown[name] |= {"features": by, "lines": _lines(mine), "fits": [*_fits(mine), *_papers(known)]}
    return render("images.md", sets=shown, judged=any("inception_score" in r for r in records))


def _lines(records: list[Record]) -> str:
    head = ["method", "sampler", "steps", "Fréchet", "KID", "precision", "recall", "density", "coverage"]
    head += ["AUC pixels", "AUC features", "ink", "s/image"]
    first, more = records[0], [name for name in SOMETIMES if any(name in r for r in records)]
    floor = [f"{_shown(name, first[f'{name}_floor'])} ± {_shown(name, first[f'{name}_floor_sd'])}" for name in NUMBERS]
    rows = [["floor", "", "", *floor, ""]]
    every = sorted(_every(records), key=lambda r: (METHODS.index(r["method"]), _place(r), r["steps"]))
    for method, sampler, steps in dict.fromkeys((r["method"], r["sampler"], r["steps"]) for r in every):
        where = {"method": method, "sampler": sampler, "steps": steps}
        found = {name: (mean_of(every, name, **where) or (math.nan,))[0] for name in (*NUMBERS, "seconds_sample")}
        seconds = f"{found['seconds_sample'] / first['compare']:.3f}"
        rows.append([method, sampler, str(steps), *(_shown(name, found[name]) for name in NUMBERS), seconds])
        means = [mean_of(every, name, **where) for name in more]
        rows[-1] += [f"{mean[0]:.3f}" if mean else "" for mean in means]
    real = [mean_of(records, f"{name}_real") for name in more]
    head, rows[0] = (
        [*head, *(SOMETIMES[name] for name in more)],
        [*rows[0], *(f"{r[0]:.3f}" if r else "" for r in real)],
    )
    return "\n".join(markdown(head, rows))


def _place(record: Record) -> int:
    """Of its sampler among the method's."""
    return SAMPLERS.get(record["method"], ("plain",)).index(record["sampler"])


def _shown(name: str, value: float) -> str:
    return f"{value:.3g}" if name in ("frechet", "kernel") else f"{value:.3f}"


def _fits(records: list[Record]) -> list[str]:
    """What was trained, and the bits per dimension."""
    lines = []
    for method in METHODS:
        mine = [r for r in records if r["method"] == method]
        if not mine:
            continue
        r = mine[0]
        text = f"{method}: {r['weights']:,} weights, {r['updates']:,} updates of {r['batch']} images in {r['seconds_fit']:,.0f} s"
        text += f", belief {r['belief']}" if r.get("belief") else ""
        text += f", λ = {r['lam']:g}" if "lam" in r else ""
        if bits := mean_of(mine, "bits_per_dimension"):
            text += f"; at most {bits[0]:.3f} ± {r['bits_error']:.3f} bits per dimension"
            text += f" ({r['scored']} held-out images, {r['score_steps']} steps)"
        if "labelled" in r:
            text += (
                f"; of {r['labelled']:,} images ({r['labelled_steps']} steps) {r['labelled_agreement']:.1%} are read as"
            )
            text += " the label asked for"
            text += f" (real ones: {r['labelled_real']:.1%}), and a classifier that learned from them is right about"
            text += f" {r['accuracy_generated']:.1%} of real images (from as many real ones: {r['accuracy_real']:.1%})"
        lines.append(text)
    return lines


def _papers(known: dict[str, Any]) -> list[str]:
    """What the paper reports of 50,000 images and 1,000 steps."""
    said = "the paper's {}: FID {fid:.2f}, Inception score {is:.2f} (50,000 images, 1,000 steps)"
    return [said.format(method.upper(), **numbers) for method, numbers in known["paper"].items()]


def _curves(records: list[Record], sets: list[str]) -> dict[str, dict[str, Any]]:
    """For every set: the floor, and the distance of every method and sampler against the number of steps."""
    curves: dict[str, dict[str, Any]] = {}
    for name in sets:
        mine = [r for r in _every(records) if r["dataset"] == name]
        curves[name] = {"floor": mine[0]["frechet_floor"]}
        for method, sampler in dict.fromkeys((r["method"], r["sampler"]) for r in mine):
            own = [r for r in mine if (r["method"], r["sampler"]) == (method, sampler)]
            steps = sorted({r["steps"] for r in own})
            found = [mean_of(own, "frechet", steps=step) for step in steps]
            title = method if sampler == SAMPLERS.get(method, ("plain",))[0] else f"{method}, {sampler}"
            curves[name][title] = (steps, [each[0] for each in found if each is not None])
    return curves


def _groups(records: list[Record]) -> dict[str, np.ndarray]:
    """Held-out images, those of ``jump`` with 20 steps, and those of every method with its most."""
    groups: dict[str, np.ndarray] = {}
    for record in records:
        if record.get("images_real") and "real" not in groups:
            groups["real"] = unpacked(record["images_real"])
    for method in METHODS:
        mine = sorted((r for r in records if r["method"] == method), key=lambda r: r["steps"])
        for record in [r for r in mine[:-1] if r["steps"] == 20 and method in ("jump", "ddpm")] + mine[-1:]:
            groups[f"{method}, {record['steps']} steps"] = unpacked(record["images"])
    return groups
