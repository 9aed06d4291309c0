"""Names in texts: mentions of nodes, candidates for new nodes, and duplicates."""
