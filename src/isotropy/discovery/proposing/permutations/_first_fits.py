"""What is fitted to the first part of the rows, for all who propose from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isotropy.discovery.proposing.permutations._colours import (
    CannotFit,
    PolynomialColours,
)
from isotropy.discovery.proposing.permutations._screening import Screening
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._bench import Bench

_FITTED = {1: "linear", 2: "quadratic"}


@dataclass(frozen=True, eq=False)
class FirstFits:
    """A free predictor of the first part, and polynomials by degree.

    Args:
        screening: The predictor, and what groups cost it on rows that it has not seen.
        colours: Polynomial fits by degree, the one that suits the data best first.
        refusals: Why a polynomial could not be fitted, in words.
    """

    screening: Screening
    colours: Mapping[int, PolynomialColours]
    refusals: tuple[str, ...]

    @staticmethod
    def of(bench: Bench) -> FirstFits:
        """Those of a problem; fitted once."""
        return bench.once("first fits", lambda: _fitted(bench))

    @property
    def judge(self) -> PolynomialColours | None:
        """The polynomial that explains the data, where one does.

        What explains the data is also what tells a symmetry from a coincidence.
        """
        explained = {"linear": 1, "quadratic": 2}.get(self.screening.free.kind, 0)
        return self.colours.get(explained)


def _fitted(bench: Bench) -> FirstFits:
    data = bench.problem.find
    assert isinstance(data, TaskData)
    screening = Screening(data, bench.margin, bench.seed)
    degrees = {"linear": [1], "quadratic": [2, 1]}.get(screening.free.kind, [1, 2])
    targets, arrangement = data.numbers()
    colours: dict[int, PolynomialColours] = {}
    refusals = []
    for degree in degrees:
        try:
            colours[degree] = PolynomialColours(data.x, targets, arrangement, degree)
        except CannotFit as error:
            refusals.append(f"no {_FITTED[degree]} fit: {error}")
    return FirstFits(screening, colours, tuple(refusals))
