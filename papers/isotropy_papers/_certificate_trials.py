"""Certificates as the thesis' chapter 5 makes them: the samples, and one trial."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from isotropy.certificates import Certificate, Recipe, certify, verify
from isotropy.data import small_digits
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Settings
from isotropy_papers._image_sets import ImageSet, image_set

_HELD_OUT_DIGITS = 397


def certified_set(name: str, settings: Settings) -> ImageSet:
    """A public set, or the small digits that need no download.

    Args:
        name: ``"mnist"``, ``"fashion-mnist"``, ``"cifar10"`` or ``"digits"``.
        settings: Where data are.
    """
    if name == "digits":
        images, labels = small_digits()
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
        kept, held = order[_HELD_OUT_DIGITS:], order[:_HELD_OUT_DIGITS]
        return ImageSet(name, (images[kept], labels[kept]), (images[held], labels[held]))
    return image_set(name, settings)


def trial(
    model: str,
    data: ImageSet,
    settings: Settings,
    progress: ProgressCallback | None = None,
    recipe: Recipe | None = None,
    make: Callable[..., Certificate] = certify,
    file: Path | None = None,
    **options: Any,
) -> dict[str, float]:
    """Make a certificate, have it verified from its bytes, and say what it holds.

    Args:
        model: An architecture of the catalogue.
        data: What to certify.
        settings: The seed and the device.
        progress: Called as training goes on.
        recipe: How to look for the network.
        make: `certify`, or another that takes what it takes.
        file: Where to save the certificate, once it has been verified.
        **options: What `certify` takes.

    Returns:
        ``bound``, ``train_error``, ``test_error`` in percent, ``bits``, ``n``, ``seconds``.

    Raises:
        RuntimeError: If the certificate does not verify.
    """
    began = time.monotonic()
    certificate = make(
        model,
        data.train,
        test=data.test,
        recipe=recipe,
        seed=settings.seed,
        device=settings.device,
        progress=progress,
        **options,
    )
    # our own: it may take as long as it takes, and starts were given or trained as asked
    verdict = verify(certificate.to_bytes(), data.train, most_memory=1 << 62, most_time=math.inf)
    if verdict.verdict == "rejected" or verdict.bound is None:
        raise RuntimeError(f"a certificate of ours was rejected: {verdict.reason}")
    if file is not None:
        certificate.save(file)
    return {
        "bound": 100 * verdict.bound,
        "train_error": 100 * certificate.train_error,
        "test_error": 100 * (certificate.test_error or 0.0),
        "bits": float(certificate.message_bits),
        "n": float(certificate.n),
        "seconds": time.monotonic() - began,
    }


def plain_name(name: str) -> str:
    """A name that does for a file.

    Example:
        >>> plain_name("MNIST prior from 50 %")
        'MNIST-prior-from-50'
    """
    return re.sub(r"[^\w.+=-]+", "-", name).strip("-")
