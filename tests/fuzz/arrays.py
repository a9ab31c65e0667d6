"""Data of every kind given to ``fit`` and ``score_samples``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from countjump import Bounded, Count, JumpModel
from countjump.data import Rows

from .case import Case
from .children import apart
from .inputs import HOSTILE, TAMPERED, VALID
from .oracle import Wrong, attempt, check, check_model, check_scores, check_unchanged, contents, dense, equal

DOMAINS = ["count", "non-negative", "binary", "one-hot", "simplex", "bounded", Count(max=5), Bounded(max=2.5)]


def small_model(case: Case, **given: Any) -> JumpModel:
    """A model that is fitted in a moment."""
    options = {"max_updates": case.whole(1, 3), "width": 4, "batch_size": 8, "random_state": case.whole(0, 9)}
    return JumpModel(progress=False, **options | given)


def case(case: Case) -> None:
    case.scenario({_fit: 10, _score: 3, _columns: 1, _tampered: 2})


def _tampered(case: Case) -> None:
    given = case.one_of(TAMPERED)
    case.note(given.name)
    X = given.make(case.numbers())
    before = contents(X)
    if case.chance(0.5):
        word, said = apart(lambda: small_model(case).fit(X) and None, f"fit of {given.name}")
    else:
        model = small_model(case).fit(np.ones(X.shape, dtype=X.dtype))
        word, said = apart(lambda: model.score_samples(X, steps=2).tolist(), f"score_samples of {given.name}")
    check(word == "refused", "accepted", given.name, said)
    check_unchanged(X, before, "fit")


def _fit(case: Case) -> None:
    given = case.one_of(VALID if case.chance(0.6) else HOSTILE)
    domain = case.one_of(DOMAINS) if case.chance(0.15) else "auto"
    case.note(f"{given.name}, domain={domain!r}")
    X, model = given.make(case.numbers()), small_model(case, domain=domain)
    before = contents(X)
    _, error = attempt(lambda: model.fit(X))
    check_unchanged(X, before, "fit")
    if error is not None and given.verdict == "fits" and domain == "auto":
        raise Wrong("refused", given.name, error)
    check(error is not None or given.verdict != "refused", "accepted", given.name, X)
    if error is None:
        rows = check_model(model, X)
        check_scores(model, X)
        check_unchanged(X, before, "score_samples")
        if case.chance(0.3):
            model.save(case.place / "model")
            back = JumpModel.load(case.place / "model").sample(4, steps=3, random_state=7)
            check(equal(back, rows), "wrong result", "load: other rows than before saving")


def _score(case: Case) -> None:
    """Other data than the model was fitted to: scored, minus infinity, or refused; never NaN."""
    first, second = case.one_of(VALID), case.one_of(VALID + HOSTILE)
    case.note(f"{first.name}, scored on {second.name}")
    X, other = first.make(case.numbers()), second.make(case.numbers())
    if sp.issparse(X) and sp.issparse(other) and second.verdict == "fits" and case.chance(0.5):
        other = sp.csr_matrix(other)[:, : X.shape[1]]
    model = small_model(case).fit(X)
    before = contents(other)
    scores, error = attempt(lambda: model.score_samples(other, steps=case.whole(1, 5)))
    check_unchanged(other, before, "score_samples")
    check(error is not None or second.verdict != "refused", "accepted", f"score_samples of {second.name}", other)
    if error is None:
        right = scores.shape == (dense(other).shape[0],) and not np.isnan(scores).any() and (scores < np.inf).all()
        check(right, "wrong result", "score_samples: NaN or infinity", scores)


def _columns(case: Case) -> None:
    """Statistics of some columns of a sparse matrix, beside those of the dense one."""
    r = case.numbers()
    x = r.poisson(0.5, (6, 8)) * r.gamma(1.0, 1.0, (6, 8))
    x[:, 2] = case.one_of([1.0, 1e12, 1e15, 2.0**53])
    kept = np.delete(np.arange(8), case.one_of([2, 2, 5]))
    rows = Rows(sp.csr_matrix(x)).select(kept)
    for name, slow in {"totals": x[:, kept].sum(1), "filled": (x[:, kept] > 0).sum(1)}.items():
        check(np.allclose(getattr(rows, name)(), slow, rtol=1e-9), "wrong result", f"Rows.{name}", (slow, kept))
