"""What the columns of a thinned row say of each other, by their means and covariances alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

RIDGE = 1e-4
"""Of a count's variance, times α, is added to its noise: of what is known, columns may be sums of others."""


class LinearPosterior(nn.Module):
    """The linear posterior mean of z_0 given z_t, from all counts of a row together, in units of their standard deviations.

    Thinned counts have the mean α m and the covariance α² Σ + α (1 − α) diag(m), if m and Σ are those of z_0. So the best linear
    guess is m + Σ (α Σ + (1 − α) diag(m))⁻¹ (z_t − α m): the eigenvectors of diag(m)^(−½) Σ diag(m)^(−½) give it at every α. Counts
    that are known have an α of 1, and where those of a row differ a system of equations is solved. Large guesses are compressed by
    asinh.

    >>> z_0 = torch.tensor([[0.0, 0.0], [4.0, 8.0]]).double()  # the second count is twice the first
    >>> linear = LinearPosterior(2)
    >>> linear.learn(z_0)
    >>> z, alpha = torch.tensor([[2.0, 0.0]]).double(), torch.tensor([[0.5]]).double()
    >>> linear(linear.view(z, alpha)).sinh()  # 10/7 and 20/7: both are below their means, 2 and 4, by as many deviations
    tensor([[-0.2857, -0.2857]])
    """

    mean: Tensor
    vectors: Tensor
    values: Tensor
    spread: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inputs, self.size = 2 * size, size
        for name in ("mean", "values", "spread"):
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64))
        self.register_buffer("vectors", torch.zeros(size, size))

    def learn(self, z: Tensor) -> None:
        """Take the means and covariances of rows of z_0 (B, size)."""
        mean, deviation = z.mean(0), z.std(0, correction=0)
        unit = self._unit(mean)
        scaled = (z - mean) / unit
        values, vectors = torch.linalg.eigh(scaled.T @ scaled / len(z))
        self.mean.copy_(mean)
        self.values.copy_(values.clamp(min=0))
        self.vectors.copy_(vectors)
        self.spread.copy_(torch.where(deviation > 0, unit / deviation, 0.0))

    @staticmethod
    def _unit(mean: Tensor) -> Tensor:
        """The deviation of a Poisson count, in which the noise of thinning is α (1 − α)."""
        return mean.clamp(min=1e-6).sqrt()

    def view(self, z: Tensor, alpha: Tensor) -> Tensor:
        """What :meth:`forward` needs of counts (B, size) and of α, (B, 1) or (B, size): (B, inputs), float32."""
        return torch.cat([(z - alpha * self.mean) / self._unit(self.mean), alpha.expand_as(z)], 1).float()

    def forward(self, view: Tensor) -> Tensor:
        """(B, inputs) → (B, size)."""
        residual, alpha = view.chunk(2, 1)
        values, one = self.values.float(), alpha[:, :1]
        guess = ((residual @ self.vectors) * (values / (one * values + (1 - one)).clamp(min=1e-30))) @ self.vectors.T
        partly = (alpha != one).any(1)
        if partly.any():
            guess[partly] = self._solved(residual[partly].double(), alpha[partly].double()).float()
        return (guess * self.spread.float()).asinh()

    def _solved(self, residual: Tensor, alpha: Tensor) -> Tensor:
        """S √A (√A S √A + 1 − A)⁻¹ √A⁻¹ residual, S being the scaled covariance and A the diagonal matrix of every count's α."""
        vectors, root = self.vectors.double(), alpha.clamp(min=1e-12).sqrt()
        covariance = (vectors * self.values) @ vectors.T
        system = root[:, :, None] * covariance * root[:, None]
        diagonal = 1 - alpha + RIDGE * alpha * (1 + covariance.diagonal())
        system = system + torch.diag_embed(diagonal)
        solution = torch.cholesky_solve((residual / root)[..., None], torch.linalg.cholesky(system))[..., 0]
        return (root * solution) @ covariance
