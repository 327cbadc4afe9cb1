"""The network whose layers choose their own symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, Unpack, get_args

from torch import Tensor, nn

from isotropy.nn._circular_conv import CircularConv2d
from isotropy.nn._constants import Factory
from isotropy.nn._factored_linear import FactoredLinear
from isotropy.nn._grid_network import GridGroupName
from isotropy.nn._group_conv import Form, GroupConv2d, Lift, OnSlices
from isotropy.nn._map_linear import MapLinear
from isotropy.nn._path_sum import PathSum
from isotropy.nn._polyphase_pool import GroupPool, PolyphasePool2d
from isotropy.nn._radial_basis import BasisKind
from isotropy.nn._sparse_conv import SparseConv2d
from isotropy.nn._sparse_linear import SparseLinear

Path: TypeAlias = Literal["fc", "factored", "sparse_fc", "conv", "sparse_conv", "group_conv"]

# channels out in units of alpha, and whether the map is halved (paper Table 6, as it is meant)
_LAYERS = (
    (1, False),
    (2, True),
    (2, False),
    (4, True),
    (4, False),
    (8, True),
    (8, True),
    (16, True),
)
_CONVOLUTIONS = ("conv", "sparse_conv", "group_conv")


class LayerwiseNetwork(nn.Module):
    """Eight layers of parallel paths, each with priors of its own, and two plain ones.

    The architecture of van der Ouderaa et al. (2023), Table 6: 3×3 circular convolutions with
    α, 2α, …, 16α channels, maps halved five times from 32×32 to 1×1, ReLU, then 16α → 64α →
    classes. Every layer is the mean of its paths:

    - "conv": equivariant to shifts;
    - "group_conv": to shifts and the turns (and flips) of ``group``;
    - "fc", "factored": to nothing; all pairs of places, or a factored form of that;
    - "sparse_conv", "sparse_fc": "conv" and "factored" with few anchor points.

    Convolutions that share a layer are halved together, by the phase that their sum is largest
    in, sample by sample, so that they stay exactly equivariant to shifts. With "group_conv" all
    features have a slice for each turn, which other paths take for further channels, and the
    largest over slices goes on to the plain layers.

    Where all paths but convolutions are zero, a network for 32×32 images is exactly invariant to
    circular shifts, and with "group_conv" alone to turns (and flips), too. Larger images end in
    maps of more than one place, which the plain layers tell apart.

    Args:
        in_channels: Channels of the images.
        classes: The number of outputs.
        paths: Which paths every layer has.
        alpha: The width α.
        size: The height and width of images, a multiple of 32.
        group: The group of "group_conv": "p4" or "p4m".
        form: The form of its convolutions, as for ``GroupConv2d``.
        per_slice: Whether each slice chooses its own phase in halving. With "group_conv" alone, in
            the pointwise form, the outputs are then those of one network of convolutions, pooled
            over the turned images (appendix F.3), exactly.
        basis: The kind of the bases of sparse paths, as for ``RadialBasis``; where None, what
            ``SparseLinear`` and ``SparseConv2d`` have. Published are "interpolating" ones.
        **factory: ``device``, where the parameters live, and ``dtype``, their precision.

    Attributes:
        layers: The ``PathSum`` of every layer.
        paths: The names of its paths.

    Raises:
        TypeError: If ``paths`` is a single name.
        ValueError: If a path is unknown or named twice, a number is not a positive whole one,
            maps cannot be halved five times, the group, form or basis is unknown, or slices that
            meet are to choose one by one.

    Example:
        >>> import torch
        >>> net = LayerwiseNetwork(1, 10, paths=("factored", "conv"), alpha=2)
        >>> net(torch.randn(5, 1, 32, 32)).shape
        torch.Size([5, 10])
        >>> sum(p.numel() for p in LayerwiseNetwork(1, 10, paths=("conv",)).parameters())
        338590
    """

    def __init__(
        self,
        in_channels: int,
        classes: int,
        *,
        paths: Sequence[Path] = ("factored", "conv"),
        alpha: int = 10,
        size: int = 32,
        group: GridGroupName = "p4",
        form: Form = "pointwise",
        per_slice: bool = False,
        basis: BasisKind | None = None,
        **factory: Unpack[Factory],
    ) -> None:
        super().__init__()
        self.paths = _checked(paths)
        for name, number in (
            ("in_channels", in_channels),
            ("classes", classes),
            ("alpha", alpha),
            ("size", size),
        ):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ValueError(f"expected a positive whole number as {name}, got {number!r}")
        if size % 32:
            raise ValueError(
                f"expected images of a size that can be halved five times (32, 64, …), got {size}"
            )
        if group not in get_args(GridGroupName) or form not in get_args(Form):
            raise ValueError(
                f"expected a group of {', '.join(get_args(GridGroupName))} and a form of "
                f"{', '.join(get_args(Form))}, got {group!r} and {form!r}"
            )
        if per_slice and (self.paths != ("group_conv",) or form != "pointwise"):
            raise ValueError(
                "expected the path 'group_conv' alone and the form 'pointwise' for slices that "
                f"choose one by one, got {', '.join(self.paths)} and {form!r}"
            )
        self.image = (in_channels, size, size)
        lifted = "group_conv" in self.paths
        self.lift = Lift(group) if lifted else None
        layers = []
        before = in_channels
        for units, halves in _LAYERS:
            after, smaller = units * alpha, size // 2 if halves else size
            made: dict[str, nn.Module] = {
                path: _path(
                    path, (before, after), (size, smaller), self.lift, form, basis, {**factory}
                )
                for path in self.paths
            }
            pooled = [path for path in self.paths if path in _CONVOLUTIONS and halves]
            pool = PolyphasePool2d(per_slice=per_slice) if pooled else None
            layers.append(PathSum(made, average=True, pool=pool, pooled=pooled))
            before, size = after, smaller
        self.layers = nn.ModuleList(layers)
        self.pool = GroupPool() if lifted else None
        self.hidden = nn.Linear(before * size * size, 64 * alpha, **factory)
        self.head = nn.Linear(64 * alpha, classes, **factory)
        nn.init.zeros_(self.hidden.bias)
        nn.init.zeros_(self.head.bias)
        self.to(factory.get("device"))  # variances of the priors, too

    def forward(self, x: Tensor) -> Tensor:
        """Images (n, channels, size, size) to outputs (n, classes)."""
        if x.shape[1:] != self.image:
            shape = ", ".join(map(str, self.image))
            raise ValueError(f"expected images of shape (n, {shape}), got {tuple(x.shape)}")
        if self.lift is not None:
            x = self.lift(x)
        for layer in self.layers:
            x = layer(x).relu()
        if self.pool is not None:
            x = self.pool(x)
        y: Tensor = self.head(self.hidden(x.flatten(1)).relu())
        return y


def _checked(paths: Sequence[Path]) -> tuple[Path, ...]:
    known = get_args(Path)
    if isinstance(paths, str):
        raise TypeError(f"expected a sequence of paths, got {paths!r}: write [{paths!r}]")
    wanted: tuple[Path, ...] = tuple(paths)
    for path in wanted:
        if path not in known:
            raise ValueError(f"expected paths of {', '.join(known)}, got {path!r}")
    if not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f"expected one or more paths, each once, got {list(wanted)}")
    return wanted


def _path(
    path: Path,
    channels: tuple[int, int],
    sizes: tuple[int, int],
    lift: Lift | None,
    form: Form,
    basis: BasisKind | None,
    kind: dict[str, Any],
) -> nn.Module:
    """One path of one layer; convolutions keep the size, which a pool halves."""
    if path == "group_conv":
        assert lift is not None
        return GroupConv2d(*channels, 3, group=lift.group.name, form=form, **kind)
    slices = 1 if lift is None else lift.group.order
    into, out = (slices * number for number in channels)
    made: nn.Module
    if path.startswith("sparse") and basis is not None:
        kind = {**kind, "basis": basis}
    if path == "conv":
        made = CircularConv2d(into, out, 3, **kind)
    elif path == "sparse_conv":
        made = SparseConv2d(into, out, 3, **kind)
    else:
        layer = {"fc": MapLinear, "factored": FactoredLinear, "sparse_fc": SparseLinear}[path]
        made = layer(into, out, *sizes, **kind)
    return made if lift is None else OnSlices(made, slices)
