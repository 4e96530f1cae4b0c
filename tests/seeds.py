"""What a piece of code prints under different hash seeds."""

import os
import subprocess
import sys


def outputs_under_hash_seeds(code: str) -> set[str]:
    """The distinct outputs of two fresh interpreters, which order sets differently."""
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
