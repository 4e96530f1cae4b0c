"""Hypothesis strategies shared by the tests."""

import numpy as np
from hypothesis import strategies as st


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


gammas = log_uniform(0.1, 100).filter(lambda gamma: abs(gamma - 1) > 1e-3)
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
