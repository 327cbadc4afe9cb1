"""Read a finding from its folder, and believe nothing in it.

Every field is of its type and size (``_finding_schema``). A group, a representation and a model are
weighed before they are built. Weights must be those of the model by name, shape and type, and
finite. Nothing in a folder is ever run, not even the program beside the weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from isotropy._run import Checkpoint
from isotropy._run._checkpoints import OtherRun
from isotropy._run._json import shown
from isotropy.discovery.modelling._finding_models import ModelComparison, SoftComparison, SoftOffer
from isotropy.discovery.modelling._model_spec import innermost, require_modest
from isotropy.discovery.modelling._standardised import StandardisedModel, build_model
from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.discovery.telling._finding_files import (
    FINDING_FILE,
    LIST_FILE,
    SOFT_WEIGHTS,
    WEIGHTS,
    checked,
    fingerprint,
    inside,
    read_format,
)
from isotropy.discovery.telling._finding_schema import FINDING, FINDINGS
from isotropy.naming._row_rep import RowRep
from isotropy.nn import GridNetwork
from isotropy.reps import Rep, Symmetry
from isotropy.reps._symmetry_limits import bounded_symmetry

_DTYPES = {"F32": torch.float32, "F64": torch.float64}
_UNSOLVED = ("mlp", "image network")  # models that can be sketched without any memory
_LONGEST = 1000  # letters of an error
_LARGEST_P = 0.5  # of an estimate on the right side of its margin
_NOT_FIELDS = ("format", "model", "has_weights", "has_soft_weights")


def loaded_values(folder: Path) -> dict[str, Any]:
    """What ``Finding.of`` takes, by a folder.

    Raises:
        ValueError: If a file in it is missing or damaged, or another version wrote it.
    """
    raw = read_format(folder, FINDING_FILE, "a finding")
    path = folder / FINDING_FILE
    given: dict[str, Any] = checked(FINDING[raw["format"]], raw, path)
    details = given.pop("details", {})
    given |= {name: value for name, value in details.items() if name != "kind"}
    try:
        return _restored(given, raw, folder)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        # torch and numpy have many ways to say that numbers do not go together
        raise ValueError(
            f"{path}: expected a finding, got one whose parts do not fit "
            f"({type(error).__name__}: {_one_line(error)})"
        ) from error
    except ValueError as error:
        text = _one_line(error)
        raise ValueError(text if str(folder) in text else f"{path}: {text}") from error


def loaded_list(folder: Path) -> dict[str, Any]:
    """What ``findings.json`` holds of a search, and the folders of its findings.

    Raises:
        ValueError: If it is damaged, or another version wrote it.
    """
    raw = read_format(folder, LIST_FILE, "findings")
    given: dict[str, Any] = checked(FINDINGS, raw, folder / LIST_FILE)
    return given


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:_LONGEST]


def _restored(given: dict[str, Any], raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    custom = {name: RowRep(_new_name(name), table) for name, table in given["custom"].items()}
    parts = _Parts(_symmetry(given["symmetry"], custom), given.get("labels"), folder, raw)
    if parts.labels is not None:
        _require_labels(parts.labels, parts.symmetry)
    soft, compared, spec = given.get("soft"), given.get("comparison"), given["model"]
    model = parts.model(WEIGHTS, spec) if given["has_weights"] else None
    offer = None
    if soft is not None:
        own = parts.model(SOFT_WEIGHTS, soft["model"]) if given.get("has_soft_weights") else None
        offer = SoftOffer(SoftComparison(**soft["comparison"]), own, soft["model"])
    elif given.get("has_soft_weights"):
        raise ValueError("expected a soft model where has_soft_weights is true, got none")
    values = {name: value for name, value in given.items() if name not in _NOT_FIELDS}
    values |= {
        "custom": custom,
        "symmetry": parts.symmetry,
        "layout": RowLayout(**given["layout"]),
        "model": model,
        "model_spec": spec,
        "soft": offer,
        "comparison": None if compared is None else ModelComparison(**compared),
    }
    for one in (model, None if offer is None else offer.model):
        _require_layout(values["layout"], one)
    _require_names(values)
    _require_claims(given)
    return values


@dataclass(frozen=True, eq=False)
class _Parts:
    """What models are built from."""

    symmetry: Symmetry | None
    labels: NDArray[np.int64] | None
    folder: Path
    raw: Mapping[str, Any]

    def model(self, name: str, spec: Mapping[str, Any] | None) -> nn.Module:
        """A model with the weights of a file."""
        if spec is None:
            raise ValueError(f"expected the description of the model in {name}, got none")
        path = inside(self.folder, name)
        if not path.is_file():
            raise ValueError(f"expected the weights {name} in {str(self.folder)!r}, got none")
        checkpoint = Checkpoint(path, fingerprint(self.raw, spec))
        try:
            shapes = checkpoint.shapes()
        except OtherRun:
            raise ValueError(
                f"{path}: expected the weights of this finding, got those of another, or a finding "
                "that was changed"
            ) from None
        dtype = _common_dtype(shapes, path)
        require_modest(spec, self.symmetry, self.labels)
        if innermost(spec)["kind"] in _UNSOLVED:
            _require_sketch(spec, shapes, path)
        model = build_model(spec, self.symmetry, self.labels).to(dtype)
        expected = {name: tuple(one.shape) for name, one in model.state_dict().items()}
        _require_same(expected, {name: shape for name, (shape, _) in shapes.items()}, path)
        for name, one in model.state_dict().items():
            if one.dtype is not dtype:
                raise ValueError(f"{path}: expected {one.dtype} as {name}, got {dtype}")
        saved = checkpoint.load()
        assert saved is not None
        for name, one in saved[0].items():
            if not bool(one.isfinite().all()):
                raise ValueError(f"{path}: expected finite weights as {name}, got NaN or infinity")
        model.load_state_dict(saved[0])
        _require_scales(model, path)
        return model.eval()


def _symmetry(given: Mapping[str, str] | None, custom: Mapping[str, RowRep]) -> Symmetry | None:
    if given is None:
        return None
    text = f"{given['group']}: {given['rep_in']} >> {given['rep_out']}"
    named: dict[str, Rep] = dict(custom)
    return bounded_symmetry(text, named)


def _new_name(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(f"expected letters and digits as a name in custom, got {shown(name)}")
    return name


def _common_dtype(shapes: Mapping[str, tuple[tuple[int, ...], str]], path: Path) -> torch.dtype:
    kinds = {kind for _, kind in shapes.values()}
    if len(kinds) != 1 or not kinds <= _DTYPES.keys():
        listed = ", ".join(sorted(kinds)) or "none"
        raise ValueError(f"{path}: expected weights of type F32 or F64, got {listed:.80}")
    return _DTYPES[kinds.pop()]


def _require_sketch(
    spec: Mapping[str, Any], shapes: Mapping[str, tuple[tuple[int, ...], str]], path: Path
) -> None:
    """Refuse a model that is larger than its weights, before memory is taken for it."""
    around, inner = "", spec
    while "model" in inner:
        around, inner = f"model.{around}", inner["model"]
    with torch.device("meta"):
        sketch = build_model(inner)
    expected = {f"{around}{name}": tuple(one.shape) for name, one in sketch.state_dict().items()}
    found = {name: shape for name, (shape, _) in shapes.items() if name.startswith(around)}
    kept = {name: shape for name, shape in found.items() if name in expected or not around}
    _require_same(expected, kept, path)


def _require_same(
    expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], path: Path
) -> None:
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            wanted, got = (
                "no weights" if one is None else f"weights of shape {one}"
                for one in (expected.get(name), found.get(name))
            )
            raise ValueError(f"{path}: expected {wanted} as {name!a:.80}, got {got:.80}")


def _require_scales(model: nn.Module, path: Path) -> None:
    for part in model.modules():
        if isinstance(part, StandardisedModel):
            for name in ("x_scale", "y_scale"):
                if not bool((getattr(part, name) > 0).all()):
                    raise ValueError(f"{path}: expected positive numbers as {name}, got others")


# --- what must fit together ---------------------------------------------------------------------


def _require_labels(labels: NDArray[np.int64], symmetry: Symmetry | None) -> None:
    if labels.size and not -1 <= labels.min() <= labels.max() < labels.size:
        raise ValueError(
            f"expected labels from -1 to {labels.size - 1}, got {labels.min()} to {labels.max()}"
        )
    if symmetry is not None and not symmetry.group.is_monomial:
        raise ValueError(
            f"expected a group of permutations beside labels, got {symmetry.group.name:.80}"
        )


def _require_layout(layout: RowLayout, model: Any) -> None:
    """Refuse a layout of rows that are not of the model's width."""
    if model is None:
        return
    if isinstance(model, GridNetwork):
        wide, out = math.prod(model.image), model.head.out_features
    else:
        wide, out = model.in_features, model.out_features
    if layout.image:
        if math.prod(layout.image) != wide:
            raise ValueError(f"expected an image of {wide} numbers, got {list(layout.image)}")
        if len(layout.image) < 2:
            raise ValueError(f"expected an image of 2 or 3 axes, got {list(layout.image)}")
    elif wide % layout.channels:
        raise ValueError(f"expected channels that divide {wide} columns, got {layout.channels}")
    if out % layout.output_channels:
        raise ValueError(
            f"expected output_channels that divide {out} columns, got {layout.output_channels}"
        )


