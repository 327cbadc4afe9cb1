"""What a search strategy is: from scores so far to the next child to train."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from isotropy.search._space import State


@dataclass(frozen=True)
class ChildProposal:
    """A child to train.

    Args:
        state: Its groups and widths.
        epochs: Passes through the training rows; ``None`` for as many as a child is used to.
        start: The state whose trained child it starts from; its own to go on with a shorter
            training, whose passes count; ``None`` to start afresh.

    Example:
        >>> ChildProposal(State(("rotation",)), epochs=1).key
        'rotation/0@1'
    """

    state: State
    epochs: int | None = None
    start: State | None = None

    @property
    def key(self) -> str:
        """What tells it from other proposals, in one line: no two of one key are ever trained."""
        epochs = "" if self.epochs is None else f"@{self.epochs}"
        start = "" if self.start is None else f"<{self.start.key}"
        return f"{self.state.key}{epochs}{start}"


class Strategy(Protocol):
    """Proposes children. It holds no record of what was trained: that is the study's."""

    def propose(
        self, scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
    ) -> ChildProposal | None:
        """The next child to train.

        Args:
            scores: Validation accuracy, a share, of every child trained so far, in the order in
                which they were finished.
            taken: Children that others are training now.

        Returns:
            A proposal that is neither in ``scores`` nor in ``taken``; ``None`` where there is
            nothing to train before those in ``taken`` are finished, or ever.
        """
        ...
