"""Representations from escnn, and back; escnn's objects are taken by their interface."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy.linalg import expm, logm
from scipy.spatial.transform import Rotation
from torch import Tensor

from isotropy._run import require_memory
from isotropy.groups import SO, Dense, Group, LinearMap, Monomial, O
from isotropy.groups._given import as_linear_map
from isotropy.groups._maps import Zero, digest
from isotropy.reps._leaves import Leaf
from isotropy.reps._rep import Key, Rep

_CONTINUOUS: dict[str, type[SO] | type[O]] = {"SO": SO, "O": O}


class TabledRep(Leaf):
    """A representation of a finite group that permutes its own elements, from a table.

    Args:
        name: What it is called.
        table: ρ of each element, shape (|G|, m, m), in the order of the points that the group
            permutes.
        identity: Which point is the identity: g is the point that the identity goes to.
        group: The group, of permutations of |G| points.
    """

    def __init__(self, name: str, table: Tensor, identity: int, group: Group) -> None:
        super().__init__(group, dual=False)
        self.name = name
        self.table = table
        self.identity = identity

    def _name(self) -> str:
        return self.name

    def _with(self, group: Group | None, *, dual: bool) -> TabledRep:
        del dual  # T says what the dual is
        return TabledRep(self.name, self.table, self.identity, group or self._bound_group())

    @property
    def T(self) -> Rep:
        dual = torch.linalg.inv(self.table).mT.contiguous()
        if bool((dual - self.table).abs().max() < 1e-12):
            return self  # orthogonal
        return TabledRep(_dual_name(self.name), dual, self.identity, self._bound_group())

    def size(self) -> int:
        return self.table.shape[-1]

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        element = self._part(g).monomial()
        if element is None or element.sign is not None:
            raise ValueError(f"expected a permutation of {len(self.table)} points as an element")
        images = self.table[element.index[..., self.identity]]
        return as_linear_map(images) if images.ndim == 2 else _as_batch(images)

    def _drho(self, _a: Mapping[Group, LinearMap]) -> LinearMap:
        return Zero(self.size())

    def _key(self) -> Key:
        value = digest(str(tuple(self.table.shape)).encode(), self.table.numpy().tobytes())
        return (*self._kind(), self.identity, value, self.leaf_group)


class IntegratedRep(Leaf):
    """A representation of SO(n) or O(n), n = 2 or 3, from what it does to the Lie algebra.

    ρ(exp A) = exp dρ(A), and ρ(h exp A) = ρ(h) exp dρ(A) for the reflection h of O(n).

    Args:
        name: What it is called.
        algebra: dρ of the basis of so(n) that ``SO(n).algebra`` is, shape (n(n-1)/2, m, m).
        reflection: ρ(h) of ``O(n).discrete[0]``, shape (m, m); None for SO(n).
        group: SO(n), O(n) or a subgroup.
    """

    def __init__(self, name: str, algebra: Tensor, reflection: Tensor | None, group: Group) -> None:
        super().__init__(group, dual=False)
        self.name = name
        self.algebra = algebra
        self.reflection = reflection

    def _name(self) -> str:
        return self.name

    def _with(self, group: Group | None, *, dual: bool) -> IntegratedRep:
        del dual  # T says what the dual is
        return IntegratedRep(self.name, self.algebra, self.reflection, group or self._bound_group())

    @property
    def T(self) -> Rep:
        if bool((self.algebra + self.algebra.mT).abs().max() < 1e-9):
            return self  # orthogonal
        flip = None if self.reflection is None else torch.linalg.inv(self.reflection).mT
        return IntegratedRep(
            _dual_name(self.name), -self.algebra.mT.contiguous(), flip, self._bound_group()
        )

    def size(self) -> int:
        return self.algebra.shape[-1]

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        matrices = self._part(g).dense()
        mirrored = torch.linalg.det(matrices) < 0
        if self.reflection is not None:
            mirror = O(matrices.shape[-1]).discrete[0].dense()
            matrices = torch.where(mirrored[..., None, None], mirror @ matrices, matrices)
        elif bool(mirrored.any()):
            raise ValueError(f"expected a rotation for {self.name}, got a reflection")
        images = torch.linalg.matrix_exp(self._combined(_logarithm(matrices)))
        if self.reflection is not None:
            images = torch.where(mirrored[..., None, None], self.reflection @ images, images)
        return Dense(images)

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        return Dense(self._combined(self._part(a).dense()))

    def _combined(self, a: Tensor) -> Tensor:
        """dρ of a skew matrix, through its coordinates in the basis of so(n)."""
        basis = torch.stack([b.dense() for b in SO(a.shape[-1]).algebra])
        coordinates = torch.einsum("...ij,kij->...k", a, basis) / basis.square().sum((-1, -2))
        return torch.einsum("...k,kmn->...mn", coordinates, self.algebra)

    def _key(self) -> Key:
        parts = [self.algebra, *([] if self.reflection is None else [self.reflection])]
        value = digest(*(part.contiguous().numpy().tobytes() for part in parts))
        return (*self._kind(), tuple(self.algebra.shape), value, self.leaf_group)


def from_escnn(representation: Any) -> Rep:
    """The representation that an escnn ``Representation`` is, of a group of ours.

    A finite group becomes the permutations g ↦ (e ↦ g e) of its own list of elements, so that
    ``V`` is its regular representation; SO(2), O(2), SO(3) and O(3) become ours. Two
    representations of one escnn group are of one group here, and combine.

    Args:
        representation: Called with an element it gives a matrix; ``size``, ``group``, and of
            the group ``name``, ``continuous``, ``elements``, ``generators``, ``identity``
            (finite) or ``element(value, "MAT")`` (continuous) are read.

    Raises:
        TypeError: If it is no such object.
        ValueError: If the group is another continuous one, or the matrices are no
            representation.

    Example:
        >>> from types import SimpleNamespace
        >>> class Turn(int):  # stands for an element of escnn's cyclic group
        ...     def __matmul__(self, other):
        ...         return Turn((self + other) % 4)
        >>> turns = [Turn(k) for k in range(4)]
        >>> c4 = SimpleNamespace(
        ...     name="C4",
        ...     continuous=False,
        ...     elements=turns,
        ...     generators=turns[1:2],
        ...     identity=turns[0],
        ... )
        >>> def sign(turn):
        ...     return [[(-1) ** turn]]
        >>> sign.name, sign.size, sign.group = "sign", 1, c4
        >>> rep = from_escnn(sign)
        >>> rep.rho(rep.group.discrete[0]).dense()
        tensor([[-1.]], dtype=torch.float64)
    """
    group = getattr(representation, "group", None)
    if not callable(representation) or group is None or not hasattr(group, "continuous"):
        raise TypeError(f"expected an escnn representation, got {type(representation).__name__}")
    name = _identifier(str(getattr(representation, "name", "escnn")))
    if group.continuous:
        return _from_continuous(representation, name)
    ours = _permutations(group)
    elements = list(group.elements)
    size = int(representation.size)
    require_memory(
        8 * len(elements) * size**2, f"a table of {len(elements)} matrices", "split it into parts"
    )
    table = torch.stack([_matrix(representation, e, size) for e in elements])
    identity = _places(elements)[group.identity]
    rep = TabledRep(name, table, identity, ours)
    for h in ours.discrete:  # ρ(h e) = ρ(h) ρ(e) for all e: a homomorphism
        _require_small(table[_index(h)] - rep.rho(h).dense() @ table, name)
    _require_small(table[identity] - torch.eye(size, dtype=torch.float64), name)
    return rep


def to_escnn(rep: Rep, group: Any, *, name: str | None = None) -> Any:
    """An escnn ``Representation`` of a finite escnn group, from a representation of ours.

    Args:
        rep: Real, of the group that ``from_escnn`` makes of ``group``.
        group: The escnn group.
        name: What escnn calls it; the text of ``rep`` where none is given.

    Raises:
        TypeError: If it is no representation.
        ValueError: If the group is continuous, or not the one that ``rep`` is of.
        ImportError: If escnn is not installed.

    Example:
        >>> from escnn.group import cyclic_group  # doctest: +SKIP
        >>> group = cyclic_group(4)  # doctest: +SKIP
        >>> sign = from_escnn(group.irrep(2))  # doctest: +SKIP
        >>> to_escnn(sign * sign + sign, group).irreps  # doctest: +SKIP
        [(0,), (2,)]
    """
    if not isinstance(rep, Rep):
        raise TypeError(f"expected a representation, got {type(rep).__name__}")
    if getattr(group, "continuous", True):
        raise ValueError(f"expected a finite escnn group, got {getattr(group, 'name', group)!r}")
    ours = _permutations(group)
    if rep.group not in (None, ours):
        raise ValueError(
            f"expected a representation of the permutations of {group.name}'s own elements, as "
            f"from_escnn gives, got one of {rep.group!s:.80}"
        )
    bound = rep(ours)
    if bound.is_complex:
        raise ValueError(f"expected a real representation, got {rep!s:.80}")
    elements = list(group.elements)
    images = {
        e: (
            bound.rho(Monomial(_multiplied(e, elements))).dense().numpy()
            if bound.groups
            else np.eye(bound.size())
        )
        for e in elements
    }
    escnn = importlib.import_module("escnn.group.representation")
    return escnn.build_from_discrete_group_representation(
        images, name or bound._text(ours), group, []
    )


def _permutations(group: Any) -> Group:
    elements = list(group.elements)
    generators = [_multiplied(h, elements) for h in group.generators]
    return Group(generators, d=len(elements), name=str(group.name) + ", acting on itself")


def _places(elements: list[Any]) -> dict[Any, int]:
    return {e: i for i, e in enumerate(elements)}


def _multiplied(g: Any, elements: list[Any]) -> Tensor:
    """The permutation e ↦ g e of a list of all elements."""
    places = _places(elements)
    return torch.tensor([places[g @ e] for e in elements])


def _index(h: LinearMap) -> Tensor:
    permutation = h.monomial()
    assert permutation is not None
    return permutation.index


def _matrix(representation: Any, element: Any, size: int) -> Tensor:
    matrix = torch.from_numpy(np.array(representation(element), dtype=np.float64))
    if matrix.shape != (size, size):
        raise ValueError(
            f"expected matrices of shape ({size}, {size}) from the representation, "
            f"got {tuple(matrix.shape)}"
        )
    # escnn writes permutations with rounding error; our solvers know exact ones
    rounded = matrix.round()
    return rounded if bool((matrix - rounded).abs().max() < 1e-12) else matrix


def _as_batch(images: Tensor) -> LinearMap:
    """A batch of signed permutations where all are, else of matrices."""
    single = [as_linear_map(m).monomial() for m in images.reshape(-1, *images.shape[-2:])]
    found = [m for m in single if m is not None]
    if not found or len(found) < len(single):
        return Dense(images)
    index = torch.stack([m.index for m in found])
    sign = torch.stack([torch.ones_like(m.index) if m.sign is None else m.sign for m in found])
    shape = images.shape[:-1]
    return Monomial(index.reshape(shape), sign.reshape(shape))


def _from_continuous(representation: Any, name: str) -> Rep:
    group = representation.group
    family, _, dimension = str(group.name).rstrip(")").partition("(")
    if family not in _CONTINUOUS or dimension not in ("2", "3"):
        raise ValueError(
            f"expected a finite group, SO(2), O(2), SO(3) or O(3) from escnn, got {group.name!r}"
        )
    n, has_reflections = int(dimension), family == "O"

    def at(rotation: np.ndarray[Any, Any], flip: int = 0) -> np.ndarray[Any, Any]:
        value = (flip, rotation) if has_reflections else rotation
        image = representation(group.element(value, "MAT"))
        return np.asarray(image, dtype=np.float64)

    # escnn's flip is diag(1, -1) in the plane and the inversion -1 in space, after the rotation
    flip = np.diag([1.0, -1.0]) if n == 2 else -np.eye(3)
    _require_small(torch.from_numpy(at(np.eye(n)) - np.eye(int(representation.size))), name)

    def derivative(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return _derivative(lambda t: at(expm(t * a)), name)

    algebra = torch.from_numpy(np.stack([derivative(a.dense().numpy()) for a in SO(n).algebra]))
    mirror = O(n).discrete[0].dense().numpy()
    reflection = torch.from_numpy(at(mirror @ flip, 1)) if has_reflections else None
    rep = IntegratedRep(name, algebra, reflection, _CONTINUOUS[family](n))
    for g in SO(n).sample(2, generator=0).dense():
        _require_small(rep.rho(g).dense() - torch.from_numpy(at(g.numpy())), name)
        if has_reflections:
            mirrored = torch.from_numpy(at(g.numpy(), 1))
            _require_small(rep.rho(g @ torch.from_numpy(flip)).dense() - mirrored, name)
    return rep


def _derivative(curve: Callable[[float], np.ndarray[Any, Any]], name: str) -> np.ndarray[Any, Any]:
    """dρ(A) from t ↦ ρ(exp tA): its logarithm at a t before the fastest rotation turns over."""
    apart = 0.6180339887498949  # no multiple of a step: aliases of the rotation differ there
    there = curve(apart)
    for halvings in range(4, 12):
        step = 0.5**halvings
        tangent: np.ndarray[Any, Any] = np.real(logm(curve(step))) / step
        if np.abs(expm(apart * tangent) - there).max() < 1e-9:
            return tangent
    raise ValueError(f"expected {name} to be a smooth representation, got no Lie algebra for it")


def _logarithm(rotations: Tensor) -> Tensor:
    """Skew matrices whose exponentials are the given rotations of the plane or of space."""
    n = rotations.shape[-1]
    if n == 2:
        angle = torch.atan2(rotations[..., 1, 0], rotations[..., 0, 0])
        zero = torch.zeros_like(angle)
        return torch.stack([zero, -angle, angle, zero], -1).reshape(rotations.shape)
    flat = rotations.reshape(-1, 3, 3).numpy()
    vectors = torch.from_numpy(Rotation.from_matrix(flat).as_rotvec())
    eye = torch.eye(3, dtype=torch.float64).expand(len(vectors), 3, 3)
    crossed: Tensor = torch.linalg.cross(vectors.unsqueeze(1).expand_as(eye), eye)
    return crossed.mT.reshape(rotations.shape)


def _require_small(error: Tensor, name: str) -> None:
    worst = float(error.abs().max())
    if worst > 1e-8:
        raise ValueError(
            f"expected {name} to be a representation, ρ(gh) = ρ(g)ρ(h), got an error of {worst:.1e}"
        )


def _identifier(name: str) -> str:
    cleaned = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return cleaned if cleaned[:1].isalpha() else f"escnn_{cleaned}"


def _dual_name(name: str) -> str:
    return name.removesuffix("_dual") if name.endswith("_dual") else f"{name}_dual"
