"""Augmentation by a symmetry: each row of a batch moved by a random group element of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate, get_worker_info

from isotropy._run import generator as make_generator
from isotropy.groups import LinearMap
from isotropy.reps import Rep, Symmetry


class Augment:
    """Replace each row (x, y) by (ρ_in(g) x, ρ_out(g) y), with g drawn anew for every row.

    The elements come from ``group.sample``: Haar measure for compact groups, and elements near
    the identity, times discrete generators, for others such as O(1,3). Transformations are made
    in double precision and cast back, so they add no error beyond that of storing the result.

    In the worker processes of a ``DataLoader`` the elements follow from this object's seed and
    the worker's, so that neither two workers nor two epochs repeat one another.

    Args:
        symmetry: The group and how it acts on inputs and on outputs.
        generator: A seed or a generator; the same seed gives the same sequence of batches.

    Raises:
        TypeError: If ``symmetry`` is not one.

    Example:
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> augment = Augment(Symmetry(O(3), V, Scalar), generator=0)
        >>> x = torch.randn(4, 3)
        >>> moved, y = augment(x, x.norm(dim=-1, keepdim=True))
        >>> torch.allclose(moved.norm(dim=-1, keepdim=True), y), torch.allclose(moved, x)
        (True, False)
    """

    def __init__(
        self, symmetry: Symmetry, *, generator: torch.Generator | int | None = None
    ) -> None:
        if not isinstance(symmetry, Symmetry):
            raise TypeError(f"expected a symmetry to augment by, got {type(symmetry).__name__}")
        self.symmetry = symmetry
        self._generator = make_generator(generator)
        self._of_worker: tuple[int, torch.Generator] | None = None

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Move inputs and outputs together.

        Args:
            x: Inputs, shape (n, *, d_in); all of a row is moved by one element.
            y: Outputs, shape (n, *, d_out). Where the group leaves outputs alone, class labels
                and single numbers of shape (n,) will do too, and come back as they are.

        Returns:
            Both, moved, of the same shape, precision and device as given.

        Raises:
            ValueError: If a width is wrong or there are more of one than of the other.
            TypeError: If the numbers are integers, or real where the action is complex.
        """
        self._require_rows(x, self.symmetry.rep_in, "inputs")
        is_label = not self.symmetry.rep_out.groups and isinstance(y, Tensor) and y.ndim == 1
        if not is_label:
            self._require_rows(y, self.symmetry.rep_out, "outputs")
        if len(x) != len(y):
            raise ValueError(f"expected as many outputs as inputs, got {len(y)} and {len(x)}")
        g = self._elements(len(x))
        moved = self._move(x, g, output=False)
        return moved, y if is_label else self._move(y, g, output=True)

    def inputs(self, x: Tensor) -> Tensor:
        """Move inputs alone, for an invariant target or labels that are kept elsewhere.

        Example:
            >>> from isotropy.groups import Inversion
            >>> from isotropy.reps import Scalar, V
            >>> Augment(Symmetry(Inversion(1), V, Scalar), generator=0).inputs(
            ...     torch.ones(4, 1)
            ... ).abs()
            tensor([[1.],
                    [1.],
                    [1.],
                    [1.]])
        """
        self._require_rows(x, self.symmetry.rep_in, "inputs")
        return self._move(x, self._elements(len(x)), output=False)

    def collate(self, rows: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Stack rows (x, y) and move them: a ``collate_fn`` for ``torch.utils.data.DataLoader``.

        Example:
            >>> from torch.utils.data import DataLoader, TensorDataset
            >>> from isotropy.groups import SO
            >>> from isotropy.reps import V
            >>> rows = TensorDataset(torch.eye(2), torch.eye(2))
            >>> augment = Augment(Symmetry(SO(2), V, V), generator=0)
            >>> x, y = next(iter(DataLoader(rows, batch_size=2, collate_fn=augment.collate)))
            >>> torch.equal(x, y), torch.equal(x, torch.eye(2))
            (True, False)
        """
        x, y = default_collate(list(rows))
        return self(x, y)

    def __getstate__(self) -> dict[str, Any]:
        # spawned workers receive tensors through shared memory, where a generator's own state
        # does not arrive: it travels as bytes
        seed, state = self._generator.initial_seed(), self._generator.get_state()
        return {"symmetry": self.symmetry, "seed": seed, "state": state.numpy().tobytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.symmetry = state["symmetry"]
        self._generator = make_generator(state["seed"])
        self._generator.set_state(torch.frombuffer(bytearray(state["state"]), dtype=torch.uint8))
        self._of_worker = None

    def _elements(self, n: int) -> LinearMap:
        return self.symmetry.group.sample(n, generator=self._stream())

    def _stream(self) -> torch.Generator:
        worker = get_worker_info()
        if worker is None:
            return self._generator
        # a worker holds a copy of this object as it was at the start of the epoch, so its own
        # generator would repeat what the other workers and the epochs before have drawn
        if self._of_worker is None or self._of_worker[0] != worker.seed:
            seed = (worker.seed + self._generator.initial_seed()) % 2**64
            self._of_worker = (worker.seed, make_generator(seed))
        return self._of_worker[1]

    def _move(self, values: Tensor, g: LinearMap, *, output: bool) -> Tensor:
        g = g.unsqueeze(values.ndim - 2)
        double = values.to(torch.complex128 if values.is_complex() else torch.float64)
        act = self.symmetry.apply_out if output else self.symmetry.apply
        return act(g, double).to(values.dtype)

    def _require_rows(self, values: Tensor, rep: Rep, what: str) -> None:
        if values.ndim < 2 or values.shape[-1] != rep.size():
            raise ValueError(
                f"expected {what} of shape (n, {rep.size()}) for {rep}, got {tuple(values.shape)}"
            )
        if not (values.is_floating_point() or values.is_complex()):
            raise TypeError(f"expected {what} in floating point, got {values.dtype}")
        if rep.is_complex and not values.is_complex():
            raise TypeError(f"expected complex {what} for {rep}, got {values.dtype}")
