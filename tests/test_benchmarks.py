"""The benchmarks run and say what they are to say; how long anything takes is not tested."""

import gzip
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from scipy.stats import spearmanr

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


def test_images_are_timed_and_counted(monkeypatch):
    """The operations of a network are those of its layers, and twice the images need twice of everything."""
    monkeypatch.syspath_prepend(str(ROOT))
    images = importlib.import_module("benchmarks.images")
    x = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
    with torch.random.fork_rng():
        lines = images.speed(x, 1.0, width=4, updates=1, images=2, repeats=1)
    assert [line.count("|") for line in lines] == [5, 5, 5]
    cost = images.costs(x, 1.0, 4, 2, "jump-paper")
    model = images.model("jump-paper", x, 1.0, max_updates=1, width=4).fit(x)
    convolutions = [each for each in model.denoiser_.network.modules() if isinstance(each, torch.nn.Conv2d)]
    finest = next(each for each in convolutions if each.stride == (1, 1))
    assert cost["weights"] == sum(each.numel() for each in model.denoiser_.network.parameters())
    assert cost["step"] > 2 * finest.weight.numel() * 64
    assert 2 < cost["update"] / cost["step"] < 5  # forward and backward, and rows with known pixels
    assert cost["bytes"] > 0
    assert "| weights | 0.0 M |" in images.projection({"jump-paper": cost})


