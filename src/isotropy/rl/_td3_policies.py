"""Policies of stable-baselines3 for TD3 and DDPG that know a symmetry of their environment."""

from __future__ import annotations

from typing import Any, ClassVar

from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.td3.policies import Actor, TD3Policy
from torch import nn

from isotropy.nn._symmetric_network import NetworkKind
from isotropy.rl._policy_networks import NetworkChoice, SymmetricOffPolicy


class SymmetricDeterministicActor(Actor):
    """An action for every observation, squashed by tanh: μ(ρ_s(g) s) = ρ_a(g) μ(s), or softly so.

    Args:
        choice: The symmetry, and which networks.
        **kwargs: As for stable-baselines3's actor.
    """

    def __init__(self, choice: NetworkChoice, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"net_arch": []})
        self.choice = choice
        self.net_arch = list(kwargs["net_arch"])
        _ = choice.symmetry.action_magnitudes  # fails where tanh of entries does not commute
        network = choice.acting(choice.symmetry.policy, self.net_arch)
        self.mu = nn.Sequential(network, nn.Tanh())

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"choice": self.choice}


class RPPTD3Policy(SymmetricOffPolicy, TD3Policy):
    """A policy for stable-baselines3's TD3 and DDPG with a prior towards a symmetry.

    What ``RPPPolicy`` is for SAC, with the same options and errors, but for actions without noise
    of their own; ``last_layer_scale`` is that of symmetric actors only.

    Example:
        >>> from gymnasium import spaces
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> box, torques = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,))
        >>> policy = RPPTD3Policy(box, torques, lambda _: 1e-3, flip, net_arch=[32, 32])
        >>> policy.predict(box.sample())[0].shape
        (1,)
    """

    _base = TD3Policy

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Actor:
        """The network that acts."""
        if self.choice.actor == "mlp":
            return super().make_actor(features_extractor)
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return SymmetricDeterministicActor(self.choice, **kwargs).to(self.device)


class EquivariantTD3Policy(RPPTD3Policy):
    """A policy for stable-baselines3's TD3 and DDPG that commutes with a symmetry.

    Options as for ``RPPTD3Policy``, of which this is the case without flexible paths.

    Example:
        >>> from gymnasium import spaces
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> box, torques = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,))
        >>> policy = EquivariantTD3Policy(box, torques, lambda _: 1e-3, flip, net_arch=[32, 32])
        >>> s = box.sample()
        >>> bool(abs(policy.predict(s * [-1, 1])[0] + policy.predict(s)[0]) < 1e-6)
        True
    """

    _kind: ClassVar[NetworkKind] = "equivariant"
