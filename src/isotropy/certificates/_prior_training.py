"""A start that is trained: ordinary training of the whole network on the rows dealt to it."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.func import functional_call

from isotropy._run import Checkpoint, ProgressCallback
from isotropy.certificates._descent import Descent, descend
from isotropy.certificates._goal import Goal
from isotropy.certificates._initial import initial_parameters

_RATE = 0.002


def trained_start(
    model: nn.Module,
    goal: Goal,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int | None = None,
    seed: int = 0,
    batch: int = 128,
    progress: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
) -> dict[str, Tensor]:
    """Train all parameters of a module by Adam; images are moved by up to a pixel in fourteen.

    Args:
        model: The module; it is copied, and starts from `initial_parameters`.
        goal: What to learn.
        x: Inputs of the rows that may be used, where to train.
        y: Their targets.
        epochs: Passes over them; ``None`` takes 20, or as many as make 3000 steps.
        seed: Of the start and the order.
        batch: Rows in a step.
        progress: Called after each epoch.
        checkpoint: From which an interrupted run goes on.

    Returns:
        Parameters and floating-point buffers, by name, on the CPU.
    """
    net = copy.deepcopy(model).to(x.device).train()
    drawn = initial_parameters(model, seed)
    for name, parameter in net.named_parameters():
        parameter.data.copy_(drawn[name])
    own: dict[str, Tensor] = dict(net.named_parameters())
    batch = min(batch, max(1, len(x) // 20))
    if epochs is None:
        epochs = max(20, -(-3000 // (len(x) // batch)))
    shift = min(x.shape[-2:]) // 14 if x.ndim == 4 else 0
    descend(
        lambda rows, targets: goal.loss(functional_call(net, own, (rows,)), targets),
        [(parameter, _RATE) for parameter in own.values()],
        x,
        y,
        Descent(epochs, batch, seed=seed),
        name="training the prior",
        augment=_Shifts(shift) if shift else None,
        progress=progress,
        checkpoint=checkpoint,
    )
    found = {**own, **{n: b for n, b in net.named_buffers() if b.is_floating_point()}}
    return {name: tensor.detach().cpu().double() for name, tensor in found.items()}


class _Shifts:
    """Moves each image of a batch by its own whole number of pixels, filling with its corner."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __call__(self, x: Tensor, order: torch.Generator) -> Tensor:
        n, _, height, width = x.shape
        moves = torch.randint(0, 2 * self.most + 1, (2, n, 1), generator=order).to(x.device)
        padded = nn.functional.pad(x, [self.most] * 4, mode="replicate")
        rows = torch.arange(height, device=x.device) + moves[0]
        columns = torch.arange(width, device=x.device) + moves[1]
        batch = torch.arange(n, device=x.device)[:, None, None]
        return padded.movedim(1, -1)[batch, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)
