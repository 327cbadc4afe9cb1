"""How to load the model of a finding, as a small program that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotropy.discovery.telling._finding import Finding

_TEXT = '''"""{name}: how to load the model and predict with it."""

from pathlib import Path

import numpy as np

from isotropy.discovery import Finding

finding = Finding.load(Path(__file__).parent)
print(finding)

x = np.random.default_rng(0).normal(size=({shape}))  # rows like yours, in their units
print(finding.predict(x).shape)  # {what}
# finding.model is a torch.nn.Module; finding.symmetry its group and how it acts
'''
_NONE = '''"""{name}: how to load the finding, which has no model."""

from pathlib import Path

from isotropy.discovery import Finding

finding = Finding.load(Path(__file__).parent)
print(finding)
print(finding.symmetry)
'''


def how_to_use(finding: Finding) -> str:
    """A program that loads a finding from its own folder, and predicts if there is a model.

    Example:
        >>> from isotropy.discovery import Finding
        >>> "which has no model" in how_to_use(Finding("S(3)", "S(3)", "all positions", "swaps"))
        True
    """
    name = " ".join(finding.name.replace("\\", " ").replace('"', "'").split())
    model = finding.model
    if model is None and finding.soft is not None:
        model = finding.soft.model
    if model is None or finding.method == "transitions":
        return _NONE.format(name=name)
    layout = finding.layout
    shape: list[int] = [5]
    if layout.image:
        shape += layout.image
    else:
        width = _width(finding)
        if width is None:
            return _NONE.format(name=name)
        if layout.channels > 1 or layout.sequences:
            sides = [width // layout.channels, layout.channels]
            shape += reversed(sides) if layout.channels_first else sides
        else:
            shape.append(width)
    text = ", ".join(map(str, shape))
    return _TEXT.format(name=name, shape=text, what="values, or logits of classes")


def _width(finding: Finding) -> int | None:
    """How many numbers a row has."""
    given = getattr(finding.model, "in_features", None)
    if isinstance(given, int):
        return given
    if finding.symmetry is not None:
        return finding.symmetry.rep_in.size()
    return None if finding.labels is None else finding.labels.shape[-1]
