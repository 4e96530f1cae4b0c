"""The shape of the project: who may import whom, that everything imports, that start-up stays light."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOMES = {"replica": ROOT / "replica", "replica.cli": ROOT / "cli", "replica.figures": ROOT / "figures"}

# Each room and the rooms it may import from, besides itself (see CONTRIBUTING.md).
BASE = {"replica", "replica.exceptions", "replica.parameters"}
ALLOWED = {
    "replica.exceptions": set(),
    "replica.parameters": {"replica.exceptions"},
    "replica.engine": {"replica.exceptions"},
    "replica.theory": BASE | {"replica.engine"},
    "replica.simulation": BASE,
    "replica.softmax": {"replica.exceptions"},
    "replica.configs": set(),
    "replica.sweep": BASE
    | {"replica.engine", "replica.theory", "replica.simulation", "replica.softmax", "replica.configs"},
}
ALLOWED["replica.figures"] = BASE | set(ALLOWED)
ALLOWED["replica.cli"] = BASE | set(ALLOWED) | {"replica.figures"}
ALLOWED["replica.__main__"] = {"replica.cli"}
ALLOWED["replica"] = set()


def modules() -> dict[str, Path]:
    """Every module by its installed name; the mapped folders are walked here because pkgutil misses them."""
    found = {"replica.configs": ROOT / "configs" / "__init__.py"}
    for package, folder in HOMES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join([package, *parts]).removesuffix(".__init__")] = path
    return found


def room(module: str) -> str:
    return max((name for name in ALLOWED if module == name or module.startswith(name + ".")), key=len)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the room they reach into"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.split(".")[0] == "replica"}


def upward(module: str, path: Path) -> set[str]:
    """The imports of a module that its room does not allow."""
    mine = room(module)
    return {name for name in imported(path) if room(name) != mine and room(name) not in ALLOWED[mine]}


@pytest.mark.parametrize("module", modules())
def test_imports_never_go_up(module: str) -> None:
    assert upward(module, modules()[module]) == set()


def test_an_upward_import_is_seen(tmp_path: Path) -> None:
    guilty = tmp_path / "guilty.py"
    guilty.write_text("def f():\n    from replica.theory import solve\n    return solve\n")
    assert upward("replica.simulation.guilty", guilty) == {"replica.theory.solve"}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_pages_list_each_room_once_and_in_order(page: str) -> None:
    """`ALLOWED` is in the order of the rooms, lowest first; its modules that are no rooms have no row."""
    listed = re.findall(r"^\| `((?:replica/|figures|cli|configs)[^`]*)` \|", (ROOT / page).read_text(), re.M)
    names = ["replica." + name.removeprefix("replica/").strip("/").removesuffix(".py") for name in listed]
    rooms = [name for name in ALLOWED if name not in ("replica", "replica.exceptions", "replica.__main__")]
    assert names == rooms


@pytest.mark.parametrize("module", [name for name in modules() if name != "replica.__main__"])
def test_every_module_imports(module: str) -> None:
    assert import_module(module).__doc__


def test_help_loads_nothing_heavy() -> None:
    heavy = {"numpy", "scipy", "sympy", "matplotlib", "xarray", "joblib", "pandas"}
    code = (
        "import sys\nfrom replica.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        f"loaded = sorted({heavy!r} & set(sys.modules))\nassert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage: replica" in done.stdout
