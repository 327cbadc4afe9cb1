"""Every test and doctest starts from the same seed, with a cache of its own."""

import os
import random

# Workers share the cores, so each keeps to one thread; this must precede the import of torch.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def repeatable(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    random.seed(0)
    torch.manual_seed(0)
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path_factory.mktemp("cache")))
