"""This room is where the unified graph's own operations are: nodes and edges, whole, for programs of this machine."""
