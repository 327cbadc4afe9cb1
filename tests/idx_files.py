"""Files of images in the idx format of MNIST, for tests that read them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    """Write bytes as an idx file: a header of kind, axes and sizes, then the numbers."""
    header = bytes([0, 0, 0x08, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(header + np.ascontiguousarray(array).tobytes())
