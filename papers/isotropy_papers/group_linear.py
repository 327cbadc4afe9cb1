"""Convolutions over the elements of any finite group, of all forms.

Maps on a group G are (n, channels, |G|), elements in the order of ``group.elements()``.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy.groups import Group
from isotropy.nn import RecordedModule
from isotropy.reps import Regular, Rep, Symmetry
from isotropy_papers.group_table import GroupTable, combined, convolved, correlations, seen_by_each

GroupForm: TypeAlias = Literal["full", "separable", "depthwise", "pointwise"]


class OnGroup(RecordedModule):
    """A layer between maps on a group, which commutes with the group."""

    table: GroupTable

    def __init__(self, in_channels: int, out_channels: int, group: Group | str) -> None:
        super().__init__()
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"expected {name} of at least 1, got {count!r}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.table = GroupTable(group)

    @property
    def weight_uses(self) -> dict[str, float]:
        """How often each weight is used, for ``soften``; none for filters made of less."""
        return {}

    @property
    def group(self) -> Group:
        """The group."""
        return self.table.group

    @property
    def rep_in(self) -> Rep:
        """How the group acts on inputs, flattened to (n, C · |G|)."""
        return self.in_channels * Regular(self.group)

    @property
    def rep_out(self) -> Rep:
        """How it acts on outputs, flattened to (n, C' · |G|)."""
        return self.out_channels * Regular(self.group)

    @property
    def symmetry(self) -> Symmetry:
        """The group and both its actions."""
        return Symmetry(self.group, self.rep_in, self.rep_out)

    def _require_maps(self, x: Tensor, dtype: torch.dtype) -> None:
        expected = self.in_channels, self.table.order
        if x.ndim != 3 or x.shape[1:] != expected:
            shape = ", ".join(map(str, expected))
            raise ValueError(f"expected maps of shape (n, {shape}), got {tuple(x.shape)}")
        if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(f"expected maps of the layer's own {dtype}, got {x.dtype}")


class GroupLinear(OnGroup):
    r"""GCONV: a convolution over the elements of any finite group (Ouderaa et al. 2023).

        y(c', h) = b(c') + Σ_c Σ_g θ(c', c, g⁻¹h) x(c, g)                      (appendix A)

    commutes with (g x)(c, h) = x(c, g⁻¹h). A filter may be made of less (appendix F.3): with a
    subgroup N, every element g⁻¹h is one product n t, n in N and t the first element of its coset
    Nt, and θ is

    - "full": θ(c', c, g⁻¹h);
    - "separable": θ₁(c, n) θ₂(c', c, t), a stage ``within`` cosets and then one ``across`` them;
    - "depthwise": θ₁(c, n) θ₂(c, t) θ₃(c', c), stages ``within``, ``across`` and ``channels``;
      without a subgroup θ₂(c, g⁻¹h) θ₃(c', c);
    - "pointwise": θ(c', c, n) where t = 1 and zero elsewhere, so that cosets never meet; without a
      subgroup θ(c', c), and elements never meet.

    ``GroupConv2d`` on an n × n torus is that for the group ``p4(n)`` and its shifts
    ``GridShifts(n)``, with local kernels. The full form has the maps that ``Linear`` has between
    copies of ``Regular``, in the shape that ``FactoredLinear`` and ``MapLinear`` take: they go
    together in a ``PathSum``.

    Args:
        in_channels: The channels C of the input.
        out_channels: The channels C' of the output.
        group: A finite group of at most 2048 elements, or its name.
        form: What filters are made of.
        subgroup: N, or its name.
        bias: Whether there is a b; it starts at zero.
        device: Where the parameters live.
        dtype: Their precision.

    Attributes:
        table: The elements and their products; ``table.move(x, k)`` moves maps by element k.

    Raises:
        TypeError: If a group is none.
        ValueError: If the group is infinite or too large, N is no subgroup, missing or not wanted,
            there is no such form, or a number is out of range.

    Example:
        >>> layer = GroupLinear(2, 3, "S(3)")
        >>> x = torch.randn(4, 2, 6)
        >>> moved = layer(layer.table.move(x, 4))
        >>> torch.allclose(moved, layer.table.move(layer(x), 4), atol=1e-5)
        True
        >>> light = GroupLinear(2, 3, "D(4)", form="separable", subgroup="Z(4)")
        >>> {name: tuple(p.shape) for name, p in light.named_parameters()}
        {'within.weight': (2, 1, 4), 'across.weight': (3, 2, 2), 'across.bias': (3,)}
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        group: Group | str,
        *,
        form: GroupForm = "full",
        subgroup: Group | str | None = None,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if form not in get_args(GroupForm):
            choices = ", ".join(map(repr, get_args(GroupForm)))
            raise ValueError(f"expected form {choices}, got {form!r}")
        if form == "full" and subgroup is not None:
            raise ValueError(f"expected no subgroup for the form 'full', got {subgroup}")
        if form == "separable" and subgroup is None:
            raise ValueError("expected a subgroup for the form 'separable', got none")
        super().__init__(in_channels, out_channels, group)
        self.form = form
        whole = torch.arange(self.table.order)
        inside = whole[:1] if subgroup is None else self.table.places(subgroup)
        cosets = self.table.representatives(inside)
        own: dict[str, Any] = {"device": device, "dtype": dtype}
        last = {"bias": bias, "gain": sqrt(2), **own}

        def stage(out: int, support: Tensor, **kind: Any) -> GroupFilter:
            return GroupFilter(in_channels, out, self.table, support, **kind)

        if form in ("full", "pointwise"):
            support = whole if form == "full" else inside
            self.filter = stage(out_channels, support, **last)
            return
        if subgroup is not None:
            self.within = stage(in_channels, inside, depthwise=True, **own)
        if form == "separable":
            self.across = stage(out_channels, cosets, **last)
        else:
            self.across = stage(in_channels, cosets, depthwise=True, **own)
            self.channels = stage(out_channels, whole[:1], **last)

    @property
    def weight_uses(self) -> dict[str, float]:
        """How often each weight is used, for ``soften``; none for filters that are products."""
        single = self.form in ("full", "pointwise")
        return {name: float(self.table.order) for name, _ in self.named_parameters() if single}

    def reset_parameters(self) -> None:
        """Draw the weights anew; the bias becomes zero."""
        for stage in self.children():
            assert isinstance(stage, GroupFilter)
            stage.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, C, |G|) to (n, C', |G|)."""
        self._require_maps(x, next(self.parameters()).dtype)
        for stage in self.children():
            x = stage(x)
        return x

    def extra_repr(self) -> str:
        """The arguments, for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, {self.group}, form={self.form!r}"


class GroupFilter(RecordedModule):
    """One stage of a group convolution: filters θ(c', c, k) on some elements k, zero elsewhere.

    Args:
        in_channels: Channels that come in.
        out_channels: Channels that go out.
        table: The group.
        support: The elements k, in their order.
        depthwise: Whether each channel is made from its own alone.
        bias: Whether there is a bias for each channel.
        gain: How much larger outputs start than inputs.
        device: Where the parameters live.
        dtype: Their precision.

    Example:
        >>> stage = GroupFilter(2, 3, GroupTable("S(3)"), torch.arange(6))
        >>> stage(torch.randn(4, 2, 6)).shape
        torch.Size([4, 3, 6])
    """

    sources: Tensor
    quotients: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        table: GroupTable,
        support: Tensor,
        *,
        depthwise: bool = False,
        bias: bool = False,
        gain: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.depthwise, self.gain = depthwise, gain
        self._keep("sources", table.sources(support))
        self._keep("quotients", table.quotients if len(support) == table.order else None)
        shape = out_channels, 1 if depthwise else in_channels, len(support)
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.bias = (
            nn.Parameter(torch.empty(out_channels, device=device, dtype=dtype)) if bias else None
        )
        self._apply(lambda t: t.to(self.weight.device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights for inputs of variance one; the bias becomes zero."""
        bound = self.gain * sqrt(3 / self.weight[0].numel())
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in, |G|) to (n, out, |G|)."""
        if self.quotients is None:
            y = combined(seen_by_each(x, self.sources), self.weight, depthwise=self.depthwise)
        else:
            y = convolved(x, self.weight, self.quotients, depthwise=self.depthwise)
        y = added(y, self.bias)
        if self._recording:
            self.note(
                "weight",
                x,
                y,
                axes=("group",),
                spread=self._rows,
                gather=_rows_of_channels if self.depthwise else rows_of_elements,
                blocks=self.depthwise,
                gram=None if self.quotients is None else self._gram,
            )
            if self.bias is not None:
                note_bias(self, y)
        return y

    def _rows(self, x: Tensor) -> Tensor:
        rows = seen_by_each(x, self.sources).transpose(1, 2)
        return rows if self.depthwise else rows.flatten(2)

    def _gram(self, x: Tensor) -> Tensor:
        gram = correlations(x, self.sources, depthwise=self.depthwise)
        return gram if self.depthwise else gram.flatten(2).flatten(0, 1)

    def extra_repr(self) -> str:
        """The shape, for ``print``."""
        depthwise = ", depthwise=True" if self.depthwise else ""
        return f"weight={tuple(self.weight.shape)}{depthwise}, bias={self.bias is not None}"


def added(y: Tensor, bias: Tensor | None) -> Tensor:
    """Maps (n, C, |G|) plus a bias for each channel."""
    return y if bias is None else y + bias.to(y.dtype).unsqueeze(1)


def note_bias(layer: RecordedModule, y: Tensor) -> None:
    """Record that a bias for each channel was added."""
    ones = y.new_ones(()).expand(y.shape[0], y.shape[2], 1)
    layer.note("bias", ones, y, axes=("group",), gather=rows_of_elements)


def rows_of_elements(gradient: Tensor) -> Tensor:
    """A gradient (n, C, |G|) by element."""
    return gradient.mT


def _rows_of_channels(gradient: Tensor) -> Tensor:
    return gradient.mT.unsqueeze(-1)


def by_number(gradient: Tensor) -> Tensor:
    """A gradient number by number."""
    return gradient.flatten(1).unsqueeze(-1)
