"""Look for continuous symmetries of a task: charts, classes of actions, the algebra of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from isotropy.discovery.predictors._smooth_fit import GIVEN, SmoothFit
from isotropy.discovery.predictors._smooth_predictor import fit_task
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._action_class import OUTPUTS, Output
from isotropy.discovery.proposing.generators._algebras import (
    ClassResult,
    Samples,
    algebras,
    may_be_claimed,
    preference,
)
from isotropy.discovery.proposing.generators._charts import (
    Array,
    Chart,
    chart_of_columns,
    charts_to_look_in,
    ways_outputs_move,
)
from isotropy.discovery.proposing.generators._column_blocks import as_blocks
from isotropy.discovery.proposing.generators._conditioning import (
    invisible_combinations,
    unit_problem,
)
from isotropy.discovery.proposing.generators._data_constraints import surface_of
from isotropy.discovery.proposing.generators._ignored_directions import (
    ignored_directions,
    is_ignorable,
)
from isotropy.discovery.proposing.generators._usual_results import usual_results
from isotropy.discovery.reading._task_data import TaskData
from isotropy.equivariance._evaluation import evaluating

Blocks = int | Sequence[Sequence[int]] | Sequence[Sequence[str]]


class CannotTell(ValueError):
    """The data cannot tell whether there is a continuous symmetry; the sentence says why."""


@dataclass(frozen=True, eq=False)
class GeneratorSearch:
    """What one part of the data says of continuous symmetries.

    Args:
        fit: The function that was fitted, in the user's units; what kind it is.
        results: Every class of actions that was looked at.
        candidates: Classes whose algebras are to be tested, in that order: the largest exact one
            that has a name, those of other charts for the case that it fails, and a larger one
            that is only approximately a symmetry.
        ignored: Columns that the target does not depend on.
        along: Directions of the input that the target does not depend on and that are not
            columns, ``(k, n)``.
        combinations: What it does depend on, ``(n − k, n)``, where there are such directions.
        output_order: The columns of the output in the order in which vectors are whole.
        notes: Anything else worth knowing.
    """

    fit: SmoothFit
    results: tuple[ClassResult, ...]
    candidates: tuple[ClassResult, ...]
    ignored: tuple[int, ...]
    along: Array
    combinations: Array
    output_order: Array
    notes: tuple[str, ...]

    @property
    def chosen(self) -> ClassResult | None:
        """The first to be tested."""
        return self.candidates[0] if self.candidates else None


@dataclass(frozen=True)
class GeneratorOptions:
    """The class of actions that ``find_generators`` looks in, and what a symmetry may cost.

    Args:
        affine: Whether to look for translations, too, as is the default.
        output: How outputs move: ``"invariant"``, ``"vector"`` (B = A), ``"matrix"``
            (B = A⊗1 + 1⊗A) or ``"free"`` (any B; looked at, never claimed). By default all that
            fit.
        symplectic: Whether the input is (q, p), as many of each, and only canonical transformations
            count: A in sp(n). Not by default.
        margin: The largest cost that still counts as a symmetry, as a share of what can be
            learned; 5 % by default.
        level: The chance of confirming anything false; 5 % by default.

    Example:
        >>> from isotropy.discovery import find_generators
        >>> q, p = np.random.default_rng(0).normal(size=(2, 400, 2))
        >>> energy = (q**2).sum(1) + (p**2).sum(1)
        >>> options = GeneratorOptions(symplectic=True)
        >>> found = find_generators(np.hstack([q, p]), energy, fit_models=False, options=options)
        >>> found.chosen.title  # SO(4), were it not for the symplectic form
        'U(2)'
    """

    affine: bool = True
    output: Output | None = None
    symplectic: bool = False
    margin: float = 0.05
    level: float = 0.05

    def require_fit(self, columns: int) -> None:
        """Refuse what cannot be.

        Raises:
            ValueError: If outputs cannot move so, or momenta are not as many as positions.
        """
        if self.output is not None and self.output not in OUTPUTS:
            expected = ", ".join(OUTPUTS)
            raise ValueError(f"expected an output among {expected}, got {self.output!r:.80}")
        if self.symplectic and columns % 2:
            raise ValueError(f"expected as many momenta as positions, got {columns} columns")


def search_generators(
    data: TaskData,
    options: GeneratorOptions,
    *,
    blocks: Blocks | None = None,
    model: Callable[[Tensor], Tensor] | None = None,
    seed: int = 0,
) -> GeneratorSearch:
    """Fit a smooth function to the data and find its Lie algebra in each class of actions.

    Raises:
        CannotTell: If the data do not allow an answer.
        ValueError: If an option does not fit the data.
    """
    limits, x = ProposingThresholds.now(), data.x.numpy()
    names = column_names(data)
    n = len(names)
    options.require_fit(n)
    _require_visible(x, names)
    given = None if blocks is None else as_blocks(blocks, data.input_names, n)
    fit = _fitted(data, model, seed)
    found = surface_of(x, names, given)
    points = x[: limits.generator_points]
    order = _output_order(data)
    normals = None if found is None else found.gradients(points)
    samples = Samples.of(fit, points, normals, order=order)
    notes = () if found is None else (f"inputs lie on a surface: {'; '.join(found.sentences)}",)
    everything = chart_of_columns(x, (tuple(range(n)),), names, "one action on all columns")
    ignored, along, combinations = ignored_directions(
        samples, everything, names, options.margin, seed
    )
    if not is_ignorable(fit, points, ignored, along):
        ignored, along, combinations = (), along[:0], combinations[:0]
    results: list[ClassResult] = []
    usual: list[ClassResult] = []
    if n - len(ignored) - len(along) > 1:  # else all symmetries are trivial
        if not fit.is_linear:
            # canonical transformations pair columns, which combinations of them do not
            left_out = ((), combinations[:0]) if options.symplectic else (ignored, combinations)
            for chart in charts_to_look_in(data, x, names, given, *left_out):
                for kind in ways_outputs_move(options.output, data, len(chart.scale)):
                    results += _of_class(samples, chart, kind, options, seed)
        plain = model is None and found is None and not options.symplectic
        if plain and (not fit.is_linear or fit.unexplained > limits.nothing_learned):
            output, affine = options.output, options.affine
            usual = usual_results(data, x, names, samples, fit, given, output, affine=affine)
        if not fit.is_linear and not usual:
            _require_results(results, options.output, n, len(order), len(points))
    candidates = _candidates(results, usual)
    every = (*results, *usual)
    return GeneratorSearch(fit, every, candidates, ignored, along, combinations, order, notes)


def _require_results(
    results: Sequence[ClassResult], output: Output | None, columns: int, outputs: int, rows: int
) -> None:
    """Refuse data in which no class of actions could be looked at."""
    if not results:
        if output is None:
            widest = ProposingThresholds.now().widest_class
            raise CannotTell(
                f"expected at most {widest} columns, or blocks of them, got {columns} columns"
            )
        raise ValueError(
            f"expected outputs that can move as a {output} of some block of columns, "
            f"got {outputs} outputs"
        )
    if all(r.space is None and r.note.startswith(("needs", "too")) for r in results):
        least = min(r.unknowns for r in results)
        raise CannotTell(
            f"expected at least {least} rows to find as many unknowns of an action, got {rows}"
        )


def _output_order(data: TaskData) -> Array:
    """Outputs point by point: of several channels the data have them channel by channel."""
    if data.task == "classification":
        return np.arange(data.arrangement.outputs)
    a = data.arrangement
    return np.arange(a.outputs * a.output_channels).reshape(a.output_channels, -1).T.ravel()


def column_names(data: TaskData) -> tuple[str, ...]:
    """A name for each column of the flattened input."""
    n, channels = data.arrangement.inputs, data.arrangement.channels
    positions = data.input_names or tuple(f"x{i}" for i in range(n))
    if channels == 1:
        return positions
    return tuple(f"{name}[{c}]" for c in range(channels) for name in positions)


def _require_visible(x: Array, names: tuple[str, ...]) -> None:
    problem = unit_problem(x, names)
    if problem is not None:
        raise CannotTell(problem)
    hidden = invisible_combinations(x, names)
    if hidden:
        raise CannotTell(
            f"expected inputs that vary independently, got {len(hidden)} that do not: "
            f"{_some(hidden)}; symmetries along them cannot be told"
        )


def _some(sentences: Sequence[str]) -> str:
    """The first few."""
    most = ProposingThresholds.now().hidden_listed
    more = len(sentences) - most
    shown = "; ".join(sentences[:most])
    return shown if more <= 0 else f"{shown}; and {more} more"


def _fitted(data: TaskData, model: Callable[[Tensor], Tensor] | None, seed: int) -> SmoothFit:
    """A function of inputs in the user's units."""
    if model is None:
        return fit_task(data, thorough=False, seed=seed)
    like = next(model.parameters(), None) if isinstance(model, nn.Module) else None

    def double(x: Tensor) -> Tensor:
        with evaluating(model):
            out = model(x if like is None else x.to(like))
        return (out if out.ndim == 2 else out.unsqueeze(1)).to("cpu", torch.float64)

    probe = data.x[:2].clone().requires_grad_()
    if not callable(model):
        raise ValueError(f"expected a differentiable function as model, got {model!r:.80}")
    try:
        with torch.enable_grad():
            out = double(probe)
    except (RuntimeError, IndexError) as error:
        raise ValueError(
            f"expected a model of {data.x.shape[1]} inputs, got one that fails: {error!s:.200}"
        ) from error
    outputs = len(_output_order(data))
    if out.shape != (len(probe), outputs) or not out.requires_grad:
        raise ValueError(
            f"expected a differentiable model from {data.x.shape[1]} inputs to {outputs} outputs, "
            f"got outputs of shape {tuple(out.shape)}"
            + ("" if out.requires_grad else " that do not depend on inputs differentiably")
        )
    if not bool(out.isfinite().all()):
        raise ValueError("expected finite outputs of the model, got NaN or infinity")
    return SmoothFit(GIVEN, (double, double), 0.0)


