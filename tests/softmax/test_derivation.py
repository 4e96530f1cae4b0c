"""The sympy derivation equals the code."""

import numpy as np
import pytest
import sympy as sp

from replica.exceptions import InputError
from replica.softmax import Loss, Problem, evaluate, hessian_product
from replica.softmax.derivation import derive, equations, reduced

each_kind = pytest.mark.parametrize("kind", tuple(Loss))


@each_kind
def test_the_formulas_are_the_derivatives(kind: Loss) -> None:
    assert set(derive(kind).differences()) == {"dL/dx", "dL/da1_0", "dL/da2_0", "dL/db_00", "d2L/dx2"}
    assert set(derive(kind).differences().values()) == {0}


def test_a_wrong_formula_is_seen() -> None:
    right = derive(Loss.NORMALIZED)
    assert reduced(right.derivatives["dL/dx"] - 2 * right.formulas["dL/dx"]) != 0
    assert reduced(right.derivatives["dL/dx"] - derive(Loss.RESCALED).formulas["dL/dx"]) != 0


@each_kind
def test_the_code_gives_the_derivatives(kind: Loss) -> None:
    derivation = derive(kind)
    names = list(derivation.derivatives)
    function = sp.lambdify(derivation.symbols, [derivation.loss, *derivation.derivatives.values()])
    generator = np.random.default_rng(0)
    for _ in range(20):
        A1, A2, X, B = (generator.standard_normal(shape) for shape in ((2, 1), (2, 1), (1, 1), (2, 2)))
        expected = dict(
            zip(["L", *names], function(*A1.ravel(), *A2.ravel(), X[0, 0], *B.ravel()), strict=True)
        )
        problem = Problem(A1, A2, B)
        result = evaluate(problem, X, kind)
        found = {
            "L": result.loss,
            "dL/dx": result.gradients["X"].value[0, 0],
            "dL/da1_0": result.gradients["A1"].value[0, 0],
            "dL/da2_0": result.gradients["A2"].value[0, 0],
            "dL/db_00": result.gradients["B"].value[0, 0],
            "d2L/dx2": hessian_product(problem, X, [[1.0]], kind).value[0, 0],
        }
        # A handful of terms of order one that may cancel, times the weights of the rows.
        size = np.exp(result.log_row_weight) * (1 + np.abs(B).max()) ** 2
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-13 * size), name


@each_kind
def test_the_text_names_the_loss_and_what_was_verified(kind: Loss) -> None:
    text = equations(kind)
    assert text.startswith(f"{kind} loss")
    assert text.count("diff(L) - matrix formula = 0") == 5


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(InputError, match="loss = 'cubic' is not one of normalized, rescaled"):
        derive("cubic")
