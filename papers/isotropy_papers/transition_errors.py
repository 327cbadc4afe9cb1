"""How far a transition model is from the truth and from its symmetry; images of its data."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy.data import TransitionChunks, Transitions
from isotropy.rl import EnvironmentSymmetry, TransitionModel
from isotropy_papers.rollout_errors import geometric_mean, relative_error


@torch.no_grad()
def rollout_errors(model: TransitionModel, chunks: TransitionChunks) -> Tensor:
    """The relative error of every state of rollouts, the first one left out (thesis Table 3.3).

    ‖ŝ − s‖ / (‖ŝ‖ + ‖s‖), as for all rollouts of the thesis; one where a rollout has left the
    range of floats.

    Args:
        model: The model.
        chunks: True states (k, T + 1, n) under actions (k, T, m).

    Returns:
        Shape (k, T).

    Example:
        >>> flip = EnvironmentSymmetry.of([[[-1.0]]], [[[-1.0]]])
        >>> model = TransitionModel(flip, "mlp", widths=(8,))
        >>> rollout_errors(model, TransitionChunks(torch.ones(2, 6, 1), torch.ones(2, 5, 1))).shape
        torch.Size([2, 5])
    """
    states, actions = (part.to(model.state_mean) for part in chunks)
    predicted = model.rollout(states[:, 0], actions)
    return relative_error(predicted, states)[:, 1:].nan_to_num(1.0)


def rollout_error(errors: Tensor, steps: int) -> float:
    """The geometric mean of errors over trajectories and their first steps (thesis Table 3.3).

    Args:
        errors: What ``rollout_errors`` gave, shape (k, T).
        steps: How many of the T steps count.

    Raises:
        ValueError: If there are not so many.

    Example:
        >>> round(rollout_error(torch.tensor([[0.01, 1.0]]), 2), 6)
        0.1
    """
    if not 1 <= steps <= errors.shape[1]:
        raise ValueError(f"expected steps between 1 and {errors.shape[1]}, got {steps}")
    return float(geometric_mean(errors[:, :steps].double()))


@torch.no_grad()
def transition_equivariance_error(
    model: TransitionModel,
    chunks: TransitionChunks,
    symmetry: EnvironmentSymmetry | None = None,
    *,
    n_samples: int = 32,
) -> float:
    """How far predicted changes are from commuting with a group, along a model's own rollouts.

        ‖ρ(g) Δ(s, a) − Δ(ρ(g) s, ρ(g) a)‖ / (‖Δ(s, a)‖ + ‖Δ(ρ(g) s, ρ(g) a)‖)

    with Δ(s, a) = f(s, a) − s, each entry divided by the model's own ``change_scale``: "rpp" and
    "equivariant" have one scale for entries that the group mixes, "mlp" one for each, so that
    numbers of the two differ a little for the same function. Of this the geometric mean over the
    states of rollouts and over elements other than the identity (the row "Equiv Err" of thesis
    Table 3.3, which does not say whether states or their changes are compared).

    Args:
        model: The model f.
        chunks: Where rollouts begin, and their actions.
        symmetry: The group; by default that of the model.
        n_samples: How many random elements, of an infinite group.

    Returns:
        A number between 0 and 1.

    Raises:
        ValueError: If the group has no element but the identity.

    Example:
        >>> flip = EnvironmentSymmetry.of([[[-1.0]]], [[[-1.0]]])
        >>> model = TransitionModel(flip, "equivariant", widths=(8,))
        >>> start = TransitionChunks(torch.ones(2, 6, 1), torch.ones(2, 5, 1))
        >>> transition_equivariance_error(model, start) < 1e-4
        True
    """
    chosen = model.symmetry if symmetry is None else symmetry
    states, actions = (part.to(model.state_mean) for part in chunks)
    visited = model.rollout(states[:, 0], actions)[:, :-1].flatten(0, 1)
    there = visited.isfinite().all(-1)
    s, a = visited[there], actions.flatten(0, 1)[there]
    scale = model.change_scale
    change = (model(s, a) - s) / scale
    errors = []
    elements = zip(*chosen.matrices(chosen.elements(n_samples)), strict=True)
    for on_states, on_actions in elements:
        on_s, on_a = on_states.to(s), on_actions.to(s)
        if all(torch.equal(matrix, torch.eye(len(matrix)).to(s)) for matrix in (on_s, on_a)):
            continue
        moved_s, moved_a = s @ on_s.mT, a @ on_a.mT
        moved = (model(moved_s, moved_a) - moved_s) / scale
        errors.append(relative_error((change * scale) @ on_s.mT / scale, moved))
    if not errors:
        raise ValueError(f"expected a group with more than the identity, got {chosen.name}")
    return float(geometric_mean(torch.stack(errors).double().nan_to_num(1.0), floor=1e-9))


@torch.no_grad()
def one_step_error(model: TransitionModel, data: Transitions, rows: int = 4096) -> float:
    """The squared error of predicted changes over their variance, averaged over entries.

    1 is as good as the mean change of each entry.

    Args:
        model: The model.
        data: Transitions to predict.
        rows: How many to predict at once.

    Example:
        >>> flip = EnvironmentSymmetry.of([[[-1.0]]], [[[-1.0]]])
        >>> s, a = torch.randn(50, 1), torch.randn(50, 1)
        >>> steps = Transitions(s, a, s + a)
        >>> 0 < one_step_error(TransitionModel(flip, "mlp", widths=(8,)), steps) < 100
        True
    """
    s, a, following = (
        values.to(model.state_mean)
        for values in (data.observations, data.actions, data.next_observations)
    )
    predicted = torch.cat([model(*part) for part in zip(s.split(rows), a.split(rows), strict=True)])
    variance = (following - s).var(0, correction=0)
    moving = variance > 0
    return float(((predicted - following).square().mean(0)[moving] / variance[moving]).mean())


def group_images(
    data: Transitions, symmetry: EnvironmentSymmetry, *, generator: torch.Generator | int = 0
) -> Transitions:
    """Data together with their images under every element of a symmetry.

    Args:
        data: N transitions.
        symmetry: What to move them by; of an infinite group the identity and 32 random elements.
        generator: The source of these.

    Returns:
        k·N transitions for k elements, without rewards and episodes, the data themselves first.

    Raises:
        TypeError: If the data are no Transitions.

    Example:
        >>> flip = EnvironmentSymmetry.of([[[-1.0]]], [[[-1.0]]])
        >>> steps = Transitions(torch.ones(1, 1), torch.ones(1, 1), 2 * torch.ones(1, 1))
        >>> group_images(steps, flip).next_observations.flatten()
        tensor([ 2., -2.])
    """
    if not isinstance(data, Transitions):
        raise TypeError(f"expected Transitions, got {type(data).__name__}")
    on_states, on_actions = symmetry.matrices(symmetry.elements(generator=generator))
    if not symmetry.group.is_discrete:
        on_states, on_actions = (
            torch.cat([torch.eye(matrices.shape[-1]).to(matrices).unsqueeze(0), matrices])
            for matrices in (on_states, on_actions)
        )
    moved = [
        torch.einsum("kij,nj->kni", matrices.to(values), values).flatten(0, 1)
        for matrices, values in (
            (on_states, data.observations),
            (on_actions, data.actions),
            (on_states, data.next_observations),
        )
    ]
    return Transitions(moved[0], moved[1], moved[2])
