"""What discovery found, as one page that needs nothing else to be read."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isotropy._run import atomic_write
from isotropy.report._basis_picture import LARGEST_PICTURE, _palette

if TYPE_CHECKING:
    from isotropy.discovery._finding import Finding, Findings

_WIDTH, _HEIGHT = 420.0, 64.0  # of the picture of an effect
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; --sure: #1a7f4b; --not: #b4691f; }
@media (prefers-color-scheme: dark) { :root { --sure: #5cc795; --not: #e0a05a; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; } h3 { margin: 0; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
pre { background: var(--soft); padding: .8rem; border-radius: .4rem; overflow-x: auto; }
img { image-rendering: pixelated; width: min(100%, 18rem); border: 1px solid var(--line); }
figure { margin: 1rem 0; } figcaption, .aside { font-size: .85rem; opacity: .75; }
svg { max-width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; }
.sure { color: var(--sure); } .not { color: var(--not); } .verdict { font-weight: 600; }
"""


def finding_page(
    findings: Findings | Sequence[Finding],
    *,
    title: str = "Symmetries found",
    data: str = "",
    folder: str = "findings",
) -> str:
    """One HTML page about findings, with its pictures inside and no link to anything.

    Args:
        findings: What was found and tried.
        title: The heading.
        data: What was searched, in a phrase: a file, its columns, the number of samples.
        folder: Where the findings are saved, for the lines that load them.

    Returns:
        The text of the page.

    Example:
        >>> from isotropy.discovery._finding import Findings
        >>> page = finding_page(Findings(tried=["all swaps"]), data="data.npz")
        >>> "No symmetry was found" in page
        True
    """
    from isotropy.discovery._finding import Findings

    found = findings if isinstance(findings, Findings) else Findings(findings)
    sections = [*_found(found), *_surely(found), *_trivially(found), *_tried(found)]
    sections += _use(found, folder)
    searched = f"<p class='aside'>{escape(data)}</p>" if data else ""
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{searched}\n" + "\n".join(sections) + "\n</body>\n</html>\n"
    )


