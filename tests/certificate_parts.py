"""What is not public in certificates and several tests speak to: one place to change."""

from isotropy.certificates._bits import BitReader, BitWriter, width_of
from isotropy.certificates._certification import certificate_of
from isotropy.certificates._counter_random import random_normals, random_words
from isotropy.certificates._examples import Examples, dealt_rows, examples
from isotropy.certificates._group_code import (
    MOST_CODE_BITS,
    read_group,
    writable_group,
    write_group,
)
from isotropy.certificates._initial import pack_start, unpack_start
from isotropy.certificates._tensor_sums import KINDS, TensorSum

__all__ = [
    "KINDS",
    "MOST_CODE_BITS",
    "BitReader",
    "BitWriter",
    "Examples",
    "TensorSum",
    "certificate_of",
    "dealt_rows",
    "examples",
    "pack_start",
    "random_normals",
    "random_words",
    "read_group",
    "unpack_start",
    "width_of",
    "writable_group",
    "write_group",
]
