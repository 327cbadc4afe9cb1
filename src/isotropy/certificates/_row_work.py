"""What one row costs a network: numbers in memory and operations, counted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

# seconds of one core, about twice what was measured: products, and all other numbers written
_SECONDS_PER_FLOP = 1 / 4e9
_SECONDS_PER_NUMBER = 1 / 2e8


@dataclass(frozen=True)
class RowWork:
    """What a network takes: for any number of rows, and for each of them.

    Args:
        fixed_bytes: Of the operation that needs most, whatever the rows.
        bytes: The same for each row.
        seconds: Of one core, for each row.

    Example:
        >>> work = RowWork(fixed_bytes=0, bytes=10**6, seconds=0.01)
        >>> work.rows_in(64 * 10**6, most=500)
        64
    """

    fixed_bytes: int
    bytes: int
    seconds: float

    def rows_in(self, memory: int, most: int) -> int:
        """How many rows at a time fit in some memory: one at least, ``most`` at most."""
        return max(1, min(most, (memory - self.fixed_bytes) // max(1, self.bytes)))


def row_work(run: Callable[[Tensor], Any], x: Tensor) -> RowWork:
    """Count what a network does with one row and with two; the difference is what a row takes.

    Example:
        >>> work = row_work(torch.nn.Linear(100, 50).double(), torch.zeros(2, 100).double())
        >>> work.bytes
        2400
    """
    one, two = (_operations(run, x[:1].repeat(rows, *(1,) * (x.ndim - 1))) for rows in (1, 2))
    if len(one) != len(two):  # a network that does other things with two rows: count all of it
        one = [_Operation(0, 0.0)] * len(two)
    return RowWork(
        fixed_bytes=max(0, *(2 * a.bytes - b.bytes for a, b in zip(one, two, strict=True))),
        # twice, for what is kept beside the operands of one operation
        bytes=2 * max(0, *(b.bytes - a.bytes for a, b in zip(one, two, strict=True))),
        seconds=sum(b.seconds - a.seconds for a, b in zip(one, two, strict=True)),
    )


@dataclass(frozen=True)
class _Operation:
    bytes: int
    seconds: float


def _operations(run: Callable[[Tensor], Any], x: Tensor) -> list[_Operation]:
    with torch.no_grad(), _Meter() as meter:
        run(x)
    # a network may do nothing at all
    return meter.operations or [_Operation(0, 0.0)]


class _Meter(TorchDispatchMode):
    """Notes every operation that PyTorch does."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[_Operation] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        out = func(*args, **given)
        written = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        read = [leaf for leaf in tree_leaves((args, given)) if isinstance(leaf, Tensor)]
        taken = sum(tensor.numel() * tensor.element_size() for tensor in (*read, *written))
        kind = func._overloadpacket
        numbers = sum(tensor.numel() for tensor in written)
        if kind is torch.ops.aten.convolution:
            # in float64 it is a product with all patches, which are written out for all rows
            patches = out.numel() // max(1, out.shape[1]) * args[1][0].numel()
            taken += patches * out.element_size()
            numbers += patches
        flops = flop_registry[kind](*args, **given, out_val=out) if kind in flop_registry else 0
        seconds = flops * _SECONDS_PER_FLOP + numbers * _SECONDS_PER_NUMBER
        self.operations.append(_Operation(taken, seconds))
        return out
