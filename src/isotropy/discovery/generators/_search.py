"""Look for continuous symmetries of a task: charts, classes of actions, the algebra of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from isotropy.discovery._task_data import TaskData
from isotropy.discovery.generators._action_class import OUTPUTS, Output
from isotropy.discovery.generators._algebras import (
    ClassResult,
    Samples,
    algebras,
    may_be_claimed,
    preference,
)
from isotropy.discovery.generators._charts import (
    Array,
    Chart,
    chart_of_columns,
    chart_of_combinations,
    combination_text,
    simple_subspace,
)
from isotropy.discovery.generators._column_blocks import (
    ColumnBlocks,
    as_blocks,
    blocks_by_size,
    blocks_from_names,
)
from isotropy.discovery.generators._conditioning import (
    condition,
    invisible_combinations,
    unit_problem,
)
from isotropy.discovery.generators._data_constraints import DataConstraints, find_constraints
from isotropy.discovery.generators._invariant_predictor import invariant_features, seen_blocks
from isotropy.discovery.generators._null_space import null_spaces
from isotropy.discovery.generators._smooth_fit import GIVEN, SmoothFit
from isotropy.discovery.generators._smooth_predictor import fit_task
from isotropy.discovery.generators._usual_actions import (
    seems_to_hold,
    usual_actions,
    usual_result,
)
from isotropy.equivariance._evaluation import evaluating

Blocks = int | Sequence[Sequence[int]] | Sequence[Sequence[str]]

_MOST_POINTS = 3000
# a class of actions on more columns has too many unknowns to be worth a look
_WIDEST = 32
_MOST_FREE_OUTPUTS = 12
_MOST_CLAIMS, _MOST_USUAL, _MOST_SENTENCES = 3, 2, 4
_WIDEST_ROTATED = 8
# invariants of a usual action speak for it where they leave so much less than the fit
_BETTER_FIT = 0.9
# a fit that leaves more has nothing to say
_NOTHING = 0.9
# that the target ignores a direction is believed only where nothing but noise is seen along it
_CERTAINLY_NOISE, _SHARP = 3.0, 0.1
# and only if holding it fixed changes no more than this share of the variance
_IGNORABLE = 0.01


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
            that is only nearly a symmetry.
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


def search_generators(
    data: TaskData,
    *,
    blocks: Blocks | None = None,
    affine: bool = True,
    output: Output | None = None,
    symplectic: bool = False,
    model: Callable[[Tensor], Tensor] | None = None,
    margin: float = 0.05,
    seed: int = 0,
) -> GeneratorSearch:
    """Fit a smooth function to the data and find its Lie algebra in each class of actions.

    Args:
        data: The part of the data to look at.
        blocks: Columns that move alike: their number, or which.
        affine: Whether to look for translations.
        output: How outputs move; by default every way that fits is tried.
        symplectic: Whether only canonical transformations count.
        model: A function to look at instead of one that is fitted.
        margin: What a symmetry may cost.
        seed: Of the fit.

    Raises:
        CannotTell: If the data do not allow an answer.
    """
    if output is not None and output not in OUTPUTS:
        raise ValueError(f"expected an output among {', '.join(OUTPUTS)}, got {output!r:.80}")
    x = data.x.numpy()
    names = column_names(data)
    if symplectic and x.shape[1] % 2:
        raise ValueError(f"expected as many momenta as positions, got {x.shape[1]} columns")
    _require_visible(x, names)
    given = None if blocks is None else as_blocks(blocks, data.input_names, x.shape[1])
    fit = _fitted(data, model, seed)
    found = _constraints(x, names, given)
    points = x[:_MOST_POINTS]
    order = _output_order(data)
    samples = Samples.of(
        fit, points, None if found is None else found.gradients(points), order=order
    )
    notes = []
    if found is not None:
        notes.append(f"inputs lie on a surface: {'; '.join(found.sentences)}")
    everything = chart_of_columns(
        x, (tuple(range(x.shape[1])),), names, "one action on all columns"
    )
    ignored, along, combinations = _ignored(samples, everything, names, margin, seed)
    if not _is_ignorable(fit, points, ignored, along):
        ignored, along, combinations = (), along[:0], combinations[:0]
    live = x.shape[1] - len(ignored) - len(along)
    results: list[ClassResult] = []
    if live > 1 and not fit.is_linear:  # else all symmetries are trivial
        # canonical transformations pair columns, which combinations of them do not
        reduced = combinations[:0] if symplectic else combinations
        for chart in _charts(data, x, names, given, () if symplectic else ignored, reduced):
            for kind in _outputs(output, data, len(chart.scale)):
                results += _of_class(
                    samples,
                    chart,
                    kind,
                    affine=affine,
                    symplectic=symplectic,
                    margin=margin,
                    seed=seed,
                )
    usual: list[ClassResult] = []
    nothing = fit.unexplained > _NOTHING
    if (
        live > 1
        and (not fit.is_linear or nothing)
        and model is None
        and found is None
        and not symplectic
    ):
        usual = _usual(data, x, names, samples, fit, given, output, affine=affine)
    if live > 1 and not fit.is_linear and not results and not usual:
        if output is None:
            raise CannotTell(
                f"expected at most {_WIDEST} columns, or blocks of them, got {x.shape[1]} columns"
            )
        raise ValueError(
            f"expected outputs that can move as a {output} of some block of columns, "
            f"got {len(order)} outputs"
        )
    if (
        not usual
        and results
        and all(r.space is None and r.note.startswith(("needs", "too")) for r in results)
    ):
        least = min(r.unknowns for r in results)
        raise CannotTell(
            f"expected at least {least} rows to find as many unknowns of an action, "
            f"got {len(points)}"
        )
    return GeneratorSearch(
        fit,
        (*results, *usual),
        _candidates(results, usual),
        ignored,
        along,
        combinations,
        order,
        tuple(notes),
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
    more = len(sentences) - _MOST_SENTENCES
    shown = "; ".join(sentences[:_MOST_SENTENCES])
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


@dataclass(frozen=True, eq=False)
class _Surface:
    """Constraints of the data in the user's units."""

    inner: DataConstraints
    centre: Array
    scale: Array
    sentences: tuple[str, ...]

    @property
    def count(self) -> int:
        return self.inner.count

    def gradients(self, x: Array) -> Array:
        return self.inner.gradients((x - self.centre) / self.scale) / self.scale


