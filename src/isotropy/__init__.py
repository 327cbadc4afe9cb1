"""Symmetry in machine learning: find it, build with it, measure it, certify what it is worth.

Groups are in ``isotropy.groups``; the names here are those that every user meets. They are
loaded when first used, so that ``import isotropy`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from isotropy.bases import Basis, equivariant_basis
    from isotropy.certificates import certify, verify
    from isotropy.discovery import Finding, discover
    from isotropy.equivariance import (
        assert_equivariant,
        equivariance_error,
        layerwise,
        lee,
        lie_derivative,
        measure,
    )
    from isotropy.groups import Group, identify, parse_group
    from isotropy.nn import EMLP, soften
    from isotropy.reps import (
        CustomRep,
        Pseudoscalar,
        Regular,
        Rep,
        Scalar,
        Symmetry,
        T,
        V,
        parse_rep,
    )

_ROOMS = {
    "bases": ["Basis", "equivariant_basis"],
    "certificates": ["certify", "verify"],
    "discovery": ["Finding", "discover"],
    "equivariance": [
        "assert_equivariant",
        "equivariance_error",
        "layerwise",
        "lee",
        "lie_derivative",
        "measure",
    ],
    "groups": ["Group", "identify", "parse_group"],
    "nn": ["EMLP", "soften"],
    "reps": [
        "CustomRep",
        "Pseudoscalar",
        "Regular",
        "Rep",
        "Scalar",
        "Symmetry",
        "T",
        "V",
        "parse_rep",
    ],
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "EMLP",
    "Basis",
    "CustomRep",
    "Finding",
    "Group",
    "Pseudoscalar",
    "Regular",
    "Rep",
    "Scalar",
    "Symmetry",
    "T",
    "V",
    "__version__",
    "assert_equivariant",
    "certify",
    "discover",
    "equivariance_error",
    "equivariant_basis",
    "identify",
    "layerwise",
    "lee",
    "lie_derivative",
    "measure",
    "parse_group",
    "parse_rep",
    "soften",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'isotropy' has no attribute {name!r}")
    return getattr(import_module(f"isotropy.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
