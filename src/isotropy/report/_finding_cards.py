"""A finding in a card: what it is, how sure it is, its pictures, and the Python that uses it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from isotropy.report._evidence_section import p_value_words
from isotropy.report._example_pictures import example_pictures
from isotropy.report._finding_pictures import effect_picture, partition_picture
from isotropy.report._finding_tables import finding_tables, soft_table
from isotropy.report._generator_pictures import generator_pictures, metric_picture
from isotropy.report._layer_pictures import layer_pictures
from isotropy.report._plots import Plots
from isotropy.report._words import NEGLIGIBLE, percent, short_number, true_minus

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings

_LOSS = re.compile(r"(\S.*) (-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
_SHOWN, _KEPT = 100, 2000  # letters of the text of a group, on the page and in its tooltip


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


def finding_card(finding: Finding, plots: Plots) -> str:
    """All that is known of one finding, as HTML."""
    kind = "sure" if finding.confirmed else "not"
    approximately = ", approximately" if finding.approximate and finding.confirmed else ""
    size = f" of {short_number(finding.order)} elements" if finding.order else ""
    size += f" of dimension {finding.dimension}" if finding.dimension else ""
    group = f"The group {_group(finding.group)}{size}."
    if finding.order == 1:
        group = "Weights are shared although no group moves the positions."
    weights, cost = partition_picture(finding, plots), effect_picture(finding)
    generators = generator_pictures(finding, plots) + metric_picture(finding, plots)
    pictures = f"<div class='pictures'>{weights}{cost}</div>" if weights or cost else ""
    return (
        f"<article><h2 class='name'>{escape(finding.name)}</h2><p class='claim'><b class='{kind}'>"
        f"{finding.verdict.capitalize()}{approximately}:</b> {escape(finding.action)}.</p>"
        f"<p class='aside'>{group} Found by {escape(finding.method)}.</p>"
        f"{_test(finding)}{example_pictures(finding)}{generators}{pictures}"
        f"{''.join(finding_tables(finding))}{layer_pictures(finding, plots)}"
        f"{''.join(map(_note, finding.notes))}{soft_table(finding)}</article>"
    )


def _group(text: str) -> str:
    """The text of a group, cut where matrices make it long; what was cut is in its tooltip."""
    if len(text) <= _SHOWN:
        return escape(text)
    whole = text if len(text) <= _KEPT else f"{text[: _KEPT - 1]}…"
    return f"<span title='{escape(whole)}'>{escape(text[: _SHOWN - 1])}…</span>"


def _test(finding: Finding) -> str:
    """What the test says, as HTML; nothing where there was none."""
    if not finding.samples:
        return ""
    words, high = f"<p>On {finding.samples} samples set aside, ", finding.interval[1]
    if math.isnan(finding.effect):
        return f"{words}{finding.cost}.</p>"
    words += f"the symmetry {finding.cost}"
    if abs(high) < NEGLIGIBLE:
        words += f", and with 95 % confidence it costs less than {percent(NEGLIGIBLE)}"
    elif high < math.inf:
        verb = "costs no more than" if high >= 0 else "saves no less than"
        words += f", and with 95 % confidence it {verb} {percent(abs(high))}"
    words += f". A symmetry may cost up to {escape(percent(finding.margin))}; the test that it "
    words += f"costs less gives <b class='number'>{escape(p_value_words(finding.p_value))}</b>.</p>"
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def _note(note: str) -> str:
    """Bars where a note lists numbers, "mean loss: ours 0.1, theirs 0.2"; else its words."""
    head, _, rest = note.rpartition(": ")
    matches = [_LOSS.fullmatch(part) for part in rest.split(", ")]
    pairs = [(match[1], float(match[2])) for match in matches if match]
    largest = max((value for _, value in pairs), default=0.0)
    if not head or len(pairs) < max(2, len(matches)) or not 0 < largest < math.inf:
        return f"<p class='aside'>{escape(note)}</p>"
    rows = (
        f"<tr><th scope='row'>{escape(name)}</th><td class='wide'><span class='bar' style='width:"
        f"{100 * max(value, 0) / largest:.1f}%'></span></td><td class='number'>"
        f"{true_minus(f'{value:g}')}</td></tr>"
        for name, value in pairs
    )
    words = escape(head[:1].upper() + head[1:])
    return f"<h3>{words}</h3><table class='bars'>{''.join(rows)}</table>"
