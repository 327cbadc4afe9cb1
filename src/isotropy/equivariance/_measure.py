"""Measuring a model: several actions, end to end and layer by layer, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import ProgressCallback, Step
from isotropy.equivariance._action import Action
from isotropy.equivariance._evaluation import Model
from isotropy.equivariance._image_actions import as_action
from isotropy.equivariance._layerwise import Layerwise, Method, layerwise
from isotropy.equivariance._lee import LEE, batches, lee


@dataclass(frozen=True)
class Measurement:
    """How equivariant a model is.

    Args:
        model: What the model is called.
        inputs: How many inputs were measured.
        errors: The LEE under each action.
        layers: The contributions of layers under each action, where asked for.
        rules: Unit, boundary rule and Lie-algebra element of each action.
    """

    model: str
    inputs: int
    errors: Mapping[str, LEE]
    layers: Mapping[str, Layerwise]
    rules: Mapping[str, Mapping[str, Any]]

    def data(self) -> dict[str, Any]:
        """The result as JSON knows it; ``layers`` and ``closure`` are null unless asked for."""
        actions = {}
        for name, found in self.errors.items():
            parts = self.layers.get(name)
            layers = None if parts is None else [vars(layer) for layer in parts.layers]
            actions[name] = {
                "lee": found.lee,
                "lee_abs": found.lee_abs,
                "stderr": _number(found.stderr),
                "stderr_abs": _number(found.stderr_abs),
                "layers": layers,
                "closure": None if parts is None else parts.closure,
                "layer_inputs": None if parts is None else parts.inputs,
                **{key: value for key, value in self.rules[name].items() if key != "name"},
            }
        return {"model": self.model, "inputs": self.inputs, "actions": actions}

    def __str__(self) -> str:
        rows = [("action", "LEE", "standard error", "mean |L|")]
        for name, found in self.errors.items():
            error = f"{found.stderr:.1e}" if found.inputs > 1 else ""
            rows.append((name, f"{found.lee:.4g}", error, f"{found.lee_abs:.4g}"))
        text = _table(rows)
        for name, parts in self.layers.items():
            top = sorted(parts.layers, key=lambda layer: -layer.contribution)[:_SHOWN]
            layers = [("layer", "kind", "contribution", "share")]
            layers += [
                (layer.name, layer.kind, f"{layer.contribution:.3g}", f"{layer.share:+.1%}")
                for layer in parts.layers
                if layer in top
            ]
            more = len(parts.layers) - len(top)
            rest = f"\n({more} smaller ones not shown)" if more else ""
            closes = f"sum of contributions − L: {parts.closure:.1e} of L"
            text += f"\n\n{name}, {parts.inputs} inputs, layer by layer ({closes})\n"
            text += _table(layers) + rest
        return text


_SHOWN = 20


def _number(value: float) -> float | None:
    return value if value == value else None  # JSON has no nan


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def measure(
    model: Model,
    data: Any,
    actions: Action | str | Sequence[Action | str] = ("translation", "rotation"),
    *,
    layers: bool = False,
    layer_inputs: int = 20,
    softmax: bool = False,
    output: str | None = None,
    layouts: Mapping[str, str] | None = None,
    method: Method = "forward",
    batch_size: int = 16,
    name: str | None = None,
    progress: ProgressCallback | None = None,
) -> Measurement:
    """Measure how equivariant a model is, end to end and, if asked, layer by layer.

    Args:
        model: Any module or function.
        data: Inputs: a tensor, a `Dataset`, or an iterable of batches.
        actions: Actions or their names.
        layers: Whether to split the Lie derivative into the contributions of layers.
        layer_inputs: On how many of the inputs to do that.
        softmax: Whether the model gives logits whose probabilities are to be measured.
        output: How the actions act on outputs; see `lie_derivative`.
        layouts: How they act on values inside; see `layerwise`.
        method: How to find contributions; see `layerwise`.
        batch_size: How many inputs to take at a time.
        name: What to call the model.
        progress: Told of each step.

    Returns:
        What was found; ``data()`` gives it for JSON, ``str()`` as a table.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
        >>> x = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> found = measure(net, x, "rotation", layers=True)
        >>> [layer.name for layer in found.layers["rotation"].layers]
        ['0', '1', '3']
    """
    given = [actions] if isinstance(actions, Action | str) else list(actions)
    if not given:
        raise ValueError("expected at least one action, got none")
    whole: Model = _Probabilities(model) if softmax else model
    kept = list(batches(data, batch_size))  # read once: an iterable may not come again
    if not kept:
        raise ValueError("expected at least one input, got none")
    first = kept[0]
    found = {action.name: action for action in (as_action(one, first) for one in given)}
    errors: dict[str, LEE] = {}
    parts: dict[str, Layerwise] = {}
    for number, (title, action) in enumerate(found.items()):
        if progress is not None:
            progress(Step(number, len(found), title))
        errors[title] = lee(whole, kept, action, output=output, batch_size=batch_size)
        if layers:
            found_parts = layerwise(
                whole,
                torch.cat(kept)[:layer_inputs],
                action,
                layouts=_inside(layouts or {}) if softmax else layouts,
                output=output,
                method=method,
            )
            parts[title] = _outside(found_parts) if softmax else found_parts
    rules = {key: action.describe() for key, action in found.items()}
    total = next(iter(errors.values())).inputs
    return Measurement(name or _name_of(model), total, errors, parts, rules)


class _Probabilities(nn.Module):
    """A classifier that gives the softmax of its outputs."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.model(x), -1)


def _inside(layouts: Mapping[str, str]) -> dict[str, str]:
    """Patterns of modules of a model, as those of a part of a larger one."""
    return {f"model.{pattern}": layout for pattern, layout in layouts.items()}


def _outside(found: Layerwise) -> Layerwise:
    layers = (replace(part, name=part.name.removeprefix("model.")) for part in found.layers)
    return replace(found, layers=tuple(layers))


def _name_of(model: Model) -> str:
    return getattr(model, "__name__", type(model).__name__)
