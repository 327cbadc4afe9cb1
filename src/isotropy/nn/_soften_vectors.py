"""Softening layers on vectors: equivariant and shared linear layers, their nonlinearities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from isotropy.bases import equivariant_basis
from isotropy.groups import DirectProduct, Group
from isotropy.groups._finite import require_subgroup
from isotropy.nn._coordinates import FlatSpace
from isotropy.nn._emlp import EMLP, EMLPBlock
from isotropy.nn._free_paths import FrameLinear, FreeLinear, FreeSwish
from isotropy.nn._linear import Linear, StructuredLinear
from isotropy.nn._nonlinearities import GatedNonlinearity, NormNonlinearity, is_permutation
from isotropy.nn._path_sum import PathSum
from isotropy.nn._schur_weights import SchurWeights
from isotropy.nn._soft_layers import FREE, STRICT, SoftFrameLinear, SoftLinear
from isotropy.nn._weight_spaces import WeightSpace
from isotropy.reps import Rep
from isotropy.reps._layout import LayoutTerm, layout_of, without_duals

Subgroups: TypeAlias = Mapping[Group, Group]
_STILL = 1e-12


@dataclass(frozen=True)
class VectorSoftening:
    """How layers on vectors are softened.

    Args:
        variances: σ² of both paths.
        subgroups: What to break groups to; all is free where None.
        start: What starting weights of flexible paths are multiplied by.
        swish: Whether nonlinearities get their Swish.
        device: Where the network is.
        dtype: Its precision.
    """

    variances: Mapping[str, float]
    subgroups: Subgroups | None
    start: float
    swish: bool
    device: torch.device
    dtype: torch.dtype

    def layer(self, layer: nn.Module) -> nn.Module | None:
        """A layer beside a flexible one; None where it is not one to be softened."""
        if isinstance(layer, EMLP) and layer.has_frame:
            return self._network(layer)
        if isinstance(layer, GatedNonlinearity | NormNonlinearity):
            return self._nonlinearity(layer, None)
        is_linear = isinstance(layer, StructuredLinear) or _is_constrained(layer)
        return self._linear(layer) if is_linear else None

    def _network(self, model: EMLP) -> EMLP | None:
        if self.subgroups is not None:
            model.has_frame = False  # the subgroup's layers each have a frame of their own
            return None
        for block in model.blocks:
            assert isinstance(block, EMLPBlock)
            block.linear = self._in_frame(block.linear)  # type: ignore[assignment]
            soft = self._nonlinearity(block.nonlinearity, FlatSpace(block.coordinates))
            if soft is not None:
                block.nonlinearity = soft  # type: ignore[assignment]
        model.head = self._in_frame(model.head)  # type: ignore[assignment]
        return model

    def _in_frame(self, strict: Linear) -> SoftFrameLinear:
        weights = strict.weight_space
        assert isinstance(weights, SchurWeights)
        like = strict.coefficients
        free = FrameLinear(
            FlatSpace(weights.into),
            FlatSpace(weights.out),
            bias=strict.with_bias,
            start=self.start,
            device=like.device,
            dtype=like.dtype,
        )
        return SoftFrameLinear(
            strict,
            free,
            prior_variances=self.variances,
            squared_lengths={STRICT: vector_lengths(strict)},
        ).to(like.device)

    def _linear(self, strict: Any) -> SoftLinear | None:
        like = next(strict.parameters())
        with_bias = strict.with_bias if isinstance(strict, Linear) else strict.bias is not None
        kind: dict[str, Any] = {"bias": with_bias, "device": like.device, "dtype": like.dtype}
        free: nn.Module
        if self.subgroups is None:
            free = FreeLinear(strict.in_features, strict.out_features, start=self.start, **kind)
        else:
            reps = getattr(strict, "rep_in", None), getattr(strict, "rep_out", None)
            loose = [rep._rebind(self.subgroups) for rep in reps if isinstance(rep, Rep)]
            if tuple(loose) in ((), reps):
                return None  # no group, or scalars alone: nothing to break
            rep_in, rep_out = loose
            free = Linear(rep_in, rep_out, _gain=self.start, **kind)
        return SoftLinear(
            strict,
            free,
            prior_variances=self.variances,
            squared_lengths={STRICT: vector_lengths(strict), FREE: vector_lengths(free)},
        ).to(like.device)

    def _nonlinearity(self, strict: nn.Module, space: FlatSpace | None) -> PathSum | None:
        assert isinstance(strict, GatedNonlinearity | NormNonlinearity)
        if not self.swish or strict.rep_out.is_complex:
            return None  # of complex numbers Swish has poles
        labels = None
        if self.subgroups is not None:
            labels = pointwise_columns(strict.rep_out._rebind(self.subgroups))
            if bool((labels < 0).all()):
                return None
        free = FreeSwish(
            strict.out_features,
            strict.in_features - strict.out_features,
            space=space,
            labels=labels,
            start=self.start,
            device=self.device,
            dtype=self.dtype,
        )
        return PathSum({STRICT: strict, FREE: free}, prior_variances=self.variances).to(self.device)


def broken_to(model: nn.Module, subgroup: Group) -> dict[Group, Group]:
    """Which group of a network's representations is to become which."""
    reps = [
        rep
        for module in model.modules()
        for rep in (getattr(module, "rep_in", None), getattr(module, "rep_out", None))
        if isinstance(rep, Rep)
    ]
    group = sum(reps[1:], reps[0]).group if reps else None
    if group is None:
        raise ValueError(
            f"expected a network with equivariant linear layers to break to {subgroup}, got "
            f"{type(model).__name__} without any"
        )
    require_subgroup(subgroup, group)
    if subgroup == group:
        raise ValueError(f"expected a subgroup of {group} to break it to, got the whole of it")
    found = {group: subgroup}
    if isinstance(group, DirectProduct) and isinstance(subgroup, DirectProduct):
        found.update(zip(group.factors, subgroup.factors, strict=True))
    return found


