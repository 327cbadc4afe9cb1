from isotropy._run._checkpoints import Checkpoint
from isotropy._run._files import atomic_write, cache_folder, write_json
from isotropy._run._json import bounded_json
from isotropy._run._moved_keywords import moved_keywords
from isotropy._run._patience import OutOfTime
from isotropy._run._progress import ProgressCallback, Step, terminal_progress
from isotropy._run._seeds import generator, spawn

__all__ = [
    "Checkpoint",
    "OutOfTime",
    "ProgressCallback",
    "Step",
    "atomic_write",
    "bounded_json",
    "cache_folder",
    "generator",
    "moved_keywords",
    "spawn",
    "terminal_progress",
    "write_json",
]
