"""Equivariance to shifts of each layer by itself, to compare the Lie derivative with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy._run._moved_keywords import moved_keywords
from isotropy.equivariance._action import Place
from isotropy.equivariance._axes import Axes
from isotropy.equivariance._eq_t import (
    ShiftOptions,
    drawn_shifts,
    interior_of,
    shift_action,
    shift_elements,
)
from isotropy.equivariance._evaluation import evaluating, inputs_for
from isotropy.equivariance._residuals import MEAN_SQUARED_ERROR, SampledError, batch_residuals

Normalisation: TypeAlias = Literal["1", "1/sqrt(N)", "1/N"]


@dataclass(frozen=True)
class LayerEqT:
    """What shifts do to one layer.

    Args:
        name: The layer's name in the model, and the number of the call after the first.
        kind: Its class.
        error: The error, normalised as asked for.
        size: How many outputs were compared, N.
    """

    name: str
    kind: str
    error: SampledError
    size: int


@moved_keywords(shifts=ShiftOptions)
def layerwise_eq_t(
    model: nn.Module,
    x: Tensor,
    *,
    fractional: bool = False,
    normalisation: Normalisation = "1/N",
    samples: int = 20,
    shifts: ShiftOptions | None = None,
    channels_last: bool = False,
    batch_size: int | None = None,
    generator: torch.Generator | int | None = 0,
) -> tuple[LayerEqT, ...]:
    """EQ-T, or EQ-T_frac, of each layer by itself (thesis, A.3.3.1; Figure 4.4, right).

    Each layer f_i is applied to its own input h, as it is in the model, shifted; the shift is
    undone on its output:

        E_x E_t ‖ρ(t)⁻¹ f_i(ρ(t) h) − f_i(h)‖² · {1, 1/√N, 1/N},    N = C·H·W of the output.

    Nothing says which factor makes layers of different sizes comparable, and the order of layers
    depends on it; `measure` needs none. Layers are modules without children that take and give
    one tensor on which shifts are known to act: maps, or tokens that tile the image. Whole pixels
    (EQ-T) are those of the layer's input.

    Args:
        model: The model.
        x: Images, shape (N, C, H, W).
        fractional: Whether shifts are of any length (EQ-T_frac) or whole pixels (EQ-T).
        normalisation: What the squared norm is multiplied by.
        samples: The number of shifts.
        shifts: How far they go, and where outputs are compared.
        channels_last: Whether the images have their channels last.
        batch_size: How many images the model is given at once; None for all.
        generator: Seed or generator of the shifts.

    Returns:
        The layers in the order in which they are called.

    Raises:
        TypeError: If the model is not a module.
        ValueError: If the shifts or the images do not fit.

    Example:
        >>> conv = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
        >>> model = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(128, 3))
        >>> x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> for layer in layerwise_eq_t(model, x, fractional=True):
        ...     layer.kind, layer.size, layer.error.value > 1e-9
        ('Conv2d', 128, False)
        ('ReLU', 128, True)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a module, got {type(model).__name__}")
    if normalisation not in get_args(Normalisation):
        known = ", ".join(get_args(Normalisation))
        raise ValueError(f"expected a normalisation among {known}, got {normalisation!r}")
    shifts = shifts or ShiftOptions()
    drawn = drawn_shifts(x, samples, batch_size, shifts.fraction, generator)
    placing = shift_action((1.0, 1.0), shifts.boundary, channels_last)
    tables: dict[tuple[str, str], list[Tensor]] = {}
    sizes: dict[tuple[str, str], int] = {}
    calls: dict[str, int] = defaultdict(int)
    at_images: Place

    def compare(name: str, module: nn.Module, h: Tensor, y: Tensor) -> None:
        calls[name] += 1
        at_input = placing.guessed_place(tuple(h.shape), at_images)
        at_output = placing.guessed_place(tuple(y.shape), at_images)
        if not isinstance(at_input, Axes) or not isinstance(at_output, Axes):
            return
        elements = shift_elements(drawn, fractional, shifts.boundary, at_input, at_output)
        kept = interior_of(y, at_output, shifts.margin)
        table, size = batch_residuals(module, h, y, elements, kept)
        label = name if calls[name] == 1 else f"{name} (call {calls[name]})"
        key = label, type(module).__name__
        tables.setdefault(key, []).append(table)
        sizes[key] = size

    with evaluating(model), torch.no_grad(), _each_layer(model, compare):
        for batch in x.split(batch_size or len(x)):
            images = inputs_for(model, batch)
            at_images = placing.input_place(images)
            calls.clear()
            model(images.clone())
    power = {"1": 0.0, "1/sqrt(N)": 0.5, "1/N": 1.0}[normalisation]
    kind = MEAN_SQUARED_ERROR if power == 1 else f"squared norm times {normalisation}"
    return tuple(
        LayerEqT(
            *key,
            SampledError.of(torch.cat(table, 1) / sizes[key] ** power, kind, drawn=True),
            sizes[key],
        )
        for key, table in tables.items()
    )


@contextmanager
def _each_layer(
    model: nn.Module, compare: Callable[[str, nn.Module, Tensor, Tensor], None]
) -> Iterator[None]:
    """Call a function with the input and the output of every layer, each time it is called."""
    inputs: dict[nn.Module, Tensor] = {}
    busy = False  # while a layer is being compared, it is called again

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        alone = len(args) == 1 and isinstance(args[0], Tensor) and not kwargs
        if not busy and alone and args[0].is_floating_point():
            inputs[module] = args[0].clone()  # it may work in place

    def after(name: str) -> Any:
        def hook(module: nn.Module, _: Any, y: Any) -> None:
            nonlocal busy
            h = None if busy else inputs.pop(module, None)
            if h is None or not isinstance(y, Tensor) or not y.is_floating_point():
                return
            busy = True
            try:
                compare(name, module, h, y)
            finally:
                busy = False

        return hook

    handles = []
    try:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                handles.append(module.register_forward_hook(after(name)))
        yield
    finally:
        for handle in handles:
            handle.remove()
