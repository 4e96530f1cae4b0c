"""Grids of points, runs over them and the files they leave.

`config` reads what to sweep, `grid` orders its points, `tasks` says what is evaluated at them, `runner`
evaluates box by box on `workers`, `parts` and `work` keep what is finished while it runs, `store` makes and
reads the result. `contents` looks into results, `union` merges them, `table` lays them out in rows.
"""

from replica.sweep.config import Config, Experiment
from replica.sweep.contents import describe
from replica.sweep.runner import Outcome, run
from replica.sweep.store import read
from replica.sweep.tasks import Task, Theory
from replica.sweep.union import merge

__all__ = ["Config", "Experiment", "Outcome", "Task", "Theory", "describe", "merge", "read", "run"]
