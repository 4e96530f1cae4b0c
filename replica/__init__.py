"""Replica theory of in-context learning: exact errors, experiments that check them, attention regression.

All quantities are dimensionless. Names are resolved on first use, so importing the package is cheap.

>>> from replica import Parameters, solve
>>> solution = solve(Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3))
>>> print(f"{solution.errors['IDG']:.6f}")
1.441558
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "InputError": "replica.exceptions",
    "Parameters": "replica.parameters",
    "Status": "replica.engine",
    "optimize": "replica.theory",
    "solve": "replica.theory",
}

__all__ = ["InputError", "Parameters", "Status", "__version__", "optimize", "solve"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'replica' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
