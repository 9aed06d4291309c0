"""The graph in memory: nodes, edges, traversals, and the working sets of conversations."""
