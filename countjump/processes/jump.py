"""JUMP: counts are thinned towards zero and thickened back (the paper's sections 2.2 to 2.5 and appendix C).

z_0            counts from data, by an encoding: z_0 = x_0, or z_0 ~ Pois(λ x_0), or N units that fall by x_0
z_t            z_0 thinned by α_t
belief(z_t, t) the law of the missing count n = z_0 − z_t
z_s, s < t     z_t + belief.thin((α_s − α_t)/(1 − α_t)).sample()
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from countjump.beliefs import Belief, Head
from countjump.divergences import relative_entropy
from countjump.laws import Binomial, CountLaw, Law, Multinomial, Poisson, Product, Shifted, Split
from countjump.processes.base import Denoise, Process, Step
from countjump.schedules import Schedule

OBJECTIVES = ("nll", "reweighted", "elbo")
DECODINGS = ("latent", "mean", "draw")


class Encoding(ABC):
    """How data becomes counts: z_0 given x_0, and what is still missing given x_0 and z_t."""

    lam: Tensor
    """Counts per unit of data: z_0/λ is about x_0."""

    exact = False
    """Whether z_0 is x_0 itself."""

    @abstractmethod
    def law(self, x: Tensor) -> CountLaw:
        """q(z_0 given x_0)."""

    @abstractmethod
    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> CountLaw:
        """q(z_0 − z_t given z_t, x_0)."""

    def lift(self, x: Tensor) -> Tensor:
        """Data (B, D) in the shape of the state."""
        return x

    def lower(self, x: Tensor) -> Tensor:
        """Back from the state's shape to data (B, D)."""
        return x

    def latent(self, z: Tensor) -> Tensor:
        """z_0/λ, data (B, D)."""
        return z / self.lam.to(z.device)

    def log_volume(self, x: Tensor) -> Tensor:
        """ln |d lift(x)/dx| per row: what turns a density of lifted data into one of the data."""
        return x.new_zeros(len(x))

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The state's shape, without the rows."""


