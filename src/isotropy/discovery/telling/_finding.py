"""What discovery returns: a claim, its test, and the models that have the symmetry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isotropy._run import Checkpoint, atomic_write, write_json
from isotropy.discovery.claims._statement import KINDS, Details, LayerDetails, Statement, details_of
from isotropy.discovery.modelling._finding_models import ModelComparison, Models, SoftOffer
from isotropy.discovery.modelling._standardised import rows_for
from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.discovery.telling._finding_files import (
    FINDING_FILE,
    FORMAT,
    PROGRAM,
    SOFT_WEIGHTS,
    WEIGHTS,
    fingerprint,
    how_to_use,
    made_folder,
    without_links,
)
from isotropy.discovery.telling._findings_answer import finding_html
from isotropy.discovery.telling._row_action import RowAction, row_action
from isotropy.discovery.testing._tested import Outcome, shown_p_value
from isotropy.naming._row_rep import RowRep
from isotropy.reps import Symmetry

_OF_KINDS: Mapping[str, Any] = {
    one.name: one.default for kind in KINDS.values() for one in fields(kind)
}
_OWN = ("notes", "examples", "certificates")
_PARTS: Mapping[str, type[Any]] = {"claim": Statement, "test": Outcome, "models": Models}


@dataclass(frozen=True, eq=False)
class Finding:
    """A symmetry found in data: what is claimed, the test of it, and the models that have it.

    Whatever these parts hold can be read from the finding itself, as in ``finding.name`` or
    ``finding.labels``.

    Args:
        claim: What is claimed, in words and as a group: ``name``, ``group``, ``action``,
            ``method``, ``order`` or ``dimension``, ``symmetry``, ``layout``, ``input_names``,
            ``output_names``, ``trivial``, and as ``details`` what only its kind has.
        test: ``confirmed``, ``approximate``, ``p_value``, ``effect``, ``interval``, ``margin``,
            ``samples``.
        models: ``model``, ``model_spec``, ``soft``, ``comparison``, ``equivariance_error``.
        notes: Anything else worth knowing.
        examples: A few rows of the data as they were given, and what elements of the group make of
            them, shape (rows, 1 + elements, …): the row itself comes first.
        certificates: What two certificates say, "with" the symmetry and "without" it, each as a
            dictionary with its bound, error and bits; or why there are none, as "reason".

    Example:
        >>> finding = Finding.of(
        ...     "Z(12), cyclic shift", "Z(12)", order=12, confirmed=True, p_value=1e-4, effect=4e-3
        ... )
        >>> print(finding)
        Z(12), cyclic shift: confirmed (p = 0.0001), costs 0.4 % of what can be learned
        >>> finding.claim.order, finding.order
        (12, 12)
    """

    claim: Statement
    test: Outcome = field(default_factory=Outcome)
    models: Models = field(default_factory=Models, repr=False)
    notes: tuple[str, ...] = ()
    examples: NDArray[np.float64] | None = field(default=None, repr=False)
    certificates: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.claim, Statement):
            raise TypeError(
                f"expected a claim, a test and models, got {self.claim!r:.80}: Finding.of(name, "
                "group, …) makes a finding from the values of all its parts"
            )
        object.__setattr__(self, "notes", tuple(self.notes))
        if self.examples is not None:
            examples = np.array(self.examples, dtype=np.float64)
            if examples.ndim < 3 or not np.isfinite(examples).all():
                raise ValueError(
                    "expected finite examples of shape (rows, 1 + elements, …), got shape "
                    f"{examples.shape}"
                )
            examples.flags.writeable = False
            object.__setattr__(self, "examples", examples)

    @staticmethod
    def of(name: str, group: str, action: str = "", method: str = "", **values: Any) -> Finding:
        """A finding from the values of all its parts, wherever they belong.

        Args:
            name: What it is, in prose.
            group: The group as text.
            action: How it acts, in a phrase.
            method: How it was found.
            **values: Any others, such as ``order``, ``p_value``, ``model`` or ``labels``.

        Raises:
            TypeError: If no part of a finding has a value of that name.

        Example:
            >>> Finding.of("S(3)", "S(3)", labels=[[0, 1], [1, 0]]).details.kind
            'weights'
        """
        given = {"name": name, "group": group, "action": action, "method": method, **values}
        own = {one: given.pop(one) for one in _OWN if one in given}
        parts = {
            part: {one.name: given.pop(one.name) for one in fields(kind) if one.name in given}
            for part, kind in _PARTS.items()
        }
        parts["claim"].setdefault("details", details_of(given))
        made = {part: kind(**parts[part]) for part, kind in _PARTS.items()}
        return Finding(**made, **own)

    def with_values(self, **values: Any) -> Finding:
        """The same with other values, wherever they belong.

        Raises:
            TypeError: If no part of a finding has a value of that name.

        Example:
            >>> Finding.of("S(3)", "S(3)", order=6).with_values(p_value=0.01).order
            6
        """
        known = {one: getattr(self, one) for one in _OWN}
        for part in (self.claim, self.test, self.models):
            known |= {one.name: getattr(part, one.name) for one in fields(part)}
        if of_kind := values.keys() & _OF_KINDS.keys():
            details = known.pop("details")
            its = {one.name: getattr(details, one.name) for one in fields(details)}
            known |= its if its.keys() >= of_kind else {}
        return Finding.of(**{**known, **values})

    # --- what is claimed ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What it is, in prose: "Z(12), cyclic shift"."""
        return self.claim.name

    @property
    def group(self) -> str:
        """The group as text that ``parse_group`` reads: "Z(12)"."""
        return self.claim.group

    @property
    def action(self) -> str:
        """How the group acts, in a phrase."""
        return self.claim.action

    @property
    def method(self) -> str:
        """How it was found."""
        return self.claim.method

    @property
    def order(self) -> int | None:
        """The number of elements of a finite group."""
        return self.claim.order

    @property
    def dimension(self) -> int | None:
        """That of a continuous group."""
        return self.claim.dimension

    @property
    def symmetry(self) -> Symmetry | None:
        """The group and its actions."""
        return self.claim.symmetry

    @property
    def custom(self) -> Mapping[str, RowRep]:
        """Representations that ``symmetry`` names and the library does not."""
        return self.claim.custom

    @property
    def layout(self) -> RowLayout:
        """How data are laid out."""
        return self.claim.layout

    @property
    def trivial(self) -> str:
        """Why it holds for a trivial reason; empty where it does not."""
        return self.claim.trivial

    @property
    def input_names(self) -> tuple[str, ...]:
        """Of the positions of the input, where they have names."""
        return self.claim.input_names

    @property
    def output_names(self) -> tuple[str, ...]:
        """Of those of the output."""
        return self.claim.output_names

    @property
    def details(self) -> Details:
        """What only symmetries of its kind have, such as ``labels`` or ``generators``."""
        return self.claim.details

    @property
    def of_network(self) -> bool:
        """Whether it says something of the layers of a network, and not of the task."""
        return isinstance(self.details, LayerDetails)

    def __getattr__(self, name: str) -> Any:
        """What its kind adds, such as ``labels``; empty where that has none of the name."""
        if name not in _OF_KINDS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.claim.details, name, _OF_KINDS[name])

    # --- what the test says ---------------------------------------------------------------------

    @property
    def confirmed(self) -> bool:
        """Whether the test on rows held out stands."""
        return self.test.confirmed

    @property
    def approximate(self) -> bool:
        """Whether it holds only in part."""
        return self.test.approximate

    @property
    def p_value(self) -> float:
        """Of the test, corrected for all that was tested."""
        return self.test.p_value

    @property
    def effect(self) -> float:
        """What the symmetry costs, as a share of what can be learned."""
        return self.test.effect

    @property
    def interval(self) -> tuple[float, float]:
        """Limits of the effect, each at 95 %."""
        return self.test.interval

    @property
    def margin(self) -> float:
        """The largest effect that counts as a symmetry."""
        return self.test.margin

    @property
    def samples(self) -> int:
        """How many samples it was tested on."""
        return self.test.samples

    @property
    def cost(self) -> str:
        """The effect in words."""
        return self.test.cost

    @property
    def verdict(self) -> str:
        """Whether it stands, in a few words."""
        if self.trivial:
            return "holds trivially"
        if self.soft is not None and not self.confirmed:
            return "holds nearly"
        return "confirmed" if self.confirmed else "not confirmed"

    # --- its models -----------------------------------------------------------------------------

    @property
    def model(self) -> nn.Module | None:
        """The model that has the symmetry."""
        return self.models.model

    @property
    def model_spec(self) -> Mapping[str, Any] | None:
        """What such a model is built from; needed to save it."""
        return self.models.model_spec

    @property
    def soft(self) -> SoftOffer | None:
        """Where it holds in part, a model that prefers it and is not bound to it."""
        return self.models.soft

    @property
    def comparison(self) -> ModelComparison | None:
        """How the model does beside a predictor free of the symmetry."""
        return self.models.comparison

    @property
    def equivariance_error(self) -> float | None:
        """How far the model is from the symmetry, relative to the size of its outputs."""
        return self.models.equivariance_error

    def predict(self, X: ArrayLike | Tensor, *, soft: bool | None = None) -> NDArray[np.float64]:
        """What the model predicts for data as they were given: values, or logits of classes.

        Args:
            X: Inputs, shape ``(N, n)``, ``(N, n, channels)`` for sequences and sets, or images.
                Columns of a table with names are taken by name.
            soft: Whether to predict with the soft model; by default where there is one and it
                predicted the rows held out better than the strict one.

        Returns:
            Shape ``(N, outputs)``, also of one output, or that of targets with positions.

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
        X = self._by_name(X)
        x = rows_for(model, torch.as_tensor(X if isinstance(X, Tensor) else np.asarray(X)))
        x = self.layout.rows(x)
        width = getattr(model, "in_features", None)
        if width is not None and x.shape[1:] != (width,):
            raise ValueError(
                f"expected inputs of {width} numbers in each row, got an array of shape "
                f"{tuple(np.shape(X))}"
            )
        with torch.no_grad():
            y = self.layout.given_outputs(model(x))
        predicted: NDArray[np.float64] = y.double().cpu().numpy()
        return predicted

    # --- its action on rows ---------------------------------------------------------------------

    def matrices(self) -> RowAction:
        """How the group acts on rows as they were given, in the user's own columns and units.

        Affine maps for generators and for elements, signed permutations as indices and signs:
        ``RowAction.generators`` and ``RowAction.elements`` move inputs, ``RowAction.outputs`` what
        is predicted.

        Raises:
            ValueError: If it is a symmetry of layers and not of the task, or has no action that
                could be written down.

        Example:
            >>> from isotropy.groups import Z
            >>> from isotropy.reps import Scalar, V
            >>> shift = Finding.of("shift", "Z(3)", symmetry=Symmetry(Z(3), V, Scalar))
            >>> shift.matrices().elements[0].matrix.tolist()  # with a last column that is added
            [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
        """
        return row_action(self.claim)

    def move(
        self, x: ArrayLike | Tensor, y: ArrayLike | Tensor | None = None, *, seed: int = 0
    ) -> Any:
        """Rows as they were given, moved by one element of the group drawn at random.

        Args:
            x: Inputs, of the shape that the data had.
            y: Targets to be moved along.
            seed: Of the element.

        Returns:
            The rows moved, float64 of the same shape; with targets, both.

        Raises:
            ValueError: If ``matrices`` has none, or shapes are not those of the data.

        Example:
            >>> from isotropy.groups import Z
            >>> from isotropy.reps import V
            >>> shift = Finding.of("shift", "Z(3)", symmetry=Symmetry(Z(3), V, V))
            >>> shift.move([[1, 2, 3]], [[4, 5, 6]], seed=1)
            (array([[3., 1., 2.]]), array([[6., 4., 5.]]))
        """
        return self.matrices().moved(self._by_name(x), y, seed=seed)

    def _by_name(self, x: Any) -> Any:
        """The columns of a table in the order in which the search had them."""
        there, names = [str(name) for name in getattr(x, "columns", ())], self.input_names
        missing = [name for name in names if name not in there]
        if not there or len(missing) == len(names):  # no names, or none that would be known
            return x
        if missing:
            raise ValueError(f"expected a column {missing[0]!r:.80}, got a table without it")
        return np.asarray(x)[:, [there.index(name) for name in names]]

    # --- files ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything but the rows of ``examples`` and the weights, of what JSON knows.

        A finite group has an ``order``, a continuous one a ``dimension``; what only its kind has
        is in ``details``.

        Example:
            >>> Finding.of("S(3)", "S(3)", order=6).to_json()["order"]
            6
        """
        claim, models = self.claim, self.models
        sizes = {"order": claim.order, "dimension": claim.dimension}
        written = None if claim.symmetry is None else json.loads(claim.symmetry.to_json())
        spec = None if models.model_spec is None else dict(models.model_spec)
        return {
            "name": claim.name,
            "group": claim.group,
            **{name: size for name, size in sizes.items() if size is not None},
            "action": claim.action,
            **asdict(self.test),
            "interval": list(self.test.interval),
            "method": claim.method,
            "trivial": claim.trivial,
            "notes": list(self.notes),
            "input_names": list(claim.input_names),
            "output_names": list(claim.output_names),
            "details": claim.details.to_json(),
            "symmetry": written,
            "custom": {name: rep.table.tolist() for name, rep in claim.custom.items()},
            "layout": {
                **asdict(claim.layout),
                "image": list(claim.layout.image),
                "output_image": list(claim.layout.output_image),
            },
            "model": spec,
            "soft": None if models.soft is None else models.soft.to_json(),
            "comparison": None if models.comparison is None else models.comparison.to_json(),
            "equivariance_error": models.equivariance_error,
            "certificates": None if self.certificates is None else dict(self.certificates),
        }

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
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Finding.load(Finding.of("S(3)", "S(3)", order=6).save(folder)).name
            'S(3)'
        """
        soft = self.soft
        models = {
            WEIGHTS: (self.model, self.model_spec),
            SOFT_WEIGHTS: (None, None) if soft is None else (soft.model, soft.model_spec),
        }
        if any(model is not None and spec is None for model, spec in models.values()):
            raise ValueError(
                f"expected a description (model_spec) of the model of {self.name!r:.80} to save "
                "it with, got none"
            )
        folder = without_links(made_folder(folder))
        given = {
            **self.to_json(),
            "examples": None if self.examples is None else self.examples.tolist(),
            "has_weights": models[WEIGHTS][0] is not None,
            "has_soft_weights": models[SOFT_WEIGHTS][0] is not None,
        }
        for file, (model, spec) in models.items():
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
            ValueError: If it is damaged, or a version that we do not know wrote it.
        """
        from isotropy.discovery.telling._load_finding import loaded_values

        values = loaded_values(Path(folder))
        try:
            return Finding.of(**values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{Path(folder) / FINDING_FILE}: {error}") from error

    def __str__(self) -> str:
        why = f" ({shown_p_value(self.p_value)}), {self.cost}"
        return f"{self.name}: {self.verdict}" + (f": {self.trivial}" if self.trivial else why)

    def _repr_html_(self) -> str:
        return finding_html(self)
