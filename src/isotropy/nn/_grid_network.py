"""A classifier of images whose hidden layers are grids too, and commute with groups of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy.bases import pair_orbits
from isotropy.groups import Grid, GridTransformation, grid_transformations
from isotropy.groups import Monomial as Permutation
from isotropy.groups._block_systems import components
from isotropy.nn._shared_linear import SharedLinear

GridGroupName: TypeAlias = Literal["p4", "p4m"]


@dataclass(frozen=True)
class GridGroup:
    """What p4 and p4m have besides shifts: elements k that keep the middle of a grid in place.

    Element k < 4 is k quarter turns counterclockwise, as ``torch.rot90`` has it; element 4 + k is
    left swapped with right, then k quarter turns. That is the order of slices in the regular
    representations of ``isotropy.groups.p4`` and ``p4m``.

    Raises:
        ValueError: If the name is another.

    Example:
        >>> GridGroup("p4m").order
        8
        >>> GridGroup("p4").turn(torch.tensor([[1, 2], [3, 4]]), 1)
        tensor([[2, 4],
                [1, 3]])
    """

    name: GridGroupName

    def __post_init__(self) -> None:
        if self.name not in get_args(GridGroupName):
            choices = " or ".join(map(repr, get_args(GridGroupName)))
            raise ValueError(f"expected group {choices}, got {self.name!r}")

    @property
    def order(self) -> int:
        """The number of elements."""
        return 4 if self.name == "p4" else 8

    def turn(self, x: Tensor, k: int) -> Tensor:
        """Images (*, n, n) turned by element k: (kx)(p) = x(k⁻¹p)."""
        return torch.rot90(x.flip(-1) if k >= 4 else x, k % 4, (-2, -1))

    def turn_slices(self, x: Tensor, k: int) -> Tensor:
        """Features (*, K, n, n) turned by element k: (kx)(j, p) = x(k⁻¹j, k⁻¹p).

        Example:
            >>> x = torch.randn(2, 3, 4, 5, 5)
            >>> group = GridGroup("p4")
            >>> y = group.turn_slices(x, 1)
            >>> torch.equal(y[:, :, 1], group.turn(x[:, :, 0], 1))
            True
        """
        return self.turn(x[..., self.quotients()[k].to(x.device), :, :], k)

    def quotients(self) -> Tensor:
        """Which element j⁻¹k is, shape (K, K) for (j, k).

        With r a quarter turn and m the flip, m r = r⁻¹ m, hence

            (rˢ mᵃ)⁻¹ (rᵗ mᵇ) = r^{±(t−s)} m^{a+b},    minus where a = 1.
        """
        k = torch.arange(self.order)
        turns, flipped = k % 4, k // 4
        sign = 1 - 2 * flipped[:, None]
        return sign * (turns - turns[:, None]) % 4 + 4 * ((flipped + flipped[:, None]) % 2)

    def places(self, size: int) -> Tensor:
        """Where each place of a turned kernel is in the kernel, shape (K, size²).

        Example:
            >>> kernel, group = torch.randn(3, 3), GridGroup("p4")
            >>> turned = kernel.flatten()[group.places(3)[1]]
            >>> torch.equal(turned.reshape(3, 3), group.turn(kernel, 1))
            True
        """
        grid = torch.arange(size * size).reshape(size, size)
        return torch.stack([self.turn(grid, k).flatten() for k in range(self.order)])


def grid_sharing(
    transformations: Sequence[GridTransformation], grids: Sequence[Grid], channels: int = 1
) -> list[Tensor]:
    """Which weights of each layer from one grid to the next are equal, for all groups together.

    Args:
        transformations: Of the grids; none for layers that are free.
        grids: Of the image and of each hidden layer.
        channels: Of the image, each with weights of its own.

    Returns:
        Labels of each layer, shape (cells of the next grid, cells of this one); of the first one
        the cells of all channels.

    Example:
        >>> [layer] = grid_sharing([GridTransformation("rotation")], [4, 2])
        >>> layer.shape, int(layer.max()) + 1  # a quarter of the 64 weights
        (torch.Size([4, 16]), 16)
    """
    moves = [one.permutations(*grids) for one in transformations]
    if not moves:
        sizes = [_cells(grid) for grid in grids]
        pairs = zip(sizes[1:], sizes[:-1], strict=True)
        layers = [torch.arange(n * m).reshape(n, m) for n, m in pairs]
    else:
        layers = [
            pair_orbits([move[k + 1] for move in moves], [move[k] for move in moves])
            for k in range(len(grids) - 1)
        ]
    count = int(layers[0].max()) + 1
    layers[0] = torch.cat([layers[0] + channel * count for channel in range(channels)], 1)
    return layers


class GridNetwork(nn.Module):
    """Image → hidden grids → logits, with hidden layers that commute with groups of grids.

    Weights from one grid to the next are equal wherever a transformation takes one to the other
    (Basu et al. 2021, section 4), and so are biases. The last layer is free, as there: hidden
    layers are equivariant, logits are whatever the classes need.

    Args:
        image: Channels, height and width.
        transformations: Of image and hidden grids, or their names; none for free layers.
        hidden: The side of each hidden grid.
        classes: How many logits.
        published: One scalar bias for each hidden layer, added behind the rectifier, and weights
            drawn by the number of orbits, as in the paper's own code.
        standardise: A mean and a deviation of all pixels; one of each, so that every permutation
            of pixels still acts.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If a transformation does not act on one of the grids.

    Example:
        >>> network = GridNetwork((1, 28, 28), ["rotation", "vertical flip"])
        >>> network(torch.rand(5, 1, 28, 28)).shape
        torch.Size([5, 10])
        >>> free = GridNetwork((1, 28, 28), published=True)
        >>> sum(p.numel() for p in free.parameters())
        477612
    """

    standard: Tensor
    sharing = staticmethod(grid_sharing)

    def __init__(
        self,
        image: tuple[int, int, int],
        transformations: Iterable[GridTransformation | str] = (),
        *,
        hidden: Sequence[int] = (20, 20),
        classes: int = 10,
        published: bool = False,
        standardise: tuple[float, float] = (0.0, 1.0),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not hidden:
            raise ValueError("expected at least one hidden grid, got none")
        self.image, self.hidden, self.published = image, tuple(hidden), published
        self.transformations = tuple(
            one if isinstance(one, GridTransformation) else grid_transformations([one])[0]
            for one in transformations
        )
        self.register_buffer("standard", torch.tensor(standardise, device=device, dtype=dtype))
        grids: list[Grid] = [image[1:], *hidden]
        kwargs: dict[str, Any] = {"device": device, "dtype": dtype}
        self.layers = nn.ModuleList()
        for number, labels in enumerate(grid_sharing(self.transformations, grids, image[0])):
            bias = False if published else self._shared_biases(grids, number + 1)
            self.layers.append(SharedLinear(labels, bias=bias, **kwargs))
        self.head = nn.Linear(_cells(grids[-1]), classes, **kwargs)
        self.shifts = nn.ParameterList()
        if published:
            self._start_as_published()

    def _shared_biases(self, grids: list[Grid], number: int) -> Tensor:
        """Which cells of one grid have equal biases."""
        moves = (Permutation(one.permutations(*grids)[number]) for one in self.transformations)
        return components(moves, _cells(grids[number]))

    def _start_as_published(self) -> None:
        for layer in self.layers:
            assert isinstance(layer, SharedLinear)
            bound = layer.coefficients.numel() ** -0.5
            nn.init.uniform_(layer.coefficients, -bound, bound)
            shift = layer.coefficients.new_empty(()).uniform_(-bound, bound)
            self.shifts.append(nn.Parameter(shift.detach()))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images, shape (n, channels, height, width) or (n, pixels)."""
        x = (x.flatten(1) - self.standard[0]) / self.standard[1]
        for number, layer in enumerate(self.layers):
            x = layer(x).relu()
            if self.published:
                x = x + self.shifts[number]
        found: Tensor = self.head(x)
        return found

    def dense_weights(self) -> dict[str, Tensor]:
        """Full matrices and biases by name, from which a network with other groups may start."""
        found = {
            name: value.detach() for name, value in self.head.state_dict(prefix="head.").items()
        }
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, SharedLinear)
            found[f"layers.{number}.weight"] = layer.weight.detach()
            bias = self.shifts[number] if self.published else layer.bias
            assert bias is not None
            found[f"layers.{number}.bias"] = bias.detach()
        return found

    @torch.no_grad()
    def start_from(self, weights: Mapping[str, Tensor]) -> GridNetwork:
        """Take the weights of another network of the same widths, averaged over orbits.

        Adding a group only merges orbits: the mean of what was learned is the nearest network
        that has the symmetry.

        Args:
            weights: The `dense_weights` of a network with other groups, or none.

        Returns:
            This network.

        Raises:
            ValueError: If the other has other widths or another kind of bias.
        """
        mine = {name: tuple(value.shape) for name, value in self.dense_weights().items()}
        theirs = {name: tuple(value.shape) for name, value in weights.items()}
        if mine != theirs:
            raise ValueError(f"expected weights of shapes {mine}, got {theirs}")
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, SharedLinear)
            weight, bias = (weights[f"layers.{number}.{part}"] for part in ("weight", "bias"))
            own = layer.coefficients
            own.copy_(layer.weight_space.coordinates(weight.to(own)))
            if layer.bias_space is None:
                self.shifts[number].copy_(bias)
            else:
                assert layer.bias_coefficients is not None
                layer.bias_coefficients.copy_(layer.bias_space.coordinates(bias.to(own)))
        self.head.load_state_dict({part: weights[f"head.{part}"] for part in ("weight", "bias")})
        return self


def _cells(grid: Grid) -> int:
    return grid * grid if isinstance(grid, int) else prod(grid)
