"""What a call of ``discover`` seldom sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from isotropy._run import ProgressCallback
from isotropy.discovery.predictors._free_predictor import Task


@dataclass(frozen=True)
class Criteria:
    """What all stages of a search share.

    Args:
        margin: The largest cost that still counts as a symmetry.
        near_margin: The largest cost of a symmetry that is worth a soft model; not looked for
            where it is no more than ``margin``.
        level: The chance of confirming anything false.
        fit_models: Whether to fit a model with each symmetry that is found.
        seed: Of splits, networks and random group elements.

    Example:
        >>> Criteria(margin=0.05, near_margin=0.5).looks_near
        True
    """

    margin: float = 0.05
    near_margin: float = 0.0
    level: float = 0.05
    fit_models: bool = True
    seed: int = 0

    @property
    def looks_near(self) -> bool:
        """Whether symmetries are looked for that hold in part, for soft models of them."""
        return self.fit_models and self.near_margin > self.margin


@dataclass(frozen=True)
class DiscoverOptions:
    """How ``discover`` reads data, what a symmetry may cost, and how a search goes on and ends.

    Args:
        task: ``"regression"`` or ``"classification"``; by default read from the targets, as
            ``isotropy.data.load`` does.
        channels_first: Whether sequences and sets have shape ``(N, channels, n)`` instead of
            ``(N, n, channels)``, the default; with one channel, or a few and many positions, that
            is read from the shape.
        entry_names: Of transitions: a name for each entry of an observation, and of an action.
        margin: The largest cost that still counts as a symmetry; 5 % of what can be learned by
            default.
        near_margin: The largest cost of a symmetry that is worth a soft model, half of what can be
            learned by default; not looked for where it is no more than ``margin``, nor without
            models, nor in images or transitions.
        level: The chance of confirming anything false; 5 % by default.
        study: For ``methods="groups"``, the path of an SQLite file or the URL of a PostgreSQL
            database that keeps the networks' scores. A call with the same data, options and study
            goes on with it; several at once, in any number of processes, share the work. None is
            kept by default.
        strategy: Of that search: ``"lattice"`` (the default), ``"dqn"``, ``"random"`` or ``"tpe"``.
        children: How many networks it trains at most, by default 60.
        keep_on_interrupt: Whether an interruption (Ctrl-C) ends the search as a budget does; a
            second one ends what is still being tested. By default it is raised as ever.
        progress: Called with each step.

    Example:
        >>> import numpy as np
        >>> from isotropy.discovery import discover
        >>> x = np.random.default_rng(0).normal(size=(300, 4))
        >>> y = np.abs(x).sum(1) + 0.3 * np.abs(x[:, 0])  # S(4) costs 1.4 %
        >>> for margin in (0.05, 0.01):
        ...     options = DiscoverOptions(margin=margin)
        ...     found = discover(x, y, methods="permutations", fit_models=False, options=options)
        ...     print(len(found))
        1
        0
    """

    task: Task | None = None
    channels_first: bool = False
    entry_names: tuple[Sequence[str], Sequence[str]] | None = None
    margin: float = 0.05
    near_margin: float = 0.5
    level: float = 0.05
    study: str | os.PathLike[str] | None = None
    strategy: str = "lattice"
    children: int | None = None
    keep_on_interrupt: bool = False
    progress: ProgressCallback | None = None

    def criteria(self, *, fit_models: bool, seed: int) -> Criteria:
        """What a claim has to stand.

        Raises:
            ValueError: If ``near_margin`` is no share below 1.
        """
        near_margin = self.near_margin
        if not 0 <= near_margin < 1:
            raise ValueError(
                f"expected a near_margin of at least 0 and below 1, got {near_margin!r}"
            )
        return Criteria(self.margin, near_margin, self.level, fit_models, seed)
