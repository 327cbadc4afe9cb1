"""The header of tensors in the safetensors format, read by a grammar before the tensors are."""

from __future__ import annotations

import math
import struct

from isotropy._run._json import bounded_json, shown, utf8_text

LONGEST_HEADER = 2**20
_LENGTH = 8
_TENSORS, _NAME, _AXES = 10_000, 256, 8
_METADATA = "__metadata__"
_BYTES = {
    **dict.fromkeys(("F64", "I64", "U64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("I8", "U8", "BOOL"), 1),
}


def check_tensor_header(start: bytes, size: int, what: str) -> None:
    """Read the header of tensors, and see that they fill the rest exactly.

    Args:
        start: The first bytes, at least up to the end of the header.
        size: How many bytes there are in all.
        what: What they are, for the message.

    Raises:
        ValueError: If they are not numbers of known kinds and shapes, one after another, each under
            a name of its own.

    Example:
        >>> text = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        >>> data = struct.pack("<Q", len(text)) + text + bytes(7)
        >>> check_tensor_header(data, len(data), "weights")
        Traceback (most recent call last):
        ...
        ValueError: expected 8 bytes of numbers in weights, got 7 after the header
    """
    length = struct.unpack("<Q", start[:_LENGTH])[0] if len(start) >= _LENGTH else -1
    end = _LENGTH + length
    if not 0 < length <= LONGEST_HEADER or end > min(size, len(start)):
        raise ValueError(f"expected tensors of safetensors as {what}, got {shown(start)}")
    header = f"the header of {what}"
    text = utf8_text(start[_LENGTH:end], header)
    found = bounded_json(text, header)
    if not isinstance(found, dict) or len(found) > _TENSORS:
        raise ValueError(f"expected up to {_TENSORS} named tensors as {what}, got {shown(text)}")
    metadata = found.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError(f"expected texts as metadata of {what}, got {shown(metadata)}")
    reached = 0
    for first, last in sorted(_place(name, about, what) for name, about in found.items()):
        if first != reached:
            raise ValueError(f"expected tensors one after another in {what}, got a gap or overlap")
        reached = last
    if reached != size - end:
        raise ValueError(
            f"expected {shown(reached)} bytes of numbers in {what}, got {size - end} after the "
            "header"
        )


def _place(name: str, about: object, what: str) -> tuple[int, int]:
    """Where the bytes of a tensor begin and end, which its dtype and shape must agree with."""
    if not 0 < len(name) <= _NAME:
        raise ValueError(f"expected names of 1 to {_NAME} letters in {what}, got {shown(name)}")
    if not isinstance(about, dict) or set(about) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"expected dtype, shape and offsets in {what}, got {shown(about)}")
    dtype, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BYTES:
        raise ValueError(f"expected real numbers in {what}, got the kind {shown(dtype)}")
    if not _counts(shape) or len(shape) > _AXES:
        raise ValueError(f"expected a shape in {what}, got {shown(shape)}")
    if not _counts(offsets) or len(offsets) != 2:
        raise ValueError(f"expected two offsets in {what}, got {shown(offsets)}")
    first, last = offsets
    if last - first != math.prod(shape) * _BYTES[dtype]:
        raise ValueError(
            f"expected as many bytes as the shape {shown(shape)} takes in {what}, got "
            f"{shown(last - first)}"
        )
    return first, last


def _counts(found: object) -> bool:
    """Whether it is a list of whole numbers from 0 on."""
    return isinstance(found, list) and all(
        isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in found
    )
