"""Convolutional networks, the same with every layer free, and both at once (thesis 3.5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor, nn

from isotropy.nn import PathSum, soften, tensor_priors

Kind: TypeAlias = Literal["MLP", "RPP", "Conv"]

_SMALL = 1e-3
_PATHS = {"MLP": "free", "Conv": "strict"}


@dataclass(frozen=True)
class ConvNet:
    """Blocks of a 3×3 convolution and a ReLU, then one linear layer on the flattened map.

    Args:
        channels: Those of the convolutions, in order.
        outputs: How many the last layer gives.
        pools: After which convolutions a 2×2 max-pool stands, counted from 1.
        normalised: Whether there is a batch normalisation before each ReLU.

    Example:
        >>> import torch
        >>> net = ConvNet((4, 4), outputs=1).network("RPP", torch.zeros(2, 1, 3, 3))
        >>> net(torch.zeros(5, 1, 3, 3)).shape
        torch.Size([5, 1])
    """

    channels: tuple[int, ...]
    outputs: int
    pools: tuple[int, ...] = ()
    normalised: bool = False

    def network(
        self, kind: Kind, example: Tensor, variances: tuple[float, float] = (1.0, 1.0)
    ) -> nn.Module:
        """The network with convolutions, with free maps in their place, or with their sums.

        Each layer is a ``PathSum`` of "strict", "free" or both, so that the priors of all three
        networks are measured equally.

        Args:
            kind: "Conv", "MLP" or "RPP".
            example: Images of the size it is for; the network is made where they live.
            variances: σ² of strict and of free paths.
        """
        soft = soften(
            self._convolutional(example).to(example.device),
            example,
            variances=variances,
            start=1.0 if kind == "MLP" else _SMALL,
        )
        if kind == "RPP":
            return soft
        for name, layer in list(soft.named_children()):
            if isinstance(layer, PathSum):
                setattr(soft, name, _only(layer, _PATHS[kind]))
        return soft

    def _convolutional(self, example: Tensor) -> nn.Sequential:
        layers: list[nn.Module] = []
        into, height, width = example.shape[1:]
        for place, out in enumerate(self.channels, 1):
            layers.append(nn.Conv2d(into, out, 3, padding=1))
            layers += [nn.BatchNorm2d(out)] if self.normalised else []
            layers.append(nn.ReLU())
            if place in self.pools:
                layers.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
            into = out
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(into * height * width, self.outputs))


def _only(layer: PathSum, path: str) -> PathSum:
    """A sum of one path, with the prior that the path has in the whole sum."""
    prefix = f"paths.{path}."
    lengths = {
        name.removeprefix(prefix): length
        for name, length in layer.tensor_squared_lengths.items()
        if name.startswith(prefix)
    }
    return PathSum(
        {path: layer.paths[path]},
        prior_variances={path: layer.prior_variances[path]},
        squared_lengths={path: lengths},
    ).to(layer.log_variances.device)


def prior_pulls(model: nn.Module) -> dict[str, Tensor]:
    """c/σ² of all parameters with a prior N(0, σ²/c), by name, of a shape that broadcasts.

    Args:
        model: A network of ``ConvNet``, or any other with ``PathSum`` layers.

    Example:
        >>> import torch
        >>> net = ConvNet((4,), 1).network("MLP", torch.zeros(2, 1, 3, 3), (1.0, 10.0))
        >>> {name: round(float(pull), 3) for name, pull in prior_pulls(net).items()}
        {'0.paths.free.weight': 0.1, '0.paths.free.bias': 0.1}
    """
    return {
        prior.name: (-prior.log_variance).exp()
        * (1.0 if prior.squared_lengths is None else prior.squared_lengths)
        for prior in tensor_priors(model)
    }
