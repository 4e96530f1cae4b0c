"""Theory against experiment: what is finite size, and what is a mistake.

At finite D an error is close to theory / (1 - c/D), so the inverse ratio theory/mean is straight in 1/D where
the ratio itself is curved. A straight line through the inverse ratios, weighted by their standard errors,
is carried to 1/D = 0; the result is judged against 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from scipy import stats

SIGMAS = 3.0
"""How many standard errors of a normal law may lie between the extrapolated ratio and 1."""
TOO_WIDE = 0.06
"""If the allowed distance is wider than this, the experiment cannot tell."""
FINITE_SIZE = 8.0
"""The largest c in mean = theory (1 + c/D) that one D alone is allowed.

At moderate parameters c lies between 0 and 8; at low rank and little above gamma = 1 it was measured up to
15, which only several D tell from a mistake.
"""
ROUNDING = 1e-12
"""No measured number is more precise than this, relatively; it keeps weights finite at a stderr of 0."""


class Verdict(IntEnum):
    """What a comparison says; the integer is what files hold."""

    AGREES = 0
    FINITE_SIZE = 1
    DISAGREES = 2
    UNDECIDED = 3

    @property
    def label(self) -> str:
        """The name in lower case."""
        return self.name.lower()

    @property
    def meaning(self) -> str:
        """One sentence."""
        return {
            Verdict.AGREES: "the largest D already lies on the theory within its errors",
            Verdict.FINITE_SIZE: "the distance shrinks like 1/D to nothing",
            Verdict.DISAGREES: "a distance remains that finite size does not explain",
            Verdict.UNDECIDED: "the errors are too wide to tell; more repeats would",
        }[self]


@dataclass(frozen=True)
class Judgement:
    """A comparison of one error at one or several D.

    Parameters
    ----------
    value: the ratio of experiment to theory, extrapolated to infinite D if there are two D or more.
    stderr: its standard error, that of the choice of extrapolation included.
    allowed: the largest distance of `value` from 1 that still agrees.
    verdict: what follows.
    """

    value: float
    stderr: float
    allowed: float
    verdict: Verdict

    @property
    def z(self) -> float:
        """The distance from 1 in standard errors; NaN where there are none."""
        return (self.value - 1.0) / self.stderr if self.stderr > 0 else float("nan")


def judge(
    dims: np.ndarray, theory: np.ndarray, mean: np.ndarray, stderr: np.ndarray, n: np.ndarray
) -> Judgement:
    """Compare an experiment with the theory at the same ratios.

    Parameters
    ----------
    dims: (k,), k >= 1 distinct dimensions D.
    theory: (k,), positive, the theory at each D's realized ratios.
    mean, stderr: (k,), the measured error and its standard error, positive and non-negative.
    n: (k,), repeats; NaN where unknown.

    Returns
    -------
    A `Judgement`; undecided where a standard error is missing.

    Examples
    --------
    >>> dims = np.array([40.0, 80.0])
    >>> measured = 0.5 / (1 - 3 / dims)
    >>> judge(dims, np.full(2, 0.5), measured, np.full(2, 0.002), np.full(2, 20.0)).verdict.label
    'finite_size'
    """
    order = np.argsort(dims)
    dims, theory, mean, stderr, n = (np.asarray(a, float)[order] for a in (dims, theory, mean, stderr, n))
    ratio = mean / theory
    errors = _standard_errors(dims, ratio, stderr / theory, n)
    quantile = _quantile(n)
    if len(dims) == 1:
        value, error = float(ratio[0]), float(errors[0])
    else:
        straight, spread = _intercept(1 / dims, 1 / ratio, errors / ratio**2)
        plain, _ = _intercept(1 / dims, ratio, errors)
        value = 1 / straight
        error = float(np.hypot(spread / straight**2, (value - plain) / 2))
    allowed = quantile * error
    return Judgement(value, error, allowed, _verdict(dims, ratio, value, allowed))


def _standard_errors(dims: np.ndarray, ratio: np.ndarray, own: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Standard errors of the ratios, from the one scale s0 = rms of sd D / mean that all D share.

    Errors fluctuate like 1/D, so pooling gives weights that a lucky spread at one D does not distort. Without
    the number of repeats each D keeps its own.
    """
    if np.isnan(n).any():
        return np.maximum(own, ROUNDING * ratio)
    scale = np.sqrt(np.mean((own * np.sqrt(n) * dims / ratio) ** 2))
    return np.asarray(ratio * np.maximum(scale / (dims * np.sqrt(n)), ROUNDING))


def _quantile(n: np.ndarray) -> float:
    """The Student quantile with the same tail as `SIGMAS` standard deviations of a normal law."""
    freedom = np.sum(n - 1)
    if np.isnan(freedom):
        return SIGMAS
    return float(stats.t.isf(stats.norm.sf(SIGMAS), freedom)) if freedom > 0 else float("nan")


def _intercept(x: np.ndarray, y: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """The value at x = 0 of a weighted straight line, and its standard error."""
    inverse = np.linalg.pinv(np.stack([np.ones_like(x), x], axis=1) / errors[:, None])[0]
    return float(inverse @ (y / errors)), float(np.linalg.norm(inverse))


def _verdict(dims: np.ndarray, ratio: np.ndarray, value: float, allowed: float) -> Verdict:
    distance = abs(value - 1.0)
    if not np.isfinite(distance + allowed):
        return Verdict.UNDECIDED
    if len(dims) == 1:
        if distance <= allowed:
            return Verdict.AGREES
        return Verdict.FINITE_SIZE if distance <= allowed + FINITE_SIZE / dims[0] else Verdict.DISAGREES
    if distance > allowed:
        return Verdict.DISAGREES
    if allowed > TOO_WIDE:
        return Verdict.UNDECIDED
    return Verdict.AGREES if abs(ratio[-1] - 1.0) <= allowed else Verdict.FINITE_SIZE