def _constraints(x: Array, names: tuple[str, ...], blocks: ColumnBlocks | None) -> _Surface | None:
    """The surface that the data lie on, where they lie on one."""
    unit = condition(x, blocks)
    found = find_constraints(unit.x, blocks, rounding=unit.rounding)
    if not found.count:
        return None
    return _Surface(found, unit.shift, unit.scale, found.sentences(names, unit.shift, unit.scale))


def _ignored(
    samples: Samples, chart: Chart, names: tuple[str, ...], margin: float, seed: int
) -> tuple[tuple[int, ...], Array, Array]:
    """Directions along which the function does not change: columns, others, and what is left."""
    n = len(names)
    nothing = np.zeros((0, n))
    if samples.normals.shape[1]:
        return (), nothing, nothing  # off the surface nothing is known
    weights = samples.weights(chart)[:, None, None]
    slopes = [jacobian @ chart.lift * weights for jacobian in samples.jacobians]
    floor = 1e-13 if samples.exact else 1e-20
    found = null_spaces(
        *slopes, margin=margin, floor=floor, largest_ratio=_CERTAINLY_NOISE, seed=seed
    )
    space = next((s for s in found if s.exact and s.error <= _SHARP), None)
    if space is None:
        return (), nothing, nothing
    scale = np.diag(chart.lift)
    error = max(space.error, 1e-7)
    still = simple_subspace(space.basis, error, scale)
    frame = np.linalg.qr((still / scale).T)[0].T
    inside = np.linalg.norm(frame, axis=0)
    ignored = tuple(int(i) for i in np.flatnonzero(inside > 1 - max(error, 1e-6)))
    rest = np.array([row for row in still if not _is_among(row, ignored)]).reshape(-1, n)
    live = [i for i in range(n) if i not in ignored]
    rest[:, list(ignored)] = 0.0
    if not len(rest):
        return ignored, nothing, nothing
    # what is left: combinations c with c·b = 0 for all directions b, of simple numbers
    unit = np.linalg.svd(rest[:, live] / scale[live])[2]
    dual = unit[len(rest) :] / scale[live]
    frame = np.linalg.qr((dual * scale[live]).T)[0].T
    wide = simple_subspace(frame, error, 1.0 / scale[live])
    combinations = np.zeros((len(wide), n))
    combinations[:, live] = wide
    return ignored, rest, combinations


