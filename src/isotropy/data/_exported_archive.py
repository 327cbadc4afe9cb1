"""The archive of an exported program: what may be in it, and a new one of what was checked."""

from __future__ import annotations

import io
import re
import sys
import zipfile

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
