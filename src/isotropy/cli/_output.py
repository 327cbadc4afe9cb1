"""What reaches the terminal: answers, errors, log messages and warnings.

Names from data, paths and files of strangers are in all of them. Here, and in progress bars, they
lose the codes that a terminal would obey.
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# the room below loads torch, which `isotropy --version` does without: imported where it is used


def write_answer(text: str, data: Mapping[str, Any], *, as_json: bool) -> None:
    r"""Write an answer to standard output, for a person or as one JSON object.

    Raises:
        OSError: If standard output is closed.

    Example:
        >>> write_answer("name  \x1b[2J", {"name": "\x1b[2J"}, as_json=False)
        name  \x1b[2J
    """
    from isotropy._run import json_text
    from isotropy._run._terminal_text import terminal_json

    if sys.stdout is None:
        raise OSError("standard output is closed")
    if as_json:
        sys.stdout.write(terminal_json(json_text(data)) + "\n")
    else:
        sys.stdout.write(readable(_with_names_on_one_line(text, data)) + "\n")
    sys.stdout.flush()


def complain(message: str) -> None:
    """Say in one line on standard error what is wrong."""
    sys.stderr.write(f"error: {on_one_line(' '.join(message.split()))}\n")


@contextmanager
def logs_on_stderr(quiet: bool) -> Iterator[None]:
    """Send the library's log messages, and warnings, to standard error while a verb runs."""
    logger = logging.getLogger("isotropy")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SafeFormatter())
    handler.setLevel(logging.ERROR if quiet else logging.INFO)
    level, usual = logger.level, warnings.formatwarning
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    def safe(*given: Any, **options: Any) -> str:
        return readable(usual(*given, **options))

    warnings.formatwarning = safe
    try:
        yield
    finally:
        warnings.formatwarning = usual
        logger.removeHandler(handler)
        logger.setLevel(level)


def on_one_line(text: str) -> str:
    """A text whose control characters, line breaks among them, are written out."""
    from isotropy._run._terminal_text import terminal_line

    return terminal_line(text)


def readable(text: str) -> str:
    """A text whose control characters are written out; its lines stay."""
    from isotropy._run._terminal_text import terminal_text

    return terminal_text(text)


class _SafeFormatter(logging.Formatter):
    """Log messages on one line each; a traceback has lines of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return on_one_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return readable(super().format(record))


def _with_names_on_one_line(text: str, data: Mapping[str, Any]) -> str:
    """The text, in which no value of the data breaks a line: only our own layout does.

    Else a column whose name holds a line break could write a line of its own choice.
    """
    broken = {one for one in _texts(data) if "\n" in one or "\t" in one}
    for one in sorted(broken, key=len, reverse=True):
        text = text.replace(one, on_one_line(one))
    return text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(name)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
