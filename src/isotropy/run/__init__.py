"""What scripts of long work need: progress, seeds, files written whole, checkpoints."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
