"""Learning the type of every layer of a network by the evidence, while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from isotropy._run import ProgressCallback, evaluation_mode, generator
from isotropy._run._moved_keywords import moved_keywords
from isotropy.evidence import (
    EffectiveParameters,
    LearnedPriors,
    LearningOptions,
    PriorOptions,
    learn_priors,
)
from isotropy.layerwise._image_batches import (
    AugmentedBatches,
    ImageUnits,
    class_places,
    require_labels,
)
from isotropy.layerwise._layer_types import bare, layer_types, path_weights, relative_numbers
from isotropy.layerwise._layerwise_result import LayerShares, LayerwiseResult
from isotropy.layerwise._starting_precisions import begin_with_strict_paths, starting_precisions
from isotropy.nn import LayerwiseNetwork, SparseLinear, lengthscales

Path: TypeAlias = Literal["fc", "factored", "sparse_fc", "conv", "sparse_conv", "group_conv"]
Form: TypeAlias = Literal["full", "separable", "depthwise", "pointwise"]
Basis: TypeAlias = Literal["normalised", "interpolating", "plain"]
_LENGTHSCALES = "lengthscales"


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


@moved_keywords(network=NetworkOptions, learning=LayerLearningOptions)
def learn_layers(
    x: Any,
    y: Any,
    *,
    model: nn.Module | None = None,
    network: NetworkOptions | None = None,
    epochs: int = 100,
    batch_size: int = 128,
    learning_rate: float = 0.002,
    learning: LayerLearningOptions | None = None,
    seed: int = 0,
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
            of ``x``; where None, a ``LayerwiseNetwork``.
        network: The options of that, where there is no model.
        epochs: How often to go through the images.
        batch_size: Images in a training batch.
        learning_rate: Of the weights.
        learning: How weights and priors are trained, from where on, and on which device.
        seed: Of the network made here, the order of images, subsets and random passes.
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
    network = NetworkOptions() if network is None else network
    learning = LayerLearningOptions() if learning is None else learning
    if not isinstance(learning, LayerLearningOptions):
        raise TypeError(f"expected LayerLearningOptions as learning, got {type(learning).__name__}")
    units = ImageUnits.of(x, network.size if model is None else None)
    images = units(x)
    labels = require_labels(y, len(images))
    if model is None:
        classes, targets = class_places(labels)
        net: nn.Module = made_network(units.channels, len(classes), network, seed)
        if learning.hold_back is not None:
            begin_with_strict_paths(net)
    elif isinstance(model, nn.Module):
        net = model
    else:
        raise TypeError(f"expected a torch module as the model, got {type(model).__name__}")
    beside = _named(net, learning.hyperparameters)
    tensors = _learned_tensors(net, beside)
    weights = path_weights(net, tensors)  # before the training, which is long
    start = starting_precisions(net, tensors, learning.hold_back)
    if learning.device is not None:
        net.to(learning.device)
    like = next(net.parameters())
    images = images.to(like)
    if model is not None:
        classes, targets = class_places(labels, _outputs(net, images))
    whole = images, targets.cpu()  # looking at labels would make a GPU wait
    data: Any = whole
    if learning.augment is not None:
        data = AugmentedBatches(*whole, batch_size, learning.augment, generator(seed))
    learned = learn_priors(
        net,
        "classification",
        data,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        learning=replace(learning, cuda_graph=learning.cuda_graph or model is None),
        priors=PriorOptions(
            groups=_own_group, precisions=start, hyperparameters=beside, evidence_data=whole
        ),
        seed=seed,
        progress=progress,
    )
    types = layer_types(net, learned.effective, learned.precisions)
    return LayerwiseResult(net, types, _history(weights, learned), classes, learned, units)


def _own_group(tensor: str) -> str:
    return tensor


def made_network(
    channels: int, classes: int, network: NetworkOptions, seed: int
) -> LayerwiseNetwork:
    """A network that depends on the seed alone, wherever it will be trained.

    Example:
        >>> len(made_network(1, 10, NetworkOptions(("conv",), 2), seed=0).layers)
        8
    """
    with torch.random.fork_rng([]):
        torch.set_rng_state(generator(seed).get_state())
        return LayerwiseNetwork(channels, classes, **asdict(network), device="cpu")


def _outputs(model: nn.Module, images: Tensor) -> int:
    """How many outputs a network has, from a look at one image."""
    with evaluation_mode(model), torch.no_grad():
        outputs = model(images[:1])
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(f"expected a model with outputs of shape (n, classes), got {got}")
    return outputs.shape[1]


def _named(model: nn.Module, asked: Iterable[str]) -> list[str]:
    """The names of hyperparameters; a word stands for all lengthscales of S-FC."""
    found = []
    for name in [asked] if isinstance(asked, str) else asked:
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
