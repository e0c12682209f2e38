"""From a plan to results: memory, recorded commands, the queue's order, executions."""
