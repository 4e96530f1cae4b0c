"""The seven parameters as options of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from replica.parameters import RANGES


class Number(click.ParamType):
    """A real number; says the allowed range of the parameter when it is none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(value)
        except ValueError:
            allowed = f"; allowed range {RANGES[param.name]}" if param and param.name in RANGES else ""
            self.fail(f"{value!r} is not a number{allowed}", param, ctx)


def parameter_options(
    required: bool = True, kind: click.ParamType | None = None, without: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--alpha ... --ridge`; the command receives them by name, `None` being left out.

    With `required`, `alpha_test` alone may be left out and `ridge` is 0; without, all may be left out. Values
    are of `kind`, a `Number` unless said otherwise; parameters in `without` get no option.
    """
    defaults: dict[str, dict[str, Any]] = {}
    if required:
        defaults = {name: {"required": True} for name in RANGES}
        defaults |= {"alpha_test": {"show_default": "alpha"}, "ridge": {"default": 0.0, "show_default": True}}

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, allowed in reversed(list(RANGES.items())):
            if name in without:
                continue
            settings = {"type": kind or Number(), **defaults.get(name, {})}
            settings["help"] = f"{allowed.meaning[0].upper()}{allowed.meaning[1:]}, {allowed}."
            command = click.option(f"--{name.replace('_', '-')}", name, **settings)(command)
        return command

    return add
