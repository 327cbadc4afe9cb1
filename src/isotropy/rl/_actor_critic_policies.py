"""Policies of stable-baselines3 for PPO and A2C that know a symmetry of their environment."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import DiagGaussianDistribution, Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from isotropy.nn._symmetric_network import NetworkKind
from isotropy.reps import Scalar, Symmetry
from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._magnitudes import magnitudes
from isotropy.rl._normalisation import linked_entries
from isotropy.rl._policy_networks import AsksItsAlgorithm, NetworkChoice, require_options


class RPPActorCriticPolicy(ActorCriticPolicy, AsksItsAlgorithm):
    """A policy for stable-baselines3's PPO and A2C with a prior towards a symmetry.

    Means of continuous actions, or logits of discrete ones, transform as actions do, and values
    stay: softly so (thesis 3.4). Spreads of continuous actions do not depend on observations, as in
    stable-baselines3; in an equivariant actor those that the group exchanges are one number.

    Args:
        observation_space: A box of observations.
        action_space: A box of actions that the group maps to itself, or discrete ones.
        lr_schedule: Learning rates, from the algorithm.
        symmetry: The symmetry, or the id of a known environment, such as "CartPole-v1".
        actor: The kind of network that acts: "rpp", "equivariant", or "mlp" for
            stable-baselines3's.
        critic: The kind that values observations.
        variances: (σ_a², σ_b²) of the strict and flexible paths of "rpp" (``soften``).
        start: What the usual starting weights of its flexible paths are multiplied by.
        last_layer_scale: What the starting weights of the actor's last layer are multiplied by;
            stable-baselines3's own actor has the same.
        **kwargs: As for stable-baselines3's ``ActorCriticPolicy``.

    Raises:
        TypeError: If there is no symmetry, a space is of another kind, or an option is unknown.
        ValueError: If the symmetry does not fit the spaces, or mixes entries of actions other than
            by exchanging them and changing signs, or an option has no symmetric meaning.

    Example:
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([-torch.eye(4)], [[1, 0]])
        >>> box, pushes = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)
        >>> policy = RPPActorCriticPolicy(box, pushes, lambda _: 3e-4, flip)
        >>> policy.get_distribution(torch.zeros(7, 4)).distribution.probs.shape
        torch.Size([7, 2])

        With PPO: ``PPO(RPPActorCriticPolicy, env, policy_kwargs={"symmetry": symmetry})``.
    """

    _kind: ClassVar[NetworkKind] = "rpp"

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
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
        require_options(type(self), ActorCriticPolicy, kwargs)
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

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        if self.choice.actor != "mlp":
            self._make_actor_symmetric()
        if self.choice.critic != "mlp":
            self._make_critic_symmetric()
        self.optimizer = self.optimizer_class(
            self.parameters(),
            lr=lr_schedule(1),  # type: ignore[call-arg]
            **self.optimizer_kwargs,
        )

    def _make_actor_symmetric(self) -> None:
        """Whole networks take the places of trunks, and nothing that of heads."""
        choice = self.choice
        network = choice.acting(choice.symmetry.policy, self._widths()[0])
        self.mlp_extractor.add_module("policy_net", network.to(self.device))
        self.action_net = nn.Identity()
        self._spread_of: Tensor | None = None
        if isinstance(self.action_dist, DiagGaussianDistribution):
            magnitudes(choice.symmetry.action)  # says so where spreads have no such action
            if choice.actor == "equivariant":
                self._spread_of = linked_entries(choice.symmetry.action)
                count = int(self._spread_of.max()) + 1
                self.log_std = nn.Parameter(torch.full((count,), float(self.log_std_init)))

    def _make_critic_symmetric(self) -> None:
        choice = self.choice
        value = Symmetry(choice.symmetry.group, choice.symmetry.observation, Scalar)
        network = choice.valuing(value, self._widths()[1])
        self.mlp_extractor.add_module("value_net", network.to(self.device))
        self.add_module("value_net", nn.Identity())

    def _widths(self) -> tuple[list[int], list[int]]:
        if isinstance(self.net_arch, dict):
            return self.net_arch.get("pi", []), self.net_arch.get("vf", [])
        return self.net_arch, self.net_arch

    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Distribution:
        spread_of = getattr(self, "_spread_of", None)
        if spread_of is None:
            return super()._get_action_dist_from_latent(latent_pi)
        assert isinstance(self.action_dist, DiagGaussianDistribution)
        spread = self.log_std[spread_of.to(self.log_std.device)]
        return self.action_dist.proba_distribution(self.action_net(latent_pi), spread)


class EquivariantActorCriticPolicy(RPPActorCriticPolicy):
    """A policy for stable-baselines3's PPO and A2C that commutes with a symmetry.

        π(ρ_a(g) a | ρ_s(g) s) = π(a | s),      V(ρ_s(g) s) = V(s)

    Options as for ``RPPActorCriticPolicy``, of which this is the case without flexible paths.

    Example:
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([-torch.eye(4)], [[1, 0]])
        >>> box, pushes = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)
        >>> policy = EquivariantActorCriticPolicy(box, pushes, lambda _: 3e-4, flip)
        >>> s = torch.randn(5, 4)
        >>> left, right = (policy.get_distribution(x).distribution.probs for x in (s, -s))
        >>> torch.allclose(left, right.flip(-1))
        True
    """

    _kind: ClassVar[NetworkKind] = "equivariant"
