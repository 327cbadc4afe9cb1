"""Loosening a network from a group to one of its subgroups."""

from __future__ import annotations

import copy

import torch
from torch import nn

from isotropy.groups import Group
from isotropy.nn._emlp import EMLP
from isotropy.nn._linear import Linear
from isotropy.nn._module import EquivariantModule
from isotropy.nn._symmetrised import Symmetrised
from isotropy.reps import Rep, Symmetry


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
    if not any(isinstance(m, EquivariantModule | Symmetrised) for m in module.modules()):
        raise ValueError(f"expected a module with equivariant layers, got {type(module).__name__}")
    return _restricted(copy.deepcopy(module), subgroup)


def _restricted(module: nn.Module, subgroup: Group) -> nn.Module:
    if isinstance(module, Symmetrised):
        raise ValueError(
            "expected equivariant layers to restrict, got a Symmetrised model: average it over "
            "the subgroup instead, Symmetrised(model, symmetry.restrict(subgroup))"
        )
    if isinstance(module, Linear):
        return _restricted_linear(module, subgroup)
    for name, child in module.named_children():
        setattr(module, name, _restricted(child, subgroup))
    if isinstance(module, EMLP):
        module.has_frame = False  # the subgroup's layers each have a frame of their own
    if isinstance(module, EquivariantModule):
        module.rep_in, module.rep_out = _restricted_reps(module.rep_in, module.rep_out, subgroup)
    return module


def _restricted_reps(rep_in: Rep, rep_out: Rep, subgroup: Group) -> tuple[Rep, Rep]:
    group = (rep_in + rep_out).group
    if group is None:
        return rep_in, rep_out
    symmetry = Symmetry(group, rep_in, rep_out).restrict(subgroup)
    return symmetry.rep_in, symmetry.rep_out


def _restricted_linear(layer: Linear, subgroup: Group) -> Linear:
    rep_in, rep_out = _restricted_reps(layer.rep_in, layer.rep_out, subgroup)
    loose = Linear(
        rep_in,
        rep_out,
        bias=layer.with_bias,
        device=layer.coefficients.device,
        dtype=layer.coefficients.dtype,
    )
    with torch.no_grad():
        weight, bias = layer.weight, layer.bias
        loose.coefficients.copy_(loose.weight_space.coordinates(weight))
        if loose.bias_coefficients is not None and loose.bias_space is not None:
            start = weight.new_zeros(layer.out_features) if bias is None else bias
            loose.bias_coefficients.copy_(loose.bias_space.coordinates(start))
    return loose.train(layer.training)
