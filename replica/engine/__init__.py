"""From a symbolic action to numbers; this room knows no physics.

`action` holds an action and its stationarity conditions, `program` compiles expressions, `roots` solves one
scalar equation for a whole array, `blocks` walks a grid, `status` says what became of each point.
"""

from replica.engine.status import Status

__all__ = ["Status"]
