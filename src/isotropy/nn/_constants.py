"""Constants of a module that survive every change of precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from torch import Tensor, nn


class ExactConstants(nn.Module):
    """A module whose constants are kept in float64 and cast anew at every move.

    A network that is made in float32 and later turned to float64 must not keep constants that
    were rounded on the way.
    """

    def __init__(self) -> None:
        super().__init__()
        self._exact: dict[str, Tensor] = {}

    def _keep(self, name: str, exact: Tensor) -> None:
        """Register a constant; it is no part of the state, which has parameters alone."""
        self._exact[name] = exact
        self.register_buffer(name, exact, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        for name, exact in self._exact.items():
            moved = getattr(self, name)
            if not moved.is_meta:
                setattr(self, name, exact.to(moved.device, moved.dtype))
        return self
