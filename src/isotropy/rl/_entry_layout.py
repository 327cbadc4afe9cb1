"""From a description of entries to the matrices by which transformations act on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from isotropy.rl._parts import Part
from isotropy.rl._transformations import Transformation

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_SAME = 1e-9


def finding_blocks(finding: Finding) -> tuple[int, list[Tensor], list[Tensor]]:
    """The size n of an observation, and the matrices of generators on (s, a).

    Args:
        finding: A finding on (s, a) and s′ − s.

    Returns:
        n, the matrices of discrete generators, and those of continuous ones, each (n + m, n + m).

    Raises:
        ValueError: If it is not about transitions, mixes observations with actions, or acts about
            another point than the origin.
    """
    symmetry = finding.symmetry
    if symmetry is None or symmetry.rep_out.size() >= symmetry.rep_in.size():
        raise ValueError(
            "expected a finding of transitions, which acts on (s, a) and s′ − s, got "
            f"{finding.name!r}"
        )
    centre = getattr(finding.details, "centre", ())
    if any(centre):
        raise ValueError(
            "expected a symmetry about the origin of observations and actions, got one about "
            f"{list(centre)}: subtract that from them"
        )
    n, group = symmetry.rep_out.size(), symmetry.group
    on_both, on_increments = (
        ([rep.rho(h).dense() for h in group.discrete], [rep.drho(a).dense() for a in group.algebra])
        for rep in (symmetry.rep_in, symmetry.rep_out)
    )
    discrete, algebra = on_both
    moves = [*on_increments[0], *on_increments[1]]
    for m, moved in zip([*discrete, *algebra], moves, strict=True):
        whole = m.clone()
        whole[:n, :n] -= moved
        if bool(whole[:n].any()) or bool(m[n:, :n].any()):
            raise ValueError(
                "expected a symmetry that moves s and s′ − s equally and keeps actions apart, got "
                f"{finding.name!r}"
            )
    return n, discrete, algebra


@dataclass(frozen=True)
class EntryLayout:
    """The parts of an observation or an action, and the places of their entries.

    Args:
        parts: The parts; those without places of their own fill the free ones in order.

    Raises:
        ValueError: If two parts have one name or one place, or places are left free.

    Example:
        >>> from isotropy.rl import hinge, mirror, scalar
        >>> layout = EntryLayout(
        ...     [scalar("height"), hinge("left knee", "y"), hinge("right knee", "y")]
        ... )
        >>> layout.matrix(mirror("y"))
        tensor([[1., 0., 0.],
                [0., 0., 1.],
                [0., 1., 0.]], dtype=torch.float64)
    """

    parts: tuple[Part, ...]

    def __init__(self, parts: Iterable[Part | Sequence[Part]]) -> None:
        flat = _flat(parts)
        names = [part.name for part in flat]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"expected a name of its own for every part, got {twice[0]!r} twice")
        object.__setattr__(self, "parts", tuple(flat))
        taken = [place for part in flat for place in part.at or ()]
        if len(set(taken)) != len(taken) or any(place >= self.size for place in taken):
            raise ValueError(
                f"expected every place below {self.size} once, got parts at {sorted(taken)}"
            )

    @property
    def size(self) -> int:
        """The number of entries."""
        return sum(part.size for part in self.parts)

    def places(self) -> dict[str, tuple[int, ...]]:
        """The places of each part's entries, by its name."""
        taken = {place for part in self.parts for place in part.at or ()}
        free = iter(place for place in range(self.size) if place not in taken)
        return {
            part.name: part.at or tuple(next(free) for _ in range(part.size)) for part in self.parts
        }

    @property
    def entry_names(self) -> tuple[str, ...]:
        """A name for each entry, in order."""
        names = [""] * self.size
        places = self.places()
        for part in self.parts:
            for place, name in zip(places[part.name], part.entry_names, strict=True):
                names[place] = name
        return tuple(names)

    def matrix(self, transformation: Transformation) -> Tensor:
        """How a transformation acts: ρ(g), or dρ(A) of a continuous one, (size, size).

        Raises:
            ValueError: If it takes a part to one that is not there or does not fit, or two to one,
                mixes axes of which some are missing, or mirrors the body without its world.
        """
        by_name, places = {part.name: part for part in self.parts}, self.places()
        in_any_case = {part.name.casefold(): part for part in self.parts}
        if transformation.usual:
            transformation = transformation.among(by_name)
        found = torch.zeros(self.size, self.size, dtype=torch.float64)
        made_of: dict[str, str] = {}
        for part in self.parts:
            name = transformation.renamed(part.name)
            target = by_name.get(name) or in_any_case.get(name.casefold())
            if target is None or (target.kind, target.size) != (part.kind, part.size):
                got = "no such part" if target is None else f"a {target.kind} of {target.size}"
                raise ValueError(
                    f"expected a {part.kind} of size {part.size} called {name!r}, which "
                    f"{transformation.name!r} makes of {part.name!r}, got {got}"
                )
            other = made_of.setdefault(target.name, part.name)
            if other != part.name:
                raise ValueError(
                    f"expected {transformation.name!r} to make different parts of different ones, "
                    f"got {target.name!r} of both {other!r} and {part.name!r}"
                )
            rows, columns = torch.tensor(places[target.name]), torch.tensor(places[part.name])
            found[rows[:, None], columns] = _block(part, target, transformation)
        return found


