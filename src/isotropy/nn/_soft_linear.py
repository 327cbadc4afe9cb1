"""A linear layer with a prior towards several groups at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from isotropy.groups import Group, parse_group
from isotropy.nn._linear import Linear
from isotropy.nn._path_sum import PathSum
from isotropy.reps import Rep

_FREE = "free"


def soft_linear(
    rep_in: Rep | str,
    rep_out: Rep | str,
    groups: Iterable[Group | str] | Mapping[str, Group | str],
    *,
    free: bool = True,
    bias: bool = True,
    prior_variances: Mapping[str, float] | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> PathSum:
    """A linear layer that is a sum of equivariant ones, each for a group of its own.

        vec W = Σ_i B_i u_i + v,    u_i ~ N(0, σ_i²),    v ~ N(0, σ²),

    where B_i is the basis of all maps that commute with group i (van der Ouderaa et al. 2023,
    appendix B). ``isotropy.evidence.learn_priors`` finds from data which of the groups are needed:
    the variances of the others go to zero.

    Args:
        rep_in: How any of the groups acts on inputs, without a group: ``V``, ``2 * V + Scalar``.
        rep_out: How it acts on outputs.
        groups: The groups, all on spaces of one dimension. Their paths have names by which they
            are written, such as "S(6)", or those given.
        free: Whether there is a v, a path "free" that commutes with nothing.
        bias: Whether every path has a bias.
        prior_variances: σ² of each path, by name; 1 where none is given.
        device: Where the parameters live.
        dtype: Their precision.

    Returns:
        A sum with a ``Linear`` for each group, and a ``torch.nn.Linear``.

    Raises:
        TypeError: If ``groups`` is a single one.
        ValueError: If there is no group, one is given twice, its name cannot be that of a path,
            it has no equivariant map but zero, the widths differ, or some groups are complex and
            others not.

    Example:
        >>> from isotropy.groups import S, Z
        >>> from isotropy.reps import V
        >>> layer = soft_linear(V, V, [S(6), Z(6)], bias=False, prior_variances={"free": 0.1})
        >>> layer(torch.randn(5, 6)).shape
        torch.Size([5, 6])
        >>> {name: sum(p.numel() for p in path.parameters()) for name, path in layer.paths.items()}
        {'S(6)': 2, 'Z(6)': 6, 'free': 36}
    """
    strict = {
        name: Linear(rep_in, rep_out, group, bias=bias, device=device, dtype=dtype)
        for name, group in _named(groups, free).items()
    }
    kinds = {name: path.coefficients.dtype for name, path in strict.items()}
    if len(set(kinds.values())) > 1:
        raise ValueError(
            f"expected groups that are all real or all complex, got {kinds}: give a complex dtype="
        )
    paths: dict[str, nn.Module] = dict(strict)
    if free:
        first = next(iter(strict.values()))
        paths[_FREE] = nn.Linear(
            first.in_features,
            first.out_features,
            bias=bias,
            device=device,
            dtype=first.coefficients.dtype,
        )
    # variances of the priors go where the parameters are
    return PathSum(paths, prior_variances=prior_variances).to(device)


def _named(
    groups: Iterable[Group | str] | Mapping[str, Group | str], free: bool
) -> dict[str, Group]:
    if isinstance(groups, Group | str):
        raise TypeError(f"expected several groups, got {groups}: write [{groups}]")
    given = groups.items() if isinstance(groups, Mapping) else ((None, group) for group in groups)
    named: dict[str, Group] = {}
    for key, wanted in given:
        group = parse_group(wanted) if isinstance(wanted, str) else wanted
        name = str(group) if key is None else key
        if not name or "." in name or (free and name == _FREE):
            raise ValueError(
                f"expected names of paths without a dot, and not {_FREE!r}, got {name!r}: give "
                "groups as {name: group}"
            )
        if name in named or group in named.values():
            raise ValueError(f"expected each group once, got {group} again")
        named[name] = group
    if not named:
        raise ValueError("expected at least one group, got none")
    return named
