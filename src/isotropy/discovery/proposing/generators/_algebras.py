"""The Lie algebra of a function in each class of actions: estimated, its rank tested, snapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from isotropy.discovery.predictors._smooth_fit import SmoothFit
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._action_class import (
    OUTPUTS,
    ActionClass,
    Output,
    action_class,
    canonical_part,
    on_matrix,
    on_vector,
)
from isotropy.discovery.proposing.generators._charts import Array, Chart
from isotropy.discovery.proposing.generators._data_constraints import tangent
from isotropy.discovery.proposing.generators._resampled_null_space import NullSpace, null_spaces
from isotropy.discovery.proposing.generators._snap import SnappedAlgebra, snap, snap_affine

# floating point: the mean square of what leaves a surface, relative to all motion, that is zero
_ROUNDED_AWAY = 1e-10


@dataclass(frozen=True, eq=False)
class Samples:
    """A fitted function at points: values and Jacobians of both its halves.

    Args:
        x: Points in the user's units, ``(N, n)``.
        values: Of each half, ``(N, m)``.
        jacobians: Of each half, ``(N, m, n)``.
        normals: Of the surface on which the points lie, ``(N, c, n)``.
        exact: Whether the fit is exact up to rounding.
    """

    x: Array
    values: tuple[Array, Array]
    jacobians: tuple[Array, Array]
    normals: Array
    exact: bool

    @staticmethod
    def of(
        fit: SmoothFit, x: Array, normals: Array | None = None, *, order: Array | None = None
    ) -> Samples:
        """Evaluate a fit, which takes inputs in the user's units, with its outputs in an order."""
        pairs = fit.values_and_jacobians(torch.as_tensor(x))
        chosen = slice(None) if order is None else order
        (va, ja), (vb, jb) = ((v.numpy()[:, chosen], j.numpy()[:, chosen]) for v, j in pairs)
        none = np.zeros((len(x), 0, x.shape[1]))
        return Samples(x, (va, vb), (ja, jb), none if normals is None else normals, fit.is_exact)

    @property
    def floor(self) -> float:
        """The least relative noise of gradients to reckon with: rounding, of an exact fit."""
        return 1e-13 if self.exact else 1e-20

    def weights(self, chart: Chart) -> Array:
        """How much each point counts: less where the two halves differ more than they do mostly."""
        if self.exact:
            return np.ones(len(self.x))
        apart = (self.jacobians[0] - self.jacobians[1]) @ chart.lift
        noise = (apart**2).sum((1, 2)) * (chart.points(self.x, centred=False) ** 2).sum(1)
        usual = float(np.median(noise))
        return np.asarray(1.0 / np.sqrt(noise / usual + 1.0)) if usual > 0 else np.ones(len(noise))


@dataclass(frozen=True, eq=False)
class ClassResult:
    """The algebra of one class of actions.

    Args:
        chart: What moves.
        output: How outputs move with it.
        affine: Whether translations are in the class.
        unknowns: The dimension of the class.
        space: The null space, where one stands out.
        estimate: Generators before the snap in the user's units, ``(D, d, d)``, or
            ``(D, d, d + 1)``: [A | b] of an affine class.
        snapped: The exact algebra; ``None`` where there is none so near.
        note: Why there is none.
    """

    chart: Chart
    output: Output
    affine: bool
    unknowns: int
    space: NullSpace | None = None
    estimate: Array = field(default_factory=lambda: np.zeros((0, 1, 1)))
    snapped: SnappedAlgebra | None = None
    note: str = ""

    @property
    def dimension(self) -> int:
        """Of the exact algebra, else of the null space."""
        if self.snapped is not None:
            return len(self.snapped.generators)
        return 0 if self.space is None else self.space.dimension

    @property
    def exact(self) -> bool:
        """Whether noise explains all that the symmetry leaves."""
        return self.space is not None and self.space.exact

    @property
    def action(self) -> str:
        """The class in words."""
        return (
            f"{self.chart.words}{', moved and shifted' if self.affine else ''}; "
            + (OUTPUTS[self.output])
        )

    @property
    def is_named(self) -> bool:
        """Whether the group has a name."""
        return self.snapped is not None and self.snapped.is_named

    @property
    def title(self) -> str:
        """The name of the group; empty where there is none."""
        return "" if self.snapped is None else self.snapped.title

    @property
    def detail(self) -> str:
        """How the group acts."""
        return "" if self.snapped is None else self.snapped.detail

    def as_json(self, *, chosen: bool) -> dict[str, Any]:
        """Plain values."""
        space = self.space
        return {
            "action": self.action,
            "unknowns": self.unknowns,
            "dimension": self.dimension,
            "title": self.title,
            "gap": None if space is None else space.gap,
            "exact": self.exact,
            "chosen": chosen,
            "note": self.note,
        }

    def on_rows(self) -> Array:
        """The exact generators on whole inputs, [A | b], ``(D, n, n + 1)``, in user's units."""
        assert self.snapped is not None
        d = len(self.chart.scale)
        generators = self.snapped.generators
        small = np.zeros((len(generators), d, d + 1))
        small[:, :, : generators.shape[2]] = generators[:, :d]
        return self.chart.rows(small)

    def on_outputs(self, outputs: int) -> Array | None:
        """The exact generators on outputs, ``(D, m, m)``; ``None`` where outputs stay."""
        assert self.snapped is not None
        d = len(self.chart.scale)
        a = self.snapped.generators[:, :d, :d]
        if self.output == "vector":
            return on_vector(a, outputs)
        return on_matrix(a) if self.output == "matrix" else None


