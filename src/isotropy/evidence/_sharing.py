"""How curvature treats weights that one sample uses many times.

A convolution applies its kernel at every position, an equivariant layer its coefficients to
every component. With rows a_r (inputs) and g_r (gradients at
the output) along such an axis, the gradient of a sample is Σ_r g_r a_rᵀ, and its square is

    "exact"     Σ_rs (g_r a_rᵀ)(g_s a_sᵀ)       all of it, no Kronecker factors;
    "expand"    Σ_r a_r a_rᵀ ⊗ Σ_r g_r g_rᵀ / R  rows as if they were samples
                                                  (Grosse and Martens 2016);
    "reduce"    āāᵀ ⊗ (Σ_r g_r)(Σ_r g_r)ᵀ        their mean and sum as if they were one row
                                                  (Eschenhagen et al. 2023).

Several calls of one layer are further rows to Kronecker factors, whatever the modes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from isotropy.nn._recorder import LinearOperation

Mode: TypeAlias = Literal["expand", "reduce", "exact"]
Sharing: TypeAlias = Mode | Mapping[str, Mode]

_DEFAULTS: dict[str, Mode] = {
    "space": "expand",
    "position": "expand",
    "group": "expand",
    "component": "expand",
    "channel": "exact",
}


@dataclass(frozen=True)
class SharingModes:
    """What is done along each axis; "channel" is that of the blocks of an operation.

    Blocks with "exact" have an output factor each; with "expand" they share its mean, as the
    paper has it (appendix C.1); with "reduce" they are taken as one dense operation.

    Args:
        modes: By the name of the axis.
    """

    modes: Mapping[str, Mode]

    @classmethod
    def of(cls, sharing: Sharing) -> SharingModes:
        """Check what a user asks for; one mode is for every axis that can have it but blocks."""
        known = get_args(Mode)
        if not isinstance(sharing, str | Mapping):
            raise TypeError(
                f"expected sharing as a mode, or a mode for each axis by name, got {sharing!r}"
            )
        left_out = ["channel", "component"] if sharing == "reduce" else ["channel"]
        wanted = (
            {axis: sharing for axis in _DEFAULTS if axis not in left_out}
            if isinstance(sharing, str)
            else dict(sharing)
        )
        for axis, mode in wanted.items():
            if mode not in known:
                where = "" if isinstance(sharing, str) else f" along {axis!r}"
                names = ", ".join(map(repr, known))
                raise ValueError(f"expected sharing {names}{where}, got {mode!r}")
        if wanted.get("component") == "reduce":
            raise ValueError(
                "expected sharing 'expand' or 'exact' along 'component', got 'reduce': the mean of "
                "the components of a vector depends on its basis"
            )
        return cls({**_DEFAULTS, **wanted})

    def require_known(self, operations: Iterable[LinearOperation]) -> None:
        """Refuse a mode for an axis that no operation has."""
        seen = {axis for operation in operations for axis in operation.axes}
        for axis in self.modes:
            if axis not in seen and axis not in _DEFAULTS:
                have = ", ".join(sorted(seen | set(_DEFAULTS)))
                raise ValueError(f"expected sharing along one of {have}, got {axis!r}")

    def along(self, axis: str) -> Mode:
        """What is done along an axis."""
        return self.modes.get(axis, "expand")

    def factorises(self, operation: LinearOperation) -> bool:
        """Whether the curvature of an operation is to be a Kronecker product."""
        return not operation.exact and "exact" not in map(self.along, operation.axes)

    def reduced_axes(self, operation: LinearOperation) -> list[int]:
        """The places of the axes of its rows that are reduced."""
        return [i for i, axis in enumerate(operation.axes, 1) if self.along(axis) == "reduce"]

    def input_rows(self, operation: LinearOperation, rows: Tensor) -> Tensor:
        """Rows of the input as the factor takes them, shape (*, blocks, in)."""
        axes = self.reduced_axes(operation)
        rows = rows.mean(axes) if axes else rows
        if not operation.blocks:
            return rows.unsqueeze(-2)
        if self.along("channel") != "reduce":
            return rows
        # a block's row is zero but for its own columns: their mean is all of them side by side
        return rows.flatten(-2).unsqueeze(-2) / rows.shape[-2]

    def gradient_rows(self, operation: LinearOperation, rows: Tensor) -> Tensor:
        """Rows of a gradient as the factor takes them, shape (*, blocks, out)."""
        axes = self.reduced_axes(operation)
        rows = rows.sum(axes) if axes else rows
        if not operation.blocks:
            return rows.unsqueeze(-2)
        return rows.sum(-2, keepdim=True) if self.along("channel") == "reduce" else rows

    def reduces(self, operation: LinearOperation) -> bool:
        """Whether rows of an operation are put together before they are squared."""
        by_channel = operation.blocks and self.along("channel") == "reduce"
        return by_channel or bool(self.reduced_axes(operation))

    def tells_blocks_apart(self, operation: LinearOperation) -> bool:
        """Whether each block of an operation has an output factor of its own."""
        return operation.blocks and self.along("channel") == "exact"

    def entries(self, operation: LinearOperation, blocks: int, out: int) -> Tensor | None:
        """Where W is in the flat parameter, shape (blocks, out, in); None for all, in order."""
        entries = operation.entries
        if not (operation.blocks and self.along("channel") == "reduce"):
            return None if entries is None else entries.reshape(blocks, out, -1)
        if entries is None:
            into = operation.input_rows().shape[-1]
            entries = torch.arange(blocks * out * into, device=operation.input.device)
        return entries.reshape(blocks, out, -1).transpose(0, 1).reshape(1, out, -1)
