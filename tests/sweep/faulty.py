"""The command `replica` with a theory that misbehaves as the variable FAULTS (JSON) says; run as a script.

Classes of a script travel to workers by value, so the theory misbehaves there too. Keys of FAULTS:
`sleep`, seconds per point; `raises` and `diverges`, values of rho where a point raises or never converges;
`equations`, a fingerprint in place of the true one; `version`, of the package; `fill`, a file that is made to
fill the disk at the last point; `backwards`, whether the clock runs backwards.
"""

import itertools
import json
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

import replica.sweep
from replica import Status
from replica.cli.main import main
from replica.sweep import Theory, runner, store, work

FAULTS = json.loads(os.environ.get("FAULTS", "{}"))


class FaultyTheory(Theory):
    faults = FAULTS

    @property
    def identity(self) -> dict[str, Any]:
        equations = self.faults.get("equations")
        return super().identity | ({"equations": equations} if equations else {})

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        rho = values["rho"]
        time.sleep(self.faults.get("sleep", 0) * len(rho) * len(values["kappa"]))
        if set(self.faults.get("raises", [])) & set(rho.tolist()):
            raise ArithmeticError(f"no answer among rho = {rho.tolist()}")
        last = self.axes["rho"][-1], self.axes["kappa"][-1]
        if "fill" in self.faults and (rho[-1], values["kappa"][-1]) == last:
            with open(self.faults["fill"], "wb", buffering=0) as file:
                try:
                    for size in (2**20, 2**12, 1):
                        while file.write(bytes(size)) == size:
                            pass
                except OSError:
                    pass
        dataset = super().evaluate(values)
        lost = dataset["rho"].isin(self.faults.get("diverges", []))
        dataset["status"] = dataset["status"].where(~lost, np.int8(Status.NOT_CONVERGED))
        return dataset.assign(errors=dataset["errors"].where(~lost))


if __name__ == "__main__":
    # A shell starts what runs in the background deaf to interrupts, and the tests with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    replica.sweep.Theory = FaultyTheory  # type: ignore[misc]
    # Small sweeps stand for large ones: short boxes, and workers for little work.
    runner.SECONDS, runner.WORTH_WORKERS, work.HELD_SECONDS = 0.1, 0.3, 0.2
    if "version" in FAULTS:
        store.__version__ = FAULTS["version"]
    if FAULTS.get("backwards"):
        now = itertools.count(time.time(), -3600)
        time.time = lambda: next(now)
    main()
