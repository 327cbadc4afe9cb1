"""What a message says of a network, read from its bits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from attacks.second_bits import MOST_LEVELS, MOST_SYMBOLS, Bits, codebook, require, sequence
from attacks.second_generators import generators, is_plain
from attacks.second_groups import Group, read_group
from attacks.second_layers import DEFAULTS, Architecture
from attacks.second_projectors import PROJECTORS

_STARTS = ("drawn", "zero", "given", "rows")


@dataclass(frozen=True)
class Message:
    """What the message says."""

    architecture: Architecture | None
    groups: tuple[Group, ...]
    outputs: int
    tolerance: float | None
    scale: float
    input_scale: float | None
    start: str
    percent: int
    seed: int
    projector: str = "kronecker"
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))


def decode(message: bytes) -> Message:
    """Read a message.

    Raises:
        Wrong: If it is none.
    """
    bits = Bits(message)
    architecture, groups = None, ()
    if bits.flag():
        groups = tuple(read_group(bits) for _ in range(bits.natural(16)))
    else:
        architecture = _architecture(bits)
    regression = bits.flag()
    outputs = bits.natural(1 << 16)
    require(outputs, "there are no outputs")
    tolerance = bits.positive_half() if regression else None
    scale = bits.positive_half() if regression else 1.0
    input_scale = bits.positive_half() if bits.flag() else None
    start = _STARTS[bits.number(2)]
    percent = bits.one_of(100) if start == "rows" else 0
    seed, d = bits.natural((1 << 64) - 1), bits.natural(MOST_SYMBOLS)
    said = architecture, groups, outputs, tolerance, scale, input_scale, start, percent, seed
    if d == 0:
        bits.finish()
        return Message(*said)
    projector = PROJECTORS[bits.natural(len(PROJECTORS) - 1)]
    levels = bits.natural(MOST_LEVELS)
    require(levels, "there are no levels")
    book = codebook(bits, levels)
    weights = book[sequence(bits, d, levels)]
    bits.finish()
    return Message(*said, projector, weights)


def _architecture(bits: Bits) -> Architecture:
    name, default = list(DEFAULTS.items())[bits.number(2)]
    sizes = default
    if default and bits.flag():
        depth = bits.natural(15) + 1 if name == "mlp" else 1
        sizes = tuple(bits.natural(4095) + 1 for _ in range(depth))
        require(sizes != default, "default sizes have a shorter code")
    if not bits.flag():
        return Architecture(name, sizes)
    variant = ("equivariant", "shared")[bits.number(1)]
    group = read_group(bits)
    space: tuple[tuple[int, int], ...] = ()
    if name == "mlp" and variant == "equivariant":
        count = bits.natural(15) + 1
        space = tuple((bits.natural(4095) + 1, bits.one_of(6)) for _ in range(count))
        require(group.d <= 8 and not group.is_complex, "no such group of real matrices")
    elif name == "mlp":
        require(group.d <= 4096 and not group.is_complex, "no such group of permutations")
        discrete, algebra = generators(group)
        require(not algebra and all(map(is_plain, discrete)), "the group does not permute")
    else:
        known = {("p4", (3,)), ("p4m", (3,))}
        known |= {("GridFlips", (2,))} if variant == "shared" else set()
        require((group.kind, group.integers) in known, "no such group of images")
    return Architecture(name, sizes, variant, group, space)