def _is_ignorable(fit: SmoothFit, x: Array, ignored: tuple[int, ...], along: Array) -> bool:
    """Whether the function is the same where these directions are held at their mean."""
    still = np.vstack([np.eye(x.shape[1])[list(ignored)], along])
    if not len(still):
        return True
    scale = x.std(0)
    frame = np.linalg.qr((still / scale).T)[0]
    centred = (x - x.mean(0)) / scale
    held = x.mean(0) + (centred - centred @ frame @ frame.T) * scale
    with torch.no_grad():
        before, after = (fit(torch.as_tensor(rows)) for rows in (x, held))
    change = float((after - before).square().sum())
    return change <= _IGNORABLE * float((before - before.mean(0)).square().sum())


def _is_among(row: Array, columns: tuple[int, ...]) -> bool:
    others = np.delete(row, list(columns))
    return bool(np.abs(others).max(initial=0.0) <= 1e-9 * np.abs(row).max())


def _charts(
    data: TaskData,
    x: Array,
    names: tuple[str, ...],
    given: ColumnBlocks | None,
    ignored: tuple[int, ...],
    combinations: Array,
) -> list[Chart]:
    """Where actions are looked for: blocks of columns, all columns, combinations of them."""
    n, channels = data.arrangement.inputs, data.arrangement.channels
    suggested = True
    if given is not None:
        candidates = [given]
    elif channels > 1:
        places = tuple(tuple(c * n + p for c in range(channels)) for p in range(n))
        labels = tuple(f"channel {c}" for c in range(channels))
        candidates = [ColumnBlocks(places, labels, (), "positions")]
    elif data.input_names is not None and (named := blocks_from_names(data.input_names)):
        candidates = list(named)
    else:
        candidates, suggested = blocks_by_size(n), False
    charts = []
    for blocks in candidates:
        kept = [j for j in range(blocks.d) if not all(b[j] in ignored for b in blocks.columns)]
        if len(kept) < 1 or blocks.k * blocks.d < 2:
            continue
        columns = tuple(tuple(block[j] for j in kept) for block in blocks.columns)
        labels = tuple(blocks.coordinates[j] for j in kept)
        words = f"the same action on {len(columns)} blocks of {len(kept)} columns"
        if len(columns) == 1:
            words = f"one action on {', '.join(names[c] for c in columns[0])}"
        charts.append(
            chart_of_columns(x, columns, labels, words, suggested=suggested and len(columns) > 1)
        )
    if given is not None:
        return charts
    live = tuple(i for i in range(x.shape[1]) if i not in ignored)
    if len(combinations) and 1 < len(combinations) <= _WIDEST:
        texts = tuple(combination_text(row, names) for row in combinations)
        charts.append(chart_of_combinations(x, combinations, texts))
    elif not len(combinations) and 1 < len(live) <= _WIDEST:
        words = (
            "one action on all columns"
            if not ignored
            else (f"one action on {', '.join(names[i] for i in live)}")
        )
        charts.append(chart_of_columns(x, (live,), tuple(names[i] for i in live), words))
    return charts


def _outputs(given: Output | None, data: TaskData, width: int) -> list[Output]:
    m = 1 if data.y.ndim == 1 else data.y.shape[1]
    if given is not None:
        fits = {"vector": m % width == 0, "matrix": m == width**2}.get(given, True)
        return [given] if fits else []
    kinds: list[Output] = ["invariant"]
    if data.task == "classification":
        return kinds
    if m > 1 and m % width == 0 and width > 1:
        kinds.append("vector")
    if m == width**2 and width > 1:
        kinds.append("matrix")
    if m <= _MOST_FREE_OUTPUTS:
        kinds.append("free")
    return kinds


