"""The object that flows through the house: a group, its action on inputs and on outputs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from isotropy.groups import DirectProduct, Group, LinearMap
from isotropy.groups._finite import require_subgroup
from isotropy.groups._parse_group import read_group
from isotropy.groups._text import Reader
from isotropy.reps._elements import parts_of_element
from isotropy.reps._parse_rep import read_rep
from isotropy.reps._rep import Rep

_FORMAT = 1


@dataclass(frozen=True)
class Symmetry:
    """A symmetry of a learning task: f(ρ_in(g) x) = ρ_out(g) f(x) for every g of the group.

    Args:
        group: The group.
        rep_in: How it acts on inputs.
        rep_out: How it acts on outputs.

    Example:
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> symmetry = Symmetry(O(3), 5 * Scalar + 5 * V, V * V)
        >>> print(symmetry)
        O(3): 5*Scalar+5*V >> T(2)
        >>> Symmetry.parse(str(symmetry)) == symmetry
        True
    """

    group: Group
    rep_in: Rep
    rep_out: Rep

    def __post_init__(self) -> None:
        if not isinstance(self.group, Group):
            raise TypeError(f"expected a group, got {type(self.group).__name__}")
        for name, rep in (("rep_in", self.rep_in), ("rep_out", self.rep_out)):
            if not isinstance(rep, Rep):
                raise TypeError(f"expected a representation as {name}, got {type(rep).__name__}")
        object.__setattr__(self, "rep_in", self.rep_in(self.group))
        object.__setattr__(self, "rep_out", self.rep_out(self.group))

    @property
    def maps(self) -> Rep:
        """The representation on linear maps from inputs to outputs."""
        return self.rep_in >> self.rep_out

    def apply(self, g: LinearMap | Tensor | Any, x: Tensor) -> Tensor:
        """Transform inputs: ρ_in(g) x along the last axis.

        Args:
            g: An element of the group, or a batch of them, one for each row of ``x``.
            x: Inputs, shape (*, rep_in.size()).
        """
        return self._act(self.rep_in, g, x, "inputs")

    def apply_out(self, g: LinearMap | Tensor | Any, y: Tensor) -> Tensor:
        """Transform outputs: ρ_out(g) y along the last axis."""
        return self._act(self.rep_out, g, y, "outputs")

    def _act(self, rep: Rep, g: Any, x: Tensor, what: str) -> Tensor:
        x = torch.as_tensor(x)
        if x.ndim == 0 or x.shape[-1] != rep.size():
            raise ValueError(
                f"expected {what} of width {rep.size()} for {rep}, got shape {tuple(x.shape)}"
            )
        return rep._rho(parts_of_element(self.group, g)).apply(x)

    def restrict(self, subgroup: Group) -> Symmetry:
        """The same actions, of a subgroup only.

        Raises:
            ValueError: If it is seen not to be a subgroup.
        """
        require_subgroup(subgroup, self.group)
        replaced = {self.group: subgroup}
        if isinstance(self.group, DirectProduct) and isinstance(subgroup, DirectProduct):
            replaced.update(zip(self.group.factors, subgroup.factors, strict=True))
        return Symmetry(subgroup, self.rep_in._rebind(replaced), self.rep_out._rebind(replaced))

    def __str__(self) -> str:
        return f"{self.group}: {self.rep_in._text(self.group)} >> {self.rep_out._text(self.group)}"

    @staticmethod
    def parse(text: str, custom: dict[str, Rep] | None = None) -> Symmetry:
        """Read a symmetry as ``str`` writes it.

        Raises:
            ValueError: If it does not parse; the message says where.
        """
        reader = Reader(text, "symmetry")
        names = dict(custom or {})
        with reader.nesting():
            group = read_group(reader)
            reader.expect(":")
            rep_in = read_rep(reader, names, maps=False)
            reader.expect(">>")
            rep_out = read_rep(reader, names, maps=False)
        reader.finish()
        return Symmetry(group, rep_in, rep_out)

    def to_json(self) -> str:
        """One JSON object with the group and both representations as text.

        Raises:
            ValueError: If the group is given by operators, which have no text.
        """
        if not self.group.by_value:
            raise ValueError(f"expected a group that can be written down, got {self.group!r:.80}")
        return json.dumps(
            {
                "format": _FORMAT,
                "group": str(self.group),
                "rep_in": self.rep_in._text(self.group),
                "rep_out": self.rep_out._text(self.group),
            }
        )

    @staticmethod
    def from_json(text: str, custom: dict[str, Rep] | None = None) -> Symmetry:
        """Read what ``to_json`` wrote.

        Raises:
            ValueError: If it is not such an object.
        """
        try:
            given = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(
                f"expected a symmetry as JSON, got what is not: {error!s:.80}"
            ) from error
        if not isinstance(given, dict) or given.get("format") != _FORMAT:
            raise ValueError(f"expected a symmetry as JSON of format {_FORMAT}, got {text!r:.80}")
        missing = [k for k in ("group", "rep_in", "rep_out") if not isinstance(given.get(k), str)]
        if missing:
            raise ValueError(f"expected a symmetry with {', '.join(missing)}, got {text!r:.80}")
        return Symmetry.parse(f"{given['group']}: {given['rep_in']} >> {given['rep_out']}", custom)
