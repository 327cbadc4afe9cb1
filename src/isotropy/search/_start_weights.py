"""Weights of trained children, kept in the study's database for others to start from."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy
from safetensors.torch import load, save
from torch import Tensor

from isotropy._run._json import shown
from isotropy.search._study_tables import WEIGHTS, insert
from isotropy.search._tensor_header import check_tensor_header

LARGEST = 10**9


def keep_weights(
    engine: sqlalchemy.Engine, study: str, key: str, weights: Mapping[str, Tensor]
) -> None:
    """Keep the weights of a child."""
    data = save({name: one.detach().cpu().contiguous() for name, one in weights.items()})
    kept = insert(engine, WEIGHTS).values(study=study, key=key, weights=data)
    kept = kept.on_conflict_do_update(
        index_elements=[WEIGHTS.c.study, WEIGHTS.c.key], set_={"weights": data}
    )
    with engine.begin() as connection:
        connection.execute(kept)


def kept_weights(engine: sqlalchemy.Engine, study: str, key: str) -> dict[str, Tensor] | None:
    """The weights of a child, or ``None`` where none were kept.

    Raises:
        ValueError: If what was kept is not finite numbers in the safetensors format.
    """
    this = (WEIGHTS.c.study == study) & (WEIGHTS.c.key == key)
    with engine.begin() as connection:
        size = connection.scalar(
            sqlalchemy.select(sqlalchemy.func.length(WEIGHTS.c.weights)).where(this)
        )
        if size is None:
            return None
        if size > LARGEST:
            raise ValueError(
                f"expected start weights of up to {LARGEST} bytes, got {size} for {shown(key)}"
            )
        data = bytes(connection.scalar(sqlalchemy.select(WEIGHTS.c.weights).where(this)) or b"")
    check_tensor_header(data, len(data), f"the start weights of {shown(key)}")
    found = dict(load(data))
    for name, one in found.items():
        if not one.isfinite().all():
            raise ValueError(
                f"expected finite start weights of {shown(key)}, got others in {shown(name)}"
            )
    return found
