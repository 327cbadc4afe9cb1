"""Tasks whose symmetry a term breaks (thesis 3.5.1, A.2.3.1): inertia, and a pendulum in wind."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from torch import Tensor

from isotropy.data import Task, inertia
from isotropy.groups import Group, O, O2eR3, SO2eR3
from isotropy.reps import Scalar, Symmetry, V
from isotropy_papers.hamiltonian_systems import HamiltonianSystem, double_spring_pendulum

# -w of thesis A.2.3.1, in the horizontal plane
_AGAINST_THE_WIND = (8.0, 5.0)


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
    _require_finite(strength, "the strength")
    plain = inertia(points)
    if strength == 0:
        return plain
    return Task(
        f"modified_inertia({formula!r}, {points}, {strength!r})",
        Symmetry(O(2) + O(1), points * Scalar + points * V, V * V),
        (O2eR3(), SO2eR3()),
        plain.draw_inputs,
        partial(_modified_tensor, plain, strength, cubic=formula == "text"),
        approximately=(O(3),),
    )


def _modified_tensor(plain: Task, strength: float, x: Tensor, *, cubic: bool) -> Tensor:
    tensor = plain.target(x).unflatten(-1, (3, 3))
    column = tensor[..., 2:]
    row = column.mT if cubic else x.new_tensor([[0.0, 0.0, 1.0]])
    added = (tensor @ column if cubic else column) @ row
    modified: Tensor = tensor + strength * added
    return modified.flatten(-2)


def windy_pendulum(
    wind: float = 0.01, formula: Literal["text", "reference"] = "text"
) -> HamiltonianSystem:
    """The double spring pendulum in a steady wind (thesis 3.5.1, A.2.3.1).

    H = H₀ − ε w·(x₁ + x₂) with w = (−8, −5, 0), H₀ and the initial states those of
    :func:`~isotropy_papers.hamiltonian_systems.double_spring_pendulum`. The wind breaks the
    rotations about the vertical: what stays exact is the reflection in the vertical plane along
    w, and of the conserved quantities the energy alone. Over the elements g of O2eR3, the root
    mean square of ‖F(ρ(g) z) − ρ(g) F(z)‖ is 2ε√89 for every z: 0.19 at ε = 0.01, beside a field
    of root mean square 1.6 over the initial states.

    Args:
        wind: The strength ε; 0 gives ``double_spring_pendulum``.
        formula: ``"text"`` or ``"reference"``, for the second spring of H₀.

    Raises:
        ValueError: If ``wind`` is not a finite number or ``formula`` is neither.

    Example:
        >>> system = windy_pendulum()
        >>> print(system.symmetry.group.name, system.symmetry.group.order(), system.approximately)
        reflection in the vertical plane along the wind 2 (O2eR3,)
    """
    _require_finite(wind, "the wind")
    calm = double_spring_pendulum(formula)
    if wind == 0:
        return calm
    energy = partial(_windy_energy, calm=calm, wind=wind)
    return HamiltonianSystem(
        f"windy_pendulum({wind!r}, {formula!r})",
        Symmetry(_reflection_along_the_wind(), 4 * V, 4 * V),
        energy,
        calm.draw_initial,
        {"energy": energy},
        approximately=(O2eR3(),),
    )


def _reflection_along_the_wind() -> Group:
    """The group of 1 − 2nnᵀ, n horizontal and across the wind."""
    a, b = _AGAINST_THE_WIND
    square = a * a + b * b
    cosine, sine = (a * a - b * b) / square, 2 * a * b / square
    return Group(
        [[[cosine, sine, 0.0], [sine, -cosine, 0.0], [0.0, 0.0, 1.0]]],
        name="reflection in the vertical plane along the wind",
    )


def _windy_energy(z: Tensor, *, calm: HamiltonianSystem, wind: float) -> Tensor:
    x1, x2, _, _ = z.split(3, -1)
    both = x1 + x2
    a, b = _AGAINST_THE_WIND
    pushed: Tensor = wind * (a * both[..., 0] + b * both[..., 1])
    return calm.hamiltonian(z) + pushed


def _require_finite(value: float, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a finite number as {what}, got {value!r}")
