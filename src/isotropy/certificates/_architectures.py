"""The catalogue of networks that a certificate can name in a few bits.

What a network is made of besides its weights is part of the hypothesis, and is paid for: the
code of an architecture is prefix-free, under a prior that this file publishes.

    name                                   2 bits
    sizes, but for lenet5                  1 bit where they are the default; else Elias' codes
    plain, or not                          1 bit
    equivariant or shared                  1 bit
    group                                  the bits of ``isotropy.groups.encode``
    representation (mlp equivariant)       Elias' codes and 3 bits a term

The side of the grid that p4, p4m and GridFlips act on is that of the images, known before any
label is; their code is that of their smallest grid.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Literal, Self, TypeAlias, cast

import torch
from torch import nn

from isotropy.bases import solved_anew
from isotropy.certificates._bits import BitReader, BitWriter
from isotropy.certificates._group_code import read_group, write_group
from isotropy.certificates._header import Rejected
from isotropy.certificates._image_networks import (
    Classifier,
    Device,
    Layers,
    Variant,
    convnet,
    lenet5,
    resnet20,
)
from isotropy.certificates._orbit_layers import ImageGroup
from isotropy.certificates._tensor_sums import TensorSum
from isotropy.certificates._vector_networks import (
    LARGEST_DIMENSION,
    equivariant_mlp,
    mlp,
    shared_mlp,
)
from isotropy.groups import GridFlips, Group, p4, p4m, parse_group

Name: TypeAlias = Literal["mlp", "lenet5", "convnet", "resnet20"]

WIDEST = 4096
DEEPEST = 16
MOST_PARAMETERS = 50_000_000
MOST_CLASSES = 65_536
MOST_INPUTS = 10_000_000
LARGEST_GROUP_SPACE = 4096
# half a minute: a group in numbers can be made to take any time
MOST_ITERATED = 1e8

_DEFAULTS: dict[str, tuple[int, ...]] = {
    "mlp": (150, 150, 150),
    "lenet5": (),
    "convnet": (16,),
    "resnet20": (16,),
}
_NAMES = tuple(_DEFAULTS)
_SMALLEST_SIDES = {"lenet5": 13, "convnet": 8, "resnet20": 8}
_LENET_WIDTH = 500
_BUILDERS: dict[str, Callable[[tuple[int, int, int], int, int, Layers], Classifier]] = {
    "lenet5": lenet5,
    "convnet": convnet,
    "resnet20": resnet20,
}
_VARIANTS = ("equivariant", "shared")
_IMAGE_GROUPS = {"p4": p4, "p4m": p4m, "GridFlips": GridFlips}
_WITH_TURNS = ("p4", "p4m")


@dataclass(frozen=True)
class Architecture:
    """A network of the catalogue, but for the shape of its inputs and the number of classes.

    Networks for images:

    - ``lenet5``: 5×5 convolutions to 20 and 50 channels, then 500 units;
    - ``convnet``: nine 3×3 convolutions, k and 2k channels (thesis Table A.20), k = 16;
    - ``resnet20``: residual, 16, 32 and 64 channels, shortcuts without parameters.

    Equivariant ones have group convolutions over p4 or p4m, so few channels that the number of
    parameters is as near as possible to the plain network's; shared ones have kernels that are
    constant on the orbits of p4, p4m or GridFlips, and as many channels. Their logits do not
    change as images are turned. Networks for vectors, or images flattened:

    - ``mlp``: hidden layers with ReLU, 150 units in each of three;
    - ``mlp shared GROUP``: weights shared on the orbits of permutations of the inputs;
    - ``mlp equivariant GROUP REP``: the equivariant perceptron for inputs on which the group acts
      by REP, a sum of scalars, vectors and tensors of order two.

    No network has a state besides its parameters. Normalisation is a function of one input, group
    normalisation where the literature has batch normalisation: running statistics would be
    training data that the message does not carry. For the same reason images are standardised
    each by its own mean and deviation.

    Args:
        name: Which network.
        sizes: Widths of hidden layers; k; or channels of the first stage. None for lenet5.
        variant: "plain", "equivariant" or "shared".
        group: The group, where it is not plain; for images p4(3), p4m(3) or GridFlips(2) stand for
            all sides.
        space: How it acts on inputs, for an equivariant mlp.

    Raises:
        ValueError: If there is no such network, or one of its sizes is too large.

    Example:
        >>> Architecture("convnet", (16,), "equivariant", p4(3))
        Architecture('convnet equivariant p4')
    """

    name: Name
    sizes: tuple[int, ...]
    variant: Variant = "plain"
    group: Group | None = None
    space: TensorSum | None = None

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise ValueError(f"expected a network among {', '.join(_NAMES)}, got {self.name!r:.80}")
        self._require_sizes()
        if self.variant != "plain" and self.variant not in _VARIANTS:
            raise ValueError(
                f"expected a variant plain, {', '.join(_VARIANTS)}, got {self.variant!r:.80}"
            )
        if self.variant == "plain":
            if self.group is not None or self.space is not None:
                raise ValueError(f"expected no group for a plain {self.name}, got one")
        elif self.name == "mlp":
            self._require_matrices()
        else:
            self._require_image_group()

    def _require_sizes(self) -> None:
        deepest = DEEPEST if self.name == "mlp" else len(_DEFAULTS[self.name])
        fewest = min(1, deepest)
        if not fewest <= len(self.sizes) <= deepest:
            count = str(fewest) if fewest == deepest else f"{fewest} to {deepest}"
            raise ValueError(f"expected {count} sizes for {self.name}, got {len(self.sizes)}")
        for size in self.sizes:
            if not 1 <= size <= WIDEST:
                raise ValueError(f"expected sizes from 1 to {WIDEST}, got {size!s:.20}")

    def _require_image_group(self) -> None:
        allowed = _WITH_TURNS if self.variant == "equivariant" else tuple(_IMAGE_GROUPS)
        if self.space is not None:
            raise ValueError(f"expected no representation for {self.name}, got {self.space}")
        if self.group not in map(_image_group, allowed):
            raise ValueError(
                f"expected a group {', '.join(allowed)} for {self.name} {self.variant}, got "
                f"{self.group!s:.80}"
            )

    def _require_matrices(self) -> None:
        if self.group is None:
            raise ValueError(f"expected a group for mlp {self.variant}, got none")
        name = f"{self.group!s:.80}"
        shared = self.variant == "shared"
        if shared != (self.space is None):
            wanted = "no representation" if shared else "a representation of the inputs"
            raise ValueError(f"expected {wanted} for mlp {self.variant} {name}, got {self.space}")
        largest = LARGEST_GROUP_SPACE if shared else LARGEST_DIMENSION
        if self.group.d > largest:
            raise ValueError(
                f"expected a group on at most {largest} dimensions for mlp {self.variant}, got "
                f"{name} on {self.group.d}"
            )
        write_group(BitWriter(), self.group)  # what has no code cannot be paid for
        if shared and not self.group.is_permutation:
            raise ValueError(f"expected a group of permutations for mlp shared, got {name}")
        if self.group.is_complex:
            raise ValueError(f"expected a group of real matrices for mlp equivariant, got {name}")

    def build(
        self, input_shape: tuple[int, ...], classes: int, *, device: Device = None
    ) -> Classifier:
        """The network, in float32, with PyTorch's random weights; see ``initial`` for θ₀.

        Args:
            input_shape: Of one input, (channels, h, w), or (features,) for an mlp.
            classes: How many logits.
            device: Where the parameters live; torch's default device where None. On "meta" they
                take no memory.

        Raises:
            ValueError: If the network is not for such inputs, or has more than 50 million
                parameters; nothing large is allocated before that is known.

        Example:
            >>> model = architecture("resnet20 shared p4").build((3, 32, 32), 10)
            >>> model(torch.zeros(2, 3, 32, 32)).shape
            torch.Size([2, 10])
        """
        device = torch.get_default_device() if device is None else torch.device(device)
        # constants are computed, whatever the parameters are on, and trusted to no file
        elsewhere = torch.get_default_device().type != "cpu"
        on_cpu = torch.device("cpu") if elsewhere else nullcontext()
        with on_cpu, solved_anew(most_work=MOST_ITERATED, clear_ranks=True):
            width = self._width(input_shape, classes)
            empty = self._network(input_shape, classes, width, "meta").to("meta", torch.float32)
            count = _parameters(empty)
            if count > MOST_PARAMETERS:
                raise ValueError(
                    f"expected at most {MOST_PARAMETERS} parameters, got {count} for {self}"
                )
            if device.type == "meta":
                return empty
            return self._network(input_shape, classes, width, device).to(device, torch.float32)

    def parameter_count(self, input_shape: tuple[int, ...], classes: int) -> int:
        """The number D of parameters, known before any has memory.

        Args:
            input_shape: Of one input.
            classes: How many logits.

        Raises:
            ValueError: As ``build`` does.

        Example:
            >>> architecture("lenet5").parameter_count((1, 28, 28), 10)
            431080
        """
        return _parameters(self.build(input_shape, classes, device="meta"))

    def _width(self, shape: tuple[int, ...], classes: int) -> int:
        """Of a network for images: as asked, or what makes an equivariant one as large."""
        self.require_inputs(shape, classes)
        asked = self.sizes[0] if self.sizes else _LENET_WIDTH
        if self.variant != "equivariant" or self.name == "mlp":
            return asked
        plain = Architecture(self.name, self.sizes)
        wanted = _parameters(plain._network(shape, classes, asked, "meta"))

        def excess(width: int) -> int:
            return _parameters(self._network(shape, classes, width, "meta")) - wanted

        low, high = 1, asked  # a group convolution is never smaller than a plain one
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
        return min((low, high), key=lambda width: (abs(excess(width)), width))

    def require_inputs(self, shape: tuple[int, ...], classes: int) -> None:
        """Refuse inputs that the network is not for.

        Args:
            shape: Of one input.
            classes: How many logits.

        Raises:
            ValueError: If they are of another shape, too small or too many.
        """
        if not 1 <= classes <= MOST_CLASSES:
            raise ValueError(f"expected 1 to {MOST_CLASSES} classes, got {classes}")
        vectors = self.name == "mlp"
        if len(shape) not in ((1, 3) if vectors else (3,)):
            wanted = "(features,) or (channels, h, w)" if vectors else "(channels, h, w)"
            hint = f"; give images as (n, 1, {shape[0]}, {shape[1]})" if len(shape) == 2 else ""
            raise ValueError(f"expected inputs {wanted} for {self}, got shape {tuple(shape)}{hint}")
        if min(shape) < 1 or prod(shape) > MOST_INPUTS:
            raise ValueError(
                f"expected inputs of 1 to {MOST_INPUTS} numbers, got shape {tuple(shape)}"
            )
        if vectors:
            return
        smallest = _SMALLEST_SIDES[self.name]
        if min(shape[1:]) < smallest:
            raise ValueError(
                f"expected images (channels, h, w) of at least {smallest} by {smallest} for "
                f"{self.name}, got {shape[0]} channels of {shape[1]} by {shape[2]}"
            )
        if shape[1] != shape[2] and self._image_group in _WITH_TURNS:
            raise ValueError(f"expected square images for {self}, got {shape[1]} by {shape[2]}")

    @property
    def _image_group(self) -> ImageGroup | None:
        return None if self.group is None else cast(ImageGroup, type(self.group).__name__)

    def _network(
        self, shape: tuple[int, ...], classes: int, width: int, device: Device
    ) -> Classifier:
        if self.name != "mlp":
            layers = Layers(self.variant, self._image_group, device)
            channels, height, across = shape
            return _BUILDERS[self.name]((channels, height, across), classes, width, layers)
        if self.group is None:
            return mlp(shape, classes, self.sizes, device)
        if self.space is None:
            return shared_mlp(shape, classes, self.sizes, self.group, device)
        return equivariant_mlp(shape, classes, self.sizes, self.space.rep(), self.group, device)

    @property
    def code_length(self) -> int:
        """What naming it costs, in bits: the network, its sizes, its group and space.

        Example:
            >>> architecture("lenet5").code_length, architecture("lenet5 shared p4").code_length
            (3, 17)
        """
        writer = BitWriter()
        self.write(writer)
        return len(writer)

    def write(self, writer: BitWriter) -> None:
        """Write the code of the architecture.

        Args:
            writer: Where to.

        Example:
            >>> architecture("lenet5").write(writer := BitWriter())
            >>> len(writer)
            3
        """
        writer.choice(self.name, _NAMES)
        if default := _DEFAULTS[self.name]:
            writer.below(int(self.sizes != default), 2)
            if self.sizes != default:
                if self.name == "mlp":
                    writer.natural(len(self.sizes) - 1)
                for size in self.sizes:
                    writer.natural(size - 1)
        writer.below(int(self.variant != "plain"), 2)
        if self.group is not None:
            writer.choice(self.variant, _VARIANTS)
            write_group(writer, self.group)
        if self.space is not None:
            self.space.write(writer)

    @classmethod
    def read(cls, reader: BitReader) -> Self:
        """Read what ``write`` wrote, from bits that nobody vouches for.

        Args:
            reader: Where from.

        Raises:
            Rejected: If the bits are no architecture's code.
        """
        name = cast(Name, reader.choice(_NAMES))
        sizes = default = _DEFAULTS[name]
        if default and reader.below(2):
            depth = reader.natural(limit=DEEPEST - 1) + 1 if name == "mlp" else 1
            sizes = tuple(reader.natural(limit=WIDEST - 1) + 1 for _ in range(depth))
            if sizes == default:
                raise Rejected(f"expected the short code for the default sizes of {name}")
        if not reader.below(2):
            return cls(name, sizes)
        variant = cast(Variant, reader.choice(_VARIANTS))
        group = read_group(reader)
        space = TensorSum.read(reader) if (name, variant) == ("mlp", "equivariant") else None
        try:
            return cls(name, sizes, variant, group, space)
        except Rejected:
            raise
        except ValueError as error:
            raise Rejected(str(error)) from error

    def __str__(self) -> str:
        sizes = () if self.sizes == _DEFAULTS[self.name] else self.sizes
        words = ["-".join([self.name, *map(str, sizes)])]
        if self.group is not None:
            named = str(self.group) if self.name == "mlp" else type(self.group).__name__
            words += [self.variant, named]
        if self.space is not None:
            words.append(str(self.space))
        return " ".join(words)

    def __repr__(self) -> str:
        return f"Architecture({str(self)!r})"


def architecture(text: str) -> Architecture:
    """Read an architecture as ``str`` writes it: name, sizes, and what symmetry it has.

    Args:
        text: For example ``lenet5``, ``mlp-300-100``, ``convnet-16 equivariant p4``, ``resnet20
            shared p4m``, ``mlp shared S(5)``, ``mlp-64-64 equivariant SO(3) 2*V+Scalar``.

    Raises:
        TypeError: If it is no text.
        ValueError: If it names no network of the catalogue.

    Example:
        >>> architecture("convnet-16 equivariant p4m")
        Architecture('convnet equivariant p4m')
        >>> architecture("vgg")
        Traceback (most recent call last):
        ...
        ValueError: expected a network among mlp, lenet5, convnet, resnet20, got 'vgg'
    """
    if not isinstance(text, str):
        raise TypeError(f"expected the text of an architecture, got {type(text).__name__}")
    words = text.split(None, 2)
    if not words:
        raise ValueError("expected an architecture such as lenet5, got an empty text")
    word, *numbers = words[0].split("-")
    for number in numbers:
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise ValueError(f"expected sizes such as 300-100 after {word:.80}, got {number!r:.80}")
    name = cast(Name, word)
    plain = Architecture(name, tuple(map(int, numbers)) or _DEFAULTS.get(word, ()))
    if len(words) == 1:
        return plain
    variant = cast(Variant, words[1])
    if variant not in _VARIANTS:
        raise ValueError(
            f"expected a variant {' or '.join(_VARIANTS)} after {word}, got {variant!r:.80}"
        )
    return _with_symmetry(plain, variant, words[2].split() if len(words) == 3 else [])


def _with_symmetry(plain: Architecture, variant: Variant, named: list[str]) -> Architecture:
    """The variant of a network under the group, and in the space, that some words name."""
    name, sizes = plain.name, plain.sizes
    if name != "mlp":
        group = _image_group(" ".join(named))
        if group is None:
            raise ValueError(
                f"expected a group {', '.join(_IMAGE_GROUPS)} after {name} {variant}, got "
                f"{' '.join(named)!r:.80}"
            )
        return Architecture(name, sizes, variant, group)
    space: TensorSum | None = None
    if variant == "equivariant":
        if len(named) < 2:
            raise ValueError(
                "expected a group and a representation after mlp equivariant, such as SO(3) "
                f"2*V+Scalar, got {' '.join(named)!r:.80}"
            )
        space = TensorSum.parse(named.pop())
    elif not named:
        raise ValueError("expected a group after mlp shared, such as S(5), got none")
    return Architecture(name, sizes, variant, parse_group(" ".join(named)), space)


def _image_group(name: str) -> Group | None:
    kind = _IMAGE_GROUPS.get(name)
    return None if kind is None else kind(kind.smallest)


def _parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
