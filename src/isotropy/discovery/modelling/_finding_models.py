"""The models of a finding, how far each is from its symmetry, and what elements make of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isotropy.discovery.claims._claim import predictions
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.discovery.reading._task_data import TaskData
from isotropy.equivariance import equivariance_error
from isotropy.reps import Symmetry

_EXAMPLES, _ELEMENTS, _FEWEST_POSITIONS = 3, 3, 6  # of what is shown, which decides nothing


def error_of_model(
    model: nn.Module, x: Tensor, symmetry: Symmetry, seed: int, centre: ArrayLike = 0.0
) -> float | None:
    """The largest relative error over elements of the group; None where it cannot be measured.

    Args:
        model: The model.
        x: Rows.
        symmetry: The group, and how it acts on rows less the centre.
        seed: Of elements.
        centre: Subtracted from rows before the group acts, one number for each column.
    """
    rows, middle = x[: ModellingThresholds.now().rows_of_error], torch.as_tensor(centre)

    def about_centre(moved: Tensor) -> Tensor:
        return predictions(model, moved + middle)

    try:
        error = equivariance_error(about_centre, rows - middle, symmetry, generator=seed)
    except ValueError:  # the model takes coordinates that the symmetry does not act on
        return None
    return error if np.isfinite(error) else None


def moved_rows(
    symmetry: Symmetry, layout: RowLayout, rows: TaskData, seed: int
) -> NDArray[np.float64] | None:
    """Rows of sequences, and what a few elements make of them; None for others.

    Returns:
        Shape (rows, 1 + elements, …).
    """
    a = rows.arrangement
    if a.inputs < _FEWEST_POSITIONS or symmetry.rep_in.size() != rows.x.shape[1]:
        return None
    some = rows.x[:_EXAMPLES]
    drawn = symmetry.group.sample(_ELEMENTS, generator=seed)
    moved = [symmetry.apply(drawn.select(k), some) for k in range(_ELEMENTS)]
    whole = torch.stack([some, *moved], 1)
    if layout.channels > 1 or layout.sequences:
        whole = whole.unflatten(2, (a.channels, a.inputs))
        whole = whole if layout.channels_first else whole.transpose(2, 3)
    shown: NDArray[np.float64] = whole.numpy()
    return shown


@dataclass(frozen=True)
class ModelComparison:
    """A model with a symmetry and one without, fitted to the same rows, on others.

    Args:
        loss: What the losses are: "mean squared error" or "cross-entropy".
        strict: Mean loss of the model that has the symmetry.
        free: That of a predictor free of it.
        constant: That of the best constant.
        error: The standard error of strict − free, from the differences row by row.
        samples: How many rows they were compared on.
        fitted: How many rows they were fitted to.
        strict_accuracy: The share of classes that the model with the symmetry gets right; None
            for a regression.
        free_accuracy: That of the free one.
        curve: What both lose when fitted to fewer rows, as (rows, strict, free), fewest first;
            empty where it was not asked for.

    Example:
        >>> report = ModelComparison("mean squared error", 0.1, 0.2, 1.0, 0.01, 300, 600)
        >>> print(report)
        mean squared error on 300 rows held out: with the symmetry 0.1, without 0.2, constant 1
        >>> f"{report.saved:.3g}"
        '0.5'
    """

    loss: str
    strict: float
    free: float
    constant: float
    error: float
    samples: int
    fitted: int
    strict_accuracy: float | None = None
    free_accuracy: float | None = None
    curve: tuple[tuple[int, float, float], ...] = ()

    def __post_init__(self) -> None:
        curve = tuple((int(n), float(s), float(f)) for n, s, f in self.curve)
        object.__setattr__(self, "curve", curve)

    @property
    def saved(self) -> float:
        """The share of the free predictor's loss that the symmetry saves; negative if it costs."""
        return 1 - self.strict / self.free if self.free > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "curve": [list(point) for point in self.curve]}

    def __str__(self) -> str:
        losses = f"with the symmetry {self.strict:.3g}, without {self.free:.3g}"
        text = (
            f"{self.loss} on {self.samples} rows held out: {losses}, constant {self.constant:.3g}"
        )
        if self.strict_accuracy is not None and self.free_accuracy is not None:
            text += f"; right {self.strict_accuracy:.1%} and {self.free_accuracy:.1%}"
        return text


