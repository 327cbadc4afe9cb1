"""Reading text: tokens with their places, and errors that say where. Nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)j?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<sign>>>|\*\*|[-+*().,:\[\]=]))"
)


@dataclass(frozen=True)
class Token:
    """A piece of text and where it stands."""

    kind: str  # "number", "name", "sign" or "end"
    text: str
    at: int


class Reader:
    """A cursor over the tokens of a text."""

    def __init__(self, text: str, what: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"expected the text of a {what}, got {type(text).__name__}")
        self.text = text
        self.what = what
        self._tokens = self._split()
        self._next = 0

    def _split(self) -> list[Token]:
        tokens, at = [], 0
        end = len(self.text.rstrip())
        while at < end:
            match = _TOKEN.match(self.text, at)
            if match is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                raise self.error_at(at, f"unexpected character {self.text[at]!r}")
            kind = str(match.lastgroup)
            tokens.append(Token(kind, match.group(kind), match.start(kind)))
            at = match.end()
        return [*tokens, Token("end", "", end)]

    @property
    def token(self) -> Token:
        """The token at the cursor."""
        return self._tokens[self._next]

    def advance(self) -> Token:
        """Return the token at the cursor and step past it."""
        token = self.token
        self._next += token.kind != "end"
        return token

    def take(self, text: str) -> bool:
        """Step past ``text`` if it is next."""
        if self.token.kind != "end" and self.token.text == text:
            self._next += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Step past ``text`` or say that it was expected."""
        if not self.take(text):
            raise self.error(f"expected {text!r}")

    def finish(self) -> None:
        """Make sure that nothing is left."""
        if self.token.kind != "end":
            raise self.error("expected the end")

    def integer(self) -> int:
        """Read a non-negative integer."""
        token = self.token
        if token.kind != "number" or not token.text.isdigit():
            raise self.error("expected an integer")
        return int(self.advance().text)

    def nested_list(self) -> Any:
        """Read a number or a bracketed, comma-separated list of such things."""
        if self.take("["):
            items: list[Any] = []
            while not self.take("]"):
                if items:
                    self.expect(",")
                items.append(self.nested_list())
            return items
        return self._number()

    def _number(self) -> complex | float | int:
        wrapped = self.take("(")
        total: complex | float | int = 0
        sign = -1 if self.take("-") else 1
        while True:
            token = self.advance()
            if token.kind != "number":
                raise self.error_at(token.at, f"expected a number, got {token.text or 'the end'!r}")
            total = total + sign * _value(token.text)
            if wrapped and self.token.text in ("+", "-"):
                sign = 1 if self.advance().text == "+" else -1
                continue
            if wrapped:
                self.expect(")")
            return total

    @contextmanager
    def nesting(self) -> Iterator[None]:
        """Refuse text whose brackets are nested too deeply to be read."""
        try:
            yield
        except RecursionError:
            raise self.error("expected fewer brackets within brackets") from None

    def error(self, problem: str) -> ValueError:
        """An error about the token at the cursor."""
        got = f"got {self.token.text!r}" if self.token.kind != "end" else "got the end of the text"
        return self.error_at(self.token.at, f"{problem}, {got}")

    def error_at(self, at: int, problem: str) -> ValueError:
        """An error about a place in the text."""
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return ValueError(f"cannot read the {self.what} {shown!r}: {problem} at position {at}")


def _value(text: str) -> complex | float | int:
    if text.endswith("j"):
        return complex(text)
    return int(text) if text.isdigit() else float(text)
