"""Learned augmentation: predict with the mean over random transformations, and learn their law.

Augerino (Benton et al., 2020) trains a model and the breadth of its augmentation together, by

    task loss of the mean prediction − breadth_weight · breadth,

so that the augmentation grows as broad as the task lets it. It is the baseline of Yeh et al.
(2022), who learn sharing instead: permutations by Gumbel-Sinkhorn matrices, shifts by their width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from isotropy_papers.augmentations import Augmentation


class Augerino(nn.Module):
    """The mean prediction of a model over random transformations whose law is learned.

        y(x) = 1/m Σ_i g_i⁻¹ f(g_i h(x)),

    where h is the encoder, and g⁻¹ is left out unless the task is equivariant. Train it on the
    task loss − weight · ``breadth()``; its parameters include those of the augmentation.

    Args:
        model: f, from (rows, *) to (rows, *); called once, with samples · rows rows.
        augmentation: The law of g.
        samples: m, the same in training and evaluation.
        equivariant: Whether outputs move with inputs, and so are moved back.
        compound: Whether each transformation acts on what the one before has left rather than
            on the input.
        encoder: h, which comes before the augmentation, say the embedding of tokens.

    Example:
        >>> from isotropy_papers.augmentations import LearnedPermutations
        >>> model = Augerino(
        ...     nn.Sequential(nn.Flatten(), nn.Linear(4 * 5, 1)),
        ...     LearnedPermutations(4, generator=0),
        ...     encoder=nn.Embedding(10, 5),
        ... )
        >>> model(torch.tensor([[1, 2, 3, 4], [9, 9, 9, 9]])).shape
        torch.Size([2, 1])
        >>> "augmentation.log_alpha" in dict(model.named_parameters())
        True
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        augmentation: Augmentation,
        *,
        samples: int = 3,
        equivariant: bool = False,
        compound: bool = False,
        encoder: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(augmentation, Augmentation):
            raise TypeError(f"expected an augmentation, got {type(augmentation).__name__}")
        if samples < 1:
            raise ValueError(f"expected at least one sample, got {samples}")
        self.model, self.augmentation, self.encoder = model, augmentation, encoder
        self.samples, self.equivariant, self.compound = samples, equivariant, compound

    def forward(self, x: Tensor) -> Tensor:
        """The mean prediction, shape (rows, *)."""
        features = x if self.encoder is None else self.encoder(x)
        if not features.is_floating_point():
            raise TypeError(
                f"expected floating-point features to augment, got {features.dtype}; "
                "tokens need an encoder"
            )
        drawn = self.augmentation.draw(self.samples, len(features))
        y = self.model(self._moved(features, drawn).flatten(0, 1))
        if len(y) != self.samples * len(features):
            raise ValueError(
                f"expected one output for each of {self.samples * len(features)} rows, "
                f"got shape {tuple(y.shape)}"
            )
        y = y.unflatten(0, (self.samples, len(features)))
        return (self._returned(y, drawn) if self.equivariant else y).mean(0)

    def _moved(self, features: Tensor, drawn: Tensor) -> Tensor:
        if not self.compound:
            return self.augmentation.move(features.unsqueeze(0), drawn)
        moved = [features.unsqueeze(0)]
        for one in drawn.split(1):
            moved.append(self.augmentation.move(moved[-1], one))
        return torch.cat(moved[1:])

    def _returned(self, y: Tensor, drawn: Tensor) -> Tensor:
        if not self.compound:
            return self.augmentation.undo(y, drawn)
        returned = []
        for i in range(self.samples):
            back = y[i : i + 1]
            for one in reversed(drawn[: i + 1].split(1)):
                back = self.augmentation.undo(back, one)
            returned.append(back)
        return torch.cat(returned)

    def breadth(self) -> Tensor:
        """How much the transformations vary."""
        return self.augmentation.breadth()
