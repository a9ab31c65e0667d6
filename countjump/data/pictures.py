"""Pictures: arrays of three or four dimensions as rows of a matrix, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from countjump.data.rows import as_matrix


@dataclass(frozen=True)
class Pictures:
    """Arrays (N, height, width) or (N, height, width, channels): each picture is a row, flat.

    >>> pictures = Pictures.of(np.zeros((5, 2, 3)))
    >>> pictures.matrix(np.zeros((5, 2, 3))).shape, pictures.restore(np.zeros((4, 6))).shape
    ((5, 6), (4, 2, 3))
    """

    shape: tuple[int, ...]

    @classmethod
    def of(cls, X: Any) -> Pictures | None:
        """The layout of an array of three or four dimensions, or of a list of pictures; None for anything else."""
        shape = _of_list(X) if isinstance(X, list | tuple) else tuple(getattr(X, "shape", ()))
        return cls(shape[1:]) if len(shape) in (3, 4) and 0 not in shape else None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns of the matrix: the places of the pixels."""
        return tuple(",".join(map(str, place)) for place in np.ndindex(self.shape))

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """The same."""
        return self.names

    gaps: ClassVar[tuple[tuple[int, ...], ...]] = ()
    left_out: ClassVar[tuple[int, ...]] = ()
    stand_ins: ClassVar[dict[int, float]] = {}

    def reasons(self) -> dict[str, str]:
        """Nothing is decided here."""
        return {}

    def gaps_known(self, known: np.ndarray) -> np.ndarray:
        """No pixel is missing."""
        return known

    @property
    def levels(self) -> dict[int, tuple[Any, ...]]:
        """Of columns of strings, of which there are none."""
        return {}

    def flat(self, X: Any) -> Any:
        """Pictures, or a mask of their shape, as rows; rows stay as they are."""
        shape = tuple(np.shape(X))
        if len(shape) == 2 and shape[1] == np.prod(self.shape):
            return X
        if shape[1:] != self.shape or 0 in shape:
            raise ValueError(
                f"X is of shape {shape}, and the model was fitted to pictures of shape (N, {', '.join(map(str, self.shape))})"
            )
        return X.reshape(len(X), -1) if hasattr(X, "reshape") else np.reshape(X, (len(X), -1))

    def matrix(self, X: Any, known: np.ndarray | None = None, lenient: bool = False) -> np.ndarray:
        """One row for every picture; with ``known`` (rows, columns) the other entries are zero."""
        rows = as_matrix(self.flat(X))
        return rows if known is None else np.where(known, rows, 0)

    def restore(self, rows: np.ndarray, like: Any = None, known: np.ndarray | None = None) -> np.ndarray:
        """Pictures again."""
        return rows.reshape(len(rows), *self.shape)

    def escapes(self, X: Any) -> np.ndarray:
        """ln of the mass by which what a picture cannot hold becomes what it can: there is no such thing."""
        return np.zeros(len(X))

    def flipped(self, rows: np.ndarray, which: np.ndarray) -> np.ndarray:
        """The same rows, but those pictures (B,) from right to left."""
        pictures = rows.reshape(len(rows), *self.shape)
        chosen = which.reshape(-1, *[1] * len(self.shape))
        return np.where(chosen, pictures[:, :, ::-1], pictures).reshape(rows.shape)

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "pictures", "shape": list(self.shape)}

    @classmethod
    def recall(cls, described: dict[str, Any]) -> Pictures:
        """Back from :meth:`described`; what is no shape is an error."""
        shape = described["shape"]
        if len(shape) not in (2, 3) or not all(isinstance(n, int) and 1 <= n <= 2**16 for n in shape):
            raise ValueError(f"{shape!r} is no shape of a picture")
        return cls(tuple(shape))


def _of_list(X: list[Any] | tuple[Any, ...]) -> tuple[int, ...]:
    """The shape that pictures in a list have together; () if the first of them is none."""
    if not X or np.ndim(X[0]) not in (2, 3):
        return ()
    first = np.shape(X[0])
    for number, each in enumerate(X):
        if np.shape(each) != first:
            raise ValueError(f"X[{number}] is of shape {np.shape(each)}, and X[0] of shape {first}: make them one size")
    return (len(X), *first)
