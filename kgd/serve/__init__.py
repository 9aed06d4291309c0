"""The composition root: the daemon process, its parts, its pages and its hub."""
