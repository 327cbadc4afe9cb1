"""Exported programs: what ``torch.export.save`` writes, less anything that would be unpickled."""

from __future__ import annotations

import io
import json
import logging
import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

# All that an archive of plain tensors holds, below its root folder. Compiled libraries, objects
# and tensors of older formats, which PyTorch would unpickle or run, have other names.
_PLAIN = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/\w+|extra/.*|models/model\.json"
    r"|data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)"
    r"|data/sample_inputs/model\.pt"
)


def load_exported_program(path: Path, device: str | torch.device) -> nn.Module:
    """Load a .pt2 file as a module.

    Args:
        path: The file.
        device: Where to put it.

    Returns:
        The module.

    Raises:
        ValueError: If it is no exported program, or holds pickles or compiled libraries.
    """
    content = path.read_bytes()  # what is checked must be what is loaded
    _refuse_pickles(content, path)
    try:
        with _quiet():
            program = torch.export.load(io.BytesIO(content))
    except Exception as error:
        raise ValueError(
            f"{path}: expected an exported program that this PyTorch reads, got {error}"
        ) from error
    if torch.device(device).type != "cpu":
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(program, device)
    return program.module()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyTorch from logging the traceback of an error that we report."""
    logger = logging.getLogger("torch.export")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _refuse_pickles(content: bytes, path: Path) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            root = names[0].partition("/")[0] + "/" if names else ""
            inner = [name.removeprefix(root) for name in names]
            if len(set(names)) < len(names) or "models/model.json" not in inner:
                raise zipfile.BadZipFile("no models/model.json, or a name twice")
            for full, name in zip(names, inner, strict=True):
                if full == name or not _PLAIN.fullmatch(name):
                    raise ValueError(
                        f"{path}: expected plain tensors and a graph, got {full!r}, "
                        "which could run any code"
                    )
                if name.endswith("_config.json"):
                    _require_plain_tensors(archive.read(full), path)
                if name.endswith(".pt"):
                    _require_safe_inputs(archive.read(full), path)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path}: expected an exported program, got {error}") from error


def _require_plain_tensors(config: bytes, path: Path) -> None:
    try:
        entries = json.loads(config)["config"].values()
        plain = all(entry["use_pickle"] is False for entry in entries)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: expected an exported program, got a damaged one") from error
    if not plain:
        raise ValueError(
            f"{path}: expected plain tensors, got a pickled one, which could run any code"
        )


def _require_safe_inputs(content: bytes, path: Path) -> None:
    """Refuse example inputs that PyTorch's restricted loader would not take."""
    if not content:
        return
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path}: expected tensors as example inputs, got a pickle that could run any code"
        ) from error
