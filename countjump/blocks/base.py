"""What a block is, and blocks side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from countjump.divergences import relative_entropy
from countjump.laws import CountLaw, JointLaw
from countjump.states import Joint
from countjump.transforms import Coding

MAX_SHAPE = 1e6  # of a Gamma or negative binomial: beyond it they are a point and a Poisson for every purpose


@dataclass(frozen=True)
class Belief:
    """What is believed of rows given z_t: the law of the missing count z_0 − z_t and, where there is one, of x_0."""

    missing: Any
    data: Any = None

    def __getitem__(self, rows: Any) -> Belief:
        return Belief(self.missing[rows], None if self.data is None else self.data[rows])

    @classmethod
    def join(cls, parts: Sequence[Belief]) -> Belief:
        """Of the parts of a row, side by side."""
        data = None if all(part.data is None for part in parts) else JointLaw(tuple(part.data for part in parts))
        return cls(JointLaw(tuple(part.missing for part in parts)), data)

    @property
    def parts(self) -> tuple[Belief, ...]:
        """Back from :meth:`join`."""
        data = [None] * len(self.missing.parts) if self.data is None else self.data.parts
        return tuple(Belief(*each) for each in zip(self.missing.parts, data, strict=True))


@dataclass(frozen=True)
class Stage:
    """A piece of training: which parameters are learned, by which loss, of which rows."""

    name: str
    parameters: list[nn.Parameter]
    loss: Callable[[np.ndarray, torch.Generator], Tensor]
    """(numbers of rows, generator) → the loss, a number."""
    rows: np.ndarray
    updates: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    lr_schedule: str = "cosine"
    ema: float = 0.999
    validation: Callable[[], float] | None = None
    strata: np.ndarray | None = None
    start: Callable[[], None] | None = None
    """Done once, before the first update."""
    accumulate: int = 1
    """Parts of a batch that are worked out one after another, for want of memory."""
    after: bool = False
    """Whether it comes after the network, rather than before."""


@dataclass(frozen=True)
class Training:
    """What a block's stages can ask for: the rows of its columns, and what a network believes of some of them."""

    rows: Any
    device: torch.device
    schedule: Any
    t_max: float | None
    believe: Callable[[np.ndarray, torch.Generator], tuple[Belief, Any, Any, Tensor]]
    """(numbers of rows, generator) → the belief at random times, x_0, z_t and t (B, 1)."""
    condition: Callable[[np.ndarray, torch.Generator, bool], Tensor | None] = lambda *_: None
    """(numbers of rows, generator, whether to learn) → their conditions, of which some are dropped to learn without."""

    def part(self, place: int, columns: np.ndarray) -> Training:
        """That of one of several blocks."""

        def believe(index: np.ndarray, generator: torch.Generator) -> tuple[Belief, Any, Any, Tensor]:
            belief, x, z, t = self.believe(index, generator)
            return belief.parts[place], x.parts[place], z.parts[place], t

        return replace(self, rows=self.rows.select(columns), believe=believe)


@dataclass(frozen=True)
class ChainStep:
    """One step of a chain: the state at time t, (B,) or (1,) for all rows, and what was predicted there, of all rows or of the
    distinct states alone; row i is then in the state ``group`` i."""

    z: Any
    prediction: Any
    t: Tensor
    group: Tensor | None = None

    @property
    def parts(self) -> tuple[ChainStep, ...]:
        """Those of several blocks."""
        each = zip(self.z.parts, self.prediction.parts, strict=True)
        return tuple(ChainStep(z, prediction, self.t, self.group) for z, prediction in each)


