"""Several parallel paths, summed, with a prior for each."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from math import inf, log
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.nn._radial_basis import RadialBasis
from isotropy.reps import Rep


class PathSum(nn.Module):
    """f(x) = Σ_k f_k(x), with a Gaussian prior N(0, σ_k²) on the parameters of each path.

    A strict path beside a flexible one is a soft constraint: the prior decides how freely the
    flexible one is used (thesis chapter 3). Every tensor carries a variance; those of a path are
    equal until ``isotropy.evidence.learn_priors`` learns them tensor by tensor.

    Args:
        paths: Modules with the same input and output, by name.
        prior_variances: σ² of each path, by name; 1 where none is given. A variance of 0 is the
            strict limit: the parameters of the path become zero, and stay.
        average: Whether to divide the sum by the number of paths.
        pool: Applied to the sum of some of the paths before the rest is added: convolutions
            that choose a phase together stay equivariant together.
        pooled: The names of these paths.
        squared_lengths: By path and tensor, the squared length c of what one unit of each entry
            stands for, a number or a tensor of the parameter's shape; 1 where none is given. The
            prior of an entry is then N(0, σ²/c): that of a path A = Σ βᵢ Aᵢ with orthogonal
            matrices Aᵢ becomes N(0, σ²) in the space of A's, whatever the scale of Aᵢ.

    Raises:
        TypeError: If the paths are not given by name.
        ValueError: If there is no path, one has a dot in its name, widths differ, a variance is
            negative or belongs to no path, or there is a pool without paths or paths without a
            pool; or squared lengths are of no tensor, of another shape or not positive.

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
        squared_lengths: Mapping[str, Mapping[str, Tensor | float]] | None = None,
    ) -> None:
        super().__init__()
        given = dict(prior_variances or {})
        _require_paths(paths, given)
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
        logs = {name: log(value) if value else -inf for name, value in given.items()}
        start = [logs.get(path, 0.0) for path, _ in self.tensors]
        self.register_buffer(
            "log_variances", torch.tensor(start, dtype=torch.float64).to(torch.get_default_dtype())
        )
        for name in (name for name, value in given.items() if not value):
            for parameter in self.paths[name].parameters():
                nn.init.zeros_(parameter).requires_grad_(False)
        self._set_squared_lengths(squared_lengths or {})

    def _set_squared_lengths(self, given: Mapping[str, Mapping[str, Tensor | float]]) -> None:
        places = {tensor: k for k, tensor in enumerate(self.tensors)}
        self._lengths: dict[int, str] = {}
        for path, by_name in given.items():
            for name, value in by_name.items():
                place = places.get((path, name)) if name else None
                if place is None:
                    raise ValueError(
                        "expected squared lengths for tensors of the paths, got some for "
                        f"{name!r} of {path!r}"
                    )
                like = self.paths[path].get_parameter(name)
                length = torch.as_tensor(value, dtype=like.dtype.to_real(), device=like.device)
                if length.shape not in ((), like.shape) or not bool((length > 0).all()):
                    raise ValueError(
                        f"expected positive squared lengths for {name!r} of {path!r}, one or of "
                        f"shape {tuple(like.shape)}, got shape {tuple(length.shape)}"
                        + ("" if bool((length > 0).all()) else " with some that are not positive")
                    )
                self._lengths[place] = f"squared_lengths_{place}"
                # what built the sum gives them again: no part of its state
                self.register_buffer(self._lengths[place], length, persistent=False)

    @property
    def tensors(self) -> list[tuple[str, str]]:
        """The path and the name of each tensor, in the order of ``log_variances``.

        A path without any has a variance, too, under the name "".
        """
        return [
            (path, name)
            for path, module in self.paths.items()
            for name in [name for name, _ in module.named_parameters()] or [""]
        ]

    @property
    def prior_variances(self) -> dict[str, float]:
        """σ² of each path, by name; the smallest of its weights, where they differ.

        Of two factors, one that is switched off switches off both. Biases and lengthscales count
        only where there is nothing else.
        """
        every: dict[str, list[float]] = {}
        weights: dict[str, list[float]] = {}
        variances = self.log_variances.detach().double().exp().tolist()
        for (path, name), variance in zip(self.tensors, variances, strict=True):
            every.setdefault(path, []).append(variance)
            if name and self.is_weight(path, name):
                weights.setdefault(path, []).append(variance)
        return {path: min(weights.get(path, here)) for path, here in every.items()}

    @property
    def tensor_variances(self) -> dict[str, float]:
        """σ² of each tensor, by its name in this module.

        Example:
            >>> soft = PathSum({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2, bias=False)})
            >>> soft.tensor_variances
            {'paths.a.weight': 1.0, 'paths.a.bias': 1.0, 'paths.b.weight': 1.0}
        """
        variances = self.log_variances.detach().double().exp().tolist()
        return {
            f"paths.{path}.{name}": variance
            for (path, name), variance in zip(self.tensors, variances, strict=True)
            if name
        }

    @property
    def tensor_squared_lengths(self) -> dict[str, Tensor]:
        """The squared lengths of tensors that have some, by their name in this module.

        Example:
            >>> strict = nn.Linear(2, 2, bias=False)
            >>> soft = PathSum({"a": strict}, squared_lengths={"a": {"weight": 3.0}})
            >>> soft.tensor_squared_lengths
            {'paths.a.weight': tensor(3.)}
        """
        tensors = self.tensors
        return {
            "paths.{}.{}".format(*tensors[place]): getattr(self, buffer)
            for place, buffer in self._lengths.items()
        }

    def is_weight(self, path: str, name: str) -> bool:
        """Whether a tensor of a path is a weight: neither a bias nor what shapes a basis.

        Args:
            path: The path.
            name: The tensor's name in it.
        """
        prefix, _, last = name.rpartition(".")
        owner = self.paths[path].get_submodule(prefix)
        return "bias" not in last and not isinstance(owner, RadialBasis)

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
        """``isotropy.nn.log_prior`` of this sum; deprecated."""
        from isotropy.nn._log_prior import log_prior

        warnings.warn(
            "PathSum.log_prior is now isotropy.nn.log_prior: the method goes in version 0.2",
            DeprecationWarning,
            stacklevel=2,
        )
        return log_prior(self)

    def extra_repr(self) -> str:
        """How the paths are put together, for ``print``."""
        shown = ["average=True"] if self.average else []
        return ", ".join(shown + ([f"pooled={list(self.pooled)}"] if self.pooled else []))

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # states from before tensors had variances of their own have one for each path
        key = f"{prefix}log_variances"
        saved = state_dict.get(key)
        if isinstance(saved, Tensor) and saved.shape == (len(self.paths),):
            places = list(self.paths)
            chosen = torch.tensor([places.index(path) for path, _ in self.tensors])
            state_dict = {**state_dict, key: saved[chosen.to(saved.device)]}
        before = None if self.log_variances.is_meta else (self.log_variances == -inf).tolist()
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        if self.log_variances.is_meta or before is None:
            return
        strict = (self.log_variances == -inf).tolist()
        for (path, name), was_fixed, is_fixed in zip(self.tensors, before, strict, strict=True):
            if name and was_fixed != is_fixed:
                self.paths[path].get_parameter(name).requires_grad_(not is_fixed)


def _require_paths(paths: Mapping[str, nn.Module], variances: Mapping[str, float]) -> None:
    if not isinstance(paths, Mapping):
        raise TypeError(f"expected modules by name, got {type(paths).__name__}")
    for name in paths:
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"expected names of paths without dots, got {name!r}")
    if not paths:
        raise ValueError("expected at least one path, got none")
    for name, variance in variances.items():
        if name not in paths:
            raise ValueError(
                f"expected prior variances for {', '.join(paths)}, got one for {name!r}"
            )
        if not 0 <= variance < inf:
            raise ValueError(
                f"expected a prior variance of zero or more for {name}, got {variance}"
            )


def _sum(parts: list[Tensor]) -> Tensor:
    total, *rest = parts
    for part in rest:
        if part.shape != total.shape:
            raise ValueError(
                f"expected paths with outputs of one shape, got {tuple(total.shape)} and "
                f"{tuple(part.shape)}"
            )
        total = total + part
    return total
