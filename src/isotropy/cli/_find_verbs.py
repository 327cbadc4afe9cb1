"""Where verbs are: ours in modules of their names, others behind entry points."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated

import typer

from isotropy.cli._verbs import Answer, app, verb

_OURS = ("basis", "certify", "data", "discover", "measure", "verify")  # in the order of the help
_PAPERS = (
    "expected isotropy-papers beside isotropy, got isotropy alone: pip install ./papers, from a "
    "checkout"
)


def add_verbs(arguments: Sequence[str]) -> None:
    """Import the verb that these arguments ask for, or every verb where it is none of ours."""
    asked = arguments[0] if arguments else ""
    for name in [asked] if asked in _OURS else _OURS:
        import_module(f"isotropy.cli._{name}")
    if asked not in _OURS:
        add_other_verbs()


@cache
def add_other_verbs() -> None:
    """Import every module that brings a verb; where that fails, the verb says why."""
    missing = {"reproduce": _PAPERS, "campaign": _PAPERS}
    for entry in entry_points(group="isotropy.verbs"):
        missing.pop(entry.name, None)
        try:
            entry.load()
        except Exception as error:  # somebody else's module: the other verbs still work
            missing[entry.name] = (
                f"expected a distribution that brings this verb, got {entry.value}, which cannot "
                f"be imported ({type(error).__name__}: {error})"
            )
    for name, sentence in missing.items():
        _refuse(name, sentence)


def _refuse(name: str, sentence: str) -> None:
    def missing(
        arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    ) -> Answer:
        del arguments  # whatever they are
        raise ValueError(sentence)

    missing.__doc__ = "Not installed: run it to see how to get it."
    verb(name, app, context_settings={"ignore_unknown_options": True})(missing)
