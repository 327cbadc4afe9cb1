"""Data as discovery takes them: columns laid out by position, targets as numbers or classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.utils import data as torch_data

from isotropy.data import Dataset, load
from isotropy.discovery.predictors._free_predictor import (
    FreePredictor,
    Task,
    fit_free_predictor,
    notes_of_share,
    sample_losses,
)
from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.discovery.testing._claim_test import ClaimTest, claim_test

if TYPE_CHECKING:
    from isotropy.discovery.testing._bench import Bench


@dataclass(frozen=True)
class Arrangement:
    """How columns of inputs and outputs are laid out: channel by channel, each over positions.

    Args:
        inputs: n, positions of the input that a group may permute.
        channels: Columns at each of them.
        outputs: m, positions of the output.
        output_channels: Columns at each of them.
        fixed_outputs: Whether outputs stay where they are, as classes do.
    """

    inputs: int
    channels: int
    outputs: int
    output_channels: int
    fixed_outputs: bool = False


@dataclass(frozen=True, eq=False)
class RowsWithTargets:
    """Rows, what is to be predicted from them, and which belong together.

    Args:
        x: Inputs, shape (N, columns).
        y: Numbers, shape (N, outputs), or classes, shape (N,).
        task: What the targets are.
        groups: Which rows belong together, or None.
    """

    x: Tensor
    y: Tensor
    task: Task
    groups: NDArray[np.int64] | None

    def rows(self, chosen: NDArray[np.int64]) -> Self:
        """The same with some rows only."""
        index = torch.as_tensor(chosen)
        part = None if self.groups is None else self.groups[chosen]
        return replace(self, x=self.x[index], y=self.y[index], groups=part)

    @property
    def targets_vary(self) -> bool:
        """Whether there is more than one target."""
        return len(self.y.unique(dim=0)) > 1

    def losses(self, prediction: Tensor) -> Tensor:
        """The loss of each row, shape (N,)."""
        return sample_losses(prediction, self.y, self.task)

    @property
    def loss_words(self) -> str:
        """What the losses are."""
        return "mean squared error" if self.task == "regression" else "cross-entropy"

    def accuracy(self, prediction: Tensor) -> float | None:
        """The share of classes that a prediction gets right; None where targets are numbers."""
        if self.task == "regression":
            return None
        return float((prediction.argmax(1) == self.y).double().mean())


@dataclass(frozen=True, eq=False)
class TaskData(RowsWithTargets):
    """Inputs and targets, flattened channel by channel over positions.

    Args:
        x: Shape ``(N, channels·n)``, float64.
        y: Shape ``(N, output_channels·m)`` of float64, or classes ``(N,)``.
        task: What the targets are.
        groups: Which rows belong together, or ``None``.
        arrangement: Positions and channels.
        input_names: A name for each position of the input, or ``None``.
        output_names: A name for each position of the output, or ``None``.
        layout: How rows were laid out as they were given.
    """

    arrangement: Arrangement
    input_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None
    layout: RowLayout = field(default_factory=RowLayout)

    @property
    def channels_first(self) -> bool:
        """Whether sequences came with channels before positions."""
        return self.layout.channels_first

    @staticmethod
    def of(data: Dataset, channels_first: bool = False, *, permuting: bool = True) -> TaskData:
        """The rows of a data set that has targets.

        Raises:
            ValueError: If there is nothing to permute or to learn.
        """
        if data.y is None or data.task is None:
            raise ValueError(f"{data.source}: expected targets, got none")
        inputs, channels = _by_channel(data.x.double(), channels_first, "inputs")
        targets, output_channels = _by_channel(data.y, channels_first, "targets")
        moving_outputs = data.y.ndim == 3
        n = inputs.shape[1] // channels
        if permuting and n < 2:
            raise ValueError(f"expected at least 2 positions to permute, got {n}")
        if n * channels < 2:
            raise ValueError("expected at least 2 columns to move, got 1")
        if bool((targets == targets[:1]).all()):
            raise ValueError("expected targets that vary, got the same in every row")
        named = data.task == "regression" and not moving_outputs
        if data.task == "classification":
            outputs = len(data.classes or ())
        else:
            targets = targets.double()
            outputs = targets.shape[1] // output_channels
        return TaskData(
            inputs,
            targets,
            data.task,
            None if data.groups is None else data.groups.numpy(),
            Arrangement(n, channels, outputs, output_channels, data.task == "classification"),
            data.x_names if data.x.ndim == 2 else None,
            data.y_names if named else None,
            RowLayout(
                channels,
                output_channels,
                channels_first,
                sequences=data.x.ndim == 3,
                output_sequences=moving_outputs,
            ),
        )

    @torch.no_grad()
    def cost_test(
        self, prediction: Tensor, free: FreePredictor, *, margin: float, level: float
    ) -> ClaimTest:
        """The test that a prediction of these rows costs less than a margin beside the free one."""
        constant = free.constant.expand(len(self.x), -1)
        losses = [self.losses(p).numpy() for p in (prediction, free.predict(self.x), constant)]
        return claim_test(*losses, margin=margin, level=level, groups=self.groups)

    def notes(self, bench: Bench) -> list[str]:
        """What kind of predictor there is, and how much it leaves."""
        fitted, outside = bench.problem.fitted, bench.problem.outside
        assert isinstance(outside, TaskData)
        what = "entropy" if self.task == "classification" else "variance"
        left = bench.free.share_left(outside.x, outside.y, self.task)
        return [
            f"{self.task}; free predictor: {bench.free.kind}, leaves {left:.2g} of the {what}; "
            f"fitted to {len(fitted.x)} rows, claims tested on {len(outside.x)} others",
            *notes_of_share(left),
        ]

    def free_predictor(self, seed: int) -> FreePredictor:
        """A predictor free of symmetry, fitted to these rows."""
        return fit_free_predictor(
            self.x,
            self.y,
            self.task,
            classes=self.arrangement.outputs,
            groups=self.groups,
            channels=self.arrangement.channels,
            seed=seed,
        )

    def numbers(self) -> tuple[Tensor, Arrangement]:
        """Targets as numbers, and their arrangement.

        Classes become indicators of all but the last, uncorrelated and of unit size: each is
        then counted as often as the data have it.
        """
        if self.task == "regression":
            return self.y, self.arrangement
        classes = int(self.y.max()) + 1
        indicators = functional.one_hot(self.y, classes).double()
        indicators = indicators[:, indicators.var(0) > 0][:, :-1]
        indicators = indicators - indicators.mean(0)
        root: Tensor = torch.linalg.cholesky(indicators.mT @ indicators / len(indicators))
        whitened: Tensor = torch.linalg.solve_triangular(root, indicators.mT, upper=False)
        return whitened.mT, replace(self.arrangement, outputs=len(whitened))


def as_dataset(x: Any, y: Any, task: Task | None, groups: Any) -> Dataset:
    """Arrays, tensors, tables, or a data set of ours or PyTorch's, as a data set of ours.

    Raises:
        ValueError: If there are no targets, or two sets of them, and whatever ``load`` raises.
    """
    if isinstance(x, Dataset):
        if y is not None or groups is not None:
            raise ValueError("expected a data set alone, which has its targets and groups")
        return x
    if isinstance(x, torch_data.Dataset) and y is None:
        return load(x, task=task, groups=groups)
    if y is None:
        raise ValueError("expected targets y beside the inputs, got none")
    names = tuple(map(str, x.columns)) if hasattr(x, "columns") else None
    found = load((x.to_numpy() if hasattr(x, "to_numpy") else x, y), task=task, groups=groups)
    return found if names is None else replace(found, x_names=names)


def _by_channel(values: Tensor, channels_first: bool, what: str) -> tuple[Tensor, int]:
    """Rows flattened channel by channel, and the number of channels."""
    if values.ndim > 3:
        shape = tuple(values.shape)
        raise ValueError(f"expected {what} of shape (rows, n) or (rows, n, channels), got {shape}")
    if values.ndim < 3:
        return values, 1
    values = values if channels_first else values.transpose(1, 2)
    return values.flatten(1), values.shape[1]
