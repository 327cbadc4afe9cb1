"""Do moved images look like those of the data? Two networks are asked to tell them apart."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.data import load
from isotropy.discovery.claims._image_motions import Motions, moved_at_random
from isotropy.discovery.predictors._image_network import DEPTH, working_grid
from isotropy.discovery.predictors._image_predictors import fit_image_network, strict_paths
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.predictors._train_classifier import outputs_of
from isotropy.discovery.reading._image_data import ImageData


def distinguishability(
    data: ImageData, motions: Motions, seed: int, *, wherever: bool = False
) -> float:
    """How well images are distinguished from moved ones: the chance of ranking a pair right.

    One half where nobody can tell, so that a predictor with the symmetry is asked about images such
    as there are; much more where motions lead to images that the data do not have, of which nothing
    is known. The identity is among the motions, so that of a group of n elements the most is
    1 − 1/(2n): three quarters for a mirror.

    Args:
        data: Images.
        motions: How they may be moved.
        seed: Of motions and networks.
        wherever: Whether to ask a network as well that sees things wherever they are.

    Example:
        >>> from isotropy.discovery.claims._image_motions import usual_motions
        >>> x = np.random.default_rng(0).normal(size=(400, 6, 6))
        >>> noise, bright = (
        ...     ImageData.of(load((images, np.arange(400) % 2)))
        ...     for images in (x, x + 3 * np.eye(6))
        ... )
        >>> mirror = usual_motions(noise)[3]
        >>> distinguishability(noise, mirror, 0) < 0.6, distinguishability(bright, mirror, 0) > 0.7
        (True, True)
    """
    some = data.at_most(PredictorThresholds.now().distinguished_rows, seed).x
    rng = make_generator(seed)
    pair = some, moved_at_random(motions.symmetry(data), rng, some)
    best = _ranked(*_by_pixels(data, *pair, seed, rng))
    return max(best, _ranked(*_by_convolutions(data, *pair, seed))) if wherever else best


def _by_pixels(
    data: ImageData, images: Tensor, moved: Tensor, seed: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """How much like moved ones the second half of the images look, and their moved ones."""
    limits, size = PredictorThresholds.now(), working_grid(*data.image[1:])[1]

    def pixels(rows: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(rows.unflatten(1, data.image), size).flatten(1)

    given, moved = pixels(images), pixels(moved)
    scale = given.std(0).mean().clamp_min(1e-9)
    half = len(given) // 2
    # an image and what becomes of it are on the same side
    x = torch.cat([given[:half], moved[:half]]).sub(given.mean()) / scale
    y = torch.arange(2).repeat_interleave(half)
    units = limits.distinguished_units
    with torch.random.fork_rng([]):
        torch.set_rng_state(make_generator(seed + 1).get_state())
        network = nn.Sequential(nn.Linear(x.shape[1], units), nn.ReLU(), nn.Linear(units, 2))
    rate, batch = limits.distinguished_rate, min(limits.distinguished_batch, len(x))
    solver = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.1)
    for _ in range(limits.distinguished_steps):
        rows = torch.randint(len(x), (batch,), generator=rng)
        solver.zero_grad()
        functional.cross_entropy(network(x[rows]), y[rows]).backward()
        solver.step()
    with torch.no_grad():
        first, second = (
            network(rows[half:].sub(given.mean()) / scale) @ torch.tensor([-1.0, 1.0])
            for rows in (given, moved)
        )
    return first, second


def _by_convolutions(
    data: ImageData, images: Tensor, moved: Tensor, seed: int
) -> tuple[Tensor, Tensor]:
    """The same of a network that sees things wherever they are."""
    half = len(images) // 2
    x = torch.cat([images[:half], moved[:half]]).unflatten(1, data.image)
    # an image and what becomes of it are on the same side
    pairs = np.tile(np.arange(half), 2)
    asked = ImageData.of(load((x.numpy(), np.arange(2).repeat(half)), groups=pairs))
    network = fit_image_network(asked, strict_paths("conv", DEPTH), seed)[0]
    first, second = (outputs_of(network, rows[half:]).diff(dim=1)[:, 0] for rows in (images, moved))
    return first, second


def _ranked(images: Tensor, moved: Tensor) -> float:
    """How often a moved image has the higher score of a pair."""
    ordered = images.sort().values
    below = torch.searchsorted(ordered, moved).double()
    above = torch.searchsorted(ordered, moved, right=True).double()
    return float((below + above).mean() / (2 * len(ordered)))
