"""Where ``isotropy discover`` saves: a folder of findings, models, certificates and the report."""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotropy.certificates._certify_findings import CertifiedFinding
    from isotropy.data import Dataset, Transitions
    from isotropy.discovery import Findings

_SEARCH, _REPORT, _LIST = "search.json", "report.html", "findings.json"
_OURS = re.compile(
    r"(finding|trivial|nearly|partly)-\d+|(with|without)-\d+\.iso|findings\.json|report\.html|search\.json"
)
_SUFFIXES = re.compile(r"(\.(csv|tsv|npz|npy|parquet|gz))+$", re.IGNORECASE)
_FORMAT = 1


def default_folder(data: Path) -> Path:
    """Where to save what was found in a file, by default: in a folder named after it.

    Example:
        >>> str(default_folder(Path("measurements/table.csv.gz")))
        'table-symmetry'
    """
    stem = _SUFFIXES.sub("", data.resolve().name) or "data"
    return Path(f"{stem}-symmetry")


def require_folder(folder: Path) -> None:
    """Refuse, before a long search, a folder that could not be saved to or is not ours."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected a folder to save to, got the file {str(folder)!r}")
    if folder.is_dir() and any(folder.iterdir()) and not _holds_ours(folder):
        raise ValueError(
            f"expected a new folder to save to, or one that was saved before, got {str(folder)!r}, "
            "which holds other files"
        )


def _holds_ours(folder: Path) -> bool:
    return any(
        _OURS.fullmatch(entry.name) or entry.name.startswith("search.db")
        for entry in folder.iterdir()
    )


def fingerprint(data: "Dataset | Transitions", options: Mapping[str, Any]) -> str:
    """What tells a search from another: its data, number by number, and its options."""
    from isotropy import __version__
    from isotropy._run import json_text
    from isotropy.data import Transitions

    names = {kind: getattr(data, kind, None) for kind in ("x_names", "y_names", "classes", "task")}
    digest = sha256(json_text({**options, **names, "version": __version__}).encode())
    arrays = (
        (data.observations, data.actions, data.next_observations)
        if isinstance(data, Transitions)
        else (data.x, data.y, data.groups)
    )
    for array in arrays:
        if array is not None:
            digest.update(str(tuple(array.shape)).encode())
            digest.update(array.contiguous().numpy().tobytes())
    return digest.hexdigest()


def saved_search(folder: Path, mark: str) -> "Findings | None":
    """What an earlier search with the same data and options found; None where it was stopped."""
    from isotropy._run._json_fields import flag, record, text, whole
    from isotropy.discovery import Findings
    from isotropy.discovery.telling._finding_files import checked, read_json

    try:
        given = read_json(folder, _SEARCH, "a search")
        fields = {"format": whole(_FORMAT, _FORMAT), "mark": text(64), "complete": flag}
        state = checked(record(fields), given, folder / _SEARCH)
    except ValueError as error:
        raise ValueError(
            f"expected a search to go on with in {str(folder)!r}, got a folder without "
            f"{_SEARCH} that can be read ({error!s:.300})"
        ) from None
    if state["mark"] != mark:
        raise ValueError(
            f"expected the data and options of the search in {str(folder)!r} to go on with it, got "
            "others"
        )
    return Findings.load(folder) if state["complete"] else None


def is_complete(folder: Path, mark: str) -> bool:
    """Whether a folder holds what a search with the same data and options found, all of it."""
    try:
        return saved_search(folder, mark) is not None
    except ValueError:
        return False


def save_search(
    found: "Findings",
    folder: Path,
    *,
    title: str,
    mark: str,
    certificates: "Mapping[int, CertifiedFinding]",
) -> None:
    """Write all of it, or nothing: what was saved before stays until the rest is on the disk."""
    from isotropy._run import replaced_contents, write_json
    from isotropy.report import write_finding_page

    with replaced_contents(folder, lambda name: bool(_OURS.fullmatch(name))) as new:
        found.save(new)
        for number, pair in certificates.items():
            for kind, one in (("with", pair.with_symmetry), ("without", pair.without)):
                one.save(new / f"{kind}-{number + 1}.iso")
        write_finding_page(found, new / _REPORT, title=title, folder=str(folder))
        state = {"format": _FORMAT, "mark": mark, "complete": not found.stopped}
        write_json(new / _SEARCH, state)


def with_certificates(
    found: "Findings", certified: "list[CertifiedFinding | str]", folder: Path | None
) -> "Findings":
    """The findings, each with what its certificates say, or why it has none."""
    several = []
    for number, (finding, pair) in enumerate(zip(found, certified, strict=True), 1):
        if isinstance(pair, str):
            summary: dict[str, Any] = {"reason": pair}
        else:
            summary = {**pair.to_json(), "verdict": str(pair)}
            for kind in ("with", "without"):
                if folder is not None:
                    summary[kind]["path"] = str(folder / f"{kind}-{number}.iso")
        several.append(replace(finding, certificates=summary))
    return replace(found, findings=several)
