"""Documents and conversations as nodes: readers, chunks, threads, and updates after a change."""
