"""What a symmetry does to every entry of observations and actions, in words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_ZERO = 1e-9


def image_in_words(row: Tensor, names: Sequence[str], place: int, *, continuous: bool) -> str:
    """What an entry becomes: a sum of entries, by the row of its matrix.

    Args:
        row: Its row of ρ(g), or of dρ(A) of a continuous generator, shape (n,).
        names: A name for each entry.
        place: The place of the entry.
        continuous: Whether the row is one of dρ(A): how fast the entry changes.

    Example:
        >>> row = torch.tensor([0.6, -0.8, 0.0])
        >>> image_in_words(row, ["x", "y", "z"], 0, continuous=False)
        '0.6 x − 0.8 y'
        >>> image_in_words(torch.tensor([0.0, -1.0]), ["x", "y"], 1, continuous=False)
        '−y'
    """
    terms = [(k, value) for k, value in enumerate(row.tolist()) if abs(value) > _ZERO]
    if (continuous and not terms) or (not continuous and terms == [(place, 1.0)]):
        return "same"
    shown = ""
    for k, value in terms:
        size = "" if abs(abs(value) - 1) < _ZERO else f"{abs(value):.2g} "
        sign = ("−" if value < 0 else "") if not shown else (" − " if value < 0 else " + ")
        shown += f"{sign}{size}{names[k]}"
    return shown


def entry_table(
    spaces: Sequence[tuple[str, Sequence[str], Sequence[Tensor], Sequence[Tensor]]],
    words: Sequence[str],
) -> str:
    """A line for every entry: its name, and what each generator makes of it.

    Args:
        spaces: For each space what it is, the names of its entries, the matrices of discrete
            generators, and those of continuous ones.
        words: What each generator does.

    Example:
        >>> flip = torch.tensor([[-1.0, 0.0], [0.0, 1.0]])
        >>> print(entry_table([("observation", ["x", "y"], [flip], [])], ["mirror across x"]))
        g1: mirror across x
        <BLANKLINE>
        observation  g1
        x            −x
        y            same
    """
    _, _, discrete, algebra = spaces[0]
    count = len(discrete) + len(algebra)
    named = [f"g{k + 1}" for k in range(count)]
    lines = [
        f"{name}: {words[k] if len(words) == count else 'a generator'}"
        + (", as a rate of change" if k >= len(discrete) else "")
        for k, name in enumerate(named)
    ]
    for what, names, of_discrete, of_algebra in spaces:
        rows = [[what, *named]]
        for place, name in enumerate(names):
            images = [
                image_in_words(matrix[place], names, place, continuous=continuous)
                for matrices, continuous in ((of_discrete, False), (of_algebra, True))
                for matrix in matrices
            ]
            rows.append([name, *images])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines.append("")
        lines += [
            "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
    return "\n".join(lines)


def turns_quaternions_round(names: Sequence[str], observation: Tensor, action: Tensor) -> bool:
    """Whether an element changes the signs of quaternions and of nothing else.

    Args:
        names: Of the entries of an observation; those of a quaternion end in w, x, y and z.
        observation: The matrices of all elements, shape (k, n, n).
        action: The same on actions, shape (k, m, m).
    """
    stems = {name[:-2] for name in names if name.endswith(" w")}
    turned = torch.tensor([name[:-2] in stems and name[-2:-1] == " " for name in names])
    if not bool(turned.any()):
        return False
    wanted = torch.where(turned, -1.0, 1.0).double().diag()
    unmoved = torch.eye(action.shape[-1], dtype=torch.float64)
    apart = (observation - wanted).abs().amax((-2, -1)) + (action - unmoved).abs().amax((-2, -1))
    return bool((apart < _ZERO).any())
