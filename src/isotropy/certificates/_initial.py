"""Where training starts: θ₀ as a function of the model and a seed, as bytes, or trained."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from math import sqrt

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.conv import _ConvNd

from isotropy._run import Checkpoint, ProgressCallback
from isotropy.certificates._counter_random import random_normals
from isotropy.certificates._descent import Descent, descend
from isotropy.certificates._goal import Goal
from isotropy.certificates._header import Rejected
from isotropy.certificates._orbit_layers import OrbitConv2d
from isotropy.certificates._vector_networks import ProjectedLinear
from isotropy.nn import BiLinear, Linear, SharedLinear

# linear layers of an equivariant perceptron start small: products of their outputs are added
_BESIDE_PRODUCTS = 0.85
# The largest weight of a start, as of the message's own numbers. A projection on an equivariant
# space leaves rounding errors of 1e-16 of the largest weight: of 1e37 they are all that is left of
# a weight outside the space, and decide what the network says.
_LARGEST = float(np.finfo(np.float16).max)
_RATE = 0.002


def initial_parameters(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Parameters to start from, drawn by a counter: one stream for each, in their order.

    Weights are normal with variance 1/fan-in, where the fan-in is the number of entries for one
    output: half of what is usual with ReLU, because what is learned lies in few dimensions and
    must not drown in what was drawn. What the model was constructed with at one constant, such as
    scales of one and shifts of zero, stays; other vectors, and the biases of linear layers and
    convolutions, become zero. So nothing is left of PyTorch's own random numbers.

    Layers of this library have fan-ins of their own: shared weights count as often as they are
    used, bilinear layers, which scale themselves, start from the standard normal, and the linear
    layers beside them at 0.85 of the deviation.

    Args:
        model: Any module with real parameters.
        seed: A natural number below 2⁶⁴.

    Returns:
        A float64 tensor on the CPU for every parameter, by name.

    Raises:
        ValueError: If the model has no parameters, or some that are complex or without memory.

    Example:
        >>> model = nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 3))
        >>> start = initial_parameters(model, seed=0)
        >>> print(*(abs(round(float(values.std()), 1)) for values in start.values()))
        0.1 0.0 0.1 0.0
    """
    owners = _owners(model)
    start: dict[str, Tensor] = {}
    for place, (name, parameter) in enumerate(model.named_parameters()):
        if not parameter.is_floating_point():
            raise ValueError(f"expected real parameters, got {name} of {parameter.dtype}")
        if parameter.is_meta:
            raise ValueError(f"expected parameters with values, got {name} without memory")
        value = parameter.detach().to("cpu", torch.float64, copy=True)
        owner, attribute = owners[name]
        deviation = _deviation(owner, attribute, value)
        if deviation == 0:
            value.zero_()
        elif deviation is not None:
            drawn = random_normals(seed, place, value.numel())
            value = deviation * drawn.reshape(value.shape)
        start[name] = value
    return start


def film_names(model: nn.Module) -> list[str]:
    """The parameters of normalisations and of the last layer, which FiLM subspaces train.

    A normalisation is a module with ``Norm`` in the name of its class; the last layer is the last
    module, in the order of construction, that has a weight matrix of its own.

    Returns:
        Names, in the order of ``model.named_parameters()``.

    Raises:
        ValueError: If the model has no parameters.

    Example:
        >>> film_names(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 2)))
        ['1.weight', '1.bias', '2.weight', '2.bias']
    """
    owners, last = _owners(model), _last_layer(model)
    return [
        name
        for name, _ in model.named_parameters()
        if (owner := owners[name][0]) is last or "norm" in type(owner).__name__.lower()
    ]


