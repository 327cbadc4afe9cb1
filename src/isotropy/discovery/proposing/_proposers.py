"""Which proposers look at a problem: one for each kind of symmetry that suits its rows."""

from __future__ import annotations

from collections.abc import Sequence

from isotropy.discovery._discover_options import Criteria, DiscoverOptions
from isotropy.discovery.proposing._proposer import Proposer
from isotropy.discovery.proposing.generators._generator_search import Blocks
from isotropy.discovery.reading._plan import Method, refuse_options
from isotropy.discovery.reading._read_problem import Problem


def proposers_for(
    problem: Problem,
    candidates: Sequence[str],
    blocks: Blocks | None,
    options: DiscoverOptions,
    criteria: Criteria,
) -> list[Proposer]:
    """Those for the methods of a problem, in the order in which they look.

    Args:
        problem: The rows, and what is looked for in them.
        candidates: Groups of the user's.
        blocks: Columns that move in the same way.
        options: Of the search.
        criteria: What a claim has to stand.

    Raises:
        ValueError: If an option is for rows of another kind.
    """
    _require_suiting(problem, candidates, blocks, options)
    found: list[Proposer] = []
    for method in problem.methods:
        found += _of_method(method, problem, candidates, blocks, options, criteria)
    return found


def _of_method(
    method: Method,
    problem: Problem,
    candidates: Sequence[str],
    blocks: Blocks | None,
    options: DiscoverOptions,
    criteria: Criteria,
) -> list[Proposer]:
    """The proposers of a method; each is imported where it is used."""
    if method == "permutations":
        from isotropy.discovery.proposing._convolution_proposer import (
            ConvolutionProposer,
        )
        from isotropy.discovery.proposing.permutations._permutation_proposer import (
            PermutationProposer,
        )

        near = criteria.near_margin if criteria.looks_near else 0.0
        return [PermutationProposer(candidates, near), ConvolutionProposer()]
    if method == "generators":
        from isotropy.discovery.proposing.generators._generator_proposer import GeneratorProposer

        return [GeneratorProposer(blocks)]
    if method == "transitions":
        from isotropy.discovery.proposing._transition_proposer import (
            TransitionProposer,
        )

        return [TransitionProposer()]
    if method == "groups":
        from isotropy.discovery.proposing._layer_group_proposer import (
            LayerGroupProposer,
        )

        return [LayerGroupProposer(candidates, options.study, options.strategy, options.children)]
    from isotropy.discovery.proposing._layer_proposer import LayerProposer
    from isotropy.discovery.proposing._motion_proposer import MotionProposer

    asked = () if "groups" in problem.methods else candidates
    return [MotionProposer(asked), LayerProposer()]


def _require_suiting(
    problem: Problem, candidates: Sequence[str], blocks: Blocks | None, options: DiscoverOptions
) -> None:
    """Refuse options that are for data of another kind."""
    channels_first = options.channels_first or None
    if problem.kind == "transitions":
        given = {"candidates": candidates or None, "channels_first": channels_first}
        refuse_options("transitions", blocks=blocks, **given)
        return
    refuse_options("data that are no transitions", entry_names=options.entry_names)
    if problem.kind == "images":
        refuse_options(blocks=blocks, channels_first=channels_first)
