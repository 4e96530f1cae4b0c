"""Grids of points, runs over them and the files they leave.

`config` reads what to sweep, `grid` orders its points, `tasks` says what is evaluated at them, `runner`
evaluates box by box, `store` keeps the results.
"""

from replica.sweep.config import Config, Experiment
from replica.sweep.runner import Outcome, run
from replica.sweep.store import read
from replica.sweep.tasks import Task, Theory

__all__ = ["Config", "Experiment", "Outcome", "Task", "Theory", "read", "run"]
