"""Do moved images look like those of the data? A network is asked to tell them apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.discovery.images._image_data import ImageData
from isotropy.discovery.images._image_motions import Motions, moved_at_random
from isotropy.discovery.images._image_network import working_grid

_ROWS = 1200
_HIDDEN, _STEPS, _BATCH, _RATE = 64, 250, 128, 3e-3


def told_apart(data: ImageData, motions: Motions, seed: int) -> float:
    """How well images are told from moved ones: the chance of ranking a pair of them right.

    One half where nobody can tell, so that a predictor with the symmetry is asked about images such
    as there are; much more where motions lead to images that the data do not have, of which nothing
    is known. The identity is among the motions, so that of a group of n elements the most is
    1 − 1/(2n): three quarters for a mirror.

    Args:
        data: Images.
        motions: What moves them.
        seed: Of motions, weights and batches.

    Example:
        >>> import numpy as np
        >>> from isotropy.discovery.images._image_motions import usual_motions
        >>> x = np.random.default_rng(0).normal(size=(400, 6, 6))
        >>> noise, bright = (
        ...     ImageData.of(images, np.arange(400) % 2, None, None)
        ...     for images in (x, x + 3 * np.eye(6))
        ... )
        >>> mirror = usual_motions(noise)[3]
        >>> told_apart(noise, mirror, 0) < 0.6, told_apart(bright, mirror, 0) > 0.7
        (True, True)
    """
    some = data.at_most(_ROWS, seed)
    rng = make_generator(seed)
    _, height, width = data.image
    size = working_grid(height, width)[1]

    def pixels(rows: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(rows.unflatten(1, data.image), size).flatten(1)

    given, moved = pixels(some.x), pixels(moved_at_random(motions.symmetry(data), rng, some.x))
    scale = given.std(0).mean().clamp_min(1e-9)
    half = len(given) // 2
    # an image and what becomes of it are on the same side
    x = torch.cat([given[:half], moved[:half]]).sub(given.mean()) / scale
    y = torch.arange(2).repeat_interleave(half)
    with torch.random.fork_rng([]):
        torch.set_rng_state(make_generator(seed + 1).get_state())
        network = nn.Sequential(nn.Linear(x.shape[1], _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 2))
    solver = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.1)
    for _ in range(_STEPS):
        rows = torch.randint(len(x), (min(_BATCH, len(x)),), generator=rng)
        solver.zero_grad()
        functional.cross_entropy(network(x[rows]), y[rows]).backward()
        solver.step()
    with torch.no_grad():
        scores = [
            (network(rows[half:].sub(given.mean()) / scale) @ torch.tensor([-1.0, 1.0]))
            for rows in (given, moved)
        ]
    ordered = scores[0].sort().values
    below = torch.searchsorted(ordered, scores[1]).double()
    above = torch.searchsorted(ordered, scores[1], right=True).double()
    return float((below + above).mean() / (2 * len(ordered)))
