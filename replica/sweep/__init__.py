"""Grids, stores and runs over them."""
