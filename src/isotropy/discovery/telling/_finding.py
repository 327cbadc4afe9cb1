"""What discovery returns: a symmetry, its name, how sure it is, and the model that has it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isotropy._run import Checkpoint, atomic_write, write_json
from isotropy.discovery.modelling._model_comparison import ModelComparison
from isotropy.discovery.modelling._soft_offer import SoftOffer
from isotropy.discovery.modelling._standardised import rows_for
from isotropy.discovery.reading._row_layout import RowLayout
from isotropy.discovery.telling._finding_files import (
    FINDING_FILE,
    FORMAT,
    PROGRAM,
    SOFT_WEIGHTS,
    WEIGHTS,
    fingerprint,
    made_folder,
    without_links,
)
from isotropy.discovery.telling._how_to_use import how_to_use
from isotropy.discovery.telling._notebook import finding_html
from isotropy.discovery.testing._claim_test import ClaimTest
from isotropy.naming._row_rep import RowRep
from isotropy.reps import Symmetry

_NEGLIGIBLE = 1e-5  # size of an effect below which its digits are noise
# what is written as it is; the other fields have a form of their own
_PLAIN = (
    *("name", "group", "order", "dimension", "action", "approximate", "confirmed", "p_value"),
    *("effect", "margin", "samples", "method", "trivial", "notes", "input_names", "output_names"),
    *("centre", "coordinates", "classes", "discrete", "layers", "equivariance_error"),
    "certificates",
)
_LISTS = (
    *("notes", "input_names", "output_names"),
    *("centre", "coordinates", "classes", "discrete", "layers"),
)


SIGNIFICANT_COST = 0.01  # a share that is significantly exceeded makes a symmetry approximate
SMALLEST_SHOWN = 1e-6  # the normal approximation of the test says nothing of smaller chances


def is_approximate(test: ClaimTest) -> bool:
    """Whether a symmetry costs significantly more than rounding and noise explain."""
    return test.interval[0] > SIGNIFICANT_COST


def tested_fields(test: ClaimTest) -> dict[str, Any]:
    """The fields of a finding that its test fills, p-values corrected for all claims."""
    return {
        "confirmed": test.confirmed,
        "p_value": test.adjusted_p_value,
        "effect": test.effect,
        "interval": test.interval,
        "margin": test.margin,
        "samples": test.samples,
    }


def shown_p_value(value: float) -> str:
    """A p-value in text.

    Example:
        >>> shown_p_value(0.0123), shown_p_value(1e-46)
        ('p = 0.012', 'p < 1e-06')
    """
    return f"p = {value:.2g}" if value >= SMALLEST_SHOWN else f"p < {SMALLEST_SHOWN:.0e}"


@dataclass(frozen=True, eq=False)
class Finding:
    """A symmetry found in data, with the evidence for it and the model that uses it.

    Args:
        name: What it is, in prose: "Z(12), cyclic shift".
        group: The group as text that ``parse_group`` reads: "Z(12)".
        action: How the group acts, in a phrase.
        method: How it was found.
        order: The number of elements of a finite group.
        dimension: That of a continuous group.
        approximate: Whether it holds only in part.
        confirmed: Whether the test on held-out samples stands (``confirm``).
        p_value: Of that test, corrected for all that was tested.
        effect: What the symmetry costs, as a share of what can be learned.
        interval: Limits of the effect, each at 95 %.
        margin: The largest effect that counts as a symmetry.
        samples: How many samples it was tested on.
        trivial: Why it holds for a trivial reason; empty where it does not.
        notes: Anything else worth knowing.
        symmetry: The group and its actions.
        custom: Representations that ``symmetry`` names and the library does not.
        layout: How data are laid out.
        labels: Which weights of a linear map are equal, shape (d_out, d_in) or (K,).
        generators: Of a continuous group, exact, shape (D, d, d): as they act on ``coordinates``,
            or on these and a last one that is always 1, where there are translations.
        centre: The point that is subtracted from inputs before generators and symmetry act, one
            number for each column; empty for the origin.
        metric: The symmetric form that they leave invariant, shape (d, d), where there is one.
        coordinates: What they act on: columns, or what the columns of all blocks have in common.
        classes: Every class of actions that was looked at, as a dictionary of plain values each,
            with the algebra found in it and whether it was chosen.
        discrete: Reflections and the like beyond the continuous group, as a dictionary each, and
            whether they hold.
        layers: Of a network whose first layers have the symmetry, all its layers, as a dictionary
            each: the type learned, the shares of its paths, and whether it is strict.
        model: The model that has the symmetry.
        model_spec: What ``build_model`` makes such a model from; needed to save it.
        soft: Where it holds in part, a model that prefers the symmetry and is not bound to it, and
            how it compares with the strict model and with a free predictor.
        comparison: How the model does beside a predictor free of the symmetry.
        equivariance_error: How far the model is from the symmetry, relative to the size of its
            outputs, over rows held out and random elements of the group.
        examples: A few rows of the data as they were given, and what elements of the group make of
            them, shape (rows, 1 + elements, …): the row itself comes first.
        certificates: What two certificates say, "with" the symmetry and "without" it, each as a
            dictionary with its bound, error and bits; or why there are none, as "reason".
        input_names: Of the positions of the input, where they have names.
        output_names: Of those of the output.

    Example:
        >>> finding = Finding(
        ...     "Z(12), cyclic shift",
        ...     "Z(12)",
        ...     "cyclic shift",
        ...     "linear colours",
        ...     order=12,
        ...     confirmed=True,
        ...     p_value=1e-4,
        ...     effect=0.004,
        ... )
        >>> print(finding)
        Z(12), cyclic shift: confirmed (p = 0.0001), costs 0.4 % of what can be learned
    """

    name: str
    group: str
    action: str
    method: str
    order: int | None = None
    dimension: int | None = None
    approximate: bool = False
    confirmed: bool = False
    p_value: float = 1.0
    effect: float = math.nan
    interval: tuple[float, float] = (-math.inf, math.inf)
    margin: float = 0.05
    samples: int = 0
    trivial: str = ""
    notes: tuple[str, ...] = ()
    symmetry: Symmetry | None = None
    custom: Mapping[str, RowRep] = field(default_factory=dict, repr=False)
    layout: RowLayout = field(default_factory=RowLayout)
    labels: NDArray[np.int64] | None = field(default=None, repr=False)
    generators: NDArray[np.float64] | None = field(default=None, repr=False)
    metric: NDArray[np.float64] | None = field(default=None, repr=False)
    centre: tuple[float, ...] = ()
    coordinates: tuple[str, ...] = ()
    classes: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    discrete: tuple[Mapping[str, Any], ...] = ()
    layers: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    model: nn.Module | None = field(default=None, repr=False)
    model_spec: Mapping[str, Any] | None = None
    soft: SoftOffer | None = field(default=None, repr=False)
    comparison: ModelComparison | None = None
    equivariance_error: float | None = None
    examples: NDArray[np.float64] | None = field(default=None, repr=False)
    certificates: Mapping[str, Any] | None = None
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.p_value <= 1:
            raise ValueError(f"expected a p-value between 0 and 1, got {self.p_value!r}")
        for name in _LISTS:
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, axes in (("generators", 3), ("metric", 2)):
            self._keep_matrices(name, axes)
        object.__setattr__(self, "interval", (float(self.interval[0]), float(self.interval[1])))
        for name, kind in (("approximate", bool), ("confirmed", bool), ("p_value", float)):
            object.__setattr__(self, name, kind(getattr(self, name)))  # numpy's own have no JSON
        if self.examples is not None:
            examples = np.array(self.examples, dtype=np.float64)
            if examples.ndim < 3 or not np.isfinite(examples).all():
                raise ValueError(
                    "expected finite examples of shape (rows, 1 + elements, …), got shape "
                    f"{examples.shape}"
                )
            examples.flags.writeable = False
            object.__setattr__(self, "examples", examples)
        if self.labels is not None:
            labels = np.array(self.labels)
            if labels.ndim not in (1, 2) or not np.issubdtype(labels.dtype, np.integer):
                raise ValueError(
                    "expected integer labels of a vector or a matrix, got "
                    f"{labels.dtype} of shape {labels.shape}"
                )
            labels = labels.astype(np.int64)
            labels.flags.writeable = False
            object.__setattr__(self, "labels", labels)

    def _keep_matrices(self, name: str, axes: int) -> None:
        """Square matrices of finite numbers, which nobody may change."""
        if getattr(self, name) is None:
            return
        given = np.array(getattr(self, name), dtype=np.float64)
        if given.ndim != axes or given.shape[-1] != given.shape[-2] or not np.isfinite(given).all():
            raise ValueError(
                f"expected finite square matrices as {name}, got an array of shape {given.shape}"
            )
        given.flags.writeable = False
        object.__setattr__(self, name, given)

    @property
    def cost(self) -> str:
        """The effect in words."""
        if math.isnan(self.effect):
            return "nothing can be learned"
        if abs(self.effect) < _NEGLIGIBLE:  # rounding errors have no meaning, nor has their sign
            return f"costs less than {_NEGLIGIBLE * 100:g} % of what can be learned"
        verb = "costs" if self.effect >= 0 else "saves"
        percent = float(f"{abs(self.effect) * 100:.2g}")
        return f"{verb} {percent:g} % of what can be learned"

    @property
    def verdict(self) -> str:
        """Whether it stands, in a few words."""
        if self.trivial:
            return "holds trivially"
        if self.soft is not None and not self.confirmed:
            return "holds nearly"
        return "confirmed" if self.confirmed else "not confirmed"

    def predict(self, X: ArrayLike | Tensor, *, soft: bool | None = None) -> NDArray[np.float64]:
        """What the model predicts for data as they were given: values, or logits of classes.

        Args:
            X: Inputs, shape ``(N, n)``, ``(N, n, channels)`` for sequences and sets, or images.
            soft: Whether to predict with the soft model; by default where there is one and it
                predicted the rows held out better than the strict one.

        Raises:
            ValueError: If there is no such model, or the shape is not that of the data.
        """
        if soft is None:
            soft = self.soft is not None and self.soft.is_better
        model = self.model
        if soft:
            model = None if self.soft is None else self.soft.model
        if model is None:
            what = "a soft model" if soft else "a model"
            raise ValueError(f"expected {what} of {self.name!r:.80} to predict with, got none")
        x = rows_for(model, torch.as_tensor(X if isinstance(X, Tensor) else np.asarray(X)))
        x = self.layout.rows(x)
        width = getattr(model, "in_features", None)
        if width is not None and x.shape[1:] != (width,):
            raise ValueError(
                f"expected inputs of {width} numbers in each row, got an array of shape "
                f"{tuple(np.shape(X))}"
            )
        with torch.no_grad():
            y = model(x)
        if self.layout.output_channels > 1 or self.layout.output_sequences:
            y = y.unflatten(1, (self.layout.output_channels, -1))
            y = y if self.layout.channels_first else y.transpose(1, 2)
        predicted: NDArray[np.float64] = y.double().cpu().numpy()
        return predicted

    def to_json(self) -> dict[str, Any]:
        """Everything but the labels and the weights, of what JSON knows.

        A finite group has an ``order``, a continuous one a ``dimension``.

        Example:
            >>> Finding("S(3)", "S(3)", "all positions", "swaps", order=6).to_json()["order"]
            6
        """
        plain = {name: getattr(self, name) for name in _PLAIN}
        for name in ("order", "dimension"):
            if plain[name] is None:
                del plain[name]
        written = None if self.symmetry is None else json.loads(self.symmetry.to_json())
        spec = None if self.model_spec is None else dict(self.model_spec)
        tables = {name: rep.table.tolist() for name, rep in self.custom.items()}
        rest = {
            "generators": None if self.generators is None else self.generators.tolist(),
            "metric": None if self.metric is None else self.metric.tolist(),
            "interval": list(self.interval),
            "symmetry": written,
            "custom": tables,
            "layout": {**asdict(self.layout), "image": list(self.layout.image)},
            "model": spec,
            "soft": None if self.soft is None else self.soft.to_json(),
            "comparison": None if self.comparison is None else self.comparison.to_json(),
            "certificates": None if self.certificates is None else dict(self.certificates),
        }
        lists = {name: list(getattr(self, name)) for name in _LISTS}
        return {**plain, **lists, **rest}

    def save(self, folder: str | Path) -> Path:
        """Write ``finding.json``, the weights of what models there are, and how to load them.

        Those of the model are in ``model.safetensors``, of the soft one in ``soft.safetensors``;
        ``use_model.py`` loads them and predicts.

        Args:
            folder: Made where it is not there.

        Returns:
            The folder.

        Raises:
            ValueError: If there is a model without a description to build it from.

        Example:
            >>> import tempfile
            >>> finding = Finding("S(3)", "S(3)", "all positions", "swaps", order=6)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Finding.load(finding.save(folder)).name
            'S(3)'
        """
        offer = self.soft
        models = [(WEIGHTS, self.model, self.model_spec)]
        if offer is None:
            models.append((SOFT_WEIGHTS, None, None))
        else:
            models.append((SOFT_WEIGHTS, offer.model, offer.model_spec))
        if any(model is not None and spec is None for _, model, spec in models):
            raise ValueError(
                f"expected a description (model_spec) of the model of {self.name!r:.80} to save "
                "it with, got none"
            )
        folder = without_links(made_folder(folder))
        labels = None if self.labels is None else self.labels.tolist()
        given = {
            **self.to_json(),
            "labels": labels,
            "examples": None if self.examples is None else self.examples.tolist(),
            "has_weights": self.model is not None,
            "has_soft_weights": offer is not None and offer.model is not None,
        }
        for file, model, spec in models:
            if model is None:
                (folder / file).unlink(missing_ok=True)
            else:
                Checkpoint(folder / file, fingerprint(given, spec)).save(model.state_dict(), {})
        write_json(folder / FINDING_FILE, {"format": FORMAT, **given})
        with atomic_write(folder / PROGRAM, "w") as program:
            program.write(how_to_use(self))
        return folder

    @staticmethod
    def load(folder: str | Path) -> Finding:
        """Read what ``save`` wrote, and build the model anew.

        The folder may come from a stranger: every field is checked, nothing in it is run, and no
        link is followed out of it.

        Raises:
            ValueError: If it is damaged, or another version wrote it.
        """
        from isotropy.discovery.telling._load_finding import loaded_fields

        fields = loaded_fields(Path(folder))
        try:
            return Finding(**fields)
        except ValueError as error:
            raise ValueError(f"{Path(folder) / FINDING_FILE}: {error}") from error

    def __str__(self) -> str:
        why = f" ({shown_p_value(self.p_value)}), {self.cost}"
        return f"{self.name}: {self.verdict}" + (f": {self.trivial}" if self.trivial else why)

    def _repr_html_(self) -> str:
        return finding_html(self)
