"""The published way to the Lie derivative (Gruver, Finzi, Goldblum & Wilson 2023), written anew.

A bilinear resampler that gathers four corners, forward derivatives by differentiating twice in
reverse, one image at a time; layer by layer with random probes. For translations along x.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel


def prepared(model: nn.Module, *, frozen: bool = False) -> nn.Module:
    """A copy in evaluation mode in which no module works in place, as double backward needs it.

    Args:
        model: A network that gives probabilities.
        frozen: Whether parameters need no gradients, which the published code leaves them.
    """
    model = copy.deepcopy(model).eval()
    for module in model.modules():
        if getattr(module, "inplace", False):
            module.inplace = False  # type: ignore[assignment]
    return model.requires_grad_(not frozen)


# --- the transformation -----------------------------------------------------------------------


def translate(z: Tensor, t: Tensor) -> Tensor:
    """Move a picture by t half widths; bilinear, reflected at the outermost pixels' centres.

    Args:
        z: A picture (n, c, h, w), or tokens (n, length, c) of a square one after up to two extra.
        t: How far, shape (1,).
    """
    extra = _extra_tokens(z)
    if extra is None:
        return _sampled(z, t)
    side = isqrt(z.shape[1] - extra)
    picture = z[:, extra:].unflatten(1, (side, side)).permute(0, 3, 1, 2)
    moved = _sampled(picture, t).flatten(2).transpose(1, 2)
    return torch.cat([z[:, :extra], moved], 1)


def is_picture(z: Tensor) -> bool:
    """Whether a value is taken for a picture: by its shape alone."""
    if z.ndim == 4:
        return z.shape[2:] != (1, 1)
    return _extra_tokens(z) is not None


def _extra_tokens(z: Tensor) -> int | None:
    if z.ndim != 3:
        return None
    return next((k for k in range(3) if isqrt(max(0, z.shape[1] - k)) ** 2 == z.shape[1] - k), None)


def _sampled(picture: Tensor, t: Tensor) -> Tensor:
    height, width = picture.shape[2:]
    y, x = (torch.linspace(-1, 1, size).to(picture) for size in (height, width))
    row, column = torch.meshgrid(_folded(y, height), _folded(x + t, width), indexing="ij")
    top, left = row.floor(), column.floor()
    down, right = row - top, column - left
    flat = picture.flatten(2)
    total = torch.zeros_like(flat)
    for i, weight_i in ((top, 1 - down), (top + 1, down)):
        for j, weight_j in ((left, 1 - right), (left + 1, right)):
            index = i.clamp(0, height - 1).long() * width + j.clamp(0, width - 1).long()
            corner = flat.gather(2, index.flatten().expand_as(flat))
            total = total + corner * (weight_i * weight_j).flatten()
    return total.view_as(picture)


def _folded(coordinate: Tensor, size: int) -> Tensor:
    """From [−1, 1] to pixels, what sticks out folded back once."""
    last = size - 1
    return last - (last - ((coordinate + 1) * (last / 2)).abs()).abs()


# --- end to end -------------------------------------------------------------------------------


def lie_derivative(model: nn.Module, x: Tensor, *, keep_graph: bool = True) -> Tensor:
    """The Lie derivative of a prepared model whose outputs are invariant, shape of the outputs.

    Args:
        model: From `prepared`.
        x: One image, shape (1, c, h, w).
        keep_graph: Whether the result can be differentiated again, as in the published code.
    """
    with sdpa_kernel(SDPBackend.MATH):
        return _derivative(lambda t: model(translate(x, t)), x, keep_graph)


def lie_derivative_forward(model: nn.Module, x: Tensor) -> Tensor:
    """The same derivative of the same transformation in forward mode, to compare with."""
    t = x.new_zeros(1)
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        moved: Tensor = torch.func.jvp(
            lambda t: model(translate(x, t)), (t,), (torch.ones_like(t),)
        )[1]
    return moved


def _derivative(f: Callable[[Tensor], Tensor], like: Tensor, keep_graph: bool) -> Tensor:
    """The derivative of f at 0: vᵀ df is linear in v, so its derivative in v is df."""
    with torch.enable_grad():
        t = like.new_zeros(1).requires_grad_()
        y = f(t)
        v = torch.ones_like(y, requires_grad=True)
        (row,) = torch.autograd.grad(y, t, v, create_graph=True)
        (moved,) = torch.autograd.grad(row, v, torch.ones_like(t), create_graph=keep_graph)
    return moved


# --- layer by layer ---------------------------------------------------------------------------


class Probed:
    """Squared lengths of the layers' contributions, estimated with random probes.

    Making it finds the Lie derivative L f of each call of a module without submodules, on its own;
    every probe is a forward and a backward pass of the whole model, which gives z·df L f.

    Args:
        model: From `prepared`.
        x: One image, shape (1, c, h, w).

    Attributes:
        own: The name of each call's module and its L f; None where the input is no picture.
        probes: How many there were.
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        self.model, self.x = model, x
        self.own: list[tuple[str, Tensor | None]] = []
        self.probes = 0

        def find(name: str, module: nn.Module, z: Tensor, out: Tensor) -> None:
            self.own.append((name, _own_derivative(module, z, out)))

        with sdpa_kernel(SDPBackend.MATH), torch.no_grad(), _hooked(model, find):
            model(x)
        self._squares = torch.zeros(len(self.own), dtype=torch.float64)

    def probe(self, generator: torch.Generator | None = None) -> None:
        """Draw one more z."""
        calls = iter(range(len(self.own)))

        def watch(_name: str, _module: nn.Module, _z: Tensor, out: Tensor) -> None:
            call = next(calls)
            own = self.own[call][1]
            if own is not None and out.requires_grad:
                out.register_hook(lambda slope: self._add(call, (slope * own).sum()))

        with torch.enable_grad(), _hooked(self.model, watch):
            y = self.model(self.x)
            z = torch.randn(y.shape, generator=generator, dtype=y.dtype)
            (z * y).sum().backward()
        self.model.zero_grad()
        self.probes += 1

    def _add(self, call: int, estimate: Tensor) -> None:
        self._squares[call] += float(estimate) ** 2

    def squares(self) -> dict[str, float]:
        """The estimated ‖C‖² of each call, by the name of its module and its number."""
        means = (self._squares / self.probes).tolist()
        names = [f"{call} {name}" for call, (name, _) in enumerate(self.own)]
        return dict(zip(names, means, strict=True))


def _own_derivative(module: nn.Module, z: Tensor, out: Tensor) -> Tensor | None:
    if not is_picture(z):
        return None
    back = is_picture(out)

    def there_and_back(t: Tensor) -> Tensor:
        moved: Tensor = module.forward(translate(z, t))  # not by a call, which has hooks
        return translate(moved, -t) if back else moved

    return _derivative(there_and_back, z, keep_graph=True).detach()


@contextmanager
def _hooked(
    model: nn.Module, do: Callable[[str, nn.Module, Tensor, Tensor], None]
) -> Iterator[None]:
    """Tell of each call of a module without submodules: its name, input and output."""
    handles = []

    def hook(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda module, given, out: do(name, module, given[0], out)

    for name, module in model.named_modules():
        if next(module.children(), None) is None and not isinstance(module, nn.Dropout):
            handles.append(module.register_forward_hook(hook(name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
