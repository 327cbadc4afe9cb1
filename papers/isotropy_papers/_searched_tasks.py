"""Tasks whose continuous symmetry is known, and what a search for it finds in their data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from isotropy.data import Task, inertia, lorentz_scattering, o5_invariant
from isotropy.groups import orthonormal_span
from isotropy.reps import Scalar, Symmetry, V
from isotropy.run import generator, spawn
from isotropy_papers._planted_scores import least_cosine
from isotropy_papers.hamiltonian_systems import double_spring_pendulum

if TYPE_CHECKING:
    from isotropy.discovery import Finding
    from isotropy.discovery.generators import ClassResult

Find = Callable[[Tensor, Tensor, Mapping[str, Any], int], "Found"]

_EXACT = 1e-8


@dataclass(frozen=True, eq=False)
class SearchedProblem:
    """A task with a symmetry, and the hints that a search for it gets.

    Args:
        task: The task; ``task.also[0]`` is the connected part of its group.
        hints: What ``find_generators`` is given of the class of actions.
        rows: How many rows it has.
        scaling: Whether scalings are in the true algebra of that class as well.
        looks: Other classes to report the algebra of, by name.

    Example:
        >>> print(problems()["inertia"].given)
        SO(3): 5*Scalar+5*V >> T(2)
        >>> problems()["inertia"].algebra.shape
        torch.Size([4, 3, 3])
    """

    task: Task
    hints: Mapping[str, Any]
    rows: int
    scaling: bool = False
    looks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def given(self) -> Symmetry:
        """The symmetry of the connected group."""
        return self.task.symmetry.restrict(self.task.also[0])

    @property
    def algebra(self) -> Tensor:
        """What there is to find, as it acts on one block, (D, d, d)."""
        group = self.task.also[0]
        matrices = [a.dense() for a in group.algebra]
        if self.scaling:
            matrices.append(torch.eye(group.d, dtype=torch.float64))
        return torch.stack(matrices)


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    Args:
        name: The symmetry in words; empty where none was claimed.
        symmetry: The same as text; empty where none was claimed, or it is not linear.
        confirmed: Whether it stood the test.
        dimension: Of the algebra.
        estimate: Generators before they were made exact, (D, d, d).
        generators: The exact ones.
        classes: The action, the name of the group, the dimension and whether it was chosen, of
            every class of actions.

    Example:
        >>> Found().dimension
        0
    """

    name: str = ""
    symmetry: str = ""
    confirmed: bool = False
    dimension: int = 0
    estimate: Tensor | None = None
    generators: Tensor | None = None
    classes: tuple[tuple[str, str, int, bool], ...] = ()


def problems() -> dict[str, SearchedProblem]:
    """The tasks by name.

    Example:
        >>> print(*problems())
        O(5) inertia pendulum scattering
    """
    positions = [[5 + 3 * i + j for j in range(3)] for i in range(5)]
    free: dict[str, Any] = {"nothing told": {}}
    return {
        "O(5)": SearchedProblem(o5_invariant(), {"blocks": 2}, 4000, looks=free),
        "inertia": SearchedProblem(
            inertia(),
            {"blocks": positions, "output": "matrix"},
            8000,
            scaling=True,
            looks={**free, "any B": {"blocks": positions, "output": "free"}},
        ),
        "pendulum": SearchedProblem(
            _energy_task(),
            {"blocks": 4},
            10_000,
            looks={**free, "canonical": {"blocks": 1, "symplectic": True}},
        ),
        "scattering": SearchedProblem(
            lorentz_scattering("reference"), {"blocks": 4}, 20_000, looks=free
        ),
    }


