"""A network as a message: self-delimiting bits that say all of it, and a decoder for them.

The message, in order:

1. the architecture: one of the catalogue with its sizes and its group, or a module of the user's
   own (one bit, then the groups that it is declared to use);
2. what counts as an error, and the scale of the inputs;
3. θ₀: drawn from the seed, zero, given in advance, or trained on a share of the rows;
4. the seed; the dimension d; the projector; the number of levels; the codebook; the symbols.

Every field is prefix-free given those before it, hence so is the whole, and padding to bytes keeps
it so: Σ 2^(-8 · bytes) ≤ 1 over all messages. That sum is the prior of the bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from isotropy.certificates._architectures import Architecture
from isotropy.certificates._bits import BitReader, BitWriter
from isotropy.certificates._codebooks import read_codebook, write_codebook
from isotropy.certificates._goal import Goal, read_half, write_half
from isotropy.certificates._group_code import read_group, write_group
from isotropy.certificates._header import Rejected
from isotropy.certificates._initial import film_names
from isotropy.certificates._projectors import PROJECTORS
from isotropy.certificates._sequences import read_sequence, write_sequence
from isotropy.certificates._subspace import Subspace
from isotropy.groups import Group

StartKind = Literal["drawn", "zero", "given", "rows"]
_STARTS: tuple[StartKind, ...] = ("drawn", "zero", "given", "rows")

MOST_DIMENSIONS = 1 << 21
MOST_LEVELS = 1 << 8
# either takes about two minutes to multiply by
MOST_ENTRIES = 1 << 34
MOST_SCATTERED_ENTRIES = 1 << 31
_MOST_GROUPS = 16
_SEEDS = 1 << 64


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """All that determines a network, but for a user's own module and tensors.

    Args:
        architecture: One of the catalogue, or ``None`` for a module that the decoder is given.
        goal: What counts as an error.
        symbols: Which level each of the d coordinates takes.
        codebook: The levels, ascending 16-bit numbers.
        projector: One of `PROJECTORS`.
        seed: Of θ₀ and the projector.
        start: What θ₀ is.
        percent: With the start ``"rows"``, the share of the rows that θ₀ was trained on.
        input_scale: Inputs are divided by this 16-bit number, where it is given.
        groups: The groups that a user's own module is declared to use; their names are paid for.

    Example:
        >>> from isotropy.certificates import architecture
        >>> net = Hypothesis(
        ...     architecture("mlp-16"),
        ...     Goal("classification", 2),
        ...     np.array([0, 1, 1, 0]),
        ...     np.array([-1, 1], np.float16),
        ... )
        >>> message = net.to_message()
        >>> len(message), Hypothesis.from_message(message).symbols.tolist()
        (..., [0, 1, 1, 0])
    """

    architecture: Architecture | None
    goal: Goal
    symbols: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    codebook: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float16))
    projector: str = "kronecker"
    seed: int = 0
    start: StartKind = "drawn"
    percent: int | None = None
    input_scale: float | None = None
    groups: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        if (self.percent is None) != (self.start != "rows"):
            raise ValueError(f"expected a percentage for the start 'rows' alone, got {self.start}")
        if len(self.groups) > _MOST_GROUPS:
            raise ValueError(f"expected at most {_MOST_GROUPS} groups, got {len(self.groups)}")
        if self.d > MOST_DIMENSIONS:
            raise ValueError(f"expected at most {MOST_DIMENSIONS} dimensions, got {self.d}")
        if self.groups and self.architecture is not None:
            raise ValueError("expected declared groups for a user's own module alone")

    @property
    def d(self) -> int:
        """The dimension of the subspace."""
        return len(self.symbols)

    def to_message(self) -> bytes:
        """The message; its length in bits is what a bound charges."""
        writer = BitWriter()
        writer.below(int(self.architecture is None), 2)
        if self.architecture is None:
            writer.natural(len(self.groups))
            for group in self.groups:
                write_group(writer, group)
        else:
            self.architecture.write(writer)
        self.goal.write(writer)
        writer.below(int(self.input_scale is not None), 2)
        if self.input_scale is not None:
            write_half(writer, self.input_scale)
        writer.choice(self.start, _STARTS)
        if self.percent is not None:
            writer.below(self.percent, 100)
        writer.natural(self.seed)
        writer.natural(self.d)
        if self.d:
            writer.natural(PROJECTORS.index(self.projector))
            writer.natural(len(self.codebook))
            write_codebook(writer, self.codebook)
            write_sequence(writer, self.symbols, len(self.codebook))
        return writer.to_bytes()

    @classmethod
    def from_message(cls, message: bytes) -> Hypothesis:
        """Decode a message.

        Nothing is built or run, and memory stays in proportion to the dimension, which is capped.

        Raises:
            Rejected: If the bytes are not a message.
        """
        reader = BitReader(message)
        groups: tuple[Group, ...] = ()
        architecture = None
        if reader.below(2):
            groups = tuple(read_group(reader) for _ in range(reader.natural(limit=_MOST_GROUPS)))
        else:
            architecture = Architecture.read(reader)
        goal = Goal.read(reader)
        input_scale = read_half(reader) if reader.below(2) else None
        start = _STARTS[_STARTS.index(reader.choice(_STARTS))]
        percent = reader.below(100) if start == "rows" else None
        seed = reader.natural(limit=_SEEDS - 1)
        d = reader.natural(limit=MOST_DIMENSIONS)
        projector, codebook, symbols = "kronecker", np.zeros(0, np.float16), np.zeros(0, np.int64)
        if d:
            projector = PROJECTORS[reader.natural(limit=len(PROJECTORS) - 1)]
            levels = reader.natural(limit=MOST_LEVELS)
            if levels == 0:
                raise Rejected("the message has weights but no levels for them")
            codebook = read_codebook(reader, levels)
            symbols = read_sequence(reader, d, levels)
        reader.finish()
        return cls(
            architecture,
            goal,
            symbols,
            codebook,
            projector,
            seed,
            start,
            percent,
            input_scale,
            groups,
        )

    def network(
        self,
        module: nn.Module,
        start: Mapping[str, Tensor] | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> Subspace:
        """The network, on the CPU.

        Args:
            module: The architecture's module, or the user's own.
            start: θ₀, where it is given or was trained.
            dtype: Of its numbers.

        Raises:
            ValueError: If the message has more dimensions than the module has parameters, or than
                its projector can have, or if that projector has too many entries.
        """
        self.require_work(module, self.d)
        given = {"drawn": None, "zero": "zero"}.get(self.start, start or "given")
        net = Subspace(
            module, self.d, projector=self.projector, seed=self.seed, start=given, dtype=dtype
        )
        levels = torch.from_numpy(self.codebook.astype(np.float64)).to(dtype)
        if self.d:
            with torch.no_grad():
                net.weights.copy_(levels[torch.from_numpy(self.symbols)])
        return net.eval()

    def require_work(self, module: nn.Module, d: int) -> None:
        """Refuse a projector that takes days to multiply by: a few bytes can name one.

        Raises:
            ValueError: If a matrix of d columns has more entries than `verify` would make.
        """
        parameters = sum(parameter.numel() for parameter in module.parameters())
        most = MOST_ENTRIES
        if self.projector == "sparse":
            entries, most = d * math.isqrt(parameters), MOST_SCATTERED_ENTRIES
        elif self.projector == "dense":
            entries = d * parameters
        elif self.projector.startswith("film"):
            own = dict(module.named_parameters())
            entries = d * sum(own[name].numel() for name in film_names(module))
        else:
            return
        if entries > most:
            raise ValueError(
                f"expected a {self.projector} projector of at most {most} entries, got {entries}"
            )
