"""README and documentation: what they show is run and must print what they say."""

import doctest
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from replica.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = {str(path.relative_to(ROOT)): path for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]}


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and content of each fenced block, in the order of the page."""
    return re.findall(r"^```(\S+).*\n((?:.*\n)*?)```$", PAGES[page].read_text(), flags=re.MULTILINE)


def commands(content: str) -> list[tuple[str, str]]:
    """Each `$ ...` line of a console block and the output printed below it."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", content, flags=re.MULTILINE)


def run_python(content: str, names: dict[str, Any], page: str) -> None:
    test = doctest.DocTestParser().get_doctest(content, names, page, page, 0)
    assert test.examples, f"{page} has a block of Python without an example:\n{content}"
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test, clear_globs=False).failed == 0
    names.update(test.globs)


def run_command(command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        assert f"\n{arguments[0]}:" in (ROOT / "Makefile").read_text()
        return
    assert program == "replica", f"{command!r} is no command of this project"
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert doctest.OutputChecker().check_output(output, done.output, doctest.ELLIPSIS), done.output


def keep_file(content: str) -> None:
    """Write the file that a block shows under the name in its caption."""
    name, text = re.fullmatch(r":caption: (\S+)\n\n(.*)", content, flags=re.DOTALL).groups()
    Path(name).write_text(text)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_happens(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run in its order, in one folder and one Python session."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, content in blocks(page):
        if language == "python":
            run_python(content, names, page)
        elif language == "console":
            for command, output in commands(content):
                run_command(command, output)
        elif language == "{code-block}":
            keep_file(content)


def test_the_derivation_shows_the_equations_that_are_solved() -> None:
    """`make docs` brings the page up to date."""
    spec = importlib.util.spec_from_file_location("equations", ROOT / "docs" / "equations.py")
    assert spec is not None
    assert spec.loader is not None
    equations = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(equations)
    text = PAGES["docs/derivation.md"].read_text()
    assert text.count("<!-- printed: ") >= 10
    assert equations.filled(text) == text
    with pytest.raises(ValueError, match="no equation of action matches"):
        equations.filled("<!-- printed: action; nothing -->\n<!-- end -->")


def test_the_table_of_quantities_names_tests_that_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGES["docs/quantities.md"].read_text())
    assert len(named) >= 30
    missing = [
        f"{file}::{name}"
        for file, name in named
        if f"\ndef {name}(" not in (ROOT / "tests" / file).read_text()
    ]
    assert missing == []


def test_the_readme_shows_its_two_commands_and_python() -> None:
    found = blocks("README.md")
    shown = [command for language, text in found if language == "console" for command, _ in commands(text)]
    assert [command.split()[1] for command in shown if command.startswith("make")] == ["demo", "test"]
    assert sum(text.count(">>> ") for language, text in found if language == "python") >= 4
