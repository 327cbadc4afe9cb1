"""Softening layers on vectors: equivariant and shared linear layers, their nonlinearities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from isotropy.groups import DirectProduct, Group, require_subgroup
from isotropy.nn._coordinates import FlatSpace
from isotropy.nn._emlp import EMLP, EMLPBlock
from isotropy.nn._free_paths import FrameLinear, FreeLinear, FreeSwish
from isotropy.nn._linear import Linear, StructuredLinear
from isotropy.nn._nonlinearities import GatedNonlinearity, NormNonlinearity, is_permutation
from isotropy.nn._path_sum import PathSum
from isotropy.nn._schur_weights import SchurWeights
from isotropy.nn._soft_layers import FREE, STRICT, SoftFrameLinear, SoftLinear
from isotropy.nn._weight_spaces import WeightSpace
from isotropy.reps import Rep, layout_of, without_duals


@dataclass(frozen=True)
class VectorSoftening:
    """How layers on vectors are softened.

    Args:
        variances: σ² of both paths.
        subgroup: What to break the symmetry to; all of it where None.
        start: What starting weights of flexible paths are multiplied by.
        swish: Whether nonlinearities get their Swish.
        device: Where the network is.
        dtype: Its precision.
    """

    variances: Mapping[str, float]
    subgroup: Group | None
    start: float
    swish: bool
    device: torch.device | None
    dtype: torch.dtype | None

    def network(self, model: EMLP) -> None:
        """Soften an EMLP that works in the coordinates of a frame, in place."""
        for block in model.blocks:
            assert isinstance(block, EMLPBlock)
            block.linear = self._in_frame(block.linear)  # type: ignore[assignment]
            space = FlatSpace(block.coordinates)
            block.nonlinearity = self._nonlinearity(  # type: ignore[assignment]
                block.nonlinearity, space
            )
        model.head = self._in_frame(model.head)  # type: ignore[assignment]

    def layer(self, layer: nn.Module) -> PathSum | None:
        """A layer beside a flexible one; None where it is not one to be softened."""
        if isinstance(layer, StructuredLinear):
            return self._linear(layer)
        if isinstance(layer, nn.Linear) and parametrize.is_parametrized(layer):
            return self._constrained(layer)
        if isinstance(layer, GatedNonlinearity | NormNonlinearity) and self.swish:
            found = self._nonlinearity(layer, None)
            return found if isinstance(found, PathSum) else None
        return None

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
            squared_lengths={STRICT: _lengths(strict)},
        ).to(like.device)

    def _linear(self, strict: StructuredLinear) -> PathSum | None:
        like = strict.coefficients
        free: nn.Module
        lengths = {STRICT: _lengths(strict)}
        if self.subgroup is None:
            with_bias = strict.with_bias if isinstance(strict, Linear) else strict.bias is not None
            free = FreeLinear(
                strict.in_features,
                strict.out_features,
                bias=with_bias,
                start=self.start,
                device=like.device,
                dtype=like.dtype,
            )
        elif isinstance(strict, Linear):
            rep_in, rep_out = self._rebound(strict.rep_in), self._rebound(strict.rep_out)
            if (rep_in, rep_out) == (strict.rep_in, strict.rep_out):
                return None  # scalars alone: nothing to break
            free = Linear(
                rep_in,
                rep_out,
                bias=strict.with_bias,
                device=like.device,
                dtype=like.dtype,
                _gain=self.start,
            )
            lengths[FREE] = _lengths(free)
        else:
            return None
        return SoftLinear(strict, free, prior_variances=self.variances, squared_lengths=lengths).to(
            like.device
        )

    def _constrained(self, layer: nn.Linear) -> PathSum | None:
        """Soften what ``make_equivariant`` made."""
        rep_in, rep_out = getattr(layer, "rep_in", None), getattr(layer, "rep_out", None)
        if not isinstance(rep_in, Rep) or not isinstance(rep_out, Rep):
            return None
        kind = {"device": layer.weight.device, "dtype": layer.weight.dtype}
        lengths = {STRICT: {}}  # type: dict[str, dict[str, Tensor | float]]
        for part in ("weight", "bias"):
            if parametrize.is_parametrized(layer, part):
                space = layer.parametrizations[part][0]  # type: ignore[index]
                assert isinstance(space, WeightSpace)
                lengths[STRICT][f"parametrizations.{part}.original"] = space.squared_lengths()
        free: nn.Module = FreeLinear(
            layer.in_features, layer.out_features, layer.bias is not None, start=self.start, **kind
        )
        if self.subgroup is not None:
            free = Linear(
                self._rebound(rep_in),
                self._rebound(rep_out),
                bias=layer.bias is not None,
                _gain=self.start,
                **kind,
            )
            lengths[FREE] = _lengths(free)
        return SoftLinear(layer, free, prior_variances=self.variances, squared_lengths=lengths).to(
            kind["device"]
        )

    def _nonlinearity(self, strict: nn.Module, space: FlatSpace | None) -> nn.Module:
        assert isinstance(strict, GatedNonlinearity | NormNonlinearity)
        gates = strict.in_features - strict.out_features
        allowed = None
        if self.subgroup is not None:
            allowed = pointwise_columns(self._rebound(strict.rep_out))
        if not self.swish or (allowed is not None and not bool(allowed.any())):
            return strict
        free = FreeSwish(
            strict.out_features,
            gates,
            space=space,
            allowed=allowed,
            start=self.start,
            device=self.device,
            dtype=self.dtype,
        )
        return PathSum({STRICT: strict, FREE: free}, prior_variances=self.variances).to(self.device)

    def _rebound(self, rep: Rep) -> Rep:
        assert self.subgroup is not None
        groups = list(rep.groups)
        if not groups:
            return rep
        group = rep.group
        assert group is not None
        require_subgroup(self.subgroup, group)
        replaced = {group: self.subgroup}
        if isinstance(group, DirectProduct) and isinstance(self.subgroup, DirectProduct):
            replaced.update(zip(group.factors, self.subgroup.factors, strict=True))
        return rep._rebind(replaced)


def pointwise_columns(rep: Rep) -> Tensor:
    """Which columns of a space may go through a pointwise map: those that the group only permutes.

    Columns of a term that is a representation by permutations, and in other terms the columns
    that the group leaves alone.

    Args:
        rep: The space, with its group.

    Example:
        >>> from isotropy.groups import O2eR3
        >>> from isotropy.reps import V
        >>> pointwise_columns(V(O2eR3()))  # the vertical axis
        tensor([False, False,  True])
    """
    layout = layout_of(without_duals(rep))
    allowed = torch.zeros(layout.size, dtype=torch.bool)
    for term in layout.terms:
        if is_permutation(term.rep):
            mask = torch.ones(term.size, dtype=torch.bool)
        else:
            algebra, discrete = term.rep.generators()
            eye = torch.eye(term.size)
            moves = [a.dense() for a in algebra] + [h.dense() - eye.to(h.dense()) for h in discrete]
            moved = sum((m.abs() for m in moves), torch.zeros(term.size, term.size))
            mask = (moved.sum(0) + moved.sum(1)) < 1e-12
        allowed[term.columns] = mask.repeat(term.count)
    return allowed if layout.order is None else allowed[layout.order.argsort()]


def _lengths(layer: StructuredLinear) -> dict[str, Tensor | float]:
    found: dict[str, Tensor | float] = {"coefficients": layer.weight_space.squared_lengths()}
    if layer.bias_space is not None:
        found["bias_coefficients"] = layer.bias_space.squared_lengths()
    return found
