"""Exported programs: what ``torch.export.save`` writes, parsed before PyTorch sees it.

``torch.export.load`` evaluates, imports and unpickles what stands in such a file. So the file is
read here by a grammar of our own, and PyTorch is given a new archive of what was parsed: the
weights, the graph with its sizes and guards written anew, and example inputs that we make.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from isotropy.data._exported_archive import read_archive, write_archive
from isotropy.data._exported_checks import check_operators
from isotropy.data._exported_graph import parse_program, require_tensors, write_program
from isotropy.data._exported_tensors import parse_stored, write_stored
from isotropy.data._exported_trees import filled
from isotropy.data._json_grammar import Refused

_GRAPH = "models/model.json"
_EXAMPLES = "data/sample_inputs/model.pt"
_WEIGHTS = "data/weights/model_weights_config.json"
_CONSTANTS = "data/constants/model_constants_config.json"


def load_exported_program(path: Path, device: str | torch.device) -> nn.Module:
    """Load a .pt2 file as a module, running nothing that the file says.

    Args:
        path: The file.
        device: Where to put it.

    Returns:
        The module.

    Raises:
        ValueError: If it is no exported program, or holds anything but tensors and a graph of
            operators that compute.
    """
    try:
        content = rewritten(path.read_bytes())
    except Refused as refused:
        raise ValueError(f"{path}: {refused}") from refused
    except Exception as error:  # a file that cannot be read, or is nested too deeply
        raise ValueError(
            f"{path}: expected an exported program, got {_root_cause(error)}"
        ) from error
    with _logged_errors() as logged, warnings.catch_warnings():
        # of PyTorch about its own reading, and of SymPy about expressions that nobody would write
        warnings.simplefilter("ignore")
        try:
            program = torch.export.load(io.BytesIO(content))
            if torch.device(device).type != "cpu":
                from torch.export.passes import move_to_device_pass

                program = move_to_device_pass(program, device)
            module: nn.Module = program.module()
            check_operators(module)
            return module
        except Exception as error:  # whatever PyTorch makes of a graph that fits the grammar
            cause = logged[0] if logged else error
            raise ValueError(
                f"{path}: expected an exported program that this PyTorch reads, "
                f"got {_root_cause(cause)}"
            ) from error


def rewritten(content: bytes) -> bytes:
    """Parse an exported program and write it anew, with only what was parsed.

    Args:
        content: The file.

    Returns:
        The archive that PyTorch may load.

    Raises:
        Refused: If it holds anything that a program of tensors and operators does not.
    """
    files = read_archive(content)
    weights, weight_files = parse_stored(files[_WEIGHTS], "data/weights", "weight_", files)
    constants, constant_files = parse_stored(files[_CONSTANTS], "data/constants", "tensor_", files)
    program = parse_program(files[_GRAPH])
    require_tensors(program, {**constants, **weights})
    (call,) = program["graph_module"]["module_call_graph"]
    return write_archive(
        {
            **weight_files,
            **constant_files,
            _WEIGHTS: write_stored(weights),
            _CONSTANTS: write_stored(constants),
            _GRAPH: write_program(program),
            _EXAMPLES: _example_inputs(call["signature"]["in_spec"]),
        }
    )


def _example_inputs(nesting: str) -> bytes:
    """Example inputs, of which PyTorch takes only where each stands: an empty tensor for each."""
    buffer = io.BytesIO()
    torch.save(filled(nesting, lambda: torch.zeros(())), buffer)
    return buffer.getvalue()


@contextmanager
def _logged_errors() -> Iterator[list[BaseException]]:
    """Collect the errors that PyTorch would log with their traceback instead of raising them."""
    logger, found = logging.getLogger("torch.export"), list[BaseException]()

    def keep(record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            found.append(record.exc_info[1])
        return False

    logger.addFilter(keep)
    try:
        yield found
    finally:
        logger.removeFilter(keep)


def _root_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
