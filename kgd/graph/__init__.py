"""The graph in memory: nodes, edges, walks, and the working sets of conversations."""
