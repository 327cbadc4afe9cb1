"""Sums of tensors, how a group of matrices acts on the inputs of a catalogue network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from isotropy.certificates._bits import BitReader, BitWriter
from isotropy.reps import Rep, Scalar, T, V

KINDS = ("Scalar", "V", "T(2)", "T(0,1)", "T(1,1)", "T(0,2)")
MOST_TERMS = 16
MOST_COPIES = 4096
_REPS: tuple[Rep, ...] = (Scalar, V, T(2), T(0, 1), T(1, 1), T(0, 2))
_ORDERS = (0, 1, 2, 1, 2, 2)
_TERM = re.compile(r"(?:([1-9][0-9]{0,9})\*)?([A-Z][A-Za-z]*(?:\([0-9],?[0-9]?\))?)")


@dataclass(frozen=True)
class TensorSum:
    """A sum of scalars, vectors and tensors of order two, in the order of the inputs' columns.

    Raises:
        ValueError: If there are too many terms or copies, none, or a kind is unknown.

    Example:
        >>> space = TensorSum.parse("2*V+Scalar")
        >>> space.terms
        ((2, 'V'), (1, 'Scalar'))
        >>> print(space, space.rep() == 2 * V + Scalar)
        2*V+Scalar True
    """

    terms: tuple[tuple[int, str], ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.terms) <= MOST_TERMS:
            raise ValueError(
                f"expected 1 to {MOST_TERMS} terms in a representation, got {len(self.terms)}"
            )
        for copies, kind in self.terms:
            if not 1 <= copies <= MOST_COPIES:
                raise ValueError(f"expected 1 to {MOST_COPIES} copies of {kind:.80}, got {copies}")
            if kind not in KINDS:
                raise ValueError(f"expected a term {', '.join(KINDS)}, got {kind!r:.80}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what ``str`` writes: terms such as ``V`` or ``3*T(1,1)``, joined by ``+``.

        Raises:
            ValueError: If a term is none.

        Example:
            >>> TensorSum.parse("5*T(1,1)").terms
            ((5, 'T(1,1)'),)
        """
        terms = []
        for term in text.split("+"):
            found = _TERM.fullmatch(term)
            if found is None:
                raise ValueError(
                    f"expected a sum of terms {', '.join(KINDS)}, each with a number and * before "
                    f"it or not, got {term!r:.80}"
                )
            terms.append((int(found[1] or 1), found[2]))
        return cls(tuple(terms))

    def rep(self) -> Rep:
        """The representation, without its group."""
        reps = [copies * _REPS[KINDS.index(kind)] for copies, kind in self.terms]
        return sum(reps[1:], reps[0])

    def orders(self) -> dict[str, int]:
        """How many indices tensors of each kind have.

        Example:
            >>> TensorSum.parse("5*T(1,1)+V").orders()
            {'T(1,1)': 2, 'V': 1}
        """
        return {kind: _ORDERS[KINDS.index(kind)] for _, kind in self.terms}

    def write(self, writer: BitWriter) -> None:
        """Write the number of terms, then copies and kind of each."""
        writer.natural(len(self.terms) - 1)
        for copies, kind in self.terms:
            writer.natural(copies - 1)
            writer.choice(kind, KINDS)

    @classmethod
    def read(cls, reader: BitReader) -> Self:
        """Read what ``write`` wrote."""
        count = reader.natural(limit=MOST_TERMS - 1) + 1
        terms = []
        for _ in range(count):
            copies = reader.natural(limit=MOST_COPIES - 1) + 1
            terms.append((copies, reader.choice(KINDS)))
        return cls(tuple(terms))

    def __str__(self) -> str:
        return "+".join(kind if copies == 1 else f"{copies}*{kind}" for copies, kind in self.terms)
