"""Image classifiers with strict, free and soft layers, trained on a GPU (thesis 3.5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi

import torch
import torch.nn.functional as F
from torch import nn

from isotropy.nn import log_prior
from isotropy.run import ProgressCallback, Step, generator
from isotropy_papers._classifiers import Standardise, accuracy, shifted_and_flipped
from isotropy_papers._image_sets import ImageSet
from isotropy_papers._residual_conv import ConvNet, Kind

# with 50000 images the decay of free weights is 1e-2, and that of convolutions 1e-4 where a weight
# is used at 1024 places, as in the reference code; the ratio is that of the text
VARIANCES = (1e2, 1e-3)
_MOMENTUM = 0.9
_BATCH = 128


@dataclass(frozen=True)
class ImageRecipe:
    """How to train a classifier: SGD with momentum, a rate that falls to zero as a cosine.

    Batches of 128 images, shifted by up to four pixels and flipped.

    Args:
        epochs: Passes through the training images.
        rate: The learning rate at the start.
        channels: Of the first three convolutions; the six others have twice as many.

    Example:
        >>> ImageRecipe(epochs=200).network.channels
        (16, 16, 16, 32, 32, 32, 32, 32, 32)
    """

    epochs: int
    rate: float = 0.05
    channels: int = 16

    @property
    def network(self) -> ConvNet:
        """Nine convolutions, a max-pool after the third and the sixth, and one linear layer."""
        channels = (self.channels,) * 3 + (2 * self.channels,) * 6
        return ConvNet(channels, outputs=10, pools=(3, 6), normalised=True)


def percent_wrong(
    kind: Kind,
    images: ImageSet,
    recipe: ImageRecipe,
    *,
    seed: int,
    device: str = "cpu",
    progress: ProgressCallback | None = None,
) -> float:
    """Train a classifier with its prior, and count its errors on the test images.

    The loss is the mean cross-entropy minus log p(θ)/N. On a GPU products are of half precision
    (bfloat16).

    Args:
        kind: "MLP", "RPP" or "Conv".
        images: What to train and to test on.
        recipe: How to train.
        seed: Of weights, batches, shifts and flips.
        device: Where to train.
        progress: Called after each epoch.

    Returns:
        The percentage of test images whose class is not the one with the largest logit.
    """
    x, y = (part.to(device) for part in images.train)
    with torch.random.fork_rng(devices=[] if x.device.type == "cpu" else [x.device]):
        torch.manual_seed(seed)
        paths = recipe.network.network(kind, x[:2], VARIANCES)
    model = nn.Sequential(Standardise(), paths).to(device).train()
    weights = list(model.parameters())
    optimiser = torch.optim.SGD(weights, lr=recipe.rate, momentum=_MOMENTUM, fused=True)
    rng = generator(seed)
    batch = min(_BATCH, len(x))
    each = len(x) // batch
    steps = recipe.epochs * each
    for step in range(steps):
        if step % each == 0:
            order = torch.randperm(len(x), generator=rng).to(device)
        rows = order[step % each * batch :][:batch]
        optimiser.param_groups[0]["lr"] = recipe.rate * (1 + cos(pi * step / steps)) / 2
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            logits = model(shifted_and_flipped(x[rows], rng))
        loss = F.cross_entropy(logits.float(), y[rows]) - log_prior(model, samples=len(x))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if progress is not None and (step + 1) % each == 0:
            progress(Step((step + 1) // each, recipe.epochs, f"{images.name} {kind}"))
    return 100 * (1 - accuracy(model.eval(), *images.test))
