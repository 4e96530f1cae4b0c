"""The low-rank model of in-context learning, solved by the replica method.

`symbols` and `action` state the model; `spectrum` averages over its tasks; `saddle` reduces the saddle
point to one unknown; `errors` says what is reported; `equations` compiles all of it; `solve` solves grids.
`hessian` and `gradient_descent` say what finite contexts do to the loss; `optimize` minimises
a weighted error.
"""

from replica.theory.equations import fingerprint
from replica.theory.gradient_descent import Descent, gradient_descent
from replica.theory.hessian import Hessian, hessian
from replica.theory.optimize import Optimum, optimize
from replica.theory.solution import Solution
from replica.theory.solve import solve

__all__ = [
    "Descent",
    "Hessian",
    "Optimum",
    "Solution",
    "fingerprint",
    "gradient_descent",
    "hessian",
    "optimize",
    "solve",
]
