"""How much less equivariant a model is on other data than on those it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from torch import Tensor

from isotropy.equivariance import LEE, Action, lee
from isotropy.run import ProgressCallback


@dataclass(frozen=True)
class EquivarianceGap:
    """How much less equivariant a model is on other data than on the first (thesis, Figure 4.7).

    Args:
        action: The action's name.
        sets: The LEE on each set of data, the reference first.

    Example:
        >>> gap = EquivarianceGap(
        ...     "rotation",
        ...     {
        ...         "train": LEE("rotation", 1.0, 0.3, 1.0, 0.0, 9),
        ...         "test": LEE("rotation", 1.5, 0.4, 1.0, 0.0, 9),
        ...     },
        ... )
        >>> gap.gaps()
        {'test': (0.5, 0.5)}
    """

    action: str
    sets: Mapping[str, LEE]

    def gaps(self) -> dict[str, tuple[float, float]]:
        """LEE on each other set minus that on the first, with its standard error."""
        reference, *others = self.sets
        first = self.sets[reference]
        return {
            name: (
                self.sets[name].lee - first.lee,
                sqrt(self.sets[name].stderr ** 2 + first.stderr**2),
            )
            for name in others
        }

    def data(self) -> dict[str, Any]:
        """The result as JSON knows it."""
        gaps = {name: {"gap": gap, "stderr": error} for name, (gap, error) in self.gaps().items()}
        sets = {name: found.data() for name, found in self.sets.items()}
        return {"action": self.action, "sets": sets, "gaps": gaps}


def equivariance_gap(
    f: Callable[[Tensor], Any],
    sets: Mapping[str, Any],
    action: Action | str,
    *,
    output: str | None = None,
    batch_size: int = 16,
    progress: ProgressCallback | None = None,
) -> EquivarianceGap:
    """Measure a model on training, test and out-of-distribution data in one call (Figure 4.7).

    Args:
        f: A module or function.
        sets: Data by name, as for `lee`; the first is the reference, usually the training set.
        action: An action or its name.
        output: How the action acts on outputs; see `lie_derivative`.
        batch_size: How many inputs to take at a time.
        progress: Called at each batch.

    Raises:
        ValueError: If there are fewer than two sets.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> smooth = torch.rand(4, 1, 2, 2, generator=generator).repeat_interleave(4, 2)
        >>> sets = {
        ...     "train": smooth.repeat_interleave(4, 3),
        ...     "noise": torch.rand(4, 1, 8, 8, generator=generator),
        ... }
        >>> gap = equivariance_gap(torch.nn.MaxPool2d(2), sets, "translation")
        >>> difference, stderr = gap.gaps()["noise"]
        >>> difference > 0
        True
    """
    if not isinstance(sets, Mapping) or len(sets) < 2:
        got = len(sets) if isinstance(sets, Mapping) else type(sets).__name__
        raise ValueError(f"expected at least two sets of data by name, got {got}")
    found = {
        name: lee(f, data, action, output=output, batch_size=batch_size, progress=progress)
        for name, data in sets.items()
    }
    return EquivarianceGap(next(iter(found.values())).action, found)
