"""The graph in memory: one networkx graph a workspace, the walk through it, and the working set of a conversation."""
