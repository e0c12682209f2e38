"""The process that serves the C library: one application's calls, over sockets, with shared memory for data."""
