"""The flow of a learned vector field or Hamiltonian, in a form that can be batched over copies."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from isotropy.nn import fixed_weights


class Flow(nn.Module):
    """States at evenly spaced times, by the classical Runge–Kutta method of order 4.

    ``isotropy.nn.NeuralODE`` does the same with any solver; here the number of evaluations is
    fixed, and the gradient of a Hamiltonian is taken so that it composes with ``torch.func.vmap``.

    Args:
        network: From states (rows, d) to velocities (rows, d), or to energies (rows, 1).
        hamiltonian: Whether it gives energies H, the velocities being J∇H.
        samples: How many states to give for each start, the start among them.
        interval: The time between them.
        step: The step of the method; a whole number of steps makes an interval.

    Raises:
        ValueError: If the steps do not fit into an interval.

    Example:
        >>> class Oscillator(nn.Module):
        ...     def forward(self, z):
        ...         return z.square().sum(-1, keepdim=True) / 2
        >>> turn = Flow(Oscillator(), hamiltonian=True, samples=2, interval=torch.pi / 2, step=0.01)
        Traceback (most recent call last):
        ...
        ValueError: expected a whole number of steps in an interval, got 157.07...
        >>> turn = Flow(Oscillator(), hamiltonian=True, samples=2, interval=1.57, step=0.01)
        >>> turn(torch.tensor([[1.0, 2.0]]))[:, -1].round(decimals=2)
        tensor([[ 2., -1.]])
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        hamiltonian: bool,
        samples: int = 5,
        interval: float = 0.2,
        step: float = 0.1,
    ) -> None:
        super().__init__()
        self.network, self.hamiltonian = network, hamiltonian
        self.set_times(samples, interval, step)

    def set_times(self, samples: int, interval: float, step: float) -> None:
        """Choose other times and another step."""
        substeps = interval / step
        if substeps < 1 or abs(substeps - round(substeps)) > 1e-6:
            raise ValueError(f"expected a whole number of steps in an interval, got {substeps}")
        self.samples, self.substeps, self.step = samples, round(substeps), step

    def forward(self, z0: Tensor) -> Tensor:
        """States (rows, samples, d) from starts (rows, d)."""
        with fixed_weights(self.network):
            # assembled here, weights outlive the derivatives that are taken within the steps
            self.network(z0[:1])
            states = [z0]
            for _ in range(self.samples - 1):
                z = states[-1]
                for _ in range(self.substeps):
                    z = _runge_kutta(self._velocity, z, self.step)
                states.append(z)
        return torch.stack(states, -2)

    def _velocity(self, z: Tensor) -> Tensor:
        if not self.hamiltonian:
            velocity: Tensor = self.network(z)
            return velocity
        slope: Tensor = torch.func.grad(lambda z: self.network(z).sum())(z)
        by_position, by_momentum = slope.chunk(2, -1)
        return torch.cat([by_momentum, -by_position], -1)


def _runge_kutta(velocity: Callable[[Tensor], Tensor], z: Tensor, h: float) -> Tensor:
    k1 = velocity(z)
    k2 = velocity(z + h / 2 * k1)
    k3 = velocity(z + h / 2 * k2)
    k4 = velocity(z + h * k3)
    return z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
