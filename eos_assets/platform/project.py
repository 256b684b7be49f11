"""The project in which a command runs: its root is the nearest folder above that holds a pyproject.toml."""

import os
import sys
import tomllib
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.platform.setting_types import check_module_names, suggest


def project_root(folder: Path) -> Path:
    """The nearest folder above that holds a pyproject.toml, else the folder itself."""
    for candidate in (folder, *folder.parents):
        if os.path.isfile(candidate / "pyproject.toml"):
            return candidate
    return folder


def declared_modules(root: Path) -> tuple[str, ...]:
    """The modules of `[tool.eos]` in the pyproject.toml of a project; none without that file or table."""
    path = root / "pyproject.toml"
    if not os.path.isfile(path):
        return ()
    try:
        tool = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError) as error:
        raise EosError(f"{path} cannot be read: {error}.", "Correct that file.") from error
    table = tool.get("eos", {})
    for name in table:
        if name != "modules":
            raise EosError(
                f"{path}: [tool.eos] has no setting {name}.",
                f"{suggest(name, ['modules'])}Set only modules there.",
            )
    modules = table.get("modules", [])
    if not isinstance(modules, list) or not all(isinstance(module, str) for module in modules):
        raise EosError(
            f"{path}: [tool.eos] modules={modules!r} is not valid.", 'Write a list of names: modules = ["my.module"].'
        )
    check_module_names(modules, f"{path}, [tool.eos]")
    return tuple(modules)


def make_importable(folder: Path) -> None:
    """Let this process, and those that it starts, import modules of a folder and of its project."""
    folders = list(dict.fromkeys(str(path.absolute()) for path in (folder, project_root(folder))))
    inherited = [str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path += [path for path in folders if path not in sys.path]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*inherited, *folders]))
