"""Made-up tables and short fits, for the tests of whole models."""

import numpy as np
import scipy.sparse as sp

from countjump import JumpModel


def quick(**params):
    """A model whose fit is short."""
    defaults = {"max_updates": 30, "batch_size": 64, "width": 16, "random_state": 0, "progress": False}
    return JumpModel(**(defaults | params))


def counts(rows=300, columns=3, seed=0):
    return np.random.default_rng(seed).negative_binomial(2, 0.4, size=(rows, columns))


def one_hots(rows=200, parts=4, seed=0):
    return np.eye(parts, dtype=int)[np.random.default_rng(seed).integers(parts, size=rows)]


def shares(rows=200, parts=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(parts) * 2, size=rows)


DATA = {
    "count": counts(),
    "bounded-count": np.random.default_rng(0).integers(0, 6, size=(300, 2)),
    "binary": np.random.default_rng(0).integers(0, 2, size=(300, 3)),
    "one-hot": one_hots(),
    "simplex": shares(),
    "bounded": np.random.default_rng(0).random((300, 2)),
    "non-negative": np.random.default_rng(0).gamma(0.5, 20, size=(300, 2))
    * (np.random.default_rng(1).random((300, 2)) < 0.7),
}


def wide_counts(rows=80, columns=256):
    """Rows of two kinds, in bursts; some rows twice, so that they differ in fewer directions than there are rows."""
    rng = np.random.default_rng(0)
    rate = rng.gamma(0.3, 1.0, (2, columns))[rng.integers(2, size=rows)]
    some = rng.poisson(rate * rng.gamma(0.3, 3.0, rate.shape))
    return sp.csr_matrix(np.concatenate([some, some[:10]]))


def wide_reals(rows=90, columns=256):
    """Sparse reals that are no counts behind weights."""
    X = sp.random(rows, columns, density=0.05, random_state=0, data_rvs=np.random.default_rng(0).random, format="csr")
    X.data = 0.1 - np.log(X.data)
    return X


def check_domains(model, Y):
    """Every part of a model's rows is in its domain, as it is coded, and the same comes back from that."""
    Y = np.asarray(Y.toarray() if sp.issparse(Y) else Y, dtype=float)
    for part in model.plan_.parts:
        own = Y[:, part.columns]
        coded = own if part.coding is None else part.coding.code(own)
        part.domain.check(coded)
        if part.coding is not None:
            np.testing.assert_array_equal(part.coding.decode(coded), own)
