"""How many parameters the data determine (MacKay 1992; paper D.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from isotropy.evidence._precision_groups import Groups, groups_of


@dataclass(frozen=True)
class EffectiveParameters:
    """γ = Σ λ/(λ + δ) over the eigenvalues λ of the curvature, against prior precisions δ.

    Args:
        counts: γ by group, between 0 and the group's number of parameters.
        sizes: The number of parameters of each group.

    Example:
        >>> found = EffectiveParameters({"conv": 60.0, "dense": 1.0}, {"conv": 90, "dense": 4096})
        >>> print(round(found.total), round(found.normalised["conv"], 3))
        61 0.667
        >>> print(round(found.relative()["conv"], 4))
        0.9996
    """

    counts: dict[str, float]
    sizes: dict[str, int]

    @property
    def total(self) -> float:
        """γ of all groups together."""
        return sum(self.counts.values())

    @property
    def normalised(self) -> dict[str, float]:
        """γ over the number of parameters, by group: the share that the data determine."""
        return {name: count / self.sizes[name] for name, count in self.counts.items()}

    def relative(self, groups: Iterable[str] | None = None) -> dict[str, float]:
        """The normalised number over its sum, for groups that compete for one job.

        Args:
            groups: Which ones, such as the paths of a layer; all where None.

        Raises:
            ValueError: If a group is not there.
        """
        names = list(self.counts) if groups is None else list(groups)
        for name in names:
            if name not in self.counts:
                raise ValueError(f"expected groups of {', '.join(self.counts)}, got {name!r}")
        shares = self.normalised
        whole = sum(shares[name] for name in names)
        # where the data determine nothing, nothing is preferred
        return {name: shares[name] / whole if whole else 1 / len(names) for name in names}

    def by(self, groups: Groups) -> EffectiveParameters:
        """The same with groups put together: (Σ γ)/(Σ P) is then the normalised number.

        Args:
            groups: As for ``laplace``: from the names of groups here to those of larger ones.
        """
        larger = groups_of(self.counts, groups)
        counts: dict[str, float] = {}
        sizes: dict[str, int] = {}
        for name, group in larger.items():
            counts[group] = counts.get(group, 0.0) + self.counts[name]
            sizes[group] = sizes.get(group, 0) + self.sizes[name]
        return EffectiveParameters(counts, sizes)

    def __str__(self) -> str:
        width = max(map(len, self.counts), default=0)
        digits = max((len(str(size)) for size in self.sizes.values()), default=0)
        lines = [f"{'':{width}}  effective  {'of':>{digits}}   share"]
        lines += [
            f"{name:{width}}  {count:9.1f}  {self.sizes[name]:>{digits}}  "
            f"{self.normalised[name]:6.1%}"
            for name, count in self.counts.items()
        ]
        return "\n".join(lines)
