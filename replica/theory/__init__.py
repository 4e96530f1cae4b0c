"""The low-rank model of in-context learning, solved by the replica method.

`symbols` and `action` state the model; `spectrum` averages over its tasks; `saddle` reduces the saddle
point to one unknown; `errors` says what is reported; `equations` compiles all of it; `solve` solves grids.
`predictions` is the joint law of label and prediction; `long_context` expands the errors in the context
length and `phase` locates points with respect to the transition; `printing` writes the equations down.
`hessian` and `gradient_descent` say what finite contexts do to the loss; `optimize` minimizes
a weighted error.
"""

from replica.theory.equations import fingerprint
from replica.theory.gradient_descent import Descent, gradient_descent
from replica.theory.hessian import Hessian, hessian
from replica.theory.long_context import LongContext, long_context
from replica.theory.optimize import Optimum, optimize
from replica.theory.phase import Phase, phase
from replica.theory.predictions import PredictionLaw, prediction_law
from replica.theory.solution import Solution
from replica.theory.solve import solve

__all__ = [
    "Descent",
    "Hessian",
    "LongContext",
    "Optimum",
    "Phase",
    "PredictionLaw",
    "Solution",
    "fingerprint",
    "gradient_descent",
    "hessian",
    "long_context",
    "optimize",
    "phase",
    "prediction_law",
    "solve",
]
