"""Multilayer perceptrons: plain, shared under permutations of the inputs, equivariant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.certificates._image_networks import Classifier, Device
from isotropy.groups import Group
from isotropy.nn import EMLPBlock, Linear
from isotropy.reps import Rep, Scalar, T, V

# a label of 8 bytes may stand for each, in several arrays
MOST_WEIGHTS = 10_000_000
# a layer between tensors of order two solves for d⁴ numbers
LARGEST_DIMENSION = 8


def mlp(shape: tuple[int, ...], classes: int, widths: Sequence[int], device: Device) -> Classifier:
    """Linear layers with ReLU between them, on flattened inputs.

    Example:
        >>> mlp((4,), 3, [8], None)(torch.zeros(2, 4)).shape
        torch.Size([2, 3])
    """
    steps: list[nn.Module] = [nn.Flatten()]
    for into, out in pairwise([prod(shape), *widths]):
        steps += [nn.Linear(into, out, device=device), nn.ReLU()]
    return Classifier(shape, nn.Sequential(*steps), nn.Linear(widths[-1], classes, device=device))


def shared_mlp(
    shape: tuple[int, ...], classes: int, widths: Sequence[int], group: Group, device: Device
) -> Classifier:
    """A perceptron that shares weights by the orbits of a permutation group of its inputs.

    Hidden layers are as many copies of the inputs' places as come nearest to their width, one at
    least; logits do not change as inputs are permuted.

    Raises:
        ValueError: If inputs are no copies of the group's places, or layers are too large.

    Example:
        >>> from isotropy.groups import S
        >>> model = shared_mlp((5,), 3, [20], S(5), None)
        >>> x = torch.randn(2, 5)
        >>> torch.allclose(model(x), model(x.flip(1)), atol=1e-5)
        True
    """
    features = prod(shape)
    if features % group.d:
        raise ValueError(
            f"expected inputs of {group.d} numbers, or a multiple, for {group.name:.80}, got "
            f"{features}"
        )
    copies = [features // group.d, *(max(1, round(width / group.d)) for width in widths)]
    _require_weights([group.d * count for count in copies], group)
    steps: list[nn.Module] = [nn.Flatten()]
    for into, out in pairwise(copies):
        steps += [Linear(into * V, out * V, group, device=device), nn.ReLU()]
    head = Linear(copies[-1] * V, classes * Scalar, group, device=device)
    return Classifier(shape, nn.Sequential(*steps), head)


class ProjectedLinear(nn.Module):
    r"""y = √(mn/r) Π(W) x + Π(b): any matrix, projected on the equivariant ones.

    Π is the orthogonal projection on the r-dimensional space of matrices (m × n) that commute
    with the group. It does not depend on the basis of that space that was found, whose signs and
    rotations differ from one machine to another; coefficients would, and a certificate could not
    travel. The factor gives Π(W) the squared norm of W, on average over random W.

    Example:
        >>> from isotropy.groups import SO
        >>> layer = ProjectedLinear(Linear(V, V, SO(3)), None)
        >>> y = layer(torch.eye(3))  # a multiple of the identity
        >>> torch.allclose(y, y[0, 0] * torch.eye(3), atol=1e-6)
        True
    """

    def __init__(self, layer: Linear, device: Device) -> None:
        super().__init__()
        self.space, self.bias_space = layer.weight_space, layer.bias_space
        out, into = layer.out_features, layer.in_features
        self.scale = (out * into / self.space.rank) ** 0.5
        self.weight = nn.Parameter(torch.empty(out, into, device=device))
        nn.init.normal_(self.weight, std=into**-0.5)
        bias = None if self.bias_space is None else torch.zeros(out, device=device)
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in) to (n, out)."""
        weight = self.scale * self.space(self.space.coordinates(self.weight))
        bias: Tensor | None = None
        if self.bias is not None and self.bias_space is not None:
            bias = self.bias_space(self.bias_space.coordinates(self.bias))
        return functional.linear(x, weight, bias)


def equivariant_mlp(
    shape: tuple[int, ...],
    classes: int,
    widths: Sequence[int],
    rep: Rep,
    group: Group,
    device: Device,
) -> Classifier:
    """The equivariant perceptron of the thesis (2.6), with logits that the group leaves alone.

    Hidden layers are scalars, vectors and tensors of order two, a third of the width for each as
    far as they fit, with gates and bilinear parts; linear layers are ``ProjectedLinear``.

    Raises:
        ValueError: If inputs are of another size than the representation, or layers are too large.

    Example:
        >>> from isotropy.groups import SO
        >>> model = equivariant_mlp((6,), 2, [20], 2 * V, SO(3), None)
        >>> model(torch.zeros(4, 6)).shape
        torch.Size([4, 2])
    """
    rep = rep(group)
    if prod(shape) != rep.size():
        raise ValueError(f"expected inputs of {rep.size()} numbers for {rep}, got {prod(shape)}")
    _require_weights([rep.size(), *widths], group)
    blocks: list[nn.Module] = [nn.Flatten()]
    before = rep
    for width in widths:
        after = _hidden(width, group)
        block = EMLPBlock(before, after, device=device)
        # the block calls whatever stands here
        block.linear = ProjectedLinear(block.linear, device)  # type: ignore[assignment]
        blocks.append(block)
        before = after
    head = ProjectedLinear(Linear(before, classes * Scalar, group, device=device), device)
    return Classifier(shape, nn.Sequential(*blocks), head)


def _require_weights(sizes: Sequence[int], group: Group) -> None:
    count = sum(into * out for into, out in pairwise(sizes))
    if count > MOST_WEIGHTS:
        raise ValueError(
            f"expected layers of at most {MOST_WEIGHTS} weights before {group.name:.80} makes them "
            f"fewer, got {count}"
        )


def _hidden(width: int, group: Group) -> Rep:
    d, share = group.d, width // 3
    vectors, pairs = share // d, share // (d * d)
    scalars = max(1, width - vectors * d - pairs * d * d)
    if group.is_orthogonal:
        counts = {Scalar: scalars, V: vectors, T(2): pairs}
    else:
        counts = {Scalar: scalars, V: vectors - vectors // 2, V.T: vectors // 2, T(1, 1): pairs}
    terms = [count * rep for rep, count in counts.items() if count]
    return sum(terms[1:], terms[0])(group)
