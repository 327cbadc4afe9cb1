"""Two masses that hang from one another by springs."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from isotropy.data._hamiltonian_systems import HamiltonianSystem
from isotropy.groups import SO, DkeR3, O2eR3, SO2eR3
from isotropy.reps import Symmetry, V


def double_spring_pendulum(formula: Literal["text", "reference"] = "text") -> HamiltonianSystem:
    """Two masses that hang from a pivot and from each other by springs (thesis 2.7.2, A.1.10).

    z = (x₁, x₂, p₁, p₂), twelve numbers, and with all masses, lengths and constants one,

        H = ‖p₁‖²/2 + ‖p₂‖²/2 + ½(‖x₁‖ − 1)² + c(‖x₁ − x₂‖ − 1)² + z₁ + z₂,

    zᵢ being the height of xᵢ. The text has c = ½; in the reference code the second spring lacks
    that factor, c = 1, and the published numbers are of that system. Energy and the angular
    momentum about the vertical axis are conserved. Initial states: x₁ ~ N((0, 0, −1.5), 0.2²),
    x₂ ~ N((0, 0, −3), 0.2²), p₁, p₂ ~ N(0, 0.4²).

    The group that the thesis tries although it is wrong here is SO(3) (3.5.1): the weight singles
    out the vertical. Over its elements g, the root mean square of ‖F(ρ(g) z) − ρ(g) F(z)‖ is 2
    for every z, and that of ‖F‖ over the initial states is 1.6.

    Args:
        formula: ``"text"`` or ``"reference"``, for c = ½ or c = 1.

    Raises:
        ValueError: If ``formula`` is neither.

    Example:
        >>> system = double_spring_pendulum()
        >>> print(system.symmetry, sorted(system.conserved))
        O2eR3: 4*V >> 4*V ['angular momentum', 'energy']
    """
    energy = partial(_pendulum_energy, second_spring=_second_spring(formula))
    return HamiltonianSystem(
        f"double_spring_pendulum({formula!r})",
        Symmetry(O2eR3(), 4 * V, 4 * V),
        energy,
        _hanging,
        {"energy": energy, "angular momentum": _angular_momentum},
        (SO2eR3(), DkeR3(6), DkeR3(2)),
        misspecified=(SO(3),),
    )


def _second_spring(formula: str) -> float:
    if formula not in ("text", "reference"):
        raise ValueError(f"expected the formula 'text' or 'reference', got {formula!r}")
    return 0.5 if formula == "text" else 1.0


def _pendulum_energy(z: Tensor, *, second_spring: float) -> Tensor:
    x1, x2, p1, p2 = z.split(3, -1)
    kinetic = (p1.square().sum(-1) + p2.square().sum(-1)) / 2
    first = (_norm(x1) - 1).square() / 2
    second = second_spring * (_norm(x1 - x2) - 1).square()
    total: Tensor = kinetic + first + second + x1[..., 2] + x2[..., 2]
    return total


def _norm(x: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return length


def _angular_momentum(z: Tensor) -> Tensor:
    """Σᵢ (xᵢ × pᵢ)_z."""
    x, p = (half.unflatten(-1, (2, 3)) for half in z.chunk(2, -1))
    total: Tensor = (x[..., 0] * p[..., 1] - x[..., 1] * p[..., 0]).sum(-1)
    return total


def _hanging(n: int, rng: torch.Generator) -> Tensor:
    z = torch.randn(n, 12, dtype=torch.float64, generator=rng, device=rng.device)
    z[:, :6] *= 0.2
    z[:, 6:] *= 0.4
    z[:, 2] -= 1.5
    z[:, 5] -= 3.0
    return z
