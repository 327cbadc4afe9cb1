"""Policies of stable-baselines3 for PPO and A2C that know a symmetry of their environment."""

from __future__ import annotations

from typing import ClassVar

import torch
from stable_baselines3.common.distributions import DiagGaussianDistribution, Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from isotropy.nn._symmetric_network import NetworkKind
from isotropy.reps import Scalar, Symmetry
from isotropy.rl._normalisation import linked_entries
from isotropy.rl._policy_networks import SymmetricPolicy


class RPPActorCriticPolicy(SymmetricPolicy, ActorCriticPolicy):
    """A policy for stable-baselines3's PPO and A2C with a prior towards a symmetry.

    Means of continuous actions, or logits of discrete ones, transform as actions do, and values
    stay: softly so (thesis 3.4). Spreads of continuous actions do not depend on observations, as in
    stable-baselines3; in an equivariant actor those that the group exchanges are one number.

    Options and errors are those of ``RPPPolicy``; actions may be discrete, and critics value
    observations.

    Example:
        >>> from gymnasium import spaces
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([-torch.eye(4)], [[1, 0]])
        >>> box, pushes = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)
        >>> policy = RPPActorCriticPolicy(box, pushes, lambda _: 3e-4, flip)
        >>> policy.get_distribution(torch.zeros(7, 4)).distribution.probs.shape
        torch.Size([7, 2])

        With PPO: ``PPO(RPPActorCriticPolicy, env, policy_kwargs={"symmetry": symmetry})``.
    """

    _base = ActorCriticPolicy

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
            _ = choice.symmetry.action_magnitudes  # fails where spreads have no such action
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
        >>> from gymnasium import spaces
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
