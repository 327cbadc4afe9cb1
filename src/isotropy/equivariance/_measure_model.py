"""Measuring a model: several actions, end to end and layer by layer, in one call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, TypeGuard

import torch
from torch import Tensor, nn

from isotropy._run import ProgressCallback, Step
from isotropy._run._moved_keywords import moved_keywords
from isotropy.equivariance._action import INVARIANT, Action
from isotropy.equivariance._axes import Axes
from isotropy.equivariance._dependence import outputs_shape, require_derivative
from isotropy.equivariance._evaluation import Model
from isotropy.equivariance._group_actions import GroupAction, group_action
from isotropy.equivariance._image_actions import as_action
from isotropy.equivariance._layerwise import Layerwise, Method, layerwise
from isotropy.equivariance._lee import LEE, batches, lee
from isotropy.equivariance._measurement import Measurement
from isotropy.equivariance._residuals import SampledError
from isotropy.equivariance._sampled import IMAGE_GROUPS, sampled_equivariance
from isotropy.equivariance._wrapped_models import Probabilities, Program, require_evaluation
from isotropy.reps import Symmetry

Measured: TypeAlias = Action | Symmetry | str


_FEWEST_SAMPLED = 10  # inputs; a tenth of all, where that is more
_LAYER_BATCH = 4  # every unit's tangents are kept at once
_PIXELS, _EIGHTH = 5, 1 / 8


@dataclass(frozen=True)
class MeasureOptions:
    """What `measure` seldom needs: how it goes layer by layer, and how it takes inputs.

    Args:
        layer_inputs: On how many of the inputs to find the contributions of layers; 20 by default.
        layouts: How actions act on values inside; see `layerwise`. By default read from shapes.
        method: How to find contributions, ``"forward"`` by default; see `layerwise`.
        probes: How many random vectors the method "probes" takes; 100 by default.
        batch_size: How many inputs to take at a time, 16 by default; layer by layer no more than 4.
        name: What to call the model; by default its class or function.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3))
        >>> x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> options = MeasureOptions(layer_inputs=2, name="mine")
        >>> found = measure(net, x, "rotation", layers=True, options=options)
        >>> found.model, found.layers["rotation"].inputs
        ('mine', 2)
    """

    layer_inputs: int = 20
    layouts: Mapping[str, str] | None = None
    method: Method = "forward"
    probes: int = 100
    batch_size: int = 16
    name: str | None = None


@moved_keywords(options=MeasureOptions)
def measure(
    model: Model,
    data: Any,
    actions: Measured | Sequence[Measured] = ("translation", "rotation"),
    *,
    layers: bool = False,
    samples: int = 10,
    softmax: bool = False,
    output: str | None = None,
    options: MeasureOptions | None = None,
    generator: torch.Generator | int | None = 0,
    progress: ProgressCallback | None = None,
) -> Measurement:
    """Measure how equivariant a model is, end to end and, if asked, layer by layer.

    Under each action:

    - the local equivariance error over all inputs (`lee`);
    - the error over sampled elements of its group (`sampled_equivariance`), on the first tenth of
      the inputs (at least 10): shifts by up to 5 pixels and an eighth of the side, turns by up to
      10°, other actions up to t = 0.1, groups that act on vectors as a whole;
    - where asked for, the contributions of layers (`layerwise`).

    Discrete groups, for images "quarter_turns" and its kin, have the second alone.

    A derivative that is zero is not taken on trust: where outputs change all the same, something
    in the model stops it; where they are the same for all inputs, there is nothing to measure.

    Args:
        model: Any module or function.
        data: Inputs: a tensor, a `Dataset`, or an iterable of batches.
        actions: Actions or their names, or symmetries of vectors.
        layers: Whether to split the Lie derivative into the contributions of layers.
        samples: How many group elements to draw for the sampled error; 0 leaves it out.
        softmax: Whether the model gives logits whose probabilities are to be measured.
        output: How the actions act on outputs; see `lie_derivative`.
        options: How to go layer by layer, how many inputs to take at a time, the model's name.
        generator: Seed or generator of samples and probes.
        progress: Called at each step.

    Returns:
        What was found; ``data()`` gives it for JSON, ``str()`` as a table.

    Raises:
        ValueError: If the model fails on the inputs, gives outputs that are not finite, do not
            depend on the inputs or have no known action, or stops derivatives.
        RuntimeError: If contributions do not add up; see `layerwise`.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
        >>> x = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> found = measure(net, x, "rotation", layers=True)
        >>> ", ".join(layer.name for layer in found.layers["rotation"].layers)
        '0, 1, 3'
    """
    given = [actions] if isinstance(actions, Action | Symmetry | str) else list(actions)
    options = options or MeasureOptions()
    layouts = options.layouts or {}
    _require_counts(given, options.layer_inputs, samples, options.probes)
    _require_layouts(model, layers, layouts)
    whole = model
    if _is_exported(model):
        require_evaluation(model)
        whole = Program(model)
    whole = Probabilities(whole) if softmax else whole
    kept = list(batches(data, options.batch_size))  # read once: an iterable may not come again
    if not kept:
        raise ValueError("expected at least one input, got none")
    subjects = [_subject(one, kept[0], output, samples) for one in given]
    repeated = [s.name for i, s in enumerate(subjects) if s.name in {t.name for t in subjects[:i]}]
    if repeated:
        raise ValueError(f"expected each action once, got {repeated[0]} twice")
    shape = outputs_shape(whole, kept)
    if softmax and len(shape) != 2:
        raise ValueError(f"expected outputs of shape (N, classes) for softmax, got {shape}")
    _require_followed(model, shape, output)
    inputs = sum(map(len, kept))
    sampled_inputs = max(_FEWEST_SAMPLED, math.ceil(inputs / 10))
    steps = _StepCounter(progress, len(kept) + bool(samples) + layers, len(subjects))
    errors: dict[str, LEE] = {}
    parts: dict[str, Layerwise] = {}
    drawn: dict[str, SampledError] = {}
    for subject in subjects:
        if subject.action is not None:
            errors[subject.name] = lee(
                whole,
                iter(kept),  # a list of two would be read as inputs and targets
                subject.action,
                output=output,
                progress=steps.of_batches(subject.name),
            )
            if not errors[subject.name].lee or not subject.leaves_alone(kept[0], shape, output):
                require_derivative(whole, kept, subject.action, subject.scale or _FAR)
        if samples:
            steps.next(f"{subject.name}: sampled")
            drawn[subject.name] = sampled_equivariance(
                whole,
                _first(kept, sampled_inputs, whole_batches=_is_exported(model)),
                subject.elements,
                scale=subject.scale,
                samples=samples,
                output=None if isinstance(subject.elements, Symmetry) else output,
                batch_size=len(kept[0]),
                generator=generator,
            )
        if layers and subject.action is not None:
            steps.next(f"{subject.name}: layer by layer")
            found = layerwise(
                whole,
                _first(kept, options.layer_inputs),
                subject.action,
                layouts=_inside(layouts) if softmax else layouts,
                output=output,
                method=options.method,
                probes=options.probes,
                batch_size=min(options.batch_size, _LAYER_BATCH),
                generator=generator,
            )
            parts[subject.name] = _outside(found) if softmax else found
    return Measurement(
        options.name or _name_of(model),
        inputs,
        errors,
        parts,
        rules={subject.name: subject.rules for subject in subjects},
        sampled=drawn,
        ranges={subject.name: (subject.scale, subject.words) for subject in subjects},
    )


# --- what is measured -------------------------------------------------------------------------

_FAR = 0.1


@dataclass(frozen=True)
class _Subject:
    """Something to measure.

    Args:
        name: What it is called.
        action: Of which the derivative is taken; None for a discrete group.
        elements: From which elements are sampled.
        scale: How far they go, in the action's unit; None for a whole group.
        words: The same for a person.
        rules: Unit, boundary rule and so on, for JSON.
    """

    name: str
    action: Action | None
    elements: Action | Symmetry | str
    scale: float | None
    words: str
    rules: Mapping[str, Any]

    def leaves_alone(self, x: Tensor, shape: tuple[int, ...], output: str | None) -> bool:
        """Whether outputs are known to be invariant, so that L is nothing but the derivative."""
        assert self.action is not None
        on_grid = isinstance(self.action.input_place(x), Axes)
        return output == INVARIANT or (output is None and on_grid and len(shape) <= 2)


def _subject(given: Measured, x: Tensor, output: str | None, samples: int) -> _Subject:
    discrete: Symmetry | str | None = None
    if isinstance(given, Symmetry):
        if given.group.algebra:
            given = group_action(given)
        else:
            discrete = given
    elif isinstance(given, str) and x.ndim == 4 and given in IMAGE_GROUPS:
        discrete = given
    if discrete is not None:
        if not samples:
            raise ValueError(
                f"expected samples for the discrete group {_name_of_group(discrete)}, which has no "
                "derivative, got none"
            )
        rules = {"unit": None, "boundary": "none"}
        if isinstance(discrete, Symmetry):
            rules["symmetry"] = str(discrete)
        name = _name_of_group(discrete)
        return _Subject(name, None, discrete, None, "the whole group", rules)
    assert not isinstance(given, Symmetry)
    action = as_action(given, x)
    at_input = action.input_place(x)
    rules = action.describe()
    if isinstance(action, GroupAction) and output is None:
        return _Subject(action.name, action, action.symmetry, None, "the whole group", rules)
    scale, words = _FAR, f"t up to {_FAR}"
    if action.name.startswith("rotation"):
        scale, words = math.radians(10), "up to 10°"
    elif action.name.startswith("translation") and isinstance(at_input, Axes):
        longest = max(side.whole for side in at_input.sides)
        pixels = min(_PIXELS, longest * _EIGHTH)
        scale, words = pixels / longest, f"up to {pixels:.3g} pixel{'s' if pixels != 1 else ''}"
    return _Subject(action.name, action, action, scale, words, rules)


def _name_of_group(group: Symmetry | str) -> str:
    return group if isinstance(group, str) else str(group.group)


# --- what cannot be measured ------------------------------------------------------------------


def _require_counts(given: Sequence[Any], layer_inputs: int, samples: int, probes: int) -> None:
    if not given:
        raise ValueError("expected at least one action, got none")
    lowest = (("layer_inputs", layer_inputs, 1), ("samples", samples, 0), ("probes", probes, 1))
    for what, number, least in lowest:
        if number < least:
            raise ValueError(f"expected {what} of at least {least}, got {number}")


def _require_layouts(model: Model, layers: bool, layouts: Mapping[str, str]) -> None:
    """Refuse layouts that name no layer, and layers that cannot be distinguished."""
    if layers and _is_exported(model):
        raise ValueError(
            "expected a model made by Python code for the contributions of layers, got an exported "
            "program, which has none"
        )
    if layouts and not layers:
        raise ValueError(f"expected layouts only for layers, got {next(iter(layouts))!r}")
    modules = dict(model.named_modules()) if isinstance(model, nn.Module) else {}
    for pattern in layouts:
        if not any(fnmatchcase(name, pattern) for name in modules):
            raise ValueError(f"expected a pattern of the names of modules, got {pattern!r}")


def _require_followed(model: Model, shape: tuple[int, ...], output: str | None) -> None:
    if output is None and len(shape) > 2 and _is_exported(model):
        raise ValueError(
            f"expected output= for outputs of shape {shape} of an exported program, got none"
        )


def _is_exported(model: Model) -> TypeGuard[torch.fx.GraphModule]:
    """Whether a module is an exported program: a graph of PyTorch's inner operations."""
    return isinstance(model, torch.fx.GraphModule) and any(
        isinstance(node.target, torch._ops.OpOverload) for node in model.graph.nodes
    )


