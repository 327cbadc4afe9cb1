"""Constants of a module that survive every change of precision, and how its parameters are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypedDict

import torch
from torch import Tensor, nn


class Factory(TypedDict, total=False):
    """Where a layer's parameters live, and their precision."""

    device: torch.device | str | None
    dtype: torch.dtype | None


class ExactConstants(nn.Module):
    """A module whose constants are kept as they were made, and cast anew at every move.

    A network that is made in float32 and later turned to float64 must not keep constants that
    were rounded on the way; one that is made without memory gets them with it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._exact: dict[str, Tensor] = {}

    def _keep(self, name: str, exact: Tensor | None) -> None:
        """Register a constant; it is no part of the state, which has parameters alone."""
        if exact is not None:
            self._exact[name] = exact
        self.register_buffer(name, exact, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, exact in self._exact.items():
            moved = getattr(self, name)
            if not moved.is_meta:
                dtype = moved.dtype if exact.is_floating_point() or exact.is_complex() else None
                setattr(self, name, exact.to(moved.device, dtype))
        return self
