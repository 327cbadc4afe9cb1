"""Searches for one kind of symmetry: generators in rows, groups in logged transitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike
from torch import Tensor

from isotropy._run import Patience, ProgressCallback, one_thread
from isotropy._run._moved_keywords import moved_keywords
from isotropy.data import Dataset, Transitions
from isotropy.discovery._discover_options import Criteria
from isotropy.discovery._stages import searched
from isotropy.discovery.claims._statement import ContinuousDetails
from isotropy.discovery.predictors._free_predictor import Task
from isotropy.discovery.proposing._transition_proposer import TransitionProposer
from isotropy.discovery.proposing.generators._algebras import ClassResult
from isotropy.discovery.proposing.generators._generator_proposer import GeneratorProposer
from isotropy.discovery.proposing.generators._generator_search import (
    Blocks,
    GeneratorOptions,
    search_generators,
)
from isotropy.discovery.reading._read_problem import Problem
from isotropy.discovery.reading._task_data import TaskData, as_dataset
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.telling._finding import Finding
from isotropy.discovery.telling._findings import Findings


@dataclass(frozen=True, eq=False)
class GeneratorFindings:
    """Continuous symmetries found in data, and all that was looked at on the way.

    Args:
        findings: What stands, as ``discover`` gives it.
        classes: The algebra of each class of actions, exact or not.
        chosen: The class whose algebra stands, else the one that was tested first; ``None`` where
            none stood out.
        fitted: What kind of function was fitted.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(300, 2))
        >>> found = find_generators(x, np.exp(-(x**2).sum(1)), fit_models=False)
        >>> found.finding.name, found.chosen.dimension
        ('SO(2), acting on (x0, x1)', 1)
    """

    findings: Findings
    classes: tuple[ClassResult, ...]
    chosen: ClassResult | None
    fitted: str

    @property
    def finding(self) -> Finding | None:
        """The first that stands; ``None`` where none does."""
        return self.findings[0] if len(self.findings) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Anything worth knowing."""
        return tuple(self.findings.notes)


