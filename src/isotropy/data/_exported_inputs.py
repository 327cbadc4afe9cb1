"""Example inputs of exported programs: a pickle, which is looked at and never loaded."""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
from typing import Any

import torch

from isotropy.data._exported_trees import filled
from isotropy.data._json_grammar import Refused

_CODE = "a pickle that could run any code"
_LARGEST_PICKLE = 2**24
# What the pickle of tensors, numbers and strings calls.
_CALLED = re.compile(
    r"torch\._utils _rebuild_\w+|torch\._tensor _rebuild_from_type_v2"
    r"|torch\.nn\.parameter Parameter|torch\.serialization _get_layout"
    r"|torch(\.storage|\.cuda)? \w+Storage|torch (Tensor|device|Size)"
    r"|torch (u?int\d+|float\d\w*|bfloat16|complex\d+|bool)"
    r"|collections (OrderedDict|Counter)|(builtins|__builtin__) (set|complex|bytearray)"
    r"|_codecs encode"
)


def require_plain_inputs(content: bytes) -> None:
    """Check that example inputs are tensors, without loading them.

    Args:
        content: The file that ``torch.save`` wrote, or nothing.

    Raises:
        Refused: If its pickle would call anything but what rebuilds tensors.

    Example:
        >>> buffer = io.BytesIO()
        >>> torch.save(((torch.ones(2, 3),), {}), buffer)
        >>> require_plain_inputs(buffer.getvalue())
        >>> torch.save(print, buffer)
        >>> require_plain_inputs(buffer.getvalue())
        Traceback (most recent call last):
        ...
        isotropy.data._json_grammar.Refused: expected tensors as example inputs, got a pickle that
        could run any code
    """
    if not content:
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            (member,) = (m for m in archive.infolist() if m.filename.endswith("/data.pkl"))
            if member.file_size > min(_LARGEST_PICKLE, len(content)):
                raise Refused("tensors as example inputs", _CODE)
            pickled = archive.read(member)
        for code, argument, _ in pickletools.genops(pickled):
            if code.name == "GLOBAL" and _CALLED.fullmatch(str(argument)):
                continue
            if code.name in {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4"}:
                raise Refused("tensors as example inputs", _CODE)
    except Refused:
        raise
    except Exception as error:
        raise Refused("tensors as example inputs", _CODE) from error


def write_inputs(nesting: str) -> bytes:
    """Example inputs of this nesting.

    PyTorch takes from them only where each input stands, so each leaf is an empty tensor.
    """

    def leaf() -> Any:
        return torch.zeros(())

    buffer = io.BytesIO()
    torch.save(filled(nesting, leaf), buffer)
    return buffer.getvalue()
