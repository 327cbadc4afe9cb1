"""Normalised observations for stable-baselines3 that still transform as they did."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._normalisation import InvariantMoments
from isotropy.rl._policy_spaces import fitting_symmetry


class InvariantMeanStd(RunningMeanStd):
    """A running mean and variance whose normalisation commutes with a group.

    Args:
        moments: What the group keeps of means and variances.
        shape: The shape of an observation.
    """

    def __init__(self, moments: InvariantMoments, shape: tuple[int, ...]) -> None:
        super().__init__(shape=shape)
        self.moments = moments
        self.entries = RunningMeanStd(shape=shape)

    def copy(self) -> InvariantMeanStd:
        """A copy that goes its own way."""
        new = InvariantMeanStd(self.moments, self.mean.shape)
        new.entries = self.entries.copy()
        new.mean, new.var, new.count = self.mean.copy(), self.var.copy(), self.count
        return new

    def combine(self, other: RunningMeanStd) -> None:
        """Add what another one has seen."""
        seen = other.entries if isinstance(other, InvariantMeanStd) else other
        self.update_from_moments(seen.mean, seen.var, seen.count)

    def update_from_moments(
        self, batch_mean: np.ndarray, batch_var: np.ndarray, batch_count: float
    ) -> None:
        """Add observations of which these are known."""
        entries = self.entries
        entries.update_from_moments(batch_mean, batch_var, batch_count)
        flat = (torch.from_numpy(part.reshape(-1)) for part in (entries.mean, entries.var))
        shape, found = entries.mean.shape, self.moments(*flat)
        self.mean, self.var = (part.numpy().reshape(shape) for part in found)
        self.count = entries.count


class VecEquivariantNormalize(VecNormalize):
    """``VecNormalize`` whose running mean and variance of observations commute with a symmetry.

    A policy that is equivariant on normalised observations is then so on those of the
    environment. Saved and loaded as ``VecNormalize`` is. Clipping to ±clip_obs commutes with
    signed permutations; where the group rotates entries, such as quaternions, only while it cuts
    nothing off.

    Args:
        venv: The environments.
        symmetry: The symmetry, or the id of a known environment, such as "Walker2d-v5".
        **kwargs: As for ``VecNormalize``.

    Raises:
        TypeError: If these are no vectorised environments, there is no symmetry, or observations
            are no box.
        ValueError: If their sizes differ.

    Example:
        >>> import gymnasium
        >>> from stable_baselines3.common.vec_env import DummyVecEnv
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([-np.eye(4)], [[1, 0]])
        >>> envs = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])
        >>> normalised = VecEquivariantNormalize(envs, flip)
        >>> _ = normalised.reset()
        >>> normalised.obs_rms.mean
        array([0., 0., 0., 0.])
    """

    def __init__(
        self, venv: VecEnv, symmetry: EnvironmentSymmetry | str | None = None, **kwargs: Any
    ) -> None:
        if not isinstance(venv, VecEnv):
            raise TypeError(
                "expected vectorised environments, such as stable-baselines3's "
                f"DummyVecEnv([lambda: env]), got {type(venv).__name__}"
            )
        space = venv.observation_space
        found = fitting_symmetry(symmetry, space)
        super().__init__(venv, **kwargs)
        if self.norm_obs:
            assert space.shape is not None
            running = InvariantMeanStd(InvariantMoments(found.observation), space.shape)
            self.obs_rms = running  # type: ignore[assignment]  # typed as for dictionaries
