"""Data as discovery takes them: columns laid out by position, targets as numbers or classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from isotropy.data import Dataset, load
from isotropy.discovery.confirming._free_predictor import Task
from isotropy.discovery.permutations._polynomial_colours import Arrangement


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
    """

    x: Tensor
    y: Tensor
    task: Task
    arrangement: Arrangement
    input_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None
    groups: NDArray[np.int64] | None

    @staticmethod
    def of(
        x: Any, y: Any, task: Task | None, groups: Any, channels_first: bool = False
    ) -> TaskData:
        """Read arrays, tensors or a ``Dataset``.

        Raises:
            ValueError: If there is nothing to permute or to learn, and whatever ``load`` raises.
        """
        deep = np.ndim(y) == 3 and not isinstance(x, Dataset)
        if isinstance(x, Dataset):
            if y is not None or groups is not None:
                raise ValueError("expected a data set alone, which has its targets and groups")
            data = x
        elif y is None:
            raise ValueError("expected targets y beside the inputs, got none")
        else:
            flat = y
            if deep:
                y = np.asarray(y) if channels_first else np.moveaxis(np.asarray(y), 2, 1)
                flat = y.reshape(len(y), -1)
            data = load((x, flat), task=task, groups=groups)
        if data.y is None or data.task is None:
            raise ValueError(f"{data.source}: expected targets, got none")
        if data.x.ndim > 3:
            raise ValueError(
                "expected vectors of shape (rows, n), or sequences and sets of shape (rows, n, "
                f"channels), got {tuple(data.x.shape)}: symmetries of images are not searched for"
            )
        inputs = data.x.double()
        channels = 1
        if inputs.ndim == 3:
            inputs = inputs if channels_first else inputs.transpose(1, 2)
            channels = inputs.shape[1]
        n = inputs.shape[-1]
        inputs = inputs.flatten(1)
        if n < 2:
            raise ValueError(f"expected at least 2 positions to permute, got {n}")
        targets = data.y
        if bool((targets == targets[:1]).all()):
            raise ValueError("expected targets that vary, got the same in every row")
        if data.task == "classification":
            outputs, output_channels = len(data.classes or ()), 1
        else:
            targets = targets.double()
            outputs, output_channels = targets.shape[1], 1
            if deep:
                outputs, output_channels = np.shape(y)[2], np.shape(y)[1]
        return TaskData(
            inputs,
            targets,
            data.task,
            Arrangement(n, channels, outputs, output_channels, data.task == "classification"),
            data.x_names if data.x.ndim == 2 else None,
            data.y_names if not deep and data.task == "regression" else None,
            None if data.groups is None else data.groups.numpy(),
        )

    def rows(self, chosen: NDArray[np.int64]) -> TaskData:
        """The same with some rows only."""
        index = torch.as_tensor(chosen)
        part = None if self.groups is None else self.groups[chosen]
        return replace(self, x=self.x[index], y=self.y[index], groups=part)

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
