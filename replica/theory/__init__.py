"""The low-rank model of in-context learning, solved by the replica method."""
