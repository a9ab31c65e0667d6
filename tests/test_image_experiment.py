"""``countjump reproduce images``: records, resuming, tables and figures, the small classifier, and what is refused."""

import importlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from countjump import JumpModel
from countjump.cli import main
from countjump.data import load_images
from countjump.experiments import runner
from countjump.experiments.images import METHODS, NUMBERS, NaturalImages, make, packed, table, unpacked
from countjump.experiments.runner import Cell
from countjump.metrics.classifier import Classifier
from countjump.metrics.features import Inception
from countjump.metrics.images import inception_score
from countjump.report.images import LOOK

DISTANCES = {*NUMBERS, *(f"{name}_floor" for name in NUMBERS), *(f"{name}_floor_sd" for name in NUMBERS)}


def strict(path: Path) -> list[dict]:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def go(out: Path, methods: list[str], **settings: object) -> list[dict]:
    runner.run(NaturalImages("smoke", settings), out, ["digits"], methods, None, progress=False)
    return strict(out / "results.json")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("reproduce") / "out"
    assert main(["reproduce", "images", "--preset", "smoke", "--only", "digits", "--quiet", "--out", str(out)]) == 0
    return out


def test_records_hold_what_was_promised(smoke):
    records = strict(smoke / "results.json")
    cells = [(r["method"], r["steps"], r["sampler"]) for r in records]
    assert cells == [
        (method, steps, "ancestral" if method == "ddpm" else "plain")
        for method in ("jump", "jump-paper", "ddpm", "d3pm")
        for steps in (2, 3)
    ]
    for r in records:
        assert r.keys() >= DISTANCES
        assert (r["compare"], r["rows"], r["updates"], r["batch"], r["width"]) == (30, 80, 2, 8, 8)
        assert [other["sampler"] for other in r["others"]] == {"jump": ["low-noise"], "ddpm": ["ddim"]}.get(
            r["method"], []
        )
        assert all(other.keys() >= DISTANCES and "others" not in other for other in r["others"])
        assert unpacked(r["images"]).shape == (6, 8, 8)
        assert ("bits_per_dimension" in r) == (r["method"] in ("jump", "d3pm"))
        assert ("lam" in r) == (r["method"] == "jump-paper")
    real = make("digits", 80).test_x[:6]
    assert np.array_equal(unpacked(records[0]["images_real"]), real)


def test_all_methods_have_one_network_and_length(smoke):
    """The weights differ by what the first and the last layer see and say, and by nothing else."""
    weights = {r["method"]: r["weights"] for r in strict(smoke / "results.json")}
    width, levels = 8, 17
    ends = {"ddpm": (1, 1), "d3pm": (1, levels), "jump": (4, levels), "jump-paper": (4, 1)}
    rest = {m: weights[m] - 9 * width * seen - (9 * width + 1) * said for m, (seen, said) in ends.items()}
    assert len(set(rest.values())) == 1


def test_tables_and_figures_come_from_the_records_alone(smoke, monkeypatch, tmp_path):
    names = ("table.md", "steps.png", "samples-digits.png", "learning-digits.png")
    (tmp_path / "results.json").write_bytes((smoke / "results.json").read_bytes())
    monkeypatch.setattr(NaturalImages, "run", lambda *_: pytest.fail("nothing is missing"))
    go(tmp_path, [])
    for name in names:
        assert (tmp_path / name).read_bytes() == (smoke / name).read_bytes()


def test_the_table_says_what_the_records_say(smoke):
    records = strict(smoke / "results.json")
    lines = [line.split("|") for line in (smoke / "table.md").read_text(encoding="utf-8").splitlines() if "|" in line]
    rows = {tuple(cell.strip() for cell in line[1:4]): [cell.strip() for cell in line[4:-1]] for line in lines}
    ddpm = next(r for r in records if (r["method"], r["steps"]) == ("ddpm", 3))
    assert rows["ddpm", "ancestral", "3"][0] == f"{ddpm['frechet']:.3g}"
    assert rows["ddpm", "ddim", "3"][0] == f"{ddpm['others'][0]['frechet']:.3g}"
    assert rows["ddpm", "ddim", "3"][1] == f"{ddpm['others'][0]['kernel']:.3g}"
    assert rows["floor", "", ""][0] == f"{ddpm['frechet_floor']:.3g} ± {ddpm['frechet_floor_sd']:.3g}"


def test_the_papers_numbers_stand_below_ours(smoke):
    r = strict(smoke / "results.json")[0] | {"dataset": "cifar10"}
    text = table([r], NaturalImages("smoke").recipe["sets"])
    assert "the paper's JUMP: FID 4.80, Inception score 9.04" in text


