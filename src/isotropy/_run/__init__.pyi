from isotropy._run._checkpoints import Checkpoint
from isotropy._run._files import atomic_write, cache_folder, replaced_contents, write_json
from isotropy._run._json import json_text
from isotropy._run._memory import amount, available_bytes, bytes_of, require_memory
from isotropy._run._patience import OutOfTime, Patience, seconds_of, time_in_words
from isotropy._run._progress import ProgressCallback, Step, terminal_progress
from isotropy._run._seeds import generator, spawn
from isotropy._run._torch_states import evaluation_mode, one_thread

__all__ = [
    "Checkpoint",
    "OutOfTime",
    "Patience",
    "ProgressCallback",
    "Step",
    "amount",
    "atomic_write",
    "available_bytes",
    "bytes_of",
    "cache_folder",
    "evaluation_mode",
    "generator",
    "json_text",
    "one_thread",
    "replaced_contents",
    "require_memory",
    "seconds_of",
    "spawn",
    "terminal_progress",
    "time_in_words",
    "write_json",
]