def _require_claims(given: Mapping[str, Any]) -> None:
    """Refuse a group beside the symmetry of another, and what no test could have confirmed."""
    symmetry = given["symmetry"]
    if symmetry is not None and symmetry["group"] != given["group"]:
        raise ValueError(
            f"expected the group of the symmetry, {shown(symmetry['group'])}, got "
            f"{shown(given['group'])}"
        )
    if not given.get("confirmed", False):
        return
    if given.get("p_value", 0.0) > _LARGEST_P:
        raise ValueError(
            f"expected a p-value of at most {_LARGEST_P:g} where a symmetry is confirmed, got "
            f"{given['p_value']:g}"
        )
    if given["effect"] > given.get("margin", math.inf):  # NaN where it is not known
        raise ValueError(
            f"expected an effect within the margin of {given['margin']:g} where a symmetry is "
            f"confirmed, got {given['effect']:g}"
        )


def _require_names(values: Mapping[str, Any]) -> None:
    """Refuse names that are not as many as what they name."""
    generators, coordinates = values.get("generators"), values.get("coordinates", ())
    if generators is not None and coordinates:
        d = generators.shape[-1]
        if len(coordinates) not in (d, d - 1):
            raise ValueError(f"expected {d} coordinates of the generators, got {len(coordinates)}")