def test_only_what_is_missing_is_run_and_the_classifier_is_kept(tmp_path):
    before = go(tmp_path, ["ddpm"], steps=[2])
    judge = (tmp_path / "classifier-digits.safetensors").read_bytes()
    after = go(tmp_path, ["ddpm"], steps=[2, 3])
    assert [r["steps"] for r in after] == [2, 3]
    assert after[0] == before[0]
    assert (tmp_path / "classifier-digits.safetensors").read_bytes() == judge


@pytest.mark.parametrize("where", ["fit", "sampling"])
def test_what_was_killed_is_resumed(tmp_path, monkeypatch, where):
    fit, sample = NaturalImages.fit, JumpModel.sample

    def interrupt_fit(self, model, *arguments):
        fit(self, model, *arguments)
        raise KeyboardInterrupt

    def interrupt_sample(self, *arguments, steps, **options):
        if steps == 3:
            raise KeyboardInterrupt
        return sample(self, *arguments, steps=steps, **options)

    (whole,) = go(tmp_path / "whole", ["jump"], steps=[2])
    with monkeypatch.context() as patch:
        if where == "fit":
            patch.setattr(NaturalImages, "fit", interrupt_fit)
        else:
            patch.setattr(JumpModel, "sample", interrupt_sample)
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path / "killed", ["jump"], steps=[2, 3])
    if where == "sampling":
        first = strict(tmp_path / "killed" / "results.json")
    killed, last = go(tmp_path / "killed", ["jump"], steps=[2, 3])
    assert ("resumed" in last) == (where == "fit")  # else the fit's time is known
    killed.pop("resumed", None)
    if where == "sampling":
        assert first == [killed]
        assert last["seconds_fit"] == killed["seconds_fit"]
    for record in (killed, whole):
        for each in (record, *record["others"]):
            assert each.pop("seconds_sample") >= 0
        assert record.pop("seconds_fit") >= 0
    assert killed == whole


def test_labels_that_were_asked_for_are_read(tmp_path):
    (r,) = go(tmp_path, ["jump-labels"], steps=[2])
    assert [other["sampler"] for other in r["others"]] == ["guidance 1.5", "guidance 2"]
    assert r["labelled"] == 60
    shares = [r[name] for name in ("labelled_agreement", "labelled_real", "accuracy_generated", "accuracy_real")]
    assert all(0 <= share <= 1 for share in [*shares, *(each["agreement"] for each in (r, *r["others"]))])
    assert "are read as the label asked for" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_every_method_has_a_look_in_the_figures():
    assert set(METHODS) <= set(LOOK)


def test_who_has_clusters(tmp_path):
    """The default does, and DDPM where it is asked to; what is the paper's does not."""
    experiment, x = NaturalImages("smoke", {"made": 80}), make("digits", 80).x
    experiment.out = tmp_path
    cells = {method: Cell("digits", method, 0, (2,)) for method in experiment.methods}
    have = {method for method, cell in cells.items() if experiment.model(cell, x, 0).clusters is not None}
    assert have == {"jump", "jump-labels", "ddpm-clusters"}  # of which the labelled find none


def test_fits_of_other_lengths_do_not_stand_side_by_side(tmp_path):
    go(tmp_path, ["ddpm"], steps=[2])
    with pytest.raises(ValueError, match="have no asked_image_epochs, and this run has asked_image_epochs = 2"):
        go(tmp_path, ["ddpm"], steps=[2, 3], paper_epochs=2)


def test_the_paper_preset_is_its_appendix():
    """3,600 epochs of batches of 128, and the U-Net of 128 channels at 2e-4 with an average of 0.9999."""
    experiment = NaturalImages("paper", {"made": 256})
    model = experiment.model(Cell("cifar10", "jump-paper", 0, (1000,)), make("cifar10", 256).x, 0)
    assert model.max_updates == 3600 * 2
    assert (model.batch_size, model.width, model.learning_rate, model.ema) == (128, 128, 2e-4, 0.9999)
    assert (model.process, model.belief, model.network) == ("poisson", "poisson", "unet")
    assert (model.lr_schedule, model.augment) == ("constant", "flip")
    assert model.lam == experiment.recipe["sets"]["cifar10"]["lam"]
    # Appendix A: the log of the signal-to-noise ratio is −12 at the end of a thousand steps.
    mean = float(make("cifar10", 256).x.mean())
    assert math.log(model.lam * float(model.schedule.alpha(np_time(999))) * mean) == pytest.approx(-12, abs=0.2)


def np_time(k: int):
    return torch.tensor(k / 1000, dtype=torch.float64)


