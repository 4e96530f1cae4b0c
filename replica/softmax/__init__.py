"""Attention regression by the tensor trick: losses, derivatives, Lipschitz constants, in-context shift."""