def _of_class(
    samples: Samples,
    chart: Chart,
    output: Output,
    *,
    affine: bool,
    symplectic: bool,
    margin: float,
    seed: int,
) -> list[ClassResult]:
    """The class without translations; with them where that finds more."""
    linear = algebras(
        samples, chart, output, affine=False, symplectic=symplectic, margin=margin, seed=seed
    )
    if not affine or output != "invariant":
        return linear
    wide = algebras(
        samples, chart, output, affine=True, symplectic=symplectic, margin=margin, seed=seed
    )
    best = max((r.dimension for r in linear if r.exact and r.snapped), default=0)
    more = [r for r in wide if r.snapped is not None and r.exact and r.dimension > best]
    return more + linear


def _usual(
    data: TaskData,
    x: Array,
    names: tuple[str, ...],
    samples: Samples,
    fit: SmoothFit,
    given: ColumnBlocks | None,
    output: Output | None,
    *,
    affine: bool,
) -> list[ClassResult]:
    """Rotations and boosts that the fit does not speak against, or whose invariants fit better."""
    ways = [given] if given is not None else seen_blocks(data)
    suggested = given is not None or data.arrangement.channels > 1
    charts = [
        chart_of_columns(
            x,
            blocks.columns,
            blocks.coordinates,
            f"the same action on {blocks.k} blocks of {blocks.d} columns",
            suggested=suggested or data.input_names is not None,
        )
        for blocks in ways
    ]
    if 2 <= x.shape[1] <= _WIDEST_ROTATED and given is None:
        every = (tuple(range(x.shape[1])),)
        charts.append(chart_of_columns(x, every, names, "one action on all columns"))
    found: list[ClassResult] = []
    for chart in charts:
        for kind in _outputs(output, data, len(chart.scale)):
            shifts = affine and kind == "invariant" and len(chart.blocks) > 2
            for action in usual_actions(len(chart.scale), shifts=shifts):
                if kind == "free" or fit.unexplained > _NOTHING:
                    continue
                if seems_to_hold(samples, chart, kind, action):
                    found += filter(None, [usual_result(chart, kind, action)])
                    break
    best = invariant_features(data) if output in (None, "invariant") else None
    if best is not None and best[1] < _BETTER_FIT * fit.unexplained:
        blocks, action = best[0].blocks, best[0].action
        there = [chart for chart in charts if chart.columns == blocks.columns]
        made = [usual_result(chart, "invariant", action) for chart in there]
        found = [*filter(None, made), *found]
    return found


def _candidates(
    results: Sequence[ClassResult], usual: Sequence[ClassResult] = ()
) -> tuple[ClassResult, ...]:
    """What to test: one exact algebra for each chart, and a larger one that is not exact.

    And of those that are tried whatever the data, those that are not among these.
    """
    exact: list[ClassResult] = []
    for result in sorted(filter(may_be_claimed, results), key=preference, reverse=True):
        if result.exact and all(result.chart is not other.chart for other in exact):
            exact.append(result)
    first = exact[0] if exact else None
    nearly = [
        r
        for r in results
        if may_be_claimed(r)
        and not r.exact
        and "hidden" not in r.detail  # a basis that fits what does not hold says nothing
        and (first is None or (r.chart is first.chart and r.dimension > first.dimension))
    ]
    nearly.sort(key=preference, reverse=True)
    chosen = exact[:_MOST_CLAIMS]
    for one in usual:
        same = [
            (o.title, o.chart.blocks, o.output) == (one.title, one.chart.blocks, one.output)
            for o in (*chosen, *nearly[:1])  # which says that it is not exact
        ]
        if may_be_claimed(one) and not any(same):
            chosen.append(one)
    chosen = chosen[: _MOST_CLAIMS + _MOST_USUAL]
    chosen.sort(key=preference, reverse=True)
    return (*chosen, *nearly[:1])
