"""Models on many inputs.

`map_files` runs a model on images, arrays and rows of Parquet files, and keeps the results. `evaluate` measures how
many inputs classifiers recognise.
"""

from nnvk.batch.evaluation import evaluate
from nnvk.batch.failures import Failure
from nnvk.batch.mapping import Outcome, map_files
from nnvk.batch.results import read_results
from nnvk.batch.task import Task

__all__ = ["Failure", "Outcome", "Task", "evaluate", "map_files", "read_results"]
