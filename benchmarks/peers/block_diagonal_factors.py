"""The published way to the evidence of F-FC+CONV (van der Ouderaa et al. 2023), written anew.

Both products of a factored layer become one dense linear layer each, by inputs that are written
out as block-diagonal matrices: KFAC then has dense input factors of size (C·P)² and (C'·C)², all
but their blocks zero, and dense eigendecompositions of them.

Where the published code leaves a choice, or does more than is needed, this does the cheaper:
factors stay in float32, no gradient of a weight is taken on the way to a factor, eigenvectors are
left out. Maps are halved by our own pool, so that both networks are the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn import FactoredLinear, LayerwiseNetwork, PathSum, PolyphasePool2d


class BlockDiagonalLinear(nn.Module):
    """A factored layer as two dense linear layers.

    Args:
        layer: One of ours, whose parameters are copied.
    """

    def __init__(self, layer: FactoredLinear) -> None:
        super().__init__()
        self.size_out = layer.size_out
        into, out = layer.in_channels, layer.out_channels
        self.inner = nn.Linear(into * prod(layer.size_in), out)
        self.outer = nn.Linear(out * into, prod(layer.size_out))
        self.to(layer.inner)
        with torch.no_grad():
            self.inner.weight.copy_(layer.inner.flatten(1))
            self.inner.bias.copy_(cast(Tensor, layer.inner_bias))
            self.outer.weight.copy_(layer.outer.permute(2, 0, 1).flatten(1))
            self.outer.bias.copy_(cast(Tensor, layer.outer_bias))

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, C, *size_in) to (n, C', *size_out)."""
        middle = self.inner(_block_diagonal(x.flatten(2)))
        y: Tensor = self.outer(_block_diagonal(middle.mT)).unflatten(2, self.size_out)
        return y


def _block_diagonal(rows: Tensor) -> Tensor:
    """Row c in columns of its own: (n, c, width) to (n, c, c · width)."""
    samples, count, _ = rows.shape
    whole: Tensor = torch.block_diag(*rows.unbind(1)).unflatten(0, (count, samples))
    return whole.transpose(0, 1)


class BlockDiagonalNetwork(nn.Module):
    """F-FC+CONV with its factored layers written out.

    Args:
        network: One of ours with paths "factored" and "conv"; its parameters are copied.
    """

    def __init__(self, network: LayerwiseNetwork) -> None:
        super().__init__()
        self.factored, self.convolutions = nn.ModuleList(), nn.ModuleList()
        self.halves = []
        for layer in cast("list[PathSum]", list(network.layers)):
            self.factored.append(BlockDiagonalLinear(cast(FactoredLinear, layer.paths["factored"])))
            self.convolutions.append(_copied(layer.paths["conv"]))
            self.halves.append(layer.pool is not None)
        self.pool = PolyphasePool2d()
        self.hidden, self.head = _copied(network.hidden), _copied(network.head)

    def forward(self, x: Tensor) -> Tensor:
        """Images (n, channels, size, size) to outputs (n, classes)."""
        paths = zip(self.factored, self.convolutions, self.halves, strict=True)
        for factored, convolution, halves in paths:
            strict = convolution(x)
            x = (0.5 * ((self.pool(strict) if halves else strict) + factored(x))).relu()
        y: Tensor = self.head(self.hidden(x.flatten(1)).relu())
        return y


def _copied(module: nn.Module) -> nn.Module:
    """A module of its own with the same parameters."""
    if isinstance(module, nn.Conv2d):
        size = module.in_channels, module.out_channels, module.kernel_size
        copy: nn.Module = nn.Conv2d(*size, padding=1, padding_mode="circular")  # type: ignore[arg-type]
    else:
        assert isinstance(module, nn.Linear), module
        copy = nn.Linear(module.in_features, module.out_features)
    copy.to(next(module.parameters())).load_state_dict(module.state_dict())
    return copy


