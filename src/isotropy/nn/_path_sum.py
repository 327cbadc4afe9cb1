"""Several parallel paths, summed, with a prior for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import log, pi

import torch
from torch import Tensor, nn

from isotropy.reps import Rep


class PathSum(nn.Module):
    """f(x) = Σ_k f_k(x), with a Gaussian prior N(0, σ_k²) on the parameters of each path.

    A strict path beside a flexible one is a soft constraint: the prior decides how freely the
    flexible one is used (thesis chapter 3).

    Args:
        paths: Modules with the same input and output, by name.
        prior_variances: σ² of each path, by name; 1 where none is given.
        average: Whether to divide the sum by the number of paths.
        pool: Applied to the sum of some of the paths before the rest is added: convolutions
            that choose a phase together stay equivariant together.
        pooled: The names of these paths.

    Raises:
        ValueError: If there is no path, widths differ, a variance is not positive or belongs to
            no path, or there is a pool without paths or paths without a pool.

    Example:
        >>> import torch
        >>> from isotropy.groups import SO
        >>> from isotropy.nn import Linear
        >>> from isotropy.reps import V
        >>> soft = PathSum(
        ...     {"equivariant": Linear(V, V, SO(3)), "free": nn.Linear(3, 3)},
        ...     prior_variances={"equivariant": 1e5, "free": 1.0},
        ... )
        >>> soft(torch.randn(7, 3)).shape
        torch.Size([7, 3])
    """

    log_variances: Tensor

    def __init__(
        self,
        paths: Mapping[str, nn.Module],
        *,
        prior_variances: Mapping[str, float] | None = None,
        average: bool = False,
        pool: nn.Module | None = None,
        pooled: Collection[str] = (),
    ) -> None:
        super().__init__()
        given = dict(prior_variances or {})
        if not paths:
            raise ValueError("expected at least one path, got none")
        unknown = sorted(set(given) - set(paths))
        if unknown:
            raise ValueError(
                f"expected prior variances for {', '.join(paths)}, got one for {unknown[0]!r}"
            )
        for name, variance in given.items():
            if not 0 < variance < float("inf"):
                raise ValueError(f"expected a positive prior variance for {name}, got {variance}")
        for side in ("in_features", "out_features"):
            widths = {name: getattr(path, side, None) for name, path in paths.items()}
            known = {width for width in widths.values() if width is not None}
            if len(known) > 1:
                raise ValueError(f"expected paths with the same {side}, got {widths}")
            if known:
                setattr(self, side, known.pop())
        strangers = [name for name in pooled if name not in paths]
        if strangers or (pool is None) != (not pooled):
            raise ValueError(
                f"expected a pool, and which of {', '.join(paths)} go through it, or neither, got "
                f"{'no pool' if pool is None else 'a pool'} and {list(pooled)}"
            )
        self.average, self.pooled = average, tuple(pooled)
        self.paths = nn.ModuleDict(dict(paths))
        self.pool = pool
        start = torch.tensor([log(given.get(name, 1.0)) for name in paths], dtype=torch.float64)
        self.register_buffer("log_variances", start.to(torch.get_default_dtype()))

    @property
    def prior_variances(self) -> dict[str, float]:
        """σ² of each path, by name."""
        variances = self.log_variances.detach().exp().tolist()
        return dict(zip(self.paths, variances, strict=True))

    @property
    def rep_in(self) -> Rep:
        """How the group of the first equivariant path acts on inputs."""
        return self._rep("rep_in")

    @property
    def rep_out(self) -> Rep:
        """How the group of the first equivariant path acts on outputs."""
        return self._rep("rep_out")

    def _rep(self, side: str) -> Rep:
        for path in self.paths.values():
            rep = getattr(path, side, None)
            if isinstance(rep, Rep):
                return rep
        raise AttributeError(f"no path of this sum has a {side}")

    def forward(self, x: Tensor) -> Tensor:
        """The sum, or the mean, of what all paths give."""
        parts: list[Tensor] = []
        together: list[Tensor] = []
        for name, path in self.paths.items():
            (together if name in self.pooled else parts).append(path(x))
        if self.pool is not None:
            parts.insert(0, self.pool(_sum(together)))
        y = _sum(parts)
        return y / len(self.paths) if self.average else y

    def log_prior(self) -> Tensor:
        """Log p(θ) = −½ Σ_k (‖θ_k‖²/σ_k² + dim θ_k · log 2πσ_k²), of all paths together.

        Add it, divided by the number of samples, to a mean log likelihood.
        """
        total = self.log_variances.new_zeros(())
        for log_variance, path in zip(self.log_variances, self.paths.values(), strict=True):
            for parameter in path.parameters():
                square = parameter.abs().square().sum()
                size = parameter.numel()
                total = total - 0.5 * (
                    square / log_variance.exp() + size * (log_variance + log(2 * pi))
                )
        return total


def _sum(parts: list[Tensor]) -> Tensor:
    total, *rest = parts
    for part in rest:
        total = total + part
    return total
