import numpy as np
import pytest

from replica.engine.blocks import blocks, taken


@pytest.mark.parametrize("shape", [(7,), (3, 5), (4, 1, 6), (2, 3, 4, 5), (1,), (1, 1), (10, 100)])
@pytest.mark.parametrize("size", [1, 4, 12, 1000])
def test_blocks_tile_the_grid_once_and_broadcasting_survives(shape: tuple[int, ...], size: int) -> None:
    rng = np.random.default_rng(0)
    row, column = rng.random(shape[-1]), rng.random((shape[0], *[1] * (len(shape) - 1)))
    total, visits = np.zeros(shape), np.zeros(shape, dtype=int)
    for index in blocks(shape, size):
        parts = [taken(array, index, len(shape)) for array in (row, column)]
        assert visits[index].size <= max(size, 1)
        total[index] = parts[0] + parts[1]
        visits[index] += 1
    assert np.all(visits == 1)
    np.testing.assert_array_equal(total, np.broadcast_to(row + column, shape))
