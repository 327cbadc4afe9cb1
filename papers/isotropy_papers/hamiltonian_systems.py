"""Hamiltonian systems with a symmetry: their flow, data drawn from it, and a pendulum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.data import Splits
from isotropy.groups import SO, DkeR3, Group, O2eR3, SO2eR3
from isotropy.reps import Symmetry, V
from isotropy.run import generator as make_generator
from isotropy.run import spawn
from isotropy_papers._counts import require_count

_TOLERANCE = 1e-12
# below this, what is left of a tolerance is rounding
_FINEST_TOLERANCE = 100 * torch.finfo(torch.float64).eps


class Chunks(NamedTuple):
    """Short stretches of trajectories.

    Attributes:
        z0: Where each stretch begins, shape (n, d).
        times: The times from there, the same for all, shape (length,); the first is zero.
        z: The states at these times, shape (n, length, d); ``z[:, 0]`` is ``z0``.
    """

    z0: Tensor
    times: Tensor
    z: Tensor


@dataclasses.dataclass(frozen=True)
class HamiltonianSystem:
    """A system dz/dt = J∇H(z), with z = (q, p), J = [[0, 1], [−1, 0]] and a symmetry of H.

    Args:
        name: The call that makes it.
        symmetry: The group with its action on states, once as inputs and once as the outputs of
            the vector field: F(ρ(g) z) = ρ(g) F(z).
        hamiltonian: The energy H, from states (*, d) to numbers (*), written in torch.
        draw_initial: (n, generator) ↦ initial states, float64 of shape (n, d).
        conserved: Quantities that stay constant along trajectories, functions like ``hamiltonian``.
        also: Subgroups that are tried beside the symmetry's own group.
        approximately: Larger groups that the system would have without a term that breaks them;
            the system says by how much.
        misspecified: Groups that a paper tries although they are not even approximate symmetries.

    Raises:
        ValueError: If the states cannot be split into positions and momenta, or the field is of
            another width than they are.

    Example:
        >>> oscillator = HamiltonianSystem(
        ...     "oscillator",
        ...     Symmetry(SO(2), V, V),
        ...     lambda z: z.square().sum(-1) / 2,
        ...     lambda n, rng: torch.randn(n, 2, dtype=torch.float64, generator=rng),
        ... )
        >>> oscillator.field(torch.tensor([1.0, 2.0]))
        tensor([ 2., -1.])
        >>> quarter = oscillator.flow(torch.tensor([1.0, 2.0]), torch.tensor([0.0, torch.pi / 2]))
        >>> quarter[-1].round(decimals=6)
        tensor([ 2., -1.], dtype=torch.float64)
    """

    name: str
    symmetry: Symmetry
    hamiltonian: Callable[[Tensor], Tensor] = dataclasses.field(repr=False, compare=False)
    draw_initial: Callable[[int, torch.Generator], Tensor] = dataclasses.field(
        repr=False, compare=False
    )
    conserved: Mapping[str, Callable[[Tensor], Tensor]] = dataclasses.field(
        default_factory=dict, repr=False, compare=False
    )
    also: tuple[Group, ...] = ()
    approximately: tuple[Group, ...] = ()
    misspecified: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        width, out = self.symmetry.rep_in.size(), self.symmetry.rep_out.size()
        if width % 2 or width != out:
            raise ValueError(
                "expected a symmetry of as many positions as momenta, and of a field of the same "
                f"width, got widths {width} and {out}"
            )

    def field(self, z: Tensor) -> Tensor:
        """The vector field J∇H = (∂H/∂p, −∂H/∂q) at states (*, d), differentiable.

        Raises:
            ValueError: If the width is another.

        Example:
            >>> at_rest = torch.tensor([0.0, 0, -3, 0, 0, -5, 0, 0, 0, 0, 0, 0])
            >>> double_spring_pendulum().field(at_rest).abs().max()
            tensor(0.)
        """
        self._require_states(z)
        slope: Tensor = torch.func.grad(self._total_energy)(z)
        return _turned(slope)

    def initial(self, n: int, *, generator: torch.Generator | int | None = None) -> Tensor:
        """Draw ``n`` initial states, float64 of shape (n, d).

        Raises:
            ValueError: If ``n`` is not a positive integer.

        Example:
            >>> tuple(double_spring_pendulum().initial(4, generator=0).shape)
            (4, 12)
        """
        require_count(n, "trajectories")
        return self.draw_initial(n, make_generator(generator))

    def flow(
        self, z0: Tensor, times: Tensor, *, rtol: float = _TOLERANCE, atol: float = _TOLERANCE
    ) -> Tensor:
        """Follow the system from given states.

        Dormand and Prince's method of order 8, all states together, in float64; a step ends at
        every requested time, because interpolating between steps would lose digits.

        Args:
            z0: States at the first of the times, shape (*, d).
            times: Increasing, shape (m,).
            rtol: Relative tolerance of a step, above 2.2e-14.
            atol: Absolute tolerance of a step.

        Returns:
            The states at these times, float64 of shape (*, m, d), on the CPU.

        Raises:
            ValueError: If the states are not finite, the times not increasing, or a tolerance out
                of range.
            RuntimeError: If the solution ends before the last of the times.

        Example:
            >>> system = double_spring_pendulum()
            >>> z = system.flow(system.initial(2, generator=0), torch.linspace(0, 1, 6))
            >>> energy = system.hamiltonian(z)
            >>> tuple(z.shape), bool((energy - energy[:, :1]).abs().max() < 1e-10)
            ((2, 6, 12), True)
        """
        self._require_states(z0)
        instants = _as_times(times)
        if rtol < _FINEST_TOLERANCE or atol <= 0:
            raise ValueError(
                f"expected rtol >= {_FINEST_TOLERANCE:.1e} and atol > 0, got {rtol} and {atol}"
            )
        start = z0.detach().to("cpu", torch.float64)
        if not bool(start.isfinite().all()) or start.numel() == 0:
            raise ValueError("expected at least one state, all finite, got none, NaN or infinity")
        states = _integrate(self._quick_field, start, instants, rtol, atol, self.name)
        return torch.from_numpy(states).movedim(0, -2)

    def trajectories(
        self,
        n: int,
        times: Tensor,
        *,
        generator: torch.Generator | int | None = None,
        rtol: float = _TOLERANCE,
        atol: float = _TOLERANCE,
    ) -> Tensor:
        """``n`` trajectories from random initial states: ``flow`` after ``initial``.

        Returns:
            The states, float64 of shape (n, len(times), d).

        Example:
            >>> times = torch.arange(3) / 5
            >>> tuple(double_spring_pendulum().trajectories(2, times, generator=0).shape)
            (2, 3, 12)
        """
        return self.flow(self.initial(n, generator=generator), times, rtol=rtol, atol=atol)

    def chunks(
        self,
        n: int,
        *,
        length: int = 5,
        step: float = 0.2,
        horizon: float = 30.0,
        generator: torch.Generator | int | None = None,
    ) -> Chunks:
        """One short stretch from each of ``n`` trajectories (thesis A.1.10).

        A trajectory is evaluated at 0, step, 2·step, … below the horizon and cut, from its start,
        into stretches of ``length`` states that do not overlap; one of them is chosen uniformly.
        With the defaults: 30 stretches that begin at whole seconds and span 0.8 s.

        Args:
            n: How many.
            length: States in a stretch.
            step: Time between states.
            horizon: Duration of the trajectories.
            generator: Where the randomness comes from.

        Raises:
            ValueError: If a number is not positive or the horizon is shorter than a stretch.

        Example:
            >>> z0, times, z = double_spring_pendulum().chunks(3, horizon=2.0, generator=0)
            >>> tuple(z.shape), bool((z[:, 0] == z0).all()), times.float()
            ((3, 5, 12), True, tensor([0.0000, 0.2000, 0.4000, 0.6000, 0.8000]))
        """
        require_count(length, "states in a chunk")
        if not (step > 0 and length * step <= horizon * (1 + 1e-9) < float("inf")):
            raise ValueError(
                f"expected a positive step and a horizon of at least {length} steps, "
                f"got step {step} and horizon {horizon}"
            )
        rng = make_generator(generator)
        number = int(round(horizon / step, 6)) // length
        times = torch.arange(number * length, dtype=torch.float64) * step
        z = self.trajectories(n, times, generator=rng).unflatten(1, (number, length))
        chosen = torch.randint(number, (n,), generator=rng, device=rng.device).cpu()
        z = z[torch.arange(n), chosen]
        return Chunks(z[:, 0], times[:length], z)

    def splits(
        self,
        train: int = 500,
        *,
        validation: int = 500,
        test: int = 500,
        length: int = 5,
        step: float = 0.2,
        horizon: float = 30.0,
        generator: torch.Generator | int | None = None,
    ) -> Splits[Chunks]:
        """Chunks for fitting, choosing and judging; the sizes are those of thesis A.1.10.

        Each part has a random stream of its own: for one seed, the test chunks are the same
        whatever the number of training chunks.

        Example:
            >>> splits = double_spring_pendulum().splits(
            ...     4, validation=2, test=3, horizon=1.0, generator=0
            ... )
            >>> tuple(splits.train.z.shape), tuple(splits.test.z.shape)
            ((4, 5, 12), (3, 5, 12))
        """
        streams = spawn(make_generator(generator), 3)
        sizes = (train, validation, test)
        return Splits(
            *(
                self.chunks(n, length=length, step=step, horizon=horizon, generator=rng)
                for n, rng in zip(sizes, streams, strict=True)
            )
        )

    def _total_energy(self, z: Tensor) -> Tensor:
        return self.hamiltonian(z).sum()

    def _quick_field(self, z: Tensor) -> Tensor:
        """``field`` in half the time, for a caller that differentiates no further."""
        with torch.enable_grad():
            z = z.requires_grad_()
            (slope,) = torch.autograd.grad(self._total_energy(z), z)
        return _turned(slope)

    def _require_states(self, z: Tensor) -> None:
        width = self.symmetry.rep_in.size()
        if z.ndim == 0 or z.shape[-1] != width:
            raise ValueError(
                f"expected states of width {width} for {self.name}, got shape {tuple(z.shape)}"
            )


def _turned(slope: Tensor) -> Tensor:
    """J times a gradient."""
    by_position, by_momentum = slope.chunk(2, -1)
    return torch.cat([by_momentum, -by_position], -1)


def _as_times(times: Tensor) -> NDArray[np.float64]:
    """Times as an array; refused unless they are finite and increase."""
    instants = torch.as_tensor(times).detach().to("cpu", torch.float64)
    one_row = instants.ndim == 1 and len(instants) > 0
    if not one_row or not bool(instants.isfinite().all() and (instants.diff() > 0).all()):
        raise ValueError(f"expected increasing finite times of shape (m,), got {times!r:.80}")
    return instants.numpy()


def _integrate(
    vector_field: Callable[[Tensor], Tensor],
    start: Tensor,
    times: NDArray[np.float64],
    rtol: float,
    atol: float,
    name: str,
) -> NDArray[np.float64]:
    """The states at these times, shape (m, *start.shape)."""
    from scipy.integrate import DOP853

    def derivative(_: float, flat: NDArray[np.float64]) -> NDArray[np.float64]:
        slope = vector_field(torch.from_numpy(flat).view(start.shape))
        return np.reshape(slope.numpy(), -1)

    states = np.empty((len(times), start.numel()))
    states[0] = start.numpy().reshape(-1)
    longest = None
    for i, (now, then) in enumerate(pairwise(times)):
        first = None if longest is None else min(longest, then - now)
        solver = DOP853(derivative, now, states[i], then, first_step=first, rtol=rtol, atol=atol)
        while solver.status == "running":
            solver.step()
        if solver.status == "failed":
            raise RuntimeError(f"the solution of {name} could not be followed past t = {solver.t}")
        states[i + 1] = solver.y
        longest = solver.h_abs
    return states.reshape(len(times), *start.shape)


def double_spring_pendulum(formula: Literal["text", "reference"] = "text") -> HamiltonianSystem:
    """Two masses that hang from a pivot and from each other by springs (thesis 2.7.2, A.1.10).

    z = (x₁, x₂, p₁, p₂), twelve numbers, and with all masses, lengths and constants one,

        H = ‖p₁‖²/2 + ‖p₂‖²/2 + ½(‖x₁‖ − 1)² + c(‖x₁ − x₂‖ − 1)² + z₁ + z₂,

    zᵢ being the height of xᵢ. The text has c = ½; in the reference code the second spring lacks
    that factor, c = 1, and the published numbers are of that system. Energy and the angular
    momentum about the vertical axis are conserved. Initial states: x₁ ~ N((0, 0, −1.5), 0.2²),
    x₂ ~ N((0, 0, −3), 0.2²), p₁, p₂ ~ N(0, 0.4²).

    The group that the thesis tries although it is wrong here is SO(3) (3.5.1): the weight singles
    out the vertical. Over its elements g, the root mean square of ‖F(ρ(g) z) − ρ(g) F(z)‖ is 2
    for every z, and that of ‖F‖ over the initial states is 1.6.

    Args:
        formula: ``"text"`` or ``"reference"``, for c = ½ or c = 1.

    Raises:
        ValueError: If ``formula`` is neither.

    Example:
        >>> system = double_spring_pendulum()
        >>> print(system.symmetry, sorted(system.conserved))
        O2eR3: 4*V >> 4*V ['angular momentum', 'energy']
    """
    energy = partial(_pendulum_energy, second_spring=_second_spring(formula))
    return HamiltonianSystem(
        f"double_spring_pendulum({formula!r})",
        Symmetry(O2eR3(), 4 * V, 4 * V),
        energy,
        _hanging,
        {"energy": energy, "angular momentum": _angular_momentum},
        (SO2eR3(), DkeR3(6), DkeR3(2)),
        misspecified=(SO(3),),
    )


def _second_spring(formula: str) -> float:
    if formula not in ("text", "reference"):
        raise ValueError(f"expected the formula 'text' or 'reference', got {formula!r}")
    return 0.5 if formula == "text" else 1.0


def _pendulum_energy(z: Tensor, *, second_spring: float) -> Tensor:
    x1, x2, p1, p2 = z.split(3, -1)
    kinetic = (p1.square().sum(-1) + p2.square().sum(-1)) / 2
    first = (_norm(x1) - 1).square() / 2
    second = second_spring * (_norm(x1 - x2) - 1).square()
    total: Tensor = kinetic + first + second + x1[..., 2] + x2[..., 2]
    return total


def _norm(x: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return length


def _angular_momentum(z: Tensor) -> Tensor:
    """Σᵢ (xᵢ × pᵢ)_z."""
    x, p = (half.unflatten(-1, (2, 3)) for half in z.chunk(2, -1))
    total: Tensor = (x[..., 0] * p[..., 1] - x[..., 1] * p[..., 0]).sum(-1)
    return total


def _hanging(n: int, rng: torch.Generator) -> Tensor:
    z = torch.randn(n, 12, dtype=torch.float64, generator=rng, device=rng.device)
    z[:, :6] *= 0.2
    z[:, 6:] *= 0.4
    z[:, 2] -= 1.5
    z[:, 5] -= 3.0
    return z
