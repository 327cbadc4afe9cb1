from isotropy.data._augment import Augment
from isotropy.data._column_tables import guess_target
from isotropy.data._dataset import Dataset
from isotropy.data._fetch import fetch
from isotropy.data._images import resized, small_digits, standardised
from isotropy.data._intake import Intake
from isotropy.data._load import load
from isotropy.data._models import load_model
from isotropy.data._regression_tasks import inertia, lorentz_scattering, o5_invariant
from isotropy.data._task import Splits, Standardisation, Task
from isotropy.data._transitions import TransitionChunks, Transitions

__all__ = [
    "Augment",
    "Dataset",
    "Intake",
    "Splits",
    "Standardisation",
    "Task",
    "TransitionChunks",
    "Transitions",
    "fetch",
    "guess_target",
    "inertia",
    "load",
    "load_model",
    "lorentz_scattering",
    "o5_invariant",
    "resized",
    "small_digits",
    "standardised",
]
