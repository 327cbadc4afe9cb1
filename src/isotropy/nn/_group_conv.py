"""Group convolutions over shifts and quarter turns (p4), and flips (p4m), of maps.

Layers that know nothing of slices take a place beside them.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy.nn._grid_network import GridGroup, GridGroupName
from isotropy.nn._rotated_kernel_conv import Reads, RotatedKernelConv2d

Form: TypeAlias = Literal["full", "separable", "depthwise", "pointwise"]


class OnSlices(nn.Module):
    """A layer of maps that takes the slices of a lifted map for further channels.

    So a convolution or a free layer can be a path beside ``GroupConv2d``.

    Args:
        path: From maps of slices · channels to maps of slices · other channels.
        slices: How many there are: 4 for p4, 8 for p4m.

    Example:
        >>> import torch
        >>> from isotropy.nn import CircularConv2d, GroupConv2d, PathSum
        >>> paths = {"turns": GroupConv2d(2, 3), "shifts": OnSlices(CircularConv2d(8, 12), 4)}
        >>> PathSum(paths)(torch.randn(5, 2, 4, 6, 6)).shape
        torch.Size([5, 3, 4, 6, 6])
    """

    def __init__(self, path: nn.Module, slices: int) -> None:
        super().__init__()
        self.path, self.slices = path, slices

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, slices, h, w) to (n, other channels, slices, h', w')."""
        if x.ndim != 5 or x.shape[2] != self.slices:
            raise ValueError(
                f"expected maps of shape (n, channels, {self.slices}, h, w), got {tuple(x.shape)}"
            )
        lifted: Tensor = self.path(x.flatten(1, 2)).unflatten(1, (-1, self.slices))
        return lifted


class Lift(nn.Module):
    """An image as features: every slice is the image itself.

    Args:
        group: "p4" for 4 slices, "p4m" for 8.

    Raises:
        ValueError: If the group is another.

    Example:
        >>> Lift("p4m")(torch.randn(2, 3, 5, 5)).shape
        torch.Size([2, 3, 8, 5, 5])
    """

    def __init__(self, group: GridGroupName = "p4") -> None:
        super().__init__()
        self.group = GridGroup(group)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, h, w) to (n, channels, K, h, w), without a copy."""
        if x.ndim != 4:
            raise ValueError(f"expected images of shape (n, channels, h, w), got {tuple(x.shape)}")
        return x.unsqueeze(2).expand(-1, -1, self.group.order, -1, -1)

    def extra_repr(self) -> str:
        """The group, for ``print``."""
        return repr(self.group.name)


class GroupConv2d(nn.Module):
    r"""A convolution over shifts and quarter turns, or shifts, quarter turns and flips.

        y(c', k', p) = b(c') + Σ_c Σ_k Σ_q x(c, k, p + q) θ(c', c, k⁻¹k', k'⁻¹q)

    on a torus (Cohen and Welling 2016). It commutes exactly with every shift, and with every turn
    of square maps. A filter may be made of less (van der Ouderaa et al. 2023, appendix F.3 and
    Table 7), with j = k⁻¹k' and s = k'⁻¹q:

    - "full": θ(c', c, j, s);
    - "separable": θ₁(c, js) θ₂(c', c, j), a ``spatial`` stage and then a ``mixing`` one;
    - "depthwise": θ₁(c, js) θ₂(c, j) θ₃(c', c), a ``spatial``, a ``mixing`` and a ``channels``
      stage;
    - "pointwise": θ(c', c, s) at j = 1 and zero elsewhere, so that slices never meet.

    Every stage has a weight and a bias. Weights start as Kaiming's uniform ones, but for θ₂, which
    starts as the mean over slices: 1/(K √c) where separable and 1/K where depthwise.

    For any other finite group there is ``isotropy_papers.group_linear`` (appendix A).

    Args:
        in_channels: Channels that come in.
        out_channels: Channels that go out.
        kernel_size: The side of the kernel, odd.
        group: "p4" for turns, K = 4, or "p4m" for turns and flips, K = 8.
        form: What filters are made of.
        lifts: Whether inputs are images (n, channels, h, w). Filters over them have no slices to
            sum over: "full" and "pointwise" are then θ(c', c, s), the lifting convolution.
        bias: Whether the stages have biases.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If there is no such group or form, or a number is out of range.

    Example:
        >>> from isotropy.nn import record
        >>> model = nn.Sequential(GroupConv2d(3, 4, lifts=True), nn.ReLU(), GroupConv2d(4, 5))
        >>> with record(model) as operations:
        ...     y = model(x := torch.randn(2, 3, 6, 6))
        >>> y.shape
        torch.Size([2, 5, 4, 6, 6])
        >>> turned = model[0].group.turn_slices(y, 1)
        >>> torch.allclose(model(x.rot90(1, (2, 3))), turned, atol=1e-5)
        True
        >>> for operation in operations:
        ...     print(operation.parameter, tuple(operation.input_rows().shape), operation.axes)
        0.filter.weight (2, 4, 36, 27) ('group', 'space')
        0.filter.bias (2, 4, 36, 1) ('group', 'space')
        2.filter.weight (2, 4, 36, 144) ('group', 'space')
        2.filter.bias (2, 4, 36, 1) ('group', 'space')

        A convolution of 2 channels over the 6 elements of S(3):

        >>> from isotropy.groups import S
        >>> from isotropy.nn import Linear
        >>> from isotropy.reps import Regular
        >>> layer = Linear(2 * Regular, 5 * Regular, S(3), bias=False)
        >>> layer.coefficients.numel() == 5 * 2 * 6
        True
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        *,
        group: GridGroupName = "p4",
        form: Form = "full",
        lifts: bool = False,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if form not in get_args(Form):
            choices = ", ".join(map(repr, get_args(Form)))
            raise ValueError(f"expected form {choices}, got {form!r}")
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"expected {name} of at least 1, got {count!r}")
        if not isinstance(kernel_size, int) or kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"expected an odd kernel size, got {kernel_size!r}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.form, self.lifts = kernel_size, form, lifts
        self.group = GridGroup(group)
        kind: dict[str, Any] = {"group": self.group, "bias": bias, "device": device, "dtype": dtype}
        into, slices = in_channels, self.group.order
        reads: Reads = "image" if lifts else "own slice"
        if form in ("full", "pointwise"):
            reads = "all slices" if form == "full" and not lifts else reads
            self.filter = RotatedKernelConv2d(into, out_channels, kernel_size, reads=reads, **kind)
            return
        wide = {"depthwise": True, **kind}
        self.spatial = RotatedKernelConv2d(into, into, kernel_size, reads=reads, **wide)
        if form == "separable":
            start = 1 / (slices * sqrt(into))
            self.mixing = RotatedKernelConv2d(
                into, out_channels, 1, reads="all slices", start=start, **kind
            )
        else:
            start = 1 / slices
            self.mixing = RotatedKernelConv2d(
                into, into, 1, reads="all slices", start=start, **wide
            )
            self.channels = RotatedKernelConv2d(into, out_channels, 1, reads="own slice", **kind)

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        for stage in self.children():
            assert isinstance(stage, RotatedKernelConv2d)
            stage.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in, K, h, w), or (n, in, h, w) where it lifts, to (n, out, K, h, w)."""
        for stage in self.children():
            x = stage(x)
        return x

    def extra_repr(self) -> str:
        """The arguments, for ``print``."""
        lifts = ", lifts=True" if self.lifts else ""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"group={self.group.name!r}, form={self.form!r}{lifts}"
        )
