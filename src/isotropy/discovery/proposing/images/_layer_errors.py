"""How much each layer of a fitted network breaks translation, by the Lie derivative."""

from __future__ import annotations

from torch import Tensor

from isotropy.discovery.predictors._image_network import DEPTH, ImageNetwork
from isotropy.equivariance import MeasureOptions, measure

_IMAGES = 8


def layer_errors(network: ImageNetwork, maps: Tensor) -> list[float] | None:
    """The contribution of each of the four layers to the error under translation.

    Returns:
        A number for each layer; None where the network cannot be measured.

    Example:
        >>> import torch
        >>> network = ImageNetwork((1, 8, 8), 2, [["conv"]] * 3 + [["factored", "conv"]], alpha=2)
        >>> errors = layer_errors(network.eval(), torch.rand(4, 1, 8, 8))
        >>> errors is None or len(errors)
        4
    """
    try:
        found = measure(
            network,
            maps[:_IMAGES],
            "translation",
            layers=True,
            options=MeasureOptions(layer_inputs=_IMAGES),
            samples=0,
        )
    except (ValueError, RuntimeError):  # a picture that is missing is no reason to stop a search
        return None
    totals = [0.0] * DEPTH
    for layer in found.layers["translation"].layers:
        room, _, rest = layer.name.partition(".")
        number = rest.partition(".")[0]
        if room == "layers" and number.isdigit():
            totals[int(number)] += float(layer.contribution)
    return totals
