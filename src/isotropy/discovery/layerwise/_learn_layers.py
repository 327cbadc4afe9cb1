"""Learning the type of every layer of a network by the evidence, while it is trained."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from isotropy._run import ProgressCallback, evaluation_mode, generator
from isotropy.discovery.layerwise._augmented_batches import AugmentedBatches
from isotropy.discovery.layerwise._class_labels import class_places, require_labels
from isotropy.discovery.layerwise._image_units import ImageUnits
from isotropy.discovery.layerwise._layer_types import (
    bare,
    layer_types,
    path_weights,
    relative_numbers,
)
from isotropy.discovery.layerwise._layerwise_result import LayerShares, LayerwiseResult
from isotropy.discovery.layerwise._starting_precisions import (
    begin_with_strict_paths,
    starting_precisions,
)
from isotropy.evidence import EffectiveParameters, LearnedPriors, learn_priors
from isotropy.nn import LayerwiseNetwork, SparseLinear, lengthscales

Path: TypeAlias = Literal["fc", "factored", "sparse_fc", "conv", "sparse_conv", "group_conv"]
Form: TypeAlias = Literal["full", "separable", "depthwise", "pointwise"]
Basis: TypeAlias = Literal["normalised", "interpolating", "plain"]

_LENGTHSCALES = "lengthscales"


def learn_layers(
    x: Any,
    y: Any,
    *,
    model: nn.Module | None = None,
    paths: Sequence[Path] = ("factored", "conv"),
    alpha: int = 10,
    size: int = 32,
    group: Literal["p4", "p4m"] = "p4",
    form: Form = "pointwise",
    basis: Basis | None = None,
    epochs: int = 100,
    batch_size: int = 128,
    learning_rate: float = 0.002,
    optimiser: Callable[..., torch.optim.Optimizer] | None = None,
    schedule: Literal["cosine", "constant"] = "cosine",
    burn_in: int = 5,
    every: int = 5,
    steps: int | Literal["best"] = "best",
    hold_back: float | None = 10.0,
    hyper_learning_rate: float = 0.1,
    hyper_schedule: Literal["cosine", "constant"] = "cosine",
    hyperparameters: Iterable[str] = (),
    augment: Callable[[Tensor], Tensor] | None = None,
    curvature: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume_changed: bool = False,
    progress: ProgressCallback | None = None,
) -> LayerwiseResult:
    """Train an image classifier whose layers find out which symmetry each of them should have.

    Every layer is a sum of paths, some equivariant and some not, and every tensor has a prior
    precision of its own. Weights are trained under these priors, and the priors by the Laplace
    approximation of the evidence, in turn (van der Ouderaa et al. 2023): a path that the data do
    not need is switched off. The type of a layer is the path with the largest relative effective
    number of parameters.

    Where ``learn_priors`` stops, by divergence or from the keyboard, so does this. A given model
    is then as it was after the last whole epoch; a network made here is kept in the checkpoint.

    Args:
        x: Images, shape (n, channels, height, width): uint8, or floats. Channels are standardised.
        y: Labels, whole numbers of shape (n,).
        model: A network with ``PathSum`` layers, trained in place, that takes images of the size
            of ``x``; where None, a ``LayerwiseNetwork``, to which the next six options belong.
        paths: Its paths.
        alpha: Its width α.
        size: The size it takes, to which images are resized.
        group: The group of its "group_conv" path.
        form: The form of that, as for ``GroupConv2d``.
        basis: The kind of the bases of its sparse paths, as for ``RadialBasis``.
        epochs: As all that follow but ``augment`` and ``device``, see ``learn_priors``.
        batch_size: Images in a training batch.
        learning_rate: Of the weights.
        optimiser: Of the weights; Adam where None.
        schedule: Of the learning rate.
        burn_in: After how many epochs the priors are updated first.
        every: After how many more epochs each time.
        steps: Steps on the priors for each approximation, or "best".
        hold_back: How much narrower than their initial draw the priors of all but the most
            symmetric paths begin (first "group_conv", then convolutions, then the rest): the
            evidence opens those that the data need. In a network made here the others begin with
            the gain of all. None to begin at what the paths carry, or 1, as published; paths that
            have learned the training data by heart are then hard to close.
        hyper_learning_rate: Of what the evidence learns.
        hyper_schedule: Of that rate.
        hyperparameters: Parameters that the evidence learns, one step for each approximation;
            "lengthscales" for all those of ``SparseLinear`` layers.
        augment: Changes a batch of standardised images at random, as training sees them; has to
            draw from torch's generators. The evidence is that of images as they are.
        curvature: Options of ``laplace``, such as ``{"subset": 1000}``.
        seed: Of the network made here, the order of images, subsets and random passes.
        device: Where to train; where None, where the model is.
        checkpoint: A file from which the same call goes on.
        resume_changed: Whether it goes on with other rates, schedules or epochs, too.
        progress: Called after every epoch.

    Returns:
        The network, the types of its layers and how they came about.

    Raises:
        TypeError: If images, labels or an option are of the wrong kind.
        ValueError: If images or labels do not fit each other or the model, the model has no
            ``PathSum``, maps are too small for a stride; or as ``learn_priors``.

    Example:
        Which of two patterns is there, wherever it is: a question for a convolution.

        >>> from isotropy.nn import MapLinear, PathSum
        >>> y = torch.arange(200) % 2
        >>> pattern = torch.tensor([[[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
        >>> x = torch.zeros(200, 1, 6, 6)
        >>> x[:, 0, :2, :2] = pattern[y]
        >>> draw = torch.Generator().manual_seed(0)
        >>> shifts = torch.randint(6, (200, 2), generator=draw).tolist()
        >>> x = torch.stack([image.roll(shift, (1, 2)) for image, shift in zip(x, shifts)])
        >>> paths = {
        ...     "fc": MapLinear(1, 4, 6),
        ...     "conv": nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular"),
        ... }
        >>> head = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)]
        >>> model = nn.Sequential(PathSum(paths), *head)
        >>> found = learn_layers(x, y, model=model, epochs=40, learning_rate=0.1, batch_size=50)
        >>> found.types["0"].kind
        'conv'
    """
    one = isinstance(hyperparameters, str)
    asked = [str(hyperparameters)] if one else list(hyperparameters)
    units = ImageUnits.of(x, size if model is None else None)
    images = units(x)
    labels = require_labels(y, len(images))
    if model is None:
        classes, targets = class_places(labels)
        net: nn.Module = made_network(
            units.channels, len(classes), paths, alpha, size, group, seed, form, basis
        )
        if hold_back is not None:
            begin_with_strict_paths(net)
    elif isinstance(model, nn.Module):
        net = model
    else:
        raise TypeError(f"expected a torch module as the model, got {type(model).__name__}")
    beside = _named(net, asked)
    tensors = _learned_tensors(net, beside)
    weights = path_weights(net, tensors)  # before the training, which is long
    start = starting_precisions(net, tensors, hold_back)
    if device is not None:
        net.to(device)
    like = next(net.parameters())
    images = images.to(like)
    if model is not None:
        classes, targets = class_places(labels, _outputs(net, images))
    whole = images, targets.cpu()  # looking at labels would make a GPU wait
    data: Any = whole
    if augment is not None:
        data = AugmentedBatches(*whole, batch_size, augment, generator(seed))
    learned = learn_priors(
        net,
        "classification",
        data,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimiser=optimiser,
        schedule=schedule,
        burn_in=burn_in,
        every=every,
        steps=steps,
        hyper_learning_rate=hyper_learning_rate,
        hyper_schedule=hyper_schedule,
        groups=_own_group,
        precisions=start,
        hyperparameters=beside,
        evidence_data=whole,
        curvature=curvature,
        seed=seed,
        cuda_graph=model is None,
        checkpoint=checkpoint,
        resume_changed=resume_changed,
        progress=progress,
    )
    types = layer_types(net, learned.effective, learned.precisions)
    return LayerwiseResult(net, types, _history(weights, learned), classes, learned, units)


def _own_group(tensor: str) -> str:
    return tensor


def made_network(
    channels: int,
    classes: int,
    paths: Sequence[Path],
    alpha: int,
    size: int,
    group: Literal["p4", "p4m"],
    seed: int,
    form: Form = "pointwise",
    basis: Basis | None = None,
) -> LayerwiseNetwork:
    """A network that depends on the seed alone, wherever it will be trained.

    Example:
        >>> len(made_network(1, 10, ("conv",), 2, 32, "p4", seed=0).layers)
        8
    """
    with torch.random.fork_rng([]):
        torch.set_rng_state(generator(seed).get_state())
        return LayerwiseNetwork(
            channels,
            classes,
            paths=paths,
            alpha=alpha,
            size=size,
            group=group,
            form=form,
            basis=basis,
            device="cpu",
        )


def _outputs(model: nn.Module, images: Tensor) -> int:
    """How many outputs a network has, from a look at one image."""
    with evaluation_mode(model), torch.no_grad():
        outputs = model(images[:1])
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(f"expected a model with outputs of shape (n, classes), got {got}")
    return outputs.shape[1]


def _named(model: nn.Module, asked: Sequence[str]) -> list[str]:
    """The names of hyperparameters; a word stands for all lengthscales of S-FC."""
    found = []
    for name in asked:
        if name == _LENGTHSCALES:
            omegas = lengthscales(bare(model), SparseLinear)
            if not omegas:
                raise ValueError(
                    "expected a model with SparseLinear layers to learn lengthscales, got none in "
                    f"{type(bare(model)).__name__}"
                )
            found += omegas
        else:
            found.append(name)
    return found


def _learned_tensors(model: nn.Module, hyperparameters: list[str]) -> list[str]:
    names = [name for name, p in bare(model).named_parameters() if p.requires_grad]
    return [name for name in names if name not in hyperparameters]


def _history(
    weights: Mapping[str, Mapping[str, list[str]]], learned: LearnedPriors
) -> tuple[LayerShares, ...]:
    sizes = learned.effective.sizes
    return tuple(
        LayerShares(
            estimate.epoch,
            relative_numbers(weights, EffectiveParameters(estimate.effective, sizes)),
        )
        for estimate in learned.history
    )
