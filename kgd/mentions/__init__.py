"""This room is where names are found in texts: mentions of nodes, candidates for new ones, and doubles."""
