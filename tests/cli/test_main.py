"""What the group of commands adds to all of them."""

import errno
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from replica.cli.main import main

WIDTH = 100


def test_a_disk_that_fails_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    error = OSError(errno.ENOSPC, "words of a library", "out.csv")
    monkeypatch.setattr("replica.sweep.describe", Mock(side_effect=error))
    done = CliRunner().invoke(main, ["show", "any.nc"])
    assert (done.exit_code, done.stderr) == (1, "Error: 'out.csv': No space left on device\n")


def test_what_is_missing_is_named_with_its_range() -> None:
    done = CliRunner().invoke(main, ["solve", "--alpha", "2", "--kappa", "1", "--rho", "1"])
    assert done.exit_code == 2
    assert done.stderr == "Error: Missing option '--gamma'. Pre-training prompts, M/D^2, (0, inf).\n"


def test_no_command_shows_the_help() -> None:
    done = CliRunner().invoke(main, [])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: replica")


def test_an_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("replica.cli.solve.command", interrupted)
    done = CliRunner().invoke(main, ["solve"])
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def screen(text: str) -> list[str]:
    """The lines of a terminal after a text."""
    rows, column = [""], 0
    for character in text:
        if character == "\r":
            column = 0
            continue
        if character == "\n" or column == WIDTH:
            rows.append("")
            column = 0
        if character != "\n":
            rows[-1] = rows[-1][:column].ljust(column) + character + rows[-1][column + 1 :]
            column += 1
    return [row.rstrip() for row in rows]


WITHOUT_BAR = "wait()"
WITH_BAR = """
with Display() as display:
    display.progress(1, 3)
    display.say("told before")
    try:
        wait()
    except KeyboardInterrupt:
        display.say("told after")
        raise
"""
SCRIPT = """
import click
import replica.cli.solve
from replica.cli.main import main
from replica.cli.progress import Display

def wait():
    print("ready", flush=True)
    input()

@click.command()
def command():
    {body}

replica.cli.solve.command = command
main(["solve"])
"""


@pytest.mark.parametrize(
    ("body", "lines"),
    [(WITHOUT_BAR, ["Interrupted."]), (WITH_BAR, ["told before", "BAR^", "told after", "Interrupted."])],
    ids=["without a bar", "with a bar"],
)
def test_an_interrupt_on_a_terminal_leaves_whole_lines(body: str, lines: list[str]) -> None:
    code = SCRIPT.format(body=body.replace("\n", "\n    "))
    terminal, end = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    with subprocess.Popen([sys.executable, "-c", code], stdin=end, stdout=subprocess.PIPE, stderr=end) as run:
        os.close(end)
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        # The terminal shows ^C; being nobody's controlling terminal, it sends no signal.
        os.write(terminal, b"\x03")
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=60) == 130
    shown = b""
    with suppress(OSError):  # which is how the end of a terminal is told
        while True:
            shown += os.read(terminal, 2**16)
    os.close(terminal)
    # The bar fills the width but for a column, and the C of ^C goes to the next line, which is told over.
    assert [re.sub(r".*\|.*\|.*\^", "BAR^", line) for line in screen(shown.decode())] == [*lines, ""]
