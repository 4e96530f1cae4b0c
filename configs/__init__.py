"""The configs that ship with the project, addressed by name."""

from importlib.resources import files
from pathlib import Path


def names() -> list[str]:
    """The names of the shipped configs, sorted."""
    return sorted(
        entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.suffix == ".toml"
    )


def path(name: str) -> Path:
    """Where the shipped config `name` lies (it need not exist)."""
    return _folder() / f"{name}.toml"


def _folder() -> Path:
    return Path(str(files(__name__)))