class DenseFactors:
    """KFAC of linear layers and convolutions, rows as if they were samples.

    With inputs a and gradients g at the output of N samples with T rows each, a weight has the
    factors A = Σ aaᵀ / N and B = Σ ggᵀ / T, a bias T·B.

    Args:
        model: A classifier.

    Attributes:
        input: N·A of each layer by name, shape (in, in).
        output: T·B of each layer by name, shape (out, out).
        rows: T of each layer by name.
        samples: N.
        log_likelihood: That of all samples together.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.layers = {
            name: layer
            for name, layer in model.named_modules()
            if isinstance(layer, nn.Linear | nn.Conv2d)
        }
        self.input: dict[str, Tensor] = {}
        self.output: dict[str, Tensor] = {}
        self.rows: dict[str, int] = {}
        self.samples = 0
        self.log_likelihood = 0.0

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add the factors of a batch: one forward pass, a backward pass for each class."""
        outputs: dict[str, Tensor] = {}
        handles = [
            layer.register_forward_hook(self._listener(name, outputs))
            for name, layer in self.layers.items()
        ]
        try:
            logits = self.model(x)
        finally:
            for handle in handles:
                handle.remove()
        for column in _columns(logits.detach()):
            found = torch.autograd.grad(logits, list(outputs.values()), column, retain_graph=True)
            for name, gradient in zip(outputs, found, strict=True):
                _add(self.output, name, _rows(gradient))
        self.samples += len(x)
        self.log_likelihood -= float(functional.cross_entropy(logits, y, reduction="sum").detach())

    def _listener(
        self, name: str, outputs: dict[str, Tensor]
    ) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def listen(layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
            x = given[0].detach()
            rows = _patches(x) if isinstance(layer, nn.Conv2d) else x.flatten(0, -2)
            _add(self.input, name, rows)
            self.rows[name] = len(rows) // len(x)
            outputs[name] = output

        return listen

    def widths(self) -> list[int]:
        """Those of all dense factors: two for each layer."""
        weights = [layer.weight for layer in self.layers.values()]
        return [width for w in weights for width in (w[0].numel(), len(w))]

    def eigenvalues(self) -> list[Tensor]:
        """The eigenvalues of the curvature of each parameter."""
        found = []
        for name in self.layers:
            a = torch.linalg.eigvalsh(self.input[name] / self.samples).clamp(min=0)
            b = torch.linalg.eigvalsh(self.output[name] / self.rows[name]).clamp(min=0)
            found += [torch.outer(b, a).flatten(), b * self.rows[name]]
        return found

    def log_evidence(self, precision: float = 1.0) -> float:
        """Log p(D|θ) − ½ δ‖θ‖² − ½ log det(1 + H/δ), one precision δ for all parameters."""
        spectra = self.eigenvalues()
        determinant = sum(float((values / precision).log1p().sum()) for values in spectra)
        square = sum(float(p.detach().square().sum()) for p in self.model.parameters())
        return self.log_likelihood - (precision * square + determinant) / 2


def _add(sums: dict[str, Tensor], name: str, rows: Tensor) -> None:
    if name in sums:
        sums[name].addmm_(rows.mT, rows)
    else:
        sums[name] = rows.mT @ rows


def _rows(gradient: Tensor) -> Tensor:
    """The rows of a gradient at an output; channels come first in that of a map."""
    if gradient.ndim == 4:
        return gradient.transpose(0, 1).flatten(1).mT
    return gradient.flatten(0, -2)


def _patches(x: Tensor) -> Tensor:
    """What a circular kernel of 3×3 sees at each place, shape (n · places, 9 · channels)."""
    bordered = functional.pad(x, (1, 1, 1, 1), mode="circular")
    return functional.unfold(bordered, 3).transpose(0, 1).flatten(1).mT


def _columns(logits: Tensor) -> Iterator[Tensor]:
    """√p_k (e_k − p) for each class k, a root of the Hessian diag(p) − ppᵀ."""
    p = logits.softmax(1)
    for k in range(p.shape[1]):
        unit = torch.zeros_like(p)
        unit[:, k] = 1
        yield p[:, k : k + 1].sqrt() * (unit - p)
