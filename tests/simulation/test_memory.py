"""Memory: the estimate against what a run takes, and what the machine has against its own files."""

import subprocess
import sys
from pathlib import Path

import pytest

from replica.exceptions import InputError
from replica.parameters import Parameters
from replica.simulation import memory
from replica.simulation.sizes import Sizes


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    1000 kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        (MEMINFO, 1_024_000),
        (
            MEMINFO
            | {
                "proc/self/cgroup": "0::/user/box\n",
                "sys/fs/cgroup/user/box/memory.max": "max\n",
                "sys/fs/cgroup/user/memory.max": "500000\n",
                "sys/fs/cgroup/user/memory.current": "300000\n",
                "sys/fs/cgroup/user/memory.stat": "anon 5\ninactive_file 40000\n",
            },
            240_000,
        ),
        (
            MEMINFO
            | {
                "proc/self/cgroup": "4:cpu,memory:/not/seen/here\n1:cpuset:/\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "400000\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "300000\n",
                "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 1000\n",
            },
            101_000,
        ),
        (
            MEMINFO
            | {
                "proc/self/cgroup": "4:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "300000\n",
                "sys/fs/cgroup/memory/memory.stat": "cache 1\n",
            },
            1_024_000,
        ),
    ],
    ids=["unknown", "machine", "group-v2", "group-v1", "group-v1-unlimited"],
)
def test_available_is_the_least_of_machine_and_groups(
    files: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    assert memory.available(machine(tmp_path, files)) == expected


def test_what_does_not_fit_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = Sizes.of(Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3), 300)
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    memory.check(sizes, 1, 2)
    with pytest.raises(InputError, match=r"takes 1\.\d+ GB of memory, 2 at a time; 1 GB are available"):
        memory.check(sizes, 2, 1)
    monkeypatch.setattr(memory, "available", lambda: None)
    memory.check(sizes, 2, 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
@pytest.mark.parametrize(("dim", "gamma"), [(160, 1.5), (70, 0.8)])
def test_the_estimate_bounds_what_a_repeat_takes(dim: int, gamma: float) -> None:
    code = (
        "import re\n"
        "from pathlib import Path\n"
        "from replica import Parameters\n"
        "from replica.simulation import memory, simulate, Sizes\n"
        f"params = Parameters(alpha=2, kappa=1.5, rho=0.9, gamma={gamma}, sigma=0.3)\n"
        "def peak():\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    return 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', status)[1])\n"
        "simulate(params, 10, 1, seed=0, n_jobs=2)\n"
        "before = peak()\n"
        f"simulate(params, {dim}, 1, seed=0, n_jobs=2, rtol=0.01)\n"
        f"print(peak() - before, memory.needed(Sizes.of(params, {dim}), 2))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    taken, needed = map(int, done.stdout.split())
    # An estimate twice too large would refuse what fits.
    assert needed / 2 < taken < needed
