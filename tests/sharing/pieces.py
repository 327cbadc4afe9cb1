"""What is not public in sharing and several tests speak to: one place to change."""

from isotropy.sharing._assignment import (
    canonical_labels,
    hard_assignment,
    rank_penalty,
    row_entropy,
    row_softmax,
)

__all__ = ["canonical_labels", "hard_assignment", "rank_penalty", "row_entropy", "row_softmax"]
