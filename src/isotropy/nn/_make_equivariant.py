"""An ordinary linear layer, constrained in place."""

from __future__ import annotations

from torch import nn
from torch.nn.utils import parametrize

from isotropy.groups import Group
from isotropy.nn._equivariant_weights import bias_space, weight_space
from isotropy.nn._module import bound, cast
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
