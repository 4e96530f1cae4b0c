"""Walking a broadcasting grid in blocks that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

Index = tuple[int | slice, ...]


def blocks(shape: tuple[int, ...], size: int) -> Iterator[Index]:
    """Indices of blocks that tile an array of this shape in C order, each of about `size` elements at most.

    A block takes whole trailing axes and a run along the axis before them, so that arrays which broadcast
    along an axis stay small inside it.

    >>> list(blocks((2, 5), 3))
    [(0, slice(0, 3, None)), (0, slice(3, 5, None)), (1, slice(0, 3, None)), (1, slice(3, 5, None))]
    """
    axis = len(shape)
    while axis > 0 and prod(shape[axis:]) <= size:
        axis -= 1
    if prod(shape) <= size:
        yield (slice(None),) * len(shape)
        return
    step = max(1, size // max(1, prod(shape[axis + 1 :])))
    runs = [slice(start, min(start + step, shape[axis])) for start in range(0, shape[axis], step)]
    trailing = (slice(None),) * (len(shape) - axis - 1)
    for leading in product(*map(range, shape[:axis])):
        for run in runs:
            yield (*leading, run, *trailing)


def taken(array: np.ndarray, index: Index, ndim: int) -> np.ndarray:
    """The part of an array that broadcasts against block `index` of a grid of `ndim` dimensions."""
    own = index[ndim - array.ndim :]
    kept = tuple(
        (0 if isinstance(where, int) else slice(None)) if length == 1 else where
        for where, length in zip(own, array.shape, strict=True)
    )
    return array[kept]
