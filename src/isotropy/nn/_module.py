"""What every equivariant layer and network has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from isotropy.groups import Group, parse_group
from isotropy.nn._recorder import RecordedModule
from isotropy.reps import Rep, Symmetry, parse_rep


class EquivariantModule(RecordedModule):
    """A module f with f(ρ_in(g) x) = ρ_out(g) f(x) for every g of its group.

    Attributes:
        rep_in: How the group acts on inputs, along their last axis.
        rep_out: How it acts on outputs.
        in_features: The width of inputs.
        out_features: The width of outputs.
    """

    rep_in: Rep
    rep_out: Rep

    def __init__(self, rep_in: Rep, rep_out: Rep) -> None:
        super().__init__()
        self.rep_in, self.rep_out = rep_in, rep_out
        self.in_features, self.out_features = rep_in.size(), rep_out.size()

    @property
    def symmetry(self) -> Symmetry:
        """The group and both its actions."""
        group = (self.rep_in + self.rep_out).group
        if group is None:
            raise ValueError(
                f"expected a layer whose representations have a group, got {self.rep_in} "
                f"and {self.rep_out}"
            )
        return Symmetry(group, self.rep_in, self.rep_out)

    def export(self, batch: Tensor | None = None) -> Any:
        """The module as a program that runs without this library, for batches of any length.

        Args:
            batch: An example input of shape (n, in_features), n ≥ 2; drawn where there is none.

        Returns:
            A ``torch.export.ExportedProgram``; save it with ``torch.export.save``.
        """
        if batch is None:
            like = next(iter(self.parameters()), torch.empty(0))
            batch = torch.randn(3, self.in_features, dtype=like.dtype, device=like.device)
        rows = torch.export.Dim("rows")
        return torch.export.export(self, (batch,), dynamic_shapes=({0: rows},))

    def _require_width(self, x: Tensor) -> None:
        require_rows(x, self.in_features, self._dtype(), self.rep_in)

    def _dtype(self) -> torch.dtype | None:
        """The precision of the parameters; None where there are none."""
        return None

    def extra_repr(self) -> str:
        """The two spaces, as ``print(model)`` shows them."""
        return f"{self.rep_in} >> {self.rep_out}"


def require_rows(
    x: Tensor, width: int, dtype: torch.dtype | None, space: Rep | None = None
) -> None:
    """Refuse what cannot go through a layer."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"expected a tensor of width {width}, got {type(x).__name__}; use torch.as_tensor"
        )
    if x.shape[-1:] != (width,):
        of = "" if space is None else f" for {space}"
        raise ValueError(f"expected inputs of width {width}{of}, got shape {tuple(x.shape)}")
    if dtype is not None and x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(
            f"expected inputs of the layer's own {dtype}, got {x.dtype}: cast the inputs with "
            f"x.to({dtype}), or the layer with .to(...)"
        )


def bound(rep_in: Rep | str, rep_out: Rep | str, group: Group | str | None) -> tuple[Rep, Rep]:
    """Both representations with their group; texts are parsed."""
    rep_in = parse_rep(rep_in) if isinstance(rep_in, str) else rep_in
    rep_out = parse_rep(rep_out) if isinstance(rep_out, str) else rep_out
    group = parse_group(group) if isinstance(group, str) else group
    for name, rep in (("rep_in", rep_in), ("rep_out", rep_out)):
        if not isinstance(rep, Rep):
            raise TypeError(f"expected a representation as {name}, got {type(rep).__name__}")
    if group is None:
        group = (rep_in + rep_out).group
        _require_common_group(rep_in, rep_out)
    if group is None:
        if rep_in.is_bound and rep_out.is_bound:
            return rep_in, rep_out  # scalars alone have no group
        raise ValueError(
            f"expected a group for {rep_in} >> {rep_out}, got none: write rep(G), or give group=G"
        )
    return rep_in(group), rep_out(group)


def _require_common_group(rep_in: Rep, rep_out: Rep) -> None:
    """Refuse two single groups on the same space: they are meant to be one."""
    first, second = rep_in.groups, rep_out.groups
    if len(first) == len(second) == 1 and first != second and first[0].d == second[0].d:
        raise ValueError(
            f"expected representations of one group, got {rep_in} and {rep_out}; for a product "
            "of both groups give group=G*H"
        )


def floating_dtype(rep: Rep, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype of a layer's parameters: as asked, else torch's default; complex where needed."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if rep.is_complex:
        return dtype.to_complex()
    return dtype


def cast(module: nn.Module, device: torch.device | str | None, dtype: torch.dtype) -> None:
    """Move a module's constants; torch's own ``to`` warns of every complex one."""

    def move(t: Tensor) -> Tensor:
        return t.to(device, dtype if t.is_floating_point() or t.is_complex() else None)

    module._apply(move)
