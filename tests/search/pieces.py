"""What is not public in search and several tests speak to: one place to change."""

from isotropy.search._database import opened
from isotropy.search._shared_study import SharedStudy
from isotropy.search._study import _settle, shared_study
from isotropy.search._worker_claims import Claims

__all__ = ["Claims", "SharedStudy", "_settle", "opened", "shared_study"]
