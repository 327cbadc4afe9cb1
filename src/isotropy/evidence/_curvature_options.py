"""How curvature is computed: options, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from isotropy.evidence._sharing import SharingModes
from isotropy.evidence._sums import Structure

Passes: TypeAlias = Literal["exact", "sampled", "signs", "summed"]
_SUMMED = 16  # squares of each entry and batch: with one alone, log(1 + h/δ) would be far off


@dataclass(frozen=True)
class CurvatureOptions:
    """How curvature is computed.

    Args:
        structure: Its form.
        passes: "exact" for one backward pass for each column of the root of the output
            curvature, "sampled" for labels drawn from the model, "signs" for random signs,
            "summed" for random signs that are summed over the samples of a batch, too.
        probes: How many random passes; None for 1, or for 16 where they are summed.
        sharing: What is done along shared axes.
        seed: Of the random passes.
        create_graph: Whether the sums keep the graph they came from.
    """

    structure: Structure = "kronecker"
    passes: Passes = "exact"
    probes: int | None = None
    sharing: SharingModes = field(default_factory=lambda: SharingModes.of("expand"))
    seed: int = 0
    create_graph: bool = False

    def __post_init__(self) -> None:
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
