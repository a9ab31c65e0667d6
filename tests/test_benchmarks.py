"""The benchmarks run and say what they are to say; how long anything takes is not tested."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

ROOT = Path(__file__).parents[1]
SMALL = ["--rows", "200", "--updates", "2", "--timed-updates", "2", "--repeats", "1", "--threads", "1"]
LINES = (
    "| sampling 200 values |",
    "| W1 of them (floor ",
    "| fitting, 2 updates |",
    "| training update, same network, batch of 1,000 |",
    "| training update, our defaults |",
)


def test_univariate_prints_its_table():
    words = [sys.executable, "benchmarks/univariate.py", *SMALL]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"`python benchmarks/univariate.py {' '.join(SMALL)}`"
    for start in LINES:
        (found,) = [line for line in lines if line.startswith(start)]
        assert found.count("|") == 5


@pytest.fixture
def straightforward(monkeypatch):
    """As ``python -m benchmarks.univariate`` finds it."""
    monkeypatch.syspath_prepend(str(ROOT))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield importlib.import_module("benchmarks.univariate").Straightforward


def test_the_straightforward_trainer_finds_the_posterior_mean(straightforward):
    model = straightforward(torch.full((50,), 3), lam=10.0, batch=50)
    z, t = torch.full((1, 1), 12.0), torch.full((1, 1), 0.5)
    assert abs(float(model.network(z, t).detach()) - 3) > 0.3
    for _ in range(100):
        model.update()
    assert float(model.network(z, t).detach()) == pytest.approx(3, abs=0.1)


def test_the_straightforward_sampler_is_right_if_its_network_is(straightforward):
    """x_0 is 0 or 5: E[x_0 given z_t] = 5 where z_t > 0, and 5/(1 + exp(5 λ α_t)) where z_t = 0."""
    lam = 10.0
    model = straightforward(torch.tensor([0.0, 5.0]), lam)

    def posterior_mean(z: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        alpha = model.alpha[(100 * t).round().long()]
        return torch.where(z > 0, 5.0, 5 * torch.sigmoid(-5 * lam * alpha))

    model.network = posterior_mean
    y = model.sample(4000, block=1500)
    assert y.shape == (4000, 1)
    assert (y == y.round()).all()
    assert float((y == 0).double().mean()) == pytest.approx(0.5, abs=0.05)
    assert float(y[y > 1].mean()) == pytest.approx(5, abs=0.1)


def wide(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "benchmarks/wide.py", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_updates_on_100_000_wide_rows_take_little_memory():
    """Dense they are 12 GB; in memory and on disk. (Torch itself takes a good half of a GiB.)"""
    lines = [line.split("|") for line in wide("memory", "--rows", "100000", "--updates", "20").splitlines()]
    peaks = {
        line[1].strip(): float(line[3]) for line in lines if len(line) == 5 and line[1].strip() in ("memory", "disk")
    }
    assert set(peaks) == {"memory", "disk"}
    assert max(peaks.values()) < 1.8


def test_growth_with_the_columns_is_measured():
    (line,) = [line for line in wide("columns", "2000", "2", "--rows", "2000").splitlines() if "|" in line]
    network, calibration, memory, parameters = (float(part.replace(",", "")) for part in line.split("|"))
    assert min(network, calibration, memory) > 0
    assert parameters > 2000 * 128, "every column is there"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory with small files in the form of those of 20 Newsgroups."""
    place, words = tmp_path_factory.mktemp("data"), 3000
    draw = np.random.default_rng(0)
    X = sp.random(300, words, 0.02, "csr", random_state=0, data_rvs=lambda n: draw.geometric(0.4, n)).astype(np.int32)
    sp.save_npz(place / "20news_bow.npz", X)
    (place / "20news_vocab.txt").write_text("\n".join(f"word{i}" for i in range(words)))
    np.savez(place / "20news_labels.npz", target=np.arange(300) % 2, target_names=np.array(["a", "b"]))
    return str(place)


def test_wide_speed_prints_its_table(documents: str):
    small = ["--updates", "2", "--timed-updates", "1", "--rows", "100", "--repeats", "1", "--threads", "1"]
    lines = wide("speed", "--data", documents, *small).splitlines()
    for start in (
        "| training update, width 128",
        "| sampling 100 documents |",
        "| W1 of length |",
        "| two-sample AUC |",
    ):
        assert [line.count("|") for line in lines if line.startswith(start)] == [5]


def test_the_spread_of_the_sampled_softmax_is_measured(documents: str):
    """It falls where more columns are in the sample."""
    lines = [line.split("|") for line in wide("zeros", "--data", documents, "--updates", "2").splitlines()]
    medians = [float(line[4]) for line in lines if len(line) == 7 and line[1].strip() in ("0.01", "0.1", "0.5")]
    assert len(medians) == 9
    assert all(medians[i] > medians[i + 1] >= medians[i + 2] >= 0 for i in (0, 3, 6))


def test_the_wide_straightforward_trainer_finds_the_mean(straightforward):
    module = importlib.import_module("benchmarks.straightforward")
    X = sp.csr_matrix(np.tile([3, 0, 1], (50, 1)))
    model = module.WideStraightforward(X, lam=10.0, batch=50)
    for _ in range(200):
        model.update()
    assert abs(model.sample(300, block=200) - X[:1].toarray()).mean() < 0.3


def test_completed_tables_are_recorded_once_and_tabulated(tmp_path: Path):
    words = ["--only", "negative-binomials", "--updates", "2", "--rows", "4", "--out", str(tmp_path)]
    for turn in range(2):
        done = subprocess.run(
            [sys.executable, "benchmarks/starts.py", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert bool(done.stdout) == (turn == 0)  # the second time there is nothing to do
    (line,) = [
        line
        for line in (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| negative-binomials | RMSE")
    ]
    assert all(0 < float(number) < 5 for number in line.split("|")[3:6])


def test_the_deviance_and_the_score_of_draws_are_what_they_are_called(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    starts = importlib.import_module("benchmarks.starts")
    removed, expected = np.array([[0.0, 3.0]]), np.array([[0.5, 2.0]])
    assert starts.deviance(removed, expected) == pytest.approx((2 * 0.5 + 2 * (3 * np.log(1.5) - 1)) / 2)
    assert starts.deviance(removed, removed + 1e-12) == pytest.approx(0, abs=1e-9)
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(10, 20_000)), rng.normal(size=20_000)
    assert starts.crps(draws, truth).mean() == pytest.approx(1 / np.sqrt(np.pi), abs=0.01)  # of a normal law
    assert (
        starts.crps(2 * draws, truth).mean() > starts.crps(draws, truth).mean() < starts.crps(draws / 2, truth).mean()
    )
