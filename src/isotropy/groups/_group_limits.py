"""How large a group is, computed from its text before it is built.

``parse_group`` builds what it reads. It evaluates nothing, but a few letters can name what fills
any memory: S(1000000000), SO(100000). Text from strangers is weighed first, by the same grammar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy._run import amount
from isotropy._run._json import shown
from isotropy.groups import Group, LinearMap
from isotropy.groups._catalogue import family
from isotropy.groups._text import Reader

_DEPTH, _LETTERS, _LONGEST_WORD = 32, 2**20, 40
_PERMUTED, _MATRICES = 2**18, 512  # dimensions of a group of permutations, and of any other
_NUMBERS = 2**22  # in all generators
_GENERATORS, _PARTS = 4096, 64
_LARGEST = 1e6  # entry of a matrix of a finite group
_LISTED = 2**24  # numbers of all elements that are counted
# how many generators a family has, and orbits of its coordinates; None for as many as these
_PERMUTATIONS: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("Z", "S", "A", "D", "GridShifts", "p4", "p4m"), (4, 1)),
    **dict.fromkeys(("GridTurns", "GridFlips", "Inversion"), (2, None)),
    "Trivial": (0, None),
    "RubiksCube": (6, 2),
}
# of products with it, and of draws from them, no closed form is at hand
_UNLISTED = ("Inversion", "RubiksCube")
_FEW_MATRICES = ("C2d", "D2d", "DkeR3", "Scaling")


@dataclass(frozen=True)
class GroupSize:
    """What a group takes.

    Args:
        d: The dimension of the space that it acts on.
        generators: At most so many.
        orbits: Into so many orbits, at most, its coordinates fall.
        permutes: Whether its generators are permutations, up to signs.
        named: Whether its order and draws from it have closed forms: it is made of groups of the
            catalogue that have, which are only multiplied, added or nested.
        parts: How many groups of the catalogue, or lists of generators, it is made of.
    """

    d: int
    generators: int
    orbits: int
    permutes: bool = True
    named: bool = True
    parts: int = 1

    def problem(self) -> str | None:
        """Why it is too large; None where it is not."""
        most = _PERMUTED if self.permutes else _MATRICES
        kind = "permutations" if self.permutes else "matrices"
        if self.d > most:
            return f"expected {kind} of at most {most} dimensions, not {amount(self.d)}"
        if self.parts > _PARTS:
            return f"expected a group of at most {_PARTS} parts"
        if self.generators > _GENERATORS:
            return f"expected at most {_GENERATORS} generators, not {amount(self.generators)}"
        numbers = self.generators * self.d * (1 if self.permutes else self.d)
        if numbers > _NUMBERS:
            return f"expected generators of at most {_NUMBERS} numbers, not {amount(numbers)}"
        return None


def bounded_reader(text: str, what: str) -> Reader:
    """A cursor over text that is short enough, and not nested too deeply, to be read.

    Raises:
        ValueError: If it is not.

    Example:
        >>> bounded_reader("Z(4)", "group").token.text
        'Z'
    """
    depth = deepest = word = longest = 0
    for letter in text[: _LETTERS + 1]:
        depth += (letter in "([") - (letter in ")]")
        word = word + 1 if letter.isalnum() or letter in "._" else 0
        deepest, longest = max(deepest, depth), max(longest, word)
    if len(text) > _LETTERS or deepest > _DEPTH or longest > _LONGEST_WORD:
        raise ValueError(
            f"expected the text of a {what} of at most {_LETTERS} letters, {_DEPTH} brackets "
            f"within brackets and {_LONGEST_WORD} letters in a word, got {shown(text)}"
        )
    return Reader(text, what)


def weigh_group(reader: Reader) -> GroupSize:
    """What the group at the cursor takes.

    Raises:
        ValueError: If it does not parse, or is too large.

    Example:
        >>> weigh_group(bounded_reader("Z(4)*Z(5)", "group")).d
        20
        >>> weigh_group(bounded_reader("SO(100)", "group"))
        Traceback (most recent call last):
        ...
        ValueError: cannot read the group 'SO(100)': expected at most 4096 generators, not 10002 \
