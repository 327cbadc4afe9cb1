"""Every network of the catalogue a second time, as a function of its parameters and of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod, sqrt

import numpy as np

from attacks.second_bits import require
from attacks.second_equivariant import (
    KINDS,
    Block,
    Projection,
    Tensor,
    Term,
    hidden_terms,
    linear,
    terms_of,
)
from attacks.second_generators import generators, is_plain, orbits
from attacks.second_groups import Group
from attacks.second_image_networks import image_network
from attacks.second_layers import (
    Architecture,
    Layer,
    Network,
    Parameter,
    Shape,
    linear_layer,
    relu,
    standardised,
)

MOST_PARAMETERS = 50_000_000
MOST_WEIGHTS = 10_000_000
_SMALLEST_SIDES = {"lenet5": 13, "convnet": 8, "resnet20": 8}


def network_of(architecture: Architecture, shape: Shape, outputs: int) -> Network:
    """The network for inputs of a shape.

    Raises:
        Wrong: If there is none, or it is too large.
    """
    name = architecture.name
    require(len(shape) in ((1, 3) if name == "mlp" else (3,)), "inputs of another kind")
    require(min(shape) >= 1 and prod(shape) <= 10_000_000, "inputs of another size")
    if name != "mlp":
        require(min(shape[1:]) >= _SMALLEST_SIDES[name], "images are too small")
        turns = architecture.group is not None and architecture.group.kind != "GridFlips"
        require(not turns or shape[1] == shape[2], "images are not square")
    net = _built(architecture, shape, outputs)
    require(net.size <= MOST_PARAMETERS, "a network is too large")
    return net


@lru_cache(maxsize=64)
def _built(architecture: Architecture, shape: Shape, outputs: int) -> Network:
    if architecture.name != "mlp":
        return image_network(architecture, shape, outputs)
    net = Network()
    if len(shape) == 3:
        net.layers.append(lambda _, x: standardised(x))
    net.layers.append(lambda _, x: x.reshape(len(x), -1))
    if architecture.group is None:
        sizes = [prod(shape), *architecture.sizes]
        for into, out in pairwise(sizes):
            linear_layer(net, into, out)
            net.layers.append(relu)
        linear_layer(net, sizes[-1], outputs, film=True)
    elif architecture.variant == "shared":
        _shared(net, prod(shape), outputs, architecture.sizes, architecture.group)
    else:
        spaces = [(count, KINDS[kind]) for count, kind in architecture.space]
        _equivariant(net, prod(shape), outputs, architecture.sizes, spaces, architecture.group)
    return net


# --- perceptrons with a symmetry --------------------------------------------------------------


@lru_cache(maxsize=32)
def _pair_orbits(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """The orbits of places, shape (d,), and of pairs of places, (d, d), by first appearance."""
    discrete, algebra = generators(group)
    require(not algebra and all(map(is_plain, discrete)), "the group does not permute")
    d = group.d
    moves = [h.index for h in discrete]
    pairs = [(move[:, None] * d + move).ravel() for move in moves]
    return orbits(moves, d), orbits(pairs, d * d).reshape(d, d)


def _shared(net: Network, features: int, outputs: int, widths: Shape, group: Group) -> None:
    d = group.d
    require(features % d == 0, "inputs are no copies of the group's places")
    copies = [features // d, *(max(1, round(width / d)) for width in widths)]
    weights = sum(a * b * d * d for a, b in pairwise(copies))
    require(weights <= MOST_WEIGHTS, "layers are too large")
    places, pairs = _pair_orbits(group)
    ranks = places.max() + 1, pairs.max() + 1

    def hidden(into: int, out: int) -> Layer:
        theta, bias = net.add(
            Parameter((out * into * ranks[1],), sqrt(1 / (into * d))),
            Parameter((out * ranks[0],)),
        )

        def apply(tensors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
            blocks = tensors[theta].reshape(out, into, -1)[:, :, pairs]
            weight = blocks.transpose(0, 2, 1, 3).reshape(out * d, into * d)
            return x @ weight.T + tensors[bias].reshape(out, -1)[:, places].ravel()

        return apply

    for into, out in pairwise(copies):
        net.layers += [hidden(into, out), relu]
    last = copies[-1]
    theta, bias = net.add(
        Parameter((outputs * last * ranks[0],), sqrt(1 / (last * d)), film=True),
        Parameter((outputs,), film=True),
    )

    def head(tensors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
        weight = tensors[theta].reshape(outputs, last, -1)[:, :, places].reshape(outputs, -1)
        return x @ weight.T + tensors[bias]

    net.layers.append(head)


def _equivariant(
    net: Network,
    features: int,
    outputs: int,
    widths: Shape,
    spaces: list[tuple[int, Tensor]],
    group: Group,
) -> None:
    net.has_bases = True
    before = terms_of(group, spaces)
    require(sum(t.count * t.size for t in before) == features, "inputs of another size")
    weights = sum(a * b for a, b in pairwise([features, *widths]))
    require(weights <= MOST_WEIGHTS, "layers are too large")
    for width in widths:
        after = hidden_terms(width, group)
        block = Block(group, before, after)
        out, into = block.weights.shape
        added = net.add(
            Parameter((out, into), 0.85 * sqrt(1 / into)),
            Parameter((out,)),
            *(Parameter(shape, 1.0) for shape in block.products.shapes),
        )
        net.layers.append(lambda tensors, x, b=block, at=added: b([tensors[i] for i in at], x))
        before = after
    scalars = [Term(outputs, (), 1)]
    readout = Projection(group, before, scalars)
    constant = Projection(group, [Term(1, (), 1)], scalars)
    out, into = readout.shape
    weight, bias = net.add(
        Parameter((out, into), 0.85 * sqrt(1 / into), film=True), Parameter((out,), film=True)
    )
    net.layers.append(
        lambda tensors, x: linear(readout, constant, tensors[weight], tensors[bias], x)
    )
