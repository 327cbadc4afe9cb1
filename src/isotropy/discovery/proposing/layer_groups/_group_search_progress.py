"""What a group search tells while it goes on: children done, and the best of them so far."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.search._child import Child, Trained
from isotropy.search._search_result import SearchResult
from isotropy.search._space import SearchSpace, State


class SearchProgress:
    """A child that remembers the best accuracy it has seen, for whoever watches.

    Args:
        child: Trains networks.
        tell: Whom to tell.
        best: Accuracy and state of the best child that was trained before, if there is one.

    Example:
        >>> predictions = []
        >>> progress = SearchProgress(
        ...     lambda state, **options: Trained(0.75, 10, 1), predictions.append
        ... )
        >>> progress.step(Step(0, 5, "no group"))
        >>> trained = progress(State(("rotation",)), seed=0)
        >>> progress.step(Step(1, 5, "rotation"))
        >>> predictions[-1].message
        '1 of 5 children, best so far 75.0%: rotation'
    """

    def __init__(
        self, child: Child, tell: ProgressCallback, best: tuple[float, State] | None = None
    ) -> None:
        self._child, self._tell, self._best = child, tell, best
        # a search in rungs asks for it, and a child need not say
        if hasattr(child, "usual_epochs"):
            self.usual_epochs: int = child.usual_epochs

    @classmethod
    def of(
        cls,
        child: Child,
        tell: ProgressCallback,
        study: str | os.PathLike[str] | None,
        name: str,
        space: SearchSpace,
    ) -> SearchProgress:
        """With the best child that a study holds already.

        Raises:
            ConnectionError: If the database cannot be reached.
        """
        best = None
        if study is not None:
            # a study that is not there yet, or of something else: the search itself says so
            with suppress(ValueError):
                child_before = SearchResult.of(study, name, space).best
                if child_before is not None:
                    best = child_before.accuracy, child_before.state
        return cls(child, tell, best)

    def __call__(
        self,
        state: State,
        *,
        seed: int,
        epochs: int | None = None,
        start: Mapping[str, Tensor] | None = None,
    ) -> Trained:
        """Train, and remember."""
        trained = self._child(state, seed=seed, epochs=epochs, start=start)
        if self._best is None or trained.accuracy > self._best[0]:
            self._best = trained.accuracy, state
        return trained

    def fingerprint(self) -> str:
        """That of the child."""
        return self._child.fingerprint()

    def step(self, step: Step) -> None:
        """Tell how many children are done, and the best of them."""
        words = f"{step.done} of {step.total} children"
        if self._best is not None:
            words += f", best so far {self._best[0]:.1%}: {self._best[1]}"
        self._tell(Step(step.done, step.total, words))
