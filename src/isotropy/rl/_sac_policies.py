"""Policies of stable-baselines3 for SAC that know a symmetry of their environment."""

from __future__ import annotations

from typing import Any, ClassVar

from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN, Actor, SACPolicy
from torch import Tensor

from isotropy.nn._symmetric_network import NetworkKind
from isotropy.reps import Symmetry
from isotropy.rl._policy_networks import NetworkChoice, SymmetricOffPolicy, scale_last_layer


class SymmetricActor(Actor):
    """A Gaussian policy, squashed by tanh, whose mean and spread transform with observations.

        μ(ρ_s(g) s) = ρ_a(g) μ(s),      log σ(ρ_s(g) s) = |ρ_a(g)| log σ(s)

    exactly or softly so. The hyperbolic tangent of each entry is odd and so commutes with signed
    permutations, by which actions have to transform.

    Args:
        choice: The symmetry, and which networks.
        **kwargs: As for stable-baselines3's actor.
    """

    def __init__(self, choice: NetworkChoice, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"net_arch": []})
        self.choice = choice
        self.net_arch = list(kwargs["net_arch"])
        # one network with both heads takes the place of these
        del self.latent_pi, self.mu, self.log_std
        own = choice.symmetry
        heads = Symmetry(own.group, own.observation, own.action + own.action_magnitudes)
        self.network = choice.acting(heads, self.net_arch)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"choice": self.choice}

    def get_action_dist_params(self, obs: PyTorchObs) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Mean and log standard deviation before squashing, shape (batch, actions) each."""
        features = self.extract_features(obs, self.features_extractor)
        mean, log_std = self.network(features).chunk(2, -1)
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX), {}

    def set_training_mode(self, mode: bool) -> None:
        """Training or not: of no effect on the network, which is not walked through."""
        self.training = mode


class RPPPolicy(SymmetricOffPolicy, SACPolicy):
    """A policy for stable-baselines3's SAC with a prior towards a symmetry (thesis 3.6.1).

    Actor and critics are networks with residual pathway priors: they start, and prefer to stay,
    near ones that commute with the group, and can learn whatever breaks the symmetry. In place of
    either may stand an exactly symmetric network, or stable-baselines3's own (thesis A.2.2: a
    symmetric actor alone helps little, since it learns from a critic that is not).

    Args:
        observation_space: A box of observations.
        action_space: A box of actions that the group maps to itself.
        lr_schedule: Learning rates, from SAC.
        symmetry: The symmetry, or the id of a known environment, such as "Walker2d-v5".
        actor: The kind of network that acts: "rpp", "equivariant", or "mlp" for
            stable-baselines3's.
        critic: The kind that values actions.
        variances: (σ_a², σ_b²) of the strict and flexible paths of "rpp" (``soften``).
        start: What the usual starting weights of its flexible paths are multiplied by. SAC adds
            no prior to its loss, so this is what makes networks start near the symmetry.
        last_layer_scale: What the starting weights of the actor's last layer are multiplied by
            (thesis A.2.3.3); 1 leaves them as they are.
        **kwargs: As for stable-baselines3's ``SACPolicy``: ``net_arch``, ``n_critics``,
            ``optimizer_kwargs`` and others. The thesis has
            ``optimizer_kwargs={"betas": (0.5, 0.999)}``.

    Raises:
        TypeError: If there is no symmetry, spaces are not boxes, or an option is unknown.
        ValueError: If the symmetry does not fit the spaces, mixes entries of actions other than
            by exchanging them and changing signs, or an option has no symmetric meaning.

    Example:
        >>> import numpy as np
        >>> from gymnasium import spaces
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> box = spaces.Box(-1, 1, (2,))
        >>> torques = spaces.Box(-1, 1, (1,))
        >>> policy = RPPPolicy(box, torques, lambda _: 3e-4, flip, net_arch=[32, 32])
        >>> action, _ = policy.predict(np.zeros(2, np.float32), deterministic=True)
        >>> action.shape
        (1,)

        With SAC: ``SAC(RPPPolicy, env, policy_kwargs={"symmetry": symmetry})``.
    """

    _base = SACPolicy

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Actor:
        """The network that acts."""
        if self.choice.actor == "mlp":
            actor = super().make_actor(features_extractor)
            for head in ("mu", "log_std"):
                scale_last_layer(actor.get_submodule(head), self.choice.last_layer_scale)
            return actor
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return SymmetricActor(self.choice, **kwargs).to(self.device)


class EquivariantPolicy(RPPPolicy):
    """A policy for stable-baselines3's SAC that commutes with a symmetry, and such critics.

        π(ρ_a(g) a | ρ_s(g) s) = π(a | s),      Q(ρ_s(g) s, ρ_a(g) a) = Q(s, a)

    Options as for ``RPPPolicy``, of which this is the case without flexible paths.

    Example:
        >>> import numpy as np
        >>> from gymnasium import spaces
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> box = spaces.Box(-1, 1, (2,))
        >>> torques = spaces.Box(-1, 1, (1,))
        >>> policy = EquivariantPolicy(box, torques, lambda _: 3e-4, flip, net_arch=[32, 32])
        >>> left, right = np.array([[-0.5, 0.1], [0.5, 0.1]], dtype=np.float32)
        >>> bool(
        ...     policy.predict(left, deterministic=True)[0]
        ...     == -policy.predict(right, deterministic=True)[0]
        ... )
        True
    """

    _kind: ClassVar[NetworkKind] = "equivariant"
