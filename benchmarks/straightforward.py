"""The paper's algorithms 1 and 2 as they are written, in vectorised torch: what countjump is measured against.

One network evaluation per row and step, one time embedding per row, one Poisson draw per entry.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from countjump import LinearBeta
from countjump.networks import UNet, UNetSizes

TIMESTEPS = 100


class Block(nn.Module):
    """Two layers and a projection of the time embedding, with layer norm, leaky ReLU and a skip around."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.time = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        inner = self.first(functional.leaky_relu(self.norm(h))) + self.time(embedding)
        return h + self.second(functional.leaky_relu(inner))


class Network(nn.Module):
    """f(z, t) ≥ 0: the sizes of countjump's network, and the mean of the data where it answers zero."""

    def __init__(self, mean: float | Tensor, width: int = 128, frequencies: int = 32, columns: int = 1) -> None:
        super().__init__()
        self.mean = mean
        self.register_buffer("frequencies", torch.logspace(0, math.log10(200.0), frequencies))
        self.embedding = nn.Sequential(nn.Linear(2 * frequencies + 1, width), nn.LeakyReLU(), nn.Linear(width, width))
        self.input = nn.Linear(columns, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, columns)

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        """Counts (B, D) and times (B, 1) in [0, 1] → (B, D)."""
        angle = t * self.frequencies
        embedding = functional.leaky_relu(self.embedding(torch.cat([angle.sin(), angle.cos(), t], -1)))
        h = self.input(z.log1p())
        for block in self.blocks:
            h = block(h, embedding)
        return self.mean * functional.softplus(self.output(functional.leaky_relu(self.norm(h))))


class Straightforward:
    """A JUMP model of one column: the paper's schedule, λ, loss, Adam at a fixed rate of 0.001."""

    def __init__(self, x: Tensor, lam: float, batch: int = 1000, seed: int = 0) -> None:
        self.x, self.lam, self.batch = x.float().reshape(-1, 1), lam, batch
        mean = float(self.x.mean())
        times = torch.arange(TIMESTEPS + 1) / TIMESTEPS
        self.alpha = LinearBeta.solve(lam * mean, timesteps=TIMESTEPS).interior(times).float()
        torch.manual_seed(seed)
        self.network = Network(mean)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=1e-3, fused=True)

    def update(self) -> None:
        """Algorithm 1, once round its loop."""
        x = self.x[torch.randint(len(self.x), (self.batch,))]
        t = torch.randint(1, TIMESTEPS + 1, (len(x), 1))
        z = torch.poisson(self.lam * self.alpha[t] * x)
        f = self.network(z, t / TIMESTEPS)
        # D_φ(x, f) = x ln(x/f) − x + f, without what does not depend on f.
        loss = functional.poisson_nll_loss(f, x, log_input=False)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    @torch.no_grad()
    def sample(self, rows: int, block: int, steps: int = TIMESTEPS) -> Tensor:
        """Algorithm 2, a block of rows at a time, g rounding z_0/λ to whole numbers; fewer ``steps`` only to time them."""
        return torch.cat([self._sample(min(block, rows - start), steps) for start in range(0, rows, block)])

    def _sample(self, rows: int, steps: int) -> Tensor:
        z = torch.zeros(rows, 1)
        for t in range(TIMESTEPS, TIMESTEPS - steps, -1):
            f = self.network(z, torch.full((rows, 1), t / TIMESTEPS))
            z = z + torch.poisson(self.lam * (self.alpha[t - 1] - self.alpha[t]) * f)
        return (z / self.lam).round()


