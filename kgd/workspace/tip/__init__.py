"""State read from the newest commit: the served graph, part locations, open conflicts."""
