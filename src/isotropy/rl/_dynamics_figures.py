"""The result of ``dynamics_error``: how far a simulator commutes with a symmetry."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class DynamicsError:
    """What ``dynamics_error`` found, for each of n states and k elements.

    Args:
        name: The environment and the symmetry.
        errors: |ρ(g) f(s, a) − f(ρ(g) s, ρ(g) a)| / |f(s, a) − s|, shape (n, k).
        contact: Whether bodies touched at a state or after its step, shape (n,).
        rewards: The rewards of the steps, shape (n,).
        reward_differences: How far the transformed steps' differ, shape (n, k).
        termination_differs: Whether only one of the two steps ended the episode, shape (n, k).
    """

    name: str
    errors: Tensor
    contact: Tensor
    rewards: Tensor
    reward_differences: Tensor
    termination_differs: Tensor

    @property
    def count(self) -> int:
        """The number of pairs of a state and an element."""
        return self.errors.numel()

    @property
    def median(self) -> float:
        """The median of all errors."""
        return _median(self.errors)

    @property
    def maximum(self) -> float:
        """The largest error."""
        return float(self.errors.max())

    @property
    def free_median(self) -> float:
        """The median where nothing touched; nan if that never was."""
        return _median(self.errors[~self.contact])

    @property
    def free_maximum(self) -> float:
        """The largest error where nothing touched; nan if that never was."""
        return _maximum(self.errors[~self.contact])

    @property
    def contact_median(self) -> float:
        """The median where bodies touched; nan if they never did."""
        return _median(self.errors[self.contact])

    @property
    def contact_maximum(self) -> float:
        """The largest error where bodies touched; nan if they never did."""
        return _maximum(self.errors[self.contact])

    @property
    def reward_median(self) -> float:
        """The median difference of rewards."""
        return _median(self.reward_differences)

    @property
    def reward_maximum(self) -> float:
        """The largest difference of rewards."""
        return float(self.reward_differences.max())

    @property
    def reward_spread(self) -> float:
        """The standard deviation of rewards; of equal ones their size."""
        spread = float(self.rewards.std(correction=0))
        return spread or float(self.rewards.abs().max()) or 1.0

    @property
    def termination_disagreement(self) -> float:
        """The share of pairs of which only one step ended the episode."""
        return float(self.termination_differs.double().mean())

    def __str__(self) -> str:
        n, k = self.errors.shape
        of_group = "1 element" if k == 1 else f"{k} elements"
        lines = [f"{self.name}: {n} states, {of_group}", _line("", "median", "maximum")]
        lines.append(_line("dynamics", self.median, self.maximum))
        if bool(self.contact.any()):
            if not bool(self.contact.all()):
                lines.append(_line("  no contact", self.free_median, self.free_maximum))
            lines.append(_line("  contact", self.contact_median, self.contact_maximum))
        lines.append(_line("reward", self.reward_median, self.reward_maximum))
        spread = self.reward_spread
        lines.append(
            _line("  of its spread", self.reward_median / spread, self.reward_maximum / spread)
        )
        lines.append(f"ended differently: {int(self.termination_differs.sum())} of {self.count}")
        return "\n".join(lines)


def _line(*cells: str | float) -> str:
    shown = [cell if isinstance(cell, str) else f"{cell:.2g}" for cell in cells]
    return f"{shown[0]:16}{shown[1]:>9}{shown[2]:>9}".rstrip()


def _median(values: Tensor) -> float:
    return float(values.median()) if values.numel() else float("nan")


def _maximum(values: Tensor) -> float:
    return float(values.max()) if values.numel() else float("nan")
