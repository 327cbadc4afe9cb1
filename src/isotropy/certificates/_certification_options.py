"""What few certificates need: other errors, other starts, a symmetry, another search."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from isotropy.certificates._search import Search
from isotropy.groups import Group


@dataclass(frozen=True, eq=False)
class CertificationOptions:
    """What counts as an error, where training starts and how it searches, where that is unusual.

    Args:
        classes: How many; by default one more than the largest label.
        tolerance: For a regression: an error is a number missed by more than this.
        input_scale: Inputs are divided by this; 16 bits of the message. By default they stay.
        start: θ₀ that was fixed before the data were seen: tensors by name (those that are not
            given are drawn), ``"given"`` for the parameters of the model (transfer), or ``"zero"``.
            It is stored in the certificate. By default it is drawn from the seed.
        symmetry: The groups that a module of your own uses, to be paid for; architectures of the
            catalogue pay for theirs anyway.
        checkpoints: A folder from which an interrupted run goes on; by default none is kept.
        search: How to find the symbols and levels of the weights; by default, train them free and
            then quantised. The bound holds for any.

    Example:
        >>> import torch
        >>> from isotropy import certify
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
        >>> within = CertificationOptions(tolerance=2.0)
        >>> certify("mlp-8", (x, x[:, :1]), options=within, d=4, epochs=2).bound < 0.5
        True
    """

    classes: int | None = None
    tolerance: float | None = None
    input_scale: float | None = None
    start: Mapping[str, Tensor] | str | None = None
    symmetry: str | Group | Sequence[str | Group] | None = None
    checkpoints: str | os.PathLike[str] | None = None
    search: Search | None = None
