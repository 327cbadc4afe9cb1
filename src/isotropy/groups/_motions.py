"""Rigid motions, scalings, reversals, and rotations about one axis of space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from isotropy.groups._given import as_linear_map
from isotropy.groups._lie_groups import (
    SO,
    MatrixGroup,
    O,
    close,
    padded,
    preserves,
    reflection,
    rotations,
    unit,
)
from isotropy.groups._maps import Dense, LinearMap
from isotropy.groups._named_group import NamedWithoutInteger
from isotropy.groups._permutation_groups import D2d
from isotropy.groups._placements import Embedding
from isotropy.groups._sampling import haar_orthogonal


class SE(MatrixGroup):
    """Rigid motions of R^n without reflections, on homogeneous coordinates (x, 1).

    Elements are [[R, t], [0, 1]]; ``sample`` takes R from Haar measure and t ~ N(0, 1).
    """

    special = True

    def _dimension(self, n: int) -> int:
        return n + 1

    def _algebra(self) -> Iterator[LinearMap]:
        for rotation in rotations(self.n):
            yield Dense(padded(rotation))
        for i in range(self.n):
            yield Dense(unit(self.d, i, self.n))

    @property
    def is_compact(self) -> bool:
        """Never: translations have no end."""
        return False

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        motion = torch.zeros(n, self.d, self.d, dtype=torch.float64)
        motion[:, : self.n, : self.n] = haar_orthogonal(n, self.n, rng, special=self.special).matrix
        motion[:, : self.n, self.n] = torch.randn(n, self.n, dtype=torch.float64, generator=rng)
        motion[:, self.n, self.n] = 1.0
        return Dense(motion)

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        rotation, last_row = m[: self.n, : self.n], m[self.n]
        return (
            preserves(rotation, torch.eye(self.n))
            and close(last_row, torch.eye(self.d, dtype=m.dtype)[self.n])
            and (not self.special or close(torch.linalg.det(rotation), 1.0))
        )


class E(SE):
    """Rigid motions of R^n and reflections, on homogeneous coordinates (x, 1)."""

    special = False

    def _discrete(self) -> Iterable[LinearMap]:
        return (reflection(self.d),)


class Scaling(MatrixGroup):
    """Multiplication of R^n by positive numbers."""

    def _algebra(self) -> Iterable[LinearMap]:
        return (Dense(torch.eye(self.n)),)

    @property
    def is_compact(self) -> bool:
        """Never."""
        return False

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return m[0, 0] > 0 and close(m, m[0, 0] * torch.eye(self.n, dtype=m.dtype))


class _Reversal(NamedWithoutInteger):
    dimension = 4

    def _order(self) -> int:
        return 2


class Parity(_Reversal):
    """Reversal of space: (t, x, y, z) ↦ (t, -x, -y, -z), and the identity."""

    def _discrete(self) -> Iterable[LinearMap]:
        return (as_linear_map(torch.diag(torch.tensor([1.0, -1.0, -1.0, -1.0]))),)


class TimeReversal(_Reversal):
    """Reversal of time: (t, x, y, z) ↦ (-t, x, y, z), and the identity."""

    def _discrete(self) -> Iterable[LinearMap]:
        return (reflection(4),)


class _AboutZ(Embedding):
    plane: type[SO] | type[O]

    def __init__(self) -> None:
        super().__init__(self.plane(2), 3)

    def __str__(self) -> str:
        return type(self).__name__

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()


class SO2eR3(_AboutZ):
    """Rotations of R³ about the z axis."""

    plane = SO


class O2eR3(_AboutZ):
    """Rotations of R³ about the z axis and reflections in planes that contain it."""

    plane = O


class DkeR3(Embedding):
    """The dihedral group of the k-gon in the xy plane of R³, the z axis fixed."""

    def __init__(self, k: int) -> None:
        super().__init__(D2d(k), 3)
        self.__dict__["parameters"] = (k,)

    parameters: tuple[int, ...]

    def __str__(self) -> str:
        return f"DkeR3({self.parameters[0]})"

    def __reduce__(self) -> tuple[type, tuple[int, ...]]:
        return DkeR3, self.parameters
