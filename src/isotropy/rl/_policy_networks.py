"""What the policies for stable-baselines3 share: options, the choice of networks, critics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from math import inf
from numbers import Real
from typing import Any, ClassVar, get_args

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy, ContinuousCritic
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from isotropy.nn._symmetric_network import NetworkKind, symmetric_network
from isotropy.reps import Symmetry
from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._policy_spaces import fitting_symmetry


@dataclass(frozen=True)
class NetworkChoice:
    """Which networks a policy is made of.

    Args:
        symmetry: The symmetry of the environment.
        actor: The kind of network that acts: "rpp", "equivariant" or "mlp", stable-baselines3's.
        critic: The kind that values actions or observations.
        variances: (σ_a², σ_b²) of "rpp" (``symmetric_network``).
        start: What the starting weights of its flexible paths are multiplied by.
        last_layer_scale: What those of the actor's last layer are multiplied by.
    """

    symmetry: EnvironmentSymmetry
    actor: NetworkKind
    critic: NetworkKind
    variances: tuple[float, float] = (1e5, 1.0)
    start: float = 1e-3
    last_layer_scale: float = 0.01

    def __post_init__(self) -> None:
        for name, kind in (("actor", self.actor), ("critic", self.critic)):
            if kind not in get_args(NetworkKind):
                raise ValueError(
                    f"expected {name} to be 'rpp', 'equivariant' or 'mlp', got {kind!r}"
                )
        scale = self.last_layer_scale
        if isinstance(scale, bool) or not isinstance(scale, Real) or not 0 < scale < inf:
            raise ValueError(f"expected last_layer_scale above zero, got {scale!r}")

    @staticmethod
    def fitting(
        spaces_of: tuple[spaces.Space[Any], spaces.Space[Any]],
        symmetry: EnvironmentSymmetry | str | None,
        actor: NetworkKind,
        critic: NetworkKind,
        *options: Any,
    ) -> NetworkChoice:
        """The choice, of a symmetry that fits the spaces of observations and actions.

        Args:
            spaces_of: Of observations and of actions.
            symmetry: The symmetry, or the id of a known environment.
            actor: The kind of network that acts.
            critic: The kind that values.
            options: The others, in order.
        """
        fitted = fitting_symmetry(symmetry, *spaces_of, strict="equivariant" in (actor, critic))
        return NetworkChoice(fitted, actor, critic, *options)

    def acting(self, symmetry: Symmetry, widths: Sequence[int]) -> nn.Module:
        """The actor's network, for how its inputs and outputs transform."""
        network = self._network(symmetry, self.actor, widths)
        head = network.get_submodule("head")
        scale_last_layer(head, self.last_layer_scale)
        return network

    def valuing(self, symmetry: Symmetry, widths: Sequence[int]) -> nn.Module:
        """A critic's network, for how its inputs transform."""
        return self._network(symmetry, self.critic, widths)

    def _network(self, symmetry: Symmetry, kind: NetworkKind, widths: Sequence[int]) -> nn.Module:
        return symmetric_network(
            symmetry, kind, widths=widths, variances=self.variances, start=self.start
        )

    def options(self) -> dict[str, Any]:
        """What a policy was asked for, to be made again when it is loaded."""
        return dict(self.__dict__)


def scale_last_layer(layer: nn.Module, scale: float) -> None:
    """Multiply all weights of a layer, so that policies start near zero (thesis A.2.3.3)."""
    with torch.no_grad():
        for weight in layer.parameters():
            weight.mul_(scale)


def _require_options(
    policy: type[nn.Module], base: type[nn.Module], kwargs: dict[str, Any]
) -> None:
    """Refuse options that no policy has, that stand between observations and networks, or noise.

    Raises:
        TypeError: If one is unknown.
        ValueError: If one has no symmetric meaning.
    """
    known, ours = (signature(one).parameters for one in (base, policy))
    for name in kwargs:
        if name in known:
            continue
        if name in ("use_sde", "n_critics"):  # which algorithms add to what users ask for
            raise TypeError(_other_algorithm(policy))
        near = get_close_matches(name, [*ours, *known], n=1)
        meant = f": did you mean {near[0]}?" if near else ""
        raise TypeError(f"expected options of {policy.__name__}, got {name!r}{meant}")
    _require_plain_features(kwargs)


