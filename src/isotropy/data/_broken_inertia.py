"""The inertia tensor with a term that singles out the vertical (thesis 3.5.1 and A.2.3.1)."""

from __future__ import annotations

from functools import partial
from typing import Literal

from torch import Tensor

from isotropy.data._regression_tasks import inertia, inertia_tensor, masses_and_positions
from isotropy.data._task import Task, require_count, require_finite_number
from isotropy.groups import O, O2eR3, SO2eR3
from isotropy.reps import Scalar, Symmetry, V


def modified_inertia(
    formula: Literal["text", "reference"] = "text", points: int = 5, strength: float = 0.3
) -> Task:
    """The inertia tensor plus a term that breaks O(3) (thesis 3.5.1, A.2.3.1).

    With I the tensor of :func:`~isotropy.data.inertia`, ẑ the unit vector along the z axis and
    s the strength, the target is

        I + s I² ẑẑᵀ I  in the text,  I + s I ẑẑᵀ  in the reference code.

    Both keep exactly the part of O(3) that takes ẑ to ±ẑ, which is O(2)+O(1): any orthogonal
    matrix on (x, y), a sign on z. They break the rest unlike one another. Of the mean square of
    the target, the share that no O(3)-equivariant function reaches is

    - ``"reference"``: (2s²/9) / (1 + 2s/3 + s²/3), for any number of points; 1.6 % at s = 0.3.
    - ``"text"``: over one half with five points at s = 0.3, where the added term has a root mean
      square some eighty times that of I. That is no approximate symmetry: take ``"reference"``
      for one, or a strength of 0.0005, which leaves 1 %.

    Args:
        formula: ``"text"`` or ``"reference"``.
        points: How many masses.
        strength: The factor s; 0 gives :func:`~isotropy.data.inertia`.

    Raises:
        ValueError: If ``formula`` is neither, ``points`` is not a positive integer or ``strength``
            is not a finite number.

    Example:
        >>> task = modified_inertia("reference")
        >>> print(task.symmetry, task.approximately)
        O(2)+O(1): 5*Scalar+5*V >> T(2) (O(3),)
    """
    if formula not in ("text", "reference"):
        raise ValueError(f"expected the formula 'text' or 'reference', got {formula!r}")
    require_count(points, "points")
    require_finite_number(strength, "the strength")
    if strength == 0:
        return inertia(points)
    return Task(
        f"modified_inertia({formula!r}, {points}, {strength!r})",
        Symmetry(O(2) + O(1), points * Scalar + points * V, V * V),
        (O2eR3(), SO2eR3()),
        partial(masses_and_positions, points),
        partial(_modified_tensor, points, strength, cubic=formula == "text"),
        approximately=(O(3),),
    )


def _modified_tensor(points: int, strength: float, x: Tensor, *, cubic: bool) -> Tensor:
    tensor = inertia_tensor(points, x).unflatten(-1, (3, 3))
    column = tensor[..., 2:]
    row = column.mT if cubic else x.new_tensor([[0.0, 0.0, 1.0]])
    added = (tensor @ column if cubic else column) @ row
    modified: Tensor = tensor + strength * added
    return modified.flatten(-2)