def searched(
    problem: SearchedProblem, hints: Mapping[str, Any], seed: int, find: Find
) -> dict[str, Any]:
    """Search rows of a task that its ``splits`` of the same seed do not hold.

    Args:
        problem: The task.
        hints: What is known of the class of actions.
        seed: Of the rows and of the search.
        find: The search.

    Returns:
        What was found, of what JSON knows: its ``name``, ``symmetry``, ``dimension`` and
        ``classes``; whether it is ``confirmed``; the ``cosine`` of the largest principal angle
        between the estimate and the truth; whether the generators are ``exact``; ``seconds``.

    Example:
        >>> problem = problems()["O(5)"]
        >>> truth = Found(dimension=10, estimate=problem.algebra, generators=problem.algebra)
        >>> found = searched(problem, problem.hints, 0, lambda *_: truth)
        >>> round(found["cosine"], 6), found["exact"], found["confirmed"]
        (1.0, 1.0, 0.0)
    """
    start = time.perf_counter()
    x, y = problem.task.draw(problem.rows, generator=spawn(generator(seed), 4)[3])
    found, truth = find(x, y, hints, seed), problem.algebra
    cosine = exact = 0.0
    if found.estimate is not None and found.estimate.shape[1:] == truth.shape[1:]:
        cosine = least_cosine(found.estimate, truth)
    if found.generators is not None and found.generators.shape == truth.shape:
        exact = float(_sine(found.generators, truth) < _EXACT)
    return {
        "name": found.name,
        "symmetry": found.symmetry,
        "confirmed": float(found.confirmed),
        "dimension": float(found.dimension),
        "cosine": cosine,
        "exact": exact,
        "classes": [list(each) for each in found.classes],
        "seconds": time.perf_counter() - start,
    }


def _sine(one: Tensor, other: Tensor) -> float:
    """Of the largest principal angle between two spaces of as many dimensions."""
    a, b = (orthonormal_span(m.numpy(), 0.0).reshape(len(m), -1) for m in (one, other))
    return float(np.linalg.norm(b - (b @ a.T) @ a, 2))


def find_with_library(x: Tensor, y: Tensor, hints: Mapping[str, Any], seed: int) -> Found:
    """The library's own search.

    Args:
        x: Inputs.
        y: Outputs.
        hints: What is known of the class of actions.
        seed: Of the search.

    Example:
        >>> x = torch.randn(300, 2, dtype=torch.float64, generator=generator(0))
        >>> find_with_library(x, x.square().sum(1), {"blocks": 1}, 0).symmetry
        'SO(2): V >> Scalar'
    """
    from isotropy.discovery.generators import GeneratorOptions, find_generators

    of_class = dict(hints)
    search = find_generators(
        x.numpy(),
        y.numpy(),
        blocks=of_class.pop("blocks", None),
        options=GeneratorOptions(**of_class),
        fit_models=False,
        seed=seed,
    )
    finding = next((each for each in search.findings if not each.approximate), None)
    chosen = None if finding is None else _class_of(finding, search.classes)
    classes = tuple(
        (each.action, _title(each), each.dimension, each is chosen) for each in search.classes
    )
    if finding is None or chosen is None:
        return Found(classes=classes)
    symmetry = finding.symmetry
    # with translations, or about a point, it is not a linear action on the inputs
    linear = symmetry is not None and not chosen.affine
    return Found(
        name=finding.name,
        symmetry=str(symmetry) if linear else "",
        confirmed=finding.confirmed,
        dimension=chosen.dimension,
        estimate=torch.as_tensor(chosen.estimate),
        generators=None if finding.generators is None else torch.tensor(finding.generators),
        classes=classes,
    )


def _class_of(finding: Finding, classes: Sequence[ClassResult]) -> ClassResult | None:
    """The class of actions that a finding is of."""
    return next(
        (c for c in classes if (c.action, c.dimension) == (finding.action, finding.dimension)), None
    )


def _title(found: ClassResult) -> str:
    if not found.title:
        return "no exact algebra" if found.dimension else "nothing"
    return found.title if found.exact else f"nearly {found.title}"


def _energy_task() -> Task:
    system = double_spring_pendulum()
    return Task(
        "the energy of double_spring_pendulum()",
        Symmetry(system.symmetry.group, 4 * V, Scalar),
        system.also,
        system.draw_initial,
        lambda z: system.hamiltonian(z).unsqueeze(-1),
    )
