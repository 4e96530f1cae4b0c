import numpy as np
import sympy as sp

from replica.engine.program import compiled

x, y, w, r = sp.symbols("x y w r", positive=True)


def test_definitions_may_come_in_any_order_and_use_each_other() -> None:
    function = compiled([x, y], [r + w, w * x, sp.Integer(3)], {r: w**2 + 1, w: x / y})
    first, second, third = function(np.array([2.0, 6.0]), np.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(first, [[7.0, 43.0], [3.0, 13.0]])
    np.testing.assert_array_equal(second, [[4.0, 36.0], [2.0, 18.0]])
    assert third == 3


def test_integer_powers_are_products() -> None:
    values = np.array([0.1, 0.3, 7.7])
    cube, inverse = compiled([x], [x**3, x**-2])(values)
    np.testing.assert_array_equal(cube, values * values * values)
    np.testing.assert_array_equal(inverse, 1 / (values * values))
