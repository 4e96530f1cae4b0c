"""The README's examples are run and must print what it says."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from replica.cli.main import main

TEXT = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def test_python_examples() -> None:
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks("python")), {}, "README", "README.md", 0)
    assert len(examples.examples) >= 4
    assert doctest.DocTestRunner(verbose=False).run(examples).failed == 0


def commands() -> list[tuple[str, str]]:
    """Each `$ replica ...` line and the output printed below it."""
    pairs = []
    for block in blocks("console"):
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE):
            pairs.append((command, output))
    return pairs


@pytest.mark.parametrize(
    ("command", "output"), [(c, o) for c, o in commands() if c.startswith("replica") and o.strip()]
)
def test_command_examples(command: str, output: str) -> None:
    done = CliRunner().invoke(main, shlex.split(command)[1:])
    assert done.exit_code == 0
    assert done.stdout == output


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    targets = [command.split()[1] for command, _ in commands() if command.startswith("make")]
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)
