"""Replayed transitions seen in a random mirror: augmentation by a symmetry."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor

from isotropy.groups import LinearMap
from isotropy.reps import Rep
from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._magnitudes import acts_by_signed_permutations
from isotropy.rl._policy_spaces import fitting_symmetry

_POOL = 1024
_ZERO = 1e-12


class SymmetricReplayBuffer(ReplayBuffer):
    """A replay buffer that transforms every transition it hands out by a random element.

        (s, a, r, s') ↦ (ρ_s(g) s, ρ_a(g) a, r, ρ_s(g) s'),      g uniform in the group

    The simplest use of a symmetry, with any network. Right where rewards are invariant too.

    Args:
        *args: As for stable-baselines3's ``ReplayBuffer``.
        symmetry: The symmetry, or the id of a known environment, such as "Walker2d-v5".
        elements: The elements to choose from, identity or not; by default all of a finite group,
            1024 random ones of another.
        **kwargs: As for ``ReplayBuffer``.

    Raises:
        TypeError: If there is no symmetry, or a space is of another kind.
        ValueError: If the symmetry does not fit the spaces.

    Example:
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0]]], [[[-1.0]]])
        >>> box = spaces.Box(-1, 1, (1,))
        >>> buffer = SymmetricReplayBuffer(10, box, box, symmetry=flip)
        >>> one = np.ones((1, 1), np.float32)
        >>> buffer.add(one, one, one, np.zeros(1), np.zeros(1), [{}])
        >>> samples = buffer.sample(50)
        >>> bool((samples.observations == samples.actions).all()), len(samples.actions.unique())
        (True, 2)

        With SAC: ``SAC("MlpPolicy", env, replay_buffer_class=SymmetricReplayBuffer,
        replay_buffer_kwargs={"symmetry": symmetry})``.
    """

    def __init__(
        self,
        *args: Any,
        symmetry: EnvironmentSymmetry | str | None = None,
        elements: LinearMap | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        found = fitting_symmetry(symmetry, self.observation_space, self.action_space, strict=True)
        is_discrete = isinstance(self.action_space, spaces.Discrete)
        if not is_discrete and not acts_by_signed_permutations(found.action):
            # a rotated action may leave the box, and what the simulator does with it then differs
            raise ValueError(
                "expected actions whose entries a group exchanges and changes in sign, got a "
                f"group that mixes them, {found.name}, which takes some out of their limits"
            )
        chosen = found.elements(_POOL) if elements is None else elements
        if len(chosen.batch) != 1:
            raise ValueError(
                f"expected a list of elements to choose from, got shape {tuple(chosen.batch)}"
            )
        self.n_elements = int(chosen.batch[0])
        self._observation_images = _Images(found.observation, chosen)
        self._action_images = _Images(found.action, chosen)
        self._choices: _Table | None = None
        if is_discrete:
            # e_a goes to e_a', which is the place of the one in column a
            images = found.action.rho(chosen).dense().argmax(-2)
            self._choices = _Table(images.expand(self.n_elements, -1))

    def transformed(self, samples: ReplayBufferSamples, which: Tensor) -> ReplayBufferSamples:
        """Samples transformed by chosen elements.

        Args:
            samples: Transitions as they were stored, not normalised.
            which: The place of an element for each row, shape (batch,).
        """
        if self._choices is not None:
            choices = self._choices.on(samples.actions.device)
            actions = choices[which].gather(-1, samples.actions.long())
            actions = actions.to(samples.actions.dtype)
        else:
            actions = self._action_images(samples.actions, which)
        return samples._replace(
            observations=self._observation_images(samples.observations, which),
            actions=actions,
            next_observations=self._observation_images(samples.next_observations, which),
        )

    def _get_samples(
        self, batch_inds: np.ndarray, env: VecNormalize | None = None
    ) -> ReplayBufferSamples:
        # normalised only after they are transformed: statistics of entries may differ
        samples = super()._get_samples(batch_inds, None)
        which = torch.randint(self.n_elements, (len(batch_inds),), device=self.device)
        samples = self.transformed(samples, which)
        if env is None:
            return samples
        observations, following, rewards = (
            part.cpu().numpy()
            for part in (samples.observations, samples.next_observations, samples.rewards)
        )
        return samples._replace(
            observations=self.to_torch(np.asarray(env.normalize_obs(observations))),
            next_observations=self.to_torch(np.asarray(env.normalize_obs(following))),
            rewards=self.to_torch(self._normalize_reward(rewards, env)),
        )


class _Table:
    """Numbers kept in main memory, with a copy where they were last asked for.

    A buffer may be saved on one device and loaded on another (``load_replay_buffer`` of
    stable-baselines3), so that copies are not saved.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values.cpu()
        self._copy = self.values

    def on(self, device: torch.device) -> Tensor:
        if self._copy.device != device:
            self._copy = self.values.to(device)
        return self._copy

    def __getstate__(self) -> dict[str, Tensor]:
        return {"values": self.values, "_copy": self.values}


class _Images:
    """Rows transformed by elements of a group, each by its own.

    Matrices of groups have few entries that are not zero, one in each row of a signed
    permutation: entries are gathered, and summed up where there are several.
    """

    def __init__(self, rep: Rep, elements: LinearMap) -> None:
        n = rep.size()
        matrices = rep.rho(elements).dense().expand(*elements.batch, n, n)
        most = int((matrices.abs() > _ZERO).sum(-1).max())
        sources = matrices.abs().topk(most).indices
        factors = matrices.gather(-1, sources)
        self.most = most
        self.sources = _Table(sources.flatten(1))
        ones = most == 1 and bool((factors == 1).all())
        self.factors = None if ones else _Table(factors.flatten(1).float())

    def __call__(self, x: Tensor, which: Tensor) -> Tensor:
        found = x.flatten(1).gather(1, self.sources.on(x.device)[which])
        if self.factors is not None:
            found = found * self.factors.on(x.device)[which].to(x.dtype)
        if self.most > 1:
            found = found.unflatten(1, (-1, self.most)).sum(-1)
        return found.reshape(x.shape)
