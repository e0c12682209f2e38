"""Models on many inputs: `map_files` runs one on images, arrays and rows of Parquet files, and keeps the results."""

from nnvk.batch.failures import Failure
from nnvk.batch.mapping import Outcome, map_files
from nnvk.batch.results import read_results
from nnvk.batch.task import Task

__all__ = ["Failure", "Outcome", "Task", "map_files", "read_results"]
