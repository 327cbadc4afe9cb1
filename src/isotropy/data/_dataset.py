"""What every loader returns: inputs, targets and their names, of checked kinds and lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run._terminal_text import plain_names

TaskKind: TypeAlias = Literal["regression", "classification"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs and targets in memory.

    Control characters in names are spelled out, as a terminal shows them.

    Args:
        x: Inputs, shape (n, …), float32 or float64.
        y: Targets: shape (n, k) of floats for regression, shape (n,) of int64 for classification.
        x_names: The columns of ``x``, where they have names.
        y_names: The columns of ``y``, where they have names.
        classes: The name of each class; ``None`` for regression.
        groups: Shape (n,) of int64: rows with one number belong together and should stay on one
            side of any split.
        source: Where it came from, for messages and reports.
        skipped: The files in ``source`` that could not be read and were left out.
        notes: What was done to the data on the way in, in plain words, such as ``"12 of 5,000 rows
            had missing values and were left out"``.

    Raises:
        ValueError: If the lengths differ, nothing is there, or a value is not finite.

    Example:
        >>> data = Dataset(torch.ones(4, 3), torch.tensor([0, 1, 1, 0]), classes=("cat", "dog"))
        >>> data
        Dataset(x (4, 3) float32, y (4,) int64, 2 classes, from 'arrays')
        >>> len(data), data.task
        (4, 'classification')
    """

    x: Tensor
    y: Tensor | None = None
    x_names: tuple[str, ...] | None = None
    y_names: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    groups: Tensor | None = None
    source: str = "arrays"
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.x.ndim < 2 or self.x.numel() == 0:
            raise ValueError(
                f"{self.source}: expected inputs of shape (rows, …), got {tuple(self.x.shape)}"
            )
        for name, other in (("targets", self.y), ("groups", self.groups)):
            if other is not None and len(other) != len(self.x):
                raise ValueError(
                    f"{self.source}: expected as many {name} as inputs, "
                    f"got {len(other)} and {len(self.x)}"
                )
        for kind in ("x_names", "y_names", "classes", "notes"):
            if (names := getattr(self, kind)) is not None:
                object.__setattr__(self, kind, plain_names(names))
        _require_finite(self.x, "inputs", self.source)
        if self.y is not None:
            _require_finite(self.y, "targets", self.source)

    @property
    def task(self) -> TaskKind | None:
        """What the targets ask for; ``None`` where there are none."""
        if self.y is None:
            return None
        return "regression" if self.classes is None else "classification"

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor] | Tensor:
        """A row (x, y), or x where there are no targets, as PyTorch's loaders ask for it."""
        return self.x[row] if self.y is None else (self.x[row], self.y[row])

    def split(
        self, share: float, *, generator: torch.Generator | int | None = None
    ) -> tuple[Dataset, Dataset]:
        """Cut the rows at random into two sets, groups kept whole.

        Args:
            share: The share of the rows (of the groups, where there are some) in the first set.
            generator: A seed or a generator.

        Raises:
            ValueError: If one of the two would be empty.

        Example:
            >>> train, test = Dataset(torch.randn(10, 3), torch.randn(10, 1)).split(0.8)
            >>> len(train), len(test)
            (8, 2)
        """
        rows = torch.arange(len(self)) if self.groups is None else self.groups
        names = rows.unique()
        first = round(share * len(names))
        if not 0 < first < len(names):
            raise ValueError(
                f"expected a share that leaves rows in both sets, got {share} of {len(names)}"
            )
        order = torch.randperm(len(names), generator=make_generator(generator))
        in_first = torch.isin(rows, names[order[:first]])
        return self.rows(in_first), self.rows(~in_first)

    def rows(self, chosen: Tensor) -> Dataset:
        """The same with some rows only, by their numbers or a mask.

        Example:
            >>> len(Dataset(torch.randn(10, 3)).rows(torch.tensor([2, 7])))
            2
        """
        y = None if self.y is None else self.y[chosen]
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, x=self.x[chosen], y=y, groups=groups)

    def __repr__(self) -> str:
        parts = [f"x {kind_of(self.x)}"]
        if self.y is not None:
            parts.append(f"y {kind_of(self.y)}")
        if self.classes is not None:
            parts.append(f"{len(self.classes)} classes")
        if self.skipped:
            parts.append(f"{len(self.skipped)} skipped")
        return f"Dataset({', '.join(parts)}, from {self.source!r})"


def kind_of(tensor: Tensor) -> str:
    """Shape and kind of number, for messages."""
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _require_finite(tensor: Tensor, what: str, source: str) -> None:
    if not tensor.is_floating_point():
        return
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        row = int((~finite).flatten(1).any(1).nonzero()[0])
        raise ValueError(
            f"{source}: expected finite {what}, got a non-finite value in row {row + 1}"
        )