def _owners(model: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """The module of every parameter, and its name there; a bilinear layer owns its lists."""
    owners: dict[str, tuple[nn.Module, str]] = {}
    for prefix, module in model.named_modules():
        whole = isinstance(module, BiLinear)
        for attribute, _ in module.named_parameters(recurse=whole):
            owners.setdefault(f"{prefix}.{attribute}" if prefix else attribute, (module, attribute))
    if not owners:
        raise ValueError(f"expected a model with parameters, got {type(model).__name__} with none")
    return owners


def _last_layer(model: nn.Module) -> nn.Module | None:
    def has_weights(module: nn.Module) -> bool:
        own = module.parameters(recurse=False)
        return isinstance(module, Linear | SharedLinear) or any(p.ndim > 1 for p in own)

    return next((m for m in reversed(list(model.modules())) if has_weights(m)), None)


def _deviation(owner: nn.Module, attribute: str, value: Tensor) -> float | None:
    """Of the numbers to draw: 0 for zeros, None where the value stays."""
    if isinstance(owner, BiLinear):
        return 1.0
    if isinstance(owner, OrbitConv2d) and attribute == "weight":
        return sqrt(1 / owner.fan_in)
    if isinstance(owner, ProjectedLinear) and attribute == "weight":
        return _BESIDE_PRODUCTS * sqrt(1 / value.shape[1])
    if isinstance(owner, Linear | SharedLinear) and attribute == "coefficients":
        return sqrt(1 / float(owner.weight_space.row_counts().double().mean()))
    if value.numel() > 1:
        drawn = bool((value != value.flatten()[0]).any())
    else:  # one number is a constant, but these layers draw it
        drawn = value.numel() == 1 and isinstance(owner, nn.Linear | _ConvNd | nn.Bilinear)
    if not drawn:
        return None
    return sqrt(value.shape[0] / value.numel()) if value.ndim > 1 else 0.0


def pack_start(model: nn.Module, tensors: Mapping[str, Tensor]) -> bytes:
    """θ₀ and the buffers as float32, in the module's order."""
    parts = [
        tensors[name].detach().cpu().flatten().to(torch.float32) for name in _start_names(model)
    ]
    return torch.cat(parts).numpy().astype("<f4").tobytes()


def unpack_start(model: nn.Module, content: bytes, *, buffers: bool) -> dict[str, Tensor]:
    """The tensors that `pack_start` wrote, in float64.

    Args:
        model: Whose they are.
        content: The bytes.
        buffers: Whether its buffers are among them, as for a user's own module. Those of the
            catalogue's networks follow from the architecture: what a file says of them is left out.

    Raises:
        Rejected: If there are more or fewer numbers than the module has, one is not finite, or a
            weight of a network of the catalogue is above 65504.
    """
    names = _start_names(model)
    wanted = sum(tensor.numel() for tensor in names.values())
    if len(content) != 4 * wanted:
        raise Rejected(
            f"the certificate holds {len(content)} bytes of start, its network needs {4 * wanted}"
        )
    with np.errstate(invalid="ignore"):  # bits that are not a number are refused below
        numbers = torch.from_numpy(np.frombuffer(content, "<f4").astype(np.float64))
    if not bool(torch.isfinite(numbers).all()):
        raise Rejected("the certificate's start holds what is not a finite number")
    start, at = {}, 0
    for name, tensor in names.items():
        start[name] = numbers[at : at + tensor.numel()].view(tensor.shape)
        at += tensor.numel()
    if buffers:
        return start
    start = {name: start[name] for name, _ in model.named_parameters()}
    largest = max((float(w.abs().max()) for w in start.values() if w.numel()), default=0.0)
    if largest > _LARGEST:
        raise Rejected(
            f"the start of a network of the catalogue has weights up to {_LARGEST:.0f}, "
            f"this one has {largest:.3g}"
        )
    return start


def _start_names(model: nn.Module) -> dict[str, Tensor]:
    names: dict[str, Tensor] = dict(model.named_parameters())
    names.update((n, b) for n, b in model.named_buffers() if b.is_floating_point())
    return names


def trained_start(
    model: nn.Module,
    goal: Goal,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int | None = None,
    seed: int = 0,
    batch: int = 128,
    progress: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
) -> dict[str, Tensor]:
    """Train all parameters of a module by Adam; images are moved by up to a pixel in fourteen.

    Args:
        model: The module; it is copied, and starts from `initial_parameters`.
        goal: What to learn.
        x: Inputs of the rows that may be used, where to train.
        y: Their targets.
        epochs: Passes over them; ``None`` takes 20, or as many as make 3000 steps.
        seed: Of the start and the order.
        batch: Rows in a step.
        progress: Called after each epoch.
        checkpoint: From which an interrupted run goes on.

    Returns:
        Parameters and floating-point buffers, by name, on the CPU.
    """
    net = copy.deepcopy(model).to(x.device).train()
    drawn = initial_parameters(model, seed)
    for name, parameter in net.named_parameters():
        parameter.data.copy_(drawn[name])
    own: dict[str, Tensor] = dict(net.named_parameters())
    batch = min(batch, max(1, len(x) // 20))
    if epochs is None:
        epochs = max(20, -(-3000 // (len(x) // batch)))
    shift = min(x.shape[-2:]) // 14 if x.ndim == 4 else 0
    descend(
        lambda rows, targets: goal.loss(functional_call(net, own, (rows,)), targets),
        [(parameter, _RATE) for parameter in own.values()],
        x,
        y,
        Descent(epochs, batch, seed=seed),
        name="training the prior",
        augment=_Shifts(shift) if shift else None,
        progress=progress,
        checkpoint=checkpoint,
    )
    found = {**own, **{n: b for n, b in net.named_buffers() if b.is_floating_point()}}
    return {name: tensor.detach().cpu().double() for name, tensor in found.items()}


class _Shifts:
    """Moves each image of a batch by its own whole number of pixels, filling with its corner."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __call__(self, x: Tensor, order: torch.Generator) -> Tensor:
        n, _, height, width = x.shape
        moves = torch.randint(0, 2 * self.most + 1, (2, n, 1), generator=order).to(x.device)
        padded = nn.functional.pad(x, [self.most] * 4, mode="replicate")
        rows = torch.arange(height, device=x.device) + moves[0]
        columns = torch.arange(width, device=x.device) + moves[1]
        batch = torch.arange(n, device=x.device)[:, None, None]
        return padded.movedim(1, -1)[batch, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)
