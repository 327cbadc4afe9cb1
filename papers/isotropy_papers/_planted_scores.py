"""How near a search for continuous symmetry came to what was planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from isotropy.bases import equivariant_basis
from isotropy.groups import Group, identify
from isotropy.reps import Symmetry, V
from isotropy_papers.planted_problems import PlantedProblem

CLOSE = 0.999
_EXACT = 1e-8


@dataclass(frozen=True, eq=False)
class PlantedOutcome:
    """What a search found, in the class of actions of the problem.

    Args:
        dimension: Of the algebra.
        title: The name of the group.
        estimate: The generators before they were made exact, in the user's coordinates: matrices
            A of shape (D, d, d), [A | b] of shape (D, d, d+1), or homogeneous (D, d+1, d+1).
        generators: The exact ones; ``None`` where there are none.
        symmetry: The group and its actions.
        claimed: Whether it is confirmed, and not trivial.
        seconds: How long the search took.
        refused: Why there was no search; empty where there was one.

    Example:
        >>> PlantedOutcome(refused="expected more rows than unknowns, got 3 and 9").claimed
        False
    """

    dimension: int = 0
    title: str = ""
    estimate: Tensor | None = None
    generators: Tensor | None = None
    symmetry: Symmetry | None = None
    claimed: bool = False
    seconds: float = 0.0
    refused: str = ""


def scores(problem: PlantedProblem, outcome: PlantedOutcome) -> dict[str, float]:
    """The scores of one search, 1 where a thing is right and 0 where it is wrong.

    Args:
        problem: What was planted.
        outcome: What was found.

    Returns:
        ``found``: claimed, with the right dimension and name; ``dimension`` and ``name`` whether
        claimed or not; ``cosine``: of the largest principal angle between the estimate and the
        truth; ``exact``: the generators are proven to be the algebra of the truth's name, and
        span the truth itself where its basis is the textbook's; ``rank``: as many equivariant
        maps V⊗V → V⊗V as the truth has; ``refused``; ``seconds``. For a null: ``false
        discovery``, ``refused`` and ``seconds``.

    Example:
        >>> from isotropy_papers.planted_problems import planted_problems
        >>> so3 = planted_problems()["so3"]
        >>> perfect = PlantedOutcome(
        ...     3, "SO(3)", so3.algebra, so3.algebra, claimed=True, seconds=2.0
        ... )
        >>> for name, value in scores(so3, perfect).items():
        ...     print(name, round(value, 6))
        found 1.0
        dimension 1.0
        name 1.0
        cosine 1.0
        exact 1.0
        rank 1.0
        refused 0.0
        seconds 2.0
    """
    run = {"refused": float(bool(outcome.refused)), "seconds": outcome.seconds}
    if not problem.holds:
        return {"false discovery": float(outcome.claimed), **run}
    dimension = outcome.dimension == len(problem.algebra)
    name = dimension and same_title(outcome.title, problem.title)
    exact = rank = False
    if dimension and outcome.generators is not None:
        found, truth = _square(problem, outcome.generators, problem.algebra)
        exact = _is_exact(found, truth, standard=problem.standard)
        rank = equivariant_rank(found) == equivariant_rank(truth)
    cosine = 0.0
    if outcome.estimate is not None and len(outcome.estimate):
        cosine = least_cosine(*_square(problem, outcome.estimate, problem.algebra))
    return {
        "found": float(outcome.claimed and name),
        "dimension": float(dimension),
        "name": float(name),
        "cosine": cosine,
        "exact": float(exact),
        "rank": float(rank),
        **run,
    }


def same_title(found: str, expected: str) -> bool:
    """Whether the name of a group begins as expected, however it is spelt.

    Args:
        found: A name, such as "SO⁺(1,3), metric (+,−,−,−)".
        expected: Its beginning; SO⁺(2,1) and SO⁺(1,2) are one.

    Example:
        >>> same_title("SO⁺(1,2), metric (+,−,−)", "SO⁺(2,1)")
        True
        >>> same_title("SO(3)+SO(2)", "SO(3) × SO(2)"), same_title("SO(4)", "SO(3)")
        (True, False)
    """
    return bool(expected) and _plain(found).startswith(_plain(expected))


def least_cosine(one: Tensor, other: Tensor) -> float:
    """The cosine of the largest principal angle between two spaces of matrices.

    Args:
        one: A basis, shape (D, d, d).
        other: A basis of the other space, of as many dimensions or not: then of the smaller of
            the two spaces with its projection to the larger.

    Example:
        >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
        >>> shear = torch.tensor([[[0.0, -1.0], [0.0, 0.0]]])
        >>> round(least_cosine(turn, shear), 4)
        0.7071
    """
    frames = [torch.linalg.qr(a.double().flatten(1).T).Q for a in (one, other)]
    return min(1.0, float(torch.linalg.svdvals(frames[0].T @ frames[1]).min()))


def equivariant_rank(algebra: Tensor) -> int:
    """How many linear maps V⊗V → V⊗V commute with a Lie algebra.

    Args:
        algebra: Its matrices, shape (D, d, d).

    Example:
        >>> from isotropy.groups import SO
        >>> equivariant_rank(torch.stack([a.dense() for a in SO(3).algebra]))
        3
    """
    group = Group(algebra=list(algebra))
    return equivariant_basis((V * V >> V * V)(group), cache=False).rank


def rate_interval(successes: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """A rate, and its 95 % interval after Wilson.

    Args:
        successes: 1 or 0 for each run.

    Example:
        >>> rate, (low, high) = rate_interval([0.0] * 100)
        >>> rate, low, round(high, 3)
        (0.0, 0.0, 0.037)
    """
    n, rate, z = len(successes), sum(successes) / len(successes), 1.96
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    # rounding must not leave the rate outside
    return rate, (min(rate, max(0.0, centre - half)), max(rate, min(1.0, centre + half)))


def _square(problem: PlantedProblem, found: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Both as square matrices of one kind: homogeneous if either has translations."""
    d = problem.width
    pairs = [_with_shift(torch.as_tensor(a).double(), d) for a in (found, truth)]
    if not problem.affine and not any(bool(a[:, :, d].any()) for a in pairs):
        return pairs[0][:, :, :d], pairs[1][:, :, :d]
    below = torch.nn.functional.pad
    return below(pairs[0], (0, 0, 0, 1)), below(pairs[1], (0, 0, 0, 1))


def _with_shift(matrices: Tensor, d: int) -> Tensor:
    """[A | b], shape (D, d, d+1), b = 0 where there is none."""
    return torch.nn.functional.pad(matrices[:, :d], (0, d + 1 - matrices.shape[2]))


def _is_exact(found: Tensor, truth: Tensor, *, standard: bool) -> bool:
    try:
        named = identify(Group(algebra=list(found)))
    except ValueError:  # not closed under brackets
        return False
    if named.name != identify(Group(algebra=list(truth))).name:
        return False
    return not standard or _distance(found, truth) < _EXACT


def _distance(found: Tensor, truth: Tensor) -> float:
    """The sine of the largest principal angle, which a cosine near one does not resolve."""
    one, other = (torch.linalg.qr(a.flatten(1).T).Q for a in (found, truth))
    return float(torch.linalg.matrix_norm(one - other @ (other.T @ one), 2))


def _plain(title: str) -> str:
    plain = title.lower().replace("⁺", "").replace(" and ", "+")
    for sign in "×*":
        plain = plain.replace(sign, "+")
    return plain.replace(" ", "").replace("so(2,1)", "so(1,2)")
