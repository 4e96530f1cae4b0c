"""Finite-size experiments of the low-rank model; knows nothing of the theory it checks."""
