"""Normalising data so that it still transforms as it did: means and scales that a group keeps."""

from __future__ import annotations

from typing import Self

import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

from isotropy.bases import equivariant_basis
from isotropy.reps import Rep

_ZERO = 1e-9
_CONSTANT = 1e-6


def linked_entries(rep: Rep) -> Tensor:
    """A number for every entry, the same for those that a group mixes or exchanges, shape (n,).

    For signed permutations these are the orbits of entries.

    Example:
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import Pseudoscalar, V
        >>> linked_entries((Pseudoscalar + V)(Z(2)))
        tensor([0, 1, 1])
    """
    algebra, discrete = rep.generators()
    linked = torch.eye(rep.size(), dtype=torch.float64)
    for generator in (*algebra, *discrete):
        linked = linked + generator.dense().abs()
    links = csr_array((linked > _ZERO).numpy())
    return torch.from_numpy(connected_components(links, directed=False)[1]).long()


class InvariantMoments:
    """Means and variances of data, turned into ones that commute with a group.

    Of a mean remains its invariant part, the mean of its images, μ = ∫ ρ(g) m dg. Entries that
    the group mixes share one variance σ² = mean of ∫ diag ρ(g) E[(x−μ)(x−μ)ᵀ] ρ(g)ᵀ dg over them,
    which is their mean square about μ. Then (ρ(g) x − μ)/σ = ρ(g) (x − μ)/σ.

    Args:
        rep: How the group acts; by orthogonal matrices.

    Raises:
        ValueError: If some are not.
    """

    def __init__(self, rep: Rep) -> None:
        algebra, discrete = ([g.dense() for g in some] for some in rep.generators())
        eye = torch.eye(rep.size(), dtype=torch.float64)
        apart = [h @ h.mT - eye for h in discrete] + [a + a.mT for a in algebra]
        if any(bool((part.abs() > _ZERO).any()) for part in apart):
            raise ValueError("expected a group that keeps lengths, got matrices not orthogonal")
        self.size = rep.size()
        self.entries = linked_entries(rep)
        self.counts = self.entries.bincount()
        self.projector = equivariant_basis(rep).project(eye).mT.contiguous()

    def __call__(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and variance to use, from those of each entry, shape (n,) each, in float64."""
        kept = self.projector @ mean
        squares = variance + (mean - kept).square()
        sums = squares.new_zeros(len(self.counts)).index_add(0, self.entries, squares)
        return kept, (sums / self.counts)[self.entries]

    def largest(self, x: Tensor) -> Tensor:
        """For every entry the largest among those that the group mixes with it, shape (n,)."""
        most = x.new_zeros(len(self.counts))
        return most.scatter_reduce(0, self.entries, x, "amax", include_self=False)[self.entries]


class EquivariantScaler(nn.Module):
    """Standardising data in a way that commutes with a group: x ↦ (x − μ)/σ.

    μ is the invariant part of the mean; entries that the group mixes or exchanges share one σ. So
    left and right legs have one scale, and what changes sign is not shifted.

    Args:
        rep: How the group acts on the data, such as ``symmetry.observation``.

    Raises:
        ValueError: If it does not act by orthogonal matrices.

    Example:
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import Pseudoscalar, V
        >>> scaler = EquivariantScaler((Pseudoscalar + V)(Z(2)))
        >>> x = torch.tensor([[2.0, 0.0, 1.0], [2.0, 2.0, 1.0]])
        >>> _ = scaler.fit(x)
        >>> print(*(round(value, 3) for value in scaler.mean.tolist()))
        0.0 1.0 1.0
        >>> torch.allclose(scaler.inverse(scaler.transform(x)), x, atol=1e-6)
        True
    """

    mean: Tensor
    scale: Tensor
    count: Tensor
    entry_mean: Tensor
    entry_variance: Tensor

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        self._moments = InvariantMoments(rep)
        n = self._moments.size
        # float64 whatever the data: sums of many numbers
        for name, start in (("mean", 0.0), ("entry_mean", 0.0), ("entry_variance", 0.0)):
            self.register_buffer(name, torch.full((n,), start, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(n, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def fit(self, x: Tensor) -> Self:
        """Take mean and scale from data, shape (*, n), and forget what was seen before."""
        self._require_width(x)
        self.count.zero_()
        return self.update(x)

    @torch.no_grad()
    def update(self, x: Tensor) -> Self:
        """Add more data, shape (*, n), to what mean and scale are taken from."""
        self._require_width(x)
        rows = x.detach().reshape(-1, x.shape[-1]).to(self.mean)
        if not len(rows):
            raise ValueError("expected at least one row of data, got none")
        before, new = self.count.clone(), float(len(rows))
        total = before + new
        mean, variance = rows.mean(0), rows.var(0, correction=0)
        # two sets of rows as one (Chan et al. 1983)
        apart = mean - self.entry_mean if before > 0 else torch.zeros_like(mean)
        spread = (before * self.entry_variance + new * variance) / total
        self.entry_variance.copy_(spread + apart.square() * before * new / total.square())
        self.entry_mean.copy_(mean - apart * before / total)
        self.count.copy_(total)
        kept, pooled = self._moments(
            self.entry_mean.cpu().double(), self.entry_variance.cpu().double()
        )
        self.mean.copy_(kept)
        # entries that never change are not scaled up to the size of their rounding errors; those
        # that the group mixes are constant together, or their scales would differ
        constant = pooled.sqrt() <= _CONSTANT * self._moments.largest(kept.abs())
        self.scale.copy_(torch.where(constant, torch.ones_like(pooled), pooled.sqrt()))
        return self

    def transform(self, x: Tensor) -> Tensor:
        """(x − μ)/σ, shape (*, n)."""
        self._require_width(x)
        return (x - self.mean.to(x)) / self.scale.to(x)

    def inverse(self, x: Tensor) -> Tensor:
        """σx + μ, shape (*, n)."""
        self._require_width(x)
        return x * self.scale.to(x) + self.mean.to(x)

    def forward(self, x: Tensor) -> Tensor:
        """(x − μ)/σ, shape (*, n)."""
        return self.transform(x)

    def _require_width(self, x: Tensor) -> None:
        if x.ndim == 0 or x.shape[-1] != self._moments.size:
            raise ValueError(
                f"expected data of width {self._moments.size}, got shape {tuple(x.shape)}"
            )
