"""Turning hard constraints into soft ones: residual pathway priors (thesis chapter 3)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from math import inf
from numbers import Real
from typing import TypeAlias

import torch
from torch import Tensor, nn

from isotropy.groups import Group, parse_group
from isotropy.nn._emlp import EMLP
from isotropy.nn._free_paths import SMALL
from isotropy.nn._path_sum import PathSum
from isotropy.nn._soft_layers import FREE, STRICT
from isotropy.nn._soften_maps import GRID_SUBGROUPS, is_map_layer, map_shapes, soft_map_layer
from isotropy.nn._soften_vectors import VectorSoftening

Flexible: TypeAlias = Mapping[str, nn.Module] | Callable[[str, nn.Module], nn.Module | None]


def soften(
    model: nn.Module,
    example: Tensor | None = None,
    *,
    into: Group | str | None = None,
    variances: tuple[float, float] = (1e5, 1.0),
    flexible: Flexible | None = None,
    swish: bool = True,
    start: float = SMALL,
) -> nn.Module:
    """The same network with its constraints made soft: a residual pathway prior (thesis 3.4).

    Every equivariant layer A becomes A + B, where B is any linear map of the same shape. With
    priors A ~ N(0, σ_a² QQᵀ) and B ~ N(0, σ_b² 1), Q an orthonormal basis of what A may be,

        A + B ~ N(0, (σ_a² + σ_b²) QQᵀ + σ_b² PPᵀ)                              (Eq. 3.1)

    so that solutions with the symmetry are preferred and none is ruled out. Beside a gated
    nonlinearity stands a Swish of every column, times a weight with prior variance σ_b². Bilinear
    layers stay as they are.

    Softened are the equivariant and shared linear layers of this library, whatever
    ``make_equivariant`` constrained, convolutions and group convolutions. The weights of the
    strict paths stay what they are; flexible ones start near zero, so that the function hardly
    changes. The original is left untouched.

    Add ``log_prior`` to the loss, or let ``isotropy.evidence.learn_priors`` find the variances.

    Args:
        model: A network with equivariant layers, or one such layer.
        example: Inputs to run the network on once; needed where there are convolutions, whose
            flexible paths have to know the size of maps.
        into: What to break the symmetry to; all of it where None. A subgroup on the same space
            for equivariant linear layers; "translations" or "p4" for group convolutions.
        variances: (σ_a², σ_b²), of the strict and of the flexible paths.
        flexible: Flexible paths of your own choice, by the name of the layer they stand beside, or
            a function of name and layer that gives one, or None to leave the layer as it is; any
            module of the same signature will do. Nothing else is softened then.
        swish: Whether nonlinearities get their Swish.
        start: What the usual starting weights of flexible paths are multiplied by.

    Returns:
        A copy, with a ``PathSum`` of the paths "strict" and "free" in the place of each layer.

    Raises:
        TypeError: If something is of the wrong kind.
        ValueError: If there is nothing to soften, a variance is negative, ``into`` is no
            subgroup, an example is needed and not given, or two paths differ in their shapes.

    Example:
        >>> import torch
        >>> from isotropy.groups import O
        >>> from isotropy.nn import EMLP
        >>> from isotropy.reps import Scalar, V
        >>> strict = EMLP(2 * V, V, group=O(3), channels=30, layers=2)
        >>> soft = soften(strict, variances=(1e5, 1.0))
        >>> x = torch.randn(5, 6)
        >>> torch.allclose(strict(x), soft(x), atol=0.1)
        True
        >>> list(soft.head.paths)
        ['strict', 'free']

        A convolutional network, whose layers may become fully connected:

        >>> conv = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten())
        >>> soft = soften(conv, torch.randn(2, 1, 5, 5))
        >>> soft[0].paths["free"].weight.shape
        torch.Size([100, 25])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a network to soften, got {type(model).__name__}")
    if any(isinstance(module, PathSum) for module in model.modules()):
        raise ValueError("expected a network with hard constraints, got one with a PathSum in it")
    both = dict(zip((STRICT, FREE), _variances(variances), strict=True))
    if isinstance(start, bool) or not isinstance(start, Real) or not 0 <= start < inf:
        raise ValueError(f"expected a start of zero or more, got {start!r}")
    found = copy.deepcopy(model)
    if flexible is not None:
        if into is not None:
            raise ValueError("expected flexible paths or a group to break to, got both")
        return _beside(found, flexible, both, example)
    to_grid = isinstance(into, str) and into in GRID_SUBGROUPS
    subgroup = parse_group(into) if isinstance(into, str) and not to_grid else into
    if not isinstance(subgroup, Group | str | None):
        raise TypeError(f"expected a group to break to, got {type(subgroup).__name__}")
    like = next(iter(found.parameters()), torch.empty(0))
    vectors = VectorSoftening(
        both,
        subgroup if isinstance(subgroup, Group) else None,
        float(start),
        swish,
        like.device,
        like.dtype,
    )
    shapes = map_shapes(found, example) if subgroup is None or to_grid else {}
    soft: dict[nn.Module, nn.Module | None] = {}
    for name, layer in _outermost(found):
        if isinstance(layer, EMLP) and layer.has_frame and subgroup is None:
            vectors.network(layer)
            soft[layer] = layer
        elif isinstance(layer, EMLP):
            layer.has_frame = False
        elif is_map_layer(layer):
            if name in shapes:
                soft[layer] = soft_map_layer(
                    name,
                    layer,
                    shapes[name],
                    both,
                    into=str(into) if to_grid else None,
                    start=float(start),
                )
        elif not to_grid:
            soft[layer] = vectors.layer(layer)
    found = _replaced(found, {layer: new for layer, new in soft.items() if new is not None})
    if not any(isinstance(module, PathSum) for module in found.modules()):
        towards = "" if into is None else f" into {into}"
        raise ValueError(
            "expected a network with equivariant layers, shared weights or convolutions to soften"
            f"{towards}, got {type(model).__name__} without any"
        )
    return found


