"""Margins of bounded counts: every level's log-odds are raised by what the margins of drawn chains lack."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from countjump import Count, JumpModel, fitting
from countjump.blocks import Counts
from countjump.laws import Binomial
from countjump.metrics.tables import column_shapes
from countjump.planning.plan import build_block


def table(rows: int = 300) -> pd.DataFrame:
    """Ratings of 0 … 20 in lumps that depend on each other, and a count without a bound."""
    g = np.random.default_rng(0)
    kind = g.integers(0, 4, rows)
    a = np.where(g.random(rows) < 0.5, 5 * kind, g.integers(0, 21, rows))
    b = np.where(g.random(rows) < 0.6, 20 - 5 * kind, g.integers(0, 21, rows))
    return pd.DataFrame({"a": a, "b": b, "visits": g.poisson(2.0 + 3 * kind)})


DOMAIN = Count((20.0, 20.0, np.inf))


def block_of(rows: int = 300) -> Counts:
    model = JumpModel(DOMAIN, progress=False, random_state=0).decide(table(rows))
    found = build_block(model.plan_.parts)
    counts = [each for each in found.modules() if isinstance(each, Counts) and each.matches_margins]
    (block,) = counts
    return block


def law_at(block: Counts, z: torch.Tensor) -> object:
    output = torch.randn(len(z), block.outputs, generator=torch.Generator().manual_seed(0))
    return block.law(output, z, torch.full((len(z), 1), 0.3, dtype=torch.float64))


@pytest.fixture
def state() -> tuple[Counts, torch.Tensor]:
    block = block_of()
    z = torch.randint(0, 7, (5, block.size), generator=torch.Generator().manual_seed(1)).double()
    return block, z


def levels_of(block: Counts, law: object, z: torch.Tensor) -> torch.Tensor:
    """ln P of x_0 = 0 … 20, of the leveled columns."""
    found = torch.stack([law.log_prob(v - z) for v in range(21)], -1)  # type: ignore[attr-defined]
    return found[:, block.leveled]


def test_only_bounded_columns_with_few_rows_for_a_level_are_leveled():
    assert block_of().leveled.sum() == 2
    model = JumpModel(DOMAIN, progress=False, random_state=0).decide(table(5000))
    assert not build_block(model.plan_.parts).matches_margins, "with so many rows any law over the levels is learned"


def test_the_same_bias_for_all_levels_changes_nothing(state):
    block, z = state
    plain = law_at(block, z)
    block.level_bias.fill_(0.5)
    biased = law_at(block, z)
    np.testing.assert_allclose(levels_of(block, biased, z), levels_of(block, plain, z), atol=1e-9)
    value = torch.arange(5.0).double()[:, None].expand_as(z)
    np.testing.assert_allclose(biased.thin(0.4).log_prob(value), plain.thin(0.4).log_prob(value), atol=1e-9)
    np.testing.assert_allclose(biased.mean, plain.mean, rtol=1e-9)


def test_a_bias_raises_the_log_odds_and_the_law_stays_closed_under_thinning(state):
    block, z = state
    plain = levels_of(block, law_at(block, z), z)
    block.level_bias.normal_(generator=torch.Generator().manual_seed(2))
    law = law_at(block, z)
    found = levels_of(block, law, z)
    np.testing.assert_allclose(found, (plain + block.level_bias[block.leveled]).log_softmax(-1), atol=1e-9)
    np.testing.assert_allclose(found.exp().sum(-1), 1.0, atol=1e-9)
    n = torch.arange(21.0, dtype=torch.float64)
    p = torch.stack([law.log_prob(k.expand_as(z)) for k in n], -1).exp()
    for kept in (0.0, 1.0, 3.0):
        by_sum = (p * Binomial(n, torch.full_like(n, 0.4)).log_prob(torch.tensor(kept).double()).exp()).sum(-1)
        thinned = law.thin(0.4).log_prob(torch.full_like(z, kept)).exp()
        np.testing.assert_allclose(thinned[:, block.leveled], by_sum[:, block.leveled], atol=1e-9)


def test_what_is_drawn_too_seldom_is_raised_and_other_columns_are_left_alone():
    block = block_of()
    drawn = torch.zeros(400, block.size, dtype=torch.float64)
    held = drawn.clone()
    held[:200] = 3.0
    block.match_margins(drawn, held)
    own = block.level_bias[block.leveled]
    assert (own[:, 3] > 1).all()
    assert (own[:, 0] < 0).all()
    assert (own[:, [1, 2, *range(4, 21)]] == 0).all()
    assert (block.level_bias[~block.leveled] == 0).all()


def test_margins_of_samples_come_nearer_to_those_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    X = table()

    def fitted() -> JumpModel:
        return JumpModel(DOMAIN, max_updates=100, random_state=0, progress=False).fit(X)

    matched = fitted()
    drawn = matched.sample(1000, random_state=1)
    assert drawn[["a", "b"]].max().max() <= 20
    monkeypatch.setattr(fitting, "MATCHES", 0)
    without = column_shapes(X[["a", "b"]], fitted().sample(1000, random_state=1)[["a", "b"]])
    assert column_shapes(X[["a", "b"]], drawn[["a", "b"]]) > without + 0.01
    matched.save(tmp_path / "model")
    again = JumpModel.load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.sample(5, random_state=2), matched.sample(5, random_state=2))
    np.testing.assert_array_equal(again.score_samples(X[:4]), matched.score_samples(X[:4]))


def test_the_scores_of_a_matched_column_sum_to_one_at_most():
    X = table()[["a", "b"]]
    model = JumpModel(Count(20), max_updates=60, random_state=0, progress=False).fit(X)
    b = np.arange(21)
    rows = pd.DataFrame({"a": np.repeat(b, 21), "b": np.tile(b, 21)})
    total = np.exp(model.score_samples(rows, steps=20, draws=4)).sum()
    assert 0.6 < total <= 1.01


def test_what_is_decoded_as_a_mean_has_no_biases():
    model = JumpModel(Count(20), decode="mean", random_state=0, progress=False).decide(table()[["a", "b"]])
    assert not build_block(model.plan_.parts).matches_margins


def test_few_rows_of_a_level_move_it_less():
    """Where draws do not answer, a bias ends where STEP · change = STEP · bias · 5 / rows of the level."""
    block = block_of()
    drawn = torch.zeros(400, block.size, dtype=torch.float64)
    held = drawn.clone()
    held[:5] = 3.0
    for _ in range(50):
        block.match_margins(drawn, held)
    lacking = np.log((5 + 2) / 2)
    np.testing.assert_allclose(block.level_bias[block.leveled][:, 3], lacking / (5 / 5), rtol=1e-6)


def test_a_file_with_impossible_levels_is_refused():
    model = JumpModel(DOMAIN, progress=False, random_state=0).decide(table())
    (part,) = [part for part in model.plan_.parts if "leveled" in part.arrays]
    part.arrays["bounds"] = np.where(part.arrays["leveled"], 1.5e8, part.arrays["bounds"])
    with pytest.raises(ValueError, match="fewer than 64"):
        build_block(model.plan_.parts)
