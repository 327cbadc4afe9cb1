"""What counts as an error: a wrong class, or a number missed by more than a tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from isotropy.certificates._bits import BitReader, BitWriter
from isotropy.certificates._header import Rejected

GoalKind = Literal["classification", "regression"]
_KINDS: tuple[GoalKind, ...] = ("classification", "regression")
_MOST_OUTPUTS = 1 << 16
_ROUNDING = 1e-12  # networks differ by 1e-13 between two libraries that multiply matrices


@dataclass(frozen=True)
class Goal:
    """The 0-1 loss that a certificate bounds; part of the message, so its choice is paid for.

    Args:
        kind: ``"classification"``: the largest output must be the label's;
            ``"regression"``: every output must be within ``tolerance`` of its target.
        outputs: How many classes, or how many numbers.
        tolerance: For a regression, a positive 16-bit number.
        scale: The network's outputs are multiplied by this 16-bit number (a regression's targets
            have units; the scale is chosen from the data, hence coded).

    Example:
        >>> goal = Goal("classification", 3)
        >>> goal.wrong(torch.eye(3), torch.tensor([0, 1, 1])).tolist()
        [False, False, True]
        >>> Goal("regression", 1, tolerance=0.5).wrong(
        ...     torch.tensor([[1.0], [3.0]]), torch.tensor([[1.25], [1.0]])
        ... ).tolist()
        [False, True]
    """

    kind: GoalKind
    outputs: int
    tolerance: float | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"expected classification or regression, got {self.kind!r}")
        if not 1 <= self.outputs <= _MOST_OUTPUTS:
            raise ValueError(f"expected 1 to {_MOST_OUTPUTS} outputs, got {self.outputs}")
        if (self.tolerance is None) != (self.kind == "classification"):
            raise ValueError(
                "expected a tolerance for a regression and none for a classification, "
                f"got {self.tolerance} for a {self.kind}"
            )
        if self.tolerance is not None and not _is_half(self.tolerance):
            raise ValueError(f"expected a positive 16-bit tolerance, got {self.tolerance}")
        if not _is_half(self.scale):
            raise ValueError(f"expected a positive 16-bit scale, got {self.scale}")

    def wrong(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Which of the rows are errors.

        So is one with outputs that are not finite numbers, and one that is right by less than
        10⁻¹² of its outputs' size.
        """
        finite = torch.isfinite(outputs).all(1)
        # what rounding decides is an error: machines round otherwise, and so do sizes of batches
        unsure = _ROUNDING * (1 + outputs.abs().amax(1))
        if self.kind == "classification":
            own = outputs.gather(1, targets[:, None])
            others = outputs.scatter(1, targets[:, None], -torch.inf).amax(1)
            return ~((own[:, 0] - others > unsure) & finite)
        assert self.tolerance is not None
        missed = (self.scale * outputs - targets).abs().amax(1)
        return ~((missed + self.scale * unsure <= self.tolerance) & finite)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What training lowers: cross entropy, or squared error in units of the scale."""
        if self.kind == "classification":
            return cross_entropy(outputs, targets)
        return mse_loss(outputs, (targets / self.scale).to(outputs.dtype))

    def check(self, targets: Tensor) -> None:
        """Raise a ValueError unless the targets are of this kind."""
        if self.kind == "classification":
            if targets.ndim != 1 or targets.dtype != torch.int64:
                raise ValueError(
                    "expected integer labels of shape (n,), "
                    f"got {targets.dtype} of shape {tuple(targets.shape)}"
                )
            low, high = int(targets.min()), int(targets.max())
            if low < 0 or high >= self.outputs:
                raise ValueError(
                    f"expected labels from 0 to {self.outputs - 1}, got labels from {low} to {high}"
                )
        elif targets.ndim != 2 or targets.shape[1] != self.outputs:
            raise ValueError(
                f"expected targets of shape (n, {self.outputs}), got {tuple(targets.shape)}"
            )

    def write(self, writer: BitWriter) -> None:
        """Append the goal to a message."""
        writer.choice(self.kind, _KINDS)
        writer.natural(self.outputs)
        if self.tolerance is not None:
            write_half(writer, self.tolerance)
            write_half(writer, self.scale)

    @classmethod
    def read(cls, reader: BitReader) -> Goal:
        """Read a goal from a message.

        Raises:
            Rejected: If the bits are not those of a goal.
        """
        kind = _KINDS[_KINDS.index(reader.choice(_KINDS))]
        outputs = reader.natural(limit=_MOST_OUTPUTS)
        if outputs == 0:
            raise Rejected("the message names a network without outputs")
        if kind == "classification":
            return cls(kind, outputs)
        return cls(kind, outputs, read_half(reader), read_half(reader))


def half_above(value: float) -> float:
    """The smallest 16-bit number that is not below a positive number."""
    half = np.float16(value)
    if float(half) < value:
        half = np.nextafter(half, np.float16(np.inf))
    if not math.isfinite(half) or half <= 0:
        raise ValueError(f"expected a positive number below 65504, got {value}")
    return float(half)


def write_half(writer: BitWriter, value: float) -> None:
    """Append a positive 16-bit number."""
    writer.below(int(np.float16(value).view(np.uint16)), 1 << 16)


def read_half(reader: BitReader) -> float:
    """Read a positive 16-bit number."""
    value = float(np.uint16(reader.below(1 << 16)).view(np.float16))
    if not (math.isfinite(value) and value > 0):
        raise Rejected(f"the message holds {value} where a positive number belongs")
    return value


def _is_half(value: float) -> bool:
    return bool(math.isfinite(value) and value > 0 and float(np.float16(value)) == value)
