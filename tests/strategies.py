"""Hypothesis strategies shared by the tests."""

import numpy as np
from hypothesis import strategies as st


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


gammas = log_uniform(1e-9, 100).filter(lambda gamma: abs(gamma - 1) > 1e-3)
ridges = st.just(0.0) | log_uniform(1e-12, 1e3)

points = st.fixed_dictionaries(
    {
        "alpha": log_uniform(1e-3, 1e6),
        "alpha_test": log_uniform(1e-3, 1e6) | st.just(np.inf),
        "kappa": log_uniform(1e-2, 1e3) | st.just(np.inf),
        "rho": log_uniform(1e-3, 1) | st.just(1.0),
        "gamma": gammas,
        "sigma": st.floats(0, 3),
        "ridge": ridges,
    }
)
"""Parameters at which a finite answer exists, as keyword arguments."""


@st.composite
def attention_arrays(draw: st.DrawFn, rows: int = 5, features: int = 3) -> dict[str, np.ndarray]:
    """A1, A2, X, B and a direction V of general shapes and moderate logits; B signed or on the simplex."""
    m, n = draw(st.integers(1, rows)), draw(st.integers(1, rows))
    d1, d2 = draw(st.integers(1, features)), draw(st.integers(1, features))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    arrays = {
        "A1": draw(log_uniform(0.1, 2)) * generator.standard_normal((m, d1)),
        "A2": generator.standard_normal((n, d2)),
        "X": draw(log_uniform(0.1, 2)) * generator.standard_normal((d1, d2)),
        "V": generator.standard_normal((d1, d2)),
    }
    signed = draw(log_uniform(0.01, 3)) * generator.standard_normal((m, n))
    return arrays | {"B": signed if draw(st.booleans()) else generator.dirichlet(np.ones(n), size=m)}
