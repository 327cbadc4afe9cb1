"""EfficientNet-Lite with the weights trained on ImageNet, and photographs to measure it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from isotropy.run import ProgressCallback
from isotropy_papers._efficientnet_lite import Preprocess, efficientnet_lite
from isotropy_papers._experiment import Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import digest_of, found_folder, required_folder
from isotropy_papers._photographs import photographs
from isotropy_papers._trained_classifiers import ClassifierStudy, Estimates

_SIZES = (224, 240, 260)
# top-1 on ImageNet, as those who trained them state it
ACCURACIES = ("75.1 %", "76.7 %", "77.6 %")


def name_of(number: int) -> str:
    """What the network is called.

    Example:
        >>> name_of(0)
        'EfficientNet-Lite0'
    """
    return f"EfficientNet-Lite{number}"


def obtained(numbers: Sequence[int], settings: Settings) -> list[int]:
    """Those of the networks whose weights have been obtained.

    Args:
        numbers: 0, 1 or 2.
        settings: ``data`` may name a folder that holds them.
    """
    return [n for n in numbers if found_folder(f"efficientnet-lite{n}", settings) is not None]


def pretrained(number: int, settings: Settings) -> nn.Module:
    """The trained network, from pixels in [0, 1] to logits.

    Args:
        number: 0, 1 or 2.
        settings: ``data`` may name a folder that holds the weights.

    Raises:
        ValueError: If its weights have not been obtained.
    """
    weights = required_folder(f"efficientnet-lite{number}", settings)
    model = nn.Sequential(Preprocess(), efficientnet_lite(number, weights))
    return model.to(settings.device).eval()


def images_for(number: int, count: int, settings: Settings) -> tuple[Tensor, str]:
    """Photographs of the size of a network, and where they are from.

    Args:
        number: 0, 1 or 2.
        count: At most so many.
        settings: ``images`` may name a folder of them.
    """
    found = photographs(_SIZES[number], count, settings)
    return found.x, found.source


def study_pretrained(
    id: str,
    numbers: Sequence[int],
    count: int,
    measure: Callable[[nn.Module, Tensor], Estimates],
    settings: Settings,
    progress: ProgressCallback,
) -> ClassifierStudy:
    """Measure those of the trained networks that have been obtained, on photographs.

    Args:
        id: The experiment.
        numbers: Which networks.
        count: On how many photographs, at most.
        measure: What is measured of a network that gives probabilities.
        settings: Where photographs and weights are.
        progress: Called before each network.
    """
    there = obtained(numbers, settings)
    missing = [f"efficientnet-lite{n}" for n in numbers if n not in there]
    notes = []
    if missing:
        notes.append(f"left out, as not obtained by 'isotropy data get': {', '.join(missing)}")
    if not there:
        return ClassifierStudy({}, tuple(notes), 0.0)
    images = {name_of(n): images_for(n, count, settings) for n in there}
    numbers_of = {name_of(n): n for n in there}

    def measured(names: list[str]) -> list[Estimates]:
        return [
            measure(
                nn.Sequential(pretrained(numbers_of[name], settings), nn.Softmax(-1)),
                images[name][0],
            )
            for name in names
        ]

    depends = {name: digest_of(x) for name, (x, _) in images.items()}
    parts = Finished(f"{id}-pretrained", depends, settings, progress)
    found = {name: [value] for name, value in parts.get(list(images), measured).items()}
    stated = ", ".join(f"{name_of(n)} {ACCURACIES[n]}" for n in there)
    notes.append(
        f"EfficientNet-Lite: {next(iter(images.values()))[1]}, each network at its own size; "
        f"interval: one standard error over images; top-1 on ImageNet as published: {stated}"
    )
    return ClassifierStudy(found, tuple(notes), parts.close())