def test_the_loss_of_held_out_images_falls_for_every_method(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    images = importlib.import_module("benchmarks.images")
    x = np.tile(np.array([[20, 90], [90, 20]], dtype=np.uint8), (40, 4, 4))
    with torch.random.fork_rng():
        head, _, *lines = images.learned(x, 4.0, width=4, batch=8, updates=40, held_out=8)
    assert head.count("|") == 7
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [method for method, *_ in cells] == list(images.METHODS)
    assert all(float(losses[-1]) < float(losses[0]) for _, *losses in cells)


def test_an_update_takes_time(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    images = importlib.import_module("benchmarks.images")
    x = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
    with torch.random.fork_rng():
        assert all(0 < images.update_seconds(each, x, 1.0, 2, width=4) < 10 for each in images.METHODS)


def test_the_straightforward_trainer_of_images_finds_the_posterior_mean(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    straightforward = importlib.import_module("benchmarks.straightforward")
    with torch.random.fork_rng():
        model = straightforward.ImageStraightforward(
            np.tile(np.array([[2, 9], [9, 2]], dtype=np.uint8), (8, 4, 4)), lam=4.0, width=4, batch=8, timesteps=20
        )
        for group in model.optimiser.param_groups:
            group["lr"] = 0.01
        for _ in range(150):
            model.update()
        y = model.sample(4).double()
    assert y.shape == (4, 8, 8)
    pattern = torch.from_numpy(model.X[0].numpy()).double()
    assert float((y.mean(0) - pattern).abs().mean()) < 1


def wide(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "benchmarks/wide.py", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_updates_on_many_wide_rows_take_little_memory():
    """Dense they are 2.4 GB; in memory and on disk. (Torch itself takes a good half of a GiB.)"""
    lines = [line.split("|") for line in wide("memory", "--rows", "20000", "--updates", "5").splitlines()]
    peaks = {
        line[1].strip(): float(line[3]) for line in lines if len(line) == 5 and line[1].strip() in ("memory", "disk")
    }
    assert set(peaks) == {"memory", "disk"}
    assert max(peaks.values()) < 1.6


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


def test_labels_are_measured_once_and_drawn(tmp_path):
    words = [
        sys.executable,
        "benchmarks/labels.py",
        "--only",
        "digits",
        "--splits",
        "1",
        "--updates",
        "5",
        "--steps",
        "3",
    ]
    for _ in range(2):
        done = subprocess.run([*words, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "| digits, pixels as counts | 718 | 1 |" in done.stdout
    (record,) = json.loads((tmp_path / "results.json").read_text())
    assert str(record["generated"]) not in done.stdout, "a second run reads what the first one wrote"
    assert 0 < record["generated"] <= 1
    assert (tmp_path / "digits.png").stat().st_size > 1000
    assert (tmp_path / "table.md").read_text() in done.stdout


# Ordinary tables.


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    threads = torch.get_num_threads()
    yield importlib.import_module("benchmarks.tables")
    torch.set_num_threads(threads)


@pytest.fixture
def rivals(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.rivals")


def test_tables_are_run_once_and_written_from_their_records(tables, tmp_path, capsys, monkeypatch):
    small = ["--only", "rings,one-hot", "--splits", "2", "--steps", "2,3", "--rows", "80", "--updates", "2"]
    assert tables.main([*small, "--out", str(tmp_path)]) == 0
    records = json.loads((tmp_path / "results.json").read_text())
    ways = {(r["dataset"], r["method"], r["run"], r["steps"]) for r in records}
    steps = {"floor": [0], "columns": [0], "copula": [0], "cart": [0], "countjump": [2, 3]}
    assert len(ways) == len(records)
    assert ways == {(s, m, run, k) for s in ("rings", "one-hot") for m in steps for run in (0, 1) for k in steps[m]}
    assert all(("broken" in r) == (r["dataset"] == "one-hot") for r in records)
    assert all(("seconds_fit" in r) == (r["method"] != "floor") for r in records)
    broken = {r["method"]: r["broken"] for r in records if "broken" in r}
    assert broken["floor"] == 0
    assert broken["columns"] > 0.5

    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(written) == {"results.json", "table.md", "rings.png", "one-hot.png"}
    page = written["table.md"].decode()
    assert "`python benchmarks/tables.py --data DIR --splits 2 --steps 2,3 --rows 80 --updates 2`" in page
    assert "| set | floor | columns | Gaussian copula | CART | countjump, 2 steps | countjump, 3 steps |" in page
    assert page.count("\n| one-hot |") == 8, "one line in each table"
    capsys.readouterr()

    monkeypatch.setattr(tables, "run", lambda *_: pytest.fail("nothing is missing"))
    assert tables.main([*small, "--out", str(tmp_path)]) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == written
    with pytest.raises(ValueError, match="asked_updates = 2, and this run has 3"):
        tables.main([*small, "--updates", "3", "--out", str(tmp_path)])


def test_what_is_asked_for_again_is_run_again(tables, tmp_path):
    small = ["--only", "moons", "--splits", "1", "--rows", "60", "--methods", "cart", "--out", str(tmp_path)]
    tables.main(small)
    path = tmp_path / "results.json"
    records = json.loads(path.read_text())
    path.write_text(json.dumps([record | {"auc": 0.123} for record in records]))
    tables.main([*small, "--again"])
    assert {r["method"]: r["auc"] == 0.123 for r in json.loads(path.read_text())} == {"floor": True, "cart": False}


def test_tables_without_their_files_and_unknown_names(tables, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("COUNTJUMP_DATA", raising=False)
    for words, message in (
        (["--only", "adult", "--data", str(tmp_path)], "adult is read from"),
        (["--only", "iris"], "set 'iris' is unknown"),
        (["--methods", "gan"], "method 'gan' is unknown"),
    ):
        with pytest.raises(SystemExit):
            tables.main([*words, "--out", str(tmp_path)])
        assert message in capsys.readouterr().err


def test_files_are_read_with_empty_cells_codes_and_booleans_as_levels(tables, tmp_path):
    (tmp_path / "tables").mkdir()
    text = "age,job,Browser,Weekend\n31,,2,True\n40,clerk,1,False\n"
    with gzip.open(tmp_path / "tables" / "shoppers.csv.gz", "wt") as file:
        file.write(text)
    about = tables.SETS["shoppers"]
    assert about.read(tmp_path)["job"].isna().tolist() == [True, False]
    frame = about.judged(about.read(tmp_path))
    assert frame["job"].tolist() == ["", "clerk"]
    assert frame["Browser"].tolist() == ["2", "1"]
    assert frame["Weekend"].tolist() == ["True", "False"]
    assert frame["age"].tolist() == [31, 40]


def test_missing_values_are_compared_where_they_are_and_where_they_go_together(tables):
    gone, there = [np.nan, np.nan, 1, 1], [1, 1, 1, 1]
    together, apart = pd.DataFrame({"a": gone, "b": gone}), pd.DataFrame({"a": gone, "b": gone[::-1]})
    assert tables.gaps_error(together, together) == 0
    assert tables.gaps_error(together, apart) == pytest.approx(0.5 / 3), "of a, b and both, the last is wrong"
    assert tables.gaps_error(together, pd.DataFrame({"a": there, "b": there})) == pytest.approx(0.5)


def test_the_made_tables_are_what_they_say(tables):
    made = {name: about.read(None) for name, about in tables.SETS.items() if about.make}
    assert {name: frame.shape for name, frame in made.items()} == {
        "digits": (1797, 64),
        "breast-cancer": (569, 31),
        "diabetes": (442, 11),
        "negative-binomials": (5000, 20),
        "lognormals": (5000, 10),
        "rings": (5000, 2),
        "moons": (5000, 2),
        "one-hot": (5000, 30),
        "mixed": (20000, 6),
        "years": (5000, 4),
    }
    rho = spearmanr(made["negative-binomials"]).statistic[np.triu_indices(20, 1)]
    assert (
        np.abs(np.abs(rho) - 0.77).max() < 0.06
    )  # a normal correlation of 0.8 is a rank correlation of 0.786; ties take some
    assert 0.2 < (made["lognormals"] == 0).to_numpy().mean() < 0.6
    for group in tables.SETS["one-hot"].groups:
        assert (made["one-hot"][list(group)].sum(axis=1) == 1).all()
    assert (made["mixed"]["exposure"] == 1).mean() == pytest.approx(0.78, abs=0.01)
    assert (made["mixed"]["purchases"] <= made["mixed"]["visits"]).all()
    assert made["years"]["year"].agg(["min", "max"]).tolist() == [1990, 2023]
    again = tables.SETS["mixed"].read(None)
    pd.testing.assert_frame_equal(made["mixed"], again)


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    town = np.where(x > 0, "north", "south")
    return pd.DataFrame({"x": x, "count": rng.poisson(np.exp(x)), "town": town, "same": np.where(x > 0, "yes", "no")})


@pytest.mark.parametrize("name", ["columns", "copula", "cart"])
def test_rivals_draw_values_of_the_table_as_often_as_they_are_there(rivals, name):
    frame = table(2000, 0)
    made = rivals.RIVALS[name](0).fit(frame).sample(3000)
    assert list(made) == list(frame)
    assert (made.dtypes == frame.dtypes).all()
    assert len(made) == 3000
    for column in frame:
        assert set(made[column]) <= set(frame[column])
    assert made["town"].eq("north").mean() == pytest.approx(frame["town"].eq("north").mean(), abs=0.06)
    assert made["count"].mean() == pytest.approx(frame["count"].mean(), rel=0.15)
    again = rivals.RIVALS[name](0).fit(frame).sample(3000)
    pd.testing.assert_frame_equal(made, again)


def test_rivals_keep_what_they_can_keep(rivals):
    """Nothing; the correlation of normal scores; what a tree can tell."""
    frame = table(2000, 0)
    made = {name: rival(0).fit(frame).sample(2000) for name, rival in rivals.RIVALS.items()}
    agree = {name: ((rows["town"] == "north") == (rows["same"] == "yes")).mean() for name, rows in made.items()}
    assert agree["columns"] == pytest.approx(0.5, abs=0.05)
    assert 0.6 < agree["copula"] < 0.95
    assert agree["cart"] == 1
    rank = {name: rows["x"].corr(rows["count"], method="spearman") for name, rows in (made | {"real": frame}).items()}
    assert rank["columns"] == pytest.approx(0, abs=0.06)
    assert rank["cart"] == pytest.approx(rank["real"], abs=0.06)
    rng = np.random.default_rng(0)
    normal = pd.DataFrame(rng.multivariate_normal([0, 0], [[1, -0.7], [-0.7, 1]], 4000), columns=["a", "b"])
    copula = rivals.Copula(0).fit(normal).sample(4000)
    assert copula.corr().loc["a", "b"] == pytest.approx(-0.7, abs=0.03)


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


# Blood cells.


@pytest.fixture
def cells(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cells")


def test_w2_and_mmd_are_what_they_are_called(cells):
    """Of a shift, and of points that are permuted; MMD² of two normal laws in closed form."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(300, 3))
    assert cells.w2(a, rng.permutation(a + np.array([3.0, 0.0, 4.0]))) == pytest.approx(5)
    assert cells.mmd(a, rng.permutation(a), 1.0) == pytest.approx(0, abs=1e-12)
    # E exp(−(u − v)²/2c) for u − v ~ N(m, 2) is √(c/(c + 2)) exp(−m²/(2 (c + 2))).
    c, m = 1.5, 2.0
    exact = 2 * np.sqrt(c / (c + 2)) * (1 - np.exp(-(m**2) / (2 * (c + 2))))
    u, v = rng.normal(size=(3000, 1)), rng.normal(m, size=(3000, 1))
    assert cells.mmd(u, v, c) == pytest.approx(exact, rel=0.05)


def test_variable_genes_are_those_that_vary_more_than_others_of_their_mean(cells):
    rng = np.random.default_rng(0)
    mean = np.linspace(5, 20, 800)
    x = rng.poisson(mean, (500, 800))
    chosen = np.arange(20, 800, 40)
    x[:, chosen] = rng.poisson(mean[chosen] * rng.gamma(2, 0.5, (500, 20)))
    logs = sp.csr_matrix(np.log1p(x.astype(float)))
    found = cells.variable_genes(logs, 15)
    assert len(found) == 15
    assert set(found) <= set(chosen.tolist())


def test_genes_apart_have_the_means_of_their_type(cells):
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    types = np.repeat(["a", "b"], 200)
    x = sp.csr_matrix(rng.poisson(np.where(types[:, None] == "a", 0.5, 3.0), (400, 30)))
    table = anndata.AnnData(x, obs=pd.DataFrame({cells.TYPE: types}, index=[str(i) for i in range(400)]))
    asked = np.resize(["b", "a", "b"], 6000)
    made = cells.by_genes_apart(table, 0)(asked, 0).toarray()
    for each in ("a", "b"):
        real, drawn = x[types == each].toarray(), made[asked == each]
        assert np.abs(drawn.mean(0) - real.mean(0)).max() < 5 * real.std() / np.sqrt(len(drawn))
        assert drawn.max() <= real.max()
    record = cells.libraries(x.sum(1).A1, types, made.sum(1), asked)
    assert {each: one["cells"] for each, one in record["library_types"].items()} == {"a": 200, "b": 200}
    assert all(abs(one["errors"]) < 1 for one in record["library_types"].values())


def test_cells_are_measured_once_and_drawn(cells, tmp_path, capsys, monkeypatch):
    pytest.importorskip("anndata")
    monkeypatch.setattr(cells, "FLOORS", 1)
    rng = np.random.default_rng(0)
    of = rng.integers(2, size=80)
    x = rng.poisson(rng.gamma(5, 20, (80, 1)) * rng.dirichlet(np.full(300, 0.1), 2)[of]).astype(np.int32)
    sp.save_npz(tmp_path / "pbmc_facs_counts.npz", sp.csr_matrix(x))
    names = np.array([f"gene {i % 299}" for i in range(300)])
    np.savez(tmp_path / "pbmc_facs_meta.npz", celltype=np.array(["B", "T"])[of], gene_symbol=names)
    words = ["--data", str(tmp_path), "--splits", "1", "--drawn", "50", "--updates", "2", "--out", str(tmp_path)]
    assert cells.main(words) == 0
    records = json.loads((tmp_path / "results.json").read_text())
    assert [record["method"] for record in records] == ["floor", "countjump", "genes apart"]
    assert all(set(record["library_types"]) == set(record["types"]) == {"B", "T"} for record in records)
    page = (tmp_path / "table.md").read_text()
    assert "`python benchmarks/cells.py --data DIR --drawn 50 --updates 2 --splits 1`" in page
    assert page in capsys.readouterr().out
    assert (tmp_path / "cells.png").stat().st_size > 1000
    monkeypatch.setattr(cells, "measure", lambda *_: pytest.fail("nothing is missing"))
    assert cells.main(words) == 0
    with pytest.raises(SystemExit):
        cells.main([*words, "--updates", "3"])
    assert "choose another --out" in capsys.readouterr().err


class Sights(torch.nn.Module):
    """A small network of images in the Inception network's place: means of squares, of each colour."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(x, 3).flatten(1)


def test_randomising_costs_less_the_larger_lambda_is(tmp_path, monkeypatch):
    """Figure 5 on images in the archive's form: exact encodings lose nothing, and a run that is repeated makes no features."""
    monkeypatch.syspath_prepend(str(ROOT))
    randomising = importlib.import_module("benchmarks.randomising")
    rng, labels = np.random.default_rng(0), np.arange(80) % 10
    x = (rng.integers(0, 200, (80, 1, 1, 3)) + rng.integers(0, 56, (80, 32, 32, 3))).astype(np.uint8)
    np.savez(tmp_path / "cifar10_5k1k_uint8.npz", x_train=x, y_train=labels, x_test=x[:10], y_test=labels[:10])
    torch.jit.trace(Sights(), torch.zeros(1, 3, 299, 299)).save(str(tmp_path / "network.pt"))
    places = {name: str(tmp_path / name) for name in ("cache", "out")}
    words = ["--data", str(tmp_path), "--weights", str(tmp_path / "network.pt"), "--images", "16"]
    words += ["--cache", places["cache"], "--out", places["out"]]
    randomising.main(words)
    records = json.loads((tmp_path / "out" / "figure5.json").read_text())
    assert [r["encoding"] for r in records] == ["none", *["poisson"] * 6, *["units"] * 3]
    assert records[0]["fid"] == pytest.approx(0, abs=1e-6)
    poisson = [r["fid"] for r in records if r["encoding"] == "poisson"]
    assert poisson == sorted(poisson, reverse=True)
    assert (tmp_path / "out" / "figure5.md").read_text() == randomising.table(records)
    assert (tmp_path / "out" / "figure5.png").read_bytes().startswith(b"\x89PNG")
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    randomising.main(words)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()} == made
    # Of more than half of all images one half is compared with the other.
    monkeypatch.setitem(randomising.ENCODINGS, "poisson", (1,))
    words[words.index("16")] = "60"
    randomising.main([*words, "--encodings", "poisson"])
    first, last = json.loads((tmp_path / "out" / "figure5.json").read_text())
    assert [(r["images"], r["others"]) for r in (first, last)] == [(60, 30)] * 2
    assert 0 < first["fid_others"] < last["fid_others"]
    assert "two groups of 30 real images" in (tmp_path / "out" / "figure5.md").read_text()


def test_choices_of_images_are_compared(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    beliefs = importlib.import_module("benchmarks.beliefs")
    words = ["beliefs.py", "--updates", "1", "--width", "4", "--rows", "40", "--steps", "2"]
    words += ["--models", str(tmp_path / "models"), "--out", str(tmp_path / "page.md")]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr(beliefs, "METHODS", {"categorical": {"belief": "categorical"}})
    monkeypatch.setattr(beliefs, "SAMPLERS", {})
    before = beliefs.planning.ALTERNATIVES, beliefs.planning.MANY
    beliefs.main()
    assert before == (beliefs.planning.ALTERNATIVES, beliefs.planning.MANY)
    models = [beliefs.JumpModel.load(tmp_path / "models" / f"digits-choice-{number}") for number in range(5)]
    assert [model.block_.alternatives for model in models] == [8, 4, 1, 8, 8]
    assert [type(model.process_.schedule).__name__ for model in models] == [*["Geometric"] * 3, "LinearBeta", "Cosine"]
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert all(page.count(f"\n| {choice} |") == 1 for choice in beliefs.CHOICES)
