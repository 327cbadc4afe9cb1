"""Optuna without its reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import optuna


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna reports on standard error every study that it makes or finds; not meanwhile."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