@dataclass(frozen=True)
class SoftComparison:
    """Mean losses of three models that were fitted to the same rows, on others.

    Args:
        free: Of a predictor free of the symmetry.
        strict: Of a model that has it.
        soft: Of a model that prefers it.
        better_than_free: By how much less the soft one loses than the free one, on average.
        free_error: The standard error of that, from the differences row by row.
        better_than_strict: By how much less than the strict one.
        strict_error: The standard error of that.
        p_value: Of the null hypothesis that the soft model predicts no better than the free one,
            or than a rival that has another symmetry.
        samples: How many rows, or groups of rows.

    Example:
        >>> comparison = SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-4, 100)
        >>> print(comparison)
        mean loss on 100 samples held out: soft model 0.3, strict model 0.4, free predictor 0.5
    """

    free: float
    strict: float
    soft: float
    better_than_free: float
    free_error: float
    better_than_strict: float
    strict_error: float
    p_value: float
    samples: int

    @property
    def gain(self) -> str:
        """By how much the soft model differs from the others, in words.

        Example:
            >>> SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-4, 100).gain
            'the soft model is 0.2 ± 0.02 below the free one, 0.1 ± 0.03 below the strict one'
        """
        free = _apart(self.better_than_free, self.free_error)
        strict = _apart(self.better_than_strict, self.strict_error)
        return f"the soft model is {free} the free one, {strict} the strict one"

    def __str__(self) -> str:
        losses = {"soft model": self.soft, "strict model": self.strict, "free predictor": self.free}
        listed = ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items())
        return f"mean loss on {self.samples} samples held out: {listed}"


@dataclass(frozen=True, eq=False)
class SoftOffer:
    """A model that prefers a symmetry, and how it compares.

    Args:
        comparison: With the strict model and the free predictor, on rows held out.
        model: The model.
        model_spec: What ``build_model`` makes such a model from.

    Example:
        >>> comparison = SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-4, 100)
        >>> SoftOffer(comparison).comparison.soft
        0.3
    """

    comparison: SoftComparison
    model: nn.Module | None = field(default=None, repr=False)
    model_spec: Mapping[str, Any] | None = None

    @property
    def is_better(self) -> bool:
        """Whether there is a model that predicted the rows held out better than the strict one."""
        return self.model is not None and self.comparison.soft < self.comparison.strict

    def to_json(self) -> dict[str, Any]:
        """The comparison, and the description of the model."""
        spec = None if self.model_spec is None else dict(self.model_spec)
        return {"comparison": asdict(self.comparison), "model": spec}


@dataclass(frozen=True, eq=False)
class Models:
    """What has the symmetry of a finding, and how it does.

    Args:
        model: The model that has it.
        model_spec: What ``build_model`` makes such a model from; needed to save it.
        soft: Where it holds in part, a model that prefers the symmetry and is not bound to it, and
            how it compares with the strict model and with a free predictor.
        comparison: How the model does beside a predictor free of the symmetry.
        equivariance_error: How far the model is from the symmetry, relative to the size of its
            outputs, over rows held out and random elements of the group.

    Example:
        >>> Models().model is None
        True
    """

    model: nn.Module | None = field(default=None, repr=False)
    model_spec: Mapping[str, Any] | None = None
    soft: SoftOffer | None = field(default=None, repr=False)
    comparison: ModelComparison | None = None
    equivariance_error: float | None = None


def _apart(gain: float, error: float) -> str:
    return f"{abs(gain):.2g} ± {error:.1g} {'below' if gain >= 0 else 'above'}"
