"""Weights of trained children, kept in the study's database for others to start from."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy
from safetensors.torch import load, save
from torch import Tensor

from isotropy.discovery.search._tables import WEIGHTS, insert


def keep_weights(
    engine: sqlalchemy.Engine, study: str, key: str, weights: Mapping[str, Tensor]
) -> None:
    """Keep the weights of a child.

    Args:
        engine: Of the database.
        study: The mark of the study.
        key: Of the child's proposal.
        weights: By name.
    """
    data = save({name: one.detach().cpu().contiguous() for name, one in weights.items()})
    kept = insert(engine, WEIGHTS).values(study=study, key=key, weights=data)
    kept = kept.on_conflict_do_update(
        index_elements=[WEIGHTS.c.study, WEIGHTS.c.key], set_={"weights": data}
    )
    with engine.begin() as connection:
        connection.execute(kept)


def kept_weights(engine: sqlalchemy.Engine, study: str, key: str) -> dict[str, Tensor] | None:
    """The weights of a child, or ``None`` where none were kept.

    Args:
        engine: Of the database.
        study: The mark of the study.
        key: Of the child's proposal.
    """
    found = sqlalchemy.select(WEIGHTS.c.weights).where(
        (WEIGHTS.c.study == study) & (WEIGHTS.c.key == key)
    )
    with engine.begin() as connection:
        data = connection.scalar(found)
    return None if data is None else dict(load(bytes(data)))
