"""Loosening a network from a group to one of its subgroups."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.utils import parametrize

from isotropy.groups import DirectProduct, Group
from isotropy.groups._finite import require_subgroup
from isotropy.nn._emlp import EMLP
from isotropy.nn._linear import Linear
from isotropy.nn._make_equivariant import make_equivariant
from isotropy.nn._module import EquivariantModule
from isotropy.nn._symmetrised import Symmetrised
from isotropy.reps import Rep


def restrict(module: nn.Module, subgroup: Group) -> nn.Module:
    """The same function, now free to learn whatever respects the subgroup.

    Every equivariant linear layer is rewritten in the larger space of maps that commute with the
    subgroup: its matrix stays what it is, and gains coefficients. Bilinear layers and
    nonlinearities stay as they are. The original is left untouched.

    Args:
        module: An equivariant layer or a network with such layers.
        subgroup: A group on the same space whose elements belong to the module's group.

    Raises:
        ValueError: If it is seen not to be a subgroup, or nothing in the module is equivariant.

    Example:
        >>> import torch
        >>> from isotropy.groups import O, SO
        >>> from isotropy.nn import EMLP
        >>> from isotropy.reps import Scalar, V
        >>> strict = EMLP(2 * V, V, group=O(3), channels=30, layers=2)
        >>> loose = restrict(strict, SO(3))  # reflections need no longer be respected
        >>> x = torch.randn(5, 6)
        >>> torch.allclose(strict(x), loose(x), atol=1e-5)
        True
        >>> print(loose.symmetry)
        SO(3): 2*V >> V
    """
    reps = [
        rep
        for m in module.modules()
        for rep in (getattr(m, "rep_in", None), getattr(m, "rep_out", None))
        if isinstance(rep, Rep)
    ]
    if not reps:
        raise ValueError(f"expected a module with equivariant layers, got {type(module).__name__}")
    group = sum(reps[1:], reps[0]).group
    if group is None:
        raise ValueError(f"expected layers of a group to restrict, got scalars alone: {reps[0]}")
    require_subgroup(subgroup, group)
    replaced = {group: subgroup}
    if isinstance(group, DirectProduct) and isinstance(subgroup, DirectProduct):
        replaced.update(zip(group.factors, subgroup.factors, strict=True))
    return _restricted(copy.deepcopy(module), replaced, {})


def _restricted(
    module: nn.Module, replaced: dict[Group, Group], done: dict[int, nn.Module]
) -> nn.Module:
    if id(module) in done:
        return done[id(module)]
    found = module
    if isinstance(module, Symmetrised):
        raise ValueError(
            "expected equivariant layers to restrict, got a Symmetrised model: average it over "
            "the subgroup instead, Symmetrised(model, symmetry.restrict(subgroup))"
        )
    if isinstance(module, Linear):
        found = _restricted_linear(module, replaced)
    elif isinstance(module, nn.Linear) and parametrize.is_parametrized(module):
        found = _restricted_plain(module, replaced)
    else:
        for name, child in module._modules.items():
            if child is not None:
                setattr(module, name, _restricted(child, replaced, done))
        if isinstance(module, EMLP):
            module.has_frame = False  # the subgroup's layers each have a frame of their own
        if isinstance(module, EquivariantModule):
            module.rep_in = module.rep_in._rebind(replaced)
            module.rep_out = module.rep_out._rebind(replaced)
    done[id(module)] = found
    return found


def _restricted_linear(layer: Linear, replaced: dict[Group, Group]) -> Linear:
    loose = Linear(
        layer.rep_in._rebind(replaced),
        layer.rep_out._rebind(replaced),
        bias=layer.with_bias,
        device=layer.coefficients.device,
        dtype=layer.coefficients.dtype,
        _gain=layer._gain,
    )
    with torch.no_grad():
        weight, bias = layer.weight, layer.bias
        loose.coefficients.copy_(loose.weight_space.coordinates(weight))
        if loose.bias_coefficients is not None and loose.bias_space is not None:
            start = weight.new_zeros(layer.out_features) if bias is None else bias
            loose.bias_coefficients.copy_(loose.bias_space.coordinates(start))
    return loose.train(layer.training)


def _restricted_plain(layer: nn.Linear, replaced: dict[Group, Group]) -> nn.Linear:
    """A layer that ``make_equivariant`` made."""
    rep_in, rep_out = getattr(layer, "rep_in", None), getattr(layer, "rep_out", None)
    if not isinstance(rep_in, Rep) or not isinstance(rep_out, Rep):
        return layer
    for name in list(layer.parametrizations):  # type: ignore[arg-type]
        parametrize.remove_parametrizations(layer, name)
    return make_equivariant(layer, rep_in._rebind(replaced), rep_out._rebind(replaced))
