"""The equivariant multilayer perceptron (thesis 2.6, Figure 2.4)."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.bases import equivariant_basis
from isotropy.groups import Group, parse_group
from isotropy.nn._bilinear import BiLinear, contractions
from isotropy.nn._coordinates import Coordinates, Parts
from isotropy.nn._linear import Linear
from isotropy.nn._module import EquivariantModule, bound
from isotropy.nn._nonlinearities import GatedNonlinearity, NormNonlinearity, gated, is_permutation
from isotropy.nn._schur_frames import SchurFrame, frame_of
from isotropy.nn._schur_weights import SchurWeights
from isotropy.nn._soft_layers import Slot, SoftFrameLinear, soft_gated
from isotropy.nn._uniform_rep import uniform_rep
from isotropy.reps import Rep, Scalar
from isotropy.reps._layout import LayoutTerm, layout_of, without_duals

Nonlinearity = Literal["gated", "norm"]
_NO_CHANGE = 1e-12
GAIN = 0.5  # linear parts start small beside the products, as in the reference


class EMLPBlock(EquivariantModule):
    """One hidden layer: linear, plus what bilinear makes of it, through a nonlinearity.

    Args:
        rep_in: How the group acts on inputs.
        rep_out: How it acts on outputs.
        group: The group; not needed where the representations have theirs.
        bilinear: Whether to add the bilinear layer (where any object can act on another).
        nonlinearity: "gated", or "norm" for groups that preserve lengths.
        device: Where the parameters live.
        dtype: Their precision.

    Example:
        >>> import torch
        >>> from isotropy.groups import SO
        >>> from isotropy.reps import Scalar, V
        >>> block = EMLPBlock(2 * V, 8 * Scalar + 4 * V, SO(3))
        >>> block(torch.randn(5, 6)).shape
        torch.Size([5, 20])
    """

    def __init__(
        self,
        rep_in: Rep | str,
        rep_out: Rep | str,
        group: Group | str | None = None,
        *,
        bilinear: bool = True,
        nonlinearity: Nonlinearity = "gated",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        _frame: SchurFrame | None = None,
        _targets: Collection[Rep] | None = None,
    ) -> None:
        rep_in, rep_out = bound(rep_in, rep_out, group)
        super().__init__(rep_in, rep_out)
        if nonlinearity == "gated":
            before: Rep = gated(rep_out)
            self.nonlinearity: EquivariantModule = GatedNonlinearity(rep_out)
        elif nonlinearity == "norm":
            before = rep_out
            self.nonlinearity = NormNonlinearity(rep_out, device=device, dtype=dtype)
        else:
            raise ValueError(f"expected a nonlinearity 'gated' or 'norm', got {nonlinearity!r}")
        kind: dict[str, Any] = {"device": device, "dtype": dtype, "_frame": _frame}
        self.linear = Linear(rep_in, before, _gain=GAIN, **kind)
        layout = layout_of(without_duals(rep_out))
        self.bilinear: BiLinear | None = None
        if bilinear and contractions(layout, layout, _targets):
            self.bilinear = BiLinear(rep_out, rep_out, _targets=_targets, **kind)
        self.gates = before.size() - rep_out.size()
        if _frame is not None:
            self._set_frame(_frame)
        self.to(device)

    def _set_frame(self, frame: SchurFrame) -> None:
        """Prepare for features by kind of piece; gates are the first columns of the trivial."""
        self.coordinates = Coordinates(self.rep_out, frame)
        self.gated_terms = [
            t for t, term in enumerate(self.coordinates.terms) if not is_permutation(term.rep)
        ]
        self.gate_counts = [self.coordinates.terms[t].count for t in self.gated_terms]
        before = self.linear.weight_space
        assert isinstance(before, SchurWeights)
        own = {term.rep: t for t, term in enumerate(self.coordinates.terms)}
        # by term, as the linear layer has them: its scalars are first the gates, then ours
        self.slots: list[Slot] = []
        for rep in (term.rep for term in before.out.terms):
            if rep == Scalar:
                self.slots += map(Slot, self.gate_counts, self.gated_terms, repeat(True))
            if rep in own:
                width = self.coordinates.terms[own[rep]].width
                self.slots.append(Slot(width, own[rep], is_gate=False))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block along the last axis, shape (*, in_features) to (*, out_features)."""
        y = self.linear(x)
        if self.bilinear is not None:
            gates, values = y.split([self.gates, self.out_features], -1)
            y = torch.cat([gates, values + self.bilinear(values)], -1)
        return self.nonlinearity(y)  # type: ignore[no-any-return]

    def on_parts(
        self, parts: Parts, lead: Sequence[int], kinds: Sequence[int] | None = None
    ) -> Parts:
        """The same in the coordinates of the frame.

        Args:
            parts: The features.
            lead: The shape that their rows had.
            kinds: Those that are wanted of the output; all where None.
        """
        y = self.linear.on_parts(parts, lead)
        own = y[0].shape[-1] - self.gates
        *gates, trivial = y[0].split([*self.gate_counts, own], -1)
        space = self.coordinates
        wanted = space.kinds if kinds is None else [k for k in space.kinds if k in kinds]
        objects = space.objects({k: trivial if k == 0 else y[k] for k in space.kinds})
        terms = sorted({s.term for k in wanted for s in space.by_kind[k]})
        sums = {t: objects[t] for t in terms}
        if self.bilinear is not None:
            self.bilinear.add(objects, sums, lead, in_frame=True)
        gate_of = dict(zip(self.gated_terms, gates, strict=True))
        for t in terms:
            if t in gate_of:
                sums[t] = sums[t] * gate_of[t].sigmoid()
            else:
                sums[t] = functional.silu(sums[t])
        return space.gathered(sums, wanted)

    def on_flat(self, x: Tensor, lead: Sequence[int]) -> Tensor:
        """The same on flat features of a softened network, shape (rows, in) to (rows, out).

        Args:
            x: The features.
            lead: The shape that their rows had.
        """
        linear: Any = self.linear
        y = linear.on_flat(x, lead)
        space, slots = self.coordinates, self.slots
        objects, gates = {}, {}
        for slot, part in zip(slots, y.split([slot.width for slot in slots], -1), strict=True):
            term = space.terms[slot.term]
            if slot.is_gate:
                gates[slot.term] = part
            else:
                objects[slot.term] = part.unflatten(-1, (term.size, term.count))
        in_order = [objects[t] for t in range(len(space.terms))]
        sums = dict(enumerate(in_order))
        if self.bilinear is not None:
            self.bilinear.add(in_order, sums, lead, in_frame=True)
        return soft_gated(self.nonlinearity, sums, gates, lead)


