"""Local equivariance error: the mean square of the Lie derivative over data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass
from math import nan, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as MapStyle

from isotropy._run import ProgressCallback, Step
from isotropy.data import Dataset
from isotropy.equivariance._action import Action
from isotropy.equivariance._evaluation import Model, inputs_for
from isotropy.equivariance._image_actions import as_action
from isotropy.equivariance._lie_derivative import lie_derivative


@dataclass(frozen=True)
class LEE:
    """The local equivariance error of a model under an action.

    Args:
        action: The action's name.
        lee: E ‖L f(x)‖² / K over inputs x, with K the number of outputs (thesis, Eq. 4.4).
        stderr: Its standard error over inputs; nan for a single one.
        lee_abs: The mean of |L f(x)| over inputs and outputs, which the published code reports.
        stderr_abs: Its standard error.
        inputs: How many inputs.

    Example:
        >>> float(LEE("rotation", 2.0, 0.1, 1.0, 0.05, 10))
        2.0
    """

    action: str
    lee: float
    stderr: float
    lee_abs: float
    stderr_abs: float
    inputs: int

    def __float__(self) -> float:
        return self.lee

    def data(self) -> dict[str, Any]:
        """The result as JSON knows it."""
        return asdict(self)


def lee(
    f: Model,
    data: Any,
    action: Action | str,
    *,
    output: str | None = None,
    batch_size: int = 16,
    progress: ProgressCallback | None = None,
) -> LEE:
    """The local equivariance error of a model over data (thesis, Eq. 4.4).

        LEE(f) = E ‖(L_X f)(x)‖² / K,

    with L_X f the Lie derivative along the action (`lie_derivative`) and K the number of outputs.
    An action with several directions, such as "translation" (x and y) or a whole Lie algebra, is
    averaged over them. The mean of absolute values, which the published code reports under the
    same name, comes along as ``lee_abs``; it is another quantity and may rank models otherwise.

    A classifier is measured on what it gives. For probabilities, as the thesis has them, end it
    in a softmax: ``torch.nn.Sequential(model, torch.nn.Softmax(-1))``.

    Args:
        f: A module or function.
        data: Inputs: a tensor or array, a pair (x, y), a `Dataset` or one of PyTorch's, or an
            iterable of batches x or (x, y), for example a ``DataLoader``.
        action: An action or its name.
        output: How the action acts on outputs; see `lie_derivative`.
        batch_size: How many inputs to take at a time; it does not change the result of a model
            that treats inputs one by one.
        progress: Called at each batch.

    Raises:
        ValueError: If there are no inputs, or the action does not fit inputs or outputs.

    Example:
        >>> from isotropy.equivariance import image_action
        >>> x = torch.rand(4, 1, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> def mean(x):
        ...     return x.mean((2, 3))
        >>> lee(mean, x, image_action("translation", boundary="periodic")).lee < 1e-9
        True
        >>> lee(mean, x, image_action("scale", boundary="periodic")).lee > 1e-3
        True
    """
    squares: list[Tensor] = []
    magnitudes: list[Tensor] = []
    name = ""
    with torch.no_grad():
        for x in batches(data, batch_size, progress):
            x = inputs_for(f, x)
            found = as_action(action, x)
            name = found.name
            rows = [lie_derivative(f, x, part, output=output) for part in found.directions]
            rows = [_by_input(row, len(x)) for row in rows]
            require_finite(rows, name)
            square = sum(row.abs().double().square().mean(1) for row in rows)
            magnitude = sum(row.abs().double().mean(1) for row in rows)
            squares.append(torch.as_tensor(square).cpu() / len(rows))
            magnitudes.append(torch.as_tensor(magnitude).cpu() / len(rows))
    if not squares:
        raise ValueError("expected at least one input, got none")
    mean, error, count = _mean(squares)
    mean_abs, error_abs, _ = _mean(magnitudes)
    return LEE(name, mean, error, mean_abs, error_abs, count)


def _by_input(found: Tensor, inputs: int) -> Tensor:
    if found.ndim == 0 or len(found) != inputs:
        raise ValueError(
            f"expected an output for each of {inputs} inputs, the batch first, got outputs of "
            f"shape {tuple(found.shape)}"
        )
    return found.reshape(inputs, -1)


def require_finite(rows: Sequence[Tensor], name: str) -> None:
    """Refuse a Lie derivative that is not finite."""
    for row in rows:
        if not bool(torch.isfinite(row).all()):
            raise ValueError(
                f"expected finite outputs and derivatives under {name}, got one that is not"
            )


def _mean(parts: Sequence[Tensor]) -> tuple[float, float, int]:
    values = torch.cat(list(parts))
    count = len(values)
    error = float(values.std()) / sqrt(count) if count > 1 else nan
    return float(values.mean()), error, count


def batches(
    data: Any, batch_size: int, progress: ProgressCallback | None = None
) -> Iterator[Tensor]:
    """Inputs in batches, from a tensor, a data set or an iterable of batches.

    Args:
        data: As for `lee`.
        batch_size: How many rows of a tensor or data set to take at a time.
        progress: Called at each batch.

    Raises:
        TypeError: If the data are none of these.
        ValueError: If the batch size is not positive.
    """
    if batch_size < 1:
        raise ValueError(f"expected a batch size of at least 1, got {batch_size}")
    parts, total = _split(data, batch_size)
    for done, part in enumerate(parts):
        x = part[0] if isinstance(part, tuple | list) else part
        if not isinstance(x, Tensor):
            raise TypeError(f"expected batches of tensors, got {type(x).__name__}")
        if progress is not None:
            progress(Step(done, total or None, "measuring"))
        if len(x):
            yield x


def _split(data: Any, batch_size: int) -> tuple[Iterable[Any], int]:
    """The batches, and how many there are; 0 where nobody knows."""
    if isinstance(data, Dataset):
        data = data.x
    elif isinstance(data, np.ndarray):
        data = torch.from_numpy(data)
    elif isinstance(data, MapStyle) and not isinstance(data, IterableDataset):
        data = DataLoader(data, batch_size)
    if isinstance(data, tuple | list) and data and isinstance(data[0], Tensor):
        data = data[0] if _are_pairs(data) else data
    if isinstance(data, Tensor):
        return (data.split(batch_size), -(-len(data) // batch_size)) if data.ndim else ((), 0)
    if isinstance(data, Iterable):
        return data, len(data) if isinstance(data, Sized) else 0
    raise TypeError(
        f"expected a tensor, a data set or an iterable of batches, got {type(data).__name__}"
    )


def _are_pairs(data: Sequence[Any]) -> bool:
    """Whether data are (inputs, targets), as opposed to a sequence of batches."""
    if len(data) != 2 or not isinstance(data[1], Tensor):
        return False
    x, y = data
    if not (x.ndim and y.ndim and len(x) == len(y)):
        return False
    # what x.split() gives is a tuple, too
    return y.ndim < x.ndim or (isinstance(data, tuple) and x.shape[1:] != y.shape[1:])


def lee_penalty(
    f: Model,
    x: Tensor,
    actions: Action | str | Sequence[Action | str],
    *,
    output: str | None = None,
) -> Tensor:
    """A regulariser: the mean of the LEE of a batch over actions, with gradients to parameters.

    For small random transformations a and b with covariance Σ, the consistency loss
    ‖f(ρ(a)x) − f(ρ(b)x)‖² has the mean 2‖L f‖²_Σ (thesis, A.3.2.1): this is what it penalises,
    without the noise of drawing them. The model is differentiated in evaluation mode.

    Args:
        f: A module or function.
        x: Inputs, the batch first.
        actions: One action or several, or their names.
        output: How the actions act on outputs; see `lie_derivative`.

    Returns:
        A scalar.

    Raises:
        ValueError: If there is no action.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
        >>> penalty = lee_penalty(net, torch.rand(3, 1, 8, 8), ["rotation", "translation"])
        >>> penalty.backward()
        >>> net[1].weight.grad.shape
        torch.Size([2, 64])
    """
    given = [actions] if isinstance(actions, Action | str) else list(actions)
    if not given:
        raise ValueError("expected at least one action, got none")
    found = []
    for action in given:
        directions = as_action(action, x).directions
        rows = [lie_derivative(f, x, part, output=output) for part in directions]
        found.append(torch.stack([row.abs().square().mean() for row in rows]).mean())
    return torch.stack(found).mean()