def _variances(given: tuple[float, float]) -> tuple[float, float]:
    try:
        strict, free = given
    except (TypeError, ValueError):
        raise TypeError(f"expected two variances, strict and flexible, got {given!r}") from None
    for variance in (strict, free):
        if isinstance(variance, bool) or not isinstance(variance, Real) or not 0 <= variance < inf:
            raise ValueError(f"expected variances of zero or more, got {given}")
    return float(strict), float(free)


def _outermost(model: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Modules from the outside in; below one that is softened as a whole nothing follows."""
    yield name, model
    if any(isinstance(child, PathSum) for child in model.modules()):
        return
    if is_map_layer(model):
        return
    for part, child in model.named_children():
        yield from _outermost(child, f"{name}.{part}" if name else part)


def _replaced(model: nn.Module, new: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """The network with some of its modules replaced, wherever they are used."""
    if model in new:
        return new[model]
    for module in list(model.modules()):
        for part, child in module._modules.items():
            if child is not None and child in new and new[child] is not module:
                setattr(module, part, new[child])
    return model


def _beside(
    model: nn.Module, flexible: Flexible, variances: Mapping[str, float], example: Tensor | None
) -> nn.Module:
    """Put the given flexible paths beside layers of the network."""
    layers = dict(model.named_modules())
    if isinstance(flexible, Mapping):
        given = dict(flexible)
        for name in given:
            if name not in layers:
                raise ValueError(
                    f"expected names of layers ({', '.join(list(layers)[1:7])}, …), got {name!r}"
                )
    elif callable(flexible):
        answers = {name: flexible(name, layer) for name, layer in layers.items()}
        given = {name: path for name, path in answers.items() if path is not None}
    else:
        raise TypeError(
            "expected flexible paths by name, or a function of name and layer, got "
            f"{type(flexible).__name__}"
        )
    new: dict[nn.Module, nn.Module] = {}
    for name, path in given.items():
        if not isinstance(path, nn.Module):
            raise TypeError(f"expected a module beside {name!r}, got {type(path).__name__}")
        new[layers[name]] = PathSum({STRICT: layers[name], FREE: path}, prior_variances=variances)
    if not new:
        raise ValueError("expected at least one flexible path, got none")
    found = _replaced(model, new)
    if example is not None:
        with torch.no_grad():
            found(example)  # paths of different shapes say so
    return found
