"""The surface that inputs lie on, where they lie on one, in the user's units."""

from __future__ import annotations

from dataclasses import dataclass

from isotropy.discovery.proposing.generators._charts import Array
from isotropy.discovery.proposing.generators._column_blocks import ColumnBlocks
from isotropy.discovery.proposing.generators._conditioning import condition
from isotropy.discovery.proposing.generators._data_constraints import (
    DataConstraints,
    find_constraints,
)


@dataclass(frozen=True, eq=False)
class Surface:
    """Constraints of the data in the user's units."""

    inner: DataConstraints
    centre: Array
    scale: Array
    sentences: tuple[str, ...]

    @property
    def count(self) -> int:
        return self.inner.count

    def gradients(self, x: Array) -> Array:
        return self.inner.gradients((x - self.centre) / self.scale) / self.scale


def surface_of(x: Array, names: tuple[str, ...], blocks: ColumnBlocks | None) -> Surface | None:
    """The surface that the data lie on, where they lie on one."""
    unit = condition(x, blocks)
    found = find_constraints(unit.x, blocks, rounding=unit.rounding)
    if not found.count:
        return None
    return Surface(found, unit.shift, unit.scale, found.sentences(names, unit.shift, unit.scale))
