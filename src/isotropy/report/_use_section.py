"""Lines of Python that load the model of a search and predict with it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings


def use_section(found: Findings, folder: str) -> Iterator[str]:
    """How to use the best model; nothing where there is none."""
    best, where = found.best, "best.model"
    model = None if best is None else best.model
    if model is None and found.nearly and found.nearly[0].soft is not None:
        best, where = found.nearly[0], "nearly[0].soft.model"
        model = found.nearly[0].soft.model
    elif best is not None and best.soft is not None and best.soft.is_better:
        where, model = "best.soft.model", best.soft.model
    if best is None or model is None:
        return
    image = best.layout.image
    wide = getattr(model, "in_features", "inputs")
    shape = ", ".join(map(str, image)) if image else wide
    lines = (
        "import torch\nfrom isotropy.discovery import Findings\n\n"
        f"found = Findings.load({folder!r})\n"
        f"model = found.{where}  # {' '.join(best.name.split())}\n"
        f"x = torch.randn(5, {shape})  # samples, in the order and units of the data\n"
        "with torch.no_grad():\n    y = model(x)"
        + ("" if best.method == "transitions" else "  # values, or logits of classes")
    )
    if best.method == "transitions":
        lines += "\n# x: observations, then actions; y: what observations change by"
    elif not image and not _has_matrices(best):
        lines += "\n# sequences x of shape (samples, positions, channels): model(x.mT.flatten(1))"
    if where == "best.soft.model":
        lines += "\n# found.best.model has the symmetry exactly, and predicts less well"
    elif where == "best.model" and found.nearly:
        lines += "\n# found.nearly[0].soft.model leans towards what holds nearly"
    yield (
        "<section><h2>How to use the model</h2><p>The weights are in <i>model.safetensors</i> "
        "beside <i>finding.json</i>; these lines build the model and load them.</p>"
        "<div class='lines-of-code' tabindex='0' role='region' aria-label='Lines of Python'>"
        f"<pre><code>{escape(lines)}</code></pre></div></section>"
    )


def _has_matrices(finding: Finding) -> bool:
    """Whether weights or generators of it are known, so that inputs are no sequences."""
    known = (getattr(finding.details, name, None) for name in ("labels", "generators"))
    return any(one is not None for one in known)