at position 0
    """
    at, size = reader.token.at, _weigh_product(reader)
    while reader.take("+"):
        other = _weigh_product(reader)
        orbits = size.orbits + other.orbits
        size = _checked(reader, at, _together(size, other, size.d + other.d, orbits))
    return size


def count_elements(group: Group, most: int) -> int:
    """How many elements a group has, where these are few: all products of its generators.

    Raises:
        ValueError: If there are more, or infinitely many.

    Example:
        >>> from isotropy.groups import S
        >>> count_elements(S(4), 100)
        24
    """
    refusal = f"expected a group of at most {most} elements, got more from {group.name:.80}"
    if group.algebra or group.d > _NUMBERS // most:
        raise ValueError(refusal)
    monomial = group.is_monomial
    generators = [_as_array(h, monomial) for h in group.discrete]
    one: NDArray[Any] = np.arange(2 * group.d) if monomial else np.eye(group.d, dtype=complex)
    seen, fresh = {_key(one)}, [one]
    while fresh:
        before, fresh = fresh, []
        for h in generators:
            for g in before:
                made = h[g] if monomial else h @ g
                if not monomial and not np.abs(made).max() < _LARGEST:
                    raise ValueError(refusal)  # its powers grow, and never come back
                if (key := _key(made)) not in seen:
                    seen.add(key)
                    fresh.append(made)
                if len(seen) > most or len(seen) * made.size > _LISTED:
                    raise ValueError(refusal)
    return len(seen)


def _as_array(h: LinearMap, monomial: bool) -> NDArray[Any]:
    """A matrix; or a permutation of the coordinates and of their negatives."""
    found = h.monomial() if monomial else None
    if found is None:
        return h.dense().numpy().astype(complex)
    index: NDArray[np.int64] = found.index.numpy()
    turned = np.zeros(len(index), bool) if found.sign is None else found.sign.numpy() < 0
    d = len(index)
    return np.concatenate([index + d * turned, index + d * ~turned])


def _key(one: NDArray[Any]) -> bytes:
    # rounding errors must not make two elements of one; adding zero removes -0.0
    rounded = one if one.dtype.kind == "i" else np.round(one, 6) + 0.0
    return sha256(rounded.tobytes()).digest()


# --- the grammar ------------------------------------------------------------------------------


def _weigh_product(reader: Reader) -> GroupSize:
    at, size = reader.token.at, _weigh_atom(reader)
    while True:
        if reader.take("*"):
            other = _weigh_atom(reader)
            orbits = size.orbits * other.orbits
            size = _checked(reader, at, _together(size, other, size.d * other.d, orbits))
        elif reader.take("wr"):
            size = _checked(reader, at, _wreath(size, _weigh_atom(reader)))
        else:
            return size


def _weigh_atom(reader: Reader) -> GroupSize:
    name = reader.token
    if reader.take("("):
        size = weigh_group(reader)
        reader.expect(")")
        return size
    if name.kind != "name":
        raise reader.error("expected a group")
    reader.advance()
    if name.text not in _CONSTRUCTIONS:
        return _checked(reader, name.at, _weigh_named(reader, name.text, name.at))
    reader.expect("(")
    size = _CONSTRUCTIONS[name.text](reader)
    reader.expect(")")
    return _checked(reader, name.at, size)


def _weigh_named(reader: Reader, name: str, at: int) -> GroupSize:
    row = family(name)
    if row is None:
        raise reader.error_at(at, f"expected a group of the catalogue, got {name!a}")
    numbers: list[int] = []
    if row.integers:
        for sign in "(" + "," * (row.integers - 1):
            reader.expect(sign)
            numbers.append(reader.integer())
        reader.expect(")")
    elif reader.take("("):
        reader.expect(")")
    if max(numbers, default=0) > _PERMUTED:
        return GroupSize(max(numbers), 0, 0, row.name in _PERMUTATIONS)
    make: Callable[..., Group] = row.kind
    try:
        d = make(*numbers).d  # its generators are not made before they are asked for
    except ValueError as error:
        raise reader.error_at(at, str(error)) from None
    if row.name in _PERMUTATIONS:
        generators, orbits = _PERMUTATIONS[row.name]
        orbits = d if orbits is None else orbits
        return GroupSize(d, generators, orbits, named=row.name not in _UNLISTED)
    generators = 2 if row.name in _FEW_MATRICES else d * d + 2
    return GroupSize(d, generators, d, permutes=False)


def _weigh_wreath(reader: Reader) -> GroupSize:
    inner = weigh_group(reader)
    reader.expect(",")
    return _wreath(inner, weigh_group(reader))


def _weigh_semidirect(reader: Reader) -> GroupSize:
    """Whether one group normalises another is asked of two of the catalogue alone."""
    at, normal = reader.token.at, weigh_group(reader)
    reader.expect(",")
    acting = weigh_group(reader)
    if normal.parts + acting.parts > 2 or not (normal.named and acting.named):
        raise reader.error_at(at, "expected two groups of the catalogue in a semidirect product")
    whole = _together(normal, acting, max(normal.d, acting.d), normal.orbits)
    return replace(whole, named=False)


def _weigh_embedding(reader: Reader) -> GroupSize:
    inner = weigh_group(reader)
    reader.expect(",")
    d = reader.integer()
    if reader.take(","):
        reader.integer()
    return replace(inner, d=d, orbits=d, named=False)


def _weigh_conjugate(reader: Reader) -> GroupSize:
    inner = weigh_group(reader)
    reader.expect(",")
    moves = _is_permutation(reader.nested_list())
    return replace(inner, permutes=inner.permutes and moves, named=False)


def _weigh_generators(reader: Reader) -> GroupSize:
    d, count, permutes, keys = 0, 0, True, 0
    while reader.token.text != ")":
        if keys:
            reader.expect(",")
        keys += 1
        key = reader.advance()
        reader.expect("=")
        if key.text == "d":
            d = max(d, reader.integer())
            continue
        given = reader.nested_list()
        if key.text not in ("discrete", "algebra") or not isinstance(given, list):
            raise reader.error_at(key.at, "expected discrete=, algebra= or d=, and lists in them")
        count += len(given)
        d = max([d, *(len(one) for one in given if isinstance(one, list))])
        permutes = permutes and key.text == "discrete" and all(map(_is_permutation, given))
    return GroupSize(d, count, d, permutes, named=False)


_CONSTRUCTIONS: dict[str, Callable[[Reader], GroupSize]] = {
    "wreath": _weigh_wreath,
    "semidirect": _weigh_semidirect,
    "embed": _weigh_embedding,
    "conjugate": _weigh_conjugate,
    "Group": _weigh_generators,
}


def _wreath(inner: GroupSize, outer: GroupSize) -> GroupSize:
    """Generators of the inner group stand in a block of each orbit, or of matrices in every one."""
    d, orbits = inner.d * outer.d, inner.orbits * outer.orbits
    blocks = outer.orbits if inner.permutes else outer.d
    generators = inner.generators * blocks + outer.generators
    return replace(_together(inner, outer, d, orbits), generators=generators)


def _together(first: GroupSize, second: GroupSize, d: int, orbits: int) -> GroupSize:
    return GroupSize(
        d,
        first.generators + second.generators,
        orbits,
        first.permutes and second.permutes,
        first.named and second.named,
        first.parts + second.parts,
    )


def _checked(reader: Reader, at: int, size: GroupSize) -> GroupSize:
    problem = size.problem()
    if problem is not None:
        raise reader.error_at(at, problem)
    return size


def _is_permutation(given: Any) -> bool:
    """Whether a list is a permutation, or the matrix of one up to signs."""
    if not isinstance(given, list):
        return False
    if not any(isinstance(one, list) for one in given):
        return True
    return all(
        isinstance(one, list)
        and sum(value != 0 for value in one) == 1
        and all(value in (-1, 0, 1) for value in one)
        for one in given
    )
