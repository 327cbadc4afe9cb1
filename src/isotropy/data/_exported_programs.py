"""Exported programs: what ``torch.export.save`` writes, parsed before PyTorch sees it.

``torch.export.load`` evaluates, imports and unpickles what stands in such a file. So the file is
read here by a grammar of our own, and PyTorch is given a new archive of what was parsed: the
weights, the graph with its sizes and guards written anew, and example inputs that we make.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from isotropy.data._exported_checks import check_operators
from isotropy.data._exported_graph import parse_program, require_tensors, write_program
from isotropy.data._exported_tensors import parse_stored, write_stored
from isotropy.data._exported_trees import filled
from isotropy.data._json_grammar import Refused

# All that an archive of plain tensors holds, below its root folder. Compiled libraries, objects
# and tensors of older formats, which PyTorch would unpickle or run, have other names.
_PLAIN = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/\w+|extra/(?!.*\.\.)[^\\\x00-\x1f]{1,200}"
    r"|models/model\.json"
    r"|data/weights/(weight_\d{1,9}|model_weights_config\.json)"
    r"|data/constants/(tensor_\d{1,9}|model_constants_config\.json)"
    r"|data/sample_inputs/model\.pt"
)
_NEEDED = (
    "models/model.json",
    "data/weights/model_weights_config.json",
    "data/constants/model_constants_config.json",
)
_ROOT = re.compile(r"\w[\w\-. ]{0,199}")
_WRITTEN = {
    "archive_format": b"pt2",
    "archive_version": b"0",
    ".data/version": b"6\n",
    "byteorder": sys.byteorder.encode(),
}
_PROGRAM = "an exported program"
_GRAPH = "models/model.json"
_EXAMPLES = "data/sample_inputs/model.pt"
_WEIGHTS = "data/weights/model_weights_config.json"
_CONSTANTS = "data/constants/model_constants_config.json"


def read_archive(content: bytes) -> dict[str, bytes]:
    """Read the files of a program's archive.

    ``torch.export.save`` stores them uncompressed, so that together they are no larger than the
    archive; one that would unpack to more is refused.

    Args:
        content: The archive.

    Returns:
        The content of each file, by its name below the root folder.

    Raises:
        Refused: If it is damaged, or holds anything that such a program does not need.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > len(content):
                raise Refused(_PROGRAM, "a compressed archive, which PyTorch does not write")
            files = {_inner(member, members): member for member in members}
            if len(files) < len(members):
                raise Refused(_PROGRAM, "an archive with a name twice")
            read = {name: archive.read(member) for name, member in files.items()}
    except Refused:
        raise
    except Exception as error:  # zipfile raises many kinds
        raise Refused(_PROGRAM, _on_one_line(error)) from error
    for name in _NEEDED:
        if name not in read:
            raise Refused(_PROGRAM, f"none in the archive (no {name})")
    for name in ("archive_format", "archive_version", "byteorder"):
        if read.get(name, _WRITTEN[name]) != _WRITTEN[name]:
            raise Refused(f"{_WRITTEN[name].decode()} as {name}", repr(read[name][:20]))
    return read


def _inner(member: zipfile.ZipInfo, members: list[zipfile.ZipInfo]) -> str:
    """The name of a file below the root folder."""
    root = members[0].filename.partition("/")[0]
    before, slash, name = member.filename.partition("/")
    if before != root or not slash or not _ROOT.fullmatch(root) or not _PLAIN.fullmatch(name):
        raise Refused("plain tensors and a graph", f"{member.filename!r}, which could run any code")
    if member.compress_type != zipfile.ZIP_STORED:
        raise Refused(_PROGRAM, f"{member.filename!r}, which is compressed")
    return name


def write_archive(files: dict[str, bytes]) -> bytes:
    """A new archive of these files, in the form that ``torch.export.load`` reads."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {**files, **_WRITTEN}.items():
            archive.writestr(f"archive/{name}", content)
    return buffer.getvalue()


def _on_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


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
