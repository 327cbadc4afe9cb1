"""From images to named symmetries: of the target, and of the layers of a network."""

from __future__ import annotations

from collections.abc import Sequence

from isotropy._run import Patience, ProgressCallback
from isotropy.discovery.proposing.images._image_search import ImageSearch
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.telling._findings import Findings

# shares of a budget by whose end a stage is to be done: motions of the task come before layers
_SHARES = {
    "fitting predictors of images": 0.7,
    "learning the types of layers": 0.8,
    "confirming motions of images": 0.95,
}


def discover_images(
    data: ImageData,
    *,
    candidates: Sequence[str] = (),
    margin: float = 0.05,
    level: float = 0.05,
    fit_models: bool = True,
    some_layers: bool = True,
    seed: int = 0,
    patience: Patience | None = None,
    progress: ProgressCallback | None = None,
) -> Findings:
    """Find which motions of images leave their targets, and which layers may commute with them.

    Example:
        >>> from isotropy.data import load
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(70, 1, 4, 5)), rng.integers(2, size=70)
        >>> found = discover_images(ImageData.of(load((x, y))))  # noise
        >>> len(found), found.notes[-1]
        (0, 'quarter turns were not tried: images of 4 by 5 are not square')
    """
    search = ImageSearch(
        data,
        candidates,
        margin=margin,
        level=level,
        seed=seed,
        tell=progress,
        some_layers=some_layers,
    )
    for words, work, needed in search.stages(fit_models):
        if patience is None:
            work()
        else:
            patience.attempt(words, work, share=_SHARES.get(words, 1.0), needed=needed)
    return search.so_far()
