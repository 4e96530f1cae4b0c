"""Finite-size experiments of the low-rank model; knows nothing of the theory it checks."""

from replica.simulation.experiment import Estimate, Experiment, Failure, simulate
from replica.simulation.sizes import Sizes

__all__ = ["Estimate", "Experiment", "Failure", "Sizes", "simulate"]
