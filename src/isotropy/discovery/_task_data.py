"""Data as discovery takes them: columns laid out by position, targets as numbers or classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from isotropy.data import Dataset, load
from isotropy.discovery._arrangement import Arrangement
from isotropy.discovery._data_layout import RowLayout
from isotropy.discovery.confirming._free_predictor import (
    FreePredictor,
    Task,
    fit_free_predictor,
)


@dataclass(frozen=True, eq=False)
class TaskData:
    """Inputs and targets, flattened channel by channel over positions.

    Args:
        x: Shape ``(N, channels·n)``, float64.
        y: Shape ``(N, output_channels·m)`` of float64, or classes ``(N,)``.
        task: What the targets are.
        arrangement: Positions and channels.
        input_names: A name for each position of the input, or ``None``.
        output_names: A name for each position of the output, or ``None``.
        groups: Which rows belong together, or ``None``.
        layout: How rows were laid out as they were given.
    """

    x: Tensor
    y: Tensor
    task: Task
    arrangement: Arrangement
    input_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None
    groups: NDArray[np.int64] | None
    layout: RowLayout = field(default_factory=RowLayout)

    @property
    def channels_first(self) -> bool:
        """Whether sequences came with channels before positions."""
        return self.layout.channels_first

    @staticmethod
    def of(
        x: Any,
        y: Any,
        task: Task | None,
        groups: Any,
        channels_first: bool = False,
        *,
        permuting: bool = True,
    ) -> TaskData:
        """Read arrays, tensors or a ``Dataset``.

        Raises:
            ValueError: If there is nothing to permute or to learn, and whatever ``load`` raises.
        """
        output_channels, moving_outputs = 1, False
        if isinstance(x, Dataset):
            if y is not None or groups is not None:
                raise ValueError("expected a data set alone, which has its targets and groups")
            data = x
            if data.y is not None and data.y.ndim == 3:
                flat, output_channels = _channel_by_channel(data.y, channels_first)
                moving_outputs = True
                data = replace(data, y=flat, y_names=None)
        elif y is None:
            raise ValueError("expected targets y beside the inputs, got none")
        else:
            names = tuple(map(str, x.columns)) if hasattr(x, "columns") else None
            x = x.to_numpy() if hasattr(x, "to_numpy") else x
            if np.ndim(y) == 3:
                y, output_channels = _channel_by_channel(torch.as_tensor(y), channels_first)
                moving_outputs = True
            data = load((x, y), task=task, groups=groups)
            if names is not None:
                data = replace(data, x_names=names)
        if data.y is None or data.task is None:
            raise ValueError(f"{data.source}: expected targets, got none")
        if data.y.ndim > 2:
            raise ValueError(
                "expected targets of shape (rows, m) or (rows, m, channels), got "
                f"{tuple(data.y.shape)}"
            )
        if data.x.ndim > 3:
            raise ValueError(
                "expected vectors of shape (rows, n), sequences and sets of shape (rows, n, "
                "channels), or images of shape (rows, channels, height, width), got "
                f"{tuple(data.x.shape)}"
            )
        inputs = data.x.double()
        channels = 1
        if inputs.ndim == 3:
            inputs = inputs if channels_first else inputs.transpose(1, 2)
            channels = inputs.shape[1]
        n = inputs.shape[-1]
        inputs = inputs.flatten(1)
        if permuting and n < 2:
            raise ValueError(f"expected at least 2 positions to permute, got {n}")
        if n * channels < 2:
            raise ValueError("expected at least 2 columns to move, got 1")
        targets = data.y
        if bool((targets == targets[:1]).all()):
            raise ValueError("expected targets that vary, got the same in every row")
        if data.task == "classification":
            outputs = len(data.classes or ())
        else:
            targets = targets.double()
            outputs = targets.shape[1] // output_channels
        return TaskData(
            inputs,
            targets,
            data.task,
            Arrangement(n, channels, outputs, output_channels, data.task == "classification"),
            data.x_names if data.x.ndim == 2 else None,
            data.y_names if output_channels == 1 and data.task == "regression" else None,
            None if data.groups is None else data.groups.numpy(),
            RowLayout(
                channels,
                output_channels,
                channels_first,
                sequences=data.x.ndim == 3,
                output_sequences=moving_outputs,
            ),
        )

    def rows(self, chosen: NDArray[np.int64]) -> TaskData:
        """The same with some rows only."""
        index = torch.as_tensor(chosen)
        part = None if self.groups is None else self.groups[chosen]
        return replace(self, x=self.x[index], y=self.y[index], groups=part)

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
        then told as often as the data do.
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


def _channel_by_channel(y: Tensor, channels_first: bool) -> tuple[Tensor, int]:
    """Targets of sequences, flattened channel by channel, and the number of channels."""
    y = y if channels_first else y.transpose(1, 2)
    return y.flatten(1), y.shape[1]
