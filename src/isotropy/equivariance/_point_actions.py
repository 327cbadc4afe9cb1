"""Actions on point clouds: every point moved by one affine map of space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from isotropy.equivariance._action import INVARIANT, Action, Place


@dataclass(frozen=True)
class PointAction(Action):
    """Move points p ↦ exp(tA) p, with A an affine map of R^d.

    Args:
        name: What it is called.
        unit: What t = 1 means.
        matrix: A, shape (d, d + 1); its last column translates.
        boundary: "none": space has no end.
    """

    name: str
    unit: str
    matrix: tuple[tuple[float, ...], ...]
    boundary: str = "none"

    @property
    def dimension(self) -> int:
        """The dimension of space."""
        return len(self.matrix)

    def input_place(self, x: Tensor) -> Place:
        """Points, shape (N, points, d + features): the first d columns are coordinates."""
        if x.ndim != 3 or x.shape[-1] < self.dimension or x.numel() == 0:
            raise ValueError(
                f"expected point clouds of shape (N, points, at least {self.dimension}) for "
                f"{self.name}, got {tuple(x.shape)}"
            )
        return "points"

    def named_place(self, text: str, shape: tuple[int, ...], _at_input: Place) -> Place:
        """Read "invariant", "points", or "vectors", which turn but do not translate."""
        if text not in (INVARIANT, "points", "vectors"):
            raise ValueError(f"expected a layout among invariant, points, vectors, got {text!r}")
        if text != INVARIANT and shape[-1] < self.dimension:
            raise ValueError(
                f"expected {text} with at least {self.dimension} columns, got shape {shape}"
            )
        return text  # type: ignore[return-value]  # it is one of the three

    def guessed_place(self, shape: tuple[int, ...], _at_input: Place) -> Place | None:
        """Points for (N, points, d); invariant for (N, k)."""
        if len(shape) <= 2:
            return INVARIANT
        return "points" if len(shape) == 3 and shape[-1] == self.dimension else None

    def act(self, z: Tensor, place: Place) -> Tensor:
        """A p for each point p; the linear part alone for vectors."""
        if place == INVARIANT:
            return torch.zeros_like(z)
        d = self.dimension
        matrix = torch.tensor(self.matrix, dtype=z.dtype, device=z.device)
        moved = z[..., :d] @ matrix[:, :d].mT
        if place == "points":
            moved = moved + matrix[:, d]
        return torch.cat([moved, torch.zeros_like(z[..., d:])], -1)

    def move(self, z: Tensor, t: float | Tensor, place: Place) -> Tensor:
        """exp(tA) p for each point p."""
        if place == INVARIANT:
            return z
        d = self.dimension
        algebra = torch.zeros(d + 1, d + 1, dtype=torch.float64)
        algebra[:d] = torch.tensor(self.matrix, dtype=torch.float64)
        element = torch.linalg.matrix_exp(torch.as_tensor(t, dtype=torch.float64) * algebra)
        element = element.to(z.device, z.dtype)
        moved = z[..., :d] @ element[:d, :d].mT
        if place == "points":
            moved = moved + element[:d, d]
        return torch.cat([moved, z[..., d:]], -1)

    def describe(self) -> dict[str, Any]:
        """Name, unit, boundary rule and Lie-algebra element, for JSON."""
        return {**super().describe(), "algebra": [self.matrix]}


def point_cloud_action(name: str, *, dimension: int = 3) -> Action:
    """An action on point clouds of shape (N, points, d), or with columns of features after the d.

    - ``translation_x``, ``_y``, ``_z``: t = 1 is one unit of length.
    - ``rotation_x``, ``_y``, ``_z`` about these axes (``rotation`` in the plane), in radians.
    - ``scale``: t = 1 is a factor e.

    Outputs of shape (N, k) are taken to be invariant, (N, points, d) to be points; ``output=``
    may say otherwise: "points", "vectors" or "invariant".

    Args:
        name: One of the names above.
        dimension: 2 or 3.

    Raises:
        ValueError: If there is no such action.

    Example:
        >>> turn = point_cloud_action("rotation_z")
        >>> turn.tangent(torch.tensor([[[1.0, 0.0, 5.0]]]))
        tensor([[[0., 1., 0.]]])
    """
    if dimension not in (2, 3):
        raise ValueError(f"expected points of 2 or 3 dimensions, got {dimension}")
    letters = "xyz"[:dimension]
    zero = [[0.0] * (dimension + 1) for _ in letters]
    actions: dict[str, tuple[str, list[list[float]]]] = {}
    for i, letter in enumerate(letters):
        matrix = [list(row) for row in zero]
        matrix[i][dimension] = 1.0
        actions[f"translation_{letter}"] = ("unit of length", matrix)
    planes = {"rotation": (0, 1)} if dimension == 2 else {
        "rotation_x": (1, 2), "rotation_y": (2, 0), "rotation_z": (0, 1),
    }  # fmt: skip
    for key, (i, j) in planes.items():
        matrix = [list(row) for row in zero]
        matrix[i][j], matrix[j][i] = -1.0, 1.0
        actions[key] = ("radian", matrix)
    matrix = [list(row) for row in zero]
    for i in range(dimension):
        matrix[i][i] = 1.0
    actions["scale"] = ("factor e", matrix)
    if name not in actions:
        raise ValueError(f"expected an action on points among {', '.join(actions)}, got {name!r}")
    unit, matrix = actions[name]
    return PointAction(name, unit, tuple(tuple(row) for row in matrix))
