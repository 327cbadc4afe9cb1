"""Networks of a group search: trained to the least held-out loss, and compared on others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._train_classifier import (
    doubtful_losses,
    kept_apart,
    outputs_of,
    train_network,
)
from isotropy.discovery.reading._image_data import ImageData
from isotropy.nn import GridNetwork
from isotropy.search._space import SearchSpace, State


def fit_grid_network(
    data: ImageData, space: SearchSpace, state: State, seed: int
) -> tuple[GridNetwork, dict[str, Any]]:
    """Train the network of a state.

    Returns:
        The network in evaluation mode, and its description for ``build_model``.

    Example:
        >>> from isotropy.data import load
        >>> import numpy as np
        >>> y = np.arange(120) % 2
        >>> x = y[:, None, None] + 0.1 * np.random.default_rng(0).normal(size=(120, 4, 4))
        >>> data = ImageData.of(load((x, y)))
        >>> space = SearchSpace((1, 4, 4), ("rotation",), ((4,),))
        >>> network, spec = fit_grid_network(data, space, State(("rotation",)), 0)
        >>> spec["groups"], float((network(data.x).argmax(1) == data.y).float().mean())
        (['rotation'], 1.0)
    """
    hidden = space.hidden[state.hidden]
    spec = {
        "kind": "grid network",
        "image": list(data.image),
        "outputs": data.classes,
        "groups": list(state.groups),
        "hidden": list(hidden),
    }
    units = float(data.x.mean()), float(data.x.std().clamp_min(1e-6))
    with torch.random.fork_rng([]):
        torch.set_rng_state(make_generator(seed).get_state())
        network = GridNetwork(
            data.image,
            space.transformations(state),
            hidden=hidden,
            classes=data.classes,
            standardise=units,
        )
    train_network(network, network.head, data, make_generator(seed))
    return network, spec


class ComparedNetworks:
    """Networks of states, each fitted to the same rows several times; their losses on others."""

    def __init__(
        self,
        space: SearchSpace,
        fitted: ImageData,
        outside: ImageData,
        seeds: range,
        report: Callable[[State], None],
    ) -> None:
        self._space, self._fitted, self._outside = space, fitted, outside
        self._seeds, self._report = seeds, report
        self._chosen_by = len(kept_apart(fitted, make_generator(seeds[0]))[1])
        self._outputs: dict[State, list[Tensor]] = {}

    def losses(self, state: State) -> Tensor:
        """What the network of a state loses on each row, the mean over its trainings."""
        y, constant = self._outside.y, self._fitted.constant
        losses = [
            doubtful_losses(outputs, y, constant, self._chosen_by)
            for outputs in self._predictions(state)
        ]
        return torch.stack(losses).mean(0)

    def accuracy(self, state: State) -> float:
        """The share of rows that it classifies rightly, the mean over its trainings."""
        right = [
            (outputs.argmax(1) == self._outside.y).double().mean()
            for outputs in self._predictions(state)
        ]
        return float(torch.stack(right).mean())

    def _predictions(self, state: State) -> list[Tensor]:
        if state not in self._outputs:
            outputs = []
            for seed in self._seeds:
                network, _ = fit_grid_network(self._fitted, self._space, state, seed)
                outputs.append(outputs_of(network, self._outside.x))
                self._report(state)
            self._outputs[state] = outputs
        return self._outputs[state]
