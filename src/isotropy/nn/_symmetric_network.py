"""Networks for a symmetry: exactly equivariant, softly so, or free; and the ordinary one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy.groups import Group
from isotropy.nn._emlp import EMLP
from isotropy.nn._module import bound, require_rows
from isotropy.nn._soften import soften
from isotropy.nn._uniform_rep import uniform_rep
from isotropy.reps import Regular, Rep, Symmetry

NetworkKind: TypeAlias = Literal["rpp", "equivariant", "mlp"]


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


def symmetric_network(
    symmetry: Symmetry,
    kind: NetworkKind = "rpp",
    *,
    widths: Sequence[int] = (256, 256),
    variances: tuple[float, float] = (1e5, 1.0),
    start: float = 1e-3,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """A network for a symmetry.

    Hidden layers of finite groups are copies of the regular representation, whose entries go
    through any nonlinearity; those of others are shared out by ``uniform_rep``.

    Args:
        symmetry: How the group acts on inputs and outputs, such as the policy of an
            ``isotropy.rl.EnvironmentSymmetry``.
        kind: "equivariant" for a network that commutes with the group; "rpp" for the same with a
            residual pathway prior, which prefers to (thesis chapter 3); "mlp" for a free one.
        widths: The width of each hidden layer, rounded down to whole copies.
        variances: (σ_a², σ_b²) of the strict and the flexible paths of "rpp" (``soften``).
        start: What the usual starting weights of flexible paths are multiplied by.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If a width is smaller than one copy, or the kind is not one of these.

    Example:
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import Pseudoscalar, Scalar, V
        >>> mirrored = Symmetry(Z(2), Scalar + 2 * V, Pseudoscalar)
        >>> policy = symmetric_network(mirrored, widths=(32, 32))
        >>> policy(torch.randn(7, 5)).shape
        torch.Size([7, 1])
    """
    if kind not in get_args(NetworkKind):
        raise ValueError(f"expected a network 'rpp', 'equivariant' or 'mlp', got {kind!r}")
    if kind == "mlp":
        sizes = symmetry.rep_in.size(), symmetry.rep_out.size()
        return _free(sizes, widths, device, dtype)
    hidden = [_hidden(symmetry, width) for width in widths]
    finite = symmetry.group.is_discrete
    strict = EMLP(
        symmetry.rep_in,
        symmetry.rep_out,
        symmetry.group,
        channels=hidden,
        bilinear=not finite,
        device=device,
        dtype=dtype,
    )
    if kind == "equivariant":
        return strict
    # pointwise maps of a regular representation need no Swish beside them
    return soften(strict, variances=variances, start=start, swish=not finite)


def _free(
    sizes: tuple[int, int],
    widths: Sequence[int],
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise([sizes[0], *widths]):
        layers += [nn.Linear(before, after, device=device, dtype=dtype), nn.SiLU()]
    last = widths[-1] if widths else sizes[0]
    return nn.Sequential(*layers, nn.Linear(last, sizes[1], device=device, dtype=dtype))


def _hidden(symmetry: Symmetry, width: int) -> Rep:
    group = symmetry.group
    if not group.is_discrete:
        return uniform_rep(width, group)
    order = group.order()
    if order == inf or isinstance(width, bool) or width < order:
        raise ValueError(
            f"expected hidden layers at least as wide as the group has elements, {order}, "
            f"got {width}"
        )
    return (width // int(order)) * Regular(group)
