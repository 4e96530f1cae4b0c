"""Attention regression by the tensor trick: losses, derivatives, Lipschitz constants, in-context shift.

The system is that of arXiv:2307.02419: given A1 (m, d1), A2 (n, d2) and labels B (m, n), find X (d1, d2) such
that the row softmax F of S = A1 X A2^T comes near B. All quantities are dimensionless.

`problem`     the data, its validation and report, files, random instances
`losses`      both losses, their gradients and Hessian-vector products by row blocks, without overflow
`kron`        the tensor trick as a linear operator, in both orders of vec
`lipschitz`   bounds on the Lipschitz constants of the gradients, and estimates from below
`shift`       one step of the weights or the data as a shift of the labels
`fitting`     minimization over X
`derivation`  the derivatives by sympy, which is loaded only with that module
"""

from replica.softmax.fitting import Fit, FitStatus, Iterate, Run, fit
from replica.softmax.kron import KroneckerOperator
from replica.softmax.lipschitz import (
    LipschitzPanel,
    ball,
    lipschitz_panel,
    log_ball,
    log_box,
    log_global,
    log_point,
    log_r_form,
    logit_bound,
    measured_at,
    measured_between,
    segment,
)
from replica.softmax.losses import (
    Evaluation,
    Hessian,
    Scaled,
    evaluate,
    gradient,
    hessian_product,
    log_loss,
    loss,
)
from replica.softmax.problem import Instance, Loss, Problem, StoredMatrix, load, random_instance, save
from replica.softmax.shift import (
    LabelSequence,
    Shift,
    gradient_step,
    label_shift,
    repeated_steps,
    shifted_labels,
)

__all__ = [
    "Evaluation",
    "Fit",
    "FitStatus",
    "Hessian",
    "Instance",
    "Iterate",
    "KroneckerOperator",
    "LabelSequence",
    "LipschitzPanel",
    "Loss",
    "Problem",
    "Run",
    "Scaled",
    "Shift",
    "StoredMatrix",
    "ball",
    "evaluate",
    "fit",
    "gradient",
    "gradient_step",
    "hessian_product",
    "label_shift",
    "lipschitz_panel",
    "load",
    "log_ball",
    "log_box",
    "log_global",
    "log_loss",
    "log_point",
    "log_r_form",
    "logit_bound",
    "loss",
    "measured_at",
    "measured_between",
    "random_instance",
    "repeated_steps",
    "save",
    "segment",
    "shifted_labels",
]
