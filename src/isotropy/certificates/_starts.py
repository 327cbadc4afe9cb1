"""θ₀ as bytes, for certificates whose message does not say it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from isotropy.certificates._rejected import Rejected

# The largest weight of a start, as of the message's own numbers. A projection on an equivariant
# space leaves rounding errors of 1e-16 of the largest weight: of 1e37 they are all that is left of
# a weight outside the space, and decide what the network says.
_LARGEST = float(np.finfo(np.float16).max)


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