def _of_class(
    samples: Samples, chart: Chart, output: Output, options: GeneratorOptions, seed: int
) -> list[ClassResult]:
    """The class without translations; with them where that finds more."""
    find = partial(algebras, samples, chart, output, symplectic=options.symplectic)
    find = partial(find, margin=options.margin, seed=seed)
    linear = find(affine=False)
    if not options.affine or output != "invariant":
        return linear
    best = max((r.dimension for r in linear if r.exact and r.snapped), default=0)
    wide = find(affine=True)
    more = [r for r in wide if r.snapped is not None and r.exact and r.dimension > best]
    return more + linear


def _candidates(
    results: Sequence[ClassResult], usual: Sequence[ClassResult] = ()
) -> tuple[ClassResult, ...]:
    """What to test: one exact algebra for each chart, and a larger one that is not exact.

    And of those that are tried whatever the data, those that are not among these.
    """
    limits = ProposingThresholds.now()
    exact: list[ClassResult] = []
    for result in sorted(filter(may_be_claimed, results), key=preference, reverse=True):
        if result.exact and all(result.chart is not other.chart for other in exact):
            exact.append(result)
    first = exact[0] if exact else None
    approximate = [
        r
        for r in results
        if may_be_claimed(r)
        and not r.exact
        and "hidden" not in r.detail  # a basis that fits what does not hold says nothing
        and (first is None or (r.chart is first.chart and r.dimension > first.dimension))
    ]
    approximate.sort(key=preference, reverse=True)
    chosen = exact[: limits.most_algebras]
    for one in usual:
        same = [
            (o.title, o.chart.blocks, o.output) == (one.title, one.chart.blocks, one.output)
            for o in (*chosen, *approximate[:1])  # which says that it is not exact
        ]
        if may_be_claimed(one) and not any(same):
            chosen.append(one)
    chosen = chosen[: limits.most_algebras + limits.most_usual]
    chosen.sort(key=preference, reverse=True)
    return (*chosen, *approximate[:1])
