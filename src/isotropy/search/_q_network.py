"""The network of a deep Q-learning agent: values of all actions of a state, and their learning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

_LARGEST = 1e30  # far from float32's end, so that a sum over a batch is finite


class QNetwork:
    """Values of actions, learned towards r + γ max Q' of a copy that follows from time to time.

    Args:
        inputs: How many numbers describe a state.
        actions: How many actions there are.
        hidden: Widths of hidden layers.
        gamma: The discount γ.
        rate: The learning rate of Adam.
        random: Where initial weights come from.

    Example:
        >>> net = QNetwork(2, 3, (8,), 0.5, 1e-3, torch.Generator().manual_seed(0))
        >>> net.values(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hidden: Sequence[int],
        gamma: float,
        rate: float,
        random: torch.Generator,
    ) -> None:
        self._gamma = gamma
        self._net = _layers(inputs, actions, hidden)
        self._target = _layers(inputs, actions, hidden)
        with torch.no_grad():
            for layer in self._net:
                if isinstance(layer, nn.Linear):
                    bound = layer.in_features**-0.5
                    layer.weight.uniform_(-bound, bound, generator=random)
                    layer.bias.uniform_(-bound, bound, generator=random)
        self._adam = torch.optim.Adam(self._net.parameters(), lr=rate, fused=True)
        self.follow()

    @torch.no_grad()
    def values(self, states: Tensor) -> Tensor:
        """Values of all actions, of shape (states, actions).

        Args:
            states: Of shape (states, inputs).
        """
        found: Tensor = self._net(states)
        return found

    def learn(self, states: Tensor, actions: Tensor, rewards: Tensor, following: Tensor) -> None:
        """One step on a batch of transitions, with the smooth L1 loss and no end of an episode.

        Args:
            states: Where actions were taken, shape (batch, inputs).
            actions: Which, shape (batch,).
            rewards: What they gave, shape (batch,).
            following: Where they led, shape (batch, inputs).
        """
        with torch.no_grad():
            ahead = self._target(following).amax(1)
            goal = (rewards + self._gamma * ahead).clamp(-_LARGEST, _LARGEST)
        value = self._net(states).gather(1, actions[:, None])[:, 0]
        self._adam.zero_grad()
        functional.smooth_l1_loss(value, goal).backward()
        self._adam.step()

    def follow(self) -> None:
        """Make the copy equal to the network."""
        self._target.load_state_dict(self._net.state_dict())


def _layers(inputs: int, actions: int, hidden: Sequence[int]) -> nn.Sequential:
    widths = [inputs, *hidden]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.utils.skip_init(nn.Linear, before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.utils.skip_init(nn.Linear, widths[-1], actions))