@moved_keywords(options=GeneratorOptions)
def find_generators(
    X: ArrayLike | Tensor | Dataset,
    y: ArrayLike | Tensor | None = None,
    *,
    blocks: Blocks | None = None,
    model: Callable[[Tensor], Tensor] | None = None,
    task: Task | None = None,
    groups: ArrayLike | None = None,
    options: GeneratorOptions | None = None,
    fit_models: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> GeneratorFindings:
    """Find the continuous symmetries of a task, make them exact, name them, confirm them by test.

    A smooth function f is fitted to a part of the rows: a polynomial where one does, else
    networks. Its symmetries are the matrices A and vectors b with Df(x)(A x + b) = B f(x): a null
    space, whose dimension is tested against the noise of two independent fits. That space is
    replaced by the nearest exact Lie algebra, and the group of it is named. The claim is then
    tested on rows that were not used before, against a predictor free of symmetry
    (``claim_test``).

    The class of actions is part of the answer: one A on all columns, the same A on each of several
    blocks of columns, with translations or without; outputs that stay, or move. Each class has its
    own algebra (``classes``). Of those that have a name, the ones on blocks that names or the shape
    of the data suggest come first, then the largest; the next is tested where one fails.

    Args:
        X: Inputs, shape ``(N, n)``, or ``(N, points, channels)``, where each point is a block; or
            a ``Dataset``.
        y: Targets: ``(N,)`` or ``(N, m)`` of numbers, or ``(N,)`` classes.
        blocks: Columns that move in the same way: a number k of consecutive blocks, or the columns
            (or names) of each. By default read from names such as px1, px2, else every k is tried.
        model: A differentiable function of inputs, ``(N, n)`` to ``(N, m)``, to look at instead
            of one that is fitted. Claims are still tested on the data, as if the model had not
            seen them: fit it to others.
        task: ``"regression"`` or ``"classification"``; by default read from the targets.
        groups: Rows with one value here stay on one side of every split.
        options: The class of actions to look in, the margin and the level.
        fit_models: Whether to fit an EMLP to each symmetry found.
        seed: Of splits, networks and random group elements.
        progress: Called with each step.

    Raises:
        ValueError: If the data cannot tell: too few rows for the unknowns, constant targets,
            inputs that do not vary independently, columns of wildly different size.

    Example:
        >>> import numpy as np
        >>> p = np.random.default_rng(0).normal(size=(400, 2, 3))
        >>> e = np.sqrt(1 + (p**2).sum(2, keepdims=True)) + np.random.default_rng(1).random(
        ...     (400, 2, 1)
        ... )
        >>> x = np.concatenate([e, p], 2).reshape(400, 8)  # two four-momenta
        >>> total = x[:, :4] + x[:, 4:]
        >>> mass = np.sqrt(total[:, 0] ** 2 - (total[:, 1:] ** 2).sum(1))
        >>> found = find_generators(x, mass, blocks=2, fit_models=False)
        >>> print(found.finding.name)
        SO⁺(1,3), metric (+,−,−,−), acting on 2 four-vectors
        >>> print(found.finding.symmetry)
        SO13p: 2*V >> Scalar
    """
    started = time.perf_counter()
    options = options or GeneratorOptions()
    for name, share in (("margin", options.margin), ("level", options.level)):
        if not 0 < share < 1:
            raise ValueError(f"expected a {name} between 0 and 1, got {share!r}")
    data = TaskData.of(as_dataset(X, y, task, groups), permuting=False)
    problem = Problem.of(data, "vectors", seed=seed, methods=("generators",))
    assert isinstance(problem.find, TaskData)
    criteria = Criteria(options.margin, 0.0, options.level, fit_models, seed)
    with one_thread():
        search = search_generators(problem.find, options, blocks=blocks, model=model, seed=seed)
        proposer = GeneratorProposer(blocks, search)
        found = searched(problem, [proposer], criteria, Patience(), progress)
    details = found[0].details if len(found) else None
    classes = details.classes if isinstance(details, ContinuousDetails) else ()
    chosen = next(
        (one for one, row in zip(search.results, classes, strict=False) if row["chosen"]),
        search.chosen,
    )
    return GeneratorFindings(
        replace(found, seconds=time.perf_counter() - started),
        search.results,
        chosen,
        search.fit.kind,
    )


def discover_transitions(
    transitions: Transitions,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    margin: float = 0.05,
    level: float = 0.05,
    fit_models: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Findings:
    """Find signed permutations of observations and actions that transitions commute with.

    s′ = f(s, a)   ⟹   P_s s′ = f(P_s s, P_a a)

    Rows are split in three, episodes kept whole. On the first part elements are proposed that keep
    the coefficients of a quadratic fit of s′ − s, and hold for a network. To the second a predictor
    free of symmetry is fitted. On the third the group is tested,
    with one generator, with two and so on: averaging over it must cost less
    than ``margin`` of what can be learned, and less than half of that of what is at stake for each
    element and each column (``group_test``), where the log has rows on both sides.

    Raises:
        ValueError: If rows are too few to split, observations never change, or there are not as
            many names as entries.

    Example:
        >>> import torch
        >>> rng = torch.Generator().manual_seed(0)
        >>> s, a = torch.randn(600, 2, generator=rng), torch.randn(600, 1, generator=rng)
        >>> angle, rate = s.T
        >>> ahead = s + 0.1 * torch.stack([rate, a[:, 0] - angle**3 + angle * rate**2], 1)
        >>> found = discover_transitions(Transitions(s, a, ahead), fit_models=False)
        >>> found[0].name, found[0].action
        ('Z(2), signs of observations and actions', '−o0, −o1, −a0')
    """
    started = time.perf_counter()
    data = TransitionData.of(transitions, observation_names, action_names)
    problem = Problem.of(data, "transitions", seed=seed, methods=("transitions",))
    criteria = Criteria(margin, 0.0, level, fit_models, seed)
    with one_thread():
        found = searched(problem, [TransitionProposer()], criteria, Patience(), progress)
    return replace(found, seconds=time.perf_counter() - started)
