"""What measuring a model has found, for JSON and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from isotropy.equivariance._layerwise import Layerwise
from isotropy.equivariance._lee import LEE
from isotropy.equivariance._residuals import SampledError


@dataclass(frozen=True)
class Measurement:
    """How equivariant a model is.

    Args:
        model: What the model is called.
        inputs: How many inputs were measured.
        errors: The LEE under each action; discrete groups have none.
        layers: The contributions of layers under each action, where asked for.
        rules: Unit, boundary rule and Lie-algebra element of each action.
        sampled: The mean error over sampled elements of each action's group, where asked for.
        ranges: How far these elements go: "scale" in the action's unit, and in words.

    Example:
        >>> import torch
        >>> from isotropy.equivariance import MeasureOptions, measure
        >>> x = torch.arange(1.0, 5.0).reshape(4, 1, 1, 1).expand(4, 1, 8, 8)
        >>> first, options = lambda x: x[:, :, 0, 0], MeasureOptions(name="a pixel")
        >>> print(measure(first, x, "brightness", samples=0, options=options))
        a pixel, 4 inputs
        action      LEE  standard error  mean |L|
        brightness  7.5  3.3e+00         2.5
    """

    model: str
    inputs: int
    errors: Mapping[str, LEE]
    layers: Mapping[str, Layerwise]
    rules: Mapping[str, Mapping[str, Any]]
    sampled: Mapping[str, SampledError]
    ranges: Mapping[str, tuple[float | None, str]]

    def data(self) -> dict[str, Any]:
        """The result as JSON knows it.

        ``lee`` is null for a discrete group, which has no derivative; ``layers`` is empty and
        ``closure`` null where no layers were asked for, ``sampled`` null likewise.
        """
        actions = {}
        for name, rules in self.rules.items():
            found, parts = self.errors.get(name), self.layers.get(name)
            actions[name] = {
                "lee": None if found is None else found.lee,
                "lee_abs": None if found is None else found.lee_abs,
                "stderr": None if found is None else _number(found.stderr),
                "stderr_abs": None if found is None else _number(found.stderr_abs),
                "sampled": self._sampled_data(name),
                "layers": [] if parts is None else [asdict(layer) for layer in parts.layers],
                "closure": None if parts is None else parts.closure,
                "layer_inputs": 0 if parts is None else parts.inputs,
                **{key: value for key, value in rules.items() if key != "name"},
            }
        return {"model": self.model, "inputs": self.inputs, "actions": actions}

    def _sampled_data(self, name: str) -> dict[str, Any] | None:
        if name not in self.sampled:
            return None
        found, (scale, words) = self.sampled[name], self.ranges[name]
        return {
            "value": found.value,
            "stderr": _number(found.standard_error),
            "scale": scale,
            "range": words,
            "inputs": found.inputs,
            "elements": found.elements,
        }

    def __str__(self) -> str:
        rows = [["action", "LEE", "standard error", "mean |L|"]]
        if self.sampled:
            rows[0] += ["sampled error", "over"]
        for name in self.rules:
            found, drawn = self.errors.get(name), self.sampled.get(name)
            row = [name, "", "", ""]
            if found is not None:
                error = f"{found.stderr:.1e}" if found.inputs > 1 else ""
                row = [name, f"{found.lee:.4g}", error, f"{found.lee_abs:.4g}"]
            if drawn is not None:
                row += [f"{drawn.value:.4g}", self.ranges[name][1]]
            rows.append(row)
        inputs = f"{self.inputs} input{'s' if self.inputs != 1 else ''}"
        text = f"{self.model}, {inputs}\n{_table(rows)}"
        for name, parts in self.layers.items():
            text += f"\n\n{name}, layer by layer\n{_layer_table(parts)}"
        return text


_SHOWN = 20


def _number(value: float) -> float | None:
    return value if value == value else None  # JSON has no nan


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _layer_table(parts: Layerwise) -> str:
    ranked = sorted(range(len(parts.layers)), key=lambda i: -parts.layers[i].contribution)
    top = sorted(ranked[:_SHOWN])
    rows = [["layer", "kind", "contribution", "share of L"]]
    for layer in (parts.layers[i] for i in top):
        rows.append([layer.name, layer.kind, f"{layer.contribution:.3g}", f"{layer.share:+.1%}"])
    text = _table(rows)
    if len(top) < len(parts.layers):
        text += f"\n({len(parts.layers) - len(top)} smaller ones not shown)"
    total = sum(layer.contribution for layer in parts.layers)
    if total:
        kinds = (f"{kind} {value / total:.0%}" for kind, value in parts.by_kind().items())
        text += f"\nof all contributions: {', '.join(kinds)}"
    inputs = f"{parts.inputs} input{'s' if parts.inputs != 1 else ''}"
    return f"{text}\nclosure: they add up to L within {parts.closure:.0e} of it, on {inputs}"
