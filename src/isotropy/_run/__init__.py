"""What long work needs: atomic files, progress, seeds, checkpoints and a look at free memory."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
