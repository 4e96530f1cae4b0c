"""What became of each point of a grid."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Status(IntEnum):
    """The outcome at one point; the first three are answers, the others failures.

    The integer is what files hold, `label` what people read, `advice` what to try next.
    """

    OK = 0
    INTERPOLATION_THRESHOLD = 1
    ILL_POSED = 2
    NOT_CONVERGED = 3
    NONFINITE = 4
    UNPHYSICAL = 5

    @property
    def label(self) -> str:
        """The name in lower case."""
        return self.name.lower()

    @property
    def is_answer(self) -> bool:
        """Whether the point is settled: solved, or shown to have no finite solution."""
        return self <= Status.ILL_POSED

    @property
    def advice(self) -> str:
        """One sentence: what the status means and what to try."""
        return _ADVICE[self]

    @staticmethod
    def attributes() -> dict[str, object]:
        """What a file says of an array of statuses (CF conventions)."""
        return {
            "long_name": "status of the solution",
            "flag_values": np.array([status.value for status in Status], dtype=np.int8),
            "flag_meanings": " ".join(status.label for status in Status),
        }


_ADVICE = {
    Status.OK: "Every condition holds to the stated residual.",
    Status.INTERPOLATION_THRESHOLD: "The errors diverge where the least-squares problem becomes square; "
    "move away from the threshold or add a ridge.",
    Status.ILL_POSED: "The limits of no ridge and infinite context do not commute here, so the answer would "
    "depend on their order; take a finite context or a positive ridge.",
    Status.NOT_CONVERGED: "The root finder ran out of iterations or the residual stayed above its bound; "
    "the parameters are probably extreme.",
    Status.NONFINITE: "The equations overflow double precision at these parameters; "
    "move them towards moderate values.",
    Status.UNPHYSICAL: "No root lies between the analytic bounds, which points at a loss of precision; "
    "please report the parameters.",
}
