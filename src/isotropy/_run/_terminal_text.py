"""Text that is safe on a terminal: what would move the cursor or turn letters is spelled out."""

import re
import unicodedata

# all that is not plain ASCII, our own line breaks and tabs aside, is looked at letter by letter
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_LINES = re.compile(r"[\n\t]")
# joiners that emoji and Persian words are written with; they act on their neighbours alone
_JOINERS = "\u200c\u200d"
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# control characters but line breaks, which names of columns may hold; letters that turn others
# around; halves of letters
ACTING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What no name has a reason to hold; files of findings with it are refused."""


def terminal_text(text: str) -> str:
    r"""Text with control characters as escapes; letters of any script, and emoji, stay.

    Escapes are what Python spells them as. Line breaks and tabs are kept, as the layout of what is
    printed; `terminal_line` is for what must stay on one line.

    Example:
        >>> terminal_text("péndulo α \x1b[2J\u202e")
        'péndulo α \\x1b[2J\\u202e'
    """
    return _UNUSUAL.sub(lambda match: _spelled(match[0]), text)


def terminal_line(text: str) -> str:
    r"""The same on one line: line breaks and tabs are escapes too.

    Example:
        >>> terminal_line("x\nvalid")
        'x\\nvalid'
    """
    return _LINES.sub(lambda match: _spelled(match[0]), terminal_text(text))


def plain_names(names: tuple[str, ...]) -> tuple[str, ...]:
    r"""Names in which control characters are spelled, as a terminal shows them.

    What is found speaks of these names, and files with others are refused.

    Example:
        >>> plain_names(("mass\n(kg)", "\x1b[2J"))
        ('mass\n(kg)', '\\x1b[2J')
    """
    return tuple(terminal_line(name) if ACTING.search(name) else name for name in names)


def terminal_json(text: str) -> str:
    r"""JSON with such characters as JSON's own escapes, which change nothing of what it says.

    Example:
        >>> terminal_json('{"name": "\x9b2J"}')
        '{"name": "\\u009b2J"}'
    """
    return _UNUSUAL.sub(lambda match: _json_spelled(match[0]), text)


def _is_hidden(letter: str) -> bool:
    """Whether a character acts on a terminal, or on the letters around it, rather than be seen."""
    return letter not in _JOINERS and unicodedata.category(letter) in _HIDDEN


def _spelled(letter: str) -> str:
    if not _is_hidden(letter):
        return letter
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")


def _json_spelled(letter: str) -> str:
    if not _is_hidden(letter):
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs)
