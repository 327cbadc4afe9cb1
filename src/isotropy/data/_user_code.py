"""Running the user's own code: a file or a module, and a name in it that makes a model."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from torch import nn


def call_factory(place: Path | str, name: str) -> nn.Module:
    """Import a file or a module by name, and make the model that a name in it stands for.

    Args:
        place: The file, or the dotted name of a module.
        name: A function or class to call without arguments, or a model.

    Returns:
        The model.

    Raises:
        ValueError: If the code fails, which is then the cause, or makes something else.
    """
    folder = place.absolute().parent if isinstance(place, Path) else Path.cwd()
    with _leading_path(folder):
        module = _import_file(place) if isinstance(place, Path) else _import_name(place)
        if not hasattr(module, name):
            raise ValueError(f"{place}: expected a name among {_makers(module)}, got {name!r}")
        made = getattr(module, name)
        if not isinstance(made, nn.Module) and callable(made):
            with _blaming(f"{place}: expected {name}() to make a model", str(place)):
                made = made()
    if not isinstance(made, nn.Module):
        raise ValueError(
            f"{place}: expected a torch.nn.Module from {name!r}, got {type(made).__name__}"
        )
    return made


@contextmanager
def _leading_path(folder: Path) -> Iterator[None]:
    """Let code import what lies in a folder."""
    entry = str(folder)
    _forget_strays(folder)
    importlib.invalidate_caches()
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


def _forget_strays(folder: Path) -> None:
    """Drop modules of the same names that came from the folder of another model.

    They can no longer be imported, yet would be found in place of the neighbours in this folder.
    Modules from any place that is on the path stay, as they would win in any program.
    """
    for path in folder.iterdir():
        name = path.stem
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None or (path.suffix != ".py" and not path.is_dir()):
            continue
        home = Path(file).parent.parent if Path(file).stem == "__init__" else Path(file).parent
        if home != folder and str(home) not in sys.path:
            for loaded in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
                del sys.modules[loaded]


def _import_file(path: Path) -> ModuleType:
    # The name must be free and the same next time: two files may both be called model.py.
    name = f"_isotropy_{path.stem}_{sha256(str(path.absolute()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}: expected a file of Python code ending in .py")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and pickling look the module up by its name
    try:
        with _blaming(f"{path}: expected a file that can be imported", str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module


def _import_name(name: str) -> ModuleType:
    try:
        with _blaming(f"{name}: expected a module that can be imported", name):
            return importlib.import_module(name)
    except ValueError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and _is_part(cause.name, name):
            raise ValueError(f"{name}: expected a module on the path, got none") from cause
        raise


def _is_part(missing: str | None, name: str) -> bool:
    return missing is not None and (name == missing or name.startswith(f"{missing}."))


@contextmanager
def _blaming(expected: str, place: str) -> Iterator[None]:
    """Say in one sentence how the user's code failed, and keep its own error as the cause."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).name == Path(place).name]
        where = f" in line {lines[-1]}" if lines else ""
        raise ValueError(f"{expected}, got {type(error).__name__}: {error}{where}") from error


def _makers(module: ModuleType) -> str:
    """List the models, functions and classes that a module itself defines."""
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (
            isinstance(value, nn.Module)
            or (callable(value) and getattr(value, "__module__", None) == module.__name__)
        )
    ]
    return ", ".join(names[:12]) or "(none: it defines no functions or models)"
