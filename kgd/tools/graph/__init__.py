"""The operations of the unified graph on complete nodes and edges, for programs of this machine."""