def write_finding_page(
    findings: Findings | Sequence[Finding],
    path: str | Path,
    **words: str,
) -> Path:
    """Write the page of ``finding_page`` to a file that ends in .html.

    Args:
        findings: What was found and tried.
        path: Where to write it.
        words: ``title``, ``data`` and ``folder`` of ``finding_page``.

    Returns:
        The path written.

    Raises:
        ValueError: If the path does not end in .html, or its folder is not there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_finding_page([], Path(folder) / "page.html").name
        'page.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"expected a page file that ends in .html, got {str(path)!r}")
    page = finding_page(findings, **words)
    with atomic_write(path, "w") as file:
        file.write(page)
    return path


def _found(found: Findings) -> Iterator[str]:
    yield "<h2>What was found</h2>"
    shown = [finding for finding in found if not finding.trivial]
    sure = [finding for finding in shown if finding.confirmed]
    if not sure:
        yield (
            "<p><b>No symmetry was found</b> that the data confirm. There may be none; it may be "
            "of a kind that was not tried; or the samples may be too few or too noisy to tell.</p>"
        )
    else:
        names = "; ".join(f"<b>{escape(finding.name)}</b>" for finding in sure)
        yield f"<p>The data confirm {len(sure)} of {len(found)} claims: {names}.</p>"
    for finding in [*sure, *(finding for finding in shown if not finding.confirmed)]:
        yield _card(finding)
    yield from (f"<p class='aside'>{escape(note)}</p>" for note in found.notes)


def _card(finding: Finding) -> str:
    lines = [
        f"<h3>{escape(finding.name)}</h3>",
        f"<p class='verdict {'sure' if finding.confirmed else 'not'}'>{finding.verdict}, "
        f"p = {finding.p_value:.2g}{', approximate' if finding.approximate else ''}</p>",
        f"<p>{escape(_in_words(finding))}</p>",
        *(f"<p class='aside'>{escape(note)}</p>" for note in finding.notes),
        _effect_picture(finding) if finding.samples else "",
    ]
    if finding.labels is not None and 0 < finding.labels.size <= LARGEST_PICTURE:
        lines.append(
            f"<figure><img src='{_partition_picture(finding.labels)}' "
            f"alt='Shared weights of {escape(finding.name)}'>"
            "<figcaption>The weights of a linear map, outputs down and inputs across: those of "
            "one colour are equal.</figcaption></figure>"
        )
    return f"<article>{''.join(lines)}</article>"


def _in_words(finding: Finding) -> str:
    order = "" if finding.order is None else f" of {finding.order} elements"
    dimension = "" if finding.dimension is None else f" of dimension {finding.dimension}"
    group = f"The group {finding.group}{order}{dimension}"
    what = f"{group}: {finding.action}. Found by {finding.method}."
    if not finding.samples:
        return what
    high = finding.interval[1]
    most = f", and with 95 % confidence no more than {_percent(high)}" if high < math.inf else ""
    cost = finding.cost if math.isnan(finding.effect) else f"the symmetry {finding.cost}"
    return f"{what} On {finding.samples} samples set aside, {cost}{most}."


def _percent(share: float) -> str:
    return f"{float(f'{share * 100:.2g}'):g} %"


def _surely(found: Findings) -> Iterator[str]:
    if not len(found):
        return
    margin = _percent(found[0].margin)
    yield (
        "<h2>How sure is it?</h2><p>Each claim was tested on samples that were used neither to "
        "find the symmetry nor to fit a model. On these, a predictor that was given the symmetry "
        "is compared with one that is free of it. What the symmetry costs is measured against "
        "what can be learned at all: the gap between the free predictor and one that always "
        "gives the same answer. A cost of 0 % is a perfect symmetry, one of 100 % leaves "
        f"nothing; under {margin} it counts as a symmetry.</p><p>The p-value is the chance of "
        f"data that speak for the symmetry so clearly, if it really cost {margin} or more. It "
        "is corrected for the number of claims (Holm), so the chance that anything false is "
        "confirmed is kept to 5 %.</p>"
    )


def _trivially(found: Findings) -> Iterator[str]:
    trivial = [*found.trivial, *(finding for finding in found if finding.trivial)]
    if trivial:
        yield (
            "<h2>What holds trivially</h2><p>These are true of the data, but say little: the "
            "reason is a simpler one.</p><ul>"
        )
        for finding in trivial:
            yield (
                f"<li><b>{escape(finding.name)}</b> (p = {finding.p_value:.2g}): "
                f"{escape(finding.trivial)}</li>"
            )
        yield "</ul>"


def _tried(found: Findings) -> Iterator[str]:
    if not found.tried:
        return
    seconds = f" in {found.seconds:.3g} seconds" if found.seconds else ""
    yield f"<h2>What was tried</h2><p>{len(found.tried)} attempts{seconds}.</p>"
    rows = [one if isinstance(one, Mapping) else {"attempt": one} for one in found.tried]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    yield "<table><tr>" + "".join(f"<th>{escape(str(c))}</th>" for c in columns) + "</tr>"
    for row in rows:
        values = (row.get(column, "") for column in columns)
        texts = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in values)
        yield "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>"
    yield "</table>"


def _use(found: Findings, folder: str) -> Iterator[str]:
    best = found.best
    if best is None or best.model is None:
        return
    lines = (
        "from isotropy.discovery import Findings\n\n"
        f"found = Findings.load({folder!r})\n"
        f"model = found.best.model  # has the symmetry {best.group}\n"
        "y = model(x)  # x: a tensor of shape (samples, inputs), in the units of the data"
    )
    yield f"<h2>How to use the model</h2><pre><code>{escape(lines)}</code></pre>"


def _partition_picture(labels: NDArray[np.int64]) -> str:
    """A pixel for each weight, as the text of a PNG; negative labels are white: no weight."""
    from PIL import Image

    blocks = np.unique(labels[labels >= 0])
    colours = np.concatenate([_palette(len(blocks)), [[1.0, 1.0, 1.0]]])
    which = np.where(labels >= 0, np.searchsorted(blocks, labels), len(blocks))
    pixels = np.round(colours[np.atleast_2d(which)] * 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _effect_picture(finding: Finding) -> str:
    """The effect with its interval, on a line with zero and the margin."""
    if math.isnan(finding.effect):
        return ""
    points = [finding.effect, *finding.interval, 0.0, 1.5 * finding.margin]
    known = [point for point in points if math.isfinite(point)]
    low, high = min(known), max(known)
    pad = 0.08 * (high - low)

    def at(share: float) -> float:
        inside = min(max(share, low - pad), high + pad)
        return (inside - low + pad) / (high - low + 2 * pad) * _WIDTH

    def mark(share: float, text: str, dash: str) -> str:
        return (
            f"<line x1='{at(share):.1f}' x2='{at(share):.1f}' y1='8' y2='42' "
            f"stroke='currentColor' stroke-dasharray='{dash}' opacity='.6'/>"
            f"<text x='{at(share):.1f}' y='56' text-anchor='middle'>{text}</text>"
        )

    start, end = (at(limit) for limit in finding.interval)
    colour = "var(--sure)" if finding.confirmed else "var(--not)"
    return (
        f"<figure><svg viewBox='0 0 {_WIDTH:g} {_HEIGHT:g}' width='{_WIDTH:g}' role='img' "
        f"aria-label='cost {_percent(finding.effect)}, margin {_percent(finding.margin)}'>"
        + mark(0.0, "0", "none")
        + mark(finding.margin, f"margin {_percent(finding.margin)}", "4 3")
        + f"<line x1='{start:.1f}' x2='{end:.1f}' y1='25' y2='25' stroke='{colour}' "
        f"stroke-width='4'/><circle cx='{at(finding.effect):.1f}' cy='25' r='6' "
        f"fill='{colour}'/></svg><figcaption>What the symmetry costs, as a share of what can be "
        "learned: estimate and 95 % limits.</figcaption></figure>"
    )
