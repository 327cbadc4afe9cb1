"""Networks of one kind, each with weights of its own: places of high posterior density."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from numbers import Integral

import torch
from torch import Tensor, nn


class DeepEnsemble(nn.Module):
    """Several copies of a network that start from different weights.

    Trained one by one, or together on the sum of their losses, they end in different places of
    high posterior density (thesis 3.5.2): how equivariant each of them has become says what the
    data have left of the prior's symmetry.

    Args:
        model: The network; every copy has its weights drawn anew, by the ``reset_parameters`` of
            its layers. Frozen ones stay, so that a path of prior variance zero stays zero.
        members: How many copies.
        seed: Of the weights of the first; each further one has the next.

    Raises:
        TypeError: If the model is no module.
        ValueError: If there is not at least one member, or a layer cannot draw its weights anew.

    Example:
        >>> from isotropy.equivariance import equivariance_error
        >>> from isotropy.groups import O
        >>> from isotropy.nn import EMLP, soften
        >>> from isotropy.reps import V
        >>> soft = soften(EMLP(2 * V, V, group=O(3), channels=30, layers=1))
        >>> ensemble = DeepEnsemble(soft, members=3)
        >>> x = torch.randn(20, 6)
        >>> ensemble(x).shape  # the mean
        torch.Size([20, 3])
        >>> all(equivariance_error(member, x) < 0.2 for member in ensemble)
        True
    """

    def __init__(self, model: nn.Module, members: int = 10, *, seed: int = 0) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(f"expected a network, got {type(model).__name__}")
        if isinstance(members, bool) or not isinstance(members, Integral) or members < 1:
            raise ValueError(f"expected at least one member, got {members!r}")
        copies = [_drawn_anew(model, seed + k) for k in range(int(members))]
        self.members: nn.ModuleList = nn.ModuleList(copies)

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, place: int) -> nn.Module:
        return self.members[place]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.members)

    def predictions(self, x: Tensor) -> Tensor:
        """What each member says, shape (members, …)."""
        return torch.stack([member(x) for member in self.members])

    def forward(self, x: Tensor) -> Tensor:
        """The mean of what the members say."""
        return self.predictions(x).mean(0)


def _drawn_anew(model: nn.Module, seed: int) -> nn.Module:
    found = copy.deepcopy(model)
    frozen = {p: p.detach().clone() for p in found.parameters() if not p.requires_grad}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _reset(found, "", covered=False)
    with torch.no_grad():
        for parameter, kept in frozen.items():
            parameter.copy_(kept)
    return found


def _reset(module: nn.Module, name: str, *, covered: bool) -> None:
    """Draw the weights of a module anew, its parts first: what it does with theirs counts."""
    reset: Callable[[], None] | None = getattr(module, "reset_parameters", None)
    for part, child in module.named_children():
        _reset(child, f"{name}.{part}" if name else part, covered=reset is not None)
    if reset is not None:
        reset()
    elif not covered and any(
        p is not None and p.requires_grad for p in module._parameters.values()
    ):
        raise ValueError(
            "expected layers with reset_parameters, to draw their weights anew, got "
            f"{type(module).__name__} {name!r} without it"
        )