class EMLP(EquivariantModule):
    """An equivariant multilayer perceptron for any matrix group (thesis 2.6).

    Args:
        rep_in: How the group acts on inputs; a representation, or its text.
        rep_out: How it acts on outputs.
        group: The group, or its text; not needed where the representations have theirs.
        channels: The width of the hidden layers, shared out by ``uniform_rep``; or the hidden
            representation; or a list with one of either for each hidden layer.
        layers: The number of hidden layers: as many as ``channels`` lists, else 3.
        bilinear: Whether hidden layers have their bilinear part. Without it most groups leave
            the network unable to form an inner product (thesis A.1.4).
        nonlinearity: "gated", or "norm" for groups that preserve lengths.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If a layer would be zero: two of its spaces have no equivariant map between
            them, or part of the output cannot depend on the last hidden layer.

    Example:
        >>> import torch
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> model = EMLP(5 * Scalar + 5 * V, V * V, group=O(3), channels=48, layers=2)
        >>> model(torch.randn(7, 20)).shape
        torch.Size([7, 9])
        >>> print(model.symmetry)
        O(3): 5*Scalar+5*V >> T(2)
    """

    def __init__(
        self,
        rep_in: Rep | str,
        rep_out: Rep | str,
        group: Group | str | None = None,
        *,
        channels: int | Rep | Sequence[int | Rep] = 384,
        layers: int | None = None,
        bilinear: bool = True,
        nonlinearity: Nonlinearity = "gated",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        rep_in, rep_out = bound(rep_in, rep_out, group)
        super().__init__(rep_in, rep_out)
        if group is None:
            group = self.symmetry.group
        elif isinstance(group, str):
            group = parse_group(group)
        hidden = _hidden(channels, layers, group)
        spaces = [rep_in, *hidden]
        frame = frame_of([*spaces, rep_out]) if nonlinearity == "gated" else None
        kind: dict[str, Any] = {"device": device, "dtype": dtype, "_frame": frame}
        kind.update(bilinear=bilinear, nonlinearity=nonlinearity)
        # no weights in the last block whose products would go nowhere
        targets = [None] * (len(hidden) - 1) + [_leading_to(rep_out, hidden[-1])]
        self.blocks = nn.ModuleList(
            EMLPBlock(before, after, _targets=wanted, **kind)
            for before, after, wanted in zip(spaces, hidden, targets, strict=False)
        )
        self.head = Linear(
            spaces[-1], rep_out, device=device, dtype=dtype, _frame=frame, _gain=GAIN
        )
        self.has_frame = frame is not None
        if bilinear:  # without it, much is constant and meant to be seen so
            self._require_dependence()

    @torch.no_grad()
    def _require_dependence(self) -> None:
        """Refuse a network with a part of the output that no input can change."""
        if self.head.coefficients.is_meta:
            return
        trial = copy.deepcopy(self).cpu().double()
        rng = torch.Generator().manual_seed(0)
        for module in trial.modules():
            if isinstance(module, Linear):
                for part in (module.coefficients, module.bias_coefficients):
                    if part is not None:
                        fan_in = max(1.0, float(module.weight_space.row_counts().double().mean()))
                        part.copy_(torch.randn(len(part), generator=rng) / fan_in**0.5)
        x = torch.randn(4, self.in_features, dtype=torch.float64, generator=rng)
        y = trial(x)
        change = (y - y[:1]).abs().amax(0)
        for term in layout_of(without_duals(self.rep_out)).terms:
            if float(change[_columns(self.rep_out, term)].max()) < _NO_CHANGE:
                raise ValueError(
                    f"expected an output that depends on the input, got {self.rep_in} to "
                    f"{self.rep_out} through {self.head.rep_in}, where no input changes "
                    f"{term.rep}: give hidden representations that lead there (channels=...)"
                )

    def _dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def forward(self, x: Tensor) -> Tensor:
        """Apply the network along the last axis, shape (*, in_features) to (*, out_features)."""
        self._require_width(x)
        if not self.has_frame:
            for block in self.blocks:
                x = block(x)
            return self.head(x)  # type: ignore[no-any-return]
        if isinstance(self.head, SoftFrameLinear):
            return self._softly(x)
        blocks: list[Any] = list(self.blocks)
        into, out = blocks[0].linear.weight_space.into, self.head.weight_space
        assert isinstance(out, SchurWeights)
        lead = x.shape[:-1]
        parts = into.parts(x.reshape(-1, self.in_features))
        for block in blocks[:-1]:
            parts = block.on_parts(parts, lead)
        parts = blocks[-1].on_parts(parts, lead, out.kinds)  # the rest would go nowhere
        y = out.out.rows(self.head.on_parts(parts, lead))
        return y.reshape(*lead, self.out_features)

    def _softly(self, x: Tensor) -> Tensor:
        """Apply a softened network, on flat features throughout."""
        blocks: list[Any] = list(self.blocks)
        head: Any = self.head
        lead = x.shape[:-1]
        flat = blocks[0].linear.free.into.flat(x.reshape(-1, self.in_features))
        for block in blocks:
            flat = block.on_flat(flat, lead)
        flat = head.on_flat(flat, lead)
        rows: Tensor = head.free.out.rows(flat)
        return rows.reshape(*lead, self.out_features)


def _columns(rep: Rep, term: LayoutTerm) -> Tensor:
    """Where the copies of a term stand among the columns of a space."""
    order = layout_of(without_duals(rep)).order
    places = torch.arange(term.offset, term.offset + term.width)
    return places if order is None else order[places]


def _leading_to(rep_out: Rep, hidden: Rep) -> set[Rep]:
    """The terms of a hidden space that have equivariant maps to the output."""
    outputs = [term.rep for term in layout_of(without_duals(rep_out)).terms]
    return {
        term.rep
        for term in layout_of(without_duals(hidden)).terms
        if any(equivariant_basis(term.rep >> output).rank for output in outputs)
    }


def _hidden(
    channels: int | Rep | Sequence[int | Rep], layers: int | None, group: Group
) -> list[Rep]:
    if isinstance(channels, int | Rep):
        layers = 3 if layers is None else layers
        if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
            raise ValueError(f"expected at least one hidden layer, got {layers!r}")
        channels = [channels] * layers
    if not isinstance(channels, Sequence) or isinstance(channels, str):
        raise ValueError(
            "expected channels as a number, a representation or a list of these, "
            f"got {channels!r:.80}"
        )
    if len(channels) == 0 or layers not in (None, len(channels)):
        raise ValueError(
            f"expected channels for each of {layers or 'one or more'} hidden layers, "
            f"got a list of {len(channels)}"
        )
    return [c(group) if isinstance(c, Rep) else uniform_rep(c, group) for c in channels]