def _flat(parts: Iterable[Part | Sequence[Part]]) -> list[Part]:
    """Parts one after another, or an error that shows what is none."""
    flat: list[Part] = []
    for part in parts:
        flat += part if isinstance(part, list | tuple) else [cast(Part, part)]
    wrong = [part for part in flat if not isinstance(part, Part)]
    if wrong or not flat:
        got = repr(wrong[0]) if wrong else "none"
        raise ValueError(f"expected a list of parts such as scalar(...) or vector(...), got {got}")
    return flat


def _block(part: Part, target: Part, transformation: Transformation) -> Tensor:
    """The new entries of one part from the old ones of another."""
    if part.kind in ("scalar", "choice"):
        return torch.full((1, 1), 0.0 if transformation.continuous else 1.0, dtype=torch.float64)
    if part.kind == "quaternion":
        return _on_quaternions(transformation)
    world, body = transformation.matrices
    turn = world if part.frame == "world" else body
    if part.kind != "vector" and not transformation.continuous:
        turn = turn * torch.linalg.det(turn).round()
    old = torch.tensor(part.axes, dtype=torch.float64)
    new = torch.tensor(target.axes, dtype=torch.float64)
    block = new @ turn @ old.mT
    kept = block.mT @ block if not transformation.continuous else block @ block.mT
    wanted = (
        torch.eye(len(old), dtype=torch.float64)
        if not transformation.continuous
        else new @ turn @ turn.mT @ new.mT
    )
    if float((kept - wanted).abs().max()) > _SAME:
        raise ValueError(_why_not(part, target, transformation, turn @ old.mT))
    # no rounding where a quarter turn has none
    block = torch.where((block - block.round()).abs() < 1e-14, block.round() + 0.0, block)
    if part.kind != "direction":
        return block
    unchanged = 0.0 if transformation.continuous else 1.0
    return torch.diag(torch.stack([block.new_tensor(unchanged), block[0, 0]]))


def _why_not(part: Part, target: Part, transformation: Transformation, images: Tensor) -> str:
    if part.kind in ("hinge", "direction"):
        image = " ".join(f"{value:.2g}" for value in images[:, 0].tolist())
        axis = " ".join(f"{value:.2g}" for value in target.axes[0])
        return (
            f"expected {target.name!r} to turn about ±({image}), where {transformation.name!r} "
            f"takes the axis of {part.name!r}, got ({axis})"
        )
    return (
        f"expected {part.name!r} with all axes that {transformation.name!r} mixes, got only "
        f"{len(part.axes)}"
    )


def _on_quaternions(transformation: Transformation) -> Tensor:
    """Q' = W Q Bᵀ as q' = w q b⁻¹; a mirror counts as −1 times a turn on either side."""
    world, body = transformation.matrices
    if transformation.continuous:
        omega = [world[2, 1], world[0, 2], world[1, 0]]
        nu = [body[2, 1], body[0, 2], body[1, 0]]
        zero = torch.zeros((), dtype=torch.float64)
        return (_left(torch.stack([zero, *omega])) - _right(torch.stack([zero, *nu]))) / 2
    signs = torch.linalg.det(world).round(), torch.linalg.det(body).round()
    if signs[0] != signs[1]:
        raise ValueError(
            "expected a transformation that mirrors both body and world or neither, for a part "
            f"that is an orientation, got {transformation.name!r}"
        )
    first, second = (
        _as_quaternion(sign * turn) for sign, turn in zip(signs, (world, body), strict=True)
    )
    back = second * torch.tensor([1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
    return _left(first) @ _right(back)


def _as_quaternion(turn: Tensor) -> Tensor:
    x, y, z, w = Rotation.from_matrix(turn.numpy()).as_quat()
    found = np.array([w, x, y, z])
    # the largest entry positive: one of the two quaternions, the same everywhere
    found *= np.sign(found[np.abs(found).argmax()])
    return torch.from_numpy(
        np.where(np.abs(found - found.round()) < 1e-15, found.round(), found) + 0.0
    )


def _left(q: Tensor) -> Tensor:
    """The matrix of p ↦ q p."""
    w, x, y, z = q.tolist()
    rows = [[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]]
    return torch.tensor(rows, dtype=torch.float64)


def _right(q: Tensor) -> Tensor:
    """The matrix of p ↦ p q."""
    w, x, y, z = q.tolist()
    rows = [[w, -x, -y, -z], [x, w, z, -y], [y, -z, w, x], [z, y, -x, w]]
    return torch.tensor(rows, dtype=torch.float64)
