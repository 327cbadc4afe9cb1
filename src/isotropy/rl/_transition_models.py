"""Networks that predict what follows on a state and an action."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isotropy.data import TransitionChunks, Transitions
from isotropy.nn._symmetric_network import NetworkKind, symmetric_network
from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._known_environments import environment_symmetry
from isotropy.rl._normalisation import EquivariantScaler

Values: TypeAlias = Tensor | NDArray[Any]


class TransitionModel(nn.Module):
    """A model of transitions: states in, the change of state out (thesis A.2.3.4).

        s′ = s + μ + σ · NN((s − μ_s)/σ_s, (a − μ_a)/σ_a)

    The scales commute with the group, so that the model does where the network does. Quaternions
    need no conversion: the group acts on them linearly, with q and −q exchanged by one element.

    Args:
        symmetry: How the group acts on observations and actions, or the id of a known environment,
            such as "Swimmer-v5".
        kind: "equivariant" for a model that commutes with the group, "rpp" for one with a prior
            that prefers to, "mlp" for a free one.
        widths: The width of each hidden layer.
        variances: Prior variances (σ_a², σ_b²) of "rpp"; those of the thesis by default.
        start: What the usual starting weights of flexible paths are multiplied by.
        seed: The seed of the starting weights.
        device: Where the model lives.

    Raises:
        TypeError: If there is no symmetry.
        ValueError: If the environment is not known, or a width does not fit the group.

    Example:
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> model = TransitionModel(flip, "equivariant", widths=(16, 16))
        >>> s, a = torch.randn(5, 2), torch.randn(5, 1)
        >>> mirrored = torch.tensor([-1.0, 1.0])
        >>> torch.allclose(model(mirrored * s, -a), mirrored * model(s, a), atol=1e-5)
        True
    """

    state_mean: Tensor
    state_scale: Tensor
    action_mean: Tensor
    action_scale: Tensor
    change_mean: Tensor
    change_scale: Tensor

    def __init__(
        self,
        symmetry: EnvironmentSymmetry | str,
        kind: NetworkKind = "rpp",
        *,
        widths: Sequence[int] = (256, 256),
        variances: tuple[float, float] = (1e6, 3.0),
        start: float = 1e-3,
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(symmetry, str):
            symmetry = environment_symmetry(symmetry)
        if not isinstance(symmetry, EnvironmentSymmetry):
            raise TypeError(
                "expected an EnvironmentSymmetry or the id of a known environment, "
                f"got {type(symmetry).__name__}"
            )
        self.symmetry, self.kind = symmetry, kind
        with torch.random.fork_rng(devices=[]):
            # torch.manual_seed would seed the streams of GPUs too, which nothing puts back
            torch.default_generator.manual_seed(seed)
            self.network = symmetric_network(
                symmetry.transition, kind, widths=widths, variances=variances, start=start
            )
        sizes = {
            "state": symmetry.observation_size,
            "action": symmetry.action_size,
            "change": symmetry.observation_size,
        }
        for name, size in sizes.items():
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_scale", torch.ones(size))
        self.to(device)

    def fit_scales(self, data: Transitions | TransitionChunks) -> TransitionModel:
        """Set means and scales of states, actions and changes from data.

        Free models have one for each entry; for others the mean is that of all images under the
        group, and entries that the group mixes have one scale.

        Args:
            data: Transitions, or stretches of them.

        Returns:
            The model itself.

        Raises:
            TypeError: If the data are something else.
            ValueError: If their sizes are not those of the symmetry.
        """
        s, a, following = one_by_one(data)
        reps = self.symmetry.observation, self.symmetry.action, self.symmetry.observation
        for name, values, rep in zip(
            ("state", "action", "change"), (s, a, following - s), reps, strict=True
        ):
            if values.shape[1] != rep.size():
                raise ValueError(
                    f"expected {name}s of size {rep.size()}, got {values.shape[1]}: "
                    "the symmetry is that of another environment"
                )
            mean, scale = _entrywise(values)
            if self.kind != "mlp":
                scaler = EquivariantScaler(rep).fit(values.cpu())
                mean, scale = scaler.mean, scaler.scale
            getattr(self, f"{name}_mean").copy_(mean)
            getattr(self, f"{name}_scale").copy_(scale)
        return self

    def forward(self, state: Values, action: Values) -> Tensor:
        """The states that follow, (*, n) and (*, m) to (*, n), in the model's own precision."""
        state, action = self._own(state), self._own(action)
        inputs = torch.cat(
            [
                (state - self.state_mean) / self.state_scale,
                (action - self.action_mean) / self.action_scale,
            ],
            -1,
        )
        change: Tensor = self.network(inputs)
        return state + self.change_mean + self.change_scale * change

    def _own(self, values: Values) -> Tensor:
        """Values in the precision of the model; arrays come to its device too."""
        own = self.state_mean
        if isinstance(values, Tensor):
            # the same tensor where nothing changes, so vmap and CUDA graphs see no more than before
            return values.to(own.dtype)
        return torch.as_tensor(values, dtype=own.dtype, device=own.device)

    def rollout(self, state: Values, actions: Values) -> Tensor:
        """Follow a plan of actions.

        Args:
            state: The first states, shape (*, n).
            actions: Shape (*, T, m).

        Returns:
            States, the first one among them, shape (*, T + 1, n).
        """
        states = [self._own(state)]
        for action in self._own(actions).unbind(-2):
            states.append(self(states[-1], action))
        return torch.stack(states, -2)


def _entrywise(values: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation of each column; one for those that do not change."""
    mean, deviation = values.mean(0), values.std(0, correction=0)
    constant = deviation <= 1e-6 * mean.abs()
    return mean, torch.where(constant, torch.ones_like(deviation), deviation)


def one_by_one(data: Transitions | TransitionChunks) -> tuple[Tensor, Tensor, Tensor]:
    """States, actions and next states of data, shape (N, n), (N, m) and (N, n)."""
    require_transitions(data)
    if isinstance(data, Transitions):
        return data.observations, data.actions, data.next_observations
    states = data.observations
    return states[:, :-1].flatten(0, 1), data.actions.flatten(0, 1), states[:, 1:].flatten(0, 1)


def require_transitions(data: object) -> None:
    """Raise where these are neither transitions nor stretches of them."""
    if not isinstance(data, Transitions | TransitionChunks):
        advice = ": Transitions.load reads a file" if isinstance(data, str | PathLike) else ""
        raise TypeError(
            f"expected Transitions or TransitionChunks, got {type(data).__name__}{advice}"
        )