def _other_algorithm(policy: type[nn.Module]) -> str:
    return (
        f"expected an algorithm that {policy.__name__} is for, and its options, got another's: "
        "RPPPolicy is for SAC, RPPTD3Policy for TD3 and DDPG, RPPActorCriticPolicy for PPO and A2C"
    )


def _require_plain_features(policy_kwargs: dict[str, Any]) -> None:
    """Refuse what would stand between observations and networks, or makes noise of its own."""
    extractor = policy_kwargs.get("features_extractor_class", FlattenExtractor)
    if extractor is not FlattenExtractor:
        raise ValueError(
            "expected observations as they are for a symmetric network, got a features extractor, "
            f"{extractor.__name__}"
        )
    if policy_kwargs.get("use_sde"):
        raise ValueError(
            "expected use_sde=False for a symmetric policy, got True, whose noise has no symmetry"
        )


@contextmanager
def constant(network: nn.Module) -> Iterator[None]:
    """Take the parameters of a network as constants in what is computed within the context."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


class SymmetricCritic(ContinuousCritic):
    """Values of observations and actions that a symmetry does not change, exactly or softly.

        Q(ρ_s(g) s, ρ_a(g) a) = Q(s, a)

    Where actions carry gradients, as in the loss of the actor, none are taken of the critic's own
    parameters: SAC and TD3 throw these away.

    Args:
        choice: The symmetry, and which networks.
        **kwargs: As for stable-baselines3's critic.
    """

    def __init__(self, choice: NetworkChoice, **kwargs: Any) -> None:
        widths = kwargs["net_arch"]
        super().__init__(**kwargs | {"net_arch": []})
        for place in range(self.n_critics):
            network = choice.valuing(choice.symmetry.critic, widths)
            self.q_networks[place] = network
            self.add_module(f"qf{place}", network)

    def forward(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        """The value of each pair by each critic, shape (batch, 1)."""
        with constant(self) if actions.requires_grad else nullcontext():
            return super().forward(obs, actions)

    def q1_forward(self, obs: Tensor, actions: Tensor) -> Tensor:
        """The value of each pair by the first critic, shape (batch, 1)."""
        with constant(self) if actions.requires_grad else nullcontext():
            return super().q1_forward(obs, actions)

    def set_training_mode(self, mode: bool) -> None:
        """Training or not: of no effect on the networks, which are not walked through."""
        self.training = mode


class SymmetricPolicy(BasePolicy):
    """What policies for all algorithms share, mixed into a policy of stable-baselines3."""

    _base: ClassVar[type[BasePolicy]]
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
        _require_options(type(self), self._base, kwargs)
        self._require_actions(action_space)
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

    def _require_actions(self, action_space: spaces.Space[Any]) -> None:
        """Refuse actions of a kind that this policy does not take."""

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self.choice.options()

    def __getattr__(self, name: str) -> Any:
        """What torch's modules find, or that the algorithm asks for what another's policy has."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name not in ("actor", "actor_target", "q_net"):
                raise
            raise AttributeError(_other_algorithm(type(self))) from None


class SymmetricOffPolicy(SymmetricPolicy):
    """What policies for SAC, TD3 and DDPG share: boxes of actions, and critics of them."""

    critic_kwargs: dict[str, Any]

    def _require_actions(self, action_space: spaces.Space[Any]) -> None:
        if not isinstance(action_space, spaces.Box):
            raise TypeError(
                f"expected a box of actions for {type(self).__name__}, got {action_space}: "
                "discrete ones are for RPPActorCriticPolicy, with PPO or A2C"
            )

    def make_critic(
        self, features_extractor: BaseFeaturesExtractor | None = None
    ) -> ContinuousCritic:
        """The networks that value actions."""
        if self.choice.critic == "mlp":
            plain: ContinuousCritic = super().make_critic(features_extractor)  # type: ignore[misc]
            return plain  # by the policy that this is mixed into
        kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
        return SymmetricCritic(self.choice, **kwargs).to(self.device)
