"""One run of learning priors: what it is made of, its epochs, and how it stops and goes on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import Checkpoint, ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy.evidence._approximate import laplace, prepared
from isotropy.evidence._batches import Batches, batches_of
from isotropy.evidence._curvature_pass import CurvatureOptions
from isotropy.evidence._evidence_gradient import evidence_gradient
from isotropy.evidence._laplace import Laplace
from isotropy.evidence._learning_options import LearningOptions
from isotropy.evidence._map_training import Diverged, MapTraining, generators_of, shuffled
from isotropy.evidence._path_priors import PathPriors
from isotropy.evidence._precision_groups import Groups, Precisions, groups_of, path_groups
from isotropy.evidence._precision_groups import precision_of as precisions_of
from isotropy.evidence._prior_history import LearnedPriors, PriorEstimate
from isotropy.evidence._prior_updates import HyperparameterUpdates, PriorUpdates
from isotropy.evidence._sharing import SharingModes
from isotropy.evidence._training_state import (
    Randomness,
    digest_of,
    model_tensors,
    modes_kept,
    optimiser_state,
    put_back,
    set_optimiser_state,
)

_FORMAT = "learn_priors 1"
_SECONDS_BETWEEN_FILES = 30.0
_FEW = 4  # samples for a trial of the curvature before training begins