def vector_lengths(layer: nn.Module) -> dict[str, Tensor | float]:
    """‖W‖² for one unit of each coefficient of a layer, by name; nothing for other layers."""
    spaces: dict[str, object] = {}
    if isinstance(layer, StructuredLinear):
        spaces = {"coefficients": layer.weight_space, "bias_coefficients": layer.bias_space}
    elif _is_constrained(layer):
        made: Any = layer.parametrizations
        spaces = {f"parametrizations.{part}.original": made[part][0] for part in made}
    return {
        name: space.squared_lengths()
        for name, space in spaces.items()
        if isinstance(space, WeightSpace)
    }


def _is_constrained(layer: nn.Module) -> bool:
    """Whether ``make_equivariant`` made a layer."""
    return (
        isinstance(layer, nn.Linear)
        and parametrize.is_parametrized(layer)
        and isinstance(getattr(layer, "rep_in", None), Rep)
    )


def pointwise_columns(rep: Rep) -> Tensor:
    """How the columns of a space may go through pointwise maps: a label for each, −1 for none.

    A representation by permutations takes one map for each orbit of its columns. In others only
    the columns that the group leaves alone take one.

    Args:
        rep: The space, with its group.

    Example:
        >>> from isotropy.groups import O2eR3, Z
        >>> from isotropy.reps import V
        >>> pointwise_columns(V(O2eR3()))  # the vertical axis
        tensor([-1, -1,  0])
        >>> pointwise_columns(2 * V(Z(3)))
        tensor([0, 0, 0, 1, 1, 1])
    """
    layout = layout_of(without_duals(rep))
    labels, known = torch.full((layout.size,), -1), 0
    for term in layout.terms:
        own = _orbits(term)
        count = int(own.max()) + 1
        copies = own + count * torch.arange(term.count).unsqueeze(1)
        labels[term.columns] = torch.where(own < 0, -1, copies + known).flatten()
        known += count * term.count
    return labels if layout.order is None else labels[layout.order.argsort()]


def _orbits(term: LayoutTerm) -> Tensor:
    """A label for each column of one copy."""
    basis = equivariant_basis(term.rep).orbits() if is_permutation(term.rep) else None
    if basis is not None:
        return basis.labels
    algebra, discrete = term.rep.generators()
    eye = torch.eye(term.size)
    moves = [a.dense() for a in algebra] + [h.dense() - eye.to(h.dense()) for h in discrete]
    moved = sum((m.abs() for m in moves), torch.zeros(term.size, term.size))
    still = moved.sum(0) + moved.sum(1) < _STILL
    return torch.where(still, still.cumsum(0) - 1, -1)
