"""Quarter turns and flips of a square grid, and how they act on images, kernels and slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

GridGroupName: TypeAlias = Literal["p4", "p4m"]


@dataclass(frozen=True)
class GridGroup:
    """What p4 and p4m have besides shifts: elements k that keep the middle of a grid in place.

    Element k < 4 is k quarter turns counterclockwise, as ``torch.rot90`` has it; element 4 + k is
    left swapped with right, then k quarter turns. That is the order of slices in the regular
    representations of ``isotropy.groups.p4`` and ``p4m``.

    Raises:
        ValueError: If the name is another.

    Example:
        >>> GridGroup("p4m").order
        8
        >>> GridGroup("p4").turn(torch.tensor([[1, 2], [3, 4]]), 1)
        tensor([[2, 4],
                [1, 3]])
    """

    name: GridGroupName

    def __post_init__(self) -> None:
        if self.name not in get_args(GridGroupName):
            choices = " or ".join(map(repr, get_args(GridGroupName)))
            raise ValueError(f"expected group {choices}, got {self.name!r}")

    @property
    def order(self) -> int:
        """The number of elements."""
        return 4 if self.name == "p4" else 8

    def turn(self, x: Tensor, k: int) -> Tensor:
        """Images (*, n, n) turned by element k: (kx)(p) = x(k⁻¹p)."""
        return torch.rot90(x.flip(-1) if k >= 4 else x, k % 4, (-2, -1))

    def turn_slices(self, x: Tensor, k: int) -> Tensor:
        """Features (*, K, n, n) turned by element k: (kx)(j, p) = x(k⁻¹j, k⁻¹p)."""
        return self.turn(x[..., self.quotients()[k].to(x.device), :, :], k)

    def quotients(self) -> Tensor:
        """Which element j⁻¹k is, shape (K, K) for (j, k).

        With r a quarter turn and m the flip, m r = r⁻¹ m, hence

            (rˢ mᵃ)⁻¹ (rᵗ mᵇ) = r^{±(t−s)} m^{a+b},    minus where a = 1.
        """
        k = torch.arange(self.order)
        turns, flipped = k % 4, k // 4
        sign = 1 - 2 * flipped[:, None]
        return sign * (turns - turns[:, None]) % 4 + 4 * ((flipped + flipped[:, None]) % 2)

    def places(self, size: int) -> Tensor:
        """Where each place of a turned kernel is in the kernel, shape (K, size²).

        Example:
            >>> kernel, group = torch.randn(3, 3), GridGroup("p4")
            >>> turned = kernel.flatten()[group.places(3)[1]]
            >>> torch.equal(turned.reshape(3, 3), group.turn(kernel, 1))
            True
        """
        grid = torch.arange(size * size).reshape(size, size)
        return torch.stack([self.turn(grid, k).flatten() for k in range(self.order)])
