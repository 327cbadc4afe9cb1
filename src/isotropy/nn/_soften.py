"""Turning hard constraints into soft ones: residual pathway priors (thesis chapter 3)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from math import inf
from numbers import Real
from typing import TypeAlias

import torch
from torch import Tensor, nn

from isotropy._run import evaluation_mode
from isotropy.groups import Group, parse_group
from isotropy.nn._emlp import EMLP
from isotropy.nn._free_paths import SMALL
from isotropy.nn._path_sum import PathSum
from isotropy.nn._soft_layers import FREE, STRICT
from isotropy.nn._soften_maps import (
    GRID_SUBGROUPS,
    map_lengths,
    map_shapes,
    observed,
    shapes_of,
    soft_map_layer,
)
from isotropy.nn._soften_vectors import VectorSoftening, broken_to, vector_lengths

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
    nonlinearity stands a Swish of every column, times a weight with prior variance σ_b²; none
    beside one of complex numbers. Bilinear layers stay as they are.

    Softened are the equivariant and shared linear layers of this library, whatever
    ``make_equivariant`` constrained, convolutions and group convolutions. Q of a convolution are
    the Toeplitz matrices of single weights. Where these are not orthogonal (a kernel or its
    padding that meets the same place twice), or filters are products (several stages, weight
    normalisation), A has a prior, but not that of the equation. The weights of the strict paths
    stay what they are; flexible ones start near zero, so that the function hardly changes. The
    original is left untouched.

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
            module of the same signature will do. Nothing else is softened then. With an example
            the paths' shapes are compared, and convolutions have the prior of the equation.
        swish: Whether nonlinearities get their Swish.
        start: What the usual starting weights of flexible paths are multiplied by.

    Returns:
        A copy, with a ``PathSum`` of the paths "strict" and "free" in the place of each layer.

    Raises:
        TypeError: If something is of the wrong kind.
        ValueError: If there is nothing to soften, a variance is negative or both are zero,
            ``into`` is no subgroup, an example is needed and not given, or two paths differ in
            their shapes.

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
    for name, module in model.named_modules():
        if isinstance(module, PathSum):
            raise ValueError(f"expected a network with hard constraints, got a PathSum at {name!r}")
    both = dict(zip((STRICT, FREE), _variances(variances), strict=True))
    if isinstance(start, bool) or not isinstance(start, Real) or not 0 <= start < inf:
        raise ValueError(f"expected a finite start of zero or more, got {start!r}")
    found = copy.deepcopy(model)
    if flexible is not None:
        if into is not None:
            raise ValueError("expected flexible paths or a group to break to, got both")
        chosen = _given(found, flexible, both, example)
        return _replaced(found, "", lambda name, _: chosen.get(name), {})
    found = _replaced(found, "", _own(found, example, into, both, swish, float(start)), {})
    if not any(isinstance(module, PathSum) for module in found.modules()):
        raise ValueError(
            "expected a network with equivariant layers, shared weights or convolutions to "
            f"soften, got {type(model).__name__} without any"
            + ("" if into is None else f" whose symmetry can be broken to {into}")
        )
    return found


def _variances(given: tuple[float, float]) -> tuple[float, float]:
    try:
        strict, free = given
    except (TypeError, ValueError):
        raise TypeError(f"expected two variances, strict and flexible, got {given!r}") from None
    for variance in (strict, free):
        if isinstance(variance, bool) or not isinstance(variance, Real) or not 0 <= variance < inf:
            raise ValueError(f"expected finite variances of zero or more, got {given}")
    if strict == free == 0:
        raise ValueError("expected a variance above zero for one of the paths, got 0 for both")
    return float(strict), float(free)


def _replaced(
    module: nn.Module,
    name: str,
    soft_of: Callable[[str, nn.Module], nn.Module | None],
    done: dict[nn.Module, nn.Module],
) -> nn.Module:
    """A network with soft layers in the places of strict ones; shared ones stay shared."""
    if module in done:
        return done[module]
    before = set(module.modules())
    soft = soft_of(name, module)
    if soft is None:
        for part, child in module._modules.items():
            if child is not None:
                inside = f"{name}.{part}" if name else part
                setattr(module, part, _replaced(child, inside, soft_of, done))
    else:
        for new in set(soft.modules()) - before:
            new.training = module.training
    done[module] = module if soft is None else soft
    return done[module]


def _own(
    model: nn.Module,
    example: Tensor | None,
    into: Group | str | None,
    variances: Mapping[str, float],
    swish: bool,
    start: float,
) -> Callable[[str, nn.Module], nn.Module | None]:
    """The layer that takes the place of another, by name and layer; None where it stays."""
    on_grid = into if isinstance(into, str) and into in GRID_SUBGROUPS else None
    subgroup: Group | str | None = into
    if isinstance(into, str) and on_grid is None:
        try:
            subgroup = parse_group(into)
        except ValueError as error:
            raise ValueError(
                f"expected a group, or 'translations' or 'p4' for group convolutions, to break to, "
                f"got {into!r} ({error})"
            ) from error
    if not isinstance(subgroup, Group | str | None):
        raise TypeError(f"expected a group to break to, got {type(subgroup).__name__}")
    like = next(iter(model.parameters()), torch.empty(0))
    vectors = VectorSoftening(
        variances,
        broken_to(model, subgroup) if isinstance(subgroup, Group) else None,
        start,
        swish,
        like.device,
        like.dtype.to_real(),
    )
    shapes = {} if isinstance(subgroup, Group) else map_shapes(model, example)

    def soft_of(name: str, layer: nn.Module) -> nn.Module | None:
        if name in shapes:
            return soft_map_layer(name, layer, shapes[name], variances, into=on_grid, start=start)
        return vectors.layer(layer) if on_grid is None else None

    return soft_of


def _given(
    model: nn.Module, flexible: Flexible, variances: Mapping[str, float], example: Tensor | None
) -> dict[str, PathSum]:
    """Layers of the network beside the flexible paths that the user chose, by name."""
    layers = dict(model.named_modules())
    paths = _paths(layers, flexible)
    chosen = {name: layers[name] for name in paths}
    for name, layer in layers.items():
        inside = f"{name}." if name else ""
        if isinstance(layer, EMLP) and any(n != name and n.startswith(inside) for n in paths):
            layer.has_frame = False  # layer by layer, as modules of any kind can follow
    seen = {} if example is None else observed(model, chosen, example)
    found = {}
    for name, layer in chosen.items():
        pair = {STRICT: layer, FREE: paths[name]}
        for side in ("in_features", "out_features", "in_channels", "out_channels"):
            strict, free = (getattr(path, side, None) for path in pair.values())
            if None not in (strict, free) and strict != free:
                raise ValueError(
                    f"expected a flexible path with {side}={strict} beside {name!r}, got {free}"
                )
        lengths = {path: vector_lengths(module) for path, module in pair.items()}
        if name in seen:
            x, y = seen[name]
            _require_output(name, paths[name], x, y)
            shapes = shapes_of(name, layer, x, y)
            for path, module in pair.items():
                lengths[path].update(map_lengths(module, shapes))
        found[name] = PathSum(pair, prior_variances=variances, squared_lengths=lengths)
    return found


def _paths(layers: Mapping[str, nn.Module], flexible: Flexible) -> dict[str, nn.Module]:
    if isinstance(flexible, Mapping):
        found = dict(flexible)
    elif callable(flexible):
        answers = {name: flexible(name, layer) for name, layer in layers.items()}
        found = {name: path for name, path in answers.items() if path is not None}
    else:
        raise TypeError(
            "expected flexible paths by name, or a function of name and layer, got "
            f"{type(flexible).__name__}"
        )
    if not found:
        raise ValueError("expected at least one flexible path, got none")
    for name, path in found.items():
        if name not in layers:
            known = [repr(layer) for layer in layers]
            shown = ", ".join(known[:6] + ["…"] * (len(known) > 6))
            raise ValueError(f"expected names of layers ({shown}), got {name!r}")
        if not isinstance(path, nn.Module):
            raise TypeError(f"expected a module beside {name!r}, got {type(path).__name__}")
        inside = f"{name}." if name else ""
        within = [other for other in found if other != name and other.startswith(inside)]
        if within:
            raise ValueError(
                "expected layers of which none is a part of another, got flexible paths beside "
                f"{name!r} and {within[0]!r}"
            )
    return found


def _require_output(name: str, path: nn.Module, x: Tensor, y: Tensor) -> None:
    """Refuse a flexible path that does not map what a layer maps."""
    try:
        with evaluation_mode(path), torch.no_grad():
            found = tuple(path(x).shape)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ValueError(
            f"expected a flexible path beside {name!r} that takes inputs of shape "
            f"{tuple(x.shape)}, got {type(path).__name__}, which does not: {error}"
        ) from error
    if found != tuple(y.shape):
        raise ValueError(
            f"expected a flexible path beside {name!r} from shape {tuple(x.shape)} to "
            f"{tuple(y.shape)}, got {type(path).__name__} to {found}"
        )