def algebras(
    samples: Samples,
    chart: Chart,
    output: Output,
    *,
    affine: bool,
    symplectic: bool = False,
    margin: float = 0.05,
    seed: int = 0,
) -> list[ClassResult]:
    """What of a class leaves a function as it is: exactly, and less exactly, where both are.

    Returns:
        At least one; without a null space where nothing stands out.
    """
    r, m, d = len(chart.reading), samples.values[0].shape[1], len(chart.scale)
    unknowns = d * (d + affine) + (m * m if output == "free" else 0)
    skipped = ClassResult(chart, output, affine, unknowns)
    if len(samples.x) < unknowns and not symplectic:
        return [_noted(skipped, f"needs at least {unknowns} rows, got {len(samples.x)}")]
    if unknowns * r * (r + 1) > ProposingThresholds.now().class_numbers:
        return [_noted(skipped, f"too wide to be looked at: {unknowns} unknowns on {r} columns")]
    kind = action_class(chart.blocks, r, outputs=m, output=output, affine=affine)
    if symplectic:
        # canonical in the user's units and on all columns
        kind = kind.restricted(canonical_part(chart.rows(_in_user_units(kind.small, chart.scale))))
    nothing = ClassResult(chart, output, affine, kind.unknowns)
    if len(samples.x) < kind.unknowns:
        note = f"needs at least {kind.unknowns} rows, got {len(samples.x)}"
        return [_noted(nothing, note)]
    points = chart.points(samples.x, centred=affine)
    bent = 0.0
    if samples.normals.shape[1]:
        kept, bent = _keeping_to(kind.motions(points), samples.normals @ chart.lift)
        kind = kind.restricted(kept)
        if not kind.unknowns:
            return [_noted(nothing, "no motion keeps to the surface of the data")]
    unit = _output_units(chart, output, m)
    halves = []
    for values, jacobian in zip(samples.values, samples.jacobians, strict=True):
        slopes = jacobian @ chart.lift
        normals = samples.normals @ chart.lift
        if normals.shape[1]:
            slopes = tangent(slopes, normals)
        equations = kind.equations(points, values / unit, slopes / unit[None, :, None])
        halves.append(equations)
    weights = samples.weights(chart)[:, None, None]
    halves = [equations * weights for equations in halves]
    found = []
    usual = float(
        np.mean([_unrelated(points, kind, j @ chart.lift, weights) for j in samples.jacobians])
    )
    for space in null_spaces(*halves, margin=margin, floor=samples.floor, usual=usual, seed=seed):
        found.append(_snapped(nothing, kind.matrices(space.basis), space, bent))
    return found or [_noted(nothing, "no directions stand out from the noise")]


def _in_user_units(small: Array, scale: Array) -> Array:
    """Actions [A | b] on a block, from the chart's units to the user's."""
    d = len(scale)
    moved = small.copy()
    moved[:, :, :d] *= scale[None, :, None] / scale[None, None]
    moved[:, :, d] *= scale
    return moved


def _unrelated(points: Array, kind: ActionClass, slopes: Array, weights: Array) -> float:
    """The mean square of ⟨∇f, A x⟩ if the two had random directions."""
    lengths = (kind.motions(points) ** 2).sum(2).mean(1)
    sizes = (slopes**2).sum((1, 2)) * weights[:, 0, 0] ** 2
    return float((lengths * sizes).mean() / points.shape[1])


def _noted(result: ClassResult, note: str) -> ClassResult:
    return ClassResult(result.chart, result.output, result.affine, result.unknowns, note=note)


