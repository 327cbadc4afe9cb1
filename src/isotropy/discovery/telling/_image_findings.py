"""What a search among images says: findings with a few images moved, notes, and what was tried."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._layer_claim import LayerClaim, LayerProposals
from isotropy.discovery.claims._motions import Motions, moved_at_random
from isotropy.discovery.predictors._image_network import working_grid
from isotropy.discovery.predictors._motion_predictors import MotionPredictors
from isotropy.discovery.predictors._predictor_notes import notes_of_share
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._row_layout import RowLayout
from isotropy.discovery.telling._finding import Finding, is_approximate, tested_fields
from isotropy.discovery.testing._claim_test import ClaimTest

_SHOWN, _MOVED, _LARGEST_SHOWN = 3, 3, 32


def image_finding(
    claim: Motions | LayerClaim,
    test: ClaimTest,
    data: ImageData,
    outside: ImageData,
    layers: LayerProposals | None,
    seed: int,
) -> Finding:
    """A finding without a model."""
    numbers: dict[str, Any] = {
        "approximate": is_approximate(test),
        **tested_fields(test),
        "layout": RowLayout(data.image[0], image=data.given),
    }
    if isinstance(claim, Motions):
        return Finding(
            name=claim.name,
            group=str(claim.group),
            action=claim.action,
            method=claim.method,
            order=claim.order(),
            symmetry=claim.symmetry(data),
            examples=moved_examples(claim, outside, seed),
            **numbers,
        )
    assert layers is not None
    table = tuple(
        {**row, "strict": k < claim.depth} for k, row in enumerate(layers.tables[claim.path])
    )
    return Finding(
        name=claim.name,
        group=claim.group,
        action=claim.action,
        method=claim.method,
        order=claim.order,
        layers=table,
        **numbers,
    )


def moved_examples(motions: Motions, data: ImageData, seed: int) -> NDArray[np.float64]:
    """Three images, each as it is and moved three times, of the given shape but no larger than 32.

    Returns:
        Shape (3, 4, …); pixels of large images are left out, at regular distances.
    """
    rows = data.x[:_SHOWN]
    rng = make_generator(seed)
    symmetry = motions.symmetry(data)
    shown = [rows, *(_moved_truly(symmetry, rng, rows) for _ in range(_MOVED))]
    maps = torch.stack(shown, 1).unflatten(2, data.image)
    step = ceil(max(data.image[1:]) / _LARGEST_SHOWN)
    maps = maps[..., ::step, ::step]
    if data.shape.channels_last:
        maps = maps.movedim(2, -1)
    elif len(data.given) == 2:
        maps = maps.squeeze(2)
    found: NDArray[np.float64] = maps.double().numpy()
    return found


def _moved_truly(symmetry: Any, rng: torch.Generator, rows: torch.Tensor) -> torch.Tensor:
    """Rows moved at random, by elements that change something where a few draws find some."""
    moved = rows
    for _ in range(8):
        again = moved_at_random(symmetry, rng, rows)
        same = (moved == rows).all(1, keepdim=True)
        moved = torch.where(same, again, moved)
    return moved


def tried_line(
    name: str, method: str, effect: float | None, p_value: float | None, confirmed: bool
) -> dict[str, Any]:
    """One line of what was tried."""
    return {
        "name": name,
        "method": method,
        "effect": effect,
        "p_value": p_value,
        "confirmed": confirmed,
    }


def image_notes(
    data: ImageData, predictors: MotionPredictors, fitted: ImageData, outside: ImageData
) -> list[str]:
    """What is worth knowing of the data, and of what could be learned from them."""
    _, height, width = data.image
    notes = []
    if predictors.fits:
        notes += _of_predictors(data, predictors, fitted, outside)
    notes.append(
        "shifts wrap around the edges; a claim is held against the best predictor that was "
        "built without it"
    )
    if data.shape.channels_last:
        notes.append(
            f"images of shape {data.given} were read as {height} by {width} with "
            f"{data.image[0]} channels, which come last"
        )
    shrink, size = working_grid(height, width)
    if shrink > 1 and data.target is None:
        whole = (height % shrink, width % shrink) == (0, 0)
        notes.append(
            f"networks see images averaged to {size[0]} by {size[1]}: their shifts are "
            + (f"those by multiples of {shrink} pixels" if whole else "no shifts of the image")
        )
    if height != width:
        notes.append(f"quarter turns were not tried: images of {height} by {width} are not square")
    return notes


def _of_predictors(
    data: ImageData, predictors: MotionPredictors, fitted: ImageData, outside: ImageData
) -> list[str]:
    best = min(predictors.fits, key=lambda one: one.loss)
    losses = predictors.losses(predictors.predictions(best, outside), outside)
    left = float(losses.mean() / predictors.constant_losses(outside).mean())
    classes = data.task == "classification"
    what = "classification of images" if classes else "regression on images"
    if data.target is not None:
        what = "regression from images to images"
    return [
        f"{what}; best predictor: {best.kind}, leaves {left:.2g} of the "
        f"{'entropy' if classes else 'variance'}; fitted to {len(fitted.x)} rows, claims tested on "
        f"{len(outside.x)} others",
        *notes_of_share(left),
    ]
