"""How curvature is computed: options, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, TypeAlias, get_args

import torch

from isotropy.evidence._sharing import Sharing, SharingModes
from isotropy.evidence._sums import Structure

Passes: TypeAlias = Literal["exact", "sampled", "signs", "summed"]
_SUMMED = 16  # squares of each entry and batch: with one alone, log(1 + h/δ) would be far off


@dataclass(frozen=True)
class CurvatureOptions:
    """How the curvature of a Laplace approximation is computed; numbers of numpy become Python's.

    Args:
        structure: The form of the curvature: "kronecker" (KFAC), "block", "diagonal" or "full",
            see ``laplace``.
        passes: "exact" for as many backward passes as there are outputs; "sampled" for labels
            drawn from the model; "signs" for random combinations. The latter two estimate the
            output factors from ``probes`` passes, for many outputs. "summed" for random
            combinations of all outputs of a batch, which needs ``structure="diagonal"``.
        probes: The number of random passes for each batch; 1 where None, and 16 for "summed".
        sharing: What KFAC does along axes that share weights: "expand" (rows as if they were
            samples), "reduce" (their mean and sum), "exact" (no factors), or one of these for
            each of "space" (positions of a map), "position" (other axes), "group" (things that
            a group permutes), "component" (of vectors; "expand" or "exact") and "channel"
            (blocks, each with an output factor of its own by default).
        subset: Take so many samples at random, for all of them; None for all.
        batch_size: Samples that go through the network together; a loader has its own.
        seed: Of the subset and of random passes.
        process_group: Add up over its processes, each with its own share of the data; None for
            one process.

    Raises:
        TypeError: If ``sharing`` is neither a mode nor a map.
        ValueError: If an option is unknown or out of range.

    Example:
        >>> from torch import nn
        >>> from isotropy.evidence import laplace
        >>> x, model = torch.randn(50, 3), nn.Linear(3, 1)
        >>> data = x, x.sum(1)
        >>> found = laplace(
        ...     model, "regression", data, curvature=CurvatureOptions("full", subset=20)
        ... )
        >>> found.log_marginal_likelihood().shape
        torch.Size([])
    """

    structure: Structure = "kronecker"
    passes: Passes = "exact"
    probes: int | None = None
    sharing: Sharing = "expand"
    subset: int | None = None
    batch_size: int = 256
    seed: int = 0
    process_group: torch.distributed.ProcessGroup | None = None

    def __post_init__(self) -> None:
        for name in ("probes", "subset", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, Integral) and not isinstance(value, bool):
                object.__setattr__(self, name, int(value))
        if isinstance(self.sharing, Mapping):
            object.__setattr__(self, "sharing", dict(self.sharing))
        for name, kind in (("structure", Structure), ("passes", Passes)):
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                names = ", ".join(map(repr, known))
                raise ValueError(f"expected {name} {names}, got {value!r}")
        probes = self.random_passes
        if isinstance(probes, bool) or not isinstance(probes, int) or probes < 1:
            raise ValueError(f"expected a positive number of probes, got {probes!r}")
        if self.is_summed and self.structure != "diagonal":
            raise ValueError(
                f"expected structure='diagonal' with passes='summed', got {self.structure!r}"
            )
        SharingModes.of(self.sharing)

    @classmethod
    def given(cls, curvature: CurvatureOptions | None) -> CurvatureOptions:
        """What a caller asks for, or the defaults.

        Raises:
            TypeError: If it is something else.
        """
        if curvature is not None and not isinstance(curvature, cls):
            got = type(curvature).__name__
            raise TypeError(f"expected CurvatureOptions as curvature, got {got}")
        return cls() if curvature is None else curvature

    @property
    def is_summed(self) -> bool:
        """Whether backward passes go to parameters, not to outputs of recorded operations."""
        return self.passes == "summed"

    @property
    def random_passes(self) -> int:
        """How many there are for each batch, where there are any."""
        if self.probes is None:
            return _SUMMED if self.is_summed else 1
        return self.probes

    @property
    def sharing_modes(self) -> SharingModes:
        """What is done along each shared axis."""
        return SharingModes.of(self.sharing)
