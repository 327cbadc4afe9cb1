"""Plots of a page: plotly's figures, each with words, numbers and a still picture beside it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

_CONFIG = {"displaylogo": False, "responsive": True, "displayModeBar": False}
_LAYOUT = {
    "autosize": True,
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "showlegend": False,
    "dragmode": False,
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": "var(--ink)"},
    "hoverlabel": {
        "bgcolor": "var(--card)",
        "bordercolor": "var(--line)",
        "font": {"color": "var(--ink)"},
    },
}
# Colours are those of the page's style, so that light and dark stand once. A still picture
# stays where a plot cannot be drawn, and what is hidden when drawn is measured when shown.
_SCRIPT = """
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function shaded(value, key) {
    if (Array.isArray(value)) return value.map(one => shaded(one, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(
        ([name, one]) => [name, shaded(one, /color/.test(name) ? "color" : "")]));
    const named = key && typeof value === "string" && value.match(/^var\\((--[a-z]+)\\)$/);
    return named ? getComputedStyle(document.documentElement).getPropertyValue(named[1]).trim()
      : value;
  }
  function draw(figure, place) {
    const room = document.getElementById(place), still = [...room.childNodes];
    const drawn = room.classList.contains("js-plotly-plot");
    if (!drawn) room.replaceChildren();
    const layout = shaded(figure.layout);
    if (!matchMedia("(pointer: fine)").matches) layout.dragmode = false;  // fingers scroll
    return Plotly.react(room, shaded(figure.data), layout, figure.config)
      .catch(error => { if (!drawn) room.replaceChildren(...still); throw error; });
  }
  const all = () => Object.entries(figures).forEach(([place, figure]) => draw(figure, place));
  all();
  // the label of a plot says it all; and plotly measures letters in a picture of its own
  document.querySelectorAll("body > svg, .plot > *").forEach(
    one => one.setAttribute("aria-hidden", "true"));
  dark.addEventListener("change", all);
  document.addEventListener("toggle", event => {
    if (event.target.open)
      event.target.querySelectorAll(".js-plotly-plot").forEach(room => Plotly.Plots.resize(room));
  }, true);
})();
"""


@dataclass
class Plots:
    """The plots of one page, in the order in which they were added.

    Example:
        >>> plots = Plots()
        >>> figure = {"data": [{"type": "bar", "x": [1, 2], "y": [3, 4]}], "layout": {}}
        >>> plots.add(figure, "two bars", 200)[:42]
        "<div class='plot' id='plot-1' role='img' a"
        >>> len(plots.figures)
        1
    """

    figures: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(
        self,
        figure: Mapping[str, Any],
        label: str,
        height: float,
        *,
        width: float | None = None,
        still: str = "",
    ) -> str:
        """A place for a plot, as HTML.

        Args:
            figure: ``data`` and ``layout`` as plotly has them. A colour may be "var(--name)" of
                the page's style. Text that is not ours must have gone through ``plot_text``.
            label: What it shows, for those who cannot see it.
            height: In pixels.
            width: In pixels, where there is room; all there is by default.
            still: What stands there where scripts do not run, as HTML.
        """
        place = f"plot-{len(self.figures) + 1}"
        layout = {**_LAYOUT, **figure["layout"]}
        self.figures[place] = {"data": figure["data"], "layout": layout, "config": _CONFIG}
        without = still or "<noscript><p class='aside'>The numbers are below.</p></noscript>"
        wide = "" if width is None else f"width: {width:.0f}px; "
        return (
            f"<div class='plot' id='{place}' role='img' aria-label='{escape(label)}' "
            f"style='{wide}height: {height:.0f}px'>{without}</div>"
        )

    def scripts(self) -> tuple[str, str]:
        """The scripts of the page, and the rule by which a browser runs no others.

        Nothing is loaded from elsewhere: plotly itself is in the page, where there is a plot.
        """
        if not self.figures:
            return "", _policy(())
        from plotly.offline import get_plotlyjs

        # "<" ends scripts and starts comments in them
        figures = json.dumps(self.figures, allow_nan=False).replace("<", "\\u003c")
        library = str(get_plotlyjs())
        assert "</script" not in library.lower()
        return (
            f"<script type='application/json' id='figures'>{figures}</script>\n"
            f"<script>{library}</script>\n<script>{_SCRIPT}</script>\n",
            _policy((library, _SCRIPT)),
        )


def _policy(scripts: Sequence[str]) -> str:
    """A content security policy: these scripts, and nothing that is fetched."""
    prints = (
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    )
    allowed = " ".join(f"'sha256-{one}'" for one in prints) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def plot_text(words: str) -> str:
    """Words as plotly shows them, letter by letter: it takes tags and entities for its own.

    Example:
        >>> plot_text("a < b & <b>c</b>")
        'a &lt; b &amp; &lt;b&gt;c&lt;/b&gt;'
    """
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plot_axis(**settings: Any) -> dict[str, Any]:
    """A quiet axis: fine lines, no zero line, room for its names.

    Example:
        >>> plot_axis(title="rows")["title"]
        {'text': 'rows', 'font': {'size': 12, 'color': 'var(--quiet)'}}
    """
    if isinstance(settings.get("title"), str):
        font = {"size": 12, "color": "var(--quiet)"}
        settings["title"] = {"text": settings["title"], "font": font}
    quiet = {
        "gridcolor": "var(--line)",
        "linecolor": "var(--line)",
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
    }
    return {**quiet, **settings}


def numbers_below(table: str, words: str = "The numbers") -> str:
    """A table that is folded away below its plot."""
    return f"<details class='aside'><summary>{escape(words)}</summary>{table}</details>"
