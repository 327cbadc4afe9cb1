"""Finding the symmetry of a task: its generators, or shared parameters, and the group behind."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
