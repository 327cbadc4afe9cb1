"""Options of learning the types of layers: the network that is made, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from isotropy.evidence import LearningOptions

Path: TypeAlias = Literal["fc", "factored", "sparse_fc", "conv", "sparse_conv", "group_conv"]
Form: TypeAlias = Literal["full", "separable", "depthwise", "pointwise"]
Basis: TypeAlias = Literal["normalised", "interpolating", "plain"]


@dataclass(frozen=True)
class NetworkOptions:
    """The ``LayerwiseNetwork`` that ``learn_layers`` makes where it is given no model.

    Args:
        paths: The paths of every layer; "factored" and "conv" by default.
        alpha: The width α; 10 by default.
        size: The size it takes, to which images are resized; 32 by default.
        group: The group of its "group_conv" path; "p4" by default.
        form: The form of that, as for ``GroupConv2d``; "pointwise" by default.
        basis: The kind of the bases of its sparse paths, as for ``RadialBasis``; the default of
            each path where None.

    Example:
        >>> NetworkOptions(paths=("conv", "group_conv"), alpha=2).group
        'p4'
    """

    paths: Sequence[Path] = ("factored", "conv")
    alpha: int = 10
    size: int = 32
    group: Literal["p4", "p4m"] = "p4"
    form: Form = "pointwise"
    basis: Basis | None = None


@dataclass(frozen=True)
class LayerLearningOptions(LearningOptions):
    """How ``learn_layers`` trains: all ``LearningOptions``, two with other defaults, and more.

    Args:
        burn_in: After how many epochs the priors are updated first; 5 by default.
        steps: Steps on the priors for each approximation, or "best" (the default).
        cuda_graph: As there; a network that is made here is captured in any case.
        hold_back: How much narrower than their initial draw the priors of all but the most
            symmetric paths begin (first "group_conv", then convolutions, then the rest): the
            evidence opens those that the data need; 10 by default. In a network made here the
            others begin with the gain of all. None to begin at what the paths carry, or 1, as
            published; paths that have learned the training data by heart are then hard to close.
        hyperparameters: Parameters that the evidence learns, one step for each approximation;
            "lengthscales" for all those of ``SparseLinear`` layers. None by default.
        augment: Changes a batch of standardised images at random, as training sees them; has to
            draw from torch's generators. The evidence is that of images as they are.
        device: Where to train; where None, where the model is.

    Example:
        >>> LayerLearningOptions(every=2, hold_back=None).burn_in
        5
    """

    burn_in: int = 5
    steps: int | Literal["best"] = "best"
    hold_back: float | None = 10.0
    hyperparameters: Iterable[str] = ()
    augment: Callable[[Tensor], Tensor] | None = None
    device: torch.device | str | None = None