class WideStraightforward:
    """A JUMP model of many columns, every row and batch dense: the paper's section 4.2 (batch 128, gradient norm at most 1)."""

    def __init__(self, X: sp.csr_matrix, lam: float, batch: int = 128, seed: int = 0) -> None:
        self.X, self.lam, self.batch = X, lam, batch
        mean = torch.from_numpy(np.asarray(X.mean(axis=0), dtype=np.float32))
        times = torch.arange(TIMESTEPS + 1) / TIMESTEPS
        self.alpha = LinearBeta.solve(lam * float(mean.mean()), timesteps=TIMESTEPS).interior(times).float()
        torch.manual_seed(seed)
        self.network = Network(mean, columns=X.shape[1])
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=1e-3, fused=True)

    def update(self) -> None:
        """Algorithm 1, once round its loop."""
        rows = torch.randint(self.X.shape[0], (self.batch,)).numpy()
        x = torch.from_numpy(self.X[rows].toarray().astype(np.float32))
        t = torch.randint(1, TIMESTEPS + 1, (len(x), 1))
        z = torch.poisson(self.lam * self.alpha[t] * x)
        loss = functional.poisson_nll_loss(self.network(z, t / TIMESTEPS), x, log_input=False)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()

    @torch.no_grad()
    def sample(self, rows: int, block: int, steps: int = TIMESTEPS) -> sp.csr_matrix:
        """Algorithm 2, a block of rows at a time; fewer ``steps`` only to time them."""
        return sp.vstack(
            [self._sample(min(block, rows - start), steps) for start in range(0, rows, block)], format="csr"
        )

    def _sample(self, rows: int, steps: int) -> sp.csr_matrix:
        z = torch.zeros(rows, self.X.shape[1])
        for t in range(TIMESTEPS, TIMESTEPS - steps, -1):
            f = self.network(z, torch.full((rows, 1), t / TIMESTEPS))
            z = z + torch.poisson(self.lam * (self.alpha[t - 1] - self.alpha[t]) * f)
        return sp.csr_matrix((z / self.lam).round().numpy())


class ImageStraightforward:
    """A JUMP model of images by a U-Net, with a time for every image (section 4.3: AdamW, gradient norm at most 1)."""

    def __init__(
        self, X: np.ndarray, lam: float, width: int, batch: int = 128, timesteps: int = 1000, seed: int = 0
    ) -> None:
        self.X, self.lam, self.batch, self.timesteps = torch.from_numpy(X), lam, batch, timesteps
        self.mean = float(X.mean())
        times = torch.arange(timesteps + 1) / timesteps
        self.alpha = LinearBeta.solve(lam * self.mean, timesteps=timesteps).interior(times).float()
        torch.manual_seed(seed)
        pixels, shape = X[0].size, (X.shape[1], X.shape[2])
        self.network = UNet(pixels, pixels, width, shape, UNetSizes.of(shape))
        self.optimiser = torch.optim.AdamW(self.network.parameters(), lr=2e-4, weight_decay=1e-3)
        self.average = [weight.detach().clone() for weight in self.network.parameters()]

    def mean_of_data(self, z: Tensor, t: Tensor) -> Tensor:
        """f(z, t) ≥ 0, (B, pixels), for times (B,)."""
        scaled = z / (self.lam * self.mean * self.alpha[(t * self.timesteps).round().long()][:, None] + 1)
        return self.mean * functional.softplus(self.network(scaled, t))

    def update(self) -> None:
        """Algorithm 1, once round its loop."""
        x = self.X[torch.randint(len(self.X), (self.batch,))].flatten(1).float()
        t = torch.randint(1, self.timesteps + 1, (len(x),))
        z = torch.poisson(self.lam * self.alpha[t][:, None] * x)
        loss = functional.poisson_nll_loss(self.mean_of_data(z, t / self.timesteps), x, log_input=False)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        with torch.no_grad():
            for mine, weight in zip(self.average, self.network.parameters(), strict=True):
                mine.lerp_(weight, 1e-4)

    @torch.no_grad()
    def sample(self, images: int, steps: int | None = None) -> Tensor:
        """Algorithm 2; fewer ``steps`` only to time them."""
        z = torch.zeros(images, self.X[0].numel())
        for t in range(self.timesteps, self.timesteps - (steps or self.timesteps), -1):
            f = self.mean_of_data(z, torch.full((images,), t / self.timesteps))
            z = z + torch.poisson(self.lam * (self.alpha[t - 1] - self.alpha[t]) * f)
        return (z / self.lam).round().unflatten(1, self.X.shape[1:])
