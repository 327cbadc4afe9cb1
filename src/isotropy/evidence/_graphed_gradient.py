"""Gradients of a training step as one CUDA graph: small networks spend their time on launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_WARM_UP = 3  # calls before the capture, as torch asks for


class GraphedGradient:
    """The loss of a batch and its gradients, captured once and replayed.

    What a replay does is fixed: it suits networks that do the same for every batch, by means of
    tensors alone. Batches of another shape than the first are left to the caller.
    """

    def __init__(
        self, loss: Callable[[Tensor, Tensor, Tensor], Tensor], parameters: Sequence[Tensor]
    ) -> None:
        self._loss, self._parameters = loss, list(parameters)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[Tensor, Tensor, Tensor] | None = None
        self._outputs: tuple[Tensor, list[Tensor | None]] | None = None

    def fits(self, x: Tensor, y: Tensor) -> bool:
        """Whether a batch has the shape of the one that was captured, if any was."""
        if self._inputs is None:
            return True
        same = zip((x, y), self._inputs, strict=False)
        return all(a.shape == b.shape and a.dtype == b.dtype for a, b in same)

    def __call__(self, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """The loss; the gradients are in the parameters' ``grad``."""
        if self._graph is None:
            self._capture(x, y, weights)
        assert self._graph is not None
        assert self._inputs is not None
        assert self._outputs is not None
        for kept, given in zip(self._inputs, (x, y, weights), strict=True):
            kept.copy_(given)
        self._graph.replay()
        loss, gradients = self._outputs
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        return loss

    def _capture(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        device = self._parameters[0].device
        self._inputs = tuple(t.to(device, copy=True) for t in (x, y, weights))  # type: ignore[assignment]
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._step()
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._outputs = self._step()
        self._graph = graph

    def _step(self) -> tuple[Tensor, list[Tensor | None]]:
        assert self._inputs is not None
        with torch.enable_grad():
            loss = self._loss(*self._inputs)
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        return loss.detach(), list(gradients)
