"""What checking a certificate costs, estimated before anything is built: bytes can ask for much.

Estimates are from above, in bytes and in seconds of one core, by constants that were measured and
doubled. They depend on the certificate and the shape of the data alone, not on the machine, so
that every verifier refuses the same files.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf, isqrt, prod

from torch import nn

from isotropy._run import amount
from isotropy.certificates._architectures import Architecture
from isotropy.certificates._group_code import most_generators
from isotropy.certificates._header import Rejected
from isotropy.certificates._hypothesis import Hypothesis
from isotropy.certificates._initial import film_names
from isotropy.certificates._kronecker_projectors import kronecker_shapes
from isotropy.groups import Group

MOST_MEMORY = 4 * 10**9
MOST_SECONDS = 600.0

# an exact decoder of bits takes a second for 15 kB; a message is decoded, and written again
_SECONDS_PER_BYTE = 3 / 10_000
# a parameter is in float32, in float64, in the start, in its copies and among random words
_BYTES_PER_PARAMETER = 80
_SECONDS_PER_PARAMETER = 5e-7
# drawing a random number, or writing one where it belongs
_SECONDS_PER_ENTRY = 2e-8
_SECONDS_PER_SCATTERED_ENTRY = 1e-7
_BYTES_PER_ENTRY = 48
_SECONDS_PER_FLOP = 2.5e-10
_MOST_KEPT = 1 << 25  # entries that projectors keep rather than make anew
# of spaces of maps that commute with a group: see `benchmarks/verification_price.py`
_BYTES_PER_LABEL = 150
_SECONDS_PER_LABEL = 2e-6
_SECONDS_OF_ITERATIONS = 30.0
# orbits of the maps between two layers under one generator: to begin with, and for each label
_SECONDS_PER_GENERATOR, _SECONDS_PER_MOVED_LABEL = 3e-3, 1e-8


@dataclass(frozen=True)
class Price:
    """Bytes at the peak, and seconds of one core.

    Example:
        >>> Price(10, 1.0) + Price(5, 2.0)
        Price(memory=15, seconds=3.0)
    """

    memory: int = 0
    seconds: float = 0.0

    def __add__(self, other: Price) -> Price:
        return Price(self.memory + other.memory, self.seconds + other.seconds)


@dataclass(frozen=True)
class Limit:
    """The most that checking may cost.

    Args:
        memory: Bytes.
        seconds: Of one core.

    Example:
        >>> Limit(memory=10**9).require(Price(2 * 10**9, 1.0))
        Traceback (most recent call last):
        ...
        isotropy.certificates._header.Rejected: checking it takes about 2 GB of memory, and at ...
    """

    memory: int = MOST_MEMORY
    seconds: float = MOST_SECONDS

    def __post_init__(self) -> None:
        if not self.memory > 0 or not self.seconds > 0:
            raise ValueError(
                f"expected positive limits of memory and time, got {self.memory} bytes and "
                f"{self.seconds} seconds"
            )

    def require(self, price: Price) -> None:
        """Refuse a price over the limit."""
        if price.memory > self.memory:
            raise Rejected(
                f"checking it takes about {price.memory / 1e9:.3g} GB of memory, and at most "
                f"{self.memory / 1e9:.3g} GB are allowed (--most-memory)"
            )
        if price.seconds > self.seconds:
            raise Rejected(
                f"checking it takes about {amount(round(price.seconds))} seconds of one core, and "
                f"at most {self.seconds:g} are allowed (--most-time)"
            )


UNLIMITED = Limit(memory=1 << 62, seconds=inf)


def decoding_price(message: bytes) -> Price:
    """Of a message, before it is decoded."""
    return Price(1000 * len(message), 0.05 + len(message) * _SECONDS_PER_BYTE)


def space_price(architecture: Architecture, shape: tuple[int, ...]) -> Price:
    """Of what a symmetric network is made of besides its weights: orbits, and spaces of maps."""
    group, sizes = architecture.group, architecture.sizes
    if group is None:
        return Price()
    if architecture.name == "mlp" and architecture.space is None:
        # labels of the maps between two copies of the places, and of all weights
        copies = [max(1, round(width / group.d)) * group.d for width in sizes]
        layers = [prod(shape), *copies]
        labels = group.d**2 + sum(a * b for a, b in pairwise(layers))
        moves = most_generators(group)
        moving = _SECONDS_PER_GENERATOR + group.d**2 * _SECONDS_PER_MOVED_LABEL
        return Price(
            labels * _BYTES_PER_LABEL + moves * (6000 + 24 * group.d),
            labels * _SECONDS_PER_LABEL + moves * len(layers) * moving,
        )
    if architecture.name == "mlp":
        size, several = _largest_space(architecture, group.d)
        # groups given by generators are solved by decompositions alone, whatever their size
        dense = size if type(group) is Group else min(size, 1000)
        generators = len(group.discrete) + len(group.algebra)
        # a triangle for each generator, then singular values of the last
        decompositions = several * (4 * generators + 25) * dense**3 * _SECONDS_PER_FLOP
        iterations = _SECONDS_OF_ITERATIONS if size > dense else 0.0
        memory = 200 * dense**2 + 16 * 8 * size * min(size, 512)
        return Price(memory, 0.1 + decompositions + iterations)
    if architecture.name == "lenet5" and architecture.variant == "shared":
        side = [-(-(-(-(side - 4) // 2) - 4) // 2) for side in shape[1:]]
        pixels = side[0] * side[1]
        members = pixels * (pixels // 4 + side[0] + side[1])
        return Price(16 * members, members * _SECONDS_PER_ENTRY)
    return Price()


def _largest_space(architecture: Architecture, d: int) -> tuple[int, int]:
    """The size of the largest maps between tensors that are solved for, and how many such.

    Maps of each tensor to itself are solved for too: layers are split by them.
    """
    assert architecture.space is not None
    given = architecture.space.orders().values()
    hidden = (sum(width // 3 >= d**order for order in (1, 2)) for width in architecture.sizes)
    highest = max(*given, *hidden)
    kinds = 1 + sum(order == highest for order in given)
    return d ** (2 * highest), kinds


def network_price(hypothesis: Hypothesis, module: nn.Module) -> Price:
    """Of the parameters and the projector."""
    total = sum(parameter.numel() for parameter in module.parameters())
    parameters = Price(total * _BYTES_PER_PARAMETER, total * _SECONDS_PER_PARAMETER)
    return parameters + _projector_price(hypothesis, module, total)


def _projector_price(hypothesis: Hypothesis, module: nn.Module, total: int) -> Price:
    kind, d = hypothesis.projector, hypothesis.d
    if d == 0 or kind == "identity":
        return Price()
    price = Price()
    if kind.startswith("film"):
        own = dict(module.named_parameters())
        moved = sum(own[name].numel() for name in film_names(module))
        price += _entries(moved * d)
    if kind.endswith(("kronecker", "kronecker-orthonormal")):
        try:
            factors = kronecker_shapes(total, d)
        except ValueError as error:
            raise Rejected(f"the message cannot be decoded into a network: {error}") from None
        (_, b1), (a2, b2) = factors
        entries = sum(rows * columns for rows, columns in factors)
        flops = 2 * total * b1 + 2 * b1 * b2 * a2
        if kind == "kronecker-orthonormal":
            flops += sum(8 * rows * columns**2 for rows, columns in factors)
        price += Price(
            entries * _BYTES_PER_ENTRY + 48 * total,
            entries * _SECONDS_PER_ENTRY + flops * _SECONDS_PER_FLOP,
        )
    if kind == "kronecker-sum":
        price += _entries(2 * (isqrt(total) + 1) * d)
    if kind == "dense":
        price += _entries(total * d)
    if kind == "sparse":
        entries = isqrt(total) * d
        kept = min(entries, _MOST_KEPT)
        price += Price(kept * _BYTES_PER_ENTRY, entries * _SECONDS_PER_SCATTERED_ENTRY)
    if kind == "fastfood":
        entries = 2 * max(total, d)
        steps = entries * max(1, d.bit_length()) * 64
        seconds = entries * _SECONDS_PER_SCATTERED_ENTRY + steps * _SECONDS_PER_FLOP
        price += Price(entries * _BYTES_PER_ENTRY * 2, seconds)
    return price


def _entries(count: int) -> Price:
    """Of a matrix of normal numbers, kept where it is small."""
    return Price(min(count, _MOST_KEPT) * _BYTES_PER_ENTRY, count * _SECONDS_PER_ENTRY)
