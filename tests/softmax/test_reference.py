"""Agreement with the project's reference values: mpmath with 60 digits, from the float64 inputs listed there.

vec is row-major; `*_over_scale` is divided by exp(log_scale).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replica.softmax import (
    Hessian,
    Problem,
    evaluate,
    gradient,
    gradient_step,
    hessian_product,
    label_shift,
    log_ball,
    log_global,
    log_loss,
    log_point,
    logit_bound,
    loss,
    measured_at,
    shifted_labels,
)
from replica.softmax.losses import forward

CASES: dict[str, Any] = json.loads((Path(__file__).parent / "reference_cases.json").read_text())["cases"]
KINDS = {"normalised": "normalized", "rescaled": "rescaled"}
STEPS = ("shift_X_0.05V", "shift_A", "gd_step_normalised_eta0.1")

# What the reference promises: rounding at moderate logits; at |S| = 528 the logits alone carry 528 eps,
# 1e-13, which a difference of exponentials multiplies.
TOLERANCE = {"c1_n3_d2_simplex": 1e-12, "c2_n4_d3_signedB": 1e-12, "c5_overflow_n4_d2": 1e-10}

each_case = pytest.mark.parametrize("case", CASES)
each_kind = pytest.mark.parametrize("kind", KINDS)


def given(case: str) -> tuple[Problem, np.ndarray, dict[str, np.ndarray]]:
    inputs = {name: np.array(value) for name, value in CASES[case]["inputs"].items()}
    return Problem(inputs["A1"], inputs["A2"], inputs["B"]), inputs["X"], inputs


def error(found: Any, expected: Any) -> float:
    """Relative to the largest entry."""
    expected = np.asarray(expected)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@each_case
def test_logits_softmax_and_log_alpha(case: str) -> None:
    problem, X, _ = given(case)
    (block,) = forward(problem, X)
    assert error(block.F, CASES[case]["F"]) < TOLERANCE[case]
    assert error(block.log_alpha, CASES[case]["log_alpha"]) < TOLERANCE[case]
    assert error(block.max_abs_logit, CASES[case]["bounds"]["max_abs_S"]) < TOLERANCE[case]


@each_kind
@each_case
def test_losses_and_gradients(case: str, kind: str) -> None:
    problem, X, _ = given(case)
    expected = CASES[case][kind]
    result = evaluate(problem, X, KINDS[kind])
    # A logarithm carries the relative error of its argument as an absolute one.
    assert abs(result.log_loss - expected["log_loss"]) < TOLERANCE[case]
    assert log_loss(problem, X, KINDS[kind]) == result.log_loss
    for name in ("X", "A1", "A2"):
        unit = np.exp(result.log_scale - expected["log_scale"])
        found = result.gradients[name].over_scale * unit
        assert error(found, expected[f"grad_{name}_over_scale"]) < TOLERANCE[case]
    if "loss" in expected:
        assert error(loss(problem, X, KINDS[kind]), expected["loss"]) < TOLERANCE[case]
        assert error(gradient(problem, X, KINDS[kind]), expected["grad_X"]) < TOLERANCE[case]


@each_kind
@each_case
def test_hessian(case: str, kind: str) -> None:
    problem, X, inputs = given(case)
    expected = CASES[case][kind]
    product = hessian_product(problem, X, inputs["V_direction"], KINDS[kind])
    found = product.over_scale * np.exp(product.log_scale - expected["log_scale"])
    assert error(found, expected["hvp_V_over_scale"]) < TOLERANCE[case]
    hessian = Hessian(problem, X, KINDS[kind])
    dense = (hessian @ np.eye(X.size)) * np.exp(hessian.log_scale - expected["log_scale"])
    assert error(dense, expected["hessian_over_scale"]) < TOLERANCE[case]
    largest = max(abs(expected["hess_eig_min_over_scale"]), abs(expected["hess_eig_max_over_scale"]))
    assert (
        abs(measured_at(problem, X, KINDS[kind]) - np.log(largest) - expected["log_scale"]) < TOLERANCE[case]
    )


@each_case
def test_lipschitz_bounds(case: str) -> None:
    problem, X, _ = given(case)
    bounds = CASES[case]["bounds"]
    radius = float(np.linalg.norm(X))
    assert error(problem.kronecker_norm, bounds["norm_A"]) < 1e-14
    assert error(logit_bound(problem, radius), bounds["Lambda_ball"]) < 1e-14
    assert error(np.exp(log_global(problem)), bounds["LN_global"]) < 1e-14
    assert error(np.exp(log_point(problem, X)), bounds["LN_point"]) < TOLERANCE[case]
    assert error(log_ball(problem, radius, "rescaled"), bounds["log_LR_ball"]) < 1e-14
    assert error(log_point(problem, X, "rescaled"), bounds["log_LR_point"]) < TOLERANCE[case]


@pytest.mark.parametrize("step", STEPS)
@each_case
def test_shift(case: str, step: str) -> None:
    problem, X, _ = given(case)
    expected = CASES[case][step]
    data = {} if step != "shift_A" else {f"{name}_next": expected[f"{name}_next"] for name in ("A1", "A2")}
    normalized = label_shift(problem, X, expected["X_next"], **data)
    rescaled = label_shift(problem, X, expected["X_next"], "rescaled", **data)
    found = {
        "norm_dS": normalized.logit_step,
        "N_shift": normalized.norm,
        "N_bound_interval": normalized.bounds["interval"],
        "N_bound_half": normalized.bounds["half"],
        "N_bound_weights": normalized.bounds.get("weights"),
        "N_linear_norm": normalized.linear_norm,
        "N_remainder_bound": normalized.remainder_bound,
        "N_grad_mismatch_bound": normalized.gradient_mismatch_bound,
        "R_shift": rescaled.norm,
        "R_bound_interval": rescaled.bounds["interval"],
        "R_bound_step": rescaled.bounds["step"],
        "R_bound_step_simple": rescaled.bounds["step_simple"],
        "R_used": rescaled.R,
        "log_M_R_Rform": rescaled.log_M,
        "N_loss_next_with_B": np.exp(normalized.log_loss_next),
        "N_loss_now_with_Btilde": np.exp(normalized.log_loss_shifted),
        "R_logloss_next_with_B": rescaled.log_loss_next,
        "R_logloss_now_with_Btilde": rescaled.log_loss_shifted,
        "Btilde_N": shifted_labels(problem, X, expected["X_next"], **data),
        "Btilde_R": shifted_labels(problem, X, expected["X_next"], "rescaled", **data),
    }
    for name, value in found.items():
        if expected[name] is None:
            assert value is None, name
        else:
            assert error(value, expected[name]) < TOLERANCE[case], name
    # The remainder is what is left of the shift after its linear part: its error is relative to the shift.
    assert abs(normalized.remainder - expected["N_remainder"]) < TOLERANCE[case] * expected["N_shift"]
    if step.startswith("gd"):
        found_step = gradient_step(problem, X, 0.1)
        assert error(found_step, expected["X_next"]) < TOLERANCE[case]
        assert error(normalized.gradient_mismatch, expected["N_grad_mismatch"]) < TOLERANCE[case]