# --- how far it has come ----------------------------------------------------------------------


class _StepCounter:
    """Counts steps over all actions, and reports them."""

    def __init__(self, progress: ProgressCallback | None, each: int, actions: int) -> None:
        self.progress, self.total, self.done = progress, each * actions, -1

    def next(self, message: str) -> None:
        """Begin another step."""
        self.done += 1
        if self.progress is not None:
            self.progress(Step(self.done, self.total, message))

    def of_batches(self, message: str) -> ProgressCallback:
        """A callback that takes each batch as a step."""
        return lambda _: self.next(message)


def _first(kept: Sequence[Tensor], count: int, *, whole_batches: bool = False) -> Tensor:
    """So many inputs; more in whole batches, where a program may take no others."""
    taken: list[Tensor] = []
    for batch in kept:
        if sum(map(len, taken)) >= count or (taken and batch.shape[1:] != taken[0].shape[1:]):
            break
        taken.append(batch)
    inputs = torch.cat(taken)
    return inputs if whole_batches else inputs[:count]


def _inside(layouts: Mapping[str, str]) -> dict[str, str]:
    """Patterns of modules of a model, as those of a part of a larger one."""
    return {f"model.{pattern}": layout for pattern, layout in layouts.items()}


def _outside(found: Layerwise) -> Layerwise:
    layers = (replace(part, name=part.name.removeprefix("model.")) for part in found.layers)
    return replace(found, layers=tuple(layers))


def _name_of(model: Model) -> str:
    return getattr(model, "__name__", type(model).__name__)
