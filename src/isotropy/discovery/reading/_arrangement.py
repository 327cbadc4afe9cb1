"""How columns of data are laid out over positions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arrangement:
    """How columns of inputs and outputs are laid out: channel by channel, each over positions.

    Args:
        inputs: n, positions of the input that a group may permute.
        channels: Columns at each of them.
        outputs: m, positions of the output.
        output_channels: Columns at each of them.
        fixed_outputs: Whether outputs stay where they are, as classes do.
    """

    inputs: int
    channels: int
    outputs: int
    output_channels: int
    fixed_outputs: bool = False
