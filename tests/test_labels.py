"""Models of X given y: beliefs that are guided, chains and bounds under conditions, and fit, sample and score with labels."""

import copy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from block_examples import examples
from goodness import LEVEL, generator, grid, pearson
from sklearn.model_selection import cross_val_score
from tables import counts, quick, wide_counts, wide_reals
from test_persistence import rewrite
from test_resuming import Interrupted, interrupt, same_weights
from torch import Tensor, nn

from countjump import JumpModel, conditions
from countjump.baselines import D3PM, DDPM
from countjump.blocks import PoissonBlock
from countjump.blocks.base import Belief
from countjump.denoiser import ConditionEmbedding, Denoiser, Guided
from countjump.domains import Count
from countjump.laws import Poisson, Streams
from countjump.likelihood import lower_bound
from countjump.networks import MLP
from countjump.oracles import CountOracle
from countjump.persistence import ModelFileError
from countjump.processes import Jump
from countjump.sampling import sample_rows
from countjump.schedules import Cosine
from countjump.states import Joint
from countjump.training import CheckpointError

WEIGHTS = (0.0, 0.5, 1.0, 2.5, 10.0)
LEARNING = [name for name, example in examples().items() if example.block.outputs]


def d(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def denoiser_of(block: nn.Module, scale: float = 1.0, labels: int = 3) -> Denoiser:
    """One that is not trained, and says something of every label."""
    torch.manual_seed(0)
    network = MLP(block.inputs, block.outputs, width=8)
    nn.init.normal_(network.output.weight, std=scale)
    denoiser = Denoiser(network, block, Cosine())
    denoiser.take_condition([labels], 0, 8)
    nn.init.normal_(denoiser.condition.null)
    if getattr(block, "total_condition", None) is not None:
        nn.init.normal_(block.total_network[-1].weight)
    return denoiser.eval()


class Copies:
    """Examples of blocks, which a test may change."""

    def __getitem__(self, name: str):
        return copy.deepcopy(examples()[name])


@pytest.fixture
def fresh():
    return Copies()


# Guidance: the mathematics.


@torch.no_grad()
@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_guided_softmax_is_the_geometric_mix_of_both(weight, fresh):
    block = fresh["one-hot"].block
    denoiser, label = denoiser_of(block), d(0, 1, 2)[:, None]
    z = block.empty(3, "cpu")
    without, given, guided = (
        denoise(z, d(0.5), condition).missing.mean.squeeze(1)
        for denoise, condition in ((denoiser, None), (denoiser, label), (Guided(denoiser, weight), label))
    )
    mixed = without ** (1 - weight) * given**weight
    torch.testing.assert_close(guided, mixed / mixed.sum(-1, keepdim=True), rtol=1e-4, atol=1e-9)
    assert not torch.allclose(without, given, rtol=0.1)


@torch.no_grad()
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", ["poisson", "poisson, exact"])
def test_a_guided_poisson_rate_is_the_geometric_mix_of_both(name, weight, fresh):
    block, x = fresh[name].block, fresh[name].x
    denoiser, label = denoiser_of(block), torch.arange(len(x)).double()[:, None] % 3
    z = block.encode(x).thin(0.5).sample(generator())
    without, given, guided = (
        denoise(z, d(0.5), condition).missing.mean
        for denoise, condition in ((denoiser, None), (denoiser, label), (Guided(denoiser, weight), label))
    )
    torch.testing.assert_close(guided, without ** (1 - weight) * given**weight, rtol=1e-4, atol=0)
    assert not torch.allclose(without, given, rtol=0.1)


@torch.no_grad()
@pytest.mark.parametrize("weight", WEIGHTS)
def test_guided_wide_rows_mix_the_softmax_and_leave_totals_and_strengths(weight, fresh):
    block, x = fresh["sparse counts"].block, fresh["sparse counts"].x
    denoiser, label = denoiser_of(block), torch.arange(len(x)).double()[:, None] % 3
    empty, seen = block.empty(3, "cpu"), block.encode(x).thin(0.5).sample(generator())
    beliefs = [
        denoise(empty, d(0.5), condition).missing
        for denoise, condition in ((denoiser, None), (denoiser, label[:3]), (Guided(denoiser, weight), label[:3]))
    ]
    without, given, guided = (belief.shares.dense() for belief in beliefs)
    mixed = without ** (1 - weight) * given**weight
    torch.testing.assert_close(guided, mixed / mixed.sum(-1, keepdim=True), rtol=1e-3, atol=1e-9)
    plain, guided, none = (
        denoiser(seen, d(0.5), label),
        Guided(denoiser, weight)(seen, d(0.5), label),
        denoiser(seen, d(0.5)),
    )
    total = torch.arange(len(x)).double()[:, None]
    laws = [belief.missing.law_of_total.log_prob(total) for belief in (plain, guided, none)]
    assert torch.equal(laws[0], laws[1])
    assert not torch.allclose(laws[0], laws[2]), "the total knows of the label"
    assert torch.equal(plain.missing.strength, guided.missing.strength)


@torch.no_grad()
@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("weight", [0.0, 3.0, 10.0])
def test_every_guided_belief_is_finite(name, scale, weight, fresh):
    block, x = fresh[name].block, fresh[name].x
    denoiser, label = denoiser_of(block, scale), torch.arange(len(x)).double()[:, None] % 3
    guided = Guided(denoiser, weight)
    for alpha in (0.0, 0.5, 1 - 1e-9):
        t = d(Cosine().time(alpha) if alpha else 1.0)
        z = block.encode(x).thin(alpha).sample(generator())
        belief = guided(z, t, label)
        drawn = belief.missing.sample(generator(1))
        assert belief.missing.log_prob(drawn).isfinite().all()
    process = Jump(block, Cosine())
    rows = sample_rows(process, guided, process.grid(4), Streams([generator(2)], len(x)), condition=label)
    written = block.write(rows)
    assert np.isfinite(written.data if sp.issparse(written) else written).all()


@torch.no_grad()
def test_a_weight_of_one_is_the_denoiser_and_of_zero_that_without_a_condition(fresh):
    for name in LEARNING:
        block, x = fresh[name].block, fresh[name].x
        if isinstance(x, Joint) or "sparse" in name:
            continue
        denoiser, label = denoiser_of(block), torch.ones(len(x), 1).double()
        z = block.encode(x).thin(0.3).sample(generator())
        for weight, condition in ((1.0, label), (0.0, None)):
            expected = denoiser(z, d(0.4), condition).missing.mean
            torch.testing.assert_close(
                Guided(denoiser, weight)(z, d(0.4), label).missing.mean, expected, rtol=1e-4, atol=1e-6
            )


# Conditions in chains and bounds: oracles that know the classes.


class ClassOracle:
    """x_0 of class k is Poisson with the k-th rate: the exact belief under the condition k."""

    def __init__(self, *rates: float) -> None:
        self.oracles = [CountOracle(Cosine(), Poisson(d(rate)), largest=80) for rate in rates]

    def __call__(self, z: Tensor, t: Tensor, condition: Tensor | None = None) -> Belief:
        assert condition is not None
        logits = torch.stack([each(z, t).missing.entries.logits for each in self.oracles], 1)
        belief = self.oracles[0](z, t)
        chosen = logits[torch.arange(len(z)), condition[:, 0].long()]
        law = type(belief.missing.entries)(chosen, belief.missing.entries.parts)
        return Belief(type(belief.missing)(law))


RATES = (2.0, 9.0)


def exact_counts() -> Jump:
    return Jump(PoissonBlock(Count(), torch.ones(1).double(), torch.ones(1).double()), Cosine())


@pytest.mark.parametrize("steps", [1, 2, 20])
def test_every_class_of_a_chain_has_its_own_law(steps):
    """All rows begin in one state: only the condition tells them apart."""
    process, label = exact_counts(), (torch.arange(6000) % 2).double()[:, None]
    x = sample_rows(process, ClassOracle(*RATES), process.grid(steps), Streams([generator(1)], 6000), condition=label)
    for k, rate in enumerate(RATES):
        assert pearson(x[label[:, 0] == k], grid(60)[:, None], Poisson(d(rate)).log_prob(grid(60))) > LEVEL


@pytest.mark.parametrize("steps", [1, 5, 20])
def test_the_bound_of_an_exact_belief_is_the_likelihood_of_the_class(steps):
    """Whatever path is drawn; rows in equal states under different conditions are evaluated apart."""
    process, x = exact_counts(), d(3, 3, 3, 3, 7, 7)[:, None]
    label = d(0, 1, 0, 1, 0, 1)[:, None]
    bound = lower_bound(process, ClassOracle(*RATES), x, process.grid(steps), list(range(6)), label)
    expected = torch.stack([Poisson(d(RATES[int(k)])).log_prob(value)[0] for k, value in zip(label, x, strict=True)])
    torch.testing.assert_close(bound, expected, rtol=1e-6, atol=1e-6)


# The embedding.


def test_a_condition_that_is_not_given_has_a_vector_of_its_own():
    torch.manual_seed(0)
    embedding = ConditionEmbedding([2, 3], 2, 8)
    nn.init.normal_(embedding.null)
    given = d([0, 0, 0.5, 1], [1, 2, 0.5, 1], [torch.nan] * 4, [0, 2, 0.5, -1])
    vectors = embedding(given, 4)
    assert torch.equal(vectors[2], embedding.null)
    assert torch.equal(embedding(None, 2), embedding.null.expand(2, 8))
    assert len(torch.unique(vectors.round(decimals=5), dim=0)) == 4


class Deaf(nn.Module):
    """A network of one's own that does not look at the condition."""

    def __init__(self, inputs, outputs, width):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, features, t, condition=None):
        return self.layer(features)


