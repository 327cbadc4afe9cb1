"""Copies of one network, each with weights of its own, computed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap


class Ensemble:
    """The same network once for every seed, as one batched computation.

    Each copy has the weights that ``reset_parameters`` of the network's layers gives after
    seeding with its own seed, and so does not depend on the other copies.

    Args:
        network: The network; its own weights are not used, its constants are shared.
        seeds: The seeds of the copies.
        device: Where to compute.

    Example:
        >>> from isotropy.nn import MLP
        >>> ensemble = Ensemble(MLP(4, 1, channels=8), seeds=[0, 1, 2])
        >>> ensemble(torch.randn(3, 10, 4)).shape
        torch.Size([3, 10, 1])
    """

    def __init__(
        self, network: nn.Module, seeds: Sequence[int], device: torch.device | str = "cpu"
    ) -> None:
        drawn = [_initial(network.cpu(), seed) for seed in seeds]
        self.network = network.to(device)
        self.parameters = {
            name: torch.stack([copy[name] for copy in drawn]).to(device).requires_grad_()
            for name in drawn[0]
        }

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __call__(self, x: Tensor) -> Tensor:
        """Apply each copy to inputs of its own, shape (copies, rows, *) to (copies, rows, *)."""
        buffers = dict(self.network.named_buffers())

        def one(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
            y: Tensor = functional_call(self.network, (parameters, buffers), (x,))
            return y

        y: Tensor = vmap(one)(self.parameters, x)
        return y

    def predict(self, x: Tensor, rows: int = 1000) -> Tensor:
        """As a call, without gradients and a few rows at a time."""
        with torch.no_grad():
            return torch.cat([self(part) for part in x.split(rows, 1)], 1)

    def to(self, dtype: torch.dtype) -> Ensemble:
        """Change the precision of all copies, in place."""
        self.network.to(dtype)
        self.parameters = {
            name: weight.detach().to(dtype).requires_grad_()
            for name, weight in self.parameters.items()
        }
        return self


def _initial(network: nn.Module, seed: int) -> dict[str, Tensor]:
    """The weights that the network's layers draw after seeding; torch's own seed stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in network.modules():
            reset: Callable[[], None] | None = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
    return {name: weight.detach().clone() for name, weight in network.named_parameters()}


def captured(work: Callable[[], None], stream: torch.cuda.Stream | None) -> Callable[[], None]:
    """Work that is launched as one CUDA graph, or the work itself where there is no stream.

    Small networks leave a GPU waiting for launches; a graph has one. The work must always
    use the same memory. It runs once before it is recorded: restore what that changes.

    Args:
        work: What to do.
        stream: The stream to record on and to launch into. Graphs that may run at the same
            time need different ones, because those of one stream share scratch memory.

    Example:
        >>> total = torch.zeros(())
        >>> add = captured(lambda: total.add_(1) and None, None)
        >>> add()
        >>> total
        tensor(1.)
    """
    if stream is None:
        return work
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    with torch.cuda.stream(stream):
        work()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()

    def launch() -> None:
        with torch.cuda.stream(stream):
            graph.replay()

    return launch


def stream_for(device: torch.device) -> torch.cuda.Stream | None:
    """A new stream on a GPU, ``None`` on other devices.

    Args:
        device: Where work is to be done.

    Example:
        >>> stream_for(torch.device("cpu")) is None
        True
    """
    return torch.cuda.Stream(device) if device.type == "cuda" else None
