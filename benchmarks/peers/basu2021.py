"""Weight sharing and its child network as published (Basu et al. 2021), written anew.

Algorithm 1 walks over all weights with a list as its queue, taken from at the front, and visits
every image of each weight under every group, one after the other. The loop over translations
visits one image for each cell of a side, as the published code does: its step, meant to skip some,
has no effect, so images come up several times. Labels are then numbered by a look-up for each.
Where cells go is looked up in tables made beforehand, which is faster than the published way of
finding each place anew: ratios to this peer are on the low side.

The child looks its weights up with Python lists in every step: W = v[labels], h = relu(x W) + b
with one bias for each layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

Cells: TypeAlias = list[int]
Images: TypeAlias = list[tuple[Cells, Cells]]  # of one group: where inputs and outputs go

STEP = 4  # of translations, in cells
IMAGE, HIDDEN = 28, 20


def share(names: Sequence[str], side_in: int, side_out: int) -> list[int]:
    """Labels of the weights between two square grids by Algorithm 1, relabelled.

    Args:
        names: Of transformations, as in `isotropy.groups.GRID_TRANSFORMATIONS`.
        side_in: Of the grid of inputs.
        side_out: Of the grid of outputs.

    Returns:
        A label for each weight, those of the first input first.
    """
    groups = [_images(name, side_in, side_out) for name in names]
    return _relabelled(_algorithm_1(groups, side_in**2, side_out**2))


class Child(nn.Module):
    """784-400-400-10: two layers that share weights, and a free one.

    Args:
        first: Labels of the first layer, as `share` gives them.
        second: Labels of the second.
    """

    def __init__(self, first: list[int], second: list[int]) -> None:
        super().__init__()
        self.labels = first, second
        self.values = nn.ModuleList(
            nn.Linear(max(labels) + 1, 1, bias=False) for labels in self.labels
        )
        self.biases = nn.ParameterList(torch.zeros(1) for _ in self.labels)
        self.head = nn.Linear(HIDDEN**2, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of ten classes from images of shape (batch, 784)."""
        for values, labels, bias in zip(self.values, self.labels, self.biases, strict=True):
            weight = values.weight[0][labels].reshape(x.shape[1], -1)
            x = torch.relu(x @ weight) + bias
        return self.head(x)


def optimiser(child: Child) -> torch.optim.Adam:
    """The published one: Adam at rate 0.001."""
    return torch.optim.Adam(child.parameters(), lr=1e-3)


def training_step(child: Child, adam: torch.optim.Adam, x: Tensor, y: Tensor) -> float:
    """One step of cross entropy on a batch.

    Args:
        child: Made of ``share(names, 28, 20)`` and ``share(names, 20, 20)``.
        adam: From `optimiser`.
        x: Images, shape (batch, 784).
        y: Labels from 0 to 9, shape (batch,).

    Returns:
        The loss before the step.
    """
    adam.zero_grad()
    loss = nn.functional.cross_entropy(child(x), y)
    loss.backward()
    adam.step()
    return float(loss.detach())


def _algorithm_1(groups: list[Images], inputs: int, outputs: int) -> list[int]:
    visited = [-1] * (inputs * outputs)
    labels = list(range(inputs * outputs))
    label = -1
    for start in range(inputs * outputs):
        if visited[start] >= 0:
            continue
        visited[start] = 1
        queue = [start]
        label += 1
        while len(queue) > 0:
            edge = queue.pop(0)
            labels[edge] = label
            n, m = divmod(edge, outputs)
            for group in groups:
                for into, out in group:
                    image = into[n] * outputs + out[m]
                    if visited[image] < 0:
                        visited[image] = 1
                        queue.append(image)
                        labels[image] = label
    return labels


def _relabelled(labels: list[int]) -> list[int]:
    numbers: dict[int, int] = {}
    for label in labels:
        if label not in numbers:
            numbers[label] = len(numbers)
    return [numbers[label] for label in labels]


def _images(name: str, side_in: int, side_out: int) -> Images:
    """Every image of every cell under one group, on both grids."""
    if name.endswith("translation"):
        visits = max(side_in, side_out)
    else:
        visits = 4 if name.startswith("rotation") else 2
    on_inputs, on_outputs = (_visited(name, side, visits) for side in (side_in, side_out))
    return list(zip(on_inputs, on_outputs, strict=True))


def _visited(name: str, m: int, visits: int) -> list[Cells]:
    cells = [(i, j) for i in range(m) for j in range(m)]
    found = []
    for _ in range(visits):
        found.append([i * m + j for i, j in cells])
        cells = [_goes_to(name, i, j, m) for i, j in cells]
    return found


def _goes_to(name: str, i: int, j: int, m: int) -> tuple[int, int]:
    k = m // 2
    match name:
        case "rotation":
            return j, m - 1 - i
        case "horizontal flip":
            return i, m - 1 - j
        case "vertical flip":
            return m - 1 - i, j
        case "horizontal translation":
            return i, (j + STEP) % m
        case "vertical translation":
            return (i + STEP) % m, j
        case "rotation scramble":
            if i < k:
                return (i, j + k) if j < k else (i + k, j)
            return (i, j - k) if j >= k else (i - k, j)
    # the others swap halves: all of them, or those of one half of the other axis
    whole, vertical = len(name.split()) == 2, "vertical" in name
    half = 0 if name.startswith(("left", "top")) else 1
    if not whole and (j if vertical else i) // k != half:
        return i, j
    return ((i + k) % m, j) if vertical else (i, (j + k) % m)