def test_lambda_is_the_smallest_that_hardly_changes_the_images(tmp_path):
    experiment = NaturalImages("smoke")
    experiment.out = tmp_path
    (record,) = go(tmp_path, ["jump-paper"], steps=[2])
    assert record["lam"] == experiment._lam("digits")
    assert record["lam"] > 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--methods", "gan"], "method 'gan' is unknown"),
        (["--only", "faces"], "set 'faces' is unknown"),
        (["--preset", "smoke", "--data", "."], "--data is given, and --preset smoke makes its own data"),
    ],
)
def test_settings_that_make_no_sense(options, said, tmp_path, capsys):
    assert main(["reproduce", "images", "--out", str(tmp_path / "out"), *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_weights_of_the_inception_network_are_for_images(tmp_path, capsys):
    x, y = make("cifar10", 10).x, np.arange(10)
    np.savez(tmp_path / "cifar10_5k1k_uint8.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    words = ["--weights", str(tmp_path / "none.pt"), "--out", str(tmp_path / "out")]
    assert main(["reproduce", "univariate", *words]) == 2
    assert "--weights is for experiments with images" in capsys.readouterr().err
    assert main(["reproduce", "images", "--only", "cifar10", "--data", str(tmp_path), *words]) == 1
    assert "there is no file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


class Opinion(torch.nn.Module):
    """Logits of a classifier in the place of the Inception network: light of three parts of a picture."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 3 * torch.nn.functional.adaptive_avg_pool2d(x.mean(1, keepdim=True), [1, 3]).flatten(1)


def test_a_given_classifier_has_an_inception_score(tmp_path, capsys):
    file, out = str(tmp_path / "opinion.pt"), tmp_path / "out"
    torch.jit.script(Opinion()).save(file)
    words = ["reproduce", "images", "--preset", "smoke", "--only", "digits,mnist", "--methods", "ddpm", "--steps", "2"]
    assert main([*words, "--classifier", file, "--quiet", "--out", str(out)]) == 0
    digits, mnist = strict(out / "results.json")
    assert "inception_score" not in digits, "it is for images of bytes"
    real = make("mnist", 80).test_x[:30]
    powers = np.exp(Inception(file)(real).astype(float))
    expected = inception_score(powers / powers.sum(1, keepdims=True))
    assert 1 < mnist["inception_score_real"] == pytest.approx(expected)
    assert 1 <= mnist["inception_score"] <= 3
    page = (out / "table.md").read_text(encoding="utf-8")
    assert f"| {mnist['inception_score']:.3f} |" in page
    assert "by the classifier that was given" in page
    assert main(["reproduce", "univariate", "--classifier", file, "--out", str(tmp_path / "other")]) == 2
    assert "--classifier is for experiments with images" in capsys.readouterr().err
    assert main([*words, "--classifier", str(tmp_path / "none.pt"), "--out", str(tmp_path / "other")]) == 1


def test_missing_data_is_noticed_before_the_first_fit(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    assert main(["reproduce", "images", "--only", "digits,mnist", "--out", str(tmp_path / "out")]) == 1
    assert "mnist is read from its idx files or mnist_uint8.npz" in capsys.readouterr().err


def test_images_in_records_come_back():
    x = np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3), dtype=np.uint8)
    assert np.array_equal(unpacked(json.loads(json.dumps(packed(x)))), x)


# The small classifier.


def test_the_classifier_tells_digits_and_comes_back(tmp_path):
    digits = load_images("digits")
    classifier = Classifier.fit(digits.x, digits.labels, digits.top, epochs=30)
    assert classifier.accuracy(digits.test_x, digits.test_labels) > 0.93
    classifier.save(tmp_path / "c.safetensors")
    loaded = Classifier.load(tmp_path / "c.safetensors", (8, 8), 10, digits.top)
    assert np.array_equal(loaded(digits.test_x), classifier(digits.test_x))
    assert loaded.identity == classifier.identity
    assert loaded.probabilities(digits.test_x).sum(1) == pytest.approx(1)
    assert Classifier.fit(digits.x, digits.labels, 16, epochs=1).identity != classifier.identity
    with pytest.raises(ValueError, match="is no classifier of such images"):
        Classifier.load(tmp_path / "c.safetensors", (28, 28), 10, 255)


# What is committed.

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "images"


def test_the_page_of_images_is_what_the_program_makes_of_the_records():
    experiment, records = NaturalImages("quick"), strict(RESULTS / "results.json")
    experiment.check(records, [])
    assert (RESULTS / "table.md").read_text(encoding="utf-8") == table(records, experiment.recipe["sets"])


def test_figure_5_is_what_the_program_makes_of_its_records_and_chooses_lambda(monkeypatch):
    monkeypatch.syspath_prepend(str(RESULTS.parents[2]))
    randomising = importlib.import_module("benchmarks.randomising")
    records = strict(RESULTS / "figure5.json")
    assert (RESULTS / "figure5.md").read_text(encoding="utf-8") == randomising.table(records)
    assert NaturalImages("quick").recipe["sets"]["cifar10"]["lam"] == randomising.chosen(records)
