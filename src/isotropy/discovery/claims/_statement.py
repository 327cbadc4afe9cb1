"""What is claimed: a symmetry in words, as a group, and how it acts on the user's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.naming._row_rep import RowRep
from isotropy.reps import Symmetry

Array = NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Details:
    """Nothing more than the words and the group.

    Each kind is a class of its own, with a word for it in files.

    Example:
        >>> Details().to_json()
        {'kind': 'plain'}
    """

    kind: ClassVar[str] = "plain"

    def to_json(self) -> dict[str, Any]:
        """Plain values, and the word for the kind."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"kind": self.kind, **{name: _plain(value) for name, value in given.items()}}


@dataclass(frozen=True, eq=False)
class WeightDetails(Details):
    """Which weights of a linear map a permutation symmetry makes equal.

    Args:
        labels: The class of each weight, shape (d_out, d_in) or (K,); None where that is not known.

    Example:
        >>> WeightDetails([[0, 1], [1, 0]]).to_json()
        {'kind': 'weights', 'labels': [[0, 1], [1, 0]]}
    """

    kind: ClassVar[str] = "weights"
    labels: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.labels is None:
            return
        labels = np.array(self.labels)
        if labels.ndim not in (1, 2) or not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(
                "expected integer labels of a vector or a matrix, got "
                f"{labels.dtype} of shape {labels.shape}"
            )
        object.__setattr__(self, "labels", _frozen(labels.astype(np.int64)))


@dataclass(frozen=True, eq=False)
class ContinuousDetails(Details):
    """How a continuous symmetry acts, and what else was looked at.

    Args:
        generators: Exact, shape (D, d, d): as they act on ``coordinates``, or on these and a last
            one that is always 1, where there are translations.
        metric: The symmetric form that they leave invariant, shape (d, d), where there is one.
        centre: The point that is subtracted from inputs before generators and symmetry act, one
            number for each column; empty for the origin.
        coordinates: What they act on: columns, or what the columns of all blocks have in common.
        rows: Generators on whole inputs in the user's units, [A | b], shape (D, n, n + 1).
        outputs: Those on outputs, shape (D, m, m); None where outputs stay.
        classes: Every class of actions that was looked at, as a dictionary of plain values each,
            with the algebra found in it and whether it was chosen.
        discrete: Reflections and the like beyond the connected group, as a dictionary each, and
            whether they hold.

    Example:
        >>> turn = ContinuousDetails([[[0, -1], [1, 0]]], coordinates=("x", "y"))
        >>> turn.to_json()["generators"]
        [[[0.0, -1.0], [1.0, 0.0]]]
    """

    kind: ClassVar[str] = "continuous"
    generators: Array | None = None
    metric: Array | None = None
    centre: tuple[float, ...] = ()
    coordinates: tuple[str, ...] = ()
    rows: Array | None = None
    outputs: Array | None = None
    classes: tuple[Mapping[str, Any], ...] = ()
    discrete: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for name in ("centre", "coordinates", "classes", "discrete"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, axes, wider in (
            ("generators", 3, 0),
            ("metric", 2, 0),
            ("rows", 3, 1),
            ("outputs", 3, 0),
        ):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _matrices(given, name, axes, wider))


@dataclass(frozen=True, eq=False)
class LayerDetails(Details):
    """Which layers of a network have a symmetry.

    Args:
        layers: All layers, as a dictionary each: the type learned, the shares of its paths, and
            whether it is strict.

    Example:
        >>> LayerDetails([{"layer": "layer 0", "strict": True}]).layers[0]["strict"]
        True
    """

    kind: ClassVar[str] = "layers"
    layers: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))


KINDS: Mapping[str, type[Details]] = {
    one.kind: one for one in (Details, WeightDetails, ContinuousDetails, LayerDetails)
}


def details_of(given: Mapping[str, Any]) -> Details:
    """The details that have values of some names.

    Raises:
        TypeError: If no kind has all of them.

    Example:
        >>> details_of({"coordinates": ["x", "y"]}).kind
        'continuous'
    """
    known = {name: value for name, value in given.items() if not _is_empty(value)}
    for kind in KINDS.values():
        if known.keys() <= {one.name for one in fields(kind)}:
            return kind(**known)
    listed = "; ".join(", ".join(one.name for one in fields(kind)) for kind in KINDS.values())
    raise TypeError(
        f"expected values that one kind of finding has ({listed.strip('; ')}), got "
        f"{', '.join(sorted(known))}"
    )


def _matrices(given: ArrayLike, name: str, axes: int, wider: int) -> Array:
    """Finite matrices, square or wider by some columns, which nobody may change."""
    found = np.array(given, dtype=np.float64)
    fits = found.ndim == axes and found.shape[-1] == found.shape[-2] + wider
    if not fits or not np.isfinite(found).all():
        shape = "square matrices" if not wider else "matrices [A | b]"
        raise ValueError(f"expected finite {shape} as {name}, got an array of shape {found.shape}")
    return _frozen(found)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and not value)


def _frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    array.flags.writeable = False
    return array


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, eq=False)
class Statement:
    """What is claimed.

    Args:
        name: What it is, in prose: "Z(12), cyclic shift".
        group: The group as text that ``parse_group`` reads: "Z(12)".
        action: How the group acts, in a phrase.
        method: How it was found.
        order: The number of elements of a finite group.
        dimension: That of a continuous group.
        symmetry: The group and its actions.
        custom: Representations that ``symmetry`` names and the library does not.
        layout: How data are laid out.
        input_names: Of the positions of the input, where they have names.
        output_names: Of those of the output.
        trivial: Why it holds for a trivial reason; empty where it does not.
        details: What its kind has to say beyond that.

    Example:
        >>> Statement("S(3)", "S(3)", "all positions", "swaps", order=6).order
        6
    """

    name: str
    group: str
    action: str = ""
    method: str = ""
    order: int | None = None
    dimension: int | None = None
    symmetry: Symmetry | None = None
    custom: Mapping[str, RowRep] = field(default_factory=dict, repr=False)
    layout: RowLayout = field(default_factory=RowLayout)
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    trivial: str = ""
    details: Details = field(default_factory=Details, repr=False)

    def __post_init__(self) -> None:
        for name in ("input_names", "output_names"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
