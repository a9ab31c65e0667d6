"""Pictures: whole numbers from 0 to a bound at every pixel, and beliefs that know the bound."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from countjump.blocks.base import Belief, constants, soft_clip, spread
from countjump.blocks.columns import ColumnBlock
from countjump.domains import Domain
from countjump.laws import Alternatives, Binomial, DiscretisedLogistic, Known, Mixture, Poisson, Product, Zero

VIEWS = 4  # features per pixel and channel
ONE = math.log(math.e - 1)  # where the softplus is one
LARGEST = 30.0  # the logarithm of a guided correction, at most
SHARPEST = 0.05  # scale of a logistic law: hardly any of it leaves a cell

BELIEFS = ("poisson", "mixture", "logistic", "categorical")


class Images(ColumnBlock):
    """Pictures of ``picture`` = (height, width, channels) with values 0 … ``largest``. A state is one flat row, channels last.

    What the network sees and says is laid out as (numbers, channels, height, width), flat. What it corrects is the linear
    posterior mean of a pixel with the mean m and the variance v of all of them, the same at every place:
    (v z_t + m²(1 − α)) / (v α + m (1 − α)), and its spread √(v m (1 − α)/(v α + m (1 − α))).

    ``believes`` is the law of what is missing: the paper's "poisson"; "mixture", zero or one of K Binomial(b − z_t, q);
    "logistic", x_0 by one of K discretised logistics, given x_0 ≥ z_t; "categorical", any law over the levels, by default that
    of the ``histogram`` given z_t. With ``lam`` (Poisson JUMP) there is the paper's alone.

    With several ``alternatives`` one of them holds for the whole picture, and each has its own weights of the components: so pixels
    that are drawn in one step agree on what is shown.
    """

    center: Tensor
    variance: Tensor
    usual: Tensor
    offsets: Tensor
    levels: Tensor
    log_histogram: Tensor

    def __init__(
        self,
        domain: Domain,
        picture: tuple[int, int, int],
        largest: float,
        center: float,
        variance: float,
        histogram: Tensor,
        usual: Tensor,
        believes: str = "mixture",
        components: int = 4,
        alternatives: int = 1,
        lam: Tensor | None = None,
        decoding: str = "latent",
        escape: float = 0.0,
    ) -> None:
        per_pixel = {
            "poisson": 1,
            "mixture": 1 + 2 * components,
            "logistic": 3 * components,
            "categorical": len(histogram),
        }
        mean = torch.full_like(usual, center).double()
        bounds = torch.full_like(mean, torch.inf if lam is not None else largest)
        lam = None if lam is None else lam.double().expand(len(mean))
        kinds = {"logistic": components, "mixture": 1 + components, "categorical": len(histogram)}.get(believes, 1)
        more = alternatives + (alternatives - 1) * kinds if alternatives > 1 else 0
        super().__init__(domain, mean, mean, lam, decoding, None, bounds, escape, per_pixel[believes] + more)
        self.alternatives, self.kinds = alternatives, kinds
        self.picture, self.components, self.believes = tuple(picture), components, believes
        self.inputs, self.largest = VIEWS * self.size, float(largest)
        m, v = torch.tensor(center).double(), torch.tensor(variance).double()
        constants(self, center=m, variance=v, usual=usual.double(), offsets=spread(components))
        constants(self, levels=torch.arange(len(histogram)).double(), log_histogram=histogram.double().log())

    def _linear(self, z: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """The linear posterior mean of x_0 given z_t, and the variance around it."""
        m, v, seen = self.center, self.variance, self.lam * alpha
        noise = m * (1 - alpha) if self.exact else m
        precision = v * seen + noise
        return (v * z + m * (m * (1 - alpha) if self.exact else m)) / precision.clamp(
            min=1e-12
        ), v * noise / precision.clamp(min=1e-12)

    def features(self, z: Tensor, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        """The linear posterior mean, and z_t, each of unit scale; what is usual at the place; and whether the pixel is known."""
        known = torch.zeros_like(z, dtype=torch.bool) if known is None else known
        alpha = torch.where(known, 1.0, alpha)
        m, v, seen = self.center, self.variance, self.lam * alpha
        mean, _ = self._linear(z, alpha)
        noise = m * seen * ((1 - alpha) if self.exact else 1)
        spread = (noise + v * seen**2).clamp(min=1e-12).sqrt()
        usual = ((self.usual - m) / v.sqrt()).expand_as(z)
        views = torch.stack([(mean - m) / v.sqrt(), ((z - seen * m) / spread).asinh(), usual, known], 1)
        return self._channels_first(views.float()).flatten(1)

    def _channels_first(self, views: Tensor) -> Tensor:
        """(B, V, D) → (B, V, C, H, W)."""
        return views.unflatten(-1, self.picture).movedim(-1, 2)

    def by_column(self, output: Tensor) -> Tensor:
        """(B, outputs) → (B, D, per_column), as it is in memory if there is one channel: that is fast to work with."""
        height, width, channels = self.picture
        by_place = output.reshape(len(output), self.per_column, channels, height, width).movedim(2, -1)
        return by_place.reshape(len(output), self.per_column, self.size).transpose(1, 2)

    def mix(self, plain: Tensor, given: Tensor, weight: float) -> Tensor:
        """The paper's rates are mixed by their logarithms, so that they stay positive."""
        if self.believes != "poisson":
            return super().mix(plain, given, weight)
        without, with_it = (nn.functional.softplus(each.double() + ONE).log() for each in (plain, given))
        correction = (without + weight * (with_it - without)).clamp(-LARGEST, LARGEST).exp()
        return correction + torch.log(-torch.expm1(-correction)) - ONE

    def belief(self, output: Tensor, z: Tensor, alpha: Tensor) -> Belief:
        raw = self.by_column(output)
        mean, variance = self._linear(z, alpha)
        if self.alternatives == 1:
            return Belief(Product(getattr(self, f"_{self.believes}")(raw.double(), z, alpha, mean, variance)))
        # A law of single pixels is worked out with the first of the alternatives, and has logits like all of them.
        k, more = self.alternatives, (self.alternatives - 1) * self.kinds
        weights, others, own = raw.split([k, more, self.per_column - k - more], -1)
        law = getattr(self, f"_{self.believes}")(own.double(), z, alpha, mean, variance)
        shifts = soft_clip(others, 100).unflatten(-1, (k - 1, self.kinds)).movedim(2, 1)
        return Belief(Alternatives(weights.double().mean(1), law.logits, shifts, law.parts))

    def _poisson(self, raw: Tensor, z: Tensor, alpha: Tensor, mean: Tensor, variance: Tensor) -> Poisson:
        """The rate λ (1 − α) f, f being the posterior mean of x_0; f − z_t where z_0 is x_0."""
        correction = nn.functional.softplus(raw[..., 0] + ONE)
        rate = (mean - z).clamp(min=0.01) if self.exact else self.lam * (1 - alpha) * mean.clamp(min=0.01)
        return Poisson(rate * correction)

    def _mixture(self, raw: Tensor, z: Tensor, alpha: Tensor, mean: Tensor, variance: Tensor) -> Mixture:
        """Zero, and binomials of what the bound leaves."""
        k, left = self.components, (self.largest - z).clamp(min=0)
        share = ((mean - z) / left.clamp(min=1)).clamp(1e-3, 1 - 1e-3)
        probs = torch.sigmoid(torch.logit(share)[..., None] + self.offsets + soft_clip(raw[..., :k], 30))
        binomials = Binomial(left[..., None], probs.clamp(1e-12, 1 - 1e-12))
        return Mixture(raw[..., k:], (Zero(torch.zeros_like(z)[..., None]), binomials))

    def _logistic(self, raw: Tensor, z: Tensor, alpha: Tensor, mean: Tensor, variance: Tensor) -> Mixture:
        """Places and scales in units of the linear posterior's spread, which is at least a cell."""
        logits, place, width = raw.split(self.components, -1)
        unit = variance.sqrt().clamp(min=1.0)[..., None]
        loc = mean.clamp(max=self.largest)[..., None] + unit * (self.offsets + soft_clip(place, 100))
        scale = (0.5 * unit * soft_clip(width, 10).exp()).clamp(min=SHARPEST)
        seen, largest = z[..., None].expand_as(loc), torch.full_like(z[..., None], self.largest).expand_as(loc)
        return Mixture(logits, (DiscretisedLogistic(loc, scale, seen, largest),))

    def _categorical(self, raw: Tensor, z: Tensor, alpha: Tensor, mean: Tensor, variance: Tensor) -> Mixture:
        """The histogram's posterior given z_t, and what the network adds to its log-odds."""
        thinned = Binomial(self.levels, alpha[..., None].clamp(min=1e-100)).log_prob(z[..., None])
        return Mixture(soft_clip(raw, 100) + self.log_histogram + thinned, (Known(self.levels - z[..., None]),))
