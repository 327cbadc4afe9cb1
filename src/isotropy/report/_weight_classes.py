"""Which weights of a linear map are equal: by the group, by the model, or as far as a fit tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isotropy.bases import equivariant_basis
from isotropy.discovery.claims._statement import WeightDetails

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_LARGEST = 1_000_000  # entries whose orbits are still worth the time


@dataclass(frozen=True, eq=False)
class SharedWeights:
    """A partition of the entries of a matrix.

    Args:
        labels: Which are together, shape (rows, columns); negative where there is no weight.
        exact: Whether entries with one label are equal in every symmetric map, or in the model.
            If not, a linear fit could not tell them apart, which is no more than a hint.
    """

    labels: NDArray[np.int64]
    exact: bool


def shared_weights(finding: Finding) -> SharedWeights | None:
    """The orbits of the group where its action is known, else the labels of the finding.

    Labels that led to a permutation symmetry are those of a fit with noise in it: they may split
    an orbit, and join several. A model that shares by its labels has them exactly.

    Example:
        >>> from isotropy.discovery import Finding
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import Symmetry, V
        >>> noisy = np.array([[0, 1], [2, 0]])
        >>> found = Finding.of("Z(2)", "Z(2)", labels=noisy, symmetry=Symmetry(Z(2), V, V))
        >>> weights = shared_weights(found)
        >>> weights.exact, bool(weights.labels[0, 1] == weights.labels[1, 0])
        (True, True)
    """
    details, symmetry = finding.details, finding.symmetry
    if not isinstance(details, WeightDetails) or details.labels is None:
        return None
    labels = np.atleast_2d(details.labels)
    spec = finding.model_spec or {}
    if symmetry is None or spec.get("kind") == "shared linear":
        return SharedWeights(labels, exact=True)
    shape = (symmetry.rep_out.size(), symmetry.rep_in.size())
    if shape == labels.shape and labels.size <= _LARGEST:
        orbits = equivariant_basis(symmetry.rep_in >> symmetry.rep_out).orbits()
        if orbits is not None and orbits.signs is None:
            return SharedWeights(orbits.labels.numpy().astype(np.int64).reshape(shape), exact=True)
    return SharedWeights(labels, exact=False)
