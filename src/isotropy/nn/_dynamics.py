"""Networks for dynamical systems: Hamiltonian vector fields and their flows (thesis 2.7.2)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from isotropy.nn._linear import fixed_weights
from isotropy.reps import Rep


class HNN(nn.Module):
    """The vector field of a learned Hamiltonian: dz/dt = J∇H(z) with J = [[0, 1], [−1, 0]].

    The state is z = (q, p), positions first. Where H is invariant under ρ, the field is
    equivariant from ρ to Jρ⁻ᵀJ⁻¹, which is ρ itself where the group acts orthogonally and in the
    same way on q and p, or on p by the dual; the momentum that belongs to each element of its Lie
    algebra is then conserved (Noether).

    Args:
        hamiltonian: A module from states (*, 2n) to energies (*, 1).

    Example:
        >>> import torch
        >>> from isotropy.groups import O2eR3
        >>> from isotropy.nn import EMLP
        >>> from isotropy.reps import Scalar, V
        >>> field = HNN(EMLP(4 * V, Scalar, group=O2eR3(), channels=16, layers=2))
        >>> field(torch.randn(5, 12)).shape
        torch.Size([5, 12])
    """

    def __init__(self, hamiltonian: nn.Module) -> None:
        super().__init__()
        self.hamiltonian = hamiltonian
        width = getattr(hamiltonian, "in_features", None)
        if isinstance(width, int) and width % 2:
            raise ValueError(
                f"expected a Hamiltonian of positions and as many momenta, got width {width}"
            )
        outputs = getattr(hamiltonian, "out_features", None)
        if isinstance(outputs, int) and outputs != 1:
            raise ValueError(f"expected a Hamiltonian with one output, got {outputs}")
        if isinstance(width, int):
            self.in_features = self.out_features = width

    @property
    def rep_in(self) -> Rep:
        """How the group acts on states."""
        rep: Rep = self.hamiltonian.rep_in  # type: ignore[assignment]
        return rep

    @property
    def rep_out(self) -> Rep:
        """How it acts on their velocities: as on states where it is symplectic."""
        rep = self.rep_in
        half = rep.size() // 2
        eye = torch.eye(half, dtype=torch.float64)
        zero = torch.zeros_like(eye)
        turn = torch.cat([torch.cat([zero, eye], 1), torch.cat([-eye, zero], 1)])
        algebra, discrete = rep.generators()
        symplectic = all(_preserves(a.dense(), turn, infinitesimal=True) for a in algebra) and all(
            _preserves(h.dense(), turn, infinitesimal=False) for h in discrete
        )
        return rep if symplectic else rep.T.change_basis(turn)

    def forward(self, z: Tensor) -> Tensor:
        """The velocity at each state, shape (*, 2n) to the same; differentiable again."""
        if z.shape[-1] % 2:
            raise ValueError(
                f"expected positions and as many momenta, got states of width {z.shape[-1]}"
            )
        learning = torch.is_grad_enabled()
        with torch.enable_grad():
            z = z if z.requires_grad else z.detach().requires_grad_()
            energy = self.hamiltonian(z).sum()
            (gradient,) = torch.autograd.grad(energy, z, create_graph=learning)
        dq, dp = gradient.chunk(2, -1)
        return torch.cat([dp, -dq], -1)


def _preserves(matrix: Tensor, form: Tensor, *, infinitesimal: bool) -> bool:
    """Whether a matrix leaves a bilinear form as it is."""
    form = form.to(matrix.dtype)
    moved = matrix.mT @ form
    change = moved + form @ matrix if infinitesimal else moved @ matrix - form
    return bool(change.abs().max() < 1e-9 * (1 + matrix.abs().max() ** 2))


class NeuralODE(nn.Module):
    """The flow of a learned vector field: solves dz/dt = f(z) through given times.

    Weights are assembled once for the whole solve. Gradients go through the solver's steps.

    Args:
        field: A module from states (*, d) to velocities (*, d).
        method: A solver of torchdiffeq: "dopri5" adapts its steps, "rk4" has fixed ones.
        rtol: Relative tolerance of an adaptive solver.
        atol: Absolute tolerance of an adaptive solver.
        step: The step of a solver with fixed ones; the given times where it is None.

    Example:
        >>> import torch
        >>> from isotropy.nn import MLP
        >>> flow = NeuralODE(MLP(12, 12, channels=32), method="rk4")
        >>> flow(torch.randn(5, 12), torch.linspace(0, 1, 6)).shape
        torch.Size([6, 5, 12])
    """

    def __init__(
        self,
        field: nn.Module,
        *,
        method: str = "dopri5",
        rtol: float = 2e-6,
        atol: float = 2e-6,
        step: float | None = None,
    ) -> None:
        super().__init__()
        self.field = field
        self.method, self.rtol, self.atol, self.step = method, rtol, atol, step

    def forward(self, z0: Tensor, times: Tensor) -> Tensor:
        """States at all times, the first being ``z0``'s: shape (len(times), *z0.shape)."""
        from torchdiffeq import odeint

        times = torch.as_tensor(times, device=z0.device, dtype=z0.dtype)
        if times.ndim != 1 or len(times) < 2 or not bool((times.diff() > 0).all()):
            raise ValueError(
                f"expected at least two increasing times to solve for, got {times.tolist()!s:.80}"
            )
        options = {} if self.step is None else {"step_size": self.step}
        velocity: Callable[[Tensor, Tensor], Tensor] = lambda _, z: self.field(z)  # noqa: E731
        with fixed_weights(self.field):
            z: Tensor = odeint(
                velocity,
                z0,
                times,
                method=self.method,
                rtol=self.rtol,
                atol=self.atol,
                options=options,
            )
        return z