class Exact(Encoding):
    """Binomial JUMP (appendix C): z_0 = x_0, q(z_t given x_0) = Binomial(x_0, α_t); x_0 − z_t is what is missing."""

    exact = True

    def __init__(self, columns: int) -> None:
        self.lam = torch.ones(columns, dtype=torch.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        """(D,)."""
        return tuple(self.lam.shape)

    def law(self, x: Tensor) -> Product:
        """A known number."""
        return Product(Binomial(x, torch.ones_like(x)))

    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> Product:
        """Known too."""
        return Product(Binomial(x - z, torch.ones_like(x)))


class Randomised(Encoding):
    """Poisson JUMP (section 2): z_0 ~ Pois(λ x_0), q(z_t given x_0) = Pois(λ α_t x_0); Pois(λ (1 − α_t) x_0) is missing."""

    def __init__(self, lam: Tensor) -> None:
        self.lam = lam.double()

    @property
    def shape(self) -> tuple[int, ...]:
        """(D,)."""
        return tuple(self.lam.shape)

    def law(self, x: Tensor) -> Product:
        """Pois(λ x_0)."""
        return Product(Poisson(self.lam.to(x.device) * x))

    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> Product:
        """Independent of z_t."""
        return Product(Poisson(self.lam.to(x.device) * (1 - alpha) * x))


class Units(Encoding):
    """Proportions: N units fall on the parts of a whole by x_0, and units are lost; all N − |z_t| are missing.

    A row is one whole (one-hot with N = 1, simplex), or with ``bound`` every column is a whole of the two parts x/bound and
    1 − x/bound.
    """

    def __init__(self, total: Tensor, columns: int, bound: Tensor | None = None) -> None:
        self.total, self.bound, self.columns = total.double(), bound, columns
        self.lam = self.total if bound is None else self.total / bound
        self.exact = bound is None and bool((total == 1).all())

    @property
    def shape(self) -> tuple[int, ...]:
        """(G, C): one whole of D parts, or D wholes of two."""
        return (1, self.columns) if self.bound is None else (self.columns, 2)

    def lift(self, x: Tensor) -> Tensor:
        """(B, D) → (B, G, C) shares."""
        if self.bound is None:
            return x[:, None]
        share = x / self.bound.to(x.device)
        return torch.stack([share, 1 - share], -1)

    def lower(self, x: Tensor) -> Tensor:
        """(B, G, C) shares → (B, D)."""
        return x[:, 0] if self.bound is None else x[..., 0] * self.bound.to(x.device)

    def latent(self, z: Tensor) -> Tensor:
        """The shares of the units."""
        return self.lower(z / self.total.to(z.device)[:, None])

    def log_volume(self, x: Tensor) -> Tensor:
        """−ln bound for every value inside (0, bound); the ends have mass, not density."""
        if self.bound is None:
            return super().log_volume(x)
        bound = self.bound.to(x.device)
        return -torch.where((x > 0) & (x < bound), bound.log(), 0.0).sum(-1)

    def law(self, x: Tensor) -> Product:
        """Multinomial(N, x_0)."""
        return self._fall(self.total.to(x.device).expand(x.shape[:-1]), x)

    def missing(self, x: Tensor, z: Tensor, alpha: Tensor) -> Product:
        """Multinomial(N − |z_t|, x_0)."""
        return self._fall(self.total.to(x.device) - z.sum(-1), x)

    @staticmethod
    def _fall(count: Tensor, x: Tensor) -> Product:
        return Product(Split(Binomial(count, torch.ones_like(count)), Multinomial(x.log())))


class Jump(Process):
    """Thinning and thickening by any encoding, with any head's belief. ``x`` is in the state's shape (``encoding.lift``).

    ``last`` is the largest time before 1 that training and sampling visit.
    """

    discrete = True

    def __init__(
        self,
        encoding: Encoding,
        head: Head,
        schedule: Schedule,
        objective: str = "nll",
        decode: str = "latent",
        last: float | None = None,
    ) -> None:
        self.encoding, self.head, self.schedule = encoding, head, schedule
        self.objective, self.decode, self.last = objective, decode, last

    def prior(self, rows: int, generator: torch.Generator) -> Tensor:
        """Exactly zero."""
        return torch.zeros(rows, *self.encoding.shape, dtype=torch.float64, device=generator.device)

    def marginal(self, x: Tensor, t: Tensor) -> CountLaw:
        """q(z_0 given x_0) thinned by α_t (equation 4)."""
        return self.encoding.law(x).thin(self.schedule.alpha(t))

    def posterior(self, z: Tensor, x: Tensor, s: Tensor, t: Tensor) -> Law:
        """z_t plus what is missing, thinned: shifted Poisson (equation 5) or shifted binomial (equation 20)."""
        missing = self.encoding.missing(x, z, self.schedule.alpha(t))
        return Shifted(z, missing.thin(self.kept(s, t)))

    def kept(self, s: Tensor, t: Tensor) -> Tensor:
        """See :meth:`Schedule.kept`."""
        return self.schedule.kept(s, t)

    def loss(self, x: Tensor, z: Tensor, t: Tensor, prediction: Belief, generator: torch.Generator) -> Tensor:
        """The objective, per row.

        ``nll``: −ln belief(x_0) where the belief has a law of x_0, else −ln belief(n). ``reweighted``: the paper's
        D_φ(x_0, f) (equation 12), or D_φ(x_0 − z_t, f − z_t) for binomial JUMP. ``elbo``: the same with the weight of the step.
        """
        alpha = self.schedule.alpha(t)
        if self.objective == "nll":
            if prediction.data is not None:
                return -prediction.data.log_prob(x) / x[0].numel()
            missing = self.encoding.missing(x, z, alpha).sample(generator)
            return self.head.negative_log_likelihood(prediction, missing)
        # E[n given x_0, z_t] and the belief's rate differ from (x_0, f) by the factor λ (1 − α_t), 1 for binomial JUMP.
        scale = 1.0 if self.encoding.exact else self.encoding.lam.to(x.device) * (1 - alpha)
        target = self.encoding.missing(x, z, alpha).mean / scale
        divergence = relative_entropy(target, prediction.missing.mean / scale)
        if self.objective == "elbo":
            before = (t - 1 / getattr(self.schedule, "timesteps", 1000)).clamp(min=0)
            divergence = divergence * scale * self.kept(before, t)
        return divergence.mean(-1)

    def step(self, z: Tensor, prediction: Belief, t: Tensor, s: Tensor, generator: torch.Generator) -> Tensor:
        """z_t plus the belief, thinned (equation 6)."""
        return Shifted(z, prediction.missing.thin(self.kept(s, t))).sample(generator)

    def finish(self, z: Tensor, before: Step, denoise: Denoise, generator: torch.Generator) -> Tensor:
        """``latent``: z_0/λ. ``mean``: E[x_0] at the last step. ``draw``: x_0 drawn from the belief given z_0."""
        if self.decode == "latent":
            return self.encoding.latent(z)
        if self.decode == "draw":
            belief = denoise(z, z.new_zeros(1), z.new_zeros(len(z), dtype=torch.long))
            return self.encoding.lower(belief.data.sample(generator))
        return self.expectation(before)

    def expectation(self, at: Step) -> Tensor:
        """E[x_0 given z_t] by the belief: the paper's f(z_t, t)."""
        belief: Belief = at.prediction
        if belief.data is not None:
            return self.encoding.lower(belief.data.mean)
        if isinstance(self.encoding, Randomised):
            return belief.missing.mean / (self.encoding.lam.to(at.z.device) * (1 - self.schedule.alpha(at.t)))
        return self.encoding.latent(at.z + belief.missing.mean)

    def draw_times(self, count: int, generator: torch.Generator) -> Tensor:
        """See :meth:`Schedule.strew`."""
        return self.schedule.strew(count, self.last, generator)

    def grid(self, steps: int) -> Tensor:
        """From 1 to ``last`` and then by even steps of t."""
        return self.schedule.grid(steps, self.last)
