"""Group averaging: any model, made equivariant from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import generator as make_generator
from isotropy.equivariance._elements_to_try import all_elements
from isotropy.groups import LinearMap
from isotropy.reps import Rep, Symmetry
from isotropy.reps._elements import parts_of_element

LARGEST_EXACT = 1024
_DEFAULT_SAMPLES = 8
_LARGEST_DENSE = 2**26  # entries of all matrices of one action together
_LARGEST_CALL = 2**24  # numbers that go into, or come out of, one call of the model


class Symmetrised(nn.Module):
    """The average of a model over a group, which is equivariant whatever the model is.

        y(x) = mean over g of ρ_out(g)⁻¹ f(ρ_in(g) x).

    Over all elements of a finite group the mean is exact. Over random elements (Haar measure)
    it is an unbiased estimate of it, from new elements at each call in training, and from the
    same ones in evaluation, so that predictions repeat.

    Args:
        model: A module, or any function of tensors, that takes (rows, *, d_in) to
            (rows, *, d_out), row by row. It is called once with the rows of all elements, or,
            where these are many numbers and it is not compiled, with a few elements at a time.
        symmetry: The group, and how it acts on inputs and outputs.
        samples: The number of random elements; a group of no more elements is averaged exactly.
            By default exact up to 1024 elements, else 8.
        generator: Seed or generator of the random elements.

    Attributes:
        symmetry: The symmetry.
        exact: Whether the mean is over all elements.
        in_features: The width of inputs.
        out_features: The width of outputs.

    Raises:
        ValueError: If the group is not compact, so that it has no invariant mean.

    Example:
        >>> from isotropy.groups import S
        >>> from isotropy.reps import Scalar, V
        >>> model = Symmetrised(nn.Linear(3, 1), Symmetry(S(3), V, Scalar))
        >>> x = torch.randn(5, 3)
        >>> torch.allclose(model(x), model(x[:, [2, 0, 1]]), atol=1e-6)
        True
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        symmetry: Symmetry,
        *,
        samples: int | None = None,
        generator: torch.Generator | int | None = None,
    ) -> None:
        super().__init__()
        if not callable(model):
            raise TypeError(f"expected a module or a function, got {type(model).__name__}")
        if not isinstance(symmetry, Symmetry):
            raise TypeError(f"expected a symmetry, got {type(symmetry).__name__}")
        if samples is not None and (
            isinstance(samples, bool) or not isinstance(samples, int) or samples < 1
        ):
            raise ValueError(f"expected a positive number of samples or None, got {samples!r}")
        if not symmetry.group.is_compact:
            raise ValueError(
                f"expected a compact group, which has an invariant mean, got {symmetry.group!s:.80}"
            )
        self.model = model
        self.symmetry = symmetry
        self.in_features, self.out_features = symmetry.rep_in.size(), symmetry.rep_out.size()
        elements = all_elements(symmetry.group, LARGEST_EXACT if samples is None else samples)
        self.exact = elements is not None
        self.samples = len(elements) if elements is not None else samples or _DEFAULT_SAMPLES
        self._rng = make_generator(generator)
        if elements is None:
            elements = symmetry.group.sample(self.samples, generator=self._rng)
        like = next(self.parameters(), torch.empty(0))
        self._into, self._back = (action.like(like) for action in _actions(symmetry, elements))

    @property
    def rep_in(self) -> Rep:
        """How the group acts on inputs."""
        return self.symmetry.rep_in

    @property
    def rep_out(self) -> Rep:
        """How the group acts on outputs."""
        return self.symmetry.rep_out

    def forward(self, x: Tensor) -> Tensor:
        """The mean, shape (*, d_in) to (*, d_out)."""
        if x.shape[-1:] != (self.in_features,):
            raise ValueError(
                f"expected inputs of width {self.in_features} for {self.rep_in!s:.80}, "
                f"got shape {tuple(x.shape)}"
            )
        if not (x.is_floating_point() or x.is_complex()):
            raise TypeError(f"expected floating-point inputs, got {x.dtype}")
        into, back = self._into, self._back
        if self.training and not self.exact:
            drawn = self.symmetry.group.sample(self.samples, generator=self._rng)
            into, back = _actions(self.symmetry, drawn)
        rows = x if x.ndim > 1 else x.unsqueeze(0)
        step = self._elements_per_call(rows)
        total: Any = 0
        for start in range(0, self.samples, step):
            stop = min(start + step, self.samples)
            total = total + self._summed(rows, into, back, start, stop)
        mean: Tensor = total / self.samples
        return mean if x.ndim > 1 else mean.squeeze(0)

    def _elements_per_call(self, rows: Tensor) -> int:
        if torch.compiler.is_compiling():
            return self.samples  # one graph for all batch sizes
        each = rows.numel() // self.in_features * max(self.in_features, self.out_features)
        return max(1, _LARGEST_CALL // max(1, each))

    def _summed(self, x: Tensor, into: _Action, back: _Action, start: int, stop: int) -> Tensor:
        """The sum of ρ_out(g)⁻¹ f(ρ_in(g) x) over some of the elements."""
        # half a rotation in reduced precision would undo the equivariance
        with torch.autocast(x.device.type, enabled=False):
            moved = into(x.unsqueeze(0), start, stop)
        y = self.model(moved.flatten(0, 1))
        if y.shape[:1] != (moved.shape[0] * moved.shape[1],) or y.shape[-1] != self.out_features:
            raise ValueError(
                f"expected outputs of width {self.out_features} for {self.rep_out!s:.80}, one "
                f"for each of {moved.shape[0] * moved.shape[1]} rows, got shape {tuple(y.shape)}"
            )
        with torch.autocast(x.device.type, enabled=False):
            like = x.real if x.is_complex() and not y.is_complex() else x
            y = y.to(torch.promote_types(y.dtype, like.dtype)).unflatten(0, moved.shape[:2])
            summed: Tensor = back(y, start, stop).sum(0)
        return summed

    def extra_repr(self) -> str:
        """The symmetry and the number of elements, as ``print(model)`` shows them."""
        return f"{self.symmetry!s:.200}, {'all ' if self.exact else ''}{self.samples} elements"


class _Action(nn.Module):
    """Maps of all elements, with float64 masters from which each cast starts anew.

    Tensors of shape (elements or 1, rows, *, width) are mapped along the last axis. The maps
    are plain attributes: they follow from the symmetry, so a state dict has no place for them,
    and torch's own cast would drop imaginary parts.
    """

    def __init__(self, maps: LinearMap) -> None:
        super().__init__()
        self.maps: LinearMap | None = None
        self.source: Tensor | None = None
        self.sign: Tensor | None = None
        self.master: Tensor | None = None
        self.matrix: Tensor | None = None
        monomial = maps.monomial()
        if monomial is not None and monomial.is_identity:
            return  # scalars: nothing to do
        if monomial is not None:
            monomial = monomial.inverse()  # what is gathered: the place each entry comes from
            self.source, self.sign = monomial.index, monomial.sign
        elif maps.batch.numel() * maps.size**2 <= _LARGEST_DENSE:
            self.master = self.matrix = maps.dense()
        else:
            self.maps = maps

    def forward(self, x: Tensor, start: int, stop: int) -> Tensor:
        count = stop - start
        x = x.expand(count, *x.shape[1:])
        if self.source is not None:
            shape = (-1, *(1,) * (x.ndim - 2), x.shape[-1])
            source = _at(self.source, start, stop).to(x.device).reshape(shape)
            x = x.gather(-1, source.expand(x.shape))
            if self.sign is not None:
                x = x * _at(self.sign, start, stop).to(x).reshape(shape)
            return x
        if self.maps is not None:
            maps = self.maps.select(torch.arange(start, stop)) if self.maps.batch else self.maps
            return maps.unsqueeze(x.ndim - 2).apply(x)
        if self.matrix is None or self.master is None:
            return x
        dtype = x.dtype.to_complex() if self.master.is_complex() else x.dtype
        kept = self.matrix if self.matrix.dtype == dtype else self.master
        matrix = _at(kept, start, stop).to(x.device, dtype)
        images: Tensor = x.to(dtype).flatten(1, -2) @ matrix.mT
        return images.reshape(x.shape)

    def like(self, example: Tensor) -> _Action:
        """Itself, with working copies in an example's precision and place."""
        if self.master is not None:
            real = example.dtype.to_real() if example.is_floating_point() else torch.float64
            dtype = real.to_complex() if self.master.is_complex() else real
            self.matrix = self.master.to(example.device, dtype)
        if self.source is not None:
            self.source = self.source.to(example.device)
            self.sign = None if self.sign is None else self.sign.to(example.device)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> _Action:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        now = self.source if self.source is not None else self.matrix
        if now is None:
            return self
        dtype = now.dtype.to_real() if now.is_complex() else now.dtype
        # what the cast does is seen on a probe of the present kind
        probe = fn(torch.empty(1, device=now.device, dtype=dtype))
        return self.like(probe)


def _at(t: Tensor, start: int, stop: int) -> Tensor:
    return t if t.shape[0] == 1 else t[start:stop]


def _actions(symmetry: Symmetry, elements: LinearMap) -> tuple[_Action, _Action]:
    """Maps of inputs, and inverse maps of outputs."""
    parts = parts_of_element(symmetry.group, elements)
    into, out = symmetry.rep_in._rho(parts), symmetry.rep_out._rho(parts)
    return _Action(_batched(into)), _Action(_batched(out.inverse()))


def _batched(maps: LinearMap) -> LinearMap:
    """Maps with a batch dimension, be it of one: scalars are the same for all elements."""
    if maps.batch:
        return maps
    monomial = maps.monomial()
    assert monomial is not None
    return type(monomial)(monomial.index.unsqueeze(0))
