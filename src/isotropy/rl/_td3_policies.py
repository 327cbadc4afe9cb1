"""Policies of stable-baselines3 for TD3 and DDPG that know a symmetry of their environment."""

from __future__ import annotations

from typing import Any, ClassVar

from gymnasium import spaces
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.td3.policies import Actor, TD3Policy
from torch import nn

from isotropy.nn._symmetric_network import NetworkKind
from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._magnitudes import magnitudes
from isotropy.rl._policy_networks import (
    AsksItsAlgorithm,
    NetworkChoice,
    SymmetricCritic,
    require_box,
    require_options,
)


class SymmetricDeterministicActor(Actor):
    """An action for every observation, squashed by tanh: μ(ρ_s(g) s) = ρ_a(g) μ(s), or nearly.

    Args:
        choice: The symmetry, and which networks.
        **kwargs: As for stable-baselines3's actor.
    """

    def __init__(self, choice: NetworkChoice, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"net_arch": []})
        self.choice = choice
        self.net_arch = list(kwargs["net_arch"])
        magnitudes(choice.symmetry.action)  # says so where tanh of each entry does not commute
        network = choice.acting(choice.symmetry.policy, self.net_arch)
        self.mu = nn.Sequential(network, nn.Tanh())

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"choice": self.choice}


class RPPTD3Policy(TD3Policy, AsksItsAlgorithm):
    """A policy for stable-baselines3's TD3 and DDPG with a prior towards a symmetry.

    What ``RPPPolicy`` is for SAC, with the same options, but for actions without noise of their
    own.

    Args:
        observation_space: A box of observations.
        action_space: A box of actions that the group maps to itself.
        lr_schedule: Learning rates, from the algorithm.
        symmetry: The symmetry, or the id of a known environment, such as "Walker2d-v5".
        actor: The kind of network that acts: "rpp", "equivariant", or "mlp" for
            stable-baselines3's.
        critic: The kind that values actions.
        variances: (σ_a², σ_b²) of the strict and flexible paths of "rpp" (``soften``).
        start: What the usual starting weights of its flexible paths are multiplied by.
        last_layer_scale: What the starting weights of a symmetric actor's last layer are
            multiplied by; 1 leaves them as they are.
        **kwargs: As for stable-baselines3's ``TD3Policy``.

    Raises:
        TypeError: If there is no symmetry, spaces are not boxes, or an option is unknown.
        ValueError: If the symmetry does not fit the spaces, or mixes entries of actions other than
            by exchanging them and changing signs.

    Example:
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> box, torques = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,))
        >>> policy = RPPTD3Policy(box, torques, lambda _: 1e-3, flip, net_arch=[32, 32])
        >>> policy.predict(box.sample())[0].shape
        (1,)
    """

    _kind: ClassVar[NetworkKind] = "rpp"

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Box,
        lr_schedule: Schedule,
        symmetry: EnvironmentSymmetry | str | None = None,
        *,
        actor: NetworkKind | None = None,
        critic: NetworkKind | None = None,
        variances: tuple[float, float] = (1e5, 1.0),
        start: float = 1e-3,
        last_layer_scale: float = 0.01,
        **kwargs: Any,
    ) -> None:
        require_options(type(self), TD3Policy, kwargs)
        require_box(type(self), action_space)
        self.choice = NetworkChoice.fitting(
            (observation_space, action_space),
            symmetry,
            self._kind if actor is None else actor,
            self._kind if critic is None else critic,
            variances,
            start,
            last_layer_scale,
        )
        super().__init__(observation_space, action_space, lr_schedule, **kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self.choice.options()

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Actor:
        """The network that acts."""
        if self.choice.actor == "mlp":
            return super().make_actor(features_extractor)
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return SymmetricDeterministicActor(self.choice, **kwargs).to(self.device)

    def make_critic(
        self, features_extractor: BaseFeaturesExtractor | None = None
    ) -> ContinuousCritic:
        """The networks that value actions."""
        if self.choice.critic == "mlp":
            return super().make_critic(features_extractor)
        kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
        return SymmetricCritic(self.choice, **kwargs).to(self.device)


class EquivariantTD3Policy(RPPTD3Policy):
    """A policy for stable-baselines3's TD3 and DDPG that commutes with a symmetry.

    Options as for ``RPPTD3Policy``, of which this is the case without flexible paths.

    Example:
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> box, torques = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,))
        >>> policy = EquivariantTD3Policy(box, torques, lambda _: 1e-3, flip, net_arch=[32, 32])
        >>> s = box.sample()
        >>> bool(abs(policy.predict(s * [-1, 1])[0] + policy.predict(s)[0]) < 1e-6)
        True
    """

    _kind: ClassVar[NetworkKind] = "equivariant"
