"""A claim: a symmetry that may hold, and what every stage asks of it, whatever its kind.

A kind of symmetry is a subclass in a file of its own. No stage asks which one it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

if TYPE_CHECKING:
    from isotropy._run import Patience
    from isotropy.discovery.claims._statement import Statement
    from isotropy.discovery.predictors._free_predictor import FreePredictor
    from isotropy.discovery.testing._bench import Bench
    from isotropy.discovery.testing._tested import Tested
    from isotropy.naming._pair_group import PairGroup

FittedModel: TypeAlias = tuple[nn.Module, Mapping[str, Any]]


class NoModel(ValueError):
    """There is no network with a symmetry; the sentence says why."""


class Claim(ABC):
    """A symmetry that may hold.

    Attributes:
        wants_smooth: Whether it is tested with a predictor whose gradients mean something.
        of_network: Whether it says something of the layers of a network, and not of the task.
        is_trivial: Whether it is no discovery: it is tested by itself, after the others.
        exact: Whether it was proposed as one that holds exactly.
        chance: A bound on the probability of such a symmetry by coincidence, where there is one.
        after: The claim that must stand for this one to count, where they are tested in an order.
    """

    of_network: ClassVar[bool] = False
    is_trivial: ClassVar[bool] = False
    wants_smooth: bool = False
    exact: bool = True
    chance: float | None = None
    after: Claim | None = None

    @property
    @abstractmethod
    def statement(self) -> Statement:
        """What is claimed, in words and as a group."""

    # --- testing --------------------------------------------------------------------------------

    @abstractmethod
    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """What the symmetry costs on rows that have not seen it."""

    def beside(self, standing: Sequence[Claim], bench: Bench) -> Claim | None:
        """A trivial claim in the light of those that stand; None where nothing is left of it."""
        del standing, bench
        return self

    # --- choosing -------------------------------------------------------------------------------

    def is_within(self, other: Claim) -> bool:
        """Whether another claim says this and more."""
        del other
        return False

    def contains_permutations(self, group: PairGroup) -> bool:
        """Whether a group of permutations of positions is part of what is claimed."""
        del group
        return False

    @classmethod
    def chosen(
        cls, own: Sequence[Tested], beside: Sequence[Tested], bench: Bench, patience: Patience
    ) -> list[Tested]:
        """Tested claims of this kind: some withdrawn, some covered by others, some joined.

        Args:
            own: The claims of this kind, in order.
            beside: Those of other kinds.
            bench: What they were tested with.
            patience: How long it may take.
        """
        del beside, bench, patience
        return uncovered(own)

    @classmethod
    def promising(cls, own: Sequence[Tested]) -> list[Tested]:
        """Of this kind's claims that were refused, the few that may hold nearly."""
        return [
            one for one in own if not one.reason and not one.note and one.claim.can_be_softened
        ][:1]

    # --- modelling ------------------------------------------------------------------------------

    def fit(self, rows: Any, free: FreePredictor, seed: int, *, softened: bool) -> FittedModel:
        """A network that has the symmetry exactly, fitted to some rows, and its description.

        Args:
            rows: The rows.
            free: A predictor free of symmetry, which tells how rich the network must be.
            seed: Of weights and batches.
            softened: Whether it is going to be softened.

        Raises:
            NoModel: If there is none.
        """
        del rows, free, seed, softened
        raise NoModel("no network has this symmetry")

    def rival(self, rows: Any, bench: Bench) -> FreePredictor:
        """What a model is held against: a predictor free of the symmetry, of the same rows."""
        return bench.free_of(rows)

    @property
    def has_model(self) -> bool:
        """Whether there are networks that have it."""
        return True

    @property
    def can_be_softened(self) -> bool:
        """Whether its model can become one that only prefers the symmetry."""
        return False

    def equivariance_error(self, model: nn.Module, rows: Any, seed: int) -> float | None:
        """How far a model is from the symmetry; None where that cannot be measured."""
        del model, rows, seed
        return None

    # --- telling --------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        """How it was come by."""
        return self.statement.method

    @property
    def label(self) -> str:
        """What it is called among all that was tried."""
        return self.statement.name

    @property
    def is_named(self) -> bool:
        """Whether its group has a name, and not only an order."""
        return True

    def stated(self, tested: Tested, bench: Bench) -> Statement:
        """The statement, with what the test adds to it."""
        del tested, bench
        return self.statement

    def notes(self, tested: Tested, bench: Bench) -> tuple[str, ...]:
        """What else is worth knowing of it."""
        del tested, bench
        return ()

    def untestable(self, tested: Tested) -> str:
        """What is worth knowing where the data cannot tell whether it holds; empty for nothing."""
        del tested
        return ""

    def examples(self, rows: Any, seed: int) -> NDArray[np.float64] | None:
        """A few rows as they were given, and what elements make of them, if that can be shown."""
        del rows, seed
        return None


def uncovered(tested: Sequence[Tested]) -> list[Tested]:
    """Tested claims, those that stand and are within another that stands as covered by it."""
    standing = [one.claim for one in tested if one.reported]
    return [
        replace(one, covered=True)
        if one.reported and any(one.claim.is_within(other) for other in standing)
        else one
        for one in tested
    ]


def predictions(model: nn.Module, x: Tensor) -> Tensor:
    """What a model says of rows, float64, some hundred at a time."""
    from isotropy.discovery.modelling._standardised import rows_for

    model.eval()
    with torch.no_grad():
        parts = [model(rows_for(model, part)).double() for part in x.split(512)]
    return torch.cat(parts)
