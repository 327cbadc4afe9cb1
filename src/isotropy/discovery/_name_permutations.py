"""The name of a group that is given by permutations of inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isotropy.discovery._automorphisms import Automorphisms
from isotropy.discovery._naming import SharingName, _names, _words
from isotropy.discovery._pair_group import PairGroup
from isotropy.discovery._permutation_parts import orbits_of
from isotropy.discovery._sharing_symmetry import acting


def name_permutations(
    group: PairGroup,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> SharingName:
    """Name a group of permutations of inputs and outputs, as ``name_sharing`` names its own.

    Args:
        group: The permutations.
        input_names: What to call the inputs; x0, x1, … without.
        output_names: What to call the outputs; y0, y1, … without.

    Example:
        >>> turn = np.roll(np.arange(6), -1)
        >>> name_permutations(PairGroup(((turn, np.arange(1)),), 6, 1)).name
        'Z(6), cyclic shift'
    """
    n, m = group.inputs, group.outputs
    inputs = _names(input_names, n, "x", "input")
    outputs = _names(output_names, m, "y", "output")
    found = Automorphisms(group.generators, group.order, n, m)
    what = None
    if found.order > 1:
        moves = [(b[:, None] * n + a).ravel() for a, b in group.generators]
        labels = np.zeros(m * n, dtype=np.int64)
        for block, orbit in enumerate(orbits_of(np.array(moves, dtype=np.int64))):
            labels[orbit] = block
        what = acting(found, labels.reshape(m, n), np.arange(m))
    name, action = _words(found, what, inputs, outputs)
    return SharingName(
        kind="none" if what is None else "group",
        name=name,
        action=action,
        group=None if what is None else what.symmetry.group,
        symmetry=None if what is None else what.symmetry,
        order=found.order,
        points=() if what is None else what.points,
        orbits_in=found.orbits_in,
        orbits_out=found.orbits_out,
        generators=found.generators,
        custom={} if what is None else what.custom,
    )
