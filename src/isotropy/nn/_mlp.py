"""The ordinary multilayer perceptron, to compare with."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from isotropy.groups import Group
from isotropy.nn._module import bound, require_rows
from isotropy.reps import Rep


class MLP(nn.Module):
    """Linear layers with Swish between them, free of any symmetry.

    Args:
        rep_in: The width of inputs, or a representation to take it from.
        rep_out: The width of outputs, or a representation to take it from.
        group: The group of the representations; not needed where they have theirs.
        channels: The width of the hidden layers.
        layers: The number of hidden layers.
        device: Where the parameters live.
        dtype: Their precision.

    Example:
        >>> import torch
        >>> MLP(20, 9, channels=64)(torch.randn(5, 20)).shape
        torch.Size([5, 9])
    """

    def __init__(
        self,
        rep_in: Rep | int,
        rep_out: Rep | int,
        group: Group | None = None,
        *,
        channels: int = 384,
        layers: int = 3,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if isinstance(rep_in, Rep) and isinstance(rep_out, Rep):
            self.rep_in, self.rep_out = bound(rep_in, rep_out, group)  # for whoever tests it
            rep_in, rep_out = self.rep_in, self.rep_out
        self.in_features = _width(rep_in, group, "rep_in")
        self.out_features = _width(rep_out, group, "rep_out")
        if layers < 1 or channels < 1:
            raise ValueError(
                f"expected at least one hidden layer and channel, got {layers} and {channels}"
            )
        widths = [self.in_features, *[channels] * layers]
        steps: list[nn.Module] = []
        for width, following in pairwise(widths):
            steps += [nn.Linear(width, following, device=device, dtype=dtype), nn.SiLU()]
        steps.append(nn.Linear(widths[-1], self.out_features, device=device, dtype=dtype))
        self.network = nn.Sequential(*steps)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the network along the last axis, shape (*, in_features) to (*, out_features)."""
        require_rows(x, self.in_features, next(self.network.parameters()).dtype)
        y: Tensor = self.network(x)
        return y


def _width(given: Rep | int, group: Group | None, name: str) -> int:
    if isinstance(given, Rep):
        return (given if group is None else given(group)).size()
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ValueError(
            f"expected a width of at least 1 or a representation as {name}, got {given!r}"
        )
    return given