class Block(nn.Module, ABC):
    """A group of columns. ``inputs`` and ``outputs`` size the network; ``size`` is the number of columns."""

    size: int
    inputs: int
    outputs: int

    knowables = 0  # things that can be known each by itself while others are not: columns, or whole groups of them
    sparse = False  # whether its rows are kept as their non-zeros
    exact = False  # whether z_0 is x_0 itself
    flat = False  # whether a state is a tensor (B, D), one number for each column
    matches_margins = False  # whether it has numbers that are fitted to what chains draw
    decoding = "latent"  # how x_0 comes from z_0: "latent" z_0/λ, "mean" E[x_0], or "draw" from the belief

    @property
    def columns(self) -> int:
        """Columns of a matrix that it reads and writes."""
        return self.size

    @property
    def varying(self) -> int:
        """Columns that a network models."""
        return self.columns if self.outputs else 0

    @property
    def visits_zero(self) -> bool:
        """Whether training visits t = 0 often: there wide rows draw their data, from a belief that is learned nowhere else."""
        return self.sparse and self.decoding == "draw"

    # From matrices to data and back.

    coding: Coding | None = None
    """How the values of a matrix become the block's own, if they are not."""

    def read(self, matrix: Any) -> Any:
        """Rows of a matrix (ndarray or CSR) as data."""
        dense = to_dense(matrix)
        return self.to_data(dense if self.coding is None else self.coding.code(dense))

    def to_data(self, values: np.ndarray) -> Any:
        """Rows of the block's own values (B, columns) as data."""
        return torch.from_numpy(np.ascontiguousarray(values)).to(next(self.buffers()).device)

    def write(self, x: Any) -> Any:
        """Data as rows of a matrix, inside their domain."""
        values = self.to_values(x).cpu().numpy()
        return values if self.coding is None else self.coding.decode(values)

    def to_values(self, x: Any) -> Tensor:
        """Back from :meth:`to_data`, inside the domain."""
        return x

    # The counts behind data.

    @abstractmethod
    def empty(self, rows: int, device: torch.device | str) -> Any:
        """The state at t = 1: exactly zero."""

    @abstractmethod
    def encode(self, x: Any) -> CountLaw:
        """q(z_0 given x_0)."""

    @abstractmethod
    def missing(self, x: Any, z: Any, alpha: Tensor) -> CountLaw:
        """q(z_0 − z_t given z_t, x_0)."""

    # What a network sees and means.

    @abstractmethod
    def features(self, z: Any, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        """What the network sees of z_t: (B, inputs), float32. What is ``known`` (B, knowables) is at its own time 0: see
        :meth:`hold`. A block that has no knowables is not asked with it."""

    @abstractmethod
    def belief(self, output: Tensor, z: Any, alpha: Tensor) -> Belief:
        """The belief that the network's output (B, outputs) means."""

    def mix(self, plain: Tensor, given: Tensor, weight: float) -> Tensor:
        """The output of a network that is guided: ``plain`` is that without a condition, ``given`` that with one."""
        return plain + weight * (given - plain)

    def take_condition(self, embedding: Callable[[int], nn.Module]) -> None:
        """Rows have conditions: what is learned apart from the network may embed them, in vectors of any width."""

    def conditioned(self, belief: Belief, z: Any, alpha: Tensor, condition: Tensor | None) -> Belief:
        """The belief with what the block itself knows of the condition."""
        return belief

    def subsample(self, x: Any, learning: bool, generator: torch.Generator) -> Any:
        """What an update looks at of x_0: all of it. ``learning`` is false where the network is only looked at."""
        return x

    def loss(
        self,
        belief: Belief,
        x: Any,
        z: Any,
        alpha: Tensor,
        generator: torch.Generator,
        known: Tensor | None = None,
    ) -> Tensor:
        """−ln belief(x_0), or −ln belief(z_0 − z_t), of what is not known, per row, on a scale of about one per column."""
        law, value = belief.data, x
        if law is None:
            law, value = belief.missing, self.missing(x, z, alpha).sample(generator)
        log_prob = law.log_prob(value) if known is None else law.log_prob_without(value, known)
        return -log_prob / self.varying

    def rate_scale(self, alpha: Tensor) -> Tensor:
        """What E[z_0 − z_t given x_0] is in units of x_0: λ (1 − α) for Poisson JUMP; 1 where z_0 is x_0."""
        return torch.ones_like(alpha)

    def divergence(
        self,
        belief: Belief,
        x: Any,
        z: Any,
        alpha: Tensor,
        reveal: Tensor | None = None,
        known: Tensor | None = None,
    ) -> Tensor:
        """The paper's D_φ(x_0, f), or D_φ(x_0 − z_t, f − z_t) where z_0 is x_0, per row and column; with the weight λ (1 − α)
        reveal of the step where that is given. What is ``known`` counts as zero."""
        # E[z_0 − z_t given x_0] and the belief's rate differ from (x_0, f) by the factor λ (1 − α), 1 for binomial JUMP.
        scale = self.rate_scale(alpha)
        divergence = relative_entropy(self.missing(x, z, alpha).mean / scale, belief.missing.mean / scale)
        divergence = divergence if reveal is None else divergence * scale * reveal
        return (divergence if known is None else self.hold(divergence, torch.zeros_like(divergence), known)).mean(-1)

    def stages(self, training: Training, rows: np.ndarray, held_out: np.ndarray, updates: int) -> list[Stage]:
        """What is learned apart from the network, from the ``rows`` that it is trained on or from those ``held_out``."""
        return []

    def match_margins(self, drawn: Any, held: Any) -> None:
        """After training, let what is ``drawn``, data rows of chains, become more as ``held``, those of the data, are."""

    # What is known.

    def knowable(self, known: Tensor) -> Tensor:
        """Of what is known of the columns (B, columns), what is of the ``knowables`` (B, knowables)."""
        return known[:, :0]

    def shown(self, x: Any) -> Any:
        """x_0 as the state at time 0, E[z_0 given x_0]: where it is known there is nothing to be drawn."""
        return self.encode(x).mean

    def hold(self, z: Any, whole: Any, known: Tensor) -> Any:
        """The state z, but ``whole``, x_0 as it is :meth:`shown`, where it is ``known``: that is at its own time 0 all along."""
        return z

    def exclude(self, values: Mapping[int, float]) -> None:
        """Draw no more such a value of a column, by the column's number among the block's own; what has no levels draws on."""

    def check_known(self, x: Any, known: Tensor) -> None:
        """Raise where x cannot be what is ``known``."""

    def partly(self, known: Tensor) -> Any:
        """What is known of the columns (B, columns) in rows of which the network has not learned that it may be; None for nothing.

        Such rows are completed by particles: see :func:`countjump.sampling.complete_by_particles`.
        """
        return None

    def bridge(self, z: Any, x: Any, known: Any, p: Tensor, generator: torch.Generator | None) -> Any:
        """Of what is :meth:`partly` known of x_0, what comes back of the missing units in a step that reveals the share p."""
        return None

    def belief_given(self, belief: Belief, x: Any, known: Any) -> tuple[Belief, Tensor]:
        """The belief about x_0 at t = 0 given what is :meth:`partly` known of it, and ln of the probability of that (B,)."""
        return belief, torch.zeros(len(x), dtype=torch.float64, device=x.device)

    # What is observed of thinned rows.

    def uncounted(self) -> tuple[int, str] | None:
        """The place of a column that holds no counts which are thinned themselves, and what it holds; None where all do."""
        return 0, "does not hold counts"

    def upper_bounds(self) -> np.ndarray:
        """The largest value that each column can have; infinity for none."""
        return np.full(self.columns, np.inf)

    def whole_columns(self) -> np.ndarray:
        """Whether each column holds whole numbers."""
        return np.zeros(self.columns, dtype=bool)

    # From counts back to data.

    @abstractmethod
    def latent(self, z: Any) -> Any:
        """z_0/λ."""

    def expectation(self, z: Any, belief: Belief, alpha: Tensor) -> Any:
        """E[x_0 given z_t] by the belief: the paper's f(z_t, t)."""
        return self.latent(z + belief.missing.mean)

    def expected(self, z: Any, belief: Belief, alpha: Tensor) -> np.ndarray:
        """The same as rows of a matrix, which may lie between the values that data can have."""
        mean = self.expectation(z, belief, alpha).cpu().numpy()
        return mean if self.coding is None else self.coding.offset + self.coding.step * mean

    def decode(self, z: Any, belief: Belief | None, before: ChainStep, alpha: Tensor, generator: Any) -> Any:
        """x_0 given z_0, the ``belief`` there (for "draw"), and the step ``before`` it, with its α_t (for "mean")."""
        if self.decoding == "draw" and belief is not None:
            return belief.data.draw(generator)
        if self.decoding == "mean":
            prediction = before.prediction if before.group is None else before.prediction[before.group]
            return self.expectation(before.z, prediction, alpha)
        return self.latent(z)

    # Scores.

    def read_to_score(self, matrix: Any) -> tuple[Any, Tensor]:
        """Rows of a matrix as data that the block can have made, and ln of their escape mass: see :meth:`admit`."""
        if self.coding is None:
            return self.admit(self.read(matrix))
        values, coded = self.coding.admit(to_dense(matrix))
        x, mass = self.admit(self.to_data(values))
        return x, mass + torch.from_numpy(coded).to(mass.device)

    def admit(self, x: Any) -> tuple[Any, Tensor]:
        """Rows that the block can have made, and ln of the escape mass (B,) by which these become the rows that are scored.

        What "auto" inferred from the rows is not certain; what a declared domain forbids has minus infinity.
        """
        return x, torch.zeros(len(x), dtype=torch.float64, device=x.device)

    def data_log_prob(self, belief: Belief, x: Any) -> Tensor:
        """ln p(x_0 given z_0): 0 where z_0 is x_0."""
        return belief.data.log_prob(x)

    def why_no_likelihood(self) -> str | None:
        """A sentence on why x_0 has no likelihood, and what to do; None if it has one."""
        if self.exact or self.decoding == "draw":
            return None
        return f"decode={self.decoding!r} makes data of which the model has no likelihood: use decode='draw'"


class Blocks(Block):
    """Parts side by side: part i has the columns ``places[i]`` of the rows. Features are concatenated, outputs split, laws joint.

    >>> from countjump.blocks import Constant, Counts
    >>> parts = [Constant(torch.tensor([value]), torch.tensor([True]), rows=9) for value in (7.0, 1.0)]
    >>> blocks = Blocks(parts, [torch.tensor([1]), torch.tensor([0])])
    >>> blocks.write(blocks.latent(blocks.empty(1, "cpu")))
    array([[1., 7.]])
    """

    def __init__(self, parts: Sequence[Block], places: Sequence[Tensor]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.places = [place.numpy() for place in places]
        self.size = sum(part.size for part in parts)
        sizes = (sum(getattr(part, name) for part in parts) for name in ("inputs", "outputs", "knowables"))
        self.inputs, self.outputs, self.knowables = sizes
        self.sparse = any(part.sparse for part in parts)
        self.exact = all(part.exact for part in parts)
        self.matches_margins = any(part.matches_margins for part in parts)
        dense = sum(part.varying for part in parts if not part.sparse)
        # A dense part's loss is a mean over its columns: so every column counts as much as any other.
        weights = [1.0 if part.sparse else part.varying / max(dense, 1) for part in parts]
        self.weights = torch.tensor(weights, dtype=torch.float64)
        self.decoding = "draw" if any(part.decoding == "draw" for part in parts) else parts[-1].decoding

    @property
    def varying(self) -> int:
        return sum(part.varying for part in self.parts)  # type: ignore[misc]

    def read(self, matrix: Any) -> Joint:
        return Joint(tuple(part.read(matrix[:, place]) for part, place in self._each()))

    def read_to_score(self, matrix: Any) -> tuple[Joint, Tensor]:
        admitted = [part.read_to_score(matrix[:, place]) for part, place in self._each()]
        return Joint(tuple(each for each, _ in admitted)), torch.stack([mass for _, mass in admitted]).sum(0)

    def write(self, x: Joint) -> Any:
        """The parts' columns in their places; CSR if a part is sparse."""
        pieces = [part.write(each) for part, each in zip(self.parts, x.parts, strict=True)]  # type: ignore[operator]
        if self.sparse:
            order = np.argsort(np.concatenate(self.places))
            return sp.csr_matrix(sp.hstack([sp.csr_matrix(piece) for piece in pieces], format="csr")[:, order])
        whole = np.empty((len(x), self.size))
        for piece, place in zip(pieces, self.places, strict=True):
            whole[:, place] = piece
        return whole

    def _each(self) -> Any:
        return zip(self.parts, self.places, strict=True)

    def _map(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        """The method of every part, with each argument's own part where it is a joint one."""

        def own(argument: Any, place: int) -> Any:
            return argument.parts[place] if isinstance(argument, Joint | Belief | ChainStep | _Each) else argument

        def knows(part: Any, argument: Any) -> bool:
            return not isinstance(argument, _Each) or part.knowables > 0

        return tuple(
            getattr(part, name)(*(own(argument, place) for argument in arguments if knows(part, argument)))
            for place, part in enumerate(self.parts)
        )

    def empty(self, rows: int, device: torch.device | str) -> Joint:
        return Joint(self._map("empty", rows, device))

    def encode(self, x: Joint) -> JointLaw:
        return JointLaw(self._map("encode", x))

    def missing(self, x: Joint, z: Joint, alpha: Tensor) -> JointLaw:
        return JointLaw(self._map("missing", x, z, alpha))

    def features(self, z: Joint, alpha: Tensor, known: Tensor | None = None) -> Tensor:
        return torch.cat(self._map("features", z, alpha, *self._known(known)), -1)

    def _known(self, known: Tensor | None) -> tuple[Any, ...]:
        """What is known, as an argument for each of the parts; none where nothing is."""
        return () if known is None else (_Each(known.split([part.knowables for part in self.parts], -1)),)

    def knowable(self, known: Tensor) -> Tensor:
        return torch.cat([part.knowable(known[:, place]) for part, place in self._each()], -1)

    def exclude(self, values: Mapping[int, float]) -> None:
        for part, place in zip(self.parts, self.places, strict=True):
            part.exclude({own: values[column] for own, column in enumerate(place.tolist()) if column in values})  # type: ignore[operator]

    def check_known(self, x: Joint, known: Tensor) -> None:
        for part, *own in zip(self.parts, x.parts, self._known(known)[0].parts, strict=True):
            part.check_known(*own)  # type: ignore[operator]

    def partly(self, known: Tensor) -> Any:
        found = tuple(part.partly(known[:, place]) for part, place in self._each())
        return None if all(each is None for each in found) else found

    def bridge(self, z: Joint, x: Joint, known: Any, p: Tensor, generator: torch.Generator | None) -> Any:
        each = zip(self.parts, z.parts, x.parts, known, strict=True)
        return tuple(part.bridge(*own, p, generator) for part, *own in each)  # type: ignore[operator]

    def belief_given(self, belief: Belief, x: Joint, known: Any) -> tuple[Belief, Tensor]:
        each = zip(self.parts, belief.parts, x.parts, known, strict=True)
        found = [part.belief_given(*own) for part, *own in each]  # type: ignore[operator]
        return Belief.join([belief for belief, _ in found]), torch.stack([log_prob for _, log_prob in found]).sum(0)

    def shown(self, x: Joint) -> Joint:
        return Joint(self._map("shown", x))

    def hold(self, z: Joint, whole: Joint, known: Tensor) -> Joint:
        each = zip(self.parts, z.parts, whole.parts, self._known(known)[0].parts, strict=True)
        return Joint(tuple(part.hold(*own) for part, *own in each))  # type: ignore[operator]

    def belief(self, output: Tensor, z: Joint, alpha: Tensor) -> Belief:
        """Part by part, each with its own of the outputs."""
        outputs = output.split([part.outputs for part in self.parts], -1)
        return Belief.join(self._map("belief", Joint(outputs), z, alpha))

    def mix(self, plain: Tensor, given: Tensor, weight: float) -> Tensor:
        sizes = [part.outputs for part in self.parts]
        outputs = (Joint(each.split(sizes, -1)) for each in (plain, given))
        return torch.cat(self._map("mix", *outputs, weight), -1)

    def take_condition(self, embedding: Callable[[int], nn.Module]) -> None:
        self._map("take_condition", embedding)

    def conditioned(self, belief: Belief, z: Joint, alpha: Tensor, condition: Tensor | None) -> Belief:
        return Belief.join(self._map("conditioned", belief, z, alpha, condition))

    def subsample(self, x: Joint, learning: bool, generator: torch.Generator) -> Joint:
        return Joint(self._map("subsample", x, learning, generator))

    def loss(
        self,
        belief: Belief,
        x: Joint,
        z: Joint,
        alpha: Tensor,
        generator: torch.Generator,
        known: Tensor | None = None,
    ) -> Tensor:
        """The parts' losses by their weights, added."""
        losses = torch.stack(self._map("loss", belief, x, z, alpha, generator, *self._known(known)))
        return (losses.double() * self.weights.to(losses.device)[:, None]).sum(0)

    def divergence(
        self,
        belief: Belief,
        x: Joint,
        z: Joint,
        alpha: Tensor,
        reveal: Tensor | None = None,
        known: Tensor | None = None,
    ) -> Tensor:
        """The parts' divergences, added."""
        return torch.stack(self._map("divergence", belief, x, z, alpha, reveal, *self._known(known))).sum(0)

    def stages(self, training: Training, rows: np.ndarray, held_out: np.ndarray, updates: int) -> list[Stage]:
        return [
            stage
            for place, (part, columns) in enumerate(self._each())
            for stage in part.stages(training.part(place, columns), rows, held_out, updates)
        ]

    def match_margins(self, drawn: Joint, held: Joint) -> None:
        self._map("match_margins", drawn, held)

    def uncounted(self) -> tuple[int, str] | None:
        found = ((part.uncounted(), place) for part, place in self._each())
        return next(((int(place[each[0]]), each[1]) for each, place in found if each is not None), None)

    def upper_bounds(self) -> np.ndarray:
        return self._of_columns("upper_bounds")

    def whole_columns(self) -> np.ndarray:
        return self._of_columns("whole_columns")

    def _of_columns(self, name: str) -> np.ndarray:
        """What every part says of its columns, in their places."""
        pieces = np.concatenate([getattr(part, name)() for part in self.parts])
        return pieces[np.argsort(np.concatenate(self.places))]

    def latent(self, z: Joint) -> Joint:
        return Joint(self._map("latent", z))

    def expected(self, z: Joint, belief: Belief, alpha: Tensor) -> np.ndarray:
        """The parts' columns in their places."""
        pieces = self._map("expected", z, belief, alpha)
        return np.concatenate(pieces, 1)[:, np.argsort(np.concatenate(self.places))]

    def decode(self, z: Joint, belief: Belief | None, before: ChainStep, alpha: Tensor, generator: Any) -> Joint:
        return Joint(self._map("decode", z, belief, before, alpha, generator))

    def admit(self, x: Joint) -> tuple[Joint, Tensor]:
        admitted = self._map("admit", x)
        return Joint(tuple(each for each, _ in admitted)), torch.stack([mass for _, mass in admitted]).sum(0)

    def data_log_prob(self, belief: Belief, x: Joint) -> Tensor:
        own = zip(self.parts, belief.parts, x.parts, strict=True)
        zero = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        return zero + sum(part.data_log_prob(b, each) for part, b, each in own if not part.exact)  # type: ignore[operator]

    def why_no_likelihood(self) -> str | None:
        return next((why for why in self._map("why_no_likelihood") if why), None)


def to_dense(matrix: Any) -> np.ndarray:
    """Rows of a matrix (ndarray or CSR) in float64."""
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=np.float64)


@dataclass(frozen=True)
class _Each:
    """An argument of its own for each of several blocks."""

    parts: tuple[Any, ...]


def constants(module: nn.Module, **tensors: Tensor) -> None:
    """Keep tensors that move with the module but are not part of its saved weights."""
    for name, tensor in tensors.items():
        module.register_buffer(name, tensor, persistent=False)


def soft_clip(raw: Tensor, limit: float) -> Tensor:
    """The identity near zero, bounded by ±limit."""
    return limit * torch.tanh(raw / limit)


def spread(components: int) -> Tensor:
    """Offsets that part the components at the start."""
    return torch.linspace(-1.5, 1.5, components, dtype=torch.float64) * (components > 1)
