"""What every command does with bad input."""

from click.testing import Result


def assert_refused(done: Result, *words: str) -> None:
    """Exit code 2, nothing on stdout, and one sentence on stderr that holds all `words`."""
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
