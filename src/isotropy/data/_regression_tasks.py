"""The synthetic regression tasks of the thesis: O(5) invariant, O(3) and O(1,3) equivariant."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from isotropy.data._task import Task, require_count
from isotropy.groups import O13, SL, SO, SO13, O, SO13p
from isotropy.reps import Scalar, Symmetry, V


def o5_invariant() -> Task:
    """An invariant of two vectors in five dimensions (thesis 2.7.1, A.1.10).

    f(x₁, x₂) = sin‖x₁‖ − ‖x₂‖³/2 + x₁·x₂ / (‖x₁‖‖x₂‖),  x₁, x₂ ~ N(0, 1)⁵; undefined where a
    vector is zero.

    Example:
        >>> o5_invariant().target(torch.tensor([0.0, 0, 0, 0, 1, 0, 0, 0, 2, 0]))
        tensor([-3.1585])
    """
    return Task(
        "o5_invariant()",
        Symmetry(O(5), 2 * V, Scalar),
        (SO(5),),
        partial(_normal, 10),
        _two_vector_invariant,
    )


def inertia(points: int = 5) -> Task:
    """The inertia tensor of point masses (thesis 2.7.1, A.1.10).

    I = Σᵢ mᵢ (‖xᵢ‖² 1 − xᵢ xᵢᵀ),  mᵢ = softplus(N(0, 1)), xᵢ ~ N(0, 1)³. The input is all masses,
    then all positions; the output is the matrix, row by row.

    The group that the thesis tries although it is wrong here is SL(3) (3.5.1): the lengths ‖xᵢ‖
    are not its invariants.

    Args:
        points: How many masses.

    Raises:
        ValueError: If ``points`` is not a positive integer.

    Example:
        >>> print(inertia().symmetry)
        O(3): 5*Scalar+5*V >> T(2)
    """
    require_count(points, "points")
    return Task(
        f"inertia({points})",
        Symmetry(O(3), points * Scalar + points * V, V * V),
        (SO(3),),
        partial(_masses_and_positions, points),
        partial(_inertia_tensor, points),
        misspecified=(SL(3),),
    )


def lorentz_scattering(formula: Literal["text", "reference"] = "text") -> Task:
    """The matrix element of electron–muon scattering (thesis 2.7.1, A.1.10).

    With the metric η = diag(1, −1, −1, −1), coordinates (t, x, y, z) and a·b = aᵘbᵛηᵤᵥ,

        y = 4 Pᵘᵛ Qᵤᵥ,  Pᵘᵛ = p⁽ᵘp̃ᵛ⁾ − (p·p̃ − p·p) ηᵘᵛ,  Qᵤᵥ = q₍ᵤq̃ᵥ₎ − (q·q̃ − q·q) ηᵤᵥ.

    The input is the four momenta p, q, p̃, q̃, in that order, each with its four upper components
    and each component ~ N(0, 1/4²); q and q̃ are lowered with η before they enter Q.

    Round brackets are the half-sum, p⁽ᵘp̃ᵛ⁾ = ½(pᵘp̃ᵛ + pᵛp̃ᵘ). The reference code leaves them out:
    its P and Q hold pᵘp̃ᵛ and qᵤq̃ᵥ as they are. Every form has mean 1/4; the variances are exact:

    ====================================  ===================
    form                                  variance
    ====================================  ===================
    half-sum, ``formula="text"``          1501/2048 = 0.7329
    no brackets, ``formula="reference"``  47/64 = 0.7344
    sum, as in textbooks of the process   81/128 = 0.6328
    ====================================  ===================

    The published test error of a network that learns nothing is 0.733 on 5000 rows. The variance
    of that many rows itself scatters by 0.055, so the number does not tell the first two apart,
    and lies two standard deviations from the third. Compare published numbers with
    ``formula="reference"``, the form behind them.

    Args:
        formula: ``"text"`` for the symmetrised form, ``"reference"`` for that of the code behind
            the published numbers.

    Raises:
        ValueError: If ``formula`` is neither.

    Example:
        >>> task = lorentz_scattering()
        >>> print(task.symmetry)
        O13: 4*V >> Scalar
        >>> task.target(torch.eye(4)[[0, 0, 0, 0]].flatten())
        tensor([4.])
    """
    if formula not in ("text", "reference"):
        raise ValueError(f"expected the formula 'text' or 'reference', got {formula!r}")
    target: Callable[[Tensor], Tensor] = partial(
        _scattering_matrix_element, symmetrised=formula == "text"
    )
    return Task(
        f"lorentz_scattering({formula!r})",
        Symmetry(O13(), 4 * V, Scalar),
        (SO13p(), SO13()),
        _momenta,
        target,
    )


def _normal(width: int, n: int, rng: torch.Generator) -> Tensor:
    return torch.randn(n, width, dtype=torch.float64, generator=rng, device=rng.device)


def _masses_and_positions(points: int, n: int, rng: torch.Generator) -> Tensor:
    x = _normal(4 * points, n, rng)
    x[:, :points] = torch.nn.functional.softplus(x[:, :points])
    return x


def _momenta(n: int, rng: torch.Generator) -> Tensor:
    return _normal(16, n, rng) / 4


def _two_vector_invariant(x: Tensor) -> Tensor:
    first, second = x[..., :5], x[..., 5:]
    a, b = (v.square().sum(-1).sqrt() for v in (first, second))
    cosine = (first * second).sum(-1) / (a * b)
    return (a.sin() - b**3 / 2 + cosine).unsqueeze(-1)


def _inertia_tensor(points: int, x: Tensor) -> Tensor:
    masses = x[..., :points]
    positions = x[..., points:].unflatten(-1, (points, 3))
    second_moment = torch.einsum("...i,...ia,...ib->...ab", masses, positions, positions)
    trace = second_moment.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    return (trace * torch.eye(3).to(x) - second_moment).flatten(-2)


def _scattering_matrix_element(x: Tensor, *, symmetrised: bool) -> Tensor:
    signs = x.new_tensor([1.0, -1.0, -1.0, -1.0])
    p, q, p_out, q_out = x.unflatten(-1, (4, 4)).unbind(-2)
    upper = _current(p, p_out, signs, symmetrised=symmetrised)
    lower = _current(q, q_out, signs, symmetrised=symmetrised) * signs.outer(signs)
    return 4 * (upper * lower).sum((-1, -2)).unsqueeze(-1)


def _current(a: Tensor, a_out: Tensor, signs: Tensor, *, symmetrised: bool) -> Tensor:
    """a⁽ᵘãᵛ⁾ − (a·ã − a·a) ηᵘᵛ, both indices up."""
    outer = a.unsqueeze(-1) * a_out.unsqueeze(-2)
    if symmetrised:
        outer = (outer + outer.mT) / 2
    change = (a * signs * (a_out - a)).sum(-1)
    return outer - change[..., None, None] * signs.diag()