class Listening(Deaf):
    """One that does."""

    def __init__(self, inputs, outputs, width):
        super().__init__(inputs, outputs, width)
        self.given = nn.Linear(width, outputs)

    def forward(self, features, t, condition=None):
        return self.layer(features) + (0 if condition is None else self.given(condition))


def test_a_network_that_takes_no_notice_of_labels_is_refused(tmp_path):
    y = np.arange(300) % 3
    with pytest.raises(ValueError, match="the network Deaf takes no notice of its condition"):
        quick(network=Deaf).fit(counts(), y)
    quick(network=Deaf).fit(counts())
    model = quick(network=Listening).fit(counts(), y)
    model.save(tmp_path)
    again = JumpModel.load(tmp_path, network=Listening)
    np.testing.assert_array_equal(again.sample(5, random_state=0, y=1), model.sample(5, random_state=0, y=1))


# Models.


def classes(rows=1200, seed=0):
    """Two columns and three classes, each with its own rates."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["few", "more", "most"], rows, p=[0.5, 0.3, 0.2])
    rate = {"few": (1.0, 6.0), "more": (6.0, 1.0), "most": (15.0, 15.0)}
    return rng.poisson([rate[label] for label in y]), y


@pytest.fixture(scope="module")
def trained():
    return JumpModel(max_updates=500, batch_size=256, width=64, learning_rate=3e-3, random_state=0, progress=False).fit(
        *classes()
    )


def test_samples_are_of_the_label_that_is_asked_for(trained):
    X, y = classes()
    for label in ("few", "more", "most"):
        Y = trained.sample(1000, random_state=0, y=label)
        np.testing.assert_allclose(Y.mean(0), X[y == label].mean(0), rtol=0.15)
        np.testing.assert_allclose(Y.std(0), X[y == label].std(0), rtol=0.2)


def test_labels_that_are_not_given_are_drawn_as_in_training(trained):
    X, y = classes()
    Y, drawn = trained.sample(2000, random_state=1, return_y=True)
    for label in ("few", "more", "most"):
        assert np.mean(drawn == label) == pytest.approx(np.mean(y == label), abs=0.04)
        np.testing.assert_allclose(Y[drawn == label].mean(0), X[y == label].mean(0), rtol=0.2)
    assert drawn.dtype == y.dtype


def test_rows_without_a_label_are_learned_too(trained):
    """From those whose label was dropped in training: with a guidance of 0 rows are of all labels."""
    X, _ = classes()
    Y = trained.sample(2000, random_state=0, y="most", guidance=0.0)
    np.testing.assert_allclose(Y.mean(0), X.mean(0), rtol=0.2)
    np.testing.assert_allclose(Y.std(0), X.std(0), rtol=0.2)
    assert trained.denoiser_.condition.null.any()


def test_scores_given_the_label_classify(trained):
    """ln p(x given y) of the right label is the largest, about as often as with the true rates."""
    X, y = classes(300, seed=1)
    labels = np.array(["few", "more", "most"])
    scores = np.stack([trained.score_samples(X, label, steps=20) for label in labels], 1)
    assert (labels[scores.argmax(1)] == y).mean() > 0.93
    own = trained.score_samples(X, y, steps=20)
    np.testing.assert_allclose(own, scores[np.arange(300), np.searchsorted(labels, y)], rtol=1e-6)
    assert own.mean() > trained.score_samples(X, steps=20).mean() + 0.3
    assert trained.score(X, y) == pytest.approx(trained.score_samples(X, y).mean())


def test_guidance_makes_rows_more_typical_of_their_label():
    """Of two rates that are near each other the smaller becomes smaller, and the larger larger."""
    y = np.arange(3000) % 2
    X = np.random.default_rng(0).poisson(np.where(y, 6.0, 4.0))[:, None]
    model = quick(max_updates=500, width=64, batch_size=256, learning_rate=3e-3).fit(X, y)
    low, high = ([model.sample(2000, random_state=0, y=k, guidance=w).mean() for w in (0.0, 1.0, 3.0)] for k in (0, 1))
    assert low[0] > low[1] + 0.5 > low[2] + 1
    assert high[0] < high[1] - 0.5 < high[2] - 1


@pytest.mark.parametrize(
    "make", [classes, lambda: (counts(), np.arange(300) % 7), lambda: (counts(), np.linspace(0, 1, 300))]
)
def test_a_row_depends_on_its_own_y_alone(make, tmp_path):
    X, y = make()
    model = quick().fit(X, y)
    labels = y[np.random.default_rng(0).permutation(len(y))][:60]
    for guidance in (1.0, 2.0):
        draw = {"steps": 4, "random_state": 3, "guidance": guidance}
        whole = model.sample(60, y=labels, **draw)
        np.testing.assert_array_equal(model.sample(10, y=labels[:10], **draw), whole[:10])
        other = labels.copy()
        other[1::2] = y[0]
        np.testing.assert_array_equal(model.sample(60, y=other, **draw)[::2], whole[::2])
        np.testing.assert_array_equal(model.sample(60, y=labels[4], **draw)[4], whole[4])
        drawn, of = model.sample(50, return_y=True, **draw)
        np.testing.assert_array_equal(model.sample(50, y=of, **draw), drawn)
        np.testing.assert_array_equal(model.sample(9, **draw), drawn[:9])
    model.save(tmp_path)
    np.testing.assert_array_equal(
        JumpModel.load(tmp_path).sample(60, y=labels, **draw), model.sample(60, y=labels, **draw)
    )


@pytest.mark.parametrize("wide", [wide_counts, wide_reals])
def test_a_wide_row_depends_on_its_own_y_alone(wide, tmp_path):
    X = wide()
    y = np.where(np.arange(X.shape[0]) % 3, "a", "b")
    model = quick(max_updates=5).fit(X, y)
    for guidance in (1.0, 10.0):
        draw = {"steps": 3, "random_state": 0, "guidance": guidance}
        mixed = model.sample(70, y=y[:70], **draw)
        one = model.sample(70, y="a", **draw)
        assert np.isfinite(mixed.data).all()
        assert (one[y[:70] == "a"] != mixed[y[:70] == "a"]).nnz == 0
        assert (model.sample(5, y=y[:5], **draw) != mixed[:5]).nnz == 0
    model.save(tmp_path)
    again = JumpModel.load(tmp_path)
    assert (again.sample(70, y=y[:70], **draw) != mixed).nnz == 0
    np.testing.assert_array_equal(again.score_samples(X[:4], "a", steps=3), model.score_samples(X[:4], "a", steps=3))


def test_the_totals_of_wide_rows_follow_their_label():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    X = sp.csr_matrix(rng.poisson(np.where(y, 0.4, 0.05)[:, None] * np.ones(300)))
    model = quick(max_updates=200).fit(X, y)
    totals = [float(model.sample(200, random_state=0, y=label).sum(1).mean()) for label in (0, 1)]
    assert totals == pytest.approx([15, 120], rel=0.1)
    guided = [float(model.sample(200, random_state=0, y=label, guidance=5.0).sum(1).mean()) for label in (0, 1)]
    assert guided == pytest.approx([15, 120], rel=0.1)


def test_a_number_shifts_a_row():
    rng = np.random.default_rng(0)
    y = rng.uniform(0, 3, 2000)
    X = rng.poisson(np.exp(y))[:, None]
    model = quick(max_updates=600, width=64, batch_size=256, learning_rate=3e-3).fit(X, y)
    for value in (0.5, 1.5, 2.5):
        assert model.sample(500, random_state=0, y=value).mean() == pytest.approx(np.exp(value), rel=0.15)


def test_covariates_of_several_kinds_act_together():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": rng.choice(["a", "b"], 2000), "dose": rng.uniform(0, 2, 2000)})
    rate = np.where(frame["kind"] == "a", 2.0 + 4 * frame["dose"], 10.0 - 4 * frame["dose"])
    X = rng.poisson(rate)[:, None]
    model = quick(max_updates=600, width=64, batch_size=256, learning_rate=3e-3).fit(X, frame)
    for kind, dose, mean in (("a", 0.2, 2.8), ("a", 1.8, 9.2), ("b", 0.2, 9.2), ("b", 1.8, 2.8)):
        Y = model.sample(500, random_state=0, y={"kind": kind, "dose": dose})
        assert Y.mean() == pytest.approx(mean, rel=0.2)
    Y, drawn = model.sample(40, random_state=0, return_y=True)
    assert list(drawn.columns) == ["kind", "dose"]
    assert "'kind', 2 labels; 'dose', a number" in model.choices_["y"]


@pytest.mark.parametrize("kind", [DDPM, D3PM])
def test_the_baselines_take_labels_too(kind, tmp_path):
    X, y = classes()
    model = kind(max_updates=400, width=64, learning_rate=3e-3, random_state=0, progress=False).fit(X, y)
    means = {label: model.sample(500, random_state=0, y=label, guidance=1.5).mean() for label in ("few", "most")}
    assert means["most"] > 2.5 * means["few"]
    model.save(tmp_path)
    np.testing.assert_array_equal(
        kind.load(tmp_path).sample(5, y="few", random_state=0), model.sample(5, y="few", random_state=0)
    )


def test_without_y_nothing_is_drawn_otherwise_than_before():
    """A fit without y does not ask for random numbers for it."""
    model = quick().fit(counts())
    assert model.conditions_ is None
    assert not any("condition" in name for name in model.denoiser_.state_dict())


def test_rows_that_are_all_alike_have_labels_too(tmp_path):
    model = quick().fit(np.full((20, 2), 3), ["a", "b"] * 10)
    assert (model.sample(4, y="b", guidance=2.0) == 3).all()
    assert np.isfinite(model.score_samples([[3, 3]], "a")).all()
    model.save(tmp_path)
    with pytest.raises(ValueError, match="'c' was not in training"):
        JumpModel.load(tmp_path).sample(4, y="c")


def test_no_rows_with_labels():
    model = quick().fit(counts(), np.arange(300) % 3)
    X, y = model.sample(0, return_y=True)
    assert X.shape == (0, 3)
    assert y.shape == (0,)


# What is refused.


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.arange(299), "y has 299 rows, and X has 300"),
        (["a"] * 299 + [None], r"y\[299\] is missing"),
        (np.append(np.zeros(299), np.nan), r"y\[299\] is missing"),
        ("a", "names a column, and X is a matrix without names"),
    ],
)
def test_a_wrong_y_is_refused_and_changes_nothing(y, words):
    model = quick().fit(counts())
    before = dict(vars(model))
    with pytest.raises(ValueError, match=words):
        model.fit(counts(), y)
    assert vars(model) == before


def test_what_needs_labels_says_so():
    model = quick().fit(counts())
    for options in ({"y": "a"}, {"guidance": 2.0}, {"return_y": True}):
        with pytest.raises(ValueError, match=r"the model was fitted without y: fit\(X, y\)"):
            model.sample(3, **options)
    with pytest.raises(ValueError, match="fitted without y"):
        model.score_samples(counts(), "a")
    assert model.score(counts(), np.zeros(300)) == model.score(counts()), "cross-validation hands y over to every model"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"y": 9}, ValueError, "y = 9 was not in training: the known ones are 2, 1, 0"),
        ({"y": [0, 1]}, ValueError, "y has 2 rows for 5 rows"),
        ({"guidance": -1}, ValueError, "from 0"),
        ({"guidance": 10.5}, ValueError, "to 10, got 10.5"),
        ({"guidance": np.nan}, ValueError, "guidance must be from 0"),
        ({"guidance": "2"}, TypeError, "guidance must be a number"),
        ({"guidance": True}, TypeError, "guidance must be a number"),
    ],
)
def test_wrong_options_of_samples(options, error, words):
    model = quick(max_updates=2).fit(counts(), np.arange(300) % 3)
    with pytest.raises(error, match=words):
        model.sample(5, **options)


def test_cross_validation_scores_rows_given_their_labels():
    X, y = classes(300)
    with_y = cross_val_score(quick(max_updates=150), X, y, cv=2)
    assert np.isfinite(with_y).all()
    assert with_y.mean() > cross_val_score(quick(max_updates=150), X, cv=2).mean()


def test_the_random_numbers_of_a_score_do_not_depend_on_y(monkeypatch):
    """So that the scores of a row under two labels differ by the labels alone."""
    from countjump import scoring

    model, keys = quick().fit(counts(), np.arange(300) % 3), []
    real = scoring.lower_bound
    monkeypatch.setattr(scoring, "lower_bound", lambda *a: (keys.append(sorted(a[4])), real(*a))[1])
    for label in (0, 1):
        model.score_samples(counts()[:5], label, steps=3)
    assert keys[0] == keys[1]
    keys.clear()
    twice = model.score_samples(np.repeat(counts()[:2], 3, axis=0), [0, 1, 0, 0, 1, 1], steps=3)
    assert len(keys[0]) == 4, "equal rows with equal labels are scored once"
    assert twice[0] == twice[2] != twice[1]


# On disk, and resumed.


@pytest.fixture(scope="module")
def small():
    return quick(max_updates=2).fit(counts(), np.where(np.arange(300) % 3, "a", "b"))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["fitted"]["condition"]["columns"][0].update(levels=["a", "b", "c"]),
        lambda d: d["fitted"]["condition"]["columns"][0].update(levels=["a"]),
        lambda d: d["fitted"]["condition"].update(form="frame", columns=[]),
        lambda d: d["fitted"].update(condition=None),
        lambda d: d["fitted"].pop("condition"),
        lambda d: d["fitted"].update(condition="labels"),
    ],
)
def test_a_model_file_with_other_labels_is_refused(small, change, tmp_path):
    small.save(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(ModelFileError, match="save the model again"):
        JumpModel.load(tmp_path)


def test_a_frame_of_covariates_is_saved(tmp_path):
    frame = pd.DataFrame({"kind": ["a", "b", "c"] * 100, "size": np.linspace(0, 5, 300)})
    model = quick(max_updates=2).fit(counts(), frame)
    model.save(tmp_path)
    ours, theirs = (each.sample(20, random_state=0, return_y=True) for each in (model, JumpModel.load(tmp_path)))
    np.testing.assert_array_equal(ours[0], theirs[0])
    pd.testing.assert_frame_equal(ours[1], theirs[1])


@pytest.mark.parametrize(("make", "at"), [(counts, 20), (wide_counts, 41)])
def test_a_fit_with_labels_that_is_interrupted_ends_with_the_same_weights(make, at, tmp_path, monkeypatch):
    X = make()
    y = np.arange(X.shape[0]) % 3
    settings = {"max_updates": 30, "validation_fraction": 0.2}
    whole = quick(**settings).fit(X, y)
    interrupt(monkeypatch, at)
    model = quick(**settings, checkpoint_dir=tmp_path, checkpoint_every=4)
    with pytest.raises(Interrupted):
        model.fit(X, y)
    model.fit(X, y)
    assert same_weights(model, whole)


def test_a_checkpoint_of_other_labels_is_refused(tmp_path):
    y = np.arange(300) % 3
    quick(checkpoint_dir=tmp_path).fit(counts(), y)
    for other in (None, y[::-1], y.astype(str)):
        with pytest.raises(CheckpointError, match="another fit"):
            quick(checkpoint_dir=tmp_path).fit(counts(), other)


def test_the_number_of_rows_that_are_kept_does_not_depend_on_their_number():
    y = np.random.default_rng(0).normal(size=(conditions.MOST_KEPT + 50, 1))
    found, _ = conditions.Conditions.fit(y, len(y))
    assert len(found.kept) == conditions.MOST_KEPT
