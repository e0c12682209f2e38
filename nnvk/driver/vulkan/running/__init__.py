"""From a plan to results: memory, recorded commands, the order of the queue, executions."""
