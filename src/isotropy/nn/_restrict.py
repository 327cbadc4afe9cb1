"""Ordinary layers constrained in place, and networks loosened from a group to a subgroup."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.utils import parametrize

from isotropy.groups import DirectProduct, Group
from isotropy.groups._finite import require_subgroup
from isotropy.nn._emlp import EMLP
from isotropy.nn._equivariant_weights import bias_space, weight_space
from isotropy.nn._linear import Linear
from isotropy.nn._module import EquivariantModule, bound, cast
from isotropy.nn._symmetrised import Symmetrised
from isotropy.reps import Rep


def make_equivariant(
    linear: nn.Linear, rep_in: Rep, rep_out: Rep, group: Group | None = None
) -> nn.Linear:
    """Constrain a ``torch.nn.Linear`` to equivariant maps, through ``parametrize``.

    Its weight and bias become the nearest equivariant ones and stay equivariant in training:
    what is learned are their coefficients. ``parametrize.remove_parametrizations`` makes it
    an ordinary layer again.

    Args:
        linear: The layer; it is changed in place.
        rep_in: How the group acts on its inputs.
        rep_out: How it acts on its outputs.
        group: The group; not needed where the representations have theirs.

    Returns:
        The same layer.

    Raises:
        TypeError: If it is no ``torch.nn.Linear``.
        ValueError: If widths do not match, or there is no equivariant map but zero.

    Example:
        >>> import torch
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import V
        >>> layer = make_equivariant(nn.Linear(4, 4), V, V, Z(4))
        >>> bool((layer.weight[0] == layer.weight[1].roll(-1)).all())  # circulant
        True
    """
    if not isinstance(linear, nn.Linear):
        raise TypeError(f"expected a torch.nn.Linear, got {type(linear).__name__}")
    if parametrize.is_parametrized(linear):
        raise ValueError("expected a layer without parametrisations, got one that has some")
    rep_in, rep_out = bound(rep_in, rep_out, group)
    expected = (rep_out.size(), rep_in.size())
    if tuple(linear.weight.shape) != expected:
        raise ValueError(
            f"expected a layer of width {expected[1]} to {expected[0]} for {rep_in} >> {rep_out}, "
            f"got {linear.in_features} to {linear.out_features}"
        )
    if (rep_in + rep_out).is_complex and not linear.weight.is_complex():
        raise ValueError(f"expected a complex layer for {rep_in} >> {rep_out}, got a real one")
    weights = weight_space(rep_in, rep_out)
    if weights.rank == 0:
        raise ValueError(
            f"expected two spaces with an equivariant linear map between them, got {rep_in} "
            f"and {rep_out}: zero is the only one"
        )
    biases = bias_space(rep_out)
    for space in (weights, biases):
        if space is not None:
            cast(space, linear.weight.device, linear.weight.dtype)
    parametrize.register_parametrization(linear, "weight", weights)
    if linear.bias is not None:
        if biases is None:
            linear.register_parameter("bias", None)  # zero is the only invariant vector
        else:
            parametrize.register_parametrization(linear, "bias", biases)
    linear.rep_in, linear.rep_out = rep_in, rep_out  # type: ignore[assignment]
    return linear


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
