"""The equivariant multilayer perceptron (thesis 2.6, Figure 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from isotropy.groups import Group
from isotropy.nn._bilinear import BiLinear, contractions
from isotropy.nn._linear import Linear
from isotropy.nn._module import bound
from isotropy.nn._nonlinearities import GatedNonlinearity, NormNonlinearity, gated
from isotropy.nn._parts import Parts, PartsModule
from isotropy.nn._uniform_rep import uniform_rep
from isotropy.reps import Rep, layout_of, without_duals

Nonlinearity = Literal["gated", "norm"]


class EMLPBlock(PartsModule):
    """One hidden layer: linear, plus what bilinear makes of it, through a nonlinearity.

    Args:
        rep_in: How the group acts on inputs.
        rep_out: How it acts on outputs.
        group: The group; not needed where the representations have theirs.
        bilinear: Whether to add the bilinear layer (where any object can act on another).
        nonlinearity: "gated", or "norm" for groups that preserve lengths.
        device: Where the parameters live.
        dtype: Their precision.

    Example:
        >>> import torch
        >>> from isotropy.groups import SO
        >>> from isotropy.reps import Scalar, V
        >>> block = EMLPBlock(2 * V, 8 * Scalar + 4 * V, SO(3))
        >>> block(torch.randn(5, 6)).shape
        torch.Size([5, 20])
    """

    def __init__(
        self,
        rep_in: Rep,
        rep_out: Rep,
        group: Group | None = None,
        *,
        bilinear: bool = True,
        nonlinearity: Nonlinearity = "gated",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        rep_in, rep_out = bound(rep_in, rep_out, group)
        super().__init__(rep_in, rep_out)
        if nonlinearity == "gated":
            before: Rep = gated(rep_out)
            self.nonlinearity: PartsModule = GatedNonlinearity(rep_out)
        elif nonlinearity == "norm":
            before = rep_out
            self.nonlinearity = NormNonlinearity(rep_out, device=device, dtype=dtype)
        else:
            raise ValueError(f"expected a nonlinearity 'gated' or 'norm', got {nonlinearity!r}")
        self.linear = Linear(rep_in, before, device=device, dtype=dtype)
        layout = layout_of(without_duals(before))
        acts = bilinear and bool(contractions(layout, layout))
        self.bilinear = BiLinear(before, before, device=device, dtype=dtype) if acts else None

    def on_parts(self, parts: Parts) -> Parts:
        y = self.linear.on_parts(parts)
        if self.bilinear is not None:
            y = self.bilinear.on_parts(y, onto=y)
        return self.nonlinearity.on_parts(y)


class EMLP(PartsModule):
    """An equivariant multilayer perceptron for any matrix group (thesis 2.6).

    Args:
        rep_in: How the group acts on inputs.
        rep_out: How it acts on outputs.
        group: The group; not needed where the representations have theirs.
        channels: The width of the hidden layers, shared out by ``uniform_rep``; or the hidden
            representation; or a list with one of either for each hidden layer.
        layers: The number of hidden layers, where ``channels`` is not a list.
        bilinear: Whether hidden layers have their bilinear part. Without it most groups leave
            the network unable to form an inner product (thesis A.1.4).
        nonlinearity: "gated", or "norm" for groups that preserve lengths.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If a layer would be zero: two of its spaces have no equivariant map between
            them, or part of the output cannot depend on the last hidden layer.

    Example:
        >>> import torch
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> model = EMLP(5 * Scalar + 5 * V, V * V, group=O(3), channels=48, layers=2)
        >>> model(torch.randn(7, 20)).shape
        torch.Size([7, 9])
        >>> print(model.symmetry)
        O(3): 5*Scalar+5*V >> T(2)
    """

    def __init__(
        self,
        rep_in: Rep,
        rep_out: Rep,
        group: Group | None = None,
        *,
        channels: int | Rep | Sequence[int | Rep] = 384,
        layers: int = 3,
        bilinear: bool = True,
        nonlinearity: Nonlinearity = "gated",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        rep_in, rep_out = bound(rep_in, rep_out, group)
        super().__init__(rep_in, rep_out)
        if group is None:
            group = self.symmetry.group
        hidden = _hidden(channels, layers, group)
        spaces = [rep_in, *hidden]
        self.blocks = nn.ModuleList(
            (
                EMLPBlock(
                    before,
                    after,
                    bilinear=bilinear,
                    nonlinearity=nonlinearity,
                    device=device,
                    dtype=dtype,
                )
                for before, after in zip(spaces, hidden, strict=False)
            )
        )
        self.head = Linear(spaces[-1], rep_out, device=device, dtype=dtype)
        self._require_reach()

    def _require_reach(self) -> None:
        rows = self.head.weight_space.row_counts()
        if bool((rows == 0).any()):
            column = int((rows == 0).nonzero()[0])
            raise ValueError(
                f"expected every part of the output {self.rep_out} to depend on the hidden layer "
                f"{self.head.rep_in}, got no equivariant map to column {column}: give hidden "
                "representations that have one (channels=...)"
            )

    def on_parts(self, parts: Parts) -> Parts:
        for block in self.blocks:
            parts = block.on_parts(parts)
        return self.head.on_parts(parts)


def _hidden(channels: int | Rep | Sequence[int | Rep], layers: int, group: Group) -> list[Rep]:
    if isinstance(channels, int | Rep):
        if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
            raise ValueError(f"expected at least one hidden layer, got {layers!r}")
        channels = [channels] * layers
    if len(channels) == 0:
        raise ValueError("expected at least one hidden layer, got an empty list of channels")
    return [c(group) if isinstance(c, Rep) else uniform_rep(c, group) for c in channels]