def _output_units(chart: Chart, output: Output, outputs: int) -> Array:
    """Units of outputs in which they move as the coordinates of the chart do."""
    scale = chart.scale / np.exp(np.log(chart.scale).mean())
    if output == "vector":
        return np.tile(scale, outputs // len(scale))
    if output == "matrix":
        return np.outer(scale, scale).ravel()
    return np.ones(outputs)


def _keeping_to(motions: Array, normals: Array) -> tuple[Array, float]:
    """Combinations of motions that keep to a surface, ``(q, p)``, and how far off they may be."""
    limits = ProposingThresholds.now()
    lengths = np.linalg.norm(normals, axis=2, keepdims=True)
    unit = normals / np.where(lengths > 0, lengths, 1.0)
    leaving = np.einsum("Nci,Npi->Ncp", unit, motions, optimize=True).reshape(-1, motions.shape[1])
    values, vectors = np.linalg.eigh(leaving.T @ leaving / len(leaving))
    usual = (motions**2).sum(2).mean() / motions.shape[2]
    share = np.append(np.maximum(values / usual, _ROUNDED_AWAY), 1.0)
    steps = np.where(share[:-1] <= limits.on_surface, share[1:] / share[:-1], 0.0)
    kept = int(steps.argmax()) + 1 if steps.max(initial=0.0) >= limits.surface_gap else 0
    bent = float(np.sqrt(share[kept - 1] / share[kept])) if kept else 0.0
    return np.asarray(vectors.T[:kept]), bent


def _snapped(result: ClassResult, matrices: Array, space: NullSpace, bent: float) -> ClassResult:
    chart, scale = result.chart, result.chart.scale
    d = len(scale)
    least = ProposingThresholds.now().slack_of_few * bent
    errors = [max(error, least) for error in _errors(space)]
    estimate = matrices[:, :, :d] * scale[None, :, None] / scale[None, None]
    snapped: SnappedAlgebra | None
    if result.output == "free":
        matrices = _independent(matrices)  # what moves outputs alone is no symmetry of inputs
        if not len(matrices):
            return _noted(result, "no directions stand out from the noise")
    if result.affine:
        centre = chart.reading[list(chart.blocks[0])] @ chart.shift * scale
        snapped = _first(
            errors, lambda e: snap_affine(matrices, error=e, scale=scale, centre=centre)
        )
        offset = matrices[:, :, d] * scale - estimate @ centre
        estimate = np.concatenate([estimate, offset[:, :, None]], 2)
    else:
        snapped = _first(errors, lambda e: snap(matrices[:, :, :d], error=e, scale=scale))
    note = (
        ""
        if snapped is not None
        else (f"{space.dimension} directions stand out, but no Lie algebra is so near to them")
    )
    return ClassResult(
        chart, result.output, result.affine, result.unknowns, space, estimate, snapped, note
    )


def _errors(space: NullSpace) -> list[float]:
    """How far off a space may be: by noise, and by a bias that both estimates share.

    A bias as large as what is left in the null space turns it by the ratio of that to what is
    outside.
    """
    limits, last = ProposingThresholds.now(), space.dimension
    slack = limits.slack_of_few if last <= limits.few_directions else limits.estimate_slack
    noise, shared = slack * space.error, 0.0
    if last < len(space.ratios):
        shared = float(np.sqrt(space.ratios[last - 1] / space.ratios[last]))
    errors = [max(noise, shared)]
    if space.ratios[last - 1] <= limits.only_noise:
        errors.insert(0, noise)
    least, most = limits.finest_estimate, limits.coarsest_estimate
    return [float(np.clip(error, least, most)) for error in errors]


def _first(
    errors: Iterable[float], near: Callable[[float], SnappedAlgebra | None]
) -> SnappedAlgebra | None:
    """The algebra within the first error at which it has a name; else within the first."""
    first = None
    for error in errors:
        try:
            one = near(error)
        except ValueError:  # too ill-conditioned for a proof of closure
            continue
        if one is not None and one.is_named:
            return one
        first = first or one
    return first


def _independent(matrices: Array) -> Array:
    """A basis of the span, of shape ``(D, d, d + 1)``."""
    rows = matrices.reshape(len(matrices), -1)
    _, values, basis = np.linalg.svd(rows, full_matrices=False)
    least = ProposingThresholds.now().independent_direction
    kept: Array = basis[values > least * max(values.max(initial=0.0), 1e-300)]
    return kept.reshape(-1, *matrices.shape[1:])


def may_be_claimed(result: ClassResult) -> bool:
    """Whether a class has an algebra that can be put to the test, and called something."""
    return result.is_named and result.output != "free"


def preference(result: ClassResult) -> tuple[bool, int, int, bool]:
    """What makes one algebra rather to be reported than another.

    That column names or the shape of the data suggest its blocks; its dimension; of equals, the
    number of blocks.
    """
    chart = result.chart
    return chart.suggested, result.dimension, len(chart.blocks), not result.affine
